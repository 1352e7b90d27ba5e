//! What the use cases ask of Kafka, answered by brokers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::error::KafkaError;
use super::reader::GroupReader;
use super::writer::GroupWriter;
use crate::domain::approval::{AlterRequest, Change};
use crate::domain::group::GroupObservation;
use crate::domain::offset::{ClusterId, CommittedOffset, Fault, GroupId, TopicPartition};
use crate::domain::recovery::AlterAnswer;
use crate::ports;

impl ports::GroupReader for GroupReader {
    async fn cluster_id(&self) -> Result<ClusterId, KafkaError> {
        self.cluster_id().await
    }

    async fn list_groups(&self) -> Result<BTreeSet<GroupId>, KafkaError> {
        self.list_groups().await
    }

    async fn observe(
        &self,
        group: &GroupId,
        expected: &BTreeSet<TopicPartition>,
        stable: bool,
    ) -> Result<GroupObservation, KafkaError> {
        self.observe(group, expected, stable).await
    }

    async fn committed(
        &self,
        group: &GroupId,
        partitions: &[TopicPartition],
    ) -> Result<BTreeMap<TopicPartition, Result<Option<CommittedOffset>, Fault>>, KafkaError> {
        self.committed(group, partitions, true).await
    }

    async fn offsets_for_time(
        &self,
        partitions: &[TopicPartition],
        at: Timestamp,
    ) -> Result<BTreeMap<TopicPartition, Result<Option<i64>, Fault>>, KafkaError> {
        let at = at.as_millisecond();
        let wanted: Vec<_> = partitions.iter().map(|p| (p.clone(), at)).collect();
        self.offsets_for_times(&wanted).await
    }
}

impl ports::GroupWriter for GroupWriter {
    async fn alter(
        &self,
        request: &AlterRequest,
        timeout: Duration,
    ) -> BTreeMap<TopicPartition, AlterAnswer> {
        match request.change() {
            Change::Commit(moves) => self.commit(request.group(), moves, timeout).await,
            Change::Remove(partitions) => self.remove(request.group(), partitions, timeout).await,
        }
    }
}
