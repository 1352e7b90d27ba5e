//! The approval page: GET shows, POST decides.
//!
//! A link's holder sees the plan and says yes or no, on a phone and without scripts. Showing changes nothing, however
//! often a mail scanner or a chat preview looks. A decision is one conditional write; the waiting execution is told
//! afterwards, and reads the stored decision itself.

mod case;
mod chart;
mod cookie;
mod deliver;
mod form;
mod http;
mod link;
mod look;
mod problem;
mod progress;
mod signin;
mod stage;
mod table;
mod token;
mod view;
mod visible;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use aws_lambda_events::apigw::ApiGatewayV2httpResponse;
use aws_lambda_events::http::Method;
use jiff::Timestamp;
use serde_json::Value;
use url::Url;

use crate::domain::approval::{Approval, Decision};
use crate::domain::checkpoint::PastCommit;
use crate::domain::identity::Decider;
use crate::domain::plan::{CSV_VERSION, Plan, PlanResult};
use crate::failure::chain;
use crate::ports::Executions;
use crate::store::{Decided, LinkHash, Store, StoreError};
use case::Case;
pub use deliver::{DeliverError, Delivery, deliver};
use form::Form;
pub use http::{Request, Response};
pub use link::LinkId;
use look::{Look, Step};
use problem::Problem;
pub use signin::SignIn;
pub use token::{FormKey, KeyTooShort, PREVIOUS_FOR, VALID_FOR};
pub use visible::visible;

/// Who decided, where possession of the link is all that is asked for.
pub const LINK_HOLDER: &str = "a holder of the link (identity not verified)";

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
    let mut case = load(&deps.store, &hash).await?;
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
            tell(deps, &look, &hash, case, approval, !repairs).await
        }
        Step::Decide(decision) => {
            // No reason is asked for with an approval.
            let reason = match decision {
                Decision::Approve => "",
                Decision::Reject => form.reason.as_str(),
            };
            let digest = &case.approval.digest;
            let by = person
                .clone()
                .map_or(Decider::from(LINK_HOLDER), Decider::from);
            let decide = deps.store.decide(&hash, digest, decision, by, reason, now);
            let decided = decide.await?;
            let (approval, already) = match decided {
                Decided::Now(approval) => {
                    tracing::info!(plan = %approval.plan, decision = decision.as_str(), "decided");
                    (approval, false)
                }
                Decided::Already(approval) => (approval, true),
            };
            tell(deps, &look, &hash, case, approval, already).await
        }
    }
}

/// Delivers a decision that stands and shows what came of it: anew, or that it was made `already`.
async fn tell(
    deps: &PageDeps,
    look: &Look<'_>,
    hash: &LinkHash,
    mut case: Case,
    approval: Approval,
    already: bool,
) -> Result<Response, Problem> {
    let mut delivery = deliver(
        &deps.store,
        deps.executions.as_ref(),
        hash,
        &approval,
        look.now,
    )
    .await;
    if matches!(delivery, Ok(Delivery::NoLongerWaiting))
        && told_meanwhile(&deps.store, hash).await?
    {
        delivery = Ok(Delivery::Delivered);
    }
    case.approval = approval;
    match delivery {
        Ok(Delivery::Delivered) => {
            if case.approval.delivered_at.is_none() {
                case.approval.delivered_at = Some(look.now);
            }
            if already {
                case.past = past(&deps.store, &case.plan, look.now).await;
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

/// Whether another click has told the execution. It does so and notes it in two steps, so this looks a few times.
async fn told_meanwhile(store: &Store, hash: &LinkHash) -> Result<bool, StoreError> {
    for _ in 0..LOOKS {
        let approval = store.approval(hash).await?;
        if approval.is_some_and(|approval| approval.delivered_at.is_some()) {
            return Ok(true);
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    Ok(false)
}

/// How often, and how far apart: about as long as a write to the table takes on a bad day.
const LOOKS: u32 = 4;
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);

/// How long the past of a picture is waited for.
const PICTURE_LIMIT: Duration = Duration::from_secs(2);

/// Everything that is known of the approval behind a link, without its picture.
async fn load(store: &Store, hash: &LinkHash) -> Result<Case, Problem> {
    let approval = store.approval(hash).await?.ok_or(Problem::Unknown)?;
    let record = store.plan(&approval.plan).await?;
    let Some(PlanResult::Ready(plan)) = record.map(|record| record.result) else {
        return Err(Problem::PlanGone);
    };
    if plan.csv_version != CSV_VERSION {
        return Err(Problem::OtherRelease);
    }
    if plan.digest() != approval.digest {
        tracing::error!(plan = %plan.id, "the stored plan is not the one that approval was asked for");
        return Err(Problem::OtherPlan);
    }
    let recovery = store.recovery(&plan.id).await?;
    // One plan is executed once: another execution's recovery says nothing about this approval.
    let recovery = recovery.filter(|recovery| recovery.execution == approval.execution);
    let result = match &recovery {
        Some(_) => store.result(&plan.id).await?,
        None => None,
    };
    let rises = plan.moves.iter().any(|m| m.may_rise_to.is_some());
    let applied = recovery.as_ref().is_some_and(|r| r.apply_until.is_some());
    let pre_image = match rises && applied {
        true => store.pre_image(&plan.id).await?,
        false => None,
    };
    let audit = store.audit_of(&approval.execution).await?;
    Ok(Case {
        approval,
        plan,
        recovery,
        result: result.unwrap_or_default(),
        raised: pre_image.unwrap_or_default().raised,
        audit,
        past: Vec::new(),
    })
}

/// The past of the partition that the page pictures. Nobody waits long for a picture, or goes without a page for one.
async fn past(store: &Store, plan: &Plan, now: Timestamp) -> Vec<PastCommit> {
    let Some(pictured) = chart::pictured(plan) else {
        return Vec::new();
    };
    let read = store.history(
        &plan.cluster_id,
        &plan.group,
        pictured,
        plan.created_at,
        now,
    );
    match tokio::time::timeout(PICTURE_LIMIT, read).await {
        Ok(Ok(past)) => past,
        Ok(Err(error)) => {
            tracing::warn!(plan = %plan.id, error = chain(&error), "the page has no picture");
            Vec::new()
        }
        Err(_) => {
            tracing::warn!(plan = %plan.id, "the page has no picture: the table is slow");
            Vec::new()
        }
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
