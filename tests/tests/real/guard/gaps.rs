//! Nothing is at the commit: what was there was compacted away, or belongs to an aborted transaction.

use std::time::{Duration, Instant};

use offset_guard::domain::guard::verdict::Verdict;
use offset_guard::domain::recovery::Outcome as Proven;
use offset_guard_local::client::Record;
use offset_guard_tests::{Outcome, PATIENCE, World, on_kafka_4};

use super::assert_copy;
use super::rig::{Rig, verdict};
use crate::asked::Result;

on_kafka_4!(
    the_first_record_after_a_compacted_one_is_found_and_passed_over,
    aborted_records_are_passed_over_where_the_group_does_not_read_them,
    where_nobody_knows_what_the_group_reads_nothing_is_proposed,
    aborted_records_within_a_range_are_never_passed_over_unnamed,
);

async fn the_first_record_after_a_compacted_one_is_found_and_passed_over(world: &World) -> Outcome {
    let rig = Rig::bare(world, &[]).await?;
    let compacted = [
        ("cleanup.policy", "compact"),
        ("segment.ms", "100"),
        ("min.cleanable.dirty.ratio", "0.01"),
        ("max.compaction.lag.ms", "100"),
    ];
    let topic = &rig.bench.topic;
    world.client.create_topic(topic, 1, &compacted).await?;
    world.client.create_topic(&rig.quarantine, 1, &[]).await?;
    let keyed = |key: &str, value: &str| Record {
        key: Some(key.into()),
        ..Record::new(0, value)
    };
    let log = [
        keyed("a", "{}"),
        keyed("b", "{}"),
        keyed("b", "{}"),
        keyed("c", "not JSON"),
        keyed("b", "{}"),
    ];
    world.client.produce(topic, &log).await?;
    rig.bench.commit(&[1]).await?;
    compact(world, topic).await?;

    let (id, plan) = rig.until_planned().await?;
    let offsets: Vec<_> = plan.skips.iter().map(|s| s.record.offset).collect();
    assert_eq!(offsets, [3]);
    assert_eq!(plan.moves[0].from.as_ref().map(|from| from.offset), Some(1));
    assert_eq!(plan.moves[0].to.as_ref().map(|to| to.offset), Some(4));
    let copies = rig.copies().await?;
    assert_eq!(copies.len(), 1);
    assert_copy(&copies[0], &log[3]);
    rig.bench.approved_plan(&id).await?;
    assert_eq!(rig.bench.apply(&id, &[]).await?.accepted, 1);
    assert_eq!(rig.bench.verify(&id).await?.outcome, Some(Proven::Verified));
    Ok(())
}

/// Waits until the records 1 and 2 are gone.
async fn compact(world: &World, topic: &str) -> Outcome {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        // Only a segment that is no longer written to is compacted, and one ends with the next record.
        let filler = Record {
            key: Some(b"filler".to_vec()),
            ..Record::new(0, "{}")
        };
        world.client.produce(topic, &[filler]).await?;
        tokio::time::sleep(Duration::from_millis(300)).await;
        let first = world.client.read(topic, 0, 1).await?;
        if first.offset == Some(3) {
            return Ok(());
        }
    }
    Err("nothing was compacted".into())
}

/// Writes so many records in a transaction and aborts it; its marker is the last thing before `end`.
async fn abort(world: &World, rig: &Rig, records: usize, end: i64) -> Outcome {
    let topic = &rig.bench.topic;
    let aborted = vec![Record::new(0, "aborted"); records];
    let transaction = world.client.begin_transaction(topic, &aborted).await?;
    transaction.abort().await?;
    // The marker is written when the coordinator comes to it.
    let start = Instant::now();
    while world.client.end_offsets(topic).await? != [end] {
        assert!(start.elapsed() < PATIENCE, "there is no marker");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// A group that stands at aborted records, behind which one is no JSON.
async fn at_aborted_records(world: &World, isolation: &str) -> Result<Rig> {
    let rig = Rig::new(world, &[("isolation", isolation)], &[&["{}"]]).await?;
    abort(world, &rig, 2, 4).await?;
    rig.produce(0, &["not JSON", "{}"]).await?;
    rig.bench.commit(&[1]).await?;
    Ok(rig)
}

/// Bad records, then aborted ones, then another bad one: a group that reads all would lose what lies in between.
async fn aborted_records_within_a_range_are_never_passed_over_unnamed(world: &World) -> Outcome {
    let rig = Rig::new(
        world,
        &[("isolation", "\"unknown\"")],
        &[&["{}", "not JSON"]],
    )
    .await?;
    abort(world, &rig, 1, 4).await?;
    rig.produce(0, &["not JSON either", "{}"]).await?;
    rig.bench.commit(&[1]).await?;
    let result = rig.until_stalled().await?;
    assert_eq!(verdict(&result, 0), Some(Verdict::PoisonLikely));
    assert_eq!(result.withheld, ["ISOLATION_UNKNOWN"]);
    assert_eq!((result.plan, rig.copies().await?.len()), (None, 0));
    Ok(())
}

async fn aborted_records_are_passed_over_where_the_group_does_not_read_them(
    world: &World,
) -> Outcome {
    let rig = at_aborted_records(world, "\"read_committed\"").await?;
    let (id, plan) = rig.until_planned().await?;
    // 1 and 2 are the aborted ones, 3 is the marker.
    let offsets: Vec<_> = plan.skips.iter().map(|s| s.record.offset).collect();
    assert_eq!(offsets, [4]);
    assert_eq!(plan.moves[0].to.as_ref().map(|to| to.offset), Some(5));
    let copies = rig.copies().await?;
    assert_eq!(copies.len(), 1);
    assert_copy(&copies[0], &Record::new(0, "not JSON"));
    rig.bench.approved_plan(&id).await?;
    assert_eq!(rig.bench.apply(&id, &[]).await?.accepted, 1);
    assert_eq!(rig.bench.verify(&id).await?.outcome, Some(Proven::Verified));

    // Who reads them stands at the first of them, and each is kept before it is passed over.
    let rig = at_aborted_records(world, "\"read_uncommitted\"").await?;
    let (_, plan) = rig.until_planned().await?;
    let offsets: Vec<_> = plan.skips.iter().map(|s| s.record.offset).collect();
    assert_eq!(offsets, [1, 2, 4]);
    assert_eq!(rig.copies().await?.len(), 3);
    Ok(())
}

async fn where_nobody_knows_what_the_group_reads_nothing_is_proposed(world: &World) -> Outcome {
    let rig = at_aborted_records(world, "\"unknown\"").await?;
    let result = rig.until_stalled().await?;
    assert_ne!(verdict(&result, 0), Some(Verdict::PoisonLikely));
    assert_eq!((result.plan, rig.copies().await?.len()), (None, 0));
    // A person who asks is told why.
    let ask = rig.ask("skip_poison_record", &serde_json::json!({}));
    let result = rig.run(&ask).await?;
    assert_eq!(result.withheld, ["ISOLATION_UNKNOWN"]);
    assert_eq!((result.plan, rig.copies().await?.len()), (None, 0));
    Ok(())
}
