//! Groups that one record, or some, hold up.

use std::time::Duration;

use futures_util::FutureExt;
use offset_guard::domain::guard::verdict::Verdict::{
    self, CrashLoop, Moving, OwnerStuck, PoisonLikely, PoisonSuspected, RebalanceLoop, Slow,
    Waiting,
};
use offset_guard_local::client::Record;

use super::super::consumer::{
    Fails::{AtMarked, AtUndecodable},
    Then,
};
use super::super::policy::Policy::{Json, Plain, Suspicious};
use super::super::scene::{Consumer, Scene};
use super::super::{Result, Situation};
use super::{BESIDE, FINE, situation};

const FED: Duration = Duration::from_millis(300);
/// By when all consumers have joined.
const JOINED: Duration = Duration::from_secs(8);
const RESTART: Duration = Duration::from_millis(1500);

pub(super) fn situations() -> Vec<Situation> {
    vec![
        situation(
            "poison-leaves",
            Plain,
            "Three consumers of two partitions each; the one at the bad record leaves the group and ends, and is started \
             again: the record goes round.",
            |s| one_of_six(s, 3, &|c| leaves(&c)).boxed_local(),
        ),
        situation(
            "poison-one-leaves",
            Plain,
            "One consumer of six partitions does. Of those that it never gets to before it ends, this one looks no different.",
            |s| starving(s, false).boxed_local(),
        ),
        situation(
            "poison-one-leaves-json",
            Json,
            "The same, and the records are known to be JSON.",
            |s| starving(s, true).boxed_local(),
        ),
        situation(
            "poison-dies",
            Plain,
            "Two consumers of three partitions each; the one at the bad record dies without leaving the group.",
            |s| one_of_six(s, 2, &|c| dies(&c)).boxed_local(),
        ),
        situation(
            "poison-leaves-848",
            Plain,
            "Two consumers that speak the new protocol leave and end at a bad record.",
            |s| one_of_six(s, 2, &|c| leaves(&c).consumer_protocol()).boxed_local(),
        )
        .with_consumer_protocol(),
        situation(
            "poison-dies-848",
            Plain,
            "Two consumers that speak the new protocol die at a bad record without leaving.",
            |s| one_of_six(s, 2, &|c| dies(&c).consumer_protocol()).boxed_local(),
        )
        .with_consumer_protocol(),
        situation(
            "poison-alone-json",
            Json,
            "One consumer of one partition crash-loops; the records are known to be JSON.",
            |s| alone(s).boxed_local(),
        ),
        situation(
            "poison-alone",
            Plain,
            "The same, and nothing is known of the records: nothing else moves that would single this one out.",
            |s| alone_unknown(s).boxed_local(),
        ),
        situation(
            "poison-retried",
            Plain,
            "A consumer goes back to a bad record for ever, and reads its other partitions.",
            |s| retried(s, false).boxed_local(),
        ),
        situation(
            "poison-retried-json",
            Json,
            "The same, and the records are known to be JSON.",
            |s| retried(s, true).boxed_local(),
        ),
        situation(
            "poison-hangs",
            Plain,
            "One of three consumers tries a bad record again and again and polls no more; its second partition waits too.",
            |s| hangs(s, false).boxed_local(),
        ),
        situation(
            "poison-hangs-json",
            Json,
            "The same, and the records are known to be JSON.",
            |s| hangs(s, true).boxed_local(),
        ),
        situation(
            "poison-hangs-first",
            Plain,
            "A consumer that hangs at a bad record keeps the others' rebalance from ending.",
            |s| hangs_first(s).boxed_local(),
        ),
        situation(
            "poison-at-tail",
            Plain,
            "A crash loop at the last but one record of a quiet partition; the others get a record now and then.",
            |s| tail(s).boxed_local(),
        ),
        situation(
            "poison-at-tail-json",
            Json,
            "A crash loop at the last but one record, and nothing is produced at all.",
            |s| quiet_tail(s).boxed_local(),
        ),
        situation(
            "poison-in-batch",
            Json,
            "A consumer that commits batches crash-loops at the third record of one: two good ones would be lost.",
            |s| in_batch(s).boxed_local(),
        ),
        situation(
            "poison-in-batch-of-two",
            Suspicious,
            "Two consumers that commit batches; one record behind the commit, which looks like all others, ends whoever has \
             it. A suspicion is enough to propose to pass over a record, and the one at the commit is good.",
            |s| in_batch_of_two(s).boxed_local(),
        ),
        situation(
            "poison-tombstone",
            Plain,
            "Two consumers, and a tombstone where there was none before ends whoever has it.",
            |s| odd(s, &[], b"{}", None, &[PoisonSuspected, PoisonLikely]).boxed_local(),
        ),
        situation(
            "poison-zstd",
            Plain,
            "The same with a record that is no JSON, in a topic that is compressed by zstd.",
            |s| {
                let zstd = &[("compression.type", "zstd")];
                odd(
                    s,
                    zstd,
                    b"{}",
                    Some(b"\x00\x9f no JSON"),
                    &[PoisonSuspected, PoisonLikely],
                )
                .boxed_local()
            },
        ),
        situation("twenty-bad", Json, "Twenty bad records in a row.", |s| {
            twenty(s).boxed_local()
        }),
        situation(
            "two-poisons-static",
            Plain,
            "Two static members, each crash-looping at a bad record of its own.",
            |s| two(s, true, false).boxed_local(),
        ),
        situation(
            "two-poisons-json",
            Json,
            "Two bad records, two consumers that swap them at each rebalance; the records are known to be JSON.",
            |s| two(s, false, true).boxed_local(),
        ),
        situation(
            "two-poisons",
            Plain,
            "The same, and nothing is known of the records.",
            |s| two(s, false, false).boxed_local(),
        ),
    ]
}

