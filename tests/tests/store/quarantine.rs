use aws_sdk_dynamodb::types::AttributeValue;
use jiff::{SignedDuration, Timestamp};
use offset_guard::domain::guard::quarantine::{DedupeId, KeptCopy};
use offset_guard::domain::guard::record::{Record, TimestampType};
use offset_guard::domain::offset::{TopicId, TopicPartition};
use offset_guard::failure::ErrorClass;
use offset_guard::store::{Begun, LedgerEntry, Store};

use super::support::{Kind, Table, at, cluster, group, hours, on_both_tables, race};

const LEASE: SignedDuration = SignedDuration::from_secs(60);

fn entry(value: &[u8], run: &str) -> LedgerEntry {
    let partition = TopicPartition::new("shipments", 3);
    let topic_id = TopicId::from_bytes([7; 16]);
    let record = Record {
        offset: 43,
        leader_epoch: Some(2),
        timestamp_ms: 1_700_000_000_000,
        timestamp_type: TimestampType::CreateTime,
        key: None,
        value: Some(value.to_vec()),
        headers: vec![(b"trace".to_vec(), None)],
    };
    LedgerEntry {
        dedupe_id: DedupeId::of(&cluster(), &group(), topic_id, &partition, 43),
        cluster_id: cluster(),
        group: group(),
        partition,
        topic_id,
        record: record.outline(),
        run: run.to_owned(),
    }
}

fn copy(offset: i64) -> KeptCopy {
    KeptCopy {
        partition: TopicPartition::new("shipments.quarantine", 1),
        offset,
    }
}

async fn begin(store: &Store, entry: &LedgerEntry, now: Timestamp) -> Begun {
    store.begin_quarantine(entry, now, LEASE).await.unwrap()
}

/// Begins, and is the one who does.
async fn mine(store: &Store, entry: &LedgerEntry, now: Timestamp) -> String {
    match begin(store, entry, now).await {
        Begun::Mine { attempt } => attempt,
        other => panic!("{other:?}"),
    }
}

async fn confirm(store: &Store, entry: &LedgerEntry, attempt: &str, copy: &KeptCopy) -> bool {
    store
        .confirm_quarantine(&entry.dedupe_id, attempt, copy, at(5))
        .await
        .unwrap()
}

async fn a_record_is_kept_once_however_often_it_is_found(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let entry = entry(b"\xff{", "run-1");
    let attempt = mine(&store, &entry, at(0)).await;
    assert!(confirm(&store, &entry, &attempt, &copy(9)).await);
    assert!(
        confirm(&store, &entry, &attempt, &copy(9)).await,
        "the same again"
    );
    assert!(
        !confirm(&store, &entry, &attempt, &copy(10)).await,
        "the first copy counts"
    );
    let kept = Begun::Kept {
        copy: copy(9),
        record: entry.record.clone(),
        at: at(5),
    };
    for seconds in [6, 3600, 86_400] {
        assert_eq!(begin(&store, &entry, at(seconds)).await, kept);
    }
    let pk = format!("QUARANTINE#{}", entry.dedupe_id);
    let item = table.items(&pk).await.remove(0);
    let ttl: i64 = item["ttl"].as_n().unwrap().parse().unwrap();
    assert_eq!(ttl, (at(5) + hours(90 * 24)).as_second());
}

async fn of_twenty_tries_one_keeps_the_record_and_the_others_know_for_how_long(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let entry = entry(b"\xff{", "run-1");
    let begun = race(|_| {
        let (store, entry) = (store.clone(), entry.clone());
        async move { begin(&store, &entry, at(0)).await }
    })
    .await;
    let mine = begun.iter().filter(|b| matches!(b, Begun::Mine { .. }));
    assert_eq!(mine.count(), 1);
    let theirs = Begun::Theirs { until: at(60) };
    assert_eq!(begun.iter().filter(|b| **b == theirs).count(), 19);
}

async fn a_try_that_died_is_taken_over_and_cannot_confirm_any_more(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let old = entry(b"\xff{", "run-1");
    let dead = mine(&store, &old, at(0)).await;
    let theirs = Begun::Theirs { until: at(60) };
    assert_eq!(begin(&store, &old, at(59)).await, theirs);
    // The record is another one by now; what the try that confirms saw is what is kept.
    let new = entry(b"other", "run-2");
    let alive = mine(&store, &new, at(60)).await;
    assert!(!confirm(&store, &old, &dead, &copy(9)).await);
    assert!(confirm(&store, &new, &alive, &copy(10)).await);
    let kept = Begun::Kept {
        copy: copy(10),
        record: new.record,
        at: at(5),
    };
    assert_eq!(begin(&store, &old, at(61)).await, kept);
}

