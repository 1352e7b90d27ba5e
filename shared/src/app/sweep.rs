//! Puts right what was cut off: decisions that were not delivered, waits for a decision that can no longer be made,
//! executions that ended without a report.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use ulid::Ulid;

use super::alert;
use super::context::Context;
use super::deliver::{Delivery, deliver_decision};
use super::reconcile::{self, Standing as OwnerStanding};
use super::report::{self, Own};
use crate::domain::approval::{Approval, ApprovalStatus, Standing};
use crate::domain::ids::{ExecutionArn, PlanId};
use crate::error::Error;
use crate::failure::chain;
use crate::ports::{Execution, ExecutionStatus, Started, TaskAnswer};
use crate::store::{Lapse, LinkHash, Store};
use crate::wire::{Asked, LONGEST_TEXT, Reconcile};

/// How many executions may try to end one recovery before people have to.
const RECONCILE_TRIES: usize = 5;

/// How many names are tried for them: others may have taken some. Whoever has taken all of them stands in the way of
/// nothing, since one more is made up.
const RECONCILE_NAMES: usize = 20;

/// The error that ends a wait in which nobody decided.
const APPROVAL_EXPIRED: &str = "OffsetGuard.ApprovalExpired";

/// The error that ends a wait whose plan another one took the place of.
const SUPERSEDED: &str = "OffsetGuard.Superseded";

/// What a sweep did.
#[derive(Debug, Default, Serialize)]
pub struct Swept {
    /// Decisions delivered to the executions that wait for them.
    pub delivered: usize,
    /// Waits ended because nobody decided in time.
    pub expired: usize,
    /// Waits ended because another plan took the place of theirs.
    pub superseded: usize,
    /// Executions started to end a recovery whose own one is gone.
    pub reconciling: usize,
    /// Recoveries that need a person.
    pub stuck: usize,
}

/// Sweeps every open recovery, or only that of `execution`, which just ended.
///
/// # Errors
/// The table failed, or something is left that a person has to look at: then the invocation fails, so that it is tried
/// again and in the end somebody hears of it. One recovery that fails does not keep the others from being swept.
pub async fn sweep_recoveries<B>(
    ctx: &Context<B>,
    execution: Option<&ExecutionArn>,
) -> Result<Swept, Error> {
    let mut swept = Swept::default();
    let found = sweep_open(ctx, execution, &mut swept).await?;
    if let Some(ended) = execution.filter(|_| !found) {
        end_unclaimed(ctx, ended).await?;
    }
    match swept.stuck {
        0 => Ok(swept),
        recoveries => Err(Error::Stuck { recoveries }),
    }
}

/// Sweeps what is open, and says whether there was anything.
async fn sweep_open<B>(
    ctx: &Context<B>,
    execution: Option<&ExecutionArn>,
    swept: &mut Swept,
) -> Result<bool, Error> {
    let mut found = false;
    for (plan, owner) in ctx.store.open_recoveries().await? {
        if execution.is_some_and(|only| *only != owner) {
            continue;
        }
        found = true;
        if let Err(error) = sweep_recovery(ctx, &plan, &owner, swept).await {
            tracing::error!(
                plan = plan.0,
                error = chain(&error),
                "a recovery was not swept"
            );
            swept.stuck += 1;
        }
    }
    Ok(found)
}

