use std::collections::BTreeMap;

use data_encoding::BASE64;
use serde_json::{Value, json};

use super::TokenIssuer;
use super::answer::{Answer, LONGEST_BODY};
use super::body::{Alert, firing};
use super::choose::groups;
use super::fault::ApiFault;
use super::operator::{guard_event, key, rewind_input};
use super::recovery::{may_see, result};
use crate::config::{Config, Sender, SenderKind};
use crate::domain::audit::{Audit, AuditStatus};
use crate::domain::identity::{Identity, Requester};
use crate::domain::offset::TopicPartition;
use crate::domain::refusal::Refusal;
use crate::http::Request;
use crate::wire::guard::{AskedAction, GuardAsk};

const CONFIG: &str = r#"
[clusters.main]
bootstrap_servers = ["broker:9092"]
auth = "plaintext"

[clusters.other]
bootstrap_servers = ["broker:9093"]
auth = "plaintext"

[[groups]]
cluster = "main"
name = "shipment-sync"

[[groups]]
cluster = "main"
pattern = "billing-*"

[[groups]]
cluster = "other"
name = "shipment-sync"

[senders.prometheus]
kind = "alertmanager"
secret = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:prometheus"
groups = ["shipment-sync", "billing-eu*"]

[senders.fixed]
kind = "alertmanager"
secret = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:fixed"
cluster = "other"
group_label = "group"
groups = ["*"]

[senders.grafana]
kind = "grafana"
secret = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:grafana"
groups = ["*"]

[senders.plain]
kind = "json"
secret = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:plain"
groups = ["*"]

[senders.oncall]
kind = "operator"
secret = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:oncall"
groups = ["shipment-sync", "billing-*"]
"#;

fn config() -> Config {
    Config::parse(CONFIG).unwrap_or_else(|errors| panic!("{errors}"))
}

fn sender<'c>(config: &'c Config, name: &str) -> &'c Sender {
    config.sender(name).unwrap()
}

fn alert(status: &str, labels: Value, starts_at: &str) -> Value {
    json!({
        "status": status, "labels": labels, "annotations": {"summary": "it stands still"},
        "startsAt": starts_at, "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "http://prometheus/graph", "fingerprint": "c0ffee",
    })
}

fn notification(version: &str, alerts: &[Value]) -> String {
    json!({
        "version": version, "groupKey": "{}:{}", "truncatedAlerts": 0, "status": "firing",
        "receiver": "offset-guard", "groupLabels": {}, "commonLabels": {}, "commonAnnotations": {},
        "externalURL": "http://alertmanager", "somethingNew": [1], "alerts": alerts,
    })
    .to_string()
}

fn read(config: &Config, name: &str, text: &str) -> Result<Vec<Alert>, Answer> {
    let sender = sender(config, name);
    firing(sender.kind, sender.alerts.as_ref().unwrap(), text).map_err(Answer::from)
}

/// A cluster and a group.
type Named = (String, String);

