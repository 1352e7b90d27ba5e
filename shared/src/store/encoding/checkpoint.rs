//! A checkpoint's body as columns a topic: names stand once, and small like numbers beside each other compress well.

use std::collections::{BTreeMap, BTreeSet};

use data_encoding::BASE64;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::domain::checkpoint::{Anomaly, Checkpoint, CheckpointPartition, CheckpointTopic};
use crate::domain::group::{GroupState, GroupType};
use crate::domain::ids::CheckpointId;
use crate::domain::offset::{
    ClusterId, CommittedOffset, GroupId, TopicId, TopicPartition, Watermarks,
};

/// Everything of a checkpoint but its anomalies, which stand in its header.
#[derive(Serialize, Deserialize)]
pub(in crate::store) struct Body {
    id: CheckpointId,
    cluster_id: ClusterId,
    group: GroupId,
    group_type: GroupType,
    state: GroupState,
    members: Vec<String>,
    began_at: Timestamp,
    ended_at: Timestamp,
    topics: Vec<Topic>,
    gone_topics: BTreeSet<String>,
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
    /// `None` is no commit; then the other two say nothing.
    offset_below: Vec<Option<i64>>,
    epoch: Vec<Option<i32>>,
    /// In base64, because it need not be text.
    metadata: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Described {
    id: Option<TopicId>,
    partitions: i32,
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
            offset_below: Vec::new(),
            epoch: Vec::new(),
            metadata: Vec::new(),
        }
    }

    fn push(&mut self, partition: i32, body: &CheckpointPartition) {
        let (log, committed) = (&body.log, body.committed.as_ref());
        // Wrapping, so that whatever a broker says comes back as it was.
        let below = |position: i64| log.high.wrapping_sub(position);
        self.partition.push(partition);
        self.high.push(log.high);
        self.last_stable_below.push(below(log.last_stable));
        self.log_start_below.push(below(log.log_start));
        self.log_epoch.push(log.leader_epoch);
        self.offset_below.push(committed.map(|c| below(c.offset)));
        self.epoch.push(committed.and_then(|c| c.leader_epoch));
        self.metadata
            .push(committed.map_or(String::new(), |c| BASE64.encode(&c.metadata)));
    }

    /// The row `i`; `None` where a column is shorter than the others or holds what it must not.
    fn row(&self, i: usize) -> Option<(i32, CheckpointPartition)> {
        let high = *self.high.get(i)?;
        let at = |below: i64| high.wrapping_sub(below);
        let (offset_below, leader_epoch) = (*self.offset_below.get(i)?, *self.epoch.get(i)?);
        let metadata = BASE64.decode(self.metadata.get(i)?.as_bytes()).ok()?;
        let body = CheckpointPartition {
            committed: offset_below.map(|below| CommittedOffset {
                offset: at(below),
                leader_epoch,
                metadata,
            }),
            log: Watermarks {
                log_start: at(*self.log_start_below.get(i)?),
                last_stable: at(*self.last_stable_below.get(i)?),
                high,
                leader_epoch: *self.log_epoch.get(i)?,
            },
        };
        Some((*self.partition.get(i)?, body))
    }
}

impl From<&Checkpoint> for Body {
    fn from(c: &Checkpoint) -> Self {
        let mut topics: BTreeMap<&str, Topic> = BTreeMap::new();
        for (name, topic) in &c.topics {
            let columns = topics.entry(name).or_insert_with(|| Topic::new(name));
            columns.described = Some(Described {
                id: topic.id,
                partitions: topic.partitions,
            });
        }
        for (at, body) in &c.partitions {
            let columns = topics
                .entry(&at.topic)
                .or_insert_with(|| Topic::new(&at.topic));
            columns.push(at.partition, body);
        }
        Self {
            id: c.id.clone(),
            cluster_id: c.cluster_id.clone(),
            group: c.group.clone(),
            group_type: c.group_type,
            state: c.state,
            members: c.members.clone(),
            began_at: c.began_at,
            ended_at: c.ended_at,
            topics: topics.into_values().collect(),
            gone_topics: c.gone_topics.clone(),
        }
    }
}

