//! Admin requests to one cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use crate::codes::ErrorCode;
use crate::error::{AdminRequest, KafkaError};
use crate::ffi::{self, CallLimits, FoundOffset, IsolationLevel, OffsetSpec, TopicMetadata};
use crate::librdkafka::handle::Handle;
use crate::librdkafka::session::AdminSession;
use crate::settings::ConnectionSettings;
use offset_guard_domain::group::GroupDescription;
use offset_guard_domain::offset::{ClusterId, CommittedOffset, Fault, GroupId, TopicPartition};
use offset_guard_domain::rights::Operations;

/// One answer for each partition.
pub(crate) type PerPartition<T> = BTreeMap<TopicPartition, Result<T, Fault>>;

/// One answer for each topic, by its name.
pub(crate) type PerTopic<T> = BTreeMap<String, Result<T, Fault>>;

/// Sends admin requests that change nothing.
///
/// Every call is a few batched requests. A failed coordinator or connection is tried again until the call's deadline
/// (see [`AdminClient::until`]). A clone shares the connection.
#[derive(Debug, Clone)]
pub(crate) struct AdminClient {
    session: AdminSession,
}

impl AdminClient {
    /// A client for the cluster of `settings`. Connecting happens in the background; the first call waits for it.
    ///
    /// # Errors
    /// librdkafka refuses the settings.
    pub(crate) fn connect(settings: ConnectionSettings) -> Result<Self, KafkaError> {
        Ok(Self {
            session: AdminSession::new(settings)?,
        })
    }

    /// The same client with no call lasting beyond `deadline`, nor longer than the settings' `call_timeout`.
    pub(crate) fn until(&self, deadline: Instant) -> Self {
        Self {
            session: self.session.until(deadline),
        }
    }

    /// The same client with one deadline for all the calls that are made with it.
    pub(crate) fn bounded(&self) -> Self {
        Self {
            session: self.session.bounded(),
        }
    }

    /// The latest end of every call; `None` where each may take the settings' `call_timeout`.
    pub(crate) fn ends_at(&self) -> Option<Instant> {
        self.session.ends_at()
    }

    /// The latest end of a call that begins now.
    pub(crate) fn deadline(&self) -> Instant {
        self.session.deadline()
    }

    /// The id of the cluster that answers at these addresses now.
    pub(crate) async fn describe_cluster_id(&self) -> Result<ClusterId, KafkaError> {
        self.session
            .call(AdminRequest::DescribeCluster, ffi::describe_cluster_id)
            .await
            .map(ClusterId)
    }

    /// Every group that speaks a consumer protocol or none. Connect, share and Streams groups (KIP-932, KIP-1071) are not
    /// among them, and neither are groups that the principal may not see.
    ///
    /// # Errors
    /// The request failed on all brokers or on one of them: a list that may lack groups is not a list.
    pub(crate) async fn list_groups(&self) -> Result<BTreeSet<GroupId>, KafkaError> {
        let groups = self
            .session
            .call(AdminRequest::ListConsumerGroups, |handle, limits| {
                let (groups, errors) = ffi::list_groups(handle, limits)?;
                match errors.first() {
                    Some(&code) => Err(code),
                    None => Ok(groups),
                }
            })
            .await?;
        // A group that moved between two brokers' answers is in both.
        Ok(groups.into_iter().map(GroupId).collect())
    }

    /// The group's state and members.
    pub(crate) async fn describe_group(&self, group: &GroupId) -> Result<GroupDescription, Fault> {
        let group = group.0.clone();
        self.session
            .call(
                AdminRequest::DescribeConsumerGroups,
                move |handle, limits| ffi::describe_group(handle, limits, &group),
            )
            .await
            .map_err(|error| error.fault())
    }

    /// What the principal may do with the group; `None` where the broker does not say.
    pub(crate) async fn describe_group_operations(
        &self,
        group: &GroupId,
    ) -> Result<Operations, KafkaError> {
        let group = group.0.clone();
        self.session
            .call(
                AdminRequest::DescribeConsumerGroups,
                move |handle, limits| ffi::describe_group_operations(handle, limits, &group),
            )
            .await
    }

    /// What the principal may do with each topic; `None` where the broker does not say.
    pub(crate) async fn describe_topic_operations(
        &self,
        topics: Vec<String>,
    ) -> Result<PerTopic<Operations>, KafkaError> {
        self.ask_each_topic(topics, ffi::describe_topic_operations)
            .await
    }

