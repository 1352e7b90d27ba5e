//! The looks of one run of the guard as columns a topic, as checkpoints are written.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::domain::group::{GroupState, GroupType, MemberSeen};
use crate::domain::guard::sample::{LiveRecovery, MembersTrouble, PartitionSample, Sample};
use crate::domain::offset::{Fault, TopicId, TopicPartition, Watermarks};

/// One look.
#[derive(Serialize, Deserialize)]
pub(in crate::store) struct Look {
    run: Timestamp,
    at: Timestamp,
    state: GroupState,
    group_type: GroupType,
    is_simple: bool,
    members: Vec<MemberSeen>,
    moved_at: Option<Timestamp>,
    /// Looks of an earlier release have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recovery: Option<LiveRecovery>,
    /// Looks of an earlier release have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trouble: Option<MembersTrouble>,
    /// What `owner` of the topics points into.
    owners: Words<String>,
    /// What `still_since` and `stable_since` point into: most partitions share a few instants.
    instants: Words<Timestamp>,
    topics: Vec<Topic>,
}

#[derive(Serialize, Deserialize)]
struct Topic {
    name: String,
    described: Option<Described>,
    partition: Vec<i32>,
    high: Vec<i64>,
    /// The positions are written as their distance below `high`, which mostly is short.
    last_stable_below: Vec<i64>,
    log_start_below: Vec<i64>,
    log_epoch: Vec<Option<i32>>,
    /// `None` is no commit.
    committed_below: Vec<Option<i64>>,
    owner: Vec<Option<usize>>,
    unstable: Vec<bool>,
    still_since: Vec<usize>,
    stable_since: Vec<usize>,
    longest_pause_seconds: Vec<u32>,
    /// The partitions that could not be read, and why.
    faults: Vec<(i32, Fault)>,
}

#[derive(Serialize, Deserialize)]
struct Described {
    id: Option<TopicId>,
}

/// Values that stand once each, and are named by their place.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Words<T>(Vec<T>);

/// Gives values their places.
struct Places<T>(BTreeMap<T, usize>);

impl<T: Ord + Clone> Places<T> {
    fn of(&mut self, value: &T) -> usize {
        if let Some(place) = self.0.get(value) {
            return *place;
        }
        let place = self.0.len();
        self.0.insert(value.clone(), place);
        place
    }

    fn words(self) -> Words<T> {
        let mut words: Vec<_> = self.0.into_iter().collect();
        words.sort_by_key(|(_, place)| *place);
        Words(words.into_iter().map(|(value, _)| value).collect())
    }
}

impl Topic {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            described: None,
            partition: Vec::new(),
            high: Vec::new(),
            last_stable_below: Vec::new(),
            log_start_below: Vec::new(),
            log_epoch: Vec::new(),
            committed_below: Vec::new(),
            owner: Vec::new(),
            unstable: Vec::new(),
            still_since: Vec::new(),
            stable_since: Vec::new(),
            longest_pause_seconds: Vec::new(),
            faults: Vec::new(),
        }
    }

    fn push(
        &mut self,
        partition: i32,
        sample: &PartitionSample,
        owners: &mut Places<String>,
        instants: &mut Places<Timestamp>,
    ) {
        let log = &sample.log;
        // Wrapping, so that whatever a broker says comes back as it was.
        let below = |position: i64| log.high.wrapping_sub(position);
        self.partition.push(partition);
        self.high.push(log.high);
        self.last_stable_below.push(below(log.last_stable));
        self.log_start_below.push(below(log.log_start));
        self.log_epoch.push(log.leader_epoch);
        self.committed_below.push(sample.committed.map(below));
        self.owner
            .push(sample.owner.as_ref().map(|owner| owners.of(owner)));
        self.unstable.push(sample.unstable);
        self.still_since.push(instants.of(&sample.still_since));
        self.stable_since.push(instants.of(&sample.stable_since));
        self.longest_pause_seconds
            .push(sample.longest_pause_seconds);
    }

    /// The row `i`; `None` where a column is shorter than the others or points at nothing.
    fn row(
        &self,
        i: usize,
        owners: &[String],
        instants: &[Timestamp],
    ) -> Option<(i32, PartitionSample)> {
        let high = *self.high.get(i)?;
        let at = |below: i64| high.wrapping_sub(below);
        let owner = match *self.owner.get(i)? {
            None => None,
            Some(place) => Some(owners.get(place)?.clone()),
        };
        let instant = |column: &[usize]| instants.get(*column.get(i)?).copied();
        let sample = PartitionSample {
            committed: self.committed_below.get(i)?.map(at),
            log: Watermarks {
                log_start: at(*self.log_start_below.get(i)?),
                last_stable: at(*self.last_stable_below.get(i)?),
                high,
                leader_epoch: *self.log_epoch.get(i)?,
            },
            owner,
            unstable: *self.unstable.get(i)?,
            still_since: instant(&self.still_since)?,
            stable_since: instant(&self.stable_since)?,
            longest_pause_seconds: *self.longest_pause_seconds.get(i)?,
        };
        Some((*self.partition.get(i)?, sample))
    }
}