async fn nobody_confirms_what_nobody_began(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let entry = entry(b"\xff{", "run-1");
    assert!(!confirm(&store, &entry, "01J", &copy(9)).await);
    let reopened = store
        .reopen_quarantine(&entry, &copy(9), at(0), LEASE)
        .await;
    assert_eq!(reopened.unwrap_err().class, ErrorClass::Conflict);
    let pk = format!("QUARANTINE#{}", entry.dedupe_id);
    assert_eq!(table.items(&pk).await.len(), 0);
}

async fn a_copy_that_is_gone_is_made_again_by_one(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let entry = entry(b"\xff{", "run-1");
    let attempt = mine(&store, &entry, at(0)).await;
    let reopen = |gone: KeptCopy, now| {
        let (store, entry) = (store.clone(), entry.clone());
        async move {
            let reopened = store.reopen_quarantine(&entry, &gone, now, LEASE).await;
            reopened.unwrap()
        }
    };
    // Not kept yet, so that no copy can be gone.
    assert_eq!(
        reopen(copy(9), at(4)).await,
        Begun::Theirs { until: at(60) }
    );
    assert!(confirm(&store, &entry, &attempt, &copy(9)).await);
    // Another copy than the one that is gone.
    let kept = |offset| Begun::Kept {
        copy: copy(offset),
        record: entry.record.clone(),
        at: at(5),
    };
    assert_eq!(reopen(copy(8), at(10)).await, kept(9));

    let reopened = race(|_| reopen(copy(9), at(20))).await;
    let mut mine = reopened.iter().filter_map(|begun| match begun {
        Begun::Mine { attempt } => Some(attempt.clone()),
        Begun::Theirs { until } => {
            assert_eq!(*until, at(80));
            None
        }
        Begun::Kept { .. } => panic!("a copy that is gone is said to be kept"),
    });
    let (again, nobody) = (mine.next().unwrap(), mine.next());
    assert_eq!(nobody, None);
    assert!(!confirm(&store, &entry, &attempt, &copy(9)).await);
    assert!(confirm(&store, &entry, &again, &copy(11)).await);
    assert_eq!(begin(&store, &entry, at(30)).await, kept(11));
}

async fn nothing_of_a_record_lies_in_the_ledger_and_damage_is_no_copy(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let entry = entry(b"a payload to be seen by nobody", "run-1");
    let attempt = mine(&store, &entry, at(0)).await;
    assert!(confirm(&store, &entry, &attempt, &copy(9)).await);
    let pk = format!("QUARANTINE#{}", entry.dedupe_id);
    let mut item = table.items(&pk).await.remove(0);
    assert!(!serde_json::to_string(&entry).unwrap().contains("payload"));
    assert!(!format!("{entry:?} {item:?}").contains("payload"));

    item.insert(
        "copy_offset".to_owned(),
        AttributeValue::S("nine".to_owned()),
    );
    table.put(item).await;
    let error = store.begin_quarantine(&entry, at(9), LEASE).await;
    assert_eq!(error.unwrap_err().class, ErrorClass::Internal);
}

/// Anybody can write the headers of a copy: only what is confirmed under an id is known to be kept.
async fn only_what_is_confirmed_is_known_to_be_kept(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let entry = entry(b"\xff{", "run-1");
    let kept = async || store.quarantined(&entry.dedupe_id).await.unwrap();
    assert_eq!(kept().await, None);
    let attempt = mine(&store, &entry, at(0)).await;
    assert_eq!(kept().await, None);
    assert!(confirm(&store, &entry, &attempt, &copy(9)).await);
    assert_eq!(kept().await, Some(entry.record.clone()));
    let other = DedupeId("b".repeat(64));
    assert_eq!(store.quarantined(&other).await.unwrap(), None);
}

on_both_tables! {
    a_record_is_kept_once_however_often_it_is_found,
    of_twenty_tries_one_keeps_the_record_and_the_others_know_for_how_long,
    a_try_that_died_is_taken_over_and_cannot_confirm_any_more,
    nobody_confirms_what_nobody_began,
    a_copy_that_is_gone_is_made_again_by_one,
    nothing_of_a_record_lies_in_the_ledger_and_damage_is_no_copy,
    only_what_is_confirmed_is_known_to_be_kept,
}
