//! The approval page: GET shows, POST decides.
//!
//! A link's holder sees the plan and says yes or no, on a phone and without scripts. Showing changes nothing, however
//! often a mail scanner or a chat preview looks. A decision is one conditional write; the waiting execution is told
//! afterwards, and reads the stored decision itself.

mod chart;
mod cookie;
mod form;
pub(crate) mod headline;
mod http;
mod look;
mod numbers;
mod problem;
mod signin;
mod steps;
mod table;
mod token;
mod view;
mod visible;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use aws_lambda_events::apigw::ApiGatewayV2httpResponse;
use aws_lambda_events::http::Method;
use jiff::Timestamp;
use serde_json::Value;
use url::Url;

use crate::app::approval_case::{ApprovalCase, load_case, read_past};
use crate::app::decide::{Deciding, MadeDecision, Settled, decide_approval, settle_decision};
use crate::app::deliver::Delivery;
use crate::app::link::LinkId;
use crate::domain::checkpoint::PastCommit;
use crate::domain::plan::Plan;
use crate::failure::chain;
use crate::ports::Executions;
use crate::store::{LinkHash, Store};
use form::Form;
pub use http::{Request, Response};
use look::{Look, Step};
use problem::Problem;
pub use signin::SignIn;
pub use token::{FormKey, KeyTooShort, PREVIOUS_FOR, VALID_FOR};
pub use visible::visible;

/// What the page needs.
#[derive(Debug, Clone)]
pub struct PageDeps {
    /// The table.
    pub store: Store,
    /// Step Functions.
    pub executions: Arc<dyn Executions>,
    /// Signs the forms.
    pub form_key: FormKey,
    /// How people sign in; `None` where possession of the link is all that is asked for.
    pub sign_in: Option<SignIn>,
    /// Where people reach the page. A form sent from any other origin is refused.
    pub public_url: Url,
    /// The clock.
    pub now: fn() -> Timestamp,
}

/// Answers one event of the HTTP API. One that cannot be read is answered too: a failed invocation would be a 5xx.
pub async fn handle(event: Value, deps: &PageDeps) -> ApiGatewayV2httpResponse {
    match Request::of_event(event) {
        Ok(request) => respond(&request, deps).await.into(),
        Err(problem) => {
            tracing::warn!("the event is none of an HTTP API");
            problem.response().into()
        }
    }
}

/// Answers one request. HEAD is answered as GET is, without the body.
pub async fn respond(request: &Request, deps: &PageDeps) -> Response {
    let response = match answer(request, deps).await {
        Ok(response) => response,
        Err(problem) => problem.response(),
    };
    if request.method == Method::HEAD {
        response.without_body()
    } else {
        response
    }
}

async fn answer(request: &Request, deps: &PageDeps) -> Result<Response, Problem> {
    if let Some(sign_in) = &deps.sign_in
        && let Some(answer) = signin::answer(request, sign_in, deps).await
    {
        return answer;
    }
    let (link, ask) = ask(request, &deps.public_url)?;
    // Before anything is looked up: whoever may not see a plan is not told whether there is one.
    let person = match &deps.sign_in {
        None => None,
        Some(sign_in) => Some(signin::person(request, sign_in, deps)?),
    };
    let hash = LinkHash::of(link.expose());
    let mut case = load_case(&deps.store, &hash).await?;
    let now = (deps.now)();
    let look = Look {
        link: &link,
        key: &deps.form_key,
        person: person.as_ref(),
        number: number(request, "page"),
        follow: request.query("follow").as_deref() != Some("no"),
        now,
    };
    let form = match ask {
        Ask::Table(part) => return Ok(table::csv(&case, part)),
        Ask::Show => {
            case.past = past(&deps.store, &case.plan, now).await;
            return look.show(&case);
        }
        Ask::Decide(form) => form,
    };
    let deciding = Deciding {
        store: &deps.store,
        executions: deps.executions.as_ref(),
        link: &hash,
        now,
    };
    let step = look.judge(&case, &form)?;
    // A decision waits for no picture.
    if !matches!(step, Step::Decide(_) | Step::Deliver) {
        case.past = past(&deps.store, &case.plan, now).await;
    }
    match step {
        Step::Already => look.already(&case),
        Step::TooLate => look.too_late(&case),
        Step::WrongName => look.wrong_name(&case, form.group),
        Step::NoReason => look.no_reason(&case),
        Step::SameEyes => look.same_eyes(&case),
        Step::Deliver => {
            // Sending the same decision once more is how an undelivered one is repaired: that is no contradiction.
            let repairs = case.undelivered() == form.decision;
            let approval = case.approval.clone();
            let settled = settle_decision(deciding, approval, !repairs).await?;
            show_settled(&look, &deps.store, case, settled).await
        }
        Step::Decide(decision) => {
            let made = MadeDecision {
                decision,
                digest: &case.approval.digest,
                person: person.as_ref(),
                reason: &form.reason,
            };
            let settled = decide_approval(deciding, made).await?;
            show_settled(&look, &deps.store, case, settled).await
        }
    }
}

/// Shows what came of a decision.
async fn show_settled(
    look: &Look<'_>,
    store: &Store,
    mut case: ApprovalCase,
    settled: Settled,
) -> Result<Response, Problem> {
    case.approval = settled.approval;
    match settled.delivery {
        Ok(Delivery::Delivered) => {
            if case.approval.delivered_at.is_none() {
                case.approval.delivered_at = Some(look.now);
            }
            if settled.already {
                case.past = past(store, &case.plan, look.now).await;
                look.already(&case)
            } else {
                Ok(Response::see_other(look.link.expose()))
            }
        }
        Ok(Delivery::NoLongerWaiting) => look.no_longer_waiting(&case),
        // Closed without a decision while this one was on its way.
        Ok(Delivery::NothingDecided) => look.show(&case),
        Err(error) => {
            tracing::error!(plan = %case.plan.id, error = chain(&error), "a decision is stored and not delivered");
            look.not_delivered(&case)
        }
    }
}

/// The past of the partition that the page pictures.
async fn past(store: &Store, plan: &Plan, now: Timestamp) -> Vec<PastCommit> {
    match chart::pictured(plan) {
        Some(pictured) => read_past(store, plan, pictured, now).await,
        None => Vec::new(),
    }
}

/// What a request asks for, before anything is looked up.
#[derive(Debug)]
enum Ask {
    Show,
    /// A part of the CSV, from 1.
    Table(usize),
    Decide(Form),
}

fn ask(request: &Request, public_url: &Url) -> Result<(LinkId, Ask), Problem> {
    if ![Method::GET, Method::HEAD, Method::POST].contains(&request.method) {
        return Err(Problem::Method);
    }
    let link = LinkId::parse(&request.id).ok_or(Problem::Unknown)?;
    if request.method == Method::POST {
        return match Form::read(request, public_url) {
            Ok(form) => Ok((link, Ask::Decide(form))),
            Err(fault) => Err(Problem::Form(fault)),
        };
    }
    let ask = match request.query("format").as_deref() {
        Some("csv") => Ask::Table(number(request, "part")),
        _ => Ask::Show,
    };
    Ok((link, ask))
}

/// The number of a page or a part. Text that is no number asks for the first; a number beyond the last, for the last.
fn number(request: &Request, name: &str) -> usize {
    request
        .query(name)
        .and_then(|number| number.parse().ok())
        .unwrap_or(1)
}
