//! An earlier plan as the target of another one.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::executed::Executed;
use crate::domain::ids::PlanId;
use crate::domain::offset::TopicPartition;
use crate::domain::plan::{Plan, PlanResult, Source};
use crate::domain::recovery::{AlterAnswer, Outcome, PartitionOutcome, PreImage};
use crate::domain::refusal::Refusal;
use crate::domain::request::RewindRequest;
use crate::error::Error;
use crate::store::Store;

/// An earlier plan with what is on record of its recovery.
pub(super) struct Earlier {
    plan: Plan,
    pre_image: PreImage,
    answers: BTreeMap<TopicPartition, AlterAnswer>,
    outcomes: BTreeMap<TopicPartition, PartitionOutcome>,
    outcome: Outcome,
}

impl Earlier {
    pub(super) fn partitions(&self) -> BTreeSet<TopicPartition> {
        let moves = self.plan.moves.iter();
        moves.map(|m| m.partition.clone()).collect()
    }

    pub(super) fn executed(&self) -> Executed<'_> {
        Executed {
            plan: &self.plan,
            pre_image: &self.pre_image,
            answers: &self.answers,
            outcomes: &self.outcomes,
        }
    }
}

/// The plan that is to be undone, or why it cannot be.
pub(super) async fn to_undo(
    store: &Store,
    id: &PlanId,
    request: &RewindRequest,
) -> Result<Result<Earlier, Refusal>, Error> {
    let earlier = match read(store, id, request).await? {
        Ok(earlier) if earlier.outcome == Outcome::NotApplied => Err("it moved no partition"),
        earlier => earlier,
    };
    Ok(earlier.map_err(|why| Refusal::NothingToUndo {
        plan: id.clone(),
        why: why.to_owned(),
    }))
}

/// The plan that is to be finished, or why it cannot be.
pub(super) async fn to_finish(
    store: &Store,
    id: &PlanId,
    request: &RewindRequest,
) -> Result<Result<Earlier, Refusal>, Error> {
    let earlier = match read(store, id, request).await? {
        Ok(earlier) if earlier.plan.source == Source::Skip => Err(
            "it passes over records, which have to be read and kept anew: the guard proposes the rest by itself",
        ),
        earlier => earlier,
    };
    Ok(earlier.map_err(|why| Refusal::NothingToFinish {
        plan: id.clone(),
        why: why.to_owned(),
    }))
}

async fn read(
    store: &Store,
    id: &PlanId,
    request: &RewindRequest,
) -> Result<Result<Earlier, &'static str>, Error> {
    let Some(record) = store.plan(id).await? else {
        return Ok(Err("there is no such plan"));
    };
    let PlanResult::Ready(plan) = record.result else {
        return Ok(Err("it was never a plan that moves anything"));
    };
    if plan.group != request.group || plan.cluster != request.cluster {
        return Ok(Err("it belongs to another group"));
    }
    let Some(pre_image) = store.pre_image(id).await? else {
        return Ok(Err("nothing of it was sent"));
    };
    let recovery = store.recovery(id).await?;
    let Some(outcome) = recovery.and_then(|recovery| recovery.outcome) else {
        return Ok(Err("what it did was not verified"));
    };
    Ok(Ok(Earlier {
        answers: store.answers(id).await?,
        outcomes: store.result(id).await?.unwrap_or_default(),
        plan,
        pre_image,
        outcome,
    }))
}
