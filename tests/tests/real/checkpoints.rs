//! Checkpoints: what counts as one, what never replaces one, and what outlives what.

mod calls;
mod withheld;

use std::time::Duration;

use self::calls::{commit, failure, headers, newest, of_group, offsets, result, run};
use jiff::{SignedDuration, Timestamp};
use offset_guard::domain::checkpoint::Anomaly;
use offset_guard::domain::group::{GroupState, GroupType};
use offset_guard::domain::offset::{GroupId, TopicPartition};
use offset_guard_local::client::{Commit, Protocol};
use offset_guard_tests::{Outcome, PATIENCE, World, now, on_every_kafka, on_kafka_4};
use serde_json::{Value, json};

on_every_kafka!(
    a_running_group_is_checkpointed,
    a_group_whose_commits_vanished_keeps_its_past,
    a_deleted_topic_is_recorded_as_gone,
    a_pending_commit_fails_this_run,
);
on_kafka_4!(
    overlapping_runs_store_two_whole_checkpoints,
    a_run_delivered_again_stores_nothing,
    a_run_delivered_again_adds_what_was_missing,
    a_scheduled_time_must_be_an_instant,
    nothing_expires_until_enough_newer_ones_exist,
    what_expired_is_not_offered,
    only_what_went_back_by_itself_is_suspect,
);

async fn a_running_group_is_checkpointed(world: &World) -> Outcome {
    let (topic, group) = (world.topic("orders"), world.group("test"));
    world.filled_topic(&topic, 3, 5).await?;
    let member = world.member(&group, &topic, 3).await?;
    member.until_read(15, PATIENCE).await?;
    member.commit().await?;

    let id = world.checkpoint(&group).await?;
    let checkpoint = newest(world, &group).await?;
    member.stop().await?;

    let group_type = match world.setting.protocol {
        Protocol::Classic => GroupType::Classic,
        Protocol::Consumer => GroupType::Consumer,
    };
    assert_eq!(checkpoint.id.0, id);
    assert_eq!(checkpoint.state, GroupState::Stable);
    assert_eq!(checkpoint.group_type, group_type);
    assert_eq!(checkpoint.members.len(), 1);
    assert_eq!(offsets(&checkpoint, &topic), [Some(5); 3]);
    assert!(checkpoint.topic_id(&topic).is_some());
    assert!(checkpoint.began_at < checkpoint.ended_at);
    Ok(())
}

async fn a_group_whose_commits_vanished_keeps_its_past(world: &World) -> Outcome {
    let (topic, group) = (world.topic("orders"), world.group("keeping"));
    world.filled_topic(&topic, 2, 5).await?;
    world.consume(&group, &topic, 2, 10).await?;
    world.checkpoint(&group).await?;
    let before = headers(world, &group).await?;

    let vanish = ["--delete-offsets", "--group", &group, "--topic", &topic];
    let output = world.stack.cli()?.consumer_groups(&vanish).await?;
    assert!(output.success, "{}{}", output.stdout, output.stderr);
    assert_eq!(world.offsets(&group, &topic, 2).await?, [None; 2]);

    // More failures than checkpoints are kept, and over a longer time than they must span.
    let until = Timestamp::now() + SignedDuration::from_secs(5);
    let mut failures = 0;
    while failures < 4 || Timestamp::now() < until {
        let failed = failure(world, &of_group(&group)).await?;
        assert!(failed.contains(&group), "{failed}");
        assert!(failed.contains("no committed offsets"), "{failed}");
        failures += 1;
    }
    assert_eq!(headers(world, &group).await?, before);
    assert_eq!(
        offsets(&newest(world, &group).await?, &topic),
        [Some(5), Some(5)]
    );
    Ok(())
}

