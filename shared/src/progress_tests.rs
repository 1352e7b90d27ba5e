//! How far a recovery is, as the page, the API and the audit record tell it: one row per state.

use jiff::Timestamp;

use crate::api::recovery::word_of;
use crate::domain::approval::{Approval, ApprovalStatus, Standing};
use crate::domain::ids::PlanId;
use crate::domain::plan::Plan;
use crate::domain::recovery::progress::{Progress, RecoveryEnd, StoredPlan, StoredRecovery};
use crate::domain::recovery::{Outcome, Recovery};
use crate::domain::refusal::Refusal;
use crate::domain::testing::pending_approval;
use crate::domain::testing::shown::plan;
use crate::page::headline::headline_of;

fn now() -> Timestamp {
    "2026-03-14T02:18:00Z".parse().unwrap()
}

/// What is stored of the incident's plan, changed.
struct Scenery {
    plan: StoredPlan,
    approval: Option<Standing>,
    recovery: Option<Recovery>,
    outcome: Option<Outcome>,
    may_have_sent: bool,
}

impl Scenery {
    fn progress(&self, is_over: bool) -> Progress {
        Progress::of(StoredRecovery {
            plan: self.plan,
            approval: self.approval,
            recovery: self.recovery.as_ref(),
            outcome: self.outcome.as_ref(),
            may_have_sent: self.may_have_sent,
            is_over,
        })
    }
}

fn claimed(plan: &Plan, change: impl FnOnce(&mut Recovery)) -> Option<Recovery> {
    let mut recovery = Recovery::open(plan, &"recovery-1".into(), plan.created_at);
    change(&mut recovery);
    Some(recovery)
}

fn told(progress: &Progress, approval: &Approval) -> (String, &'static str) {
    (
        headline_of(progress, approval, now()),
        word_of(progress, false, true),
    )
}

const APPROVED: Option<Standing> = Some(Standing::Closed(ApprovalStatus::Approved));

/// A recovery that goes on, with its claim changed: the progress, what the page says and the API's word.
#[test]
fn every_state_on_the_way_is_told_alike() {
    let plan = plan();
    let approval = pending_approval(&plan);
    let until = now();
    type Change = fn(&mut Recovery);
    let unchanged: Change = |_| {};
    let rows: [(Option<Standing>, Change, Progress, &str, &str); 12] = [
        (
            Some(Standing::Open),
            unchanged,
            Progress::WaitingForApproval,
            "Waits for a decision",
            "WAITING_FOR_APPROVAL",
        ),
        (
            None,
            unchanged,
            Progress::WaitingForApproval,
            "Waits for a decision",
            "WAITING_FOR_APPROVAL",
        ),
        (
            APPROVED,
            unchanged,
            Progress::Approved,
            "Approved. Nothing has been moved yet.",
            "APPROVED",
        ),
        (
            APPROVED,
            |r| r.apply_by = Some(now()),
            Progress::Admitted(until),
            "Approved and admitted: to be applied by 2026-03-14 02:18:00 UTC.",
            "APPROVED",
        ),
        (
            APPROVED,
            |r| r.apply_until = Some(now()),
            Progress::Applying,
            "Approved; being applied now.",
            "APPLYING",
        ),
        (
            APPROVED,
            |r| r.apply_ended_at = Some(now()),
            Progress::Verifying,
            "Applied; being read back now.",
            "VERIFYING",
        ),
        (
            APPROVED,
            |r| {
                r.apply_until = Some(now());
                r.fence = 1;
            },
            Progress::Verifying,
            "Applied; being read back now.",
            "VERIFYING",
        ),
        (
            APPROVED,
            |r| {
                r.apply_by = Some(now());
                r.fence = 1;
            },
            Progress::Fenced,
            "Approved. Nothing has been moved yet.",
            "VERIFYING",
        ),
        // Superseded: its approval is closed, its fence raised, and its execution has not reported yet.
        (
            Some(Standing::Closed(ApprovalStatus::Superseded)),
            |r| {
                r.fence = 1;
                r.superseded_by = Some(PlanId("01NEWER".to_owned()));
            },
            Progress::Ended(RecoveryEnd::Superseded),
            "Superseded: another request took its place.",
            "SUPERSEDED",
        ),
        (
            None,
            |r| {
                r.fence = 1;
                r.superseded_by = Some(PlanId("01NEWER".to_owned()));
            },
            Progress::Ended(RecoveryEnd::Superseded),
            "Superseded: another request took its place.",
            "SUPERSEDED",
        ),
        (
            Some(Standing::Closed(ApprovalStatus::Rejected)),
            unchanged,
            Progress::Ended(RecoveryEnd::Rejected),
            "Rejected. Nothing was moved.",
            "VERIFYING",
        ),
        (
            Some(Standing::Closed(ApprovalStatus::Expired)),
            unchanged,
            Progress::Ended(RecoveryEnd::Expired),
            "Expired: nobody decided by",
            "VERIFYING",
        ),
    ];
    for (standing, change, progress, says, word) in rows {
        let stored = Scenery {
            plan: StoredPlan::Ready,
            approval: standing,
            recovery: claimed(&plan, change),
            outcome: None,
            may_have_sent: false,
        };
        assert_eq!(stored.progress(false), progress);
        let (headline, api) = told(&progress, &approval);
        assert!(headline.starts_with(says), "{progress:?}: {headline}");
        assert_eq!(api, word, "{progress:?}");
        assert_eq!(word_of(&progress, true, true), "ENDED");
    }
    let unclaimed = |plan| Scenery {
        plan,
        approval: None,
        recovery: None,
        outcome: None,
        may_have_sent: false,
    };
    for (plan, progress, word) in [
        (StoredPlan::Missing, Progress::Planning, "PLANNING"),
        (StoredPlan::Refused, Progress::Planning, "PLANNING"),
        (StoredPlan::NothingToDo, Progress::Planning, "PLANNING"),
        (StoredPlan::DryRun, Progress::Planned, "PLANNED"),
        (StoredPlan::Ready, Progress::Planned, "PLANNED"),
    ] {
        assert_eq!(unclaimed(plan).progress(false), progress);
        assert_eq!(word_of(&progress, false, true), word);
        assert_eq!(word_of(&progress, false, false), "ENDED_WITHOUT_REPORT");
    }
}

