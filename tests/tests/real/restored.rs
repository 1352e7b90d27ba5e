//! Commits that are gone, and come back from a checkpoint.

use std::error::Error as StdError;
use std::time::Duration;

use offset_guard::config::Config;
use offset_guard::domain::recovery::Outcome as Came;
use offset_guard::kafka::{Auth, ConnectionSettings};
use offset_guard_local::client::Client;
use offset_guard_local::kafka::{Kafka, KafkaOptions};
use offset_guard_local::run::Run;
use offset_guard_tests::{Outcome, PATIENCE, World, now, on_every_kafka, on_kafka_4};
use serde_json::json;

use crate::bench::Bench;

on_every_kafka!(offsets_that_are_gone_come_back,);
on_kafka_4!(offsets_that_expired_come_back,);

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
