//! The error codes that this crate tells apart, as numbers.

use rdkafka_sys::rd_kafka_resp_err_t as E;

/// An error code of the Kafka protocol (0 and above, `-1` is `UNKNOWN_SERVER_ERROR`) or of librdkafka (below -100).
///
/// A broker may be newer than this client, so any number is possible: this is an integer and never an enum.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ErrorCode(pub(crate) i32);

/// Codes of the Kafka protocol.
impl ErrorCode {
    /// No error.
    pub(crate) const NONE: Self = Self(E::RD_KAFKA_RESP_ERR_NO_ERROR as i32);
    pub(crate) const BROKER_NOT_AVAILABLE: Self =
        Self(E::RD_KAFKA_RESP_ERR_BROKER_NOT_AVAILABLE as i32);
    pub(crate) const CLUSTER_AUTH: Self =
        Self(E::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED as i32);
    pub(crate) const COORDINATOR_LOAD_IN_PROGRESS: Self =
        Self(E::RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS as i32);
    pub(crate) const COORDINATOR_NOT_AVAILABLE: Self =
        Self(E::RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE as i32);
    pub(crate) const FENCED_INSTANCE_ID: Self =
        Self(E::RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID as i32);
    pub(crate) const FENCED_LEADER_EPOCH: Self =
        Self(E::RD_KAFKA_RESP_ERR_FENCED_LEADER_EPOCH as i32);
    pub(crate) const FENCED_MEMBER_EPOCH: Self =
        Self(E::RD_KAFKA_RESP_ERR_FENCED_MEMBER_EPOCH as i32);
    /// The principal may not see the group.
    pub(crate) const GROUP_AUTH: Self =
        Self(E::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED as i32);
    pub(crate) const GROUP_ID_NOT_FOUND: Self =
        Self(E::RD_KAFKA_RESP_ERR_GROUP_ID_NOT_FOUND as i32);
    pub(crate) const GROUP_SUBSCRIBED: Self =
        Self(E::RD_KAFKA_RESP_ERR_GROUP_SUBSCRIBED_TO_TOPIC as i32);
    pub(crate) const ILLEGAL_GENERATION: Self =
        Self(E::RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION as i32);
    pub(crate) const INVALID_COMMIT_OFFSET_SIZE: Self =
        Self(E::RD_KAFKA_RESP_ERR_INVALID_COMMIT_OFFSET_SIZE as i32);
    pub(crate) const INVALID_GROUP_ID: Self = Self(E::RD_KAFKA_RESP_ERR_INVALID_GROUP_ID as i32);
    pub(crate) const INVALID_REQUEST: Self = Self(E::RD_KAFKA_RESP_ERR_INVALID_REQUEST as i32);
    pub(crate) const LEADER_NOT_AVAILABLE: Self =
        Self(E::RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE as i32);
    pub(crate) const METADATA_TOO_LARGE: Self =
        Self(E::RD_KAFKA_RESP_ERR_OFFSET_METADATA_TOO_LARGE as i32);
    pub(crate) const NETWORK_EXCEPTION: Self = Self(E::RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION as i32);
    pub(crate) const NON_EMPTY_GROUP: Self = Self(E::RD_KAFKA_RESP_ERR_NON_EMPTY_GROUP as i32);
    pub(crate) const NOT_COORDINATOR: Self = Self(E::RD_KAFKA_RESP_ERR_NOT_COORDINATOR as i32);
    pub(crate) const NOT_LEADER: Self = Self(E::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION as i32);
    pub(crate) const OFFSET_NOT_AVAILABLE: Self =
        Self(E::RD_KAFKA_RESP_ERR_OFFSET_NOT_AVAILABLE as i32);
    pub(crate) const REBALANCE_IN_PROGRESS: Self =
        Self(E::RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS as i32);
    pub(crate) const REPLICA_NOT_AVAILABLE: Self =
        Self(E::RD_KAFKA_RESP_ERR_REPLICA_NOT_AVAILABLE as i32);
    pub(crate) const REQUEST_TIMED_OUT: Self = Self(E::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT as i32);
    pub(crate) const SASL_FAILED: Self =
        Self(E::RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED as i32);
    pub(crate) const STALE_MEMBER_EPOCH: Self =
        Self(E::RD_KAFKA_RESP_ERR_STALE_MEMBER_EPOCH as i32);
    pub(crate) const STORAGE_ERROR: Self = Self(E::RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR as i32);
    pub(crate) const THROTTLED: Self = Self(E::RD_KAFKA_RESP_ERR_THROTTLING_QUOTA_EXCEEDED as i32);
    pub(crate) const TOPIC_AUTH: Self =
        Self(E::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED as i32);
    pub(crate) const UNKNOWN_LEADER_EPOCH: Self =
        Self(E::RD_KAFKA_RESP_ERR_UNKNOWN_LEADER_EPOCH as i32);
    pub(crate) const UNKNOWN_MEMBER_ID: Self = Self(E::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID as i32);
    pub(crate) const UNKNOWN_TOPIC_ID: Self = Self(E::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_ID as i32);
    pub(crate) const UNKNOWN_TOPIC_OR_PART: Self =
        Self(E::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART as i32);
    /// An open transaction may still change the commit.
    pub(crate) const UNSTABLE: Self = Self(E::RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT as i32);
    pub(crate) const UNSUPPORTED_VERSION: Self =
        Self(E::RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION as i32);
}