/// What a body chooses: the groups, and the answers to the alerts that choose none.
fn chosen(name: &str, text: &str) -> (Vec<Named>, Vec<(u16, &'static str)>) {
    let config = config();
    let alerts = read(&config, name, text).unwrap();
    let sender = sender(&config, name);
    let chosen = groups(&config, sender, sender.alerts.as_ref().unwrap(), &alerts);
    let named = chosen.groups.into_keys();
    let refused = chosen.problems.into_iter().map(Answer::from);
    (
        named.map(|(cluster, group)| (cluster, group.0)).collect(),
        refused.map(|answer| (answer.status, answer.code)).collect(),
    )
}

const AT: &str = "2026-11-30T10:00:00.123Z";

fn of(cluster: &str, group: &str) -> Named {
    (cluster.to_owned(), group.to_owned())
}

#[test]
fn the_labels_choose_configured_groups_that_the_sender_may_name() {
    let labels = |cluster: &str, group: &str| json!({"cluster": cluster, "consumergroup": group});
    let body = notification(
        "4",
        &[
            alert("firing", labels("main", "shipment-sync"), AT),
            alert("firing", labels("main", "billing-eu-1"), AT),
            alert("firing", labels("main", "billing-us"), AT),
            alert("firing", labels("main", "unknown"), AT),
            alert("firing", labels("nowhere", "shipment-sync"), AT),
            alert("firing", json!({"cluster": "main"}), AT),
            alert("firing", json!({"consumergroup": "shipment-sync"}), AT),
            alert("resolved", labels("other", "shipment-sync"), AT),
        ],
    );
    let (named, refused) = chosen("prometheus", &body);
    assert_eq!(
        named,
        [of("main", "billing-eu-1"), of("main", "shipment-sync")]
    );
    let unknown = (422, "NO_SUCH_GROUP");
    assert_eq!(
        refused,
        [
            (403, "GROUP_NOT_ALLOWED"),
            unknown,
            unknown,
            unknown,
            unknown
        ]
    );
}

#[test]
fn a_group_that_is_not_configured_is_told_with_the_near_one_that_the_sender_may_name() {
    let named = |sender: &str, group: &str| {
        let body = json!({"cluster": "main", "group": group});
        let config = config();
        let event = guard_event(&config, self::sender(&config, sender), &body.to_string());
        Answer::from(event.unwrap_err()).message
    };
    let says = "group \"Shipment-Sync\" of cluster main is not configured; did you mean \"shipment-sync\"?";
    assert_eq!(named("oncall", "Shipment-Sync"), says);
    let says = "group \"something\" of cluster main is not configured; write a configured one";
    assert_eq!(named("oncall", "something"), says);
    let long = named("oncall", &"注".repeat(300));
    assert!(long.contains(&format!("{}…", "注".repeat(100))), "{long}");
    let too_long = named("oncall", &"g".repeat(1_100));
    assert!(
        too_long.contains("a group's name of 1,100 bytes cannot be kept"),
        "{too_long}"
    );
}

#[test]
fn what_is_no_json_or_of_another_form_is_told_by_its_place_and_not_in_the_parsers_words() {
    let config = config();
    let message = |name: &str, text: &str| read(&config, name, text).unwrap_err().message;
    assert_eq!(
        message("prometheus", "{\n  \"version\": \"4\",,\n}"),
        "the body is no JSON at line 2, column 18; write a JSON object"
    );
    assert_eq!(
        message("plain", "{} {}"),
        "the body is no JSON at line 1, column 4; write a JSON object"
    );
    let labels = json!({"cluster": "main", "consumergroup": "shipment-sync"});
    let good = alert("firing", labels.clone(), AT);
    let bad = alert("firing", labels, "yesterday");
    let says = message("prometheus", &notification("4", &[good, bad]));
    assert!(
        says.starts_with("alerts[1].startsAt is not of the form"),
        "{says}"
    );
    for body in ["[]", "5", "{}"] {
        let says = message("prometheus", body);
        assert!(
            says.starts_with("the body is not of the form"),
            "{body}: {says}"
        );
    }
}

#[test]
fn the_cluster_of_a_sender_stands_over_what_its_alerts_call_theirs() {
    let labels = json!({"cluster": "k8s-eu", "group": "shipment-sync"});
    let body = notification("4", &[alert("firing", labels, AT)]);
    let (named, refused) = chosen("fixed", &body);
    assert_eq!(named, [of("other", "shipment-sync")]);
    assert_eq!(refused, []);
}

#[test]
fn many_alerts_of_one_group_are_one_and_as_new_as_the_newest() {
    let config = config();
    let labels = |n: usize| json!({"cluster": "main", "consumergroup": "shipment-sync", "partition": n.to_string()});
    let alerts: Vec<Value> = (0..100)
        .map(|n| {
            alert(
                "firing",
                labels(n),
                &format!("2026-11-30T10:00:{:02}Z", n % 60),
            )
        })
        .collect();
    let sender = sender(&config, "prometheus");
    let alerts = read(&config, "prometheus", &notification("4", &alerts)).unwrap();
    let chosen = groups(&config, sender, sender.alerts.as_ref().unwrap(), &alerts);
    let newest = Some("2026-11-30T10:00:59Z".parse().unwrap());
    assert_eq!(chosen.groups.into_values().collect::<Vec<_>>(), [newest]);
}

#[test]
fn each_sender_writes_its_own_version() {
    let config = config();
    let labels = json!({"cluster": "main", "consumergroup": "shipment-sync"});
    let alerts = [alert("firing", labels, AT)];
    assert_eq!(
        read(&config, "grafana", &notification("1", &alerts))
            .unwrap()
            .len(),
        1
    );
    for (name, version) in [("grafana", "4"), ("prometheus", "1"), ("prometheus", "5")] {
        let answer = read(&config, name, &notification(version, &alerts)).unwrap_err();
        assert_eq!(
            (answer.status, answer.code),
            (400, "INVALID_BODY"),
            "{name}"
        );
    }
}

#[test]
fn a_plain_body_is_one_alert_and_has_no_unknown_field() {
    let config = config();
    let plain = |body: Value| read(&config, "plain", &body.to_string());
    let labels = BTreeMap::from([
        ("cluster".to_owned(), "main".to_owned()),
        ("group".to_owned(), "shipment-sync".to_owned()),
    ]);
    let named = json!({"cluster": "main", "group": "shipment-sync"});
    let since = None;
    assert_eq!(plain(named), Ok(vec![Alert { labels, since }]));
    let resolved = json!({"group": "g", "status": "resolved"});
    assert_eq!(plain(resolved), Ok(vec![]));
    let dated = json!({"group": "g", "status": "firing", "starts_at": AT});
    assert_eq!(plain(dated).unwrap()[0].since, Some(AT.parse().unwrap()));
    for (wrong, says) in [
        (json!({"gruop": "g"}), "did you mean `group`?"),
        (json!({"group": 5}), "group: write a text in quotes"),
        (json!({"group": "g", "status": "on"}), "\"resolved\""),
        (
            json!({"group": "g", "starts_at": "2026-11-30T10:00:00"}),
            "with a zone",
        ),
        (json!(["g"]), ""),
    ] {
        let answer = plain(wrong.clone()).unwrap_err();
        assert_eq!(answer.status, 400, "{wrong}");
        assert!(answer.message.contains(says), "{answer:?}");
    }
}

#[test]
fn an_operators_request_to_guard_is_passed_on_with_who_really_asked() {
    let config = config();
    let oncall = sender(&config, "oncall");
    let body = json!({
        "cluster": "main", "group": "shipment-sync",
        "ask": {
            "action": "skip_poison_record", "topic": "shipments", "partition": 3, "through": 9,
            "requested_by": "ada", "reason": "a broken record",
        },
    });
    let event = guard_event(&config, oncall, &body.to_string()).unwrap();
    let ask = GuardAsk {
        action: AskedAction::SkipPoisonRecord,
        topic: "shipments".to_owned(),
        partition: 3,
        through: Some(9),
        dry_run: None,
        requested_by: "oncall, for ada (not verified)".to_owned(),
        reason: "a broken record".to_owned(),
    };
    assert_eq!(event.cluster.as_deref(), Some("main"));
    assert_eq!(event.group.as_deref(), Some("shipment-sync"));
    assert_eq!(event.incident, None);
    assert_eq!(event.ask, Some(ask));

    for (pointer, value, status) in [
        ("/ask/action", json!("delete_group"), 400),
        ("/ask/partition", json!(-1), 400),
        ("/ask/through", json!(-1), 400),
        ("/ask/topic", json!(""), 400),
        ("/ask/reason", json!("x".repeat(600)), 400),
        ("/ask/requested_by", json!(5), 400),
        ("/ask/requested_by", json!("x".repeat(600)), 400),
        ("/ask", json!({"action": "rewind_offset"}), 400),
        ("/group", json!("unknown"), 422),
        ("/cluster", json!("other"), 200),
    ] {
        let mut other = body.clone();
        *other.pointer_mut(pointer).unwrap() = value;
        let answer = guard_event(&config, oncall, &other.to_string());
        let got = answer.map_or_else(|problem| Answer::from(problem).status, |_| 200);
        assert_eq!(got, status, "{other}");
    }
    let mut forged = body.clone();
    forged["incident"] = json!("GROUP#main#g#R");
    assert!(guard_event(&config, oncall, &forged.to_string()).is_err());
}

#[test]
fn a_rewind_is_a_dry_run_unless_it_says_otherwise_and_names_who_really_asked() {
    let config = config();
    let oncall = sender(&config, "oncall");
    let input =
        |request: Value| rewind_input(&config, oncall, &json!({"request": request}).to_string());
    let written =
        json!({"cluster": "main", "group": "shipment-sync", "shift_by": -3, "reason": "a test"});
    let mut wanted = written.clone();
    wanted["dry_run"] = json!(true);
    wanted["requested_by"] = json!("oncall");
    assert_eq!(input(written.clone()).unwrap(), json!({"request": wanted}));

    let mut live = written.clone();
    live["dry_run"] = json!(false);
    live["requested_by"] = json!("ada");
    let live = input(live).unwrap();
    assert_eq!(live["request"]["dry_run"], false);
    assert_eq!(
        live["request"]["requested_by"],
        "oncall, for ada (not verified)"
    );

    for (change, status, code) in [
        (json!({"group": "unknown"}), 422, "NO_SUCH_GROUP"),
        (json!({"cluster": "nowhere"}), 422, "NO_SUCH_GROUP"),
        (json!({"shift_by": null}), 400, "INVALID_REQUEST"),
        (json!({"shiftby": -3}), 400, "INVALID_REQUEST"),
        (json!({"requested_by": 5}), 400, "INVALID_REQUEST"),
        (json!({"to_earliest": true}), 400, "INVALID_REQUEST"),
    ] {
        let mut request = written.clone();
        request
            .as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        let answer = Answer::from(input(request).unwrap_err());
        assert_eq!((answer.status, answer.code), (status, code), "{change}");
    }
}

fn issuer(groups: &[&str], scope: Option<&str>) -> Result<TokenIssuer, String> {
    TokenIssuer::new(
        "https://id.example".to_owned(),
        "oid".to_owned(),
        "groups".to_owned(),
        groups.iter().map(|&group| group.to_owned()).collect(),
        scope.map(str::to_owned),
    )
}

/// A request as API Gateway hands it over.
fn handed_over(context: Value) -> Request {
    Request::from_event(json!({
        "routeKey": "POST /v1/rewinds", "requestContext": context,
        "headers": {"authorization": "Bearer whatever"},
    }))
    .unwrap()
}

fn with_claims(claims: Value) -> Request {
    handed_over(json!({"authorizer": {"jwt": {"claims": claims, "scopes": null}}}))
}

fn maras_claims() -> Value {
    json!({
        "iss": "https://id.example", "oid": "7", "sub": "of this client", "name": "Mara Ito", "exp": "1",
        "groups": "[askers others]", "scope": "openid rewinds:ask", "azp": "cli",
    })
}

fn changed(name: &str, value: Value) -> Request {
    let mut claims = maras_claims();
    claims[name] = value;
    with_claims(claims)
}

fn code(asked: Result<Identity, ApiFault>) -> Option<&'static str> {
    asked.err().map(|problem| Answer::from(problem).code)
}

