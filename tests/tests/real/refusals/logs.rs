//! Logs that are not what they were: topics deleted or created again, records deleted, partitions added.

use jiff::{SignedDuration, Timestamp};
use offset_guard::domain::offset::CommittedOffset;
use offset_guard::domain::plan::{LeftAlone, Warning};
use offset_guard_local::client::{Commit, Record};
use offset_guard_tests::{Outcome, World, now, on_every_kafka};
use serde_json::json;

use super::{Scene, targets, until};

on_every_kafka!(
    a_topic_that_was_deleted,
    a_topic_that_was_created_again,
    records_that_were_deleted,
    partitions_that_were_added,
    records_whose_times_are_not_in_order,
);

async fn two_topics(world: &World) -> Result<(Scene<'_>, String), Box<dyn std::error::Error>> {
    let mut scene = Scene::read(world, "test", 2, 5).await?;
    let other = world.topic("returns");
    world.filled_topic(&other, 1, 5).await?;
    world.consume(&scene.group, &other, 1, 5).await?;
    scene.topics.push((other.clone(), 1));
    scene.checkpoint().await?;
    Ok((scene, other))
}

async fn a_topic_that_was_deleted(world: &World) -> Outcome {
    let (scene, other) = two_topics(world).await?;
    let before = json!({"rewind_before": now()});
    world.client.delete_topic(&other).await?;
    // Kafka deletes the group's commits together with the topic.
    until("the commit to be gone", async || {
        Ok((scene.in_kafka().await?.commits.pop() == Some(None)).then_some(()))
    })
    .await?;
    scene
        .refuses(
            &before,
            &["TOPIC_GONE"],
            &[&other, "naming the topics to move"],
        )
        .await?;
    // Named, the topic that is left can be moved.
    scene.commit(&[3, 3]).await?;
    let mut named = before.clone();
    named["topics"] = json!([scene.topic()]);
    named["allow_forward"] = json!(true);
    let plan = scene.moves(&named).await?;
    assert_eq!(targets(&plan), [(0, Some(5)), (1, Some(5))]);
    Ok(())
}

async fn a_topic_that_was_created_again(world: &World) -> Outcome {
    let (scene, other) = two_topics(world).await?;
    let before = json!({"rewind_before": now()});
    world.client.delete_topic(&other).await?;
    world.filled_topic(&other, 1, 9).await?;
    let advice = [&other[..], "deleted and created again", "leave it out"];
    scene
        .refuses(&before, &["TOPIC_RECREATED"], &advice)
        .await?;
    // The same once the group has commits in the new one.
    world.consume(&scene.group, &other, 1, 9).await?;
    scene
        .refuses(&before, &["TOPIC_RECREATED"], &advice)
        .await?;
    Ok(())
}

async fn records_that_were_deleted(world: &World) -> Outcome {
    let scene = Scene::read(world, "test", 2, 5).await?;
    // Metadata of two commits that are not each other's.
    let commit = async |offset, metadata: &str| {
        let both = [0, 1].map(|partition| Commit {
            metadata: metadata.to_owned(),
            ..Commit::new(scene.topic(), partition, offset)
        });
        world.client.commit(&scene.group, &both).await
    };
    commit(2, "then").await?;
    scene.checkpoint().await?;
    let then = scene.in_kafka().await?;
    let mut before = json!({"rewind_before": now()});
    commit(5, "now").await?;
    world.client.delete_records(scene.topic(), 0, 4).await?;
    scene
        .refuses(
            &before,
            &["OFFSET_BELOW_LOG_START"],
            &[
                "offset 2 was deleted by retention, the log starts at 4",
                "set allow_clamp to start there and lose 2 offsets",
            ],
        )
        .await?;
    scene
        .refuses(&json!({"shift_by": -3}), &["OFFSET_BELOW_LOG_START"], &[])
        .await?;

    before["allow_clamp"] = json!(true);
    let plan = scene.moves(&before).await?;
    assert_eq!(targets(&plan), [(0, Some(4)), (1, Some(2))]);
    let lost: Vec<_> = plan.moves.iter().map(|m| m.lost).collect();
    assert_eq!(lost, [2, 0]);
    for warning in [
        Warning::Lost { offsets: 2 },
        Warning::MetadataDropped { partitions: 1 },
    ] {
        assert!(plan.warnings.contains(&warning), "{:?}", plan.warnings);
    }
    let told = world.told(&scene.group)?;
    let told = told
        .iter()
        .filter(|text| text.contains("lost to retention"));
    assert_eq!(told.count(), 1, "the approver was told of the loss");
    // Another offset gets neither the epoch nor the metadata that belonged to the one in the checkpoint.
    let commits = scene.in_kafka().await?.commits;
    assert_eq!(commits[0], Some(CommittedOffset::bare(4)));
    assert_eq!(commits[1], then.commits[1]);
    Ok(())
}