/// Ends an execution that holds no group: there is nothing to prove, only something to say.
async fn end_unclaimed<B>(ctx: &Context<B>, execution: &ExecutionArn) -> Result<(), Error> {
    let Some(known) = ctx.executions.describe(execution).await? else {
        return Ok(());
    };
    match known.status {
        ExecutionStatus::Succeeded
        | ExecutionStatus::Failed
        | ExecutionStatus::TimedOut
        | ExecutionStatus::Aborted => {}
        // Step Functions may not know yet what it has told already; asked again, it does.
        ExecutionStatus::Running | ExecutionStatus::Unknown => {
            return Err(Error::StillRunning(execution.clone()));
        }
    }
    let input = match known.input {
        Some(Value::Object(input)) => input,
        Some(_) | None => Map::new(),
    };
    let asked = Asked::of(&input);
    match asked {
        Asked::Alert(written) => {
            alert::report_alert(ctx, execution, written).await?;
            return Ok(());
        }
        // Its word is the record of the other one, which the next try writes.
        Asked::Reconcile(written) if ends_another(&ctx.store, execution, written).await? => {
            return Ok(());
        }
        Asked::Reconcile(_) => {
            let refusal = reconcile::unfounded("it ended before that was looked at".to_owned());
            report::end_invalid(ctx, execution, refusal).await?;
            return Ok(());
        }
        Asked::Plan(_) | Asked::Request(_) | Asked::Nothing => {}
    }
    // It may have got as far as a plan: a refusal, or one that was only to be read.
    let own = Own {
        execution,
        started_at: Some(known.started_at),
        planned: None,
        asked,
    };
    report::end(ctx, &own, None).await?;
    Ok(())
}

/// Whether an execution was found to be right in ending the recovery that its input names, or that one is ended. The
/// execution's name says nothing of that: whoever starts one chooses it.
async fn ends_another(
    store: &Store,
    execution: &ExecutionArn,
    written: &Value,
) -> Result<bool, Error> {
    let Ok(named) = Reconcile::deserialize(written) else {
        return Ok(false);
    };
    if named.plan_id.0.len() > LONGEST_TEXT {
        return Ok(false);
    }
    let recovery = store.recovery(&named.plan_id).await?;
    Ok(recovery.is_some_and(|recovery| {
        let by = recovery.reconciled_by.as_ref();
        recovery.execution == named.execution
            && (by == Some(execution) || recovery.closed_at.is_some())
    }))
}

async fn sweep_recovery<B>(
    ctx: &Context<B>,
    plan: &PlanId,
    owner: &ExecutionArn,
    swept: &mut Swept,
) -> Result<(), Error> {
    let recovery = ctx.store.recovery(plan).await?;
    let recovery = recovery.ok_or_else(|| Error::Broken(format!("plan {plan} has no recovery")))?;
    let over_since = match reconcile::standing(ctx, owner, recovery.opened_at).await? {
        OwnerStanding::Runs => return wake(ctx, plan, swept).await,
        OwnerStanding::Unproven => {
            tracing::warn!(
                plan = plan.0,
                owner = owner.0,
                "it is not proven that its execution is over"
            );
            return Ok(());
        }
        OwnerStanding::Over { since } => since,
    };
    if let Some(by) = &recovery.reconciled_by
        && !reconcile::is_over(ctx, by).await?
    {
        // Somebody ends it already, under whatever name. If that one is cut off too, the next sweep sees it.
        return Ok(());
    }
    let own = serde_json::json!({ "reconcile": Reconcile {
        plan_id: plan.clone(),
        execution: owner.clone(),
    } });
    // With the same input before there was anything to end, it was nobody's try.
    let is_try = |found: &Execution| {
        let late_enough = over_since.is_none_or(|since| found.started_at >= since);
        found.input.as_ref() == Some(&own) && late_enough
    };
    start_reconcile(ctx, plan, &own, is_try, swept).await
}

