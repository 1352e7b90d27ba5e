//! Reading groups.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use jiff::Timestamp;

use super::observe::observe_group;
use super::readable::split_readable;
use crate::ffi::{FoundOffset, IsolationLevel, OffsetSpec};
use crate::librdkafka::admin_client::{AdminClient, PerPartition};
use crate::settings::ConnectionSettings;
use offset_guard_domain::group::{GroupDescription, GroupObservation};
use offset_guard_domain::offset::{
    ClusterId, CommittedOffset, Fault, FoundByTime, GroupId, TopicPartition,
};
use offset_guard_domain::ports::{BrokerError, ReadGroups};
use offset_guard_domain::rights::Rights;

/// Reads groups, their committed offsets and the logs that these offsets point into. It never writes.
///
/// Every call is a few batched requests. A failed coordinator or connection is tried again until the call's deadline
/// (see [`GroupReader::until`]). A clone shares the connection.
#[derive(Debug, Clone)]
pub struct GroupReader {
    client: AdminClient,
}

impl GroupReader {
    /// A reader for the cluster of `settings`. Connecting happens in the background; the first call waits for it.
    ///
    /// # Errors
    /// librdkafka refuses the settings.
    pub fn connect(settings: ConnectionSettings) -> Result<Self, BrokerError> {
        Ok(Self {
            client: AdminClient::connect(settings)?,
        })
    }

    /// The same reader with no call lasting beyond `deadline`, nor longer than the settings' `call_timeout`.
    #[must_use]
    pub fn until(&self, deadline: Instant) -> Self {
        Self {
            client: self.client.until(deadline),
        }
    }
}

impl ReadGroups for GroupReader {
    fn ends_at(&self) -> Option<Instant> {
        self.client.ends_at()
    }

    async fn cluster_id(&self) -> Result<ClusterId, BrokerError> {
        Ok(self.client.describe_cluster_id().await?)
    }

    /// Connect, share and Streams groups (KIP-932, KIP-1071) are not among the groups. A list that lacks the groups of one
    /// broker is an error.
    async fn list_groups(&self) -> Result<BTreeSet<GroupId>, BrokerError> {
        Ok(self.client.list_groups().await?)
    }

    async fn observe(
        &self,
        group: &GroupId,
        expected: &BTreeSet<TopicPartition>,
        stable: bool,
    ) -> Result<GroupObservation, BrokerError> {
        Ok(observe_group(&self.client.bounded(), group, expected, stable).await?)
    }

    async fn describe(&self, group: &GroupId) -> Result<GroupDescription, Fault> {
        self.client.describe_group(group).await
    }

    /// A topic that cannot be asked about is a fault of its own.
    async fn rights(
        &self,
        group: &GroupId,
        topics: &BTreeSet<String>,
    ) -> Result<Rights, BrokerError> {
        let client = self.client.bounded();
        let group = match client.describe_group_operations(group).await {
            Ok(operations) => operations,
            // A principal that may not see a group may do nothing with it.
            Err(error) if error.fault() == Fault::NotAuthorised => Some(BTreeSet::new()),
            Err(error) => return Err(error.into()),
        };
        let topics = topics.iter().cloned().collect();
        Ok(Rights {
            group,
            topics: client.describe_topic_operations(topics).await?,
        })
    }

    async fn committed(
        &self,
        group: &GroupId,
        partitions: &[TopicPartition],
    ) -> Result<BTreeMap<TopicPartition, Result<Option<CommittedOffset>, Fault>>, BrokerError> {
        Ok(self.client.list_committed(group, partitions, true).await?)
    }

    async fn offsets_for_times(
        &self,
        wanted: &[(TopicPartition, Timestamp)],
    ) -> Result<PerPartition<Option<FoundByTime>>, BrokerError> {
        let partitions: Vec<_> = wanted
            .iter()
            .map(|(partition, _)| partition.clone())
            .collect();
        let client = self.client.bounded();
        let topics = client.describe_topics(&partitions).await?;
        let (readable, mut offsets) = split_readable(&partitions, &topics);
        let readable: BTreeSet<_> = readable.into_iter().collect();
        let asked: Vec<_> = wanted
            .iter()
            .filter(|(partition, _)| readable.contains(partition))
            .map(|(partition, at)| {
                let spec = OffsetSpec::Timestamp(at.as_millisecond());
                (partition.clone(), spec)
            })
            .collect();
        let answers = client
            .list_offsets(&asked, IsolationLevel::ReadUncommitted)
            .await?
            .into_iter()
            .map(|found| found.map(|found| found.known().map(to_found_by_time)));
        offsets.extend(
            asked
                .into_iter()
                .map(|(partition, _)| partition)
                .zip(answers),
        );
        Ok(offsets)
    }
}

fn to_found_by_time(found: FoundOffset) -> FoundByTime {
    FoundByTime {
        offset: found.offset,
        dated: found
            .timestamp
            .and_then(|milliseconds| Timestamp::from_millisecond(milliseconds).ok()),
        overtaken: None,
    }
}
