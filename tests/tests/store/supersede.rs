use offset_guard::domain::approval::ApprovalStatus;
use offset_guard::domain::recovery::Recovery;
use offset_guard::store::{Decided, Lapse, Opened, Reporter, Store};

use super::approvals::{approve, link, request, status};
use super::audits::audit;
use super::support::{
    Kind, Table, at, claim, execution, group_key, on_both_tables, plan_id, race, recovery,
};

/// The recovery 1, which waits for its approval where `asked`.
async fn waiting(store: &Store, asked: bool) {
    let opened = store
        .open_recovery(&recovery(1), &claim(1, at(1000)), at(0))
        .await;
    assert_eq!(opened.unwrap(), Opened::Yes);
    if asked {
        request(store, 1).await;
    }
}

/// Lets the recovery `n` take the place of recovery 1.
async fn supersede(store: &Store, n: usize) -> bool {
    let (by, held) = (claim(n, at(2000)), claim(1, at(1000)));
    store
        .supersede_recovery(&recovery(n), &by, &held)
        .await
        .unwrap()
}

/// That recovery 1 is as it was, and 2 is not there.
async fn nothing_happened(store: &Store, there: &Recovery) {
    let held = store.claim(&group_key()).await.unwrap();
    assert_eq!(held, Some(claim(1, at(1000))));
    let now = store.recovery(&plan_id(1)).await.unwrap();
    assert_eq!(now.as_ref(), Some(there));
    assert_eq!(store.recovery(&plan_id(2)).await.unwrap(), None);
    assert_eq!(store.open_recoveries().await.unwrap().len(), 1);
}

async fn a_recovery_that_waits_gives_way_and_can_never_be_approved_or_applied(on: Kind) {
    for asked in [true, false] {
        let table = Table::new(on).await;
        let store = table.store();
        waiting(&store, asked).await;
        assert!(supersede(&store, 2).await);
        let held = store.claim(&group_key()).await.unwrap();
        assert_eq!(held, Some(claim(2, at(2000))));
        let new = store.recovery(&plan_id(2)).await.unwrap();
        assert_eq!(new, Some(recovery(2)));
        let old = store.recovery(&plan_id(1)).await.unwrap();
        let superseded = Recovery {
            fence: 1,
            superseded_by: Some(plan_id(2)),
            ..recovery(1)
        };
        assert_eq!(old, Some(superseded));
        assert!(!store.begin_apply(&plan_id(1), at(60)).await.unwrap());
        let renewed = store
            .renew_claim(&group_key(), &execution(1), at(3000))
            .await;
        assert!(!renewed.unwrap());
        if asked {
            let decided = approve(&store, 1, "ada", 10).await;
            let Decided::Already(stands) = decided else {
                panic!("{decided:?}");
            };
            assert_eq!(stands.status, ApprovalStatus::Superseded);
        }
        // Until it reports, the sweep finds it; and it does not take the other's place again.
        let mut open = store.open_recoveries().await.unwrap();
        open.sort();
        assert_eq!(open.len(), 2);
        assert_eq!(open[0], (plan_id(1), execution(1)));
        assert!(!supersede(&store, 3).await);
    }
}

async fn a_recovery_that_is_decided_admitted_or_over_stays(on: Kind) {
    for how in ["approved", "expired", "admitted", "fenced", "another claim"] {
        let table = Table::new(on).await;
        let store = table.store();
        waiting(&store, true).await;
        match how {
            "approved" => {
                approve(&store, 1, "ada", 10).await;
            }
            "expired" => {
                let closed = store.close_approval(&link(1), Lapse::Expired).await;
                assert_eq!(closed.unwrap().status, ApprovalStatus::Expired);
            }
            "admitted" => store.set_apply_by(&plan_id(1), at(600)).await.unwrap(),
            "fenced" => {
                store.raise_fence(&plan_id(1), &execution(1)).await.unwrap();
            }
            _ => {}
        }
        let there = store.recovery(&plan_id(1)).await.unwrap().unwrap();
        let before = status(&store, 1).await;
        if how == "another claim" {
            let (by, held) = (claim(2, at(2000)), claim(9, at(1000)));
            let superseded = store.supersede_recovery(&recovery(2), &by, &held).await;
            assert!(!superseded.unwrap());
        } else {
            assert!(!supersede(&store, 2).await, "{how}");
        }
        nothing_happened(&store, &there).await;
        assert_eq!(status(&store, 1).await, before, "{how}");
    }
}

async fn of_a_decision_and_a_request_at_the_same_moment_one_stands(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    waiting(&store, true).await;
    // The first is the person who decides, the others ask for plans of their own.
    let outcomes = race(|n| {
        let store = store.clone();
        async move {
            if n == 0 {
                matches!(approve(&store, 1, "ada", 10).await, Decided::Now(_))
            } else {
                supersede(&store, n + 1).await
            }
        }
    })
    .await;
    let winners = outcomes.iter().filter(|won| **won).count();
    assert_eq!(winners, 1, "{outcomes:?}");
    let approved = status(&store, 1).await == ApprovalStatus::Approved;
    assert_eq!(approved, outcomes[0]);
    let open = store.open_recoveries().await.unwrap();
    assert_eq!(open.len(), if approved { 1 } else { 2 });
}

async fn the_end_of_a_superseded_recovery_leaves_the_other_its_group(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    waiting(&store, true).await;
    assert!(supersede(&store, 2).await);
    let own = Reporter::Itself(&[]);
    store.close(&audit(1, None), own).await.unwrap();
    let held = store.claim(&group_key()).await.unwrap();
    assert_eq!(held, Some(claim(2, at(2000))));
    let open = store.open_recoveries().await.unwrap();
    assert_eq!(open, [(plan_id(2), execution(2))]);
}

on_both_tables! {
    a_recovery_that_waits_gives_way_and_can_never_be_approved_or_applied,
    a_recovery_that_is_decided_admitted_or_over_stays,
    of_a_decision_and_a_request_at_the_same_moment_one_stands,
    the_end_of_a_superseded_recovery_leaves_the_other_its_group,
}
