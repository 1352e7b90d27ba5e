//! What the state machine promises.

use std::collections::{BTreeMap, BTreeSet};

use offset_guard::failure::ErrorClass;
use offset_guard_tests::template::{named, texts};
use regex_lite::Regex;
use serde_json::{Map, Value, json};

use super::{Project, STEPS};

/// The errors that AWS names for Lambda tasks, and throttling.
const SERVICE_ERRORS: [&str; 5] = [
    "Lambda.ClientExecutionTimeoutException",
    "Lambda.ServiceException",
    "Lambda.AWSLambdaException",
    "Lambda.SdkClientException",
    "Lambda.TooManyRequestsException",
];

/// The only error that proves that the function never ran.
const NEVER_RAN: &str = "Lambda.TooManyRequestsException";

const INVOKE: &str = "arn:aws:states:::lambda:invoke";

/// What is done as the principal that may commit: one step that alters, and one that asks whether it could.
const APPLIES: [&str; 2] = ["apply", "check_rights"];

/// What of an input gets past the first states: the key, the state that keeps it, and the one that then reads it first.
pub(crate) const LETS_THROUGH: [(&str, &str, &str); 4] = [
    ("reconcile", "KeepReconcile", "Confirm"),
    ("alert", "KeepAlert", "Report"),
    ("plan_id", "KeepPlanId", "Plan"),
    ("request", "KeepRequest", "Plan"),
];

const KEEPS_NOTHING: (&str, &str) = ("KeepNothing", "Plan");

type States = Map<String, Value>;

fn states(machine: &Value) -> &States {
    machine["States"].as_object().unwrap()
}

fn list<'a>(state: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    state[field].as_array().into_iter().flatten()
}

/// The states that may follow, each with how it is named.
fn successors(state: &Value) -> Vec<(&'static str, &str)> {
    let mut found = Vec::new();
    for field in ["Next", "Default"] {
        found.extend(state[field].as_str().map(|name| (field, name)));
    }
    for field in ["Choices", "Catch"] {
        found.extend(
            list(state, field).map(|rule| (field, rule["Next"].as_str().unwrap_or("nothing"))),
        );
    }
    found
}

/// Every state that an execution can be in after `start`, if it never enters `without`.
fn reachable<'a>(states: &'a States, start: &'a str, without: &str) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut todo = vec![start];
    while let Some(name) = todo.pop() {
        let Some(state) = states.get(name).filter(|_| name != without) else {
            continue;
        };
        if seen.insert(name) {
            todo.extend(successors(state).into_iter().map(|(_, after)| after));
        }
    }
    seen
}

fn is_end(state: &Value) -> bool {
    state["Type"] == "Succeed" || state["Type"] == "Fail" || state["End"] == true
}

fn start(machine: &Value) -> &str {
    machine["StartAt"].as_str().unwrap_or_default()
}

/// Every state is there, can be reached and can end, and none is reached around what has to come before it.
pub(crate) fn graph(project: &Project) -> Vec<String> {
    let machine = &project.machine;
    let (states, start) = (states(machine), start(machine));
    let mut wrong = Vec::new();
    if machine.get("TimeoutSeconds").is_some() {
        wrong.push("the machine has a TimeoutSeconds: it cannot be caught, so the group would stay claimed".to_owned());
    }
    if !states.contains_key(start) {
        wrong.push(format!("StartAt names {start:?}, which does not exist"));
        return wrong;
    }
    for (name, state) in states {
        if !is_end(state) && successors(state).is_empty() {
            wrong.push(format!("{name} leads nowhere"));
        }
        for (how, after) in successors(state) {
            if !states.contains_key(after) {
                wrong.push(format!(
                    "{name}: {how} names {after:?}, which does not exist"
                ));
            }
        }
    }
    let all = reachable(states, start, "");
    let ends: BTreeSet<&str> = states
        .iter()
        .filter(|(_, state)| is_end(state))
        .map(|(name, _)| name.as_str())
        .collect();
    for name in states.keys().filter(|name| !all.contains(name.as_str())) {
        wrong.push(format!("{name} cannot be reached"));
    }
    for name in reachable(states, start, "Report").intersection(&ends) {
        wrong.push(format!("{name} can be reached without Report"));
    }
    for name in states.keys() {
        if reachable(states, name, "").is_disjoint(&ends) {
            wrong.push(format!("{name} can never end"));
        }
    }
    wrong.extend(order(machine));
    wrong
}

