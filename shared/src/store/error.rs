//! What can go wrong with the table.

use std::error::Error;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_smithy_types::error::display::DisplayErrorContext;

use super::encoding::packed::PackError;
use super::item::Damaged;
use crate::failure::ErrorClass;

/// An operation on the table that failed.
///
/// Neither its text nor its source's, nor what `Debug` shows of them, holds an item's contents.
#[derive(Debug, thiserror::Error)]
#[error("the table's {operation} failed")]
pub struct StoreError {
    /// The operation, as the method of [`Store`](super::Store) is named.
    pub operation: &'static str,
    /// What may be done about it.
    pub class: ErrorClass,
    /// What happened.
    #[source]
    pub source: Box<dyn Error + Send + Sync>,
}

/// What happened, before the operation's name stands beside it.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// What DynamoDB answered. The modelled error is not kept, since it can carry items.
    #[error("{code}: {message}")]
    Service {
        code: String,
        message: String,
        transient: bool,
    },
    /// No answer, or none that can be read.
    #[error("{0}")]
    Transport(String),
    /// The request could not be built.
    #[error("{0}")]
    Request(String),
    /// Other writers were always faster.
    #[error("other writers kept interfering")]
    Contended,
    /// The table holds something else than the call requires.
    #[error("{0}")]
    Conflict(&'static str),
    #[error(transparent)]
    Damaged(#[from] Damaged),
    #[error(transparent)]
    Pack(#[from] PackError),
}

/// DynamoDB's names for what passes by itself (AWS, "Error handling with DynamoDB").
const TRANSIENT: [&str; 8] = [
    "InternalServerError",
    "LimitExceededException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "ServiceUnavailable",
    "ThrottlingException",
    "TransactionConflictException",
    "TransactionInProgressException",
];

impl<E: ProvideErrorMetadata + Error + 'static> From<SdkError<E>> for Cause {
    fn from(error: SdkError<E>) -> Self {
        match &error {
            SdkError::ServiceError(service) => {
                let code = service.err().code().unwrap_or("no code");
                Self::Service {
                    code: code.to_owned(),
                    message: service.err().message().unwrap_or_default().to_owned(),
                    transient: TRANSIENT.contains(&code)
                        || service.raw().status().is_server_error(),
                }
            }
            SdkError::ConstructionFailure(_) => {
                Self::Request(DisplayErrorContext(&error).to_string())
            }
            SdkError::DispatchFailure(dispatch) if dispatch.is_user() => {
                Self::Request(DisplayErrorContext(&error).to_string())
            }
            // A response error's own text would quote the answer.
            SdkError::ResponseError(_) => {
                Self::Transport("the answer could not be read".to_owned())
            }
            _ => Self::Transport(DisplayErrorContext(&error).to_string()),
        }
    }
}

impl Cause {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Transport(_) | Self::Contended => ErrorClass::Transient,
            Self::Service {
                transient: true, ..
            } => ErrorClass::Transient,
            Self::Conflict(_) => ErrorClass::Conflict,
            Self::Service {
                transient: false, ..
            }
            | Self::Request(_)
            | Self::Damaged(_)
            | Self::Pack(_) => ErrorClass::Internal,
        }
    }

    /// Names the operation that failed for this.
    pub(super) fn of(self, operation: &'static str) -> StoreError {
        StoreError {
            operation,
            class: self.class(),
            source: Box::new(self),
        }
    }
}
