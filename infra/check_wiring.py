#!/usr/bin/env python3
"""Hold infra/recovery.asl.json and template.yaml to the promises that no linter knows.

Every rule looks at both files as they are, before any substitution, and says what it saw. All that is wrong is said at once.

Needs PyYAML.
"""

import fnmatch
import json
import re
import sys
from pathlib import Path

import yaml

PROJECT = Path(__file__).resolve().parents[1]
SERVICE_ERRORS = {
    # The list that AWS names for Lambda tasks, and throttling.
    "Lambda.ClientExecutionTimeoutException",
    "Lambda.ServiceException",
    "Lambda.AWSLambdaException",
    "Lambda.SdkClientException",
    "Lambda.TooManyRequestsException",
}
OWN_ERRORS = {"OffsetGuard.Transient", "OffsetGuard.Conflict", "OffsetGuard.InvalidRequest", "OffsetGuard.Internal"}
# The only error that proves that the function never ran.
NEVER_RAN = {"Lambda.TooManyRequestsException"}
INVOKE = "arn:aws:states:::lambda:invoke"
# What is done as the principal that may commit: one step that alters, and one that asks whether it could.
APPLIES = {"apply", "check_rights"}
# Actions that know no narrower resource, in the one statement where they are allowed.
UNSCOPED = {"ec2:", "logs:"}
# What is always asked of a key, so that a condition on the key says something.
KEYED = {"dynamodb:" + name for name in "GetItem Query PutItem UpdateItem DeleteItem ConditionCheckItem".split()}
CHANGES = {"dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"}
# What was decided stands in attributes that only the page may write: a status alone admits nothing.
DECIDER = "ApprovalPageRole"
DECIDED = {"decision", "decided_at", "decided_by", "decider", "reason"}
# Who may say that somebody asked, and is believed.
WITNESS = "WebhookPeopleRole"
# What of an input gets past the first states: the state that keeps it, and the one that then reads it first.
LETS_THROUGH = {
    "reconcile": ("KeepReconcile", "Confirm"),
    "alert": ("KeepAlert", "Report"),
    "plan_id": ("KeepPlanId", "Plan"),
    "request": ("KeepRequest", "Plan"),
}
LETS_NOTHING_THROUGH = ("KeepNothing", "Plan")
# The names of all metrics stand in these sources.
METRICS = "".join(
    path.read_text(encoding="utf-8")
    for path in [PROJECT / "shared/src/aws/metrics.rs", *sorted((PROJECT / "shared/src/aws/metrics").glob("*.rs"))]
)


class Loader(yaml.SafeLoader):
    """YAML with CloudFormation's short tags, each read as [tag, value]."""


def tagged(loader, suffix, node):
    if isinstance(node, yaml.ScalarNode):
        return [suffix, loader.construct_scalar(node)]
    if isinstance(node, yaml.SequenceNode):
        return [suffix, loader.construct_sequence(node, deep=True)]
    return [suffix, loader.construct_mapping(node, deep=True)]


Loader.add_multi_constructor("!", tagged)


def successors(state):
    """The states that may follow, as (how, name)."""
    for key in ("Next", "Default"):
        if key in state:
            yield key, state[key]
    for rule in state.get("Choices", []):
        yield "Choices", rule.get("Next")
    for catcher in state.get("Catch", []):
        yield "Catch", catcher.get("Next")


def reachable(states, start, without=None):
    """Every state that an execution can be in after `start`, if it never enters `without`."""
    seen, todo = set(), [start]
    while todo:
        name = todo.pop()
        if name in seen or name == without or name not in states:
            continue
        seen.add(name)
        todo.extend(after for _, after in successors(states[name]))
    return seen


