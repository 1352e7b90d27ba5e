//! The one place where error codes get a meaning.

use crate::codes::ErrorCode;
use offset_guard_domain::offset::Fault;
use offset_guard_domain::recovery::AlterAnswer;

/// What a caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CodeClass {
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

impl ErrorCode {
    /// What a caller can do about it.
    pub(crate) fn class(self) -> CodeClass {
        match self {
            Self::NOT_COORDINATOR
            | Self::COORDINATOR_NOT_AVAILABLE
            | Self::FATAL
            | Self::DESTROY => CodeClass::NewHandleNeeded,
            Self::COORDINATOR_LOAD_IN_PROGRESS
            | Self::REQUEST_TIMED_OUT
            | Self::NETWORK_EXCEPTION
            | Self::THROTTLED
            | Self::TIMED_OUT
            | Self::TIMED_OUT_QUEUE
            | Self::TRANSPORT
            | Self::ALL_BROKERS_DOWN
            | Self::RESOLVE
            | Self::WAIT_COORD
            | Self::WAIT_CACHE => CodeClass::Transient,
            Self::LEADER_NOT_AVAILABLE
            | Self::NOT_LEADER
            | Self::REPLICA_NOT_AVAILABLE
            | Self::BROKER_NOT_AVAILABLE
            | Self::OFFSET_NOT_AVAILABLE
            | Self::STORAGE_ERROR
            | Self::FENCED_LEADER_EPOCH
            | Self::UNKNOWN_LEADER_EPOCH
            | Self::UNSTABLE
            | Self::NO_LEADERS
            | Self::DESTROY_BROKER
            | Self::UNKNOWN_TOPIC_OR_PART
            | Self::MISSING => CodeClass::ElementTransient,
            Self::TOPIC_AUTH
            | Self::GROUP_AUTH
            | Self::CLUSTER_AUTH
            | Self::SASL_FAILED
            | Self::AUTHENTICATION
            | Self::SSL => CodeClass::NotAuthorised,
            Self::INVALID_ARG
            | Self::INVALID_GROUP_ID
            | Self::INVALID_REQUEST
            | Self::UNSUPPORTED_VERSION
            | Self::UNSUPPORTED_FEATURE => CodeClass::Invalid,
            _ => CodeClass::Other,
        }
    }

    /// What the code says about one partition, one topic or one group.
    pub(crate) fn fault(self) -> Fault {
        match self {
            Self::UNSTABLE => Fault::Unstable,
            Self::UNKNOWN_TOPIC_OR_PART
            | Self::UNKNOWN_TOPIC_ID
            | Self::UNKNOWN_TOPIC
            | Self::UNKNOWN_PARTITION => Fault::TopicGone,
            Self::TOPIC_AUTH | Self::GROUP_AUTH | Self::CLUSTER_AUTH => Fault::NotAuthorised,
            // librdkafka answers `_NOENT` where no partition of a ListOffsets call has a leader.
            Self::LEADER_NOT_AVAILABLE | Self::NO_LEADERS => Fault::NoLeader,
            _ => Fault::Failed { code: self.name() },
        }
    }

    /// What the code says about a commit (or its deletion) from outside the group.
    ///
    /// Rejected is only what the coordinator is known to check before it writes. A coordinator that loses its
    /// partition answers `NOT_COORDINATOR` to writes that are already replicated, and one of 4.x answers
    /// `COORDINATOR_NOT_AVAILABLE` to writes that timed out: these, and every code that is not listed, are unknown.
    pub(crate) fn alter_answer(self) -> AlterAnswer {
        match self {
            Self::NONE => AlterAnswer::Accepted,
            Self::UNKNOWN_MEMBER_ID
            | Self::REBALANCE_IN_PROGRESS
            | Self::ILLEGAL_GENERATION
            | Self::STALE_MEMBER_EPOCH
            | Self::FENCED_MEMBER_EPOCH
            | Self::FENCED_INSTANCE_ID
            | Self::NON_EMPTY_GROUP
            | Self::GROUP_SUBSCRIBED => AlterAnswer::GroupActive(self.name()),
            Self::GROUP_ID_NOT_FOUND
            | Self::INVALID_GROUP_ID
            | Self::UNKNOWN_TOPIC_OR_PART
            | Self::UNKNOWN_TOPIC_ID
            | Self::TOPIC_AUTH
            | Self::GROUP_AUTH
            | Self::CLUSTER_AUTH
            | Self::METADATA_TOO_LARGE
            | Self::INVALID_COMMIT_OFFSET_SIZE
            | Self::COORDINATOR_LOAD_IN_PROGRESS
            | Self::INVALID_REQUEST
            | Self::UNSUPPORTED_VERSION
            | Self::UNSUPPORTED_FEATURE
            | Self::INVALID_ARG => AlterAnswer::Rejected(self.name()),
            _ => AlterAnswer::Unknown(self.name()),
        }
    }
}

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
}
