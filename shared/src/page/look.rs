//! One look at a case: what a form leads to, and the page that answers it. Nothing here reads or writes the table.

use jiff::Timestamp;

use super::fault::PageFault;
use super::form::Form;
use super::responses::html;
use super::token::{BadToken, FormKey, Signed, VALID_FOR};
use super::view::{Forms, Resend, Shown, render_plan_page};
use super::visible::{visible, visible_name};
use crate::app::approval_case::ApprovalCase;
use crate::app::link::LinkId;
use crate::domain::approval::{Decision, Standing};
use crate::domain::identity::{Identity, Requester};
use crate::domain::plan::Plan;
use crate::domain::recovery::progress::{Progress, RecoveryEnd};
use crate::http::Response;

/// One look at a case: by whom, when, and at which page of it.
pub(super) struct Look<'a> {
    pub(super) link: &'a LinkId,
    pub(super) key: &'a FormKey,
    /// Who looks, where that is known.
    pub(super) person: Option<&'a Identity>,
    /// The page of the moves, from 1.
    pub(super) number: usize,
    /// Whether the page may load itself again while the recovery runs.
    pub(super) follow: bool,
    pub(super) now: Timestamp,
}

/// What a POST that is in order leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// To be decided now.
    Decide(Decision),
    /// Decided before; the execution may still have to be told.
    Deliver,
    /// Decided before, which the form is too old to do anything about.
    Already,
    /// It can no longer be decided.
    TooLate,
    /// The typed name is not the group's.
    WrongName,
    /// Nothing was typed into the form that rejects.
    NoReason,
    /// The group needs four eyes, and these are the same two.
    SameEyes,
}

