//! What a function's process is given: read once at cold start, and every fault named by its variable.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_config::SdkConfig;
use lambda_runtime::tracing::subscriber;
use lambda_runtime::tracing::subscriber::filter::{EnvFilter, LevelFilter};
use serde_json::Value;

use crate::app::context::Context;
use crate::aws::lambda::Functions;
use crate::aws::secrets::Secrets;
use crate::aws::step_functions::StepFunctions;
use crate::config::Config;
use crate::connect::KafkaBrokers;
use crate::domain::refusal::Refusal;
use crate::environment::{EnvError, optional, required};
use crate::error::Error;
use crate::failure::chain;
use crate::ports::{Clock, Executions, NobodyNotified, Notifier};
use crate::store::{DynamoTable, Store};

/// Whether applying is on where the table does not say. A function that asks has to be told: a variable that is missing or
/// misspelt must not switch anything on.
fn apply_enabled(steps: &[String], written: Option<&str>) -> Result<bool, EnvError> {
    let asks = steps.iter().any(|step| step == "apply" || step == "admit");
    match written {
        Some("true") => Ok(asks),
        Some("false") => Ok(false),
        None if !asks => Ok(false),
        other => Err(EnvError {
            name: "OFFSET_GUARD_APPLY_ENABLED",
            problem: match other {
                None => "is not set; write true or false".to_owned(),
                Some(other) => format!("is {other:?}; write true or false"),
            },
        }),
    }
}

/// Starts writing logs, in the level and format of Lambda's logging controls.
fn start_logs() {
    let level = optional("AWS_LAMBDA_LOG_LEVEL").unwrap_or("INFO".to_owned());
    let logs = subscriber::fmt()
        .with_target(false)
        .without_time()
        .with_env_filter(EnvFilter::new(filter(&level)));
    if optional("AWS_LAMBDA_LOG_FORMAT").is_some_and(|format| format.eq_ignore_ascii_case("json")) {
        logs.json().init();
    } else {
        logs.init();
    }
}

/// What is logged at `level`. Libraries are never heard below INFO: there they print whole requests and answers, and
/// with them task tokens and secrets.
fn filter(level: &str) -> String {
    let level = level.parse().unwrap_or(LevelFilter::INFO);
    format!("{},offset_guard={level}", level.min(LevelFilter::INFO))
}

/// Everything that all functions share.
#[derive(Debug)]
pub struct Env {
    sdk: SdkConfig,
    pub config: Arc<Config>,
    pub store: Store,
    pub secrets: Secrets,
    pub executions: Arc<dyn Executions>,
    /// Whether applying is on where the table does not say; never on where no step asks.
    pub apply_enabled: bool,
    steps: Vec<String>,
}

impl Env {
    /// Starts a function: logs, configuration, clients. Nothing here connects to a broker: one that is down must not
    /// keep a function from starting.
    ///
    /// # Errors
    /// A variable is missing or the configuration is wrong.
    pub async fn start() -> Result<Self, lambda_runtime::Error> {
        start_logs();
        let config = Config::load(required("OFFSET_GUARD_CONFIG")?).inspect_err(|error| {
            // The runtime prints only the error itself, and its causes are what a person needs.
            tracing::error!(error = chain(error), "the configuration is not usable");
        })?;
        let sdk = aws_config::load_defaults(aws_config::BehaviorVersion::latest()).await;
        let store = Store::new(DynamoTable::new(
            aws_sdk_dynamodb::Client::new(&sdk),
            required("OFFSET_GUARD_TABLE")?,
        ));
        let steps: Vec<String> = optional("OFFSET_GUARD_STEPS")
            .unwrap_or_default()
            .split(',')
            .map(str::to_owned)
            .collect();
        let secrets = Secrets::new(aws_sdk_secretsmanager::Client::new(&sdk));
        // A function that neither starts nor describes executions has no state machine.
        let executions = StepFunctions::new(
            aws_sdk_sfn::Client::new(&sdk),
            optional("OFFSET_GUARD_STATE_MACHINE").unwrap_or_default(),
        );
        tracing::info!(config_hash = config.hash(), "started");
        Ok(Self {
            executions: Arc::new(executions),
            config: Arc::new(config),
            store,
            secrets,
            apply_enabled: apply_enabled(
                &steps,
                optional("OFFSET_GUARD_APPLY_ENABLED").as_deref(),
            )?,
            steps,
            sdk,
        })
    }

