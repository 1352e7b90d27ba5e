//! A request for approval that Slack does not take at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use jiff::{SignedDuration, Timestamp};
use offset_guard::app::approval::{Asking, ToldLate, ask_again, request_approval};
use offset_guard::app::context::Context;
use offset_guard::domain::approval::{Approval, ApprovalStatus};
use offset_guard::domain::plan::{Plan, PlanResult};
use offset_guard::slack::Slack;
use offset_guard::store::{LinkHash, Opened, Store, TaskToken};
use offset_guard_tests::context::context_without_cluster;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use url::Url;

use super::support::{
    Kind, Table, at, claim, execution, on_both_tables, plan, plan_id, record, recovery,
};

/// A Slack that takes messages or has had too many for an hour, and how many it took.
struct Channel {
    slack: Arc<Slack>,
    full: Arc<AtomicBool>,
    taken: Arc<AtomicUsize>,
}

impl Channel {
    async fn full() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (full, taken) = (Arc::new(AtomicBool::new(true)), Arc::default());
        let (is_full, count): (_, Arc<AtomicUsize>) = (Arc::clone(&full), Arc::clone(&taken));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = vec![0; 64 * 1024];
                let _ = stream.read(&mut request).await;
                let status = if is_full.load(Ordering::SeqCst) {
                    "429 Too Many Requests\r\nRetry-After: 3600"
                } else {
                    count.fetch_add(1, Ordering::SeqCst);
                    "200 OK"
                };
                let answer =
                    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        Self {
            slack: Arc::new(Slack::new(Ok(url.parse().unwrap()))),
            full,
            taken,
        }
    }
}

/// A plan that may be decided for `seconds` more, and whose execution waits for it.
async fn waiting(store: &Store, seconds: i64) {
    let plan = Plan {
        approve_by: Timestamp::now() + SignedDuration::from_secs(seconds),
        ..plan(plan_id(1), 2)
    };
    let record = record(1, PlanResult::Ready(plan));
    store.put_plan(&record).await.unwrap();
    let opened = store
        .open_recovery(&recovery(1), &claim(1, at(1000)), at(0))
        .await;
    assert_eq!(opened.unwrap(), Opened::Yes);
}

async fn newest(store: &Store) -> (LinkHash, Approval) {
    store.approval_of(&plan_id(1)).await.unwrap().unwrap()
}

async fn what_slack_has_no_room_for_is_asked_again_by_the_sweep_until_it_is_told(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    waiting(&store, 3_000).await;
    let channel = Channel::full().await;
    let ctx = Context {
        notifier: channel.slack.clone(),
        ..context_without_cluster(&store)
    };
    let public_url = Url::parse("http://127.0.0.1/").unwrap();
    let asking = Asking {
        public_url: &public_url,
        swept: true,
    };
    let token = TaskToken::new("token-1".to_owned());
    // Nothing is told to the execution, which is out of reach here: it waits on.
    let plan = plan_id(1);
    request_approval(&ctx, asking, &execution(1), &plan, &token)
        .await
        .unwrap();
    let (first, approval) = newest(&store).await;
    assert_eq!(approval.status, ApprovalStatus::Pending);

    let again = async || ask_again(&ctx, asking).await.unwrap();
    assert_eq!(again().await, ToldLate::default());
    let (second, _) = newest(&store).await;
    assert_ne!(second, first);
    channel.full.store(false, Ordering::SeqCst);
    let told = ToldLate {
        asked: 1,
        given_up: 0,
    };
    assert_eq!(again().await, told);
    assert_eq!(channel.taken.load(Ordering::SeqCst), 1);
    let (third, told) = newest(&store).await;
    assert_eq!(told.status, ApprovalStatus::Pending);
    assert!(told.approve_by <= approval.approve_by);
    let kept = store.task_token(&third).await.unwrap();
    assert_eq!(kept.unwrap().expose(), "token-1");
    for link in [first, second] {
        let before = store.approval(&link).await.unwrap().unwrap();
        assert_eq!(before.status, ApprovalStatus::Superseded);
    }

    // And then no more.
    assert_eq!(again().await, ToldLate::default());
    assert_eq!(newest(&store).await.0, third);
    assert_eq!(channel.taken.load(Ordering::SeqCst), 1);
}

/// The execution is out of reach here, so that its end shows as an error.
async fn what_nobody_can_be_told_of_in_time_or_by_a_sweep_fails_its_task(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    waiting(&store, 100).await;
    let channel = Channel::full().await;
    let ctx = Context {
        notifier: channel.slack.clone(),
        ..context_without_cluster(&store)
    };
    let public_url = Url::parse("http://127.0.0.1/").unwrap();
    let asking = |swept| Asking {
        public_url: &public_url,
        swept,
    };
    let token = TaskToken::new("token-1".to_owned());
    let ask = async |swept| {
        let plan = plan_id(1);
        request_approval(&ctx, asking(swept), &execution(1), &plan, &token).await
    };
    assert!(ask(false).await.is_err());
    ask(true).await.unwrap();
    let given_up = ask_again(&ctx, asking(true)).await;
    assert!(given_up.is_err(), "{given_up:?}");
}

on_both_tables! {
    what_slack_has_no_room_for_is_asked_again_by_the_sweep_until_it_is_told,
    what_nobody_can_be_told_of_in_time_or_by_a_sweep_fails_its_task,
}
