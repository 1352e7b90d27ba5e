//! Somebody asks for a recovery of a group for which the guard has proposed one.

use jiff::{SignedDuration, Timestamp};
use offset_guard::domain::approval::{ApprovalStatus, Decision};
use offset_guard::domain::audit::AuditStatus;
use offset_guard::domain::identity::Requester;
use offset_guard::domain::ids::PlanId;
use offset_guard::domain::plan::{PlanRecord, PlanResult};
use offset_guard::store::Decided;
use offset_guard_local::client::Commit;
use offset_guard_local::operator::{link_in, text_of};
use offset_guard_tests::{Outcome, PATIENCE, World, on_kafka_4};
use serde_json::json;
use ulid::Ulid;

use crate::asked::{Asked, Result};

on_kafka_4!(
    a_request_takes_the_place_of_a_plan_of_the_guard_that_waits,
    a_request_leaves_a_plan_of_the_guard_that_is_approved,
);

/// A plan of the guard that moves the group from 5 to 4, and its execution that waits for a decision.
async fn proposed(world: &World, policy: &str) -> Result<Asked> {
    let group = world.group(policy);
    let topic = world.topic("guarded");
    world.filled_topic(&topic, 1, 5).await?;
    let commit = Commit::new(&topic, 0, 5);
    world.client.commit(&group, &[commit]).await?;
    let dry = world.rewind(&group, &json!({"shift_by": -1, "dry_run": true}));
    let ended = world.operator.request(dry).await?.end().await?;
    let read = ended.output["plan"]["plan_id"].as_str().unwrap_or_default();
    let read = world.store.plan(&PlanId(read.to_owned())).await?;
    let record = as_of_the_guard(read.ok_or("there is no plan")?)?;
    world.store.put_plan(&record).await?;
    let input = json!({"plan_id": record.id});
    let execution = world.operator.start(input).await?;
    let link = execution.link(&world.stack, &group, PATIENCE).await?;
    Asked::known(world, group, topic, execution, link).await
}

/// The same plan, as the guard would have made it.
fn as_of_the_guard(read: PlanRecord) -> Result<PlanRecord> {
    let PlanResult::Ready(mut plan) = read.result else {
        return Err("the dry run made no plan".into());
    };
    plan.id = PlanId(Ulid::generate().to_string());
    plan.approve_by = Timestamp::now() + SignedDuration::from_mins(30);
    plan.requested_by = "guard".to_owned();
    plan.requester = Requester::Guard;
    Ok(PlanRecord {
        id: plan.id.clone(),
        requested_by: plan.requested_by.clone(),
        result: PlanResult::Ready(plan),
        ..read
    })
}

async fn a_request_takes_the_place_of_a_plan_of_the_guard_that_waits(world: &World) -> Outcome {
    let guards = proposed(world, "test").await?;
    let group = &guards.group;

    // Who only wants to read a plan takes nobody's place.
    let more = json!({"shift_by": -3, "dry_run": true});
    let refused = world.refused(world.rewind(group, &more)).await?;
    assert_eq!(refused.codes, ["RECOVERY_LIVE"]);
    assert_eq!(
        guards.approval(world).await?.status,
        ApprovalStatus::Pending
    );

    // Anybody may write the guard's name where requesters write theirs.
    let request = world.rewind(group, &json!({"shift_by": -3, "requested_by": "guard"}));
    let execution = world.operator.request(request).await?;
    let message = world.stack.slack().until(PATIENCE, |message| {
        let text = text_of(message);
        text.contains(&guards.topic) && link_in(&text).is_some_and(|link| link != guards.link)
    });
    let message = text_of(&message.await?);
    let link = link_in(&message).ok_or("no link")?.to_owned();
    let topic = guards.topic.clone();
    let asked = Asked::known(world, group.clone(), topic, execution, link).await?;
    assert_eq!(
        guards.approval(world).await?.status,
        ApprovalStatus::Superseded
    );
    assert_eq!(guards.get().await?.status, 410);

    // It waits in vain until the sweep finds it, and lets the other one have the group.
    assert_eq!(guards.sweep(world).await?["superseded"], 1);
    let ended = guards.execution.end().await?;
    assert_eq!(
        (ended.status.as_str(), ended.code()),
        ("SUCCEEDED", "SUPERSEDED")
    );
    let audit = guards.audit(world).await?;
    assert_eq!(audit.status, AuditStatus::Succeeded);
    assert!(audit.message.contains(&asked.plan.0), "{}", audit.message);
    assert_eq!(guards.get().await?.status, 410);
    assert_eq!(guards.offsets(world).await?, [Some(5)]);
    assert!(asked.is_claimed(world).await?);

    assert_eq!(asked.decide("approve", "").await?.status, 303);
    assert_eq!(asked.execution.end().await?.code(), "VERIFIED");
    assert_eq!(asked.offsets(world).await?, [Some(2)]);
    assert!(!asked.is_claimed(world).await?);
    Ok(())
}

async fn a_request_leaves_a_plan_of_the_guard_that_is_approved(world: &World) -> Outcome {
    let guards = proposed(world, "test").await?;
    // The decision stands from the first moment on, before the execution hears of it.
    let digest = guards.approval(world).await?.digest;
    let decided = world.store.decide(
        &guards.hash,
        &digest,
        Decision::Approve,
        "tests",
        "",
        Timestamp::now(),
    );
    assert!(matches!(decided.await?, Decided::Now(_)));
    let request = world.rewind(&guards.group, &json!({"shift_by": -3}));
    let refused = world.refused(request).await?;
    assert_eq!(refused.codes, ["RECOVERY_LIVE"]);
    assert_eq!(guards.sweep(world).await?["delivered"], 1);
    assert_eq!(guards.execution.end().await?.code(), "VERIFIED");
    assert_eq!(guards.offsets(world).await?, [Some(4)]);
    Ok(())
}
