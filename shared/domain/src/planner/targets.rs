//! What a request's target is for each partition, and whether it is one at all.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Planning, evidence, executed, id_of};
use crate::checkpoint::{Anomaly, Checkpoint, CheckpointHeader, truncations};
use crate::choice::{Older, PassedOver};
use crate::executed::Executed;
use crate::guard::quarantine::SkippedRecord;
use crate::offset::{CommittedOffset, Fault, FoundByTime, TopicId, TopicPartition, Watermarks};
use crate::plan::{LeftAlone, PartitionMove, Warning};
use crate::refusal::{Refusal, Stale};

/// What the target of a request resolved to, with the evidence that judges it.
#[derive(Debug)]
pub enum Targets<'a> {
    /// A checkpoint.
    Checkpoint {
        /// The checkpoint.
        checkpoint: &'a Checkpoint,
        /// The newest checkpoint, if that is a later one: the log is compared with it too.
        newest: Option<&'a Checkpoint>,
        /// The headers of all checkpoints after the oldest one that anything is taken from.
        later: &'a [CheckpointHeader],
        /// Older checkpoints that some of its partitions are taken from.
        older: &'a [Older],
        /// Disowned checkpoints that were passed over to reach it.
        passed_over: &'a PassedOver,
    },
    /// For each partition, the first record at or after a time; `None` is "no record that late".
    Timestamp {
        /// The time.
        at: Timestamp,
        /// What the brokers answered.
        offsets: &'a BTreeMap<TopicPartition, Result<Option<FoundByTime>, Fault>>,
    },
    /// Offsets named in the request.
    Offsets(&'a BTreeMap<TopicPartition, i64>),
    /// A shift.
    Shift(i64),
    /// The log start.
    Earliest,
    /// Right after the records that are passed over, from exactly the commits that the guard saw.
    Past {
        /// The committed offset of each partition when its records were read.
        committed: &'a BTreeMap<TopicPartition, i64>,
        /// The records, sorted by partition and offset.
        records: &'a [SkippedRecord],
        /// Whether two samples are all that this rests on.
        two_samples: bool,
        /// What should be passed over as well and is not, and why.
        withheld: &'a BTreeMap<TopicPartition, String>,
        /// What the approver should know of the topic that keeps the records.
        cautions: &'a [Warning],
    },
    /// There is none, for this reason; the rest is judged all the same, so that all reasons are told at once.
    Missing(&'a Refusal),
    /// The state before an earlier plan, where that plan was applied.
    Undo(Executed<'a>),
    /// The targets of an earlier plan, where that plan was not applied.
    Finish(Executed<'a>),
}

impl<'a> Targets<'a> {
    /// The earlier plan that they come from.
    fn executed(&self) -> Option<Executed<'a>> {
        match self {
            Self::Undo(executed) | Self::Finish(executed) => Some(*executed),
            Self::Checkpoint { .. }
            | Self::Timestamp { .. }
            | Self::Offsets(_)
            | Self::Shift(_)
            | Self::Earliest
            | Self::Past { .. }
            | Self::Missing(_) => None,
        }
    }
}

/// What one partition's target is.
pub(super) enum Wanted {
    /// This commit. The flag says that offset, epoch and metadata were committed together once.
    Commit(CommittedOffset, Together),
    /// No commit at all.
    Nothing,
    /// It is left alone.
    Leave(LeftAlone),
    /// It cannot be said.
    Refuse(Refusal),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Together {
    Yes,
    No,
}

/// The id that a topic had when the source was read.
pub(super) fn source_topic_id(planning: &Planning<'_>, topic: &str) -> Option<TopicId> {
    match &planning.targets {
        Targets::Checkpoint { checkpoint, .. } => checkpoint.topic_id(topic),
        targets => {
            let moves = &targets.executed()?.plan.moves;
            moves.iter().find(|m| m.partition.topic == topic)?.topic_id
        }
    }
}

/// The log of a partition when the source was read.
pub(super) fn source_log<'a>(
    planning: &'a Planning<'_>,
    partition: &TopicPartition,
) -> Option<&'a Watermarks> {
    match &planning.targets {
        Targets::Checkpoint { checkpoint, .. } => Some(&checkpoint.partitions.get(partition)?.log),
        targets => Some(&targets.executed()?.move_of(partition)?.log),
    }
}

/// What one partition should become.
pub(super) fn wanted(
    planning: &Planning<'_>,
    partition: &TopicPartition,
    from: Option<&CommittedOffset>,
    log: &Watermarks,
) -> Wanted {
    let bare = |offset| Wanted::Commit(CommittedOffset::bare(offset), Together::No);
    // Where the group has no commits at all, that is refused or allowed for the group as a whole.
    let expired = from.is_none() && !planning.seen.has_no_commits();
    let no_commit = || {
        Wanted::Refuse(Refusal::PartitionUnknown {
            partition: partition.clone(),
        })
    };
    match &planning.targets {
        Targets::Checkpoint { checkpoint, .. } => {
            let then = checkpoint.partitions.get(partition);
            match then.and_then(|then| then.committed.as_ref()) {
                None => Wanted::Leave(LeftAlone::NoCommitInSource),
                Some(_) if expired && !planning.request.allow.restore_missing => no_commit(),
                Some(committed) => Wanted::Commit(committed.clone(), Together::Yes),
            }
        }
        Targets::Timestamp { offsets, .. } => match offsets.get(partition) {
            // One that was written after the log's end was read is beyond it.
            Some(Ok(Some(found))) => bare(found.offset.min(log.high)),
            // As Kafka's own tool does: no record that late means the end of the log.
            Some(Ok(None)) if planning.request.allow.forward => bare(log.high),
            // Nothing of that time is there to be read again, and no other partition has to wait for that.
            Some(Ok(None)) if from.is_some_and(|from| from.offset < log.high) => {
                Wanted::Leave(LeftAlone::NoRecordThatLate)
            }
            Some(Ok(None)) => bare(log.high),
            Some(Err(fault)) => Wanted::Refuse(evidence(partition, fault)),
            None => Wanted::Refuse(evidence(partition, &Fault::missing())),
        },
        Targets::Offsets(offsets) => match offsets.get(partition) {
            None => Wanted::Leave(LeftAlone::NotSelected),
            // Also where the group has no commits at all: how far a log that it does not read reaches is not said.
            Some(_) if from.is_none() => no_commit(),
            Some(offset) => bare(*offset),
        },
        Targets::Shift(by) => match from {
            None => Wanted::Leave(LeftAlone::NoCommit),
            Some(from) => bare(from.offset.saturating_add(*by)),
        },
        Targets::Earliest => bare(log.log_start),
        Targets::Past {
            committed, records, ..
        } => past(partition, from, committed.get(partition), records),
        Targets::Missing(refusal) => Wanted::Refuse((*refusal).clone()),
        Targets::Undo(of) => executed::undo(*of, partition, from),
        Targets::Finish(of) => executed::finish(*of, partition, from),
    }
}

/// Right after the last record that is passed over: only from where the records were read, or others would be passed
/// over with them.
fn past(
    partition: &TopicPartition,
    from: Option<&CommittedOffset>,
    committed: Option<&i64>,
    records: &[SkippedRecord],
) -> Wanted {
    if from.map(|from| &from.offset) != committed {
        return Wanted::Refuse(Refusal::PlanStale {
            changed: Stale::CommittedOffset {
                partition: partition.clone(),
                planned: committed.copied(),
                seen: from.map(|from| from.offset),
                limit: 0,
            },
        });
    }
    let last = records.iter().rfind(|r| r.partition == *partition);
    match last.and_then(|last| last.record.offset.checked_add(1)) {
        Some(target) => Wanted::Commit(CommittedOffset::bare(target), Together::No),
        None => Wanted::Leave(LeftAlone::NotSelected),
    }
}

/// The target within the log, clamped only where that is allowed.
pub(super) fn bounded(
    planning: &Planning<'_>,
    partition: &TopicPartition,
    from: Option<&CommittedOffset>,
    log: &Watermarks,
    requested: i64,
) -> Result<i64, Refusal> {
    if requested > log.high {
        return Err(Refusal::OffsetAboveHighWatermark {
            partition: partition.clone(),
            requested,
            high: log.high,
        });
    }
    if requested < log.log_start && !may_rise(planning, partition) {
        return Err(Refusal::OffsetBelowLogStart {
            partition: partition.clone(),
            requested,
            log_start: log.log_start,
        });
    }
    let target = requested.max(log.log_start);
    let forward = planning.request.allow.forward
        || matches!(
            planning.targets,
            Targets::Undo(_) | Targets::Finish(_) | Targets::Past { .. }
        );
    // From a position that retention has passed, the log start is no step forward: nothing there is left to skip.
    if let Some(from) = from
        && target > from.offset.max(log.log_start)
        && !forward
    {
        return Err(Refusal::ForwardMove {
            partition: partition.clone(),
            current: from.offset,
            target,
        });
    }
    Ok(target)
}

/// The commit to write where a commit is restored as it was. An epoch that the log has not reached (an unclean election,
/// another cluster) or whose log's epoch is unknown is left out: consumers would see a truncation.
pub(super) fn commit_at(wanted: &CommittedOffset, log: &Watermarks) -> CommittedOffset {
    CommittedOffset {
        offset: wanted.offset,
        leader_epoch: wanted
            .leader_epoch
            .filter(|epoch| log.leader_epoch.is_some_and(|current| *epoch <= current)),
        metadata: wanted.metadata.clone(),
    }
}

/// Logs among the moved ones that lost records since the source was read: compared with now, and as every later
/// checkpoint noted it. Sorted by partition, the earliest note of each.
pub(super) fn log_truncations(planning: &Planning<'_>, moves: &[PartitionMove]) -> Vec<Refusal> {
    let moved: BTreeMap<_, _> = moves.iter().map(|m| (&m.partition, m)).collect();
    let mut found: Vec<Anomaly> = Vec::new();
    match &planning.targets {
        Targets::Checkpoint {
            checkpoint,
            newest,
            later,
            older,
            ..
        } => {
            let id_now = |topic: &str| id_of(planning, topic);
            let high_now = |partition: &TopicPartition| Some(moved.get(partition)?.log.high);
            found.extend(truncations(checkpoint, id_now, high_now));
            if let Some(newest) = newest {
                found.extend(truncations(newest, id_now, high_now));
            }
            let noted = later.iter().flat_map(|header| {
                let since = |a: &&Anomaly| header.ended_at > source_time(checkpoint, older, a.at());
                header.anomalies.iter().filter(since).cloned()
            });
            found.extend(noted);
        }
        Targets::Undo(of) | Targets::Finish(of) => {
            found.extend(of.plan.moves.iter().filter_map(|then| {
                let high_after = moved.get(&then.partition)?.log.high;
                (high_after < then.log.high).then(|| Anomaly::LogTruncated {
                    partition: then.partition.clone(),
                    high_before: then.log.high,
                    high_after,
                })
            }))
        }
        Targets::Timestamp { .. }
        | Targets::Offsets(_)
        | Targets::Past { .. }
        | Targets::Shift(_)
        | Targets::Earliest
        | Targets::Missing(_) => {}
    }
    let mut truncated = BTreeMap::new();
    for anomaly in found {
        if let Anomaly::LogTruncated {
            partition,
            high_before,
            high_after,
        } = anomaly
            && moved.contains_key(&partition)
        {
            truncated
                .entry(partition)
                .or_insert((high_before, high_after));
        }
    }
    truncated
        .into_iter()
        .map(
            |(partition, (high_before, high_after))| Refusal::LogTruncated {
                partition,
                high_before,
                high_after,
            },
        )
        .collect()
}

/// When the checkpoint was taken that a partition of the source comes from.
pub(super) fn source_time(
    checkpoint: &Checkpoint,
    older: &[Older],
    partition: &TopicPartition,
) -> Timestamp {
    let older = older
        .iter()
        .find(|older| older.partitions.contains(partition));
    older.map_or(checkpoint.ended_at, |older| older.ended_at)
}

/// Whether a target that the log start has passed, or passes until the plan is applied, becomes the log start: where that
/// is what was asked for, and where it is allowed. What is left of a plan that allowed it means the same. Records that are
/// named are passed over from exactly where they were read.
pub(super) fn may_rise(planning: &Planning<'_>, partition: &TopicPartition) -> bool {
    let clamp = planning.request.allow.clamp;
    match planning.targets {
        Targets::Earliest => true,
        Targets::Past { .. } | Targets::Missing(_) => false,
        Targets::Finish(of) => {
            let rises = |m: &PartitionMove| m.may_rise_to.is_some();
            clamp || of.move_of(partition).is_some_and(rises)
        }
        Targets::Checkpoint { .. }
        | Targets::Timestamp { .. }
        | Targets::Offsets(_)
        | Targets::Shift(_)
        | Targets::Undo(_) => clamp,
    }
}
