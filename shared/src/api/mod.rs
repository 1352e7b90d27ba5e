//! The webhook: alerts start guard, and operators ask for rewinds.
//!
//! Who sends is proven first, and before that nothing is read of a body and nothing is changed. A body chooses
//! configured groups and nothing else. A run is claimed, then handed over; only a run that may still come to its end
//! makes the same alert a duplicate, so whatever fails is tried again by the sender.

mod alerts;
mod auth;
mod body;
mod choose;
mod http;
mod operator;
mod people;
mod problem;
pub(crate) mod recovery;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use aws_lambda_events::apigw::ApiGatewayV2httpResponse;
use jiff::Timestamp;
use serde_json::Value;

use crate::app::asker::Asker;
use crate::app::count_request::{REQUESTS_OF_A_PERSON, count_request};
use crate::app::find_recovery::Finding;
use crate::app::hand_over::HandingOver;
use crate::app::start_rewind::Starting;
use crate::aws::lambda::Functions;
use crate::aws::secrets::Secrets;
use crate::config::{Config, Sender, SenderKind};
use crate::failure::chain;
use crate::ports::Executions;
use crate::store::Store;
pub use http::{Answer, LONGEST_BODY, Request};
pub use people::TokenIssuer;
use problem::Problem;

/// What the webhook needs.
#[derive(Debug)]
pub struct WebhookDeps {
    /// The senders, and the groups that they may name.
    pub config: Arc<Config>,
    /// The table.
    pub store: Store,
    /// The senders' secrets.
    pub secrets: Secrets,
    /// Lambda.
    pub functions: Functions,
    /// Step Functions.
    pub executions: Arc<dyn Executions>,
    /// Guard, by its ARN or name.
    pub guard: String,
    /// Whom this deployment serves.
    pub callers: Callers,
    /// The clock.
    pub now: fn() -> Timestamp,
}

/// The routes that are answered, as API Gateway names them: those of senders, and under `/v1` those of people.
pub const ROUTES: [&str; 6] = [
    "POST /webhooks/{sender}",
    "POST /rewinds",
    "GET /recoveries/{id}",
    "POST /v1/rewinds",
    "GET /v1/recoveries/{id}",
    "GET /v1/me",
];

impl WebhookDeps {
    fn handing_over(&self) -> HandingOver<'_> {
        HandingOver {
            store: &self.store,
            functions: &self.functions,
            guard: &self.guard,
            now: self.now,
        }
    }

    fn starting(&self) -> Starting<'_> {
        Starting {
            store: &self.store,
            executions: self.executions.as_ref(),
            now: self.now,
        }
    }

    fn finding(&self) -> Finding<'_> {
        Finding {
            store: &self.store,
            executions: self.executions.as_ref(),
        }
    }
}

/// Whom a deployment serves. Each kind has one of its own, so that the right to say who asked is not in the function that
/// every stranger reaches.
#[derive(Debug, Clone)]
pub enum Callers {
    /// Alert senders and operators, by their secrets.
    Senders,
    /// People, by a token of the issuer that the route's authorizer found to be good.
    People(TokenIssuer),
}

/// Answers one event of the HTTP API.
pub async fn handle(event: Value, deps: &WebhookDeps) -> ApiGatewayV2httpResponse {
    // An event that is none is not worth a failed invocation, which would be answered with a 5xx.
    let request = serde_json::from_value(event).unwrap_or_else(|error| {
        tracing::error!(error = chain(&error), "the event is none of an HTTP API");
        Request::default()
    });
    respond(&request, deps).await.into()
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

async fn answer(request: &Request, deps: &WebhookDeps) -> Result<Answer, Problem> {
    match &deps.callers {
        Callers::Senders => answer_sender(request, deps).await,
        Callers::People(issuer) => answer_person(request, issuer, deps).await,
    }
}

async fn answer_sender(request: &Request, deps: &WebhookDeps) -> Result<Answer, Problem> {
    match request.route_key.as_str() {
        "POST /webhooks/{sender}" => {
            let sender = sender(request, deps).await?;
            match &sender.alerts {
                Some(rules) => alerts::take(sender, rules, &request.text()?, deps).await,
                None => {
                    count(
                        Asker::Sender(&sender.name),
                        sender.requests_per_minute,
                        deps,
                    )
                    .await?;
                    operator::ask_guard(sender, request, deps).await
                }
            }
        }
        "POST /rewinds" => {
            let operator = operator(request, deps).await?;
            let asker = Asker::Sender(&operator.name);
            count(asker, operator.requests_per_minute, deps).await?;
            operator::ask_rewind(operator, asker, request, deps).await
        }
        "GET /recoveries/{id}" => {
            let operator = operator(request, deps).await?;
            let (asker, id) = (Asker::Sender(&operator.name), request.parameter("id"));
            recovery::show(operator, asker, id, deps).await
        }
        _ => Err(Problem::Route),
    }
}

/// The routes under v1 are there only with their authorizer.
async fn answer_person(
    request: &Request,
    issuer: &TokenIssuer,
    deps: &WebhookDeps,
) -> Result<Answer, Problem> {
    match request.route_key.as_str() {
        "POST /v1/rewinds" => {
            let person = issuer.person(request)?;
            let asker = Asker::Person(&person);
            count(asker, REQUESTS_OF_A_PERSON, deps).await?;
            let operator = Sender::person(person.name());
            operator::ask_rewind(&operator, asker, request, deps).await
        }
        "GET /v1/recoveries/{id}" => {
            let person = issuer.person(request)?;
            let (operator, id) = (Sender::person(person.name()), request.parameter("id"));
            recovery::show(&operator, Asker::Person(&person), id, deps).await
        }
        "GET /v1/me" => issuer.me(request),
        _ => Err(Problem::Route),
    }
}

/// Counts a request. Beyond `most` per minute, an asker is refused.
async fn count(asker: Asker<'_>, most: u32, deps: &WebhookDeps) -> Result<(), Problem> {
    if count_request(&deps.store, asker, most, (deps.now)()).await? {
        return Ok(());
    }
    Err(Problem::TooOften { most })
}

fn token(request: &Request) -> Result<&str, Problem> {
    let header = request.header("authorization");
    header.and_then(auth::bearer).ok_or(Problem::Unknown)
}

/// The sender that the path names, proven.
async fn sender<'d>(request: &Request, deps: &'d WebhookDeps) -> Result<&'d Sender, Problem> {
    let offered = token(request)?;
    let sender = deps.config.sender(request.parameter("sender"));
    let sender = sender.ok_or(Problem::Unknown)?;
    if auth::is_from(sender, offered, &deps.secrets, (deps.now)()).await? {
        Ok(sender)
    } else {
        tracing::warn!(sender = sender.name, "a secret is not the sender's");
        Err(Problem::Unknown)
    }
}

/// The operator whose secret was sent: where no path names one, the secret does.
async fn operator<'d>(request: &Request, deps: &'d WebhookDeps) -> Result<&'d Sender, Problem> {
    let offered = token(request)?;
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
        _ if other => Err(Problem::NotAnOperator),
        Some(error) => Err(error.into()),
        None => Err(Problem::Unknown),
    }
}
