use std::collections::BTreeMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use jiff::{SignedDuration, Timestamp};
use offset_guard::domain::group::{GroupState, GroupType, MemberSeen};
use offset_guard::domain::guard::sample::{MembersTrouble, PartitionSample, Sample, Trouble};
use offset_guard::domain::offset::{Fault, TopicId, TopicPartition};
use offset_guard::failure::ErrorClass;
use offset_guard::store::{RING_RUNS, Ring, Store};

use super::support::{
    Kind, Table, at, group_key, hours, log, noise, on_both_tables, partitions, race,
};

const PK: &str = "SAMPLE#5L6g3nShT-eMCtK--X86sw#shipment-sync";

/// A look of the run of `run`: one partition with an owner, one without a commit, one that could not be read.
fn look(run: Timestamp, after: i64) -> Sample {
    let read = |committed, owner: Option<&str>| PartitionSample {
        committed,
        log: log(),
        owner: owner.map(str::to_owned),
        unstable: committed.is_none(),
        still_since: at(-600),
        stable_since: run,
        longest_pause_seconds: 7,
    };
    Sample {
        run,
        at: run + SignedDuration::from_secs(after),
        state: GroupState::Stable,
        group_type: GroupType::Consumer,
        is_simple: false,
        members: vec![MemberSeen {
            member_id: "m-1".to_owned(),
            client_id: "shipper".to_owned(),
            host: "/10.0.0.7".to_owned(),
        }],
        topics: BTreeMap::from([("shipments".to_owned(), TopicId::from_bytes([7; 16]))]),
        moved_at: Some(at(-9000)),
        recovery: None,
        trouble: Some(MembersTrouble {
            moving: Trouble::Crashes,
            unmoved: Trouble::Rebalances,
        }),
        partitions: BTreeMap::from([
            (
                TopicPartition::new("shipments", 0),
                Ok(read(Some(43), Some("m-1"))),
            ),
            (TopicPartition::new("shipments", 1), Ok(read(None, None))),
            (TopicPartition::new("shipments", 2), Err(Fault::NoLeader)),
        ]),
    }
}

async fn ring(store: &Store, now: Timestamp) -> Ring {
    store.samples(&group_key(), now).await.unwrap()
}

async fn put(store: &Store, seq: u64, looks: &[Sample]) -> bool {
    let now = looks.last().map_or(at(0), |look| look.at);
    let put = store
        .put_samples(&group_key(), seq, looks, SignedDuration::from_secs(60), now)
        .await;
    put.unwrap()
}

/// When the runs that are remembered began.
fn runs(ring: &Ring) -> Vec<Timestamp> {
    let mut runs: Vec<_> = ring.samples.iter().map(|sample| sample.run).collect();
    runs.dedup();
    runs
}

async fn the_looks_of_a_run_come_back_as_they_were_oldest_first(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    assert_eq!(ring(&store, at(0)).await, Ring::default());
    let first = [look(at(0), 1), look(at(0), 6), look(at(0), 12)];
    let second = [look(at(300), 1)];
    assert!(put(&store, 0, &first).await);
    assert!(put(&store, 1, &second).await);
    assert!(put(&store, 1, &[]).await, "nothing to write");
    let ring = ring(&store, at(301)).await;
    assert_eq!(ring.seq, 2);
    assert_eq!(ring.samples, [first.as_slice(), &second].concat());
    let items = table.items(PK).await;
    assert_eq!(items.len(), 3, "the head and two places");
    for item in &items {
        let ttl: i64 = item["ttl"].as_n().unwrap().parse().unwrap();
        assert!(ttl >= (at(12) + hours(7 * 24)).as_second());
    }
}

async fn of_twenty_runs_at_once_one_is_remembered(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    for seq in [0, 1] {
        let won = race(|n| {
            let store = store.clone();
            let run = at(i64::try_from(seq * 1000).unwrap() + i64::try_from(n).unwrap());
            async move { put(&store, seq, &[look(run, 1)]).await.then_some(run) }
        })
        .await;
        let won: Vec<_> = won.into_iter().flatten().collect();
        assert_eq!(won.len(), 1, "{won:?}");
        let ring = ring(&store, at(2000)).await;
        assert_eq!((ring.seq, runs(&ring).last()), (seq + 1, won.last()));
    }
    // Whoever read before the others wrote writes nothing.
    assert!(!put(&store, 0, &[look(at(5000), 1)]).await);
    assert_eq!(ring(&store, at(5000)).await.seq, 2);
}

async fn the_oldest_run_makes_room_for_the_newest(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let all: Vec<_> = (0..30).map(|n| at(n * 300)).collect();
    for (seq, run) in (0..).zip(&all) {
        assert!(put(&store, seq, &[look(*run, 1)]).await);
    }
    let ring = ring(&store, at(9000)).await;
    let kept = usize::try_from(RING_RUNS).unwrap();
    assert_eq!(runs(&ring), all[all.len() - kept..]);
    assert_eq!(table.items(PK).await.len(), kept + 1);
}

