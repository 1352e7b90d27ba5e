//! How far a recovery is, from what is stored of it: one answer for the page, the API and the report.

use jiff::Timestamp;

use super::{Outcome, Recovery};
use crate::approval::{ApprovalStatus, Standing};

/// What is stored of a recovery, as far as it tells how far it is.
#[derive(Debug, Clone, Copy)]
pub struct StoredRecovery<'a> {
    pub plan: StoredPlan,
    /// How its approval stands; `None` where nobody was asked, or that is not known.
    pub approval: Option<Standing>,
    /// `None` where the group was not claimed.
    pub recovery: Option<&'a Recovery>,
    /// What Verify found, as the recovery or its audit record has it.
    pub outcome: Option<&'a Outcome>,
    /// Whether something may have been sent to the brokers.
    pub may_have_sent: bool,
    /// Whether its execution is at its end, so that nothing more comes.
    pub is_over: bool,
}

/// What is stored of a recovery's plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredPlan {
    /// Nothing, or nothing that can be read.
    Missing,
    /// The reasons why there is none.
    Refused,
    /// That every partition is where it should be.
    NothingToDo,
    /// A plan, and no more was asked for.
    DryRun,
    /// A plan that is to be applied.
    Ready,
}

/// How far a recovery is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// There is no plan yet.
    Planning,
    /// The plan is stored, and the group is not claimed.
    Planned,
    /// Nobody has decided, or it is not known that somebody has.
    WaitingForApproval,
    /// A person said yes; nothing has come of it yet.
    Approved,
    /// Admitted: waits until it can be applied, until then.
    Admitted(Timestamp),
    /// Requests are being sent.
    Applying,
    /// All requests are answered or their time is over; the group is read back.
    Verifying,
    /// Nothing was sent, and nothing can be any more; what is committed is compared with the plan all the same.
    Fenced,
    /// It has ended, or can end in no other way.
    Ended(RecoveryEnd),
}

/// How a recovery ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecoveryEnd {
    /// Planning failed.
    NotPlanned,
    /// There is no plan, or nobody was asked to approve it, for reasons that are on record.
    Refused,
    /// Every partition is where it should be.
    NothingToDo,
    /// The plan is stored, and that was all that was asked for.
    DryRun,
    /// A person said no.
    Rejected,
    /// Nobody decided in time.
    Expired,
    /// Another plan took its place.
    Superseded,
    /// It ended before anybody decided.
    Undecided,
    /// Approved, and nothing was sent.
    Unsent,
    /// Something may have been sent, and nothing was verified.
    Unproven,
    /// Approved, and judged by Verify.
    Judged(Outcome),
}

impl Progress {
    /// How far a recovery is.
    #[must_use]
    pub fn of(stored: StoredRecovery<'_>) -> Self {
        if stored.is_over {
            return Self::Ended(RecoveryEnd::of(stored));
        }
        if stored.recovery.is_some_and(|r| r.superseded_by.is_some()) {
            return Self::Ended(RecoveryEnd::Superseded);
        }
        let approved = match stored.approval {
            Some(Standing::Open) => return Self::WaitingForApproval,
            Some(Standing::Closed(status)) => match status {
                ApprovalStatus::Approved => true,
                ApprovalStatus::Rejected => return Self::Ended(RecoveryEnd::Rejected),
                ApprovalStatus::Superseded => return Self::Ended(RecoveryEnd::Superseded),
                ApprovalStatus::Pending | ApprovalStatus::Expired => {
                    return Self::Ended(RecoveryEnd::Expired);
                }
            },
            None => false,
        };
        if let Some(outcome) = stored.outcome {
            return Self::Ended(RecoveryEnd::Judged(outcome.clone()));
        }
        let Some(recovery) = stored.recovery else {
            return match stored.plan {
                _ if approved => Self::Approved,
                StoredPlan::DryRun | StoredPlan::Ready => Self::Planned,
                StoredPlan::Missing | StoredPlan::Refused | StoredPlan::NothingToDo => {
                    Self::Planning
                }
            };
        };
        let sends = recovery.apply_until.is_some() || recovery.apply_ended_at.is_some();
        match (sends, recovery.fence > 0, recovery.apply_by) {
            (true, _, _) if recovery.apply_ended_at.is_some() => Self::Verifying,
            (true, true, _) => Self::Verifying,
            (true, false, _) => Self::Applying,
            (false, true, _) => Self::Fenced,
            (false, false, Some(by)) => Self::Admitted(by),
            (false, false, None) if approved => Self::Approved,
            (false, false, None) => Self::WaitingForApproval,
        }
    }
}

impl RecoveryEnd {
    /// How a recovery ended whose execution is at its end.
    #[must_use]
    pub fn of(stored: StoredRecovery<'_>) -> Self {
        match stored.plan {
            // Nobody was ever asked, so planning is as far as it came, whether or not the group was claimed by then.
            StoredPlan::Missing if stored.approval.is_none() && !stored.may_have_sent => {
                return Self::NotPlanned;
            }
            StoredPlan::Refused => return Self::Refused,
            StoredPlan::NothingToDo => return Self::NothingToDo,
            StoredPlan::DryRun if stored.recovery.is_none() => return Self::DryRun,
            // Without a plan: there was one, or nobody would have been asked. What is stored of it cannot be read.
            StoredPlan::Missing | StoredPlan::DryRun | StoredPlan::Ready => {}
        }
        match stored.outcome {
            Some(outcome) if *outcome != Outcome::NotApplied => {
                return Self::Judged(outcome.clone());
            }
            None if stored.may_have_sent => return Self::Unproven,
            Some(_) | None => {}
        }
        let recovery = stored.recovery;
        if recovery.is_some_and(|r| r.superseded_by.is_some()) {
            return Self::Superseded;
        }
        match stored.approval {
            Some(Standing::Closed(ApprovalStatus::Rejected)) => Self::Rejected,
            Some(Standing::Closed(ApprovalStatus::Expired)) => Self::Expired,
            Some(Standing::Closed(ApprovalStatus::Approved)) => {
                stored.outcome.cloned().map_or(Self::Unsent, Self::Judged)
            }
            None if recovery.is_some_and(|r| !r.refusals.is_empty()) => Self::Refused,
            Some(
                Standing::Open
                | Standing::Closed(ApprovalStatus::Pending | ApprovalStatus::Superseded),
            )
            | None => Self::Undecided,
        }
    }
}
