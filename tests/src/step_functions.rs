//! A stand-in for Step Functions that says of executions what a test wants to be said: the local AWS knows no execution
//! that it does not know yet, and none that is redriven.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use aws_credential_types::Credentials;
use aws_sdk_sfn::config::retry::RetryConfig;
use aws_sdk_sfn::config::{BehaviorVersion, Region};
use offset_guard::aws::step_functions::StepFunctions;
use offset_guard::domain::ids::ExecutionArn;
use serde_json::{Value, json};

use crate::loopback::{Request, Server};

/// What is said of each execution, by its ARN.
type Known = Arc<Mutex<BTreeMap<String, Said>>>;

/// What is said of one execution.
#[derive(Debug, Clone)]
struct Said {
    status: String,
    input: Value,
    /// When it started, and when it ended, in seconds since 1970.
    times: (f64, Option<f64>),
}

/// The ARN of the state machine whose executions the stand-in knows.
pub const MACHINE: &str = "arn:aws:states:us-east-1:000000000000:stateMachine:recovery";

/// When an execution started of which a test says nothing else, in seconds since 1970.
pub const STARTED: f64 = 1_796_000_000.0;

/// The stand-in; it ends when this is dropped.
#[derive(Debug)]
pub struct SimulatedStepFunctions {
    known: Known,
    server: Server,
}

impl SimulatedStepFunctions {
    /// One that knows no execution.
    ///
    /// # Errors
    /// There is no port.
    pub async fn start() -> io::Result<Self> {
        let known = Known::default();
        let asked = known.clone();
        let server = Server::start(move |request| {
            let answer = answer(&asked, &request);
            async move { answer }
        })
        .await?;
        Ok(Self { known, server })
    }

    /// A client of it.
    #[must_use]
    pub fn executions(&self) -> StepFunctions {
        executions(&self.server.url)
    }

    /// Lets an execution have this status, as `DescribeExecution` writes it, and no input.
    pub fn put(&self, arn: &str, status: &str) {
        self.put_with(arn, status, &json!({}));
    }

    /// Lets an execution have this status and this input.
    pub fn put_with(&self, arn: &str, status: &str, input: &Value) {
        self.put_of(arn, status, input, (STARTED, None));
    }

    /// Lets an execution have this status and this input, and have started and ended at these times.
    pub fn put_of(&self, arn: &str, status: &str, input: &Value, times: (f64, Option<f64>)) {
        let said = Said {
            status: status.to_owned(),
            input: input.clone(),
            times,
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(arn.to_owned(), said);
    }

    /// The ARNs that are known, with their inputs.
    #[must_use]
    pub fn known(&self) -> BTreeMap<String, Value> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.iter();
        known
            .map(|(arn, said)| (arn.clone(), said.input.clone()))
            .collect()
    }
}

/// Step Functions, out of reach.
#[must_use]
pub fn unreachable() -> StepFunctions {
    // Nothing listens on the discard port.
    executions("http://127.0.0.1:9")
}

fn executions(endpoint: &str) -> StepFunctions {
    let config = aws_sdk_sfn::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .retry_config(RetryConfig::disabled())
        .endpoint_url(endpoint)
        .build();
    StepFunctions::new(aws_sdk_sfn::Client::from_conf(config), MACHINE.to_owned())
}

fn answer(known: &Known, request: &Request) -> (u16, String) {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let target = request
        .headers
        .get("x-amz-target")
        .map_or("", String::as_str);
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    let error = |code: &str| (400, json!({"__type": code, "message": "no"}).to_string());
    match target.rsplit('.').next() {
        Some("DescribeExecution") => {
            let arn = body["executionArn"].as_str().unwrap_or_default();
            let Some(said) = known.get(arn) else {
                return error("ExecutionDoesNotExist");
            };
            let (started, ended) = said.times;
            let found = json!({
                "executionArn": arn, "stateMachineArn": "arn:m", "status": said.status, "startDate": started,
                "stopDate": ended, "input": said.input.to_string(),
            });
            (200, found.to_string())
        }
        Some("StartExecution") => {
            let machine = body["stateMachineArn"].as_str().unwrap_or_default();
            let name = body["name"].as_str().unwrap_or_default();
            let Some(ExecutionArn(arn)) = ExecutionArn::child(machine, name) else {
                return error("InvalidArn");
            };
            let input = body["input"].as_str().unwrap_or_default();
            let input: Value = serde_json::from_str(input).unwrap_or_default();
            match known.get(&arn) {
                // As AWS does it, and the local AWS does not.
                Some(said) if said.status == "RUNNING" && said.input == input => {}
                Some(_) => return error("ExecutionAlreadyExists"),
                None => {
                    let said = Said {
                        status: "RUNNING".to_owned(),
                        input,
                        times: (STARTED, None),
                    };
                    known.insert(arn.clone(), said);
                }
            }
            let started = json!({"executionArn": arn, "startDate": STARTED});
            (200, started.to_string())
        }
        _ => error("UnknownOperationException"),
    }
}
