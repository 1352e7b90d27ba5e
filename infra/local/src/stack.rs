//! All of it together: Kafka, the local AWS with the deployed template, and the Slack sink.

use std::{
    collections::BTreeMap,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::Path,
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use offset_guard_preflight::Need;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

use crate::{
    Error, Result,
    aws::{LocalAws, aws_environment},
    client::Client,
    error::Doing,
    functions,
    kafka::{Cli, Java, Kafka, KafkaOptions},
    run::{Run, folders},
    slack::{Sink, SinkProcess},
    workdir::{
        blocking, exclusive_lock, last_lines, local, progress, python, read, resource, workspace,
    },
};

/// Stands for the brokers' addresses in [`StackOptions::config`], as the only text of a list there.
pub const BOOTSTRAP: &str = "@BOOTSTRAP@";
/// Stands for the cluster's id in [`StackOptions::config`].
pub const CLUSTER_ID: &str = "@CLUSTER_ID@";

/// How long a shared stack waits for the next test process of the same run.
const LINGER: Duration = Duration::from_secs(20);
/// What a running stack says of itself.
const DESCRIPTION: &str = "stack.json";

/// What a stack is to be made of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StackOptions {
    /// Its Kafka.
    pub kafka: KafkaOptions,
    /// The text of `offset-guard.toml`, with [`BOOTSTRAP`] and [`CLUSTER_ID`] for what is known only
    /// once Kafka runs.
    pub config: String,
    /// Further environment variables of the local AWS and of the functions in it.
    pub aws_environment: BTreeMap<String, String>,
    /// Further parameters of the template.
    pub parameters: BTreeMap<String, String>,
    /// Parameters that are the ARN of a secret, with what that secret holds.
    pub secrets: BTreeMap<String, String>,
}

/// A running stack. The last process that drops it ends it.
#[derive(Debug)]
pub struct Stack {
    run: Run,
    description: Description,
    slack: Sink,
    java: Java,
    /// In the process that started a stack of its own.
    own: Option<Parts>,
}

#[derive(Debug)]
struct Parts {
    kafka: Kafka,
    aws: LocalAws,
    slack: SinkProcess,
}

#[derive(Debug, Serialize, Deserialize)]
struct Description {
    /// What a shared stack was made of.
    made_of: Option<u64>,
    kafka: KafkaOptions,
    bootstrap: String,
    cluster_id: String,
    aws_endpoint: String,
    outputs: BTreeMap<String, String>,
}

impl Stack {
    /// Starts a stack of one's own.
    ///
    /// # Errors
    /// If a tool is missing, or anything cannot be fetched, built, started or deployed.
    pub async fn start(options: &StackOptions) -> Result<Self> {
        offset_guard_preflight::check(Need::STACK)?;
        Self::start_in(Run::open(Duration::ZERO)?, options, None).await
    }

    /// The stack that all tests of a run share, started by the first of them, in whichever process.
    ///
    /// Tests that ask for something else, or run on other binaries, get another one. Each test uses
    /// topics and groups of its own, and a stack of its own where it would disturb others.
    ///
    /// # Errors
    /// As [`Stack::start`]; what is missing for any of the tests is named at once.
    pub async fn shared(options: &StackOptions) -> Result<Self> {
        check_for_all_tests().await?;
        let binaries = functions::build().await?;
        let made_of = hash(options, &binaries.functions)?;
        let _lock = blocking(|| exclusive_lock(&local().join("shared.lock"))).await?;
        for dir in folders(&local().join("run")) {
            let description = read(&dir.join(DESCRIPTION)).ok();
            let Some(description) =
                description.and_then(|text| serde_json::from_str::<Description>(&text).ok())
            else {
                continue;
            };
            if description.made_of == Some(made_of)
                && let Some(run) = Run::join(&dir)?
            {
                let slack = Sink::of(&run)?;
                hold(&run);
                return Ok(Self {
                    run,
                    description,
                    slack,
                    java: Java::of(options.kafka.version).await?,
                    own: None,
                });
            }
        }
        let mut stack = Self::start_in(Run::open(LINGER)?, options, Some(made_of)).await?;
        hold(&stack.run);
        if let Some(parts) = stack.own.take() {
            parts.leave();
        }
        Ok(stack)
    }

