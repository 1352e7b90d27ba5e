//! The targets that an earlier plan gives: where it found each partition, or where it would have moved it.

use super::targets::{Together, Wanted};
use crate::executed::Executed;
use crate::offset::{CommittedOffset, TopicPartition};
use crate::plan::LeftAlone;
use crate::recovery::PartitionOutcome;
use crate::refusal::Refusal;

/// Why an undo leaves a partition alone whatever its reading says.
pub(super) fn left_by_undo(of: Executed<'_>, partition: &TopicPartition) -> Option<LeftAlone> {
    if of.move_of(partition).is_none() {
        return Some(LeftAlone::NotMovedThen);
    }
    match of.known(partition)? {
        PartitionOutcome::NotApplied => Some(LeftAlone::NotAppliedThen),
        _ => None,
    }
}

/// Why a finish leaves a partition alone whatever its reading says.
pub(super) fn left_by_finish(of: Executed<'_>, partition: &TopicPartition) -> Option<LeftAlone> {
    if of.move_of(partition).is_none() {
        return Some(LeftAlone::NotInPlan);
    }
    match of.known(partition)? {
        PartitionOutcome::NotApplied | PartitionOutcome::Unknown { .. } => None,
        PartitionOutcome::Applied
        | PartitionOutcome::AppliedThenMoved { .. }
        | PartitionOutcome::Overwritten { .. } => Some(LeftAlone::AppliedThen),
    }
}

/// Back to where the plan found it: only from where the plan left it.
pub(super) fn undo(
    of: Executed<'_>,
    partition: &TopicPartition,
    from: Option<&CommittedOffset>,
) -> Wanted {
    let no = |why| Refusal::NothingToUndo {
        plan: of.plan.id.clone(),
        why,
    };
    let (Some(m), Some(before), Some(outcome)) = (
        of.move_of(partition),
        of.pre_image.before.get(partition),
        of.outcome(partition, from),
    ) else {
        return Wanted::Leave(LeftAlone::NotMovedThen);
    };
    match outcome {
        PartitionOutcome::NotApplied => return Wanted::Leave(LeftAlone::NotAppliedThen),
        PartitionOutcome::Unknown { seen } => {
            return Wanted::Refuse(no(unknown(partition, &seen)));
        }
        PartitionOutcome::Applied
        | PartitionOutcome::AppliedThenMoved { .. }
        | PartitionOutcome::Overwritten { .. } => {}
    }
    let sent = of.pre_image.sent(m);
    if from != sent.as_ref().as_ref() {
        return Wanted::Refuse(no(moved_since(partition, sent.as_ref().as_ref(), from)));
    }
    match before {
        None => Wanted::Nothing,
        Some(committed) => Wanted::Commit(committed.clone(), Together::Yes),
    }
}

/// To where the plan would have moved it: only from where the plan found it.
pub(super) fn finish(
    of: Executed<'_>,
    partition: &TopicPartition,
    from: Option<&CommittedOffset>,
) -> Wanted {
    let no = |why| Refusal::NothingToFinish {
        plan: of.plan.id.clone(),
        why,
    };
    let (Some(m), Some(before), Some(outcome)) = (
        of.move_of(partition),
        of.pre_image.before.get(partition),
        of.outcome(partition, from),
    ) else {
        return Wanted::Leave(LeftAlone::NotInPlan);
    };
    match outcome {
        PartitionOutcome::Applied
        | PartitionOutcome::AppliedThenMoved { .. }
        | PartitionOutcome::Overwritten { .. } => return Wanted::Leave(LeftAlone::AppliedThen),
        PartitionOutcome::Unknown { seen } => {
            return Wanted::Refuse(no(unknown(partition, &seen)));
        }
        PartitionOutcome::NotApplied => {}
    }
    if from != before.as_ref() {
        return Wanted::Refuse(no(moved_since(partition, before.as_ref(), from)));
    }
    match &m.to {
        None => Wanted::Nothing,
        Some(to) if is_bare(to) && m.from.as_ref().is_none_or(|from| from.offset != to.offset) => {
            Wanted::Commit(to.clone(), Together::No)
        }
        // Also where a bare commit was to take back nothing but the metadata.
        Some(to) => Wanted::Commit(to.clone(), Together::Yes),
    }
}

fn is_bare(committed: &CommittedOffset) -> bool {
    committed.leader_epoch.is_none() && committed.metadata.is_empty()
}

fn unknown(partition: &TopicPartition, seen: &str) -> String {
    format!(
        "it is not known whether it moved {partition} (seen: {seen}); leave that partition out by naming topics, and use \
         to_offsets for it"
    )
}

/// Why a partition is not where an earlier plan left it.
fn moved_since(
    partition: &TopicPartition,
    left: Option<&CommittedOffset>,
    from: Option<&CommittedOffset>,
) -> String {
    let at =
        |c: Option<&CommittedOffset>| c.map_or("no commit".to_owned(), |c| c.offset.to_string());
    if left.map(|c| c.offset) == from.map(|c| c.offset) {
        return format!(
            "it left {partition} at {}, which was committed again since with another epoch or metadata",
            at(left)
        );
    }
    format!(
        "it left {partition} at {}, which is at {} now",
        at(left),
        at(from)
    )
}
