//! Asks a person, and lets an execution go on once that person's decision is on record.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use url::Url;

use super::context::Context;
use super::link::LinkId;
use super::load::load_recovery;
use super::people::Known;
use super::plan::CLAIM_MARGIN;
use crate::domain::approval::{Approval, ApprovalStatus, Standing};
use crate::domain::ids::{ExecutionArn, PlanId};
use crate::domain::refusal::Refusal;
use crate::error::Error;
use crate::failure::chain;
use crate::ports::Question;
use crate::store::{LinkHash, TaskToken};
use crate::wire::PlanStep;

/// The waiting state's own time-out, as `infra/recovery.asl.json` has it.
pub const TASK_TIMEOUT: SignedDuration = SignedDuration::from_secs(3_600);
/// A decision ends this long before the task does, so that none is made in vain.
const TASK_MARGIN: SignedDuration = SignedDuration::from_secs(60);

/// A person is told of an approval for the last time so long before it lapses: less is no time to decide.
const LAST_TOLD: SignedDuration = SignedDuration::from_mins(2);

/// The error that ends a wait that nobody could be told of.
const NOBODY_TOLD: &str = "OffsetGuard.NobodyTold";

/// How people are asked.
#[derive(Debug, Clone, Copy)]
pub struct Asking<'a> {
    /// What begins the links.
    pub public_url: &'a Url,
    /// Whether sweeps come by, which tell what could not be told.
    pub swept: bool,
}

/// Stores the request for approval and tells the approver.
///
/// Where Slack takes nothing at the moment, the next sweep tells it. Any other failure fails the waiting task itself, by
/// its token: a wait that nobody was told of would only end by its time-out.
///
/// # Errors
/// Not even the failure could be delivered.
pub async fn request_approval<B>(
    ctx: &Context<B>,
    asking: Asking<'_>,
    execution: &ExecutionArn,
    plan: &PlanId,
    token: &TaskToken,
) -> Result<(), Error> {
    let first = Waiting {
        execution,
        plan,
        token,
        until: ctx.now() + TASK_TIMEOUT - TASK_MARGIN,
        again: false,
    };
    match ask(ctx, asking, first).await {
        Ok(()) => Ok(()),
        Err(error) => {
            let cause = chain(&error);
            tracing::error!(plan = plan.0, cause, "the approver could not be asked");
            let name = error.class().error_type();
            ctx.executions.task_failed(token, name, &cause).await?;
            Ok(())
        }
    }
}

/// An execution that waits for a decision.
#[derive(Clone, Copy)]
struct Waiting<'a> {
    execution: &'a ExecutionArn,
    plan: &'a PlanId,
    token: &'a TaskToken,
    /// When a decision would come too late.
    until: Timestamp,
    /// Whether nobody could be told of it before.
    again: bool,
}

/// Asks for a decision, by a link of its own; an earlier request of the same plan is superseded.
async fn ask<B>(ctx: &Context<B>, asking: Asking<'_>, waiting: Waiting<'_>) -> Result<(), Error> {
    let store = &ctx.store;
    let Waiting {
        execution,
        plan,
        token,
        until,
        again,
    } = waiting;
    let (plan, recovery) = load_recovery(store, plan).await?;
    if recovery.closed_at.is_some() || recovery.superseded_by.is_some() {
        // This step outlived its execution, or another plan took its place: nobody must be asked for what is over.
        return Err(Error::Broken(format!("plan {} is over", plan.id)));
    }
    let record = store.plan(&plan.id).await?;
    let now = ctx.now();
    let approval = Approval {
        plan: plan.id.clone(),
        digest: plan.digest(),
        execution: execution.clone(),
        created_at: now,
        approve_by: plan.approve_by.min(until),
        status: ApprovalStatus::Pending,
        decision: None,
        // Nobody is asked to approve a dry run but by somebody who took it over.
        from_dry_run: record.is_some_and(|record| record.dry_run),
        decided_by: None,
        decider: None,
        decided_at: None,
        reason: None,
        delivered_at: None,
    };
    let link = LinkId::random().map_err(|error| Error::Broken(error.to_string()))?;
    let hash = LinkHash::of(link.expose());
    store.request_approval(&approval, &hash, token).await?;
    let url = link.url(asking.public_url);
    if again {
        // Before it is sent: a sweep that is cut off leaves it to the next one.
        store.note_untold(&approval, Some(&hash)).await?;
    }
    let question = Question {
        plan: &plan,
        recovery: &recovery,
        approval: &approval,
        link: &url,
        is_first: !again,
    };
    match ctx.notifier.ask_approval(question).await {
        Ok(()) if again => Ok(store.note_untold(&approval, None).await?),
        Ok(()) => Ok(()),
        Err(error) if error.may_pass() && asking.swept => {
            tracing::error!(plan = plan.id.0, %error, "nobody is told yet; the next sweep tells it");
            Ok(store.note_untold(&approval, Some(&hash)).await?)
        }
        Err(error) => Err(error.into()),
    }
}

