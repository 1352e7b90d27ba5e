//! Errors: the world failed. A refusal is not one of them, and neither is a bug.

use lambda_runtime::Diagnostic;

use crate::aws::secrets::SecretsError;
use crate::domain::ids::ExecutionArn;
use crate::environment::EnvError;
use crate::failure::{ErrorClass, chain};
use crate::ports::{BrokerError, BrokerErrorClass, ExecutionsError, NotifyError};
use crate::store::StoreError;

/// Everything that can fail in a use case.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A broker.
    #[error("talking to Kafka failed")]
    Kafka(#[from] BrokerError),
    /// A broker, asked for the rights of the applying principal.
    #[error("what the applying principal may do could not be asked")]
    RightsUnread(#[source] BrokerError),
    /// The table.
    #[error("the table failed")]
    Store(#[from] StoreError),
    /// Step Functions.
    #[error("Step Functions failed")]
    Executions(#[from] ExecutionsError),
    /// Slack.
    #[error("telling the people failed")]
    Slack(#[from] NotifyError),
    /// Secrets Manager.
    #[error("reading a secret failed")]
    Secrets(#[from] SecretsError),
    /// The event is not what this function takes.
    #[error("the event is not valid: {0}")]
    InvalidEvent(String),
    /// An execution that is said to have ended has not.
    #[error("execution {0} runs, so there is nothing to put right")]
    StillRunning(ExecutionArn),
    /// Recoveries that no sweep could end.
    #[error("{recoveries} open recoveries could not be put right; the log says which and why")]
    Stuck {
        /// How many.
        recoveries: usize,
    },
    /// Some groups have no new checkpoint.
    #[error("{0}")]
    CheckpointsMissing(String),
    /// Other runs of the guard were faster each time, and know nothing of what was asked.
    #[error("other runs of the guard for group {group} were faster each time; ask again")]
    Overtaken {
        /// The group.
        group: String,
    },
    /// What the guard found in some groups could not be kept or told.
    #[error("{0}")]
    GuardRunsFailed(String),
    /// Too little of the invocation's time is left to do this safely.
    #[error("only {left_seconds} s of the invocation are left, {needed_seconds} are needed")]
    OutOfTime {
        /// What is left.
        left_seconds: u64,
        /// What is needed.
        needed_seconds: u64,
    },
    /// The function's own environment.
    #[error("the function is not set up")]
    Env(#[from] EnvError),
    /// Something that cannot be, was.
    #[error("{0}")]
    Broken(String),
}

impl Error {
    /// What can be done about it.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Kafka(error) | Self::RightsUnread(error) => match error.class {
                BrokerErrorClass::Transient => ErrorClass::Transient,
                BrokerErrorClass::Lasting => ErrorClass::Internal,
            },
            Self::Store(error) => error.class,
            Self::Executions(error) => error.class,
            Self::Slack(_)
            | Self::OutOfTime { .. }
            | Self::StillRunning(_)
            | Self::Overtaken { .. } => ErrorClass::Transient,
            Self::Secrets(error) => error.class(),
            Self::InvalidEvent(_) => ErrorClass::InvalidRequest,
            Self::Stuck { .. }
            | Self::CheckpointsMissing(_)
            | Self::GuardRunsFailed(_)
            | Self::Env(_)
            | Self::Broken(_) => ErrorClass::Internal,
        }
    }
}

impl From<Error> for Diagnostic {
    fn from(error: Error) -> Self {
        let error_type = error.class().error_type().to_owned();
        let error_message = chain(&error);
        tracing::error!(error_type, error_message, "the invocation failed");
        Self {
            error_type,
            error_message,
        }
    }
}
