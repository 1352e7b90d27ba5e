//! The use cases' ports, over the reader and the writer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::error::KafkaError;
use super::{GroupReader, GroupWriter};
use crate::domain::approval::{AlterRequest, Change};
use crate::domain::group::{GroupDescription, GroupObservation};
use crate::domain::offset::{
    ClusterId, CommittedOffset, Fault, FoundByTime, GroupId, TopicPartition,
};
use crate::domain::recovery::AlterAnswer;
use crate::domain::rights::Rights;
use crate::ports::{AlterGroups, ReadGroups};

impl ReadGroups for GroupReader {
    fn ends_at(&self) -> Option<Instant> {
        self.ends_at()
    }

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

    async fn describe(&self, group: &GroupId) -> Result<GroupDescription, Fault> {
        self.describe(group).await
    }

    async fn rights(
        &self,
        group: &GroupId,
        topics: &BTreeSet<String>,
    ) -> Result<Rights, KafkaError> {
        self.rights(group, topics).await
    }

    async fn committed(
        &self,
        group: &GroupId,
        partitions: &[TopicPartition],
    ) -> Result<BTreeMap<TopicPartition, Result<Option<CommittedOffset>, Fault>>, KafkaError> {
        self.committed(group, partitions, true).await
    }

    async fn offsets_for_times(
        &self,
        wanted: &[(TopicPartition, Timestamp)],
    ) -> Result<BTreeMap<TopicPartition, Result<Option<FoundByTime>, Fault>>, KafkaError> {
        let wanted: Vec<_> = wanted
            .iter()
            .map(|(partition, at)| (partition.clone(), at.as_millisecond()))
            .collect();
        self.offsets_for_times(&wanted).await
    }
}

impl AlterGroups for GroupWriter {
    async fn alter(
        &self,
        request: &AlterRequest,
        timeout: Duration,
    ) -> BTreeMap<TopicPartition, AlterAnswer> {
        let group = request.group();
        match request.change() {
            Change::Commit(moves) => self.commit(group, moves, timeout).await,
            Change::Remove(partitions) => self.remove(group, partitions, timeout).await,
        }
    }

    async fn close(self) {
        self.close().await;
    }
}
