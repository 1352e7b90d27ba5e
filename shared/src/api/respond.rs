//! Answers a request: proves who sent it, and lets the use cases do what it asks for.

use aws_lambda_events::apigw::ApiGatewayV2httpResponse;
use serde_json::Value;

use super::answer::{Answer, LONGEST_BODY};
use super::deps::{Callers, WebhookDeps};
use super::fault::ApiFault;
use super::people::TokenIssuer;
use super::routes::Route;
use super::{alerts, auth, operator, recovery};
use crate::app::asker::Asker;
use crate::app::count_request::{REQUESTS_OF_A_PERSON, count_request};
use crate::config::{Sender, SenderKind};
use crate::failure::chain;
use crate::http::{Request, Response};

/// Answers one event of the HTTP API.
pub async fn handle(event: Value, deps: &WebhookDeps) -> ApiGatewayV2httpResponse {
    // An event that is none is not worth a failed invocation, which would be answered with a 5xx.
    let request = Request::from_event(event).unwrap_or_else(|error| {
        tracing::error!(error = chain(&error), "the event is none of an HTTP API");
        Request::default()
    });
    Response::from(respond(&request, deps).await).into()
}

/// Answers one request.
pub async fn respond(request: &Request, deps: &WebhookDeps) -> Answer {
    // Boxed: the SDK's futures in one another are deeper than the compiler looks.
    let answer = Box::pin(answer(request, deps)).await;
    let answer = answer.unwrap_or_else(Answer::from);
    // The route and not the path, which may hold anything.
    tracing::info!(
        route = request.route_key,
        status = answer.status,
        code = answer.code,
        "answered"
    );
    answer
}

async fn answer(request: &Request, deps: &WebhookDeps) -> Result<Answer, ApiFault> {
    let route = Route::of(&request.route_key);
    match &deps.callers {
        Callers::Senders => answer_sender(route, request, deps).await,
        Callers::People(issuer) => answer_person(route, request, issuer, deps).await,
    }
}

async fn answer_sender(
    route: Option<Route>,
    request: &Request,
    deps: &WebhookDeps,
) -> Result<Answer, ApiFault> {
    match route {
        Some(Route::TakeFromSender) => {
            let sender = prove_sender(request, deps).await?;
            match &sender.alerts {
                Some(rules) => {
                    let text = request.text(LONGEST_BODY)?;
                    alerts::take_alerts(sender, rules, &text, deps).await
                }
                None => {
                    let asker = Asker::Sender(&sender.name);
                    count(asker, sender.requests_per_minute, deps).await?;
                    operator::ask_guard(sender, request, deps).await
                }
            }
        }
        Some(Route::AskRewind) => {
            let operator = prove_operator(request, deps).await?;
            let asker = Asker::Sender(&operator.name);
            count(asker, operator.requests_per_minute, deps).await?;
            operator::ask_rewind(operator, asker, request, deps).await
        }
        Some(Route::ShowRecovery) => {
            let operator = prove_operator(request, deps).await?;
            let (asker, id) = (Asker::Sender(&operator.name), request.parameter("id"));
            recovery::show_recovery(operator, asker, id, deps).await
        }
        Some(Route::AskRewindInPerson | Route::ShowRecoveryToPerson | Route::ShowMe) | None => {
            Err(ApiFault::Route)
        }
    }
}

/// The routes under v1 are there only with their authorizer.
async fn answer_person(
    route: Option<Route>,
    request: &Request,
    issuer: &TokenIssuer,
    deps: &WebhookDeps,
) -> Result<Answer, ApiFault> {
    match route {
        Some(Route::AskRewindInPerson) => {
            let person = issuer.person(request)?;
            let asker = Asker::Person(&person);
            count(asker, REQUESTS_OF_A_PERSON, deps).await?;
            let operator = Sender::person(person.name());
            operator::ask_rewind(&operator, asker, request, deps).await
        }
        Some(Route::ShowRecoveryToPerson) => {
            let person = issuer.person(request)?;
            let (operator, id) = (Sender::person(person.name()), request.parameter("id"));
            recovery::show_recovery(&operator, Asker::Person(&person), id, deps).await
        }
        Some(Route::ShowMe) => issuer.me(request),
        Some(Route::TakeFromSender | Route::AskRewind | Route::ShowRecovery) | None => {
            Err(ApiFault::Route)
        }
    }
}

/// Counts a request. Beyond `most` per minute, an asker is refused.
async fn count(asker: Asker<'_>, most: u32, deps: &WebhookDeps) -> Result<(), ApiFault> {
    if count_request(&deps.store, asker, most, (deps.now)()).await? {
        return Ok(());
    }
    Err(ApiFault::TooOften { most })
}

fn read_token(request: &Request) -> Result<&str, ApiFault> {
    let header = request.header("authorization");
    header.and_then(auth::bearer).ok_or(ApiFault::Unknown)
}

/// The sender that the path names, proven.
async fn prove_sender<'d>(
    request: &Request,
    deps: &'d WebhookDeps,
) -> Result<&'d Sender, ApiFault> {
    let offered = read_token(request)?;
    let sender = deps.config.sender(request.parameter("sender"));
    let sender = sender.ok_or(ApiFault::Unknown)?;
    if auth::is_from(sender, offered, &deps.secrets, (deps.now)()).await? {
        Ok(sender)
    } else {
        tracing::warn!(sender = sender.name, "a secret is not the sender's");
        Err(ApiFault::Unknown)
    }
}

/// The operator whose secret was sent: where no path names one, the secret does.
async fn prove_operator<'d>(
    request: &Request,
    deps: &'d WebhookDeps,
) -> Result<&'d Sender, ApiFault> {
    let offered = read_token(request)?;
    let mut unread = None;
    let mut other = false;
    for sender in deps.config.senders() {
        match auth::is_from(sender, offered, &deps.secrets, (deps.now)()).await {
            Ok(true) if sender.kind == SenderKind::Operator => return Ok(sender),
            Ok(true) => other = true,
            Ok(false) => {}
            // One that cannot be read keeps nobody else out.
            Err(error) => unread = Some(error),
        }
    }
    match unread {
        _ if other => Err(ApiFault::NotAnOperator),
        Some(error) => Err(error.into()),
        None => Err(ApiFault::Unknown),
    }
}
