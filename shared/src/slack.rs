//! Tells the people. Only the function outside the VPC does; nothing here ever holds a record or a token.

use std::time::Duration;

use serde_json::Value;
use url::Url;

use crate::metrics::{self, Metric};

pub mod guard;
pub mod messages;

/// How often one message is tried within an invocation.
const TRIES: usize = 3;
/// How long one try may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Why a message was not delivered. The webhook's URL is a secret, so no error of the HTTP client is kept: it would
/// name the URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SlackError {
    /// No webhook is configured.
    #[error("no Slack webhook is configured, so nobody would hear of it")]
    NotConfigured,
    /// What is configured gives no webhook.
    #[error(
        "the secret of Slack's webhook cannot be read or holds no URL, so nobody would hear of it"
    )]
    Unusable,
    /// Slack said no.
    #[error("Slack answered with status {0}")]
    Status(u16),
    /// Slack could not be reached.
    #[error("Slack could not be reached in {TRIES} tries")]
    Unreachable,
}

/// An incoming webhook of Slack.
pub struct Slack {
    webhook: Result<Url, SlackError>,
    client: reqwest::Client,
}

impl std::fmt::Debug for Slack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let configured = self.webhook.is_ok();
        f.debug_struct("Slack")
            .field("configured", &configured)
            .finish_non_exhaustive()
    }
}

impl Slack {
    /// A client for `webhook`, or one that says why there is none.
    #[must_use]
    pub fn new(webhook: Result<Url, SlackError>) -> Self {
        Self {
            webhook,
            client: reqwest::Client::new(),
        }
    }

    /// Sends one message; tries again within the invocation. A message that is not delivered is counted, so that an
    /// alarm sees a dead Slack whatever else becomes of it.
    ///
    /// # Errors
    /// It was not delivered.
    pub async fn send(&self, message: &Value) -> Result<(), SlackError> {
        let sent = self.try_send(message).await;
        if sent.is_err() {
            metrics::count(Metric::SlackNotDelivered);
        }
        sent
    }

    async fn try_send(&self, message: &Value) -> Result<(), SlackError> {
        let webhook = self.webhook.as_ref().map_err(|error| *error)?;
        let mut last = SlackError::Unreachable;
        for attempt in 0..TRIES {
            if attempt > 0 {
                let pause = 200 * 4_u64.pow(u32::try_from(attempt).unwrap_or(1));
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
            let sent = self
                .client
                .post(webhook.clone())
                .timeout(TIMEOUT)
                .json(message)
                .send()
                .await;
            match sent {
                Ok(answer) if answer.status().is_success() => return Ok(()),
                Ok(answer) => {
                    last = SlackError::Status(answer.status().as_u16());
                    if answer.status().is_client_error() && answer.status().as_u16() != 429 {
                        break;
                    }
                }
                Err(_) => last = SlackError::Unreachable,
            }
        }
        Err(last)
    }
}
