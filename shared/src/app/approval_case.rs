//! Reads everything that is known of one approval.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::domain::approval::{Approval, ApprovalStatus, Decision};
use crate::domain::audit::Audit;
use crate::domain::checkpoint::PastCommit;
use crate::domain::offset::TopicPartition;
use crate::domain::plan::{CSV_VERSION, PartitionMove, Plan, PlanResult};
use crate::domain::recovery::progress::{Progress, RecoveryEnd, StoredPlan, StoredRecovery};
use crate::domain::recovery::{PartitionOutcome, Recovery};
use crate::failure::chain;
use crate::store::{LinkHash, Store, StoreError};

/// How long the past of a partition is waited for.
const PAST_LIMIT: Duration = Duration::from_secs(2);

/// One approval, its plan and how far the recovery came.
#[derive(Debug, Clone)]
pub struct ApprovalCase {
    pub approval: Approval,
    pub plan: Plan,
    /// The recovery of the execution that asked for the approval.
    pub recovery: Option<Recovery>,
    pub result: BTreeMap<TopicPartition, PartitionOutcome>,
    /// The log start that was committed, where it had passed the plan's target.
    pub raised: BTreeMap<TopicPartition, i64>,
    pub audit: Option<Audit>,
    /// What the checkpoints before the plan hold of the partition that is pictured, oldest first.
    pub past: Vec<PastCommit>,
}

/// Why there is no case to decide behind a link.
#[derive(Debug, thiserror::Error)]
pub enum NoCase {
    /// No link of that id was ever given out, or its record has expired.
    #[error("there is no such approval")]
    Unknown,
    /// The approval is known and its plan is no longer stored.
    #[error("the plan is no longer stored")]
    PlanGone,
    /// The plan was made by another release, whose digest this one cannot compare.
    #[error("the plan was made by another release")]
    OtherRelease,
    /// The stored plan is not the one that approval was asked for.
    #[error("the stored plan is not the one that approval was asked for")]
    OtherPlan,
    /// The table failed.
    #[error("the approval cannot be read")]
    Store(#[from] StoreError),
}

/// Everything that is known of the approval behind a link.
///
/// # Errors
/// Nothing behind the link can be decided, or the table failed.
pub async fn load_case(store: &Store, link: &LinkHash) -> Result<ApprovalCase, NoCase> {
    let approval = store.approval(link).await?.ok_or(NoCase::Unknown)?;
    let record = store.plan(&approval.plan).await?;
    let Some(PlanResult::Ready(plan)) = record.map(|record| record.result) else {
        return Err(NoCase::PlanGone);
    };
    if plan.csv_version != CSV_VERSION {
        return Err(NoCase::OtherRelease);
    }
    if plan.digest() != approval.digest {
        tracing::error!(plan = %plan.id, "the stored plan is not the one that approval was asked for");
        return Err(NoCase::OtherPlan);
    }
    let recovery = store.recovery(&plan.id).await?;
    // One plan is executed once: another execution's recovery says nothing about this approval.
    let recovery = recovery.filter(|recovery| recovery.execution == approval.execution);
    let result = match &recovery {
        Some(_) => store.result(&plan.id).await?,
        None => None,
    };
    let rises = plan.moves.iter().any(|m| m.may_rise_to.is_some());
    let applied = recovery.as_ref().is_some_and(|r| r.apply_until.is_some());
    let pre_image = match rises && applied {
        true => store.pre_image(&plan.id).await?,
        false => None,
    };
    let audit = store.audit_of(&approval.execution).await?;
    Ok(ApprovalCase {
        approval,
        plan,
        recovery,
        result: result.unwrap_or_default(),
        raised: pre_image.unwrap_or_default().raised,
        audit,
        past: Vec::new(),
    })
}

/// What the checkpoints before a plan hold of one of its partitions, oldest first. Nobody waits long for it: where it
/// cannot be read in time, there is none.
pub async fn read_past(
    store: &Store,
    plan: &Plan,
    moved: &PartitionMove,
    now: Timestamp,
) -> Vec<PastCommit> {
    let group = plan.group_key();
    let read = store.history(&group, moved, plan.created_at, now);
    match tokio::time::timeout(PAST_LIMIT, read).await {
        Ok(Ok(past)) => past,
        Ok(Err(error)) => {
            tracing::warn!(plan = %plan.id, error = chain(&error), "the page has no picture");
            Vec::new()
        }
        Err(_) => {
            tracing::warn!(plan = %plan.id, "the page has no picture: the table is slow");
            Vec::new()
        }
    }
}

impl ApprovalCase {
    /// How far the recovery is.
    #[must_use]
    pub fn progress(&self, now: Timestamp) -> Progress {
        let (recovery, audit) = (self.recovery.as_ref(), self.audit.as_ref());
        // Decided through a later link of the same recovery: what came of that one says nothing of this one.
        if self.approval.stands() == ApprovalStatus::Superseded
            && audit.is_some_and(|audit| audit.decided_at.is_some())
        {
            return Progress::Ended(RecoveryEnd::Superseded);
        }
        let verified = recovery.and_then(|r| r.outcome.as_ref());
        Progress::of(StoredRecovery {
            plan: StoredPlan::Ready,
            approval: Some(self.approval.standing(now)),
            recovery,
            outcome: verified.or(audit.and_then(|audit| audit.outcome.as_ref())),
            may_have_sent: recovery
                .is_some_and(|r| r.apply_until.is_some() || r.apply_ended_at.is_some()),
            is_over: audit.is_some() || recovery.is_some_and(|r| r.closed_at.is_some()),
        })
    }

    /// Whether more is to come after an approval, so that whoever looks waits for it.
    #[must_use]
    pub fn goes_on(&self, now: Timestamp) -> bool {
        match self.progress(now) {
            Progress::Approved
            | Progress::Admitted(_)
            | Progress::Applying
            | Progress::Verifying
            | Progress::Fenced => true,
            Progress::Planning | Progress::Planned | Progress::WaitingForApproval => false,
            Progress::Ended(end) => match end {
                // The last word is written right after it.
                RecoveryEnd::Judged(_) | RecoveryEnd::Unsent | RecoveryEnd::Unproven => {
                    self.audit.is_none()
                }
                RecoveryEnd::NotPlanned
                | RecoveryEnd::Refused
                | RecoveryEnd::NothingToDo
                | RecoveryEnd::DryRun
                | RecoveryEnd::Rejected
                | RecoveryEnd::Expired
                | RecoveryEnd::Superseded
                | RecoveryEnd::Undecided => false,
            },
        }
    }

    /// The stored decision that has not reached the waiting execution, if there is one.
    #[must_use]
    pub fn undelivered(&self) -> Option<Decision> {
        if self.approval.delivered_at.is_some() {
            return None;
        }
        match self.approval.stands() {
            ApprovalStatus::Approved => Some(Decision::Approve),
            ApprovalStatus::Rejected => Some(Decision::Reject),
            ApprovalStatus::Pending | ApprovalStatus::Expired | ApprovalStatus::Superseded => None,
        }
    }

    /// The stored decision that has not reached the waiting execution, as long as nothing else shows that the execution
    /// has it or has ended.
    #[must_use]
    pub fn awaits_delivery(&self) -> Option<Decision> {
        let went_on = self
            .recovery
            .as_ref()
            .is_some_and(|r| r.apply_by.is_some() || r.closed_at.is_some());
        self.undelivered()
            .filter(|_| !went_on && self.audit.is_none())
    }
}
