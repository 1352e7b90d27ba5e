//! The words for how far a recovery is.

use jiff::Timestamp;

use super::numbers::describe_span;
use crate::app::approval_case::ApprovalCase;
use crate::domain::approval::Approval;
use crate::domain::recovery::Outcome;
use crate::domain::recovery::progress::{Progress, RecoveryEnd};
use crate::domain::text::time;

/// The colour of the box around the headline, by the style sheet's classes.
pub(super) fn tone_of(progress: &Progress) -> &'static str {
    match progress {
        Progress::Planning
        | Progress::Planned
        | Progress::WaitingForApproval
        | Progress::Approved
        | Progress::Admitted(_)
        | Progress::Applying
        | Progress::Verifying
        | Progress::Fenced => "wait",
        Progress::Ended(end) => match end {
            RecoveryEnd::Judged(Outcome::Verified | Outcome::AppliedThenMoved) => "good",
            RecoveryEnd::NotPlanned
            | RecoveryEnd::Refused
            | RecoveryEnd::NothingToDo
            | RecoveryEnd::DryRun
            | RecoveryEnd::Rejected
            | RecoveryEnd::Expired
            | RecoveryEnd::Superseded
            | RecoveryEnd::Undecided => "neutral",
            RecoveryEnd::Judged(
                Outcome::NotApplied
                | Outcome::Overwritten
                | Outcome::PartiallyApplied
                | Outcome::Unknown,
            )
            | RecoveryEnd::Unsent
            | RecoveryEnd::Unproven => "bad",
        },
    }
}

/// How far it is in a word or two, for the browser's tab.
pub(super) fn title_of(progress: &Progress) -> &'static str {
    match progress {
        Progress::Planning | Progress::Planned | Progress::WaitingForApproval => "to be decided",
        Progress::Approved | Progress::Admitted(_) | Progress::Fenced => "approved",
        Progress::Applying => "being applied",
        Progress::Verifying => "being verified",
        Progress::Ended(end) => match end {
            // Nobody is asked to approve what has no plan, or only a dry run.
            RecoveryEnd::NotPlanned
            | RecoveryEnd::Refused
            | RecoveryEnd::NothingToDo
            | RecoveryEnd::DryRun
            | RecoveryEnd::Undecided => "not decided",
            RecoveryEnd::Rejected => "rejected",
            RecoveryEnd::Expired => "expired",
            RecoveryEnd::Superseded => "superseded",
            RecoveryEnd::Judged(Outcome::Verified) => "applied and verified",
            RecoveryEnd::Judged(Outcome::AppliedThenMoved) => "applied",
            RecoveryEnd::Judged(Outcome::NotApplied) | RecoveryEnd::Unsent => "not applied",
            RecoveryEnd::Judged(Outcome::Overwritten) => "overwritten",
            RecoveryEnd::Judged(Outcome::PartiallyApplied) => "partially applied",
            RecoveryEnd::Judged(Outcome::Unknown) | RecoveryEnd::Unproven => "outcome unknown",
        },
    }
}

/// How far it is in a sentence.
pub(crate) fn headline_of(progress: &Progress, approval: &Approval, now: Timestamp) -> String {
    match progress {
        Progress::Planning | Progress::Planned | Progress::WaitingForApproval => {
            let left = approval.approve_by.as_second() - now.as_second();
            format!("Waits for a decision: {} left.", describe_span(left))
        }
        Progress::Approved | Progress::Fenced => "Approved. Nothing has been moved yet.".to_owned(),
        Progress::Admitted(by) => {
            format!("Approved and admitted: to be applied by {}.", time(*by))
        }
        Progress::Applying => "Approved; being applied now.".to_owned(),
        Progress::Verifying => "Applied; being read back now.".to_owned(),
        Progress::Ended(end) => headline_of_end(end, approval),
    }
}

