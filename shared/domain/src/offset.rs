//! Positions in a log: what a group committed, and where the log begins and ends.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::text::count;

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

impl GroupId {
    /// The longest name of a group that can be looked after, in bytes of UTF-8, of which `#` and `%` take three each. Kafka
    /// takes longer ones; a sort key of the table holds 1,024 bytes, and some hold a group's name and what it is of.
    pub const LONGEST: usize = 1_000;

    /// Whether a group of this name can be looked after.
    ///
    /// # Errors
    /// It is empty or too long.
    pub fn check(&self) -> Result<(), UnusableName> {
        let escaped = self.0.bytes().filter(|byte| matches!(byte, b'#' | b'%'));
        let bytes = self.0.len() + 2 * escaped.count();
        if (1..=Self::LONGEST).contains(&bytes) {
            Ok(())
        } else {
            Err(UnusableName { bytes })
        }
    }
}

/// A group's name that no key of the table can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnusableName {
    bytes: usize,
}

impl std::error::Error for UnusableName {}

impl fmt::Display for UnusableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a group's name of {} cannot be kept; it may have 1 to {} of UTF-8, of which # and % take three each",
            count(self.bytes, "byte"),
            count(GroupId::LONGEST, "byte")
        )
    }
}

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
    #[serde(with = "as_base64")]
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

/// The first record at or after a time, in the order of offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundByTime {
    /// Its offset.
    pub offset: i64,
    /// How it is dated; `None` where that was not told or is no time.
    pub dated: Option<Timestamp>,
    /// Whether a record further on is dated later than it; `None` where that was not asked.
    pub overtaken: Option<bool>,
}

impl FoundByTime {
    /// Beyond this far after the time asked for a record is suspicious. Nobody is warned of a pause of a minute.
    const FAR: SignedDuration = SignedDuration::from_mins(1);

    /// Whether it is dated so long after the time asked for that it is to be asked what comes behind it: from when on.
    ///
    /// A record that a producer dated far ahead is found for every time up to its own, wherever it lies. One question
    /// shows it where it is the latest of its log: then nothing behind it is dated later, although records follow. It
    /// does not show a record that is dated ahead but not beyond the log's newest, and records that are dated too early.
    #[must_use]
    pub fn to_ask_behind(&self, asked: Timestamp) -> Option<Timestamp> {
        let dated = self.dated?;
        let far = dated.duration_since(asked) > Self::FAR;
        let behind = dated.checked_add(SignedDuration::from_millis(1)).ok();
        behind.filter(|_| far)
    }

    /// Whether records follow, and none of them is dated later: how it is dated.
    #[must_use]
    pub fn is_out_of_order(&self, high: i64) -> Option<Timestamp> {
        let follows = self.offset.checked_add(1).is_some_and(|next| next < high);
        self.dated
            .filter(|_| follows && self.overtaken == Some(false))
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

/// Bytes as base64, which takes a third of the room of a list of numbers.
///
/// Earlier releases wrote the list, which is read as well. Of no bytes the list is still written, because their readers
/// know nothing else: while a release is rolled out, both kinds of reader look at the same items.
mod as_base64 {
    use std::fmt;

    use data_encoding::BASE64;
    use serde::de::{Error, SeqAccess, Visitor};
    use serde::{Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        if bytes.is_empty() {
            bytes.serialize(serializer)
        } else {
            serializer.serialize_str(&BASE64.encode(bytes))
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        deserializer.deserialize_any(Bytes)
    }

    struct Bytes;

    impl<'de> Visitor<'de> for Bytes {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("base64, or a list of bytes")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Vec<u8>, E> {
            // The text is a client's own and stands in no error.
            BASE64
                .decode(text.as_bytes())
                .map_err(|_| E::custom("metadata is not base64"))
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<u8>, A::Error> {
            let mut bytes = Vec::new();
            while let Some(byte) = seq.next_element()? {
                bytes.push(byte);
            }
            Ok(bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_written_as_base64_and_the_list_of_earlier_releases_is_read() {
        let commit = |metadata: &[u8]| CommittedOffset {
            metadata: metadata.to_vec(),
            ..CommittedOffset::bare(31)
        };
        let json = |metadata: &str| {
            format!(r#"{{"offset":31,"leader_epoch":null,"metadata":{metadata}}}"#)
        };
        let written = |metadata: &[u8]| serde_json::to_string(&commit(metadata)).unwrap();
        let read = |text: &str| serde_json::from_str::<CommittedOffset>(text);
        assert_eq!(written(b"then"), json(r#""dGhlbg==""#));
        assert_eq!(read(&json(r#""dGhlbg==""#)).unwrap(), commit(b"then"));
        assert_eq!(read(&json("[116,104,101,110]")).unwrap(), commit(b"then"));
        // What earlier releases read as well.
        assert_eq!(written(b""), json("[]"));
        assert_eq!(read(&json("[]")).unwrap(), commit(b""));
        assert_eq!(read(&json(r#""""#)).unwrap(), commit(b""));
        let error = read(&json(r#""a secret""#)).unwrap_err();
        assert!(!error.to_string().contains("secret"));
        assert!(read(&json("[256]")).is_err());
    }

    #[test]
    fn an_all_zero_topic_id_is_unknown() {
        assert_eq!(TopicId::from_bytes([0; 16]), None);
        assert!(TopicId::from_bytes([1; 16]).is_some());
    }

    #[test]
    fn a_groups_name_has_one_limit_in_bytes() {
        let check = |name: String| GroupId(name).check().map_err(|error| error.to_string());
        for good in [
            "a".repeat(1_000),
            "注".repeat(300),
            "#".repeat(333),
            " ".to_owned(),
        ] {
            assert_eq!(check(good.clone()), Ok(()), "{good}");
        }
        for (bad, bytes) in [
            (String::new(), "0 bytes"),
            ("a".repeat(1_001), "1,001 bytes"),
            ("注".repeat(334), "1,002 bytes"),
            ("#".repeat(334), "1,002 bytes"),
        ] {
            let problem = check(bad).unwrap_err();
            assert!(
                problem.starts_with(&format!("a group's name of {bytes} cannot")),
                "{problem}"
            );
        }
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
