//! How the guard treats one group, as the configuration says.

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

/// Kafka's default of `max.poll.records`.
const DEFAULT_POLL_RECORDS: u32 = 500;

/// What the guard may propose for a partition that is stuck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RemediationAction {
    /// A plan that passes over a poison record, which is kept in quarantine.
    SkipPoisonRecord,
    /// A plan that goes back: only where an offset has left its log, or where an operator asks for it.
    RewindOffset,
    /// Nothing but the verdict.
    AuditOnly,
}

/// Which records of a topic the group's consumers read (`isolation.level`). Brokers do not know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Nobody said.
    Unknown,
    /// Only records of committed transactions.
    ReadCommitted,
    /// All records, those of aborted transactions too.
    ReadUncommitted,
}

/// From which verdict on a skip is proposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipOn {
    /// From `POISON_LIKELY` on.
    Likely,
    /// From `POISON_SUSPECTED` on.
    Suspected,
}

/// What a record must be, so that one that is not is known to be a poison record without asking the consumers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Validator {
    /// The value is one JSON document (RFC 8259).
    Json,
    /// The value is UTF-8.
    Utf8,
    /// The value begins with the magic byte 0 and a schema id, as Schema Registry's serialisers write it.
    SchemaRegistry,
    /// There is a value: no record is a tombstone.
    NotNull,
    /// The value has at most so many bytes.
    MaxBytes(u32),
}

/// Headers that other tools read, written beside the guard's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeaderSet {
    /// Spring for Apache Kafka's `kafka_dlt-…`.
    Spring,
    /// Kafka Connect's `__connect.errors.…`.
    Connect,
}

/// The most records that one plan may pass over. On two cores and a broker beside them, so many are kept within 11 s, are
/// found kept already within 5 s, and are read again by Apply with their copies within 1 s; 90 s and 60 s are what they may
/// take. A broker that answers ten times as slowly fits too.
pub const MOST_RECORDS_PER_PLAN: u32 = 500;

/// The resolved policy of the guard for one group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardPolicy {
    /// From which lag on a stalled partition is critical, in offsets. A smaller one is judged too: the poison record at
    /// the end of a quiet topic never has much behind it.
    pub deadlock_lag_threshold: u64,
    /// Over how long a suspicious group is looked at several times within one run, in seconds.
    pub rebalance_grace_seconds: u32,
    /// What may be proposed.
    pub remediation_action: RemediationAction,
    /// How many offsets a rewind goes back from where the group is, or from the end of its log.
    pub rewind_record_count: u32,
    /// The topic that keeps what is passed over. It is never created.
    pub quarantine_topic: Option<String>,
    /// Whether a record is kept before it is passed over. Without it the record will be lost, and the plan says so.
    pub publish_to_dlq_topic: bool,
    /// Only say what would be proposed.
    pub dry_run: bool,
    /// Only these topics; empty for all that the group has committed or is assigned.
    pub monitored_topics: Vec<String>,
    /// How many samples must agree before a stall is one.
    pub min_samples: u32,
    /// How long a committed offset must have stood before a stall is one, in seconds.
    pub stall_seconds: u32,
    /// How many skips of one partition may be proposed within 24 hours.
    pub max_skips_per_day: u32,
    /// What the group's consumers read.
    pub isolation: Isolation,
    /// From which verdict on a skip is proposed.
    pub skip_on: SkipOn,
    /// How many records one plan may pass over; at most [`MOST_RECORDS_PER_PLAN`].
    pub max_records_per_plan: u32,
    /// How long a proposal that a person rejected is not made again by itself, in seconds.
    pub rejected_for_seconds: u32,
    /// What the group's records must be.
    pub validators: Vec<Validator>,
    /// How many records one poll of the consumers returns at most (`max.poll.records`), where it is known: the poison record
    /// lies within so many from the committed offset. With 1 the group commits record by record.
    pub max_poll_records: Option<u32>,
    /// The consumers assign themselves, or keep their offsets elsewhere: what is committed says nothing about them.
    pub external_offsets: bool,
    /// Headers for other tools.
    pub header_sets: Vec<HeaderSet>,
}

impl GuardPolicy {
    /// Whether two samples and no time at all are enough, as in the simplest rule that is in use.
    #[must_use]
    pub fn two_sample_rule(&self) -> bool {
        self.min_samples <= 2 && self.stall_seconds == 0
    }

    /// How many records one poll returns at most: as configured, or Kafka's default.
    #[must_use]
    pub fn poll_records(&self) -> u32 {
        self.max_poll_records.unwrap_or(DEFAULT_POLL_RECORDS)
    }

    /// How far two runs must lie apart for both to be kept as samples: so far that the least number of samples fits twice
    /// into the time until a stall, and a minute at most. Alerts may start runs every few seconds, and must not push out
    /// what was seen before.
    #[must_use]
    pub fn least_apart(&self) -> SignedDuration {
        let seconds = self.stall_seconds / self.min_samples.max(1) / 2;
        SignedDuration::from_secs(i64::from(seconds.min(60)))
    }

    /// Whether `topic` is watched.
    #[must_use]
    pub fn monitors(&self, topic: &str) -> bool {
        self.monitored_topics.is_empty() || self.monitored_topics.iter().any(|t| t == topic)
    }
}

impl Default for GuardPolicy {
    fn default() -> Self {
        Self {
            deadlock_lag_threshold: 50,
            rebalance_grace_seconds: 15,
            remediation_action: RemediationAction::SkipPoisonRecord,
            rewind_record_count: 1,
            quarantine_topic: None,
            publish_to_dlq_topic: true,
            dry_run: true,
            monitored_topics: Vec::new(),
            min_samples: 3,
            stall_seconds: 600,
            max_skips_per_day: 3,
            isolation: Isolation::Unknown,
            skip_on: SkipOn::Likely,
            max_records_per_plan: 100,
            rejected_for_seconds: 7 * 86_400,
            validators: Vec::new(),
            max_poll_records: None,
            external_offsets: false,
            header_sets: Vec::new(),
        }
    }
}