    async fn start_in(run: Run, options: &StackOptions, made_of: Option<u64>) -> Result<Self> {
        progress(&format!(
            "Starting Apache Kafka {} and the local AWS ...",
            options.kafka.version
        ));
        let (kafka, aws, slack) = tokio::join!(
            Kafka::start(&run, &options.kafka),
            LocalAws::start(&run, &options.aws_environment),
            async { Sink::start(&run, &functions::build().await?.slack_sink).await },
        );
        let (kafka, aws, (slack, slack_process)) = (kafka?, aws?, slack?);
        let config = run.dir().join("offset-guard.toml");
        let text = options
            .config
            .replace(BOOTSTRAP, &kafka.bootstrap().replace(',', "\", \""))
            .replace(CLUSTER_ID, kafka.cluster_id());
        fs::write(&config, text).doing(|| format!("write {}", config.display()))?;
        progress("Deploying the template ...");
        let outputs = deploy(&aws.endpoint(), &config, slack.url(), options).await?;
        let description = Description {
            made_of,
            kafka: options.kafka.clone(),
            bootstrap: kafka.bootstrap(),
            cluster_id: kafka.cluster_id().to_owned(),
            aws_endpoint: aws.endpoint(),
            outputs,
        };
        description.write(&run)?;
        Ok(Self {
            run,
            description,
            slack,
            java: Java::of(options.kafka.version).await?,
            own: Some(Parts {
                kafka,
                aws,
                slack: slack_process,
            }),
        })
    }

    /// The folder with everything of this stack, its logs among it.
    pub fn dir(&self) -> &Path {
        self.run.dir()
    }

    /// The brokers' addresses.
    pub fn bootstrap(&self) -> &str {
        &self.description.bootstrap
    }

    /// The id of the Kafka cluster.
    pub fn cluster_id(&self) -> &str {
        &self.description.cluster_id
    }

    /// Clients of the Kafka cluster.
    pub fn client(&self) -> Client {
        Client::new(self.bootstrap(), &self.description.kafka.client_properties)
    }

    /// Kafka's own command line tools.
    ///
    /// # Errors
    /// If the file with the client properties cannot be written.
    pub fn cli(&self) -> Result<Cli> {
        let Description {
            kafka, bootstrap, ..
        } = &self.description;
        Cli::new(
            self.run.clone(),
            self.java.clone(),
            bootstrap.clone(),
            &kafka.client_properties,
        )
    }

    /// The brokers themselves; `None` for a shared stack, where nobody may stop one.
    pub fn kafka(&mut self) -> Option<&mut Kafka> {
        self.own.as_mut().map(|parts| &mut parts.kafka)
    }

    /// Where the local AWS serves.
    pub fn aws_endpoint(&self) -> &str {
        &self.description.aws_endpoint
    }

    /// The environment of an AWS client.
    pub fn aws_env(&self) -> BTreeMap<String, String> {
        aws_environment(self.aws_endpoint())
    }

    /// An output of the deployed template.
    ///
    /// # Errors
    /// If the template has no such output.
    pub fn output(&self, key: &str) -> Result<&str> {
        self.description
            .outputs
            .get(key)
            .map(String::as_str)
            .ok_or_else(|| Error::Unexpected {
                from: "the deployed template".to_owned(),
                answer: format!("no output {key}"),
            })
    }

    /// The Slack sink.
    pub fn slack(&self) -> &Sink {
        &self.slack
    }

