//! What the template promises: roles, alarms, routes, rules and times.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use offset_guard::api::ROUTES;
use offset_guard::aws::metrics;
use offset_guard::domain::incident::{CLAIM_HOLDS, LONGEST_RUN, QUEUE_HOLDS};
use offset_guard_tests::template::{CHANGES, Statement, named, statements};
use regex_lite::Regex;
use serde_json::{Map, Value, json};

use super::Project;

/// Actions that know no narrower resource, in the one statement where they are allowed.
const UNSCOPED: [&str; 2] = ["ec2:", "logs:"];

/// What always comes with a key, so that a condition on the key says something.
const KEYED: [&str; 6] = [
    "dynamodb:GetItem",
    "dynamodb:Query",
    "dynamodb:PutItem",
    "dynamodb:UpdateItem",
    "dynamodb:DeleteItem",
    "dynamodb:ConditionCheckItem",
];

/// What was decided stands in attributes that only this role may write: a status alone admits nothing.
const DECIDER: &str = "ApprovalPageRole";
const DECIDED: [&str; 5] = ["decision", "decided_at", "decided_by", "decider", "reason"];

/// Who may say that somebody asked, and is believed.
const WITNESS: &str = "WebhookPeopleRole";

/// Who may commit for groups.
const APPLIER: &str = "RewindApplyRole";

fn resources(project: &Project) -> &Map<String, Value> {
    project.template["Resources"].as_object().unwrap()
}

/// The properties of all resources of a type, by name.
fn of_type<'a>(project: &'a Project, kind: &str) -> BTreeMap<&'a str, &'a Value> {
    let resources = resources(project).iter();
    let wanted = resources.filter(|(_, resource)| resource["Type"] == kind);
    wanted
        .map(|(name, resource)| (name.as_str(), &resource["Properties"]))
        .collect()
}

/// Every function has a role of its own, a limit and a log that ends.
pub(crate) fn functions(project: &Project) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut roles = BTreeMap::new();
    for (name, properties) in of_type(project, "AWS::Serverless::Function") {
        let role = match named(&properties["Role"]) {
            Some(role) => role.to_owned(),
            None => format!("a role that SAM makes for {name}"),
        };
        if let Some(other) = roles.insert(role.clone(), name) {
            wrong.push(format!("{name} and {other} share the role {role}"));
        }
        if properties.get("Timeout").is_none() {
            wrong.push(format!("{name} has no Timeout"));
        }
        let log = named(&properties["LoggingConfig"]["LogGroup"]).unwrap_or_default();
        let log = resources(project).get(log).unwrap_or(&Value::Null);
        if log["Properties"].get("RetentionInDays").is_none() {
            wrong.push(format!("{name} has no log group with a retention"));
        }
    }
    wrong
}

/// No policy says more than it has to.
pub(crate) fn policies(project: &Project) -> Vec<String> {
    let mut wrong = Vec::new();
    for statement in statements(&project.template) {
        let Statement {
            resource,
            policy,
            content,
            ..
        } = statement;
        let sid = content["Sid"].as_str().unwrap_or("?");
        let place = format!("{resource}, policy {policy}, statement {sid}");
        let mut add = |what: String| wrong.push(format!("{place}: {what}"));
        let actions = statement.actions();
        if content["Effect"] == "Allow" && actions.iter().any(|action| action.contains('*')) {
            add("an action with a wildcard".to_owned());
        }
        let is_unscoped =
            |action: &&str| UNSCOPED.iter().any(|service| action.starts_with(service));
        if content["Resource"] == "*" && !actions.iter().all(is_unscoped) {
            add("Resource is *".to_owned());
        }
        if actions.iter().any(|action| action.starts_with("dynamodb:")) {
            if content["Condition"]["ForAllValues:StringLike"]
                .get("dynamodb:LeadingKeys")
                .is_none()
            {
                add("not limited to item types by dynamodb:LeadingKeys".to_owned());
            }
            for action in actions.iter().filter(|action| !KEYED.contains(action)) {
                add(format!(
                    "{action} may come without a key, and then meets the condition"
                ));
            }
        }
        let changes = actions.iter().any(|action| CHANGES.contains(action));
        for role in statement.roles() {
            let written = statement.attributes();
            let decides = actions.contains(&"dynamodb:DeleteItem")
                || written.is_none_or(|written| written.iter().any(|name| DECIDED.contains(name)));
            if changes && role != DECIDER && statement.reaches("APPROVAL#x") && decides {
                add(format!(
                    "{role} may write what was decided about an approval; only {DECIDER} may"
                ));
            }
            if changes && role != WITNESS && statement.reaches("REQUESTER#x") {
                add(format!("{role} may say who asked; only {WITNESS} may"));
            }
        }
        if actions.contains(&"kafka-cluster:AlterGroup") && statement.roles() != [APPLIER] {
            let roles = statement.roles().join(", ");
            add(format!("{roles} may commit for groups; only {APPLIER} may"));
        }
    }
    wrong
}

