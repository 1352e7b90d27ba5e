//! Groups whose members, or whose surroundings, are the trouble, and no record.

use std::time::Duration;

use futures_util::FutureExt;
use offset_guard::domain::guard::verdict::Verdict::{
    CrashLoop, ExternalOffsets, GroupStuck, NoMembers, OwnerStuck, PoisonSuspected, RebalanceLoop,
    Unassigned,
};

use super::super::consumer::{
    Fails::{AtAll, AtUndecodable},
    Then,
};
use super::super::policy::Policy::{External, Plain, Watched};
use super::super::scene::Scene;
use super::super::{Result, Situation};
use super::{FINE, situation};

const FED: Duration = Duration::from_millis(300);

pub(super) fn situations() -> Vec<Situation> {
    vec![
        situation("nobody", Plain, "No consumer runs.", |s| {
            nobody(s).boxed_local()
        }),
        situation(
            "unassigned",
            Plain,
            "The consumers do not subscribe to one of the topics any more.",
            |s| unassigned(s).boxed_local(),
        ),
        situation(
            "rebalances",
            Plain,
            "One consumer joins and leaves all the time, and the other one never gets a batch done.",
            |s| rebalances(s).boxed_local(),
        ),
        situation(
            "polls-too-late",
            Plain,
            "A batch takes longer than max.poll.interval.ms: thrown out, let in again, from the start again.",
            |s| polls_too_late(s).boxed_local(),
        ),
        situation(
            "crash-at-start",
            Plain,
            "Both consumers end at the first record that they see, whatever it is.",
            |s| crash_at_start(s, 2, Duration::from_millis(1500)).boxed_local(),
        ),
        situation(
            "crash-mostly-empty",
            Plain,
            "A consumer that ends at once is started again only every six seconds.",
            |s| crash_at_start(s, 1, Duration::from_secs(6)).boxed_local(),
        ),
        situation(
            "crash-two-seconds",
            Plain,
            "A consumer that ends at once is started again after two seconds.",
            |s| crash_at_start_only(s, false).boxed_local(),
        ),
        situation(
            "crash-two-seconds-848",
            Plain,
            "The same, and it speaks the new protocol, so that it is in the group for a moment only.",
            |s| crash_at_start_only(s, true).boxed_local(),
        )
        .with_consumer_protocol(),
        situation(
            "dies-at-first",
            Plain,
            "A consumer ends at the very first record of its topic, and is started again after two seconds: the group never \
             commits.",
            |s| dies_at_first(s, false).boxed_local(),
        ),
        situation(
            "dies-at-first-watched",
            Watched,
            "The same, and another topic is watched.",
            |s| dies_at_first(s, false).boxed_local(),
        ),
        situation(
            "dies-at-first-848",
            Plain,
            "The same with the new protocol.",
            |s| dies_at_first(s, true).boxed_local(),
        )
        .with_consumer_protocol(),
        situation(
            "comes-back",
            Plain,
            "Nobody runs for long; then a consumer comes, and works at the first record for eight seconds, less than a stall.",
            |s| comes_back(s).boxed_local(),
        ),
        situation(
            "outage",
            Plain,
            "What all consumers need is down: they live, and try again.",
            |s| outage(s).boxed_local(),
        ),
        situation(
            "owner-stuck",
            Plain,
            "One of two consumers gets on with nothing.",
            |s| owner_stuck(s).boxed_local(),
        ),
        situation(
            "assigned-by-itself",
            Plain,
            "A consumer assigns itself its partition, and commits without being a member.",
            |s| external(s).boxed_local(),
        ),
        situation(
            "offsets-elsewhere",
            External,
            "The same, and so configured.",
            |s| external(s).boxed_local(),
        ),
    ]
}

async fn nobody(scene: &mut Scene) -> Result<()> {
    let topic = scene.topic_of("orders", 2, 5).await?;
    scene.commit(&topic, 2, 3).await?;
    scene.feed(&topic, 0..2, FED);
    for partition in 0..2 {
        scene.expect(&topic, partition, &[NoMembers]);
    }
    Ok(())
}

async fn unassigned(scene: &mut Scene) -> Result<()> {
    let read = scene.topic_of("orders", 2, 5).await?;
    let left = scene.topic_of("returns", 2, 5).await?;
    scene.commit(&left, 2, 3).await?;
    scene.feed(&read, 0..2, FED);
    scene.feed(&left, 0..2, FED);
    scene.start(&scene.consumer("a", &[&read]));
    for partition in 0..2 {
        scene.expect(&read, partition, FINE);
        scene.expect(&left, partition, &[Unassigned]);
    }
    Ok(())
}

async fn rebalances(scene: &mut Scene) -> Result<()> {
    let topic = scene.topic_of("orders", 2, 500).await?;
    scene.commit(&topic, 2, 0).await?;
    let slow = scene.consumer("a", &[&topic]).batch(60);
    let slow = slow.property("heartbeat.interval.ms", "3000");
    scene.start(&slow.works(Duration::from_millis(200)));
    let comes_and_goes = scene.consumer("b", &[&topic]).batch(500);
    let comes_and_goes = comes_and_goes
        .works(Duration::from_millis(100))
        .lives(Duration::from_millis(500));
    scene.start(&comes_and_goes.restarts(Duration::from_millis(500)));
    for partition in 0..2 {
        scene.expect(&topic, partition, &[RebalanceLoop, CrashLoop]);
    }
    Ok(())
}

