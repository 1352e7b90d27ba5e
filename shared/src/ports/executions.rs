//! Executions of the state machine.

use std::fmt;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde_json::Value;

use crate::domain::ids::ExecutionArn;
use crate::failure::ErrorClass;
use crate::store::TaskToken;

/// What an answer to a waiting task met (`SendTaskSuccess`, `SendTaskFailure`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskAnswer {
    /// The execution has it and goes on.
    Received,
    /// Nothing waits for it: it was answered before, its time is over, or it ended (`TaskTimedOut`, `TaskDoesNotExist`).
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

/// Whether an execution's name is used (`DescribeExecution`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameUse {
    /// No execution of this name is known. One that was started a moment ago may not be known yet.
    Free,
    /// An execution was started with this very input.
    SameInput,
    /// An execution was started with another input.
    OtherInput,
}

/// An execution as Step Functions sees it (`DescribeExecution`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    pub status: ExecutionStatus,
    pub started_at: Timestamp,
    /// When it ended.
    pub stopped_at: Option<Timestamp>,
    /// What it was started with; `None` where that is not known.
    pub input: Option<Value>,
}

/// Where an execution stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutionStatus {
    /// It runs, or waits to be redriven.
    Running,
    /// It reached an end state.
    Succeeded,
    /// It reached a failure, or an error that nothing caught.
    Failed,
    /// It took longer than it may.
    TimedOut,
    /// A person or a program stopped it.
    Aborted,
    /// A status that this client does not know.
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
    pub class: ErrorClass,
    /// What was said, without the token.
    pub detail: String,
}

/// Starts, describes and answers executions of the one state machine.
///
/// # Errors
/// Every method fails if the call failed. A start or an answer may be repeated: the same name and input, or the same
/// token, does no harm.
pub trait Executions: fmt::Debug + Send + Sync {
    /// Ends the wait that `token` stands for, with a result.
    fn task_succeeded<'a>(
        &'a self,
        token: &'a TaskToken,
        output: &'a Value,
    ) -> BoxFuture<'a, Result<TaskAnswer, ExecutionsError>>;

    /// Ends the wait that `token` stands for, with an error whose name the state machine's `Catch` can match.
    fn task_failed<'a>(
        &'a self,
        token: &'a TaskToken,
        error: &'a str,
        cause: &'a str,
    ) -> BoxFuture<'a, Result<TaskAnswer, ExecutionsError>>;

    /// Describes an execution; `None` if there is none (any more: they are kept for 90 days).
    fn describe<'a>(
        &'a self,
        arn: &'a ExecutionArn,
    ) -> BoxFuture<'a, Result<Option<Execution>, ExecutionsError>>;

    /// Starts an execution under `name`, which can be used once in 90 days.
    fn start<'a>(
        &'a self,
        name: &'a str,
        input: &'a Value,
    ) -> BoxFuture<'a, Result<Started, ExecutionsError>>;

    /// The ARN of the execution of this name; `None` if the state machine is not known.
    fn arn(&self, name: &str) -> Option<ExecutionArn>;
}

impl dyn Executions + '_ {
    /// Whether the name of the execution `arn` is used, and whether with this very input.
    ///
    /// A start does not say that: while the execution runs, a repeated start is answered as if it had just begun, and
    /// afterwards or with another input by [`Started::NameTaken`].
    ///
    /// # Errors
    /// The call failed.
    pub async fn name_use(
        &self,
        arn: &ExecutionArn,
        input: &Value,
    ) -> Result<NameUse, ExecutionsError> {
        Ok(match self.describe(arn).await? {
            None => NameUse::Free,
            Some(found) if found.input.as_ref() == Some(input) => NameUse::SameInput,
            Some(_) => NameUse::OtherInput,
        })
    }
}
