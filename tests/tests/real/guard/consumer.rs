//! A consumer as careful teams write them: what it cannot decode it leaves uncommitted, and goes on with the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use offset_guard_local::client::Protocol;
use offset_guard_tests::{PATIENCE, World};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{ClientConfig, Message, TopicPartitionList};

use crate::asked::Result;

/// How often each record was processed, by partition and offset.
pub(super) type Processed = BTreeMap<(i32, i64), usize>;

/// A live member that decodes JSON.
pub(super) struct Decoder {
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
    thread: JoinHandle<std::result::Result<(), String>>,
}

#[derive(Default)]
struct Seen {
    processed: Processed,
    /// Where it met what it cannot decode.
    stuck: BTreeSet<(i32, i64)>,
}

impl Decoder {
    /// Joins `group`.
    pub(super) fn join(world: &World, group: &str, topic: &str) -> Result<Self> {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", world.stack.bootstrap())
            .set("group.id", group)
            .set("client.id", format!("decoder-of-{group}"))
            .set("auto.offset.reset", "earliest")
            .set("enable.auto.commit", "false");
        if world.setting.protocol == Protocol::Consumer {
            config.set("group.protocol", world.setting.protocol.name());
        }
        let consumer: BaseConsumer = config.create()?;
        consumer.subscribe(&[topic])?;
        let (stop, seen) = (Arc::default(), Arc::default());
        let (stopping, seeing) = (Arc::clone(&stop), Arc::clone(&seen));
        let thread = std::thread::spawn(move || decode(&consumer, &stopping, &seeing));
        Ok(Self { stop, seen, thread })
    }

    /// Waits until `enough` says so of what it has processed and where it is stuck.
    pub(super) async fn until(
        &self,
        enough: impl Fn(&Processed, &BTreeSet<(i32, i64)>) -> bool,
    ) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            {
                let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                if enough(&seen.processed, &seen.stuck) {
                    return Ok(());
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err("the consumer does not get so far".into())
    }

    /// Leaves the group; answers with what it has processed.
    pub(super) async fn stop(self) -> Result<Processed> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = tokio::task::spawn_blocking(move || self.thread.join()).await?;
        ended.map_err(|_| "the consumer panicked")??;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::take(&mut seen.processed))
    }
}

fn decode(
    consumer: &BaseConsumer,
    stop: &AtomicBool,
    seen: &Mutex<Seen>,
) -> std::result::Result<(), String> {
    while !stop.load(Ordering::Relaxed) {
        let Some(polled) = consumer.poll(Duration::from_millis(100)) else {
            continue;
        };
        let record = polled.map_err(|error| error.to_string())?;
        let place = (record.partition(), record.offset());
        let value = record.payload().unwrap_or_default();
        if serde_json::from_slice::<serde_json::Value>(value).is_err() {
            let mut partitions = TopicPartitionList::new();
            partitions.add_partition(record.topic(), record.partition());
            consumer
                .pause(&partitions)
                .map_err(|error| error.to_string())?;
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.stuck.insert(place);
            continue;
        }
        consumer
            .commit_message(&record, CommitMode::Sync)
            .map_err(|error| error.to_string())?;
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen.processed.entry(place).or_default() += 1;
    }
    consumer.unsubscribe();
    Ok(())
}
