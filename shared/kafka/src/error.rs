//! Calls to Kafka that failed as a whole.

use std::fmt;

use rdkafka::error::KafkaError as RdKafkaError;

use crate::codes::ErrorCode;
use crate::meaning::CodeClass;
use offset_guard_domain::offset::Fault;
use offset_guard_domain::ports::{BrokerError, BrokerErrorClass};

/// A request of Kafka's admin protocol, by the name that librdkafka gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AdminRequest {
    /// The cluster's id.
    DescribeCluster,
    /// All groups.
    ListConsumerGroups,
    /// One group's state and members.
    DescribeConsumerGroups,
    /// Committed offsets (OffsetFetch).
    ListConsumerGroupOffsets,
    /// Topic ids, partitions and leaders (Metadata).
    DescribeTopics,
    /// Log start, last stable offset, high watermark, offset of a timestamp.
    ListOffsets,
    /// What a topic is configured to be.
    DescribeConfigs,
}

impl fmt::Display for AdminRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A call to Kafka that failed as a whole.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KafkaError {
    /// librdkafka refuses the settings. The reason names the property and never its value.
    #[error("cannot build a Kafka client from these settings: {reason}")]
    Settings { reason: String },
    #[error("{request} failed with {code}{}", after(*.connection))]
    Request {
        request: AdminRequest,
        code: ErrorCode,
        /// The last error of a connection, which is often the reason for a time-out.
        connection: Option<ErrorCode>,
    },
    /// The blocking thread of the call panicked or was refused by a runtime that shuts down.
    #[error("{request} was interrupted")]
    Interrupted {
        request: AdminRequest,
        #[source]
        source: tokio::task::JoinError,
    },
}

impl KafkaError {
    /// librdkafka refused to create a client.
    pub(crate) fn from_creation(error: &RdKafkaError) -> Self {
        let reason = match error {
            // Its own text repeats the value, which may be a secret.
            RdKafkaError::ClientConfig(_, _, property, _) => {
                format!("librdkafka does not accept the property {property}")
            }
            RdKafkaError::ClientCreation(reason) => reason.clone(),
            _ => "librdkafka could not create it".to_owned(),
        };
        Self::Settings { reason }
    }

    /// What a caller can do about it.
    pub(crate) fn class(&self) -> CodeClass {
        match self {
            Self::Settings { .. } => CodeClass::Invalid,
            Self::Interrupted { .. } => CodeClass::Other,
            Self::Request {
                code, connection, ..
            } => match (code.class(), connection.map(ErrorCode::class)) {
                (CodeClass::Transient, Some(CodeClass::NotAuthorised)) => CodeClass::NotAuthorised,
                (class, _) => class,
            },
        }
    }

    /// The error as one partition's reading sees it.
    pub(crate) fn fault(&self) -> Fault {
        match self {
            Self::Request { code, .. } => code.fault(),
            Self::Settings { .. } => Fault::Failed {
                code: "SETTINGS".to_owned(),
            },
            Self::Interrupted { .. } => Fault::Failed {
                code: "INTERRUPTED".to_owned(),
            },
        }
    }
}

impl From<KafkaError> for BrokerError {
    fn from(error: KafkaError) -> Self {
        let mut message = error.to_string();
        if let Some(source) = std::error::Error::source(&error) {
            message = format!("{message}: {source}");
        }
        Self {
            class: match error.class() {
                CodeClass::Transient | CodeClass::ElementTransient | CodeClass::NewHandleNeeded => {
                    BrokerErrorClass::Transient
                }
                CodeClass::NotAuthorised | CodeClass::Invalid | CodeClass::Other => {
                    BrokerErrorClass::Lasting
                }
            },
            fault: error.fault(),
            message,
        }
    }
}

fn after(connection: Option<ErrorCode>) -> String {
    connection.map_or_else(String::new, |code| {
        format!(" (last on a connection: {code})")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_out_behind_which_a_login_failed_is_not_transient() {
        let error = |connection| KafkaError::Request {
            request: AdminRequest::DescribeCluster,
            code: ErrorCode::TIMED_OUT,
            connection,
        };
        assert_eq!(error(None).class(), CodeClass::Transient);
        let refused = error(Some(ErrorCode::AUTHENTICATION));
        assert_eq!(refused.class(), CodeClass::NotAuthorised);
        assert_eq!(
            refused.to_string(),
            "DescribeCluster failed with _TIMED_OUT (last on a connection: _AUTHENTICATION)"
        );
    }
}
