//! Tells the people what the guard found. The guard itself reaches the brokers, and so nobody else: the execution that
//! it starts for this goes straight to its report.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::context::Context;
use super::report::{Reported, end_invalid};
use crate::domain::audit::{Audit, AuditStatus};
use crate::domain::guard::run::{GUARD, GuardRun};
use crate::domain::identity::Requester;
use crate::domain::ids::ExecutionArn;
use crate::domain::refusal::Refusal;
use crate::error::Error;
use crate::failure::chain;
use crate::store::{Closed, Reporter};
use crate::wire::guard::AlertRef;

/// How an execution ends whose input says that it is to tell of a run.
///
/// # Errors
/// The table failed.
pub async fn report_alert<B>(
    ctx: &Context<B>,
    execution: &ExecutionArn,
    written: &Value,
) -> Result<Reported, Error> {
    match AlertRef::deserialize(written) {
        Ok(alert) => report_run(ctx, execution, &alert).await,
        Err(_) => Ok(end_invalid(ctx, execution, unfounded()).await?.into()),
    }
}

/// How the execution that tells of a run ends: in its audit record, and in the message of whoever wrote that.
///
/// People hear of it until it is on record that they did: whoever was cut off in between leaves it to the next, and to
/// be told twice is better than never. An alert that did not reach them is a failed execution, whose alarm is the other
/// way to be heard.
///
/// # Errors
/// The table failed.
pub async fn report_run<B>(
    ctx: &Context<B>,
    execution: &ExecutionArn,
    alert: &AlertRef,
) -> Result<Reported, Error> {
    let store = &ctx.store;
    let stored = if alert.can_be_a_key() {
        store
            .guard_run(&alert.cluster, &alert.group, alert.at, &alert.run_id)
            .await?
    } else {
        None
    };
    let Some(run) = stored else {
        // The guard keeps a run before it has it told, so it was not the guard who asked for this.
        return Ok(end_invalid(ctx, execution, unfounded()).await?.into());
    };
    let audit = audit(&run, execution, ctx.now());
    let closed = store.close(&audit, Reporter::Itself(&[])).await?;
    let mut reported = Reported::from(audit);
    if closed == Closed::Already && store.audit_told(execution).await? {
        return Ok(reported);
    }
    match ctx.notifier.report_findings(&run).await {
        // Without this note the next to report tells it again, which is no reason to call this one failed.
        Ok(()) => {
            if let Err(error) = store.note_audit_told(execution, ctx.now()).await {
                tracing::warn!(
                    execution = execution.0,
                    error = chain(&error),
                    "that it was told is not noted"
                );
            }
        }
        Err(error) => {
            tracing::error!(
                execution = execution.0,
                error = chain(&error),
                "the alert was not told"
            );
            reported.status = AuditStatus::Failed;
            reported.message = format!("{}. Nobody was told: {error}", reported.message);
        }
    }
    Ok(reported)
}

/// The refusal of an input that names no run of the guard.
fn unfounded() -> Refusal {
    Refusal::InvalidRequest {
        field: "alert".to_owned(),
        problem: "there is no such run of the guard; the guard asks for this by itself".to_owned(),
    }
}

fn audit(run: &GuardRun, execution: &ExecutionArn, at: Timestamp) -> Audit {
    let message = run.summary();
    Audit {
        at,
        // A plan that was proposed has an execution, and a record, of its own.
        plan: None,
        execution: execution.clone(),
        cluster_id: run.cluster_id.clone(),
        group: Some(run.group.clone()),
        status: AuditStatus::Succeeded,
        code: format!("GUARD_{}", run.status),
        message,
        requested_by: GUARD.to_owned(),
        requester: Requester::Guard,
        from_dry_run: false,
        reason: String::new(),
        decided_by: None,
        decider: None,
        decided_at: None,
        digest: None,
        refusals: run.withheld.clone(),
        outcome: None,
        partitions: Vec::new(),
    }
}
