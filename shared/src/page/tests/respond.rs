use std::sync::Arc;

use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};

use serde_json::{Value, json};

use super::*;
use crate::aws::step_functions::StepFunctions;
use crate::page::{PageDeps, handle, respond};
use crate::store::{DynamoTable, Store};

/// A page whose table and state machine cannot be reached: nothing listens at the address.
pub(super) async fn cut_off() -> PageDeps {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    with_table_at(&endpoint)
}

/// A page whose table and state machine are asked at this address.
pub(super) fn with_table_at(endpoint: &str) -> PageDeps {
    let credentials = Credentials::new("id", "secret", None, None, "test");
    let table = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-west-1"))
        .credentials_provider(credentials.clone())
        .retry_config(RetryConfig::disabled())
        .endpoint_url(endpoint)
        .build();
    let machine = aws_sdk_sfn::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-west-1"))
        .credentials_provider(credentials)
        .retry_config(RetryConfig::disabled())
        .endpoint_url(endpoint)
        .build();
    PageDeps {
        store: Store::new(DynamoTable::new(
            aws_sdk_dynamodb::Client::from_conf(table),
            "table".to_owned(),
        )),
        executions: Arc::new(StepFunctions::new(
            aws_sdk_sfn::Client::from_conf(machine),
            String::new(),
        )),
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
    assert_eq!(get.headers.get("retry-after").unwrap(), "5");

    let head = respond(&request(Method::HEAD, link.expose()), &deps).await;
    assert_eq!((head.status, head.body.as_str()), (503, ""));
    assert_eq!(head.headers, get.headers);

    let post = respond(&post(link.expose(), &[("decision", "reject")]), &deps).await;
    assert_eq!(post.status, 503);
}

/// An event of the HTTP API: no link, so that the table is not asked.
fn event() -> Value {
    json!({
        "version": "2.0",
        "rawPath": "/approvals/no-link",
        "headers": { "accept": "text/html" },
        "cookies": ["a=b"],
        "requestContext": { "http": { "method": "GET", "path": "/approvals/no-link" } },
        "isBase64Encoded": false,
    })
}

#[tokio::test]
async fn whatever_is_sent_is_answered_and_never_a_failed_invocation() {
    let deps = cut_off().await;
    let link = format!("/approvals/{}", link().expose());
    let post = json!({ "http": { "method": "POST", "path": link } });
    for (pointer, value, status) in [
        ("/version", json!("2.0"), 404),
        ("/headers/accept", json!("é"), 404),
        ("/headers/accept", json!("a\u{7f}"), 404),
        ("/headers/accept", json!("a\r\nb"), 404),
        ("/headers/accept", json!(["a", "é", "\u{1}"]), 404),
        ("/headers/accept", json!(["a", 7]), 404),
        ("/headers/accept", Value::Null, 404),
        ("/headers", json!({ "é": "a", "": "a", "a b": "c" }), 404),
        ("/headers", Value::Null, 404),
        ("/cookies", json!(["é=1", "a\nb", 7, "a=b"]), 404),
        ("/cookies", Value::Null, 404),
        ("/headers", json!(7), 400),
        ("/cookies", json!({}), 400),
        ("/requestContext", Value::Null, 400),
        ("/requestContext", json!({}), 400),
        ("/requestContext/http/method", json!("G T"), 400),
        ("", json!("no event"), 400),
        ("", Value::Null, 400),
    ] {
        let mut event = event();
        *event.pointer_mut(pointer).unwrap() = value.clone();
        let answer = handle(event, &deps).await;
        assert_eq!(answer.status_code, status, "{pointer} {value}");
    }
    let mut bare = event();
    bare.as_object_mut().unwrap().remove("requestContext");
    assert_eq!(handle(bare, &deps).await.status_code, 400);

    let mut garbled = event();
    garbled["rawPath"] = json!(link);
    garbled["requestContext"] = post;
    garbled["headers"] = json!({ "content-type": "application/x-www-form-urlencoded" });
    garbled["isBase64Encoded"] = json!(true);
    garbled["body"] = json!("%%%");
    let answer = handle(garbled, &deps).await;
    assert!((400..500).contains(&answer.status_code), "{answer:?}");
}

#[test]
fn what_can_be_read_of_a_request_is_read_beside_what_cannot() {
    let mut sent = event();
    sent["headers"] = json!({ "X-A": "é", "X-B": "a\u{7f}", "Origin": "https://guard.example", "accept": ["a", "é"] });
    sent["cookies"] = json!(["é=1", "a=b"]);
    let request = Request::from_event(sent).unwrap();
    let header = |name| request.header(name);
    assert_eq!(header("origin"), Some("https://guard.example"));
    // Headers are plain text, so that what is odd about one is seen by whoever reads it.
    assert_eq!((header("x-a"), header("accept")), (Some("é"), Some("a, é")));
    assert_eq!(header("x-b"), Some("a\u{7f}"));
    assert_eq!(request.cookie("a"), Some("b"));
}
