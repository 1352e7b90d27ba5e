//! That every rule can fail: the documents are broken on purpose, in memory, once for each thing that a rule may say.

use serde_json::{Value, json};

use super::Project;

/// What is done to the documents, and what is then said.
type Break = (fn(&mut Project), &'static str);

fn every_case_is_noticed(cases: &[Break]) {
    let whole = Project::read();
    for (change, said) in cases {
        let mut broken = whole.clone();
        change(&mut broken);
        let wrong = broken.wrong();
        assert!(
            wrong.iter().any(|line| line.contains(said)),
            "{said}: {wrong:#?}"
        );
    }
}

fn state<'a>(project: &'a mut Project, name: &str) -> &'a mut Value {
    &mut project.machine["States"][name]
}

fn properties<'a>(project: &'a mut Project, name: &str) -> &'a mut Value {
    &mut project.template["Resources"][name]["Properties"]
}

/// A statement of a role's own policy.
fn statement<'a>(project: &'a mut Project, role: &str, sid: &str) -> &'a mut Value {
    let policies = &mut properties(project, role)["Policies"];
    let mut statements = policies
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .flat_map(|policy| {
            policy["PolicyDocument"]["Statement"]
                .as_array_mut()
                .unwrap()
        });
    statements
        .find(|statement| statement["Sid"] == sid)
        .unwrap()
}

fn remove(value: &mut Value, field: &str) {
    let removed = value.as_object_mut().unwrap().remove(field);
    assert!(removed.is_some(), "{field}");
}

#[test]
fn a_graph_with_gaps() {
    every_case_is_noticed(&[
        (
            |p| p.machine["TimeoutSeconds"] = json!(60),
            "the machine has a TimeoutSeconds",
        ),
        (
            |p| p.machine["StartAt"] = json!("Begin"),
            "StartAt names \"Begin\"",
        ),
        (
            |p| remove(state(p, "WaitForApply"), "Next"),
            "WaitForApply leads nowhere",
        ),
        (
            |p| state(p, "Observe")["Next"] = json!("Observe2"),
            "Observe: Next names \"Observe2\"",
        ),
        (
            |p| state(p, "Confirmed")["Choices"][0]["Next"] = json!("Gone"),
            "Confirmed: Choices names \"Gone\"",
        ),
        (
            |p| state(p, "Apply")["Catch"][0]["Next"] = json!("Gone"),
            "Apply: Catch names \"Gone\"",
        ),
        (
            |p| p.machine["States"]["Lone"] = json!({ "Type": "Succeed" }),
            "Lone cannot be reached",
        ),
        (
            |p| state(p, "Planned")["Default"] = json!("Failed"),
            "Failed can be reached without Report",
        ),
        (
            |p| state(p, "WaitForApply")["Next"] = json!("WaitForApply"),
            "WaitForApply can never end",
        ),
    ]);
}

#[test]
fn a_way_around_what_has_to_come_before() {
    every_case_is_noticed(&[
        (
            |p| state(p, "Planned")["Choices"][0]["Next"] = json!("RequestApproval"),
            "RequestApproval can be reached without CheckRights",
        ),
        (
            |p| state(p, "Apply")["Next"] = json!("Report"),
            "Report can be reached from Observe without Verify",
        ),
        (
            |p| state(p, "KeepReconcile")["Next"] = json!("Reconcile"),
            "a reconcile reaches Verify without Confirm",
        ),
        (
            |p| state(p, "Planned")["Default"] = json!("Reconcile"),
            "Reconcile can be reached by something else",
        ),
        (
            |p| state(p, "Confirmed")["Choices"][0]["BooleanEquals"] = json!(false),
            "Reconcile can be reached by something else",
        ),
        (
            |p| state(p, "KeepReconcile")["Next"] = json!("Plan"),
            "a reconcile can be planned",
        ),
        (
            |p| state(p, "KeepAlert")["Next"] = json!("Plan"),
            "an alert of the guard leads to Plan, not to Report alone",
        ),
    ]);
}