async fn polls_too_late(scene: &mut Scene) -> Result<()> {
    let topic = scene.topic_of("orders", 1, 5).await?;
    scene.commit(&topic, 1, 0).await?;
    let consumer = scene.consumer("a", &[&topic]);
    let consumer = consumer.property("max.poll.interval.ms", "6000");
    scene.start(&consumer.works(Duration::from_secs(9)));
    scene.expect(&topic, 0, &[RebalanceLoop, CrashLoop]);
    Ok(())
}

async fn crash_at_start(scene: &mut Scene, consumers: usize, restart: Duration) -> Result<()> {
    let topic = scene.topic_of("orders", 3, 5).await?;
    scene.commit(&topic, 3, 2).await?;
    scene.feed(&topic, 0..3, FED);
    for name in ["a", "b"].iter().take(consumers) {
        let consumer = scene.consumer(name, &[&topic]);
        scene.start(&consumer.fails(AtAll, Then::Leaves).restarts(restart));
    }
    for partition in 0..3 {
        scene.expect(&topic, partition, &[CrashLoop, RebalanceLoop]);
    }
    Ok(())
}

async fn crash_at_start_only(scene: &mut Scene, consumer_protocol: bool) -> Result<()> {
    let topic = scene.topic_of("orders", 3, 5).await?;
    scene.commit(&topic, 3, 2).await?;
    scene.feed(&topic, 0..3, FED);
    let mut consumer = scene.consumer("a", &[&topic]).fails(AtAll, Then::Leaves);
    if consumer_protocol {
        consumer = consumer.consumer_protocol();
    }
    scene.start(&consumer.restarts(Duration::from_secs(2)));
    for partition in 0..3 {
        let expected = scene.expect(&topic, partition, &[CrashLoop]);
        expected.never(&[NoMembers, GroupStuck]);
    }
    Ok(())
}

async fn dies_at_first(scene: &mut Scene, consumer_protocol: bool) -> Result<()> {
    let topic = scene.topic_of("orders", 1, 0).await?;
    scene.bad(&topic, 0).await?;
    scene.good(&topic, 0, 20).await?;
    let mut consumer = scene.consumer("a", &[&topic]);
    consumer = consumer.fails(AtUndecodable, Then::Leaves);
    if consumer_protocol {
        consumer = consumer.consumer_protocol();
    }
    scene.start(&consumer.restarts(Duration::from_secs(2)));
    scene.expect_of_group(&[CrashLoop, RebalanceLoop], 6);
    Ok(())
}

async fn comes_back(scene: &mut Scene) -> Result<()> {
    let topic = scene.topic_of("orders", 1, 3).await?;
    scene.commit(&topic, 1, 3).await?;
    scene.long(&topic, 0, Duration::from_secs(8)).await?;
    scene.good(&topic, 0, 3).await?;
    let consumer = scene.consumer("a", &[&topic]);
    let place = scene.place.clone();
    scene.later(Duration::from_secs(21), async move {
        consumer.run(&place).await
    });
    let expected = scene.expect(&topic, 0, FINE);
    expected.after(NoMembers);
    expected.never(&[PoisonSuspected, CrashLoop]);
    Ok(())
}

async fn outage(scene: &mut Scene) -> Result<()> {
    let topic = scene.topic_of("orders", 4, 5).await?;
    scene.commit(&topic, 4, 2).await?;
    scene.feed(&topic, 0..4, FED);
    for name in ["a", "b"] {
        let consumer = scene.consumer(name, &[&topic]);
        scene.start(&consumer.fails(AtAll, Then::Retries));
    }
    for partition in 0..4 {
        scene.expect(&topic, partition, &[GroupStuck]);
    }
    Ok(())
}

/// Ranges are given out in the order of names, so the first consumer has the partitions 0 and 1.
async fn owner_stuck(scene: &mut Scene) -> Result<()> {
    let topic = scene.topic_of("orders", 4, 5).await?;
    scene.commit(&topic, 4, 5).await?;
    let stuck = scene.consumer("a", &[&topic]);
    scene.start(&stuck.fails(AtAll, Then::Hangs));
    scene.start(&scene.consumer("b", &[&topic]));
    // Both have joined by then: one that hangs keeps the others from it.
    tokio::time::sleep(Duration::from_secs(8)).await;
    scene.feed(&topic, 0..4, FED);
    for partition in 0..2 {
        scene.expect(&topic, partition, &[OwnerStuck]);
    }
    for partition in 2..4 {
        scene.expect(&topic, partition, FINE);
    }
    Ok(())
}

async fn external(scene: &mut Scene) -> Result<()> {
    let topic = scene.topic_of("orders", 1, 400).await?;
    scene.commit(&topic, 1, 0).await?;
    let consumer = scene.consumer("a", &[&topic]).assigns_itself();
    scene.start(&consumer.works(Duration::from_millis(200)));
    scene.expect(&topic, 0, &[ExternalOffsets]);
    Ok(())
}
