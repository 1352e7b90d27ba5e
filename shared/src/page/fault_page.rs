//! The pages that say why there is no plan to show.

use std::borrow::Cow;

use super::fault::{PageFault, SignInFault};
use super::form::NotAForm;
use super::message::render_message;
use super::responses::html;
use super::token::BadToken;
use crate::failure::chain;
use crate::http::Response;

const UNCHANGED: &str = "Nothing was decided.";
const BACK: Option<(&str, &str)> = Some(("?", "Back to the plan"));

/// What a page says, and where it leads.
struct Said {
    status: u16,
    title: &'static str,
    text: Cow<'static, str>,
    link: Option<(Cow<'static, str>, &'static str)>,
}

impl Said {
    fn new(
        status: u16,
        title: &'static str,
        text: impl Into<Cow<'static, str>>,
        link: Option<(&'static str, &'static str)>,
    ) -> Self {
        Self {
            status,
            title,
            text: text.into(),
            link: link.map(|(address, name)| (address.into(), name)),
        }
    }
}

/// The page that says why there is no plan to show.
pub(super) fn render_fault(fault: &PageFault) -> Response {
    let Said {
        status,
        title,
        text,
        link,
    } = said_of(fault);
    let link = link
        .as_ref()
        .map(|(address, name)| (address.as_ref(), *name));
    // A page of fixed text fails for want of memory alone; its plain text then says it too.
    let body = render_message(title, &text, link).unwrap_or_else(|_| text.to_string());
    let response = html(status, body);
    match status {
        405 => response.with(aws_lambda_events::http::header::ALLOW, "GET, HEAD, POST"),
        _ => response,
    }
}

fn said_of(fault: &PageFault) -> Said {
    match fault {
        PageFault::Unknown
        | PageFault::PlanGone
        | PageFault::OtherPlan
        | PageFault::OtherRelease => said_of_link(fault),
        PageFault::NotSignedIn => Said::new(
            403,
            "Sign in to see this plan",
            "Only people who sign in may see it and decide. Nothing was decided.",
            Some(("?signin=yes", "Sign in")),
        ),
        // Not which groups: whoever has an account at the issuer may come this far.
        PageFault::NotAMember { name } => Said::new(
            403,
            "Not for you to decide",
            format!(
                "You are signed in as {name}, and are in none of the groups whose members may see this plan and decide. \
                 Nothing was decided. Ask whoever sent you the link."
            ),
            Some(("?signin=again", "Sign in as somebody else")),
        ),
        PageFault::SignIn(fault, link) => {
            let (status, text) = said_of_sign_in(fault);
            let link = link.as_ref().map(|link| {
                let again = format!("../{}?signin=yes", link.expose());
                (again.into(), "Sign in again")
            });
            Said {
                link,
                ..Said::new(status, "You are not signed in", text, None)
            }
        }
        PageFault::Method => Said::new(
            405,
            "Not possible here",
            "This page can be read and its form sent.",
            None,
        ),
        PageFault::Event => Said::new(400, "Not readable", UNCHANGED, None),
        PageFault::Form(not_a_form) => said_of_form(*not_a_form),
        PageFault::Token(bad_token) => said_of_token(bad_token),
        PageFault::Store(error) => {
            tracing::error!(error = chain(error), "the page cannot be shown");
            Said::new(
                503,
                "Try again",
                "The plan cannot be read at the moment. Try again in a few seconds.",
                BACK,
            )
        }
        PageFault::Template(error) => {
            tracing::error!(error = chain(error), "the page cannot be written");
            Said::new(
                503,
                "Try again",
                "The page cannot be written at the moment. Try again in a few seconds.",
                BACK,
            )
        }
    }
}

/// What is said where nothing that can be decided is behind the link.
fn said_of_link(fault: &PageFault) -> Said {
    match fault {
        PageFault::PlanGone => Said::new(
            410,
            "The plan is no longer kept",
            "Its approval is over. Nothing can be decided here; ask for a new plan.",
            None,
        ),
        PageFault::OtherPlan => Said::new(
            409,
            "This plan cannot be decided",
            "The stored plan is not the one that approval was asked for, so it is not shown and nothing can be \
             decided. Tell those who run Offset Guard, and ask for a new plan.",
            None,
        ),
        PageFault::OtherRelease => Said::new(
            410,
            "This plan is of another release",
            "It was made by another release of Offset Guard, which made its digest in another way, so it is not \
             shown and nothing can be decided. Ask for a new plan. What became of it, if it was applied before, is in \
             its audit record.",
            None,
        ),
        _ => Said::new(
            404,
            "There is no such approval",
            "The link is not complete, or its approval is no longer kept. Ask for a new plan.",
            None,
        ),
    }
}

fn said_of_form(not_a_form: NotAForm) -> Said {
    match not_a_form {
        NotAForm::TooLarge => Said::new(413, "Too large", UNCHANGED, BACK),
        NotAForm::WrongType => Said::new(415, "Not the page's form", UNCHANGED, BACK),
        NotAForm::Garbled => Said::new(400, "Not readable", UNCHANGED, BACK),
        NotAForm::ForeignOrigin => Said::new(
            403,
            "Not sent from this page",
            "Your browser says that the form was sent from elsewhere. Nothing was decided. Open the link itself \
             and decide there.",
            BACK,
        ),
    }
}

fn said_of_token(bad_token: &BadToken) -> Said {
    match bad_token {
        BadToken::Forged => Said::new(
            403,
            "Not this page's form",
            "The form was not made for this plan and this decision. Nothing was decided. Load the plan again.",
            BACK,
        ),
        BadToken::Expired => Said::new(
            403,
            "The form is too old",
            "It was open for too long. Nothing was decided. Load the plan again and decide there.",
            BACK,
        ),
    }
}

/// The status, and what to do.
fn said_of_sign_in(fault: &SignInFault) -> (u16, &'static str) {
    match fault {
        SignInFault::NotBegun => (
            403,
            "This sign-in was begun elsewhere or too long ago, or another one was begun since. Open the link that you \
                 were sent and sign in from there.",
        ),
        SignInFault::NoAnswer => (
            400,
            "What came back is no answer to your sign-in. Open the link that you were sent and sign in from there.",
        ),
        SignInFault::Refused => (
            403,
            "Your identity provider did not let you in. Open the link that you were sent and sign in from there.",
        ),
        SignInFault::Token => (
            403,
            "What your identity provider says of you is not believed. Tell those who run Offset Guard.",
        ),
        SignInFault::Unreachable => (
            503,
            "Your identity provider cannot be asked at the moment. Try again in a few seconds.",
        ),
    }
}
