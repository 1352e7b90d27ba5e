//! Every command of README.md and infra/docs, run as written. Only what a reader would fill in is filled in.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};

use offset_guard_local::client::Commit;
use offset_guard_local::operator::Execution;
use offset_guard_local::stack::{BOOTSTRAP, CLUSTER_ID, Stack, StackOptions};
use offset_guard_local::workdir::python;
use offset_guard_tests::readme::{Block, Proof, blocks, pages, proof};
use offset_guard_tests::{CLASSIC_ON_4, Outcome, PATIENCE, World, now};
use serde_json::{Value, json};
use tokio::process::Command;

/// The group and the topic that the commands name.
const GROUP: &str = "shipment-sync";
const TOPIC: &str = "shipments";

/// What makes version 1 of the AWS CLI take a URL as a value, as version 2 does.
const AWS_CONFIG: &str = "[default]\ncli_follow_urlparam = false\n";

/// The AWS CLI of PyPI is version 1: it takes a payload as it is, and knows no option for that, as version 2 does.
/// Names under localhost are loopback to every browser, and not to every resolver.
const PRELUDE: &str = r#"set -euo pipefail
aws() {
    local given=()
    while (($#)); do
        case $1 in
            --cli-binary-format) shift ;;
            *) given+=("$1") ;;
        esac
        shift
    done
    "$PYTHON" -m awscli "${given[@]}"
}
curl() { command curl --silent --show-error --noproxy '*' --resolve "$API_HOST:$API_PORT:127.0.0.1" "$@"; }
"#;

/// The shell of a reader of the pages.
pub(crate) struct Shell {
    env: BTreeMap<String, String>,
    folder: PathBuf,
    /// What was defined for all later commands.
    defined: String,
    /// The blocks that were run, by page and first line.
    ran: Mutex<BTreeSet<(String, usize)>>,
}

impl Shell {
    pub(crate) async fn of(world: &World) -> Result<Self, Box<dyn Error>> {
        let folder = world.stack.dir().join("reader");
        std::fs::create_dir_all(folder.join(".aws"))?;
        std::fs::write(folder.join(".aws/config"), AWS_CONFIG)?;
        let api = reqwest::Url::parse(world.stack.output("ApiUrl")?)?;
        let mut env = world.stack.aws_env();
        env.extend([
            ("PYTHON".to_owned(), python().await?.display().to_string()),
            ("HOME".to_owned(), folder.display().to_string()),
            (
                "API_HOST".to_owned(),
                api.host_str().ok_or("no host")?.to_owned(),
            ),
            (
                "API_PORT".to_owned(),
                api.port_or_known_default().ok_or("no port")?.to_string(),
            ),
        ]);
        Ok(Self {
            env,
            folder,
            defined: String::new(),
            ran: Mutex::default(),
        })
    }

    /// A variable that a reader has set.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.env.insert(name.to_owned(), value.to_owned());
    }

    /// What commands print.
    async fn run(&self, commands: &str) -> Result<String, Box<dyn Error>> {
        let output = Command::new("bash")
            .arg("-c")
            .arg(format!("{PRELUDE}{}{commands}", self.defined))
            .current_dir(&self.folder)
            .envs(&self.env)
            .stdin(Stdio::null())
            .output()
            .await?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(said);
        }
        let error = String::from_utf8_lossy(&output.stderr);
        Err(format!("{commands}\n{said}\n{error}").into())
    }

    /// The block that begins so, with what a reader replaces in it; every replacement must have a place.
    pub(crate) async fn block(
        &self,
        begins: &str,
        replaced: &[(&str, &str)],
    ) -> Result<String, Box<dyn Error>> {
        self.run(&self.text(begins, replaced)?).await
    }

    /// Defines what a block defines, for all later ones.
    pub(crate) async fn define(&mut self, begins: &str) -> Outcome {
        let block = self.text(begins, &[])?;
        self.run(&block).await?;
        self.defined = block;
        Ok(())
    }

    /// The text of the block that begins so, which counts as run.
    fn text(&self, begins: &str, replaced: &[(&str, &str)]) -> Result<String, Box<dyn Error>> {
        let blocks = blocks(&pages()?);
        let found = blocks.iter().find(|block| block.text.starts_with(begins));
        let found = found.ok_or(format!("no page has {begins:?}"))?;
        let mut commands = found.text.clone();
        for (written, meant) in replaced {
            if !commands.contains(written) {
                return Err(format!("{begins:?} has no {written:?}").into());
            }
            commands = commands.replace(written, meant);
        }
        let mut ran = self.ran.lock().unwrap_or_else(PoisonError::into_inner);
        ran.insert(place(found));
        Ok(commands)
    }

    /// Holds what was run to what is to be run here.
    pub(crate) fn has_run_all(&self, here: Proof) -> Outcome {
        let blocks = blocks(&pages()?);
        let wanted = blocks.iter().filter(|block| proof(block) == Some(here));
        let wanted: BTreeSet<_> = wanted.map(place).collect();
        let mut ran = self
            .ran
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        // The definitions are needed everywhere.
        ran.retain(|place| wanted.contains(place));
        assert_eq!(ran, wanted, "the blocks by page and first line");
        Ok(())
    }
}