/// Schedules ship disabled and lose nothing, alarms watch what is measured, and logs hold no secret.
pub(crate) fn operation(project: &Project) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, schedule) in of_type(project, "AWS::Scheduler::Schedule") {
        if schedule["State"] != json!({ "Ref": "SchedulesState" }) {
            wrong.push(format!(
                "{name} does not ship disabled: State is not !Ref SchedulesState"
            ));
        }
        if schedule["Target"].get("DeadLetterConfig").is_none() {
            wrong.push(format!(
                "{name} drops what it cannot deliver: no DeadLetterConfig"
            ));
        }
    }
    let measured = metrics::names_by_function();
    for (name, alarm) in of_type(project, "AWS::CloudWatch::Alarm") {
        let metric = alarm["MetricName"].as_str().unwrap_or_default();
        if alarm["Namespace"] == metrics::NAMESPACE && !measured.contains(&metric) {
            wrong.push(format!("{name} watches {metric}, which nothing measures"));
        }
    }
    let resources = &project.template["Resources"];
    if resources["Recovery"]["Properties"]["Logging"]["IncludeExecutionData"] != false {
        wrong.push("Recovery logs execution data, and with it task tokens".to_owned());
    }
    let format = &resources["ApiStage"]["Properties"]["AccessLogSettings"]["Format"];
    let path = Regex::new(r"\$context\.(path|http\.path|requestPath)\b").unwrap();
    if path.is_match(format.as_str().unwrap_or_default()) {
        wrong.push("the access log holds the path, and with it the link's secret id".to_owned());
    }
    wrong
}

/// Every function behind the API may be called by it, and the webhook's routes are the ones that its code knows.
pub(crate) fn api(project: &Project) -> Vec<String> {
    let mut wrong = Vec::new();
    let permissions = of_type(project, "AWS::Lambda::Permission").into_values();
    let permitted: BTreeSet<_> = permissions
        .filter(|permission| permission["Principal"] == "apigateway.amazonaws.com")
        .filter_map(|permission| named(&permission["FunctionName"]))
        .collect();
    for (name, integration) in of_type(project, "AWS::ApiGatewayV2::Integration") {
        let function = named(&integration["IntegrationUri"]).unwrap_or_default();
        if !permitted.contains(function) {
            wrong.push(format!("{name}: the API may not call {function}"));
        }
    }
    let mut routes = BTreeSet::new();
    for route in of_type(project, "AWS::ApiGatewayV2::Route").into_values() {
        let key = route["RouteKey"].as_str().unwrap_or_default();
        let target = route["Target"].to_string();
        if target.contains("ApprovalIntegration") {
            continue;
        }
        routes.insert(key);
        let of_people = key.contains(" /v1/");
        if of_people != target.contains("PeopleIntegration") {
            wrong.push(format!("{key} leads to {target}: the routes of people, under /v1, have a function of their own"));
        }
        if of_people && (route["AuthorizationType"] != "JWT" || route.get("AuthorizerId").is_none())
        {
            wrong.push(format!(
                "{key} has no JWT authorizer, and its function believes what one says"
            ));
        }
    }
    let known = BTreeSet::from(ROUTES.map(|(key, _)| key));
    for route in routes.difference(&known) {
        wrong.push(format!("{route} is a route that the webhook does not know"));
    }
    for route in known.difference(&routes) {
        wrong.push(format!("{route} is no route of the template"));
    }
    let stage = &project.template["Resources"]["ApiStage"]["Properties"];
    for route in stage["RouteSettings"]
        .as_object()
        .into_iter()
        .flat_map(Map::keys)
    {
        if !routes.contains(route.as_str()) {
            wrong.push(format!(
                "ApiStage has settings for {route}, which is no route"
            ));
        }
    }
    wrong
}

/// A rule's expression with these parameters: a text, or whether it holds.
fn evaluate(expression: &Value, given: &BTreeMap<&str, String>) -> Value {
    let Some((function, arguments)) = expression
        .as_object()
        .and_then(|fields| fields.iter().next())
    else {
        return expression.clone();
    };
    if let ("Ref", Some(name)) = (function.as_str(), arguments.as_str()) {
        return json!(given[name]);
    }
    let arguments = arguments.as_array().into_iter().flatten();
    let values: Vec<Value> = arguments
        .map(|argument| evaluate(argument, given))
        .collect();
    json!(match function.as_str() {
        "Fn::Equals" => values[0] == values[1],
        "Fn::EachMemberEquals" => {
            let mut members = values[0].as_str().unwrap().split(',');
            members.all(|member| values[1] == member)
        }
        "Fn::Not" => values[0] == false,
        "Fn::And" => values.iter().all(|value| *value == true),
        "Fn::Or" => values.iter().any(|value| *value == true),
        other => panic!("{other} is no function of a rule"),
    })
}