fn headline_of_end(end: &RecoveryEnd, approval: &Approval) -> String {
    match end {
        RecoveryEnd::Expired => format!(
            "Expired: nobody decided by {}. Nothing was moved.",
            time(approval.approve_by)
        ),
        RecoveryEnd::Superseded => {
            "Superseded: another request took its place. Nothing was moved by this one.".to_owned()
        }
        // Nobody is asked to approve what has no plan, or only a dry run.
        RecoveryEnd::NotPlanned
        | RecoveryEnd::Refused
        | RecoveryEnd::NothingToDo
        | RecoveryEnd::DryRun
        | RecoveryEnd::Undecided => {
            "Closed: the recovery ended before anybody decided. Nothing was moved.".to_owned()
        }
        RecoveryEnd::Rejected => "Rejected. Nothing was moved.".to_owned(),
        RecoveryEnd::Judged(Outcome::Verified) => {
            format!("Applied and verified: {}.", Outcome::Verified)
        }
        RecoveryEnd::Judged(Outcome::AppliedThenMoved) => {
            format!("Applied: {}.", Outcome::AppliedThenMoved)
        }
        RecoveryEnd::Judged(Outcome::NotApplied) => {
            format!("Approved, but not applied: {}.", Outcome::NotApplied)
        }
        RecoveryEnd::Judged(
            outcome @ (Outcome::Overwritten | Outcome::PartiallyApplied | Outcome::Unknown),
        ) => format!("Look at this: {outcome}."),
        RecoveryEnd::Unsent => "Approved, but not applied: nothing was sent.".to_owned(),
        RecoveryEnd::Unproven => {
            "Look at this: it ended while it was applied, and nothing was verified.".to_owned()
        }
    }
}

/// Until when it can be decided, who decided and when, what came of it, and what there is to do.
pub(super) fn list_details(case: &ApprovalCase, progress: &Progress) -> Vec<String> {
    let mut details = Vec::new();
    let approval = &case.approval;
    if *progress == Progress::WaitingForApproval {
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
        details.push(format!(
            "Reason: {}",
            reason.lines().collect::<Vec<_>>().join(" ")
        ));
    }
    if let (Progress::Ended(RecoveryEnd::Undecided), Some(audit)) = (progress, &case.audit) {
        details.push(format!("Reported: {}, {}.", audit.code, audit.message));
    }
    details.extend(advise(progress).map(str::to_owned));
    let refusals = case.audit.as_ref().map(|audit| &audit.refusals);
    let refusals = refusals
        .filter(|refusals| !refusals.is_empty())
        .or(case.recovery.as_ref().map(|recovery| &recovery.refusals));
    // A rejection and an expiry are the headline already; only a refusal after an approval is news. Where everything
    // was moved, it is that of a second try.
    if !matches!(
        progress,
        Progress::Ended(
            RecoveryEnd::Rejected
                | RecoveryEnd::Expired
                | RecoveryEnd::Superseded
                | RecoveryEnd::Undecided
                | RecoveryEnd::Judged(Outcome::Verified | Outcome::AppliedThenMoved)
        )
    ) {
        let refusals = refusals.into_iter().flatten();
        details.extend(refusals.map(|refusal| format!("Refused, {}: {refusal}", refusal.code())));
    }
    details
}

/// What there is to do about a recovery that can no longer be decided, and about one that ended badly.
fn advise(progress: &Progress) -> Option<&'static str> {
    let Progress::Ended(end) = progress else {
        return None;
    };
    match end {
        RecoveryEnd::Superseded => Some("The newer request has a link of its own."),
        RecoveryEnd::NotPlanned
        | RecoveryEnd::Refused
        | RecoveryEnd::NothingToDo
        | RecoveryEnd::DryRun
        | RecoveryEnd::Expired
        | RecoveryEnd::Undecided
        | RecoveryEnd::Judged(Outcome::NotApplied)
        | RecoveryEnd::Unsent => Some("If it is still to be done, ask for a new plan."),
        RecoveryEnd::Judged(Outcome::Overwritten) => Some(
            "Find what writes the group's offsets, such as a tool or an offset sync, stop it, and ask for a new plan.",
        ),
        RecoveryEnd::Judged(Outcome::PartiallyApplied) => Some(
            "Keep the consumers stopped, look at each partition, and finish this plan or undo it.",
        ),
        RecoveryEnd::Judged(Outcome::Unknown) | RecoveryEnd::Unproven => {
            Some("Keep the consumers stopped, look at each partition, and plan again.")
        }
        RecoveryEnd::Rejected
        | RecoveryEnd::Judged(Outcome::Verified | Outcome::AppliedThenMoved) => None,
    }
}
