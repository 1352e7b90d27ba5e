//! Groups with members: running, lingering, coming back.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Mutex;
use std::time::Duration;

use offset_guard::app::apply;
use offset_guard::domain::group::Activity;
use offset_guard::domain::offset::GroupId;
use offset_guard::error::Error;
use offset_guard::kafka::{GroupReader, GroupWriter, RecordReader};
use offset_guard::ports::ReadGroups;
use offset_guard::wire::PlanStep;
use offset_guard_local::client::{MemberOptions, Protocol};
use offset_guard_local::kafka::ConsoleConsumer;
use offset_guard_tests::context::{Connect, context};
use offset_guard_tests::{Outcome, PATIENCE, World, on_every_kafka, on_kafka_4};
use serde_json::json;

use super::{Scene, sweep, until};

on_every_kafka!(
    a_live_member_is_named,
    a_static_member_that_stopped_still_counts,
    a_killed_member_counts_until_its_session_ends,
    a_member_that_joins_before_the_approval,
    a_member_that_joins_while_it_is_applied,
);
on_kafka_4!(a_dry_run_of_a_live_group);

async fn a_live_member_is_named(world: &World) -> Outcome {
    let scene = Scene::read(world, "test", 2, 5).await?;
    scene.checkpoint().await?;
    let member = world.member(&scene.group, scene.topic(), 2).await?;
    let name = format!("client-of-{}", scene.group);
    for target in [json!({"to_earliest": true}), json!({"shift_by": -1})] {
        scene
            .refuses(&target, &["GROUP_ACTIVE"], &["stop ", &name])
            .await?;
    }
    assert_eq!(member.assigned().len(), 2, "nobody disturbed it");
    member.stop().await?;
    Ok(())
}

/// A session that outlasts a slow test. The members of a KIP-848 group have the broker's, of 45 seconds.
fn long_session(protocol: Protocol) -> BTreeMap<String, String> {
    match protocol {
        Protocol::Classic => [("session.timeout.ms".to_owned(), "300000".to_owned())].into(),
        Protocol::Consumer => BTreeMap::new(),
    }
}

async fn a_static_member_that_stopped_still_counts(world: &World) -> Outcome {
    let scene = Scene::read(world, "test", 2, 5).await?;
    let options = MemberOptions {
        instance_id: Some(format!("instance-of-{}", scene.group)),
        client_id: Some(format!("client-of-{}", scene.group)),
        properties: long_session(world.setting.protocol),
        ..MemberOptions::of(world.setting.protocol)
    };
    let member = world
        .client
        .join(&scene.group, &[scene.topic()], &options)?;
    member.until_assigned(2, PATIENCE).await?;
    member.stop().await?;
    let name = format!("client-of-{}", scene.group);
    scene
        .refuses(
            &json!({"shift_by": -1}),
            &["GROUP_ACTIVE"],
            &["stop ", &name],
        )
        .await?;
    Ok(())
}

async fn a_killed_member_counts_until_its_session_ends(world: &World) -> Outcome {
    let scene = Scene::read(world, "test", 2, 5).await?;
    let mut consumer = ConsoleConsumer::new(&scene.group, scene.topic());
    consumer.client_id = format!("console-of-{}", scene.group);
    consumer.properties = long_session(world.setting.protocol);
    let protocol = world.setting.protocol.name().to_owned();
    consumer
        .properties
        .insert("group.protocol".to_owned(), protocol);
    let mut consumer = world.stack.cli()?.console_consumer(&consumer)?;
    world.produce(scene.topic(), 0, 1).await?;
    consumer.until_read(1, PATIENCE).await?;
    // Killed: it neither commits nor leaves.
    drop(consumer);
    let name = format!("console-of-{}", scene.group);
    scene
        .refuses(
            &json!({"shift_by": -1}),
            &["GROUP_ACTIVE"],
            &["stop ", &name],
        )
        .await?;
    Ok(())
}

async fn a_member_that_joins_before_the_approval(world: &World) -> Outcome {
    let scene = Scene::read(world, "test", 2, 5).await?;
    let execution = scene.asked(&json!({"to_earliest": true})).await?;
    scene.link(&execution).await?;
    let member = world.member(&scene.group, scene.topic(), 2).await?;
    let name = format!("client-of-{}", scene.group);
    scene
        .approved_in_vain(&execution, &["GROUP_ACTIVE"], &["stop ", &name])
        .await?;
    member.stop().await?;
    // What was approved once is not good twice; what is asked for again is.
    scene.moves(&json!({"to_earliest": true})).await?;
    Ok(())
}

