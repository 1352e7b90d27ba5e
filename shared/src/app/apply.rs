//! Changes a group's offsets, after everything was read and judged once more.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::people::Known;
use super::{observe_stable, reread};
use crate::config::Config;
use crate::domain::alter_size;
use crate::domain::approval::{ApprovedPlan, Evidence, authorize};
use crate::domain::guard::quarantine::Reread;
use crate::domain::ids::PlanId;
use crate::domain::offset::TopicPartition;
use crate::domain::plan::{Plan, PlanResult};
use crate::domain::reasons;
use crate::domain::recovery::{AlterAnswer, LONGEST_REQUEST, Recovery};
use crate::domain::refusal::Refusal;
use crate::domain::rights;
use crate::error::Error;
use crate::ports::{AlterGroups, ReadGroups, ReadRecords};
use crate::store::Store;
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

/// A plan that is being executed, and its recovery.
///
/// # Errors
/// One of the two is not there: that is a defect, since the execution comes from them.
pub async fn load(store: &Store, id: &PlanId) -> Result<(Plan, Recovery), Error> {
    let record = store.plan(id).await?;
    let recovery = store.recovery(id).await?;
    match (record.map(|record| record.result), recovery) {
        (Some(PlanResult::Ready(plan)), Some(recovery)) => Ok((plan, recovery)),
        _ => Err(Error::Broken(format!(
            "plan {id} or its recovery is not on record"
        ))),
    }
}

/// How a cluster is reached, by its name in the configuration. Nothing is connected before it is needed.
#[derive(Debug, Clone, Copy)]
pub struct Connect<CR, CW, CD> {
    /// To read groups.
    pub reader: CR,
    /// To alter them.
    pub writer: CW,
    /// To read records: only for a plan that passes some over.
    pub records: CD,
}

/// Applies a plan. `left` is what is left of the invocation.
///
/// # Errors
/// Something failed. Whether anything was sent by then is on record, and Verify reads it.
pub async fn run<R, W, D, CR, CW, CD>(
    config: &Config,
    store: &Store,
    step: &PlanStep,
    left: Duration,
    default_switch: bool,
    connect: Connect<CR, CW, CD>,
) -> Result<Applied, Error>
where
    R: ReadGroups,
    W: AlterGroups,
    D: ReadRecords,
    CR: AsyncFn(&str) -> Result<R, Error>,
    CW: AsyncFn(&str) -> Result<W, Error>,
    CD: AsyncFn(&str) -> Result<D, Error>,
{
    if left < LEAST_TIME {
        return Err(Error::OutOfTime {
            left_seconds: left.as_secs(),
            needed_seconds: LEAST_TIME.as_secs(),
        });
    }
    let (plan, _) = load(store, &step.plan_id).await?;
    let time = left.min(LONGEST_RUN);
    let left = SignedDuration::try_from(time).unwrap_or(LONGEST_REQUEST);
    let apply_until = Timestamp::now() + left;
    if !store.begin_apply(&step.plan_id, apply_until).await? {
        return refuse(store, &step.plan_id, apply_until, vec![Refusal::Fenced]).await;
    }
    let reader = (connect.reader)(&plan.cluster).await?;
    // Before the group is read: between that and the first request nothing else may take time. Half of the time is for
    // that: what is not read by then is a reason to refuse, and not an end that nobody reports.
    let rereads = if plan.skips.is_empty() {
        BTreeMap::new()
    } else {
        let until = Instant::now() + time / 2;
        reread::reread(&(connect.records)(&plan.cluster).await?, &plan, until).await
    };
    let door = Door {
        config,
        store,
        step,
        plan: &plan,
        rereads: &rereads,
        default_switch,
    };
    let approved = match door.open(&reader).await? {
        Ok(approved) => approved,
        Err(refusals) => return refuse(store, &step.plan_id, apply_until, refusals).await,
    };
    let stored = store
        .keep_pre_image(&step.plan_id, approved.pre_image())
        .await?;
    if stored != *approved.pre_image() {
        // Another try of this very recovery was faster and saw something else.
        let refusal = Refusal::NotApproved {
            found: "another try of this recovery is under way".to_owned(),
        };
        return refuse(store, &step.plan_id, apply_until, vec![refusal]).await;
    }
    let writer = (connect.writer)(&plan.cluster).await?;
    let applied = send(store, step, &approved, &writer, apply_until, default_switch).await;
    // The handle goes before anything else is said: an unsent request can leave for as long as it lives.
    writer.close().await;
    let applied = applied?;
    if applied.unknown == 0 {
        let now = Timestamp::now();
        store.end_apply(&step.plan_id, apply_until, now).await?;
    }
    Ok(applied)
}

/// What is asked before anything is sent.
struct Door<'a> {
    config: &'a Config,
    store: &'a Store,
    step: &'a PlanStep,
    plan: &'a Plan,
    rereads: &'a BTreeMap<(TopicPartition, i64), Reread>,
    default_switch: bool,
}

impl Door<'_> {
    /// Reads everything again and asks the rules.
    async fn open<R: ReadGroups>(
        &self,
        reader: &R,
    ) -> Result<Result<ApprovedPlan, Vec<Refusal>>, Error> {
        let (store, plan) = (self.store, self.plan);
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
        let recovery = load(store, &plan.id).await?.1;
        let known = Known::of(self.config, store, plan, &self.step.execution).await?;
        let claim = store.claim(&plan.cluster_id, &plan.group).await?;
        let pre_image = store.pre_image(&plan.id).await?;
        let config_hash = self
            .config
            .resolve(&plan.cluster, &plan.group)
            .map_or(String::new(), |resolved| resolved.config_hash);
        Ok(authorize(
            plan,
            &Evidence {
                now: Timestamp::now(),
                execution: &self.step.execution,
                approval: approval.as_ref(),
                people: known.people(),
                recovery: &recovery,
                claim: claim.as_ref(),
                apply_enabled: store.apply_switch().await?.unwrap_or(self.default_switch),
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
async fn send<W: AlterGroups>(
    store: &Store,
    step: &PlanStep,
    approved: &ApprovedPlan,
    writer: &W,
    apply_until: Timestamp,
    default_switch: bool,
) -> Result<Applied, Error> {
    let attempt = ulid::Ulid::generate().to_string();
    let mut applied = Applied::default();
    let requests = approved.requests(alter_size::REQUEST_BYTES, alter_size::estimate_commit);
    for (index, request) in requests.iter().enumerate() {
        if let Some(refusal) = stop(store, &step.plan_id, apply_until, default_switch).await? {
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
async fn stop(
    store: &Store,
    plan: &PlanId,
    apply_until: Timestamp,
    default_switch: bool,
) -> Result<Option<Refusal>, Error> {
    let (open, switch) = store.may_send(plan).await?;
    Ok(if !open || Timestamp::now() >= apply_until {
        Some(Refusal::Fenced)
    } else if !switch.unwrap_or(default_switch) {
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

async fn refuse(
    store: &Store,
    plan: &PlanId,
    apply_until: Timestamp,
    refusals: Vec<Refusal>,
) -> Result<Applied, Error> {
    store.note_refusals(plan, &refusals).await?;
    store.end_apply(plan, apply_until, Timestamp::now()).await?;
    Ok(Applied {
        refused: reasons::codes(&refusals),
        ..Applied::default()
    })
}
