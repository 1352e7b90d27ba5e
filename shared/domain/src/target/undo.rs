//! Where the group was before an earlier plan was applied.

use super::data::{Target, Wanted};
use super::executed::{ANOTHER_GROUP, EarlierRecords, Executed, tell_moved_since, tell_unknown};
use super::reading::judge_reading;
use crate::group::GroupObservation;
use crate::ids::PlanId;
use crate::offset::{CommittedOffset, TopicPartition};
use crate::plan::{LeftAlone, Source};
use crate::recovery::{Outcome, PartitionOutcome};
use crate::refusal::Refusal;
use crate::request::RewindRequest;

/// The plan that is to be undone.
///
/// # Errors
/// It cannot be undone.
pub fn find_undoable(
    plan: &PlanId,
    records: EarlierRecords,
    request: &RewindRequest,
) -> Result<Executed, Refusal> {
    let executed = records.executed(request).and_then(|of| match of.outcome {
        Outcome::NotApplied => Err("it moved no partition"),
        _ => Ok(of),
    });
    executed.map_err(|why| nothing_to_undo(plan, why.to_owned()))
}

/// Resolves the target: where the plan found each partition that it moved.
///
/// # Errors
/// The plan belongs to another group.
pub fn resolve_undo(
    of: &Executed,
    request: &RewindRequest,
    seen: &GroupObservation,
) -> Result<Target, Refusal> {
    let plan = &of.plan.id;
    if of.plan.group != request.group {
        return Err(nothing_to_undo(plan, ANOTHER_GROUP.to_owned()));
    }
    let may_rise = request.allow.clamp;
    let source = Source::Undo { plan: plan.clone() };
    Ok(of.target(source, seen, |partition| {
        if of.move_of(partition).is_none() {
            return Wanted::NotAsked(LeftAlone::NotMovedThen);
        }
        if of.known_outcome(partition) == Some(&PartitionOutcome::NotApplied) {
            return Wanted::NotAsked(LeftAlone::NotAppliedThen);
        }
        judge_reading(seen, partition, |from, _| {
            judge_commit(of, partition, from, may_rise)
        })
    }))
}

/// Back to where the plan found it: only from where the plan left it.
fn judge_commit(
    of: &Executed,
    partition: &TopicPartition,
    from: Option<&CommittedOffset>,
    may_rise: bool,
) -> Wanted {
    let refuse = |why| Wanted::Refuse(nothing_to_undo(&of.plan.id, why));
    let (Some(m), Some(before), Some(outcome)) = (
        of.move_of(partition),
        of.pre_image.before.get(partition),
        of.outcome_of(partition, from),
    ) else {
        return Wanted::Leave(LeftAlone::NotMovedThen);
    };
    match outcome {
        PartitionOutcome::NotApplied => return Wanted::Leave(LeftAlone::NotAppliedThen),
        PartitionOutcome::Unknown { seen } => return refuse(tell_unknown(partition, &seen)),
        PartitionOutcome::Applied
        | PartitionOutcome::AppliedThenMoved { .. }
        | PartitionOutcome::Overwritten { .. } => {}
    }
    let sent = of.pre_image.sent(m);
    if from != sent.as_ref().as_ref() {
        return refuse(tell_moved_since(partition, sent.as_ref().as_ref(), from));
    }
    match before {
        None => Wanted::Nothing,
        Some(committed) => Wanted::restored(committed.clone(), may_rise),
    }
}

fn nothing_to_undo(plan: &PlanId, why: String) -> Refusal {
    Refusal::NothingToUndo {
        plan: plan.clone(),
        why,
    }
}
