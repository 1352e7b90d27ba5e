//! Tells the people. Only the function outside the VPC does; nothing here ever holds a record or a token.

use std::time::{Duration, Instant};

use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::redirect::Policy;
use serde_json::Value;
use url::Url;

use crate::address::hides;
use crate::aws::metrics::{self, Metric};

pub mod guard;
pub mod messages;

/// How long one try may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long a message is tried for that is on record elsewhere. The function has 45 s.
const RESULT: Duration = Duration::from_secs(10);
/// How long one is tried for that an execution waits for.
const QUESTION: Duration = Duration::from_secs(30);
/// The first pause between two tries, where Slack names none. Each further one is four times as long.
const FIRST_PAUSE: Duration = Duration::from_millis(800);
/// The longest of these pauses.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// Why a message was not delivered. The webhook's URL is a secret, so no error of the HTTP client is kept: it would
/// name the URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SlackError {
    /// No webhook is configured.
    #[error("no Slack webhook is configured, so nobody would hear of it")]
    NotConfigured,
    /// What is configured gives no webhook.
    #[error(
        "the secret of Slack's webhook cannot be read or holds no https URL, so nobody would hear of it"
    )]
    Unusable,
    /// Slack said no.
    #[error("Slack answered with status {0}")]
    Status(u16),
    /// Slack could not be reached.
    #[error("Slack could not be reached")]
    Unreachable,
}

impl SlackError {
    /// Whether the same message may be taken later: Slack is out of reach or out of order, or has had too many.
    #[must_use]
    pub fn may_pass(self) -> bool {
        match self {
            Self::Unreachable => true,
            Self::Status(status) => status == 429 || status >= 500,
            Self::NotConfigured | Self::Unusable => false,
        }
    }
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
    /// A client for `webhook`, or one that says why there is none. A message may hold the link of an approval, so it goes
    /// nowhere in the clear but to this machine.
    #[must_use]
    pub fn new(webhook: Result<Url, SlackError>) -> Self {
        let client = reqwest::Client::builder().redirect(Policy::none()).build();
        let webhook = webhook.and_then(|url| match hides(&url) && client.is_ok() {
            true => Ok(url),
            false => Err(SlackError::Unusable),
        });
        Self {
            webhook,
            client: client.unwrap_or_default(),
        }
    }

    /// Sends a message about something that is on record; tries again for seconds. One that is not delivered is counted,
    /// so that an alarm sees a dead Slack whatever else becomes of it.
    ///
    /// # Errors
    /// It was not delivered.
    pub async fn send(&self, message: &Value) -> Result<(), SlackError> {
        self.deliver(message, RESULT).await
    }

    /// Sends a message that an execution waits for, and tries again for as long as the function has time: others may have
    /// used up what Slack takes.
    ///
    /// # Errors
    /// It was not delivered.
    pub async fn ask(&self, message: &Value) -> Result<(), SlackError> {
        self.deliver(message, QUESTION).await
    }

    async fn deliver(&self, message: &Value, patience: Duration) -> Result<(), SlackError> {
        let sent = self.try_for(message, patience).await;
        if sent.is_err() {
            metrics::count(Metric::SlackNotDelivered);
        }
        sent
    }

    async fn try_for(&self, message: &Value, patience: Duration) -> Result<(), SlackError> {
        let webhook = self.webhook.as_ref().map_err(|error| *error)?;
        let began = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let (error, told_to_wait) = match self.post(webhook, message).await {
                Ok(answer) if answer.status().is_success() => return Ok(()),
                Ok(answer) => {
                    let status = answer.status();
                    let error = SlackError::Status(status.as_u16());
                    if !error.may_pass() {
                        return Err(error);
                    }
                    (error, retry_after(answer.headers()))
                }
                Err(_) => (SlackError::Unreachable, None),
            };
            let wait = told_to_wait.unwrap_or(pause);
            if began.elapsed() + wait > patience {
                return Err(error);
            }
            tokio::time::sleep(wait).await;
            pause = (pause * 4).min(LONGEST_PAUSE);
        }
    }

    async fn post(&self, webhook: &Url, message: &Value) -> reqwest::Result<reqwest::Response> {
        let request = self.client.post(webhook.clone()).timeout(TIMEOUT);
        request.json(message).send().await
    }
}

/// How long Slack wants to be left alone: whole seconds, as it writes them.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse();
    seconds.ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// A webhook that gives these answers one after another, and how many it gave.
    async fn webhook(answers: &'static [&'static str]) -> (Slack, tokio::task::JoinHandle<usize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/services/x", listener.local_addr().unwrap());
        let served = tokio::spawn(async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 4_096];
                let _ = stream.read(&mut request).await.unwrap();
                let head =
                    format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                stream.write_all(head.as_bytes()).await.unwrap();
            }
            let more = tokio::time::timeout(Duration::from_millis(300), listener.accept()).await;
            answers.len() + usize::from(more.is_ok())
        });
        (Slack::new(Ok(url.parse().unwrap())), served)
    }

    #[tokio::test]
    async fn slack_is_left_alone_for_as_long_as_it_says_and_then_told() {
        let (slack, served) = webhook(&[
            "429 Too Many Requests\r\nretry-after: 1",
            "429 Too Many Requests\r\nretry-after: 2",
            "200 OK",
        ])
        .await;
        let began = Instant::now();
        assert_eq!(slack.ask(&json!({"text": "x"})).await, Ok(()));
        assert!(began.elapsed() >= Duration::from_secs(3));
        assert_eq!(served.await.unwrap(), 3);
    }

    #[tokio::test]
    async fn what_takes_longer_than_there_is_time_is_given_up_at_once() {
        let (slack, served) = webhook(&["429 Too Many Requests\r\nretry-after: 3600"]).await;
        let sent = slack.ask(&json!({"text": "x"})).await;
        assert_eq!(sent, Err(SlackError::Status(429)));
        assert_eq!(served.await.unwrap(), 1);
    }

    /// A redirection would carry the link of an approval elsewhere, or become a GET whose 200 counts as told.
    #[tokio::test]
    async fn no_redirection_is_followed() {
        for answer in [
            &["302 Found\r\nlocation: /elsewhere"][..],
            &["307 Temporary Redirect\r\nlocation: /elsewhere"],
        ] {
            let (slack, served) = webhook(answer).await;
            let sent = slack.ask(&json!({"text": "x"})).await;
            assert!(
                matches!(sent, Err(SlackError::Status(302 | 307))),
                "{sent:?}"
            );
            assert_eq!(served.await.unwrap(), 1);
        }
    }

    #[tokio::test]
    async fn nothing_goes_out_in_the_clear() {
        for url in ["http://hooks.slack.com/services/x", "ftp://127.0.0.1/x"] {
            let slack = Slack::new(Ok(url.parse().unwrap()));
            let sent = slack.ask(&json!({"text": "x"})).await;
            assert_eq!(sent, Err(SlackError::Unusable), "{url}");
        }
    }
}