/// A block's page and first line.
fn place(block: &Block) -> (String, usize) {
    (block.page.clone(), block.line)
}

/// How the block begins that defines what all later commands use.
pub(crate) const DEFINITIONS: &str = "output()";

fn options() -> StackOptions {
    let arn = "arn:aws:secretsmanager:eu-west-1:000000000000:secret:";
    let config = format!(
        "[clusters.main]\nbootstrap_servers = [\"{BOOTSTRAP}\"]\ncluster_id = \"{CLUSTER_ID}\"\nauth = \"plaintext\"\n\
         [[groups]]\nname = \"{GROUP}\"\nsettle_seconds = 1\nguard = {{ rebalance_grace_seconds = 0 }}\n\
         [senders.alertmanager]\nkind = \"alertmanager\"\ngroups = [\"*\"]\nsecret = \"{arn}offset-guard/alertmanager\"\n\
         [senders.oncall]\nkind = \"operator\"\ngroups = [\"*\"]\nsecret = \"{arn}oncall\"\n"
    );
    StackOptions {
        config,
        ..StackOptions::default()
    }
}

fn execution(world: &World, started: &str) -> Result<Execution, Box<dyn Error>> {
    // The answer to the start, and behind it perhaps another one.
    let mut answers = serde_json::Deserializer::from_str(started).into_iter::<Value>();
    let answer = answers.next().ok_or("nothing was answered")??;
    let arn = answer["executionArn"]
        .as_str()
        .ok_or(format!("no execution: {answer}"))?;
    Ok(world.operator.execution(arn.into()))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_does_what_it_says() -> Outcome {
    let world = World::of(Stack::start(&options()).await?, CLASSIC_ON_4)?;
    world.filled_topic(TOPIC, 3, 43).await?;
    world
        .client
        .commit(GROUP, &[Commit::new(TOPIC, 1, 31)])
        .await?;
    let mut shell = Shell::of(&world).await?;
    credentials_and_switch(&world, &mut shell).await?;
    rewinds(&world, &shell).await?;
    guard(&shell).await?;
    webhook(&world, &mut shell).await?;
    shell.has_run_all(Proof::Run)?;
    world.stack.stop().await?;
    Ok(())
}

async fn credentials_and_switch(world: &World, shell: &mut Shell) -> Outcome {
    let slack = shell
        .block(
            "aws secretsmanager create-secret --name offset-guard/slack",
            &[],
        )
        .await?;
    assert!(slack.contains("offset-guard/slack"), "{slack}");
    shell.define(DEFINITIONS).await?;
    let defined = shell.run("echo \"$TABLE $MACHINE\"").await?;
    let (table, machine) = (
        world.stack.output("TableName")?,
        world.stack.output("StateMachineArn")?,
    );
    assert_eq!(defined.trim(), format!("{table} {machine}"));

    let checkpoint = "aws lambda invoke --function-name offset-guard-checkpoint";
    let checkpoint = shell.block(checkpoint, &[]).await?;
    assert!(checkpoint.contains("checkpoint_id"), "{checkpoint}");
    let listed = shell
        .block(
            "aws dynamodb query",
            &[("CLUSTER_ID", world.stack.cluster_id())],
        )
        .await?;
    assert!(listed.contains("\"T#20"), "{listed}");

    let key = "--table-name \"$TABLE\" --key '{\"pk\": {\"S\": \"CONTROL\"}, \"sk\": {\"S\": \"APPLY\"}}'";
    shell.block("aws dynamodb put-item", &[]).await?;
    let switch = shell
        .run(&format!("aws dynamodb get-item {key} --query Item.on.BOOL"))
        .await?;
    assert_eq!(switch.trim(), "false");
    shell
        .run(&format!("aws dynamodb delete-item {key}"))
        .await?;
    Ok(())
}

async fn rewinds(world: &World, shell: &Shell) -> Outcome {
    world
        .client
        .commit(GROUP, &[Commit::new(TOPIC, 1, 43)])
        .await?;
    let begins =
        "aws stepfunctions start-execution --state-machine-arn \"$MACHINE\" --input '{\"request\"";
    let newest = "$(aws stepfunctions list-executions --state-machine-arn \"$MACHINE\" --query 'executions[0].executionArn' --output text)";
    let execution_arn = format!("--execution-arn {newest}");
    let replaced = [
        ("2026-11-30T09:00:00Z", now()),
        ("--execution-arn ...", execution_arn),
    ];
    let replaced = replaced
        .each_ref()
        .map(|(written, meant)| (*written, meant.as_str()));
    let started = shell.block(begins, &replaced).await?;
    let dry_run = execution(world, &started)?.end().await?;
    assert_eq!(dry_run.status, "SUCCEEDED", "{dry_run:?}");
    assert_eq!(dry_run.output["report"]["code"], "DRY_RUN", "{dry_run:?}");
    let plan = dry_run.output["plan"]["plan_id"]
        .as_str()
        .ok_or(format!("no plan: {dry_run:?}"))?;

    let begins =
        "aws stepfunctions start-execution --state-machine-arn \"$MACHINE\" --input '{\"plan_id\"";
    let started = shell
        .block(begins, &[("01KBAKV1R0ZJ3T1W8Q6F2X9C4D", plan)])
        .await?;
    let waiting = execution(world, &started)?;
    let link = waiting.link(&world.stack, GROUP, PATIENCE).await?;
    world.operator.approve(&link, GROUP).await?;
    let ended = waiting.end().await?;
    assert_eq!(ended.output["report"]["code"], "VERIFIED", "{ended:?}");
    assert_eq!(world.offsets(GROUP, TOPIC, 2).await?, [None, Some(31)]);
    Ok(())
}

async fn guard(shell: &Shell) -> Outcome {
    let begins = "aws lambda invoke --function-name offset-guard-guard --cli-binary-format raw-in-base64-out";
    let looked = shell.block(&format!("{begins} \\\n"), &[]).await?;
    assert!(
        looked.contains("\"status\":") && !looked.contains("FunctionError"),
        "{looked}"
    );
    // The command leaves its answer in a file.
    let asked = shell.block(&format!("{begins} --payload"), &[]).await?;
    assert!(!asked.contains("FunctionError"), "{asked}");
    let answer = shell.run("cat guard.json").await?;
    assert!(answer.contains("\"findings\":"), "{answer}");
    Ok(())
}

async fn webhook(world: &World, shell: &mut Shell) -> Outcome {
    let secret = "aws secretsmanager create-secret --name offset-guard/alertmanager";
    shell.block(secret, &[]).await?;
    let read = "aws secretsmanager get-secret-value --secret-id offset-guard/alertmanager --query SecretString --output text";
    let secret = shell.run(read).await?;
    shell.set("SECRET", secret.trim());
    let nothing = json!({"version": "4", "alerts": []});
    let post = format!(
        "curl -X POST \"$(output ApiUrl)/webhooks/alertmanager\" -H \"Authorization: Bearer $SECRET\" -d '{nothing}'"
    );
    let taken = shell.run(&post).await?;
    assert!(taken.contains("NOTHING_FIRING"), "{taken}");

    let operator = "the-secret-of-oncall-is-long";
    shell
        .run(&format!(
            "aws secretsmanager create-secret --name oncall --secret-string {operator}"
        ))
        .await?;
    shell.set("SECRET", operator);
    let answers = shell
        .block("curl -X POST \"$(output ApiUrl)/rewinds\"", &[])
        .await?;
    let mut answers = serde_json::Deserializer::from_str(&answers).into_iter::<Value>();
    let taken = answers.next().ok_or("nothing was answered")??;
    assert_eq!(taken["code"], "ACCEPTED", "{taken}");
    let stands = answers.next().ok_or("nothing was answered")??;
    assert_eq!(stands["id"], "release-4.2", "{stands}");
    // An hour ago nothing was committed: it ends by itself.
    let told = world.told(GROUP)?;
    assert!(!told.is_empty());
    Ok(())
}