async fn a_deleted_topic_is_recorded_as_gone(world: &World) -> Outcome {
    let (kept, deleted) = (world.topic("kept"), world.topic("deleted"));
    let group = world.group("test");
    world.filled_topic(&kept, 1, 5).await?;
    world.filled_topic(&deleted, 2, 5).await?;
    commit(world, &group, &kept, &[5]).await?;
    commit(world, &group, &deleted, &[5, 4]).await?;
    world.checkpoint(&group).await?;
    let whole = newest(world, &group).await?;
    assert_eq!(offsets(&whole, &deleted), [Some(5), Some(4)]);
    assert!(whole.gone_topics.is_empty());

    world.client.delete_topic(&deleted).await?;
    world.checkpoint(&group).await?;
    let without = newest(world, &group).await?;
    assert_eq!(without.gone_topics, [deleted.clone()].into());
    assert_eq!(offsets(&without, &deleted), []);
    assert_eq!(offsets(&without, &kept), [Some(5)]);

    // It is no longer expected, and the older checkpoint still knows it.
    world.checkpoint(&group).await?;
    assert_eq!(offsets(&newest(world, &group).await?, &deleted), []);
    assert_eq!(headers(world, &group).await?.len(), 3);
    Ok(())
}

async fn a_pending_commit_fails_this_run(world: &World) -> Outcome {
    let (topic, group) = (world.topic("orders"), world.group("test"));
    world.filled_topic(&topic, 2, 9).await?;
    commit(world, &group, &topic, &[3, 3]).await?;
    world.checkpoint(&group).await?;
    let before = headers(world, &group).await?;

    let pending = [Commit::new(&topic, 1, 7)];
    let transaction = world.client.begin_transaction(&topic, &[]).await?;
    let transaction = world
        .client
        .commit_within(transaction, &group, &pending)
        .await?;
    let failed = failure(world, &of_group(&group)).await?;
    assert!(
        failed.contains(&format!(
            "{group}: no value was read for 1 partition; {topic}-1"
        )),
        "{failed}"
    );
    assert!(failed.contains("pending offset commits"), "{failed}");
    assert_eq!(headers(world, &group).await?, before);

    transaction.commit().await?;
    world.checkpoint(&group).await?;
    assert_eq!(
        offsets(&newest(world, &group).await?, &topic),
        [Some(3), Some(7)]
    );
    Ok(())
}

async fn overlapping_runs_store_two_whole_checkpoints(world: &World) -> Outcome {
    let (topic, group) = (world.topic("orders"), world.group("test"));
    world.filled_topic(&topic, 2, 9).await?;
    commit(world, &group, &topic, &[3, 4]).await?;
    let event = of_group(&group);
    let (one, other) = tokio::join!(run(world, &event), run(world, &event));
    let (one, other) = (one?, other?);
    assert_eq!((result(&one), result(&other)), ("stored", "stored"));
    assert_ne!(one[0]["checkpoint_id"], other[0]["checkpoint_id"]);

    let group_id = GroupId(group.clone());
    let headers = headers(world, &group).await?;
    assert_eq!(headers.len(), 2);
    for header in &headers {
        let whole = world
            .store
            .checkpoint(&world.key_of(&group_id), header)
            .await?;
        assert_eq!(offsets(&whole, &topic), [Some(3), Some(4)]);
        assert_eq!((&header.anomalies, header.expires_at), (&Vec::new(), None));
    }
    Ok(())
}

