//! The use cases' ports, over the reader and the writer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::{GroupReader, GroupWriter};
use offset_guard_domain::approval::{AlterRequest, Change};
use offset_guard_domain::group::{GroupDescription, GroupObservation};
use offset_guard_domain::offset::{
    ClusterId, CommittedOffset, Fault, FoundByTime, GroupId, TopicPartition,
};
use offset_guard_domain::ports::{AlterGroups, BrokerError, ReadGroups};
use offset_guard_domain::recovery::AlterAnswer;
use offset_guard_domain::rights::Rights;

impl ReadGroups for GroupReader {
    fn ends_at(&self) -> Option<Instant> {
        self.ends_at()
    }

    async fn cluster_id(&self) -> Result<ClusterId, BrokerError> {
        Ok(Self::cluster_id(self).await?)
    }

    async fn list_groups(&self) -> Result<BTreeSet<GroupId>, BrokerError> {
        Ok(self.list_groups().await?)
    }

    async fn observe(
        &self,
        group: &GroupId,
        expected: &BTreeSet<TopicPartition>,
        stable: bool,
    ) -> Result<GroupObservation, BrokerError> {
        Ok(self.observe(group, expected, stable).await?)
    }

    async fn describe(&self, group: &GroupId) -> Result<GroupDescription, Fault> {
        self.describe(group).await
    }

    async fn rights(
        &self,
        group: &GroupId,
        topics: &BTreeSet<String>,
    ) -> Result<Rights, BrokerError> {
        Ok(self.rights(group, topics).await?)
    }

    async fn committed(
        &self,
        group: &GroupId,
        partitions: &[TopicPartition],
    ) -> Result<BTreeMap<TopicPartition, Result<Option<CommittedOffset>, Fault>>, BrokerError> {
        Ok(self.committed(group, partitions, true).await?)
    }

    async fn offsets_for_times(
        &self,
        wanted: &[(TopicPartition, Timestamp)],
    ) -> Result<BTreeMap<TopicPartition, Result<Option<FoundByTime>, Fault>>, BrokerError> {
        let wanted: Vec<_> = wanted
            .iter()
            .map(|(partition, at)| (partition.clone(), at.as_millisecond()))
            .collect();
        Ok(self.offsets_for_times(&wanted).await?)
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
