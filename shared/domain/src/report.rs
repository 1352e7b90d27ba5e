//! What a recovery comes to in the end: one code, one sentence, and whether that is a success.

use std::collections::BTreeMap;

use super::approval::{Approval, Standing};
use super::audit::AuditStatus;
use super::offset::TopicPartition;
use super::plan::{LeftAlone, PlanRecord, PlanResult};
use super::reasons;
use super::recovery::progress::{RecoveryEnd, StoredPlan, StoredRecovery};
use super::recovery::{Outcome, Recovery};
use super::refusal::Refusal;
use super::text::grouped;

/// Everything that is on record when an execution comes to its end.
#[derive(Debug, Clone, Copy)]
pub struct OnRecord<'a> {
    /// The plan's record, if planning got that far and it can be read, and is not [replaced](is_replaced).
    pub plan: Option<&'a PlanRecord>,
    /// Whether another plan is on record than was put to the approver. What Verify found is judged by the plan, so that it
    /// says nothing either.
    pub replaced: bool,
    /// The approval, if one was asked for.
    pub approval: Option<&'a Approval>,
    /// The recovery, if the group was claimed.
    pub recovery: Option<&'a Recovery>,
    /// Whether a pre-image was stored: from then on something may have been sent.
    pub may_have_sent: bool,
    /// The error that brought the execution here, if one did.
    pub error: Option<&'a str>,
}

/// Whether the plan on record is another one than was put to the approver. More roles may put a plan over another one
/// than may approve or alter, so that what is on record says nothing of what was sent. A release that writes plans in
/// another form finds them replaced too.
#[must_use]
pub fn is_replaced(record: &PlanRecord, approval: &Approval) -> bool {
    match &record.result {
        PlanResult::Ready(plan) => plan.digest() != approval.digest,
        // Nobody is asked to approve these.
        PlanResult::NothingToDo(_) | PlanResult::Refused(_) => true,
    }
}

/// How a recovery can end. Its code is a public contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::VariantArray, strum::IntoStaticStr)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum EndCode {
    /// Every partition is at its target, and was seen there.
    Verified,
    /// It was applied, and the consumers have moved on since.
    AppliedThenMoved,
    /// It was applied, and something else than consumers has written over it since.
    Overwritten,
    /// The plan is stored, and that was all that was asked for.
    DryRun,
    /// Every selected partition is where it should be.
    NothingToDo,
    /// A person said no.
    Rejected,
    /// Another plan, which somebody asked for, took its place.
    Superseded,
    /// There is no plan, for reasons that are named.
    Refused,
    /// Planning failed.
    NotPlanned,
    /// The execution ended before anybody decided.
    NotApproved,
    /// Nobody decided in time.
    ApprovalExpired,
    /// Approved, and then stopped before anything was sent.
    ApprovedNotApplied,
    /// Some partitions moved.
    PartiallyApplied,
    /// It cannot be said what was applied.
    OutcomeUnknown,
}

impl EndCode {
    /// Every one.
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    /// As it stands in records and answers.
    #[must_use]
    pub fn code(self) -> &'static str {
        self.into()
    }

    /// A refusal and an unproven change are never a success.
    #[must_use]
    pub fn status(self) -> AuditStatus {
        match self {
            Self::Verified
            | Self::AppliedThenMoved
            | Self::DryRun
            | Self::NothingToDo
            | Self::Rejected
            | Self::Superseded => AuditStatus::Succeeded,
            Self::Refused
            | Self::NotPlanned
            | Self::NotApproved
            | Self::ApprovalExpired
            | Self::ApprovedNotApplied
            | Self::Overwritten
            | Self::PartiallyApplied
            | Self::OutcomeUnknown => AuditStatus::Failed,
        }
    }
}

/// What is said of a recovery in the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conclusion {
    /// What it came to.
    pub code: EndCode,
    /// One sentence for people.
    pub message: String,
    /// Every reason, where there are any.
    pub refusals: Vec<Refusal>,
}

