use std::collections::BTreeSet;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use offset_guard::domain::checkpoint::{
    Anomaly, Checkpoint, CheckpointHeader, CheckpointPartition,
};
use offset_guard::domain::disowned::{Disowned, Undone};
use offset_guard::domain::ids::{CheckpointId, GroupKey, PlanId};
use offset_guard::domain::offset::{ClusterId, GroupId, TopicId, TopicPartition};
use offset_guard::domain::plan::PartitionMove;
use offset_guard::failure::ErrorClass;
use offset_guard::store::{DynamoTable, Opened, Put, Store};

use super::support::{
    Kind, Table, at, checkpoint, claim, client, cluster, commit, group_key, heavy, hours, key_of,
    log, on_both_tables, partitions, plan_id, race, recovery, sk,
};

const PK: &str = "CHECKPOINT#5L6g3nShT-eMCtK--X86sw#shipment-sync";

fn chunks_pk(c: &Checkpoint) -> String {
    format!(
        "CHECKPOINTCHUNK#5L6g3nShT-eMCtK--X86sw#shipment-sync#{}",
        c.id
    )
}

async fn headers(store: &Store) -> Vec<CheckpointHeader> {
    let now = at(1_000_000);
    let headers = store.headers(&group_key(), now).await.unwrap();
    // Whatever a test lays: the newest alone is the first of all.
    let newest = store.newest_header(&group_key(), now).await.unwrap();
    assert_eq!(newest.as_ref(), headers.first());
    headers
}

async fn ids(store: &Store) -> Vec<CheckpointId> {
    headers(store).await.into_iter().map(|h| h.id).collect()
}

async fn put(store: &Store, c: &Checkpoint) {
    assert_eq!(store.put_checkpoint(c, None).await.unwrap(), Put::Stored);
}

async fn a_checkpoint_comes_back_as_it_was(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let mut c = checkpoint(1, at(0));
    c.anomalies.push(Anomaly::OffsetWentBackwards {
        partition: TopicPartition::new("shipments", 1),
        before: 44,
        after: 43,
    });
    put(&store, &c).await;
    let headers = headers(&store).await;
    assert_eq!(
        headers,
        [CheckpointHeader {
            id: c.id.clone(),
            ended_at: at(0),
            disowned: Disowned::default(),
            anomalies: c.anomalies.clone(),
            expires_at: None,
        }]
    );
    let back = store.checkpoint(&group_key(), &headers[0]).await;
    assert_eq!(back.unwrap(), c);
}

async fn ten_thousand_partitions_are_one_item_whatever_is_said_of_them_beside(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let mut c = checkpoint(1, at(0));
    c.partitions = partitions(10_000)
        .zip(0_i64..)
        .map(|(partition, n)| {
            let committed = Some(commit(40_000 + n * 7919));
            (
                partition,
                CheckpointPartition {
                    committed,
                    log: log(),
                },
            )
        })
        .collect();
    c.anomalies = partitions(10_000)
        .zip(0_i64..)
        .map(|(partition, n)| Anomaly::LogTruncated {
            partition,
            high_before: n * 7919,
            high_after: n * 17,
        })
        .collect();
    put(&store, &c).await;
    let items = table.items(PK).await;
    let size = |name: &str| {
        items[0]
            .get(name)
            .map_or(0, |v| v.as_b().unwrap().as_ref().len())
    };
    println!(
        "10,000 partitions: body {} bytes, anomalies {}",
        size("body"),
        size("anomalies")
    );
    assert_eq!(items.len(), 1);
    assert!(size("body") > 0);
    let headers = headers(&store).await;
    assert_eq!(headers[0].anomalies, c.anomalies);
    let back = store.checkpoint(&group_key(), &headers[0]).await;
    assert_eq!(back.unwrap(), c);
}

async fn a_checkpoint_that_does_not_fit_an_item_goes_into_chunks(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let c = heavy(1, at(0), 1_500_000);
    put(&store, &c).await;
    assert!(!table.items(PK).await[0].contains_key("body"));
    // More than one page of them.
    let chunks = table.items(&chunks_pk(&c)).await;
    assert!(chunks.len() > 4, "{}", chunks.len());
    let header = &headers(&store).await[0];
    let back = store.checkpoint(&group_key(), header).await;
    assert_eq!(back.unwrap(), c);

    // One chunk less is not a smaller checkpoint.
    table.delete(&chunks[2]).await;
    let error = store.checkpoint(&group_key(), header).await;
    let error = error.unwrap_err();
    assert_eq!(
        (error.operation, error.class),
        ("checkpoint", ErrorClass::Internal)
    );
    assert!(error.source.to_string().contains("body_chunks"));
}

