//! One librdkafka handle: a consumer that never consumes.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::client::OAuthToken;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError as RdKafkaError, RDKafkaErrorCode};
use rdkafka_sys::rd_kafka_t;
use ulid::Ulid;

use super::error::{ErrorClass, ErrorCode, KafkaError};
use super::settings::{Auth, ConnectionSettings};

/// How often the polling thread looks whether it should end: the longest that dropping a handle waits for it.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A consumer-type handle with a group of its own, which it never joins.
///
/// It is made here and nowhere else, so the unsafe calls cannot be given another kind: on a handle without a group
/// (any producer) librdkafka dereferences a null pointer when a broker answers `NOT_COORDINATOR`.
pub(super) struct Handle {
    consumer: Arc<BaseConsumer<Context>>,
    stop: Arc<AtomicBool>,
    poller: Option<JoinHandle<()>>,
}

impl Handle {
    /// Builds the handle; no connection is waited for.
    pub(super) fn new(settings: &ConnectionSettings) -> Result<Self, KafkaError> {
        let consumer = consumer(settings)?;
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
    pub(super) fn native_ptr(&self) -> *mut rd_kafka_t {
        self.consumer.client().native_ptr()
    }

    /// What went wrong on a connection since [`Self::forget_error`]; a refused login before anything else.
    pub(super) fn last_error(&self) -> Option<ErrorCode> {
        self.consumer.context().last_error().check().err()
    }

    /// Starts anew to remember what goes wrong on connections.
    pub(super) fn forget_error(&self) {
        self.consumer
            .context()
            .last_error
            .store(ErrorCode::NONE.0, Ordering::Relaxed);
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

/// A consumer with a group of its own, which it never joins.
///
/// Nothing polls it yet: no OAUTHBEARER connection is made before somebody does.
fn consumer(settings: &ConnectionSettings) -> Result<BaseConsumer<Context>, KafkaError> {
    consumer_config(settings, &[])
        .create_with_context(Context::new(settings))
        .map_err(|error| settings_error(&error))
}

/// librdkafka's configuration for such a consumer, with further `properties`.
pub(super) fn consumer_config(
    settings: &ConnectionSettings,
    properties: &[(&str, &str)],
) -> ClientConfig {
    let mut config = settings.consumer_config(&format!("offset-guard-{}", Ulid::generate()));
    for (key, value) in properties {
        config.set(*key, *value);
    }
    config
}

/// The consumer of a configuration that [`consumer_config`] made, with MSK's region where that is how it logs in.
pub(super) fn consumer_of(
    properties: &BTreeMap<String, String>,
    msk_region: Option<String>,
) -> Result<BaseConsumer<Context>, KafkaError> {
    let mut config = ClientConfig::new();
    for (key, value) in properties {
        config.set(key, value);
    }
    config
        .create_with_context(Context::of_region(msk_region))
        .map_err(|error| settings_error(&error))
}

pub(super) fn settings_error(error: &RdKafkaError) -> KafkaError {
    let reason = match error {
        // Its own text repeats the value, which may be a secret.
        RdKafkaError::ClientConfig(_, _, property, _) => {
            format!("librdkafka does not accept the property {property}")
        }
        RdKafkaError::ClientCreation(reason) => reason.clone(),
        _ => "librdkafka could not create it".to_owned(),
    };
    KafkaError::Settings { reason }
}

/// What librdkafka calls back.
pub(super) struct Context {
    msk_region: Option<String>,
    last_error: AtomicI32,
}

impl Context {
    pub(super) fn new(settings: &ConnectionSettings) -> Self {
        Self::of_region(match &settings.auth {
            Auth::MskIam { region } => Some(region.clone()),
            _ => None,
        })
    }

    fn of_region(msk_region: Option<String>) -> Self {
        Self {
            msk_region,
            last_error: AtomicI32::new(ErrorCode::NONE.0),
        }
    }

    /// What went wrong on a connection last; a refused login before anything else.
    pub(super) fn last_error(&self) -> ErrorCode {
        ErrorCode(self.last_error.load(Ordering::Relaxed))
    }
}

impl ConsumerContext for Context {}

impl ClientContext for Context {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Emerg
            | RDKafkaLogLevel::Alert
            | RDKafkaLogLevel::Critical
            | RDKafkaLogLevel::Error
            | RDKafkaLogLevel::Warning => tracing::warn!(facility, "{message}"),
            RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info | RDKafkaLogLevel::Debug => {
                tracing::debug!(facility, "{message}");
            }
        }
    }

    fn error(&self, error: RdKafkaError, reason: &str) {
        // What a reader of records waits for, and nothing that went wrong.
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::PartitionEOF) {
            return;
        }
        // Positive codes are brokers' answers, such as that this principal may not see the handle's own group, which
        // nobody needs. And "all brokers are down" follows a refused login, but says less.
        let refused = self.last_error().class() == ErrorClass::NotAuthorised;
        match error.rdkafka_error_code().map(|code| code as i32) {
            Some(code) if code < 0 && !refused => self.last_error.store(code, Ordering::Relaxed),
            _ => (),
        }
        tracing::warn!(%error, "{reason}");
    }

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        let region = self
            .msk_region
            .clone()
            .ok_or("no IAM region is configured")?;
        // librdkafka waits here. A thread and a runtime of its own, because the thread that closes a handle polls it
        // too, and that one may belong to a runtime, which must not block on another.
        let (token, lifetime_ms) = thread::spawn(move || sign(region))
            .join()
            .map_err(|_| "the signer panicked")??;
        Ok(OAuthToken {
            token,
            principal_name: String::new(),
            lifetime_ms,
        })
    }
}

fn sign(region: String) -> Result<(String, i64), String> {
    let signing = aws_msk_iam_sasl_signer::generate_auth_token(aws_config::Region::new(region));
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?
        .block_on(async { tokio::time::timeout(Duration::from_secs(10), signing).await })
        .map_err(|_| "no AWS credentials within 10 s".to_owned())?
        .map_err(|error| error.to_string())
}
