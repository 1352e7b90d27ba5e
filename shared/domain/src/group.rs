//! What was seen of a group: its state, its members, its offsets and the logs that they point into.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::offset::{
    ClusterId, CommittedOffset, Fault, GroupId, TopicId, TopicPartition, Watermarks,
};

/// A group's state, in Kafka's own words (classic protocol, KIP-848 and KIP-1071).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum GroupState {
    /// No members. Holds offsets, or it would not exist.
    Empty,
    /// All members have their assignment.
    Stable,
    /// Classic: members are joining.
    PreparingRebalance,
    /// Classic: waiting for the assignment.
    CompletingRebalance,
    /// KIP-848: a new target assignment is being computed.
    Assigning,
    /// KIP-848: members are moving to the target assignment.
    Reconciling,
    /// Being removed, never there, or of a type that the asking protocol does not know. Never "safe".
    Dead,
    /// A word that this client does not know.
    Unknown,
}

impl fmt::Display for GroupState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The protocol that a group's members speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum GroupType {
    /// The classic protocol (`JoinGroup`/`SyncGroup`).
    Classic,
    /// KIP-848 (`ConsumerGroupHeartbeat`).
    Consumer,
    /// Anything else.
    Unknown,
}

impl fmt::Display for GroupType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Classic => "classic",
            Self::Consumer => "consumer",
            Self::Unknown => "unknown",
        })
    }
}

/// One member of a group.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Member {
    /// The member id that the coordinator gave out.
    pub member_id: String,
    /// `client.id`.
    pub client_id: String,
    /// Where it connects from, as the broker saw it.
    pub host: String,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<String>,
    /// What it is assigned now (not its target assignment).
    pub assignment: Vec<TopicPartition>,
}

/// A member as a person needs it to find and stop it, and as the guard tells one from another. A process that starts
/// again, or was thrown out for not polling, comes back with another member id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MemberSeen {
    /// `client.id`.
    pub client_id: String,
    /// The member id.
    pub member_id: String,
    /// The address that it connects from.
    pub host: String,
}

impl MemberSeen {
    /// Members as a refusal shows them.
    #[must_use]
    pub fn all(members: &[Member]) -> Vec<Self> {
        let mut seen: Vec<_> = members
            .iter()
            .map(|member| Self {
                client_id: member.client_id.clone(),
                member_id: member.member_id.clone(),
                host: member.host.clone(),
            })
            .collect();
        // Brokers list them in no order.
        seen.sort_by(|a, b| (&a.client_id, &a.member_id).cmp(&(&b.client_id, &b.member_id)));
        seen
    }
}

impl From<&Member> for MemberSeen {
    fn from(member: &Member) -> Self {
        Self {
            client_id: member.client_id.clone(),
            member_id: member.member_id.clone(),
            host: member.host.clone(),
        }
    }
}

/// The answer of `DescribeConsumerGroups` for one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupDescription {
    /// The state, or the reason why there is none.
    pub state: GroupState,
    /// The protocol that its members speak.
    pub group_type: GroupType,
    /// No protocol type at all: offsets without members (tools, assign-only consumers).
    pub is_simple: bool,
    /// The assignor (classic: chosen by the members; `stream` is Kafka Streams).
    pub assignor: String,
    /// Its members.
    pub members: Vec<Member>,
}

/// What a topic is at the moment of the reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicDescription {
    /// Its id; `None` where the broker does not tell.
    pub id: Option<TopicId>,
    /// How many partitions it has.
    pub partitions: i32,
}

/// What was read for one partition. Each half is a value, a fact or a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionReading {
    /// The committed offset; `Ok(None)` is "no commit", which is neither 0 nor -1.
    pub committed: Result<Option<CommittedOffset>, Fault>,
    /// Where the log begins and ends.
    pub log: Result<Watermarks, Fault>,
}

/// One whole reading of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupObservation {
    /// The cluster that answered.
    pub cluster_id: ClusterId,
    /// The group that was asked for, exactly.
    pub group: GroupId,
    /// The group itself, or why it could not be described.
    pub description: Result<GroupDescription, Fault>,
    /// Every topic of [`Self::partitions`].
    pub topics: BTreeMap<String, Result<TopicDescription, Fault>>,
    /// Every partition that is committed, assigned or was expected.
    pub partitions: BTreeMap<TopicPartition, PartitionReading>,
    /// When the reading began.
    pub began_at: Timestamp,
    /// When the reading ended. A commit made while it ran may or may not be in it, so this is its time.
    pub ended_at: Timestamp,
}

/// Why a group counts as active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Activity {
    /// Empty, no members, no error: Kafka accepts a commit from outside the group.
    Inactive,
    /// It has members, or is between states in which it has.
    Active {
        /// The state seen.
        state: GroupState,
        /// The members seen.
        members: Vec<Member>,
    },
    /// Nothing is proven. Dead is here: a live share group looks dead to a consumer's eyes.
    Unproven {
        /// What was seen instead.
        seen: String,
    },
}

impl Activity {
    /// What a description shows: a group is inactive in the state Empty **and** without members. Everything else is not.
    #[must_use]
    pub fn of(description: &Result<GroupDescription, Fault>) -> Self {
        let description = match description {
            Ok(description) => description,
            Err(fault) => {
                return Self::Unproven {
                    seen: fault.to_string(),
                };
            }
        };
        let active = || Activity::Active {
            state: description.state,
            members: description.members.clone(),
        };
        match description.state {
            GroupState::Empty if description.members.is_empty() => Activity::Inactive,
            GroupState::Empty
            | GroupState::Stable
            | GroupState::PreparingRebalance
            | GroupState::CompletingRebalance
            | GroupState::Assigning
            | GroupState::Reconciling => active(),
            GroupState::Dead | GroupState::Unknown if !description.members.is_empty() => active(),
            GroupState::Dead | GroupState::Unknown => Activity::Unproven {
                seen: description.state.to_string(),
            },
        }
    }
}

impl GroupObservation {
    /// Whether the group is inactive: state Empty **and** no members **and** no error. Everything else is not.
    #[must_use]
    pub fn activity(&self) -> Activity {
        Activity::of(&self.description)
    }

    /// The committed offset of one partition, where one was read.
    #[must_use]
    pub fn committed(&self, partition: &TopicPartition) -> Option<&CommittedOffset> {
        self.partitions
            .get(partition)?
            .committed
            .as_ref()
            .ok()?
            .as_ref()
    }

    /// Whether it is proven that the group has no committed offset at all: every partition was read, and none has one.
    #[must_use]
    pub fn has_no_commits(&self) -> bool {
        self.partitions
            .values()
            .all(|reading| matches!(reading.committed, Ok(None)))
    }

    /// Whether the group is absent as far as a consumer can see: Dead, no members and, proven, no commits.
    ///
    /// A live share group looks the same. That is no danger: the broker takes no commit for one.
    #[must_use]
    pub fn looks_absent(&self) -> bool {
        let dead = self.description.as_ref().is_ok_and(|description| {
            description.state == GroupState::Dead && description.members.is_empty()
        });
        dead && self.has_no_commits()
    }

    /// Every partition whose reading holds no value, with the reason.
    pub fn faults(&self) -> impl Iterator<Item = (&TopicPartition, &Fault)> {
        self.partitions.iter().filter_map(|(partition, reading)| {
            let fault = reading.committed.as_ref().err();
            Some((partition, fault.or(reading.log.as_ref().err())?))
        })
    }
}
