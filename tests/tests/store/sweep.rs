use offset_guard::app::sweep;
use offset_guard::error::Error;
use offset_guard::store::Opened;
use offset_guard_tests::context::context_without_cluster;

use super::support::{Kind, Table, at, claim, execution, on_both_tables, recovery};

async fn a_sweep_that_leaves_something_open_fails(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let ctx = context_without_cluster(&store);
    let sweep = async |execution| sweep::sweep_recoveries(&ctx, execution).await;
    assert_eq!(sweep(None).await.unwrap().stuck, 0);
    let opened = store
        .open_recovery(&recovery(1), &claim(1, at(1000)), at(0))
        .await;
    assert_eq!(opened.unwrap(), Opened::Yes);
    // The event that says an execution ended comes once, and is tried again where it fails.
    for execution in [None, Some(&execution(1))] {
        let left = sweep(execution).await.unwrap_err();
        assert!(matches!(left, Error::Stuck { recoveries: 1 }), "{left}");
    }
}

on_both_tables! {
    a_sweep_that_leaves_something_open_fails,
}