/// What has to come before what.
fn order(machine: &Value) -> Vec<String> {
    let (states, start) = (states(machine), start(machine));
    let [(_, keeps_reconcile, _), (_, keeps_alert, _), ..] = LETS_THROUGH;
    let mut wrong = Vec::new();
    let mut around = |from: &str, to: &str, without: &str, what: &str| {
        if reachable(states, from, without).contains(to) {
            wrong.push(what.to_owned());
        }
    };
    around(
        start,
        "RequestApproval",
        "CheckRights",
        "RequestApproval can be reached without CheckRights",
    );
    around(
        "Observe",
        "Report",
        "Verify",
        "Report can be reached from Observe without Verify",
    );
    around(
        keeps_reconcile,
        "Verify",
        "Confirm",
        "a reconcile reaches Verify without Confirm",
    );
    around(keeps_reconcile, "Plan", "", "a reconcile can be planned");
    let believed =
        json!([{ "Variable": "$.confirm.confirmed", "BooleanEquals": true, "Next": "Reconcile" }]);
    let into: Vec<_> = states
        .iter()
        .flat_map(|(name, state)| {
            successors(state)
                .into_iter()
                .map(move |(how, after)| (name.as_str(), how, after))
        })
        .filter(|(_, _, after)| *after == "Reconcile")
        .collect();
    if into != [("Confirmed", "Choices", "Reconcile")]
        || states.get("Confirmed").map(|state| &state["Choices"]) != Some(&believed)
    {
        wrong.push("Reconcile can be reached by something else than the choice that Confirm has confirmed it".to_owned());
    }
    let told = states.get(keeps_alert).map(successors).unwrap_or_default();
    let told: Vec<_> = told.into_iter().map(|(_, after)| after).collect();
    if told != ["Report"] {
        wrong.push(format!(
            "an alert of the guard leads to {}, not to Report alone",
            told.join(", ")
        ));
    }
    wrong
}

/// A state without the fields of these names.
fn without(state: &Value, fields: &[&str]) -> Value {
    let mut state = state.clone();
    if let Some(object) = state.as_object_mut() {
        object.retain(|name, _| !fields.contains(&name.as_str()));
    }
    state
}

