//! The state machine's executions: starting one, asking after one, and ending the wait of one.

use std::error::Error;

use aws_sdk_sfn::Client;
use aws_sdk_sfn::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sfn::operation::describe_execution::DescribeExecutionError;
use aws_sdk_sfn::operation::start_execution::StartExecutionError;
use aws_sdk_sfn::types::ExecutionStatus;
use jiff::{Timestamp, Unit};
use serde_json::Value;

use crate::domain::ids::ExecutionArn;
use crate::failure::chain;
use crate::store::{ErrorClass, TaskToken};

/// Step Functions. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Executions {
    client: Client,
}

/// What an answer to a waiting task met (`SendTaskSuccess`, `SendTaskFailure`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// The execution has it and goes on.
    Received,
    /// Nothing waits for it: it was told before, its time is over, or it ended (`TaskTimedOut`, `TaskDoesNotExist`).
    NoLongerWaiting,
}

/// What a start met (`StartExecution`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Started {
    /// It runs under this ARN: started by this call, or by an earlier one with the same name and input.
    Now(ExecutionArn),
    /// One of this name ran before, or runs now with another input (`ExecutionAlreadyExists`).
    NameTaken,
}

/// Whether an execution's name is taken (`DescribeExecution`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// None of this name is known; one that was started a moment ago may not be known yet.
    No,
    /// One was started with this very input.
    ByThis,
    /// One was started with another input.
    ByAnother,
}

/// An execution as Step Functions sees it (`DescribeExecution`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// Where it stands.
    pub status: Status,
    /// When it started.
    pub started_at: Timestamp,
    /// When it ended.
    pub stopped_at: Option<Timestamp>,
    /// The name of the error that ended it.
    pub error: Option<String>,
    /// The error's text.
    pub cause: Option<String>,
    /// What it was started with; `None` where that is not known.
    pub input: Option<Value>,
}

/// Where an execution stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It runs, or waits to be redriven.
    Running,
    /// It reached an end state.
    Succeeded,
    /// It reached a failure, or an error that nothing caught.
    Failed,
    /// It took longer than it may.
    TimedOut,
    /// Somebody stopped it.
    Aborted,
    /// A word that this client does not know.
    Unknown,
}

/// A call to Step Functions that failed.
///
/// Holds text alone: the SDK's own error keeps the whole answer, and an answer may repeat the token that was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation} failed: {detail}")]
pub struct ExecutionsError {
    /// The operation, in the name of the AWS API.
    pub operation: &'static str,
    /// What may be done about it.
    pub class: ErrorClass,
    /// What was said, without the token.
    pub detail: String,
}

impl Executions {
    /// Step Functions, reached through `client`.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Ends the wait that `token` stands for, with a result.
    ///
    /// # Errors
    /// The call failed; whether the execution got it is then unknown, and telling it again does no harm.
    pub async fn task_succeeded(
        &self,
        token: &TaskToken,
        output: &Value,
    ) -> Result<Told, ExecutionsError> {
        let call = self.client.send_task_success();
        let call = call.task_token(token.expose()).output(output.to_string());
        told("SendTaskSuccess", token, call.send().await)
    }

    /// Ends the wait that `token` stands for, with an error whose name the state machine's `Catch` can match.
    ///
    /// # Errors
    /// The call failed; whether the execution got it is then unknown, and telling it again does no harm.
    pub async fn task_failed(
        &self,
        token: &TaskToken,
        error: &str,
        cause: &str,
    ) -> Result<Told, ExecutionsError> {
        let call = self.client.send_task_failure();
        let call = call.task_token(token.expose()).error(error).cause(cause);
        told("SendTaskFailure", token, call.send().await)
    }

    /// Asks after an execution; `None` where there is none (any more: they are kept for 90 days).
    ///
    /// # Errors
    /// The call failed.
    pub async fn describe(&self, arn: &ExecutionArn) -> Result<Option<Execution>, ExecutionsError> {
        const OPERATION: &str = "DescribeExecution";
        let found = match self
            .client
            .describe_execution()
            .execution_arn(&arn.0)
            .send()
            .await
        {
            Ok(found) => found,
            Err(error)
                if error
                    .as_service_error()
                    .is_some_and(DescribeExecutionError::is_execution_does_not_exist) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(failure(OPERATION, &error, None)),
        };
        // The API counts milliseconds, but sends seconds with a fraction that a float cannot hold.
        let time = |at: &aws_smithy_types::DateTime| {
            Timestamp::new(at.secs(), i32::try_from(at.subsec_nanos()).unwrap_or(0))
                .and_then(|at| at.round(Unit::Millisecond))
                .map_err(|error| ExecutionsError {
                    operation: OPERATION,
                    class: ErrorClass::Internal,
                    detail: error.to_string(),
                })
        };
        Ok(Some(Execution {
            status: match found.status() {
                ExecutionStatus::Running | ExecutionStatus::PendingRedrive => Status::Running,
                ExecutionStatus::Succeeded => Status::Succeeded,
                ExecutionStatus::Failed => Status::Failed,
                ExecutionStatus::TimedOut => Status::TimedOut,
                ExecutionStatus::Aborted => Status::Aborted,
                _ => Status::Unknown,
            },
            started_at: time(found.start_date())?,
            stopped_at: found.stop_date().map(time).transpose()?,
            error: found.error().map(str::to_owned),
            cause: found.cause().map(str::to_owned),
            input: found
                .input()
                .and_then(|input| serde_json::from_str(input).ok()),
        }))
    }