fn leaves(consumer: &Consumer) -> Consumer {
    let consumer = consumer.clone().fails(AtUndecodable, Then::Leaves);
    consumer.restarts(RESTART)
}

fn dies(consumer: &Consumer) -> Consumer {
    let consumer = consumer.clone().fails(AtUndecodable, Then::Dies);
    consumer.restarts(RESTART)
}

/// A bad record in partition 3 of six that are all fed.
async fn one_of_six(
    scene: &mut Scene,
    consumers: usize,
    like: &(dyn Fn(Consumer) -> Consumer + Sync),
) -> Result<()> {
    let topic = scene.topic_of("orders", 6, 20).await?;
    scene.commit(&topic, 6, 20).await?;
    let bad = scene.bad(&topic, 3).await?;
    scene.feed(&topic, 0..6, FED);
    for name in ["a", "b", "c"].iter().take(consumers) {
        let consumer = like(scene.consumer(name, &[&topic]));
        scene.start(&consumer);
    }
    for partition in [0, 1, 2, 4, 5] {
        scene.expect(&topic, partition, BESIDE);
    }
    scene.expect(&topic, 3, &[PoisonLikely]).skip(bad, bad);
    Ok(())
}

/// One consumer of six partitions: which of the others it gets to before the bad record is the client's affair.
async fn starving(scene: &mut Scene, json: bool) -> Result<()> {
    let topic = scene.topic_of("orders", 6, 20).await?;
    scene.commit(&topic, 6, 20).await?;
    let bad = scene.bad(&topic, 3).await?;
    scene.feed(&topic, 0..6, FED);
    let consumer = leaves(&scene.consumer("a", &[&topic]));
    scene.start(&consumer);
    for partition in [0, 1, 2, 4, 5] {
        scene.expect(&topic, partition, BESIDE);
    }
    let last: &[_] = if json {
        &[PoisonLikely]
    } else {
        &[PoisonLikely, CrashLoop]
    };
    scene.expect(&topic, 3, last).skip(bad, bad);
    Ok(())
}

async fn alone(scene: &mut Scene) -> Result<()> {
    let (topic, bad) = crash_loop_alone(scene).await?;
    scene.expect(&topic, 0, &[PoisonLikely]).skip(bad, bad);
    Ok(())
}

async fn alone_unknown(scene: &mut Scene) -> Result<()> {
    let (topic, _) = crash_loop_alone(scene).await?;
    scene.expect(&topic, 0, &[CrashLoop]);
    Ok(())
}

