//! The process ends at every step between the ledger and Verify, and the guard runs again.

use std::collections::BTreeSet;

use offset_guard::domain::recovery::Outcome as Proven;
use offset_guard_local::client::Record;
use offset_guard_tests::{Outcome, World, on_kafka_4};

use super::rig::{End, Rig};
use super::{assert_copy, dedupe_id};
use crate::asked::Result;
use crate::bench::Act;

on_kafka_4!(
    a_run_that_ends_anywhere_loses_nothing_and_is_made_up_for,
    an_apply_that_ends_anywhere_loses_nothing_and_is_made_up_for,
    two_runs_at_once_keep_one_copy_and_make_one_plan,
);

const LOG: &[&[&str]] = &[&["{}", "not JSON", "{}"]];

/// A group that stands at a record that is no JSON, seen for long enough, but for one look.
async fn standing(world: &World) -> Result<Rig> {
    let rig = Rig::new(world, &[], LOG).await?;
    rig.bench.commit(&[1]).await?;
    rig.tick().await?;
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    Ok(rig)
}

/// One record in quarantine, how ever many copies it has there.
#[track_caller]
fn assert_one_record(copies: &[Record]) {
    for copy in copies {
        assert_copy(copy, &Record::new(0, "not JSON"));
    }
    let ids: BTreeSet<_> = copies.iter().map(dedupe_id).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
}

async fn a_run_that_ends_anywhere_loses_nothing_and_is_made_up_for(world: &World) -> Outcome {
    for (end, written, in_all) in [
        (End::BeforeProduce, 0, 1),
        (End::AfterProduce, 1, 2),
        (End::BeforeReadBack, 1, 2),
        (End::AfterConfirm, 1, 1),
        (End::BeforeStart, 1, 1),
    ] {
        let rig = standing(world).await?;
        rig.killed(end)
            .await
            .map_err(|error| format!("{end:?}: {error}"))?;
        assert_eq!(rig.copies().await?.len(), written, "{end:?}");
        assert_eq!(rig.offset().await?, Some(1), "{end:?}");
        assert_eq!(rig.started().await?.len(), 0, "{end:?}");

        let confirmed = matches!(end, End::AfterConfirm | End::BeforeStart);
        if !confirmed {
            // Nobody knows that it was killed: while it may still be at it, nobody else is.
            let result = rig.tick().await?;
            assert_eq!(result.withheld, ["QUARANTINE_UNCONFIRMED"], "{end:?}");
            assert_eq!(result.plan, None, "{end:?}");
            assert_eq!(rig.copies().await?.len(), written, "{end:?}");
            rig.expire_leases().await?;
        }
        let result = rig.tick().await?;
        let (plan, stored) = rig.planned(result).await?;
        let copies = rig.copies().await?;
        assert_eq!(copies.len(), in_all, "{end:?}");
        assert_one_record(&copies);
        assert_eq!(
            dedupe_id(&copies[0]).as_ref(),
            Some(&stored.skips[0].dedupe_id)
        );
        rig.bench.approved_plan(&plan).await?;
        assert_eq!(rig.bench.apply(&plan, &[]).await?.accepted, 1, "{end:?}");
        let verified = rig.bench.verify(&plan).await?;
        assert_eq!(verified.outcome, Some(Proven::Verified), "{end:?}");
        assert_eq!(rig.offset().await?, Some(2), "{end:?}");
    }
    Ok(())
}

async fn an_apply_that_ends_anywhere_loses_nothing_and_is_made_up_for(world: &World) -> Outcome {
    for (act, proven, at) in [
        (Act::DieBefore, Proven::NotApplied, 1),
        (Act::DieAfter, Proven::Verified, 2),
    ] {
        let rig = standing(world).await?;
        let result = rig.tick().await?;
        let (plan, _) = rig.planned(result).await?;
        rig.bench.approved_plan(&plan).await?;
        rig.bench.apply_killed(&plan, &[act]).await?;
        let verified = rig.bench.verify_later(&plan).await?;
        assert_eq!(verified.outcome.as_ref(), Some(&proven), "{act:?}");
        assert_eq!(rig.offset().await?, Some(at), "{act:?}");
        rig.bench.report(&plan).await?;

        let result = rig.tick().await?;
        if proven == Proven::Verified {
            assert_eq!(result.plan, None, "{act:?}");
        } else {
            let (plan, _) = rig.planned(result).await?;
            let next = rig.bench.again();
            next.approved_plan(&plan).await?;
            assert_eq!(next.apply(&plan, &[]).await?.accepted, 1);
            assert_eq!(next.verify(&plan).await?.outcome, Some(Proven::Verified));
        }
        assert_eq!(rig.offset().await?, Some(2), "{act:?}");
        let copies = rig.copies().await?;
        assert_eq!(copies.len(), 1, "{act:?}");
        assert_one_record(&copies);
    }
    Ok(())
}

async fn two_runs_at_once_keep_one_copy_and_make_one_plan(world: &World) -> Outcome {
    let rig = standing(world).await?;
    let (first, second) = tokio::join!(rig.tick(), rig.tick());
    let plans = [first?, second?]
        .into_iter()
        .filter_map(|result| result.plan);
    assert_eq!(plans.count(), 1);
    assert_one_record(&rig.copies().await?);
    assert_eq!(rig.copies().await?.len(), 1);
    Ok(())
}
