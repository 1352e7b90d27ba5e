//! The end of every path: the audit record first, then the people, and the group is free again.

use jiff::Timestamp;
use serde::Serialize;

use super::{alert, plan_id};
use crate::domain::approval::{Approval, ApprovalStatus, Standing};
use crate::domain::audit::{Audit, AuditPartition, AuditStatus};
use crate::domain::identity::Requester;
use crate::domain::plan::{PlanId, PlanRecord, PlanResult};
use crate::domain::report::{Conclusion, OnRecord, conclude};
use crate::error::{Error, chain};
use crate::slack::{Slack, messages};
use crate::store::{Closed, ErrorClass, Lapse, Store};
use crate::wire::{ReportState, StepError};

/// How the execution ends.
#[derive(Debug, Serialize)]
pub struct Reported {
    /// Whether the execution succeeds.
    pub status: AuditStatus,
    /// The code.
    pub code: String,
    /// One sentence.
    pub message: String,
}

impl From<Audit> for Reported {
    fn from(audit: Audit) -> Self {
        Self {
            status: audit.status,
            code: audit.code,
            message: audit.message,
        }
    }
}

/// Reports an execution. A second report of the same one says what the first did.
///
/// # Errors
/// The table failed. A dead Slack is logged and does not fail it.
pub async fn run(
    store: &Store,
    slack: &Slack,
    execution: &str,
    started_at: Option<Timestamp>,
    state: &ReportState,
) -> Result<Reported, Error> {
    if let Some(found) = &state.alert {
        return alert::tell(store, slack, execution, found).await;
    }
    // An execution that ends another one's recovery reports for that one.
    let (execution, plan_id) = match &state.reconcile {
        Some(other) => (other.execution.as_str(), Some(other.plan_id.clone())),
        None => (
            execution,
            plan_of(store, execution, started_at, state).await?,
        ),
    };
    let error = state.last_error().map(StepError::text);
    let audit = end(store, slack, execution, plan_id.as_ref(), error.as_deref()).await?;
    Ok(audit.into())
}

/// The plan that an execution is about. A plan step that failed has named none, but may have claimed the group or even
/// stored the plan: its id follows from the execution.
async fn plan_of(
    store: &Store,
    execution: &str,
    started_at: Option<Timestamp>,
    state: &ReportState,
) -> Result<Option<PlanId>, Error> {
    if let Some(planned) = &state.plan {
        return Ok(Some(planned.plan_id.clone()));
    }
    let Some(id) = started_at.map(|started_at| plan_id(execution, started_at)) else {
        return Ok(None);
    };
    let stored = store.plan(&id).await?.is_some() || store.recovery(&id).await?.is_some();
    Ok(stored.then_some(id))
}

/// Ends an execution: writes its audit record, closes what it has open, releases its group, and tells the people.
///
/// However often and by however many it is ended, there is one record, it is what every one of them gets, and people
/// are told by the one that wrote it.
///
/// # Errors
/// The table failed. A dead Slack is logged and does not fail it.
pub async fn end(
    store: &Store,
    slack: &Slack,
    execution: &str,
    plan_id: Option<&PlanId>,
    error: Option<&str>,
) -> Result<Audit, Error> {
    let audit = conclusion(store, execution, plan_id, error).await?;
    match store.close(&audit).await? {
        Closed::Now => {
            tell(store, slack, &audit).await;
            Ok(audit)
        }
        Closed::Already => store
            .audit_of(execution)
            .await?
            .ok_or_else(|| Error::Broken("an audit record that was there is gone".to_owned())),
    }
}

/// Tells the people what an execution came to, unless its asker is answered: dry runs and refusals that were asked for
/// over HTTP are read there, and would use up what Slack takes. Whatever a person was asked to decide, or may have moved a
/// group, is told.
async fn tell(store: &Store, slack: &Slack, audit: &Audit) {
    let execution = audit.execution.as_str();
    let nobody_was_asked = audit.digest.is_none() && audit.cluster_id.is_none();
    if nobody_was_asked {
        let name = execution.rsplit(':').next().unwrap_or_default();
        match store.asked_over_http(name).await {
            Ok(true) => {
                tracing::info!(execution, "its asker is answered over HTTP");
                return;
            }
            Ok(false) => {}
            // Told once too often is better than never.
            Err(error) => {
                tracing::warn!(
                    execution,
                    error = chain(&error),
                    "who is answered is not known"
                );
            }
        }
    }
    if let Err(error) = slack.send(&messages::result(audit)).await {
        tracing::error!(
            execution,
            error = chain(&error),
            "the result could not be told"
        );
    }
}

