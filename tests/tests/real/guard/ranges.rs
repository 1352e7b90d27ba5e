//! More than one record in the way, and one that is not where the commit is.

use std::collections::BTreeSet;

use offset_guard::domain::guard::quarantine::Kept;
use offset_guard::domain::guard::verdict::Verdict;
use offset_guard::domain::plan::{Plan, Warning};
use offset_guard::domain::recovery::Outcome as Proven;
use offset_guard_local::client::Record;
use offset_guard_tests::{Outcome, World, on_kafka_4};
use serde_json::json;

use super::rig::{Rig, verdict};
use super::{assert_copy, dedupe_id};

on_kafka_4!(
    twenty_bad_records_in_a_row_are_one_plan,
    a_bad_record_further_on_is_not_skipped_to_unless_it_is_asked_for,
    a_tombstone_and_a_record_without_a_key_are_kept_as_they_are,
);

/// The offsets that a plan passes over, each of which it holds a copy of.
fn passed_over(plan: &Plan) -> Vec<i64> {
    let kept = plan
        .skips
        .iter()
        .filter(|skipped| matches!(skipped.kept, Kept::In(_)));
    kept.map(|skipped| skipped.record.offset).collect()
}

async fn twenty_bad_records_in_a_row_are_one_plan(world: &World) -> Outcome {
    let bad: Vec<String> = (0..20).map(|n| format!("bad {n}")).collect();
    let log: Vec<&str> = ["{}"]
        .into_iter()
        .chain(bad.iter().map(String::as_str))
        .chain(["{}", "bad, but not in a row", "{}"])
        .collect();
    let rig = Rig::new(world, &[], &[&log]).await?;
    rig.bench.commit(&[1]).await?;
    let (id, plan) = rig.until_planned().await?;
    assert_eq!(plan.moves.len(), 1);
    assert_eq!(plan.moves[0].to.as_ref().map(|to| to.offset), Some(21));
    assert_eq!(passed_over(&plan), (1..21).collect::<Vec<_>>());
    assert!(plan.skips.iter().all(|skipped| skipped.failure.is_some()));
    let copies = rig.copies().await?;
    assert_eq!(copies.len(), 20);
    for (copy, value) in copies.iter().zip(&bad) {
        assert_copy(copy, &Record::new(0, value.as_str()));
    }
    let ids: BTreeSet<_> = copies.iter().map(dedupe_id).collect();
    assert_eq!(ids.len(), 20);

    rig.bench.approved_plan(&id).await?;
    let applied = rig.bench.apply(&id, &[]).await?;
    assert_eq!((applied.requests, applied.accepted), (1, 1));
    assert_eq!(rig.bench.verify(&id).await?.outcome, Some(Proven::Verified));
    assert_eq!(rig.offset().await?, Some(21));
    Ok(())
}

async fn a_bad_record_further_on_is_not_skipped_to_unless_it_is_asked_for(
    world: &World,
) -> Outcome {
    let log = ["{}", "{\"n\": 1}", "{\"n\": 2}", "not JSON", "{}"];
    // A person's request is looked at on suspicion too; the policy's own proposals are all that `skip_on` widens.
    let rig = Rig::new(world, &[("skip_on", "\"suspected\"")], &[&log]).await?;
    rig.bench.commit(&[1]).await?;
    let member = world.member(&rig.bench.group, &rig.bench.topic, 1).await?;
    let result = rig.until_stalled().await?;
    assert_eq!(verdict(&result, 0), Some(Verdict::PoisonSuspected));
    assert_eq!(result.withheld, ["POISON_NOT_AT_COMMITTED"]);
    assert_eq!((result.plan, rig.copies().await?.len()), (None, 0));

    let result = rig
        .run(&rig.ask("skip_poison_record", &json!({"through": 3})))
        .await?;
    let (id, plan) = rig.planned(result).await?;
    assert_eq!(passed_over(&plan), [1, 2, 3]);
    let fail: Vec<_> = plan.skips.iter().map(|s| s.failure.is_some()).collect();
    assert_eq!(fail, [false, false, true]);
    assert!(
        plan.warnings
            .contains(&Warning::GoodRecordsSkipped { records: 2 })
    );
    let copies = rig.copies().await?;
    assert_eq!(copies.len(), 3);
    for (copy, value) in copies.iter().zip(&log[1..]) {
        assert_copy(copy, &Record::new(0, *value));
    }
    assert_eq!(plan.requested_by, "somebody");
    member.stop().await?;
    rig.bench.approved_plan(&id).await?;
    assert_eq!(rig.bench.apply(&id, &[]).await?.accepted, 1);
    assert_eq!(rig.offset().await?, Some(4));

    // One beyond the end is no record.
    let result = rig
        .run(&rig.ask("skip_poison_record", &json!({"through": 5})))
        .await?;
    assert_eq!((result.plan, rig.copies().await?.len()), (None, 3));
    Ok(())
}

async fn a_tombstone_and_a_record_without_a_key_are_kept_as_they_are(world: &World) -> Outcome {
    let bad = [
        Record {
            key: Some(b"key".to_vec()),
            value: None,
            ..Record::new(0, "")
        },
        Record {
            key: Some(Vec::new()),
            headers: vec![("".to_owned(), None), ("".to_owned(), Some(vec![0xff]))],
            ..Record::new(0, Vec::new())
        },
        Record::new(0, vec![0xff, 0x00]),
    ];
    let rig = Rig::new(world, &[("validators", "[\"utf8\"]")], &[&[]]).await?;
    world.client.produce(&rig.bench.topic, &bad).await?;
    rig.bench.commit(&[0]).await?;
    rig.until_stalled().await?;
    let result = rig
        .run(&rig.ask("skip_poison_record", &json!({"through": 2})))
        .await?;
    let (_, plan) = rig.planned(result).await?;
    assert_eq!(passed_over(&plan), [0, 1, 2]);
    let copies = rig.copies().await?;
    assert_eq!(copies.len(), 3);
    for (copy, record) in copies.iter().zip(&bad) {
        assert_copy(copy, record);
    }
    Ok(())
}
