//! Requests that say too little, too much, or name what is not there.

use std::collections::BTreeSet;

use offset_guard_tests::{Outcome, World, on_kafka_4};
use serde_json::json;

use super::{Scene, targets};

on_kafka_4!(
    requests_that_cannot_be_understood,
    what_is_not_in_the_configuration,
    what_the_group_does_not_have,
    a_log_that_the_group_does_not_read,
    targets_beyond_the_end,
    targets_ahead_of_the_group,
);

async fn requests_that_cannot_be_understood(world: &World) -> Outcome {
    let scene = Scene::committed(world, "test", 1, 9, 4).await?;
    let cases = [
        (
            json!({"rewind_before": "2026-11-30T10:00:00"}),
            "write 2026-11-30T10:00:00Z",
        ),
        (
            json!({"to_earliest": true, "shift_by": -1}),
            "2 targets are given (shift_by, to_earliest); give exactly one of",
        ),
        (json!({}), "no target is given; give exactly one of"),
        (
            json!({"rewind_befor": "2026-11-30T10:00:00Z"}),
            "rewind_befor: there is no such field; did you mean \"rewind_before\"?",
        ),
    ];
    for (request, advice) in cases {
        scene
            .refuses(&request, &["INVALID_REQUEST"], &[advice])
            .await?;
    }
    Ok(())
}

async fn what_is_not_in_the_configuration(world: &World) -> Outcome {
    let mut scene = Scene::committed(world, "test", 1, 9, 4).await?;
    let advice = ["is not in the configuration", "or add it there"];
    scene
        .refuses(
            &json!({"cluster": "elsewhere", "to_earliest": true}),
            &["NOT_CONFIGURED"],
            &advice,
        )
        .await?;
    scene.group = world.group("unwatched");
    scene.commit(&[4]).await?;
    scene
        .refuses(&json!({"to_earliest": true}), &["NOT_CONFIGURED"], &advice)
        .await?;
    Ok(())
}

/// Whoever may ask for a group learns nothing of logs that it does not read.
async fn a_log_that_the_group_does_not_read(world: &World) -> Outcome {
    let mut scene = Scene::committed(world, "test", 2, 9, 4).await?;
    let other = world.topic("other");
    world.filled_topic(&other, 1, 7).await?;
    world.client.delete_records(&other, 0, 3).await?;
    let asked = |offset: i64| {
        let offsets = [json!({"topic": other, "partition": 0, "offset": offset})];
        json!({"to_offsets": offsets, "allow_forward": true})
    };
    // Below its start, within it, and beyond its end: one answer.
    let mut answers = BTreeSet::new();
    for offset in [0, 5, 1_000] {
        let asked = asked(offset);
        let refused = scene.refuses(&asked, &["PARTITION_UNKNOWN"], &[]);
        answers.insert(refused.await?.message);
    }
    assert_eq!(answers.len(), 1, "{answers:?}");
    // Nor of any at all where it has no commits.
    scene.group = format!("{}-unused", scene.group);
    for offset in [0, 5, 1_000] {
        scene
            .refuses(
                &asked(offset),
                &["GROUP_NOT_FOUND", "PARTITION_UNKNOWN"],
                &[],
            )
            .await?;
    }
    Ok(())
}

async fn what_the_group_does_not_have(world: &World) -> Outcome {
    let mut scene = Scene::committed(world, "test", 2, 9, 4).await?;
    let other = world.topic("other");
    world.filled_topic(&other, 1, 1).await?;
    let cases = [
        (
            json!({"to_earliest": true, "topics": [other]}),
            &["TOPIC_UNKNOWN"][..],
            "name topics that it has committed",
        ),
        (
            json!({"to_earliest": true, "topics": [format!("{}:1,7", scene.topic())]}),
            &["PARTITION_UNKNOWN"],
            "name partitions that it has committed",
        ),
        (
            json!({"to_offsets": [{"topic": scene.topic(), "partition": 7, "offset": 0}]}),
            &["PARTITION_UNKNOWN"],
            "name partitions that it has committed",
        ),
        (
            json!({"checkpoint_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}),
            &["CHECKPOINT_NOT_FOUND"],
            "list its checkpoints and name one of them",
        ),
        (
            json!({"undo": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}),
            &["NOTHING_TO_UNDO"],
            "there is no such plan",
        ),
        (
            json!({"finish": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}),
            &["NOTHING_TO_FINISH"],
            "there is no such plan",
        ),
    ];
    for (request, codes, advice) in cases {
        scene.refuses(&request, codes, &[advice]).await?;
    }
    // A checkpoint of another group is none of this one's.
    let checkpoint = json!({"checkpoint_id": scene.checkpoint().await?});
    scene.group = format!("{}-b", scene.group);
    scene.commit(&[5, 5]).await?;
    scene
        .refuses(&checkpoint, &["CHECKPOINT_NOT_FOUND"], &[])
        .await?;
    Ok(())
}

async fn targets_beyond_the_end(world: &World) -> Outcome {
    let scene = Scene::committed(world, "test", 2, 9, 4).await?;
    let codes = ["OFFSET_ABOVE_HIGH_WATERMARK"; 2];
    let mut beyond = scene.to_offset(10);
    scene
        .refuses(&beyond, &codes, &["ask for at most 9"])
        .await?;
    // No permission makes an offset that does not exist.
    beyond["allow_forward"] = json!(true);
    beyond["allow_clamp"] = json!(true);
    scene
        .refuses(&beyond, &codes, &["ask for at most 9"])
        .await?;
    Ok(())
}

async fn targets_ahead_of_the_group(world: &World) -> Outcome {
    let scene = Scene::committed(world, "test", 2, 9, 4).await?;
    let mut ahead = scene.to_offset(9);
    scene
        .refuses(
            &ahead,
            &["FORWARD_MOVE"; 2],
            &["up to 5 records would be skipped", "set allow_forward"],
        )
        .await?;
    ahead["allow_forward"] = json!(true);
    let plan = scene.moves(&ahead).await?;
    assert_eq!(targets(&plan), [(0, Some(9)), (1, Some(9))]);
    assert_eq!(plan.skipped(), 10);
    let now = world.offsets(&scene.group, scene.topic(), 2).await?;
    assert_eq!(now, [Some(9), Some(9)]);
    Ok(())
}
