use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};

use super::*;
use crate::executions::Executions;
use crate::page::{PageDeps, respond};
use crate::store::Store;

/// A page whose table and state machine cannot be reached: nothing listens at the address.
pub(super) async fn cut_off() -> PageDeps {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let credentials = Credentials::new("id", "secret", None, None, "test");
    let table = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-west-1"))
        .credentials_provider(credentials.clone())
        .retry_config(RetryConfig::disabled())
        .endpoint_url(&endpoint)
        .build();
    let machine = aws_sdk_sfn::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-west-1"))
        .credentials_provider(credentials)
        .retry_config(RetryConfig::disabled())
        .endpoint_url(&endpoint)
        .build();
    PageDeps {
        store: Store::new(
            aws_sdk_dynamodb::Client::from_conf(table),
            "table".to_owned(),
        ),
        executions: Executions::new(aws_sdk_sfn::Client::from_conf(machine)),
        form_key: key(),
        sign_in: None,
        public_url: public_url(),
        now,
    }
}

#[tokio::test]
async fn what_is_no_request_of_this_page_never_reaches_the_table() {
    let deps = cut_off().await;
    let link = link();
    assert_eq!(
        respond(&request(Method::GET, "no-link"), &deps)
            .await
            .status,
        404
    );
    assert_eq!(
        respond(&request(Method::PUT, link.expose()), &deps)
            .await
            .status,
        405
    );
    let foreign = request(Method::POST, link.expose());
    assert_eq!(respond(&foreign, &deps).await.status, 415);
}

#[tokio::test]
async fn a_table_out_of_reach_asks_to_try_again() {
    let deps = cut_off().await;
    let link = link();
    let get = respond(&request(Method::GET, link.expose()), &deps).await;
    assert_eq!(get.status, 503);
    assert!(get.body.contains("Try again in a few seconds"));
    assert_eq!(get.headers().get("retry-after").unwrap(), "5");

    let head = respond(&request(Method::HEAD, link.expose()), &deps).await;
    assert_eq!((head.status, head.body.as_str()), (503, ""));
    assert_eq!(head.headers(), get.headers());

    let post = respond(&post(link.expose(), &[("decision", "reject")]), &deps).await;
    assert_eq!(post.status, 503);
}