#[test]
fn more_of_an_input_than_one_key() {
    every_case_is_noticed(&[
        (
            |p| {
                state(p, "Start")["Choices"]
                    .as_array_mut()
                    .unwrap()
                    .swap(0, 1)
            },
            "Start is another Choice",
        ),
        (
            |p| state(p, "Start")["Default"] = json!("KeepRequest"),
            "Start is another Choice",
        ),
        (
            |p| state(p, "KeepRequest")["ResultPath"] = json!("$.kept"),
            "KeepRequest is not a Pass",
        ),
        (
            |p| remove(state(p, "KeepNothing"), "Result"),
            "KeepNothing is not a Pass",
        ),
        (
            |p| state(p, "Planned")["Default"] = json!("KeepAlert"),
            "Planned: Default leads back to KeepAlert",
        ),
        (
            |p| state(p, "Planned")["Default"] = json!("Start"),
            "Planned: Default leads back to Start",
        ),
        (
            |p| {
                state(p, "Apply")["Parameters"]["Payload"]["plan_id.$"] = json!("$.request.plan_id")
            },
            "Apply reads $.request.plan_id",
        ),
        (
            |p| state(p, "Verified")["Choices"][0]["Variable"] = json!("$.anything"),
            "Verified reads $.anything",
        ),
    ]);
}

#[test]
fn a_task_that_asks_for_something_else() {
    every_case_is_noticed(&[
        (
            |p| state(p, "Plan")["Resource"] = json!("arn:aws:states:::sqs:sendMessage"),
            "Plan invokes arn:aws:states:::sqs:sendMessage",
        ),
        (
            |p| state(p, "Plan")["Parameters"]["FunctionName"] = json!("rewind"),
            "Plan: FunctionName \"rewind\" is no substitution",
        ),
        (
            |p| state(p, "Plan")["Parameters"]["FunctionName"] = json!("${GuardFunction}"),
            "Plan: FunctionName \"${GuardFunction}\" is no substitution",
        ),
        (
            |p| state(p, "Plan")["Parameters"]["Payload"]["step"] = json!("prove"),
            "Plan asks RewindFunction for the step \"prove\"",
        ),
        (
            |p| state(p, "Verify")["Parameters"]["FunctionName"] = json!("${RewindApplyFunction}"),
            "Verify asks RewindApplyFunction for \"verify\"",
        ),
        (
            |p| state(p, "Verify")["Parameters"]["Payload"]["step"] = json!("apply"),
            "Verify asks for the step \"apply\": Apply, and only Apply",
        ),
        (
            |p| state(p, "Apply")["Parameters"]["Payload"]["step"] = json!("check_rights"),
            "Apply asks for the step \"check_rights\": Apply, and only Apply",
        ),
        (
            |p| {
                properties(p, "Rewind")["Environment"]["Variables"]["OFFSET_GUARD_STEPS"] =
                    json!("plan,observe,verify,apply")
            },
            "no state asks RewindFunction for its step \"apply\"",
        ),
        (
            |p| {
                properties(p, "Rewind")["Environment"]["Variables"]["OFFSET_GUARD_STEPS"] =
                    json!("plan,observe,verify,prove")
            },
            "RewindFunction runs \"prove\", which is no step of the code",
        ),
    ]);
}

#[test]
fn a_task_that_gives_up_drops_or_repeats() {
    every_case_is_noticed(&[
        (
            |p| remove(state(p, "Plan"), "TimeoutSeconds"),
            "Plan has no fixed TimeoutSeconds",
        ),
        (
            |p| state(p, "Plan")["TimeoutSeconds"] = json!(120),
            "Plan times out after 120 s, its function only after 120 s",
        ),
        (
            |p| properties(p, "RewindApply")["Timeout"] = json!(900),
            "Apply times out after 150 s, its function only after 900 s",
        ),
        (
            |p| remove(state(p, "Plan"), "Catch"),
            "Plan does not catch States.ALL last",
        ),
        (
            |p| state(p, "Plan")["Catch"][0]["ErrorEquals"] = json!(["States.Timeout"]),
            "Plan does not catch States.ALL last",
        ),
        (
            |p| remove(&mut state(p, "Plan")["Catch"][0], "ResultPath"),
            "Plan: a Catch drops the state's input",
        ),
        (
            |p| state(p, "Plan")["Catch"][0]["ErrorEquals"] = json!(["OffsetGuard.Odd"]),
            "Plan catches OffsetGuard.Odd, which nothing raises",
        ),
        (
            |p| state(p, "Plan")["Retry"][0]["ErrorEquals"] = json!(["OffsetGuard.Conflict"]),
            "Plan retries OffsetGuard.Conflict",
        ),
        (
            |p| state(p, "Apply")["Retry"][0]["ErrorEquals"] = json!(["OffsetGuard.Transient"]),
            "Apply is retried although its function may have run",
        ),
        (
            |p| {
                state(p, "RequestApproval")["Retry"][0]["ErrorEquals"] =
                    json!(["Lambda.ServiceException"])
            },
            "RequestApproval is retried although its function may have run",
        ),
        (
            forget_retries,
            "nothing is tried again after OffsetGuard.Transient",
        ),
    ]);
}

