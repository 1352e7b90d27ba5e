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
mod names;
mod operator;
mod problem;
mod recovery;
mod run;

#[cfg(test)]
mod tests;

use aws_lambda_events::apigw::ApiGatewayV2httpResponse;
use jiff::Timestamp;
use serde_json::Value;

use crate::config::{Config, Sender, SenderKind};
use crate::domain::identity::Identity;
use crate::error::chain;
use crate::executions::Executions;
use crate::functions::Functions;
use crate::secrets::Secrets;
use crate::store::Store;
pub use http::{Answer, LONGEST_BODY, Request};
use names::Asker;
use problem::Problem;

/// What the webhook needs.
#[derive(Debug)]
pub struct WebhookDeps {
    /// The senders, and the groups that they may name.
    pub config: Config,
    /// The table.
    pub store: Store,
    /// The senders' secrets.
    pub secrets: Secrets,
    /// Lambda.
    pub functions: Functions,
    /// Step Functions.
    pub executions: Executions,
    /// Guard, by its ARN or name.
    pub guard: String,
    /// The recovery state machine, by its ARN.
    pub state_machine: String,
    /// Whose tokens API Gateway lets in at `/v1`; `None` where nobody's.
    pub issuer: Option<TokenIssuer>,
    /// The clock.
    pub now: fn() -> Timestamp,
}

/// The issuer of API clients' tokens. API Gateway checks these; here is only read what they say.
#[derive(Debug, Clone)]
pub struct TokenIssuer {
    /// Its identifier.
    pub id: String,
    /// The claim that tells one person from all others, as the approval page has it.
    pub person_claim: String,
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
    match request.route_key.as_str() {
        "POST /webhooks/{sender}" => {
            let sender = sender(request, deps).await?;
            match &sender.alerts {
                Some(rules) => alerts::take(sender, rules, &request.text()?, deps).await,
                None => operator::ask_guard(sender, request, deps).await,
            }
        }
        "POST /rewinds" => {
            let operator = operator(request, deps).await?;
            let asker = Asker::Sender(&operator.name);
            operator::ask_rewind(operator, asker, request, deps).await
        }
        // The routes under v1 are there only with their authorizer.
        "POST /v1/rewinds" => {
            let person = person(request, deps.issuer.as_ref())?;
            let operator = Sender::person(person.name());
            operator::ask_rewind(&operator, Asker::Person(&person), request, deps).await
        }
        "GET /v1/recoveries/{id}" => {
            let person = person(request, deps.issuer.as_ref())?;
            let (operator, id) = (Sender::person(person.name()), request.parameter("id"));
            recovery::show(&operator, Asker::Person(&person), id, deps).await
        }
        "GET /recoveries/{id}" => {
            let operator = operator(request, deps).await?;
            let (asker, id) = (Asker::Sender(&operator.name), request.parameter("id"));
            recovery::show(operator, asker, id, deps).await
        }
        _ => Err(Problem::Route),
    }
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

/// The person whose token the route's authorizer found to be good.
fn person(request: &Request, issuer: Option<&TokenIssuer>) -> Result<Identity, Problem> {
    let issuer = issuer.ok_or(Problem::NoPerson)?;
    if request.claim("iss") != Some(&issuer.id) {
        return Err(Problem::NoPerson);
    }
    let subject = request.claim(&issuer.person_claim);
    let subject = subject.ok_or(Problem::NoPerson)?;
    let name = ["name", "preferred_username", "email"];
    let name = name.iter().find_map(|claim| request.claim(claim));
    Ok(Identity::new(&issuer.id, subject, name.unwrap_or_default()))
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
