//! Apply that dies, is paused, loses its replies or is told to stop; and what Verify says of it.

use std::cell::OnceCell;
use std::error::Error as StdError;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use offset_guard::app::apply::ALTER_TIMEOUT;
use offset_guard::app::verify;
use offset_guard::domain::audit::{Audit, AuditStatus};
use offset_guard::domain::recovery::{Outcome as Came, PartitionOutcome};
use offset_guard::domain::refusal::Refusal;
use offset_guard::error::Error;
use offset_guard_local::client::Record;
use offset_guard_tests::{Outcome, PATIENCE, World, on_every_kafka, on_kafka_4};
use serde_json::json;

use crate::bench::{Act, Bench, LEFT};
use crate::big_move::{LONG, MANY, approve_big_move, partition_outcomes, report_half};

on_every_kafka!(
    killed_before_it_sends,
    killed_after_it_sends,
    reply_lost,
    a_member_that_joins_at_the_last_moment_stops_it,
);
on_kafka_4!(
    consumers_that_went_on_are_told_from_a_lost_request,
    what_writes_from_outside_is_told_from_consumers,
    a_rewind_that_was_never_sent_is_never_called_applied,
    half_a_move_is_said_and_a_retry_finishes_it,
    half_a_move_that_consumers_touched_is_left_alone,
    a_paused_apply_sends_nothing_after_verify,
    verify_between_two_requests_stops_the_second,
    the_switch_stops_admission_and_every_request,
    without_time_nothing_is_begun,
);

async fn killed_before_it_sends(world: &World) -> Outcome {
    let bench = Bench::new(world, "test", 2, 30).await?;
    bench.commit(&[20, 20]).await?;
    let plan = bench.approved(&bench.to(2, 5)).await?;
    let began = Timestamp::now();
    bench.apply_killed(&plan, &[Act::DieBefore]).await?;

    // It may still run, so Verify does not say anything yet, and says until when.
    let verified = bench.verify(&plan).await?;
    assert_eq!(
        (verified.next, verified.outcome),
        (verify::Next::Wait, None)
    );
    let until: Timestamp = verified.wait_until.ok_or("wait until when?")?.parse()?;
    let over = SignedDuration::try_from(LEFT + ALTER_TIMEOUT)?;
    assert!(
        until >= began + over && until <= Timestamp::now() + over + SignedDuration::from_secs(2)
    );

    let verified = bench.verify_later(&plan).await?;
    assert_eq!(verified.outcome, Some(Came::NotApplied));
    let audit = bench.report(&plan).await?;
    assert_eq!(
        (audit.status, audit.code.as_str()),
        (AuditStatus::Failed, "APPROVED_NOT_APPLIED")
    );
    assert_eq!(
        partition_outcomes(&audit),
        [
            Some(PartitionOutcome::NotApplied),
            Some(PartitionOutcome::NotApplied)
        ]
    );
    assert_eq!(bench.offsets(2).await?, [Some(20), Some(20)]);
    // The group is free again.
    bench.again().approved(&bench.to(2, 5)).await?;
    Ok(())
}

async fn killed_after_it_sends(world: &World) -> Outcome {
    let bench = Bench::new(world, "test", 2, 30).await?;
    bench.commit(&[20, 20]).await?;
    let plan = bench.approved(&bench.to(2, 5)).await?;
    bench.apply_killed(&plan, &[Act::DieAfter]).await?;
    assert_eq!(bench.verify(&plan).await?.next, verify::Next::Wait);
    let verified = bench.verify_later(&plan).await?;
    assert_eq!(verified.outcome, Some(Came::Verified));
    let audit = bench.report(&plan).await?;
    assert_eq!(
        (audit.status, audit.code.as_str()),
        (AuditStatus::Succeeded, "VERIFIED")
    );
    assert_eq!(bench.offsets(2).await?, [Some(5), Some(5)]);
    Ok(())
}

async fn reply_lost(world: &World) -> Outcome {
    let bench = Bench::new(world, "test", 2, 30).await?;
    bench.commit(&[20, 20]).await?;
    let plan = bench.approved(&bench.to(2, 5)).await?;
    let applied = bench.apply(&plan, &[Act::LoseReply]).await?;
    assert_eq!(
        (applied.requests, applied.accepted, applied.unknown),
        (1, 0, 2)
    );
    assert_eq!(bench.verify(&plan).await?.next, verify::Next::Wait);
    let verified = bench.verify_later(&plan).await?;
    assert_eq!(verified.outcome, Some(Came::Verified));
    assert_eq!(bench.report(&plan).await?.code, "VERIFIED");
    Ok(())
}

