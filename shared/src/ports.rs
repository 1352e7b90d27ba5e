//! What the use cases need of Kafka. One implementation talks to brokers; tests put a fault between.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::Duration;

use jiff::Timestamp;

use crate::domain::approval::AlterRequest;
use crate::domain::group::GroupObservation;
use crate::domain::offset::{ClusterId, CommittedOffset, Fault, GroupId, TopicPartition};
use crate::domain::recovery::AlterAnswer;
use crate::kafka::KafkaError;

/// Reads groups and logs. Nothing it does can change an offset.
pub trait ReadGroups: Sync {
    /// The id of the cluster that answers.
    fn cluster_id(&self) -> impl Future<Output = Result<ClusterId, KafkaError>> + Send;

    /// Every group that the principal may see.
    fn list_groups(&self) -> impl Future<Output = Result<BTreeSet<GroupId>, KafkaError>> + Send;

    /// One whole reading of a group: what it committed, what it is assigned and `expected`.
    ///
    /// With `stable`, pending transactional commits are a [`Fault::Unstable`] instead of an older value.
    fn observe(
        &self,
        group: &GroupId,
        expected: &BTreeSet<TopicPartition>,
        stable: bool,
    ) -> impl Future<Output = Result<GroupObservation, KafkaError>> + Send;

    /// The committed offsets of exactly these partitions, with `require_stable`.
    fn committed(
        &self,
        group: &GroupId,
        partitions: &[TopicPartition],
    ) -> impl Future<
        Output = Result<
            BTreeMap<TopicPartition, Result<Option<CommittedOffset>, Fault>>,
            KafkaError,
        >,
    > + Send;

    /// The first offset at or after a time, or `None` where no record is that late.
    fn offsets_for_time(
        &self,
        partitions: &[TopicPartition],
        at: Timestamp,
    ) -> impl Future<
        Output = Result<BTreeMap<TopicPartition, Result<Option<i64>, Fault>>, KafkaError>,
    > + Send;
}

/// Changes offsets, and takes nothing but what an [`crate::domain::approval::ApprovedPlan`] made.
pub trait AlterGroups: Sync + Sized {
    /// Sends one request and says what the broker answered for every partition of it.
    ///
    /// It never retries: whether another try is safe is not for a transport to say.
    fn alter(
        &self,
        request: &AlterRequest,
        timeout: Duration,
    ) -> impl Future<Output = BTreeMap<TopicPartition, AlterAnswer>> + Send;

    /// Ends the connection; when this returns, nothing that was not sent can be sent any more.
    fn close(self) -> impl Future<Output = ()> + Send;
}
