//! Apply that dies, is paused, loses its replies or is told to stop; and what Verify says of it.

use std::cell::OnceCell;
use std::error::Error as StdError;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use offset_guard::app::apply::ALTER_TIMEOUT;
use offset_guard::app::{observe, verify};
use offset_guard::config::Config;
use offset_guard::domain::audit::{Audit, AuditStatus};
use offset_guard::domain::ids::PlanId;
use offset_guard::domain::recovery::{Outcome as Came, PartitionOutcome};
use offset_guard::domain::refusal::Refusal;
use offset_guard::error::Error;
use offset_guard::kafka::{Auth, ConnectionSettings};
use offset_guard_local::client::{Client, Commit, Record};
use offset_guard_local::kafka::{Kafka, KafkaOptions};
use offset_guard_local::run::Run;
use offset_guard_tests::{Outcome, PATIENCE, World, now, on_every_kafka, on_kafka_4};
use serde_json::json;

use crate::bench::{Act, Bench, LEFT};

on_every_kafka!(
    killed_before_it_sends,
    killed_after_it_sends,
    reply_lost,
    a_member_that_joins_at_the_last_moment_stops_it,
    offsets_that_are_gone_come_back,
);
on_kafka_4!(
    consumers_that_went_on_are_told_from_a_lost_request,
    what_writes_from_outside_is_told_from_consumers,
    a_group_that_is_empty_for_an_instant_is_waited_for_all_the_same,
    a_rewind_that_was_never_sent_is_never_called_applied,
    half_a_move_is_said_and_a_retry_finishes_it,
    half_a_move_that_consumers_touched_is_left_alone,
    a_paused_apply_sends_nothing_after_verify,
    verify_between_two_requests_stops_the_second,
    the_switch_stops_admission_and_every_request,
    without_time_nothing_is_begun,
    several_requests_need_rest,
    offsets_that_expired_come_back,
    a_group_that_stops_in_time_is_moved,
    a_group_that_never_stops_is_named,
    commits_may_drift_within_the_limit_alone,
);

/// More than one request holds: 512 KiB by the estimate.
pub(crate) const MANY: i32 = 140;
/// As much as a broker takes by default.
pub(crate) const LONG: usize = 4096;

fn each(audit: &Audit) -> Vec<Option<PartitionOutcome>> {
    audit.partitions.iter().map(|p| p.outcome.clone()).collect()
}

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
        each(&audit),
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
            (audit.code.as_str(), each(&audit)),
            ("APPLIED_THEN_MOVED", vec![moved_to(afterwards)])
        );
    }
    // Nobody heard the answer: between target and pre-image no consumer of the old position can be.
    let audit = judged(world, Act::LoseReply, 8).await?;
    assert_eq!(
        (audit.code.as_str(), each(&audit)),
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
            each(&audit),
            [Some(PartitionOutcome::Unknown {
                seen: "25".to_owned()
            })]
        );
    }
    Ok(())
}

