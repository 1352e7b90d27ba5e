//! What the use cases need of Kafka. One implementation talks to brokers; tests put a fault between.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::approval::AlterRequest;
use crate::group::{GroupDescription, GroupObservation};
pub use crate::guard::keeping::KeepingTopic;
use crate::guard::quarantine::KeptCopy;
use crate::guard::record::{Header, Record};
use crate::offset::{ClusterId, CommittedOffset, Fault, FoundByTime, GroupId, TopicPartition};
use crate::recovery::AlterAnswer;
use crate::rights::Rights;

/// What can be done about a call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokerErrorClass {
    /// The same call may succeed in a moment.
    Transient,
    /// Credentials, rights, settings or a defect: time does not help.
    Lasting,
}

/// A call to the brokers that failed as a whole: nothing is known of any partition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BrokerError {
    /// What can be done about it.
    pub class: BrokerErrorClass,
    /// The error as the reading of one partition sees it.
    pub fault: Fault,
    /// Which request failed, and how.
    pub message: String,
}

/// Reads groups and logs. Nothing it does can change an offset.
pub trait ReadGroups: Sync {
    /// The id of the cluster that answers.
    fn cluster_id(&self) -> impl Future<Output = Result<ClusterId, BrokerError>> + Send;

    /// When every call ends at the latest; `None` where each may take its time.
    fn ends_at(&self) -> Option<Instant> {
        None
    }

    /// Every group that the principal may see.
    fn list_groups(&self) -> impl Future<Output = Result<BTreeSet<GroupId>, BrokerError>> + Send;

    /// One whole reading of a group: what it committed, what it is assigned and `expected`.
    ///
    /// With `stable`, pending transactional commits are a [`Fault::Unstable`] instead of an older value.
    fn observe(
        &self,
        group: &GroupId,
        expected: &BTreeSet<TopicPartition>,
        stable: bool,
    ) -> impl Future<Output = Result<GroupObservation, BrokerError>> + Send;

    /// The group alone, without its offsets: its state and its members.
    fn describe(
        &self,
        group: &GroupId,
    ) -> impl Future<Output = Result<GroupDescription, Fault>> + Send;

    /// What the connection's own principal may do with the offsets of `group` in `topics`, as the brokers say.
    fn rights(
        &self,
        group: &GroupId,
        topics: &BTreeSet<String>,
    ) -> impl Future<Output = Result<Rights, BrokerError>> + Send;

    /// The committed offsets of exactly these partitions, with `require_stable`.
    fn committed(
        &self,
        group: &GroupId,
        partitions: &[TopicPartition],
    ) -> impl Future<
        Output = Result<
            BTreeMap<TopicPartition, Result<Option<CommittedOffset>, Fault>>,
            BrokerError,
        >,
    > + Send;

    /// For each partition, the first record at or after a time, or `None` where no record is that late. Of what comes
    /// behind it nothing is said.
    fn offsets_for_times(
        &self,
        wanted: &[(TopicPartition, Timestamp)],
    ) -> impl Future<
        Output = Result<BTreeMap<TopicPartition, Result<Option<FoundByTime>, Fault>>, BrokerError>,
    > + Send;
}

/// Which records a raw read sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum View {
    /// Those of committed transactions, up to the last stable offset.
    Committed,
    /// All, up to the high watermark.
    Uncommitted,
}

/// Where a raw read ends at the latest, whatever comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadLimits {
    /// After so many records.
    pub records: usize,
    /// After so many bytes of keys, values and headers; one record is read whatever its size.
    pub bytes: usize,
    /// After so long.
    pub time: Duration,
}

/// What a raw read found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordsRead {
    /// The visible records, in order.
    pub records: Vec<Record>,
    /// Every offset below was looked at: what is not among the records is not visible.
    pub until: i64,
}

/// Reads records as they are, without being anybody's consumer.
pub trait ReadRecords: Sync {
    /// The visible records of `partition` in `[from, until)`, as far as the limits let it.
    ///
    /// # Errors
    /// Anything that was not read whole: an offset out of range, a batch that fails its checksum, a broker that does not
    /// answer. Then nothing is said of any record: one that could not be read looks like a gap.
    fn read(
        &self,
        partition: &TopicPartition,
        from: i64,
        until: i64,
        view: View,
        limits: ReadLimits,
    ) -> impl Future<Output = Result<RecordsRead, Fault>> + Send;
}

/// Writes records into a topic that keeps them.
pub trait KeepRecords: Sync {
    /// Describes the topic; `None` where there is none. It is never created.
    fn keeping_topic(
        &self,
        topic: &str,
    ) -> impl Future<Output = Result<Option<KeepingTopic>, Fault>> + Send;

    /// Writes one record (idempotent producer, `acks=all`) and waits for its delivery report.
    ///
    /// # Errors
    /// It is not known to be written; it may have been.
    fn keep(
        &self,
        topic: &str,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[Header],
    ) -> impl Future<Output = Result<KeptCopy, Fault>> + Send;
}

/// Changes offsets, and takes nothing but what an [`crate::approval::ApprovedPlan`] made.
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
