//! What operators ask for: a look or a plan of guard, or a rewind.

use serde_json::{Map, Value, json};
use ulid::Ulid;

use super::answer::{Answer, LONGEST_BODY};
use super::body::json as read;
use super::choose::permitted;
use super::deps::WebhookDeps;
use super::fault::ApiFault;
use crate::app::asker::{Asker, LONGEST_KEY, is_key, name_execution};
use crate::app::hand_over::{HandedOver, RunAsked, hand_over_run};
use crate::app::start_rewind::{RewindStart, start_rewind};
use crate::config::Sender;
use crate::domain::incident::Subject;
use crate::domain::refusal::Refusal;
use crate::http::Request;
use crate::wire::guard::GuardEvent;
use crate::wire::{parse_request, request_hash, request_in};

/// The longest input that an execution is started with, in bytes: half of what a state may hold (AWS Step Functions,
/// quotas: 256 KiB), since every state holds it beside what the steps have answered.
const LONGEST_INPUT: usize = 128 << 10;

/// Hands a request over to guard.
pub(super) async fn ask_guard(
    operator: &Sender,
    request: &Request,
    deps: &WebhookDeps,
) -> Result<Answer, ApiFault> {
    let key = key(request)?;
    let event = guard_event(&deps.config, operator, &request.text(LONGEST_BODY)?)?;
    let asked = json!(event);
    let run = RunAsked {
        sender: &operator.name,
        rules: None,
        subject: Subject::Request {
            sender: operator.name.clone(),
            key,
        },
        since: None,
        asked: Some(request_hash(&asked)),
        event,
    };
    Ok(match hand_over_run(deps.handing_over(), run).await? {
        HandedOver::Now { incident } => {
            let message = "guard has it; what it finds and plans is told where plans are told";
            Answer::new(202, "ACCEPTED", message).with("incidents", vec![json!(incident)])
        }
        HandedOver::Covered => {
            let message = "a request with this Idempotency-Key was taken in the last day";
            Answer::new(200, "DUPLICATE", message)
        }
    })
}

/// The event for guard that a body asks for.
pub(super) fn guard_event(
    config: &crate::config::Config,
    operator: &Sender,
    text: &str,
) -> Result<GuardEvent, ApiFault> {
    let mut written: Value = read(text)?;
    if let Some(ask) = written.get_mut("ask").and_then(Value::as_object_mut) {
        set_requester(operator, ask);
    }
    let event = GuardEvent::read_request(&written).map_err(ApiFault::Request)?;
    let named = event.group.as_deref().unwrap_or_default();
    let (cluster, group) = permitted(config, operator, event.cluster.as_deref(), named)?;
    Ok(GuardEvent {
        cluster: Some(cluster),
        group: Some(group.0),
        ..event
    })
}

/// Who asks is who proved to be it. Whoever the body names besides is named as what it is: a claim.
fn set_requester(operator: &Sender, request: &mut Map<String, Value>) {
    let person = match request.get("requested_by") {
        None => None,
        Some(Value::String(person)) => Some(person.trim()).filter(|person| !person.is_empty()),
        // Something else than a text is left to whoever reads the request.
        Some(_) => return,
    };
    let requester = match person {
        Some(person) => format!("{}, for {person} (not verified)", operator.name),
        None => operator.name.clone(),
    };
    request.insert("requested_by".to_owned(), requester.into());
}

/// Starts the state machine with a request.
pub(super) async fn ask_rewind(
    operator: &Sender,
    asker: Asker<'_>,
    request: &Request,
    deps: &WebhookDeps,
) -> Result<Answer, ApiFault> {
    let key = key(request)?;
    let input = rewind_input(&deps.config, operator, &request.text(LONGEST_BODY)?)?;
    let name = name_execution(asker, &key);
    let answer = match start_rewind(deps.starting(), asker, &name, &input).await? {
        RewindStart::Begun => {
            let message = "it is being planned; nothing is changed before it is approved";
            Answer::new(202, "ACCEPTED", message)
        }
        RewindStart::Duplicate => {
            let message = "this request was taken before, under this Idempotency-Key";
            Answer::new(200, "DUPLICATE", message)
        }
    };
    tracing::info!(
        sender = operator.name,
        id = key,
        name,
        code = answer.code,
        "a rewind was asked for"
    );
    let dry_run = input["request"]["dry_run"] == true;
    let under = match asker {
        Asker::Sender(_) => "",
        Asker::Person(_) => "/v1",
    };
    Ok(answer
        .with("id", key.as_str())
        .with("dry_run", dry_run)
        .with("status", format!("{under}/recoveries/{key}")))
}

/// The state machine's input that a body asks for, found right as far as it can be without Kafka.
pub(super) fn rewind_input(
    config: &crate::config::Config,
    operator: &Sender,
    text: &str,
) -> Result<Value, ApiFault> {
    let mut request = request_in(&read(text)?).map_err(ApiFault::Request)?;
    set_requester(operator, &mut request);
    let only_cluster = operator.cluster.as_deref();
    let only_cluster = only_cluster.or(config.cluster(None).map(|cluster| cluster.name.as_str()));
    let parsed = parse_request(&Value::Object(request.clone()), only_cluster);
    let parsed = parsed.map_err(ApiFault::Request)?;
    let (cluster, group) = permitted(config, operator, Some(&parsed.cluster), &parsed.group.0)?;
    if cluster != parsed.cluster {
        return Err(ApiFault::NotAllowed { group: group.0 });
    }
    request.insert("cluster".to_owned(), cluster.into());
    request.insert("dry_run".to_owned(), parsed.dry_run.into());
    let input = json!({ "request": request });
    if input.to_string().len() > LONGEST_INPUT {
        return Err(ApiFault::RewindTooLarge);
    }
    Ok(input)
}

/// The caller's Idempotency-Key, or a fresh one.
pub(super) fn key(request: &Request) -> Result<String, ApiFault> {
    let Some(key) = request.header("idempotency-key") else {
        return Ok(Ulid::generate().to_string());
    };
    if is_key(key) {
        return Ok(key.to_owned());
    }
    Err(ApiFault::Request(vec![Refusal::InvalidRequest {
        field: "Idempotency-Key".to_owned(),
        problem: format!(
            "write 1 to {LONGEST_KEY} letters, digits and - . _ ~ : @, a letter or a digit first"
        ),
    }]))
}