/// Partition 0 has a record that is dated ahead of all others, partition 1 none as late as is asked for.
async fn records_whose_times_are_not_in_order(world: &World) -> Outcome {
    let topic = world.topic("shipments");
    world.client.create_topic(&topic, 2, &[]).await?;
    let at = |minutes: i64| Timestamp::now() + SignedDuration::from_mins(minutes);
    let dated = |partition, at: Timestamp| Record {
        timestamp: Some(at.as_millisecond()),
        ..Record::new(partition, "x")
    };
    let begin = at(-60);
    let mut records: Vec<_> = (0..20)
        .map(|n| dated(0, begin + SignedDuration::from_mins(n)))
        .collect();
    records[5] = dated(0, at(30));
    records.extend([dated(1, at(-59)), dated(1, at(-58))]);
    // One by one: within a batch brokers of some versions find no single record.
    for record in records {
        world.client.produce(&topic, &[record]).await?;
    }
    let scene = Scene {
        world,
        group: world.group("test"),
        topics: vec![(topic, 2)],
    };
    scene.commit(&[20, 1]).await?;
    let asked = begin + SignedDuration::from_secs(11 * 60 - 30);
    let plan = scene
        .dry_run(&json!({"to_datetime": asked.to_string()}))
        .await?;
    assert_eq!(targets(&plan), [(0, Some(5))]);
    assert_eq!(
        plan.left_alone,
        [(scene.partition(1), LeftAlone::NoRecordThatLate)]
    );
    let told = plan.warnings.iter().any(|warning| {
        matches!(warning, Warning::TimesOutOfOrder { partition, offset: 5, dated }
            if *partition == scene.partition(0) && *dated > Timestamp::now())
    });
    assert!(told, "{:?}", plan.warnings);

    // Alone it is nothing to do, and no reason to allow a step forward.
    let alone =
        json!({"to_datetime": asked.to_string(), "topics": [format!("{}:1", scene.topic())]});
    let ended = world.operator.request(scene.request(&alone)).await?;
    assert_eq!(ended.end().await?.code(), "NOTHING_TO_DO");
    Ok(())
}

async fn partitions_that_were_added(world: &World) -> Outcome {
    let mut scene = Scene::read(world, "test", 2, 5).await?;
    scene.checkpoint().await?;
    let before = json!({"rewind_before": now()});
    let topic = scene.topic().to_owned();
    world.client.raise_partitions(&topic, 3).await?;
    world.produce(&topic, 2, 5).await?;
    world.produce(&topic, 1, 2).await?;
    world.consume(&scene.group, &topic, 3, 7).await?;
    scene.topics = vec![(topic, 3)];
    let commits = world.offsets(&scene.group, scene.topic(), 3).await?;
    assert_eq!(commits, [Some(5), Some(7), Some(5)]);

    let plan = scene.moves(&before).await?;
    assert_eq!(targets(&plan), [(1, Some(5))]);
    assert_eq!(
        plan.left_alone,
        [
            (scene.partition(0), LeftAlone::AlreadyThere),
            (scene.partition(2), LeftAlone::NotInSource),
        ]
    );
    let commits = world.offsets(&scene.group, scene.topic(), 3).await?;
    assert_eq!(commits, [Some(5), Some(5), Some(5)]);
    Ok(())
}
