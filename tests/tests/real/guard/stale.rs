//! What a plan rests on changes between the copy and Apply: nothing is passed over, and the next run keeps it again.

use offset_guard::domain::ids::PlanId;
use offset_guard::domain::recovery::Outcome as Proven;
use offset_guard::domain::refusal::{Refusal, Stale};
use offset_guard_tests::{Outcome, World, on_kafka_4};

use super::rig::Rig;
use super::{dedupe_id, raw};
use crate::asked::Result;

on_kafka_4!(
    a_copy_that_was_deleted_is_written_again,
    a_quarantine_topic_that_was_made_anew_gets_the_copy_again,
    a_copy_that_is_another_record_is_written_again,
    a_source_record_that_is_gone_passes_nothing_over,
    a_source_topic_that_was_made_anew_passes_nothing_over,
    a_commit_that_moved_passes_nothing_over,
);

const LOG: &[&[&str]] = &[&["{}", "not JSON", "{}"]];

/// A plan that passes over record 1, approved and admitted.
async fn approved(world: &World) -> Result<(Rig, PlanId)> {
    let rig = Rig::new(world, &[], LOG).await?;
    rig.bench.commit(&[1]).await?;
    let (plan, _) = rig.until_planned().await?;
    rig.bench.approved_plan(&plan).await?;
    Ok((rig, plan))
}

/// Applies, and is refused for what changed; nothing has moved, and the recovery is over.
async fn refused(rig: &Rig, plan: &PlanId) -> Result<Vec<Stale>> {
    let before = rig.offset().await?;
    let applied = rig.bench.apply(plan, &[]).await?;
    assert_eq!((applied.requests, applied.accepted), (0, 0));
    assert_eq!(rig.offset().await?, before);
    let verified = rig.bench.verify(plan).await?;
    assert_eq!(verified.outcome, Some(Proven::NotApplied));
    let audit = rig.bench.report(plan).await?;
    let stale = audit
        .refusals
        .into_iter()
        .filter_map(|refusal| match refusal {
            Refusal::PlanStale { changed } => Some(changed),
            _ => None,
        });
    Ok(stale.collect())
}

/// The next run keeps the record again under the same id, and the plan that it makes passes it over.
async fn kept_again(rig: &Rig, before: &offset_guard_local::client::Record) -> Outcome {
    let result = rig.tick().await?;
    let (plan, stored) = rig.planned(result).await?;
    let copies = rig.copies().await?;
    let copy = copies.last().ok_or("there is no copy")?;
    assert_eq!(dedupe_id(copy), dedupe_id(before));
    assert_eq!(dedupe_id(copy).as_ref(), Some(&stored.skips[0].dedupe_id));
    assert_eq!((&copy.key, &copy.value), (&before.key, &before.value));
    let next = rig.bench.again();
    next.approved_plan(&plan).await?;
    assert_eq!(next.apply(&plan, &[]).await?.accepted, 1);
    assert_eq!(next.verify(&plan).await?.outcome, Some(Proven::Verified));
    assert_eq!(rig.offset().await?, Some(2));
    Ok(())
}

fn is_of_the_copy(stale: &[Stale]) -> bool {
    matches!(stale, [Stale::QuarantineCopy { .. }])
}

async fn a_copy_that_was_deleted_is_written_again(world: &World) -> Outcome {
    let (rig, plan) = approved(world).await?;
    let copy = rig.copies().await?.remove(0);
    world.client.delete_records(&rig.quarantine, 0, 1).await?;
    let stale = refused(&rig, &plan).await?;
    assert!(is_of_the_copy(&stale), "{stale:?}");
    // The deleted one is not there to be read, so it is the only one that is.
    let result = rig.tick().await?;
    let (plan, stored) = rig.planned(result).await?;
    let again = world.client.read(&rig.quarantine, 0, 1).await?;
    assert_eq!(dedupe_id(&again), dedupe_id(&copy));
    assert_eq!(stored.skips[0].record.fingerprint, seen_in(&again));
    let next = rig.bench.again();
    next.approved_plan(&plan).await?;
    assert_eq!(next.apply(&plan, &[]).await?.accepted, 1);
    assert_eq!(rig.offset().await?, Some(2));
    Ok(())
}

fn seen_in(
    copy: &offset_guard_local::client::Record,
) -> offset_guard::domain::guard::record::Fingerprint {
    offset_guard::domain::guard::headers::seen(&raw(copy)).fingerprint
}

async fn a_quarantine_topic_that_was_made_anew_gets_the_copy_again(world: &World) -> Outcome {
    let (rig, plan) = approved(world).await?;
    let copy = rig.copies().await?.remove(0);
    world.client.delete_topic(&rig.quarantine).await?;
    let stale = refused(&rig, &plan).await?;
    assert!(is_of_the_copy(&stale), "{stale:?}");

    // Without the topic there is no plan, and nobody makes one.
    let result = rig.tick().await?;
    assert_eq!(result.withheld, ["QUARANTINE_UNUSABLE"]);
    assert_eq!(result.plan, None);

    world.client.create_topic(&rig.quarantine, 1, &[]).await?;
    kept_again(&rig, &copy).await
}

async fn a_copy_that_is_another_record_is_written_again(world: &World) -> Outcome {
    let (rig, plan) = approved(world).await?;
    let copy = rig.copies().await?.remove(0);
    world.client.delete_topic(&rig.quarantine).await?;
    world.client.create_topic(&rig.quarantine, 1, &[]).await?;
    world.client.produce_numbered(&rig.quarantine, 0, 1).await?;
    let stale = refused(&rig, &plan).await?;
    assert!(is_of_the_copy(&stale), "{stale:?}");
    kept_again(&rig, &copy).await
}

async fn a_source_record_that_is_gone_passes_nothing_over(world: &World) -> Outcome {
    let (rig, plan) = approved(world).await?;
    world.client.delete_records(&rig.bench.topic, 0, 2).await?;
    let stale = refused(&rig, &plan).await?;
    assert!(
        stale
            .iter()
            .any(|stale| matches!(stale, Stale::SourceRecord { .. })),
        "{stale:?}"
    );
    // What is not there any more is nothing to pass over.
    let result = rig.tick().await?;
    assert_eq!((result.plan, rig.copies().await?.len()), (None, 1));
    Ok(())
}

async fn a_source_topic_that_was_made_anew_passes_nothing_over(world: &World) -> Outcome {
    let (rig, plan) = approved(world).await?;
    world.client.delete_topic(&rig.bench.topic).await?;
    world.client.create_topic(&rig.bench.topic, 1, &[]).await?;
    rig.produce(0, &["{}", "not JSON either", "{}"]).await?;
    // Deleting a topic takes its commits with it.
    rig.bench.commit(&[1]).await?;
    let stale = refused(&rig, &plan).await?;
    assert!(
        stale
            .iter()
            .any(|stale| matches!(stale, Stale::Topic { .. })),
        "{stale:?}"
    );
    assert!(
        stale
            .iter()
            .any(|stale| matches!(stale, Stale::SourceRecord { .. })),
        "{stale:?}"
    );
    Ok(())
}

async fn a_commit_that_moved_passes_nothing_over(world: &World) -> Outcome {
    let (rig, plan) = approved(world).await?;
    // Somebody read on: what the plan moves to lies behind.
    rig.bench.commit(&[3]).await?;
    let stale = refused(&rig, &plan).await?;
    assert!(
        stale
            .iter()
            .any(|stale| matches!(stale, Stale::CommittedOffset { .. })),
        "{stale:?}"
    );
    assert_eq!(rig.offset().await?, Some(3));
    Ok(())
}