def check_graph(machine):
    states, start = machine["States"], machine.get("StartAt")
    if "TimeoutSeconds" in machine:
        yield "the machine has a TimeoutSeconds: it cannot be caught, so the group would stay claimed"
    if start not in states:
        yield f"StartAt names {start!r}, which does not exist"
        return
    for name, state in states.items():
        if state["Type"] not in ("Succeed", "Fail") and not state.get("End") and not list(successors(state)):
            yield f"{name} leads nowhere"
        for how, after in successors(state):
            if after not in states:
                yield f"{name}: {how} names {after!r}, which does not exist"
    for name in sorted(set(states) - reachable(states, start)):
        yield f"{name} cannot be reached"
    ends = {name for name, state in states.items() if state["Type"] in ("Succeed", "Fail") or state.get("End")}
    for name in sorted(ends & reachable(states, start, without="Report")):
        yield f"{name} can be reached without Report"
    if "RequestApproval" in reachable(states, start, without="CheckRights"):
        yield "RequestApproval can be reached without CheckRights"
    if "Report" in reachable(states, "Observe", without="Verify"):
        yield "Report can be reached from Observe without Verify"
    if "Verify" in reachable(states, LETS_THROUGH["reconcile"][0], without="Confirm"):
        yield "a reconcile reaches Verify without Confirm"
    believed = [{"Variable": "$.confirm.confirmed", "BooleanEquals": True, "Next": "Reconcile"}]
    into = [(name, how) for name, state in states.items() for how, after in successors(state) if after == "Reconcile"]
    if into != [("Confirmed", "Choices")] or states["Confirmed"]["Choices"] != believed:
        yield "Reconcile can be reached by something else than the choice that Confirm has confirmed it"
    if "Plan" in reachable(states, LETS_THROUGH["reconcile"][0]):
        yield "a reconcile can be planned"
    told = [after for _, after in successors(states[LETS_THROUGH["alert"][0]])]
    if told != ["Report"]:
        yield f"an alert of the guard leads to {', '.join(map(str, told))}, not to Report alone"
    for name in sorted(states):
        if not ends & reachable(states, name):
            yield f"{name} can never end"


def check_input(machine):
    """Whoever starts an execution writes any input: one key of it gets past the first states, and no state reads another."""
    states, start = machine["States"], machine["StartAt"]
    wanted = {
        "Type": "Choice",
        "Choices": [{"Variable": f"$.{key}", "IsPresent": True, "Next": keep} for key, (keep, _) in LETS_THROUGH.items()],
        "Default": LETS_NOTHING_THROUGH[0],
    }
    if {name: value for name, value in states[start].items() if name != "Comment"} != wanted:
        yield f"{start} is another Choice than the one that keeps {', '.join(LETS_THROUGH)} apart, in this order"
    keeps = {keep: ({"Parameters": {f"{key}.$": f"$.{key}"}}, after) for key, (keep, after) in LETS_THROUGH.items()}
    keeps[LETS_NOTHING_THROUGH[0]] = ({"Result": {}}, LETS_NOTHING_THROUGH[1])
    for name, (kept, after) in keeps.items():
        state = {field: value for field, value in states.get(name, {}).items() if field != "Comment"}
        # Any further field, such as a ResultPath, could bring the rest of the input back.
        if state != {"Type": "Pass", **kept, "Next": after}:
            yield f"{name} is not a Pass of {json.dumps(kept)} alone to {after}: more of the input gets through"
    for name, state in states.items():
        for how, after in successors(state):
            if after == start or (after in keeps and name != start):
                yield f"{name}: {how} leads back to {after}"
    # Where a state says what it takes of the state before, that is a step's answer or the key that was let through.
    answers = {state["ResultPath"].split(".")[1] for state in states.values() if (state.get("ResultPath") or "$").count(".")}
    for name, state in states.items():
        if name == start or name in keeps:
            continue
        for path in re.findall(r'"(\$\.[\w.]+)"', json.dumps(without_results(state))):
            key = path.split(".")[1]
            if key not in answers and not (key in LETS_THROUGH and LETS_THROUGH[key][1] in (name, "Confirm")):
                yield f"{name} reads {path}, which no step has answered"


def without_results(state):
    """A state without what it says of its own answer."""
    results = ("ResultSelector", "ResultPath", "Catch")
    return {field: value for field, value in state.items() if field not in results}