impl Conclusion {
    fn of(code: EndCode, message: String) -> Self {
        Self {
            code,
            message,
            refusals: Vec::new(),
        }
    }

    fn with(self, refusals: &[Refusal]) -> Self {
        Self {
            refusals: refusals.to_vec(),
            ..self
        }
    }
}

impl OnRecord<'_> {
    /// How far it is, as far as its end tells.
    fn stored(&self) -> StoredRecovery<'_> {
        let plan = self.plan.map(|record| (record.dry_run, &record.result));
        StoredRecovery {
            plan: match plan {
                None => StoredPlan::Missing,
                Some((_, PlanResult::Refused(_))) => StoredPlan::Refused,
                Some((_, PlanResult::NothingToDo(_))) => StoredPlan::NothingToDo,
                // One that came to an error was to do more than be stored.
                Some((true, PlanResult::Ready(_))) if self.error.is_none() => StoredPlan::DryRun,
                Some((_, PlanResult::Ready(_))) => StoredPlan::Ready,
            },
            approval: self
                .approval
                .map(|approval| Standing::Closed(approval.stands())),
            recovery: self.recovery,
            outcome: self.recovery.and_then(|r| r.outcome.as_ref()),
            may_have_sent: self.may_have_sent,
            is_over: true,
        }
    }
}

impl RecoveryEnd {
    /// The code that an audit record has of it.
    #[must_use]
    pub fn code(&self) -> EndCode {
        match self {
            Self::NotPlanned => EndCode::NotPlanned,
            Self::Refused => EndCode::Refused,
            Self::NothingToDo => EndCode::NothingToDo,
            Self::DryRun => EndCode::DryRun,
            Self::Rejected => EndCode::Rejected,
            Self::Expired => EndCode::ApprovalExpired,
            Self::Superseded => EndCode::Superseded,
            Self::Undecided => EndCode::NotApproved,
            Self::Unsent | Self::Judged(Outcome::NotApplied) => EndCode::ApprovedNotApplied,
            Self::Unproven | Self::Judged(Outcome::Unknown) => EndCode::OutcomeUnknown,
            Self::Judged(Outcome::Verified) => EndCode::Verified,
            Self::Judged(Outcome::AppliedThenMoved) => EndCode::AppliedThenMoved,
            Self::Judged(Outcome::Overwritten) => EndCode::Overwritten,
            Self::Judged(Outcome::PartiallyApplied) => EndCode::PartiallyApplied,
        }
    }
}

fn because(error: &str) -> String {
    format!("{}. No offset was changed", said(error))
}

/// Says what it came to.
#[must_use]
pub fn conclude(on_record: OnRecord<'_>) -> Conclusion {
    if on_record.replaced && on_record.may_have_sent {
        return Conclusion::of(
            EndCode::OutcomeUnknown,
            "the plan on record is not the one that was approved, or is of another release, so nothing was proven by it. \
             Offsets may have been changed; look at each partition, and find out who wrote to the table"
                .to_owned(),
        );
    }
    let end = RecoveryEnd::of(on_record.stored());
    let code = end.code();
    let refusals = on_record.recovery.map_or(&[][..], |r| &r.refusals[..]);
    let plan = on_record.plan.map(|record| &record.result);
    match (end, plan) {
        (RecoveryEnd::NotPlanned, _) => Conclusion::of(
            code,
            because(
                on_record
                    .error
                    .unwrap_or("the execution ended before a plan was stored"),
            ),
        ),
        (RecoveryEnd::Refused, Some(PlanResult::Refused(refusals))) => {
            Conclusion::of(code, refused(refusals)).with(refusals)
        }
        (RecoveryEnd::Refused, _) => Conclusion::of(code, refused(refusals)).with(refusals),
        (RecoveryEnd::NothingToDo, Some(PlanResult::NothingToDo(left_alone))) => {
            Conclusion::of(code, nothing_to_do(left_alone))
        }
        (RecoveryEnd::NothingToDo, _) => Conclusion::of(code, nothing_to_do(&[])),
        (RecoveryEnd::DryRun, _) => {
            Conclusion::of(code, "the plan is stored; no offset was changed".to_owned())
        }
        (RecoveryEnd::Unproven, _) => {
            let error = on_record
                .error
                .unwrap_or("the execution ended before it was verified");
            let error = said(error);
            Conclusion::of(
                code,
                format!("{error}. Offsets may have been changed; look at each partition"),
            )
        }
        (RecoveryEnd::Judged(outcome), _) if outcome != Outcome::NotApplied => {
            judged(code, &outcome, refusals)
        }
        (RecoveryEnd::Superseded, _) => superseded(code, on_record),
        (RecoveryEnd::Rejected, _) => rejected(code, on_record),
        (RecoveryEnd::Expired, _) => expired(code, on_record),
        (RecoveryEnd::Unsent | RecoveryEnd::Judged(_), _) => stopped(
            code,
            on_record,
            "the execution ended before the plan was applied",
        ),
        (RecoveryEnd::Undecided, _) => stopped(
            code,
            on_record,
            "the execution ended before anybody decided",
        ),
    }
}

