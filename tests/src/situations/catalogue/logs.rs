//! Groups whose commit and whose log do not fit together.

use std::time::Duration;

use futures_util::FutureExt;
use offset_guard::domain::guard::verdict::Verdict::{
    Ahead, BelowLogStart, CrashLoop, NoCommit, NoMembers, PoisonLikely, PoisonSuspected, Rewound,
    TopicChanged,
};
use offset_guard_local::client::{Commit, Record};

use super::super::consumer::{Commits, Fails::AtUndecodable, Then};
use super::super::policy::Policy::Plain;
use super::super::scene::Scene;
use super::super::{Result, Situation};
use super::{BESIDE, FINE, situation};

const FED: Duration = Duration::from_millis(300);
/// When something happens while the guard already looks.
const MEANWHILE: Duration = Duration::from_secs(12);

pub(super) fn situations() -> Vec<Situation> {
    vec![
        situation(
            "below-log-start",
            Plain,
            "Records were deleted before the group read them.",
            |s| below(s).boxed_local(),
        ),
        situation(
            "ahead",
            Plain,
            "The commit lies beyond the end of the log.",
            |s| ahead(s).boxed_local(),
        ),
        situation(
            "never-committed",
            Plain,
            "A consumer reads and never commits.",
            |s| never_committed(s).boxed_local(),
        ),
        situation(
            "went-back",
            Plain,
            "Somebody resets the offsets while the consumers are stopped.",
            |s| went_back(s).boxed_local(),
        ),
        situation(
            "went-back-and-on",
            Plain,
            "The same, and the consumers start again.",
            |s| went_back_and_on(s).boxed_local(),
        ),
        situation(
            "topic-recreated",
            Plain,
            "The topic is deleted and created again while the guard looks.",
            |s| recreated(s).boxed_local(),
        ),
        situation(
            "topic-deleted",
            Plain,
            "The topic is deleted while the guard looks.",
            |s| deleted(s).boxed_local(),
        ),
        situation(
            "poison-after-gap",
            Plain,
            "A crash loop at a bad record; those between the commit and it were compacted away.",
            |s| after_gap(s, 0).boxed_local(),
        ),
        situation(
            "poison-behind-gap",
            Plain,
            "The same behind a gap of thirty offsets, before which records are left.",
            |s| after_gap(s, 30).boxed_local(),
        ),
    ]
}

async fn below(scene: &mut Scene) -> Result<()> {
    let topic = scene.topic_of("orders", 2, 9).await?;
    scene.commit(&topic, 2, 2).await?;
    scene.place.client.delete_records(&topic, 0, 5).await?;
    scene.expect(&topic, 0, &[BelowLogStart]);
    scene.expect(&topic, 1, &[NoMembers]);
    Ok(())
}

async fn ahead(scene: &mut Scene) -> Result<()> {
    let topic = scene.topic_of("orders", 1, 5).await?;
    scene.commit(&topic, 1, 40).await?;
    scene.expect(&topic, 0, &[Ahead]);
    Ok(())
}

async fn never_committed(scene: &mut Scene) -> Result<()> {
    let topic = scene.topic_of("orders", 2, 5).await?;
    scene.feed(&topic, 0..2, FED);
    let consumer = scene.consumer("a", &[&topic]);
    scene.start(&consumer.commits(Commits::Never));
    for partition in 0..2 {
        scene.expect(&topic, partition, &[NoCommit]);
    }
    Ok(())
}

async fn went_back(scene: &mut Scene) -> Result<()> {
    let topic = scene.topic_of("orders", 1, 20).await?;
    scene.commit(&topic, 1, 15).await?;
    let (client, group) = (scene.place.client.clone(), scene.group());
    scene.later(MEANWHILE, {
        let topic = topic.clone();
        async move {
            let commit = Commit::new(&topic, 0, 4);
            Ok(client.commit(&group.0, &[commit]).await?)
        }
    });
    scene.expect(&topic, 0, &[NoMembers]).after(Rewound);
    Ok(())
}

async fn went_back_and_on(scene: &mut Scene) -> Result<()> {
    let topic = scene.topic_of("orders", 1, 300).await?;
    let consumer = scene.consumer("a", &[&topic]);
    let started = scene.start(&consumer);
    let (client, group) = (scene.place.client.clone(), scene.group());
    let again = scene
        .consumer("b", &[&topic])
        .works(Duration::from_millis(100));
    let place = scene.place.clone();
    scene.later(MEANWHILE, {
        let topic = topic.clone();
        async move {
            started.stop().await;
            let commit = Commit::new(&topic, 0, 40);
            client.commit(&group.0, &[commit]).await?;
            again.run(&place).await
        }
    });
    scene.expect(&topic, 0, FINE).after(Rewound);
    Ok(())
}

