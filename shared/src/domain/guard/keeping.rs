//! Which topics may keep records, and which not.

use super::record::{Header, Record};

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
            "the copy takes {needed} bytes, and its max.message.bytes is {}",
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