    /// Whether the execution `arn` was started before, and whether with this very input.
    ///
    /// A start does not tell: the service answers a repeated one as if it had just begun, while the execution runs, and
    /// with [`Started::NameTaken`] afterwards or for another input.
    ///
    /// # Errors
    /// The call failed.
    pub async fn taken(&self, arn: &ExecutionArn, input: &Value) -> Result<Taken, ExecutionsError> {
        Ok(match self.describe(arn).await? {
            None => Taken::No,
            Some(found) if found.input.as_ref() == Some(input) => Taken::ByThis,
            Some(_) => Taken::ByAnother,
        })
    }

    /// Starts an execution of `state_machine` under `name`, which is used once in 90 days.
    ///
    /// # Errors
    /// The call failed; starting it again under the same name and with the same input does no harm.
    pub async fn start(
        &self,
        state_machine: &str,
        name: &str,
        input: &Value,
    ) -> Result<Started, ExecutionsError> {
        let call = self.client.start_execution();
        let call = call.state_machine_arn(state_machine).name(name);
        match call.input(input.to_string()).send().await {
            Ok(started) => Ok(Started::Now(ExecutionArn(started.execution_arn))),
            Err(error)
                if error
                    .as_service_error()
                    .is_some_and(StartExecutionError::is_execution_already_exists) =>
            {
                Ok(Started::NameTaken)
            }
            Err(error) => Err(failure("StartExecution", &error, None)),
        }
    }
}

fn told<T, E>(
    operation: &'static str,
    token: &TaskToken,
    answer: Result<T, SdkError<E>>,
) -> Result<Told, ExecutionsError>
where
    E: Error + ProvideErrorMetadata + 'static,
{
    match answer {
        Ok(_) => Ok(Told::Received),
        Err(error) => match error.as_service_error().and_then(E::code) {
            Some("TaskTimedOut" | "TaskDoesNotExist") => Ok(Told::NoLongerWaiting),
            _ => Err(failure(operation, &error, Some(token))),
        },
    }
}

fn failure<E>(
    operation: &'static str,
    error: &SdkError<E>,
    token: Option<&TaskToken>,
) -> ExecutionsError
where
    E: Error + ProvideErrorMetadata + 'static,
{
    let detail = match error.as_service_error() {
        Some(answer) => {
            let code = answer.code().unwrap_or("an error without a code");
            answer
                .message()
                .map_or(code.to_owned(), |message| format!("{code}: {message}"))
        }
        None => chain(error),
    };
    ExecutionsError {
        operation,
        class: class(error),
        detail: match token {
            Some(token) => detail.replace(token.expose(), "***"),
            None => detail,
        },
    }
}

