//! Every example in `events/` is sent as it stands and does what its name says; only ids, instants and the form's token
//! are those of this run.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use data_encoding::BASE64;
use offset_guard::domain::ids::{ExecutionArn, PlanId};
use offset_guard::domain::offset::GroupId;
use offset_guard::domain::plan::PlanResult;
use offset_guard_local::operator::{Execution, Function, Invoked, form_token, link_in, text_of};
use offset_guard_local::stack::{BOOTSTRAP, CLUSTER_ID, Stack, StackOptions};
use offset_guard_tests::{CLASSIC_ON_4, Outcome, PATIENCE, World, now};
use serde_json::{Value, json};

use crate::alerts;

/// The group and the topic that the examples name.
const GROUP: &str = "shipment-sync";
const TOPIC: &str = "shipments";
/// Where the guard would keep a record of theirs.
const QUARANTINE: &str = "shipments-quarantine";

/// A stack of its own, since the examples name one group and sweep everything.
async fn stage() -> Result<World, Box<dyn Error>> {
    let config = format!(
        "[clusters.main]\nbootstrap_servers = [\"{BOOTSTRAP}\"]\ncluster_id = \"{CLUSTER_ID}\"\nauth = \"plaintext\"\n\
         [[groups]]\ncluster = \"main\"\nname = \"{GROUP}\"\nsettle_seconds = 1\n\
         guard = {{ quarantine_topic = \"{QUARANTINE}\", rebalance_grace_seconds = 0 }}\n"
    );
    let options = StackOptions {
        config,
        ..StackOptions::default()
    };
    World::of(Stack::start(&options).await?, CLASSIC_ON_4)
}

/// The examples, and which of them were sent.
struct Examples<'w> {
    world: &'w World,
    sent: BTreeSet<String>,
    links: BTreeSet<String>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../events")
}

impl Examples<'_> {
    /// An example, with other values at some JSON pointers. Only what is there is replaced.
    fn read(&mut self, name: &str, replaced: &[(&str, &str)]) -> Result<Value, Box<dyn Error>> {
        let file = format!("{name}.json");
        let mut event: Value = serde_json::from_str(&fs::read_to_string(folder().join(&file))?)?;
        for (pointer, value) in replaced {
            let place = event.pointer_mut(pointer);
            *place.ok_or(format!("{file} has no {pointer}"))? = json!(value);
        }
        self.sent.insert(file);
        Ok(event)
    }

    async fn invoke(
        &mut self,
        function: Function,
        name: &str,
        replaced: &[(&str, &str)],
    ) -> Result<Value, Box<dyn Error>> {
        let event = self.read(name, replaced)?;
        let World {
            operator, stack, ..
        } = self.world;
        match operator.invoke(stack, function, &event).await? {
            Invoked::Returned(answer) => Ok(answer),
            Invoked::Failed { error, message } => Err(format!("{name}: {error}: {message}").into()),
        }
    }

    async fn start(
        &mut self,
        name: &str,
        replaced: &[(&str, &str)],
    ) -> Result<Execution, Box<dyn Error>> {
        let event = self.read(name, replaced)?;
        Ok(self.world.operator.start(event).await?)
    }

    /// The link that was told since the last one.
    async fn link(&mut self) -> Result<String, Box<dyn Error>> {
        let new = |message: &Value| {
            let link = link_in(&text_of(message)).map(str::to_owned);
            link.filter(|link| !self.links.contains(link))
        };
        let slack = self.world.stack.slack();
        let told = slack
            .until(PATIENCE, |message| new(message).is_some())
            .await?;
        let link = new(&told).ok_or("there is no link")?;
        self.links.insert(link.clone());
        Ok(link)
    }

    /// Starts an example, approves it on the page, and holds partition 1 to `offset` then; answers with the plan's id.
    async fn approved(
        &mut self,
        name: &str,
        replaced: &[(&str, &str)],
        offset: i64,
    ) -> Result<String, Box<dyn Error>> {
        let execution = self.start(name, replaced).await?;
        let link = self.link().await?;
        self.world.operator.approve(&link, GROUP).await?;
        self.verified(&execution, offset).await
    }

    async fn verified(&self, execution: &Execution, offset: i64) -> Result<String, Box<dyn Error>> {
        let ended = execution.end().await?;
        assert_eq!(ended.code(), "VERIFIED", "{ended:?}");
        let offsets = self.world.offsets(GROUP, TOPIC, 3).await?;
        assert_eq!(offsets, [31, offset, 31].map(Some));
        Ok(plan_of(&ended.output))
    }

    /// The bad release reads what there is again.
    async fn read_on(&self) -> Outcome {
        let read = self.world.consume(GROUP, TOPIC, 3, 12).await?;
        assert_eq!(read.len(), 12);
        Ok(())
    }
}