/// What a deployment with sign-in has to say, and what it does not get away with.
pub(crate) fn rules(project: &Project) -> Vec<String> {
    const SIGN_IN: [(&str, &str); 4] = [
        ("OidcIssuer", "https://id"),
        ("OidcClientId", "page"),
        ("OidcClientSecretArn", "arn"),
        ("OidcGroups", "approvers"),
    ];
    const ASKS: [(&str, &str); 3] = [
        ("OidcApiAudience", "api"),
        ("OidcPersonClaim", "oid"),
        ("OidcApiGroups", "askers"),
    ];
    let asks = [&SIGN_IN[..], &ASKS[..]].concat();
    let but = |others: &[(&'static str, &'static str)]| [&asks[..], others].concat();
    let template = &project.template;
    let mut wrong = Vec::new();
    for (given, right) in [
        (Vec::new(), true),
        (SIGN_IN.to_vec(), true),
        (asks.clone(), true),
        (
            but(&[("OidcApiGroups", ""), ("OidcApiScope", "rewinds")]),
            true,
        ),
        (but(&[("OidcApiGroups", "")]), false),
        (but(&[("OidcPersonClaim", "")]), false),
        (but(&[("OidcApiAudience", "page")]), false),
        (ASKS.to_vec(), false),
    ] {
        let parameters = template["Parameters"].as_object().unwrap().iter();
        let mut values: BTreeMap<&str, String> = parameters
            .map(|(name, parameter)| {
                let default = &parameter["Default"];
                let text = default.as_str().map(str::to_owned);
                let text = text.unwrap_or_else(|| default.to_string());
                (
                    name.as_str(),
                    if default.is_null() {
                        String::new()
                    } else {
                        text
                    },
                )
            })
            .collect();
        values.extend(
            given
                .iter()
                .map(|(name, value)| (*name, (*value).to_owned())),
        );
        let holds = |expression: &Value| evaluate(expression, &values) == true;
        let mut rules = template["Rules"].as_object().unwrap().values();
        let kept = rules.all(|rule| {
            let applies = rule.get("RuleCondition").is_none_or(&holds);
            let assertions = rule["Assertions"].as_array().unwrap();
            !applies
                || assertions
                    .iter()
                    .all(|assertion| holds(&assertion["Assert"]))
        });
        if kept != right {
            let verb = if right { "refuse" } else { "let through" };
            wrong.push(format!("Rules {verb} {given:?}"));
        }
    }
    wrong
}

/// The times that an incident's states hold, beside the times that the template gives its functions.
pub(crate) fn incidents(project: &Project) -> Vec<String> {
    let resources = &project.template["Resources"];
    let (guard, webhook) = (
        &resources["Guard"]["Properties"],
        &resources["Webhook"]["Properties"],
    );
    let seconds = |value: &Value| SignedDuration::from_secs(value.as_i64().unwrap_or(i64::MAX));
    let (webhook, run) = (seconds(&webhook["Timeout"]), seconds(&guard["Timeout"]));
    let age = seconds(&guard["EventInvokeConfig"]["MaximumEventAgeInSeconds"]);
    let mut wrong = Vec::new();
    for (what, time, name, held, is_enough) in [
        (
            "the webhook's Timeout",
            webhook,
            "CLAIM_HOLDS",
            CLAIM_HOLDS,
            webhook < CLAIM_HOLDS,
        ),
        (
            "Guard's Timeout",
            run,
            "LONGEST_RUN",
            LONGEST_RUN,
            run <= LONGEST_RUN,
        ),
        (
            "Guard's MaximumEventAgeInSeconds",
            age,
            "QUEUE_HOLDS",
            QUEUE_HOLDS,
            age <= QUEUE_HOLDS,
        ),
    ] {
        if !is_enough {
            let (time, held) = (time.as_secs(), held.as_secs());
            wrong.push(format!("{what} is {time} s, and {name} only {held} s"));
        }
    }
    wrong
}

