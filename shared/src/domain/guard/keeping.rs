//! Which topics may keep records, and which not.

use super::record::{Header, Record};
use crate::domain::text::count;

/// What a topic is that may keep records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeepingTopic {
    /// How many partitions it has.
    pub partitions: i32,
    /// `cleanup.policy`.
    pub cleanup_policy: String,
    /// `max.message.bytes`.
    pub max_message_bytes: u64,
    /// `min.insync.replicas`.
    pub min_insync_replicas: u32,
    /// `retention.ms`; `None` for no limit.
    pub retention_ms: Option<u64>,
}

/// Bytes of a batch's header (`RecordBatch` of message format 2).
const BATCH_HEADER: u64 = 61;

/// Why the topic `name`, as `topic` describes it, cannot keep a copy of `record` with `headers`; `None` where it can.
#[must_use]
pub fn unfit(
    record: &Record,
    headers: &[Header],
    source: &str,
    name: &str,
    topic: Option<&KeepingTopic>,
) -> Option<String> {
    if name == source {
        return Some("it is the topic that the record is in".to_owned());
    }
    let Some(topic) = topic else {
        return Some("it does not exist, and is not created by this".to_owned());
    };
    if topic
        .cleanup_policy
        .split(',')
        .any(|policy| policy.trim() == "compact")
    {
        return Some(format!(
            "its cleanup.policy is {}: a later record of the same key would replace the copy",
            topic.cleanup_policy
        ));
    }
    let needed = batch_bytes(record.key.as_deref(), record.value.as_deref(), headers);
    (needed > topic.max_message_bytes).then(|| {
        format!(
            "the copy takes {}, and its max.message.bytes is {}",
            count(needed, "byte"),
            topic.max_message_bytes
        )
    })
}

/// What a person should know of a topic that can keep records, but not as safely as it should.
#[must_use]
pub fn caution(topic: &KeepingTopic) -> Option<String> {
    (topic.min_insync_replicas < 2).then(|| {
        format!(
            "its min.insync.replicas is {}: a copy may be on one broker alone",
            topic.min_insync_replicas
        )
    })
}

/// Bytes of a batch that holds one record and is not compressed, which is what `max.message.bytes` limits.
fn batch_bytes(key: Option<&[u8]>, value: Option<&[u8]>, headers: &[Header]) -> u64 {
    let field = |bytes: Option<&[u8]>| {
        // -1 for none takes one byte, as 0 does.
        let length = bytes.map_or(0, |bytes| bytes.len() as u64);
        varint_bytes(length) + length
    };
    let headers = varint_bytes(headers.len() as u64)
        + headers
            .iter()
            .map(|(name, value)| field(Some(name)) + field(value.as_deref()))
            .sum::<u64>();
    // Attributes, and the differences of timestamp and offset to the batch's own, which are 0.
    let record = 3 + field(key) + field(value) + headers;
    BATCH_HEADER + varint_bytes(record) + record
}

/// Bytes of a length as a zigzag varint, 7 bits of twice the length each.
fn varint_bytes(length: u64) -> u64 {
    let bits = u64::from((length * 2).max(1).ilog2()) + 1;
    bits.div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::super::record::TimestampType;
    use super::*;

    fn topic() -> KeepingTopic {
        KeepingTopic {
            partitions: 1,
            cleanup_policy: "delete".to_owned(),
            max_message_bytes: 1_000,
            min_insync_replicas: 2,
            retention_ms: None,
        }
    }

    fn why_not(topic: Option<&KeepingTopic>, name: &str, value: usize) -> Option<String> {
        let record = Record {
            offset: 0,
            leader_epoch: None,
            timestamp_ms: 0,
            timestamp_type: TimestampType::CreateTime,
            key: None,
            value: Some(vec![b'x'; value]),
            headers: Vec::new(),
        };
        unfit(&record, &[], "shipments", name, topic)
    }

    #[test]
    fn a_topic_that_cannot_keep_a_record_says_why() {
        let topic = topic();
        assert_eq!(why_not(Some(&topic), "quarantine", 100), None);
        assert_eq!(
            why_not(Some(&topic), "shipments", 100).as_deref(),
            Some("it is the topic that the record is in")
        );
        assert_eq!(
            why_not(None, "quarantine", 100).as_deref(),
            Some("it does not exist, and is not created by this")
        );
        for policy in ["compact", "delete,compact", "compact, delete"] {
            let compacted = KeepingTopic {
                cleanup_policy: policy.to_owned(),
                ..topic.clone()
            };
            let why = why_not(Some(&compacted), "quarantine", 100).unwrap();
            assert!(
                why.starts_with(&format!("its cleanup.policy is {policy}:")),
                "{why}"
            );
        }
        // 61 for the batch, 2 for the record's length, 3 + 1 + 2 + 1 around the value.
        assert_eq!(why_not(Some(&topic), "quarantine", 930), None);
        assert_eq!(
            why_not(Some(&topic), "quarantine", 931).as_deref(),
            Some("the copy takes 1,001 bytes, and its max.message.bytes is 1000")
        );
    }

    #[test]
    fn one_copy_alone_is_worth_a_caution() {
        assert_eq!(caution(&topic()), None);
        let single = KeepingTopic {
            min_insync_replicas: 1,
            ..topic()
        };
        assert_eq!(
            caution(&single).as_deref(),
            Some("its min.insync.replicas is 1: a copy may be on one broker alone")
        );
    }

    #[test]
    fn lengths_are_as_long_as_kafka_writes_them() {
        let lengths = [
            (0, 1),
            (63, 1),
            (64, 2),
            (8_191, 2),
            (8_192, 3),
            (1_048_575, 3),
            (1_048_576, 4),
        ];
        for (length, bytes) in lengths {
            assert_eq!(varint_bytes(length), bytes, "{length}");
        }
    }
}
