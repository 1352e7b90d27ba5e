//! What librdkafka calls back.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;

use rdkafka::ClientContext;
use rdkafka::client::OAuthToken;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError as RdKafkaError, RDKafkaErrorCode};

use crate::codes::ErrorCode;
use crate::meaning::CodeClass;
use crate::token::TokenSource;

/// Logs, remembers the last error of a connection, and gives tokens to those that log in with one.
pub(crate) struct ClientCallbacks {
    tokens: Option<Arc<dyn TokenSource>>,
    last_error: AtomicI32,
}

impl ClientCallbacks {
    /// Without `tokens`, a login that needs one fails.
    pub(crate) fn new(tokens: Option<Arc<dyn TokenSource>>) -> Self {
        Self {
            tokens,
            last_error: AtomicI32::new(ErrorCode::NONE.0),
        }
    }

    /// The last error of a connection since [`Self::forget_error`]; a refused login is kept before any other error.
    pub(crate) fn last_error(&self) -> ErrorCode {
        ErrorCode(self.last_error.load(Ordering::Relaxed))
    }

    pub(crate) fn forget_error(&self) {
        self.last_error.store(ErrorCode::NONE.0, Ordering::Relaxed);
    }
}

impl ConsumerContext for ClientCallbacks {}

impl ClientContext for ClientCallbacks {
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
        // A reader of records waits for this event. It is not an error.
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::PartitionEOF) {
            return;
        }
        // Positive codes are brokers' answers, such as that this principal may not see the handle's own group, which
        // nobody needs. And "all brokers are down" follows a refused login, but says less.
        let refused = self.last_error().class() == CodeClass::NotAuthorised;
        match error.rdkafka_error_code().map(|code| code as i32) {
            Some(code) if code < 0 && !refused => self.last_error.store(code, Ordering::Relaxed),
            _ => (),
        }
        tracing::warn!(%error, "{reason}");
    }

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        let tokens = self
            .tokens
            .clone()
            .ok_or("no source of tokens is configured")?;
        // librdkafka waits here. The source gets its own thread, because the thread that closes a handle polls it too,
        // and that thread may belong to a runtime, which must not block on another runtime.
        let token = thread::spawn(move || tokens.issue_token())
            .join()
            .map_err(|_| "the source of tokens panicked")??;
        Ok(OAuthToken {
            token: token.text.expose().to_owned(),
            principal_name: String::new(),
            lifetime_ms: token.expires_at_ms,
        })
    }
}