impl Body {
    /// The checkpoint; `None` where the columns do not fit together.
    pub(in crate::store) fn checkpoint(self, anomalies: Vec<Anomaly>) -> Option<Checkpoint> {
        let mut topics = BTreeMap::new();
        let mut partitions = BTreeMap::new();
        for columns in self.topics {
            for i in 0..columns.partition.len() {
                let (partition, body) = columns.row(i)?;
                let at = TopicPartition::new(columns.name.clone(), partition);
                if partitions.insert(at, body).is_some() {
                    return None;
                }
            }
            if let Some(Described { id, partitions }) = columns.described {
                topics.insert(columns.name, CheckpointTopic { id, partitions });
            }
        }
        Some(Checkpoint {
            id: self.id,
            cluster_id: self.cluster_id,
            group: self.group,
            group_type: self.group_type,
            state: self.state,
            members: self.members,
            began_at: self.began_at,
            ended_at: self.ended_at,
            topics,
            partitions,
            gone_topics: self.gone_topics,
            anomalies,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, btree_set, vec};
    use proptest::prelude::*;

    use super::super::body::IN_ITEM;
    use super::super::packed::{Packed, unpack};
    use super::*;

    fn again(c: &Checkpoint) -> Option<Checkpoint> {
        let packed = Packed::new(&Body::from(c)).unwrap();
        unpack::<Body>(packed.bytes())
            .unwrap()
            .checkpoint(c.anomalies.clone())
    }

    prop_compose! {
        fn partition()(
            committed in any::<Option<(i64, Option<i32>, Vec<u8>)>>(),
            (log_start, last_stable, high, leader_epoch) in any::<(i64, i64, i64, Option<i32>)>(),
        ) -> CheckpointPartition {
            CheckpointPartition {
                committed: committed.map(|(offset, leader_epoch, metadata)| {
                    CommittedOffset { offset, leader_epoch, metadata }
                }),
                log: Watermarks { log_start, last_stable, high, leader_epoch },
            }
        }
    }

    prop_compose! {
        // Few names, so that topics meet their partitions, and some have none or are not described.
        fn checkpoint()(
            group: String,
            members: Vec<String>,
            (began, ended) in (0_i64..9_999_999_999, 0_i32..1_000_000_000),
            topics in btree_map("[a-c#%]{1,2}", any::<([u8; 16], i32)>(), 0..5),
            partitions in btree_map(("[a-c#%]{1,2}", any::<i32>()), partition(), 0..20),
            gone_topics in btree_set(any::<String>(), 0..3),
            anomalies in vec(("[ab]", any::<i32>(), any::<i64>(), any::<i64>()), 0..3),
        ) -> Checkpoint {
            Checkpoint {
                id: CheckpointId("01J".to_owned()),
                cluster_id: ClusterId("c".to_owned()),
                group: GroupId(group),
                group_type: GroupType::Consumer,
                state: GroupState::Stable,
                members,
                began_at: Timestamp::from_second(began).unwrap(),
                ended_at: Timestamp::new(began, ended).unwrap(),
                topics: topics
                    .into_iter()
                    .map(|(name, (id, partitions))| {
                        (name, CheckpointTopic { id: TopicId::from_bytes(id), partitions })
                    })
                    .collect(),
                partitions: partitions
                    .into_iter()
                    .map(|((topic, partition), body)| (TopicPartition { topic, partition }, body))
                    .collect(),
                gone_topics,
                anomalies: anomalies
                    .into_iter()
                    .map(|(topic, partition, before, after)| Anomaly::OffsetWentBackwards {
                        partition: TopicPartition { topic, partition },
                        before,
                        after,
                    })
                    .collect(),
            }
        }
    }

    proptest! {
        #[test]
        fn any_checkpoint_comes_back_as_it_was(c in checkpoint()) {
            prop_assert_eq!(again(&c), Some(c));
        }
    }

    /// Ten thousand partitions whose topics' names are as long as Kafka allows, at offsets without a pattern.
    fn wide(topics: usize) -> Checkpoint {
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        let mut next = move |below: i64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            i64::try_from(random >> 1).unwrap() % below
        };
        let name = |topic: usize| format!("{topic:05}-{}", "orders.".repeat(35))[..249].to_owned();
        let partitions = (0..10_000_usize)
            .map(|n| {
                let at = TopicPartition::new(name(n % topics), i32::try_from(n / topics).unwrap());
                let log_start = next(10_000_000_000);
                let offset = log_start + next(100_000_000);
                let high = offset + next(100_000);
                let body = CheckpointPartition {
                    committed: Some(CommittedOffset {
                        offset,
                        leader_epoch: Some(i32::try_from(next(200)).unwrap()),
                        metadata: Vec::new(),
                    }),
                    log: Watermarks {
                        log_start,
                        last_stable: high,
                        high,
                        leader_epoch: Some(i32::try_from(next(200)).unwrap()),
                    },
                };
                (at, body)
            })
            .collect();
        Checkpoint {
            id: CheckpointId("01J".to_owned()),
            cluster_id: ClusterId("c".to_owned()),
            group: GroupId("g".to_owned()),
            group_type: GroupType::Classic,
            state: GroupState::Empty,
            members: vec![],
            began_at: Timestamp::UNIX_EPOCH,
            ended_at: Timestamp::UNIX_EPOCH,
            topics: BTreeMap::new(),
            partitions,
            gone_topics: BTreeSet::new(),
            anomalies: vec![],
        }
    }

    #[test]
    fn ten_thousand_partitions_fit_one_item() {
        for topics in [1, 10, 100, 1000] {
            let c = wide(topics);
            let packed = Packed::new(&Body::from(&c)).unwrap();
            let size = packed.bytes().len();
            println!("10,000 partitions of {topics} topics: {size} bytes");
            assert!(size <= IN_ITEM, "{topics} topics: {size} bytes");
            assert_eq!(again(&c), Some(c));
        }
    }

    #[test]
    fn columns_that_do_not_fit_together_are_no_checkpoint() {
        let whole = wide(1);
        let mut short = Body::from(&whole);
        short.topics[0].high.pop();
        assert_eq!(short.checkpoint(vec![]), None);
        let mut twice = Body::from(&whole);
        twice.topics[0].partition[1] = 0;
        assert_eq!(twice.checkpoint(vec![]), None);
        let mut not_base64 = Body::from(&whole);
        not_base64.topics[0].metadata[0] = "*".to_owned();
        assert_eq!(not_base64.checkpoint(vec![]), None);
    }
}
