//! Groups that must come to rest before they are moved.

use std::time::Duration;

use offset_guard::app::observe;
use offset_guard::domain::recovery::Outcome as Came;
use offset_guard_local::client::Record;
use offset_guard_tests::{Outcome, PATIENCE, World, on_kafka_4};
use serde_json::json;

use crate::apply_faults::read_by_members;
use crate::bench::Bench;
use crate::big_move::approve_big_move;

on_kafka_4!(
    a_group_that_is_empty_for_an_instant_is_waited_for_all_the_same,
    several_requests_need_rest,
    a_group_that_stops_in_time_is_moved,
    a_group_that_never_stops_is_named,
    commits_may_drift_within_the_limit_alone,
);

async fn a_group_that_is_empty_for_an_instant_is_waited_for_all_the_same(world: &World) -> Outcome {
    let bench = read_by_members(world, "waiting").await?;
    let plan = bench.approved(&bench.to(1, 5)).await?;
    assert!(bench.stored(&plan).await?.waits_for_empty);
    // Its consumers come back before it is applied, and stop when they are asked to.
    let member = world.member(&bench.group, &bench.topic, 1).await?;
    assert_eq!(bench.observe(&plan).await?.next, observe::Next::Wait);
    member.stop().await?;
    let next = loop {
        let observed = bench.observe(&plan).await?;
        if observed.next != observe::Next::Wait {
            break observed.next;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    assert_eq!(next, observe::Next::Apply);
    bench.apply(&plan, &[]).await?;
    assert_eq!(bench.verify(&plan).await?.outcome, Some(Came::Verified));
    Ok(())
}

async fn several_requests_need_rest(world: &World) -> Outcome {
    let (bench, plan, _) = approve_big_move(world).await?;
    let first = bench.observe(&plan).await?;
    assert_eq!((first.next, first.wait_seconds), (observe::Next::Wait, 2));
    // Moved meanwhile: the rest begins anew.
    world
        .client
        .produce(&bench.topic, &[Record::new(0, "more")])
        .await?;
    bench.commit(&[2]).await?;
    tokio::time::sleep(Duration::from_secs(first.wait_seconds.into())).await;
    let second = bench.observe(&plan).await?;
    // As with members: a group that moves is looked at every ten seconds, however short its rest may be.
    assert_eq!(
        (second.next, second.wait_seconds),
        (observe::Next::Wait, 10)
    );
    tokio::time::sleep(Duration::from_secs(second.wait_seconds.into())).await;
    assert_eq!(bench.observe(&plan).await?.next, observe::Next::Apply);
    // One request needs none.
    let bench = Bench::new(world, "test", 1, 30).await?;
    bench.commit(&[20]).await?;
    let plan = bench.approved(&bench.to(1, 5)).await?;
    assert_eq!(bench.observe(&plan).await?.next, observe::Next::Apply);
    Ok(())
}

async fn a_group_that_stops_in_time_is_moved(world: &World) -> Outcome {
    let (topic, group) = (world.topic("waiting"), world.group("waiting"));
    world.filled_topic(&topic, 1, 20).await?;
    let member = world.member(&group, &topic, 1).await?;
    member.until_read(20, PATIENCE).await?;
    member.commit().await?;
    let target = json!({"to_offsets": [{"topic": topic, "partition": 0, "offset": 5}]});
    let execution = world
        .operator
        .request(world.rewind(&group, &target))
        .await?;
    let link = execution.link(&world.stack, &group, PATIENCE).await?;
    world.operator.approve(&link, &group).await?;
    crate::history::until_entered(world, &execution, "WaitUntilEmpty", 1).await?;
    assert_eq!(world.offsets(&group, &topic, 1).await?, [Some(20)]);
    member.stop().await?;
    let ended = execution.end().await?;
    assert_eq!(
        (ended.status.as_str(), ended.code()),
        ("SUCCEEDED", "VERIFIED")
    );
    assert_eq!(world.offsets(&group, &topic, 1).await?, [Some(5)]);
    Ok(())
}

async fn a_group_that_never_stops_is_named(world: &World) -> Outcome {
    let (topic, group) = (world.topic("impatient"), world.group("impatient"));
    world.filled_topic(&topic, 1, 20).await?;
    let member = world.member(&group, &topic, 1).await?;
    member.until_read(20, PATIENCE).await?;
    member.commit().await?;
    let target = json!({"to_offsets": [{"topic": topic, "partition": 0, "offset": 5}]});
    let ended = world
        .approved(&group, world.rewind(&group, &target))
        .await?;
    assert_eq!(
        (ended.status.as_str(), ended.code()),
        ("FAILED", "APPROVED_NOT_APPLIED")
    );
    let cause = ended.cause.unwrap_or_default();
    assert!(cause.contains("did not come to rest in time"), "{cause}");
    assert!(cause.contains(&format!("client-of-{group}")), "{cause}");
    assert_eq!(world.offsets(&group, &topic, 1).await?, [Some(20)]);
    member.stop().await?;
    Ok(())
}

async fn commits_may_drift_within_the_limit_alone(world: &World) -> Outcome {
    let mut codes = Vec::new();
    for more in [2, 3] {
        let (topic, group) = (
            world.topic(&format!("drift{more}")),
            format!("{}-{more}", world.group("strict")),
        );
        world.filled_topic(&topic, 1, 20).await?;
        let member = world.member(&group, &topic, 1).await?;
        member.until_read(20, PATIENCE).await?;
        member.commit().await?;
        let target = json!({"to_offsets": [{"topic": topic, "partition": 0, "offset": 5}]});
        let execution = world
            .operator
            .request(world.rewind(&group, &target))
            .await?;
        let link = execution.link(&world.stack, &group, PATIENCE).await?;
        world.produce(&topic, 0, more).await?;
        member.until_read(20 + more, PATIENCE).await?;
        member.commit().await?;
        member.stop().await?;
        world.operator.approve(&link, &group).await?;
        let ended = execution.end().await?;
        let cause = ended.cause.clone().unwrap_or_default();
        let at = world.offsets(&group, &topic, 1).await?;
        codes.push((
            ended.code().to_owned(),
            at,
            cause.contains("may move forward by at most 2"),
        ));
    }
    assert_eq!(
        codes,
        [
            ("VERIFIED".to_owned(), vec![Some(5)], false),
            ("APPROVED_NOT_APPLIED".to_owned(), vec![Some(23)], true),
        ]
    );
    Ok(())
}
