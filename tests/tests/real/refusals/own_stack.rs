//! What would disturb others: brokers that lose records, a cluster that is not the configured one, the switch.

use std::error::Error;

use offset_guard::domain::checkpoint::Anomaly;
use offset_guard::domain::offset::{GroupId, TopicPartition};
use offset_guard::kafka::GroupReader;
use offset_guard::ports::ReadGroups;
use offset_guard_local::kafka::Version;
use offset_guard_local::stack::Stack;
use offset_guard_tests::{CLASSIC_ON_4, Outcome, World, shared_options};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use serde_json::json;

use super::{Scene, targets, until};

const ANOTHER_CLUSTER: &str = r#"
[clusters.renamed]
bootstrap_servers = ["@BOOTSTRAP@"]
cluster_id = "another-cluster"
auth = "plaintext"

[[groups]]
cluster = "renamed"
pattern = "renamed-*"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_not_what_it_was() -> Outcome {
    let mut options = shared_options(Version::V4);
    options.config.push_str(ANOTHER_CLUSTER);
    options.kafka.brokers = 3;
    let properties = &mut options.kafka.properties;
    properties.insert("min.insync.replicas".to_owned(), "1".to_owned());
    let mut world = World::of(Stack::start(&options).await?, CLASSIC_ON_4)?;
    another_cluster(&world).await?;
    switched_off(&world).await?;
    a_truncated_log(&mut world).await?;
    world.stack.stop().await?;
    Ok(())
}

async fn another_cluster(world: &World) -> Outcome {
    let mut scene = Scene::committed(world, "test", 2, 9, 6).await?;
    scene.group = world.group("renamed");
    scene.commit(&[6, 6]).await?;
    scene
        .refuses(
            &json!({"cluster": "renamed", "to_earliest": true}),
            &["CLUSTER_MISMATCH"],
            &["another-cluster", world.stack.cluster_id(), "bootstrap"],
        )
        .await?;
    Ok(())
}

async fn switched_off(world: &World) -> Outcome {
    let scene = Scene {
        world,
        group: world.group("test"),
        topics: vec![(world.topic("shipments"), 2)],
    };
    world.store.set_apply_switch(false).await?;
    let execution = scene.asked(&json!({"to_earliest": true})).await?;
    scene
        .approved_in_vain(
            &execution,
            &["APPLY_SWITCHED_OFF"],
            &["switch it on and plan again"],
        )
        .await?;
    world.store.set_apply_switch(true).await?;
    scene.moves(&json!({"to_earliest": true})).await?;
    Ok(())
}

/// A follower that was away comes back when the leader is gone, and leads: what it has not seen never was.
async fn a_truncated_log(world: &mut World) -> Outcome {
    let (topic, group) = (
        world.topic("truncated"),
        format!("{}-b", world.group("test")),
    );
    let partition = TopicPartition::new(&topic, 0);
    create_unclean_topic(world, &topic).await?;
    world.produce(&topic, 0, 10).await?;
    stop_broker(world, 1).await?;
    world.produce(&topic, 0, 10).await?;
    let scene = Scene {
        world,
        group: group.clone(),
        topics: vec![(topic.clone(), 1)],
    };
    scene.commit(&[4]).await?;
    let good = json!({"checkpoint_id": scene.checkpoint().await?});
    scene.commit(&[15]).await?;
    let beyond = json!({"checkpoint_id": scene.checkpoint().await?});
    assert_eq!(targets(&scene.dry_run(&good).await?), [(0, Some(4))]);

    stop_broker(world, 0).await?;
    let kafka = world.stack.kafka().ok_or("a shared stack")?;
    kafka.start_broker(1).await?;
    let scene = Scene {
        world,
        group,
        topics: vec![(topic.clone(), 1)],
    };
    let reader = GroupReader::connect(world.settings())?;
    until("the log to be shorter", async || {
        let expected = [partition.clone()].into();
        let group = GroupId(scene.group.clone());
        let seen = reader.observe(&group, &expected, true).await;
        let log = seen.map(|seen| Some(seen.partitions.get(&partition)?.log.clone().ok()?.high));
        Ok((log.ok().flatten() == Some(10)).then_some(()))
    })
    .await?;
    let advice = [
        "it reached 20, later only 10",
        "use to_datetime or to_offsets",
    ];
    scene.refuses(&good, &["LOG_TRUNCATED"], &advice).await?;
    // It has grown beyond what it was: only a checkpoint of the time in between still knows.
    scene.checkpoint().await?;
    // A producer that has seen more of the log than there is would be refused.
    let fresh = world.stack.client();
    fresh.produce_numbered(&topic, 0, 15).await?;
    scene.refuses(&good, &["LOG_TRUNCATED"], &advice).await?;
    let group = GroupId(scene.group.clone());
    let headers = world
        .store
        .headers(&world.key_of(&group), jiff::Timestamp::now())
        .await?;
    let truncated = Anomaly::LogTruncated {
        partition,
        high_before: 20,
        high_after: 10,
    };
    assert_eq!(headers[0].anomalies, [truncated]);

    // Where the group is now is no truncated past, and whoever names an offset means it.
    let plan = scene.moves(&scene.to_offset(4)).await?;
    assert_eq!(targets(&plan), [(0, Some(4))]);
    let mut forward = beyond;
    forward["allow_forward"] = json!(true);
    scene
        .refuses(&forward, &["CHECKPOINT_DISOWNED"], &[])
        .await?;
    Ok(())
}

async fn stop_broker(world: &mut World, broker: usize) -> Outcome {
    let kafka = world.stack.kafka().ok_or("a shared stack")?;
    Ok(kafka.stop_broker(broker).await?)
}

/// Creates a topic with one replica each on brokers 1 and 2, of which a stale one may become the leader.
async fn create_unclean_topic(world: &World, topic: &str) -> Result<(), Box<dyn Error>> {
    let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
        .set("bootstrap.servers", world.stack.bootstrap())
        .create()?;
    let new = NewTopic::new(topic, 1, TopicReplication::Variable(&[&[1, 2]]))
        .set("unclean.leader.election.enable", "true");
    for answer in admin.create_topics([&new], &AdminOptions::new()).await? {
        answer.map_err(|(topic, code)| format!("{topic}: {code}"))?;
    }
    Ok(())
}
