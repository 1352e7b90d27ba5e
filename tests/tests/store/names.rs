//! Names that Kafka takes and no key of the table holds.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use offset_guard::app::checkpoint::{self, GroupResult};
use offset_guard::config::Config;
use offset_guard::domain::group::{
    GroupDescription, GroupObservation, GroupState, GroupType, PartitionReading, TopicDescription,
};
use offset_guard::domain::offset::{
    ClusterId, CommittedOffset, Fault, FoundByTime, GroupId, TopicId, TopicPartition, Watermarks,
};
use offset_guard::domain::rights::Rights;
use offset_guard::error::Error;
use offset_guard::ports::{BrokerError, ReadGroups};
use offset_guard::wire::CheckpointEvent;
use offset_guard_tests::context::{Connect, context};

use super::support::{Kind, Table, cluster};

/// Brokers with these groups, each at rest and with one commit.
struct Groups(Vec<String>);

impl ReadGroups for Groups {
    async fn cluster_id(&self) -> Result<ClusterId, BrokerError> {
        Ok(cluster())
    }

    async fn list_groups(&self) -> Result<BTreeSet<GroupId>, BrokerError> {
        Ok(self.0.iter().cloned().map(GroupId).collect())
    }

    async fn observe(
        &self,
        group: &GroupId,
        _: &BTreeSet<TopicPartition>,
        _: bool,
    ) -> Result<GroupObservation, BrokerError> {
        let log = Watermarks {
            log_start: 0,
            last_stable: 9,
            high: 9,
            leader_epoch: None,
        };
        let topic = TopicDescription {
            id: TopicId::from_bytes([1; 16]),
            partitions: 1,
        };
        let reading = PartitionReading {
            committed: Ok(Some(CommittedOffset::bare(4))),
            log: Ok(log),
        };
        Ok(GroupObservation {
            cluster_id: cluster(),
            group: group.clone(),
            description: Ok(described()),
            topics: BTreeMap::from([("t".to_owned(), Ok(topic))]),
            partitions: BTreeMap::from([(TopicPartition::new("t", 0), reading)]),
            began_at: Timestamp::now(),
            ended_at: Timestamp::now(),
        })
    }

    async fn describe(&self, _: &GroupId) -> Result<GroupDescription, Fault> {
        Ok(described())
    }

    async fn committed(
        &self,
        _: &GroupId,
        _: &[TopicPartition],
    ) -> Result<BTreeMap<TopicPartition, Result<Option<CommittedOffset>, Fault>>, BrokerError> {
        Ok(BTreeMap::new())
    }

    async fn rights(&self, _: &GroupId, _: &BTreeSet<String>) -> Result<Rights, BrokerError> {
        Ok(Rights {
            group: None,
            topics: BTreeMap::new(),
        })
    }

    async fn offsets_for_times(
        &self,
        _: &[(TopicPartition, Timestamp)],
    ) -> Result<BTreeMap<TopicPartition, Result<Option<FoundByTime>, Fault>>, BrokerError> {
        Ok(BTreeMap::new())
    }
}

fn described() -> GroupDescription {
    GroupDescription {
        state: GroupState::Empty,
        group_type: GroupType::Classic,
        is_simple: false,
        assignor: String::new(),
        members: Vec::new(),
    }
}

#[tokio::test]
async fn a_group_whose_name_is_too_long_fails_nobody_elses_checkpoint() {
    let config = Config::parse(
        "[clusters.main]\nbootstrap_servers = [\"h:1\"]\nauth = \"plaintext\"\n[[groups]]\npattern = \"*\"\n",
    )
    .unwrap();
    let table = Table::new(Kind::Memory).await;
    let store = table.store();
    let (long, wide) = ("a".repeat(1_100), "注".repeat(300));
    let names = vec!["plain".to_owned(), long.clone(), wide.clone()];
    let event = CheckpointEvent::default();
    let connect = async |_: &str| Ok::<_, Error>(Groups(names.clone()));
    let ctx = context(config, &store, Connect::reading(connect));
    let results = checkpoint::take_checkpoints(&ctx, &event).await.unwrap();
    let mut stored = BTreeSet::new();
    let mut not_kept = BTreeMap::new();
    for result in results {
        match result {
            GroupResult::Stored { group, .. } => assert!(stored.insert(group.0)),
            GroupResult::NotKept { group, why, .. } => {
                assert!(not_kept.insert(group.0, why).is_none())
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(stored, BTreeSet::from(["plain".to_owned(), wide]));
    let says = "a group's name of 1,100 bytes cannot be kept; it may have 1 to 1,000 bytes of UTF-8, of which # and % take \
                three each";
    assert_eq!(not_kept, BTreeMap::from([(long, says.to_owned())]));
}
