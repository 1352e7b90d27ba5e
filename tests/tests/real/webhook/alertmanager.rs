//! Alertmanager itself, with the configuration that people paste.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use offset_guard_local::alertmanager::Alertmanager;
use offset_guard_tests::Outcome;
use offset_guard_tests::loopback::Server;
use serde_json::{Value, json};

use super::stage::{Stage, secret, until};
use crate::asked::Result;

/// What Alertmanager was answered, in order, and what it is answered next instead.
#[derive(Debug, Clone, Default)]
struct Front {
    answered: Arc<Mutex<Vec<u16>>>,
}

impl Front {
    fn answered(&self) -> Vec<u16> {
        let answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        answered.clone()
    }

    /// Waits until so many were answered.
    async fn until(&self, count: usize) -> Outcome {
        until("Alertmanager to be answered", async || {
            Ok((self.answered().len() >= count).then_some(()))
        })
        .await
    }
}

/// Alertmanager reaches the API through this, since it looks up no name of `*.localhost`.
async fn front(stage: &Stage) -> Result<(Front, Server)> {
    let front = Front::default();
    let (answered, http, api) = (
        front.answered.clone(),
        stage.http.clone(),
        stage.api.clone(),
    );
    let server = Server::start(move |request| {
        let (answered, http, api) = (answered.clone(), http.clone(), api.clone());
        async move {
            let header = |name: &str| request.headers.get(name).cloned().unwrap_or_default();
            let sent = http
                .post(format!("{api}{}", request.path))
                .header("authorization", header("authorization"))
                .header("content-type", header("content-type"))
                .body(request.body.clone())
                .send()
                .await;
            let (status, body) = match sent {
                Ok(answer) => (
                    answer.status().as_u16(),
                    answer.text().await.unwrap_or_default(),
                ),
                Err(error) => (502, error.to_string()),
            };
            let mut answered = answered.lock().unwrap_or_else(PoisonError::into_inner);
            answered.push(status);
            (status, body)
        }
    })
    .await?;
    Ok((front, server))
}

/// The snippet that people paste, with this front, this secret, and times that a test can wait for.
fn alertmanager_config(front: &str, sender: &str, secret: &str) -> Result<String> {
    let mut config = std::fs::read_to_string(snippet())?;
    for (written, here) in [
        (
            "https://API_ID.execute-api.eu-west-1.amazonaws.com/webhooks/alertmanager",
            format!("{front}/webhooks/{sender}"),
        ),
        (
            "credentials_file: /etc/alertmanager/offset-guard-secret",
            format!("credentials: {secret}"),
        ),
        ("group_wait: 30s", "group_wait: 1s".to_owned()),
        ("group_interval: 5m", "group_interval: 5s".to_owned()),
        ("repeat_interval: 4h", "repeat_interval: 5s".to_owned()),
    ] {
        assert!(config.contains(written), "the snippet has no {written}");
        config = config.replace(written, &here);
    }
    Ok(config)
}

fn snippet() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/snippets/alertmanager.yml")
}

#[test]
fn the_snippet_is_right_as_it_stands() -> Outcome {
    let checked = Command::new("amtool")
        .arg("check-config")
        .arg(snippet())
        .output()?;
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "{said}");
    Ok(())
}

fn prometheus(group: &str, since: Timestamp, until: Option<Timestamp>) -> Value {
    let mut alert = json!({
        "labels": {"alertname": "ConsumerGroupStuck", "cluster": "main", "consumergroup": group},
        "annotations": {"summary": "stuck"}, "startsAt": since,
        "generatorURL": "http://127.0.0.1/graph",
    });
    if let Some(until) = until {
        alert["endsAt"] = json!(until);
    }
    json!([alert])
}

#[tokio::test(flavor = "multi_thread")]
async fn alertmanager_itself() -> Outcome {
    let stage = Stage::start().await?;
    fires_repeats_and_resolves(&stage).await?;
    two_replicas_are_one_run(&stage).await?;
    a_first_503_loses_nothing(&stage).await?;
    a_failed_run_is_tried_again(&stage).await?;
    what_is_final_is_not_sent_again(&stage).await?;
    stage.world.stack.stop().await?;
    Ok(())
}

