//! What the guard says of a group while a recovery of its own product holds it.

use offset_guard::app::guard::GuardResult;
use offset_guard::domain::guard::verdict::{Finding, Status, Verdict};
use offset_guard::domain::recovery::Outcome as Proven;
use offset_guard_tests::{Outcome, World, on_kafka_4};
use serde_json::json;

use super::rig::Rig;

on_kafka_4!(what_a_recovery_does_is_named_and_told_to_nobody);

fn of(result: &GuardResult, partition: i32) -> Option<(Verdict, Status)> {
    let is = |finding: &&Finding| finding.partition.partition == partition;
    let finding = result.findings.iter().find(is)?;
    Some((finding.verdict, finding.status))
}

async fn what_a_recovery_does_is_named_and_told_to_nobody(world: &World) -> Outcome {
    let log = ["{}", "{}", "{}", "{}"];
    let rig = Rig::new(world, &[], &[&log, &log]).await?;
    rig.bench.commit(&[3, 1]).await?;
    let nobody = Some((Verdict::NoMembers, Status::Warning));
    let result = rig.until_stalled().await?;
    assert_eq!((of(&result, 0), of(&result, 1)), (nobody, nobody));
    let result = rig.run(&rig.ask("rewind_offset", &json!({}))).await?;
    let (id, _) = rig.planned(result).await?;
    let told = rig.started().await?;

    // Its consumers have to stop for it.
    rig.bench.approved_plan(&id).await?;
    let applied = format!("recovery {id} is being applied");
    let stopped = Some((Verdict::NoMembers, Status::Healthy));
    let result = rig.tick().await?;
    assert_eq!((of(&result, 0), of(&result, 1)), (stopped, stopped));
    assert_eq!(result.status, Status::Healthy);
    assert!(result.summary.contains(&applied), "{}", result.summary);

    // It has moved the group, and not reported.
    assert_eq!(rig.bench.apply(&id, &[]).await?.accepted, 1);
    assert_eq!(rig.offset().await?, Some(2));
    let result = rig.tick().await?;
    let moved = Some((Verdict::Rewound, Status::Healthy));
    assert_eq!((of(&result, 0), of(&result, 1)), (moved, stopped));
    assert!(result.summary.contains(&applied), "{}", result.summary);
    assert_eq!(rig.started().await?, told);

    // After that, who is in the group is no longer its affair.
    assert_eq!(rig.bench.verify(&id).await?.outcome, Some(Proven::Verified));
    rig.bench.report(&id).await?;
    let result = rig.tick().await?;
    assert_eq!(of(&result, 1), nobody);
    assert!(!result.summary.contains(&applied), "{}", result.summary);
    Ok(())
}
