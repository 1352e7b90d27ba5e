//! The webhook as senders meet it: over the deployed API, with the real table and secrets. Lambda's own API alone is
//! the test's, so that a start can be counted, throttled and lost.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use offset_guard::domain::incident::{IncidentState, Subject};
use offset_guard::domain::offset::GroupId;
use offset_guard_local::alertmanager::Alertmanager;
use offset_guard_local::client::Commit;
use offset_guard_local::operator::{link_in, text_of};
use offset_guard_local::stack::{Stack, StackOptions};
use offset_guard_tests::loopback::{Request, Server};
use offset_guard_tests::{CLASSIC_ON_4, Outcome, PATIENCE, World, shared_options};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::Instant;
use ulid::Ulid;

use crate::asked::{Answer, Result, request, to_loopback};

/// The senders, each with the secret of its own name in it.
const SENDERS: [&str; 7] = [
    "am", "patient", "am2", "grafana", "plain", "oncall", "narrow",
];

/// A cool-down that a test can wait for.
const COOLDOWN: Duration = Duration::from_secs(4);

/// A window that a test can wait for, and longer than a test needs before.
const WINDOW: Duration = Duration::from_secs(8);

fn senders() -> String {
    let arn = "arn:aws:secretsmanager:eu-west-1:000000000000:secret:sender-";
    let quick = format!(
        "cooldown_seconds = {}\nrepeat_interval_seconds = 5\nruns_per_minute = 1000\n",
        COOLDOWN.as_secs()
    );
    let window = format!("previous_secret_seconds = {}\n", WINDOW.as_secs());
    [
        ("am", "alertmanager", &*quick),
        ("patient", "alertmanager", "runs_per_minute = 3\n"),
        ("am2", "alertmanager", &*window),
        ("grafana", "grafana", ""),
        ("plain", "json", ""),
        ("oncall", "operator", ""),
        ("narrow", "operator", ""),
    ]
    .map(|(name, kind, more)| {
        let groups = if name == "narrow" {
            "waiting-*"
        } else {
            "test-*"
        };
        format!(
            "[senders.{name}]\nkind = \"{kind}\"\nsecret = \"{arn}{name}\"\n\
             groups = [\"{groups}\"]\n{more}"
        )
    })
    .join("\n")
}

fn secret(sender: &str) -> String {
    format!("the-secret-of-{sender}-is-long")
}

/// Lambda, as the webhook's client sees it.
#[derive(Debug, Clone, Default)]
struct Lambda {
    state: Arc<Mutex<Invocations>>,
    /// The local AWS, whose own Lambda runs guard for groups of [`GUARDED`].
    aws: Arc<OnceLock<String>>,
}

/// Before the names of groups that guard itself looks at.
const GUARDED: &str = "test-guarded-";

#[derive(Debug, Default)]
struct Invocations {
    /// The events that were taken.
    taken: Vec<Value>,
    /// How many of the next are throttled.
    throttle: usize,
}

impl Lambda {
    fn invoked(&self, event: &[u8]) -> (u16, String) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.throttle > 0 {
            state.throttle -= 1;
            let body = json!({"__type": "TooManyRequestsException", "message": "Rate Exceeded."});
            return (429, body.to_string());
        }
        state
            .taken
            .push(serde_json::from_slice(event).unwrap_or(Value::Null));
        (202, String::new())
    }

    /// Hands an event over to the local AWS where guard is to have it.
    async fn forward(&self, request: &Request) -> Option<u16> {
        let event: Value = serde_json::from_slice(&request.body).ok()?;
        if !event["group"].as_str()?.starts_with(GUARDED) {
            return None;
        }
        let http = reqwest::Client::builder().no_proxy().build().ok()?;
        let mut forwarded = http
            .post(format!("{}{}", self.aws.get()?, request.path))
            .body(request.body.clone());
        for name in ["authorization", "x-amz-invocation-type", "x-amz-date"] {
            forwarded = forwarded.header(name, request.headers.get(name)?);
        }
        Some(forwarded.send().await.ok()?.status().as_u16())
    }

    fn throttle(&self, next: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.throttle = next;
    }

    /// The events for a group, in their order.
    fn taken(&self, group: &str) -> Vec<Value> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let of_group = state.taken.iter().filter(|event| event["group"] == group);
        of_group.cloned().collect()
    }

    fn count(&self) -> usize {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.taken.len()
    }
}

/// A stack with senders, whose guard is the test.
struct Stage {
    world: World,
    lambda: Lambda,
    _server: Server,
    http: reqwest::Client,
    api: String,
}