#[test]
fn a_person_is_who_the_authorizer_says_and_nobody_without_it() {
    let issuer = issuer(&["askers"], None).unwrap();
    let found = issuer.person(&with_claims(maras_claims())).unwrap();
    let mara =
        Identity::new("https://id.example", "7", "Mara Ito").with_aliases(["of this client"]);
    assert_eq!(found, mara);
    assert_eq!(found.name(), "Mara Ito");

    for request in [
        handed_over(json!({})),
        handed_over(json!({"authorizer": null})),
        with_claims(json!({})),
        changed("iss", json!("https://evil.example")),
        changed("oid", json!("")),
        changed("oid", json!(" ")),
        changed("oid", json!(7)),
        changed("oid", Value::Null),
    ] {
        let answer = Answer::from(issuer.person(&request).unwrap_err());
        assert_eq!((answer.status, answer.code), (401, "NOBODY"));
    }
}

#[test]
fn a_machine_is_nobody_whatever_group_it_is_in() {
    let issuer = issuer(&["askers"], Some("rewinds:ask")).unwrap();
    for (name, value) in [
        ("sub", "cli"),
        ("idtyp", "app"),
        ("gty", "client-credentials"),
        ("preferred_username", "service-account-ci"),
    ] {
        let request = changed(name, json!(value));
        let answer = Answer::from(issuer.person(&request).unwrap_err());
        assert_eq!(
            (answer.status, answer.code),
            (403, "NOT_A_PERSON"),
            "{name}"
        );
        let me = issuer.me(&request).unwrap().body();
        assert_eq!(
            (&me["person"], &me["may_ask"]),
            (&json!(false), &json!(false))
        );
    }
}