def check_tasks(machine, functions):
    """`functions` maps a substitution's name to its resource's properties."""
    asked = set()
    for name, state in machine["States"].items():
        if state["Type"] != "Task":
            continue
        if state["Resource"] not in (INVOKE, INVOKE + ".waitForTaskToken"):
            yield f"{name} invokes {state['Resource']}, not {INVOKE}"
            continue
        target = re.fullmatch(r"\$\{(\w+)\}", state["Parameters"].get("FunctionName", ""))
        if not target or target[1] not in functions:
            yield f"{name}: FunctionName {state['Parameters'].get('FunctionName')!r} is no substitution of a function"
            continue
        function, properties = target[1], functions[target[1]]
        step = state["Parameters"].get("Payload", {}).get("step")
        asked.add((function, step))
        steps = properties["Environment"]["Variables"]["OFFSET_GUARD_STEPS"].split(",")
        if step not in steps:
            yield f"{name} asks {function} for the step {step!r}; it runs {', '.join(steps)}"
        if function == "RewindApplyFunction" and step not in APPLIES:
            yield f"{name} asks RewindApplyFunction for {step!r}: it is there for {', '.join(sorted(APPLIES))} alone"
        if (step == "apply") != (name == "Apply"):
            yield f"{name} asks for the step {step!r}: Apply, and only Apply, alters offsets"

        limit, timeout = state.get("TimeoutSeconds"), properties["Timeout"]
        if not isinstance(limit, int):
            yield f"{name} has no fixed TimeoutSeconds"
        elif limit <= timeout:
            yield f"{name} times out after {limit} s, its function only after {timeout} s"
        catchers = state.get("Catch", [])
        if not catchers or catchers[-1]["ErrorEquals"] != ["States.ALL"]:
            yield f"{name} does not catch States.ALL last"
        for catcher in catchers:
            if catcher.get("ResultPath", "$") == "$":
                yield f"{name}: a Catch drops the state's input"
            for error in set(catcher["ErrorEquals"]) - OWN_ERRORS - SERVICE_ERRORS - {"States.ALL", "States.Timeout"}:
                yield f"{name} catches {error}, which nothing raises"
        retried = {error for retrier in state.get("Retry", []) for error in retrier["ErrorEquals"]}
        for error in sorted(retried - {"OffsetGuard.Transient"} - SERVICE_ERRORS):
            yield f"{name} retries {error}"
        if (name == "Apply" or state["Resource"] != INVOKE) and retried - NEVER_RAN:
            yield f"{name} is retried although its function may have run: {', '.join(sorted(retried - NEVER_RAN))}"
    for name, properties in functions.items():
        for step in properties["Environment"]["Variables"]["OFFSET_GUARD_STEPS"].split(","):
            if (name, step) not in asked and step != "sweep":
                yield f"no state asks {name} for its step {step!r}"


def check_template(resources):
    functions = {name: r["Properties"] for name, r in resources.items() if r["Type"] == "AWS::Serverless::Function"}
    roles = {}
    for name, properties in functions.items():
        role = properties.get("Role", ["", f"a role that SAM makes for {name}"])[1]
        if role in roles:
            yield f"{name} and {roles[role]} share the role {role}"
        roles[role] = name
        if "Timeout" not in properties:
            yield f"{name} has no Timeout"
        group = properties.get("LoggingConfig", {}).get("LogGroup", [None, None])[1]
        if "RetentionInDays" not in resources.get(group, {}).get("Properties", {}):
            yield f"{name} has no log group with a retention"
    for name, resource in resources.items():
        for policy, statement in statements(resource):
            where = f"{name}, policy {policy}, statement {statement.get('Sid', '?')}"
            actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
            if statement["Effect"] == "Allow" and any("*" in action for action in actions):
                yield f"{where}: an action with a wildcard"
            if statement.get("Resource") == "*" and not all(any(a.startswith(u) for u in UNSCOPED) for a in actions):
                yield f"{where}: Resource is *"
            if any(a.startswith("dynamodb:") for a in actions):
                if "dynamodb:LeadingKeys" not in (statement.get("Condition") or {}).get("ForAllValues:StringLike", {}):
                    yield f"{where}: not limited to item types by dynamodb:LeadingKeys"
                for action in sorted(set(actions) - KEYED):
                    yield f"{where}: {action} may come without a key, and then meets the condition"
            for role in roles_of(name, resource):
                if CHANGES & set(actions) and role != DECIDER and reaches(statement, "APPROVAL#x"):
                    written = attributes(statement)
                    if "dynamodb:DeleteItem" in actions or written is None or DECIDED & set(written):
                        yield f"{where}: {role} may write what was decided about an approval; only {DECIDER} may"
                if CHANGES & set(actions) and role != WITNESS and reaches(statement, "REQUESTER#x"):
                    yield f"{where}: {role} may say who asked; only {WITNESS} may"
            if "kafka-cluster:AlterGroup" in actions and roles_of(name, resource) != ["RewindApplyRole"]:
                yield f"{where}: {', '.join(roles_of(name, resource))} may commit for groups; only RewindApplyRole may"
    for name, resource in resources.items():
        properties = resource["Properties"]
        if resource["Type"] == "AWS::Scheduler::Schedule":
            if properties.get("State") != ["Ref", "SchedulesState"]:
                yield f"{name} does not ship disabled: State is not !Ref SchedulesState"
            if "DeadLetterConfig" not in properties["Target"]:
                yield f"{name} drops what it cannot deliver: no DeadLetterConfig"
        if resource["Type"] == "AWS::CloudWatch::Alarm" and properties.get("Namespace") == "OffsetGuard":
            if f'"{properties["MetricName"]}"' not in METRICS:
                yield f"{name} watches {properties['MetricName']}, which nothing measures"
    logging = resources["Recovery"]["Properties"]["Logging"]
    if logging.get("IncludeExecutionData") is not False:
        yield "Recovery logs execution data, and with it task tokens"
    log_format = resources["ApiStage"]["Properties"]["AccessLogSettings"]["Format"]
    if re.search(r"\$context\.(path|http\.path|requestPath)\b", log_format):
        yield "the access log holds the path, and with it the link's secret id"


