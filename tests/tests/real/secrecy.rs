//! What must not be said anywhere is not said anywhere: not in a log, an error, the table or a URL, and in Slack no more
//! than the link.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use aws_sdk_dynamodb::types::AttributeValue;
use offset_guard_local::client::Record;
use offset_guard_local::operator::{link_in, text_of};
use offset_guard_tests::{Outcome, World, on_kafka_4};
use reqwest::Method;
use serde_json::{Value, json};

use crate::asked::{Asked, Result, link_id, request};
use crate::secrets::form_key;
use offset_guard::domain::ids::ExecutionArn;

on_kafka_4!(nothing_of_a_whole_run_says_a_secret);

/// A text that must not be found, and what it is.
type Secret = (String, String);

async fn nothing_of_a_whole_run_says_a_secret(world: &World) -> Outcome {
    let payload = format!("payload-{}", ulid::Ulid::generate());
    let asked = Asked::of(world, "test").await?;
    let record = Record {
        key: Some(payload.clone().into()),
        headers: vec![("trace".to_owned(), Some(payload.clone().into()))],
        ..Record::new(0, payload.clone())
    };
    world.client.produce(&asked.topic, &[record]).await?;
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

    // What this test did, and whatever others did on this stack so far.
    let items = items(world).await?;
    let messages = world.stack.slack().messages()?;
    let links: BTreeSet<_> = messages
        .iter()
        .filter_map(|m| Some(link_id(link_in(&text_of(m))?).to_owned()))
        .collect();
    assert!(links.contains(link_id(&asked.link)));
    let tokens: BTreeSet<_> = items.iter().filter_map(token_of).collect();
    assert!(tokens.contains(asked.task_token(world).await?.expose()));
    let mut secrets: Vec<Secret> = vec![
        ("the form key".to_owned(), form_key(world).await?),
        (
            "the webhook".to_owned(),
            world.stack.slack().url().to_owned(),
        ),
        ("a form token".to_owned(), form_token),
        ("a payload".to_owned(), payload),
    ];
    let in_messages = secrets.len() + tokens.len();
    secrets.extend(
        tokens
            .iter()
            .map(|token| ("a task token".to_owned(), token.clone())),
    );
    secrets.extend(
        links
            .iter()
            .map(|id| ("a link's id".to_owned(), id.clone())),
    );

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
        silent(name, text, &secrets);
    }
    // The table has each token in its own item, and of the links nothing but hashes.
    for item in &items {
        let (token, text) = (token_of(item), format!("{item:?}"));
        for (what, secret) in &secrets {
            let own = token.as_ref() == Some(secret);
            assert!(
                own || !text.contains(secret),
                "{what} is in {:?}",
                item["pk"]
            );
        }
    }
    // Errors, and whatever else the execution passed on, but the token that it waits for.
    let passed_on = passed_on(world, &asked.execution.arn).await?;
    assert!(passed_on.contains("VERIFIED"));
    let but_the_token: Vec<_> = secrets
        .iter()
        .filter(|(what, _)| what != "a task token")
        .cloned()
        .collect();
    silent("the execution's history", &passed_on, &but_the_token);
    // People get the link, which is what they decide by, and nothing else of it.
    let messages = serde_json::to_string(&messages)?;
    silent("a message", &messages, &secrets[..in_messages]);
    Ok(())
}

/// None of `secrets` is in `text`.
#[track_caller]
fn silent(name: &str, text: &str, secrets: &[Secret]) {
    for (what, secret) in secrets {
        assert!(!text.contains(secret), "{what} is in {name}");
    }
}

/// Every item of the stack's table.
async fn items(world: &World) -> Result<Vec<HashMap<String, AttributeValue>>> {
    let table = aws_sdk_dynamodb::Client::new(world.operator.sdk());
    let scan = table.scan().table_name(world.stack.output("TableName")?);
    let items = scan.into_paginator().items().send();
    Ok(items.collect::<std::result::Result<_, _>>().await?)
}

/// The task token that an item holds.
fn token_of(item: &HashMap<String, AttributeValue>) -> Option<String> {
    item.get("token")?.as_s().ok().cloned()
}

/// All that the states of an execution were given and gave, errors among it, as the service tells it.
pub(crate) async fn passed_on(world: &World, arn: &ExecutionArn) -> Result<String> {
    let asked = json!({"executionArn": arn, "maxResults": 1_000});
    let history = call(world, "AWSStepFunctions.GetExecutionHistory", &asked).await?;
    Ok(history.to_string())
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
            let page = call(world, "Logs_20140328.FilterLogEvents", &asked).await?;
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
    let found = call(world, "Logs_20140328.DescribeLogGroups", &json!({})).await?;
    let groups = found["logGroups"].as_array().ok_or("no log groups")?;
    Ok(groups
        .iter()
        .filter_map(|group| Some(group["logGroupName"].as_str()?.to_owned()))
        .collect())
}

/// Calls the local AWS without a client that keeps anything to itself.
async fn call(world: &World, target: &str, body: &Value) -> Result<Value> {
    let http = reqwest::Client::builder().no_proxy().build()?;
    let headers = [
        ("content-type", "application/x-amz-json-1.1"),
        ("x-amz-target", target),
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

/// Every log file under a folder. A broker's data are files of that ending too, and hold every record.
fn files(folder: &Path, logs: &mut Vec<(String, String)>) -> Outcome {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if !path.ends_with("data") {
                files(&path, logs)?;
            }
        } else if path.extension().is_some_and(|ending| ending == "log") {
            let text = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
            logs.push((path.display().to_string(), text));
        }
    }
    Ok(())
}
