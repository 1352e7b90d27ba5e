//! Against librdkafka's mock cluster: no broker, but real requests and answers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::*;
use crate::ffi::mock::{LIST_OFFSETS, MockBroker, OFFSET_COMMIT, OFFSET_FETCH};
use crate::ffi::{IsolationLevel, OffsetSpec};
use crate::librdkafka::admin_client::AdminClient;
use offset_guard_domain::offset::{CommittedOffset, Fault, GroupId, TopicPartition};
use offset_guard_domain::ports::{AlterGroups, BrokerErrorClass, ReadGroups};
use offset_guard_domain::recovery::AlterAnswer;

const NOT_COORDINATOR: i32 = 16;
const UNKNOWN_MEMBER_ID: i32 = 25;
const UNSTABLE_OFFSET_COMMIT: i32 = 88;
/// No Kafka has this code, and no Rust enum a name for it.
const FROM_THE_FUTURE: i32 = 9999;

fn settings(mock: &MockBroker) -> ConnectionSettings {
    ConnectionSettings::new(mock.cluster().bootstrap_servers(), Auth::Plaintext)
}

fn group() -> GroupId {
    GroupId("shipment-sync".to_owned())
}

fn shipments(partition: i32) -> TopicPartition {
    TopicPartition::new("shipments", partition)
}

/// A mock cluster with a topic of three partitions, and one reader of it.
fn mock() -> (MockBroker, GroupReader) {
    let mock = MockBroker::new();
    mock.cluster().create_topic("shipments", 3, 1).unwrap();
    let reader = GroupReader::connect(settings(&mock)).unwrap();
    (mock, reader)
}

async fn commit(
    mock: &MockBroker,
    moves: &[(TopicPartition, CommittedOffset)],
) -> BTreeMap<TopicPartition, AlterAnswer> {
    let writer = GroupWriter::connect(&settings(mock)).unwrap();
    let answers = writer
        .commit(&group(), moves, Duration::from_secs(10))
        .await;
    writer.close().await;
    answers
}

/// On a handle without a group (a producer's) the first of these answers ends the process with signal 11
/// (librdkafka #5040).
#[tokio::test]
async fn a_coordinator_that_moved_twice_is_found_again() {
    let (mock, reader) = mock();
    let moves = [
        (shipments(0), CommittedOffset::bare(31)),
        (shipments(1), CommittedOffset::bare(43)),
    ];
    assert!(
        commit(&mock, &moves)
            .await
            .values()
            .all(|answer| *answer == AlterAnswer::Accepted)
    );

    mock.answer(OFFSET_FETCH, &[NOT_COORDINATOR, NOT_COORDINATOR]);
    let read = reader
        .committed(&group(), &[shipments(0), shipments(1), shipments(2)])
        .await
        .unwrap();

    let offset = |partition| {
        read[&shipments(partition)]
            .as_ref()
            .unwrap()
            .as_ref()
            .map(|c| c.offset)
    };
    assert_eq!(
        [offset(0), offset(1), offset(2)],
        [Some(31), Some(43), None]
    );
}

#[tokio::test]
async fn a_code_that_this_client_does_not_know_is_a_failure_by_its_number() {
    let (mock, reader) = mock();
    mock.answer(OFFSET_FETCH, &[FROM_THE_FUTURE]);
    let read = reader.committed(&group(), &[shipments(0)]).await.unwrap();
    assert_eq!(
        read[&shipments(0)],
        Err(Fault::Failed {
            code: "ERR_9999?".to_owned()
        })
    );

    mock.answer(OFFSET_COMMIT, &[FROM_THE_FUTURE]);
    let answers = commit(&mock, &[(shipments(0), CommittedOffset::bare(1))]).await;
    let unknown = AlterAnswer::Unknown("ERR_9999?".to_owned());
    assert_eq!(answers[&shipments(0)], unknown);
}

#[tokio::test]
async fn the_committed_triple_is_bytes_in_and_bytes_out() {
    let (mock, reader) = mock();
    let commit_of = |metadata: &[u8]| CommittedOffset {
        metadata: metadata.to_vec(),
        ..CommittedOffset::bare(7)
    };
    let moves = [
        (shipments(0), commit_of(b"\xff\xfe\x00 not UTF-8 \x80")),
        (shipments(1), commit_of(b"")),
    ];
    commit(&mock, &moves).await;
    let read = reader
        .committed(&group(), &[shipments(0), shipments(1)])
        .await
        .unwrap();
    for (partition, expected) in &moves {
        let seen = read[partition].as_ref().unwrap().as_ref().unwrap();
        assert_eq!((seen.offset, &seen.metadata), (7, &expected.metadata));
    }
}

