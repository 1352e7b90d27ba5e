//! The headers of a copy in quarantine: those of the record, then where it comes from and why it is there.
//!
//! What is not known has no header. Texts are UTF-8, numbers decimal, the record's time in milliseconds since 1970, the
//! guard's own in RFC 3339, hashes lower-case hexadecimal
//! SHA-256.

use jiff::Timestamp;

use super::policy::HeaderSet;
use super::quarantine::{CopySeen, DedupeId, HEADER_PREFIX};
use super::record::{Header, Record, TimestampType, fingerprint, sha256};
use super::verdict::Verdict;
use crate::offset::{ClusterId, GroupId, TopicId, TopicPartition};

/// How many of the headers were the record's own.
const ORIGINAL_HEADERS: &str = "origin.headers";
const DEDUPE_ID: &str = "dedupe.id";

/// Where a record comes from, and why it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The cluster that it was read from.
    pub cluster_id: ClusterId,
    /// The id of its topic, where it is known.
    pub topic_id: Option<TopicId>,
    /// Its partition.
    pub partition: TopicPartition,
    /// The group that does not get past it.
    pub group: GroupId,
    /// Why the partition is where it is.
    pub verdict: Verdict,
    /// The same for a person, in words that show nothing of the record.
    pub detail: String,
    /// What that rests on: JSON without secrets and without anything of the record.
    pub evidence: String,
    /// Recognises the record in quarantine.
    pub dedupe_id: DedupeId,
    /// The run that found it.
    pub run_id: String,
    /// When it was written there.
    pub quarantined_at: Timestamp,
    /// The version of this tool.
    pub tool_version: String,
}

/// The headers of a copy of `record`: its own in their order, the guard's, then those of the asked `sets`.
#[must_use]
pub fn of_copy(record: &Record, origin: &Origin, sets: &[HeaderSet]) -> Vec<Header> {
    let mut headers = record.headers.clone();
    headers.extend(own(record, origin));
    for set in sets {
        match set {
            HeaderSet::Spring => headers.extend(spring(record, origin)),
            HeaderSet::Connect => headers.extend(connect(record, origin)),
        }
    }
    headers
}

/// What a record says it is a copy of. Any producer can write these headers, so whether it is one is for the ledger to
/// say: it knows the dedupe id and the fingerprint of everything that was kept.
///
/// The guard's headers lie behind the record's own, which may bear the same names: the last of a name is the guard's. A
/// record without them, or with others than the guard writes, is the copy of nothing, and is seen whole.
#[must_use]
pub fn seen(copy: &Record) -> CopySeen {
    let (originals, dedupe_id) = guards_part(&copy.headers)
        .map_or((&copy.headers[..], None), |(own, guards)| {
            (own, last_text(guards, DEDUPE_ID).and_then(DedupeId::parse))
        });
    CopySeen {
        fingerprint: fingerprint(copy.key.as_deref(), copy.value.as_deref(), originals),
        dedupe_id,
    }
}

/// The headers that were the record's own, and those that the guard wrote behind them.
fn guards_part(headers: &[Header]) -> Option<(&[Header], &[Header])> {
    let count = last_text(headers, ORIGINAL_HEADERS)?.parse().ok()?;
    let (own, guards) = headers.split_at_checked(count)?;
    // The count is one of the guard's headers itself.
    last_text(guards, ORIGINAL_HEADERS)?;
    Some((own, guards))
}

/// The text of the last of the guard's headers with this name.
fn last_text<'a>(headers: &'a [Header], name: &str) -> Option<&'a str> {
    let name = [HEADER_PREFIX, name].concat().into_bytes();
    let (_, value) = headers.iter().rfind(|(other, _)| *other == name)?;
    std::str::from_utf8(value.as_deref()?).ok()
}

