//! What a policy lets the guard propose, and how often.

use offset_guard::domain::guard::quarantine::Kept;
use offset_guard::domain::guard::verdict::{Status, Verdict};
use offset_guard::domain::plan::{LeftAlone, Warning};
use offset_guard::domain::recovery::Outcome as Proven;
use offset_guard::domain::refusal::Refusal;
use offset_guard_tests::{Outcome, World, on_kafka_4};

use super::rig::{Rig, verdict};

on_kafka_4!(
    a_policy_that_keeps_nothing_says_in_capitals_that_the_record_will_be_lost,
    no_more_is_skipped_in_a_day_than_the_policy_says,
    no_more_records_are_passed_over_than_the_policy_says,
    what_one_plan_has_no_room_for_waits_for_the_next_by_name,
    one_record_that_cannot_be_kept_withholds_no_other,
    an_audit_says_what_it_finds_and_proposes_nothing,
    an_offset_that_left_its_log_is_brought_back_into_it,
);

const LOG: &[&[&str]] = &[&["{}", "not JSON", "{}"]];

async fn a_policy_that_keeps_nothing_says_in_capitals_that_the_record_will_be_lost(
    world: &World,
) -> Outcome {
    let lossy = [("publish_to_dlq_topic", "false"), ("quarantine_topic", "")];
    let rig = Rig::new(world, &lossy, LOG).await?;
    rig.bench.commit(&[1]).await?;
    let (id, plan) = rig.until_planned().await?;
    assert_eq!(plan.skips.len(), 1);
    assert_eq!(plan.skips[0].kept, Kept::No);
    let warning = Warning::RecordsLost { records: 1 };
    assert!(plan.warnings.contains(&warning));
    assert!(warning.to_string().contains("THE RECORDS WILL BE LOST"));
    assert_eq!(rig.copies().await?, []);
    // That is what was asked for, and a person has read it.
    rig.bench.approved_plan(&id).await?;
    assert_eq!(rig.bench.apply(&id, &[]).await?.accepted, 1);
    assert_eq!(rig.bench.verify(&id).await?.outcome, Some(Proven::Verified));
    Ok(())
}

async fn no_more_is_skipped_in_a_day_than_the_policy_says(world: &World) -> Outcome {
    let log = ["{}", "not JSON", "{}", "not JSON", "{}"];
    let once = [("max_skips_per_day", "1")];
    let rig = Rig::new(world, &once, &[&log]).await?;
    rig.bench.commit(&[1]).await?;
    let (id, _) = rig.until_planned().await?;
    rig.bench.approved_plan(&id).await?;
    assert_eq!(rig.bench.apply(&id, &[]).await?.accepted, 1);
    assert_eq!(rig.bench.verify(&id).await?.outcome, Some(Proven::Verified));
    rig.bench.report(&id).await?;

    // The group goes on to the next one.
    let read = world
        .consume(&rig.bench.group, &rig.bench.topic, 1, 3)
        .await?;
    assert_eq!(read.len(), 3);
    rig.bench.commit(&[3]).await?;
    let mut result = rig.tick().await?;
    for _ in 0..10 {
        if verdict(&result, 0) == Some(Verdict::PoisonLikely) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        result = rig.tick().await?;
    }
    assert_eq!(
        verdict(&result, 0),
        Some(Verdict::PoisonLikely),
        "{result:?}"
    );
    assert_eq!(result.withheld, ["TOO_MANY_SKIPS"]);
    assert_eq!((result.plan, rig.copies().await?.len()), (None, 1));
    Ok(())
}

async fn no_more_records_are_passed_over_than_the_policy_says(world: &World) -> Outcome {
    let log = ["{}", "bad", "bad", "bad", "{}"];
    let two = [("max_records_per_plan", "2")];
    let rig = Rig::new(world, &two, &[&log]).await?;
    rig.bench.commit(&[1]).await?;
    let result = rig.until_stalled().await?;
    assert_eq!(result.withheld, ["TOO_MANY_RECORDS"]);
    assert_eq!((result.plan, rig.copies().await?.len()), (None, 0));
    Ok(())
}

async fn what_one_plan_has_no_room_for_waits_for_the_next_by_name(world: &World) -> Outcome {
    let bad: &[&str] = &["{}", "not JSON", "{}"];
    let more = [("max_records_per_plan", "2")];
    let rig = Rig::new(world, &more, &[bad, bad, bad]).await?;
    rig.bench.commit(&[1, 1, 1]).await?;
    let result = rig.until_stalled().await?;
    assert_eq!(result.withheld, ["PLAN_FULL"]);
    let (id, plan) = rig.planned(result).await?;
    let moved: Vec<_> = plan.moves.iter().map(|m| m.partition.partition).collect();
    assert_eq!((moved, plan.skips.len()), (vec![0, 1], 2));
    let waits = Refusal::PlanFull {
        partition: rig.partition(2),
        limit: 2,
    };
    let why = waits.to_string();
    let left_alone = (rig.partition(2), LeftAlone::Withheld { why });
    assert_eq!(plan.left_alone, [left_alone]);
    rig.bench.approved_plan(&id).await?;
    assert_eq!(rig.bench.apply(&id, &[]).await?.accepted, 2);
    rig.bench.verify(&id).await?;
    rig.bench.report(&id).await?;
    assert_eq!(rig.bench.offsets(3).await?, [Some(2), Some(2), Some(1)]);

    let (_, plan) = rig.planned(rig.tick().await?).await?;
    let moved: Vec<_> = plan.moves.iter().map(|m| m.partition.partition).collect();
    assert_eq!(moved, [2]);
    assert_eq!(rig.copies().await?.len(), 3);
    Ok(())
}

