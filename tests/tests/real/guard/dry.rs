//! A dry run leaves a Kafka exactly as it was.

use std::collections::BTreeMap;
use std::time::Duration;

use offset_guard::domain::guard::quarantine::Kept;
use offset_guard_local::client::Client;
use offset_guard_local::kafka::{Kafka, KafkaOptions};
use offset_guard_local::run::Run;
use offset_guard_tests::{CLASSIC_ON_4, Outcome, PATIENCE, World};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

use super::rig::Rig;
use crate::asked::Result;

/// On a Kafka of one's own, where nobody else writes, and which makes topics for whoever asks.
#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_leaves_every_log_and_every_offset_as_it_was() -> Outcome {
    let world = World::enter(CLASSIC_ON_4).await?;
    let properties = [("auto.create.topics.enable", "true")];
    let options = KafkaOptions {
        properties: properties
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        ..KafkaOptions::default()
    };
    let kafka = Kafka::start(&Run::open(Duration::ZERO)?, &options).await?;
    let bootstrap = kafka.bootstrap();
    let client = Client::new(&bootstrap, &BTreeMap::new());
    for quarantine_exists in [true, false] {
        let dry = [("dry_run", "true")];
        let rig = Rig::on(&world, client.clone(), &bootstrap, &dry).await?;
        client.create_topic(&rig.bench.topic, 1, &[]).await?;
        if quarantine_exists {
            client.create_topic(&rig.quarantine, 1, &[]).await?;
        }
        rig.produce(0, &["{}", "not JSON", "{}"]).await?;
        rig.bench.commit(&[1]).await?;
        let before = logs(&bootstrap).await?;
        // The commit of the group is in it.
        assert!(
            before
                .keys()
                .any(|(topic, _)| topic == "__consumer_offsets")
        );

        let result = rig.until_stalled().await?;
        for _ in 0..3 {
            rig.tick().await?;
        }
        assert_eq!(logs(&bootstrap).await?, before);
        assert_eq!(rig.offset().await?, Some(1));
        if !quarantine_exists {
            assert_eq!(result.withheld, ["QUARANTINE_UNUSABLE"]);
            continue;
        }
        let (id, plan) = rig.planned(result).await?;
        assert!(
            plan.skips
                .iter()
                .all(|skipped| skipped.kept == Kept::NotYet)
        );
        // Nobody is asked to approve it, and it cannot be started either.
        assert!(!rig.started().await?.contains(&id.0));
        let refused = rig
            .bench
            .take_over(&id)
            .await
            .err()
            .ok_or("it was taken over")?;
        assert_eq!(refused.to_string(), "QUARANTINE_UNCONFIRMED");
        assert_eq!(logs(&bootstrap).await?, before);
    }
    kafka.stop().await?;
    Ok(())
}

/// Where every partition of every topic begins and ends.
async fn logs(bootstrap: &str) -> Result<BTreeMap<(String, i32), (i64, i64)>> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .create()?;
    let read = move || -> std::result::Result<_, rdkafka::error::KafkaError> {
        let metadata = consumer.fetch_metadata(None, PATIENCE)?;
        let mut logs = BTreeMap::new();
        for topic in metadata.topics() {
            for partition in topic.partitions() {
                let ends = consumer.fetch_watermarks(topic.name(), partition.id(), PATIENCE)?;
                logs.insert((topic.name().to_owned(), partition.id()), ends);
            }
        }
        Ok(logs)
    };
    Ok(tokio::task::spawn_blocking(read).await??)
}