/// What Verify found, with what stopped it half-way. Where everything was moved, nothing did: a refusal is then that of a
/// second try.
fn judged(code: EndCode, outcome: &Outcome, refusals: &[Refusal]) -> Conclusion {
    let next = match outcome {
        Outcome::Verified | Outcome::AppliedThenMoved => "",
        Outcome::Overwritten => {
            "; stop what writes them (a tool, an offset sync), or see whether consumers came and left, and plan again"
        }
        Outcome::PartiallyApplied => {
            "; look at each partition, keep the consumers stopped, and finish the plan or undo it"
        }
        Outcome::Unknown | Outcome::NotApplied => {
            "; look at each partition, keep the consumers stopped and plan again"
        }
    };
    let conclusion = Conclusion::of(code, format!("{outcome}{next}"));
    match code.status() {
        AuditStatus::Succeeded => conclusion,
        AuditStatus::Failed => conclusion.with(refusals),
    }
}

/// Why each partition is where it is, in numbers.
fn nothing_to_do(left_alone: &[(TopicPartition, LeftAlone)]) -> String {
    let mut counts: BTreeMap<&LeftAlone, usize> = BTreeMap::new();
    for (_, why) in left_alone {
        *counts.entry(why).or_default() += 1;
    }
    let reasons: Vec<_> = counts
        .iter()
        .map(|(why, count)| format!("{} {why}", grouped(count)))
        .collect();
    format!(
        "there is nothing to move; partitions: {}; no offset was changed",
        reasons.join(", ")
    )
}

fn superseded(code: EndCode, on_record: OnRecord<'_>) -> Conclusion {
    let by = on_record.recovery.and_then(|r| r.superseded_by.as_ref());
    let by = by.map_or("another plan".to_owned(), |by| format!("plan {by}"));
    Conclusion::of(
        code,
        format!("{by}, which somebody asked for, took its place; no offset was changed"),
    )
}

fn rejected(code: EndCode, on_record: OnRecord<'_>) -> Conclusion {
    let approval = on_record.approval;
    let by = approval.and_then(|approval| approval.decided_by.as_deref());
    let by = by.unwrap_or("somebody");
    let reason = approval.and_then(|approval| approval.reason.as_deref());
    let reason = reason.unwrap_or_default();
    let why = if reason.is_empty() {
        String::new()
    } else {
        format!(" ({})", said(reason))
    };
    let message = format!("rejected by {by}{why}; no offset was changed");
    Conclusion::of(code, message).with(&[Refusal::Rejected {
        by: by.to_owned(),
        reason: reason.to_owned(),
    }])
}

