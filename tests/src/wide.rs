//! A group as wide as they get.

use offset_guard_local::client::{Client, Commit, Record};
use offset_guard_local::kafka::KafkaOptions;

use crate::Outcome;

/// How many partitions the widest group has.
pub const PARTITIONS: i32 = 10_000;
/// How many a controller creates in one request; it refuses more than about 10,000 records of its own.
const AT_ONCE: i32 = 5_000;

/// A broker that does not spend its time on looking after so many logs.
#[must_use]
pub fn kafka() -> KafkaOptions {
    let mut options = KafkaOptions::default();
    let properties = [
        ("log.retention.check.interval.ms", "300000"),
        ("log.index.size.max.bytes", "4096"),
    ];
    let properties = properties.map(|(key, value)| (key.to_owned(), value.to_owned()));
    options.properties.extend(properties);
    options
}

/// Creates a topic of [`PARTITIONS`] partitions with one record in each.
///
/// # Errors
/// Kafka refuses.
pub async fn topic(client: &Client, topic: &str) -> Outcome {
    client.create_topic(topic, AT_ONCE, &[]).await?;
    let all = usize::try_from(PARTITIONS)?;
    client.raise_partitions(topic, all).await?;
    let records: Vec<_> = (0..PARTITIONS)
        .map(|partition| Record::new(partition, format!("{topic} {partition}")))
        .collect();
    client.produce(topic, &records).await?;
    Ok(())
}

/// Commits `offset` in every partition of the topic.
///
/// # Errors
/// Kafka refuses.
pub async fn commit(client: &Client, group: &str, topic: &str, offset: i64) -> Outcome {
    let commits: Vec<_> = (0..PARTITIONS)
        .map(|partition| Commit::new(topic, partition, offset))
        .collect();
    // More do not fit one batch of the offsets topic.
    for commits in commits.chunks(2_500) {
        client.commit(group, commits).await?;
    }
    Ok(())
}
