//! What cannot be read: of a whole group, and of one partition.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use offset_guard::app::guard::{GuardResult, Sources};
use offset_guard::domain::guard::verdict::{Status, Verdict};
use offset_guard::kafka::{Auth, ConnectionSettings, GroupReader, RecordKeeper, RecordReader};
use offset_guard_tests::{Outcome, World, on_kafka_4};

use super::rig::{Rig, Wrong, verdict};
use crate::asked::Result;

on_kafka_4!(
    a_group_that_cannot_be_read_is_unknown_told_once_and_changes_no_sample,
    a_group_that_is_not_there_is_unknown,
    one_partition_that_cannot_be_read_blinds_no_other,
);

async fn a_group_that_cannot_be_read_is_unknown_told_once_and_changes_no_sample(
    world: &World,
) -> Outcome {
    let rig = Rig::new(world, &[], &[&["{}", "not JSON", "{}"]]).await?;
    rig.bench.commit(&[1]).await?;
    rig.tick().await?;
    let group = world.key_of(&rig.group());
    let before = rig.bench.store.samples(&group, Timestamp::now()).await?;
    let told_before = rig.started().await?;
    for _ in 0..3 {
        let result = unreachable(&rig).await?;
        assert_eq!(result.status, Status::Unknown);
        assert_eq!(result.plan, None);
        assert!(
            result.summary.contains("could not be read"),
            "{}",
            result.summary
        );
    }
    assert_eq!(rig.started().await?.len(), told_before.len() + 1);
    let after = rig.bench.store.samples(&group, Timestamp::now()).await?;
    assert_eq!(after, before);
    let since = Timestamp::UNIX_EPOCH;
    let runs = rig
        .bench
        .store
        .guard_runs_since("main", &group.group, since)
        .await?;
    assert!(runs[0].failed.is_some());
    Ok(())
}

/// A run in front of brokers that nobody reaches.
async fn unreachable(rig: &Rig) -> Result<GuardResult> {
    let nowhere = ConnectionSettings::new("127.0.0.1:1", Auth::Plaintext);
    let deadline = Instant::now() + Duration::from_secs(2);
    let connect = async |_: &str| {
        Ok(Sources {
            groups: GroupReader::connect(nowhere.clone())?.until(deadline),
            records: RecordReader::connect(nowhere.clone(), offset_guard_tests::reader_program())?
                .until(deadline),
            keeper: RecordKeeper::connect(nowhere.clone())?,
            proxy: None,
        })
    };
    rig.run_on(&rig.event(), rig.machine(), connect).await
}

async fn a_group_that_is_not_there_is_unknown(world: &World) -> Outcome {
    let rig = Rig::bare(world, &[]).await?;
    let result = rig.tick().await?;
    assert_eq!(result.status, Status::Unknown);
    assert!(
        result.summary.contains("there is no consumer group"),
        "{}",
        result.summary
    );
    assert_eq!(rig.started().await?.len(), 1);
    rig.tick().await?;
    assert_eq!(rig.started().await?.len(), 1);
    Ok(())
}

async fn one_partition_that_cannot_be_read_blinds_no_other(world: &World) -> Outcome {
    let bad: &[&str] = &["{}", "not JSON", "{}"];
    let rig = Rig::new(world, &[], &[bad, bad, &["{}"]]).await?;
    rig.bench.commit(&[1, 1, 1]).await?;
    rig.tick().await?;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let result = rig.run_wrongly(Wrong::NoLeader(1)).await?;
    assert_eq!(verdict(&result, 0), Some(Verdict::PoisonLikely));
    assert_eq!(verdict(&result, 1), Some(Verdict::NoData));
    assert_eq!(verdict(&result, 2), Some(Verdict::CaughtUp));
    let skipped = rig.copies().await?;
    assert_eq!(skipped.len(), 1);
    assert_eq!(
        super::header(&skipped[0], "offset-guard.origin.partition"),
        "0"
    );
    Ok(())
}