#[test]
fn only_who_is_in_a_named_group_and_has_the_named_scope_may_ask() {
    let refused = Some("MAY_NOT_ASK");
    let by_group = issuer(&["askers", "leads"], None).unwrap();
    let by_scope = issuer(&[], Some("rewinds:ask")).unwrap();
    let by_both = issuer(&["askers"], Some("rewinds:ask")).unwrap();
    for (issuer, name, value, wanted) in [
        (&by_group, "groups", json!("[others leads]"), None),
        (&by_group, "groups", json!(["leads"]), None),
        (&by_group, "groups", json!("leads"), None),
        (&by_group, "groups", json!("[others]"), refused),
        (&by_group, "groups", json!("[]"), refused),
        (&by_group, "groups", json!("[Askers]"), refused),
        (&by_group, "groups", json!("[askers-2]"), refused),
        (&by_group, "groups", json!(""), refused),
        (&by_group, "groups", json!(7), refused),
        (&by_group, "groups", Value::Null, refused),
        (&by_group, "scope", Value::Null, None),
        (&by_scope, "groups", Value::Null, None),
        (&by_scope, "scope", json!("rewinds:ask"), None),
        (&by_scope, "scope", json!("[openid rewinds:ask]"), None),
        (&by_scope, "scope", json!("rewinds:asking"), refused),
        (&by_scope, "scope", Value::Null, refused),
        (&by_both, "azp", json!("another"), None),
        (&by_both, "groups", json!("[others]"), refused),
        (&by_both, "scope", json!("openid"), refused),
    ] {
        let request = changed(name, value.clone());
        assert_eq!(code(issuer.person(&request)), wanted, "{name} {value}");
        let me = issuer.me(&request).unwrap().body();
        assert_eq!(me["may_ask"], wanted.is_none(), "{name} {value}");
    }
    let mut entra = maras_claims();
    entra.as_object_mut().unwrap().remove("scope");
    entra["scp"] = json!("rewinds:ask");
    assert_eq!(code(by_scope.person(&with_claims(entra))), None);
}

