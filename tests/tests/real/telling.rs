//! Slack: what becomes of a recovery while nobody can be told.

use std::time::{Duration, Instant};

use offset_guard::domain::approval::ApprovalStatus;
use offset_guard::domain::audit::Audit;
use offset_guard::domain::offset::GroupId;
use offset_guard_local::client::Commit;
use offset_guard_local::slack::Behaviour;
use offset_guard_local::stack::Stack;
use offset_guard_tests::{CLASSIC_ON_4, Outcome, World, shared_options};
use reqwest::Method;
use serde_json::{Value, json};

use crate::alerts;
use crate::asked::{Asked, Result, request};
use crate::secrecy::logs;
use crate::secrets::form_key_arn;

/// How long three tries of a Slack that never answers may take, and all else around them.
const AT_ONCE: Duration = Duration::from_secs(40);

/// In a stack of its own, whose Slack this test breaks.
#[tokio::test(flavor = "multi_thread")]
async fn a_slack_that_fails_stops_what_nobody_was_told_of_and_nothing_else() -> Outcome {
    let stack = Stack::start(&shared_options(CLASSIC_ON_4.kafka)).await?;
    let world = World::of(stack, CLASSIC_ON_4)?;
    let slack = world.stack.slack().clone();

    // An approval that nobody was told of.
    for (behaviour, why) in [
        (Behaviour::Fail, "Slack answered with status 500"),
        (Behaviour::Hang, "Slack could not be reached"),
    ] {
        slack.behave(behaviour)?;
        let audit = untold(&world).await?;
        assert!(audit.message.contains(why), "{}", audit.message);
    }

    // One that was told of, and whose result cannot be. (That a hanging Slack keeps no report back was seen above.)
    slack.behave(Behaviour::Accept)?;
    let asked = Asked::of(&world, "test").await?;
    slack.behave(Behaviour::Fail)?;
    assert_eq!(asked.decide("approve", "").await?.status, 303);
    let ended = asked.execution.end().await?;
    assert_eq!(
        (ended.status.as_str(), ended.code()),
        ("SUCCEEDED", "VERIFIED")
    );
    assert_eq!(asked.offsets(&world).await?, [Some(2)]);
    assert!(!asked.is_claimed(&world).await?);
    assert_eq!(asked.audit(&world).await?.code, "VERIFIED");
    // Each of these was counted for the alarm, and the last one is told of in the log: two that nobody was told of, with
    // the report of their end, and this result.
    let logs = logs(&world).await?;
    let told = logs
        .iter()
        .find(|(name, _)| name == "/aws/lambda/offset-guard-approval-task");
    let (_, text) = told.ok_or("the function has no log")?;
    let counted = text.lines().filter(|line| {
        let line = serde_json::from_str::<Value>(line).unwrap_or_default();
        line["SlackNotDelivered"] == 1 && line["FunctionName"] == "offset-guard-approval-task"
    });
    assert_eq!(counted.count(), 5, "{text}");
    assert!(text.contains("the result could not be told"), "{text}");

    // An alert of the guard, which is for nothing else than to be told.
    let run = alerts::found(&world, &world.group("test"));
    let ended = alerts::told(&world, &run).await?;
    assert_eq!(
        (ended.status.as_str(), ended.code()),
        ("FAILED", "GUARD_CRITICAL")
    );
    let cause = ended.cause.unwrap_or_default();
    assert!(cause.contains("Nobody was told: Slack answered"), "{cause}");

    // None is configured, or something else than a webhook.
    slack.behave(Behaviour::Accept)?;
    set_slack_secret(&world, "").await?;
    let audit = untold(&world).await?;
    assert!(
        audit.message.contains("no Slack webhook is configured"),
        "{}",
        audit.message
    );
    for arn in [
        "arn:aws:secretsmanager:eu-west-1:000000000000:secret:nowhere",
        &form_key_arn(&world).await?,
    ] {
        set_slack_secret(&world, arn).await?;
        let audit = untold(&world).await?;
        assert!(
            audit
                .message
                .contains("cannot be read or holds no https URL"),
            "{}",
            audit.message
        );
    }
    assert_eq!(world.told("NOT_APPROVED")?, Vec::<String>::new());
    world.stack.stop().await?;
    Ok(())
}

/// Asks for a rewind whose approver cannot be told, and sees that it ends at once and leaves nothing behind.
async fn untold(world: &World) -> Result<Audit> {
    let name = ulid::Ulid::generate().to_string();
    let (topic, group) = (format!("untold-{name}"), format!("test-{name}"));
    world.filled_topic(&topic, 1, 5).await?;
    let commit = Commit::new(&topic, 0, 5);
    world.client.commit(&group, &[commit]).await?;
    let start = Instant::now();
    let rewind = world.rewind(&group, &json!({"shift_by": -3}));
    let execution = world.operator.request(rewind).await?;
    let ended = execution.ended_within(2 * AT_ONCE).await?;
    let took = start.elapsed();
    // Two tries of three: the request and the report of its end.
    assert!(took < 2 * AT_ONCE, "it took {took:?}");
    assert_eq!(
        (ended.status.as_str(), ended.code()),
        ("FAILED", "NOT_APPROVED")
    );
    assert_eq!(world.offsets(&group, &topic, 1).await?, [Some(5)]);
    let audit = world.store.audit_of(&execution.arn).await?;
    let audit = audit.ok_or("there is no audit record")?;
    let plan = audit.plan.clone().ok_or("the audit names no plan")?;
    let approval = world.store.approval_of(&plan).await?;
    let (_, approval) = approval.ok_or("there is no approval")?;
    assert_eq!(approval.status, ApprovalStatus::Superseded);
    assert_eq!(approval.decided_by, None);
    let group = GroupId(group);
    assert_eq!(world.store.claim(&world.key_of(&group)).await?, None);
    let open = world.store.open_recoveries().await?;
    assert!(open.iter().all(|(open, _)| *open != plan));
    Ok(audit)
}

/// Gives the function that tells people another secret, as a deploy with another parameter would.
async fn set_slack_secret(world: &World, arn: &str) -> Outcome {
    let function = world.stack.output("ApprovalTaskFunction")?;
    let url = format!(
        "{}/2015-03-31/functions/{function}/configuration",
        world.stack.aws_endpoint()
    );
    let http = reqwest::Client::builder().no_proxy().build()?;
    let found = request(&http, Method::GET, &url, &[], None).await?;
    let mut found: Value = serde_json::from_str(&found.body)?;
    let mut environment = found["Environment"].take();
    environment["Variables"]["OFFSET_GUARD_SLACK_SECRET"] = json!(arn);
    let body = json!({ "Environment": environment }).to_string();
    let headers = [("content-type", "application/json")];
    let put = request(&http, Method::PUT, &url, &headers, Some(body)).await?;
    assert_eq!(put.status, 200, "{}", put.body);
    Ok(())
}