async fn a_member_that_joins_at_the_last_moment_stops_it(world: &World) -> Outcome {
    let bench = Bench::new(world, "test", 1, 30).await?;
    bench.commit(&[20]).await?;
    let plan = bench.approved(&bench.to(1, 5)).await?;
    let joined = OnceCell::new();
    let applied = bench
        .apply_paused(&plan, async || {
            let member = world.member(&bench.group, &bench.topic, 1).await?;
            Ok(joined.set(member).map_err(|_| "it was applied twice")?)
        })
        .await?;
    assert_eq!((applied.requests, applied.rejected), (1, 1));
    let verified = bench.verify(&plan).await?;
    assert_eq!(verified.outcome, Some(Came::NotApplied));
    let audit = bench.report(&plan).await?;
    assert_eq!(audit.code, "APPROVED_NOT_APPLIED");
    let codes: Vec<_> = audit.refusals.iter().map(Refusal::code).collect();
    assert_eq!(codes, ["GROUP_BECAME_ACTIVE"]);
    assert_eq!(bench.offsets(1).await?, [Some(20)]);
    Ok(())
}

/// What Verify says where Apply met `act` and the group was at `afterwards` when Verify looked.
async fn judged(world: &World, act: Act, afterwards: i64) -> Result<Audit, Box<dyn StdError>> {
    let bench = Bench::new(world, "test", 1, 30).await?;
    bench.commit(&[20]).await?;
    let plan = bench.approved(&bench.to(1, 5)).await?;
    bench.apply(&plan, &[act]).await?;
    bench.commit(&[afterwards]).await?;
    bench.verify_later(&plan).await?;
    let audit = bench.report(&plan).await?;
    // Whatever is said, the group is left where its consumers are.
    assert_eq!(bench.offsets(1).await?, [Some(afterwards)]);
    Ok(audit)
}

async fn consumers_that_went_on_are_told_from_a_lost_request(world: &World) -> Outcome {
    let moved_to = |now| Some(PartitionOutcome::AppliedThenMoved { now: Some(now) });
    // Accepted: wherever the consumers are since, they started at the target.
    for afterwards in [8, 25] {
        let audit = judged(world, Act::Send, afterwards).await?;
        assert_eq!(
            (audit.code.as_str(), partition_outcomes(&audit)),
            ("APPLIED_THEN_MOVED", vec![moved_to(afterwards)])
        );
    }
    // Nobody heard the answer: between target and pre-image no consumer of the old position can be.
    let audit = judged(world, Act::LoseReply, 8).await?;
    assert_eq!(
        (audit.code.as_str(), partition_outcomes(&audit)),
        ("APPLIED_THEN_MOVED", vec![moved_to(8)])
    );
    // On the way to a target ahead, consumers get there by themselves: a request that was lost is never called applied.
    let bench = Bench::new(world, "test", 1, 30).await?;
    bench.commit(&[20]).await?;
    let mut ahead = bench.to(1, 28);
    ahead["allow_forward"] = json!(true);
    let plan = bench.approved(&ahead).await?;
    bench.apply(&plan, &[Act::LoseRequest]).await?;
    bench.commit(&[24]).await?;
    bench.verify_later(&plan).await?;
    assert_eq!(bench.report(&plan).await?.code, "OUTCOME_UNKNOWN");
    // Beyond the pre-image both are possible, so neither is said.
    for act in [Act::LoseReply, Act::LoseRequest] {
        let audit = judged(world, act, 25).await?;
        assert_eq!(
            (audit.status, audit.code.as_str()),
            (AuditStatus::Failed, "OUTCOME_UNKNOWN")
        );
        assert_eq!(
            partition_outcomes(&audit),
            [Some(PartitionOutcome::Unknown {
                seen: "25".to_owned()
            })]
        );
    }
    Ok(())
}

/// A group that members have read as far as 20, and that nobody is in.
pub(crate) async fn read_by_members(
    world: &World,
    policy: &str,
) -> Result<Bench, Box<dyn StdError>> {
    let bench = Bench::new(world, policy, 1, 30).await?;
    world.consume(&bench.group, &bench.topic, 1, 30).await?;
    bench.commit(&[20]).await?;
    Ok(bench)
}

