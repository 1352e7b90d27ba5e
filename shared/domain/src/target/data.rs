//! What a target is made of.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::guard::quarantine::SkippedRecord;
use crate::ids::{CheckpointId, PlanId};
use crate::offset::{ClusterId, CommittedOffset, TopicId, TopicPartition, Watermarks};
use crate::plan::{LeftAlone, Source, Warning};
use crate::refusal::Refusal;

/// Where a group is to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Where it comes from, for people and the digest.
    pub source: Source,
    /// What becomes of each partition that was read or that the source knows.
    pub wanted: BTreeMap<TopicPartition, Wanted>,
    /// The partitions that the target itself names.
    pub named: BTreeSet<TopicPartition>,
    /// What is wrong with what it names.
    pub wrong: Vec<Refusal>,
    /// What is remembered of the time when the source was read, where it is a memory of the group.
    pub then: Option<Remembered>,
    /// The records that are passed over, sorted by partition and offset.
    pub skips: Vec<SkippedRecord>,
    /// What the approver has to know of it.
    pub warnings: Vec<Warning>,
    /// What the approver has to know where the partition is moved.
    pub warnings_where_moved: Vec<(TopicPartition, Warning)>,
    /// Since when a plan that goes back to it undoes what the group read.
    pub undoes: Undoes,
    /// What a plan with this target may do.
    pub rules: Rules,
}

/// What one partition should become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// The request is not about it, whatever its reading says.
    NotAsked(LeftAlone),
    /// This commit.
    Commit(WantedCommit),
    /// No commit at all.
    Nothing,
    /// Its reading says that it is left alone.
    Leave(LeftAlone),
    /// It cannot be said.
    Refuse(Refusal),
}

/// The commit that one partition should get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedCommit {
    /// The commit, which may lie outside of the log.
    pub commit: CommittedOffset,
    /// Whether offset, epoch and metadata were committed together once.
    pub as_committed: bool,
    /// Whether it becomes the log start where that has passed it, or passes it until the plan is applied.
    pub may_rise: bool,
}

/// What a source remembers of the group, its topics and their logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// The cluster that it was read from.
    pub cluster_id: ClusterId,
    /// The ids that the topics had, as far as they are known.
    pub topic_ids: BTreeMap<String, TopicId>,
    /// The logs of the partitions.
    pub logs: BTreeMap<TopicPartition, Watermarks>,
    /// Logs that lost records since: the high watermark before and after.
    pub truncations: BTreeMap<TopicPartition, (i64, i64)>,
    /// Older checkpoints that some partitions are taken from.
    pub older: Vec<Older>,
    /// Whether it shows a Kafka Streams group.
    pub is_streams: bool,
}

/// A checkpoint from which some partitions are taken, because the plan's source is undone for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Older {
    /// The checkpoint.
    pub id: CheckpointId,
    /// Its time.
    pub ended_at: Timestamp,
    /// The plans that undid what newer checkpoints hold of them.
    pub by: BTreeSet<PlanId>,
    /// The partitions.
    pub partitions: BTreeSet<TopicPartition>,
}

/// Since when a plan that goes back undoes what the group read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undoes {
    /// Since the source's time.
    Since(Timestamp),
    /// Since a time that only the history of checkpoints can say. A time of records is no time of reading: the group may
    /// have read them hours later, and their producer's clock may be ahead.
    AsCheckpointsSay,
    /// It undoes nothing.
    Nothing,
}

/// What a kind of target may do beyond what the request allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// It may go ahead of the group without `allow_forward`.
    pub forward: bool,
    /// The group's commits may go forward, as far as the policy says, until the plan is applied.
    pub drift: bool,
}

impl Target {
    /// A target without a memory of the group, of which nothing special is to be known.
    #[must_use]
    pub fn new(source: Source, wanted: BTreeMap<TopicPartition, Wanted>) -> Self {
        Self {
            source,
            wanted,
            named: BTreeSet::new(),
            wrong: Vec::new(),
            then: None,
            skips: Vec::new(),
            warnings: Vec::new(),
            warnings_where_moved: Vec::new(),
            undoes: Undoes::AsCheckpointsSay,
            rules: Rules {
                forward: false,
                drift: true,
            },
        }
    }
}

impl Wanted {
    /// A commit of the offset alone.
    #[must_use]
    pub fn bare(offset: i64, may_rise: bool) -> Self {
        Self::Commit(WantedCommit {
            commit: CommittedOffset::bare(offset),
            as_committed: false,
            may_rise,
        })
    }

    /// A commit as it was once.
    #[must_use]
    pub fn restored(commit: CommittedOffset, may_rise: bool) -> Self {
        Self::Commit(WantedCommit {
            commit,
            as_committed: true,
            may_rise,
        })
    }
}
