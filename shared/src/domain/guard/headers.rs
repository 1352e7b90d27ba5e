//! The headers of a copy in quarantine: those of the record, then where it comes from and why it is there.
//!
//! What is not known has no header. Texts are UTF-8, numbers decimal, instants RFC 3339, hashes lower-case hexadecimal
//! SHA-256.

use jiff::Timestamp;

use super::policy::HeaderSet;
use super::quarantine::{CopySeen, DedupeId, HEADER_PREFIX};
use super::record::{Header, Record, TimestampType, fingerprint, sha256};
use super::verdict::Verdict;
use crate::domain::offset::{ClusterId, GroupId, TopicId, TopicPartition};

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

/// Whether a record is a copy from quarantine: to keep a copy of it would send it round and round.
#[must_use]
pub fn is_from_quarantine(record: &Record) -> bool {
    let prefix = HEADER_PREFIX.as_bytes();
    record
        .headers
        .iter()
        .any(|(name, _)| name.starts_with(prefix))
}

/// What a record that was read from quarantine says it is a copy of.
///
/// One without the guard's headers, or with others than it writes, is the copy of nothing that the guard knows.
#[must_use]
pub fn seen(copy: &Record) -> CopySeen {
    let text = |name: &str| {
        let name = [HEADER_PREFIX, name].concat().into_bytes();
        let mut found = copy.headers.iter().filter(|(other, _)| *other == name);
        let value = found.next()?.1.as_deref()?;
        std::str::from_utf8(value).ok()
    };
    let count = text(ORIGINAL_HEADERS).and_then(|count| count.parse().ok());
    let originals = count
        .and_then(|count: usize| copy.headers.get(..count))
        .unwrap_or(&copy.headers);
    CopySeen {
        fingerprint: fingerprint(copy.key.as_deref(), copy.value.as_deref(), originals),
        dedupe_id: text(DEDUPE_ID).map(|id| DedupeId(id.to_owned())),
    }
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