impl Stage {
    async fn start() -> Result<Self> {
        let lambda = Lambda::default();
        let invoked = lambda.clone();
        let server = Server::start(move |request| {
            let invoked = invoked.clone();
            async move {
                let event = request.headers.get("x-amz-invocation-type");
                if event.is_none_or(|kind| kind != "Event") || !request.path.contains("guard") {
                    return (400, "{}".to_owned());
                }
                match invoked.forward(&request).await {
                    Some(status) => (status, String::new()),
                    None => invoked.invoked(&request.body),
                }
            }
        })
        .await?;
        let mut options: StackOptions = shared_options(CLASSIC_ON_4.kafka);
        options.config.push_str(&senders());
        options
            .aws_environment
            .insert("AWS_ENDPOINT_URL_LAMBDA".to_owned(), server.url.clone());
        let world = World::of(Stack::start(&options).await?, CLASSIC_ON_4)?;
        let aws = world.stack.aws_endpoint().to_owned();
        lambda.aws.set(aws).map_err(|_| "it is set")?;
        let api = world.stack.output("ApiUrl")?.to_owned();
        let stage = Self {
            http: to_loopback(&api)?,
            world,
            lambda,
            _server: server,
            api,
        };
        for sender in SENDERS {
            stage.put_secret(sender, &secret(sender)).await?;
        }
        Ok(stage)
    }

    async fn put_secret(&self, sender: &str, value: &str) -> Outcome {
        let secrets = aws_sdk_secretsmanager::Client::new(self.world.operator.sdk());
        let name = format!("sender-{sender}");
        let create = secrets.create_secret().name(&name).secret_string(value);
        if create.send().await.is_err() {
            let put = secrets.put_secret_value().secret_id(&name);
            put.secret_string(value).send().await?;
        }
        Ok(())
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<String>,
    ) -> Result<Answer> {
        let url = format!("{}{path}", self.api);
        request(&self.http, method, &url, headers, body).await
    }

    /// Posts JSON as a sender, with a secret.
    async fn post_with(&self, path: &str, secret: &str, body: &Value) -> Result<Answer> {
        let authorization = format!("Bearer {secret}");
        let headers = [
            ("authorization", authorization.as_str()),
            ("content-type", "application/json"),
        ];
        self.send(Method::POST, path, &headers, Some(body.to_string()))
            .await
    }

    async fn post(&self, sender: &str, body: &Value) -> Result<Answer> {
        let path = format!("/webhooks/{sender}");
        self.post_with(&path, &secret(sender), body).await
    }

    /// A new group's name.
    fn group(&self) -> String {
        format!("test-{}", Ulid::generate().to_string().to_lowercase())
    }

    async fn incident(&self, group: &str) -> Result<Option<IncidentState>> {
        let subject = Subject::Group {
            cluster: "main".to_owned(),
            group: GroupId(group.to_owned()),
        };
        let incident = self.world.store.incident(&subject).await?;
        Ok(incident.map(|incident| incident.state))
    }

    /// Starts and ends the run of an event, as guard does.
    async fn run(&self, event: &Value, ok: bool) -> Outcome {
        let key = event["incident"].as_str().ok_or("no incident")?;
        assert!(
            self.world
                .store
                .incident_started(key, Timestamp::now())
                .await?
        );
        assert!(
            self.world
                .store
                .incident_finished(key, ok, Timestamp::now())
                .await?
        );
        Ok(())
    }
}

/// A notification of one firing alert.
fn firing(group: &str, since: Timestamp) -> Value {
    json!({
        "version": "4", "groupKey": "{}:{}", "status": "firing", "receiver": "r",
        "groupLabels": {}, "commonLabels": {}, "commonAnnotations": {}, "externalURL": "",
        "alerts": [{
            "status": "firing", "labels": {"alertname": "Stuck", "consumergroup": group},
            "annotations": {}, "startsAt": since, "endsAt": "0001-01-01T00:00:00Z",
            "generatorURL": "", "fingerprint": "c0ffee",
        }],
    })
}

fn code(answer: &Answer) -> (u16, String) {
    let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    let code = body["code"].as_str().unwrap_or(&answer.body).to_owned();
    (answer.status, code)
}

#[track_caller]
fn assert_code(answer: &Answer, status: u16, expected: &str) {
    assert_eq!(code(answer), (status, expected.to_owned()), "{answer:?}");
}