fn expired(code: EndCode, on_record: OnRecord<'_>) -> Conclusion {
    let refusals: Vec<_> = on_record
        .approval
        .iter()
        .map(|approval| Refusal::ApprovalExpired {
            approve_by: approval.approve_by,
        })
        .collect();
    Conclusion::of(code, refused(&refusals)).with(&refusals)
}

/// The plan was ready, and no offset was changed: by refusals, by an error, or because the execution ended.
fn stopped(code: EndCode, on_record: OnRecord<'_>, ended: &str) -> Conclusion {
    let refusals = on_record.recovery.map_or(&[][..], |r| &r.refusals[..]);
    let why = match (refusals.is_empty(), on_record.error) {
        (false, _) => refused(refusals),
        (true, Some(error)) => because(error),
        (true, None) => because(ended),
    };
    Conclusion::of(code, why).with(refusals)
}

/// What is said of an execution whose input asks for nothing that the state machine does. Nothing of the input is
/// repeated but what the refusal itself says.
#[must_use]
pub fn conclude_invalid(refusal: Refusal) -> Conclusion {
    let told = reasons::told(std::slice::from_ref(&refusal));
    Conclusion {
        refusals: vec![refusal],
        ..Conclusion::of(
            EndCode::Refused,
            format!("{told}. This execution changed nothing"),
        )
    }
}

/// The reasons in one text.
fn refused(refusals: &[Refusal]) -> String {
    format!("{}. No offset was changed", reasons::told(refusals))
}

/// The longest text of an error or of a person that a message repeats, in characters. A step's error may be as long as
/// Step Functions lets it be, and the message passes through a state and ends as a cause, which are no longer than that.
const LONGEST_SAID: usize = 2_000;