async fn without_its_header_a_checkpoint_is_invisible(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let (old, lost) = (checkpoint(1, at(0)), heavy(2, at(60), 700_000));
    put(&store, &old).await;
    put(&store, &lost).await;
    // As a crash right before the header would leave it.
    let items = table.items(PK).await;
    assert_eq!(items.len(), 2);
    table.delete(&items[1]).await;
    assert!(table.items(&chunks_pk(&lost)).await.len() > 1);
    assert_eq!(ids(&store).await, std::slice::from_ref(&old.id));

    // The run comes again with a new id; the orphans stay out of its way.
    let again = heavy(3, at(70), 700_000);
    put(&store, &again).await;
    assert_eq!(ids(&store).await, [again.id.clone(), old.id]);
    let header = &headers(&store).await[0];
    let back = store.checkpoint(&group_key(), header).await;
    assert_eq!(back.unwrap(), again);
}

async fn a_damaged_body_is_an_error_and_not_a_checkpoint(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    put(&store, &checkpoint(1, at(0))).await;
    let mut item = table.items(PK).await.remove(0);
    let mut body = item["body"].as_b().unwrap().as_ref().to_vec();
    let last = body.len() - 1;
    body[last] ^= 1;
    item.insert("body".to_owned(), AttributeValue::B(Blob::new(body)));
    table.put(item).await;
    let header = &headers(&store).await[0];
    let error = store.checkpoint(&group_key(), header).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Internal);
    assert_eq!(error.source.to_string(), "damaged: the hash differs");
}

async fn a_run_delivered_twenty_times_stores_one_checkpoint(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let outcomes = race(|n| {
        let store = store.clone();
        async move {
            let c = checkpoint(n, at(i64::try_from(n).unwrap()));
            store.put_checkpoint(&c, Some(at(-30))).await.unwrap()
        }
    })
    .await;
    let stored = outcomes.iter().filter(|put| **put == Put::Stored);
    assert_eq!(stored.count(), 1);
    assert_eq!(headers(&store).await.len(), 1);

    // Hours later still.
    let late = checkpoint(98, at(7200));
    let outcome = store.put_checkpoint(&late, Some(at(-30))).await;
    assert_eq!(outcome.unwrap(), Put::AlreadyRun);
    // The next scheduled run is another one, and so is the same time for another group.
    let next = checkpoint(99, at(3600));
    let outcome = store.put_checkpoint(&next, Some(at(3570))).await;
    assert_eq!(outcome.unwrap(), Put::Stored);
    let mut other = checkpoint(99, at(0));
    other.group = GroupId("other".to_owned());
    let outcome = store.put_checkpoint(&other, Some(at(-30))).await;
    assert_eq!(outcome.unwrap(), Put::Stored);
    assert_eq!(headers(&store).await.len(), 2);

    let markers = table
        .items("RUN#5L6g3nShT-eMCtK--X86sw#shipment-sync")
        .await;
    assert_eq!(markers.len(), 2);
    let ttl: i64 = markers[1]["ttl"].as_n().unwrap().parse().unwrap();
    assert_eq!(ttl, (at(3600) + hours(48)).as_second());
}

async fn the_same_checkpoint_again_is_stored_and_another_one_under_its_id_is_a_conflict(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let mut c = checkpoint(1, at(0));
    put(&store, &c).await;
    put(&store, &c).await;
    c.members.clear();
    let error = store.put_checkpoint(&c, None).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Conflict);
    assert_eq!(headers(&store).await.len(), 1);
}

#[tokio::test]
async fn headers_come_newest_first_from_more_than_one_page() {
    let table = Table::real().await;
    let store = table.store();
    // Not in the order of their times.
    for n in [3, 0, 7, 1, 5, 2, 6, 4] {
        put(&store, &heavy(n, at(i64::try_from(n).unwrap()), 200_000)).await;
    }
    let (first, more) = table.first_page(PK).await;
    assert!(first < 8 && more, "{first} items on the first page");
    let expected: Vec<_> = (0..8).rev().map(|n| checkpoint(n, at(0)).id).collect();
    assert_eq!(ids(&store).await, expected);
}