impl From<&Sample> for Look {
    fn from(sample: &Sample) -> Self {
        let mut topics: BTreeMap<&str, Topic> = BTreeMap::new();
        let (mut owners, mut instants) = (Places(BTreeMap::new()), Places(BTreeMap::new()));
        for (name, id) in &sample.topics {
            let columns = topics.entry(name).or_insert_with(|| Topic::new(name));
            columns.described = Some(Described { id: *id });
        }
        for (at, partition) in &sample.partitions {
            let columns = topics
                .entry(&at.topic)
                .or_insert_with(|| Topic::new(&at.topic));
            match partition {
                Ok(of) => columns.push(at.partition, of, &mut owners, &mut instants),
                Err(fault) => columns.faults.push((at.partition, fault.clone())),
            }
        }
        Self {
            run: sample.run,
            at: sample.at,
            state: sample.state,
            group_type: sample.group_type,
            is_simple: sample.is_simple,
            members: sample.members.clone(),
            moved_at: sample.moved_at,
            recovery: sample.recovery.clone(),
            trouble: sample.trouble,
            topics: topics.into_values().collect(),
            owners: owners.words(),
            instants: instants.words(),
        }
    }
}

impl Look {
    /// The sample; `None` where the columns do not fit together.
    pub(in crate::store) fn sample(self) -> Option<Sample> {
        let mut topics = BTreeMap::new();
        let mut partitions = BTreeMap::new();
        for columns in self.topics {
            for i in 0..columns.partition.len() {
                let (partition, sample) = columns.row(i, &self.owners.0, &self.instants.0)?;
                let at = TopicPartition::new(columns.name.clone(), partition);
                if partitions.insert(at, Ok(sample)).is_some() {
                    return None;
                }
            }
            for (partition, fault) in columns.faults {
                let at = TopicPartition::new(columns.name.clone(), partition);
                if partitions.insert(at, Err(fault)).is_some() {
                    return None;
                }
            }
            if let Some(Described { id }) = columns.described {
                topics.insert(columns.name, id);
            }
        }
        Some(Sample {
            run: self.run,
            at: self.at,
            state: self.state,
            group_type: self.group_type,
            is_simple: self.is_simple,
            members: self.members,
            topics,
            moved_at: self.moved_at,
            recovery: self.recovery,
            trouble: self.trouble,
            partitions,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    use super::super::packed::{Packed, unpack};
    use super::*;
    use crate::domain::guard::sample::{Stage, Trouble};
    use crate::domain::ids::PlanId;

    fn again(samples: &[Sample]) -> Option<Vec<Sample>> {
        let looks: Vec<_> = samples.iter().map(Look::from).collect();
        let packed = Packed::new(&looks).unwrap();
        let looks: Vec<Look> = unpack(packed.bytes()).unwrap();
        looks.into_iter().map(Look::sample).collect()
    }

    prop_compose! {
        fn instant()(seconds in 0_i64..9_999_999_999, nanos in 0_i32..1_000_000_000) -> Timestamp {
            Timestamp::new(seconds, nanos).unwrap()
        }
    }

    prop_compose! {
        fn partition()(
            committed: Option<i64>,
            (log_start, last_stable, high, leader_epoch) in any::<(i64, i64, i64, Option<i32>)>(),
            owner in any::<Option<String>>(),
            (unstable, longest_pause_seconds) in any::<(bool, u32)>(),
            (still_since, stable_since) in (instant(), instant()),
            fault in prop_oneof![
                3 => Just(None),
                1 => Just(Some(Fault::NoLeader)),
                1 => Just(Some(Fault::missing())),
            ],
        ) -> Result<PartitionSample, Fault> {
            match fault {
                Some(fault) => Err(fault),
                None => Ok(PartitionSample {
                    committed,
                    log: Watermarks { log_start, last_stable, high, leader_epoch },
                    owner,
                    unstable,
                    still_since,
                    stable_since,
                    longest_pause_seconds,
                }),
            }
        }
    }

    prop_compose! {
        fn recovery()(
            plan in "[0-9A-Z]{3}",
            since in instant(),
            stage in prop::sample::select(vec![Stage::AwaitsApproval, Stage::Approved, Stage::Applies]),
            targets in vec(("[a-c#%]{1,2}", any::<(i32, i64)>()), 0..3),
        ) -> LiveRecovery {
            LiveRecovery {
                plan: PlanId(plan),
                since,
                stage,
                targets: targets
                    .into_iter()
                    .map(|(topic, (partition, to))| (TopicPartition { topic, partition }, to))
                    .collect(),
            }
        }
    }

    prop_compose! {
        // Few names, so that topics meet their partitions, and some have none or are not described.
        fn sample()(
            (run, at, moved_at) in (instant(), instant(), prop::option::of(instant())),
            (is_simple, recovery) in (any::<bool>(), prop::option::of(recovery())),
            trouble in prop::option::of(prop::sample::select(vec![Trouble::None, Trouble::Absent, Trouble::Rebalances])),
            members in vec(any::<(String, String, String)>(), 0..3),
            topics in btree_map("[a-c#%]{1,2}", any::<[u8; 16]>(), 0..5),
            partitions in btree_map(("[a-c#%]{1,2}", any::<i32>()), partition(), 0..20),
        ) -> Sample {
            Sample {
                run,
                at,
                state: GroupState::Reconciling,
                group_type: GroupType::Consumer,
                is_simple,
                members: members
                    .into_iter()
                    .map(|(member_id, client_id, host)| MemberSeen { member_id, client_id, host })
                    .collect(),
                topics: topics
                    .into_iter()
                    .map(|(name, id)| (name, TopicId::from_bytes(id)))
                    .collect(),
                moved_at,
                recovery,
                trouble: trouble.map(|unmoved| MembersTrouble { moving: Trouble::Crashes, unmoved }),
                partitions: partitions
                    .into_iter()
                    .map(|((topic, partition), of)| (TopicPartition { topic, partition }, of))
                    .collect(),
            }
        }
    }

    proptest! {
        #[test]
        fn any_looks_come_back_as_they_were(samples in vec(sample(), 0..3)) {
            prop_assert_eq!(again(&samples), Some(samples));
        }
    }

    #[test]
    fn looks_of_an_earlier_release_had_no_recovery() {
        let look = serde_json::json!({
            "run": "2026-11-30T08:00:00Z", "at": "2026-11-30T08:00:00Z", "state": GroupState::Empty,
            "group_type": GroupType::Classic, "is_simple": false, "members": [], "moved_at": null,
            "owners": [], "instants": [], "topics": [],
        });
        let look: Look = serde_json::from_value(look).unwrap();
        assert_eq!(look.sample().unwrap().recovery, None);
    }

    #[test]
    fn columns_that_do_not_fit_together_are_no_sample() {
        let at = Timestamp::UNIX_EPOCH;
        let partition = |n| (TopicPartition::new("a", n), Err(Fault::NoLeader));
        let mut whole = Sample {
            run: at,
            at,
            state: GroupState::Stable,
            group_type: GroupType::Classic,
            is_simple: false,
            members: vec![],
            topics: BTreeMap::new(),
            moved_at: None,
            recovery: None,
            trouble: None,
            partitions: [partition(0), partition(1)].into(),
        };
        let mut twice = Look::from(&whole);
        twice.topics[0].faults[1].0 = 0;
        assert_eq!(twice.sample(), None);
        let of = PartitionSample {
            committed: None,
            log: Watermarks {
                log_start: 0,
                last_stable: 0,
                high: 0,
                leader_epoch: None,
            },
            owner: Some("m".to_owned()),
            unstable: false,
            still_since: at,
            stable_since: at,
            longest_pause_seconds: 0,
        };
        whole.partitions.insert(TopicPartition::new("a", 0), Ok(of));
        let mut short = Look::from(&whole);
        short.topics[0].unstable.pop();
        assert_eq!(short.sample(), None);
        let mut nobody = Look::from(&whole);
        nobody.owners.0.clear();
        assert_eq!(nobody.sample(), None);
        assert_eq!(Look::from(&whole).sample(), Some(whole));
    }
}