#[test]
fn an_issuer_that_lets_everybody_ask_is_none() {
    for (groups, scope, says) in [
        (&[][..], None, "neither a group nor a scope"),
        (&["on call"], None, "two groups"),
        (&["a,b"], Some("rewinds:ask"), "two groups"),
    ] {
        let refused = issuer(groups, scope).unwrap_err();
        assert!(refused.contains(says), "{refused}");
    }
}

#[test]
fn a_person_is_told_whom_the_api_sees() {
    let issuer = issuer(&["askers"], None).unwrap();
    let me = issuer.me(&with_claims(maras_claims())).unwrap();
    assert_eq!(
        me.body(),
        json!({
            "code": "YOU",
            "message": "subject 7 (\"Mara Ito\"), identity verified by https://id.example, who may ask",
            "issuer": "https://id.example", "person_claim": "oid", "subject": "7", "name": "Mara Ito",
            "aliases": ["of this client"], "person": true, "may_ask": true,
        })
    );
    let nobody = Answer::from(issuer.me(&handed_over(json!({}))).unwrap_err());
    assert_eq!(nobody.status, 401);
}

#[test]
fn a_person_asks_for_any_configured_group_in_the_own_name() {
    let config = config();
    let mara = Sender::person("Mara Ito");
    let input =
        |request: Value| rewind_input(&config, &mara, &json!({"request": request}).to_string());
    let written = json!({"cluster": "other", "group": "shipment-sync", "shift_by": -3});
    assert_eq!(
        input(written.clone()).unwrap()["request"]["requested_by"],
        "Mara Ito"
    );
    let mut for_another = written.clone();
    for_another["requested_by"] = json!("dana");
    assert_eq!(
        input(for_another).unwrap()["request"]["requested_by"],
        "Mara Ito, for dana (not verified)"
    );
    let mut unknown = written;
    unknown["group"] = json!("unknown");
    assert_eq!(Answer::from(input(unknown).unwrap_err()).status, 422);
}