/// What may be done about it. Rights and keys that are wrong do not come right by trying again at once.
fn class<E: ProvideErrorMetadata>(error: &SdkError<E>) -> ErrorClass {
    match error {
        SdkError::TimeoutError(_) | SdkError::DispatchFailure(_) | SdkError::ResponseError(_) => {
            ErrorClass::Transient
        }
        SdkError::ServiceError(answer) => match answer.err().code() {
            Some(
                "ThrottlingException"
                | "Throttling"
                | "TooManyRequestsException"
                | "RequestLimitExceeded"
                | "ExecutionLimitExceeded"
                | "KmsThrottlingException"
                | "ServiceUnavailable"
                | "ServiceUnavailableException"
                | "InternalFailure"
                | "InternalServerError"
                | "RequestTimeout",
            ) => ErrorClass::Transient,
            _ if answer.raw().status().is_server_error() => ErrorClass::Transient,
            _ => ErrorClass::Internal,
        },
        _ => ErrorClass::Internal,
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_sfn::config::retry::RetryConfig;
    use aws_sdk_sfn::config::{BehaviorVersion, Credentials, Region};
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::task::JoinHandle;

    use super::*;

    const TOKEN: &str = "AQCkAAAA-the-task-token";

    /// A server on the loopback that answers one request so; with it, what was asked.
    async fn answers(status: u16, body: Value) -> (Executions, JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = Vec::new();
            while !is_whole(&asked) {
                let mut part = [0; 4096];
                let read = stream.read(&mut part).await.unwrap();
                assert_ne!(read, 0, "the request ended early");
                asked.extend_from_slice(&part[..read]);
            }
            let body = body.to_string();
            let answer = format!(
                "HTTP/1.1 {status} x\r\ncontent-type: application/x-amz-json-1.0\r\n\
                 content-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8(asked).unwrap()
        });
        (executions(&format!("http://{address}")), asked)
    }

    /// Whether the body is as long as its header says.
    fn is_whole(request: &[u8]) -> bool {
        let text = String::from_utf8_lossy(request);
        text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
            let head = head.to_ascii_lowercase();
            let (_, length) = head.split_once("content-length: ").unwrap();
            let length: usize = length.lines().next().unwrap().parse().unwrap();
            body.len() >= length
        })
    }

    fn executions(endpoint: &str) -> Executions {
        let config = aws_sdk_sfn::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("eu-west-1"))
            .credentials_provider(Credentials::new("id", "secret", None, None, "test"))
            .retry_config(RetryConfig::disabled())
            .endpoint_url(endpoint)
            .build();
        Executions::new(Client::from_conf(config))
    }

    fn token() -> TaskToken {
        TaskToken::new(TOKEN.to_owned())
    }

    fn error(code: &str) -> Value {
        json!({ "__type": format!("com.amazonaws.states#{code}"), "message": format!("no: {TOKEN}") })
    }

    async fn succeed(status: u16, body: Value) -> Result<Told, ExecutionsError> {
        let (executions, asked) = answers(status, body).await;
        let output = json!({ "decision": "approve" });
        let told = executions.task_succeeded(&token(), &output).await;
        let asked = asked.await.unwrap();
        assert!(
            asked.contains("AWSStepFunctions.SendTaskSuccess"),
            "{asked}"
        );
        assert!(
            asked.contains(TOKEN) && asked.contains("approve"),
            "{asked}"
        );
        told
    }

    #[tokio::test]
    async fn a_wait_ends_once() {
        assert_eq!(succeed(200, json!({})).await, Ok(Told::Received));
        for gone in ["TaskTimedOut", "TaskDoesNotExist"] {
            assert_eq!(succeed(400, error(gone)).await, Ok(Told::NoLongerWaiting));
        }
        let (executions, asked) = answers(400, error("TaskTimedOut")).await;
        let told = executions.task_failed(&token(), "Name", "why").await;
        assert_eq!(told, Ok(Told::NoLongerWaiting));
        assert!(asked.await.unwrap().contains("SendTaskFailure"));
    }

    #[tokio::test]
    async fn an_error_has_its_class_and_never_the_token() {
        use ErrorClass::{Internal, Transient};
        for (status, code, class) in [
            (400, "InvalidToken", Internal),
            (400, "InvalidOutput", Internal),
            (400, "AccessDeniedException", Internal),
            (400, "KmsAccessDeniedException", Internal),
            (400, "KmsThrottlingException", Transient),
            (400, "ThrottlingException", Transient),
            (500, "InternalServerError", Transient),
            (503, "SomethingElse", Transient),
        ] {
            let error = succeed(status, error(code)).await.unwrap_err();
            assert_eq!(error.class, class, "{code}");
            assert_eq!(error.operation, "SendTaskSuccess");
            let text = format!("{error} {error:?}");
            assert!(text.contains(code) && text.contains("no: ***"), "{text}");
            assert!(!text.contains(TOKEN), "{text}");
        }
    }

    #[tokio::test]
    async fn an_unreachable_service_is_transient() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let executions = executions(&format!("http://{address}"));
        let told = executions.task_succeeded(&token(), &json!({})).await;
        let error = told.unwrap_err();
        assert_eq!(error.class, ErrorClass::Transient);
        assert!(!format!("{error} {error:?}").contains(TOKEN));
    }

    #[tokio::test]
    async fn an_execution_is_described_or_is_not_there() {
        let found = json!({
            "executionArn": "arn:x", "stateMachineArn": "arn:m", "status": "ABORTED",
            "startDate": 1_773_453_600.5, "stopDate": 1_773_453_660.0,
            "error": "E", "cause": "stopped by hand", "input": "{\"plan_id\": \"01K\"}",
        });
        let (executions, _) = answers(200, found).await;
        assert_eq!(
            executions.describe(&"arn:x".into()).await,
            Ok(Some(Execution {
                status: Status::Aborted,
                started_at: "2026-03-14T02:00:00.5Z".parse().unwrap(),
                stopped_at: Some("2026-03-14T02:01:00Z".parse().unwrap()),
                error: Some("E".to_owned()),
                cause: Some("stopped by hand".to_owned()),
                input: Some(json!({ "plan_id": "01K" })),
            }))
        );
        let (executions, _) = answers(400, error("ExecutionDoesNotExist")).await;
        assert_eq!(executions.describe(&"arn:x".into()).await, Ok(None));
    }

    #[tokio::test]
    async fn a_name_starts_one_execution() {
        let started = json!({ "executionArn": "arn:x", "startDate": 1_773_453_600.0 });
        let (executions, asked) = answers(200, started).await;
        let input = json!({ "group": "g" });
        let now = executions.start("arn:m", "01K", &input).await;
        assert_eq!(now, Ok(Started::Now("arn:x".into())));
        assert!(asked.await.unwrap().contains("01K"));

        let (executions, _) = answers(400, error("ExecutionAlreadyExists")).await;
        let taken = executions.start("arn:m", "01K", &input).await;
        assert_eq!(taken, Ok(Started::NameTaken));
    }
}
