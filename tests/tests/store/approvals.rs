use offset_guard::domain::approval::{Approval, ApprovalStatus, Decision};
use offset_guard::domain::plan::PlanDigest;
use offset_guard::failure::ErrorClass;
use offset_guard::store::{Decided, Lapse, LinkHash, Store, TaskToken};

use super::support::{Kind, Table, at, execution, hours, on_both_tables, plan_id, race};

fn digest() -> PlanDigest {
    PlanDigest("c0ffee".to_owned())
}

fn approval() -> Approval {
    Approval {
        plan: plan_id(1),
        digest: digest(),
        execution: execution(1),
        created_at: at(0),
        approve_by: at(3600),
        status: ApprovalStatus::Pending,
        decision: None,
        from_dry_run: false,
        decided_by: None,
        decider: None,
        decided_at: None,
        reason: None,
        delivered_at: None,
    }
}

fn token(n: usize) -> TaskToken {
    TaskToken::new(format!("token-{n}"))
}

pub(crate) fn link(n: usize) -> LinkHash {
    LinkHash::of(&format!("link-{n}"))
}

pub(crate) async fn request(store: &Store, n: usize) {
    let requested = store
        .request_approval(&approval(), &link(n), &token(n))
        .await;
    requested.unwrap();
}

pub(crate) async fn approve(store: &Store, n: usize, by: &str, seconds: i64) -> Decided {
    store
        .decide(
            &link(n),
            &digest(),
            Decision::Approve,
            by,
            "looks right",
            at(seconds),
        )
        .await
        .unwrap()
}

pub(crate) async fn status(store: &Store, n: usize) -> ApprovalStatus {
    store.approval(&link(n)).await.unwrap().unwrap().status
}

async fn a_request_comes_back_by_its_link_and_by_its_plan(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    assert_eq!(store.approval(&link(1)).await.unwrap(), None);
    assert_eq!(store.approval_of(&plan_id(1)).await.unwrap(), None);
    assert_eq!(store.task_token(&link(1)).await.unwrap(), None);
    request(&store, 1).await;
    assert_eq!(store.approval(&link(1)).await.unwrap(), Some(approval()));
    let by_plan = store.approval_of(&plan_id(1)).await.unwrap();
    assert_eq!(by_plan, Some((link(1), approval())));
    assert_eq!(store.task_token(&link(1)).await.unwrap(), Some(token(1)));
}

async fn neither_the_link_nor_the_token_lies_where_an_approval_is_read(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    request(&store, 1).await;
    let hash = link(1).as_str().to_owned();
    assert_eq!(hash.len(), 64);
    let items = table.items(&format!("APPROVAL#{hash}")).await;
    let texts: Vec<_> = items.iter().map(|item| format!("{item:?}")).collect();
    assert!(texts.iter().all(|item| !item.contains("link-1")));
    // In one item, which only the question for the token reads.
    let with_token = texts.iter().filter(|item| item.contains("token-1"));
    assert_eq!((texts.len(), with_token.count()), (2, 1));
    assert!(!format!("{:?}", token(1)).contains("token-1"));
    for item in items {
        let ttl: i64 = item["ttl"].as_n().unwrap().parse().unwrap();
        assert_eq!(ttl, (at(3600) + hours(90 * 24)).as_second());
    }
}

async fn of_twenty_decisions_one_stands_and_the_others_are_told(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    request(&store, 1).await;
    let outcomes = race(|n| {
        let store = store.clone();
        async move {
            // All at the same instant, half of them the other way.
            let decision = [Decision::Approve, Decision::Reject][n % 2];
            let by = format!("person {n}");
            store
                .decide(
                    &link(1),
                    &digest(),
                    decision,
                    by.as_str(),
                    "because",
                    at(10),
                )
                .await
                .unwrap()
        }
    })
    .await;
    let stands = store.approval(&link(1)).await.unwrap().unwrap();
    assert_eq!(stands.decided_at, Some(at(10)));
    let now = Decided::Now(stands.clone());
    let winners: Vec<_> = (0..20).filter(|n| outcomes[*n] == now).collect();
    assert_eq!(winners.len(), 1, "{outcomes:?}");
    assert_eq!(stands.decided_by, Some(format!("person {}", winners[0])));
    let already = Decided::Already(stands);
    assert_eq!(outcomes.iter().filter(|o| **o == already).count(), 19);
}

