//! A checkpoint's run over readings that a recovery comes between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use offset_guard::app::checkpoint;
use offset_guard::config::Config;
use offset_guard::domain::group::{
    GroupDescription, GroupObservation, GroupState, GroupType, PartitionReading, TopicDescription,
};
use offset_guard::domain::offset::{
    ClusterId, CommittedOffset, Fault, FoundByTime, GroupId, TopicId, TopicPartition,
};
use offset_guard::domain::rights::Rights;
use offset_guard::ports::{BrokerError, ReadGroups};
use offset_guard::store::{Opened, Store};
use offset_guard::wire::CheckpointEvent;
use offset_guard_tests::context::{Connect, context};

use super::support::{
    Kind, Table, claim, cluster, commit, group, group_key, hours, log, plan_id, recovery,
};

/// Brokers on which the group is at 43 until an Apply takes it to 31 in the middle of the first reading.
#[derive(Clone)]
struct Brokers<'a> {
    store: Store,
    readings: &'a AtomicU32,
}

impl ReadGroups for Brokers<'_> {
    async fn cluster_id(&self) -> Result<ClusterId, BrokerError> {
        Ok(cluster())
    }

    async fn list_groups(&self) -> Result<BTreeSet<GroupId>, BrokerError> {
        Ok([group()].into())
    }

    async fn observe(
        &self,
        group: &GroupId,
        _: &BTreeSet<TopicPartition>,
        _: bool,
    ) -> Result<GroupObservation, BrokerError> {
        let began_at = Timestamp::now();
        let offset = match self.readings.fetch_add(1, Ordering::SeqCst) {
            0 => {
                let (plan, until) = (plan_id(1), began_at + SignedDuration::from_secs(60));
                assert!(self.store.begin_apply(&plan, until).await.unwrap());
                let ended = self.store.end_apply(&plan, until, Timestamp::now());
                ended.await.unwrap();
                43
            }
            _ => 31,
        };
        tokio::time::sleep(Duration::from_millis(5)).await;
        let topic = TopicDescription {
            id: TopicId::from_bytes([7; 16]),
            partitions: 1,
        };
        let reading = PartitionReading {
            committed: Ok(Some(commit(offset))),
            log: Ok(log()),
        };
        Ok(GroupObservation {
            cluster_id: cluster(),
            group: group.clone(),
            description: Ok(GroupDescription {
                state: GroupState::Empty,
                group_type: GroupType::Classic,
                is_simple: false,
                assignor: String::new(),
                members: Vec::new(),
            }),
            topics: [("shipments".to_owned(), Ok(topic))].into(),
            partitions: [(TopicPartition::new("shipments", 0), reading)].into(),
            began_at,
            ended_at: Timestamp::now(),
        })
    }

    async fn describe(&self, _: &GroupId) -> Result<GroupDescription, Fault> {
        Err(Fault::missing())
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

#[tokio::test]
async fn a_group_that_was_moved_while_it_was_read_is_read_again() {
    let table = Table::new(Kind::Memory).await;
    let store = table.store();
    let (recovery, claim) = (recovery(1), claim(1, Timestamp::now() + hours(1)));
    let open = store.open_recovery(&recovery, &claim, Timestamp::now());
    assert_eq!(open.await.unwrap(), Opened::Yes);
    let config = Config::parse(&format!(
        "[clusters.local]\nbootstrap_servers = [\"127.0.0.1:1\"]\nauth = \"plaintext\"\n\
         [[groups]]\ncluster = \"local\"\nname = {:?}\n",
        group().0
    ));
    let readings = AtomicU32::new(0);
    let brokers = Brokers {
        store: store.clone(),
        readings: &readings,
    };
    let event = CheckpointEvent {
        scheduled_time: None,
        cluster: None,
        group: None,
    };
    let connect = async |_: &str| Ok(brokers.clone());
    let ctx = context(config.unwrap(), &store, Connect::reading(connect));
    let run = checkpoint::take_checkpoints(&ctx, &event);
    run.await.unwrap();
    assert_eq!(readings.into_inner(), 2);
    let now = Timestamp::now();
    let group = group_key();
    let headers = store.headers(&group, now).await.unwrap();
    assert_eq!(
        headers.len(),
        1,
        "what was read across the move is not kept"
    );
    let kept = store.checkpoint(&group, &headers[0]).await;
    let kept = kept.unwrap();
    let at = TopicPartition::new("shipments", 0);
    assert_eq!(kept.partitions[&at].committed, Some(commit(31)));
    assert_eq!(kept.anomalies, []);
}