    /// Stops everything and waits for it. A shared stack stays for the others.
    ///
    /// # Errors
    /// If the system cannot end a process.
    pub async fn stop(self) -> Result<()> {
        let Some(parts) = self.own else {
            return Ok(());
        };
        let (kafka, aws, slack) =
            tokio::join!(parts.kafka.stop(), parts.aws.stop(), parts.slack.stop());
        kafka?;
        aws?;
        slack
    }

    /// Leaves the stack up when this process ends, until [`crate::run::end_kept`].
    ///
    /// # Errors
    /// If the mark that keeps it cannot be written.
    pub fn keep(mut self) -> Result<()> {
        self.run.keep()?;
        if let Some(parts) = self.own.take() {
            parts.leave();
        }
        Ok(())
    }
}

/// Holds a shared run for as long as this process lives: a later test may need it again.
fn hold(run: &Run) {
    static HELD: Mutex<Vec<Run>> = Mutex::new(Vec::new());
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    if held.iter().all(|one| one.dir() != run.dir()) {
        held.push(run.clone());
    }
}

impl Parts {
    fn leave(self) {
        self.kafka.leave();
        self.aws.leave();
        self.slack.leave();
    }
}

impl Description {
    fn write(&self, run: &Run) -> Result<()> {
        let path = run.dir().join(DESCRIPTION);
        let doing = || format!("write {}", path.display());
        let text = serde_json::to_string_pretty(self)
            .map_err(io::Error::other)
            .doing(doing)?;
        fs::write(&path, text).doing(doing)
    }
}

async fn check_for_all_tests() -> Result<()> {
    static CHECKED: OnceCell<()> = OnceCell::const_new();
    CHECKED
        .get_or_try_init(async || Ok(offset_guard_preflight::check(Need::ALL)?))
        .await
        .copied()
}

/// Deploys the real template with the real binaries; answers with its outputs.
async fn deploy(
    endpoint: &str,
    config: &Path,
    slack_url: &str,
    options: &StackOptions,
) -> Result<BTreeMap<String, String>> {
    let binaries = functions::build().await?;
    let mut command = Command::new(python().await?);
    command
        .arg(resource("deploy.py"))
        .args(["--endpoint", endpoint])
        .arg("--config-path")
        .arg(config)
        .arg("--binaries")
        .arg(&binaries.functions)
        .args(["--slack-url", slack_url])
        .args(["--stack", "offset-guard"])
        .envs(aws_environment(endpoint))
        .env("NO_PROXY", "127.0.0.1,localhost")
        .stdin(Stdio::null());
    for (option, pairs) in [
        ("--parameter", &options.parameters),
        ("--secret", &options.secrets),
    ] {
        for (name, value) in pairs {
            command.arg(option).arg(format!("{name}={value}"));
        }
    }
    blocking(move || {
        let output = command.output().doing(|| "run deploy.py".to_owned())?;
        let stdout = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            return Err(Error::Tool {
                program: "deploy.py".to_owned(),
                status: output.status,
                output: last_lines(&[stdout, stderr].concat()),
            });
        }
        serde_json::from_str(&stdout)
            .map_err(io::Error::other)
            .doing(|| "read what deploy.py printed".to_owned())
    })
    .await
}

/// Of everything that a shared stack is made of.
fn hash(options: &StackOptions, functions: &Path) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    format!("{options:?}").hash(&mut hasher);
    let parts = [
        resource("deploy.py"),
        resource("requirements.txt"),
        workspace().join("template.yaml"),
        workspace().join("infra/recovery.asl.json"),
    ];
    for part in parts {
        read(&part)?.hash(&mut hasher);
    }
    let mut functions = folders(functions);
    functions.sort();
    for function in functions {
        let bootstrap = function.join("bootstrap");
        let modified = fs::metadata(&bootstrap)
            .and_then(|metadata| metadata.modified())
            .doing(|| format!("look at {}", bootstrap.display()))?;
        (function, modified).hash(&mut hasher);
    }
    Ok(hasher.finish())
}
