//! Groups at transactions: open ones, ended ones, aborted ones.

use std::time::Duration;

use futures_util::FutureExt;
use offset_guard::domain::guard::verdict::Verdict::{
    BlockedByTransaction, CrashLoop, MarkersOnly, PoisonLikely,
};
use offset_guard_local::client::{Record, Transaction};

use super::super::consumer::{Fails::AtUndecodable, Then};
use super::super::policy::Policy::{Committed, Plain, Uncommitted};
use super::super::scene::Scene;
use super::super::{Result, Situation};
use super::{BESIDE, FINE, situation};

const FED: Duration = Duration::from_millis(300);

pub(super) fn situations() -> Vec<Situation> {
    vec![
        situation(
            "open-transaction",
            Plain,
            "A transaction is open where the group is, and records follow it.",
            |s| open(s).boxed_local(),
        ),
        situation(
            "open-transaction-java",
            Committed,
            "The same, with a consumer of the Java client.",
            |s| open_java(s).boxed_local(),
        ),
        situation(
            "open-transaction-committed",
            Committed,
            "The same, and the group is known to read committed records only.",
            |s| open(s).boxed_local(),
        ),
        situation(
            "open-transaction-uncommitted",
            Uncommitted,
            "The same, and the group reads uncommitted records: it is not held back.",
            |s| read_uncommitted(s).boxed_local(),
        ),
        situation(
            "markers",
            Plain,
            "All records are read; what is left is the marker that ends their transaction.",
            |s| markers(s).boxed_local(),
        ),
        situation(
            "aborted",
            Committed,
            "All that is left was aborted, and the group reads committed records only.",
            |s| aborted(s).boxed_local(),
        ),
        situation(
            "aborted-unknown",
            Plain,
            "The same, and nobody knows what the group reads.",
            |s| aborted(s).boxed_local(),
        ),
        situation(
            "poison-after-aborted",
            Committed,
            "A crash loop at a bad record after aborted ones, which the group does not read.",
            |s| poison_after_aborted(s, true).boxed_local(),
        ),
        situation(
            "poison-after-aborted-unknown",
            Plain,
            "The same, and nobody knows what the group reads: which record is first depends on it.",
            |s| poison_after_aborted(s, false).boxed_local(),
        ),
    ]
}

fn records() -> Vec<Record> {
    (0..3)
        .map(|n| Record::new(0, format!(r#"{{"payment": {n}}}"#)))
        .collect()
}

/// A transaction with three payments in it.
async fn begin(scene: &Scene, topic: &str) -> Result<Transaction> {
    let client = &scene.place.client;
    Ok(client.begin_transaction(topic, &records()).await?)
}

async fn open(scene: &mut Scene) -> Result<()> {
    let topic = scene.topic_of("payments", 2, 3).await?;
    let transaction = begin(scene, &topic).await?;
    scene.feed(&topic, 0..2, FED);
    scene.start(&scene.consumer("a", &[&topic]));
    scene.hold(transaction);
    scene.expect(&topic, 0, &[BlockedByTransaction]);
    scene.expect(&topic, 1, FINE);
    Ok(())
}

async fn open_java(scene: &mut Scene) -> Result<()> {
    let topic = scene.topic_of("payments", 1, 3).await?;
    scene.commit(&topic, 1, 0).await?;
    let transaction = begin(scene, &topic).await?;
    scene.hold(transaction);
    scene.feed(&topic, 0..1, FED);
    scene.start_java(&topic)?;
    scene.expect(&topic, 0, &[BlockedByTransaction]);
    Ok(())
}

async fn read_uncommitted(scene: &mut Scene) -> Result<()> {
    let topic = scene.topic_of("payments", 1, 3).await?;
    let transaction = begin(scene, &topic).await?;
    scene.feed(&topic, 0..1, FED);
    let consumer = scene.consumer("a", &[&topic]);
    scene.start(&consumer.property("isolation.level", "read_uncommitted"));
    scene.hold(transaction);
    scene.expect(&topic, 0, FINE);
    Ok(())
}

async fn markers(scene: &mut Scene) -> Result<()> {
    let topic = scene.topic_of("payments", 1, 3).await?;
    let transaction = begin(scene, &topic).await?;
    transaction.commit().await?;
    scene.start(&scene.consumer("a", &[&topic]));
    scene.expect(&topic, 0, &[MarkersOnly]);
    Ok(())
}

async fn aborted(scene: &mut Scene) -> Result<()> {
    let topic = scene.topic_of("payments", 1, 3).await?;
    let transaction = begin(scene, &topic).await?;
    transaction.abort().await?;
    scene.start(&scene.consumer("a", &[&topic]));
    scene.expect(&topic, 0, &[MarkersOnly]);
    Ok(())
}

async fn poison_after_aborted(scene: &mut Scene, known: bool) -> Result<()> {
    let topic = scene.topic_of("payments", 3, 20).await?;
    scene.commit(&topic, 3, 20).await?;
    let transaction = begin(scene, &topic).await?;
    transaction.abort().await?;
    let bad = scene.bad(&topic, 0).await?;
    scene.feed(&topic, 0..3, FED);
    for name in ["a", "b"] {
        let consumer = scene.consumer(name, &[&topic]);
        let consumer = consumer.fails(AtUndecodable, Then::Leaves);
        scene.start(&consumer.restarts(Duration::from_millis(1500)));
    }
    if known {
        scene.expect(&topic, 0, &[PoisonLikely]).skip(bad, bad);
    } else {
        scene.expect(&topic, 0, &[PoisonLikely, CrashLoop]);
    }
    for partition in 1..3 {
        scene.expect(&topic, partition, BESIDE);
    }
    Ok(())
}