/// A recovery whose execution is at its end: how it ended, what the page says and the code of its audit record.
#[test]
fn every_end_is_told_alike() {
    let plan = plan();
    let approval = pending_approval(&plan);
    let closed = |status| Some(Standing::Closed(status));
    let at_the_end = |approval, outcome: Option<Outcome>, may_have_sent| Scenery {
        plan: StoredPlan::Ready,
        approval,
        recovery: claimed(&plan, |_| {}),
        outcome,
        may_have_sent,
    };
    let of_plan = |plan| Scenery {
        plan,
        approval: None,
        recovery: None,
        outcome: None,
        may_have_sent: false,
    };
    let with = |change: fn(&mut Recovery), approval| Scenery {
        recovery: claimed(&plan, change),
        ..at_the_end(approval, None, false)
    };
    let judged = |outcome: Outcome| at_the_end(APPROVED, Some(outcome), true);
    for (stored, end, says, code) in [
        (
            of_plan(StoredPlan::Missing),
            RecoveryEnd::NotPlanned,
            "Closed: ",
            "NOT_PLANNED",
        ),
        (
            of_plan(StoredPlan::Refused),
            RecoveryEnd::Refused,
            "Closed: ",
            "REFUSED",
        ),
        (
            of_plan(StoredPlan::NothingToDo),
            RecoveryEnd::NothingToDo,
            "Closed: ",
            "NOTHING_TO_DO",
        ),
        (
            of_plan(StoredPlan::DryRun),
            RecoveryEnd::DryRun,
            "Closed: ",
            "DRY_RUN",
        ),
        (
            with(|r| r.refusals = vec![Refusal::ApplySwitchedOff], None),
            RecoveryEnd::Refused,
            "Closed: ",
            "REFUSED",
        ),
        (
            at_the_end(closed(ApprovalStatus::Rejected), None, false),
            RecoveryEnd::Rejected,
            "Rejected. ",
            "REJECTED",
        ),
        (
            at_the_end(closed(ApprovalStatus::Expired), None, false),
            RecoveryEnd::Expired,
            "Expired: ",
            "APPROVAL_EXPIRED",
        ),
        (
            with(
                |r| r.superseded_by = Some(PlanId("01NEWER".to_owned())),
                closed(ApprovalStatus::Superseded),
            ),
            RecoveryEnd::Superseded,
            "Superseded: ",
            "SUPERSEDED",
        ),
        (
            at_the_end(closed(ApprovalStatus::Superseded), None, false),
            RecoveryEnd::Undecided,
            "Closed: the recovery ended before anybody decided.",
            "NOT_APPROVED",
        ),
        (
            at_the_end(Some(Standing::Open), None, false),
            RecoveryEnd::Undecided,
            "Closed: ",
            "NOT_APPROVED",
        ),
        (
            at_the_end(APPROVED, None, false),
            RecoveryEnd::Unsent,
            "Approved, but not applied: nothing was sent.",
            "APPROVED_NOT_APPLIED",
        ),
        (
            at_the_end(APPROVED, None, true),
            RecoveryEnd::Unproven,
            "Look at this: it ended while it was applied",
            "OUTCOME_UNKNOWN",
        ),
        (
            judged(Outcome::Verified),
            RecoveryEnd::Judged(Outcome::Verified),
            "Applied and verified: ",
            "VERIFIED",
        ),
        (
            judged(Outcome::AppliedThenMoved),
            RecoveryEnd::Judged(Outcome::AppliedThenMoved),
            "Applied: ",
            "APPLIED_THEN_MOVED",
        ),
        (
            judged(Outcome::NotApplied),
            RecoveryEnd::Judged(Outcome::NotApplied),
            "Approved, but not applied: no partition was moved.",
            "APPROVED_NOT_APPLIED",
        ),
        (
            judged(Outcome::Overwritten),
            RecoveryEnd::Judged(Outcome::Overwritten),
            "Look at this: every partition was moved",
            "OVERWRITTEN",
        ),
        (
            judged(Outcome::PartiallyApplied),
            RecoveryEnd::Judged(Outcome::PartiallyApplied),
            "Look at this: some partitions were moved",
            "PARTIALLY_APPLIED",
        ),
        (
            judged(Outcome::Unknown),
            RecoveryEnd::Judged(Outcome::Unknown),
            "Look at this: it cannot be said",
            "OUTCOME_UNKNOWN",
        ),
    ] {
        let progress = Progress::Ended(end.clone());
        assert_eq!(stored.progress(true), progress);
        let (headline, _) = told(&progress, &approval);
        assert!(headline.starts_with(says), "{end:?}: {headline}");
        assert_eq!(end.code().code(), code);
        assert_eq!(word_of(&progress, true, false), "ENDED");
    }
}
