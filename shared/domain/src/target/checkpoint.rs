//! A checkpoint of the group.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::data::{Older, Remembered, Target, Undoes, Wanted};
use super::reading::{is_streams_commit, judge_reading};
use crate::checkpoint::{Anomaly, Checkpoint, CheckpointHeader, truncations};
use crate::group::GroupObservation;
use crate::ids::PlanId;
use crate::offset::{CommittedOffset, TopicPartition};
use crate::plan::{LeftAlone, Source, Warning};
use crate::refusal::Refusal;
use crate::request::RewindRequest;

/// Checkpoints that are newer than the source and of which nothing that was asked for is left.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PassedOver {
    /// How many.
    pub count: usize,
    /// The plans that undid them.
    pub by: BTreeSet<PlanId>,
}

/// A checkpoint with the evidence that judges whether it can be gone back to.
#[derive(Debug, Clone)]
pub struct CheckpointSource {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// The newest checkpoint, if that is a later one: the log is compared with it too.
    pub newest: Option<Checkpoint>,
    /// The headers of all checkpoints after the oldest one that anything is taken from.
    pub later: Vec<CheckpointHeader>,
    /// Older checkpoints that some of its partitions are taken from, newest first.
    pub older: Vec<Older>,
    /// Disowned checkpoints that were passed over to reach it.
    pub passed_over: PassedOver,
}

impl CheckpointSource {
    /// A checkpoint from which every partition is taken.
    #[must_use]
    pub fn new(checkpoint: Checkpoint) -> Self {
        Self {
            checkpoint,
            newest: None,
            later: Vec::new(),
            older: Vec::new(),
            passed_over: PassedOver::default(),
        }
    }

    /// The same among all checkpoints of the group, newest first: those that are later count as evidence.
    #[must_use]
    pub fn among(mut self, headers: &[CheckpointHeader], newest: Option<Checkpoint>) -> Self {
        let oldest = self.older.last();
        let oldest = oldest.map_or(self.checkpoint.ended_at, |oldest| oldest.ended_at);
        let later = headers.iter().filter(|header| header.ended_at > oldest);
        self.later = later.cloned().collect();
        self.newest = newest;
        self
    }

    /// The newest of all checkpoints, where that is a later one.
    #[must_use]
    pub fn newer<'h>(&self, headers: &'h [CheckpointHeader]) -> Option<&'h CheckpointHeader> {
        headers
            .first()
            .filter(|newest| newest.id != self.checkpoint.id)
    }

    /// The partitions that it and the newest checkpoint know.
    #[must_use]
    pub fn partitions(&self) -> BTreeSet<TopicPartition> {
        let newest = self.newest.iter();
        let newest = newest.flat_map(|newest| newest.partitions.keys());
        let partitions = self.checkpoint.partitions.keys().chain(newest);
        partitions.cloned().collect()
    }

    /// When the checkpoint was taken that a partition comes from.
    fn time_of(&self, partition: &TopicPartition) -> Timestamp {
        let mut older = self.older.iter();
        let older = older.find(|older| older.partitions.contains(partition));
        older.map_or(self.checkpoint.ended_at, |older| older.ended_at)
    }

    /// What later checkpoints noted of a partition after the time that it comes from.
    fn noted_since(&self) -> impl Iterator<Item = &Anomaly> {
        self.later.iter().flat_map(|header| {
            let since = |a: &&Anomaly| header.ended_at > self.time_of(a.at());
            header.anomalies.iter().filter(since)
        })
    }
}