async fn what_writes_from_outside_is_told_from_consumers(world: &World) -> Outcome {
    let bench = read_by_members(world, "test").await?;
    let plan = bench.approved(&bench.to(1, 5)).await?;
    bench.apply(&plan, &[]).await?;
    // As a sync of offsets from another cluster does.
    bench.commit(&[25]).await?;
    bench.verify_later(&plan).await?;
    let audit = bench.report(&plan).await?;
    assert_eq!(
        (
            audit.status,
            audit.code.as_str(),
            partition_outcomes(&audit)
        ),
        (
            AuditStatus::Failed,
            "OVERWRITTEN",
            vec![Some(PartitionOutcome::Overwritten { now: Some(25) })]
        )
    );
    assert!(audit.message.contains("from outside"), "{}", audit.message);

    // A member that is there now may have written it.
    let bench = bench.again();
    let plan = bench.approved(&bench.to(1, 5)).await?;
    bench.apply(&plan, &[]).await?;
    let member = world.member(&bench.group, &bench.topic, 1).await?;
    member.until_read(25, PATIENCE).await?;
    member.commit().await?;
    bench.verify_later(&plan).await?;
    assert_eq!(bench.report(&plan).await?.code, "APPLIED_THEN_MOVED");
    member.stop().await?;
    Ok(())
}

async fn a_rewind_that_was_never_sent_is_never_called_applied(world: &World) -> Outcome {
    let bench = Bench::new(world, "test", 1, 30).await?;
    bench.commit(&[20]).await?;
    let plan = bench.approved(&bench.to(1, 5)).await?;
    // The group reads on, past the target and past where it was.
    bench.commit(&[25]).await?;
    let applied = bench.apply(&plan, &[]).await?;
    assert_eq!(
        (applied.requests, applied.refused),
        (0, vec!["PLAN_STALE".to_owned()])
    );
    let verified = bench.verify(&plan).await?;
    assert_eq!(verified.outcome, Some(Came::NotApplied));
    let audit = bench.report(&plan).await?;
    assert_eq!(audit.code, "APPROVED_NOT_APPLIED");
    assert_eq!(audit.refusals.len(), 1);
    assert!(
        audit.message.contains("No offset was changed"),
        "{}",
        audit.message
    );
    assert_eq!(bench.offsets(1).await?, [Some(25)]);
    Ok(())
}

async fn half_a_move_is_said_and_a_retry_finishes_it(world: &World) -> Outcome {
    let (bench, plan, first) = approve_big_move(world).await?;
    let half: Vec<_> = (0..MANY).map(|p| Some(i64::from(p >= first))).collect();
    bench
        .apply_killed(&plan, &[Act::Send, Act::DieBefore])
        .await?;
    assert_eq!(bench.offsets(MANY).await?, half);

    // The same step again: what is at its target is done, what is at its pre-image is moved.
    let applied = bench.apply(&plan, &[Act::LoseRequest]).await?;
    assert_eq!(
        (applied.requests, applied.unknown),
        (1, usize::try_from(MANY - first)?)
    );
    let applied = bench.apply(&plan, &[]).await?;
    assert_eq!(
        (applied.requests, applied.accepted),
        (1, usize::try_from(MANY - first)?)
    );
    let verified = bench.verify(&plan).await?;
    assert_eq!(verified.outcome, Some(Came::Verified));
    assert_eq!(bench.report(&plan).await?.code, "VERIFIED");
    let triples = world.triples(&bench.group, &bench.topic, MANY).await?;
    assert!(
        triples
            .iter()
            .flatten()
            .all(|t| t.offset == 0 && t.metadata.len() == LONG)
    );
    Ok(())
}

async fn half_a_move_that_consumers_touched_is_left_alone(world: &World) -> Outcome {
    let (bench, plan, first) = approve_big_move(world).await?;
    bench.apply_killed(&plan, &[Act::DieAfter]).await?;
    // A consumer of the first half has gone on.
    world
        .client
        .produce(
            &bench.topic,
            &[Record::new(0, "more"), Record::new(0, "more")],
        )
        .await?;
    bench.commit(&[2]).await?;
    let touched: Vec<_> = (0..MANY)
        .map(|p| Some(if p == 0 { 2 } else { i64::from(p >= first) }))
        .collect();
    let applied = bench.apply(&plan, &[]).await?;
    assert_eq!(
        (applied.requests, applied.refused),
        (0, vec!["PLAN_STALE".to_owned()])
    );
    assert_eq!(bench.offsets(MANY).await?, touched);

    let verified = bench.verify(&plan).await?;
    let outcome = verified.outcome.ok_or("there is no outcome")?;
    let audit = bench.report(&plan).await?;
    assert_eq!(audit.status, AuditStatus::Failed);
    // The first request's answers were lost with the process, so partition 0, beyond its pre-image, proves nothing.
    assert_eq!(
        (outcome, audit.code.as_str()),
        (Came::Unknown, "OUTCOME_UNKNOWN")
    );
    let count = |wanted: &PartitionOutcome| {
        partition_outcomes(&audit)
            .iter()
            .flatten()
            .filter(|outcome| *outcome == wanted)
            .count()
    };
    assert_eq!(
        count(&PartitionOutcome::Applied),
        usize::try_from(first - 1)?
    );
    assert_eq!(
        count(&PartitionOutcome::NotApplied),
        usize::try_from(MANY - first)?
    );
    assert_eq!(bench.offsets(MANY).await?, touched);
    Ok(())
}

