//! Where an earlier plan would have moved what it did not move.

use super::data::{Target, Undoes, Wanted, WantedCommit};
use super::executed::{ANOTHER_GROUP, EarlierRecords, Executed, tell_moved_since, tell_unknown};
use super::reading::judge_reading;
use crate::group::GroupObservation;
use crate::ids::PlanId;
use crate::offset::CommittedOffset;
use crate::plan::{LeftAlone, PartitionMove, Source};
use crate::recovery::PartitionOutcome;
use crate::refusal::Refusal;
use crate::request::RewindRequest;

/// The plan that is to be finished.
///
/// # Errors
/// It cannot be finished.
pub fn find_unfinished(
    plan: &PlanId,
    records: EarlierRecords,
    request: &RewindRequest,
) -> Result<Executed, Refusal> {
    let executed = records.executed(request).and_then(|of| match of.plan.source {
        Source::Skip => Err(
            "it passes over records, which have to be read and kept anew: the guard proposes the rest by itself",
        ),
        _ => Ok(of),
    });
    executed.map_err(|why| nothing_to_finish(plan, why.to_owned()))
}

/// Resolves the target: the plan's targets, where it was not applied.
///
/// # Errors
/// The plan belongs to another group.
pub fn resolve_finish(
    of: &Executed,
    request: &RewindRequest,
    seen: &GroupObservation,
) -> Result<Target, Refusal> {
    let plan = &of.plan;
    if plan.group != request.group {
        return Err(nothing_to_finish(&plan.id, ANOTHER_GROUP.to_owned()));
    }
    let source = Source::Finish {
        plan: plan.id.clone(),
        source: Box::new(plan.source.clone()),
    };
    let target = of.target(source, seen, |partition| {
        let Some(m) = of.move_of(partition) else {
            return Wanted::NotAsked(LeftAlone::NotInPlan);
        };
        if let Some(
            PartitionOutcome::Applied
            | PartitionOutcome::AppliedThenMoved { .. }
            | PartitionOutcome::Overwritten { .. },
        ) = of.known_outcome(partition)
        {
            return Wanted::NotAsked(LeftAlone::AppliedThen);
        }
        // What is left of a plan that allowed it means the same.
        let may_rise = request.allow.clamp || m.may_rise_to.is_some();
        judge_reading(seen, partition, |from, _| {
            judge_commit(of, m, from, may_rise)
        })
    });
    let disowns = plan.disowns.map(|disowns| Undoes::Since(disowns.after));
    Ok(Target {
        undoes: disowns.unwrap_or(Undoes::AsCheckpointsSay),
        ..target
    })
}

/// To where the plan would have moved it: only from where the plan found it.
fn judge_commit(
    of: &Executed,
    m: &PartitionMove,
    from: Option<&CommittedOffset>,
    may_rise: bool,
) -> Wanted {
    let partition = &m.partition;
    let refuse = |why| Wanted::Refuse(nothing_to_finish(&of.plan.id, why));
    let (Some(before), Some(outcome)) = (
        of.pre_image.before.get(partition),
        of.outcome_of(partition, from),
    ) else {
        return Wanted::Leave(LeftAlone::NotInPlan);
    };
    match outcome {
        PartitionOutcome::Applied
        | PartitionOutcome::AppliedThenMoved { .. }
        | PartitionOutcome::Overwritten { .. } => return Wanted::Leave(LeftAlone::AppliedThen),
        PartitionOutcome::Unknown { seen } => return refuse(tell_unknown(partition, &seen)),
        PartitionOutcome::NotApplied => {}
    }
    if from != before.as_ref() {
        return refuse(tell_moved_since(partition, before.as_ref(), from));
    }
    let Some(to) = &m.to else {
        return Wanted::Nothing;
    };
    // A bare commit that was to take back nothing but the metadata is one that was meant as a whole.
    let bare = to.leader_epoch.is_none() && to.metadata.is_empty();
    let elsewhere = m.from.as_ref().is_none_or(|from| from.offset != to.offset);
    Wanted::Commit(WantedCommit {
        commit: to.clone(),
        as_committed: !(bare && elsewhere),
        may_rise,
    })
}

fn nothing_to_finish(plan: &PlanId, why: String) -> Refusal {
    Refusal::NothingToFinish {
        plan: plan.clone(),
        why,
    }
}