#[test]
fn what_has_no_plan_is_shown_to_those_who_may_name_its_group_and_unknown_to_others() {
    let config = config();
    let may = |operator: &Sender, input: &Value| {
        may_see(operator, input, &config).map_err(|problem| Answer::from(problem).code)
    };
    let mut bound = sender(&config, "oncall").clone();
    bound.cluster = Some("main".to_owned());
    let unknown = Err("NO_SUCH_RECOVERY");
    let of = |cluster: &str, group: &str| json!({ "cluster": cluster, "group": group });
    let input = |cluster, group| json!({ "request": of(cluster, group) });
    assert_eq!(may(&bound, &input("main", "shipment-sync")), Ok(()));
    assert_eq!(may(&bound, &input("main", "payroll")), unknown);
    assert_eq!(may(&bound, &input("other", "shipment-sync")), unknown);
    let anybody = Sender::person("Mara Ito");
    assert_eq!(may(&anybody, &input("other", "payroll")), Ok(()));
    for nowhere in [
        Value::Null,
        json!({}),
        // No key of an operator stands for an alert.
        json!({ "alert": of("main", "shipment-sync") }),
        json!({ "request": { "cluster": "main" } }),
        // Of two clusters, none is meant.
        json!({ "request": { "group": "shipment-sync" } }),
        json!({ "reconcile": of("main", "shipment-sync") }),
    ] {
        assert_eq!(may(&bound, &nowhere), unknown, "{nowhere}");
    }
}

#[test]
fn an_answer_tells_the_foremost_of_many_refusals_and_counts_them_all() {
    let rejected = |partition| Refusal::BrokerRejected {
        partition: TopicPartition::new("t", partition),
        error: "UNKNOWN_MEMBER_ID".to_owned(),
    };
    let mut refusals: Vec<_> = (0..10_000).map(rejected).collect();
    refusals.push(Refusal::ApplySwitchedOff);
    let audit = Audit {
        at: AT.parse().unwrap(),
        plan: None,
        execution: "e".into(),
        cluster_id: None,
        group: None,
        status: AuditStatus::Failed,
        code: "REFUSED".to_owned(),
        message: String::new(),
        requested_by: String::new(),
        requester: Requester::Unverified,
        from_dry_run: false,
        reason: String::new(),
        decided_by: None,
        decider: None,
        decided_at: None,
        digest: None,
        refusals,
        outcome: None,
        partitions: Vec::new(),
    };
    let told = result(&audit);
    let named = told["refusals"].as_array().unwrap();
    assert_eq!(named.len(), 10);
    assert_eq!(named[9]["message"], Refusal::ApplySwitchedOff.to_string());
    let counts = json!({"BROKER_REJECTED": 10_000, "APPLY_SWITCHED_OFF": 1});
    assert_eq!(told["refusals_by_code"], counts);
    assert!(told.to_string().len() < 16 * 1024);
}