/// What is to be said of an execution, from all that is on record.
async fn conclusion(
    store: &Store,
    execution: &str,
    plan_id: Option<&PlanId>,
    error: Option<&str>,
) -> Result<Audit, Error> {
    let record = match plan_id {
        Some(id) => match store.plan(id).await {
            Ok(record) => record,
            // What cannot be read will not be read by a retry either, and the group must be let go all the same.
            Err(error) if error.class == ErrorClass::Internal => {
                tracing::error!(plan = id.0, error = chain(&error), "the plan is unreadable");
                None
            }
            Err(error) => return Err(error.into()),
        },
        None => None,
    };
    let recovery = match plan_id {
        Some(id) => store.recovery(id).await?,
        None => None,
    };
    // A plan that another execution holds is not this one's to report on.
    let recovery = match recovery.filter(|recovery| recovery.execution == execution) {
        // Verify has not raised the fence. A step that outlives its execution must not send anything once it is said
        // here that nothing was sent.
        Some(recovery) if recovery.fence == 0 && recovery.closed_at.is_none() => {
            store.raise_fence(&recovery.plan).await?
        }
        recovery => recovery,
    };
    let approval = match plan_id.filter(|_| recovery.is_some()) {
        Some(id) => end_approval(store, id).await?,
        None => None,
    };
    let pre_image = match plan_id.filter(|_| recovery.is_some()) {
        Some(id) => store.pre_image(id).await?,
        None => None,
    };
    let conclusion = conclude(OnRecord {
        plan: record.as_ref(),
        approval: approval.as_ref(),
        recovery: recovery.as_ref(),
        may_have_sent: pre_image.is_some(),
        error,
    });
    let outcomes = match plan_id.filter(|_| recovery.is_some()) {
        Some(id) => store.result(id).await?.unwrap_or_default(),
        None => std::collections::BTreeMap::new(),
    };
    let partitions = match record.as_ref().map(|record| &record.result) {
        Some(PlanResult::Ready(plan)) => plan
            .moves
            .iter()
            .map(|m| AuditPartition {
                partition: m.partition.clone(),
                from: m.from.clone(),
                to: m.to.clone(),
                before: pre_image
                    .as_ref()
                    .and_then(|image| image.0.get(&m.partition).cloned().flatten()),
                outcome: outcomes.get(&m.partition).cloned(),
            })
            .collect(),
        Some(PlanResult::NothingToDo(_) | PlanResult::Refused(_)) | None => Vec::new(),
    };
    let Conclusion {
        status,
        code,
        message,
        refusals,
    } = conclusion;
    Ok(Audit {
        at: Timestamp::now(),
        plan: plan_id.cloned(),
        execution: execution.to_owned(),
        cluster_id: recovery.as_ref().map(|r| r.cluster_id.clone()),
        group: record
            .as_ref()
            .map(|r| r.group.clone())
            .or_else(|| recovery.as_ref().map(|r| r.group.clone())),
        status,
        code,
        message,
        requested_by: text(&record, |r| &r.requested_by),
        requester: match record.as_ref().map(|record| &record.result) {
            Some(PlanResult::Ready(plan)) => plan.requester.clone(),
            Some(PlanResult::NothingToDo(_) | PlanResult::Refused(_)) | None => {
                Requester::Unverified
            }
        },
        reason: text(&record, |r| &r.reason),
        decided_by: approval.as_ref().and_then(|a| a.decided_by.clone()),
        decider: approval.as_ref().and_then(|a| a.decider.clone()),
        decided_at: approval.as_ref().and_then(|a| a.decided_at),
        digest: approval.map(|a| a.digest),
        refusals,
        outcome: recovery.and_then(|r| r.outcome),
        partitions,
    })
}

fn text(record: &Option<PlanRecord>, field: impl Fn(&PlanRecord) -> &String) -> String {
    record.as_ref().map_or(String::new(), |r| field(r).clone())
}

/// An execution that is over waits for nobody: a link that is still open must not be decided any more.
async fn end_approval(store: &Store, plan: &PlanId) -> Result<Option<Approval>, Error> {
    let Some((link, approval)) = store.approval_of(plan).await? else {
        return Ok(None);
    };
    if approval.status != ApprovalStatus::Pending {
        return Ok(Some(approval));
    }
    let lapse = match approval.standing(Timestamp::now()) {
        Standing::Closed(ApprovalStatus::Expired) => Lapse::Expired,
        Standing::Open | Standing::Closed(_) => Lapse::Superseded,
    };
    Ok(Some(store.close_approval(&link, lapse).await?))
}
