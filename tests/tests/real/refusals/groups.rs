//! Groups that are not there, or of which nothing can be said.

use offset_guard::domain::plan::Warning;
use offset_guard_local::client::Commit;
use offset_guard_tests::{Outcome, World, now, on_every_kafka, on_kafka_4};
use serde_json::json;

use super::{Scene, targets};

on_every_kafka!(
    an_absent_group_is_not_created,
    a_group_that_never_committed,
    deleted_offsets_come_back_only_when_that_is_asked_for,
    pending_transactional_commits,
);
on_kafka_4!(a_group_of_kafka_connect, a_group_of_kafka_streams,);

async fn an_absent_group_is_not_created(world: &World) -> Outcome {
    let scene = Scene::new(world, "test", 2, 5).await?;
    let advice = ["does not exist", "check the name"];
    scene
        .refuses(&json!({"to_earliest": true}), &["GROUP_NOT_FOUND"], &advice)
        .await?;
    scene
        .refuses(
            &json!({"rewind_before": now()}),
            &["NO_CHECKPOINT_BEFORE", "GROUP_NOT_FOUND"],
            &advice,
        )
        .await?;
    // To name offsets is no way around it, and there is no checkpoint that could bring it back.
    let mut named = scene.to_offset(3);
    named["restore_missing"] = json!(true);
    let all = ["GROUP_NOT_FOUND", "PARTITION_UNKNOWN", "PARTITION_UNKNOWN"];
    scene.refuses(&named, &all, &advice).await?;

    let listed = world.stack.cli()?.consumer_groups(&["--list"]).await?;
    assert!(listed.success);
    assert!(!listed.stdout.contains(&scene.group), "{}", listed.stdout);
    assert!(!scene.in_kafka().await?.exists);
    Ok(())
}

async fn a_group_that_never_committed(world: &World) -> Outcome {
    let scene = Scene::new(world, "test", 2, 5).await?;
    let member = world.member(&scene.group, scene.topic(), 2).await?;
    let both = ["GROUP_ACTIVE", "NO_COMMITTED_OFFSETS"];
    scene
        .refuses(&json!({"to_earliest": true}), &both, &["client-of-"])
        .await?;
    member.stop().await?;
    scene
        .refuses(
            &json!({"to_earliest": true}),
            &["NO_COMMITTED_OFFSETS"],
            &["check the name"],
        )
        .await?;
    Ok(())
}

async fn deleted_offsets_come_back_only_when_that_is_asked_for(world: &World) -> Outcome {
    let scene = Scene::read(world, "test", 2, 5).await?;
    scene.checkpoint().await?;
    let good = scene.in_kafka().await?;
    let delete = [
        "--delete-offsets",
        "--group",
        &scene.group,
        "--topic",
        scene.topic(),
    ];
    let deleted = world.stack.cli()?.consumer_groups(&delete).await?;
    assert!(deleted.success, "{deleted:?}");
    assert_eq!(scene.in_kafka().await?.commits, [None, None]);

    let before = json!({"rewind_before": now()});
    // The classic group is still there without offsets; a KIP-848 one is gone with its last.
    let code = if scene.in_kafka().await?.exists {
        "NO_COMMITTED_OFFSETS"
    } else {
        "GROUP_NOT_FOUND"
    };
    scene
        .refuses(&before, &[code], &["set restore_missing"])
        .await?;

    let mut restore = before.clone();
    restore["restore_missing"] = json!(true);
    let plan = scene.moves(&restore).await?;
    assert_eq!(targets(&plan), [(0, Some(5)), (1, Some(5))]);
    assert_eq!(scene.in_kafka().await?, good);
    Ok(())
}

async fn pending_transactional_commits(world: &World) -> Outcome {
    let scene = Scene::committed(world, "test", 2, 9, 4).await?;
    let transaction = world.client.begin_transaction(scene.topic(), &[]).await?;
    let pending = [Commit::new(scene.topic(), 1, 7)];
    let transaction = world
        .client
        .commit_within(transaction, &scene.group, &pending)
        .await?;
    let earliest = json!({"to_earliest": true});
    scene
        .refuses(
            &earliest,
            &["UNSTABLE_OFFSETS"],
            &[
                &scene.partition(1).to_string(),
                "wait until the transaction ends",
            ],
        )
        .await?;
    transaction.commit().await?;
    let plan = scene.dry_run(&earliest).await?;
    assert_eq!(targets(&plan), [(0, Some(0)), (1, Some(0))]);
    assert_eq!(plan.moves[1].from.as_ref().map(|from| from.offset), Some(7));
    Ok(())
}

async fn a_group_of_kafka_connect(world: &World) -> Outcome {
    let scene = Scene::committed(world, "connect", 2, 9, 4).await?;
    stateful(&scene, "Kafka Connect").await
}

async fn a_group_of_kafka_streams(world: &World) -> Outcome {
    let scene = Scene::committed(world, "test", 2, 9, 4).await?;
    // Version 2, eight bytes of partition time, no metadata of a processor.
    let metadata = "AgAAAZkAAAAAAAAAAA==";
    let commit = Commit {
        metadata: metadata.to_owned(),
        ..Commit::new(scene.topic(), 1, 5)
    };
    world.client.commit(&scene.group, &[commit]).await?;
    stateful(&scene, "Kafka Streams").await
}

async fn stateful(scene: &Scene<'_>, kind: &str) -> Outcome {
    let advice = [kind, "set allow_stateful"];
    scene
        .refuses(&json!({"to_earliest": true}), &["STATEFUL_GROUP"], &advice)
        .await?;
    let plan = scene
        .moves(&json!({"to_earliest": true, "allow_stateful": true}))
        .await?;
    let warning = Warning::Stateful {
        kind: kind.to_owned(),
    };
    assert!(plan.warnings.contains(&warning), "{:?}", plan.warnings);
    assert_eq!(targets(&plan), [(0, Some(0)), (1, Some(0))]);
    Ok(())
}
