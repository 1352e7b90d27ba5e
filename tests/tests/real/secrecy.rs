//! What must not be said anywhere is not said anywhere: not in a log, and in Slack no more than the link.

use std::path::Path;

use offset_guard_tests::{Outcome, World, on_kafka_4};
use reqwest::Method;
use serde_json::{Value, json};

use crate::asked::{Asked, Result, link_id, request};
use crate::secrets::form_key;

on_kafka_4!(no_log_of_a_whole_recovery_holds_a_secret);

async fn no_log_of_a_whole_recovery_holds_a_secret(world: &World) -> Outcome {
    let asked = Asked::of(world, "test").await?;
    let task_token = asked.task_token(world).await?.expose().to_owned();
    let form_token = asked.token("approve").await?;
    // What went wrong on the way must not be logged with what it was about.
    let forged = form_token.replace('.', ".A");
    for token in ["", &forged] {
        let fields = [("decision", "approve"), ("token", token)];
        assert_eq!(asked.post(&fields).await?.status, 403);
    }
    let fields = [
        ("decision", "approve"),
        ("token", form_token.as_str()),
        ("group", "another"),
    ];
    assert_eq!(asked.post(&fields).await?.status, 422);
    assert_eq!(asked.decide("approve", "").await?.status, 303);
    assert_eq!(asked.execution.end().await?.code(), "VERIFIED");

    let secrets = [
        ("the task token", task_token),
        ("the form key", form_key(world).await?),
        ("the webhook", world.stack.slack().url().to_owned()),
        ("a form token", form_token),
        ("the link's id", link_id(&asked.link).to_owned()),
    ];
    let logs = logs(world).await?;
    // What is looked through is what was written: the page and the steps have logged this very plan.
    for function in ["approval-page", "rewind"] {
        let group = format!("/aws/lambda/offset-guard-{function}");
        let log = logs.iter().find(|(name, _)| *name == group);
        let (_, text) = log.ok_or_else(|| format!("there is no log group {group}"))?;
        assert!(text.contains(&asked.plan.0), "{group} says nothing of it");
    }
    assert!(logs.iter().any(|(name, _)| name.contains("aws-")));
    for (name, text) in &logs {
        for (what, secret) in &secrets {
            assert!(!text.contains(secret), "{what} is in {name}");
        }
    }
    // People get the link, which is what they decide by, and nothing else of it.
    let messages = serde_json::to_string(&world.stack.slack().messages()?)?;
    assert!(messages.contains(link_id(&asked.link)));
    for (what, secret) in &secrets[..4] {
        assert!(!messages.contains(secret), "{what} is in a message");
    }
    Ok(())
}

/// All that a stack has logged: each log group of the local AWS and each log file, by name.
pub(crate) async fn logs(world: &World) -> Result<Vec<(String, String)>> {
    let mut logs = Vec::new();
    for name in log_groups(world).await? {
        let mut text = String::new();
        let mut next = Value::Null;
        loop {
            let mut asked = json!({"logGroupName": name, "limit": 10_000});
            if !next.is_null() {
                asked["nextToken"] = next;
            }
            let page = call_logs(world, "FilterLogEvents", &asked).await?;
            for event in page["events"].as_array().into_iter().flatten() {
                text.push_str(event["message"].as_str().unwrap_or_default());
                text.push('\n');
            }
            next = page["nextToken"].clone();
            if next.is_null() {
                break;
            }
        }
        logs.push((name, text));
    }
    files(world.stack.dir(), &mut logs)?;
    Ok(logs)
}

async fn log_groups(world: &World) -> Result<Vec<String>> {
    let found = call_logs(world, "DescribeLogGroups", &json!({})).await?;
    let groups = found["logGroups"].as_array().ok_or("no log groups")?;
    Ok(groups
        .iter()
        .filter_map(|group| Some(group["logGroupName"].as_str()?.to_owned()))
        .collect())
}

/// Calls CloudWatch Logs of the local AWS.
async fn call_logs(world: &World, operation: &str, body: &Value) -> Result<Value> {
    let http = reqwest::Client::builder().no_proxy().build()?;
    let target = format!("Logs_20140328.{operation}");
    let headers = [
        ("content-type", "application/x-amz-json-1.1"),
        ("x-amz-target", target.as_str()),
        (
            "authorization",
            "AWS4-HMAC-SHA256 Credential=test/20260101/eu-west-1/logs/aws4_request, SignedHeaders=host, Signature=0",
        ),
    ];
    let url = world.stack.aws_endpoint();
    let answer = request(&http, Method::POST, url, &headers, Some(body.to_string())).await?;
    assert_eq!(answer.status, 200, "{}", answer.body);
    Ok(serde_json::from_str(&answer.body)?)
}

/// Every log file under a folder.
fn files(folder: &Path, logs: &mut Vec<(String, String)>) -> Outcome {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files(&path, logs)?;
        } else if path.extension().is_some_and(|ending| ending == "log") {
            let text = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
            logs.push((path.display().to_string(), text));
        }
    }
    Ok(())
}