async fn a_run_delivered_again_stores_nothing(world: &World) -> Outcome {
    let (topic, group) = (world.topic("orders"), world.group("test"));
    world.filled_topic(&topic, 1, 9).await?;
    commit(world, &group, &topic, &[3]).await?;
    let of = |time: &str| json!({"cluster": "main", "group": group, "scheduled_time": time});

    let event = of("2026-03-01T08:00:00Z");
    let (a, b, c, d, e) = tokio::join!(
        run(world, &event),
        run(world, &event),
        run(world, &event),
        run(world, &event),
        run(world, &event)
    );
    let runs = [a?, b?, c?, d?, e?];
    let mut results: Vec<_> = runs.iter().map(result).collect();
    results.sort_unstable();
    let [again @ .., stored] = results.as_slice() else {
        return Err("there were five runs".into());
    };
    assert_eq!((again, *stored), (&["already_run"; 4][..], "stored"));
    assert_eq!(headers(world, &group).await?.len(), 1);

    // Much later, and written in another zone.
    commit(world, &group, &topic, &[5]).await?;
    for again in [&event, &of("2026-03-01T09:00:00+01:00")] {
        assert_eq!(result(&run(world, again).await?), "already_run");
    }
    assert_eq!(offsets(&newest(world, &group).await?, &topic), [Some(3)]);

    let next = run(world, &of("2026-03-01T09:00:00Z")).await?;
    assert_eq!(result(&next), "stored");
    assert_eq!(offsets(&newest(world, &group).await?, &topic), [Some(5)]);
    Ok(())
}

async fn a_run_delivered_again_adds_what_was_missing(world: &World) -> Outcome {
    let (topic, group) = (world.topic("orders"), world.group("test"));
    world.filled_topic(&topic, 1, 9).await?;
    let event = json!({
        "cluster": "main", "group": group, "scheduled_time": "2026-03-01T08:00:00Z",
    });
    let failed = failure(world, &event).await?;
    assert!(failed.contains("no committed offsets"), "{failed}");
    assert!(headers(world, &group).await?.is_empty());

    // The failed delivery has not used the hour up.
    commit(world, &group, &topic, &[3]).await?;
    assert_eq!(result(&run(world, &event).await?), "stored");
    assert_eq!(result(&run(world, &event).await?), "already_run");
    Ok(())
}

async fn a_scheduled_time_must_be_an_instant(world: &World) -> Outcome {
    let (topic, group) = (world.topic("orders"), world.group("test"));
    world.filled_topic(&topic, 1, 9).await?;
    commit(world, &group, &topic, &[3]).await?;
    for text in [
        "yesterday",
        "2026-03-01T08:00:00",
        "<aws.scheduler.scheduled-time>",
        "",
    ] {
        let event = json!({"cluster": "main", "group": group, "scheduled_time": text});
        let failed = failure(world, &event).await?;
        assert!(
            failed.starts_with("OffsetGuard.InvalidRequest: "),
            "{failed}"
        );
        assert!(failed.contains("scheduled_time"), "{failed}");
    }
    assert!(headers(world, &group).await?.is_empty());
    Ok(())
}

/// The policy keeps two that span at least four seconds.
async fn nothing_expires_until_enough_newer_ones_exist(world: &World) -> Outcome {
    let (topic, group) = (world.topic("orders"), world.group("keeping"));
    world.filled_topic(&topic, 1, 99).await?;
    let expiring = async || -> Result<Vec<bool>, Box<dyn std::error::Error>> {
        let headers = headers(world, &group).await?;
        Ok(headers.iter().map(|h| h.expires_at.is_some()).collect())
    };
    let began = Timestamp::now();
    let mut offset = 0;
    let mut taken = Vec::new();
    // As many as are kept twice over, but all within the time that they must span.
    while taken.len() < 4 {
        offset += 1;
        commit(world, &group, &topic, &[offset]).await?;
        taken.push(world.checkpoint(&group).await?);
    }
    let fast = Timestamp::now() - began < SignedDuration::from_secs(4);
    if fast {
        assert_eq!(expiring().await?, [false; 4]);
    }
    // The oldest go once newer ones reach back far enough, and never the newest two.
    loop {
        let expiring = expiring().await?;
        let (newest, older) = expiring.split_at(2);
        assert_eq!(newest, [false; 2]);
        if older.last() == Some(&true) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        world.checkpoint(&group).await?;
    }
    let headers = headers(world, &group).await?;
    let (kept, expiring): (Vec<_>, Vec<_>) = headers.iter().partition(|h| h.expires_at.is_none());
    let (Some(first), Some(last)) = (kept.first(), kept.last()) else {
        return Err("none is kept".into());
    };
    assert!(first.ended_at - last.ended_at >= SignedDuration::from_secs(4));
    // Only the oldest, from the end without a gap; they stay readable for days.
    assert_eq!(
        expiring,
        headers.iter().skip(kept.len()).collect::<Vec<_>>()
    );
    let week = Timestamp::now() + SignedDuration::from_hours(7 * 24 - 1);
    assert!(expiring.iter().all(|h| h.expires_at > Some(week)));
    assert!(expiring.iter().any(|h| Some(&h.id.0) == taken.first()));
    Ok(())
}