fn own(record: &Record, origin: &Origin) -> Vec<Header> {
    let hash = |bytes: &Option<Vec<u8>>| bytes.as_deref().map(sha256);
    let timestamp = timestamp(record).map(|at| at.to_string());
    [
        ("origin.cluster.id", Some(origin.cluster_id.0.clone())),
        ("origin.topic", Some(origin.partition.topic.clone())),
        ("origin.topic.id", origin.topic_id.map(|id| id.to_string())),
        (
            "origin.partition",
            Some(origin.partition.partition.to_string()),
        ),
        ("origin.offset", Some(record.offset.to_string())),
        ("origin.timestamp", timestamp),
        (
            "origin.timestamp.type",
            Some(record.timestamp_type.to_string()),
        ),
        (
            "origin.leader.epoch",
            record.leader_epoch.map(|epoch| epoch.to_string()),
        ),
        (ORIGINAL_HEADERS, Some(record.headers.len().to_string())),
        ("origin.key.sha256", hash(&record.key)),
        ("origin.value.sha256", hash(&record.value)),
        ("group.id", Some(origin.group.0.clone())),
        ("reason.verdict", Some(origin.verdict.to_string())),
        ("reason.detail", Some(origin.detail.clone())),
        ("evidence", Some(origin.evidence.clone())),
        (DEDUPE_ID, Some(origin.dedupe_id.to_string())),
        ("run.id", Some(origin.run_id.clone())),
        ("tool.version", Some(origin.tool_version.clone())),
        ("quarantined.at", Some(origin.quarantined_at.to_string())),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some(header(HEADER_PREFIX, name, value?.into_bytes())))
    .collect()
}

/// As Spring for Apache Kafka's `DeadLetterPublishingRecoverer` writes them: numbers in big-endian binary.
///
/// The guard saw no exception; readers require its class, message and trace all the same.
fn spring(record: &Record, origin: &Origin) -> Vec<Header> {
    let partition = origin.partition.partition.to_be_bytes();
    let at = timestamp(record).map(i64::to_be_bytes);
    [
        (
            "original-topic",
            Some(origin.partition.topic.clone().into_bytes()),
        ),
        ("original-partition", Some(partition.to_vec())),
        (
            "original-offset",
            Some(record.offset.to_be_bytes().to_vec()),
        ),
        ("original-timestamp", at.map(Vec::from)),
        (
            "original-timestamp-type",
            Some(record.timestamp_type.to_string().into_bytes()),
        ),
        (
            "original-consumer-group",
            Some(origin.group.0.clone().into_bytes()),
        ),
        ("exception-fqcn", Some(class_name(origin).into_bytes())),
        (
            "exception-message",
            Some(origin.detail.clone().into_bytes()),
        ),
        ("exception-stacktrace", Some(Vec::new())),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some(header("kafka_dlt-", name, value?)))
    .collect()
}

/// As Kafka Connect's `DeadLetterQueueReporter` writes them: everything as text. Task, stage and class are not known.
fn connect(record: &Record, origin: &Origin) -> Vec<Header> {
    let group = &origin.group.0;
    // A sink's group is named after its connector.
    let connector = group.strip_prefix("connect-").unwrap_or(group);
    [
        ("topic", origin.partition.topic.clone()),
        ("partition", origin.partition.partition.to_string()),
        ("offset", record.offset.to_string()),
        ("connector.name", connector.to_owned()),
        ("exception.class.name", class_name(origin)),
        ("exception.message", origin.detail.clone()),
        ("exception.stacktrace", String::new()),
    ]
    .into_iter()
    .map(|(name, value)| header("__connect.errors.", name, value.into_bytes()))
    .collect()
}

/// What stands where other tools write an exception's class.
fn class_name(origin: &Origin) -> String {
    format!("OffsetGuard.{}", origin.verdict)
}

fn timestamp(record: &Record) -> Option<i64> {
    (record.timestamp_type != TimestampType::NotAvailable).then_some(record.timestamp_ms)
}