async fn one_record_that_cannot_be_kept_withholds_no_other(world: &World) -> Outcome {
    let rig = Rig::bare(world, &[]).await?;
    let large = "x".repeat(4_000);
    world.client.create_topic(&rig.bench.topic, 2, &[]).await?;
    rig.produce(0, &["{}", &large, "{}"]).await?;
    rig.produce(1, &["{}", "not JSON", "{}"]).await?;
    let small = [("max.message.bytes", "4000")];
    world
        .client
        .create_topic(&rig.quarantine, 1, &small)
        .await?;
    rig.bench.commit(&[1, 1]).await?;
    let result = rig.until_stalled().await?;
    assert_eq!(result.withheld, ["QUARANTINE_UNUSABLE"]);
    let (id, plan) = rig.planned(result).await?;
    let moved: Vec<_> = plan.moves.iter().map(|m| m.partition.partition).collect();
    assert_eq!((moved, plan.skips.len()), (vec![1], 1));
    let [(partition, LeftAlone::Withheld { why })] = &plan.left_alone[..] else {
        return Err(format!("{:?}", plan.left_alone).into());
    };
    assert_eq!(*partition, rig.partition(0));
    assert!(why.contains("max.message.bytes is 4000"), "{why}");
    rig.bench.approved_plan(&id).await?;
    assert_eq!(rig.bench.apply(&id, &[]).await?.accepted, 1);
    assert_eq!(rig.bench.offsets(2).await?, [Some(1), Some(2)]);
    Ok(())
}

async fn an_audit_says_what_it_finds_and_proposes_nothing(world: &World) -> Outcome {
    let audit = [("remediation_action", "\"AUDIT_ONLY\"")];
    let rig = Rig::new(world, &audit, LOG).await?;
    rig.bench.commit(&[1]).await?;
    let result = rig.until_stalled().await?;
    assert_eq!(verdict(&result, 0), Some(Verdict::PoisonLikely));
    assert_eq!(result.status, Status::Critical);
    assert_eq!((result.plan, rig.copies().await?.len()), (None, 0));
    assert!(result.withheld.is_empty());
    Ok(())
}

async fn an_offset_that_left_its_log_is_brought_back_into_it(world: &World) -> Outcome {
    let rewind = [
        ("remediation_action", "\"REWIND_OFFSET\""),
        ("rewind_record_count", "2"),
    ];
    let log = ["{}", "{}", "{}", "{}", "{}"];

    // Retention has passed it: the log start.
    let rig = Rig::new(world, &rewind, &[&log]).await?;
    rig.bench.commit(&[1]).await?;
    world.client.delete_records(&rig.bench.topic, 0, 3).await?;
    let result = rig.tick().await?;
    assert_eq!(verdict(&result, 0), Some(Verdict::BelowLogStart));
    let (id, plan) = rig.planned(result).await?;
    assert_eq!(plan.moves[0].to.as_ref().map(|to| to.offset), Some(3));
    assert!(plan.skips.is_empty());
    rig.bench.approved_plan(&id).await?;
    // And retention goes on meanwhile.
    world.client.delete_records(&rig.bench.topic, 0, 4).await?;
    assert_eq!(rig.bench.apply(&id, &[]).await?.accepted, 1);
    assert_eq!(rig.offset().await?, Some(4));

    // It lies beyond the end: so many records back from there.
    let rig = Rig::new(world, &rewind, &[&log]).await?;
    rig.bench.commit(&[9]).await?;
    let result = rig.tick().await?;
    assert_eq!(verdict(&result, 0), Some(Verdict::Ahead));
    let (id, plan) = rig.planned(result).await?;
    assert_eq!(plan.moves[0].to.as_ref().map(|to| to.offset), Some(3));
    rig.bench.approved_plan(&id).await?;
    assert_eq!(rig.bench.apply(&id, &[]).await?.accepted, 1);
    assert_eq!(rig.offset().await?, Some(3));

    // A record that is bad is no reason to read it again.
    let rig = Rig::new(world, &rewind, LOG).await?;
    rig.bench.commit(&[1]).await?;
    let result = rig.until_stalled().await?;
    assert_eq!(verdict(&result, 0), Some(Verdict::PoisonLikely));
    assert_eq!((result.plan, rig.copies().await?.len()), (None, 0));
    Ok(())
}
