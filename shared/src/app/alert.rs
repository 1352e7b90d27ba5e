//! Tells the people what the guard found. The guard itself reaches the brokers, and so nobody else: the execution that
//! it starts for this goes straight to its report.

use jiff::Timestamp;

use crate::domain::audit::{Audit, AuditStatus};
use crate::domain::guard::run::{GUARD, GuardRun};
use crate::domain::identity::Requester;
use crate::error::{Error, chain};
use crate::slack::guard::guard_alert;
use crate::slack::{Slack, SlackError};
use crate::store::{Closed, Store};
use crate::wire::guard::AlertRef;

/// Tells what a run found, and writes the audit record of the execution that does so. One that has its record is told
/// of already.
///
/// Telling comes first: people who are told twice lose a moment, and those who are never told a night. An alert that
/// reached nobody is a failed execution, whose alarm is the other way to be heard.
///
/// # Errors
/// The run is not stored, or the table failed.
pub async fn tell(
    store: &Store,
    slack: &Slack,
    execution: &str,
    alert: &AlertRef,
) -> Result<Audit, Error> {
    if let Some(told) = store.audit_of(execution).await? {
        return Ok(told);
    }
    let run = store
        .guard_run(&alert.cluster, &alert.group, alert.at, &alert.run_id)
        .await?
        .ok_or_else(|| Error::Broken(format!("the guard's run {} is not stored", alert.run_id)))?;
    let told = slack.send(&guard_alert(&run)).await;
    if let Err(error) = &told {
        tracing::error!(execution, error = chain(error), "the alert was not told");
    }
    let audit = audit(run, execution, told, Timestamp::now());
    match store.close(&audit).await? {
        Closed::Now => Ok(audit),
        Closed::Already => store
            .audit_of(execution)
            .await?
            .ok_or_else(|| Error::Broken("an audit record that was there is gone".to_owned())),
    }
}

fn audit(run: GuardRun, execution: &str, told: Result<(), SlackError>, at: Timestamp) -> Audit {
    let (status, message) = match told {
        Ok(()) => (AuditStatus::Succeeded, run.summary()),
        Err(error) => (
            AuditStatus::Failed,
            format!("{}. Nobody was told: {error}", run.summary()),
        ),
    };
    Audit {
        at,
        // A plan that was proposed has an execution, and a record, of its own.
        plan: None,
        execution: execution.to_owned(),
        cluster_id: run.cluster_id,
        group: Some(run.group),
        status,
        code: format!("GUARD_{}", run.status),
        message,
        requested_by: GUARD.to_owned(),
        requester: Requester::Guard,
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
