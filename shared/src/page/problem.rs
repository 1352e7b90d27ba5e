//! Why there is no plan to show, each with its own page and status.

use super::form::NotAForm;
use super::http::Response;
use super::signin::SignInFault;
use super::token::BadToken;
use super::view;
use crate::app::approval_case::NoCase;
use crate::app::link::LinkId;
use crate::failure::chain;
use crate::store::StoreError;

/// After how many seconds a client may try again.
pub(super) const RETRY_SECONDS: u32 = 5;

/// Why there is no plan to show.
#[derive(Debug)]
pub(super) enum Problem {
    /// No link of that id was ever given out, or its record has expired.
    Unknown,
    /// The approval is known and its plan is no longer stored.
    PlanGone,
    /// The stored plan is not the one that approval was asked for.
    OtherPlan,
    /// The plan was made by another release, whose digest this one cannot compare.
    OtherRelease,
    /// Nobody has signed in who may see it.
    NotSignedIn,
    /// The person who signed in is in none of the groups that may.
    NotAMember { name: String },
    /// A sign-in came to nothing; it was begun for this link, where that is known.
    SignIn(SignInFault, Option<LinkId>),
    /// An event that is none of an HTTP API.
    Event,
    /// Neither GET nor HEAD nor POST.
    Method,
    /// A POST that is not this page's form.
    Form(NotAForm),
    /// A form that this page did not make, or too long ago.
    Token(BadToken),
    /// The table failed.
    Store(StoreError),
    /// A page could not be written.
    Template(askama::Error),
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<NoCase> for Problem {
    fn from(no_case: NoCase) -> Self {
        match no_case {
            NoCase::Unknown => Self::Unknown,
            NoCase::PlanGone => Self::PlanGone,
            NoCase::OtherRelease => Self::OtherRelease,
            NoCase::OtherPlan => Self::OtherPlan,
            NoCase::Store(error) => Self::Store(error),
        }
    }
}

impl From<askama::Error> for Problem {
    fn from(error: askama::Error) -> Self {
        Self::Template(error)
    }
}

impl Problem {
    /// The page that says so.
    pub(super) fn response(self) -> Response {
        const UNCHANGED: &str = "Nothing was decided.";
        let back = Some(("?", "Back to the plan"));
        let sign_in = Some(("?signin=yes", "Sign in"));
        let again = Some(("?signin=again", "Sign in as somebody else"));
        let members_only;
        let begin_again;
        let (status, title, text, link) = match &self {
            Self::Unknown => (
                404,
                "There is no such approval",
                "The link is not complete, or its approval is no longer kept. Ask for a new plan.",
                None,
            ),
            Self::PlanGone => (
                410,
                "The plan is no longer kept",
                "Its approval is over. Nothing can be decided here; ask for a new plan.",
                None,
            ),
            Self::OtherPlan => (
                409,
                "This plan cannot be decided",
                "The stored plan is not the one that approval was asked for, so it is not shown and nothing can be \
                 decided. Tell those who run Offset Guard, and ask for a new plan.",
                None,
            ),
            Self::OtherRelease => (
                410,
                "This plan is of another release",
                "It was made by another release of Offset Guard, which made its digest in another way, so it is not \
                 shown and nothing can be decided. Ask for a new plan. What became of it, if it was applied before, is in \
                 its audit record.",
                None,
            ),
            Self::NotSignedIn => (
                403,
                "Sign in to see this plan",
                "Only people who sign in may see it and decide. Nothing was decided.",
                sign_in,
            ),
            Self::NotAMember { name } => {
                // Not which groups: whoever has an account at the issuer may come this far.
                members_only = format!(
                    "You are signed in as {name}, and are in none of the groups whose members may see this plan and decide. \
                     Nothing was decided. Ask whoever sent you the link."
                );
                (403, "Not for you to decide", members_only.as_str(), again)
            }
            Self::SignIn(fault, link) => {
                begin_again = link
                    .as_ref()
                    .map(|link| format!("../{}?signin=yes", link.expose()));
                let link = begin_again.as_deref().map(|again| (again, "Sign in again"));
                let (status, text) = fault.told();
                (status, "You are not signed in", text, link)
            }
            Self::Method => (
                405,
                "Not possible here",
                "This page can be read and its form sent.",
                None,
            ),
            Self::Form(NotAForm::TooLarge) => (413, "Too large", UNCHANGED, back),
            Self::Form(NotAForm::WrongType) => (415, "Not the page's form", UNCHANGED, back),
            Self::Event => (400, "Not readable", UNCHANGED, None),
            Self::Form(NotAForm::Garbled) => (400, "Not readable", UNCHANGED, back),
            Self::Form(NotAForm::ForeignOrigin) => (
                403,
                "Not sent from this page",
                "Your browser says that the form was sent from elsewhere. Nothing was decided. Open the link itself \
                 and decide there.",
                back,
            ),
            Self::Token(BadToken::Forged) => (
                403,
                "Not this page's form",
                "The form was not made for this plan and this decision. Nothing was decided. Load the plan again.",
                back,
            ),
            Self::Token(BadToken::Expired) => (
                403,
                "The form is too old",
                "It was open for too long. Nothing was decided. Load the plan again and decide there.",
                back,
            ),
            Self::Store(error) => {
                tracing::error!(error = chain(error), "the page cannot be shown");
                (
                    503,
                    "Try again",
                    "The plan cannot be read at the moment. Try again in a few seconds.",
                    back,
                )
            }
            Self::Template(error) => {
                tracing::error!(error = chain(error), "the page cannot be written");
                (
                    503,
                    "Try again",
                    "The page cannot be written at the moment. Try again in a few seconds.",
                    back,
                )
            }
        };
        // A page of fixed text fails for want of memory alone; its plain text then says it too.
        let body = view::message(title, text, link).unwrap_or_else(|_| text.to_owned());
        let response = Response::html(status, body);
        match status {
            405 => response.allow("GET, HEAD, POST"),
            503 => response.retry_after(RETRY_SECONDS),
            _ => response,
        }
    }
}

impl SignInFault {
    /// The status, and what to do.
    fn told(&self) -> (u16, &'static str) {
        match self {
            Self::NotBegun => (
                403,
                "This sign-in was begun elsewhere or too long ago, or another one was begun since. Open the link that you \
                 were sent and sign in from there.",
            ),
            Self::NoAnswer => (
                400,
                "What came back is no answer to your sign-in. Open the link that you were sent and sign in from there.",
            ),
            Self::Refused => (
                403,
                "Your identity provider did not let you in. Open the link that you were sent and sign in from there.",
            ),
            Self::Token => (
                403,
                "What your identity provider says of you is not believed. Tell those who run Offset Guard.",
            ),
            Self::Unreachable => (
                503,
                "Your identity provider cannot be asked at the moment. Try again in a few seconds.",
            ),
        }
    }
}