async fn an_expired_checkpoint_is_invisible_though_it_is_still_there(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    for n in 0..3 {
        put(&store, &checkpoint(n, at(i64::try_from(n).unwrap()))).await;
    }
    let all = headers(&store).await;
    let group = group_key();
    store.retire(&group, &[&all[2]], at(500)).await.unwrap();
    let seen = async |now| store.headers(&group, at(now)).await.unwrap();
    assert_eq!(seen(499).await.len(), 3);
    assert_eq!(seen(499).await[2].expires_at, Some(at(500)));
    assert_eq!(seen(500).await.len(), 2);
    assert_eq!(table.items(PK).await.len(), 3);
}

async fn retiring_leaves_earlier_expiries_and_takes_chunks_along_later(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let big = heavy(2, at(2), 700_000);
    put(&store, &checkpoint(0, at(0))).await;
    put(&store, &checkpoint(1, at(1))).await;
    put(&store, &big).await;

    let before = headers(&store).await;
    let group = group_key();
    let retire = async |seconds| {
        let all: Vec<_> = before.iter().collect();
        store.retire(&group, &all, at(seconds)).await.unwrap();
    };
    retire(2_000_000).await;
    retire(3_000_000).await;
    let after: Vec<_> = headers(&store).await;
    let ends: Vec<_> = after.iter().map(|h| h.expires_at).collect();
    let once = Some(at(2_000_000));
    assert_eq!(ends, [once, once, once]);
    for chunk in table.items(&chunks_pk(&big)).await {
        let ttl: i64 = chunk["ttl"].as_n().unwrap().parse().unwrap();
        assert!(ttl > at(2_000_000).as_second());
    }
    // One that is gone by now is not brought back as a stub.
    let gone = table.items(PK).await.remove(1);
    table.delete(&gone).await;
    retire(4_000_000).await;
    assert_eq!(table.items(PK).await.len(), 2);
}

async fn disowning_is_exclusive_of_the_source_and_inclusive_of_the_apply(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    for n in 0..6 {
        put(&store, &checkpoint(n, at(i64::try_from(n).unwrap() * 10))).await;
    }
    let group = group_key();
    let disown = async |after, until, by: &PlanId| {
        let marked = store
            .disown(&group, (at(after), at(until)), by, &Undone::All)
            .await;
        marked.unwrap()
    };
    let (first, second) = (plan_id(1), plan_id(2));
    assert_eq!(disown(10, 30, &first).await, 2);
    assert_eq!(disown(10, 30, &first).await, 0);
    // A later undo of more time leaves the first mark as it is.
    assert_eq!(disown(0, 40, &second).await, 2);
    // Nothing lies between a time and itself, or an earlier one.
    assert_eq!(disown(50, 50, &second).await, 0);
    assert_eq!(disown(50, 0, &second).await, 0);
    let marks: Vec<_> = headers(&store)
        .await
        .into_iter()
        .rev()
        .map(|h| h.disowned.plans().next().cloned())
        .collect();
    let [first, second] = [Some(first), Some(second)];
    assert_eq!(
        marks,
        [None, second.clone(), first.clone(), first, second, None]
    );
}

async fn twenty_plans_that_disown_the_same_time_mark_each_checkpoint_once(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    for n in 0..3 {
        put(&store, &checkpoint(n, at(i64::try_from(n).unwrap()))).await;
    }
    let marked = race(|n| {
        let store = store.clone();
        async move {
            let by = plan_id(n);
            store
                .disown(&group_key(), (at(-1), at(9)), &by, &Undone::All)
                .await
                .unwrap()
        }
    })
    .await;
    assert_eq!(marked.iter().sum::<usize>(), 3);
    assert!(headers(&store).await.iter().all(|h| h.disowned.is_whole()));
}