/// Resolves the target: what each partition had committed when the checkpoint was taken.
///
/// # Errors
/// The checkpoint belongs to another group.
pub fn resolve_checkpoint(
    source: &CheckpointSource,
    request: &RewindRequest,
    seen: &GroupObservation,
) -> Result<Target, Refusal> {
    let checkpoint = &source.checkpoint;
    if checkpoint.group != request.group {
        return Err(Refusal::CheckpointNotFound {
            id: checkpoint.id.clone(),
        });
    }
    let known = seen.partitions.keys().chain(checkpoint.partitions.keys());
    let known: BTreeSet<_> = known.collect();
    let wanted = known.into_iter().map(|partition| {
        let wanted = match checkpoint.partitions.get(partition) {
            None => Wanted::NotAsked(LeftAlone::NotInSource),
            Some(then) => match &then.committed {
                None => Wanted::NotAsked(LeftAlone::NoCommitInSource),
                Some(committed) => restore(committed, partition, request, seen),
            },
        };
        (partition.clone(), wanted)
    });
    Ok(Target {
        then: Some(remember(source, seen)),
        warnings: warn_of_passed_over(&source.passed_over),
        warnings_where_moved: warn_of_backwards(source),
        undoes: Undoes::Since(checkpoint.ended_at),
        ..Target::new(
            Source::Checkpoint {
                id: checkpoint.id.clone(),
                ended_at: checkpoint.ended_at,
            },
            wanted.collect(),
        )
    })
}

fn restore(
    committed: &CommittedOffset,
    partition: &TopicPartition,
    request: &RewindRequest,
    seen: &GroupObservation,
) -> Wanted {
    let allow = request.allow;
    judge_reading(seen, partition, |from, _| {
        // Where the group has no commits at all, that is refused or allowed for the group as a whole.
        let expired = from.is_none() && !seen.has_no_commits();
        if expired && !allow.restore_missing {
            return Wanted::Refuse(Refusal::PartitionUnknown {
                partition: partition.clone(),
            });
        }
        Wanted::restored(committed.clone(), allow.clamp)
    })
}

fn remember(source: &CheckpointSource, seen: &GroupObservation) -> Remembered {
    let checkpoint = &source.checkpoint;
    let topic_ids = checkpoint.topics.keys();
    let topic_ids =
        topic_ids.filter_map(|topic| Some((topic.clone(), checkpoint.topic_id(topic)?)));
    let partitions = checkpoint.partitions.iter();
    let mut committed = checkpoint.partitions.values();
    Remembered {
        cluster_id: checkpoint.cluster_id.clone(),
        topic_ids: topic_ids.collect(),
        logs: partitions
            .map(|(at, then)| (at.clone(), then.log))
            .collect(),
        truncations: find_truncations(source, seen),
        older: source.older.clone(),
        is_streams: committed.any(|then| then.committed.as_ref().is_some_and(is_streams_commit)),
    }
}

/// Logs that are shorter than the source or the newest checkpoint saw them, or that a later one noted to be; the first
/// note of each.
fn find_truncations(
    source: &CheckpointSource,
    seen: &GroupObservation,
) -> BTreeMap<TopicPartition, (i64, i64)> {
    let id_now = |topic: &str| seen.topics.get(topic)?.as_ref().ok()?.id;
    let high_now = |at: &TopicPartition| Some(seen.partitions.get(at)?.log.as_ref().ok()?.high);
    let mut found = truncations(&source.checkpoint, id_now, high_now);
    if let Some(newest) = &source.newest {
        found.extend(truncations(newest, id_now, high_now));
    }
    found.extend(source.noted_since().cloned());
    let mut truncated = BTreeMap::new();
    for anomaly in found {
        if let Anomaly::LogTruncated {
            partition,
            high_before,
            high_after,
        } = anomaly
        {
            truncated
                .entry(partition)
                .or_insert((high_before, high_after));
        }
    }
    truncated
}

fn warn_of_passed_over(passed_over: &PassedOver) -> Vec<Warning> {
    if passed_over.count == 0 {
        return Vec::new();
    }
    vec![Warning::DisownedPassedOver {
        count: passed_over.count,
        by: passed_over.by.clone(),
    }]
}

fn warn_of_backwards(source: &CheckpointSource) -> Vec<(TopicPartition, Warning)> {
    let back: BTreeSet<_> = source
        .noted_since()
        .filter_map(|anomaly| match anomaly {
            Anomaly::OffsetWentBackwards { partition, .. } => Some(partition.clone()),
            Anomaly::LogTruncated { .. } => None,
        })
        .collect();
    let warn = |partition: TopicPartition| {
        let warning = Warning::WentBackwardsSince {
            partition: partition.clone(),
        };
        (partition, warning)
    };
    back.into_iter().map(warn).collect()
}
