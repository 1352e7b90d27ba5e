//! Writing records into a topic that keeps them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::message::Message;
use rdkafka::producer::{DeliveryResult, ProducerContext, ThreadedProducer};
use tokio::sync::{OnceCell, oneshot};

use super::GroupReader;
use super::error::{ErrorCode, KafkaError};
use super::ffi::{self, Topic};
use super::handle::{Context, settings_error};
use super::settings::ConnectionSettings;
use offset_guard_domain::guard::keeping::KeepingTopic;
use offset_guard_domain::guard::quarantine::KeptCopy;
use offset_guard_domain::guard::record::Header;
use offset_guard_domain::offset::{Fault, TopicPartition};
use offset_guard_domain::ports::KeepRecords;

/// librdkafka gives a record up after so many milliseconds.
const DELIVERY_TIMEOUT_MS: &str = "30000";
/// It has then told so.
const LONGEST_DELIVERY: Duration = Duration::from_secs(35);

/// How long a topic is taken to be there after it was seen.
const REMEMBERED: Duration = Duration::from_secs(10);

/// Writes records into topics that exist, and waits for each to be written.
///
/// The producer is made for the first record, so that one which writes nothing leaves no trace. A clone shares it.
#[derive(Clone)]
pub struct RecordKeeper {
    groups: GroupReader,
    settings: ConnectionSettings,
    producer: Arc<OnceCell<ThreadedProducer<Context>>>,
    /// When topics were last seen to be there.
    there: Arc<Mutex<BTreeMap<String, Instant>>>,
    /// Held until a record is in the producer's queue, so that copies lie in the order in which they were asked for.
    queueing: Arc<tokio::sync::Mutex<()>>,
}

impl fmt::Debug for RecordKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordKeeper").finish_non_exhaustive()
    }
}

impl RecordKeeper {
    /// A keeper for the cluster of `settings`.
    ///
    /// # Errors
    /// Settings that librdkafka refuses.
    pub fn connect(settings: ConnectionSettings) -> Result<Self, KafkaError> {
        Ok(Self {
            groups: GroupReader::connect(settings.clone())?,
            settings,
            producer: Arc::default(),
            there: Arc::default(),
            queueing: Arc::default(),
        })
    }

    async fn producer(&self) -> Result<&ThreadedProducer<Context>, KafkaError> {
        let new = || {
            self.settings
                .client_config()
                // With all replicas' acknowledgement, and no second copy after a lost one.
                .set("enable.idempotence", "true")
                .set("message.timeout.ms", DELIVERY_TIMEOUT_MS)
                .set("linger.ms", "0")
                // The topic's own limit is what counts.
                .set("message.max.bytes", "1000000000")
                // As Kafka's own producers do it.
                .set("partitioner", "murmur2_random")
                .create_with_context(Context::new(&self.settings))
                .map_err(|error| settings_error(&error))
        };
        self.producer.get_or_try_init(async || new()).await
    }

    /// What the brokers say of the topic; `None` where there is no such topic.
    async fn describe(&self, topic: &str) -> Result<Option<Topic>, Fault> {
        let asked = [TopicPartition::new(topic, 0)];
        let mut topics = self
            .groups
            .topics(&asked)
            .await
            .map_err(|error| error.fault())?;
        match topics
            .remove(topic)
            .unwrap_or_else(|| Err(Fault::missing()))
        {
            Ok(described) => {
                let mut there = self.there.lock().unwrap_or_else(PoisonError::into_inner);
                let _ = there.insert(topic.to_owned(), Instant::now());
                Ok(Some(described))
            }
            Err(Fault::TopicGone) => Ok(None),
            Err(fault) => Err(fault),
        }
    }
}

impl RecordKeeper {
    /// Whether the topic was there a moment ago: many records are written one after another, and each need not ask.
    fn was_there(&self, topic: &str) -> bool {
        let there = self.there.lock().unwrap_or_else(PoisonError::into_inner);
        there.get(topic).is_some_and(|at| at.elapsed() < REMEMBERED)
    }
}

impl KeepRecords for RecordKeeper {
    async fn keeping_topic(&self, topic: &str) -> Result<Option<KeepingTopic>, Fault> {
        let Some(there) = self.describe(topic).await? else {
            return Ok(None);
        };
        match self.groups.topic_configs(topic).await {
            Ok(configs) => described(&there, &configs)
                .ok_or_else(Fault::missing)
                .map(Some),
            Err(Fault::TopicGone) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    async fn keep(
        &self,
        topic: &str,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[Header],
    ) -> Result<KeptCopy, Fault> {
        let turn = self.queueing.lock().await;
        // A producer would wait for a topic that is not there until the record's time is over.
        if !self.was_there(topic) && self.describe(topic).await?.is_none() {
            return Err(Fault::TopicGone);
        }
        let producer = self.producer().await.map_err(|error| error.fault())?;
        let (delivery, delivered) = oneshot::channel();
        ffi::produce(producer, topic, key, value, headers, Box::new(delivery))
            .map_err(ErrorCode::fault)?;
        drop(turn);
        let delivered = tokio::time::timeout(LONGEST_DELIVERY, delivered).await;
        let (partition, offset) = match delivered {
            Ok(Ok(delivered)) => delivered.map_err(ErrorCode::fault)?,
            Ok(Err(_)) | Err(_) => return Err(ErrorCode::TIMED_OUT.fault()),
        };
        if offset < 0 {
            return Err(Fault::Failed {
                code: "WRITTEN_AT_AN_UNKNOWN_OFFSET".to_owned(),
            });
        }
        Ok(KeptCopy {
            partition: TopicPartition::new(topic, partition),
            offset,
        })
    }
}

/// Partition and offset of a record that was written.
type Delivered = Result<(i32, i64), ErrorCode>;

impl ProducerContext for Context {
    type DeliveryOpaque = Box<oneshot::Sender<Delivered>>;

    fn delivery(&self, result: &DeliveryResult<'_>, delivery: Self::DeliveryOpaque) {
        let delivered = match result {
            Ok(message) => Ok((message.partition(), message.offset())),
            Err((error, _)) => Err(ErrorCode::of(error)),
        };
        // Whoever waited may have given up.
        let _ = delivery.send(delivered);
    }
}

fn described(topic: &Topic, configs: &BTreeMap<String, String>) -> Option<KeepingTopic> {
    Some(KeepingTopic {
        partitions: topic.partitions,
        replicas: topic.replicas,
        cleanup_policy: configs.get("cleanup.policy")?.clone(),
        max_message_bytes: configs.get("max.message.bytes")?.parse().ok()?,
        min_insync_replicas: configs.get("min.insync.replicas")?.parse().ok()?,
        // -1 is for ever.
        retention_ms: configs
            .get("retention.ms")?
            .parse::<i64>()
            .ok()?
            .try_into()
            .ok(),
        // As well.
        retention_bytes: configs
            .get("retention.bytes")?
            .parse::<i64>()
            .ok()?
            .try_into()
            .ok(),
    })
}
