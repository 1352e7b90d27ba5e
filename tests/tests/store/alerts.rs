use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use offset_guard::app::alert;
use offset_guard::app::context::Context;
use offset_guard::domain::audit::AuditStatus;
use offset_guard::ports::NotifyError;
use offset_guard::slack::Slack;
use offset_guard::wire::guard::AlertRef;
use offset_guard_tests::context::context_without_cluster;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::guard_runs::run;
use super::support::{Kind, Table, at, execution, on_both_tables};

/// A Slack on loopback that takes everything, and how often it did.
async fn slack() -> (Arc<Slack>, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let told = Arc::new(AtomicUsize::new(0));
    let count = told.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 16 * 1024];
            let _ = stream.read(&mut request).await;
            count.fetch_add(1, Ordering::SeqCst);
            let taken = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            stream.write_all(taken).await.unwrap();
        }
    });
    (Arc::new(Slack::new(Ok(url.parse().unwrap()))), told)
}

async fn an_alert_that_reached_nobody_is_told_by_the_next_report_and_then_no_more(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let found = run(1, at(0));
    store.put_guard_run(&found).await.unwrap();
    let alert = AlertRef {
        run_id: found.id,
        at: found.at,
        cluster: found.cluster,
        group: found.group,
    };
    let tell = async |slack: &Arc<Slack>| {
        let ctx = Context {
            notifier: slack.clone(),
            ..context_without_cluster(&store)
        };
        let reported = alert::report_run(&ctx, &execution(1), &alert).await;
        reported.unwrap().status
    };
    // The audit record is written, and nothing more: as where the report was cut off in between.
    let nobody = Arc::new(Slack::new(Err(NotifyError::NotConfigured)));
    assert_eq!(tell(&nobody).await, AuditStatus::Failed);
    assert_eq!(tell(&nobody).await, AuditStatus::Failed);
    assert!(!store.audit_told(&execution(1)).await.unwrap());

    let (slack, told) = slack().await;
    for _ in 0..3 {
        assert_eq!(tell(&slack).await, AuditStatus::Succeeded);
        assert_eq!(told.load(Ordering::SeqCst), 1);
    }
    assert!(store.audit_told(&execution(1)).await.unwrap());
    assert!(!store.audit_told(&execution(2)).await.unwrap());
    // It stays on record for as long as the audit record, which is as it was.
    let items = table.items("AUDITOF#execution-1").await;
    assert_eq!(items.len(), 2);
    assert!(items.iter().all(|item| !item.contains_key("ttl")));
    let audit = store.audit_of(&execution(1)).await.unwrap().unwrap();
    assert_eq!(audit.status, AuditStatus::Succeeded);
}

on_both_tables! {
    an_alert_that_reached_nobody_is_told_by_the_next_report_and_then_no_more,
}
