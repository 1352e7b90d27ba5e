//! A rewind that needs two requests.

use std::error::Error as StdError;

use offset_guard::domain::audit::{Audit, AuditStatus};
use offset_guard::domain::ids::PlanId;
use offset_guard::domain::recovery::{Outcome as Came, PartitionOutcome};
use offset_guard_local::client::Commit;
use offset_guard_tests::{Outcome, World, now};
use serde_json::json;

use crate::bench::Bench;

/// More than one request holds: 512 KiB by the estimate.
pub(crate) const MANY: i32 = 140;

/// As much as a broker takes by default.
pub(crate) const LONG: usize = 4096;

pub(crate) fn partition_outcomes(audit: &Audit) -> Vec<Option<PartitionOutcome>> {
    audit.partitions.iter().map(|p| p.outcome.clone()).collect()
}

/// A group whose rewind needs two requests: its checkpoint at 0 holds long metadata, which it has gone on from to 1.
pub(crate) async fn approve_big_move(
    world: &World,
) -> Result<(Bench, PlanId, i32), Box<dyn StdError>> {
    let bench = Bench::new(world, "test", MANY, 1).await?;
    let commits: Vec<_> = (0..MANY)
        .map(|partition| Commit {
            metadata: "m".repeat(LONG),
            ..Commit::new(&bench.topic, partition, 0)
        })
        .collect();
    for some in commits.chunks(70) {
        world.client.commit(&bench.group, some).await?;
    }
    bench.checkpoint().await?;
    let before = now();
    bench.commit(&[1; MANY as usize]).await?;
    let plan = bench.approved(&json!({"rewind_before": before})).await?;
    // As many commits as one request holds.
    let size = bench.group.len() + bench.topic.len() + LONG + 60;
    Ok((bench, plan, i32::try_from(512 * 1024 / size)?))
}

/// The first request was answered, the second never sent.
pub(crate) async fn report_half(bench: &Bench, plan: &PlanId, first: i32) -> Outcome {
    let verified = bench.verify(plan).await?;
    assert_eq!(verified.outcome, Some(Came::PartiallyApplied));
    let audit = bench.report(plan).await?;
    assert_eq!(
        (audit.status, audit.code.as_str()),
        (AuditStatus::Failed, "PARTIALLY_APPLIED")
    );
    let half: Vec<_> = (0..MANY)
        .map(|p| {
            Some(if p < first {
                PartitionOutcome::Applied
            } else {
                PartitionOutcome::NotApplied
            })
        })
        .collect();
    assert_eq!(partition_outcomes(&audit), half);
    let half: Vec<_> = (0..MANY).map(|p| Some(i64::from(p >= first))).collect();
    assert_eq!(bench.offsets(MANY).await?, half);
    Ok(())
}
