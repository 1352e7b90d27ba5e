//! A checkpoint's body as columns a topic: names stand once, and like numbers beside each other compress well.

use std::collections::{BTreeMap, BTreeSet};

use data_encoding::BASE64;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::domain::checkpoint::{
    Anomaly, Checkpoint, CheckpointId, CheckpointPartition, CheckpointTopic,
};
use crate::domain::group::{GroupState, GroupType};
use crate::domain::offset::{
    ClusterId, CommittedOffset, GroupId, TopicId, TopicPartition, Watermarks,
};

/// Everything of a checkpoint but its anomalies, which stand in its header.
#[derive(Serialize, Deserialize)]
pub(super) struct Body {
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
    /// `None` is no commit; then the other two say nothing.
    offset: Vec<Option<i64>>,
    epoch: Vec<Option<i32>>,
    /// In base64, because it need not be text.
    metadata: Vec<String>,
    log_start: Vec<i64>,
    last_stable: Vec<i64>,
    high: Vec<i64>,
    log_epoch: Vec<Option<i32>>,
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
            offset: Vec::new(),
            epoch: Vec::new(),
            metadata: Vec::new(),
            log_start: Vec::new(),
            last_stable: Vec::new(),
            high: Vec::new(),
            log_epoch: Vec::new(),
        }
    }

    fn push(&mut self, partition: i32, body: &CheckpointPartition) {
        let committed = body.committed.as_ref();
        self.partition.push(partition);
        self.offset.push(committed.map(|c| c.offset));
        self.epoch.push(committed.and_then(|c| c.leader_epoch));
        self.metadata
            .push(committed.map_or(String::new(), |c| BASE64.encode(&c.metadata)));
        self.log_start.push(body.log.log_start);
        self.last_stable.push(body.log.last_stable);
        self.high.push(body.log.high);
        self.log_epoch.push(body.log.leader_epoch);
    }

    /// The row `i`; `None` where a column is shorter than the others or holds what it must not.
    fn row(&self, i: usize) -> Option<(i32, CheckpointPartition)> {
        let (offset, leader_epoch) = (*self.offset.get(i)?, *self.epoch.get(i)?);
        let metadata = BASE64.decode(self.metadata.get(i)?.as_bytes()).ok()?;
        let body = CheckpointPartition {
            committed: offset.map(|offset| CommittedOffset {
                offset,
                leader_epoch,
                metadata,
            }),
            log: Watermarks {
                log_start: *self.log_start.get(i)?,
                last_stable: *self.last_stable.get(i)?,
                high: *self.high.get(i)?,
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
    pub(super) fn checkpoint(self, anomalies: Vec<Anomaly>) -> Option<Checkpoint> {
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