/// What became of the requests for approval that nobody had been told of.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct ToldLate {
    /// Asked again, by a link of their own.
    pub asked: usize,
    /// Ended, since there is no time left to decide.
    pub given_up: usize,
}

/// Asks again for what nobody could be told of, and fails the wait for what can no longer be decided in time.
///
/// The first one that Slack does not take is the last one of this sweep.
///
/// # Errors
/// The table or Step Functions failed.
pub async fn ask_again<B>(ctx: &Context<B>, asking: Asking<'_>) -> Result<ToldLate, Error> {
    let store = &ctx.store;
    let mut told = ToldLate::default();
    for (plan, execution) in store.open_recoveries().await? {
        let Some((link, approval)) = store.approval_of(&plan).await? else {
            continue;
        };
        let now = ctx.now();
        let is_open = matches!(approval.standing(now), Standing::Open);
        if !is_open || !store.is_untold(&approval, &link).await? {
            continue;
        }
        let Some(token) = store.task_token(&link).await? else {
            continue;
        };
        if approval.approve_by.duration_since(now) < LAST_TOLD {
            let cause = "Slack took no message of it for as long as there was time to decide";
            ctx.executions
                .task_failed(&token, NOBODY_TOLD, cause)
                .await?;
            told.given_up += 1;
            continue;
        }
        let waiting = Waiting {
            execution: &execution,
            plan: &plan,
            token: &token,
            until: approval.approve_by,
            again: true,
        };
        let tried = ask(ctx, asking, waiting).await;
        let asked = store.approval_of(&plan).await?;
        // Slack took a message of it after all, and somebody has just decided.
        if tried.is_err() && asked.as_ref().is_some_and(|(_, a)| a.decision.is_some()) {
            continue;
        }
        tried?;
        match asked {
            Some((link, approval)) if store.is_untold(&approval, &link).await? => break,
            _ => told.asked += 1,
        }
    }
    Ok(told)
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
pub async fn admit_plan<B>(ctx: &Context<B>, step: &PlanStep) -> Result<Admission, Error> {
    let store = &ctx.store;
    let (plan, recovery) = load_recovery(store, &step.plan_id).await?;
    let now = ctx.now();
    let mut refusals = Vec::new();
    let mut apply_by = None;
    match store.approval_of(&plan.id).await? {
        None => refusals.push(Refusal::NotApproved {
            found: "there is no approval".to_owned(),
        }),
        Some((_, approval)) => {
            let known = Known::of(ctx, &plan, &step.execution).await?;
            match approval.admits(&plan, known.people(), &step.execution, now) {
                Ok(until) => apply_by = Some(until),
                Err(refusal) => refusals.push(refusal),
            }
        }
    }
    if !store.apply_switch().await?.unwrap_or(ctx.apply_enabled) {
        refusals.push(Refusal::ApplySwitchedOff);
    }
    if let Some(until) = apply_by.filter(|_| refusals.is_empty()) {
        let held = store
            .renew_claim(&plan.group_key(), &recovery.execution, until + CLAIM_MARGIN)
            .await?;
        if held {
            store.set_apply_by(&plan.id, until).await?;
            return Ok(Admission {
                admitted: true,
                refused: Vec::new(),
                apply_by,
            });
        }
        let holder = store.claim(&plan.group_key()).await?;
        refusals.push(Refusal::ClaimLost {
            holder: holder.map_or("nobody".to_owned(), |claim| claim.execution.0),
        });
    }
    store.note_refusals(&plan.id, &refusals).await?;
    Ok(Admission {
        admitted: false,
        refused: refusals.iter().map(Refusal::code).collect(),
        apply_by: None,
    })
}
