//! Claims the group for a plan.

use jiff::{SignedDuration, Timestamp};

use crate::domain::ids::{ExecutionArn, GroupKey};
use crate::domain::plan::{Plan, PlanRecord, PlanResult};
use crate::domain::policy::seconds;
use crate::domain::recovery::{Claim, Recovery};
use crate::domain::refusal::Refusal;
use crate::error::Error;
use crate::store::{Opened, Store};

/// How long a claim lives beyond the last moment in which its plan may be applied: Kafka cannot check a fence, so
/// whatever is still under way then has to be over before another recovery may begin.
pub const CLAIM_MARGIN: SignedDuration = SignedDuration::from_mins(10);

/// Claims the group for a plan that is to be executed; for anything else, only looks whether somebody holds it. What
/// stands in the way is the refusal.
///
/// The claim comes before the plan is stored: a crash in between leaves a claim that its retry finds to be its own.
pub(super) async fn claim_group(
    store: &Store,
    record: &PlanRecord,
    group: &GroupKey,
) -> Result<Option<Refusal>, Error> {
    let now = record.created_at;
    match &record.result {
        PlanResult::Ready(plan) if !record.dry_run => {
            open_recovery(store, &record.execution, plan, now).await
        }
        PlanResult::Ready(_) => {
            let held = store.claim(group).await?;
            Ok(held.filter(|claim| claim.expires_at > now).map(refuse_live))
        }
        PlanResult::NothingToDo(_) | PlanResult::Refused(_) => {
            let held = store.claim(group).await?;
            let by_another = |c: &Claim| c.expires_at > now && c.execution != record.execution;
            Ok(held.filter(by_another).map(refuse_live))
        }
    }
}

/// Opens the recovery of a plan, in the place of a plan of the guard where that gives way. What stands in the way is the
/// refusal.
pub(super) async fn open_recovery(
    store: &Store,
    execution: &ExecutionArn,
    plan: &Plan,
    now: Timestamp,
) -> Result<Option<Refusal>, Error> {
    let claim = Claim {
        execution: execution.clone(),
        plan: plan.id.clone(),
        expires_at: plan.approve_by + seconds(plan.apply_within_seconds) + CLAIM_MARGIN,
    };
    let recovery = Recovery::open(plan, execution, now);
    match store.open_recovery(&recovery, &claim, now).await? {
        Opened::Yes => Ok(None),
        Opened::HeldBy(holder) => {
            let held = store.plan(&holder.plan).await?;
            let yields = held.is_some_and(|held| held.yields_to(plan));
            if yields && store.supersede_recovery(&recovery, &claim, &holder).await? {
                return Ok(None);
            }
            Ok(Some(refuse_live(holder)))
        }
        Opened::PlanUsed => Ok(Some(Refusal::PlanUsed {
            plan: plan.id.clone(),
        })),
    }
}

fn refuse_live(claim: Claim) -> Refusal {
    Refusal::RecoveryLive {
        plan: claim.plan,
        execution: claim.execution,
    }
}
