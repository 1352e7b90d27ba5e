//! What operators ask for: a look or a plan of guard, or a rewind.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use ulid::Ulid;

use super::WebhookDeps;
use super::body::json as read;
use super::choose::permitted;
use super::http::{Answer, Request};
use super::problem::Problem;
use super::run::{Ask, Handed, hand_over};
use crate::config::Sender;
use crate::domain::identity::Identity;
use crate::domain::incident::Subject;
use crate::domain::refusal::Refusal;
use crate::executions::Started;
use crate::wire::guard::{GuardAsk, GuardEvent};
use crate::wire::{parse_request, request_hash};

/// The longest name of an execution (AWS Step Functions, `StartExecution`).
const LONGEST_KEY: usize = 80;

/// What an operator writes to guard.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    cluster: Option<String>,
    group: String,
    ask: Option<Map<String, Value>>,
}

/// What an operator writes for a rewind: the state machine's own input.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rewind {
    request: Map<String, Value>,
}

/// Hands a request over to guard.
pub(super) async fn ask_guard(
    operator: &Sender,
    request: &Request,
    deps: &WebhookDeps,
) -> Result<Answer, Problem> {
    let key = key(request)?;
    let event = guard_event(&deps.config, operator, &request.text()?)?;
    let ask = Ask {
        sender: &operator.name,
        rules: None,
        subject: Subject::Request {
            sender: operator.name.clone(),
            key,
        },
        since: None,
        event,
    };
    Ok(match hand_over(deps, ask).await? {
        Handed::Over { incident } => {
            let message = "guard has it; what it finds and plans is told where plans are told";
            Answer::new(202, "ACCEPTED", message).with("incidents", vec![json!(incident)])
        }
        Handed::Covered => {
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
) -> Result<GuardEvent, Problem> {
    let written: Written = read(text)?;
    let cluster = written.cluster.as_deref();
    let (cluster, group) = permitted(config, operator, cluster, &written.group)?;
    let ask = written.ask.map(|ask| asked(operator, ask)).transpose()?;
    Ok(GuardEvent {
        cluster: Some(cluster),
        group: Some(group.0),
        ask,
        ..GuardEvent::default()
    })
}

fn asked(operator: &Sender, mut ask: Map<String, Value>) -> Result<GuardAsk, Problem> {
    set_requester(operator, &mut ask);
    let ask: GuardAsk = serde_json::from_value(Value::Object(ask))
        .map_err(|error| Problem::Body(format!("ask: {error}")))?;
    ask.parse().map_err(Problem::Request)?;
    Ok(ask)
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
    person: Option<&Identity>,
    request: &Request,
    deps: &WebhookDeps,
) -> Result<Answer, Problem> {
    let key = key(request)?;
    let input = rewind_input(&deps.config, operator, &request.text()?)?;
    if let Some(person) = person {
        // Before the start: the plan's first step looks for it at once.
        let hash = request_hash(&input["request"]);
        let noted = deps.store.note_requester(&key, &hash, person, (deps.now)());
        if !noted.await? {
            return Err(Problem::KeyUsed);
        }
    }
    // Before the start too: a dry run may be reported on at once.
    deps.store.note_asked_over_http(&key, (deps.now)()).await?;
    let started = deps.executions.start(&deps.state_machine, &key, &input);
    let answer = match started.await? {
        Started::Now(_) => {
            tracing::info!(sender = operator.name, id = key, "a rewind was asked for");
            let message = "it is being planned; nothing is changed before it is approved";
            Answer::new(202, "ACCEPTED", message)
        }
        Started::NameTaken => {
            let arn = super::recovery::execution_arn(&deps.state_machine, &key);
            let arn = arn.ok_or(Problem::NoRecovery)?;
            if deps.executions.input(&arn).await?.as_ref() != Some(&input) {
                return Err(Problem::KeyUsed);
            }
            let message = "this request was taken before, under this Idempotency-Key";
            Answer::new(200, "DUPLICATE", message)
        }
    };
    let dry_run = input["request"]["dry_run"] == true;
    Ok(answer
        .with("id", key.as_str())
        .with("dry_run", dry_run)
        .with(
            "status",
            format!(
                "{}/recoveries/{key}",
                if person.is_some() { "/v1" } else { "" }
            ),
        ))
}

/// The state machine's input that a body asks for, found right as far as it can be without Kafka.
pub(super) fn rewind_input(
    config: &crate::config::Config,
    operator: &Sender,
    text: &str,
) -> Result<Value, Problem> {
    let Rewind { mut request } = read(text)?;
    set_requester(operator, &mut request);
    let only_cluster = operator.cluster.as_deref();
    let only_cluster = only_cluster.or(config.cluster(None).map(|cluster| cluster.name.as_str()));
    let parsed = parse_request(&Value::Object(request.clone()), only_cluster);
    let parsed = parsed.map_err(Problem::Request)?;
    let (cluster, group) = permitted(config, operator, Some(&parsed.cluster), &parsed.group.0)?;
    if cluster != parsed.cluster {
        return Err(Problem::NotAllowed { group: group.0 });
    }
    request.insert("cluster".to_owned(), cluster.into());
    request.insert("dry_run".to_owned(), parsed.dry_run.into());
    Ok(json!({ "request": request }))
}

/// The caller's Idempotency-Key, or a fresh one.
pub(super) fn key(request: &Request) -> Result<String, Problem> {
    let Some(key) = request.header("idempotency-key") else {
        return Ok(Ulid::generate().to_string());
    };
    if is_key(key) {
        return Ok(key.to_owned());
    }
    Err(Problem::Request(vec![Refusal::InvalidRequest {
        field: "Idempotency-Key".to_owned(),
        problem: format!("write 1 to {LONGEST_KEY} letters, digits, - and _"),
    }]))
}

/// Whether it may name an execution.
pub(super) fn is_key(key: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=LONGEST_KEY).contains(&key.len()) && key.chars().all(allowed)
}
