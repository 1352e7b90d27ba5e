//! What is kept of a record before it is passed over, and how it is recognised again.

use std::fmt;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::probe::Failure;
use super::record::Outline;
use crate::offset::{ClusterId, Fault, GroupId, TopicId, TopicPartition};
use crate::refusal::Stale;

/// What begins the keys of the guard's own headers.
pub const HEADER_PREFIX: &str = "offset-guard.";

/// Recognises one record of one group in quarantine, however often it was written there: the lower-case hexadecimal
/// SHA-256 over cluster id, group, topic id, partition and offset.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DedupeId(pub String);

impl DedupeId {
    /// Of one record. A topic whose id is not known is recognised by its name.
    #[must_use]
    pub fn of(
        cluster: &ClusterId,
        group: &GroupId,
        topic_id: Option<TopicId>,
        partition: &TopicPartition,
        offset: i64,
    ) -> Self {
        let topic = topic_id.map_or_else(
            || format!("name:{}", partition.topic),
            |id| format!("id:{id}"),
        );
        // As JSON, in which no two lists of texts are written alike.
        let parts = serde_json::json!([cluster.0, group.0, topic, partition.partition, offset]);
        Self(HEXLOWER.encode(&Sha256::digest(parts.to_string())))
    }

    /// The id that a text is; `None` where no record can have it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = HEXLOWER.decode(text.as_bytes()).ok()?;
        (bytes.len() == Sha256::output_size()).then(|| Self(text.to_owned()))
    }
}

impl fmt::Display for DedupeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a copy lies.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeptCopy {
    /// The partition of the quarantine topic.
    pub partition: TopicPartition,
    /// The offset there.
    pub offset: i64,
}

impl fmt::Display for KeptCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.partition, self.offset)
    }
}

/// Whether a record that is passed over is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// Its copy was written, read back and compared.
    In(KeptCopy),
    /// It will be lost: the policy keeps none (`publish_to_dlq_topic = false`).
    No,
    /// Not yet: a dry run writes nothing. Such a plan is never applied.
    NotYet,
}

/// One record that a plan passes over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedRecord {
    /// Its partition.
    pub partition: TopicPartition,
    /// What may be said of it.
    pub record: Outline,
    /// What a validator says against it; `None` where it passes or none was asked.
    pub failure: Option<Failure>,
    /// Recognises it in quarantine.
    pub dedupe_id: DedupeId,
    /// Where it is kept.
    pub kept: Kept,
}

/// What was found when a passed-over record was read again, right before the plan is applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reread {
    /// The record at its place: `None` where nothing is there any more.
    pub source: Result<Option<Outline>, Fault>,
    /// Its copy: the outline of what the copy keeps of the original, and the dedupe id that it carries; `None` where
    /// nothing is there any more, or nothing was to be kept.
    pub copy: Result<Option<CopySeen>, Fault>,
}

/// What a copy in quarantine says it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopySeen {
    /// The hash over its key, its value and its original headers.
    pub fingerprint: super::record::Fingerprint,
    /// The dedupe id in its headers.
    pub dedupe_id: Option<DedupeId>,
}

impl SkippedRecord {
    /// Why it must not be passed over any more, if so: it, or its copy, is not what the plan was made with.
    #[must_use]
    pub fn stale(&self, seen: &Reread) -> Option<Stale> {
        let (partition, offset) = (&self.partition, self.record.offset);
        let source = |why: String| {
            Some(Stale::SourceRecord {
                partition: partition.clone(),
                offset,
                why,
            })
        };
        match &seen.source {
            Err(fault) => return source(fault.to_string()),
            Ok(None) => return source("it is gone".to_owned()),
            Ok(Some(now)) if !now.is_same_record(&self.record) => {
                return source("it is another record".to_owned());
            }
            Ok(Some(_)) => {}
        }
        let Kept::In(copy) = &self.kept else {
            return None;
        };
        let lost = |why: String| {
            Some(Stale::QuarantineCopy {
                copy: copy.to_string(),
                why,
            })
        };
        match &seen.copy {
            Err(fault) => lost(fault.to_string()),
            Ok(None) => lost("it is gone".to_owned()),
            Ok(Some(now))
                if now.fingerprint != self.record.fingerprint
                    || now.dedupe_id.as_ref() != Some(&self.dedupe_id) =>
            {
                lost("it is another record".to_owned())
            }
            Ok(Some(_)) => None,
        }
    }
}

#[cfg(test)]
mod tests;