def reaches(statement, key):
    """Whether the statement is about items with this partition key."""
    return any(fnmatch.fnmatchcase(key, pattern) for pattern in leading_keys(statement))


def attributes(statement):
    """The attributes that the statement is held to; None for all."""
    return (statement.get("Condition") or {}).get("ForAllValues:StringEquals", {}).get("dynamodb:Attributes")


def leading_keys(statement):
    keys = (statement.get("Condition") or {}).get("ForAllValues:StringLike", {}).get("dynamodb:LeadingKeys", [])
    return keys if isinstance(keys, list) else [keys]


def roles_of(name, resource):
    """The roles that a role's own or an attached policy is for."""
    if resource["Type"] == "AWS::IAM::Role":
        return [name]
    return [role[1] for role in resource["Properties"].get("Roles", [])]


def check_api(resources):
    """Every function behind the API may be called by it, and the webhook's routes are the ones that its code knows."""
    of_type = lambda kind: {name: r["Properties"] for name, r in resources.items() if r["Type"] == kind}
    permitted = {
        permission["FunctionName"][1]
        for permission in of_type("AWS::Lambda::Permission").values()
        if permission["Principal"] == "apigateway.amazonaws.com"
    }
    for name, integration in of_type("AWS::ApiGatewayV2::Integration").items():
        function = integration["IntegrationUri"][1].split(".")[0]
        if function not in permitted:
            yield f"{name}: the API may not call {function}"
    routes = {}
    for route in of_type("AWS::ApiGatewayV2::Route").values():
        key, target = route["RouteKey"], route["Target"][1]
        if "ApprovalIntegration" in target:
            continue
        routes[key] = target
        of_people = " /v1/" in key
        if of_people != ("PeopleIntegration" in target):
            yield f"{key} leads to {target}: the routes of people, under /v1, have a function of their own"
        if of_people and (route.get("AuthorizationType") != "JWT" or "AuthorizerId" not in route):
            yield f"{key} has no JWT authorizer, and its function believes what one says"
    code = (PROJECT / "shared/src/api/routes.rs").read_text(encoding="utf-8")
    known = set(re.findall(r'"((?:GET|POST) /[^"\s]+)", Route::', code))
    for route in sorted(set(routes) ^ known):
        yield f"{route} is {'a route that the webhook does not know' if route in routes else 'no route of the template'}"
    for route in resources["ApiStage"]["Properties"].get("RouteSettings", {}):
        if route not in routes:
            yield f"ApiStage has settings for {route}, which is no route"


def holds(expression, given):
    """A rule's expression with these parameters."""
    if isinstance(expression, list) and len(expression) == 2 and expression[0] == "Ref":
        return given[expression[1]]
    if not isinstance(expression, dict):
        return expression
    (function, arguments), = expression.items()
    values = [holds(argument, given) for argument in arguments]
    if function == "Fn::Equals":
        return values[0] == values[1]
    if function == "Fn::EachMemberEquals":
        return all(member == values[1] for member in values[0].split(","))
    return {"Fn::Not": lambda: not values[0], "Fn::And": lambda: all(values), "Fn::Or": lambda: any(values)}[function]()