fn forget_retries(project: &mut Project) {
    for state in project.machine["States"]
        .as_object_mut()
        .unwrap()
        .values_mut()
    {
        state.as_object_mut().unwrap().remove("Retry");
    }
}

#[test]
fn a_definition_and_its_substitutions() {
    every_case_is_noticed(&[
        (
            |p| state(p, "Plan")["Comment"] = json!("${Other}"),
            "${Other} is used in the definition and not given in the template",
        ),
        (
            |p| {
                properties(p, "Recovery")["DefinitionSubstitutions"]["Other"] =
                    json!({ "GetAtt": "Guard.Arn" })
            },
            "Other is given in the template and not used in the definition",
        ),
    ]);
}

#[test]
fn a_function_without_its_own() {
    every_case_is_noticed(&[
        (
            |p| properties(p, "RewindApply")["Role"] = json!({ "GetAtt": "RewindRole.Arn" }),
            "share the role RewindRole",
        ),
        (
            |p| remove(properties(p, "Guard"), "Timeout"),
            "Guard has no Timeout",
        ),
        (
            |p| remove(properties(p, "GuardLog"), "RetentionInDays"),
            "Guard has no log group with a retention",
        ),
        (
            |p| remove(properties(p, "Guard"), "LoggingConfig"),
            "Guard has no log group with a retention",
        ),
    ]);
}

#[test]
fn a_policy_that_lets_more() {
    every_case_is_noticed(&[
        (
            |p| statement(p, "GuardRole", "Remember")["Action"] = json!("dynamodb:*"),
            "GuardRole, policy steps, statement Remember: an action with a wildcard",
        ),
        (
            |p| statement(p, "GuardRole", "Remember")["Resource"] = json!("*"),
            "GuardRole, policy steps, statement Remember: Resource is *",
        ),
        (
            |p| remove(statement(p, "GuardRole", "Remember"), "Condition"),
            "Remember: not limited to item types by dynamodb:LeadingKeys",
        ),
        (
            |p| statement(p, "GuardRole", "Remember")["Action"] = json!(["dynamodb:Scan"]),
            "Remember: dynamodb:Scan may come without a key",
        ),
        (
            |p| lead_to(p, "GuardRole", "Remember", "APPROVAL#*"),
            "GuardRole may write what was decided about an approval; only ApprovalPageRole may",
        ),
        (
            |p| lead_to(p, "GuardRole", "Remember", "*"),
            "GuardRole may say who asked; only WebhookPeopleRole may",
        ),
        (add_decision, "may write what was decided about an approval"),
        (add_delete, "may write what was decided about an approval"),
        (
            |p| lead_to(p, "WebhookRole", "Claim", "REQUESTER#*"),
            "WebhookRole may say who asked; only WebhookPeopleRole may",
        ),
        (
            |p| properties(p, "MskApply")["Roles"] = json!([{ "Ref": "GuardRole" }]),
            "GuardRole may commit for groups; only RewindApplyRole may",
        ),
        (
            |p| {
                properties(p, "MskApply")["Roles"] =
                    json!([{ "Ref": "RewindApplyRole" }, { "Ref": "RewindRole" }])
            },
            "RewindApplyRole, RewindRole may commit for groups",
        ),
    ]);
}

