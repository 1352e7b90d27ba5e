//! Which topics may keep records, and which not.

use jiff::SignedDuration;

use super::record::{Header, Record};
use crate::plan::Warning;
use crate::policy::GroupPolicy;
use crate::text::count;

/// How long a copy must be there at least after the last moment at which its plan may be applied, in seconds, so that
/// somebody can look at it.
pub const LEAST_TIME_TO_LOOK: u64 = 86_400;

/// What a topic is that may keep records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeepingTopic {
    /// How many partitions it has.
    pub partitions: i32,
    /// How many replicas the partition with the fewest has.
    pub replicas: usize,
    /// `cleanup.policy`.
    pub cleanup_policy: String,
    /// `max.message.bytes`.
    pub max_message_bytes: u64,
    /// `min.insync.replicas`.
    pub min_insync_replicas: u32,
    /// `retention.ms`; `None` for no limit.
    pub retention_ms: Option<u64>,
    /// `retention.bytes`, per partition; `None` for no limit.
    pub retention_bytes: Option<u64>,
}

impl KeepingTopic {
    /// Whether a copy that was written `age` ago is there for as long as `policy` needs it: until its plan can no longer
    /// be applied, and [`LEAST_TIME_TO_LOOK`] after that.
    #[must_use]
    pub fn keeps_for_long_enough(&self, policy: &GroupPolicy, age: SignedDuration) -> bool {
        let age = u64::try_from(age.as_millis()).unwrap_or_default();
        self.retention_ms
            .is_none_or(|keeps| keeps >= age.saturating_add(needed_ms(policy)))
    }
}

/// How long a copy that is written now has to be there, in milliseconds.
fn needed_ms(policy: &GroupPolicy) -> u64 {
    let plan = u64::from(policy.approve_within_seconds) + u64::from(policy.apply_within_seconds);
    (plan + LEAST_TIME_TO_LOOK) * 1_000
}

/// Bytes of a batch's header (`RecordBatch` of message format 2).
const BATCH_HEADER: u64 = 61;

/// Why the topic, as `topic` describes it, can keep no copy at all for a plan of `policy`; `None` where it can.
#[must_use]
pub fn unusable(policy: &GroupPolicy, topic: Option<&KeepingTopic>) -> Option<String> {
    let Some(topic) = topic else {
        return Some("it does not exist, and is not created by this".to_owned());
    };
    if topic
        .cleanup_policy
        .split(',')
        .any(|policy| policy.trim() == "compact")
    {
        return Some(format!(
            "its cleanup.policy is {}: a later record of the same key would replace the copy; set it to delete",
            topic.cleanup_policy
        ));
    }
    if !topic.keeps_for_long_enough(policy, SignedDuration::ZERO) {
        let needed = needed_ms(policy);
        return Some(format!(
            "its retention.ms is {} ({}): a copy has to outlast the approval, the time to apply and a day to look at it; \
             set it to {needed} ({}) at least",
            topic.retention_ms.unwrap_or_default(),
            span(topic.retention_ms.unwrap_or_default()),
            span(needed)
        ));
    }
    None
}

/// Why a topic that is not [`unusable`] cannot keep a copy of `record` with `headers`; `None` where it can.
#[must_use]
pub fn unfit(
    record: &Record,
    headers: &[Header],
    source: &str,
    name: &str,
    topic: &KeepingTopic,
) -> Option<String> {
    if name == source {
        return Some("it is the topic that the record is in; name another one".to_owned());
    }
    let needed = copy_bytes(record, headers);
    (needed > topic.max_message_bytes).then(|| {
        format!(
            "the copy of record {} takes {}, and its max.message.bytes is {}; set it to {needed} at least",
            record.offset,
            count(needed, "byte"),
            topic.max_message_bytes
        )
    })
}

/// Why copies of `bytes` together may be deleted by `retention.bytes` at once; `None` where they are not.
#[must_use]
pub fn no_room(bytes: u64, topic: &KeepingTopic) -> Option<String> {
    let limit = topic.retention_bytes.filter(|limit| *limit < bytes)?;
    Some(format!(
        "its retention.bytes is {limit}, and the copies of one plan take {bytes}; set it to a multiple of that, or to -1"
    ))
}

/// What an approver should know of the topic `name`, which can keep the copies of a plan.
#[must_use]
pub fn cautions(name: &str, topic: &KeepingTopic) -> Vec<Warning> {
    let mut whys = Vec::new();
    if topic.replicas < 2 {
        whys.push("it has one replica: a copy is on one broker alone".to_owned());
    } else if topic.min_insync_replicas < 2 {
        whys.push(format!(
            "its min.insync.replicas is {}: a copy may be on one broker alone",
            topic.min_insync_replicas
        ));
    }
    if let Some(limit) = topic.retention_bytes {
        whys.push(format!(
            "its retention.bytes is {limit}: the oldest copies of a partition are deleted when it grows beyond that, \
             whatever their age"
        ));
    }
    let at_risk = whys.into_iter().map(|why| Warning::QuarantineAtRisk {
        topic: name.to_owned(),
        why,
    });
    let expire = topic.retention_ms.map(|keeps| Warning::CopiesExpire {
        topic: name.to_owned(),
        after_seconds: keeps / 1_000,
    });
    at_risk.chain(expire).collect()
}

