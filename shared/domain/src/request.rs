//! What an operator asks for: a group, exactly one target, and what is allowed.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::identity::Requester;
use super::ids::CheckpointId;
use super::ids::PlanId;
use super::offset::{GroupId, TopicPartition};

/// Where the group is asked to go. Names follow `kafka-consumer-groups --reset-offsets`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResetSpec {
    /// The newest complete checkpoint strictly before this instant.
    RewindBefore(Timestamp),
    /// One checkpoint by its id.
    Checkpoint(CheckpointId),
    /// The first record whose timestamp is at or after this instant.
    ToDatetime(Timestamp),
    /// The same, this long before the plan is made.
    ByDuration(SignedDuration),
    /// These offsets.
    ToOffsets(BTreeMap<TopicPartition, i64>),
    /// This many offsets from the current one; negative is back.
    ShiftBy(i64),
    /// The log start of every partition.
    ToEarliest,
    /// Where the group was before an earlier plan was applied.
    Undo(PlanId),
    /// Where an earlier plan would have moved what it did not move.
    Finish(PlanId),
}

/// Which of the group's partitions a request is about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Selection {
    /// All of them.
    #[default]
    All,
    /// Those of these topics, or exactly these partitions of a topic.
    Only(BTreeMap<String, Option<Vec<i32>>>),
}

impl Selection {
    /// Whether `partition` is asked for.
    #[must_use]
    pub fn contains(&self, partition: &TopicPartition) -> bool {
        match self {
            Self::All => true,
            Self::Only(topics) => match topics.get(&partition.topic) {
                None => false,
                Some(None) => true,
                Some(Some(partitions)) => partitions.contains(&partition.partition),
            },
        }
    }
}

/// Explicit permissions, each for one danger that is otherwise refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Allowances {
    /// A target below the log start becomes the log start, with the loss shown.
    pub clamp: bool,
    /// A target ahead of the current offset: records will be skipped.
    pub forward: bool,
    /// A group without commits is brought back from a checkpoint of exactly this cluster and group.
    pub restore_missing: bool,
    /// A Kafka Streams or Connect group, whose state is not only in its offsets.
    pub stateful: bool,
}

/// A request to move a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RewindRequest {
    /// The cluster, by its name in the configuration.
    pub cluster: String,
    /// The group, exactly.
    pub group: GroupId,
    /// Where to.
    pub target: ResetSpec,
    /// Which partitions.
    pub selection: Selection,
    /// What is allowed beyond the ordinary.
    pub allow: Allowances,
    /// Only plan and tell.
    pub dry_run: bool,
    /// Why, in the requester's words.
    pub reason: String,
    /// Who asks, by a name that is only claimed where nothing is proven.
    pub requested_by: String,
    /// What is proven of who asks.
    pub requester: Requester,
}
