//! Tells the people. Only the function outside the VPC does; nothing here ever holds a record or a token.

use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::redirect::Policy;
use serde_json::Value;
use url::Url;

use crate::address::hides;
use crate::aws::metrics::{self, Metric};
use crate::domain::audit::Audit;
use crate::domain::guard::run::GuardRun;
use crate::ports::{Notifier, NotifyError, Question};

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

/// An incoming webhook of Slack.
pub struct Slack {
    webhook: Result<Url, NotifyError>,
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
    pub fn new(webhook: Result<Url, NotifyError>) -> Self {
        let client = reqwest::Client::builder().redirect(Policy::none()).build();
        let webhook = webhook.and_then(|url| match hides(&url) && client.is_ok() {
            true => Ok(url),
            false => Err(NotifyError::Unusable),
        });
        Self {
            webhook,
            client: client.unwrap_or_default(),
        }
    }

    /// Sends a message, and tries again for as long as `patience`. One that is not delivered is counted, so that an alarm
    /// sees a dead Slack whatever else becomes of it.
    async fn deliver(&self, message: &Value, patience: Duration) -> Result<(), NotifyError> {
        let sent = self.try_for(message, patience).await;
        if sent.is_err() {
            metrics::count(Metric::SlackNotDelivered);
        }
        sent
    }

    async fn try_for(&self, message: &Value, patience: Duration) -> Result<(), NotifyError> {
        let webhook = self.webhook.as_ref().map_err(|error| *error)?;
        let began = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let (error, told_to_wait) = match self.post(webhook, message).await {
                Ok(answer) if answer.status().is_success() => return Ok(()),
                Ok(answer) => {
                    let status = answer.status();
                    let error = NotifyError::Status(status.as_u16());
                    if !error.may_pass() {
                        return Err(error);
                    }
                    (error, retry_after(answer.headers()))
                }
                Err(_) => (NotifyError::Unreachable, None),
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

impl Notifier for Slack {
    fn ask_approval<'a>(
        &'a self,
        question: Question<'a>,
    ) -> BoxFuture<'a, Result<(), NotifyError>> {
        let message = messages::approval(
            question.plan,
            question.recovery,
            question.approval,
            question.link,
        );
        // Others may have used up what Slack takes at the moment, and here an execution waits for this very message.
        let patience = if question.is_first { QUESTION } else { RESULT };
        Box::pin(async move { self.deliver(&message, patience).await })
    }

    fn report_result<'a>(&'a self, audit: &'a Audit) -> BoxFuture<'a, Result<(), NotifyError>> {
        Box::pin(async move { self.deliver(&messages::result(audit), RESULT).await })
    }

    fn report_findings<'a>(&'a self, run: &'a GuardRun) -> BoxFuture<'a, Result<(), NotifyError>> {
        Box::pin(async move { self.deliver(&guard::guard_alert(run), RESULT).await })
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
        assert_eq!(slack.deliver(&json!({"text": "x"}), QUESTION).await, Ok(()));
        assert!(began.elapsed() >= Duration::from_secs(3));
        assert_eq!(served.await.unwrap(), 3);
    }

    #[tokio::test]
    async fn what_takes_longer_than_there_is_time_is_given_up_at_once() {
        let (slack, served) = webhook(&["429 Too Many Requests\r\nretry-after: 3600"]).await;
        let sent = slack.deliver(&json!({"text": "x"}), QUESTION).await;
        assert_eq!(sent, Err(NotifyError::Status(429)));
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
            let sent = slack.deliver(&json!({"text": "x"}), QUESTION).await;
            assert!(
                matches!(sent, Err(NotifyError::Status(302 | 307))),
                "{sent:?}"
            );
            assert_eq!(served.await.unwrap(), 1);
        }
    }

    #[tokio::test]
    async fn nothing_goes_out_in_the_clear() {
        for url in ["http://hooks.slack.com/services/x", "ftp://127.0.0.1/x"] {
            let slack = Slack::new(Ok(url.parse().unwrap()));
            let sent = slack.deliver(&json!({"text": "x"}), QUESTION).await;
            assert_eq!(sent, Err(NotifyError::Unusable), "{url}");
        }
    }
}
