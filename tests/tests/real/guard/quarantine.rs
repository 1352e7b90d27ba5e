//! A quarantine topic that cannot keep a record: no plan, a reason, and nothing written or made.

use std::time::Instant;

use offset_guard::app::guard::Sources;
use offset_guard::kafka::{Auth, ConnectionSettings, GroupReader, RecordKeeper, RecordReader};
use offset_guard_local::client::Client;
use offset_guard_tests::{Outcome, PATIENCE, World, on_kafka_4};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

use super::rig::Rig;
use crate::asked::Result;

on_kafka_4!(
    a_topic_that_is_not_there_is_not_made,
    a_topic_that_cannot_keep_a_record_keeps_none,
    a_topic_that_is_out_of_reach_keeps_none,
);

/// Looks until there is a stall, and proposes nothing for this reason and no other.
async fn withheld(rig: &Rig, code: &str, why: &str) -> Outcome {
    let result = rig.until_stalled().await?;
    assert_eq!(result.withheld, [code]);
    assert_eq!(result.plan, None);
    let run = rig.last_run().await?;
    let told = run.withheld[0].to_string();
    assert!(told.contains(why), "{told}");
    assert!(run.records.is_empty());
    assert_eq!(rig.offset().await?, Some(1));
    Ok(())
}

fn topics(world: &World) -> Result<Vec<String>> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", world.stack.bootstrap())
        .create()?;
    let metadata = consumer.fetch_metadata(None, PATIENCE)?;
    let names = metadata
        .topics()
        .iter()
        .map(|topic| topic.name().to_owned());
    Ok(names.collect())
}

/// A group that stands at a record of so many bytes.
async fn standing(world: &World, more: &[(&str, &str)], bytes: usize) -> Result<Rig> {
    let rig = Rig::bare(world, more).await?;
    let bad = "x".repeat(bytes);
    world.client.create_topic(&rig.bench.topic, 1, &[]).await?;
    rig.produce(0, &["{}", &bad, "{}"]).await?;
    rig.bench.commit(&[1]).await?;
    Ok(rig)
}

async fn ends(client: &Client, topic: &str) -> Result<i64> {
    Ok(client.end_offsets(topic).await?.iter().sum())
}

async fn a_topic_that_is_not_there_is_not_made(world: &World) -> Outcome {
    let rig = standing(world, &[], 8).await?;
    withheld(&rig, "QUARANTINE_UNUSABLE", "does not exist").await?;
    assert!(!topics(world)?.contains(&rig.quarantine));
    Ok(())
}

async fn a_topic_that_cannot_keep_a_record_keeps_none(world: &World) -> Outcome {
    for (configs, bytes, why) in [
        (
            ("cleanup.policy", "compact"),
            8,
            "cleanup.policy is compact",
        ),
        (
            ("cleanup.policy", "compact,delete"),
            8,
            "cleanup.policy is compact,delete",
        ),
        (
            ("max.message.bytes", "4000"),
            4_000,
            "max.message.bytes is 4000",
        ),
        // Gone before the plan could be applied.
        (
            ("retention.ms", "600000"),
            8,
            "retention.ms is 600000 (10 min)",
        ),
        (("retention.bytes", "20"), 8, "retention.bytes is 20"),
    ] {
        let rig = standing(world, &[], bytes).await?;
        world
            .client
            .create_topic(&rig.quarantine, 1, &[configs])
            .await?;
        withheld(&rig, "QUARANTINE_UNUSABLE", why).await?;
        assert_eq!(ends(&world.client, &rig.quarantine).await?, 0, "{why}");
    }

    // The topic of the record itself.
    let rig = standing(world, &[], 8).await?;
    let source = rig.bench.topic.clone();
    let rig = rig.keeping_in(&source)?;
    withheld(
        &rig,
        "QUARANTINE_UNUSABLE",
        "the topic that the record is in",
    )
    .await?;
    assert_eq!(ends(&world.client, &source).await?, 3);
    Ok(())
}

async fn a_topic_that_is_out_of_reach_keeps_none(world: &World) -> Outcome {
    let rig = Rig::new(world, &[], &[&["{}", "not JSON", "{}"]]).await?;
    rig.bench.commit(&[1]).await?;
    rig.tick().await?;
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    let settings = world.settings();
    let nowhere = ConnectionSettings::new("127.0.0.1:1", Auth::Plaintext);
    let deadline = Instant::now() + std::time::Duration::from_secs(60);
    let connect = async |_: &str| {
        Ok(Sources {
            groups: GroupReader::connect(settings.clone())?.until(deadline),
            records: RecordReader::connect(settings.clone(), offset_guard_tests::reader_program())?
                .until(deadline),
            keeper: RecordKeeper::connect(nowhere.clone())?,
            proxy: None,
        })
    };
    let result = rig.run_on(&rig.event(), rig.machine(), connect).await?;
    assert_eq!(result.withheld, ["QUARANTINE_UNUSABLE"]);
    assert_eq!(result.plan, None);
    assert_eq!(rig.copies().await?, []);
    // It comes back, and so does the proposal.
    let result = rig.tick().await?;
    rig.planned(result).await?;
    assert_eq!(rig.copies().await?.len(), 1);
    Ok(())
}