async fn until<T>(what: &str, look: impl AsyncFn() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(seen) = look().await? {
            return Ok(seen);
        }
        if Instant::now() > deadline {
            return Err(format!("waited in vain for {what}").into());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn senders_and_operators() -> Outcome {
    let stage = Stage::start().await?;
    nobody_without_the_secret(&stage).await?;
    one_run_an_incident(&stage).await?;
    a_start_that_fails_is_lost_nowhere(&stage).await?;
    no_more_than_the_budget(&stage).await?;
    every_kind_of_body(&stage).await?;
    hostile_requests(&stage).await?;
    a_request_to_guard(&stage).await?;
    guard_itself_says_when_it_is_done(&stage).await?;
    a_rewind_from_its_request_to_its_end(&stage).await?;
    a_rotated_secret(&stage).await?;
    no_secret_is_told(&stage).await?;
    stage.world.stack.stop().await?;
    Ok(())
}

async fn nobody_without_the_secret(stage: &Stage) -> Outcome {
    let group = stage.group();
    let body = firing(&group, Timestamp::now());
    let started = stage.lambda.count();
    for (path, offered) in [
        ("/webhooks/am", secret("am2")),
        ("/webhooks/am", secret("am").to_uppercase()),
        ("/webhooks/am", String::new()),
        ("/webhooks/nobody", secret("am")),
        ("/webhooks/oncall", secret("am")),
        ("/rewinds", "wrong".to_owned()),
    ] {
        let answer = stage.post_with(path, &offered, &body).await?;
        assert_code(&answer, 401, "NOT_AUTHENTICATED");
        let challenge = answer.headers.get("www-authenticate");
        assert_eq!(
            challenge.and_then(|value| value.to_str().ok()),
            Some("Bearer")
        );
    }
    let bare = stage
        .send(
            Method::POST,
            "/webhooks/am",
            &[],
            Some("not looked at".to_owned()),
        )
        .await?;
    assert_code(&bare, 401, "NOT_AUTHENTICATED");
    // Not even a body that is too long is read for a stranger.
    let large = json!("x".repeat(300_000));
    let large = stage.post_with("/webhooks/am", "wrong", &large).await?;
    assert_code(&large, 401, "NOT_AUTHENTICATED");
    // An alert sender is somebody, and no operator.
    let rewind = stage
        .post_with("/rewinds", &secret("am"), &json!({"request": {}}))
        .await?;
    assert_code(&rewind, 403, "NOT_AN_OPERATOR");
    assert_eq!(stage.lambda.count(), started);
    assert_eq!(stage.incident(&group).await?, None);
    Ok(())
}

async fn one_run_an_incident(stage: &Stage) -> Outcome {
    let group = stage.group();
    let body = firing(&group, Timestamp::now());
    // Two replicas and eighteen repetitions at once: each is answered, and one of them with a run.
    let sent = (0..20).map(|_| stage.post("am", &body));
    let mut answers: BTreeMap<(u16, String), usize> = BTreeMap::new();
    for answer in futures_util::future::join_all(sent).await {
        *answers.entry(code(&answer?)).or_default() += 1;
    }
    let expected = [
        ((200, "DUPLICATE".to_owned()), 19),
        ((202, "ACCEPTED".to_owned()), 1),
    ];
    assert_eq!(answers, expected.into());
    let events = stage.lambda.taken(&group);
    assert_eq!(events.len(), 1);
    assert_eq!(
        events[0],
        json!({"cluster": "main", "group": group, "incident": events[0]["incident"]})
    );
    assert_eq!(stage.incident(&group).await?, Some(IncidentState::Queued));

    stage.run(&events[0], true).await?;
    assert_code(&stage.post("am", &body).await?, 200, "DUPLICATE");
    // What resolves starts nothing, and what fires anew is news.
    let mut resolved = body.clone();
    resolved["alerts"][0]["status"] = json!("resolved");
    assert_code(&stage.post("am", &resolved).await?, 200, "NOTHING_FIRING");
    let anew = firing(&group, Timestamp::now());
    assert_code(&stage.post("am", &anew).await?, 202, "ACCEPTED");
    let events = stage.lambda.taken(&group);
    stage.run(&events[1], true).await?;
    // After the cool-down a repetition is one again.
    tokio::time::sleep(COOLDOWN).await;
    assert_code(&stage.post("am", &anew).await?, 202, "ACCEPTED");
    // And a run that failed covers nothing.
    let events = stage.lambda.taken(&group);
    assert_eq!(events.len(), 3);
    stage.run(&events[2], false).await?;
    assert_code(&stage.post("am", &anew).await?, 202, "ACCEPTED");
    Ok(())
}

async fn a_start_that_fails_is_lost_nowhere(stage: &Stage) -> Outcome {
    let group = stage.group();
    let body = firing(&group, Timestamp::now());
    // The client tries three times by itself.
    stage.lambda.throttle(3);
    let throttled = stage.post("am", &body).await?;
    assert_code(&throttled, 503, "TRY_AGAIN");
    assert!(throttled.headers.contains_key("retry-after"));
    assert_eq!(stage.incident(&group).await?, Some(IncidentState::Failed));
    assert_code(&stage.post("am", &body).await?, 202, "ACCEPTED");
    assert_eq!(stage.lambda.taken(&group).len(), 1);

    // Whoever claims and dies before it starts anything does not make the others' alerts duplicates.
    let group = stage.group();
    let subject = Subject::Group {
        cluster: "main".to_owned(),
        group: GroupId(group.clone()),
    };
    let claim = offset_guard::store::IncidentClaim {
        subject: &subject,
        run: "dead",
        since: None,
        asked: None,
        cooldown_seconds: 60,
    };
    let before = Timestamp::now() - SignedDuration::from_secs(11);
    stage.world.store.claim_incident(&claim, before).await?;
    let body = firing(&group, Timestamp::now());
    assert_code(&stage.post("am", &body).await?, 503, "TRY_AGAIN");
    let answer = until("the claim to run out", async || {
        let answer = stage.post("am", &body).await?;
        Ok((answer.status != 503).then_some(answer))
    });
    assert_code(&answer.await?, 202, "ACCEPTED");
    assert_eq!(stage.lambda.taken(&group).len(), 1);
    Ok(())
}

async fn no_more_than_the_budget(stage: &Stage) -> Outcome {
    let groups: Vec<String> = (0..5).map(|_| stage.group()).collect();
    let mut storm = firing(&groups[0], Timestamp::now());
    let alert = storm["alerts"][0].clone();
    let alerts = groups.iter().map(|group| {
        let mut alert = alert.clone();
        alert["labels"]["consumergroup"] = json!(group);
        alert
    });
    storm["alerts"] = alerts.collect();
    let started = |groups: &[String]| {
        let runs = groups.iter().map(|group| stage.lambda.taken(group).len());
        runs.sum::<usize>()
    };
    assert_code(&stage.post("patient", &storm).await?, 503, "TRY_AGAIN");
    // The minute may have changed between two of them, and never is a group looked at twice.
    assert!((3..=5).contains(&started(&groups)));
    let second = Duration::from_secs(60);
    let deadline = Instant::now() + second + second;
    while stage.post("patient", &storm).await?.status == 503 {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    let each: Vec<_> = groups
        .iter()
        .map(|group| stage.lambda.taken(group).len())
        .collect();
    assert_eq!(each, [1; 5]);
    Ok(())
}

async fn every_kind_of_body(stage: &Stage) -> Outcome {
    let group = stage.group();
    let mut grafana = firing(&group, Timestamp::now());
    grafana["version"] = json!("1");
    grafana["orgId"] = json!(1);
    grafana["title"] = json!("[FIRING:1]");
    assert_code(&stage.post("grafana", &grafana).await?, 202, "ACCEPTED");
    let plain = json!({"group": stage.group()});
    assert_code(&stage.post("plain", &plain).await?, 202, "ACCEPTED");
    assert_code(&stage.post("plain", &plain).await?, 200, "DUPLICATE");

    for (sender, body, status, code) in [
        ("plain", json!({"group": "nobodys"}), 422, "NO_SUCH_GROUP"),
        (
            "plain",
            json!({"group": "waiting-x"}),
            403,
            "GROUP_NOT_ALLOWED",
        ),
        ("plain", json!({"gruop": "test-x"}), 400, "INVALID_BODY"),
        ("plain", grafana.clone(), 400, "INVALID_BODY"),
        ("am", grafana, 400, "INVALID_BODY"),
        ("am", json!({}), 400, "INVALID_BODY"),
        ("oncall", json!({"group": 5}), 400, "INVALID_BODY"),
    ] {
        assert_code(&stage.post(sender, &body).await?, status, code);
    }
    Ok(())
}

/// What a body or a header may hold is answered with a 4xx, whatever it is, and starts nothing.
async fn hostile_requests(stage: &Stage) -> Outcome {
    let started = stage.lambda.count();
    let authorization = format!("Bearer {}", secret("am"));
    let bytes = ("content-type", "application/octet-stream");
    let json_type = ("content-type", "application/json");
    let proven = ("authorization", authorization.as_str());
    let deep = "[".repeat(200_000);
    let oversize = "x".repeat(256 * 1024 + 1);
    let headers: [(&str, &str); 3] = [proven, json_type, ("x-odd", "\u{7f}\u{e9} ü")];
    for (headers, body, status) in [
        (vec![proven, json_type], oversize, 413),
        (vec![proven, json_type], deep, 400),
        (vec![proven, json_type], String::new(), 400),
        (
            vec![proven, json_type],
            "{\"version\": \"4\"".to_owned(),
            400,
        ),
        (vec![proven, json_type], "\u{0}\u{feff}{}".to_owned(), 400),
        (vec![proven, bytes], "{}".to_owned(), 400),
    ] {
        let answer = stage
            .send(Method::POST, "/webhooks/am", &headers, Some(body))
            .await?;
        assert_eq!(answer.status, status, "{}", answer.body);
    }
    let latin = [0xff, 0xfe, b'{', b'}'];
    let url = format!("{}/webhooks/am", stage.api);
    let garbled = stage
        .http
        .post(&url)
        .header(proven.0, proven.1)
        .header(bytes.0, bytes.1)
        .body(latin.to_vec());
    assert_eq!(garbled.send().await?.status().as_u16(), 400);
    let mut odd = stage.http.post(&url).body("{}");
    for (name, value) in headers.into_iter().take(2) {
        odd = odd.header(name, value);
    }
    let odd = odd.header(
        "x-odd",
        reqwest::header::HeaderValue::from_bytes("ü é".as_bytes())?,
    );
    assert_eq!(odd.send().await?.status().as_u16(), 400);
    for path in ["/webhooks/", "/webhooks/a/b", "/webhooks", "/recoveries/"] {
        let answer = stage
            .send(Method::POST, path, &[proven, json_type], None)
            .await?;
        assert!((400..500).contains(&answer.status), "{path}: {answer:?}");
    }
    assert_eq!(stage.lambda.count(), started);
    Ok(())
}

async fn a_request_to_guard(stage: &Stage) -> Outcome {
    let group = stage.group();
    let body = json!({"group": group, "ask": {
        "action": "skip_poison_record", "topic": "shipments", "partition": 1, "dry_run": false,
        "requested_by": "ada", "reason": "a broken record",
    }});
    let headers = |key| {
        let authorization = format!("Bearer {}", secret("oncall"));
        [
            ("authorization", authorization),
            ("idempotency-key", String::from(key)),
        ]
    };
    let ask_for = async |key, body: &Value| {
        let headers = headers(key);
        let headers = headers
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        let path = "/webhooks/oncall";
        stage
            .send(Method::POST, path, &headers, Some(body.to_string()))
            .await
    };
    let ask = async |key| ask_for(key, &body).await;
    assert_code(&ask("release-4.2").await?, 202, "ACCEPTED");
    assert_code(&ask("release-4.2").await?, 200, "DUPLICATE");
    assert_code(&ask("release 43").await?, 400, "INVALID_REQUEST");
    let mut other = body.clone();
    other["ask"]["partition"] = json!(2);
    assert_code(
        &ask_for("release-4.2", &other).await?,
        422,
        "IDEMPOTENCY_KEY_USED",
    );
    // Without a key each is another request.
    assert_code(&stage.post("oncall", &body).await?, 202, "ACCEPTED");
    assert_code(&stage.post("oncall", &body).await?, 202, "ACCEPTED");
    let events = stage.lambda.taken(&group);
    assert_eq!(events.len(), 3);
    let mut wanted = body["ask"].clone();
    wanted["requested_by"] = json!("oncall, for ada (not verified)");
    assert_eq!(events[0]["ask"], wanted);
    stage.run(&events[0], true).await?;
    assert_code(&ask("release-4.2").await?, 200, "DUPLICATE");
    assert_code(
        &ask_for("release-4.2", &other).await?,
        422,
        "IDEMPOTENCY_KEY_USED",
    );
    Ok(())
}

async fn guard_itself_says_when_it_is_done(stage: &Stage) -> Outcome {
    let world = &stage.world;
    let group = format!("{GUARDED}{}", Ulid::generate().to_string().to_lowercase());
    let topic = world.topic("guarded");
    world.filled_topic(&topic, 1, 5).await?;
    let commit = Commit::new(&topic, 0, 5);
    world.client.commit(&group, &[commit]).await?;
    let body = firing(&group, Timestamp::now());
    assert_code(&stage.post("patient", &body).await?, 202, "ACCEPTED");
    until("the end of the run", async || {
        let state = stage.incident(&group).await?;
        assert_ne!(state, Some(IncidentState::Failed));
        Ok((state == Some(IncidentState::Finished)).then_some(()))
    })
    .await?;
    assert_code(&stage.post("patient", &body).await?, 200, "DUPLICATE");
    Ok(())
}

async fn a_rewind_from_its_request_to_its_end(stage: &Stage) -> Outcome {
    let world = &stage.world;
    let (group, topic) = (stage.group(), world.topic("rewinds"));
    world.filled_topic(&topic, 1, 5).await?;
    world
        .client
        .commit(&group, &[Commit::new(&topic, 0, 5)])
        .await?;
    let body = json!({"request": {"group": group, "shift_by": -3, "reason": "a bad release", "requested_by": "ada"}});
    let token = format!("Bearer {}", secret("oncall"));
    let key = format!("release-4.2-{}", Ulid::generate());
    let ask = async |key: &str, body: &Value| {
        let headers = [("authorization", token.as_str()), ("idempotency-key", key)];
        let body = Some(body.to_string());
        stage.send(Method::POST, "/rewinds", &headers, body).await
    };
    let look = async |id: &str, token: &str| {
        let path = format!("/recoveries/{id}");
        stage
            .send(Method::GET, &path, &[("authorization", token)], None)
            .await
    };
    let asked = ask(&key, &body).await?;
    assert_code(&asked, 202, "ACCEPTED");
    let asked: Value = serde_json::from_str(&asked.body)?;
    assert_eq!(
        (&asked["id"], &asked["dry_run"]),
        (&json!(key), &json!(true))
    );
    assert_code(&ask(&key, &body).await?, 200, "DUPLICATE");
    let mut other = body.clone();
    other["request"]["shift_by"] = json!(-4);
    assert_code(&ask(&key, &other).await?, 422, "IDEMPOTENCY_KEY_USED");

    let shown = until("the dry run to end", async || {
        let answer = look(&key, &token).await?;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let shown: Value = serde_json::from_str(&answer.body)?;
        Ok((shown["code"] == "ENDED").then_some(shown))
    })
    .await?;
    assert_eq!(shown["result"]["code"], "DRY_RUN", "{shown}");
    assert_eq!(shown["requested_by"], "oncall, for ada (not verified)");
    assert_eq!(shown["group"], group);
    assert_eq!(world.offsets(&group, &topic, 1).await?, [Some(5)]);
    // Its plan leads to it too, and its own words are told apart from another's after its end as before it.
    let plan = shown["plan"].as_str().ok_or("no plan is named")?.to_owned();
    let by_plan: Value = serde_json::from_str(&look(&plan, &token).await?.body)?;
    assert_eq!(by_plan["result"], shown["result"]);
    assert_code(&ask(&key, &body).await?, 200, "DUPLICATE");
    assert_code(&ask(&key, &other).await?, 422, "IDEMPOTENCY_KEY_USED");
    keys_are_the_senders_own(stage, &plan, &key, &group, &body).await?;

    // A live one waits for approval, whoever asks.
    let mut live = body.clone();
    live["request"]["dry_run"] = json!(false);
    let key = format!("k-{}", Ulid::generate());
    assert_code(&ask(&key, &live).await?, 202, "ACCEPTED");
    until("the plan to wait for approval", async || {
        let answer = look(&key, &token).await?;
        Ok((code(&answer).1 == "WAITING_FOR_APPROVAL").then_some(()))
    })
    .await?;
    assert_eq!(world.offsets(&group, &topic, 1).await?, [Some(5)]);
    let with_link = |message: &Value| {
        let text = text_of(message);
        text.contains(&topic) && link_in(&text).is_some()
    };
    let message = text_of(&world.stack.slack().until(PATIENCE, with_link).await?);
    let link = link_in(&message)
        .ok_or("the message has no link")?
        .to_owned();
    world.operator.approve(&link, &group).await?;
    let shown = until("the recovery to end", async || {
        let answer = look(&key, &token).await?;
        let shown: Value = serde_json::from_str(&answer.body)?;
        Ok((shown["code"] == "ENDED").then_some(shown))
    })
    .await?;
    assert_eq!(shown["result"]["code"], "VERIFIED", "{shown}");
    assert_eq!(shown["result"]["partitions"], json!({"Applied": 1}));
    assert_eq!(world.offsets(&group, &topic, 1).await?, [Some(2)]);

    let am = format!("Bearer {}", secret("am"));
    assert_code(&look(&key, &am).await?, 403, "NOT_AN_OPERATOR");
    assert_code(&look(&key, "Bearer x").await?, 401, "NOT_AUTHENTICATED");
    assert_code(&look("none", &token).await?, 404, "NO_SUCH_RECOVERY");
    Ok(())
}

/// Whatever key an operator writes, the execution has a name of that operator's own.
async fn keys_are_the_senders_own(
    stage: &Stage,
    plan: &str,
    key: &str,
    group: &str,
    body: &Value,
) -> Outcome {
    let world = &stage.world;
    let bearer = |sender| format!("Bearer {}", secret(sender));
    let ask = async |sender, key: &str| {
        let authorization = bearer(sender);
        let headers = [
            ("authorization", authorization.as_str()),
            ("idempotency-key", key),
        ];
        let body = Some(body.to_string());
        stage.send(Method::POST, "/rewinds", &headers, body).await
    };
    for name in [plan.to_owned(), format!("{plan}-reconcile-1")] {
        assert_code(&ask("oncall", &name).await?, 202, "ACCEPTED");
        // Nothing has taken the name that the sweep or the guard would give.
        let taken = world.operator.named(&name).ended().await;
        assert!(taken.is_err(), "{name}: {taken:?}");
    }
    // What another sender asked for under the same key is its own, and nobody else's.
    let look = async |sender, id: &str| {
        let path = format!("/recoveries/{id}");
        let authorization = bearer(sender);
        stage
            .send(
                Method::GET,
                &path,
                &[("authorization", authorization.as_str())],
                None,
            )
            .await
    };
    assert_code(&look("narrow", key).await?, 404, "NO_SUCH_RECOVERY");
    // Nor does a plan of a group that a sender may not name tell it anything.
    let unseen = look("narrow", plan).await?;
    assert_code(&unseen, 404, "NO_SUCH_RECOVERY");
    assert!(!unseen.body.contains(group), "{}", unseen.body);
    Ok(())
}

async fn a_rotated_secret(stage: &Stage) -> Outcome {
    let body = json!({
        "version": "4", "alerts": [],
    });
    let post = async |secret: &str| stage.post_with("/webhooks/am2", secret, &body).await;
    let (first, second, third) = (secret("am2"), "the-second-secret", "the-third-secret");
    assert_code(&post(&first).await?, 200, "NOTHING_FIRING");
    // What was read a moment ago is not read again for everybody who has a wrong secret.
    tokio::time::sleep(Duration::from_secs(5)).await;
    stage.put_secret("am2", second).await?;
    let rotated = Instant::now();
    assert_code(&post(second).await?, 200, "NOTHING_FIRING");
    assert_code(&post(&first).await?, 200, "NOTHING_FIRING");
    tokio::time::sleep_until(rotated + WINDOW + Duration::from_secs(2)).await;
    assert_code(&post(&first).await?, 401, "NOT_AUTHENTICATED");
    assert_code(&post(second).await?, 200, "NOTHING_FIRING");
    // Rotated twice, the first is nobody's.
    tokio::time::sleep(Duration::from_secs(5)).await;
    stage.put_secret("am2", third).await?;
    assert_code(&post(third).await?, 200, "NOTHING_FIRING");
    assert_code(&post(second).await?, 200, "NOTHING_FIRING");
    assert_code(&post(&first).await?, 401, "NOT_AUTHENTICATED");
    Ok(())
}

async fn no_secret_is_told(stage: &Stage) -> Outcome {
    let logs = crate::secrecy::logs(&stage.world).await?;
    let webhook = "/aws/lambda/offset-guard-webhook";
    let said = logs
        .iter()
        .any(|(name, text)| name == webhook && text.contains("answered"));
    assert!(said, "the webhook logs nothing");
    for (name, text) in &logs {
        for secret in SENDERS.map(secret).iter().map(String::as_str).chain([
            "the-second-secret",
            "the-third-secret",
            "a broken record",
        ]) {
            assert!(!text.contains(secret), "{secret} stands in {name}");
        }
    }
    Ok(())
}

/// What Alertmanager was answered, in order, and what it is answered next instead.
#[derive(Debug, Clone, Default)]
struct Front {
    answered: Arc<Mutex<Vec<u16>>>,
}

impl Front {
    fn answered(&self) -> Vec<u16> {
        let answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        answered.clone()
    }

    /// Waits until so many were answered.
    async fn until(&self, count: usize) -> Outcome {
        until("Alertmanager to be answered", async || {
            Ok((self.answered().len() >= count).then_some(()))
        })
        .await
    }
}

/// Alertmanager reaches the API through this, since it looks up no name of `*.localhost`.
async fn front(stage: &Stage) -> Result<(Front, Server)> {
    let front = Front::default();
    let (answered, http, api) = (
        front.answered.clone(),
        stage.http.clone(),
        stage.api.clone(),
    );
    let server = Server::start(move |request| {
        let (answered, http, api) = (answered.clone(), http.clone(), api.clone());
        async move {
            let header = |name: &str| request.headers.get(name).cloned().unwrap_or_default();
            let sent = http
                .post(format!("{api}{}", request.path))
                .header("authorization", header("authorization"))
                .header("content-type", header("content-type"))
                .body(request.body.clone())
                .send()
                .await;
            let (status, body) = match sent {
                Ok(answer) => (
                    answer.status().as_u16(),
                    answer.text().await.unwrap_or_default(),
                ),
                Err(error) => (502, error.to_string()),
            };
            let mut answered = answered.lock().unwrap_or_else(PoisonError::into_inner);
            answered.push(status);
            (status, body)
        }
    })
    .await?;
    Ok((front, server))
}

/// The snippet that people paste, with this front, this secret, and times that a test can wait for.
fn alertmanager_config(front: &str, sender: &str, secret: &str) -> Result<String> {
    let mut config = std::fs::read_to_string(snippet())?;
    for (written, here) in [
        (
            "https://API_ID.execute-api.eu-west-1.amazonaws.com/webhooks/alertmanager",
            format!("{front}/webhooks/{sender}"),
        ),
        (
            "credentials_file: /etc/alertmanager/offset-guard-secret",
            format!("credentials: {secret}"),
        ),
        ("group_wait: 30s", "group_wait: 1s".to_owned()),
        ("group_interval: 5m", "group_interval: 5s".to_owned()),
        ("repeat_interval: 4h", "repeat_interval: 5s".to_owned()),
    ] {
        assert!(config.contains(written), "the snippet has no {written}");
        config = config.replace(written, &here);
    }
    Ok(config)
}

fn snippet() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/snippets/alertmanager.yml")
}

#[test]
fn the_snippet_is_right_as_it_stands() -> Outcome {
    let checked = Command::new("amtool")
        .arg("check-config")
        .arg(snippet())
        .output()?;
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "{said}");
    Ok(())
}

fn prometheus(group: &str, since: Timestamp, until: Option<Timestamp>) -> Value {
    let mut alert = json!({
        "labels": {"alertname": "ConsumerGroupStuck", "cluster": "main", "consumergroup": group},
        "annotations": {"summary": "stuck"}, "startsAt": since,
        "generatorURL": "http://127.0.0.1/graph",
    });
    if let Some(until) = until {
        alert["endsAt"] = json!(until);
    }
    json!([alert])
}

#[tokio::test(flavor = "multi_thread")]
async fn alertmanager_itself() -> Outcome {
    let stage = Stage::start().await?;
    fires_repeats_and_resolves(&stage).await?;
    two_replicas_are_one_run(&stage).await?;
    a_first_503_loses_nothing(&stage).await?;
    a_failed_run_is_tried_again(&stage).await?;
    what_is_final_is_not_sent_again(&stage).await?;
    stage.world.stack.stop().await?;
    Ok(())
}

async fn fires_repeats_and_resolves(stage: &Stage) -> Outcome {
    let (front, server) = front(stage).await?;
    let config = alertmanager_config(&server.url, "am", &secret("am"))?;
    let alertmanager = Alertmanager::start(&config).await?;
    let (group, since) = (stage.group(), Timestamp::now());
    alertmanager.post(&prometheus(&group, since, None)).await?;
    let event = until("the run", async || Ok(stage.lambda.taken(&group).pop())).await?;
    front.until(1).await?;
    assert_eq!(front.answered()[0], 202);
    stage.run(&event, true).await?;
    // It repeats every 5 s, and the end of the run covers 4.
    until("a repetition that is one", async || {
        Ok((stage.lambda.taken(&group).len() == 2).then_some(()))
    })
    .await?;
    // The second run is still under way: repetitions are duplicates.
    until("a duplicate", async || {
        Ok((front.answered().last() == Some(&200)).then_some(()))
    })
    .await?;
    alertmanager
        .post(&prometheus(&group, since, Some(Timestamp::now())))
        .await?;
    front.until(front.answered().len() + 1).await?;
    assert_eq!(stage.lambda.taken(&group).len(), 2);
    assert!(
        front
            .answered()
            .iter()
            .all(|status| [200, 202].contains(status))
    );
    alertmanager.stop().await?;
    Ok(())
}

async fn two_replicas_are_one_run(stage: &Stage) -> Outcome {
    let (front, server) = front(stage).await?;
    let config = alertmanager_config(&server.url, "am", &secret("am"))?;
    let one = Alertmanager::start(&config).await?;
    let two = Alertmanager::start(&config).await?;
    let group = stage.group();
    let alert = prometheus(&group, Timestamp::now(), None);
    let (first, second) = tokio::join!(one.post(&alert), two.post(&alert));
    first?;
    second?;
    front.until(2).await?;
    let mut answered = front.answered();
    answered.truncate(2);
    answered.sort_unstable();
    assert_eq!(answered, [200, 202]);
    assert_eq!(stage.lambda.taken(&group).len(), 1);
    one.stop().await?;
    two.stop().await?;
    Ok(())
}

async fn a_first_503_loses_nothing(stage: &Stage) -> Outcome {
    let (front, server) = front(stage).await?;
    let config = alertmanager_config(&server.url, "am", &secret("am"))?;
    let alertmanager = Alertmanager::start(&config).await?;
    let group = stage.group();
    stage.lambda.throttle(3);
    alertmanager
        .post(&prometheus(&group, Timestamp::now(), None))
        .await?;
    until("the run", async || Ok(stage.lambda.taken(&group).pop())).await?;
    front.until(2).await?;
    assert_eq!(front.answered()[..2], [503, 202]);
    assert_eq!(stage.lambda.taken(&group).len(), 1);
    alertmanager.stop().await?;
    Ok(())
}

async fn a_failed_run_is_tried_again(stage: &Stage) -> Outcome {
    let (front, server) = front(stage).await?;
    let config = alertmanager_config(&server.url, "am", &secret("am"))?;
    let alertmanager = Alertmanager::start(&config).await?;
    let group = stage.group();
    alertmanager
        .post(&prometheus(&group, Timestamp::now(), None))
        .await?;
    let event = until("the run", async || Ok(stage.lambda.taken(&group).pop())).await?;
    stage.run(&event, false).await?;
    until("the run after the failed one", async || {
        Ok((stage.lambda.taken(&group).len() == 2).then_some(()))
    })
    .await?;
    front.until(2).await?;
    assert_eq!(front.answered()[..2], [202, 202]);
    alertmanager.stop().await?;
    Ok(())
}

/// What cannot come right by sending it again is not: Alertmanager counts it as failed, and starts nothing.
async fn what_is_final_is_not_sent_again(stage: &Stage) -> Outcome {
    for (sender, offered, status) in [
        ("am", "not-the-secret-of-anybody".to_owned(), 401),
        ("plain", secret("plain"), 400),
    ] {
        let (front, server) = front(stage).await?;
        let config = alertmanager_config(&server.url, sender, &offered)?;
        let alertmanager = Alertmanager::start(&config).await?;
        let group = stage.group();
        alertmanager
            .post(&prometheus(&group, Timestamp::now(), None))
            .await?;
        let counted = async |name: &str| {
            let metrics = alertmanager.metrics().await?;
            let name = format!("alertmanager_{name}{{integration=\"webhook\"");
            let line = metrics.lines().find(|line| line.starts_with(&name));
            let value = line.and_then(|line| line.rsplit(' ').next()?.parse::<u32>().ok());
            Ok::<_, Box<dyn std::error::Error>>(value.unwrap_or_default())
        };
        until("the answer to be counted", async || {
            let failed = counted("notifications_failed_total").await?;
            Ok((failed > 0).then_some(()))
        })
        .await?;
        // One request for each time that it was to be told.
        let requests = counted("notification_requests_total").await?;
        assert!((1..=counted("notifications_total").await?).contains(&requests));
        assert!(front.answered().iter().all(|answered| *answered == status));
        assert_eq!(stage.lambda.taken(&group), Vec::<Value>::new());
        assert_eq!(stage.incident(&group).await?, None);
        alertmanager.stop().await?;
    }
    Ok(())
}
