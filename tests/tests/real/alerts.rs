//! What the guard found is told by an execution of its own.

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use jiff::Timestamp;
use offset_guard::domain::audit::AuditStatus;
use offset_guard::domain::group::GroupState;
use offset_guard::domain::guard::run::{GuardAction, GuardRun, SecondSource};
use offset_guard::domain::guard::verdict::{Confidence, Evidence, Finding, Status, Verdict};
use offset_guard::domain::ids::RunId;
use offset_guard::domain::offset::{GroupId, TopicPartition};
use offset_guard_local::operator::{Ended, Execution, Function, Invoked, text_of};
use offset_guard_tests::{Outcome, World, on_kafka_4};
use serde_json::{Value, json};
use ulid::Ulid;

use crate::asked::Result;

on_kafka_4!(
    an_alert_is_told_once_and_on_record,
    an_alert_that_was_cut_off_is_told_by_the_sweep,
    an_event_that_the_guard_does_not_know_is_refused,
);

/// A run that found one partition without members.
pub(crate) fn found(world: &World, group: &str) -> GuardRun {
    GuardRun {
        id: RunId(Ulid::generate().to_string()),
        at: Timestamp::now(),
        cluster: "main".to_owned(),
        cluster_id: Some(world.cluster_id()),
        group: GroupId(group.to_owned()),
        status: Status::Critical,
        failed: None,
        state: Some(GroupState::Empty),
        members: 0,
        looks: 3,
        of_group: None,
        recovery: None,
        findings: vec![Finding {
            partition: TopicPartition::new("parcels", 3),
            verdict: Verdict::NoMembers,
            confidence: Confidence::High,
            status: Status::Critical,
            lag: Some(812),
            evidence: vec![Evidence::NothingMoved],
        }],
        verdicts: [(Verdict::NoMembers, 1)].into(),
        second_source: SecondSource::NotConfigured,
        withheld: Vec::new(),
        records: Vec::new(),
        dry_run: true,
        action: GuardAction::Nothing,
    }
}

/// The input of the execution that tells of `run`.
pub(crate) fn alert(run: &GuardRun) -> Value {
    json!({"alert": {
        "run_id": run.id, "at": run.at, "cluster": run.cluster, "group": run.group,
    }})
}

async fn an_alert_is_told_once_and_on_record(world: &World) -> Outcome {
    let group = format!("<!channel>{}", world.group("test"));
    let run = found(world, &group);
    world.store.put_guard_run(&run).await?;
    let execution = world.operator.start(alert(&run)).await?;
    let ended = execution.end().await?;
    assert_eq!(
        (ended.status.as_str(), ended.code()),
        ("SUCCEEDED", "GUARD_CRITICAL")
    );

    let audits = world.store.audits(&world.key_of(&run.group)).await?;
    let [audit] = &audits[..] else {
        return Err(format!("{audits:?}").into());
    };
    assert_eq!(audit.status, AuditStatus::Succeeded);
    assert_eq!(audit.message, "CRITICAL: 1 NO_MEMBERS");
    assert_eq!(audit.requested_by, "guard");
    assert_eq!(audit.plan, None);

    // Reported again, as a retry would.
    let event = json!({"step": "report", "execution": execution.arn, "state": alert(&run)});
    let again = invoke(world, &event).await?;
    assert_eq!(again["code"], "GUARD_CRITICAL");
    let told = world.told(&run.id.0)?;
    let [told] = &told[..] else {
        return Err(format!("{told:?}").into());
    };
    assert!(told.contains("parcels-3 NO_MEMBERS (high confidence, lag 812)"));
    assert!(told.contains("Nothing is proposed."), "{told}");
    // Slack calls nobody for what stands in plain text.
    let messages = world.stack.slack().messages()?;
    let message = messages.iter().find(|message| text_of(message) == *told);
    let blocks = message.ok_or("no message")?["blocks"].as_array();
    let naming: Vec<_> = blocks
        .into_iter()
        .flatten()
        .map(|block| &block["text"])
        .filter(|text| text["text"].to_string().contains("<!channel>"))
        .collect();
    assert!(!naming.is_empty(), "{messages:?}");
    for text in naming {
        assert_eq!(text["type"], "plain_text", "{text}");
    }
    Ok(())
}

async fn an_alert_that_was_cut_off_is_told_by_the_sweep(world: &World) -> Outcome {
    let group = world.group("test");
    let run = found(world, &group);
    world.store.put_guard_run(&run).await?;
    // What cannot be read cannot be told, and is not told as anything else.
    let stored = damage(world, &run).await?;
    let execution = world.operator.start(alert(&run)).await?;
    let ended = execution.end().await?;
    assert_eq!(
        (ended.status.as_str(), ended.code()),
        ("FAILED", "OffsetGuard.ReportFailed")
    );
    put(world, stored).await?;
    swept(world, &execution).await?;
    swept(world, &execution).await?;
    let audit = world.store.audit_of(&execution.arn).await?;
    assert_eq!(
        audit.map(|audit| audit.code),
        Some("GUARD_CRITICAL".to_owned())
    );
    assert_eq!(world.told(&group)?.len(), 1);
    Ok(())
}

/// An item of the table.
type Item = HashMap<String, AttributeValue>;

/// Damages a run that is stored, and says what it was.
async fn damage(world: &World, run: &GuardRun) -> Result<Item> {
    let pk = format!("GUARDRUN#{}#{}", run.cluster, run.group.0);
    let found = aws_sdk_dynamodb::Client::new(world.operator.sdk())
        .query()
        .table_name(world.stack.output("TableName")?)
        .key_condition_expression("pk = :pk")
        .expression_attribute_values(":pk", AttributeValue::S(pk))
        .send()
        .await?;
    let [stored] = found.items() else {
        return Err(format!("{:?}", found.items()).into());
    };
    let mut damaged = stored.clone();
    for value in damaged.values_mut() {
        if let AttributeValue::B(_) = value {
            *value = AttributeValue::B(Blob::new([0; 8]));
        }
    }
    assert_ne!(damaged, *stored);
    put(world, damaged).await?;
    Ok(stored.clone())
}

async fn put(world: &World, item: Item) -> Outcome {
    aws_sdk_dynamodb::Client::new(world.operator.sdk())
        .put_item()
        .table_name(world.stack.output("TableName")?)
        .set_item(Some(item))
        .send()
        .await?;
    Ok(())
}

async fn an_event_that_the_guard_does_not_know_is_refused(world: &World) -> Outcome {
    let event = json!({"grup": "a typing error"});
    let invoked = world.operator.invoke(&world.stack, Function::Guard, &event);
    let Invoked::Failed { error, message } = invoked.await? else {
        return Err("it ran".into());
    };
    assert_eq!(error, "OffsetGuard.InvalidRequest");
    assert!(message.contains("grup"), "{message}");
    Ok(())
}

/// How the execution that tells of `run` ends.
pub(crate) async fn told(world: &World, run: &GuardRun) -> Result<Ended> {
    world.store.put_guard_run(run).await?;
    let execution = world.operator.start(alert(run)).await?;
    Ok(execution.end().await?)
}

async fn swept(world: &World, execution: &Execution) -> Outcome {
    let event = json!({"step": "sweep", "execution": execution.arn});
    invoke(world, &event).await?;
    Ok(())
}

async fn invoke(world: &World, event: &Value) -> Result<Value> {
    let invoked = world
        .operator
        .invoke(&world.stack, Function::ApprovalTask, event);
    match invoked.await? {
        Invoked::Returned(answer) => Ok(answer),
        Invoked::Failed { message, .. } => Err(message.into()),
    }
}