/// Each plan undoes its own partition of the same checkpoints.
async fn of_twenty_plans_that_undo_other_partitions_each_leaves_its_mark(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    for n in 0..2 {
        put(&store, &checkpoint(n, at(i64::try_from(n).unwrap()))).await;
    }
    let partition = |n: usize| TopicPartition::new("shipments", i32::try_from(n).unwrap());
    // Fewer at a time than a mark is tried.
    for round in 0..4 {
        let marks = (0..5).map(|n| {
            let (store, by) = (store.clone(), plan_id(round * 5 + n));
            let undone = Undone::of(&[partition(round * 5 + n)]);
            tokio::spawn(async move {
                let times = (at(-1), at(9));
                let marked = store.disown(&group_key(), times, &by, &undone).await;
                marked.unwrap()
            })
        });
        for mark in marks.collect::<Vec<_>>() {
            assert_eq!(mark.await.unwrap(), 2);
        }
    }
    for header in headers(&store).await {
        assert!(!header.disowned.is_whole());
        for n in 0..20 {
            assert_eq!(header.disowned.by(&partition(n)), Some(&plan_id(n)));
        }
        assert_eq!(header.disowned.by(&partition(20)), None);
    }
    // Of what is undone nothing is shown in a history, and of another partition all is.
    let shown = async |n| {
        let past = store
            .history(&group_key(), &of_partition(n), at(9), at(9))
            .await;
        past.unwrap().iter().all(|past| past.disowned)
    };
    assert!(shown(0).await);
    let by = plan_id(99);
    let again = store
        .disown(&group_key(), (at(-1), at(9)), &by, &Undone::All)
        .await;
    assert_eq!(again.unwrap(), 2);
    assert!(headers(&store).await.iter().all(|h| h.disowned.is_whole()));
}

/// As an earlier release wrote it.
async fn a_mark_of_an_earlier_release_disowns_the_whole_checkpoint(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    put(&store, &checkpoint(1, at(0))).await;
    let mut item = table.items(PK).await.remove(0);
    let by = AttributeValue::S(plan_id(1).0);
    item.insert("disowned_by".to_owned(), by);
    table.put(item).await;
    let whole = Disowned::by_one(plan_id(1), Undone::All);
    assert_eq!(headers(&store).await[0].disowned, whole);
}

/// A reading may begin before an Apply and end after it. Then it holds what was there before, under a time of after.
async fn what_was_read_while_a_recovery_moved_the_group_is_no_checkpoint(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let read = async |id, began, ended| {
        let mut c = checkpoint(id, at(ended));
        c.began_at = at(began);
        store.put_checkpoint(&c, None).await.unwrap()
    };
    let (recovery, claim) = (recovery(1), claim(1, at(9_000)));
    let open = store.open_recovery(&recovery, &claim, at(0)).await;
    assert_eq!(open.unwrap(), Opened::Yes);
    // A recovery that waits moves nothing, however long.
    assert_eq!(read(1, 0, 10).await, Put::Stored);
    assert!(store.begin_apply(&plan_id(1), at(130)).await.unwrap());
    assert_eq!(read(2, 5, 20).await, Put::Moved, "it began before");
    assert_eq!(read(3, 15, 25).await, Put::Moved, "it is still under way");
    store.end_apply(&plan_id(1), at(130), at(30)).await.unwrap();
    assert_eq!(read(4, 15, 40).await, Put::Moved, "it was under way");
    assert_eq!(read(5, 30, 40).await, Put::Moved, "to the very end");
    assert_eq!(
        read(6, 31, 40).await,
        Put::Stored,
        "it is over, reported or not"
    );
    // Once it is reported on, the group remembers when.
    store.note_moved(&group_key(), at(50)).await.unwrap();
    assert_eq!(read(7, 50, 60).await, Put::Moved);
    assert_eq!(read(8, 51, 60).await, Put::Stored);
    let stored = ids(&store).await;
    let expected = [8, 6, 1].map(|id| checkpoint(id, at(0)).id);
    assert_eq!(stored, expected);
}

async fn groups_and_clusters_do_not_see_each_other(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let names = [
        ("c", "a#b"),
        ("c#a", "b"),
        ("c", "a%23b"),
        ("c", "a"),
        ("%", "#"),
    ];
    for (n, (cluster, group)) in names.into_iter().enumerate() {
        let mut c = checkpoint(n, at(0));
        c.cluster_id = ClusterId(cluster.to_owned());
        c.group = GroupId(group.to_owned());
        put(&store, &c).await;
    }
    let mut seen = BTreeSet::new();
    for (n, (cluster, group)) in names.into_iter().enumerate() {
        let group = GroupKey::new(ClusterId(cluster.to_owned()), GroupId(group.to_owned()));
        let headers = store.headers(&group, at(1)).await.unwrap();
        assert_eq!(headers.len(), 1);
        assert_eq!(headers[0].id, checkpoint(n, at(0)).id);
        let back = store.checkpoint(&group, &headers[0]).await.unwrap();
        seen.insert((back.cluster_id.0, back.group.0));
    }
    assert_eq!(seen.len(), names.len());
}

