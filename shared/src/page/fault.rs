//! Why there is no plan to show.

use super::form::NotAForm;
use super::token::BadToken;
use crate::app::approval_case::NoCase;
use crate::app::link::LinkId;
use crate::store::StoreError;

/// Why there is no plan to show.
#[derive(Debug)]
pub(super) enum PageFault {
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

impl From<StoreError> for PageFault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<NoCase> for PageFault {
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

impl From<askama::Error> for PageFault {
    fn from(error: askama::Error) -> Self {
        Self::Template(error)
    }
}

/// Why a sign-in came to nothing. A person can begin again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SignInFault {
    /// It was begun in another browser, or too long ago, or another one was begun since.
    NotBegun,
    /// What came back is no answer to it.
    NoAnswer,
    /// The issuer says no.
    Refused,
    /// The issuer's token is not good.
    Token,
    /// The issuer cannot be asked now.
    Unreachable,
}
