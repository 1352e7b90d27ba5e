//! One record of one partition of six that no consumer can decode.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use offset_guard::domain::guard::run::{GuardAction, GuardRun};
use offset_guard::domain::ids::PlanId;
use offset_guard::domain::offset::GroupId;
use offset_guard::domain::plan::{PlanResult, Source, Warning};
use offset_guard_local::client::Record;
use offset_guard_tests::{Outcome, PATIENCE, World, on_every_kafka};
use serde_json::{Value, json};
use ulid::Ulid;

use super::consumer::{Decoder, Processed};
use super::{assert_copy, copies, header};
use crate::asked::Result;
use crate::secrecy::{logs, passed_on};

on_every_kafka!(a_poison_record_is_found_kept_and_passed_over_and_nothing_else_is);

/// What the configuration of the stack says of `poison-*`.
const QUARANTINE: &str = "poison-quarantine";
const PARTITIONS: i32 = 6;
const EACH: usize = 8;
/// Where the bad record is.
const BAD: (i32, i64) = (3, 5);

async fn a_poison_record_is_found_kept_and_passed_over_and_nothing_else_is(
    world: &World,
) -> Outcome {
    let (group, topic) = (world.group("poison"), world.topic("orders"));
    let payload = format!("payload-{}", Ulid::generate());
    let bad = lay(world, &topic, &payload).await?;
    // Another test of this stack may have made it.
    let _ = world.client.create_topic(QUARANTINE, 1, &[]).await;

    let consumer = Decoder::join(world, &group, &topic)?;
    let good = usize::try_from(PARTITIONS)? * EACH;
    let before_it = usize::try_from(BAD.1)?;
    let reached = good - (EACH - before_it);
    consumer
        .until(|processed, stuck| processed.len() == reached && stuck.contains(&BAD))
        .await?;

    // The verdict, for exactly this partition.
    let (plan, found) = until_proposed(world, &group).await?;
    let findings = found["findings"].as_array().ok_or("no findings")?;
    assert_eq!(findings.len(), usize::try_from(PARTITIONS)?, "{found}");
    for finding in findings {
        let is_bad = finding["partition"]["partition"] == BAD.0;
        let expected = if is_bad { "POISON_LIKELY" } else { "CAUGHT_UP" };
        assert_eq!(finding["verdict"], expected, "{finding}");
    }
    let evidence = findings[3]["evidence"].to_string();
    assert!(
        evidence.contains(&format!("\"offset\":{}", BAD.1)),
        "{evidence}"
    );

    // The plan, and the copy that it rests on.
    let stored = world.store.plan(&plan).await?.ok_or("no plan")?;
    let PlanResult::Ready(stored) = stored.result else {
        return Err("the plan is not ready".into());
    };
    assert_eq!(stored.source, Source::Skip);
    let [only] = stored.moves.as_slice() else {
        return Err(format!("{} moves", stored.moves.len()).into());
    };
    assert_eq!(only.partition.partition, BAD.0);
    assert_eq!(only.from.as_ref().map(|from| from.offset), Some(BAD.1));
    assert_eq!(only.to.as_ref().map(|to| to.offset), Some(BAD.1 + 1));
    let client_id = format!("decoder-of-{group}");
    assert!(
        stored.warnings.iter().any(|warning| matches!(
            warning,
            Warning::MustBeStopped { members, .. } if members.iter().any(|m| m.client_id == client_id)
        )),
        "{:?}",
        stored.warnings
    );
    let kept = copies(&world.client, QUARANTINE, &topic).await?;
    let [copy] = kept.as_slice() else {
        return Err(format!("{} copies", kept.len()).into());
    };
    assert_copy(copy, &bad);
    for (name, expected) in [
        ("origin.cluster.id", world.cluster_id().0),
        ("origin.topic", topic.clone()),
        ("origin.partition", BAD.0.to_string()),
        ("origin.offset", BAD.1.to_string()),
        ("group.id", group.clone()),
        ("reason.verdict", "POISON_LIKELY".to_owned()),
    ] {
        let name = format!("offset-guard.{name}");
        assert_eq!(header(copy, &name), expected, "{name}");
    }

    // More looks add nothing.
    for _ in 0..5 {
        let again = tick(world, &group).await?;
        assert_eq!(again["plan"], Value::Null, "{again}");
    }
    assert_eq!(copies(&world.client, QUARANTINE, &topic).await?, kept);
    let runs = runs(world, &group).await?;
    let proposed = runs
        .iter()
        .filter(|run| matches!(run.action, GuardAction::Proposed { .. }));
    assert_eq!(proposed.count(), 1);

    // It waits for a person, then for the consumer to stop.
    let execution = world.operator.named(&plan.0);
    let link = execution.link(&world.stack, &group, PATIENCE).await?;
    let (_, page) = world.operator.get(&link).await?;
    assert!(page.contains(&client_id), "the page names no member");
    world.operator.approve(&link, &group).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(execution.ended().await?, None);
    let stands = world.offsets(&group, &topic, PARTITIONS).await?;
    assert_eq!(stands[3], Some(BAD.1));
    let mut processed = consumer.stop().await?;
    let ended = execution.end().await?;
    assert_eq!(ended.code(), "VERIFIED", "{ended:?}");
    let moved = world.offsets(&group, &topic, PARTITIONS).await?;
    assert_eq!(moved[3], Some(BAD.1 + 1));

    // The group catches up; every record was processed once, or is in quarantine.
    let consumer = Decoder::join(world, &group, &topic)?;
    consumer
        .until(|processed, stuck| processed.len() == EACH - before_it && stuck.is_empty())
        .await?;
    for (place, times) in consumer.stop().await? {
        *processed.entry(place).or_default() += times;
    }
    assert_eq!(processed, all_but_the_bad_one());
    assert_eq!(copies(&world.client, QUARANTINE, &topic).await?, kept);

    nothing_says(world, &group, &plan, &payload).await
}