/// Starts an execution that ends the recovery of `plan`, with the input `own`, unless one is under way or too many have
/// been tried. `is_try` tells such an execution from another one of the same name.
async fn start_reconcile<B>(
    ctx: &Context<B>,
    plan: &PlanId,
    own: &Value,
    is_try: impl Fn(&Execution) -> bool,
    swept: &mut Swept,
) -> Result<(), Error> {
    let executions = &ctx.executions;
    let mut tries = 0;
    for number in 1..=RECONCILE_NAMES {
        let name = format!("{plan}-reconcile-{number}");
        let arn = executions
            .arn(&name)
            .ok_or_else(|| Error::Broken("the ARN of the state machine is not one".to_owned()))?;
        match executions.describe(&arn).await? {
            // Whoever may start an execution may have chosen this name, for whatever else.
            Some(found) if !is_try(&found) => {
                tracing::error!(
                    plan = plan.0,
                    name,
                    "another execution has a reconcile's name"
                );
            }
            Some(found)
                if matches!(
                    found.status,
                    ExecutionStatus::Running | ExecutionStatus::Unknown
                ) =>
            {
                return Ok(());
            }
            // It ended and the recovery is still open, so it did not reach its report either.
            Some(_) => tries += 1,
            None => match executions.start(&name, own).await? {
                Started::Now(_) => {
                    swept.reconciling += 1;
                    return Ok(());
                }
                // Step Functions does not know yet what it has taken already.
                Started::NameTaken => return Ok(()),
            },
        }
        if tries == RECONCILE_TRIES {
            tracing::error!(
                plan = plan.0,
                "the recovery could not be ended; a person has to look"
            );
            swept.stuck += 1;
            return Ok(());
        }
    }
    // Nobody can have taken a name that is made up now. Where two sweeps come here at once, the note in the table lets one
    // of their executions end the recovery.
    let name = format!("{plan}-reconcile-{}", Ulid::generate());
    executions.start(&name, own).await?;
    swept.reconciling += 1;
    tracing::error!(
        plan = plan.0,
        name,
        "others have taken the names of what ends the recovery; a person has to look who"
    );
    swept.stuck += 1;
    Ok(())
}

/// Ends the wait of an execution that has nothing left to wait for.
async fn wake<B>(ctx: &Context<B>, plan: &PlanId, swept: &mut Swept) -> Result<(), Error> {
    let Some((link, approval)) = ctx.store.approval_of(plan).await? else {
        return Ok(());
    };
    let now = ctx.now();
    match approval.standing(now) {
        Standing::Closed(ApprovalStatus::Approved | ApprovalStatus::Rejected)
            if approval.delivered_at.is_none() =>
        {
            let delivery =
                deliver_decision(&ctx.store, ctx.executions.as_ref(), &link, &approval, now)
                    .await?;
            if delivery == Delivery::Delivered {
                swept.delivered += 1;
            }
        }
        Standing::Closed(ApprovalStatus::Expired) => {
            if expire(ctx, &link, &approval).await? {
                swept.expired += 1;
            }
        }
        // Where its report is under way instead, nothing waits any more.
        Standing::Closed(ApprovalStatus::Superseded) => {
            let cause = "another plan took its place";
            if end_wait(ctx, &link, SUPERSEDED, cause).await? {
                swept.superseded += 1;
            }
        }
        Standing::Open | Standing::Closed(_) => {}
    }
    Ok(())
}

/// Closes an approval that nobody decided in time and ends the wait for it, whose own time-out is that of the longest
/// policy: until then the group would stay claimed for nothing.
async fn expire<B>(ctx: &Context<B>, link: &LinkHash, approval: &Approval) -> Result<bool, Error> {
    let closed = ctx.store.close_approval(link, Lapse::Expired).await?;
    if closed.status != ApprovalStatus::Expired {
        // Decided at the last moment; who decided delivers it.
        return Ok(false);
    }
    let cause = format!("nobody decided by {}", approval.approve_by);
    end_wait(ctx, link, APPROVAL_EXPIRED, &cause).await
}

async fn end_wait<B>(
    ctx: &Context<B>,
    link: &LinkHash,
    error: &str,
    cause: &str,
) -> Result<bool, Error> {
    let Some(token) = ctx.store.task_token(link).await? else {
        return Ok(false);
    };
    let told = ctx.executions.task_failed(&token, error, cause).await?;
    Ok(told == TaskAnswer::Received)
}