def check_rules(template):
    """What a deployment with sign-in must say, and what it must not get away with."""
    defaults = {name: str(parameter.get("Default", "")) for name, parameter in template["Parameters"].items()}
    sign_in = {"OidcIssuer": "https://id", "OidcClientId": "page", "OidcClientSecretArn": "arn", "OidcGroups": "approvers"}
    asks = {**sign_in, "OidcApiAudience": "api", "OidcPersonClaim": "oid", "OidcApiGroups": "askers"}
    for given, right in [
        ({}, True),
        (sign_in, True),
        (asks, True),
        ({**asks, "OidcApiGroups": "", "OidcApiScope": "rewinds"}, True),
        ({**asks, "OidcApiGroups": ""}, False),
        ({**asks, "OidcPersonClaim": ""}, False),
        ({**asks, "OidcApiAudience": "page"}, False),
        ({"OidcApiAudience": "api", "OidcPersonClaim": "oid", "OidcApiGroups": "askers"}, False),
    ]:
        values = {**defaults, **given}
        kept = all(
            holds(assertion["Assert"], values)
            for rule in template["Rules"].values()
            if holds(rule.get("RuleCondition", True), values)
            for assertion in rule["Assertions"]
        )
        if kept != right:
            yield f"Rules {'refuse' if right else 'let through'} {given or 'the defaults'}"


def check_incidents(resources):
    """The times that an incident's states hold, beside the times that the template gives its functions."""
    code = (PROJECT / "shared/domain/src/incident.rs").read_text(encoding="utf-8")
    holds = {name: int(s) for name, s in re.findall(r"const (\w+): SignedDuration = SignedDuration::from_secs\((\d+)\)", code)}
    guard, webhook = resources["Guard"]["Properties"], resources["Webhook"]["Properties"]
    for what, seconds, name, enough in [
        ("the webhook's Timeout", webhook["Timeout"], "CLAIM_HOLDS", webhook["Timeout"] < holds["CLAIM_HOLDS"]),
        ("Guard's Timeout", guard["Timeout"], "LONGEST_RUN", guard["Timeout"] <= holds["LONGEST_RUN"]),
        (
            "Guard's MaximumEventAgeInSeconds",
            guard["EventInvokeConfig"]["MaximumEventAgeInSeconds"],
            "QUEUE_HOLDS",
            guard["EventInvokeConfig"]["MaximumEventAgeInSeconds"] <= holds["QUEUE_HOLDS"],
        ),
    ]:
        if not enough:
            yield f"{what} is {seconds} s, and {name} in domain/incident.rs only {holds[name]} s"


def check_strangers(template):
    """What anybody may send cannot be kept out, but it goes past nothing that stands before the domain, and is noticed."""
    resources, parameters = template["Resources"], template["Parameters"]
    own_address = ["If", ["HasPublicUrl", ["Ref", "PublicUrl"], ["GetAtt", "Api.ApiEndpoint"]]]
    if resources["Api"]["Properties"].get("DisableExecuteApiEndpoint") != ["If", ["HasPublicUrl", True, False]]:
        yield "Api: its own address answers beside PublicUrl, past whatever protects the domain"
    for name in ("ApiUrl", "PublicUrl"):
        if template["Outputs"][name]["Value"] != own_address:
            yield f"the output {name} is not PublicUrl where that is given"
    stage = resources["ApiStage"]
    routes = {r["Properties"]["RouteKey"]: name for name, r in resources.items() if r["Type"] == "AWS::ApiGatewayV2::Route"}
    limited = stage["Properties"]["RouteSettings"]
    if any(limit != ["Ref", "PageRequestsPerSecond"] for limit in stage["Properties"]["DefaultRouteSettings"].values()):
        yield "ApiStage: the page's limit is not its parameter"
    for key in limited:
        if key.endswith("/approvals/{id}"):
            yield f"ApiStage: {key} has a limit beside the page's"
        if routes.get(key) not in stage["DependsOn"]:
            yield f"ApiStage limits {key}, and does not wait for its route"
    for key in ("POST /webhooks/{sender}", "POST /rewinds", "GET /recoveries/{id}"):
        if key not in limited:
            yield f"ApiStage: {key} shares the page's limit"
    watched = [
        r["Properties"]
        for r in resources.values()
        if r["Type"] == "AWS::CloudWatch::Alarm" and r["Properties"]["MetricName"] == "4xx"
    ]
    if not any(alarm["Dimensions"] == [{"Name": "ApiId", "Value": ["Ref", "Api"]}] for alarm in watched):
        yield "no alarm tells of requests that are throttled"
    groups = re.compile(parameters["MskGroups"]["AllowedPattern"])
    for name in ("*", "shipment-sync", "dc-1/*", "a:b/c|d?", "注#%", "=x+y@z,(1)"):
        if not groups.match(name):
            yield f"MskGroups does not take {name!r}, which a group may be called"
    for name in ("", "a b", "${aws:username}", "a\n"):
        if groups.fullmatch(name):
            yield f"MskGroups takes {name!r}"


