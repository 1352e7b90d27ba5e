//! Who looks at the page, where people have to sign in.

use std::collections::BTreeSet;

use aws_lambda_events::http::Method;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use super::ask::link_text;
use super::cookie::Cookie;
use super::deps::{PageDeps, SignIn};
use super::fault::{PageFault, SignInFault};
use super::responses::redirect;
use crate::app::link::LinkId;
use crate::domain::identity::Identity;
use crate::failure::chain;
use crate::http::{Request, Response};
use crate::oidc::{Challenge, OidcError};
use crate::store::LinkHash;

/// Where the issuer sends people back to, after `/approvals/` in the path. No link's id looks like this.
const CALLBACK: &str = "signin/callback";

/// A sign-in that has begun.
#[derive(Debug, Serialize, Deserialize)]
struct Begun {
    /// The link that a person wants to see. It is the browser's own already.
    link: String,
    challenge: Challenge,
}

/// Who signed in, and in which of the groups that are asked for the person is.
#[derive(Debug, Serialize, Deserialize)]
struct Session {
    identity: Identity,
    groups: BTreeSet<String>,
}

/// The request's answer, if it is a part of a sign-in.
pub(super) async fn answer_sign_in(
    request: &Request,
    sign_in: &SignIn,
    deps: &PageDeps,
) -> Option<Result<Response, PageFault>> {
    if request.method != Some(Method::GET) {
        return None;
    }
    if link_text(request) == CALLBACK {
        return Some(finish_sign_in(request, sign_in, deps).await);
    }
    let link = LinkId::parse(link_text(request))?;
    let begin = request.query_field("signin")?;
    Some(start_sign_in(&link, begin == "again", sign_in, deps).await)
}

/// Sends a person to the issuer. Only for a link that was given out: to strangers the issuer, and the client's secret with
/// it, is not for use.
async fn start_sign_in(
    link: &LinkId,
    anew: bool,
    sign_in: &SignIn,
    deps: &PageDeps,
) -> Result<Response, PageFault> {
    if !deps
        .store
        .is_given_out(&LinkHash::of(link.expose()))
        .await?
    {
        return Err(PageFault::Unknown);
    }
    let challenge = Challenge::random().map_err(|error| {
        tracing::error!(error = chain(&error), "no random bytes");
        PageFault::SignIn(SignInFault::Unreachable, Some(link.clone()))
    })?;
    let SignIn { provider, client } = sign_in;
    let back = callback_url(deps);
    let url = provider.authorization_url(client, &back, &challenge, anew);
    let url = url.await.map_err(|error| fault_of(&error, link))?;
    let begun = Begun {
        link: link.expose().to_owned(),
        challenge,
    };
    let cookie = Cookie::SignIn.set(&deps.form_key, &begun, (deps.now)());
    Ok(redirect(url.as_str()).with_cookie(cookie))
}

/// Takes what the issuer sends a person back with.
async fn finish_sign_in(
    request: &Request,
    sign_in: &SignIn,
    deps: &PageDeps,
) -> Result<Response, PageFault> {
    let now = (deps.now)();
    let begun: Option<Begun> = Cookie::SignIn.read(&deps.form_key, request, now);
    let Begun { link, challenge } = begun.ok_or(PageFault::SignIn(SignInFault::NotBegun, None))?;
    let link = LinkId::parse(&link).ok_or(PageFault::Unknown)?;
    let fault = |fault| PageFault::SignIn(fault, Some(link.clone()));
    let field = |name: &str| request.query_field(name);
    let state = field("state").unwrap_or_default();
    if !bool::from(state.as_bytes().ct_eq(challenge.state.as_bytes())) {
        return Err(fault(SignInFault::NotBegun));
    }
    let SignIn { provider, client } = sign_in;
    // An issuer that names itself is held to it (RFC 9207 section 2.4).
    if field("iss").is_some_and(|issuer| issuer != provider.issuer()) {
        return Err(fault(SignInFault::NoAnswer));
    }
    if field("error").is_some() {
        return Err(fault(SignInFault::Refused));
    }
    let code = field("code").filter(|code| !code.is_empty());
    let code = code.ok_or_else(|| fault(SignInFault::NoAnswer))?;
    let back = callback_url(deps);
    let person = provider.person(client, &back, &code, &challenge, now);
    let person = person.await.map_err(|error| fault_of(&error, &link))?;
    let session = Session {
        identity: person.identity,
        // As many as are asked for, however many there are: a cookie holds 4 KB.
        groups: person
            .groups
            .intersection(&client.groups)
            .cloned()
            .collect(),
    };
    tracing::info!(member = !session.groups.is_empty(), "somebody signed in");
    Ok(redirect(&format!("../{}", link.expose()))
        .with_cookie(Cookie::SignIn.clear())
        .with_cookie(Cookie::Session.set(&deps.form_key, &session, now)))
}

fn fault_of(error: &OidcError, link: &LinkId) -> PageFault {
    tracing::error!(error = chain(error), "nobody can sign in");
    let fault = match error {
        OidcError::Refused(_) => SignInFault::Refused,
        OidcError::Token(_) => SignInFault::Token,
        OidcError::Unreachable { .. }
        | OidcError::Status { .. }
        | OidcError::Unreadable { .. }
        | OidcError::Discovery(_) => SignInFault::Unreachable,
    };
    PageFault::SignIn(fault, Some(link.clone()))
}

/// Where the issuer sends people back to. It has to know this address, so no link's id can be in it.
fn callback_url(deps: &PageDeps) -> String {
    let base = deps.public_url.as_str().trim_end_matches('/');
    format!("{base}/approvals/{CALLBACK}")
}

/// The person who looks, if it is one who may.
pub(super) fn read_person(
    request: &Request,
    sign_in: &SignIn,
    deps: &PageDeps,
) -> Result<Identity, PageFault> {
    let session: Option<Session> = Cookie::Session.read(&deps.form_key, request, (deps.now)());
    let Session { identity, groups } = session.ok_or(PageFault::NotSignedIn)?;
    let asked = &sign_in.client.groups;
    // What is asked for now counts, also of whoever signed in before it was changed.
    if identity.issuer != sign_in.provider.issuer() {
        return Err(PageFault::NotSignedIn);
    }
    if groups.is_disjoint(asked) {
        return Err(PageFault::NotAMember {
            name: identity.name().to_owned(),
        });
    }
    Ok(identity)
}
