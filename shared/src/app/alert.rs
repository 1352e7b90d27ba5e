//! Tells the people what the guard found. The guard itself reaches the brokers, and so nobody else: the execution that
//! it starts for this goes straight to its report.

use jiff::Timestamp;

use super::report::Reported;
use crate::domain::audit::{Audit, AuditStatus};
use crate::domain::guard::run::{GUARD, GuardRun};
use crate::domain::identity::Requester;
use crate::error::{Error, chain};
use crate::slack::Slack;
use crate::slack::guard::guard_alert;
use crate::store::{Closed, Store};
use crate::wire::guard::AlertRef;

/// How the execution that tells of a run ends: in its audit record, and in the message of whoever wrote that.
///
/// People hear of it until it is on record that they did: whoever was cut off in between leaves it to the next, and to
/// be told twice is better than never. An alert that did not reach them is a failed execution, whose alarm is the other
/// way to be heard.
///
/// # Errors
/// The run is not stored, or the table failed.
pub async fn tell(
    store: &Store,
    slack: &Slack,
    execution: &str,
    alert: &AlertRef,
) -> Result<Reported, Error> {
    let run = store
        .guard_run(&alert.cluster, &alert.group, alert.at, &alert.run_id)
        .await?
        .ok_or_else(|| Error::Broken(format!("the guard's run {} is not stored", alert.run_id)))?;
    let message = guard_alert(&run);
    let audit = audit(run, execution, Timestamp::now());
    let closed = store.close(&audit).await?;
    let mut reported = Reported::from(audit);
    if closed == Closed::Already && store.audit_told(execution).await? {
        return Ok(reported);
    }
    match slack.send(&message).await {
        // Without this note the next to report tells it again, which is no reason to call this one failed.
        Ok(()) => {
            if let Err(error) = store.note_audit_told(execution, Timestamp::now()).await {
                tracing::warn!(
                    execution,
                    error = chain(&error),
                    "that it was told is not noted"
                );
            }
        }
        Err(error) => {
            tracing::error!(execution, error = chain(&error), "the alert was not told");
            reported.status = AuditStatus::Failed;
            reported.message = format!("{}. Nobody was told: {error}", reported.message);
        }
    }
    Ok(reported)
}

fn audit(run: GuardRun, execution: &str, at: Timestamp) -> Audit {
    let message = run.summary();
    Audit {
        at,
        // A plan that was proposed has an execution, and a record, of its own.
        plan: None,
        execution: execution.to_owned(),
        cluster_id: run.cluster_id,
        group: Some(run.group),
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
        refusals: run.withheld,
        outcome: None,
        partitions: Vec::new(),
    }
}
