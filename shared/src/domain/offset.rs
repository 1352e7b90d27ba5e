//! Positions in a log: what a group committed, and where the log begins and ends.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The id that a Kafka cluster was formatted with (`DescribeCluster`, `Metadata`).
///
/// A bootstrap address can be pointed at another cluster overnight; this id cannot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClusterId(pub String);

/// The exact name of a consumer group (`group.id`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GroupId(pub String);

/// The id that a topic got when it was created (KIP-516).
///
/// Two topics of one name and different ids are different logs: an offset of one means nothing in the other.
/// Brokers that do not know the id send all zeroes, which is read as "unknown" and never as a value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TopicId([u8; 16]);

impl TopicId {
    /// The id in `bytes`, or `None` for the all-zero id that stands for "unknown".
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Option<Self> {
        (bytes != [0; 16]).then_some(Self(bytes))
    }
}

impl fmt::Display for TopicId {
    /// As Kafka's own tools print it: URL-safe base64 without padding.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&data_encoding::BASE64URL_NOPAD.encode(&self.0))
    }
}

impl fmt::Debug for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TopicId({self})")
    }
}

/// One partition of one topic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TopicPartition {
    /// The topic's name.
    pub topic: String,
    /// The partition's number, from 0.
    pub partition: i32,
}

impl TopicPartition {
    /// The partition `partition` of `topic`.
    pub fn new(topic: impl Into<String>, partition: i32) -> Self {
        Self {
            topic: topic.into(),
            partition,
        }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// What a group committed for one partition: the triple that Kafka keeps, and all of it.
///
/// Kafka Streams keeps its stream time in the metadata and consumers use the epoch to notice a truncated log,
/// so an offset restored without the other two is not the position that it was.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CommittedOffset {
    /// The next offset that the group will read.
    pub offset: i64,
    /// The leader epoch that was committed with it (KIP-320); `None` where the wire says -1.
    pub leader_epoch: Option<i32>,
    /// The metadata that was committed with it: bytes that belong to the client, at most `offset.metadata.max.bytes`.
    pub metadata: Vec<u8>,
}

impl CommittedOffset {
    /// A bare offset: no epoch, no metadata.
    #[must_use]
    pub fn bare(offset: i64) -> Self {
        Self {
            offset,
            leader_epoch: None,
            metadata: Vec::new(),
        }
    }
}

/// Where one partition's log begins and ends, read in an order in which a race cannot invent a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Watermarks {
    /// The first offset that still exists (`ListOffsets` earliest).
    pub log_start: i64,
    /// The first offset that a `read_committed` consumer cannot read yet; never above `high`.
    pub last_stable: i64,
    /// The high watermark: one past the last replicated record.
    pub high: i64,
    /// The partition's current leader epoch, where the broker said it.
    pub leader_epoch: Option<i32>,
}

impl Watermarks {
    /// Records between a position and the high watermark; 0 for a position beyond it.
    ///
    /// An upper bound: transaction markers and compaction take up offsets too.
    #[must_use]
    pub fn lag(&self, offset: i64) -> u64 {
        distance(offset, self.high)
    }
}

/// How many offsets lie in `[from, to)`; 0 where `to` is not beyond `from`.
#[must_use]
pub fn distance(from: i64, to: i64) -> u64 {
    if to > from { from.abs_diff(to) } else { 0 }
}

/// Why a partition's reading holds no value.
///
/// The first four are facts about the world; [`Fault::Failed`] is a reading that did not happen.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "fault", rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Fault {
    /// A transaction has committed offsets that are not decided yet (`UNSTABLE_OFFSET_COMMIT`, KIP-447).
    Unstable,
    /// The broker does not know this topic or partition (`UNKNOWN_TOPIC_OR_PARTITION`).
    TopicGone,
    /// The principal may not see or do this (`*_AUTHORIZATION_FAILED`).
    NotAuthorised,
    /// The partition has no leader at the moment.
    NoLeader,
    /// Anything else: the request failed, timed out, or the answer left this partition out.
    Failed {
        /// The error's name in Kafka's protocol or in librdkafka, such as `REQUEST_TIMED_OUT`.
        code: String,
    },
}

impl Fault {
    /// Of something that was asked for and that the answer left out.
    #[must_use]
    pub fn missing() -> Self {
        Self::Failed {
            code: "MISSING_FROM_ANSWER".to_owned(),
        }
    }

    /// Of a position before the start or beyond the end of its log (`OFFSET_OUT_OF_RANGE`): nothing is there.
    #[must_use]
    pub fn out_of_range() -> Self {
        Self::Failed {
            code: "OFFSET_OUT_OF_RANGE".to_owned(),
        }
    }

    /// Of a record at which the process that reads records was ended: what lies there does not fit into its memory.
    #[must_use]
    pub fn reader_ended() -> Self {
        Self::Failed {
            code: "READER_ENDED".to_owned(),
        }
    }

    /// Of an answer that is about another group than the one that was asked for.
    #[must_use]
    pub fn another_group() -> Self {
        Self::Failed {
            code: "ANOTHER_GROUP_ANSWERED".to_owned(),
        }
    }
}

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unstable => f.write_str("a transaction has pending offset commits"),
            Self::TopicGone => f.write_str("the broker does not know this topic or partition"),
            Self::NotAuthorised => f.write_str("not authorised to read it"),
            Self::NoLeader => f.write_str("the partition has no leader"),
            Self::Failed { code } => write!(f, "the reading failed ({code})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_all_zero_topic_id_is_unknown() {
        assert_eq!(TopicId::from_bytes([0; 16]), None);
        assert!(TopicId::from_bytes([1; 16]).is_some());
    }

    #[test]
    fn lag_never_wraps_below_zero() {
        let log = Watermarks {
            log_start: 0,
            last_stable: 10,
            high: 10,
            leader_epoch: None,
        };
        assert_eq!(log.lag(4), 6);
        assert_eq!(log.lag(10), 0);
        assert_eq!(log.lag(50), 0);
        assert_eq!(distance(i64::MIN, i64::MAX), u64::MAX);
    }
}
