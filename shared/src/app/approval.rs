//! Asks a person, and lets an execution go on once that person's decision is on record.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use url::Url;

use super::apply::load;
use super::plan::CLAIM_MARGIN;
use crate::domain::approval::{Approval, ApprovalStatus};
use crate::domain::plan::PlanId;
use crate::domain::refusal::Refusal;
use crate::error::{Error, chain};
use crate::executions::Executions;
use crate::page::LinkId;
use crate::slack::{Slack, messages};
use crate::store::{LinkHash, Store, TaskToken};
use crate::wire::PlanStep;

/// The waiting state's own time-out, as `infra/recovery.asl.json` has it.
pub const TASK_TIMEOUT: SignedDuration = SignedDuration::from_secs(3_600);
/// A decision ends this long before the task does, so that none is made in vain.
const TASK_MARGIN: SignedDuration = SignedDuration::from_secs(60);

/// Stores the request for approval and tells the approver.
///
/// A failure fails the waiting task itself, by its token: a wait that nobody was told of would only end by its
/// time-out.
///
/// # Errors
/// Not even the failure could be delivered.
pub async fn request(
    store: &Store,
    executions: &Executions,
    slack: &Slack,
    public_url: &Url,
    execution: &str,
    plan: &PlanId,
    token: &TaskToken,
) -> Result<(), Error> {
    match ask(store, slack, public_url, execution, plan, token).await {
        Ok(()) => Ok(()),
        Err(error) => {
            let cause = chain(&error);
            tracing::error!(plan = plan.0, cause, "the approver could not be asked");
            let name = error.class().error_type();
            executions.task_failed(token, name, &cause).await?;
            Ok(())
        }
    }
}

async fn ask(
    store: &Store,
    slack: &Slack,
    public_url: &Url,
    execution: &str,
    plan: &PlanId,
    token: &TaskToken,
) -> Result<(), Error> {
    let (plan, recovery) = load(store, plan).await?;
    if recovery.closed_at.is_some() || recovery.superseded_by.is_some() {
        // This step outlived its execution, or another plan took its place: nobody must be asked for what is over.
        return Err(Error::Broken(format!("plan {} is over", plan.id)));
    }
    let now = Timestamp::now();
    let approval = Approval {
        plan: plan.id.clone(),
        digest: plan.digest(),
        execution: execution.to_owned(),
        created_at: now,
        approve_by: plan.approve_by.min(now + TASK_TIMEOUT - TASK_MARGIN),
        status: ApprovalStatus::Pending,
        decided_by: None,
        decider: None,
        decided_at: None,
        reason: None,
        delivered_at: None,
    };
    let link = LinkId::random().map_err(|error| Error::Broken(error.to_string()))?;
    store
        .request_approval(&approval, &LinkHash::of(link.expose()), token)
        .await?;
    let url = link.url(public_url);
    slack
        .ask(&messages::approval(&plan, &approval, &url))
        .await?;
    Ok(())
}

/// Whether an execution may go on.
#[derive(Debug, Serialize)]
pub struct Admission {
    /// It may.
    pub admitted: bool,
    /// Why not.
    pub refused: Vec<String>,
    /// Until when it may be applied.
    pub apply_by: Option<Timestamp>,
}

/// Reads what was decided. The callback that woke the execution is not asked.
///
/// # Errors
/// The table failed.
pub async fn admit(
    store: &Store,
    step: &PlanStep,
    default_switch: bool,
) -> Result<Admission, Error> {
    let (plan, recovery) = load(store, &step.plan_id).await?;
    let now = Timestamp::now();
    let mut refusals = Vec::new();
    let mut apply_by = None;
    match store.approval_of(&plan.id).await? {
        None => refusals.push(Refusal::NotApproved {
            found: "there is no approval".to_owned(),
        }),
        Some((_, approval)) => match approval.admits(&plan, &step.execution, now) {
            Ok(until) => apply_by = Some(until),
            Err(refusal) => refusals.push(refusal),
        },
    }
    if !store.apply_switch().await?.unwrap_or(default_switch) {
        refusals.push(Refusal::ApplySwitchedOff);
    }
    if let Some(until) = apply_by.filter(|_| refusals.is_empty()) {
        let held = store
            .renew_claim(
                &plan.cluster_id,
                &plan.group,
                &recovery.execution,
                until + CLAIM_MARGIN,
            )
            .await?;
        if held {
            store.set_apply_by(&plan.id, until).await?;
            return Ok(Admission {
                admitted: true,
                refused: Vec::new(),
                apply_by,
            });
        }
        let holder = store.claim(&plan.cluster_id, &plan.group).await?;
        refusals.push(Refusal::ClaimLost {
            holder: holder.map_or("nobody".to_owned(), |claim| claim.execution),
        });
    }
    store.note_refusals(&plan.id, &refusals).await?;
    Ok(Admission {
        admitted: false,
        refused: refusals.iter().map(Refusal::code).collect(),
        apply_by: None,
    })
}
