//! Reading groups.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use jiff::Timestamp;

use super::error::{ErrorCode, KafkaError, Operation};
use super::ffi::{self, Found, Isolation, Spec, Topic};
use super::observe::split;
use super::session::Session;
use super::settings::ConnectionSettings;
use offset_guard_domain::group::GroupDescription;
use offset_guard_domain::offset::{
    ClusterId, CommittedOffset, Fault, FoundByTime, GroupId, TopicPartition,
};
use offset_guard_domain::rights::Rights;

/// Reads groups, their committed offsets and the logs that these point into. It never writes.
///
/// Every call is a few batched requests; a failed coordinator or connection is tried again until the call's deadline
/// (see [`GroupReader::until`]). A clone shares the connection.
#[derive(Debug, Clone)]
pub struct GroupReader {
    session: Session,
}

/// One answer for each partition.
pub(super) type PerPartition<T> = BTreeMap<TopicPartition, Result<T, Fault>>;

/// Topics as the broker describes them.
pub(super) type Topics = BTreeMap<String, Result<Topic, Fault>>;

impl GroupReader {
    /// A reader for the cluster of `settings`. Connecting happens in the background; the first call waits for it.
    ///
    /// # Errors
    /// Settings that librdkafka refuses.
    pub fn connect(settings: ConnectionSettings) -> Result<Self, KafkaError> {
        Ok(Self {
            session: Session::new(settings)?,
        })
    }

    /// The same reader with no call lasting beyond `deadline`, nor longer than the settings' `call_timeout`.
    #[must_use]
    pub fn until(&self, deadline: Instant) -> Self {
        Self {
            session: self.session.until(deadline),
        }
    }

    /// The same reader with one deadline for all that a call of several requests does.
    pub(super) fn bounded(&self) -> Self {
        Self {
            session: self.session.bounded(),
        }
    }

    /// The id of the cluster that answers at these addresses now.
    ///
    /// # Errors
    /// The request failed.
    pub async fn cluster_id(&self) -> Result<ClusterId, KafkaError> {
        self.session
            .call(Operation::DescribeCluster, ffi::cluster_id)
            .await
            .map(ClusterId)
    }

