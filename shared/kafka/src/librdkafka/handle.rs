//! One librdkafka handle: a consumer that never consumes.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka_sys::rd_kafka_t;

use crate::codes::ErrorCode;
use crate::error::KafkaError;
use crate::librdkafka::callbacks::ClientCallbacks;
use crate::librdkafka::properties::consumer_config;
use crate::settings::ConnectionSettings;

/// How often the polling thread checks whether it should end: the longest that dropping a handle waits for it.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A consumer-type handle with its own group, which it never joins.
///
/// It is made only here, so the unsafe calls cannot be given another kind: on a handle without a group (any producer)
/// librdkafka dereferences a null pointer when a broker answers `NOT_COORDINATOR`.
pub(crate) struct Handle {
    consumer: Arc<BaseConsumer<ClientCallbacks>>,
    stop: Arc<AtomicBool>,
    poller: Option<JoinHandle<()>>,
}

impl Handle {
    /// Builds the handle; no connection is waited for.
    pub(crate) fn new(settings: &ConnectionSettings) -> Result<Self, KafkaError> {
        let consumer: BaseConsumer<_> = consumer_config(settings)
            .create_with_context(ClientCallbacks::new(settings.token_source()))
            .map_err(|error| KafkaError::from_creation(&error))?;
        let consumer = Arc::new(consumer);
        let stop = Arc::new(AtomicBool::new(false));
        let poller = thread::Builder::new().name("kafka-poll".to_owned()).spawn({
            let (consumer, stop) = (Arc::clone(&consumer), Arc::clone(&stop));
            move || {
                // Serves logs, errors and token requests; without it no OAUTHBEARER connection is ever made.
                while !stop.load(Ordering::Relaxed) {
                    consumer.poll(POLL_INTERVAL);
                }
            }
        });
        Ok(Self {
            consumer,
            stop,
            poller: Some(poller.map_err(|error| KafkaError::Settings {
                reason: format!("no thread to poll it: {error}"),
            })?),
        })
    }

    /// The native handle, valid as long as `self`.
    pub(crate) fn native_ptr(&self) -> *mut rd_kafka_t {
        self.consumer.client().native_ptr()
    }

    /// The last error of a connection since [`Self::forget_error`]; a refused login is kept before any other error.
    pub(crate) fn last_error(&self) -> Option<ErrorCode> {
        self.consumer.context().last_error().check().err()
    }

    pub(crate) fn forget_error(&self) {
        self.consumer.context().forget_error();
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(poller) = self.poller.take() {
            // A panic of the poller is not a reason to panic here too.
            let _ = poller.join();
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}