async fn a_decision_says_who_when_and_why(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    request(&store, 1).await;
    let expected = Approval {
        status: ApprovalStatus::Approved,
        decision: Some(Decision::Approve),
        decided_by: Some("grace".to_owned()),
        decided_at: Some(at(10)),
        reason: Some("looks right".to_owned()),
        ..approval()
    };
    assert_eq!(
        approve(&store, 1, "grace", 10).await,
        Decided::Now(expected.clone())
    );
    assert_eq!(
        approve(&store, 1, "mallory", 11).await,
        Decided::Already(expected)
    );
}

async fn too_late_or_for_another_plan_decides_nothing(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    request(&store, 1).await;
    let pending = Decided::Already(approval());
    assert_eq!(approve(&store, 1, "grace", 3600).await, pending);
    assert_eq!(approve(&store, 1, "grace", 9999).await, pending);
    let other = PlanDigest("other".to_owned());
    let decided = store
        .decide(&link(1), &other, Decision::Approve, "grace", "", at(10))
        .await;
    assert_eq!(decided.unwrap(), pending);
    let unknown = store
        .decide(&link(9), &digest(), Decision::Approve, "grace", "", at(10))
        .await;
    assert_eq!(unknown.unwrap_err().class, ErrorClass::Conflict);
    assert_eq!(store.approval(&link(9)).await.unwrap(), None);
    // The last moment before its end is in time.
    assert!(matches!(
        approve(&store, 1, "grace", 3599).await,
        Decided::Now(_)
    ));
}

async fn an_end_without_a_decision_never_undoes_one(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    request(&store, 1).await;
    let end = async |how| store.close_approval(&link(1), how).await.unwrap().status;
    assert!(matches!(
        approve(&store, 1, "grace", 10).await,
        Decided::Now(_)
    ));
    assert_eq!(end(Lapse::Expired).await, ApprovalStatus::Approved);
    let unknown = store.close_approval(&link(9), Lapse::Expired).await;
    assert_eq!(unknown.unwrap_err().class, ErrorClass::Conflict);
}

async fn an_end_is_final_too(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    request(&store, 1).await;
    let end = async |how| store.close_approval(&link(1), how).await.unwrap().status;
    assert_eq!(end(Lapse::Expired).await, ApprovalStatus::Expired);
    assert_eq!(end(Lapse::Superseded).await, ApprovalStatus::Expired);
    let late = approve(&store, 1, "grace", 10).await;
    assert!(matches!(late, Decided::Already(a) if a.status == ApprovalStatus::Expired));
}

async fn a_decision_and_an_end_at_once_agree_on_one(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    for n in 0..10 {
        let a = Approval {
            plan: plan_id(n),
            ..approval()
        };
        let requested = store.request_approval(&a, &link(n), &token(n)).await;
        requested.unwrap();
        let at_once = link(n);
        let (decided, closed) = tokio::join!(
            approve(&store, n, "grace", 10),
            store.close_approval(&at_once, Lapse::Expired)
        );
        let stands = store.approval(&link(n)).await.unwrap().unwrap();
        let (Decided::Now(told) | Decided::Already(told)) = decided;
        assert_eq!((&told, &closed.unwrap()), (&stands, &stands));
    }
}

async fn a_second_request_of_a_plan_supersedes_a_pending_one_alone(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    request(&store, 1).await;
    request(&store, 2).await;
    assert_eq!(status(&store, 1).await, ApprovalStatus::Superseded);
    let late = approve(&store, 1, "grace", 10).await;
    assert!(matches!(late, Decided::Already(a) if a.status == ApprovalStatus::Superseded));
    assert!(matches!(
        approve(&store, 2, "grace", 10).await,
        Decided::Now(_)
    ));
    let newest = store.approval_of(&plan_id(1)).await.unwrap().unwrap();
    assert_eq!(
        (newest.0, newest.1.status),
        (link(2), ApprovalStatus::Approved)
    );
    // A link is good for one request, of whatever plan and whether it is the newest or not.
    let of_another = Approval {
        plan: plan_id(2),
        ..approval()
    };
    for (again, n) in [(approval(), 2), (approval(), 1), (of_another, 2)] {
        let again = store.request_approval(&again, &link(n), &token(4)).await;
        assert_eq!(again.unwrap_err().class, ErrorClass::Conflict);
        assert_eq!(store.task_token(&link(n)).await.unwrap(), Some(token(n)));
    }
    assert_eq!(store.approval_of(&plan_id(2)).await.unwrap(), None);
}