    /// Refuses a step that this deployment has no business with: its role could do it in part, which is worse.
    ///
    /// # Errors
    /// The step is not this deployment's.
    pub fn allow(&self, event: &Value) -> Result<(), Error> {
        let step = event["step"].as_str().unwrap_or_default();
        if self.runs(step) {
            return Ok(());
        }
        let allowed = self.steps.join(", ");
        Err(Error::InvalidEvent(format!(
            "step {step:?} is not run by this function, which runs {allowed}"
        )))
    }

    /// Whether this deployment runs a step.
    #[must_use]
    pub fn runs(&self, step: &str) -> bool {
        self.steps.iter().any(|allowed| allowed == step)
    }

    /// What the use cases work with, in a function that notifies nobody.
    #[must_use]
    pub fn context(&self) -> Context<KafkaBrokers> {
        self.context_with(Arc::new(NobodyNotified))
    }

    /// What the use cases work with, in a function that notifies people.
    #[must_use]
    pub fn context_with(&self, notifier: Arc<dyn Notifier>) -> Context<KafkaBrokers> {
        Context {
            config: self.config.clone(),
            store: self.store.clone(),
            brokers: KafkaBrokers::new(self.config.clone(), self.secrets.clone()),
            executions: self.executions.clone(),
            notifier,
            clock: Clock::system(),
            apply_enabled: self.apply_enabled,
        }
    }

    /// Lambda.
    #[must_use]
    pub fn functions(&self) -> Functions {
        Functions::new(aws_sdk_lambda::Client::new(&self.sdk))
    }
}

/// How much of an invocation is left.
#[must_use]
pub fn time_left(context: &lambda_runtime::Context) -> Duration {
    context
        .deadline()
        .duration_since(SystemTime::now())
        .unwrap_or_default()
}

/// Reads an event, or says what is wrong with it.
///
/// # Errors
/// It is not what the function takes.
pub fn event<T: serde::de::DeserializeOwned>(event: Value) -> Result<T, Error> {
    serde_json::from_value(event).map_err(|error| Error::InvalidEvent(error.to_string()))
}

/// What a person wrote, or all that is wrong with it.
///
/// # Errors
/// Anything is.
pub fn written<T>(read: Result<T, Vec<Refusal>>) -> Result<T, Error> {
    read.map_err(|faults| {
        let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
        Error::InvalidEvent(faults.join("; "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn applying_is_on_only_where_that_is_written() {
        let steps = |names: &[&str]| {
            names
                .iter()
                .map(|&name| name.to_owned())
                .collect::<Vec<_>>()
        };
        for asks in [&["apply"][..], &["request", "admit", "report"]] {
            let asks = steps(asks);
            assert!(apply_enabled(&asks, Some("true")).unwrap());
            assert!(!apply_enabled(&asks, Some("false")).unwrap());
            for wrong in [None, Some("True"), Some("on"), Some("1"), Some(" true")] {
                let refused = apply_enabled(&asks, wrong).unwrap_err().to_string();
                assert!(refused.contains("OFFSET_GUARD_APPLY_ENABLED"), "{refused}");
                assert!(refused.contains("true or false"), "{refused}");
            }
        }
        let reads = steps(&["plan", "observe"]);
        assert!(!apply_enabled(&reads, None).unwrap());
        assert!(!apply_enabled(&reads, Some("true")).unwrap());
    }

    #[test]
    fn no_level_makes_a_library_print_its_requests() {
        assert_eq!(filter("TRACE"), "info,offset_guard=trace");
        assert_eq!(filter("DEBUG"), "info,offset_guard=debug");
        assert_eq!(filter("WARN"), "warn,offset_guard=warn");
        assert_eq!(filter("FATAL"), "info,offset_guard=info");
    }
}