/// Milliseconds as people say them, rounded down to the two units that matter.
pub(crate) fn span(ms: u64) -> String {
    let seconds = ms / 1_000;
    match seconds {
        172_800.. => format!("{} days {} h", seconds / 86_400, seconds % 86_400 / 3_600),
        7_200.. => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        120.. => format!("{} min", seconds / 60),
        _ => format!("{seconds} s"),
    }
}

/// Bytes of a batch that holds nothing but a copy of `record` with `headers`, uncompressed.
#[must_use]
pub fn copy_bytes(record: &Record, headers: &[Header]) -> u64 {
    batch_bytes(record.key.as_deref(), record.value.as_deref(), headers)
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
            replicas: 3,
            cleanup_policy: "delete".to_owned(),
            max_message_bytes: 1_000,
            min_insync_replicas: 2,
            retention_ms: None,
            retention_bytes: None,
        }
    }

    fn why_not(name: &str, value: usize) -> Option<String> {
        let record = Record {
            offset: 43,
            leader_epoch: None,
            timestamp_ms: 0,
            timestamp_type: TimestampType::CreateTime,
            key: None,
            value: Some(vec![b'x'; value]),
            headers: Vec::new(),
        };
        unfit(&record, &[], "shipments", name, &topic())
    }

    #[test]
    fn a_topic_that_can_keep_nothing_says_why() {
        let policy = GroupPolicy::default();
        assert_eq!(unusable(&policy, Some(&topic())), None);
        assert_eq!(
            unusable(&policy, None).as_deref(),
            Some("it does not exist, and is not created by this")
        );
        for cleanup in ["compact", "delete,compact", "compact, delete"] {
            let compacted = KeepingTopic {
                cleanup_policy: cleanup.to_owned(),
                ..topic()
            };
            let why = unusable(&policy, Some(&compacted)).unwrap();
            assert!(
                why.starts_with(&format!("its cleanup.policy is {cleanup}:")),
                "{why}"
            );
        }
    }

    #[test]
    fn a_record_that_does_not_fit_says_why() {
        assert_eq!(why_not("quarantine", 100), None);
        assert_eq!(
            why_not("shipments", 100).as_deref(),
            Some("it is the topic that the record is in; name another one")
        );
        // 61 for the batch, 2 for the record's length, 3 + 1 + 2 + 1 around the value.
        assert_eq!(why_not("quarantine", 930), None);
        assert_eq!(
            why_not("quarantine", 931).as_deref(),
            Some(
                "the copy of record 43 takes 1,001 bytes, and its max.message.bytes is 1000; set it to 1001 at least"
            )
        );
    }

    /// A copy must outlast the approval (59 min), the time to apply (35 min) and a day in which somebody looks at it.
    #[test]
    fn a_retention_is_judged_by_the_times_of_the_plan() {
        let policy = GroupPolicy::default();
        let keeping = |ms| KeepingTopic {
            retention_ms: Some(ms),
            ..topic()
        };
        assert_eq!(unusable(&policy, Some(&keeping(92_040_000))), None);
        assert_eq!(
            unusable(&policy, Some(&keeping(92_039_999))).as_deref(),
            Some(
                "its retention.ms is 92039999 (25 h 33 min): a copy has to outlast the approval, the time to apply and a \
                 day to look at it; set it to 92040000 (25 h 34 min) at least"
            )
        );
        let patient = GroupPolicy {
            apply_within_seconds: 2_101,
            ..policy.clone()
        };
        assert!(unusable(&patient, Some(&keeping(92_040_000))).is_some());

        // A copy that is there already has so much less time left.
        let (hour, week) = (SignedDuration::from_hours(1), keeping(604_800_000));
        assert!(week.keeps_for_long_enough(&policy, hour * 142));
        assert!(!week.keeps_for_long_enough(&policy, hour * 143));
        assert!(topic().keeps_for_long_enough(&policy, hour * 100_000));
    }

    #[test]
    fn retention_by_size_is_judged_by_the_copies_of_the_plan() {
        let limited = KeepingTopic {
            retention_bytes: Some(1_000),
            ..topic()
        };
        assert_eq!(no_room(u64::MAX, &topic()), None);
        assert_eq!(no_room(1_000, &limited), None);
        assert_eq!(
            no_room(1_001, &limited).as_deref(),
            Some(
                "its retention.bytes is 1000, and the copies of one plan take 1001; set it to a multiple of that, or to -1"
            )
        );
    }

    #[test]
    fn an_approver_is_told_of_a_topic_that_keeps_less_safely_than_it_should() {
        let told = |topic: &KeepingTopic| -> Vec<String> {
            let cautions = cautions("kept", topic);
            cautions.iter().map(ToString::to_string).collect()
        };
        assert_eq!(told(&topic()), [""; 0]);
        let single = KeepingTopic {
            min_insync_replicas: 1,
            ..topic()
        };
        assert_eq!(
            told(&single),
            [
                "the quarantine topic kept is not as safe as it should be: its min.insync.replicas is 1: \
                 a copy may be on one broker alone"
            ]
        );
        let alone = KeepingTopic {
            replicas: 1,
            retention_bytes: Some(1_000_000),
            retention_ms: Some(604_800_000),
            ..single
        };
        assert_eq!(
            told(&alone),
            [
                "the quarantine topic kept is not as safe as it should be: it has one replica: \
                 a copy is on one broker alone",
                "the quarantine topic kept is not as safe as it should be: its retention.bytes is 1000000: \
                 the oldest copies of a partition are deleted when it grows beyond that, whatever their age",
                "the copies in kept are deleted 7 days 0 h after they were written (its retention.ms)",
            ]
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