async fn what_a_person_has_decided_is_asked_of_nobody_else(on: Kind) {
    for (decision, stands) in [
        (Decision::Reject, ApprovalStatus::Rejected),
        (Decision::Approve, ApprovalStatus::Approved),
    ] {
        let table = Table::new(on).await;
        let store = table.store();
        request(&store, 1).await;
        let (first, second, digest) = (link(1), link(2), digest());
        let decided = store.decide(&first, &digest, decision, "grace", "why", at(10));
        assert!(matches!(decided.await, Ok(Decided::Now(_))));
        // An execution that is redriven asks again, and so does a sweep that saw no decision a moment ago.
        let (asked, token) = (approval(), token(2));
        let again = store.request_approval(&asked, &second, &token);
        let error = again.await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Conflict, "{error}");
        assert_eq!(store.approval(&link(2)).await.unwrap(), None);
        assert_eq!(store.task_token(&link(2)).await.unwrap(), None);
        let (newest, approval) = store.approval_of(&plan_id(1)).await.unwrap().unwrap();
        assert_eq!((newest, approval.stands()), (link(1), stands));
    }
}

async fn of_twenty_requests_of_one_plan_one_is_pending_in_the_end(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let outcomes = race(|n| {
        let store = store.clone();
        async move {
            let requested = store
                .request_approval(&approval(), &link(n), &token(n))
                .await;
            requested.map_err(|error| error.class)
        }
    })
    .await;
    // Who does not get through in this crowd is told to come again.
    let transient = |o: &Result<(), ErrorClass>| matches!(o, Ok(()) | Err(ErrorClass::Transient));
    assert!(outcomes.iter().all(transient), "{outcomes:?}");
    let mut pending = Vec::new();
    for (n, outcome) in outcomes.iter().enumerate() {
        let there = store.approval(&link(n)).await.unwrap();
        assert_eq!(there.is_some(), outcome.is_ok());
        if there.is_some_and(|a| a.status == ApprovalStatus::Pending) {
            pending.push(link(n));
        }
    }
    let (newest, _) = store.approval_of(&plan_id(1)).await.unwrap().unwrap();
    assert_eq!(pending, [newest]);
}

async fn the_first_delivery_is_the_one_that_is_noted(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    request(&store, 1).await;
    assert!(matches!(
        approve(&store, 1, "grace", 10).await,
        Decided::Now(_)
    ));
    for seconds in [20, 30] {
        store.mark_delivered(&link(1), at(seconds)).await.unwrap();
        let noted = store.approval(&link(1)).await.unwrap().unwrap();
        assert_eq!(noted.delivered_at, Some(at(20)));
    }
    let unknown = store.mark_delivered(&link(9), at(20)).await.unwrap_err();
    assert_eq!(unknown.class, ErrorClass::Conflict);
    assert_eq!(store.approval(&link(9)).await.unwrap(), None);
}

on_both_tables! {
    a_request_comes_back_by_its_link_and_by_its_plan,
    neither_the_link_nor_the_token_lies_where_an_approval_is_read,
    of_twenty_decisions_one_stands_and_the_others_are_told,
    a_decision_says_who_when_and_why,
    too_late_or_for_another_plan_decides_nothing,
    an_end_without_a_decision_never_undoes_one,
    an_end_is_final_too,
    a_decision_and_an_end_at_once_agree_on_one,
    a_second_request_of_a_plan_supersedes_a_pending_one_alone,
    what_a_person_has_decided_is_asked_of_nobody_else,
    of_twenty_requests_of_one_plan_one_is_pending_in_the_end,
    the_first_delivery_is_the_one_that_is_noted,
}