#[test]
fn a_key_is_the_callers_and_a_fresh_one_is_made_where_there_is_none() {
    let with = |value: &str| Request::default().with_header("Idempotency-Key", value);
    for right in ["release_42-a", "release-4.2", &"x".repeat(128)] {
        assert_eq!(key(&with(right)).unwrap(), right);
    }
    for wrong in ["", "a b", "a/b", "ä", &"x".repeat(129)] {
        let answer = Answer::from(key(&with(wrong)).unwrap_err());
        assert_eq!(answer.status, 400, "{wrong:?}");
    }
    let fresh = || key(&Request::default()).unwrap();
    assert_eq!(fresh().len(), 26);
    assert_ne!(fresh(), fresh());
}

#[test]
fn a_body_has_a_limit_however_it_is_encoded() {
    let text = |body: String, is_base64_encoded| {
        let request = Request::default().with_body(body, is_base64_encoded);
        let text = request.text(LONGEST_BODY);
        text.map_err(|fault| Answer::from(ApiFault::from(fault)).status)
    };
    let most = "x".repeat(LONGEST_BODY);
    let more = format!("{most}x");
    assert_eq!(text(most.clone(), false), Ok(most.clone()));
    assert_eq!(text(more.clone(), false), Err(413));
    assert_eq!(text(BASE64.encode(most.as_bytes()), true), Ok(most.clone()));
    assert_eq!(text(BASE64.encode(more.as_bytes()), true), Err(413));
    assert_eq!(text(BASE64.encode(b"\xff\xfe"), true), Err(400));
    assert_eq!(text("no base64!".to_owned(), true), Err(400));
}

#[test]
fn a_rewind_that_no_state_has_room_for_is_not_started() {
    let config = config();
    let rewind = |partitions: i32| {
        let offsets: Vec<_> = (0..partitions)
            .map(|partition| json!({"topic": "shipments", "partition": partition, "offset": 5}))
            .collect();
        let body = json!({"request": {"group": "shipment-sync", "cluster": "main", "to_offsets": offsets}});
        let body = body.to_string();
        assert!(body.len() < LONGEST_BODY);
        rewind_input(&config, sender(&config, "oncall"), &body)
            .map_err(|problem| Answer::from(problem).status)
    };
    assert!(rewind(2_000).is_ok());
    assert_eq!(rewind(4_000).unwrap_err(), 413);
}

#[test]
fn a_body_that_is_nested_too_deeply_is_refused_and_overflows_nothing() {
    let config = config();
    let deep = |open: &str, close: &str| {
        let depth = LONGEST_BODY / (open.len() + close.len());
        format!("{}{}", open.repeat(depth), close.repeat(depth))
    };
    for body in [
        deep("[", "]"),
        deep("{\"a\":", "}"),
        "[".repeat(LONGEST_BODY),
    ] {
        for kind in ["prometheus", "grafana", "plain"] {
            assert_eq!(read(&config, kind, &body).unwrap_err().status, 400);
        }
        let oncall = sender(&config, "oncall");
        assert!(guard_event(&config, oncall, &body).is_err());
        assert!(rewind_input(&config, oncall, &body).is_err());
    }
}

#[test]
fn too_many_alerts_are_too_large() {
    let one = alert("firing", json!({"consumergroup": "g"}), AT);
    let most = notification("4", &vec![one.clone(); 500]);
    let more = notification("4", &vec![one; 501]);
    assert_eq!(read(&config(), "prometheus", &most).unwrap().len(), 500);
    assert_eq!(
        read(&config(), "prometheus", &more).unwrap_err().status,
        413
    );
}

#[test]
fn an_event_without_parameters_and_body_is_one_and_no_header_is_too_odd() {
    let event = json!({
        "version": "2.0", "routeKey": "POST /rewinds", "rawPath": "/rewinds", "isBase64Encoded": false,
        "headers": {"authorization": "Bearer x", "x-odd": "\u{fc}\u{7f}\u{0}"}, "pathParameters": null,
        "requestContext": {"http": {"method": "POST"}},
    });
    let request = Request::from_event(event).unwrap();
    assert_eq!(request.route_key, "POST /rewinds");
    assert_eq!(request.header("Authorization"), Some("Bearer x"));
    assert_eq!(request.parameter("sender"), "");
    assert_eq!(request.text(LONGEST_BODY).unwrap(), "");
}

