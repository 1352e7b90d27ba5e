//! As many records as one plan may pass over: kept, planned and read again within the functions' time.

use std::time::{Duration, Instant};

use offset_guard::app::guard::Sources;
use offset_guard::domain::guard::policy::MOST_RECORDS_PER_PLAN;
use offset_guard::kafka::{GroupReader, RecordKeeper, RecordReader};
use offset_guard_tests::{Outcome, World, on_kafka_4, reader_program};
use serde_json::json;

use super::rig::Rig;
use crate::asked::Result;

on_kafka_4!(
    as_many_records_of_one_partition_as_one_plan_may_pass_over_are_kept_and_applied_in_time,
    as_many_records_of_many_partitions_as_one_plan_may_pass_over_are_kept_and_applied_in_time,
    what_is_kept_already_is_not_written_again,
);

/// What a run of the guard may take of its 300 s until brokers are waited for no more, and what Apply has of its 120 s.
const GUARD: Duration = Duration::from_secs(270);
const APPLY: Duration = Duration::from_secs(118);

/// One run within the guard's own time.
async fn run(rig: &Rig) -> Result<offset_guard::app::guard::GuardResult> {
    let began = Instant::now();
    let settings = rig.settings();
    let connect = async |_: &str| {
        Ok(Sources {
            groups: GroupReader::connect(settings.clone())?.until(began + GUARD),
            records: RecordReader::connect(settings.clone(), reader_program())?
                .until(began + GUARD),
            keeper: RecordKeeper::connect(settings.clone())?,
            proxy: None,
        })
    };
    rig.run_on(&rig.event(), rig.machine(), connect).await
}

/// A group that stands at as many records that are no JSON as one plan may pass over, in so many partitions.
async fn standing(world: &World, partitions: u32) -> Result<Rig> {
    let most = MOST_RECORDS_PER_PLAN.to_string();
    let policy = [
        ("max_records_per_plan", most.as_str()),
        ("max_poll_records", most.as_str()),
    ];
    let bad: Vec<String> = (0..MOST_RECORDS_PER_PLAN / partitions)
        .map(|n| format!("bad {n}"))
        .collect();
    let log: Vec<&str> = bad.iter().map(String::as_str).collect();
    let logs: Vec<&[&str]> = (0..partitions).map(|_| &log[..]).collect();
    let rig = Rig::new(world, &policy, &logs).await?;
    let commits: Vec<i64> = (0..partitions).map(|_| 0).collect();
    rig.bench.commit(&commits).await?;
    run(&rig).await?;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    Ok(rig)
}

/// Keeps, plans and applies. Both steps refuse what their time is too short for.
async fn kept_and_applied(rig: &Rig, partitions: u32) -> Outcome {
    let result = run(rig).await?;
    let (id, plan) = rig.planned(result).await?;
    let records = MOST_RECORDS_PER_PLAN / partitions * partitions;
    assert_eq!(plan.skips.len(), usize::try_from(records)?);
    rig.bench.approved_plan(&id).await?;
    let applied = rig.bench.apply_in(&id, APPLY).await?;
    assert_eq!(applied.accepted, plan.moves.len());
    Ok(())
}

async fn as_many_records_of_one_partition_as_one_plan_may_pass_over_are_kept_and_applied_in_time(
    world: &World,
) -> Outcome {
    let rig = standing(world, 1).await?;
    kept_and_applied(&rig, 1).await
}

async fn as_many_records_of_many_partitions_as_one_plan_may_pass_over_are_kept_and_applied_in_time(
    world: &World,
) -> Outcome {
    let rig = standing(world, 8).await?;
    kept_and_applied(&rig, 8).await
}

/// A run that finds all copies there writes none.
async fn what_is_kept_already_is_not_written_again(world: &World) -> Outcome {
    let rig = standing(world, 1).await?;
    run(&rig).await?;
    let through = i64::from(MOST_RECORDS_PER_PLAN) - 1;
    let event = rig.ask("skip_poison_record", &json!({"through": through}));
    let result = rig.run(&event).await?;
    let (_, plan) = rig.planned(result).await?;
    let most = usize::try_from(MOST_RECORDS_PER_PLAN)?;
    assert_eq!((plan.skips.len(), rig.copies().await?.len()), (most, most));
    Ok(())
}