async fn fires_repeats_and_resolves(stage: &Stage) -> Outcome {
    let (front, server) = front(stage).await?;
    let config = alertmanager_config(&server.url, "am", &secret("am"))?;
    let alertmanager = Alertmanager::start(&config).await?;
    let (group, since) = (stage.group(), Timestamp::now());
    alertmanager.post(&prometheus(&group, since, None)).await?;
    let event = until("the run", async || Ok(stage.lambda.taken(&group).pop())).await?;
    front.until(1).await?;
    assert_eq!(front.answered()[0], 202);
    stage.run(&event, true).await?;
    // It repeats every 5 s, and the end of the run covers 4.
    until("a repetition that is one", async || {
        Ok((stage.lambda.taken(&group).len() == 2).then_some(()))
    })
    .await?;
    // The second run is still under way: repetitions are duplicates.
    until("a duplicate", async || {
        Ok((front.answered().last() == Some(&200)).then_some(()))
    })
    .await?;
    alertmanager
        .post(&prometheus(&group, since, Some(Timestamp::now())))
        .await?;
    front.until(front.answered().len() + 1).await?;
    assert_eq!(stage.lambda.taken(&group).len(), 2);
    assert!(
        front
            .answered()
            .iter()
            .all(|status| [200, 202].contains(status))
    );
    alertmanager.stop().await?;
    Ok(())
}

async fn two_replicas_are_one_run(stage: &Stage) -> Outcome {
    let (front, server) = front(stage).await?;
    let config = alertmanager_config(&server.url, "am", &secret("am"))?;
    let one = Alertmanager::start(&config).await?;
    let two = Alertmanager::start(&config).await?;
    let group = stage.group();
    let alert = prometheus(&group, Timestamp::now(), None);
    let (first, second) = tokio::join!(one.post(&alert), two.post(&alert));
    first?;
    second?;
    front.until(2).await?;
    let mut answered = front.answered();
    answered.truncate(2);
    answered.sort_unstable();
    assert_eq!(answered, [200, 202]);
    assert_eq!(stage.lambda.taken(&group).len(), 1);
    one.stop().await?;
    two.stop().await?;
    Ok(())
}

async fn a_first_503_loses_nothing(stage: &Stage) -> Outcome {
    let (front, server) = front(stage).await?;
    let config = alertmanager_config(&server.url, "am", &secret("am"))?;
    let alertmanager = Alertmanager::start(&config).await?;
    let group = stage.group();
    stage.lambda.throttle(3);
    alertmanager
        .post(&prometheus(&group, Timestamp::now(), None))
        .await?;
    until("the run", async || Ok(stage.lambda.taken(&group).pop())).await?;
    front.until(2).await?;
    assert_eq!(front.answered()[..2], [503, 202]);
    assert_eq!(stage.lambda.taken(&group).len(), 1);
    alertmanager.stop().await?;
    Ok(())
}

async fn a_failed_run_is_tried_again(stage: &Stage) -> Outcome {
    let (front, server) = front(stage).await?;
    let config = alertmanager_config(&server.url, "am", &secret("am"))?;
    let alertmanager = Alertmanager::start(&config).await?;
    let group = stage.group();
    alertmanager
        .post(&prometheus(&group, Timestamp::now(), None))
        .await?;
    let event = until("the run", async || Ok(stage.lambda.taken(&group).pop())).await?;
    stage.run(&event, false).await?;
    until("the run after the failed one", async || {
        Ok((stage.lambda.taken(&group).len() == 2).then_some(()))
    })
    .await?;
    front.until(2).await?;
    assert_eq!(front.answered()[..2], [202, 202]);
    alertmanager.stop().await?;
    Ok(())
}

/// What cannot come right by sending it again is not: Alertmanager counts it as failed, and starts nothing.
async fn what_is_final_is_not_sent_again(stage: &Stage) -> Outcome {
    for (sender, offered, status) in [
        ("am", "not-the-secret-of-anybody".to_owned(), 401),
        ("plain", secret("plain"), 400),
    ] {
        let (front, server) = front(stage).await?;
        let config = alertmanager_config(&server.url, sender, &offered)?;
        let alertmanager = Alertmanager::start(&config).await?;
        let group = stage.group();
        alertmanager
            .post(&prometheus(&group, Timestamp::now(), None))
            .await?;
        let counted = async |name: &str| {
            let metrics = alertmanager.metrics().await?;
            let name = format!("alertmanager_{name}{{integration=\"webhook\"");
            let line = metrics.lines().find(|line| line.starts_with(&name));
            let value = line.and_then(|line| line.rsplit(' ').next()?.parse::<u32>().ok());
            Ok::<_, Box<dyn std::error::Error>>(value.unwrap_or_default())
        };
        until("the answer to be counted", async || {
            let failed = counted("notifications_failed_total").await?;
            Ok((failed > 0).then_some(()))
        })
        .await?;
        // One request for each time that it was to be told.
        let requests = counted("notification_requests_total").await?;
        assert!((1..=counted("notifications_total").await?).contains(&requests));
        assert!(front.answered().iter().all(|answered| *answered == status));
        assert_eq!(stage.lambda.taken(&group), Vec::<Value>::new());
        assert_eq!(stage.incident(&group).await?, None);
        alertmanager.stop().await?;
    }
    Ok(())
}