fn header(prefix: &str, name: &str, value: Vec<u8>) -> Header {
    ([prefix, name].concat().into_bytes(), Some(value))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use super::*;

    fn origin() -> Origin {
        let (cluster_id, group) = (
            ClusterId("cluster-1".to_owned()),
            GroupId("connect-shipment-sink".to_owned()),
        );
        let partition = TopicPartition::new("shipments", 3);
        let topic_id = TopicId::from_bytes([7; 16]);
        Origin {
            dedupe_id: DedupeId::of(&cluster_id, &group, topic_id, &partition, 258),
            cluster_id,
            topic_id,
            partition,
            group,
            verdict: Verdict::PoisonLikely,
            detail: "the value is no UTF-8 from byte 0 on".to_owned(),
            evidence: r#"[{"failed":"utf8"}]"#.to_owned(),
            run_id: "01KB9".to_owned(),
            quarantined_at: "2026-11-30T09:30:00Z".parse().unwrap(),
            tool_version: "0.1.0".to_owned(),
        }
    }

    fn poison() -> Record {
        Record {
            offset: 258,
            leader_epoch: Some(4),
            timestamp_ms: 1_000,
            timestamp_type: TimestampType::CreateTime,
            key: Some(b"key".to_vec()),
            value: Some(b"\xff".to_vec()),
            headers: vec![
                (b"\xfe".to_vec(), None),
                (b"trace".to_vec(), Some(b"1".to_vec())),
                (b"trace".to_vec(), Some(b"".to_vec())),
            ],
        }
    }

    /// Those after the record's own, as texts.
    fn texts(record: &Record, origin: &Origin) -> Vec<(String, String)> {
        let headers = of_copy(record, origin, &[]);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        headers[record.headers.len()..]
            .iter()
            .map(|(name, value)| (text(name), text(value.as_deref().unwrap())))
            .collect()
    }

    #[test]
    fn a_copy_says_where_it_comes_from_and_why() {
        let (record, origin) = (poison(), origin());
        assert_eq!(of_copy(&record, &origin, &[])[..3], record.headers);
        let dedupe_id = origin.dedupe_id.to_string();
        let expected = [
            ("origin.cluster.id", "cluster-1"),
            ("origin.topic", "shipments"),
            ("origin.topic.id", "BwcHBwcHBwcHBwcHBwcHBw"),
            ("origin.partition", "3"),
            ("origin.offset", "258"),
            ("origin.timestamp", "1000"),
            ("origin.timestamp.type", "CreateTime"),
            ("origin.leader.epoch", "4"),
            ("origin.headers", "3"),
            (
                "origin.key.sha256",
                "2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683",
            ),
            (
                "origin.value.sha256",
                "a8100ae6aa1940d0b663bb31cd466142ebbdbd5187131b92d93818987832eb89",
            ),
            ("group.id", "connect-shipment-sink"),
            ("reason.verdict", "POISON_LIKELY"),
            ("reason.detail", "the value is no UTF-8 from byte 0 on"),
            ("evidence", r#"[{"failed":"utf8"}]"#),
            ("dedupe.id", &dedupe_id),
            ("run.id", "01KB9"),
            ("tool.version", "0.1.0"),
            ("quarantined.at", "2026-11-30T09:30:00Z"),
        ];
        let expected =
            expected.map(|(name, value)| (format!("offset-guard.{name}"), value.to_owned()));
        assert_eq!(texts(&record, &origin), expected);
    }

    #[test]
    fn what_is_not_known_has_no_header() {
        let record = Record {
            leader_epoch: None,
            timestamp_ms: -1,
            timestamp_type: TimestampType::NotAvailable,
            key: None,
            value: None,
            headers: Vec::new(),
            ..poison()
        };
        let origin = Origin {
            topic_id: None,
            ..origin()
        };
        let names: Vec<_> = texts(&record, &origin)
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        for absent in [
            "origin.topic.id",
            "origin.timestamp",
            "origin.leader.epoch",
            "origin.key.sha256",
            "origin.value.sha256",
        ] {
            assert!(
                !names.contains(&format!("offset-guard.{absent}")),
                "{absent}"
            );
        }
        assert_eq!(names.len(), 14);
    }

    #[test]
    fn other_tools_find_what_they_look_for() {
        let (record, origin) = (poison(), origin());
        let own = of_copy(&record, &origin, &[]).len();
        let set = |set| of_copy(&record, &origin, &[set])[own..].to_vec();
        let expected = |prefix: &str, headers: &[(&str, &[u8])]| -> Vec<Header> {
            let headers = headers.iter();
            headers
                .map(|(name, value)| header(prefix, name, value.to_vec()))
                .collect()
        };
        let detail = origin.detail.as_bytes();
        assert_eq!(
            set(HeaderSet::Spring),
            expected(
                "kafka_dlt-",
                &[
                    ("original-topic", b"shipments"),
                    ("original-partition", &[0, 0, 0, 3]),
                    ("original-offset", &[0, 0, 0, 0, 0, 0, 1, 2]),
                    ("original-timestamp", &[0, 0, 0, 0, 0, 0, 3, 232]),
                    ("original-timestamp-type", b"CreateTime"),
                    ("original-consumer-group", b"connect-shipment-sink"),
                    ("exception-fqcn", b"OffsetGuard.POISON_LIKELY"),
                    ("exception-message", detail),
                    ("exception-stacktrace", b""),
                ]
            )
        );
        assert_eq!(
            set(HeaderSet::Connect),
            expected(
                "__connect.errors.",
                &[
                    ("topic", b"shipments"),
                    ("partition", b"3"),
                    ("offset", b"258"),
                    ("connector.name", b"shipment-sink"),
                    ("exception.class.name", b"OffsetGuard.POISON_LIKELY"),
                    ("exception.message", detail),
                    ("exception.stacktrace", b""),
                ]
            )
        );
    }

    #[test]
    fn a_record_that_is_no_copy_is_seen_whole() {
        let count = |count: &[u8]| {
            (
                b"offset-guard.origin.headers".to_vec(),
                Some(count.to_vec()),
            )
        };
        let id = |id: &[u8]| (b"offset-guard.dedupe.id".to_vec(), Some(id.to_vec()));
        for headers in [
            poison().headers,
            vec![id(&[b'a'; 64])],
            // Counts that cannot be.
            vec![count(b"99"), id(&[b'a'; 64])],
            vec![count(b"1"), id(&[b'a'; 64])],
            vec![count(b"-1"), id(&[b'a'; 64])],
            vec![count(b"\xff"), id(&[b'a'; 64])],
        ] {
            let record = Record {
                headers,
                ..poison()
            };
            let whole = CopySeen {
                fingerprint: record.outline().fingerprint,
                dedupe_id: None,
            };
            assert_eq!(seen(&record), whole, "{:?}", record.headers);
        }
        // What is no SHA-256 is no key of the ledger.
        for text in [&b""[..], b"a", &[b'A'; 64], &[b'a'; 65], &[b'z'; 64]] {
            let record = Record {
                headers: vec![count(b"0"), id(text)],
                ..poison()
            };
            assert_eq!(seen(&record).dedupe_id, None, "{text:?}");
        }
    }

    /// A copy that somebody produced again, and that is kept a second time: each copy is known as that of what it was
    /// made of.
    #[test]
    fn a_copy_of_a_copy_is_known_as_such() {
        let (record, first) = (poison(), origin());
        let copy = Record {
            headers: of_copy(&record, &first, &[HeaderSet::Spring]),
            ..poison()
        };
        let second = Origin {
            dedupe_id: DedupeId("b".repeat(64)),
            ..origin()
        };
        let again = Record {
            headers: of_copy(&copy, &second, &[HeaderSet::Connect]),
            ..poison()
        };
        let whole = CopySeen {
            fingerprint: copy.outline().fingerprint,
            dedupe_id: Some(second.dedupe_id),
        };
        assert_eq!(seen(&again), whole);
    }

    /// Names that anybody may write, those of the guard too.
    fn name() -> impl Strategy<Value = Vec<u8>> {
        let guards = prop_oneof![
            Just("origin.headers"),
            Just("dedupe.id"),
            Just("origin.offset"),
            Just("x"),
        ]
        .prop_map(|name| [HEADER_PREFIX, name].concat().into_bytes());
        prop_oneof![vec(any::<u8>(), 0..20), guards]
    }

    /// Values that the guard's own headers might have, too.
    fn value() -> impl Strategy<Value = Option<Vec<u8>>> {
        let count = (0..40_usize).prop_map(|count| Some(count.to_string().into_bytes()));
        let id = prop_oneof![Just(b'a'), Just(b'0'), Just(0xff)].prop_map(|c| Some(vec![c; 64]));
        prop_oneof![bytes(), count, id]
    }

    fn bytes() -> impl Strategy<Value = Option<Vec<u8>>> {
        option::of(vec(any::<u8>(), 0..20))
    }

    proptest! {
        #[test]
        fn any_record_is_known_again_by_its_copy(
            key in bytes(),
            value in bytes(),
            headers in vec((name(), value()), 0..12),
            sets in vec(prop_oneof![Just(HeaderSet::Spring), Just(HeaderSet::Connect)], 0..3),
            cut in any::<prop::sample::Index>(),
        ) {
            let (record, origin) = (Record { key, value, headers, ..poison() }, origin());
            let copy = Record { headers: of_copy(&record, &origin, &sets), ..record.clone() };
            let whole = seen(&copy);
            prop_assert_eq!(&whole.fingerprint, &record.outline().fingerprint);
            prop_assert_eq!(whole.dedupe_id, Some(origin.dedupe_id));

            // And not by one that lacks any of its own headers.
            if !record.headers.is_empty() {
                let mut less = copy;
                less.headers.remove(cut.index(record.headers.len()));
                prop_assert_ne!(seen(&less).fingerprint, record.outline().fingerprint);
            }
        }
    }
}