#[tokio::test]
async fn every_partition_says_for_itself_whether_it_was_altered() {
    let (mock, _) = mock();
    let moves = [
        (shipments(0), CommittedOffset::bare(5)),
        (shipments(99), CommittedOffset::bare(5)),
    ];
    let answers = commit(&mock, &moves).await;
    assert_eq!(answers[&shipments(0)], AlterAnswer::Accepted);
    let gone = AlterAnswer::Rejected("UNKNOWN_TOPIC_OR_PART".to_owned());
    assert_eq!(answers[&shipments(99)], gone);

    mock.answer(OFFSET_COMMIT, &[UNKNOWN_MEMBER_ID]);
    let answers = commit(&mock, &moves[..1]).await;
    let active = AlterAnswer::GroupActive("UNKNOWN_MEMBER_ID".to_owned());
    assert_eq!(answers[&shipments(0)], active);

    mock.answer(OFFSET_COMMIT, &[NOT_COORDINATOR]);
    let answers = commit(&mock, &moves[..1]).await;
    let perhaps_written = AlterAnswer::Unknown("NOT_COORDINATOR".to_owned());
    assert_eq!(answers[&shipments(0)], perhaps_written);
}

#[tokio::test]
async fn an_unstable_commit_is_a_fact_and_not_a_value() {
    let (mock, reader) = mock();
    mock.answer(OFFSET_FETCH, &[UNSTABLE_OFFSET_COMMIT; 10]);
    let read = reader.committed(&group(), &[shipments(0)]).await.unwrap();
    assert_eq!(read[&shipments(0)], Err(Fault::Unstable));
}

#[tokio::test]
async fn a_slow_broker_is_a_time_out_and_what_became_of_an_alter_unknown() {
    let (mock, _) = mock();
    mock.cluster()
        .broker_round_trip_time(-1, Duration::from_secs(30))
        .unwrap();
    let reader = GroupReader::connect(ConnectionSettings {
        request_timeout: Duration::from_millis(200),
        ..settings(&mock)
    })
    .unwrap();

    let began = Instant::now();
    let reader = reader.until(began + Duration::from_millis(700));
    let error = reader
        .committed(&group(), &[shipments(0)])
        .await
        .unwrap_err();
    assert_eq!(error.class, BrokerErrorClass::Transient, "{error}");
    assert!(
        error
            .to_string()
            .starts_with("ListConsumerGroupOffsets failed with _TIMED_OUT"),
        "{error}"
    );
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );

    let writer = GroupWriter::connect(&settings(&mock)).unwrap();
    let moves = [(shipments(0), CommittedOffset::bare(5))];
    let answers = writer
        .commit(&group(), &moves, Duration::from_millis(200))
        .await;
    let unknown = AlterAnswer::Unknown("_TIMED_OUT".to_owned());
    assert_eq!(answers[&shipments(0)], unknown);
    writer.close().await;
}

#[tokio::test]
async fn no_broker_at_all_is_an_error_and_not_a_group_without_commits() {
    let nobody = ConnectionSettings::new("127.0.0.1:1", Auth::Plaintext);
    let reader = GroupReader::connect(nobody)
        .unwrap()
        .until(Instant::now() + Duration::from_millis(500));
    let error = reader
        .observe(&group(), &BTreeSet::new(), true)
        .await
        .unwrap_err();
    assert_eq!(error.class, BrokerErrorClass::Transient, "{error}");
}

/// Ends of a log; the topic itself cannot be described here, since the mock cluster has no controller to ask.
#[tokio::test]
async fn one_partition_without_an_answer_does_not_blind_the_others() {
    let (mock, _) = mock();
    mock.cluster()
        .partition_leader("shipments", 2, None)
        .unwrap();
    let asked = [shipments(0), shipments(1), shipments(2)];
    let client = AdminClient::connect(settings(&mock)).unwrap();
    let ends = client
        .list_ends(&asked, OffsetSpec::Latest, IsolationLevel::ReadUncommitted)
        .await;
    assert_eq!(ends[0].as_ref().unwrap().offset, 0);
    assert_eq!(ends[1].as_ref().unwrap().offset, 0);
    assert_eq!(ends[2], Err(Fault::NoLeader));

    mock.answer(LIST_OFFSETS, &[FROM_THE_FUTURE; 20]);
    let ends = client
        .list_ends(
            &asked[..1],
            OffsetSpec::Latest,
            IsolationLevel::ReadUncommitted,
        )
        .await;
    assert!(matches!(ends[0], Err(Fault::Failed { .. })), "{ends:?}");
}