async fn what_expired_is_not_offered(world: &World) -> Outcome {
    let (topic, group) = (world.topic("orders"), world.group("test"));
    world.filled_topic(&topic, 1, 9).await?;
    commit(world, &group, &topic, &[3]).await?;
    let id = world.checkpoint(&group).await?;
    commit(world, &group, &topic, &[5]).await?;
    let later = now();

    let rewinds = [
        (json!({"rewind_before": later}), "NO_CHECKPOINT_BEFORE"),
        (json!({"checkpoint_id": id}), "CHECKPOINT_NOT_FOUND"),
    ];
    let dry = |more: &Value| {
        let mut request = world.rewind(&group, more);
        request["dry_run"] = json!(true);
        request
    };
    for (target, _) in &rewinds {
        let ended = world.operator.request(dry(target)).await?.end().await?;
        assert_eq!(ended.code(), "DRY_RUN");
    }
    // The table may keep it for days yet.
    let headers = headers(world, &group).await?;
    let past = Timestamp::now() - SignedDuration::from_secs(2);
    world
        .store
        .retire(
            &world.key_of(&GroupId(group.clone())),
            &headers.iter().collect::<Vec<_>>(),
            past,
        )
        .await?;
    for (target, code) in &rewinds {
        assert_eq!(world.refused(dry(target)).await?.codes, [*code]);
    }
    Ok(())
}

async fn only_what_went_back_by_itself_is_suspect(world: &World) -> Outcome {
    let (topic, group) = (world.topic("orders"), world.group("test"));
    world.filled_topic(&topic, 1, 9).await?;
    commit(world, &group, &topic, &[8]).await?;
    world.checkpoint(&group).await?;
    let before_it_went_back = now();

    commit(world, &group, &topic, &[4]).await?;
    world.checkpoint(&group).await?;
    let went_back = Anomaly::OffsetWentBackwards {
        partition: TopicPartition::new(&topic, 0),
        before: 8,
        after: 4,
    };
    let suspect = headers(world, &group).await?;
    assert_eq!(suspect[0].anomalies, std::slice::from_ref(&went_back));
    assert_eq!(newest(world, &group).await?.anomalies, [went_back]);

    // A rewind of ours goes back as well, and is no anomaly.
    commit(world, &group, &topic, &[9]).await?;
    world.checkpoint(&group).await?;
    let rewind = world.rewind(&group, &json!({"rewind_before": before_it_went_back}));
    let ended = world.approved(&group, rewind).await?;
    assert_eq!(ended.code(), "VERIFIED");
    // Whoever approved it was told that the group had gone back once by itself.
    let link = world.told(&group)?;
    assert!(
        link.iter().any(|text| text.contains("went back by itself")),
        "{link:?}"
    );
    world.checkpoint(&group).await?;
    let checkpoint = newest(world, &group).await?;
    assert_eq!(offsets(&checkpoint, &topic), [Some(8)]);
    assert_eq!(checkpoint.anomalies, []);

    // The next one that goes back by itself is seen again.
    commit(world, &group, &topic, &[2]).await?;
    world.checkpoint(&group).await?;
    assert_eq!(newest(world, &group).await?.anomalies.len(), 1);
    Ok(())
}