/// With the commits of its only topic, the group itself may be gone: then there is nothing more to say.
async fn recreated(scene: &mut Scene) -> Result<()> {
    let topic = scene.topic_of("orders", 1, 9).await?;
    scene.commit(&topic, 1, 4).await?;
    let client = scene.place.client.clone();
    scene.later(MEANWHILE, {
        let topic = topic.clone();
        async move {
            client.delete_topic(&topic).await?;
            client.create_topic(&topic, 1, &[]).await?;
            client.produce(&topic, &[Record::new(0, "{}")]).await?;
            Ok(())
        }
    });
    scene.expect(&topic, 0, &[]).after(TopicChanged);
    Ok(())
}

/// Once it was told, a topic that is gone is nobody's concern any more.
async fn deleted(scene: &mut Scene) -> Result<()> {
    let kept = scene.topic_of("returns", 1, 9).await?;
    let topic = scene.topic_of("orders", 1, 9).await?;
    scene.commit(&kept, 1, 9).await?;
    scene.commit(&topic, 1, 4).await?;
    let client = scene.place.client.clone();
    scene.later(MEANWHILE, {
        let topic = topic.clone();
        async move { Ok(client.delete_topic(&topic).await?) }
    });
    scene.expect(&topic, 0, &[]).after(TopicChanged);
    scene.expect(&kept, 0, FINE);
    Ok(())
}

/// With a `gap`, records of other keys are left before it.
async fn after_gap(scene: &mut Scene, gap: usize) -> Result<()> {
    let topic = scene.topic("orders");
    let client = scene.place.client.clone();
    let compacted = [
        ("cleanup.policy", "compact"),
        ("segment.ms", "100"),
        ("min.cleanable.dirty.ratio", "0.01"),
        ("delete.retention.ms", "0"),
    ];
    client.create_topic(&topic, 3, &compacted).await?;
    let keyed = |key: &str, value: &[u8]| Record {
        key: Some(key.into()),
        ..Record::new(0, value.to_vec())
    };
    for partition in 1..3 {
        scene.good(&topic, partition, 1).await?;
    }
    let kept = if gap > 0 { 8 } else { 0 };
    let keep: Vec<_> = (0..kept).map(|n| keyed(&format!("k{n}"), b"{}")).collect();
    client.produce(&topic, &keep).await?;
    let old = vec![keyed("a", b"{}"); gap.max(6)];
    client.produce(&topic, &old).await?;
    let mut bad = 0;
    // Each in a segment of its own: the cleaner leaves the last one alone.
    for record in [
        keyed("b", b"\x00\x9f no JSON"),
        keyed("a", b"{}"),
        keyed("c", b"{}"),
    ] {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let offsets = client
            .produce(&topic, std::slice::from_ref(&record))
            .await?;
        if record.key.as_deref() == Some(b"b") {
            bad = offsets.first().copied().ok_or("a record has no offset")?;
        }
    }
    let begins = i64::from(kept);
    scene.until_next_is(&topic, begins, bad).await?;
    // In the gap, so that what is left before it lies further back than the nearest twenty offsets.
    let commit = Commit::new(&topic, 0, if gap > 0 { bad - 2 } else { 1 });
    let others = (1..3).map(|partition| Commit::new(&topic, partition, 1));
    let commits: Vec<_> = std::iter::once(commit).chain(others).collect();
    client.commit(&scene.group().0, &commits).await?;
    scene.feed(&topic, [1, 2], FED);
    for name in ["a", "b"] {
        let consumer = scene.consumer(name, &[&topic]);
        let consumer = consumer.fails(AtUndecodable, Then::Leaves);
        scene.start(&consumer.restarts(Duration::from_millis(1500)));
    }
    // Where all that lay before it is compacted away, it is unlike nothing.
    let last: &[_] = if gap > 0 {
        &[PoisonLikely, PoisonSuspected]
    } else {
        &[PoisonLikely, PoisonSuspected, CrashLoop]
    };
    scene.expect(&topic, 0, last).skip(bad, bad);
    for partition in 1..3 {
        scene.expect(&topic, partition, BESIDE);
    }
    Ok(())
}