async fn the_latest_looks_are_those_of_the_newest_three_runs(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let latest = async |now| {
        let looks = store.latest_looks(&group_key(), now).await.unwrap();
        looks.iter().map(|look| look.at).collect::<Vec<_>>()
    };
    assert_eq!(latest(at(0)).await, []);
    assert!(put(&store, 0, &[look(at(0), 1), look(at(0), 6)]).await);
    assert_eq!(latest(at(7)).await, [at(1), at(6)]);
    // Also where the ring has come round.
    let runs = i64::try_from(RING_RUNS).unwrap() + 1;
    for n in 1..runs {
        let seq = u64::try_from(n).unwrap();
        assert!(put(&store, seq, &[look(at(n * 300), 1)]).await);
    }
    let newest = [runs - 3, runs - 2, runs - 1].map(|n| at(n * 300 + 1));
    assert_eq!(latest(at(runs * 300)).await, newest);
    // What has expired is gone, whether or not the table has deleted it.
    assert_eq!(latest(at(runs * 300) + hours(8 * 24)).await, []);
}

async fn runs_in_a_storm_share_places(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    for (seq, seconds) in (0..).zip([0, 300, 305, 310, 365, 369]) {
        assert!(put(&store, seq, &[look(at(seconds), 1)]).await);
    }
    // 310 comes less than a minute after 300 and takes the place of 305, as 369 does that of 365.
    let ring = ring(&store, at(370)).await;
    assert_eq!(ring.seq, 6);
    assert_eq!(runs(&ring), [0, 300, 310, 369].map(at));
}

async fn what_is_damaged_or_expired_does_not_blind_the_rest_and_the_ring_heals(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    for (seq, seconds) in (0..).zip([0, 300, 600]) {
        assert!(put(&store, seq, &[look(at(seconds), 1)]).await);
    }
    let places = table.items(PK).await.split_off(1);
    let mut broken = places[0].clone();
    let mut body = broken["body"].as_b().unwrap().as_ref().to_vec();
    *body.last_mut().unwrap() ^= 1;
    broken.insert("body".to_owned(), AttributeValue::B(Blob::new(body)));
    table.put(broken).await;
    let mut kindless = places[1].clone();
    kindless.insert("number".to_owned(), AttributeValue::S("two".to_owned()));
    table.put(kindless).await;
    let seen = ring(&store, at(601)).await;
    assert_eq!((seen.seq, runs(&seen)), (3, vec![at(600)]));

    for seq in 3..=RING_RUNS + 1 {
        let run = at(300 * i64::try_from(seq).unwrap());
        assert!(put(&store, seq, &[look(run, 1)]).await);
    }
    let healed = ring(&store, at(8000)).await;
    assert_eq!(runs(&healed).len(), usize::try_from(RING_RUNS).unwrap());

    let expired = ring(&store, at(8000) + hours(8 * 24)).await;
    assert_eq!(expired.samples, []);
    assert_eq!(expired.seq, healed.seq, "it goes on where it stood");
}

async fn looks_that_do_not_fit_an_item_go_into_chunks(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let looks = [5, 10, 15].map(|after| {
        let mut look = look(at(0), after);
        look.partitions = partitions(10_000)
            .zip(noise(usize::try_from(after).unwrap(), 80_000).chunks(8))
            .map(|(partition, random)| {
                let random = i64::from_le_bytes(random.try_into().unwrap()) >> 24;
                let mut sample = look.partitions.values().next().unwrap().clone().unwrap();
                sample.committed = Some(random);
                sample.log.high = random + (random & 0xffff);
                (partition, Ok(sample))
            })
            .collect();
        look
    });
    assert!(put(&store, 0, &looks).await);
    assert_eq!(ring(&store, at(20)).await.samples, looks);
    let items = table.items(PK).await;
    let chunks: Vec<_> = items
        .iter()
        .filter(|item| item["sk"].as_s().unwrap().starts_with("CHUNK#"))
        .collect();
    assert!(chunks.len() > 1, "{}", chunks.len());
    // One chunk less is not a smaller run.
    table.delete(chunks[0]).await;
    assert_eq!(ring(&store, at(20)).await.samples, []);
}

#[tokio::test]
async fn without_a_table_there_is_an_error_and_not_an_empty_ring() {
    let table = Table::real().await;
    let store = table.beside("no-such-table");
    let error = store.samples(&group_key(), at(0)).await;
    let error = error.unwrap_err();
    assert_eq!(
        (error.operation, error.class),
        ("samples", ErrorClass::Internal)
    );
}

on_both_tables! {
    the_looks_of_a_run_come_back_as_they_were_oldest_first,
    of_twenty_runs_at_once_one_is_remembered,
    the_oldest_run_makes_room_for_the_newest,
    the_latest_looks_are_those_of_the_newest_three_runs,
    runs_in_a_storm_share_places,
    what_is_damaged_or_expired_does_not_blind_the_rest_and_the_ring_heals,
    looks_that_do_not_fit_an_item_go_into_chunks,
}