impl Look<'_> {
    /// What is to be done with a form. Nothing is done yet.
    pub(super) fn judge(&self, case: &ApprovalCase, form: &Form) -> Result<Step, PageFault> {
        let decision = form.decision.ok_or(PageFault::Token(BadToken::Forged))?;
        let signed = self.signed(case, decision);
        let token = self.key.check(&form.token, &signed, self.now);
        if token == Err(BadToken::Forged) {
            return Err(PageFault::Token(BadToken::Forged));
        }
        let progress = case.progress(self.now);
        if is_closed_undecided(&progress) {
            return Ok(Step::TooLate);
        }
        if progress == Progress::WaitingForApproval {
            token.map_err(PageFault::Token)?;
        } else if token == Err(BadToken::Expired) {
            // A form that was open for long does nothing any more, and whoever sends it wants to know how it went.
            return Ok(Step::Already);
        } else {
            return Ok(Step::Deliver);
        }
        // Whoever asked for it may still say no to it.
        if decision == Decision::Approve && case.plan.approved_by(self.person).is_err() {
            return Ok(Step::SameEyes);
        }
        if decision == Decision::Approve && !names(&form.group, &case.plan.group.0) {
            return Ok(Step::WrongName);
        }
        // Programs that look at links send every form that they find. None of them types anything.
        if decision == Decision::Reject && form.reason.trim().is_empty() {
            return Ok(Step::NoReason);
        }
        Ok(Step::Decide(decision))
    }

    pub(super) fn show(&self, case: &ApprovalCase) -> Result<Response, PageFault> {
        self.stands(self.status(case), case, None)
    }

    pub(super) fn too_late(&self, case: &ApprovalCase) -> Result<Response, PageFault> {
        let notice = "It can no longer be decided. What you sent has changed nothing.";
        self.stands(self.status(case), case, Some(notice))
    }

    pub(super) fn already(&self, case: &ApprovalCase) -> Result<Response, PageFault> {
        let notice = "This was decided before. What you sent has changed nothing.";
        self.stands(409, case, Some(notice))
    }

    fn status(&self, case: &ApprovalCase) -> u16 {
        if is_closed_undecided(&case.progress(self.now)) {
            410
        } else {
            200
        }
    }

    /// How the case stands, and what became of the request.
    fn stands(
        &self,
        status: u16,
        case: &ApprovalCase,
        notice: Option<&str>,
    ) -> Result<Response, PageFault> {
        let shown = Shown {
            notice: notice.map(str::to_owned),
            resend: case
                .awaits_delivery()
                .map(|decision| self.resend(case, decision)),
            ..Shown::default()
        };
        self.render(status, case, shown)
    }

    pub(super) fn wrong_name(
        &self,
        case: &ApprovalCase,
        typed: String,
    ) -> Result<Response, PageFault> {
        let shown = Shown {
            typed: Some(typed),
            notice: Some(
                "The group's id that you typed is another one. Nothing was decided.".to_owned(),
            ),
            ..Shown::default()
        };
        self.render(422, case, shown)
    }

    pub(super) fn no_reason(&self, case: &ApprovalCase) -> Result<Response, PageFault> {
        let shown = Shown {
            reason_missing: true,
            notice: Some("A rejection needs a reason. Nothing was decided.".to_owned()),
            ..Shown::default()
        };
        self.render(422, case, shown)
    }

    pub(super) fn same_eyes(&self, case: &ApprovalCase) -> Result<Response, PageFault> {
        let notice = "Another person has to approve this. Nothing was decided.";
        self.stands(403, case, Some(notice))
    }

    pub(super) fn no_longer_waiting(&self, case: &ApprovalCase) -> Result<Response, PageFault> {
        let shown = Shown {
            notice: Some(
                "The recovery no longer waits for this decision: it has it already, or it has ended."
                    .to_owned(),
            ),
            ..Shown::default()
        };
        self.render(410, case, shown)
    }

    pub(super) fn not_delivered(&self, case: &ApprovalCase) -> Result<Response, PageFault> {
        let shown = Shown {
            notice: Some(
                "The decision is stored, but has not reached the recovery. It is sent again by itself; \
                 you can also send it again here."
                    .to_owned(),
            ),
            resend: case.undelivered().map(|decision| self.resend(case, decision)),
            ..Shown::default()
        };
        self.render(503, case, shown)
    }

    fn render(
        &self,
        status: u16,
        case: &ApprovalCase,
        shown: Shown,
    ) -> Result<Response, PageFault> {
        let approval = &case.approval;
        let forms = (approval.standing(self.now) == Standing::Open).then(|| {
            let until = (self.now + VALID_FOR).min(approval.approve_by);
            Forms {
                approve: self.sign(case, Decision::Approve, until),
                reject: self.sign(case, Decision::Reject, until),
                until,
            }
        });
        let shown = Shown {
            page: self.number,
            follow: self.follow,
            forms,
            person: self.person.cloned(),
            eyes_missing: self.eyes_missing(&case.plan),
            ..shown
        };
        Ok(html(status, render_plan_page(case, shown, self.now)?))
    }

    /// Why another person than the one who looks has to approve, if so.
    fn eyes_missing(&self, plan: &Plan) -> Option<String> {
        let refusal = plan.approved_by(self.person).err()?;
        Some(match (self.person, &plan.requester) {
            (None, _) => {
                "This group needs four eyes, and people do not sign in here: nobody can approve it. It can be rejected."
                    .to_owned()
            }
            (Some(person), Requester::Verified(requester)) if requester.is(person) => {
                "You asked for this plan, and this group needs four eyes: another person has to approve it. You can \
                 reject it."
                    .to_owned()
            }
            (Some(_), _) => format!("You cannot approve this: {refusal}. You can reject it."),
        })
    }

    fn resend(&self, case: &ApprovalCase, decision: Decision) -> Resend {
        Resend {
            decision,
            token: self.sign(case, decision, self.now + VALID_FOR),
        }
    }

    fn sign(&self, case: &ApprovalCase, decision: Decision, until: Timestamp) -> String {
        self.key.sign(&self.signed(case, decision), until)
    }

    fn signed<'c>(&'c self, case: &'c ApprovalCase, decision: Decision) -> Signed<'c> {
        Signed {
            link: self.link,
            decision,
            digest: &case.approval.digest,
            person: self.person,
        }
    }
}

/// Whether nobody decided, and nobody can any more.
fn is_closed_undecided(progress: &Progress) -> bool {
    match progress {
        Progress::Ended(end) => match end {
            RecoveryEnd::Expired
            | RecoveryEnd::Superseded
            | RecoveryEnd::Undecided
            | RecoveryEnd::NotPlanned
            | RecoveryEnd::Refused
            | RecoveryEnd::NothingToDo
            | RecoveryEnd::DryRun => true,
            RecoveryEnd::Rejected
            | RecoveryEnd::Unsent
            | RecoveryEnd::Unproven
            | RecoveryEnd::Judged(_) => false,
        },
        Progress::Planning
        | Progress::Planned
        | Progress::WaitingForApproval
        | Progress::Approved
        | Progress::Admitted(_)
        | Progress::Applying
        | Progress::Verifying
        | Progress::Fenced => false,
    }
}

/// Whether a person typed this group's id: as it is, or as the page shows it. Keyboards of phones add blanks.
fn names(typed: &str, group: &str) -> bool {
    let trimmed = typed.trim();
    !typed.is_empty()
        && (typed == group
            || (!trimmed.is_empty() && trimmed == group.trim())
            || trimmed == visible(group)
            || trimmed == visible_name(group))
}