/// A small generator of its own, so that a failure comes again.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        // xorshift64
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(limit.max(1)).unwrap()).unwrap()
    }
}

/// A body changed in up to four places, as a broken or hostile sender might change it.
fn mutated(seed: &[u8], chance: &mut Chance) -> Vec<u8> {
    const PIECES: [&[u8]; 12] = [
        b"null",
        b"{}",
        b"[",
        b"]",
        b"{",
        b"\"",
        b"\\u0000",
        b"\\ud800",
        b"-1e999",
        b"\xff",
        b"9223372036854775808",
        b"\"a\":1,",
    ];
    let mut body = seed.to_vec();
    for _ in 0..=chance.below(4) {
        let at = chance.below(body.len());
        let piece = PIECES[chance.below(PIECES.len())];
        match chance.below(5) {
            0 => body.truncate(at),
            1 => drop(body.splice(at..at, piece.iter().copied())),
            2 => {
                let end = body.len().min(at + 1 + chance.below(20));
                drop(body.drain(at..end));
            }
            3 => {
                let end = body.len().min(at + 1 + chance.below(40));
                let copy = body[at..end].to_vec();
                drop(body.splice(at..at, copy));
            }
            _ => {
                if let Some(byte) = body.get_mut(at) {
                    *byte = u8::try_from(chance.below(256)).unwrap();
                }
            }
        }
    }
    body
}

#[test]
fn whatever_is_done_to_a_body_it_is_taken_or_refused_and_never_the_webhooks_fault() {
    let config = config();
    let labels = json!({"cluster": "main", "consumergroup": "shipment-sync"});
    let alerts = [
        alert("firing", labels.clone(), AT),
        alert("resolved", labels, AT),
    ];
    let seeds = [
        ("prometheus", notification("4", &alerts)),
        ("grafana", notification("1", &alerts)),
        (
            "plain",
            json!({"cluster": "main", "group": "shipment-sync", "status": "firing", "starts_at": AT})
                .to_string(),
        ),
        (
            "oncall",
            json!({"cluster": "main", "group": "billing-1", "ask": {
                "action": "rewind_offset", "topic": "t", "partition": 0, "reason": "r",
            }})
            .to_string(),
        ),
        (
            "oncall",
            json!({"request": {
                "cluster": "main", "group": "shipment-sync", "reason": "r", "topics": ["a:0,1"],
                "to_offsets": [{"topic": "t", "partition": 0, "offset": 5}],
            }})
            .to_string(),
        ),
    ];
    let mut chance = Chance(0x0dd5_eed5);
    let mut statuses: BTreeMap<u16, usize> = BTreeMap::new();
    for n in 0..100_000 {
        let (name, seed) = &seeds[n % seeds.len()];
        let body = mutated(seed.as_bytes(), &mut chance);
        let request = Request::default().with_body(BASE64.encode(&body), true);
        let sender = sender(&config, name);
        let came_to: Result<(), ApiFault> = (|| {
            let text = request.text(LONGEST_BODY)?;
            if sender.kind == SenderKind::Operator {
                let _ = rewind_input(&config, sender, &text).map_err(|problem| {
                    assert!(Answer::from(problem).status < 500);
                });
                guard_event(&config, sender, &text)?;
                return Ok(());
            }
            let rules = sender.alerts.as_ref().unwrap();
            let alerts = firing(sender.kind, rules, &text)?;
            match groups(&config, sender, rules, &alerts).problems.pop() {
                Some(problem) => Err(problem),
                None => Ok(()),
            }
        })();
        let status = came_to.map_or_else(|problem| Answer::from(problem).status, |()| 200);
        *statuses.entry(status).or_default() += 1;
    }
    assert!(
        statuses.keys().all(|status| (200..500).contains(status)),
        "{statuses:?}"
    );
    // Not all of it is garbage, so that every way was gone.
    for status in [200, 400, 422] {
        assert!(statuses.contains_key(&status), "{statuses:?}");
    }
}