/// A group that members have read as far as 20, and that nobody is in.
async fn read_by_members(world: &World, policy: &str) -> Result<Bench, Box<dyn StdError>> {
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
        (audit.status, audit.code.as_str(), each(&audit)),
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

async fn a_group_that_is_empty_for_an_instant_is_waited_for_all_the_same(world: &World) -> Outcome {
    let bench = read_by_members(world, "waiting").await?;
    let plan = bench.approved(&bench.to(1, 5)).await?;
    assert!(bench.stored(&plan).await?.waits_for_empty);
    // Its consumers come back before it is applied, and stop when they are asked to.
    let member = world.member(&bench.group, &bench.topic, 1).await?;
    assert_eq!(bench.observe(&plan).await?.next, observe::Next::Wait);
    member.stop().await?;
    let next = loop {
        let observed = bench.observe(&plan).await?;
        if observed.next != observe::Next::Wait {
            break observed.next;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    assert_eq!(next, observe::Next::Apply);
    bench.apply(&plan, &[]).await?;
    assert_eq!(bench.verify(&plan).await?.outcome, Some(Came::Verified));
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

/// A group whose rewind needs two requests: its checkpoint at 0 holds long metadata, which it has gone on from to 1.
pub(crate) async fn big(world: &World) -> Result<(Bench, PlanId, i32), Box<dyn StdError>> {
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

async fn half_a_move_is_said_and_a_retry_finishes_it(world: &World) -> Outcome {
    let (bench, plan, first) = big(world).await?;
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
    let (bench, plan, first) = big(world).await?;
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
        each(&audit)
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
    let (bench, plan, first) = big(world).await?;
    let applied = bench.apply(&plan, &[Act::SendAndFence]).await?;
    assert_eq!(
        (applied.requests, applied.refused),
        (1, vec!["FENCED".to_owned()])
    );
    partly(&bench, &plan, first).await
}

/// The first request was answered, the second never sent.
pub(crate) async fn partly(bench: &Bench, plan: &PlanId, first: i32) -> Outcome {
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
    assert_eq!(each(&audit), half);
    let half: Vec<_> = (0..MANY).map(|p| Some(i64::from(p >= first))).collect();
    assert_eq!(bench.offsets(MANY).await?, half);
    Ok(())
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
    let (bench, plan, first) = big(world).await?;
    let applied = bench.apply(&plan, &[Act::SendAndSwitchOff]).await?;
    assert_eq!((applied.requests, applied.refused), (1, off()));
    partly(&bench, &plan, first).await
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

async fn several_requests_need_rest(world: &World) -> Outcome {
    let (bench, plan, _) = big(world).await?;
    let first = bench.observe(&plan).await?;
    assert_eq!((first.next, first.wait_seconds), (observe::Next::Wait, 2));
    // Moved meanwhile: the rest begins anew.
    world
        .client
        .produce(&bench.topic, &[Record::new(0, "more")])
        .await?;
    bench.commit(&[2]).await?;
    tokio::time::sleep(Duration::from_secs(first.wait_seconds.into())).await;
    let second = bench.observe(&plan).await?;
    // As with members: a group that moves is looked at every ten seconds, however short its rest may be.
    assert_eq!(
        (second.next, second.wait_seconds),
        (observe::Next::Wait, 10)
    );
    tokio::time::sleep(Duration::from_secs(second.wait_seconds.into())).await;
    assert_eq!(bench.observe(&plan).await?.next, observe::Next::Apply);
    // One request needs none.
    let bench = Bench::new(world, "test", 1, 30).await?;
    bench.commit(&[20]).await?;
    let plan = bench.approved(&bench.to(1, 5)).await?;
    assert_eq!(bench.observe(&plan).await?.next, observe::Next::Apply);
    Ok(())
}

async fn offsets_that_are_gone_come_back(world: &World) -> Outcome {
    let (topic, group) = (world.topic("gone"), world.group("test"));
    world.filled_topic(&topic, 2, 7).await?;
    world.consume(&group, &topic, 2, 14).await?;
    world.checkpoint(&group).await?;
    let remembered = world.triples(&group, &topic, 2).await?;
    let cli = world.stack.cli()?;
    let deleted = cli
        .consumer_groups(&["--delete", "--group", &group])
        .await?;
    assert!(deleted.success, "{deleted:?}");
    assert_eq!(world.offsets(&group, &topic, 2).await?, [None, None]);

    // Unless it is asked for, nothing is created.
    let request = world.rewind(&group, &json!({"rewind_before": now()}));
    assert_eq!(world.refused(request).await?.codes, ["GROUP_NOT_FOUND"]);
    let request = world.rewind(
        &group,
        &json!({"rewind_before": now(), "restore_missing": true}),
    );
    let ended = world.approved(&group, request).await?;
    assert_eq!(
        (ended.status.as_str(), ended.code()),
        ("SUCCEEDED", "VERIFIED")
    );
    assert_eq!(world.triples(&group, &topic, 2).await?, remembered);
    Ok(())
}

async fn offsets_that_expired_come_back(world: &World) -> Outcome {
    // A minute is the least that a broker keeps them; it counts from when the group was left.
    let mut options = KafkaOptions {
        version: world.setting.kafka,
        ..KafkaOptions::default()
    };
    for (key, value) in [
        ("offsets.retention.minutes", "1"),
        ("offsets.retention.check.interval.ms", "500"),
    ] {
        options.properties.insert(key.to_owned(), value.to_owned());
    }
    let kafka = Kafka::start(&Run::open(Duration::ZERO)?, &options).await?;
    let client = Client::new(&kafka.bootstrap(), &options.client_properties);
    let text = format!(
        "[clusters.main]\nbootstrap_servers = [{:?}]\nauth = \"plaintext\"\n[[groups]]\ncluster = \"main\"\npattern = \"test-*\"\n",
        kafka.bootstrap()
    );
    let bench = Bench::on(
        world,
        client.clone(),
        ConnectionSettings::new(kafka.bootstrap(), Auth::Plaintext),
        Config::parse(&text)?,
        "test",
    )
    .await?;
    client.create_topic(&bench.topic, 1, &[]).await?;
    client.produce_numbered(&bench.topic, 0, 30).await?;
    bench.commit(&[20]).await?;
    bench.checkpoint().await?;

    let expired = async {
        while bench.offsets(1).await? != [None] {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        Ok::<_, Box<dyn StdError>>(())
    };
    tokio::time::timeout(2 * PATIENCE, expired).await??;
    // A checkpoint now finds nothing, and the good one stands.
    assert!(bench.checkpoint().await.is_err());
    let asked = json!({"rewind_before": now()});
    assert!(bench.plan(&asked).await.is_err());
    let bench = bench.again();
    let asked = json!({"rewind_before": now(), "restore_missing": true});
    let plan = bench.approved(&asked).await?;
    assert!(bench.stored(&plan).await?.creates_group());
    let applied = bench.apply(&plan, &[]).await?;
    assert_eq!(applied.accepted, 1);
    assert_eq!(bench.verify(&plan).await?.outcome, Some(Came::Verified));
    assert_eq!(bench.report(&plan).await?.code, "VERIFIED");
    assert_eq!(bench.offsets(1).await?, [Some(20)]);
    kafka.stop().await?;
    Ok(())
}

async fn a_group_that_stops_in_time_is_moved(world: &World) -> Outcome {
    let (topic, group) = (world.topic("waiting"), world.group("waiting"));
    world.filled_topic(&topic, 1, 20).await?;
    let member = world.member(&group, &topic, 1).await?;
    member.until_read(20, PATIENCE).await?;
    member.commit().await?;
    let target = json!({"to_offsets": [{"topic": topic, "partition": 0, "offset": 5}]});
    let execution = world
        .operator
        .request(world.rewind(&group, &target))
        .await?;
    let link = execution.link(&world.stack, &group, PATIENCE).await?;
    world.operator.approve(&link, &group).await?;
    crate::history::until_entered(world, &execution, "WaitUntilEmpty", 1).await?;
    assert_eq!(world.offsets(&group, &topic, 1).await?, [Some(20)]);
    member.stop().await?;
    let ended = execution.end().await?;
    assert_eq!(
        (ended.status.as_str(), ended.code()),
        ("SUCCEEDED", "VERIFIED")
    );
    assert_eq!(world.offsets(&group, &topic, 1).await?, [Some(5)]);
    Ok(())
}

async fn a_group_that_never_stops_is_named(world: &World) -> Outcome {
    let (topic, group) = (world.topic("impatient"), world.group("impatient"));
    world.filled_topic(&topic, 1, 20).await?;
    let member = world.member(&group, &topic, 1).await?;
    member.until_read(20, PATIENCE).await?;
    member.commit().await?;
    let target = json!({"to_offsets": [{"topic": topic, "partition": 0, "offset": 5}]});
    let ended = world
        .approved(&group, world.rewind(&group, &target))
        .await?;
    assert_eq!(
        (ended.status.as_str(), ended.code()),
        ("FAILED", "APPROVED_NOT_APPLIED")
    );
    let cause = ended.cause.unwrap_or_default();
    assert!(cause.contains("did not come to rest in time"), "{cause}");
    assert!(cause.contains(&format!("client-of-{group}")), "{cause}");
    assert_eq!(world.offsets(&group, &topic, 1).await?, [Some(20)]);
    member.stop().await?;
    Ok(())
}

async fn commits_may_drift_within_the_limit_alone(world: &World) -> Outcome {
    let mut codes = Vec::new();
    for more in [2, 3] {
        let (topic, group) = (
            world.topic(&format!("drift{more}")),
            format!("{}-{more}", world.group("strict")),
        );
        world.filled_topic(&topic, 1, 20).await?;
        let member = world.member(&group, &topic, 1).await?;
        member.until_read(20, PATIENCE).await?;
        member.commit().await?;
        let target = json!({"to_offsets": [{"topic": topic, "partition": 0, "offset": 5}]});
        let execution = world
            .operator
            .request(world.rewind(&group, &target))
            .await?;
        let link = execution.link(&world.stack, &group, PATIENCE).await?;
        world.produce(&topic, 0, more).await?;
        member.until_read(20 + more, PATIENCE).await?;
        member.commit().await?;
        member.stop().await?;
        world.operator.approve(&link, &group).await?;
        let ended = execution.end().await?;
        let cause = ended.cause.clone().unwrap_or_default();
        let at = world.offsets(&group, &topic, 1).await?;
        codes.push((
            ended.code().to_owned(),
            at,
            cause.contains("may move forward by at most 2"),
        ));
    }
    assert_eq!(
        codes,
        [
            ("VERIFIED".to_owned(), vec![Some(5)], false),
            ("APPROVED_NOT_APPLIED".to_owned(), vec![Some(23)], true),
        ]
    );
    Ok(())
}
