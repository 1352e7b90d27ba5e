//! What a person asks of the guard, and whom its plans leave alone.

use jiff::Timestamp;
use offset_guard::domain::approval::ApprovalStatus;
use offset_guard::domain::guard::run::GuardAction;
use offset_guard_tests::{Outcome, World, on_kafka_4};
use serde_json::json;

use super::rig::Rig;

on_kafka_4!(
    a_person_may_ask_for_a_rewind_of_one_partition,
    while_a_recovery_is_live_the_guard_reports_and_does_not_plan,
    a_request_is_a_dry_run_unless_it_says_otherwise,
);

const LOG: &[&[&str]] = &[&["{}", "not JSON", "{}"]];

async fn a_person_may_ask_for_a_rewind_of_one_partition(world: &World) -> Outcome {
    let log: &[&str] = &["{}", "{}", "{}", "{}"];
    let back = [("rewind_record_count", "2")];
    let rig = Rig::new(world, &back, &[log, log]).await?;
    rig.bench.commit(&[3, 3]).await?;
    let result = rig.run(&rig.ask("rewind_offset", &json!({}))).await?;
    let (id, plan) = rig.planned(result).await?;
    assert_eq!(plan.moves.len(), 1);
    assert_eq!(plan.requested_by, "somebody");
    assert!(
        plan.reason.starts_with("seen in its log"),
        "{}",
        plan.reason
    );
    assert_eq!(plan.moves[0].to.as_ref().map(|to| to.offset), Some(1));
    rig.bench.approved_plan(&id).await?;
    assert_eq!(rig.bench.apply(&id, &[]).await?.accepted, 1);
    assert_eq!(rig.bench.offsets(2).await?, [Some(1), Some(3)]);
    Ok(())
}

async fn while_a_recovery_is_live_the_guard_reports_and_does_not_plan(world: &World) -> Outcome {
    let rig = Rig::new(world, &[], LOG).await?;
    rig.bench.commit(&[1]).await?;
    let (guards, _) = rig.until_planned().await?;
    rig.bench.take_over(&guards).await?;
    let result = rig.tick().await?;
    assert_eq!(result.plan, None);
    let since = Timestamp::UNIX_EPOCH;
    let runs = rig
        .bench
        .store
        .guard_runs_since("main", &rig.group(), since)
        .await?;
    assert_eq!(
        runs[0].action,
        GuardAction::RecoveryLive {
            plan: guards.clone()
        }
    );
    assert_eq!(rig.copies().await?.len(), 1);

    // A person is served all the same: the guard's own plan makes room, as it does for a rewind.
    let result = rig.run(&rig.ask("skip_poison_record", &json!({}))).await?;
    let (asked, _) = rig.planned(result).await?;
    assert_ne!(asked, guards);
    let next = rig.bench.again();
    next.take_over(&asked).await?;
    let claim = rig.bench.store.claim(&world.key_of(&rig.group())).await?;
    assert_eq!(claim.map(|claim| claim.plan), Some(asked.clone()));
    let earlier = rig.bench.store.approval_of(&guards).await?;
    assert!(earlier.is_none_or(|(_, approval)| approval.status == ApprovalStatus::Superseded));

    // One that a person asked for makes room for nobody.
    let result = rig.run(&rig.ask("skip_poison_record", &json!({}))).await?;
    assert_eq!(result.plan, None);
    Ok(())
}

async fn a_request_is_a_dry_run_unless_it_says_otherwise(world: &World) -> Outcome {
    let rig = Rig::new(world, &[], LOG).await?;
    rig.bench.commit(&[1]).await?;
    rig.tick().await?;
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    let mut event = rig.ask("skip_poison_record", &json!({}));
    if let Some(ask) = event["ask"].as_object_mut() {
        ask.remove("dry_run");
    }
    let result = rig.run(&event).await?;
    let (plan, _) = rig.planned(result).await?;
    assert_eq!(rig.copies().await?, []);
    assert!(!rig.started().await?.contains(&plan.0));
    Ok(())
}