/// Requests of strangers cannot be kept out, but they pass what stands before the domain, and are noticed.
pub(crate) fn strangers(project: &Project) -> Vec<String> {
    let (resources, parameters) = (resources(project), &project.template["Parameters"]);
    let mut wrong = Vec::new();
    let disabled = json!({ "If": ["HasPublicUrl", true, false] });
    if resources["Api"]["Properties"].get("DisableExecuteApiEndpoint") != Some(&disabled) {
        wrong.push(
            "Api: its own address answers beside PublicUrl, past whatever protects the domain"
                .to_owned(),
        );
    }
    let own_address =
        json!({ "If": ["HasPublicUrl", { "Ref": "PublicUrl" }, { "GetAtt": "Api.ApiEndpoint" }] });
    for name in ["ApiUrl", "PublicUrl"] {
        if project.template["Outputs"][name]["Value"] != own_address {
            wrong.push(format!(
                "the output {name} is not PublicUrl where that is given"
            ));
        }
    }
    wrong.extend(limits(project));
    let is_of_api = json!([{ "Name": "ApiId", "Value": { "Ref": "Api" } }]);
    let mut alarms = of_type(project, "AWS::CloudWatch::Alarm").into_values();
    if !alarms.any(|alarm| alarm["MetricName"] == "4xx" && alarm["Dimensions"] == is_of_api) {
        wrong.push("no alarm tells of requests that are throttled".to_owned());
    }
    let groups = parameters["MskGroups"]["AllowedPattern"]
        .as_str()
        .unwrap_or_default();
    let groups = Regex::new(groups).unwrap();
    for name in [
        "*",
        "shipment-sync",
        "dc-1/*",
        "a:b/c|d?",
        "注#%",
        "=x+y@z,(1)",
    ] {
        if !groups.is_match(name) {
            wrong.push(format!(
                "MskGroups does not take {name:?}, which a group may be called"
            ));
        }
    }
    for name in ["", "a b", "${aws:username}", "a\n"] {
        if groups.is_match(name) {
            wrong.push(format!("MskGroups takes {name:?}"));
        }
    }
    wrong
}

/// The page has a limit of its own, and every other route another.
fn limits(project: &Project) -> Vec<String> {
    let stage = &resources(project)["ApiStage"];
    let mut wrong = Vec::new();
    let of_page = json!({ "Ref": "PageRequestsPerSecond" });
    let defaults = stage["Properties"]["DefaultRouteSettings"].as_object();
    if defaults
        .into_iter()
        .flat_map(Map::values)
        .any(|limit| *limit != of_page)
    {
        wrong.push("ApiStage: the page's limit is not its parameter".to_owned());
    }
    let routes: BTreeMap<_, _> = of_type(project, "AWS::ApiGatewayV2::Route")
        .into_iter()
        .map(|(name, route)| (route["RouteKey"].as_str().unwrap_or_default(), name))
        .collect();
    let waits_for = stage["DependsOn"].as_array();
    let waits_for: Vec<_> = waits_for
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let limited = stage["Properties"]["RouteSettings"].as_object();
    for key in limited.into_iter().flat_map(Map::keys) {
        if key.ends_with("/approvals/{id}") {
            wrong.push(format!("ApiStage: {key} has a limit beside the page's"));
        }
        if !routes
            .get(key.as_str())
            .is_some_and(|route| waits_for.contains(route))
        {
            wrong.push(format!(
                "ApiStage limits {key}, and does not wait for its route"
            ));
        }
    }
    for key in [
        "POST /webhooks/{sender}",
        "POST /rewinds",
        "GET /recoveries/{id}",
    ] {
        if !limited.is_some_and(|limited| limited.contains_key(key)) {
            wrong.push(format!("ApiStage: {key} shares the page's limit"));
        }
    }
    wrong
}

/// The snippets that people paste are YAML, and lead to the webhook.
pub(crate) fn snippets(project: &Project) -> Vec<String> {
    let url = Regex::new(r"https://API_ID\S+").unwrap();
    let address =
        Regex::new(r"^https://API_ID\.execute-api\.[a-z0-9-]+\.amazonaws\.com/webhooks/\w+$")
            .unwrap();
    let mut wrong = Vec::new();
    if project.snippets.is_empty() {
        wrong.push("infra/snippets/ holds nothing".to_owned());
    }
    for (name, text) in &project.snippets {
        if let Err(error) = offset_guard_tests::template::parse(text) {
            wrong.push(format!("{name} is no YAML: {error}"));
        }
        for found in url
            .find_iter(text)
            .filter(|found| !address.is_match(found.as_str()))
        {
            wrong.push(format!(
                "{name}: {} is no address of the webhook",
                found.as_str()
            ));
        }
    }
    wrong
}

/// There are examples, and each is JSON.
pub(crate) fn events(project: &Project) -> Vec<String> {
    let mut wrong = Vec::new();
    if project.events.is_empty() {
        wrong.push("events/ holds no example".to_owned());
    }
    for (name, text) in &project.events {
        match serde_json::from_str(text) {
            Ok(Value::Object(_)) => {}
            Ok(_) => wrong.push(format!("events/{name} is no object")),
            Err(error) => wrong.push(format!("events/{name} is no JSON: {error}")),
        }
    }
    wrong
}
