//! Changes a group's offsets, after everything was read and judged once more.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::context::Context;
use super::load::load_recovery;
use super::people::Known;
use super::{observe_stable, reread};
use crate::domain::alter_size;
use crate::domain::approval::{ApprovedPlan, Evidence, authorize};
use crate::domain::guard::quarantine::Reread;
use crate::domain::ids::PlanId;
use crate::domain::offset::TopicPartition;
use crate::domain::plan::Plan;
use crate::domain::reasons;
use crate::domain::recovery::{AlterAnswer, LONGEST_REQUEST};
use crate::domain::refusal::Refusal;
use crate::domain::rights;
use crate::error::Error;
use crate::ports::{AlterGroups, Brokers, ReadGroups, Role};
use crate::wire::PlanStep;

/// How long one alter request may take. Verify waits this long beyond the last moment in which one may be sent.
pub const ALTER_TIMEOUT: Duration = LONGEST_REQUEST.unsigned_abs();
/// With less than this left of an invocation nothing is begun.
const LEAST_TIME: Duration = Duration::from_secs(30);

/// No Lambda function runs longer: a deadline that is further away is not one.
const LONGEST_RUN: Duration = Duration::from_secs(900);

/// What Apply did. Whether it worked is for Verify to say.
#[derive(Debug, Default, Serialize)]
pub struct Applied {
    /// How many requests were sent.
    pub requests: usize,
    /// How many partitions the broker accepted.
    pub accepted: usize,
    /// How many it rejected.
    pub rejected: usize,
    /// Of how many it is not known.
    pub unknown: usize,
    /// The codes of the refusals that stopped it, and how many there are of each.
    pub refused: Vec<String>,
}

/// Applies a plan. `left` is what is left of the invocation.
///
/// # Errors
/// Something failed. Whether anything was sent by then is on record, and Verify reads it.
pub async fn apply_plan<B: Brokers>(
    ctx: &Context<B>,
    step: &PlanStep,
    left: Duration,
) -> Result<Applied, Error> {
    if left < LEAST_TIME {
        return Err(Error::OutOfTime {
            left_seconds: left.as_secs(),
            needed_seconds: LEAST_TIME.as_secs(),
        });
    }
    let store = &ctx.store;
    let (plan, _) = load_recovery(store, &step.plan_id).await?;
    let time = left.min(LONGEST_RUN);
    let left = SignedDuration::try_from(time).unwrap_or(LONGEST_REQUEST);
    let apply_until = ctx.now() + left;
    if !store.begin_apply(&step.plan_id, apply_until).await? {
        return refuse(ctx, &step.plan_id, apply_until, vec![Refusal::Fenced]).await;
    }
    let reader = ctx
        .brokers
        .connect_groups(&plan.cluster, Role::Apply)
        .await?;
    // Before the group is read: between that and the first request nothing else may take time. Half of the time is for
    // that: what is not read by then is a reason to refuse, and not an end that nobody reports.
    let rereads = if plan.skips.is_empty() {
        BTreeMap::new()
    } else {
        let until = Instant::now() + time / 2;
        let records = ctx
            .brokers
            .connect_records(&plan.cluster, Role::Apply)
            .await?;
        reread::reread(&records, &plan, until).await
    };
    let door = Door {
        ctx,
        step,
        plan: &plan,
        rereads: &rereads,
    };
    let approved = match door.open(&reader).await? {
        Ok(approved) => approved,
        Err(refusals) => return refuse(ctx, &step.plan_id, apply_until, refusals).await,
    };
    let stored = store
        .keep_pre_image(&step.plan_id, approved.pre_image())
        .await?;
    if stored != *approved.pre_image() {
        // Another try of this very recovery was faster and saw something else.
        let refusal = Refusal::NotApproved {
            found: "another try of this recovery is under way".to_owned(),
        };
        return refuse(ctx, &step.plan_id, apply_until, vec![refusal]).await;
    }
    let writer = ctx.brokers.connect_writer(&plan.cluster).await?;
    let applied = send(ctx, step, &approved, &writer, apply_until).await;
    // The handle goes before anything else is said: an unsent request can leave for as long as it lives.
    writer.close().await;
    let applied = applied?;
    if applied.unknown == 0 {
        store
            .end_apply(&step.plan_id, apply_until, ctx.now())
            .await?;
    }
    Ok(applied)
}

/// What is asked before anything is sent.
struct Door<'a, B> {
    ctx: &'a Context<B>,
    step: &'a PlanStep,
    plan: &'a Plan,
    rereads: &'a BTreeMap<(TopicPartition, i64), Reread>,
}