async fn crash_loop_alone(scene: &mut Scene) -> Result<(String, i64)> {
    let topic = scene.topic_of("orders", 1, 20).await?;
    let bad = scene.bad(&topic, 0).await?;
    scene.feed(&topic, 0..1, FED);
    let consumer = leaves(&scene.consumer("a", &[&topic]));
    scene.start(&consumer);
    Ok((topic, bad))
}

async fn retried(scene: &mut Scene, json: bool) -> Result<()> {
    let topic = scene.topic_of("orders", 3, 20).await?;
    let bad = scene.bad(&topic, 1).await?;
    scene.feed(&topic, 0..3, FED);
    let consumer = scene.consumer("a", &[&topic]);
    scene.start(&consumer.fails(AtUndecodable, Then::Retries));
    for partition in [0, 2] {
        scene.expect(&topic, partition, FINE);
    }
    if json {
        scene.expect(&topic, 1, &[PoisonLikely]).skip(bad, bad);
    } else {
        scene.expect(&topic, 1, &[PoisonSuspected]);
    }
    Ok(())
}

/// Ranges are given out in the order of names, so the first consumer has the partitions 0 and 1.
async fn hangs(scene: &mut Scene, json: bool) -> Result<()> {
    let topic = scene.topic_of("orders", 6, 20).await?;
    scene.commit(&topic, 6, 20).await?;
    for name in ["a", "b", "c"] {
        let consumer = scene.consumer(name, &[&topic]);
        scene.start(&consumer.fails(AtUndecodable, Then::Hangs));
    }
    tokio::time::sleep(JOINED).await;
    let bad = scene.bad(&topic, 1).await?;
    scene.feed(&topic, 0..6, FED);
    scene.expect(&topic, 0, &[OwnerStuck]);
    if json {
        scene.expect(&topic, 1, &[PoisonLikely]).skip(bad, bad);
    } else {
        scene.expect(&topic, 1, &[OwnerStuck]);
    }
    for partition in 2..6 {
        scene.expect(&topic, partition, FINE);
    }
    Ok(())
}

/// The first of them has all partitions when it comes to the bad record, and never lets the others in.
async fn hangs_first(scene: &mut Scene) -> Result<()> {
    let topic = scene.topic_of("orders", 3, 20).await?;
    scene.commit(&topic, 3, 20).await?;
    scene.bad(&topic, 1).await?;
    let consumer = scene.consumer("a", &[&topic]);
    scene.start(&consumer.fails(AtUndecodable, Then::Hangs));
    tokio::time::sleep(JOINED).await;
    scene.feed(&topic, 0..3, FED);
    scene.start(&scene.consumer("b", &[&topic]));
    for partition in 0..3 {
        scene.expect(&topic, partition, &[RebalanceLoop]);
    }
    Ok(())
}

async fn tail(scene: &mut Scene) -> Result<()> {
    let topic = scene.topic_of("orders", 3, 20).await?;
    scene.commit(&topic, 3, 20).await?;
    let bad = scene.bad(&topic, 1).await?;
    scene.good(&topic, 1, 1).await?;
    scene.feed(&topic, [0, 2], Duration::from_secs(2));
    for name in ["a", "b"] {
        let consumer = leaves(&scene.consumer(name, &[&topic]));
        scene.start(&consumer);
    }
    for partition in [0, 2] {
        scene.expect(&topic, partition, BESIDE);
    }
    scene.expect(&topic, 1, &[PoisonLikely]).skip(bad, bad);
    Ok(())
}

async fn quiet_tail(scene: &mut Scene) -> Result<()> {
    let topic = scene.topic_of("orders", 3, 20).await?;
    scene.commit(&topic, 3, 20).await?;
    let bad = scene.bad(&topic, 1).await?;
    scene.good(&topic, 1, 1).await?;
    let consumer = leaves(&scene.consumer("a", &[&topic]));
    scene.start(&consumer);
    for partition in [0, 2] {
        scene.expect(&topic, partition, FINE);
    }
    scene.expect(&topic, 1, &[PoisonLikely]).skip(bad, bad);
    Ok(())
}

async fn in_batch(scene: &mut Scene) -> Result<()> {
    let topic = scene.topic_of("orders", 1, 20).await?;
    scene.commit(&topic, 1, 20).await?;
    scene.good(&topic, 0, 2).await?;
    scene.bad(&topic, 0).await?;
    scene.feed(&topic, 0..1, FED);
    let consumer = leaves(&scene.consumer("a", &[&topic]).batch(10));
    scene.start(&consumer);
    scene.expect(&topic, 0, &[CrashLoop]);
    Ok(())
}