/// An execution may be started with any input: one key of it gets past the first states, and no state reads another.
pub(crate) fn input(project: &Project) -> Vec<String> {
    let (states, start) = (states(&project.machine), start(&project.machine));
    let mut wrong = Vec::new();
    let choices = LETS_THROUGH.map(
        |(key, keep, _)| json!({ "Variable": format!("$.{key}"), "IsPresent": true, "Next": keep }),
    );
    let wanted = json!({ "Type": "Choice", "Choices": choices, "Default": KEEPS_NOTHING.0 });
    if states.get(start).map(|state| without(state, &["Comment"])) != Some(wanted) {
        let keys = LETS_THROUGH.map(|(key, ..)| key).join(", ");
        wrong.push(format!(
            "{start} is another Choice than the one that keeps {keys} apart, in this order"
        ));
    }
    let mut keeps: BTreeMap<&str, (Value, &str)> = LETS_THROUGH
        .iter()
        .map(|(key, keep, after)| {
            (
                *keep,
                (
                    json!({ "Parameters": { format!("{key}.$"): format!("$.{key}") } }),
                    *after,
                ),
            )
        })
        .collect();
    keeps.insert(KEEPS_NOTHING.0, (json!({ "Result": {} }), KEEPS_NOTHING.1));
    for (name, (kept, after)) in &keeps {
        let mut wanted = kept.clone();
        wanted["Type"] = json!("Pass");
        wanted["Next"] = json!(after);
        // Any further field, such as a ResultPath, could bring the rest of the input back.
        let state = states.get(*name).map(|state| without(state, &["Comment"]));
        if state != Some(wanted) {
            wrong.push(format!(
                "{name} is not a Pass of {kept} alone to {after}: more of the input gets through"
            ));
        }
    }
    for (name, state) in states {
        for (how, after) in successors(state) {
            if after == start || (keeps.contains_key(after) && name != start) {
                wrong.push(format!("{name}: {how} leads back to {after}"));
            }
        }
    }
    // Where a state says what it takes of the state before, that is a step's answer or the key that was let through.
    let answers: BTreeSet<&str> = states
        .values()
        .filter_map(|state| state["ResultPath"].as_str()?.split('.').nth(1))
        .collect();
    let paths = Regex::new(r#""(\$\.[\w.]+)""#).unwrap();
    for (name, state) in states {
        if name == start || keeps.contains_key(name.as_str()) {
            continue;
        }
        let takes = without(state, &["ResultSelector", "ResultPath", "Catch"]).to_string();
        for found in paths.captures_iter(&takes) {
            let path = &found[1];
            let key = path.split('.').nth(1).unwrap_or_default();
            let is_let_through = LETS_THROUGH.iter().any(|(let_through, _, reads)| {
                *let_through == key && (reads == name || *reads == "Confirm")
            });
            if !answers.contains(key) && !is_let_through {
                wrong.push(format!("{name} reads {path}, which no step has answered"));
            }
        }
    }
    wrong
}

/// The functions that the definition names: each substitution with its function's properties.
fn functions(project: &Project) -> BTreeMap<&str, &Value> {
    let resources = &project.template["Resources"];
    let given = resources["Recovery"]["Properties"]["DefinitionSubstitutions"].as_object();
    let given = given.into_iter().flatten();
    given
        .map(|(name, value)| {
            (
                name.as_str(),
                &resources[named(value).unwrap_or_default()]["Properties"],
            )
        })
        .collect()
}

fn steps_of(properties: &Value) -> Vec<&str> {
    let steps = properties["Environment"]["Variables"]["OFFSET_GUARD_STEPS"].as_str();
    steps
        .map(|steps| steps.split(',').collect())
        .unwrap_or_default()
}

/// Each task asks a function for a step that it runs, waits for it long enough, and catches everything.
pub(crate) fn tasks(project: &Project) -> Vec<String> {
    let functions = functions(project);
    let mut wrong = Vec::new();
    let mut asked = BTreeSet::new();
    for (name, state) in states(&project.machine) {
        if state["Type"] != "Task" {
            continue;
        }
        let resource = state["Resource"].as_str().unwrap_or_default();
        if resource != INVOKE && resource != format!("{INVOKE}.waitForTaskToken") {
            wrong.push(format!("{name} invokes {resource}, not {INVOKE}"));
            continue;
        }
        let target = state["Parameters"]["FunctionName"]
            .as_str()
            .unwrap_or_default();
        let function = target
            .strip_prefix("${")
            .and_then(|target| target.strip_suffix('}'));
        let Some((function, properties)) =
            function.and_then(|name| Some((name, functions.get(name)?)))
        else {
            wrong.push(format!(
                "{name}: FunctionName {target:?} is no substitution of a function"
            ));
            continue;
        };
        let step = state["Parameters"]["Payload"]["step"]
            .as_str()
            .unwrap_or_default();
        asked.insert((function, step));
        let steps = steps_of(properties);
        if !steps.contains(&step) {
            wrong.push(format!(
                "{name} asks {function} for the step {step:?}; it runs {}",
                steps.join(", ")
            ));
        }
        if function == "RewindApplyFunction" && !APPLIES.contains(&step) {
            wrong.push(format!(
                "{name} asks RewindApplyFunction for {step:?}: it is there for {} alone",
                APPLIES.join(", ")
            ));
        }
        if (step == "apply") != (name == "Apply") {
            wrong.push(format!(
                "{name} asks for the step {step:?}: Apply, and only Apply, alters offsets"
            ));
        }
        wrong.extend(patience(name, state, properties));
        wrong.extend(errors(name, state, resource != INVOKE));
    }
    for (function, properties) in functions {
        for step in steps_of(properties) {
            if !asked.contains(&(function, step)) && step != "sweep" {
                wrong.push(format!("no state asks {function} for its step {step:?}"));
            }
            if !STEPS.iter().any(|steps| steps.contains(&step)) {
                wrong.push(format!(
                    "{function} runs {step:?}, which is no step of the code"
                ));
            }
        }
    }
    wrong
}

/// A task outlives its function.
fn patience(name: &str, state: &Value, properties: &Value) -> Vec<String> {
    let timeout = properties["Timeout"].as_u64().unwrap_or_default();
    match state["TimeoutSeconds"].as_u64() {
        None => vec![format!("{name} has no fixed TimeoutSeconds")],
        Some(limit) if limit <= timeout => {
            vec![format!(
                "{name} times out after {limit} s, its function only after {timeout} s"
            )]
        }
        Some(_) => Vec::new(),
    }
}

/// What a task catches and tries again.
fn errors(name: &str, state: &Value, waits: bool) -> Vec<String> {
    let own = ErrorClass::ALL.map(ErrorClass::error_type);
    let transient = ErrorClass::Transient.error_type();
    let mut wrong = Vec::new();
    let last = list(state, "Catch").last();
    if last.is_none_or(|last| texts(&last["ErrorEquals"]) != ["States.ALL"]) {
        wrong.push(format!("{name} does not catch States.ALL last"));
    }
    for catcher in list(state, "Catch") {
        if catcher["ResultPath"].as_str().unwrap_or("$") == "$" {
            wrong.push(format!("{name}: a Catch drops the state's input"));
        }
        for error in texts(&catcher["ErrorEquals"]) {
            let is_raised = own.contains(&error) || SERVICE_ERRORS.contains(&error);
            if !is_raised && error != "States.ALL" && error != "States.Timeout" {
                wrong.push(format!("{name} catches {error}, which nothing raises"));
            }
        }
    }
    let retried: BTreeSet<_> = list(state, "Retry")
        .flat_map(|retrier| texts(&retrier["ErrorEquals"]))
        .collect();
    for error in &retried {
        if *error != transient && !SERVICE_ERRORS.contains(error) {
            wrong.push(format!("{name} retries {error}"));
        }
    }
    let ran: Vec<_> = retried
        .into_iter()
        .filter(|error| *error != NEVER_RAN)
        .collect();
    if (name == "Apply" || waits) && !ran.is_empty() {
        wrong.push(format!(
            "{name} is retried although its function may have run: {}",
            ran.join(", ")
        ));
    }
    wrong
}

/// Some task tries again what passes: or the names above compare with nothing.
pub(crate) fn retries(project: &Project) -> Vec<String> {
    let transient = ErrorClass::Transient.error_type();
    let states = states(&project.machine).values();
    let mut retried = states
        .flat_map(|state| list(state, "Retry"))
        .flat_map(|retrier| texts(&retrier["ErrorEquals"]));
    if retried.any(|error| error == transient) {
        return Vec::new();
    }
    vec![format!("nothing is tried again after {transient}")]
}

/// The definition uses what the template gives it, and nothing else.
pub(crate) fn substitutions(project: &Project) -> Vec<String> {
    let text = project.machine.to_string();
    let pattern = Regex::new(r"\$\{(\w+)\}").unwrap();
    let used: BTreeSet<_> = pattern
        .captures_iter(&text)
        .map(|found| found[1].to_owned())
        .collect();
    let given: BTreeSet<_> = functions(project).into_keys().map(str::to_owned).collect();
    let unknown = used.difference(&given);
    let unknown = unknown
        .map(|name| format!("${{{name}}} is used in the definition and not given in the template"));
    let unused = given.difference(&used);
    let unused = unused
        .map(|name| format!("{name} is given in the template and not used in the definition"));
    unknown.chain(unused).collect()
}