fn lead_to(project: &mut Project, role: &str, sid: &str, key: &str) {
    let condition = &mut statement(project, role, sid)["Condition"]["ForAllValues:StringLike"];
    condition["dynamodb:LeadingKeys"] = json!([key]);
}

/// The statements of a role that may change an approval's status.
fn closing<'a>(project: &'a mut Project, role: &str) -> &'a mut Value {
    let policies = properties(project, role)["Policies"]
        .as_array_mut()
        .unwrap();
    let mut statements = policies.iter_mut().flat_map(|policy| {
        policy["PolicyDocument"]["Statement"]
            .as_array_mut()
            .unwrap()
    });
    let closes = |statement: &Value| {
        let attributes =
            &statement["Condition"]["ForAllValues:StringEquals"]["dynamodb:Attributes"];
        let keys = &statement["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"];
        attributes.to_string().contains("\"status\"") && keys.to_string().contains("APPROVAL#")
    };
    statements.find(|statement| closes(statement)).unwrap()
}

fn add_decision(project: &mut Project) {
    let statement = closing(project, "RewindRole");
    let attributes =
        &mut statement["Condition"]["ForAllValues:StringEquals"]["dynamodb:Attributes"];
    attributes.as_array_mut().unwrap().push(json!("decision"));
}

fn add_delete(project: &mut Project) {
    closing(project, "RewindRole")["Action"] = json!(["dynamodb:DeleteItem"]);
}

#[test]
fn a_schedule_an_alarm_or_a_log() {
    every_case_is_noticed(&[
        (
            |p| properties(p, "GuardRuns")["State"] = json!("ENABLED"),
            "GuardRuns does not ship disabled",
        ),
        (
            |p| {
                remove(
                    &mut properties(p, "GuardRuns")["Target"],
                    "DeadLetterConfig",
                )
            },
            "GuardRuns drops what it cannot deliver",
        ),
        (
            |p| properties(p, "GuardBlind")["MetricName"] = json!("GroupsUnread"),
            "GuardBlind watches GroupsUnread, which nothing measures",
        ),
        (
            |p| properties(p, "GuardBlind")["MetricName"] = json!("LagMax"),
            "GuardBlind watches LagMax, which nothing measures",
        ),
        (
            |p| properties(p, "Recovery")["Logging"]["IncludeExecutionData"] = json!(true),
            "Recovery logs execution data",
        ),
        (
            |p| {
                remove(
                    &mut properties(p, "Recovery")["Logging"],
                    "IncludeExecutionData",
                )
            },
            "Recovery logs execution data",
        ),
        (
            |p| properties(p, "ApiStage")["AccessLogSettings"]["Format"] = json!("$context.path"),
            "the access log holds the path",
        ),
    ]);
}

#[test]
fn routes_that_differ() {
    every_case_is_noticed(&[
        (
            |p| properties(p, "WebhookPermission")["Principal"] = json!("events.amazonaws.com"),
            "WebhookIntegration: the API may not call Webhook",
        ),
        (
            |p| {
                properties(p, "VerifiedMeGet")["Target"] =
                    json!({ "Sub": "integrations/${WebhookIntegration}" })
            },
            "the routes of people, under /v1, have a function of their own",
        ),
        (
            |p| {
                properties(p, "RewindPost")["Target"] =
                    json!({ "Sub": "integrations/${PeopleIntegration}" })
            },
            "the routes of people, under /v1, have a function of their own",
        ),
        (
            |p| properties(p, "VerifiedMeGet")["AuthorizationType"] = json!("NONE"),
            "GET /v1/me has no JWT authorizer",
        ),
        (
            |p| remove(properties(p, "VerifiedMeGet"), "AuthorizerId"),
            "GET /v1/me has no JWT authorizer",
        ),
        (
            |p| properties(p, "RewindPost")["RouteKey"] = json!("POST /forwards"),
            "POST /forwards is a route that the webhook does not know",
        ),
        (
            |p| properties(p, "RewindPost")["RouteKey"] = json!("POST /forwards"),
            "POST /rewinds is no route of the template",
        ),
        (
            |p| properties(p, "RewindPost")["RouteKey"] = json!("POST /forwards"),
            "ApiStage has settings for POST /rewinds, which is no route",
        ),
    ]);
}

