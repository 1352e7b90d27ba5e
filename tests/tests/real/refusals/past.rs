//! Checkpoints that a rewind disowned, and rewinds that are undone.

use std::time::Duration;

use offset_guard::domain::plan::{Plan, Source, Warning};
use offset_guard_tests::{Outcome, World, now, on_every_kafka, on_kafka_4};
use serde_json::json;

use super::{Scene, targets};

on_every_kafka!(
    a_checkpoint_of_the_time_that_a_rewind_undid,
    an_undo_is_a_plan_like_any_other,
    an_undo_removes_what_was_not_there,
    a_rewind_of_one_partition_disowns_nothing_of_the_others,
);
on_kafka_4!(
    no_checkpoint_is_left_that_was_not_disowned,
    an_undo_of_what_is_not_there_any_more,
);

/// 08:00 is 31, 09:00 is 43 by a bad release, 09:15 is a moment later, and at 09:30 all is rewound to 31.
async fn a_checkpoint_of_the_time_that_a_rewind_undid(world: &World) -> Outcome {
    let scene = Scene::read(world, "test", 3, 31).await?;
    let eight = scene.checkpoint().await?;
    let before_release = now();
    world.produce(scene.topic(), 1, 12).await?;
    world.consume(&scene.group, scene.topic(), 3, 12).await?;
    let nine = scene.checkpoint().await?;
    let quarter_past_nine = json!({"rewind_before": now()});
    let rewound = scene
        .moves(&json!({"rewind_before": before_release}))
        .await?;
    assert_eq!(targets(&rewound), [(1, Some(31))]);
    // The mended release reads on, to where the bad one has never been.
    world.produce(scene.topic(), 1, 7).await?;
    world.consume(&scene.group, scene.topic(), 3, 19).await?;

    let plan = scene.dry_run(&quarter_past_nine).await?;
    assert_eq!(targets(&plan), [(1, Some(31))], "not 43");
    assert!(
        matches!(&plan.source, Source::Checkpoint { id, .. } if id.0 == eight),
        "{:?}",
        plan.source
    );
    let passed_over = Warning::DisownedPassedOver {
        count: 1,
        by: [rewound.id.clone()].into(),
    };
    assert!(plan.warnings.contains(&passed_over), "{:?}", plan.warnings);
    scene
        .refuses(
            &json!({"checkpoint_id": nine}),
            &["CHECKPOINT_DISOWNED"],
            &[&nine, &rewound.id.0, "name an earlier checkpoint"],
        )
        .await?;
    let plan = scene.dry_run(&json!({"checkpoint_id": eight})).await?;
    assert_eq!(targets(&plan), [(1, Some(31))]);
    Ok(())
}

async fn a_rewind_of_one_partition_disowns_nothing_of_the_others(world: &World) -> Outcome {
    let scene = Scene::read(world, "test", 3, 9).await?;
    scene.commit(&[3, 3, 3]).await?;
    let old = scene.checkpoint().await?;
    scene.commit(&[6, 6, 6]).await?;
    let newer = scene.checkpoint().await?;
    let before = json!({"rewind_before": now()});
    // Partition 0 alone goes back, to between the two.
    let mut one = scene.to_offset(4);
    one["topics"] = json!([format!("{}:0", scene.topic())]);
    let rewound = scene.moves(&one).await?;
    assert_eq!(targets(&rewound), [(0, Some(4))]);
    scene.commit(&[9, 9, 9]).await?;

    // It comes from the old checkpoint, and for all that is the newer one of the others no worse.
    let plan = scene.dry_run(&before).await?;
    assert_eq!(targets(&plan), [(0, Some(3)), (1, Some(6)), (2, Some(6))]);
    let is_of = |plan: &Plan, checkpoint: &str| {
        assert!(
            matches!(&plan.source, Source::Checkpoint { id, .. } if id.0 == checkpoint),
            "{:?}",
            plan.source
        );
    };
    is_of(&plan, &newer);
    let told = plan.warnings.iter().any(|warning| {
        matches!(warning, Warning::OlderCheckpoint { partitions: 1, id, by, .. }
            if id.0 == old && *by == [rewound.id.clone()].into())
    });
    assert!(told, "{:?}", plan.warnings);

    let by_id = json!({"checkpoint_id": newer});
    let at = scene.partition(0).to_string();
    scene
        .refuses(
            &by_id,
            &["CHECKPOINT_DISOWNED"],
            &[&newer, &rewound.id.0, &at],
        )
        .await?;
    for mut request in [before, by_id] {
        request["topics"] = json!([format!("{}:1,2", scene.topic())]);
        let plan = scene.dry_run(&request).await?;
        assert_eq!(targets(&plan), [(1, Some(6)), (2, Some(6))]);
        is_of(&plan, &newer);
    }
    Ok(())
}

