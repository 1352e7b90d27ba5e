//! What is said of where a case stands.

use jiff::Timestamp;

use super::case::Stage;
use super::view::{lines, span};
use crate::app::approval_case::ApprovalCase;
use crate::domain::approval::Approval;
use crate::domain::recovery::Outcome;
use crate::domain::text::time;

/// How the box around it is coloured, by the style sheet's classes.
pub(super) fn tone(stage: &Stage) -> &'static str {
    match stage {
        Stage::Open | Stage::Approved | Stage::Admitted(_) | Stage::Applying | Stage::Verifying => {
            "wait"
        }
        Stage::Ended(Outcome::Verified | Outcome::AppliedThenMoved) => "good",
        Stage::Expired | Stage::Superseded | Stage::Undecided | Stage::Rejected => "neutral",
        Stage::Ended(
            Outcome::NotApplied
            | Outcome::Overwritten
            | Outcome::PartiallyApplied
            | Outcome::Unknown,
        )
        | Stage::EndedUnsent
        | Stage::EndedUnproven => "bad",
    }
}

/// The stage in a word or two, for the browser's tab.
pub(super) fn title(stage: &Stage) -> &'static str {
    match stage {
        Stage::Open => "to be decided",
        Stage::Expired => "expired",
        Stage::Superseded => "superseded",
        Stage::Undecided => "not decided",
        Stage::Rejected => "rejected",
        Stage::Approved | Stage::Admitted(_) => "approved",
        Stage::Applying => "being applied",
        Stage::Verifying => "being verified",
        Stage::Ended(Outcome::Verified) => "applied and verified",
        Stage::Ended(Outcome::AppliedThenMoved) => "applied",
        Stage::Ended(Outcome::NotApplied) | Stage::EndedUnsent => "not applied",
        Stage::Ended(Outcome::Overwritten) => "overwritten",
        Stage::Ended(Outcome::PartiallyApplied) => "partially applied",
        Stage::Ended(Outcome::Unknown) | Stage::EndedUnproven => "outcome unknown",
    }
}

/// The stage in a sentence.
pub(super) fn headline(stage: &Stage, approval: &Approval, now: Timestamp) -> String {
    match stage {
        Stage::Open => {
            let left = approval.approve_by.as_second() - now.as_second();
            format!("Waits for a decision: {} left.", span(left))
        }
        Stage::Expired => format!(
            "Expired: nobody decided by {}. Nothing was moved.",
            time(approval.approve_by)
        ),
        Stage::Superseded => {
            "Superseded: another request took its place. Nothing was moved by this one.".to_owned()
        }
        Stage::Undecided => {
            "Closed: the recovery ended before anybody decided. Nothing was moved.".to_owned()
        }
        Stage::Rejected => "Rejected. Nothing was moved.".to_owned(),
        Stage::Approved => "Approved. Nothing has been moved yet.".to_owned(),
        Stage::Admitted(by) => {
            format!("Approved and admitted: to be applied by {}.", time(*by))
        }
        Stage::Applying => "Approved; being applied now.".to_owned(),
        Stage::Verifying => "Applied; being read back now.".to_owned(),
        Stage::Ended(Outcome::Verified) => {
            format!("Applied and verified: {}.", Outcome::Verified)
        }
        Stage::Ended(Outcome::AppliedThenMoved) => {
            format!("Applied: {}.", Outcome::AppliedThenMoved)
        }
        Stage::Ended(Outcome::NotApplied) => {
            format!("Approved, but not applied: {}.", Outcome::NotApplied)
        }
        Stage::Ended(
            outcome @ (Outcome::Overwritten | Outcome::PartiallyApplied | Outcome::Unknown),
        ) => format!("Look at this: {outcome}."),
        Stage::EndedUnsent => "Approved, but not applied: nothing was sent.".to_owned(),
        Stage::EndedUnproven => {
            "Look at this: it ended while it was applied, and nothing was verified.".to_owned()
        }
    }
}

/// Until when it can be decided, who decided and when, what came of it, and what there is to do.
pub(super) fn details(case: &ApprovalCase, stage: &Stage) -> Vec<String> {
    let mut details = Vec::new();
    let approval = &case.approval;
    if *stage == Stage::Open {
        details.push(format!("Decide by {}.", time(approval.approve_by)));
    }
    if let (Some(by), Some(at)) = (&approval.decided_by, approval.decided_at) {
        details.push(format!("Decided by {by} on {}.", time(at)));
    }
    if let Some(reason) = approval
        .reason
        .as_deref()
        .filter(|reason| !reason.is_empty())
    {
        details.push(format!("Reason: {}", lines(reason).join(" ")));
    }
    if let (Stage::Undecided, Some(audit)) = (stage, &case.audit) {
        details.push(format!("Reported: {}, {}.", audit.code, audit.message));
    }
    details.extend(next(stage).map(str::to_owned));
    let refusals = case.audit.as_ref().map(|audit| &audit.refusals);
    let refusals = refusals
        .filter(|refusals| !refusals.is_empty())
        .or(case.recovery.as_ref().map(|recovery| &recovery.refusals));
    // A rejection and an expiry are the headline already; only a refusal after an approval is news. Where everything
    // was moved, it is that of a second try.
    if !matches!(
        stage,
        Stage::Rejected
            | Stage::Expired
            | Stage::Superseded
            | Stage::Undecided
            | Stage::Ended(Outcome::Verified | Outcome::AppliedThenMoved)
    ) {
        let refusals = refusals.into_iter().flatten();
        details.extend(refusals.map(|refusal| format!("Refused, {}: {refusal}", refusal.code())));
    }
    details
}

/// What there is to do about a case that can no longer be decided, and about one that ended badly.
fn next(stage: &Stage) -> Option<&'static str> {
    match stage {
        Stage::Superseded => Some("The newer request has a link of its own."),
        Stage::Expired
        | Stage::Undecided
        | Stage::Ended(Outcome::NotApplied)
        | Stage::EndedUnsent => Some("If it is still to be done, ask for a new plan."),
        Stage::Ended(Outcome::Overwritten) => Some(
            "Find what writes the group's offsets, such as a tool or an offset sync, stop it, and ask for a new plan.",
        ),
        Stage::Ended(Outcome::PartiallyApplied) => Some(
            "Keep the consumers stopped, look at each partition, and finish this plan or undo it.",
        ),
        Stage::Ended(Outcome::Unknown) | Stage::EndedUnproven => {
            Some("Keep the consumers stopped, look at each partition, and plan again.")
        }
        Stage::Open
        | Stage::Rejected
        | Stage::Approved
        | Stage::Admitted(_)
        | Stage::Applying
        | Stage::Verifying
        | Stage::Ended(Outcome::Verified | Outcome::AppliedThenMoved) => None,
    }
}
