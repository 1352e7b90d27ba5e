//! Groups with which nothing is the matter, though some look like it.

use std::time::Duration;

use futures_util::FutureExt;
use offset_guard::domain::guard::verdict::Verdict::{
    CaughtUp, Moving, PoisonSuspected, Slow, Waiting,
};

use super::super::policy::Policy::Plain;
use super::super::scene::Scene;
use super::super::{Result, Situation};
use super::{FINE, situation};

pub(super) fn situations() -> Vec<Situation> {
    vec![
        situation("healthy", Plain, "Two consumers keep up.", |s| {
            healthy(s).boxed_local()
        }),
        situation("idle", Plain, "All is read, and nothing comes.", |s| {
            idle(s).boxed_local()
        }),
        situation(
            "slow",
            Plain,
            "Both consumers get on, and fall behind.",
            |s| slow(s).boxed_local(),
        ),
        situation(
            "big-batches",
            Plain,
            "A consumer commits only after 40 records, every eight seconds.",
            |s| big_batches(s).boxed_local(),
        ),
        situation(
            "long-record",
            Plain,
            "One record takes eight seconds, less than a stall.",
            |s| long_record(s).boxed_local(),
        ),
        situation(
            "very-long-record",
            Plain,
            "One record takes 22 seconds, longer than a stall, and is done.",
            |s| very_long_record(s).boxed_local(),
        ),
    ]
}

async fn healthy(scene: &mut Scene) -> Result<()> {
    let topic = scene.topic_of("orders", 4, 3).await?;
    scene.feed(&topic, 0..4, Duration::from_millis(300));
    for name in ["a", "b"] {
        scene.start(&scene.consumer(name, &[&topic]));
    }
    for partition in 0..4 {
        scene.expect(&topic, partition, FINE);
    }
    Ok(())
}

async fn idle(scene: &mut Scene) -> Result<()> {
    let topic = scene.topic_of("orders", 2, 3).await?;
    scene.start(&scene.consumer("a", &[&topic]));
    for partition in 0..2 {
        scene.expect(&topic, partition, &[CaughtUp]);
    }
    Ok(())
}

async fn slow(scene: &mut Scene) -> Result<()> {
    let topic = scene.topic_of("orders", 2, 100).await?;
    scene.feed(&topic, 0..2, Duration::from_millis(100));
    for name in ["a", "b"] {
        let consumer = scene.consumer(name, &[&topic]);
        scene.start(&consumer.works(Duration::from_millis(400)));
    }
    for partition in 0..2 {
        scene.expect(&topic, partition, &[Slow]);
    }
    Ok(())
}

async fn big_batches(scene: &mut Scene) -> Result<()> {
    let topic = scene.topic_of("orders", 1, 400).await?;
    scene.commit(&topic, 1, 0).await?;
    let consumer = scene.consumer("a", &[&topic]).batch(40);
    scene.start(&consumer.works(Duration::from_millis(200)));
    scene.expect(&topic, 0, &[Moving, Waiting]);
    Ok(())
}

async fn long_record(scene: &mut Scene) -> Result<()> {
    let topic = scene.topic_of("orders", 2, 3).await?;
    scene.commit(&topic, 2, 3).await?;
    scene.long(&topic, 0, Duration::from_secs(8)).await?;
    scene.feed(&topic, 0..2, Duration::from_millis(500));
    scene.start(&scene.consumer("a", &[&topic]));
    for partition in 0..2 {
        scene.expect(&topic, partition, FINE);
    }
    Ok(())
}

async fn very_long_record(scene: &mut Scene) -> Result<()> {
    let topic = scene.topic_of("orders", 2, 3).await?;
    for name in ["a", "b"] {
        scene.start(&scene.consumer(name, &[&topic]));
    }
    // Both have joined by then: a busy consumer keeps the others from it.
    tokio::time::sleep(Duration::from_secs(8)).await;
    scene.long(&topic, 0, Duration::from_secs(22)).await?;
    scene.feed(&topic, 0..2, Duration::from_millis(500));
    scene.expect(&topic, 0, FINE).after(PoisonSuspected);
    scene.expect(&topic, 1, FINE);
    Ok(())
}
