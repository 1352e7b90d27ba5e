//! Puts right what was cut off: decisions that were not delivered, waits for a decision that can no longer be made,
//! executions that ended without a report.

use jiff::Timestamp;
use serde::Serialize;

use super::{alert, plan_id, report};
use crate::domain::approval::{Approval, ApprovalStatus, Standing};
use crate::domain::plan::PlanId;
use crate::error::{Error, chain};
use crate::executions::{Executions, Status, Told};
use crate::page::{Delivery, deliver};
use crate::slack::Slack;
use crate::store::{Lapse, LinkHash, Store};
use crate::wire::guard::AlertRef;
use crate::wire::{Reconcile, ReportState};

/// How many executions may try to end one recovery before people have to.
const RECONCILE_TRIES: usize = 5;

/// The error that ends a wait in which nobody decided.
const APPROVAL_EXPIRED: &str = "OffsetGuard.ApprovalExpired";

/// The error that ends a wait whose plan another one took the place of.
const SUPERSEDED: &str = "OffsetGuard.Superseded";

/// Stands between a plan's id and a number in the name of an execution that ends a recovery.
const RECONCILE: &str = "-reconcile-";

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
pub async fn run(
    store: &Store,
    executions: &Executions,
    state_machine: &str,
    slack: &Slack,
    execution: Option<&str>,
) -> Result<Swept, Error> {
    let mut swept = Swept::default();
    let found = open(store, executions, state_machine, execution, &mut swept).await?;
    if let Some(ended) = execution.filter(|ended| !found && !is_reconcile(ended)) {
        end_unclaimed(store, executions, slack, ended).await?;
        // Its plan step may have outlived it and claimed the group since. After the record no step can any more.
        open(store, executions, state_machine, execution, &mut swept).await?;
    }
    match swept.stuck {
        0 => Ok(swept),
        recoveries => Err(Error::Stuck { recoveries }),
    }
}

/// Sweeps what is open, and says whether there was anything.
async fn open(
    store: &Store,
    executions: &Executions,
    state_machine: &str,
    execution: Option<&str>,
    swept: &mut Swept,
) -> Result<bool, Error> {
    let mut found = false;
    for (plan, owner) in store.open_recoveries().await? {
        if execution.is_some_and(|only| only != owner) {
            continue;
        }
        found = true;
        if let Err(error) = one(store, executions, state_machine, &plan, &owner, swept).await {
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
async fn end_unclaimed(
    store: &Store,
    executions: &Executions,
    slack: &Slack,
    execution: &str,
) -> Result<(), Error> {
    let Some(known) = executions.describe(execution).await? else {
        return Ok(());
    };
    if known.status == Status::Running {
        // Step Functions may not know yet what it has told already; asked again, it does.
        return Err(Error::StillRunning(execution.to_owned()));
    }
    if let Some(found) = alert_of(executions, execution).await? {
        alert::tell(store, slack, execution, &found).await?;
        return Ok(());
    }
    // It may have got as far as a plan: a refusal, or one that was only to be read.
    let plan = plan_id(execution, known.started_at);
    let plan = store.plan(&plan).await?.map(|record| record.id);
    report::end(store, slack, execution, plan.as_ref(), None).await?;
    Ok(())
}

/// What an execution was to tell, if that was what it was for.
async fn alert_of(executions: &Executions, execution: &str) -> Result<Option<AlertRef>, Error> {
    let input = executions.input(execution).await?;
    // An input is anybody's. One that is no alert is reported on as any other.
    let state: Option<ReportState> = input.and_then(|input| serde_json::from_value(input).ok());
    Ok(state.and_then(|state| state.alert))
}

async fn one(
    store: &Store,
    executions: &Executions,
    state_machine: &str,
    plan: &PlanId,
    owner: &str,
    swept: &mut Swept,
) -> Result<(), Error> {
    let status = async |arn: &str| -> Result<Option<Status>, Error> {
        Ok(executions.describe(arn).await?.map(|found| found.status))
    };
    if matches!(status(owner).await?, Some(Status::Running)) {
        return wake(store, executions, plan, swept).await;
    }
    for number in 1..=RECONCILE_TRIES {
        let name = format!("{plan}{RECONCILE}{number}");
        match status(&execution_arn(state_machine, &name)).await? {
            Some(Status::Running) => return Ok(()),
            // It ended and the recovery is still open, so it did not reach its report either.
            Some(_) => {}
            None => {
                let reconcile = Reconcile {
                    plan_id: plan.clone(),
                    execution: owner.to_owned(),
                };
                let input = serde_json::json!({ "reconcile": reconcile });
                executions.start(state_machine, &name, &input).await?;
                swept.reconciling += 1;
                return Ok(());
            }
        }
    }
    tracing::error!(
        plan = plan.0,
        "the recovery could not be ended; a person has to look"
    );
    swept.stuck += 1;
    Ok(())
}

/// The ARN of an execution by its name: the machine's own, with another type and one part more.
fn execution_arn(state_machine: &str, name: &str) -> String {
    format!(
        "{}:{name}",
        state_machine.replace(":stateMachine:", ":execution:")
    )
}

/// Whether an execution is one that ends another one's recovery.
fn is_reconcile(execution: &str) -> bool {
    execution
        .rsplit_once(RECONCILE)
        .is_some_and(|(_, number)| number.parse::<usize>().is_ok())
}

/// Ends the wait of an execution that has nothing left to wait for.
async fn wake(
    store: &Store,
    executions: &Executions,
    plan: &PlanId,
    swept: &mut Swept,
) -> Result<(), Error> {
    let Some((link, approval)) = store.approval_of(plan).await? else {
        return Ok(());
    };
    let now = Timestamp::now();
    match approval.standing(now) {
        Standing::Closed(ApprovalStatus::Approved | ApprovalStatus::Rejected)
            if approval.delivered_at.is_none() =>
        {
            let delivery = deliver(store, executions, &link, &approval, now).await?;
            if delivery == Delivery::Delivered {
                swept.delivered += 1;
            }
        }
        Standing::Closed(ApprovalStatus::Expired) => {
            if expire(store, executions, &link, &approval).await? {
                swept.expired += 1;
            }
        }
        // Where its report is under way instead, nothing waits any more.
        Standing::Closed(ApprovalStatus::Superseded) => {
            let cause = "another plan took its place";
            if end_wait(store, executions, &link, SUPERSEDED, cause).await? {
                swept.superseded += 1;
            }
        }
        Standing::Open | Standing::Closed(_) => {}
    }
    Ok(())
}

/// Closes an approval that nobody decided in time and ends the wait for it, whose own time-out is that of the longest
/// policy: until then the group would stay claimed for nothing.
async fn expire(
    store: &Store,
    executions: &Executions,
    link: &LinkHash,
    approval: &Approval,
) -> Result<bool, Error> {
    let closed = store.close_approval(link, Lapse::Expired).await?;
    if closed.status != ApprovalStatus::Expired {
        // Decided at the last moment; who decided delivers it.
        return Ok(false);
    }
    let cause = format!("nobody decided by {}", approval.approve_by);
    end_wait(store, executions, link, APPROVAL_EXPIRED, &cause).await
}

async fn end_wait(
    store: &Store,
    executions: &Executions,
    link: &LinkHash,
    error: &str,
    cause: &str,
) -> Result<bool, Error> {
    let Some(token) = store.task_token(link).await? else {
        return Ok(false);
    };
    let told = executions.task_failed(&token, error, cause).await?;
    Ok(told == Told::Received)
}
