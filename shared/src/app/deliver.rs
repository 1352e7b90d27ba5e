//! Delivers a stored decision to the execution that waits for it.

use jiff::Timestamp;
use serde_json::json;

use crate::domain::approval::{Approval, ApprovalStatus, Decision};
use crate::error::Error;
use crate::ports::{Executions, ExecutionsError, TaskAnswer};
use crate::store::{LinkHash, Store, StoreError};

/// What became of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// The execution has it, now or since an earlier delivery.
    Delivered,
    /// Nothing waits for it: the execution was told and nobody noted it, or its wait or it itself has ended.
    /// The record is left as it is; what came of the recovery says which.
    NoLongerWaiting,
    /// There is no decision, so nothing to deliver.
    NothingDecided,
}

/// Why a delivery failed. The decision stands, and delivering it again does no harm.
#[derive(Debug, thiserror::Error)]
pub enum DeliverError {
    /// The table.
    #[error("the decision cannot be delivered")]
    Store(#[from] StoreError),
    /// Step Functions.
    #[error("the decision cannot be delivered")]
    Executions(#[from] ExecutionsError),
}

impl From<DeliverError> for Error {
    fn from(error: DeliverError) -> Self {
        match error {
            DeliverError::Store(error) => Self::Store(error),
            DeliverError::Executions(error) => Self::Executions(error),
        }
    }
}

/// Tells the waiting execution that its approval is decided, whichever way, and notes that it was told.
///
/// What is sent only wakes the execution: the next state reads the stored decision itself.
///
/// # Errors
/// The table or Step Functions cannot be reached.
pub async fn deliver_decision(
    store: &Store,
    executions: &dyn Executions,
    link: &LinkHash,
    approval: &Approval,
    now: Timestamp,
) -> Result<Delivery, DeliverError> {
    let decision = match approval.stands() {
        ApprovalStatus::Approved => Decision::Approve,
        ApprovalStatus::Rejected => Decision::Reject,
        ApprovalStatus::Pending | ApprovalStatus::Expired | ApprovalStatus::Superseded => {
            return Ok(Delivery::NothingDecided);
        }
    };
    if approval.delivered_at.is_some() {
        return Ok(Delivery::Delivered);
    }
    let Some(token) = store.task_token(link).await? else {
        return Ok(Delivery::NoLongerWaiting);
    };
    let output = json!({ "decision": decision.as_str(), "plan_id": approval.plan.0 });
    match executions.task_succeeded(&token, &output).await? {
        TaskAnswer::NoLongerWaiting => Ok(Delivery::NoLongerWaiting),
        TaskAnswer::Received => {
            store.mark_delivered(link, now).await?;
            Ok(Delivery::Delivered)
        }
    }
}