async fn the_head_counts_failures_since_the_newest_success(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let group = group_key();
    let note = async |seconds, result: Result<&CheckpointId, &str>| {
        let noted = store.note_checkpoint_run(&group, at(seconds), result).await;
        noted.unwrap();
    };
    let (one, two) = (checkpoint(1, at(0)).id, checkpoint(2, at(0)).id);
    note(0, Err("no leader")).await;
    note(10, Err("no leader")).await;
    let head = |items: Vec<super::support::Item>| {
        let head = items.into_iter().find(|item| sk(item) == "HEAD").unwrap();
        let failures = head["consecutive_failures"].as_n().unwrap().clone();
        (
            failures,
            head.get("last_id").map(|id| id.as_s().unwrap().clone()),
        )
    };
    assert_eq!(head(table.items(PK).await), ("2".to_owned(), None));
    note(30, Ok(&two)).await;
    let good = ("0".to_owned(), Some(two.0.clone()));
    assert_eq!(head(table.items(PK).await), good);
    // An older run that ends late, well or not.
    note(20, Ok(&one)).await;
    note(25, Err("timed out")).await;
    assert_eq!(head(table.items(PK).await), good);
    note(40, Err("timed out")).await;
    assert_eq!(head(table.items(PK).await), ("1".to_owned(), Some(two.0)));
    // It is no checkpoint.
    assert_eq!(ids(&store).await, []);
}

async fn the_last_recovery_never_goes_back(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let group = group_key();
    let last = async || store.last_recovery_end(&group).await.unwrap();
    assert_eq!(last().await, None);
    for (noted, expected) in [(20, 20), (10, 20), (30, 30)] {
        store.note_moved(&group, at(noted)).await.unwrap();
        assert_eq!(last().await, Some(at(expected)));
    }
}

#[tokio::test]
async fn a_table_that_is_not_reached_is_transient_and_one_that_is_not_there_is_not() {
    // A port that nobody listens on: bound and let go.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let nowhere = Store::new(DynamoTable::new(
        client(&format!("http://{address}")),
        "none".to_owned(),
    ));
    let error = nowhere.apply_switch().await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Transient);
    assert_eq!(error.to_string(), "the table's apply_switch failed");

    let table = Table::real().await;
    let missing = table.beside("none");
    let error = missing.apply_switch().await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Internal);
    assert!(
        error
            .source
            .to_string()
            .starts_with("ResourceNotFoundException")
    );
}

async fn the_switch_is_unset_until_somebody_sets_it(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    assert_eq!(store.apply_switch().await.unwrap(), None);
    for on in [false, true] {
        store.set_apply_switch(on).await.unwrap();
        assert_eq!(store.apply_switch().await.unwrap(), Some(on));
    }
    // Whoever wrote this by hand wanted something, and hardly that everything goes on.
    let item = |name: &str| {
        [("pk", "CONTROL"), ("sk", "APPLY"), (name, "false")]
            .map(|(name, value)| (name.to_owned(), AttributeValue::S(value.to_owned())))
    };
    for by_hand in ["on", "enabled"] {
        table.put(item(by_hand).into()).await;
        let error = store.apply_switch().await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Internal);
    }
}

async fn a_group_with_checkpoints_is_remembered_for_a_time(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let named = |name: &str| GroupId(name.to_owned());
    let remember = async |name: &str, until| {
        store
            .remember_group(&key_of(&named(name)), at(until))
            .await
            .unwrap();
    };
    remember("a#b", 10).await;
    remember("a", 10).await;
    remember("a", 20).await;
    let other = ClusterId("another".to_owned());
    store
        .remember_group(&GroupKey::new(other, named("c")), at(20))
        .await
        .unwrap();
    let remembered = async |now| {
        let groups = store.remembered_groups(&cluster(), at(now)).await;
        groups.unwrap()
    };
    assert_eq!(remembered(9).await, [named("a"), named("a#b")]);
    assert_eq!(remembered(10).await, [named("a")]);
    assert_eq!(remembered(20).await, []);
}

/// What the history of partition 0 shows at `now`, of what was there until `until`: time, offset, disowned.
async fn history(store: &Store, until: i64, now: i64) -> Vec<(i64, Option<i64>, bool)> {
    let past = store
        .history(&group_key(), &of_partition(0), at(until), at(now))
        .await
        .unwrap();
    past.iter()
        .map(|p| (p.at.as_second() - at(0).as_second(), p.offset, p.disowned))
        .collect()
}

