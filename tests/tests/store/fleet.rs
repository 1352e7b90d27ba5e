//! A run of the guard over more groups than it has time for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use offset_guard::app::guard::{self, Sources};
use offset_guard::config::Config;
use offset_guard::domain::group::{
    GroupDescription, GroupObservation, GroupState, GroupType, PartitionReading, TopicDescription,
};
use offset_guard::domain::guard::verdict::Status;
use offset_guard::domain::offset::{
    ClusterId, CommittedOffset, Fault, FoundByTime, GroupId, TopicPartition,
};
use offset_guard::domain::rights::Rights;
use offset_guard::kafka::{Auth, ConnectionSettings, RecordKeeper, RecordReader};
use offset_guard::ports::{BrokerError, BrokerErrorClass, ReadGroups};
use offset_guard::wire::guard::GuardEvent;
use offset_guard_tests::context::{Guarded, context};
use offset_guard_tests::reader_program;

use super::support::{Kind, Table, commit, log};

const JUNK: usize = 300;
const MAX_GROUPS: usize = 250;
const NAMED: &str = "shipment-sync";

/// A cluster in which somebody made [`JUNK`] groups that commit what is old, in the time that a run has.
struct Flooded {
    ends_at: Instant,
}

impl ReadGroups for Flooded {
    fn ends_at(&self) -> Option<Instant> {
        Some(self.ends_at)
    }

    async fn cluster_id(&self) -> Result<ClusterId, BrokerError> {
        Ok(super::support::cluster())
    }

    async fn list_groups(&self) -> Result<BTreeSet<GroupId>, BrokerError> {
        let junk = (0..JUNK).map(|n| GroupId(format!("billing-!{n:04}")));
        Ok(junk.chain([GroupId(NAMED.to_owned())]).collect())
    }

    async fn observe(
        &self,
        group: &GroupId,
        _: &BTreeSet<TopicPartition>,
        _: bool,
    ) -> Result<GroupObservation, BrokerError> {
        tokio::time::sleep(Duration::from_millis(400)).await;
        if Instant::now() >= self.ends_at {
            return Err(BrokerError {
                class: BrokerErrorClass::Transient,
                fault: Fault::Failed {
                    code: "_TIMED_OUT".to_owned(),
                },
                message: "the time is over".to_owned(),
            });
        }
        let now = Timestamp::now();
        let topic = TopicDescription {
            id: None,
            partitions: 1,
        };
        Ok(GroupObservation {
            cluster_id: super::support::cluster(),
            group: group.clone(),
            description: self.describe(group).await,
            topics: BTreeMap::from([("billing".to_owned(), Ok(topic))]),
            partitions: BTreeMap::from([(
                TopicPartition::new("billing", 0),
                PartitionReading {
                    committed: Ok(Some(commit(43))),
                    log: Ok(log()),
                },
            )]),
            began_at: now,
            ended_at: now,
        })
    }

    async fn describe(&self, _: &GroupId) -> Result<GroupDescription, Fault> {
        Ok(GroupDescription {
            state: GroupState::Empty,
            group_type: GroupType::Classic,
            is_simple: false,
            assignor: String::new(),
            members: Vec::new(),
        })
    }

    async fn committed(
        &self,
        _: &GroupId,
        partitions: &[TopicPartition],
    ) -> Result<BTreeMap<TopicPartition, Result<Option<CommittedOffset>, Fault>>, BrokerError> {
        let stable = partitions
            .iter()
            .map(|partition| (partition.clone(), Ok(None)));
        Ok(stable.collect())
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

#[tokio::test(flavor = "multi_thread")]
async fn groups_that_somebody_made_under_a_pattern_take_no_time_from_those_that_are_named() {
    let table = Table::new(Kind::Memory).await;
    let store = table.store();
    let config = format!(
        "[clusters.main]\nbootstrap_servers = [\"127.0.0.1:1\"]\nauth = \"plaintext\"\n\
         [[groups]]\npattern = \"billing-*\"\nmax_groups = {MAX_GROUPS}\n[[groups]]\nname = \"{NAMED}\"\n"
    );
    let config = Config::parse(&config).unwrap();
    let connect = async |_: &str| {
        let nowhere = ConnectionSettings::new("127.0.0.1:1", Auth::Plaintext);
        Ok(Sources {
            groups: Flooded {
                ends_at: Instant::now() + Duration::from_secs(5),
            },
            records: RecordReader::connect(nowhere.clone(), reader_program())?,
            keeper: RecordKeeper::connect(nowhere)?,
            proxy: None,
        })
    };
    // Nobody is told anything: nothing can be, and that is no failure of the run.
    let event = GuardEvent::default();
    let ctx = context(config, &store, Guarded(connect));
    let results = guard::guard_groups(&ctx, &event).await;
    let results = results.unwrap();

    let of = |group: &str| {
        let mut results = results.iter();
        let found = results.find(|result| result.group.as_ref().is_some_and(|g| g.0 == group));
        found.unwrap()
    };
    assert_eq!(of(NAMED).status, Status::Healthy, "{:?}", of(NAMED));
    let cap: Vec<_> = results.iter().filter(|r| r.group.is_none()).collect();
    assert_eq!(cap.len(), 1);
    assert!(
        cap[0].summary.contains("\"billing-*\" has 300 groups"),
        "{cap:?}"
    );
    assert_eq!(results.len(), 1 + MAX_GROUPS + 1);
    let (seen, missed): (Vec<_>, Vec<_>) = results
        .iter()
        .filter(|result| result.group.is_some())
        .partition(|result| result.status == Status::Healthy);
    assert!(
        !missed.is_empty() && seen.len() > 16,
        "{} {}",
        seen.len(),
        missed.len()
    );
    for missed in missed {
        assert_eq!(missed.status, Status::Unknown);
        assert!(missed.summary.starts_with("not reached"), "{missed:?}");
    }
    assert!(results.is_sorted_by(|a, b| a.group <= b.group));
}
