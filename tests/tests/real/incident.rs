//! The incident of the README, from end to end: what the known workflow's own table of runs shows, and more.

use offset_guard_local::operator::link_in;
use offset_guard_tests::{Outcome, PATIENCE, World, now, on_every_kafka};
use serde_json::json;

on_every_kafka!(a_bad_release_is_undone);

async fn a_bad_release_is_undone(world: &World) -> Outcome {
    let (topic, group) = (world.topic("shipments"), world.group("test"));
    world.filled_topic(&topic, 3, 31).await?;
    world.consume(&group, &topic, 3, 93).await?;
    let before_any = now();
    world.checkpoint(&group).await?;
    let good = world.triples(&group, &topic, 3).await?;
    assert_eq!(world.offsets(&group, &topic, 3).await?, [Some(31); 3]);

    let before_release = now();
    world.produce(&topic, 1, 12).await?;
    assert_eq!(world.consume(&group, &topic, 3, 12).await?.len(), 12);
    world.checkpoint(&group).await?;
    let bad = [Some(31), Some(43), Some(31)];
    assert_eq!(world.offsets(&group, &topic, 3).await?, bad);

    // A dry run plans partition 1 alone and changes nothing.
    let dry_run = world.rewind(
        &group,
        &json!({"rewind_before": before_release, "dry_run": true}),
    );
    let execution = world.operator.request(dry_run).await?;
    let ended = execution.end().await?;
    assert_eq!(
        (ended.status.as_str(), ended.code()),
        ("SUCCEEDED", "DRY_RUN")
    );
    let audit = world
        .store
        .audit_of(&execution.arn)
        .await?
        .ok_or("no audit")?;
    let moves: Vec<_> = audit
        .partitions
        .iter()
        .map(|p| {
            (
                p.partition.partition,
                p.from.as_ref().map(|c| c.offset),
                p.to.as_ref().map(|c| c.offset),
            )
        })
        .collect();
    assert_eq!(moves, [(1, Some(43), Some(31))]);
    assert_eq!(
        ended.output["plan"]["summary"],
        "1 partition, at most 12 records to replay, at most 0 to skip"
    );
    assert_eq!(world.offsets(&group, &topic, 3).await?, bad);

    // Before any checkpoint there is nothing to go back to.
    let refused = world
        .refused(world.rewind(&group, &json!({"rewind_before": before_any})))
        .await?;
    assert_eq!(refused.codes, ["NO_CHECKPOINT_BEFORE"]);
    assert_eq!(refused.ended.status, "FAILED");

    // A live group is not moved, and its member is named.
    let member = world.member(&group, &topic, 3).await?;
    let rewind = world.rewind(&group, &json!({"rewind_before": before_release}));
    let refused = world.refused(rewind.clone()).await?;
    assert_eq!(refused.codes, ["GROUP_ACTIVE"]);
    assert!(
        refused.message.contains(&format!("client-of-{group}")),
        "{}",
        refused.message
    );
    member.stop().await?;

    // Stopped, asked for again, approved on the page.
    let execution = world.operator.request(rewind).await?;
    let link = execution.link(&world.stack, &group, PATIENCE).await?;
    assert_eq!(
        world.offsets(&group, &topic, 3).await?,
        bad,
        "nothing moves before the approval"
    );
    world.operator.approve(&link, &group).await?;
    let ended = execution.end().await?;
    assert_eq!(
        (ended.status.as_str(), ended.code()),
        ("SUCCEEDED", "VERIFIED")
    );

    // Kafka's own tool sees it, and offset, epoch and metadata are what they were.
    let rows = world.stack.cli()?.describe_group(&group).await?;
    let row = rows
        .iter()
        .find(|row| row.partition == 1)
        .ok_or("no row for partition 1")?;
    assert_eq!((row.current_offset, row.lag), (Some(31), Some(12)));
    assert_eq!(world.triples(&group, &topic, 3).await?, good);

    // The mended consumer reads exactly what the bad one had read.
    let read = world.consume(&group, &topic, 3, 12).await?;
    assert_eq!(read.len(), 12);
    assert_eq!(world.offsets(&group, &topic, 3).await?, bad);
    let told = world.told(&group)?;
    assert_eq!(
        told.iter().filter(|text| link_in(text).is_some()).count(),
        1
    );
    Ok(())
}