/// To read what would be moved, nobody has to stop anything; to have it moved, somebody has.
async fn a_dry_run_of_a_live_group(world: &World) -> Outcome {
    let scene = Scene::read(world, "test", 2, 5).await?;
    let member = world.member(&scene.group, scene.topic(), 2).await?;
    let name = format!("client-of-{}", scene.group);
    let back = json!({"shift_by": -2});
    let plan = scene.dry_run(&back).await?;
    assert_eq!(plan.moves.len(), 2);
    assert!(plan.is_of_active_group());
    let named: Vec<_> = plan
        .members_to_stop()
        .iter()
        .map(|m| &m.client_id)
        .collect();
    assert_eq!(named, [&name]);
    scene
        .refuses(&back, &["GROUP_ACTIVE"], &["stop ", &name])
        .await?;

    let taken_over = json!({"plan_id": plan.id});
    let execution = world.operator.start(taken_over.clone()).await?;
    let ended = execution.end().await?;
    assert_eq!(ended.code(), "REFUSED", "{ended:?}");
    let audit = world.store.audit_of(&execution.arn).await?;
    let audit = audit.ok_or("there is no audit record")?;
    let codes: Vec<_> = audit.refusals.iter().map(|r| r.code()).collect();
    assert_eq!(codes, ["GROUP_ACTIVE"]);
    super::assert_says(&audit.message, &["stop ", &name]);

    member.stop().await?;
    let execution = world.operator.start(taken_over).await?;
    let link = scene.link(&execution).await?;
    world.operator.approve(&link, &scene.group).await?;
    assert_eq!(execution.end().await?.code(), "VERIFIED");
    Ok(())
}

fn broken(error: &dyn Display) -> Error {
    Error::Broken(error.to_string())
}

/// The last look sees an empty group, and the broker a member: its word counts.
async fn a_member_that_joins_while_it_is_applied(world: &World) -> Outcome {
    let scene = Scene::read(world, "restless", 2, 5).await?;
    let member = world.member(&scene.group, scene.topic(), 2).await?;
    let execution = scene.asked(&json!({"to_earliest": true})).await?;
    let link = scene.link(&execution).await?;
    let plan = scene.open_plan(&execution).await?;
    world.operator.approve(&link, &scene.group).await?;
    until("the execution to be admitted", async || {
        let recovery = world.store.recovery(&plan).await?;
        Ok(recovery.and_then(|recovery| recovery.apply_by).map(|_| ()))
    })
    .await?;
    member.stop().await?;
    let before = scene.in_kafka().await?;
    let reader = GroupReader::connect(world.settings())?;
    until("the group to be empty", async || {
        let group = GroupId(scene.group.clone());
        let seen = reader.observe(&group, &[].into(), true).await?;
        Ok((seen.activity() == Activity::Inactive).then_some(()))
    })
    .await?;

    // The execution itself waits for a longer rest. This is its next step, with somebody quicker in between.
    let step = PlanStep {
        execution: execution.arn.clone(),
        plan_id: plan.clone(),
    };
    let back = Mutex::new(None);
    let ctx = context(
        world.config()?,
        &world.store,
        Connect {
            groups: async |_: &str| Ok(GroupReader::connect(world.settings())?),
            writer: async |_: &str| {
                let member = world.member(&scene.group, scene.topic(), 2).await;
                *back.lock().map_err(|error| broken(&error))? =
                    Some(member.map_err(|error| broken(&error))?);
                Ok(GroupWriter::connect(&world.settings())?)
            },
            records: async |_: &str| {
                Ok(RecordReader::connect(
                    world.settings(),
                    offset_guard_tests::reader_program(),
                )?)
            },
        },
    );
    let applied = apply::apply_plan(&ctx, &step, Duration::from_secs(60)).await?;
    assert_eq!((applied.requests, applied.rejected), (1, 2));
    let member = back.into_inner()?.ok_or("no member came back")?;
    assert_eq!(scene.in_kafka().await?, before);

    // Nobody waits for them to stop once more: the execution is ended from outside and finished by the sweep.
    execution.abort().await?;
    sweep(world, &execution).await?;
    let audit = until("the recovery to be ended", async || {
        Ok(world.store.audit_of(&execution.arn).await?)
    })
    .await?;
    let codes: Vec<_> = audit.refusals.iter().map(|r| r.code()).collect();
    assert_eq!(codes, ["GROUP_BECAME_ACTIVE", "GROUP_BECAME_ACTIVE"]);
    assert_eq!(audit.code, "APPROVED_NOT_APPLIED");
    super::assert_says(
        &audit.message,
        &["UNKNOWN_MEMBER_ID", "stop its consumers and plan again"],
    );
    assert_eq!(scene.in_kafka().await?, before);
    scene.is_free().await?;
    member.stop().await?;
    Ok(())
}
