//! Answers a request: lets the use cases decide, and renders what came of it.

use aws_lambda_events::apigw::ApiGatewayV2httpResponse;
use aws_lambda_events::http::Method;
use jiff::Timestamp;
use serde_json::Value;

use super::ask::{Ask, read_ask, read_number};
use super::chart::pictured;
use super::csv_parts::answer_csv;
use super::deps::PageDeps;
use super::fault::PageFault;
use super::fault_page::render_fault;
use super::look::{Look, Step};
use super::responses::redirect;
use super::signin::{answer_sign_in, read_person};
use crate::app::approval_case::{ApprovalCase, load_case, read_past};
use crate::app::decide::{Deciding, MadeDecision, Settled, decide_approval, settle_decision};
use crate::app::deliver::Delivery;
use crate::domain::checkpoint::PastCommit;
use crate::domain::plan::Plan;
use crate::failure::chain;
use crate::http::{Request, Response, UnreadableEvent};
use crate::store::{LinkHash, Store};

/// Answers one event of the HTTP API. One that cannot be read is answered too: a failed invocation would be a 5xx.
pub async fn handle(event: Value, deps: &PageDeps) -> ApiGatewayV2httpResponse {
    match Request::from_event(event) {
        Ok(request) => respond(&request, deps).await.into(),
        Err(UnreadableEvent) => {
            tracing::warn!("the event is none of an HTTP API");
            render_fault(&PageFault::Event).into()
        }
    }
}

/// Answers one request. HEAD is answered as GET is, without the body.
pub async fn respond(request: &Request, deps: &PageDeps) -> Response {
    let response = match answer(request, deps).await {
        Ok(response) => response,
        Err(fault) => render_fault(&fault),
    };
    if request.method == Some(Method::HEAD) {
        response.without_body()
    } else {
        response
    }
}

async fn answer(request: &Request, deps: &PageDeps) -> Result<Response, PageFault> {
    if let Some(sign_in) = &deps.sign_in
        && let Some(answer) = answer_sign_in(request, sign_in, deps).await
    {
        return answer;
    }
    let (link, ask) = read_ask(request, &deps.public_url)?;
    // Before anything is looked up: whoever may not see a plan is not told whether there is one.
    let person = match &deps.sign_in {
        None => None,
        Some(sign_in) => Some(read_person(request, sign_in, deps)?),
    };
    let hash = LinkHash::of(link.expose());
    let mut case = load_case(&deps.store, &hash).await?;
    let now = (deps.now)();
    let look = Look {
        link: &link,
        key: &deps.form_key,
        person: person.as_ref(),
        number: read_number(request, "page"),
        follow: request.query_field("follow").as_deref() != Some("no"),
        now,
    };
    let form = match ask {
        Ask::Table(part) => return Ok(answer_csv(&case, part)),
        Ask::Show => {
            case.past = read_pictured_past(&deps.store, &case.plan, now).await;
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
        case.past = read_pictured_past(&deps.store, &case.plan, now).await;
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
) -> Result<Response, PageFault> {
    case.approval = settled.approval;
    match settled.delivery {
        Ok(Delivery::Delivered) => {
            if case.approval.delivered_at.is_none() {
                case.approval.delivered_at = Some(look.now);
            }
            if settled.already {
                case.past = read_pictured_past(store, &case.plan, look.now).await;
                look.already(&case)
            } else {
                Ok(redirect(look.link.expose()))
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
async fn read_pictured_past(store: &Store, plan: &Plan, now: Timestamp) -> Vec<PastCommit> {
    match pictured(plan) {
        Some(pictured) => read_past(store, plan, pictured, now).await,
        None => Vec::new(),
    }
}
