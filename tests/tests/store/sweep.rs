use aws_credential_types::Credentials;
use aws_sdk_sfn::config::retry::RetryConfig;
use aws_sdk_sfn::config::{BehaviorVersion, Region};
use offset_guard::app::sweep;
use offset_guard::error::Error;
use offset_guard::executions::Executions;
use offset_guard::slack::{Slack, SlackError};
use offset_guard::store::Opened;

use super::support::{Table, at, claim, recovery};

/// Step Functions, out of reach.
pub(crate) fn unreachable() -> Executions {
    let config = aws_sdk_sfn::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .retry_config(RetryConfig::disabled())
        // Nothing listens on the discard port.
        .endpoint_url("http://127.0.0.1:9")
        .build();
    Executions::new(aws_sdk_sfn::Client::from_conf(config))
}

#[tokio::test]
async fn a_sweep_that_leaves_something_open_fails() {
    let table = Table::new().await;
    let store = table.store();
    let slack = Slack::new(Err(SlackError::NotConfigured));
    let executions = unreachable();
    let sweep = async |execution| sweep::run(&store, &executions, "arn:m", &slack, execution).await;
    assert_eq!(sweep(None).await.unwrap().stuck, 0);
    let opened = store
        .open_recovery(&recovery(1), &claim(1, at(1000)), at(0))
        .await;
    assert_eq!(opened.unwrap(), Opened::Yes);
    // The event that says an execution ended comes once, and is tried again where it fails.
    for execution in [None, Some("execution-1")] {
        let left = sweep(execution).await.unwrap_err();
        assert!(matches!(left, Error::Stuck { recoveries: 1 }), "{left}");
    }
}