async fn a_paused_apply_sends_nothing_after_verify(world: &World) -> Outcome {
    let bench = Bench::new(world, "test", 1, 30).await?;
    bench.commit(&[20]).await?;
    let plan = bench.approved(&bench.to(1, 5)).await?;
    let applied = bench
        .apply_paused(&plan, async || {
            assert_eq!(bench.verify(&plan).await?.next, verify::Next::Wait);
            Ok(())
        })
        .await?;
    assert_eq!(
        (applied.requests, applied.refused),
        (0, vec!["FENCED".to_owned()])
    );
    let verified = bench.verify(&plan).await?;
    assert_eq!(verified.outcome, Some(Came::NotApplied));
    // Nor does a retry.
    let again = bench.apply(&plan, &[]).await?;
    assert_eq!(
        (again.requests, again.refused),
        (0, vec!["FENCED".to_owned()])
    );
    let audit = bench.report(&plan).await?;
    assert_eq!(audit.code, "APPROVED_NOT_APPLIED");
    assert_eq!(bench.offsets(1).await?, [Some(20)]);
    // Nor one that comes when all is over.
    assert!(bench.apply(&plan, &[]).await.is_err());
    assert_eq!(bench.offsets(1).await?, [Some(20)]);
    Ok(())
}

async fn verify_between_two_requests_stops_the_second(world: &World) -> Outcome {
    let (bench, plan, first) = approve_big_move(world).await?;
    let applied = bench.apply(&plan, &[Act::SendAndFence]).await?;
    assert_eq!(
        (applied.requests, applied.refused),
        (1, vec!["FENCED".to_owned()])
    );
    report_half(&bench, &plan, first).await
}

async fn the_switch_stops_admission_and_every_request(world: &World) -> Outcome {
    let off = || vec!["APPLY_SWITCHED_OFF".to_owned()];
    // Before Admit.
    let bench = Bench::new(world, "test", 1, 30).await?;
    bench.commit(&[20]).await?;
    bench.store.set_apply_switch(false).await?;
    let plan = bench.plan(&bench.to(1, 5)).await?;
    let admission = bench.admit(&plan).await?;
    assert_eq!((admission.admitted, admission.refused), (false, off()));
    let audit = bench.report(&plan).await?;
    assert_eq!(
        (audit.code.as_str(), audit.status),
        ("APPROVED_NOT_APPLIED", AuditStatus::Failed)
    );
    assert!(audit.message.contains("switched off"), "{}", audit.message);

    // Before Apply.
    bench.store.set_apply_switch(true).await?;
    let bench = bench.again();
    let plan = bench.approved(&bench.to(1, 5)).await?;
    bench.store.set_apply_switch(false).await?;
    let applied = bench.apply(&plan, &[]).await?;
    assert_eq!((applied.requests, applied.refused), (0, off()));
    assert_eq!(bench.verify(&plan).await?.outcome, Some(Came::NotApplied));
    assert_eq!(bench.offsets(1).await?, [Some(20)]);

    // Between two requests.
    let (bench, plan, first) = approve_big_move(world).await?;
    let applied = bench.apply(&plan, &[Act::SendAndSwitchOff]).await?;
    assert_eq!((applied.requests, applied.refused), (1, off()));
    report_half(&bench, &plan, first).await
}

async fn without_time_nothing_is_begun(world: &World) -> Outcome {
    let bench = Bench::new(world, "test", 1, 30).await?;
    bench.commit(&[20]).await?;
    let plan = bench.approved(&bench.to(1, 5)).await?;
    let refused = bench.apply_with(&plan, Duration::from_secs(29)).await;
    assert!(
        matches!(
            refused,
            Err(Error::OutOfTime {
                needed_seconds: 30,
                ..
            })
        ),
        "{refused:?}"
    );
    // Nothing began, so there is nothing to wait for.
    let verified = bench.verify(&plan).await?;
    assert_eq!(
        (verified.next, verified.outcome),
        (verify::Next::Report, Some(Came::NotApplied))
    );
    assert_eq!(bench.offsets(1).await?, [Some(20)]);
    Ok(())
}