/// Two consumers of two partitions each. The bad record lies three records behind the commit.
async fn in_batch_of_two(scene: &mut Scene) -> Result<()> {
    let topic = scene.topic_of("orders", 4, 20).await?;
    scene.commit(&topic, 4, 20).await?;
    scene.good(&topic, 3, 3).await?;
    scene.marked(&topic, 3).await?;
    scene.feed(&topic, 0..4, FED);
    for name in ["a", "b"] {
        let consumer = scene.consumer(name, &[&topic]).batch(10);
        let consumer = consumer.fails(AtMarked, Then::Leaves);
        scene.start(&consumer.restarts(RESTART));
    }
    let beside = [BESIDE, &[RebalanceLoop]].concat();
    for partition in 0..3 {
        scene.expect(&topic, partition, &beside);
    }
    // Nothing is proposed in any run, whatever it is called; the records before the bad one are committed at times.
    let last = [
        PoisonSuspected,
        CrashLoop,
        RebalanceLoop,
        Moving,
        Waiting,
        Slow,
    ];
    scene.expect(&topic, 3, &last);
    Ok(())
}

/// Two consumers of three partitions each. A record of another kind than all before it ends whoever has it.
async fn odd(
    scene: &mut Scene,
    config: &'static [(&'static str, &'static str)],
    usual: &'static [u8],
    bad: Option<&'static [u8]>,
    last: &'static [Verdict],
) -> Result<()> {
    let topic = scene.topic("orders");
    let client = scene.place.client.clone();
    client.create_topic(&topic, 6, config).await?;
    for partition in 0..6 {
        client
            .produce(&topic, &vec![Record::new(partition, usual); 20])
            .await?;
    }
    scene.commit(&topic, 6, 20).await?;
    let record = Record {
        key: Some(b"key".to_vec()),
        value: bad.map(<[u8]>::to_vec),
        ..Record::new(3, "")
    };
    let offsets = client.produce(&topic, &[record]).await?;
    let bad = offsets.first().copied().ok_or("a record has no offset")?;
    scene.feed(&topic, 0..6, FED);
    for name in ["a", "b"] {
        let consumer = dies(&scene.consumer(name, &[&topic]));
        scene.start(&consumer);
    }
    for partition in [0, 1, 2, 4, 5] {
        scene.expect(&topic, partition, BESIDE);
    }
    scene.expect(&topic, 3, last).skip(bad, bad);
    Ok(())
}

async fn twenty(scene: &mut Scene) -> Result<()> {
    let topic = scene.topic_of("orders", 3, 20).await?;
    let first = scene.bad(&topic, 2).await?;
    for _ in 1..20 {
        scene.bad(&topic, 2).await?;
    }
    scene.feed(&topic, 0..3, FED);
    let consumer = leaves(&scene.consumer("a", &[&topic]));
    scene.start(&consumer);
    let expected = scene.expect(&topic, 2, &[PoisonLikely]);
    expected.skip(first, first + 19);
    Ok(())
}

/// Bad records in the first of each consumer's two partitions.
async fn two(scene: &mut Scene, fixed: bool, json: bool) -> Result<()> {
    let topic = scene.topic_of("orders", 4, 20).await?;
    scene.commit(&topic, 4, 20).await?;
    let bad = [scene.bad(&topic, 0).await?, scene.bad(&topic, 2).await?];
    scene.feed(&topic, 0..4, FED);
    for name in ["a", "b"] {
        let mut consumer = dies(&scene.consumer(name, &[&topic]));
        if fixed {
            consumer = consumer.property("group.instance.id", name);
        }
        scene.start(&consumer);
    }
    // Two at once may be one cause, so it takes a validator, or the luck of two owners that never share a partition.
    let last: &[_] = if json {
        &[PoisonLikely]
    } else {
        &[PoisonLikely, CrashLoop]
    };
    for (partition, bad) in [0, 2].into_iter().zip(bad) {
        scene.expect(&topic, partition, last).skip(bad, bad);
    }
    Ok(())
}