impl<B: Brokers> Door<'_, B> {
    /// Reads everything again and asks the rules.
    async fn open<R: ReadGroups>(
        &self,
        reader: &R,
    ) -> Result<Result<ApprovedPlan, Vec<Refusal>>, Error> {
        let (store, plan) = (&self.ctx.store, self.plan);
        let partitions = plan.moves.iter().map(|m| m.partition.clone()).collect();
        let rights = reader
            .rights(&plan.group, &rights::topics(plan))
            .await
            .map_err(Error::RightsUnread)?;
        let seen = observe_stable(reader, &plan.group, &partitions).await?;
        let approval = store
            .approval_of(&plan.id)
            .await?
            .map(|(_, approval)| approval);
        let recovery = load_recovery(store, &plan.id).await?.1;
        let known = Known::of(self.ctx, plan, &self.step.execution).await?;
        let claim = store.claim(&plan.group_key()).await?;
        let pre_image = store.pre_image(&plan.id).await?;
        let config_hash = self
            .ctx
            .config
            .resolve(&plan.cluster, &plan.group)
            .map_or(String::new(), |resolved| resolved.config_hash);
        Ok(authorize(
            plan,
            &Evidence {
                now: self.ctx.now(),
                execution: &self.step.execution,
                approval: approval.as_ref(),
                people: known.people(),
                recovery: &recovery,
                claim: claim.as_ref(),
                apply_enabled: store
                    .apply_switch()
                    .await?
                    .unwrap_or(self.ctx.apply_enabled),
                config_hash: &config_hash,
                seen: &seen,
                rights: &rights,
                pre_image: pre_image.as_ref(),
                rereads: self.rereads,
            },
        ))
    }
}

/// Sends the requests one at a time and stops at the first that is not accepted whole.
async fn send<B: Brokers>(
    ctx: &Context<B>,
    step: &PlanStep,
    approved: &ApprovedPlan,
    writer: &B::Writer,
    apply_until: Timestamp,
) -> Result<Applied, Error> {
    let store = &ctx.store;
    let attempt = ulid::Ulid::generate().to_string();
    let mut applied = Applied::default();
    let requests = approved.requests(alter_size::REQUEST_BYTES, alter_size::estimate_commit);
    for (index, request) in requests.iter().enumerate() {
        if let Some(refusal) = stop(ctx, &step.plan_id, apply_until).await? {
            let refusals = [refusal];
            applied.refused = reasons::codes(&refusals);
            store.note_refusals(&step.plan_id, &refusals).await?;
            break;
        }
        let answers = writer.alter(request, ALTER_TIMEOUT).await;
        applied.requests += 1;
        count(&mut applied, &answers);
        let answers: Vec<_> = answers.into_iter().collect();
        store
            .record_answers(&step.plan_id, index, &attempt, &answers)
            .await?;
        let rejected: Vec<_> = answers.iter().filter_map(rejection).collect();
        if !rejected.is_empty() {
            store.note_refusals(&step.plan_id, &rejected).await?;
        }
        if answers
            .iter()
            .any(|(_, answer)| *answer != AlterAnswer::Accepted)
        {
            break;
        }
    }
    Ok(applied)
}

/// Why the next request must not be sent.
async fn stop<B>(
    ctx: &Context<B>,
    plan: &PlanId,
    apply_until: Timestamp,
) -> Result<Option<Refusal>, Error> {
    let (open, switch) = ctx.store.may_send(plan).await?;
    Ok(if !open || ctx.now() >= apply_until {
        Some(Refusal::Fenced)
    } else if !switch.unwrap_or(ctx.apply_enabled) {
        Some(Refusal::ApplySwitchedOff)
    } else {
        None
    })
}

fn count(applied: &mut Applied, answers: &BTreeMap<TopicPartition, AlterAnswer>) {
    for answer in answers.values() {
        match answer {
            AlterAnswer::Accepted => applied.accepted += 1,
            AlterAnswer::Rejected(_) | AlterAnswer::GroupActive(_) => applied.rejected += 1,
            AlterAnswer::Unknown(_) => applied.unknown += 1,
        }
    }
}

/// What a broker's rejection means to a person.
fn rejection((partition, answer): &(TopicPartition, AlterAnswer)) -> Option<Refusal> {
    match answer {
        AlterAnswer::GroupActive(error) => Some(Refusal::GroupBecameActive {
            partition: partition.clone(),
            error: error.clone(),
        }),
        AlterAnswer::Rejected(error) => Some(Refusal::BrokerRejected {
            partition: partition.clone(),
            error: error.clone(),
        }),
        AlterAnswer::Accepted | AlterAnswer::Unknown(_) => None,
    }
}

async fn refuse<B>(
    ctx: &Context<B>,
    plan: &PlanId,
    apply_until: Timestamp,
    refusals: Vec<Refusal>,
) -> Result<Applied, Error> {
    ctx.store.note_refusals(plan, &refusals).await?;
    ctx.store.end_apply(plan, apply_until, ctx.now()).await?;
    Ok(Applied {
        refused: reasons::codes(&refusals),
        ..Applied::default()
    })
}
