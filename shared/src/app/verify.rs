//! Proves what was changed, from outside of whatever changed it.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;
use serde::Serialize;

use super::context::Context;
use super::load::load_recovery;
use crate::domain::disowned::Undone;
use crate::domain::group::GroupState;
use crate::domain::offset::{CommittedOffset, Fault, TopicPartition};
use crate::domain::plan::{LeftAlone, PartitionMove, Plan, Source};
use crate::domain::recovery::{Outcome, PartitionOutcome, judge};
use crate::error::Error;
use crate::ports::{Brokers, ReadGroups, Role};
use crate::wire::PlanStep;

/// How often partitions that could not be read are read again.
const TRIES: usize = 5;
/// How long between these tries.
const PAUSE: Duration = Duration::from_secs(1);

/// What the state machine does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Next {
    /// Something may still be under way; come back later.
    Wait,
    /// It is known what happened, as far as it can be.
    Report,
}

/// The answer. All fields are always there: a missing one would fail the state that selects it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// What to do.
    pub next: Next,
    /// Until when to wait, RFC 3339, for a Wait state's `TimestampPath`.
    pub wait_until: Option<String>,
    /// What happened.
    pub outcome: Option<Outcome>,
}

/// Raises the fence, then looks.
///
/// # Errors
/// The recovery is neither the execution's own nor one that it was found to be right in ending: then no fence is raised.
/// The brokers or the table failed: nothing is said about the outcome then.
pub async fn verify_plan<B: Brokers>(ctx: &Context<B>, step: &PlanStep) -> Result<Verified, Error> {
    let store = &ctx.store;
    let (plan, _) = load_recovery(store, &step.plan_id).await?;
    // From here on nothing more is sent; what was sent before may still be under way.
    let raised = store.raise_fence(&step.plan_id, &step.execution).await?;
    let Some(recovery) = raised else {
        return Err(Error::Broken(format!(
            "plan {} has no recovery that execution {} may end",
            plan.id, step.execution
        )));
    };
    let over = recovery.under_way_until();
    if let Some(over) = over.filter(|over| ctx.now() < *over) {
        // A whole second later: the Wait state knows no fractions.
        let wait_until = format!("{:.0}", over + SignedDuration::from_secs(1));
        return Ok(Verified {
            next: Next::Wait,
            wait_until: Some(wait_until),
            outcome: None,
        });
    }
    let pre_image = store.pre_image(&plan.id).await?;
    let (now, is_memberless) = match &pre_image {
        // Never sent: no broker has to be asked, and none that fails can stand in the way of saying so.
        None => (BTreeMap::new(), false),
        Some(pre_image) => {
            let reader = ctx
                .brokers
                .connect_groups(&plan.cluster, Role::Read)
                .await?;
            let now = read_back(&reader, &plan).await?;
            let all_there = plan.moves.iter().all(|m| {
                let sent = pre_image.sent(m);
                matches!(now.get(&m.partition), Some(Ok(now)) if now == sent.as_ref())
            });
            let is_memberless = !all_there && is_memberless(&reader, &plan).await;
            (now, is_memberless)
        }
    };
    let answers = store.answers(&plan.id).await?;
    let (outcome, each) = judge(&plan, pre_image.as_ref(), &answers, &now, is_memberless);
    if let (Some(disowns), Some(until)) = (plan.disowns, over)
        && let Some(undone) = undone(&plan, &each)
    {
        // Not until now: Verify may run again much later, and would disown checkpoints of after the rewind.
        store
            .disown(&plan.group_key(), (disowns.after, until), &plan.id, &undone)
            .await?;
    }
    store.set_outcome(&plan.id, &outcome, &each).await?;
    tracing::info!(plan = plan.id.0, %outcome, "verified");
    Ok(Verified {
        next: Next::Report,
        wait_until: None,
        outcome: Some(outcome),
    })
}

/// The partitions that were taken back, as far as that is proven; `None` where none was. Of any other the checkpoints say
/// what they always said.
fn undone(plan: &Plan, each: &BTreeMap<TopicPartition, PartitionOutcome>) -> Option<Undone> {
    let was_moved = |m: &&PartitionMove| {
        matches!(
            each.get(&m.partition),
            Some(PartitionOutcome::Applied | PartitionOutcome::AppliedThenMoved { .. })
        )
    };
    let back = plan.moves.iter().filter(|m| m.goes_back());
    let back: Vec<_> = back.filter(was_moved).map(|m| &m.partition).collect();
    if back.is_empty() {
        return None;
    }
    // What was where the source has it stood there all the time between: its older past says the same, and with it what
    // a rewind of a whole group undid is whole.
    let is_of_checkpoint = matches!(plan.source, Source::Checkpoint { .. });
    let stood = plan.left_alone.iter();
    let stood = stood.filter(|(_, why)| is_of_checkpoint && *why == LeftAlone::AlreadyThere);
    let stood = stood.map(|(partition, _)| partition);
    Some(Undone::of(back.into_iter().chain(stood)))
}

/// Whether nobody is in the plan's group. Consumers that assign themselves are members of nothing, so of a group that
/// never had a protocol that says nothing; and neither does a description that fails.
async fn is_memberless<R: ReadGroups>(reader: &R, plan: &Plan) -> bool {
    let described = reader.describe(&plan.group).await;
    described.is_ok_and(|group| {
        group.state == GroupState::Empty && group.members.is_empty() && !group.is_simple
    })
}

/// Every partition of the plan, read with a fresh handle; what fails for a moment is read again.
async fn read_back<R: ReadGroups>(
    reader: &R,
    plan: &Plan,
) -> Result<BTreeMap<TopicPartition, Result<Option<CommittedOffset>, Fault>>, Error> {
    let found = reader.cluster_id().await?;
    if found != plan.cluster_id {
        return Err(Error::Broken(format!(
            "the brokers belong to cluster {} now, the plan is for {}",
            found.0, plan.cluster_id.0
        )));
    }
    let partitions: Vec<_> = plan.moves.iter().map(|m| m.partition.clone()).collect();
    let mut tries = 1;
    loop {
        let now = reader.committed(&plan.group, &partitions).await?;
        let failed = partitions
            .iter()
            .any(|partition| !matches!(now.get(partition), Some(Ok(_))));
        if !failed || tries == TRIES {
            return Ok(now);
        }
        tries += 1;
        tokio::time::sleep(PAUSE).await;
    }
}
