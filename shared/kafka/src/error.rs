//! The one place where Kafka's error codes get a meaning.

use std::fmt;

use rdkafka_sys::rd_kafka_resp_err_t as E;

use super::ffi;
use offset_guard_domain::offset::Fault;
use offset_guard_domain::ports::{BrokerError, BrokerErrorClass};
use offset_guard_domain::recovery::AlterAnswer;

/// An error code of the Kafka protocol (0 and above, `-1` is `UNKNOWN_SERVER_ERROR`) or of librdkafka (below -100).
///
/// A broker may be newer than this client, so any number is possible: this is an integer and never an enum.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub(super) i32);

impl ErrorCode {
    /// No error.
    pub(super) const NONE: Self = Self(0);
    /// The answer left this element out. Put on every element before a request is sent (no broker sends a code of
    /// librdkafka's own range), so that an element which the answer does not mention cannot pass for a good one.
    pub(super) const MISSING: Self = Self(E::RD_KAFKA_RESP_ERR__NOOP as i32);
    /// The client gave up waiting.
    pub(super) const TIMED_OUT: Self = Self(E::RD_KAFKA_RESP_ERR__TIMED_OUT as i32);
    /// librdkafka, or this crate in its place, refused the arguments before anything was sent.
    pub(super) const INVALID_ARG: Self = Self(E::RD_KAFKA_RESP_ERR__INVALID_ARG as i32);
    /// librdkafka answered with something that this crate did not ask for.
    pub(super) const BAD_MSG: Self = Self(E::RD_KAFKA_RESP_ERR__BAD_MSG as i32);

    /// A batch cannot be unpacked, or only to more than it may.
    pub(super) const BAD_COMPRESSION: Self = Self(E::RD_KAFKA_RESP_ERR__BAD_COMPRESSION as i32);
    /// There was no memory for something.
    pub(super) const CRIT_SYS_RESOURCE: Self = Self(E::RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE as i32);
    /// The principal may not see the group.
    pub(super) const GROUP_AUTH: Self = Self(GROUP_AUTH);
    /// A consumer's position is not in the log (any more), and it was told to stop there.
    pub(super) const AUTO_OFFSET_RESET: Self = Self(E::RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET as i32);

    /// The code behind an error of the `rdkafka` crate.
    pub(super) fn of(error: &rdkafka::error::KafkaError) -> Self {
        let code = error.rdkafka_error_code().map(|code| code as i32);
        code.map_or(Self::INVALID_ARG, Self)
    }

    /// `Ok` for code 0.
    pub(super) fn check(self) -> Result<(), Self> {
        if self == Self::NONE {
            Ok(())
        } else {
            Err(self)
        }
    }

    /// The code's name as Kafka and librdkafka write it, such as `NOT_COORDINATOR` or `_TIMED_OUT`.
    #[must_use]
    pub fn name(self) -> String {
        if self == Self::MISSING {
            "MISSING_FROM_ANSWER".to_owned()
        } else {
            ffi::error_name(self.0)
        }
    }

    /// What a caller can do about it.
    #[must_use]
    pub fn class(self) -> ErrorClass {
        match self.0 {
            NOT_COORDINATOR | COORDINATOR_NOT_AVAILABLE | FATAL | DESTROY => {
                ErrorClass::NewHandleNeeded
            }
            COORDINATOR_LOAD_IN_PROGRESS
            | REQUEST_TIMED_OUT
            | NETWORK_EXCEPTION
            | THROTTLED
            | TIMED_OUT
            | TIMED_OUT_QUEUE
            | TRANSPORT
            | ALL_BROKERS_DOWN
            | RESOLVE
            | WAIT_COORD
            | WAIT_CACHE => ErrorClass::Transient,
            LEADER_NOT_AVAILABLE
            | NOT_LEADER
            | REPLICA_NOT_AVAILABLE
            | BROKER_NOT_AVAILABLE
            | OFFSET_NOT_AVAILABLE
            | STORAGE_ERROR
            | FENCED_LEADER_EPOCH
            | UNKNOWN_LEADER_EPOCH
            | UNSTABLE
            | NO_LEADERS
            | DESTROY_BROKER
            | UNKNOWN_TOPIC_OR_PART
            | MISSING => ErrorClass::ElementTransient,
            TOPIC_AUTH | GROUP_AUTH | CLUSTER_AUTH | SASL_FAILED | AUTHENTICATION | SSL => {
                ErrorClass::NotAuthorised
            }
            INVALID_ARG | INVALID_GROUP_ID | INVALID_REQUEST | UNSUPPORTED_VERSION
            | UNSUPPORTED_FEATURE => ErrorClass::Invalid,
            _ => ErrorClass::Other,
        }
    }