async fn no_checkpoint_is_left_that_was_not_disowned(world: &World) -> Outcome {
    let scene = Scene::new(world, "test", 2, 3).await?;
    // Records know milliseconds.
    tokio::time::sleep(Duration::from_millis(2)).await;
    let early = json!({"to_datetime": now()});
    for partition in [0, 1] {
        world.produce(scene.topic(), partition, 6).await?;
    }
    for offset in [4, 6] {
        scene.commit(&[offset, offset]).await?;
        scene.checkpoint().await?;
    }
    let later = json!({"rewind_before": now()});
    scene.commit(&[9, 9]).await?;
    // Both checkpoints are of what this reads again.
    let plan = scene.moves(&early).await?;
    assert_eq!(targets(&plan), [(0, Some(3)), (1, Some(3))]);
    scene
        .refuses(
            &later,
            &["NO_CHECKPOINT_BEFORE"],
            &["2 were passed over", "there is none at all"],
        )
        .await?;
    Ok(())
}

async fn an_undo_is_a_plan_like_any_other(world: &World) -> Outcome {
    let scene = Scene::read(world, "test", 2, 9).await?;
    let before = scene.in_kafka().await?;
    let rewound = scene.moves(&json!({"shift_by": -4})).await?;
    let after = scene.in_kafka().await?;
    assert_ne!(after, before);

    // It goes forward, which an undo may; epoch and metadata come back with the offset.
    let undo = scene.moves(&json!({"undo": rewound.id.0})).await?;
    assert_eq!(
        undo.source,
        Source::Undo {
            plan: rewound.id.clone()
        }
    );
    assert_eq!(scene.in_kafka().await?, before);
    // Undone is undone: the rewind's own offsets are not there any more.
    scene
        .refuses(
            &json!({"undo": rewound.id.0}),
            &["NOTHING_TO_UNDO"; 2],
            &["which is at 9 now"],
        )
        .await?;
    scene.moves(&json!({"undo": undo.id.0})).await?;
    assert_eq!(scene.in_kafka().await?, after);
    Ok(())
}

async fn an_undo_removes_what_was_not_there(world: &World) -> Outcome {
    let scene = Scene::read(world, "test", 2, 9).await?;
    scene.checkpoint().await?;
    let good = scene.in_kafka().await?;
    let delete = ["--delete", "--group", &scene.group];
    let deleted = world.stack.cli()?.consumer_groups(&delete).await?;
    assert!(deleted.success, "{deleted:?}");
    let mut restore = json!({"rewind_before": now()});
    scene
        .refuses(
            &restore,
            &["GROUP_NOT_FOUND"],
            &["does not exist", "set restore_missing"],
        )
        .await?;
    restore["restore_missing"] = json!(true);
    let restored = scene.moves(&restore).await?;
    assert!(restored.creates_group());
    assert_eq!(scene.in_kafka().await?, good);

    let undo = scene.moves(&json!({"undo": restored.id.0})).await?;
    assert_eq!(targets(&undo), [(0, None), (1, None)]);
    assert_eq!(scene.in_kafka().await?.commits, [None, None]);
    // And back again, as nothing but a missing group can be: by saying so.
    let again = json!({"undo": undo.id.0, "restore_missing": true});
    scene.moves(&again).await?;
    assert_eq!(scene.in_kafka().await?, good);
    Ok(())
}

async fn an_undo_of_what_is_not_there_any_more(world: &World) -> Outcome {
    let mut scene = Scene::committed(world, "test", 2, 9, 6).await?;
    let dry = scene.dry_run(&json!({"to_earliest": true})).await?;
    scene
        .refuses(
            &json!({"undo": dry.id.0}),
            &["NOTHING_TO_UNDO"],
            &["it was not applied and verified"],
        )
        .await?;
    let rewound = scene.moves(&json!({"to_earliest": true})).await?;
    let undo = json!({"undo": rewound.id.0});
    // Consumers went on in one partition.
    scene.commit(&[3]).await?;
    scene
        .refuses(
            &undo,
            &["NOTHING_TO_UNDO"],
            &[&format!(
                "it left {} at 0, which is at 3 now",
                scene.partition(0)
            )],
        )
        .await?;
    // The other one can still be undone by name.
    let mut named = undo.clone();
    named["topics"] = json!([format!("{}:1", scene.topic())]);
    let plan = scene.moves(&named).await?;
    assert_eq!(targets(&plan), [(1, Some(6))]);

    scene.group = format!("{}-b", scene.group);
    scene.commit(&[5, 5]).await?;
    scene
        .refuses(
            &undo,
            &["NOTHING_TO_UNDO"],
            &["it belongs to another group"],
        )
        .await?;
    Ok(())
}
