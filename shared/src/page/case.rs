//! What may be said of an approval at an instant.

use jiff::Timestamp;

use crate::app::approval_case::ApprovalCase;
use crate::domain::approval::{ApprovalStatus, Standing};
use crate::domain::recovery::Outcome;

/// Where a case stands, as the page's headline says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    /// Waits for a person.
    Open,
    /// Nobody decided in time.
    Expired,
    /// Another request took its place.
    Superseded,
    /// The recovery ended before anybody decided.
    Undecided,
    /// A person said no.
    Rejected,
    /// A person said yes; nothing has come of it yet.
    Approved,
    /// Admitted: waits until it can be applied, until then.
    Admitted(Timestamp),
    /// Requests are being sent.
    Applying,
    /// All requests are answered; the group is read back.
    Verifying,
    /// What Verify found.
    Ended(Outcome),
    /// It ended before anything was sent.
    EndedUnsent,
    /// It ended, something may have been sent, and nothing was verified.
    EndedUnproven,
}

impl ApprovalCase {
    pub(super) fn stage(&self, now: Timestamp) -> Stage {
        match self.approval.standing(now) {
            Standing::Open => Stage::Open,
            Standing::Closed(ApprovalStatus::Pending | ApprovalStatus::Expired) => Stage::Expired,
            Standing::Closed(ApprovalStatus::Superseded) if self.ended_undecided() => {
                Stage::Undecided
            }
            Standing::Closed(ApprovalStatus::Superseded) => Stage::Superseded,
            Standing::Closed(ApprovalStatus::Rejected) => Stage::Rejected,
            Standing::Closed(ApprovalStatus::Approved) => self.progress(),
        }
    }

    /// Whether no link of this recovery was decided, and none will be. Where another plan took its place, that says more.
    fn ended_undecided(&self) -> bool {
        let superseded = self
            .recovery
            .as_ref()
            .is_some_and(|r| r.superseded_by.is_some());
        !superseded
            && self
                .audit
                .as_ref()
                .is_some_and(|audit| audit.decided_at.is_none())
    }

    fn progress(&self) -> Stage {
        let audited = self.audit.as_ref().and_then(|audit| audit.outcome.clone());
        let recovery = self.recovery.as_ref();
        if let Some(outcome) = recovery.and_then(|r| r.outcome.clone()).or(audited) {
            return Stage::Ended(outcome);
        }
        let over = self.audit.is_some() || recovery.is_some_and(|r| r.closed_at.is_some());
        let sent = recovery.is_some_and(|r| r.apply_until.is_some() || r.apply_ended_at.is_some());
        match (over, sent) {
            (true, true) => Stage::EndedUnproven,
            (true, false) => Stage::EndedUnsent,
            (false, true) if recovery.is_some_and(|r| r.apply_ended_at.is_some()) => {
                Stage::Verifying
            }
            (false, true) => Stage::Applying,
            (false, false) => recovery
                .and_then(|r| r.apply_by)
                .map_or(Stage::Approved, Stage::Admitted),
        }
    }

    /// Whether more is to come after an approval, so that whoever looks waits for it.
    pub(super) fn goes_on(&self, now: Timestamp) -> bool {
        match self.stage(now) {
            Stage::Approved | Stage::Admitted(_) | Stage::Applying | Stage::Verifying => true,
            // The last word is written right after it.
            Stage::Ended(_) | Stage::EndedUnsent | Stage::EndedUnproven => self.audit.is_none(),
            Stage::Open
            | Stage::Expired
            | Stage::Superseded
            | Stage::Undecided
            | Stage::Rejected => false,
        }
    }
}
