//! The way of a recovery from the question to its end: what is done, what goes on, what is still to come.

use jiff::Timestamp;

use crate::app::approval_case::ApprovalCase;
use crate::domain::approval::ApprovalStatus;
use crate::domain::group::MemberSeen;
use crate::domain::recovery::progress::{Progress, RecoveryEnd};
use crate::domain::text::time;

/// One step of the way.
pub(super) struct Step {
    pub(super) at: Option<String>,
    pub(super) text: String,
    pub(super) mark: Mark,
}

/// Where a step stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Done,
    Now,
    ToCome,
}

impl Mark {
    pub(super) fn is_now(self) -> bool {
        self == Self::Now
    }

    /// The style sheet's name of it.
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Now => "now",
            Self::ToCome => "to-come",
        }
    }

    /// The sign before the step, for the eye alone.
    pub(super) fn sign(self) -> &'static str {
        match self {
            Self::Done => "\u{2713}",
            Self::Now => "\u{25B8}",
            Self::ToCome => "\u{25CB}",
        }
    }

    /// The same as a word.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Now => "now",
            Self::ToCome => "to come",
        }
    }
}

/// The way of a decided case; nothing before there is a decision.
pub(super) fn list_steps(case: &ApprovalCase, now: Timestamp) -> Vec<Step> {
    let approval = &case.approval;
    let Some(decided_at) = approval.decided_at else {
        return Vec::new();
    };
    let done = |at: Timestamp, text: &str| Step {
        at: Some(time(at)),
        text: text.to_owned(),
        mark: Mark::Done,
    };
    let approved = approval.stands() == ApprovalStatus::Approved;
    let mut steps = vec![
        done(approval.created_at, "Approval asked for"),
        done(decided_at, if approved { "Approved" } else { "Rejected" }),
    ];
    if let Some(at) = approval.delivered_at {
        steps.push(done(at, "The recovery got the decision"));
    }
    let recovery = case.recovery.as_ref();
    let quiet = recovery.and_then(|r| r.quiet.as_ref());
    if let Some(quiet) = quiet {
        steps.push(done(quiet.since, "The group was seen empty and still"));
    }
    if let Some(at) = recovery.and_then(|r| r.apply_ended_at) {
        steps.push(done(at, "All requests to Kafka were answered"));
    }
    // What Verify found has no time of its own; it is the headline.
    if let Some(audit) = &case.audit {
        let text = format!("Reported: {}, {}", audit.code, audit.message);
        steps.push(done(audit.at, &text));
    }
    if !case.goes_on(now) {
        return steps;
    }
    let still = |text: &str, mark| Step {
        at: None,
        text: text.to_owned(),
        mark,
    };
    let waits = case.plan.waits_for_empty && quiet.is_none();
    let ahead = [
        (
            "The decision reaches the recovery",
            approval.delivered_at.is_none(),
        ),
        ("The consumers stop, and the group is empty", waits),
        ("The offsets are applied", true),
        ("Every partition is read back", true),
        ("The end is reported", true),
    ];
    // How many of these are behind, whatever was noted of them.
    let behind = match case.progress(now) {
        Progress::Admitted(_) => 1,
        Progress::Applying => 2,
        Progress::Verifying | Progress::Fenced => 3,
        Progress::Ended(RecoveryEnd::Judged(_) | RecoveryEnd::Unsent | RecoveryEnd::Unproven) => 4,
        Progress::Planning
        | Progress::Planned
        | Progress::WaitingForApproval
        | Progress::Approved
        | Progress::Ended(_) => 0,
    };
    let ahead = ahead.into_iter().skip(behind).filter(|(_, is)| *is);
    for (index, (text, _)) in ahead.enumerate() {
        let mark = if index == 0 { Mark::Now } else { Mark::ToCome };
        steps.push(still(text, mark));
    }
    steps
}

/// Whom an approved plan waits for: the members that were seen while planning, until the group is seen empty. `None`
/// where it waits for nobody.
pub(super) fn members_to_stop(case: &ApprovalCase, now: Timestamp) -> Option<&[MemberSeen]> {
    let waits = case.plan.waits_for_empty
        && matches!(
            case.progress(now),
            Progress::Approved | Progress::Admitted(_)
        )
        && case.recovery.as_ref().is_none_or(|r| r.quiet.is_none());
    waits.then(|| case.plan.members_to_stop())
}
