//! The state machine's executions: starting one, asking after one, and ending the wait of one.

use std::error::Error;

use aws_sdk_sfn::Client;
use aws_sdk_sfn::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sfn::operation::describe_execution::DescribeExecutionError;
use aws_sdk_sfn::operation::start_execution::StartExecutionError;
use futures_util::future::BoxFuture;
use jiff::{Timestamp, Unit};
use serde_json::Value;

use crate::domain::ids::ExecutionArn;
use crate::failure::{ErrorClass, chain};
use crate::ports::{Execution, ExecutionStatus, Executions, ExecutionsError, Started, TaskAnswer};
use crate::store::TaskToken;

/// Step Functions. Cheap to clone.
#[derive(Debug, Clone)]
pub struct StepFunctions {
    client: Client,
    state_machine: String,
}

impl StepFunctions {
    /// The executions of the state machine with the ARN `state_machine`, reached through `client`.
    #[must_use]
    pub fn new(client: Client, state_machine: String) -> Self {
        Self {
            client,
            state_machine,
        }
    }

    async fn describe_execution(
        &self,
        arn: &ExecutionArn,
    ) -> Result<Option<Execution>, ExecutionsError> {
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
                aws_sdk_sfn::types::ExecutionStatus::Running
                | aws_sdk_sfn::types::ExecutionStatus::PendingRedrive => ExecutionStatus::Running,
                aws_sdk_sfn::types::ExecutionStatus::Succeeded => ExecutionStatus::Succeeded,
                aws_sdk_sfn::types::ExecutionStatus::Failed => ExecutionStatus::Failed,
                aws_sdk_sfn::types::ExecutionStatus::TimedOut => ExecutionStatus::TimedOut,
                aws_sdk_sfn::types::ExecutionStatus::Aborted => ExecutionStatus::Aborted,
                _ => ExecutionStatus::Unknown,
            },
            started_at: time(found.start_date())?,
            stopped_at: found.stop_date().map(time).transpose()?,
            input: found
                .input()
                .and_then(|input| serde_json::from_str(input).ok()),
        }))
    }

    async fn start_execution(&self, name: &str, input: &Value) -> Result<Started, ExecutionsError> {
        let call = self.client.start_execution();
        let call = call.state_machine_arn(&self.state_machine).name(name);
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

impl Executions for StepFunctions {
    fn task_succeeded<'a>(
        &'a self,
        token: &'a TaskToken,
        output: &'a Value,
    ) -> BoxFuture<'a, Result<TaskAnswer, ExecutionsError>> {
        let call = self.client.send_task_success();
        let call = call.task_token(token.expose()).output(output.to_string());
        Box::pin(async move { judge_answer("SendTaskSuccess", token, call.send().await) })
    }

    fn task_failed<'a>(
        &'a self,
        token: &'a TaskToken,
        error: &'a str,
        cause: &'a str,
    ) -> BoxFuture<'a, Result<TaskAnswer, ExecutionsError>> {
        let call = self.client.send_task_failure();
        let call = call.task_token(token.expose()).error(error).cause(cause);
        Box::pin(async move { judge_answer("SendTaskFailure", token, call.send().await) })
    }

    fn describe<'a>(
        &'a self,
        arn: &'a ExecutionArn,
    ) -> BoxFuture<'a, Result<Option<Execution>, ExecutionsError>> {
        Box::pin(self.describe_execution(arn))
    }

    fn start<'a>(
        &'a self,
        name: &'a str,
        input: &'a Value,
    ) -> BoxFuture<'a, Result<Started, ExecutionsError>> {
        Box::pin(self.start_execution(name, input))
    }

    fn arn(&self, name: &str) -> Option<ExecutionArn> {
        ExecutionArn::child(&self.state_machine, name)
    }
}

fn judge_answer<T, E>(
    operation: &'static str,
    token: &TaskToken,
    answer: Result<T, SdkError<E>>,
) -> Result<TaskAnswer, ExecutionsError>
where
    E: Error + ProvideErrorMetadata + 'static,
{
    match answer {
        Ok(_) => Ok(TaskAnswer::Received),
        Err(error) => match error.as_service_error().and_then(E::code) {
            Some("TaskTimedOut" | "TaskDoesNotExist") => Ok(TaskAnswer::NoLongerWaiting),
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
    const MACHINE: &str = "arn:aws:states:eu-west-1:1:stateMachine:recovery";

    /// A server on the loopback that answers one request so; with it, what was asked.
    async fn answers(status: u16, body: Value) -> (StepFunctions, JoinHandle<String>) {
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

    fn executions(endpoint: &str) -> StepFunctions {
        let config = aws_sdk_sfn::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("eu-west-1"))
            .credentials_provider(Credentials::new("id", "secret", None, None, "test"))
            .retry_config(RetryConfig::disabled())
            .endpoint_url(endpoint)
            .build();
        StepFunctions::new(Client::from_conf(config), MACHINE.to_owned())
    }

    fn token() -> TaskToken {
        TaskToken::new(TOKEN.to_owned())
    }

    fn error(code: &str) -> Value {
        json!({ "__type": format!("com.amazonaws.states#{code}"), "message": format!("no: {TOKEN}") })
    }

    async fn succeed(status: u16, body: Value) -> Result<TaskAnswer, ExecutionsError> {
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
        assert_eq!(succeed(200, json!({})).await, Ok(TaskAnswer::Received));
        for gone in ["TaskTimedOut", "TaskDoesNotExist"] {
            assert_eq!(
                succeed(400, error(gone)).await,
                Ok(TaskAnswer::NoLongerWaiting)
            );
        }
        let (executions, asked) = answers(400, error("TaskTimedOut")).await;
        let told = executions.task_failed(&token(), "Name", "why").await;
        assert_eq!(told, Ok(TaskAnswer::NoLongerWaiting));
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
                status: ExecutionStatus::Aborted,
                started_at: "2026-03-14T02:00:00.5Z".parse().unwrap(),
                stopped_at: Some("2026-03-14T02:01:00Z".parse().unwrap()),
                input: Some(json!({ "plan_id": "01K" })),
            }))
        );
        let (executions, _) = answers(400, error("ExecutionDoesNotExist")).await;
        assert_eq!(executions.describe(&"arn:x".into()).await, Ok(None));
    }

    #[test]
    fn an_execution_is_named_under_its_machine() {
        let arn = executions("http://127.0.0.1:1").arn("01K");
        let expected = "arn:aws:states:eu-west-1:1:execution:recovery:01K";
        assert_eq!(arn, Some(expected.into()));
    }

    #[tokio::test]
    async fn a_name_starts_one_execution() {
        let started = json!({ "executionArn": "arn:x", "startDate": 1_773_453_600.0 });
        let (executions, asked) = answers(200, started).await;
        let input = json!({ "group": "g" });
        let now = executions.start("01K", &input).await;
        assert_eq!(now, Ok(Started::Now("arn:x".into())));
        assert!(asked.await.unwrap().contains("01K"));

        let (executions, _) = answers(400, error("ExecutionAlreadyExists")).await;
        let taken = executions.start("01K", &input).await;
        assert_eq!(taken, Ok(Started::NameTaken));
    }
}
