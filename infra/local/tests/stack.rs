//! The whole stack: shared by the tests of a run, and side by side with one of one's own.

#![forbid(unsafe_code)]

use std::time::Duration;

use offset_guard_local::{
    Result,
    slack::Behaviour,
    stack::{BOOTSTRAP, Stack, StackOptions},
};
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(10);

fn options() -> StackOptions {
    StackOptions {
        config: format!("[clusters.local]\nbootstrap_servers = \"{BOOTSTRAP}\"\n"),
        ..StackOptions::default()
    }
}

async fn post(url: &str, text: &str) -> reqwest::Result<u16> {
    let client = reqwest::Client::builder()
        .no_proxy()
        .timeout(Duration::from_secs(1))
        .build()?;
    let answer = client
        .post(url)
        .json(&json!({ "text": text }))
        .send()
        .await?;
    Ok(answer.status().as_u16())
}

#[tokio::test]
async fn tests_share_a_stack_and_one_of_ones_own_stands_beside_it() -> Result<()> {
    let (shared, again, own) = tokio::join!(
        async { Stack::shared(&options()).await },
        async { Stack::shared(&options()).await },
        async { Stack::start(&options()).await },
    );
    let (shared, again, own) = (shared?, again?, own?);
    assert_eq!(shared.dir(), again.dir());
    assert_ne!(shared.cluster_id(), own.cluster_id());
    for stack in [&shared, &own] {
        assert!(
            stack
                .output("StateMachineArn")?
                .starts_with("arn:aws:states:")
        );
        stack.client().create_topic("stack", 1, &[]).await?;
        let topics = stack.cli()?.topics(&["--list"]).await?.stdout;
        assert!(topics.contains("stack"), "{topics}");
    }
    own.stop().await
}

#[tokio::test]
async fn the_slack_sink_stores_fails_and_hangs_as_it_is_told() -> Result<()> {
    let stack = Stack::start(&options()).await?;
    let sink = stack.slack();
    assert_eq!(post(sink.url(), "plan").await.unwrap(), 200);
    sink.behave(Behaviour::Fail)?;
    assert_eq!(post(sink.url(), "lost").await.unwrap(), 500);
    sink.behave(Behaviour::Hang)?;
    assert!(post(sink.url(), "lost").await.unwrap_err().is_timeout());
    sink.behave(Behaviour::Accept)?;
    assert_eq!(post(sink.url(), "result").await.unwrap(), 200);
    sink.until(LIMIT, |message| message["text"] == "result")
        .await?;
    assert_eq!(
        sink.messages()?,
        [json!({ "text": "plan" }), json!({ "text": "result" })]
    );
    stack.stop().await
}
