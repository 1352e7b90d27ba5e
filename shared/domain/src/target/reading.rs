//! What a partition's reading says of its target.

use std::collections::BTreeMap;

use super::data::Wanted;
use crate::group::GroupObservation;
use crate::offset::{CommittedOffset, Fault, TopicPartition, Watermarks};
use crate::plan::LeftAlone;
use crate::refusal::Refusal;

/// What is committed for a partition, and its log.
///
/// # Errors
/// Either could not be read.
pub(in super::super) fn read_position<'a>(
    seen: &'a GroupObservation,
    partition: &TopicPartition,
) -> Result<(Option<&'a CommittedOffset>, &'a Watermarks), Refusal> {
    let Some(reading) = seen.partitions.get(partition) else {
        return Err(refuse_unread(partition, &Fault::missing()));
    };
    match (&reading.committed, &reading.log) {
        (Ok(from), Ok(log)) => Ok((from.as_ref(), log)),
        (Err(fault), _) | (_, Err(fault)) => Err(refuse_unread(partition, fault)),
    }
}

/// A partition that could not be read, as a refusal.
pub(in super::super) fn refuse_unread(partition: &TopicPartition, fault: &Fault) -> Refusal {
    match fault {
        Fault::Unstable => Refusal::UnstableOffsets {
            partition: partition.clone(),
        },
        Fault::TopicGone | Fault::NotAuthorised | Fault::NoLeader | Fault::Failed { .. } => {
            Refusal::EvidenceIncomplete {
                at: partition.to_string(),
                fault: fault.clone(),
            }
        }
    }
}

/// What a partition should become by its reading; one that could not be read is refused.
pub(super) fn judge_reading(
    seen: &GroupObservation,
    partition: &TopicPartition,
    judge: impl FnOnce(Option<&CommittedOffset>, &Watermarks) -> Wanted,
) -> Wanted {
    match read_position(seen, partition) {
        Ok((from, log)) => judge(from, log),
        Err(refusal) => Wanted::Refuse(refusal),
    }
}

/// What each partition should become, for targets that are about the partitions with a commit.
pub(super) fn judge_each_committed(
    seen: &GroupObservation,
    judge: impl Fn(&TopicPartition, &CommittedOffset, &Watermarks) -> Wanted,
) -> BTreeMap<TopicPartition, Wanted> {
    let judge_one = |partition: &TopicPartition| {
        let no_commit = Wanted::NotAsked(LeftAlone::NoCommit);
        match seen.partitions.get(partition) {
            Some(reading) if reading.committed == Ok(None) => no_commit,
            _ => judge_reading(seen, partition, |from, log| {
                from.map_or(no_commit, |from| judge(partition, from, log))
            }),
        }
    };
    let partitions = seen.partitions.keys();
    partitions
        .map(|partition| (partition.clone(), judge_one(partition)))
        .collect()
}

/// Whether a commit's metadata is what Kafka Streams commits: base64 of a version byte (1 or 2), the partition time as
/// eight bytes and, from version 2 on, more.
pub(in super::super) fn is_streams_commit(commit: &CommittedOffset) -> bool {
    data_encoding::BASE64
        .decode(&commit.metadata)
        .is_ok_and(|bytes| match bytes.split_first() {
            Some((1, rest)) => rest.len() == 8,
            Some((2, rest)) => rest.len() >= 8,
            _ => false,
        })
}