#[test]
fn rules_that_refuse_or_let_through() {
    every_case_is_noticed(&[
        (|p| p.template["Rules"] = json!({}), "Rules let through"),
        (
            |p| p.template["Rules"]["WhoAsksIsNamed"]["Assertions"] = json!([]),
            "Rules let through",
        ),
        (
            |p| remove(&mut p.template["Rules"]["WhoAsksIsNamed"], "RuleCondition"),
            "Rules refuse []",
        ),
        (
            |p| p.template["Parameters"]["OidcIssuer"]["Default"] = json!("https://id"),
            "Rules refuse []",
        ),
    ]);
}

#[test]
fn times_longer_than_an_incident_holds() {
    every_case_is_noticed(&[
        (
            |p| properties(p, "Webhook")["Timeout"] = json!(15),
            "the webhook's Timeout is 15 s, and CLAIM_HOLDS only 15 s",
        ),
        (
            |p| properties(p, "Guard")["Timeout"] = json!(901),
            "Guard's Timeout is 901 s, and LONGEST_RUN only 900 s",
        ),
        (
            |p| {
                properties(p, "Guard")["EventInvokeConfig"]["MaximumEventAgeInSeconds"] = json!(901)
            },
            "Guard's MaximumEventAgeInSeconds is 901 s, and QUEUE_HOLDS only 900 s",
        ),
    ]);
}

#[test]
fn a_way_past_the_domain_and_its_limits() {
    every_case_is_noticed(&[
        (
            |p| remove(properties(p, "Api"), "DisableExecuteApiEndpoint"),
            "Api: its own address answers beside PublicUrl",
        ),
        (
            |p| p.template["Outputs"]["ApiUrl"]["Value"] = json!({ "GetAtt": "Api.ApiEndpoint" }),
            "the output ApiUrl is not PublicUrl",
        ),
        (
            |p| properties(p, "ApiStage")["DefaultRouteSettings"]["ThrottlingRateLimit"] = json!(5),
            "the page's limit is not its parameter",
        ),
        (
            |p| {
                properties(p, "ApiStage")["RouteSettings"]["GET /approvals/{id}"] =
                    json!({ "ThrottlingRateLimit": 5 })
            },
            "ApiStage: GET /approvals/{id} has a limit beside the page's",
        ),
        (
            |p| {
                p.template["Resources"]["ApiStage"]["DependsOn"] =
                    json!(["WebhookPost", "RecoveryGet"])
            },
            "ApiStage limits POST /rewinds, and does not wait for its route",
        ),
        (
            |p| {
                remove(
                    &mut properties(p, "ApiStage")["RouteSettings"],
                    "POST /rewinds",
                )
            },
            "ApiStage: POST /rewinds shares the page's limit",
        ),
        (
            |p| properties(p, "ApiRefusals")["MetricName"] = json!("5xx"),
            "no alarm tells of requests that are throttled",
        ),
        (
            |p| properties(p, "ApiRefusals")["Dimensions"] = json!([]),
            "no alarm tells of requests that are throttled",
        ),
        (
            |p| p.template["Parameters"]["MskGroups"]["AllowedPattern"] = json!("^[^/]+$"),
            "MskGroups does not take \"dc-1/*\"",
        ),
        (
            |p| p.template["Parameters"]["MskGroups"]["AllowedPattern"] = json!("^.*$"),
            "MskGroups takes \"${aws:username}\"",
        ),
    ]);
}

#[test]
fn what_people_copy() {
    every_case_is_noticed(&[
        (|p| p.snippets.clear(), "infra/snippets/ holds nothing"),
        (|p| p.snippets[0].1 = "a: [".to_owned(), "is no YAML"),
        (
            |p| p.snippets[0].1 = "url: https://API_ID.example.com/webhooks/x".to_owned(),
            "is no address of the webhook",
        ),
        (|p| p.events.clear(), "events/ holds no example"),
        (|p| p.events[0].1 = "{".to_owned(), "is no JSON"),
        (|p| p.events[0].1 = "[]".to_owned(), "is no object"),
    ]);
}