    /// Every topic of `partitions`.
    pub(crate) async fn describe_topics(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<PerTopic<TopicMetadata>, KafkaError> {
        let names: BTreeSet<_> = partitions.iter().map(|p| p.topic.clone()).collect();
        self.ask_each_topic(names.into_iter().collect(), ffi::describe_topics)
            .await
    }

    async fn ask_each_topic<T: Send + 'static>(
        &self,
        topics: Vec<String>,
        call: impl Fn(&Handle, CallLimits, &[String]) -> Vec<Result<T, ErrorCode>>
        + Send
        + Sync
        + 'static,
    ) -> Result<PerTopic<T>, KafkaError> {
        let answers = self
            .session
            .each(AdminRequest::DescribeTopics, topics.clone(), call)
            .await?;
        Ok(topics.into_iter().zip(into_faults(answers)).collect())
    }

    /// Every property in effect of one topic.
    pub(crate) async fn describe_topic_configs(
        &self,
        topic: &str,
    ) -> Result<BTreeMap<String, String>, Fault> {
        let topic = topic.to_owned();
        self.session
            .call(AdminRequest::DescribeConfigs, move |handle, limits| {
                ffi::describe_topic_configs(handle, limits, &topic)
            })
            .await
            .map_err(|error| error.fault())
    }

    /// The committed offset of each of `partitions`; `Ok(None)` is "no commit".
    ///
    /// # Errors
    /// Nothing could be read: no broker or no coordinator.
    pub(crate) async fn list_committed(
        &self,
        group: &GroupId,
        partitions: &[TopicPartition],
        stable: bool,
    ) -> Result<PerPartition<Option<CommittedOffset>>, KafkaError> {
        let group = group.0.clone();
        let answers = self
            .session
            .each(
                AdminRequest::ListConsumerGroupOffsets,
                partitions.to_vec(),
                move |handle, limits, partitions| {
                    ffi::list_committed(handle, limits, &group, partitions, stable)
                },
            )
            .await?;
        let partitions = partitions.iter().cloned();
        Ok(partitions.zip(into_faults(answers)).collect())
    }

    /// The partitions that the group has a commit for, as far as the principal may see them.
    pub(crate) async fn list_all_committed(
        &self,
        group: &GroupId,
        stable: bool,
    ) -> Result<Vec<TopicPartition>, KafkaError> {
        let group = group.0.clone();
        self.session
            .call(
                AdminRequest::ListConsumerGroupOffsets,
                move |handle, limits| ffi::list_all_committed(handle, limits, &group, stable),
            )
            .await
    }

    /// One end of each log, or why it is not known.
    pub(crate) async fn list_ends(
        &self,
        partitions: &[TopicPartition],
        spec: OffsetSpec,
        isolation: IsolationLevel,
    ) -> Vec<Result<FoundOffset, Fault>> {
        let asked: Vec<_> = partitions.iter().map(|p| (p.clone(), spec)).collect();
        match self.list_offsets(&asked, isolation).await {
            // No log has an end at a negative offset: an answer without a value is not an answer.
            Ok(found) => found
                .into_iter()
                .map(|found| {
                    found.and_then(|found| found.known().ok_or_else(|| ErrorCode::MISSING.fault()))
                })
                .collect(),
            // The committed offsets are worth having without it.
            Err(error) => vec![Err(error.fault()); partitions.len()],
        }
    }

    /// The offset that each of `asked` looks for, in their order.
    ///
    /// # Errors
    /// Nothing could be read: no broker.
    pub(crate) async fn list_offsets(
        &self,
        asked: &[(TopicPartition, OffsetSpec)],
        isolation: IsolationLevel,
    ) -> Result<Vec<Result<FoundOffset, Fault>>, KafkaError> {
        let answers = self
            .session
            .each(
                AdminRequest::ListOffsets,
                asked.to_vec(),
                move |handle, limits, asked| ffi::list_offsets(handle, limits, asked, isolation),
            )
            .await?;
        Ok(into_faults(answers).collect())
    }
}

impl FoundOffset {
    /// `None` where there is no such offset.
    pub(crate) fn known(self) -> Option<Self> {
        (self.offset >= 0).then_some(self)
    }
}

fn into_faults<T>(answers: Vec<Result<T, ErrorCode>>) -> impl Iterator<Item = Result<T, Fault>> {
    answers
        .into_iter()
        .map(|answer| answer.map_err(ErrorCode::fault))
}
