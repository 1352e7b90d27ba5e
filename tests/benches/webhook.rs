//! How long the webhook takes to answer, at 20 requests a second for a minute: over the local API, each request with its
//! function, its secret and its table. One in four starts a run, the others are duplicates of it.
//!
//! `cargo bench -p offset-guard-tests --bench webhook`; with `--profile dev` nothing has to be built anew.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::env;
use std::io::{Write, stdout};
use std::time::Duration;

use jiff::Timestamp;
use offset_guard_local::stack::{Stack, StackOptions};
use offset_guard_tests::loopback::Server;
use offset_guard_tests::{CLASSIC_ON_4, Outcome, World, shared_options};
use serde_json::json;
use tokio::time::{Instant, interval};

const SECONDS: u32 = 60;
const PER_SECOND: u32 = 20;
/// What is sent before, so that functions have started.
const WARM_UP: u32 = 3 * PER_SECOND;
const SECRET: &str = "a-secret-of-the-bench";
const SENDER: &str = r#"
[senders.bench]
kind = "json"
secret = "arn:aws:secretsmanager:eu-west-1:000000000000:secret:bench"
groups = ["test-*"]
runs_per_minute = 1000
"#;

/// A status, and how long it took.
type Answered = (u16, Duration);

#[tokio::main]
async fn main() -> Outcome {
    // `cargo test` only wants to know that it builds.
    if !env::args().any(|arg| arg == "--bench") {
        return Ok(());
    }
    // Guard is not what is measured, so nobody runs it.
    let lambda = Server::start(async |_| (202, String::new())).await?;
    let mut options: StackOptions = shared_options(CLASSIC_ON_4.kafka);
    options.config.push_str(SENDER);
    options
        .aws_environment
        .insert("AWS_ENDPOINT_URL_LAMBDA".to_owned(), lambda.url.clone());
    let world = World::of(Stack::start(&options).await?, CLASSIC_ON_4)?;
    let secrets = aws_sdk_secretsmanager::Client::new(world.operator.sdk());
    let secret = secrets.create_secret().name("bench").secret_string(SECRET);
    secret.send().await?;
    let url = reqwest::Url::parse(&format!("{}/webhooks/bench", world.stack.output("ApiUrl")?))?;
    let (host, port) = (
        url.host_str().ok_or("no host")?,
        url.port().ok_or("no port")?,
    );
    let http = reqwest::Client::builder()
        .no_proxy()
        .resolve(host, ([127, 0, 0, 1], port).into())
        .build()?;

    steady(&http, &url, SECRET, "warm", WARM_UP).await?;
    let count = SECONDS * PER_SECOND;
    // What the local API and the start of a function take by themselves: a stranger is answered without a look at
    // anything.
    let stranger = steady(&http, &url, "a-stranger", "none", count / 6).await?;
    report("a stranger's", stranger)?;
    let load = steady(&http, &url, SECRET, "load", count).await?;
    let (started, duplicates) = load.iter().partition(|(status, _)| *status == 202);
    report("all", load.clone())?;
    report("those that start a run", started)?;
    report("duplicates", duplicates)?;
    world.stack.stop().await?;
    Ok(())
}

fn report(what: &str, answers: Vec<Answered>) -> Outcome {
    let mut times: Vec<Duration> = answers.iter().map(|(_, took)| *took).collect();
    times.sort_unstable();
    let mut statuses: BTreeMap<u16, usize> = BTreeMap::new();
    for (status, _) in &answers {
        *statuses.entry(*status).or_default() += 1;
    }
    let last = times.len().checked_sub(1).ok_or("no answer")?;
    let at = |percent: usize| times[(times.len() * percent / 100).min(last)];
    writeln!(
        stdout(),
        "{what}, by status {statuses:?}: median {:?}, p95 {:?}, p99 {:?}, longest {:?}",
        at(50),
        at(95),
        at(99),
        at(100),
    )?;
    Ok(())
}

/// Sends `count` requests in even steps, whether the ones before are answered or not.
async fn steady(
    http: &reqwest::Client,
    url: &reqwest::Url,
    secret: &str,
    name: &str,
    count: u32,
) -> Result<Vec<Answered>, Box<dyn std::error::Error>> {
    let mut step = interval(Duration::from_secs(1) / PER_SECOND);
    let since = Timestamp::now();
    let mut sent = Vec::new();
    for n in 0..count {
        step.tick().await;
        let body = json!({"group": format!("test-{name}-{}", n / 4), "starts_at": since});
        let request = http.post(url.clone()).bearer_auth(secret);
        let request = request
            .header("content-type", "application/json")
            .body(body.to_string());
        sent.push(tokio::spawn(async move {
            let start = Instant::now();
            let answer = request.send().await?;
            let status = answer.status().as_u16();
            answer.bytes().await?;
            Ok::<_, reqwest::Error>((status, start.elapsed()))
        }));
    }
    let mut all = Vec::new();
    for request in sent {
        all.push(request.await??);
    }
    Ok(all)
}
