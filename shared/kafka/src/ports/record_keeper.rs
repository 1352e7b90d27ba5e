//! Writing records into a topic that keeps them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::message::Message;
use rdkafka::producer::{DeliveryResult, ProducerContext, ThreadedProducer};
use tokio::sync::{OnceCell, oneshot};

use crate::codes::ErrorCode;
use crate::error::KafkaError;
use crate::ffi::{self, OutgoingRecord, TopicMetadata};
use crate::librdkafka::admin_client::AdminClient;
use crate::librdkafka::callbacks::ClientCallbacks;
use crate::librdkafka::properties::client_config;
use crate::settings::ConnectionSettings;
use offset_guard_domain::guard::keeping::KeepingTopic;
use offset_guard_domain::guard::quarantine::KeptCopy;
use offset_guard_domain::guard::record::Header;
use offset_guard_domain::offset::{Fault, TopicPartition};
use offset_guard_domain::ports::{BrokerError, KeepRecords};

/// Milliseconds after which librdkafka gives a record up.
const DELIVERY_TIMEOUT_MS: &str = "30000";
/// Time after which librdkafka has reported a record as written or given up.
const LONGEST_DELIVERY: Duration = Duration::from_secs(35);

/// How long a topic counts as existing after it was seen.
const REMEMBERED: Duration = Duration::from_secs(10);

/// Writes records into topics that exist, and waits for each to be written.
///
/// The producer is made for the first record, so that a keeper which writes nothing leaves no trace. A clone shares it.
#[derive(Clone)]
pub struct RecordKeeper {
    client: AdminClient,
    settings: ConnectionSettings,
    producer: Arc<OnceCell<ThreadedProducer<ClientCallbacks>>>,
    /// When each topic was last seen.
    seen: Arc<Mutex<BTreeMap<String, Instant>>>,
    /// Held until a record is in the producer's queue, so that copies are in the order of the calls.
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
    /// librdkafka refuses the settings.
    pub fn connect(settings: ConnectionSettings) -> Result<Self, BrokerError> {
        Ok(Self {
            client: AdminClient::connect(settings.clone())?,
            settings,
            producer: Arc::default(),
            seen: Arc::default(),
            queueing: Arc::default(),
        })
    }

    async fn producer(&self) -> Result<&ThreadedProducer<ClientCallbacks>, KafkaError> {
        let new = || {
            client_config(&self.settings)
                // With all replicas' acknowledgement, and no second copy after a lost one.
                .set("enable.idempotence", "true")
                .set("message.timeout.ms", DELIVERY_TIMEOUT_MS)
                .set("linger.ms", "0")
                // The topic's own limit is what counts.
                .set("message.max.bytes", "1000000000")
                // As Kafka's own producers do it.
                .set("partitioner", "murmur2_random")
                .create_with_context(ClientCallbacks::new(self.settings.token_source()))
                .map_err(|error| KafkaError::from_creation(&error))
        };
        self.producer.get_or_try_init(async || new()).await
    }

    /// Describes the topic; `None` where it does not exist.
    async fn describe(&self, topic: &str) -> Result<Option<TopicMetadata>, Fault> {
        let asked = [TopicPartition::new(topic, 0)];
        let mut topics = self
            .client
            .describe_topics(&asked)
            .await
            .map_err(|error| error.fault())?;
        match topics
            .remove(topic)
            .unwrap_or_else(|| Err(Fault::missing()))
        {
            Ok(described) => {
                let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                let _ = seen.insert(topic.to_owned(), Instant::now());
                Ok(Some(described))
            }
            Err(Fault::TopicGone) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// Whether the topic was there a moment ago: many records are written one after another, and each need not ask.
    fn was_there(&self, topic: &str) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(topic).is_some_and(|at| at.elapsed() < REMEMBERED)
    }
}

impl KeepRecords for RecordKeeper {
    async fn keeping_topic(&self, topic: &str) -> Result<Option<KeepingTopic>, Fault> {
        let Some(described) = self.describe(topic).await? else {
            return Ok(None);
        };
        match self.client.describe_topic_configs(topic).await {
            Ok(configs) => to_keeping_topic(&described, &configs)
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
        // A producer would wait for a missing topic until the record's time is over.
        if !self.was_there(topic) && self.describe(topic).await?.is_none() {
            return Err(Fault::TopicGone);
        }
        let producer = self.producer().await.map_err(|error| error.fault())?;
        let (delivery, delivered) = oneshot::channel();
        let record = OutgoingRecord {
            topic,
            key,
            value,
            headers,
        };
        ffi::produce(producer, &record, Box::new(delivery)).map_err(ErrorCode::fault)?;
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

impl ProducerContext for ClientCallbacks {
    type DeliveryOpaque = Box<oneshot::Sender<Delivered>>;

    fn delivery(&self, result: &DeliveryResult<'_>, delivery: Self::DeliveryOpaque) {
        let delivered = match result {
            Ok(message) => Ok((message.partition(), message.offset())),
            Err((error, _)) => Err(ErrorCode::from_rdkafka(error)),
        };
        // The caller may have given up.
        let _ = delivery.send(delivered);
    }
}

fn to_keeping_topic(
    topic: &TopicMetadata,
    configs: &BTreeMap<String, String>,
) -> Option<KeepingTopic> {
    Some(KeepingTopic {
        partitions: topic.partitions,
        replicas: topic.replicas,
        cleanup_policy: configs.get("cleanup.policy")?.clone(),
        max_message_bytes: configs.get("max.message.bytes")?.parse().ok()?,
        min_insync_replicas: configs.get("min.insync.replicas")?.parse().ok()?,
        retention_ms: parse_retention(configs.get("retention.ms")?)?,
        retention_bytes: parse_retention(configs.get("retention.bytes")?)?,
    })
}

/// `Some(None)` for -1, which is for ever.
fn parse_retention(property: &str) -> Option<Option<u64>> {
    Some(property.parse::<i64>().ok()?.try_into().ok())
}