    /// Every group that speaks a consumer protocol or none. Connect, share and Streams groups
    /// (KIP-932, KIP-1071) are not among them, and neither are groups that the principal may not see.
    ///
    /// # Errors
    /// The request failed, or failed on one of the brokers: a list that may lack groups is not a list.
    pub async fn list_groups(&self) -> Result<BTreeSet<GroupId>, KafkaError> {
        let groups = self
            .session
            .call(Operation::ListConsumerGroups, |handle, limits| {
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

    /// The committed offset of each of `partitions`; `Ok(None)` is "no commit".
    ///
    /// # Errors
    /// Nothing could be read: no broker or no coordinator.
    pub async fn committed(
        &self,
        group: &GroupId,
        partitions: &[TopicPartition],
        stable: bool,
    ) -> Result<PerPartition<Option<CommittedOffset>>, KafkaError> {
        let group = group.0.clone();
        let answers = self
            .session
            .each(
                Operation::ListConsumerGroupOffsets,
                partitions.to_vec(),
                move |handle, limits, partitions| {
                    ffi::committed(handle, limits, &group, partitions, stable)
                },
            )
            .await?;
        Ok(by_partition(partitions.iter().cloned(), faults(answers)))
    }

    /// The first record at or after a time in milliseconds since the epoch, for each of `wanted`; `Ok(None)` where there
    /// is no such record.
    ///
    /// # Errors
    /// Nothing could be read: no broker.
    pub async fn offsets_for_times(
        &self,
        wanted: &[(TopicPartition, i64)],
    ) -> Result<PerPartition<Option<FoundByTime>>, KafkaError> {
        let partitions: Vec<_> = wanted
            .iter()
            .map(|(partition, _)| partition.clone())
            .collect();
        let this = self.bounded();
        let (there, mut offsets) = split(&partitions, &this.topics(&partitions).await?);
        let there: BTreeSet<_> = there.into_iter().collect();
        let asked: Vec<_> = wanted
            .iter()
            .filter(|(partition, _)| there.contains(partition))
            .map(|(partition, time)| (partition.clone(), Spec::Timestamp(*time)))
            .collect();
        let answers = this
            .list_offsets(&asked, Isolation::ReadUncommitted)
            .await?;
        let answers = answers
            .into_iter()
            .map(|found| found.map(|found| found.known().map(Found::by_time)));
        offsets.extend(by_partition(
            asked.into_iter().map(|(partition, _)| partition),
            answers,
        ));
        Ok(offsets)
    }

    pub(super) async fn describe(&self, group: &GroupId) -> Result<GroupDescription, Fault> {
        let group = group.0.clone();
        self.session
            .call(Operation::DescribeConsumerGroups, move |handle, limits| {
                ffi::describe_group(handle, limits, &group)
            })
            .await
            .map_err(|error| error.fault())
    }

    /// What the connection's own principal may do with the offsets of `group` in `topics`, as the brokers say.
    ///
    /// # Errors
    /// The group, or no topic at all, could be asked about. Of a single topic that is a fault.
    pub async fn rights(
        &self,
        group: &GroupId,
        topics: &BTreeSet<String>,
    ) -> Result<Rights, KafkaError> {
        let this = self.bounded();
        let name = group.0.clone();
        let of_group = this
            .session
            .call(Operation::DescribeConsumerGroups, move |handle, limits| {
                ffi::group_operations(handle, limits, &name)
            })
            .await;
        let group = match of_group {
            Ok(operations) => operations,
            // Who may not see a group may do nothing with it.
            Err(error) if error.fault() == Fault::NotAuthorised => Some(BTreeSet::new()),
            Err(error) => return Err(error),
        };
        let names: Vec<_> = topics.iter().cloned().collect();
        let answers = this
            .session
            .each(
                Operation::DescribeTopics,
                names.clone(),
                ffi::topic_operations,
            )
            .await?;
        Ok(Rights {
            group,
            topics: names.into_iter().zip(faults(answers)).collect(),
        })
    }

    pub(super) async fn all_committed(
        &self,
        group: &GroupId,
        stable: bool,
    ) -> Result<Vec<TopicPartition>, KafkaError> {
        let group = group.0.clone();
        self.session
            .call(
                Operation::ListConsumerGroupOffsets,
                move |handle, limits| ffi::all_committed(handle, limits, &group, stable),
            )
            .await
    }

    /// Every topic of `partitions`.
    pub(super) async fn topics(&self, partitions: &[TopicPartition]) -> Result<Topics, KafkaError> {
        let names: BTreeSet<_> = partitions.iter().map(|p| p.topic.clone()).collect();
        let names: Vec<_> = names.into_iter().collect();
        let answers = self
            .session
            .each(
                Operation::DescribeTopics,
                names.clone(),
                ffi::describe_topics,
            )
            .await?;
        Ok(names.into_iter().zip(faults(answers)).collect())
    }

    /// Every property in effect of one topic.
    pub(super) async fn topic_configs(
        &self,
        topic: &str,
    ) -> Result<BTreeMap<String, String>, Fault> {
        let topic = topic.to_owned();
        self.session
            .call(Operation::DescribeConfigs, move |handle, limits| {
                ffi::topic_configs(handle, limits, &topic)
            })
            .await
            .map_err(|error| error.fault())
    }

    /// When every call ends at the latest.
    pub(super) fn ends_at(&self) -> Option<Instant> {
        self.session.ends_at()
    }

    /// When a call that begins now ends at the latest.
    pub(super) fn deadline(&self) -> Instant {
        self.session.deadline()
    }

    /// One end of each log, or why it is not known.
    pub(super) async fn ends(
        &self,
        partitions: &[TopicPartition],
        spec: Spec,
        isolation: Isolation,
    ) -> Vec<Result<Found, Fault>> {
        let asked: Vec<_> = partitions.iter().map(|p| (p.clone(), spec)).collect();
        match self.list_offsets(&asked, isolation).await {
            // No log has an end at a negative offset: an answer without a value is no answer.
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

    async fn list_offsets(
        &self,
        asked: &[(TopicPartition, Spec)],
        isolation: Isolation,
    ) -> Result<Vec<Result<Found, Fault>>, KafkaError> {
        let answers = self
            .session
            .each(
                Operation::ListOffsets,
                asked.to_vec(),
                move |handle, limits, asked| ffi::list_offsets(handle, limits, asked, isolation),
            )
            .await?;
        Ok(faults(answers).collect())
    }
}

impl Found {
    fn known(self) -> Option<Self> {
        (self.offset >= 0).then_some(self)
    }

    fn by_time(self) -> FoundByTime {
        FoundByTime {
            offset: self.offset,
            dated: self
                .timestamp
                .and_then(|milliseconds| Timestamp::from_millisecond(milliseconds).ok()),
            overtaken: None,
        }
    }
}

fn faults<T>(answers: Vec<Result<T, ErrorCode>>) -> impl Iterator<Item = Result<T, Fault>> {
    answers
        .into_iter()
        .map(|answer| answer.map_err(ErrorCode::fault))
}

fn by_partition<T>(
    partitions: impl Iterator<Item = TopicPartition>,
    answers: impl Iterator<Item = Result<T, Fault>>,
) -> PerPartition<T> {
    partitions.zip(answers).collect()
}
