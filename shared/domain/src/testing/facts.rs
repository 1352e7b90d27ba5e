//! Single facts of Kafka, each in one call: instants, offsets, logs, members, a group as it was read.

use jiff::Timestamp;

use crate::group::MemberSeen;
use crate::group::{
    GroupDescription, GroupObservation, GroupState, GroupType, Member, PartitionReading,
    TopicDescription,
};
use crate::offset::{
    ClusterId, CommittedOffset, Fault, FoundByTime, GroupId, TopicId, TopicPartition, Watermarks,
};

/// An instant of the day of the incident.
pub fn at(time: &str) -> Timestamp {
    format!("2026-11-30T{time}Z").parse().unwrap()
}

/// A partition of `shipments`.
pub fn p(partition: i32) -> TopicPartition {
    TopicPartition::new("shipments", partition)
}

pub fn id(byte: u8) -> Option<TopicId> {
    TopicId::from_bytes([byte; 16])
}

pub fn log(log_start: i64, high: i64) -> Watermarks {
    Watermarks {
        log_start,
        last_stable: high,
        high,
        leader_epoch: Some(5),
    }
}

/// An offset as a consumer commits it: with the epoch of the record before it.
pub fn commit(offset: i64) -> CommittedOffset {
    CommittedOffset {
        leader_epoch: Some(4),
        ..CommittedOffset::bare(offset)
    }
}

pub fn with_metadata(offset: i64, metadata: &str) -> CommittedOffset {
    CommittedOffset {
        metadata: metadata.as_bytes().to_vec(),
        ..commit(offset)
    }
}

pub fn member(name: &str) -> Member {
    Member {
        member_id: format!("{name}-id"),
        client_id: name.to_owned(),
        host: "/10.0.0.7".to_owned(),
        instance_id: None,
        assignment: vec![p(0), p(1), p(2)],
    }
}

pub fn member_seen(name: &str) -> MemberSeen {
    MemberSeen {
        client_id: name.to_owned(),
        member_id: format!("{name}-id"),
        host: "/10.0.0.7".to_owned(),
    }
}

/// An inactive group at these offsets of `shipments`, each partition's log holding 0 to its `high`.
pub fn seen(offsets: &[i64], highs: &[i64]) -> GroupObservation {
    let partitions = offsets.iter().zip(highs).zip(0..);
    GroupObservation {
        cluster_id: ClusterId("cluster-a".to_owned()),
        group: GroupId("shipment-sync".to_owned()),
        description: Ok(GroupDescription {
            state: GroupState::Empty,
            group_type: GroupType::Classic,
            is_simple: false,
            assignor: String::new(),
            members: Vec::new(),
        }),
        topics: [("shipments".to_owned(), topic(7, 3))].into(),
        partitions: partitions
            .map(|((offset, high), partition)| {
                let reading = PartitionReading {
                    committed: Ok(Some(commit(*offset))),
                    log: Ok(log(0, *high)),
                };
                (p(partition), reading)
            })
            .collect(),
        began_at: at("09:29:59"),
        ended_at: at("09:30:00"),
    }
}

pub fn topic(id_byte: u8, partitions: i32) -> Result<TopicDescription, Fault> {
    Ok(TopicDescription {
        id: id(id_byte),
        partitions,
    })
}

pub fn describe(seen: &mut GroupObservation) -> &mut GroupDescription {
    seen.description.as_mut().unwrap()
}

/// As a broker describes a group that does not exist, a live share group, and a live Streams group.
pub fn make_dead(seen: &mut GroupObservation) {
    describe(seen).state = GroupState::Dead;
    describe(seen).is_simple = true;
}

pub fn reading(seen: &mut GroupObservation, partition: i32) -> &mut PartitionReading {
    seen.partitions.get_mut(&p(partition)).unwrap()
}

pub fn commit_nothing(seen: &mut GroupObservation) {
    for reading in seen.partitions.values_mut() {
        reading.committed = Ok(None);
    }
}

/// A record that was found by its time, about which nothing is odd.
pub fn found_at(offset: i64) -> FoundByTime {
    FoundByTime {
        offset,
        dated: None,
        overtaken: None,
    }
}

/// Seconds after an arbitrary noon, for tests that only compare instants.
pub fn at_second(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}