fn said(text: &str) -> String {
    reasons::cut(text, LONGEST_SAID)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approval::{ApprovalStatus, Decision};
    use crate::ids::PlanId;
    use crate::testing::*;

    /// What is said of the incident's plan.
    fn concluded(
        change: impl FnOnce(&mut PlanRecord, &mut Recovery),
        error: Option<&str>,
    ) -> Conclusion {
        let plan = Scene::incident().ready();
        let mut recovery = recovery(&plan);
        let approval = approval(&plan);
        let mut record = plan_record(plan);
        change(&mut record, &mut recovery);
        conclude(OnRecord {
            plan: Some(&record),
            replaced: false,
            approval: Some(&approval),
            recovery: (!record.dry_run).then_some(&recovery),
            may_have_sent: recovery.outcome.is_some(),
            error,
        })
    }

    #[test]
    fn what_stopped_a_change_half_way_is_told_with_it() {
        let ended = |outcome| {
            let stopped = |_: &mut PlanRecord, recovery: &mut Recovery| {
                recovery.outcome = Some(outcome);
                recovery.refusals = vec![Refusal::ApplySwitchedOff];
            };
            let conclusion = concluded(stopped, None);
            (conclusion.code.code(), conclusion.refusals)
        };
        let switched_off = || vec![Refusal::ApplySwitchedOff];
        let codes = |code: &'static str, refusals| (code, refusals);
        assert_eq!(
            ended(Outcome::PartiallyApplied),
            codes("PARTIALLY_APPLIED", switched_off())
        );
        assert_eq!(
            ended(Outcome::Unknown),
            codes("OUTCOME_UNKNOWN", switched_off())
        );
        assert_eq!(
            ended(Outcome::NotApplied),
            codes("APPROVED_NOT_APPLIED", switched_off())
        );
        // A second try of the same step was refused, and nothing was stopped by that.
        assert_eq!(ended(Outcome::Verified), codes("VERIFIED", vec![]));
    }

    #[test]
    fn a_plan_that_nobody_was_asked_of_is_refused_for_what_is_on_record_of_it() {
        let plan = Scene::incident().ready();
        let mut recovery = recovery(&plan);
        let lacking = Refusal::NotAuthorisedToAlter {
            group: "shipment-sync".to_owned(),
            missing: vec![],
        };
        let concluded = |recovery: &Recovery, error| {
            let record = plan_record(plan.clone());
            conclude(OnRecord {
                plan: Some(&record),
                replaced: false,
                approval: None,
                recovery: Some(recovery),
                may_have_sent: false,
                error,
            })
        };
        // The brokers were away when they were asked for the rights: nobody was asked, and it is no refusal.
        let failed = concluded(&recovery, Some("the brokers do not answer"));
        assert_eq!(failed.code, EndCode::NotApproved);
        assert_eq!(
            failed.message,
            "the brokers do not answer. No offset was changed"
        );
        recovery.refusals = vec![lacking.clone()];
        let refused = concluded(&recovery, None);
        assert_eq!(refused.code.status(), AuditStatus::Failed);
        assert_eq!(
            (refused.code, refused.refusals),
            (EndCode::Refused, vec![lacking])
        );
    }

    #[test]
    fn an_execution_that_failed_is_no_dry_run_that_went_well() {
        let dry = |record: &mut PlanRecord, _: &mut Recovery| record.dry_run = true;
        assert_eq!(concluded(dry, None).code, EndCode::DryRun);
        let failed = concluded(dry, Some("the table failed"));
        assert_eq!(failed.code.status(), AuditStatus::Failed);
        assert!(failed.message.contains("the table failed"), "{failed:?}");
    }

    #[test]
    fn a_plan_whose_place_was_taken_is_no_failure_and_names_the_other() {
        let superseded = |_: &mut PlanRecord, recovery: &mut Recovery| {
            recovery.superseded_by = Some(PlanId("01JOTHER".to_owned()));
        };
        for error in [None, Some("OffsetGuard.Superseded")] {
            let conclusion = concluded(superseded, error);
            assert_eq!(conclusion.code.status(), AuditStatus::Succeeded);
            assert_eq!(conclusion.code, EndCode::Superseded);
            assert!(conclusion.message.contains("01JOTHER"), "{conclusion:?}");
        }
    }

    #[test]
    fn a_plan_that_cannot_be_read_is_concluded_from_what_can_be() {
        let plan = Scene::incident().ready();
        let (recovery, approved) = (recovery(&plan), approval(&plan));
        let unread = |approval, may_have_sent| {
            conclude(OnRecord {
                plan: None,
                replaced: false,
                approval,
                recovery: Some(&recovery),
                may_have_sent,
                error: Some("the plan is damaged"),
            })
        };
        for (approval, code) in [
            (None, EndCode::NotPlanned),
            (Some(&approved), EndCode::ApprovedNotApplied),
        ] {
            let conclusion = unread(approval, false);
            assert_eq!(conclusion.code, code);
            assert_eq!(
                conclusion.message,
                "the plan is damaged. No offset was changed"
            );
        }
        // Without the plan nobody can say that nothing was moved, once something may have been.
        let conclusion = unread(Some(&approved), true);
        assert_eq!(conclusion.code, EndCode::OutcomeUnknown);
        assert_eq!(conclusion.code.status(), AuditStatus::Failed);
        assert!(!conclusion.message.contains("No offset was changed"));
    }

    #[test]
    fn a_plan_that_another_one_was_put_over_is_no_witness_of_what_was_sent() {
        let plan = Scene::incident().ready();
        let approved = approval(&plan);
        let with = |result| PlanRecord {
            result,
            ..plan_record(plan.clone())
        };
        assert!(!is_replaced(
            &with(PlanResult::Ready(plan.clone())),
            &approved
        ));
        let mut emptied = plan.clone();
        emptied.moves.clear();
        for result in [
            PlanResult::Ready(emptied),
            PlanResult::Refused(vec![Refusal::ApplySwitchedOff]),
            PlanResult::NothingToDo(vec![]),
        ] {
            assert!(is_replaced(&with(result), &approved));
        }
        let mut recovery = recovery(&plan);
        let concluded = |recovery: &Recovery, approval: &Approval, may_have_sent| {
            conclude(OnRecord {
                plan: None,
                replaced: true,
                approval: Some(approval),
                recovery: Some(recovery),
                may_have_sent,
                error: None,
            })
        };
        // Whatever Verify found by that plan, or could not find.
        for outcome in [None, Some(Outcome::NotApplied), Some(Outcome::Verified)] {
            recovery.outcome = outcome;
            let conclusion = concluded(&recovery, &approved, true);
            assert_eq!(conclusion.code, EndCode::OutcomeUnknown);
            assert!(
                conclusion.message.contains("find out who wrote"),
                "{conclusion:?}"
            );
        }
        // Without a pre-image nothing was sent, and what was decided is known without the plan.
        recovery.outcome = None;
        let rejected = Approval {
            status: ApprovalStatus::Rejected,
            decision: Some(Decision::Reject),
            ..approved.clone()
        };
        assert_eq!(
            concluded(&recovery, &rejected, false).code,
            EndCode::Rejected
        );
    }

    /// The longest cause of a `Fail` state, in characters (AWS Step Functions, quotas).
    const LONGEST_CAUSE: usize = 32_768;

    #[test]
    fn a_message_fits_a_cause_however_much_there_is_to_say() {
        let endless = "ä".repeat(200_000);
        let stale = |partition| Refusal::BrokerRejected {
            partition: TopicPartition::new("t".repeat(249), partition),
            error: endless.clone(),
        };
        let many: Vec<_> = (0..10_000)
            .map(|partition| match partition {
                0..100 => stale(partition),
                _ => Refusal::GroupBecameActive {
                    partition: TopicPartition::new("t", partition),
                    error: "UNKNOWN_MEMBER_ID".to_owned(),
                },
            })
            .collect();
        let refused = |record: &mut PlanRecord, _: &mut Recovery| {
            record.result = PlanResult::Refused(many.clone());
        };
        let stopped = |outcome| {
            let refusals = many.clone();
            move |_: &mut PlanRecord, recovery: &mut Recovery| {
                recovery.outcome = outcome;
                recovery.refusals = refusals;
            }
        };
        let nothing = |_: &mut PlanRecord, _: &mut Recovery| {};
        for (conclusion, code, refusals) in [
            (concluded(refused, None), "REFUSED", 10_000),
            (
                concluded(stopped(None), None),
                "APPROVED_NOT_APPLIED",
                10_000,
            ),
            (
                concluded(stopped(Some(Outcome::PartiallyApplied)), Some(&endless)),
                "PARTIALLY_APPLIED",
                10_000,
            ),
            (
                concluded(nothing, Some(&endless)),
                "APPROVED_NOT_APPLIED",
                0,
            ),
            (conclude_invalid(stale(0)), "REFUSED", 1),
        ] {
            assert_eq!(conclusion.code.code(), code);
            // Nothing is lost: the record has them all.
            assert_eq!(conclusion.refusals.len(), refusals, "{code}");
            let length = conclusion.message.chars().count();
            assert!(length < LONGEST_CAUSE / 2, "{code}: {length}");
        }
        let message = concluded(refused, None).message;
        let counts = "10,000 refusals in all: 100 BROKER_REJECTED, 9,900 GROUP_BECAME_ACTIVE. No offset was changed";
        assert!(message.ends_with(counts), "{message}");
    }

    #[test]
    fn nothing_to_do_says_why_of_every_partition() {
        let left_alone = [
            LeftAlone::AlreadyThere,
            LeftAlone::NoCommit,
            LeftAlone::AlreadyThere,
        ];
        let left_alone: Vec<_> = (0..)
            .zip(left_alone)
            .map(|(partition, why)| (TopicPartition::new("t", partition), why))
            .collect();
        assert_eq!(
            nothing_to_do(&left_alone),
            "there is nothing to move; partitions: 2 already at the target, 1 has no commit; no offset was changed"
        );
    }
}