/// Fills the topic; answers with its bad record.
async fn lay(world: &World, topic: &str, payload: &str) -> Result<Record> {
    let bad = Record {
        key: Some(payload.as_bytes().to_vec()),
        headers: vec![
            ("trace".to_owned(), Some(payload.as_bytes().to_vec())),
            ("trace".to_owned(), None),
            ("trace".to_owned(), Some(Vec::new())),
            ("trace".to_owned(), Some(payload.as_bytes().to_vec())),
        ],
        ..Record::new(
            BAD.0,
            [b"{\"order\": \"\xff\x00", payload.as_bytes()].concat(),
        )
    };
    world.client.create_topic(topic, PARTITIONS, &[]).await?;
    for partition in 0..PARTITIONS {
        let mut records: Vec<_> = (0..EACH)
            .map(|n| Record::new(partition, json!({ "order": n, "of": payload }).to_string()))
            .collect();
        if partition == BAD.0 {
            records.insert(usize::try_from(BAD.1)?, bad.clone());
        }
        world.client.produce(topic, &records).await?;
    }
    Ok(bad)
}

/// Every record that was produced, processed once, but the bad one.
fn all_but_the_bad_one() -> Processed {
    let mut all = Processed::new();
    for partition in 0..PARTITIONS {
        let records = EACH + usize::from(partition == BAD.0);
        all.extend((0..).take(records).map(|offset| ((partition, offset), 1)));
    }
    all.remove(&BAD);
    all
}

/// One look of the guard at one group.
async fn tick(world: &World, group: &str) -> Result<Value> {
    let event = json!({ "cluster": "main", "group": group });
    Ok(world.guard(&event).await?[0].clone())
}

async fn until_proposed(world: &World, group: &str) -> Result<(PlanId, Value)> {
    let mut last = Value::Null;
    for _ in 0..20 {
        last = tick(world, group).await?;
        if let Some(plan) = last["plan"].as_str() {
            return Ok((PlanId(plan.to_owned()), last));
        }
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    Err(format!("nothing is proposed: {last}").into())
}

async fn runs(world: &World, group: &str) -> Result<Vec<GuardRun>> {
    let since = Timestamp::now() - SignedDuration::from_hours(1);
    let group = GroupId(group.to_owned());
    Ok(world.store.guard_runs_since("main", &group, since).await?)
}

/// No log, message, execution or item of the table holds anything of a record.
async fn nothing_says(world: &World, group: &str, plan: &PlanId, payload: &str) -> Outcome {
    for (name, text) in logs(world).await? {
        assert!(!text.contains(payload), "a payload is in {name}");
    }
    let told = world.told(group)?;
    assert!(!told.is_empty());
    assert!(!format!("{told:?}").contains(payload));
    let history = passed_on(world, &world.operator.named(&plan.0).arn).await?;
    assert!(history.contains("VERIFIED"));
    assert!(!history.contains(payload));
    // What is packed in the table, as it is unpacked.
    let kept = serde_json::to_string(&(
        world.store.plan(plan).await?,
        runs(world, group).await?,
        world
            .store
            .audits(&world.key_of(&GroupId(group.to_owned())))
            .await?,
    ))?;
    assert!(kept.contains("POISON_LIKELY"));
    assert!(!kept.contains(payload));
    Ok(())
}