    /// What the code says about one partition, one topic or one group.
    #[must_use]
    pub fn fault(self) -> Fault {
        match self.0 {
            UNSTABLE => Fault::Unstable,
            UNKNOWN_TOPIC_OR_PART | UNKNOWN_TOPIC_ID | UNKNOWN_TOPIC | UNKNOWN_PARTITION => {
                Fault::TopicGone
            }
            TOPIC_AUTH | GROUP_AUTH | CLUSTER_AUTH => Fault::NotAuthorised,
            // librdkafka answers `_NOENT` where no partition of a ListOffsets call has a leader.
            LEADER_NOT_AVAILABLE | NO_LEADERS => Fault::NoLeader,
            _ => Fault::Failed { code: self.name() },
        }
    }

    /// What the code says about a commit (or its deletion) from outside the group.
    ///
    /// Rejected is only what the coordinator is known to check before it writes. A coordinator that loses its
    /// partition answers `NOT_COORDINATOR` to writes that are already replicated, and one of 4.x answers
    /// `COORDINATOR_NOT_AVAILABLE` to writes that timed out: these, and every code that is not listed, are unknown.
    pub(super) fn alter_answer(self) -> AlterAnswer {
        match self.0 {
            0 => AlterAnswer::Accepted,
            UNKNOWN_MEMBER_ID
            | REBALANCE_IN_PROGRESS
            | ILLEGAL_GENERATION
            | STALE_MEMBER_EPOCH
            | FENCED_MEMBER_EPOCH
            | FENCED_INSTANCE_ID
            | NON_EMPTY_GROUP
            | GROUP_SUBSCRIBED => AlterAnswer::GroupActive(self.name()),
            GROUP_ID_NOT_FOUND
            | INVALID_GROUP_ID
            | UNKNOWN_TOPIC_OR_PART
            | UNKNOWN_TOPIC_ID
            | TOPIC_AUTH
            | GROUP_AUTH
            | CLUSTER_AUTH
            | METADATA_TOO_LARGE
            | INVALID_COMMIT_OFFSET_SIZE
            | COORDINATOR_LOAD_IN_PROGRESS
            | INVALID_REQUEST
            | UNSUPPORTED_VERSION
            | UNSUPPORTED_FEATURE
            | INVALID_ARG => AlterAnswer::Rejected(self.name()),
            _ => AlterAnswer::Unknown(self.name()),
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}

/// What a caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// The cluster or the way to it; try again on the same handle.
    Transient,
    /// One partition's leader or transaction, or a topic that a broker which has just started does not know yet; a
    /// short wait often helps, a long one rarely does.
    ElementTransient,
    /// librdkafka keeps asking the coordinator that it knows, so only a new handle finds the new one.
    NewHandleNeeded,
    /// Credentials, certificates or ACLs.
    NotAuthorised,
    /// The request itself; it fails the same way each time.
    Invalid,
    /// Anything else.
    Other,
}

/// A request of Kafka's admin protocol, by the name that librdkafka gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
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

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A call to Kafka that failed as a whole.
#[derive(Debug, thiserror::Error)]
pub enum KafkaError {
    /// librdkafka refuses the settings. The reason names the property and never a value of it.
    #[error("cannot build a Kafka client from these settings: {reason}")]
    Settings {
        /// What librdkafka said.
        reason: String,
    },
    /// A request failed.
    #[error("{operation} failed with {code}{}", after(*.connection))]
    Request {
        /// The request.
        operation: Operation,
        /// Its error.
        code: ErrorCode,
        /// The last thing that went wrong on a connection, which is often the reason behind a time-out.
        connection: Option<ErrorCode>,
    },
    /// The blocking thread of the call panicked or was refused by a runtime that shuts down.
    #[error("{operation} was interrupted")]
    Interrupted {
        /// The request.
        operation: Operation,
        /// What the runtime said.
        #[source]
        source: tokio::task::JoinError,
    },
}

impl KafkaError {
    /// What a caller can do about it.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Settings { .. } => ErrorClass::Invalid,
            Self::Interrupted { .. } => ErrorClass::Other,
            Self::Request {
                code, connection, ..
            } => match (code.class(), connection.map(ErrorCode::class)) {
                (ErrorClass::Transient, Some(ErrorClass::NotAuthorised)) => {
                    ErrorClass::NotAuthorised
                }
                (class, _) => class,
            },
        }
    }

    /// The error as one partition's reading sees it.
    #[must_use]
    pub fn fault(&self) -> Fault {
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
                ErrorClass::Transient
                | ErrorClass::ElementTransient
                | ErrorClass::NewHandleNeeded => BrokerErrorClass::Transient,
                ErrorClass::NotAuthorised | ErrorClass::Invalid | ErrorClass::Other => {
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

const ALL_BROKERS_DOWN: i32 = E::RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN as i32;
const AUTHENTICATION: i32 = E::RD_KAFKA_RESP_ERR__AUTHENTICATION as i32;
const BROKER_NOT_AVAILABLE: i32 = E::RD_KAFKA_RESP_ERR_BROKER_NOT_AVAILABLE as i32;
const CLUSTER_AUTH: i32 = E::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED as i32;
const COORDINATOR_LOAD_IN_PROGRESS: i32 = E::RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS as i32;
const COORDINATOR_NOT_AVAILABLE: i32 = E::RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE as i32;
const DESTROY: i32 = E::RD_KAFKA_RESP_ERR__DESTROY as i32;
const DESTROY_BROKER: i32 = E::RD_KAFKA_RESP_ERR__DESTROY_BROKER as i32;
const FATAL: i32 = E::RD_KAFKA_RESP_ERR__FATAL as i32;
const FENCED_INSTANCE_ID: i32 = E::RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID as i32;
const FENCED_LEADER_EPOCH: i32 = E::RD_KAFKA_RESP_ERR_FENCED_LEADER_EPOCH as i32;
const FENCED_MEMBER_EPOCH: i32 = E::RD_KAFKA_RESP_ERR_FENCED_MEMBER_EPOCH as i32;
const GROUP_AUTH: i32 = E::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED as i32;
const GROUP_ID_NOT_FOUND: i32 = E::RD_KAFKA_RESP_ERR_GROUP_ID_NOT_FOUND as i32;
const GROUP_SUBSCRIBED: i32 = E::RD_KAFKA_RESP_ERR_GROUP_SUBSCRIBED_TO_TOPIC as i32;
const ILLEGAL_GENERATION: i32 = E::RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION as i32;
const INVALID_ARG: i32 = E::RD_KAFKA_RESP_ERR__INVALID_ARG as i32;
const INVALID_COMMIT_OFFSET_SIZE: i32 = E::RD_KAFKA_RESP_ERR_INVALID_COMMIT_OFFSET_SIZE as i32;
const INVALID_GROUP_ID: i32 = E::RD_KAFKA_RESP_ERR_INVALID_GROUP_ID as i32;
const INVALID_REQUEST: i32 = E::RD_KAFKA_RESP_ERR_INVALID_REQUEST as i32;
const LEADER_NOT_AVAILABLE: i32 = E::RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE as i32;
const METADATA_TOO_LARGE: i32 = E::RD_KAFKA_RESP_ERR_OFFSET_METADATA_TOO_LARGE as i32;
const MISSING: i32 = ErrorCode::MISSING.0;
const NETWORK_EXCEPTION: i32 = E::RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION as i32;
const NO_LEADERS: i32 = E::RD_KAFKA_RESP_ERR__NOENT as i32;
const NON_EMPTY_GROUP: i32 = E::RD_KAFKA_RESP_ERR_NON_EMPTY_GROUP as i32;
const NOT_COORDINATOR: i32 = E::RD_KAFKA_RESP_ERR_NOT_COORDINATOR as i32;
const NOT_LEADER: i32 = E::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION as i32;
const OFFSET_NOT_AVAILABLE: i32 = E::RD_KAFKA_RESP_ERR_OFFSET_NOT_AVAILABLE as i32;
const REBALANCE_IN_PROGRESS: i32 = E::RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS as i32;
const REPLICA_NOT_AVAILABLE: i32 = E::RD_KAFKA_RESP_ERR_REPLICA_NOT_AVAILABLE as i32;
const REQUEST_TIMED_OUT: i32 = E::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT as i32;
const RESOLVE: i32 = E::RD_KAFKA_RESP_ERR__RESOLVE as i32;
const SASL_FAILED: i32 = E::RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED as i32;
const SSL: i32 = E::RD_KAFKA_RESP_ERR__SSL as i32;
const STALE_MEMBER_EPOCH: i32 = E::RD_KAFKA_RESP_ERR_STALE_MEMBER_EPOCH as i32;
const STORAGE_ERROR: i32 = E::RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR as i32;
const THROTTLED: i32 = E::RD_KAFKA_RESP_ERR_THROTTLING_QUOTA_EXCEEDED as i32;
const TIMED_OUT: i32 = ErrorCode::TIMED_OUT.0;
const TIMED_OUT_QUEUE: i32 = E::RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE as i32;
const TOPIC_AUTH: i32 = E::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED as i32;
const TRANSPORT: i32 = E::RD_KAFKA_RESP_ERR__TRANSPORT as i32;
const UNKNOWN_LEADER_EPOCH: i32 = E::RD_KAFKA_RESP_ERR_UNKNOWN_LEADER_EPOCH as i32;
const UNKNOWN_MEMBER_ID: i32 = E::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID as i32;
const UNKNOWN_PARTITION: i32 = E::RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION as i32;
const UNKNOWN_TOPIC: i32 = E::RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC as i32;
const UNKNOWN_TOPIC_ID: i32 = E::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_ID as i32;
const UNKNOWN_TOPIC_OR_PART: i32 = E::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART as i32;
const UNSTABLE: i32 = E::RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT as i32;
const UNSUPPORTED_FEATURE: i32 = E::RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE as i32;
const UNSUPPORTED_VERSION: i32 = E::RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION as i32;
const WAIT_CACHE: i32 = E::RD_KAFKA_RESP_ERR__WAIT_CACHE as i32;
const WAIT_COORD: i32 = E::RD_KAFKA_RESP_ERR__WAIT_COORD as i32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_a_fact_or_a_failure_by_its_name() {
        let failed = |code: &str| Fault::Failed {
            code: code.to_owned(),
        };
        let cases = [
            (88, Fault::Unstable),
            (3, Fault::TopicGone),
            (100, Fault::TopicGone),
            (29, Fault::NotAuthorised),
            (30, Fault::NotAuthorised),
            (5, Fault::NoLeader),
            (7, failed("REQUEST_TIMED_OUT")),
            (-185, failed("_TIMED_OUT")),
            (-1, failed("UNKNOWN")),
            (ErrorCode::MISSING.0, failed("MISSING_FROM_ANSWER")),
            (9999, failed("ERR_9999?")),
            (i32::MIN, failed("ERR_-2147483648?")),
        ];
        for (code, fault) in cases {
            assert_eq!(ErrorCode(code).fault(), fault, "{code}");
        }
    }

    #[test]
    fn only_what_is_checked_before_the_write_is_a_rejection() {
        let active = [25, 27, 22, 113, 110, 82, 68, 86];
        let rejected = [69, 24, 3, 100, 29, 30, 12, 28, 14];
        let unknown = [
            16,
            15,
            7,
            19,
            20,
            -185,
            -195,
            -1,
            ErrorCode::MISSING.0,
            9999,
        ];
        for code in active.map(ErrorCode) {
            assert_eq!(code.alter_answer(), AlterAnswer::GroupActive(code.name()));
        }
        for code in rejected.map(ErrorCode) {
            assert_eq!(code.alter_answer(), AlterAnswer::Rejected(code.name()));
        }
        for code in unknown.map(ErrorCode) {
            assert_eq!(code.alter_answer(), AlterAnswer::Unknown(code.name()));
        }
        assert_eq!(ErrorCode::NONE.alter_answer(), AlterAnswer::Accepted);
    }

    #[test]
    fn a_time_out_behind_which_a_login_failed_is_not_transient() {
        let error = |connection| KafkaError::Request {
            operation: Operation::DescribeCluster,
            code: ErrorCode::TIMED_OUT,
            connection,
        };
        assert_eq!(error(None).class(), ErrorClass::Transient);
        let refused = error(Some(ErrorCode(AUTHENTICATION)));
        assert_eq!(refused.class(), ErrorClass::NotAuthorised);
        assert_eq!(
            refused.to_string(),
            "DescribeCluster failed with _TIMED_OUT (last on a connection: _AUTHENTICATION)"
        );
    }
}