fn plan_of(output: &Value) -> String {
    let id = output["plan"]["plan_id"].as_str();
    id.unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_does_what_its_name_says() -> Outcome {
    let world = stage().await?;
    let mut examples = Examples {
        world: &world,
        sent: BTreeSet::new(),
        links: BTreeSet::new(),
    };
    world.filled_topic(TOPIC, 3, 31).await?;
    world.consume(GROUP, TOPIC, 3, 93).await?;
    let stored = examples
        .invoke(Function::Checkpoint, "checkpoint-one-group", &[])
        .await?;
    assert_eq!(stored[0]["partitions"], 3, "{stored}");
    let release = now();
    world.produce(TOPIC, 1, 12).await?;
    examples.read_on().await?;
    let scheduled = [("/scheduled_time", &*now())];
    let stored = examples
        .invoke(Function::Checkpoint, "checkpoint-scheduled", &scheduled)
        .await?;
    assert_eq!(stored[0]["partitions"], 3, "{stored}");

    let before = [("/request/rewind_before", &*release)];
    let dry_run = examples.start("recovery-dry-run", &before).await?;
    let dry_run = dry_run.end().await?;
    assert_eq!(dry_run.code(), "DRY_RUN", "{dry_run:?}");
    let plan = plan_of(&dry_run.output);
    let same = examples
        .approved("recovery-planned", &[("/plan_id", &plan)], 31)
        .await?;
    assert_eq!(same, plan);
    // Of a plan that was applied whole nothing is left.
    let finish = [("/request/finish", &*plan)];
    let finished = examples.start("recovery-finish", &finish).await?;
    assert_eq!(finished.end().await?.code(), "NOTHING_TO_DO");
    examples
        .approved("recovery-undo", &[("/request/undo", &plan)], 43)
        .await?;

    let rewind = examples.start("recovery-rewind-before", &before).await?;
    decide_through_the_gateway(&mut examples).await?;
    examples.verified(&rewind, 31).await?;

    examples.read_on().await?;
    examples.approved("recovery-to-offsets", &[], 31).await?;
    examples.read_on().await?;
    let since = [("/request/to_datetime", &*release)];
    examples
        .approved("recovery-to-datetime", &since, 31)
        .await?;

    let delete = ["--delete", "--group", GROUP];
    let deleted = world.stack.cli()?.consumer_groups(&delete).await?;
    assert!(deleted.success, "{deleted:?}");
    examples
        .approved("recovery-restore-missing", &before, 31)
        .await?;
    would_skip(&mut examples).await?;

    examples.read_on().await?;
    let cut_off = reconciled(&mut examples, &before).await?;
    let nothing_left = |swept: &Value| {
        let counts = swept.as_object();
        counts.is_some_and(|counts| !counts.is_empty() && counts.values().all(|count| *count == 0))
    };
    let ended = [("/execution", &*cut_off.arn.0)];
    let swept = examples
        .invoke(Function::ApprovalTask, "sweep-execution-ended", &ended)
        .await?;
    assert!(nothing_left(&swept), "{swept}");
    let swept = examples
        .invoke(Function::ApprovalTask, "sweep-scheduled", &[])
        .await?;
    assert!(nothing_left(&swept), "{swept}");

    guarded(&mut examples).await?;

    let there: BTreeSet<_> = fs::read_dir(folder())?
        .map(|file| Ok(file?.file_name().to_string_lossy().into_owned()))
        .collect::<std::io::Result<_>>()?;
    assert_eq!(examples.sent, there);
    Ok(())
}

/// Cuts a recovery off and ends it by the example, which is what the sweep does by itself: of the two one is right, and
/// the other finds that. So it is tried until the example was faster.
async fn reconciled(
    examples: &mut Examples<'_>,
    request: &[(&str, &str)],
) -> Result<Execution, Box<dyn Error>> {
    let world = examples.world;
    for _ in 0..5 {
        let cut_off = examples.start("recovery-rewind-before", request).await?;
        examples.link().await?;
        let group = GroupId(GROUP.to_owned());
        let claim = world.store.claim(&world.key_of(&group)).await?;
        let plan = claim.ok_or("nobody holds the group")?.plan.0;
        cut_off.abort().await?;
        let ended = [
            ("/reconcile/plan_id", &*plan),
            ("/reconcile/execution", &*cut_off.arn.0),
        ];
        let reconcile = examples.start("recovery-reconcile", &ended).await?;
        let reconciled = reconcile.end().await?;
        let asked = std::time::Instant::now();
        let audit = loop {
            if let Some(audit) = world.store.audit_of(&cut_off.arn).await? {
                break audit;
            }
            if asked.elapsed() > PATIENCE {
                return Err(format!("nobody reported on {}", cut_off.arn).into());
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        };
        assert_eq!(audit.code, "NOT_APPROVED", "{audit:?}");
        match reconciled.code() {
            "NOT_APPROVED" => return Ok(cut_off),
            "REFUSED" => {}
            other => return Err(format!("{other}: {reconciled:?}").into()),
        }
    }
    Err("the sweep was faster each time".into())
}

/// Asks the guard what a skip would do, which leaves everything as it is.
async fn would_skip(examples: &mut Examples<'_>) -> Outcome {
    let world = examples.world;
    world.client.create_topic(QUARANTINE, 1, &[]).await?;
    let asked = examples
        .invoke(Function::Guard, "guard-ask-skip", &[])
        .await?;
    let plan = PlanId(asked[0]["plan"].as_str().unwrap_or_default().to_owned());
    let record = world.store.plan(&plan).await?;
    let record = record.ok_or_else(|| format!("no plan: {asked}"))?;
    let PlanResult::Ready(plan) = record.result else {
        return Err(format!("{:?}", record.result).into());
    };
    let passed_over: Vec<_> = plan.skips.iter().map(|skip| skip.record.offset).collect();
    assert_eq!(passed_over, [31, 32, 33]);
    let offsets = world.offsets(GROUP, TOPIC, 3).await?;
    assert_eq!(offsets, [31, 31, 31].map(Some));
    Ok(())
}

/// Lets the guard look in each of its ways, tell, and go back where it is asked to.
async fn guarded(examples: &mut Examples<'_>) -> Outcome {
    let world = examples.world;
    let scheduled = [("/scheduled_time", &*now())];
    let in_cluster = [("/cluster", "main")];
    for (name, replaced) in [
        ("guard-scheduled", &scheduled[..]),
        ("guard-one-group", &[]),
        ("guard-incident", &in_cluster),
    ] {
        let looked = examples.invoke(Function::Guard, name, replaced).await?;
        assert_eq!(looked[0]["group"], GROUP, "{name}: {looked}");
        assert_eq!(looked[0]["status"], "HEALTHY", "{name}: {looked}");
    }

    let found = alerts::found(world, GROUP);
    world.store.put_guard_run(&found).await?;
    let of_this = [
        ("/alert/run_id", &*found.id.0),
        ("/alert/at", &*found.at.to_string()),
        ("/alert/cluster", "main"),
    ];
    let alert = examples.start("recovery-alert", &of_this).await?;
    assert_eq!(alert.end().await?.code(), "GUARD_CRITICAL");

    let asked = examples
        .invoke(Function::Guard, "guard-ask-rewind", &[])
        .await?;
    let plan = asked[0]["plan"].as_str();
    let plan = plan.ok_or_else(|| format!("no plan: {asked}"))?;
    let link = examples.link().await?;
    world.operator.approve(&link, GROUP).await?;
    let machine = world.stack.output("StateMachineArn")?;
    let arn = ExecutionArn::child(&machine, plan).ok_or("no machine")?;
    let execution = world.operator.execution(arn);
    assert_eq!(examples.verified(&execution, 42).await?, plan);
    Ok(())
}

/// Approves what waits, by the events that API Gateway makes of a browser's requests.
async fn decide_through_the_gateway(examples: &mut Examples<'_>) -> Outcome {
    let link = examples.link().await?;
    let (origin, id) = link
        .split_once("/approvals/")
        .ok_or("the link has another path")?;
    let path = format!("/approvals/{id}");
    let at = [
        ("/rawPath", &*path),
        ("/requestContext/http/path", &*path),
        ("/pathParameters/id", id),
    ];
    let head = examples
        .invoke(Function::ApprovalPage, "approval-page-head", &at)
        .await?;
    assert_eq!(head["statusCode"], 200, "{head}");
    let page = examples
        .invoke(Function::ApprovalPage, "approval-page-get", &at)
        .await?;
    assert_eq!(page["statusCode"], 200, "{page}");
    let page = page["body"].as_str().ok_or("the page has no body")?;
    let token = form_token(page, "approve").ok_or("there is no form to approve")?;

    let example = examples.read("approval-page-post", &at)?;
    let form = example["body"].as_str().ok_or("the form has no body")?;
    let form = String::from_utf8(BASE64.decode(form.as_bytes())?)?;
    let form = form.replace("TAKEN-FROM-THE-PAGE", &token);
    let body = BASE64.encode(form.as_bytes());
    let [raw, context, parameters] = at;
    let decided = [
        raw,
        context,
        parameters,
        ("/headers/origin", origin),
        ("/body", &*body),
    ];
    let answer = examples
        .invoke(Function::ApprovalPage, "approval-page-post", &decided)
        .await?;
    assert_eq!(answer["statusCode"], 303, "{answer}");
    Ok(())
}