def check_snippets():
    """What people paste is YAML, and leads to the webhook."""
    files = sorted((PROJECT / "infra/snippets").glob("*.yml"))
    if not files:
        yield "infra/snippets/ holds nothing"
    for path in files:
        text = path.read_text(encoding="utf-8")
        try:
            yaml.safe_load(text)
        except yaml.YAMLError as error:
            yield f"{path.name} is no YAML: {error}"
        for url in re.findall(r"https://API_ID\S+", text):
            if not re.fullmatch(r"https://API_ID\.execute-api\.[a-z0-9-]+\.amazonaws\.com/webhooks/\w+", url):
                yield f"{path.name}: {url} is no address of the webhook"


def statements(resource):
    properties = resource["Properties"]
    if resource["Type"] == "AWS::IAM::Role":
        for policy in properties.get("Policies", []):
            for statement in policy["PolicyDocument"]["Statement"]:
                yield policy["PolicyName"], statement
    elif resource["Type"] in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
        for statement in properties["PolicyDocument"]["Statement"]:
            yield properties.get("PolicyName", "itself"), statement


def check_substitutions(text, given):
    used = set(re.findall(r"\$\{(\w+)\}", text))
    for name in sorted(used - set(given)):
        yield f"${{{name}}} is used in the definition and not given in the template"
    for name in sorted(set(given) - used):
        yield f"{name} is given in the template and not used in the definition"


def check_events():
    files = sorted((PROJECT / "events").glob("*.json"))
    if not files:
        yield "events/ holds no example"
    for path in files:
        try:
            json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            yield f"events/{path.name} is no JSON: {error}"


def writers(resources, key):
    """Who may change items with this partition key, and which of their attributes (none named: all)."""
    for name, resource in resources.items():
        for _, statement in statements(resource):
            actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
            changes = sorted(CHANGES & set(actions))
            if changes and reaches(statement, key):
                for role in roles_of(name, resource):
                    yield {"role": role, "actions": changes, "attributes": attributes(statement)}


def main():
    template = yaml.load((PROJECT / "template.yaml").read_text(encoding="utf-8"), Loader)
    if sys.argv[1:2] == ["--writers"]:
        # For the tests, which try what these may do.
        print(json.dumps(list(writers(template["Resources"], sys.argv[2]))))
        return 0
    text = (PROJECT / "infra/recovery.asl.json").read_text(encoding="utf-8")
    try:
        machine = json.loads(text)
    except ValueError as error:
        print(f"infra/recovery.asl.json is no JSON before substitution: {error}", file=sys.stderr)
        return 1
    resources = template["Resources"]
    given = resources["Recovery"]["Properties"]["DefinitionSubstitutions"]
    functions = {name: resources[value[1].split(".")[0]]["Properties"] for name, value in given.items()}

    wrong = [
        *check_substitutions(text, given),
        *check_graph(machine),
        *check_input(machine),
        *check_tasks(machine, functions),
        *check_template(resources),
        *check_api(resources),
        *check_rules(template),
        *check_incidents(resources),
        *check_strangers(template),
        *check_events(),
        *check_snippets(),
    ]
    for line in wrong:
        print(line, file=sys.stderr)
    if not wrong:
        print(f"{len(machine['States'])} states, {len(functions)} functions and {len(resources)} resources keep their promises")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