/// A move of a partition, as a plan has it.
fn of_partition(partition: i32) -> PartitionMove {
    PartitionMove {
        partition: TopicPartition::new("shipments", partition),
        topic_id: TopicId::from_bytes([7; 16]),
        from: None,
        to: None,
        log: log(),
        lost: 0,
        may_rise_to: None,
    }
}

async fn the_history_of_a_partition_is_that_of_the_newest_checkpoints(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let group = group_key();
    // More than are shown, not in the order of their times.
    for n in (0..60).rev() {
        put(&store, &checkpoint(n, at(i64::try_from(n).unwrap()))).await;
    }
    let by = PlanId("P".to_owned());
    let undone = Undone::of(&[TopicPartition::new("shipments", 0)]);
    let marked = store.disown(&group, (at(57), at(58)), &by, &undone).await;
    assert_eq!(marked.unwrap(), 1);
    let all = headers(&store).await;
    let oldest_shown = &all[47];
    store
        .retire(&group, &[oldest_shown], at(500))
        .await
        .unwrap();

    let shown = history(&store, 1_000, 100).await;
    assert_eq!(shown.len(), 48);
    assert_eq!(shown[0], (12, Some(31), false));
    assert_eq!(shown[46..], [(58, Some(31), true), (59, Some(31), false)]);
    // The expired one is not shown, whatever the table still has; nor is what came after the plan.
    assert_eq!(history(&store, 1_000, 500).await[0], (13, Some(31), false));
    let until = history(&store, 20, 100).await;
    assert_eq!(until.last(), Some(&(20, Some(31), false)));
    assert_eq!(until.len(), 21);

    // No commit is said; another log's offsets and another partition's are not this one's.
    let of = |m: PartitionMove| {
        let (store, group) = (&store, &group);
        async move {
            let past = store.history(group, &m, at(0), at(100)).await;
            past.unwrap().iter().map(|p| p.offset).collect::<Vec<_>>()
        }
    };
    assert_eq!(of(of_partition(2)).await, [None]);
    assert_eq!(of(of_partition(9)).await, []);
    let recreated = PartitionMove {
        topic_id: TopicId::from_bytes([8; 16]),
        ..of_partition(0)
    };
    assert_eq!(of(recreated).await, []);
}

async fn a_history_of_heavy_checkpoints_is_as_much_as_one_request_returns(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    for n in 0..8 {
        put(&store, &heavy(n, at(i64::try_from(n).unwrap()), 200_000)).await;
    }
    // One that is beside its item is passed over.
    put(&store, &heavy(8, at(8), 700_000)).await;
    let shown: Vec<_> = history(&store, 100, 100)
        .await
        .iter()
        .map(|p| p.0)
        .collect();
    assert!(shown.len() < 8 && shown.len() > 2, "{shown:?}");
    assert_eq!(shown.last(), Some(&7));
}

on_both_tables! {
    a_checkpoint_comes_back_as_it_was,
    ten_thousand_partitions_are_one_item_whatever_is_said_of_them_beside,
    a_checkpoint_that_does_not_fit_an_item_goes_into_chunks,
    without_its_header_a_checkpoint_is_invisible,
    a_damaged_body_is_an_error_and_not_a_checkpoint,
    a_run_delivered_twenty_times_stores_one_checkpoint,
    the_same_checkpoint_again_is_stored_and_another_one_under_its_id_is_a_conflict,
    an_expired_checkpoint_is_invisible_though_it_is_still_there,
    retiring_leaves_earlier_expiries_and_takes_chunks_along_later,
    disowning_is_exclusive_of_the_source_and_inclusive_of_the_apply,
    twenty_plans_that_disown_the_same_time_mark_each_checkpoint_once,
    of_twenty_plans_that_undo_other_partitions_each_leaves_its_mark,
    a_mark_of_an_earlier_release_disowns_the_whole_checkpoint,
    what_was_read_while_a_recovery_moved_the_group_is_no_checkpoint,
    groups_and_clusters_do_not_see_each_other,
    the_head_counts_failures_since_the_newest_success,
    the_last_recovery_never_goes_back,
    the_switch_is_unset_until_somebody_sets_it,
    a_group_with_checkpoints_is_remembered_for_a_time,
    the_history_of_a_partition_is_that_of_the_newest_checkpoints,
    a_history_of_heavy_checkpoints_is_as_much_as_one_request_returns,
}