/// Codes of librdkafka, for what it found out without a broker.
impl ErrorCode {
    pub(crate) const ALL_BROKERS_DOWN: Self = Self(E::RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN as i32);
    pub(crate) const AUTHENTICATION: Self = Self(E::RD_KAFKA_RESP_ERR__AUTHENTICATION as i32);
    /// A consumer's position is not in the log (any more), and the consumer is configured to stop there.
    pub(crate) const AUTO_OFFSET_RESET: Self = Self(E::RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET as i32);
    /// A batch cannot be unpacked, or only to more bytes than are allowed.
    pub(crate) const BAD_COMPRESSION: Self = Self(E::RD_KAFKA_RESP_ERR__BAD_COMPRESSION as i32);
    /// librdkafka answered with something that this crate did not ask for.
    pub(crate) const BAD_MSG: Self = Self(E::RD_KAFKA_RESP_ERR__BAD_MSG as i32);
    /// An allocation failed.
    pub(crate) const CRIT_SYS_RESOURCE: Self = Self(E::RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE as i32);
    pub(crate) const DESTROY: Self = Self(E::RD_KAFKA_RESP_ERR__DESTROY as i32);
    pub(crate) const DESTROY_BROKER: Self = Self(E::RD_KAFKA_RESP_ERR__DESTROY_BROKER as i32);
    pub(crate) const FATAL: Self = Self(E::RD_KAFKA_RESP_ERR__FATAL as i32);
    /// librdkafka, or this crate in its place, refused the arguments before anything was sent.
    pub(crate) const INVALID_ARG: Self = Self(E::RD_KAFKA_RESP_ERR__INVALID_ARG as i32);
    /// The answer left this element out. It is put on every element before a request is sent (no broker sends a code of
    /// librdkafka's own range), so that an element which the answer does not mention cannot pass for a success.
    pub(crate) const MISSING: Self = Self(E::RD_KAFKA_RESP_ERR__NOOP as i32);
    /// No partition of a ListOffsets call has a leader.
    pub(crate) const NO_LEADERS: Self = Self(E::RD_KAFKA_RESP_ERR__NOENT as i32);
    pub(crate) const RESOLVE: Self = Self(E::RD_KAFKA_RESP_ERR__RESOLVE as i32);
    pub(crate) const SSL: Self = Self(E::RD_KAFKA_RESP_ERR__SSL as i32);
    /// The client gave up waiting.
    pub(crate) const TIMED_OUT: Self = Self(E::RD_KAFKA_RESP_ERR__TIMED_OUT as i32);
    pub(crate) const TIMED_OUT_QUEUE: Self = Self(E::RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE as i32);
    pub(crate) const TRANSPORT: Self = Self(E::RD_KAFKA_RESP_ERR__TRANSPORT as i32);
    pub(crate) const UNKNOWN_PARTITION: Self = Self(E::RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION as i32);
    pub(crate) const UNKNOWN_TOPIC: Self = Self(E::RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC as i32);
    pub(crate) const UNSUPPORTED_FEATURE: Self =
        Self(E::RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE as i32);
    pub(crate) const WAIT_CACHE: Self = Self(E::RD_KAFKA_RESP_ERR__WAIT_CACHE as i32);
    pub(crate) const WAIT_COORD: Self = Self(E::RD_KAFKA_RESP_ERR__WAIT_COORD as i32);
}

impl ErrorCode {
    /// The code behind an error of the `rdkafka` crate.
    pub(crate) fn from_rdkafka(error: &rdkafka::error::KafkaError) -> Self {
        let code = error.rdkafka_error_code().map(|code| code as i32);
        code.map_or(Self::INVALID_ARG, Self)
    }

    /// `Ok` for code 0.
    pub(crate) fn check(self) -> Result<(), Self> {
        if self == Self::NONE {
            Ok(())
        } else {
            Err(self)
        }
    }
}
