//! The stack with its senders, and the means to send.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use offset_guard::domain::incident::{IncidentState, Subject};
use offset_guard::domain::offset::GroupId;
use offset_guard_local::stack::{Stack, StackOptions};
use offset_guard_tests::loopback::{Request, Server};
use offset_guard_tests::{CLASSIC_ON_4, Outcome, PATIENCE, World, shared_options};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::Instant;
use ulid::Ulid;

use crate::asked::{Answer, Result, request, to_loopback};

/// The senders, each with the secret of its own name in it.
pub(super) const SENDERS: [&str; 8] = [
    "am", "patient", "am2", "grafana", "plain", "oncall", "narrow", "eager",
];

/// A cool-down that a test can wait for.
pub(super) const COOLDOWN: Duration = Duration::from_secs(4);

/// A window that a test can wait for, and longer than a test needs before.
pub(super) const WINDOW: Duration = Duration::from_secs(8);

pub(super) fn senders() -> String {
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
        ("oncall", "operator", "requests_per_minute = 1000\n"),
        ("narrow", "operator", ""),
        ("eager", "operator", "requests_per_minute = 3\n"),
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

pub(super) fn secret(sender: &str) -> String {
    format!("the-secret-of-{sender}-is-long")
}

/// Lambda, as the webhook's client sees it.
#[derive(Debug, Clone, Default)]
pub(super) struct Lambda {
    pub(super) state: Arc<Mutex<Invocations>>,
    /// The local AWS, whose own Lambda runs guard for groups of [`GUARDED`].
    pub(super) aws: Arc<OnceLock<String>>,
}

/// Before the names of groups that guard itself looks at.
pub(super) const GUARDED: &str = "test-guarded-";

#[derive(Debug, Default)]
pub(super) struct Invocations {
    /// The events that were taken.
    pub(super) taken: Vec<Value>,
    /// How many of the next are throttled.
    pub(super) throttle: usize,
}

impl Lambda {
    pub(super) fn invoked(&self, event: &[u8]) -> (u16, String) {
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
    pub(super) async fn forward(&self, request: &Request) -> Option<u16> {
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

    pub(super) fn throttle(&self, next: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.throttle = next;
    }

    /// The events for a group, in their order.
    pub(super) fn taken(&self, group: &str) -> Vec<Value> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let of_group = state.taken.iter().filter(|event| event["group"] == group);
        of_group.cloned().collect()
    }

    pub(super) fn count(&self) -> usize {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.taken.len()
    }
}

/// A stack with senders, whose guard is the test.
pub(super) struct Stage {
    pub(super) world: World,
    pub(super) lambda: Lambda,
    _server: Server,
    pub(super) http: reqwest::Client,
    pub(super) api: String,
}

impl Stage {
    pub(super) async fn start() -> Result<Self> {
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

    pub(super) async fn put_secret(&self, sender: &str, value: &str) -> Outcome {
        let secrets = aws_sdk_secretsmanager::Client::new(self.world.operator.sdk());
        let name = format!("sender-{sender}");
        let create = secrets.create_secret().name(&name).secret_string(value);
        if create.send().await.is_err() {
            let put = secrets.put_secret_value().secret_id(&name);
            put.secret_string(value).send().await?;
        }
        Ok(())
    }

    pub(super) async fn send(
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
    pub(super) async fn post_with(&self, path: &str, secret: &str, body: &Value) -> Result<Answer> {
        let authorization = format!("Bearer {secret}");
        let headers = [
            ("authorization", authorization.as_str()),
            ("content-type", "application/json"),
        ];
        self.send(Method::POST, path, &headers, Some(body.to_string()))
            .await
    }

    pub(super) async fn post(&self, sender: &str, body: &Value) -> Result<Answer> {
        let path = format!("/webhooks/{sender}");
        self.post_with(&path, &secret(sender), body).await
    }

    /// A new group's name.
    pub(super) fn group(&self) -> String {
        format!("test-{}", Ulid::generate().to_string().to_lowercase())
    }

    pub(super) async fn incident(&self, group: &str) -> Result<Option<IncidentState>> {
        let subject = Subject::Group {
            cluster: "main".to_owned(),
            group: GroupId(group.to_owned()),
        };
        let incident = self.world.store.incident(&subject).await?;
        Ok(incident.map(|incident| incident.state))
    }

    /// Starts and ends the run of an event, as guard does.
    pub(super) async fn run(&self, event: &Value, ok: bool) -> Outcome {
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
pub(super) fn firing(group: &str, since: Timestamp) -> Value {
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

pub(super) fn code(answer: &Answer) -> (u16, String) {
    let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    let code = body["code"].as_str().unwrap_or(&answer.body).to_owned();
    (answer.status, code)
}

#[track_caller]
pub(super) fn assert_code(answer: &Answer, status: u16, expected: &str) {
    assert_eq!(code(answer), (status, expected.to_owned()), "{answer:?}");
}

pub(super) async fn until<T>(what: &str, look: impl AsyncFn() -> Result<Option<T>>) -> Result<T> {
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
