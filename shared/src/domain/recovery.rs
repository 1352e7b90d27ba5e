//! One recovery from its claim to its end: what was done, what was seen afterwards, what may be said of it.

use std::collections::BTreeMap;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::offset::{ClusterId, CommittedOffset, Fault, GroupId, TopicPartition};
use super::plan::{PartitionMove, Plan, PlanId};
use super::refusal::Refusal;

/// How long one request to change offsets may take.
pub const LONGEST_REQUEST: SignedDuration = SignedDuration::from_secs(15);

/// The hold that one execution has on one group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The execution.
    pub execution: String,
    /// Its plan.
    pub plan: PlanId,
    /// When it ends by itself. It outlives Apply, because Kafka cannot check a fence.
    pub expires_at: Timestamp,
}

/// What was committed for every moved partition right before the first request was sent. Written once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreImage(
    #[serde(with = "as_pairs")] pub BTreeMap<TopicPartition, Option<CommittedOffset>>,
);

/// What the broker said of one partition of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AlterAnswer {
    /// It accepted the change.
    Accepted,
    /// It rejected the change, because the group has members; the text is the error's name.
    GroupActive(String),
    /// It rejected the change for another reason.
    Rejected(String),
    /// It may have accepted it: a time-out, a lost connection, an answer without this partition.
    Unknown(String),
}

impl AlterAnswer {
    /// The one of two answers for the same partition that leaves more open: a later rejection does not take back what
    /// an earlier request, whose reply was lost, may have done.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let weight = |answer: &Self| match answer {
            Self::Accepted => 2,
            Self::Unknown(_) => 1,
            Self::GroupActive(_) | Self::Rejected(_) => 0,
        };
        if weight(&other) > weight(&self) {
            other
        } else {
            self
        }
    }
}

/// Where a group was quiet, so that a second look can prove that it stayed so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quiet {
    /// When it was first seen so.
    pub since: Timestamp,
    /// A fingerprint of its commits then.
    pub commits: String,
}

/// A recovery, from the claim of its group on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovery {
    /// Its plan.
    pub plan: PlanId,
    /// The execution that owns it.
    pub execution: String,
    /// The cluster.
    pub cluster_id: ClusterId,
    /// The group.
    pub group: GroupId,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// Until when it may be applied, once admitted.
    pub apply_by: Option<Timestamp>,
    /// Since when the group was seen quiet, while waiting for that.
    pub quiet: Option<Quiet>,
    /// Raised by Verify: nothing may be sent under an older value.
    pub fence: u64,
    /// Until when the running Apply may send.
    pub apply_until: Option<Timestamp>,
    /// When Apply ended by itself, so that nothing of it can still be under way.
    pub apply_ended_at: Option<Timestamp>,
    /// The plan that took its place while it waited for its approval. Then the fence is raised, and the group is not
    /// its own any more.
    pub superseded_by: Option<PlanId>,
    /// The execution that was found to be right in ending it, its own one being over. Beside its own it alone may raise
    /// the fence and report.
    pub reconciled_by: Option<String>,
    /// Why a step after the approval refused.
    pub refusals: Vec<Refusal>,
    /// What Verify found.
    pub outcome: Option<Outcome>,
    /// When the report was written.
    pub closed_at: Option<Timestamp>,
}

impl Recovery {
    /// A recovery of `plan` that `execution` opens at `at`: nothing has been done yet.
    #[must_use]
    pub fn open(plan: &Plan, execution: &str, at: Timestamp) -> Self {
        Self {
            plan: plan.id.clone(),
            execution: execution.to_owned(),
            cluster_id: plan.cluster_id.clone(),
            group: plan.group.clone(),
            opened_at: at,
            apply_by: None,
            quiet: None,
            fence: 0,
            apply_until: None,
            apply_ended_at: None,
            superseded_by: None,
            reconciled_by: None,
            refusals: Vec::new(),
            outcome: None,
            closed_at: None,
        }
    }

    /// Until when something of an Apply may be under way; `None` where none ever began. A function whose caller gave up
    /// runs on, and its last request may be sent right before `apply_until`.
    #[must_use]
    pub fn under_way_until(&self) -> Option<Timestamp> {
        self.apply_ended_at
            .or_else(|| Some(self.apply_until? + LONGEST_REQUEST))
    }
}

/// What became of one partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PartitionOutcome {
    /// The target triple is committed.
    Applied,
    /// What was there before is still there.
    NotApplied,
    /// It was applied, and a consumer has moved it since.
    AppliedThenMoved {
        /// Where it is now.
        now: Option<i64>,
    },
    /// It is somewhere that proves nothing.
    Unknown {
        /// What was seen.
        seen: String,
    },
}

impl fmt::Display for PartitionOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Applied => f.write_str("applied"),
            Self::NotApplied => f.write_str("not applied"),
            Self::AppliedThenMoved { now: Some(now) } => {
                write!(f, "applied, and moved on to {now} since")
            }
            Self::AppliedThenMoved { now: None } => f.write_str("applied, and removed since"),
            Self::Unknown { seen } => write!(f, "unknown ({seen})"),
        }
    }
}

/// What became of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Outcome {
    /// Every partition is at its target.
    Verified,
    /// No partition was moved.
    NotApplied,
    /// Every partition was moved, and consumers have gone on from there.
    AppliedThenMoved,
    /// Some partitions were moved and some were not.
    PartiallyApplied,
    /// It cannot be said of every partition.
    Unknown,
}

impl Outcome {
    /// Whether consumers may run on: nothing was changed, or everything was and is proven.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        match self {
            Self::Verified | Self::NotApplied | Self::AppliedThenMoved => true,
            Self::PartiallyApplied | Self::Unknown => false,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Verified => "every partition is at its target",
            Self::NotApplied => "no partition was moved",
            Self::AppliedThenMoved => "every partition was moved, and consumers have gone on since",
            Self::PartiallyApplied => "some partitions were moved and some were not",
            Self::Unknown => "it cannot be said of every partition whether it was moved",
        })
    }
}

/// Judges what was read after an apply that may or may not have happened.
///
/// `pre_image` is `None` if none was stored: then nothing was ever sent. `answers` holds what the broker said of each
/// partition, as far as it was recorded: the most that any try may have done (see [`AlterAnswer::or`]). `now` is read
/// with a fresh handle; a partition that is missing there proves nothing.
#[must_use]
pub fn judge(
    plan: &Plan,
    pre_image: Option<&PreImage>,
    answers: &BTreeMap<TopicPartition, AlterAnswer>,
    now: &BTreeMap<TopicPartition, Result<Option<CommittedOffset>, Fault>>,
) -> (Outcome, BTreeMap<TopicPartition, PartitionOutcome>) {
    let Some(pre_image) = pre_image else {
        // Never sent, wherever the group is now: 43 is not proof of having been at 31.
        let each: BTreeMap<_, _> = plan
            .moves
            .iter()
            .map(|m| {
                let outcome = match now.get(&m.partition) {
                    Some(Ok(now)) if *now == m.to => PartitionOutcome::Unknown {
                        seen: "at the target, though nothing was sent".to_owned(),
                    },
                    Some(_) | None => PartitionOutcome::NotApplied,
                };
                (m.partition.clone(), outcome)
            })
            .collect();
        return (overall(each.values()), each);
    };
    let each: BTreeMap<_, _> = plan
        .moves
        .iter()
        .map(|m| {
            let before = pre_image.0.get(&m.partition);
            let outcome = judge_one(m, before, answers.get(&m.partition), now.get(&m.partition));
            (m.partition.clone(), outcome)
        })
        .collect();
    (overall(each.values()), each)
}

fn judge_one(
    m: &PartitionMove,
    before: Option<&Option<CommittedOffset>>,
    answer: Option<&AlterAnswer>,
    now: Option<&Result<Option<CommittedOffset>, Fault>>,
) -> PartitionOutcome {
    let unknown = |seen: String| PartitionOutcome::Unknown { seen };
    let now = match now {
        None => return unknown("the answer left it out".to_owned()),
        Some(Err(fault)) => return unknown(fault.to_string()),
        Some(Ok(now)) => now,
    };
    let Some(before) = before else {
        return unknown("it is not in the pre-image".to_owned());
    };
    if *now == m.to {
        return PartitionOutcome::Applied;
    }
    let position = now.as_ref().map(|now| now.offset);
    let at = || position.map_or("no commit".to_owned(), |at| at.to_string());
    match answer {
        Some(AlterAnswer::Accepted) if now == before => {
            unknown(format!("accepted by the broker, but still at {}", at()))
        }
        Some(AlterAnswer::Accepted) if gone_on(m.to.as_ref(), now.as_ref()) => {
            PartitionOutcome::AppliedThenMoved { now: position }
        }
        Some(AlterAnswer::Accepted) => unknown(at()),
        _ if now == before => PartitionOutcome::NotApplied,
        Some(AlterAnswer::GroupActive(_) | AlterAnswer::Rejected(_)) => {
            // The broker took nothing, and its consumers have gone on from where they were.
            if before.is_some() && gone_on(before.as_ref(), now.as_ref()) {
                PartitionOutcome::NotApplied
            } else {
                unknown(at())
            }
        }
        Some(AlterAnswer::Unknown(_)) | None => {
            if back_and_on(before.as_ref(), m.to.as_ref(), position) {
                PartitionOutcome::AppliedThenMoved { now: position }
            } else {
                unknown(at())
            }
        }
    }
}

/// Whether a consumer that started at `from` can have committed `now`: consumers only go forward, and a group without
/// a commit may get its first.
fn gone_on(from: Option<&CommittedOffset>, now: Option<&CommittedOffset>) -> bool {
    match (from, now) {
        (Some(from), Some(now)) => now.offset >= from.offset,
        (None, Some(_)) => true,
        (_, None) => false,
    }
}

/// Whether a position strictly between target and pre-image proves that a rewind was applied: the group was above, and
/// consumers do not go back. Of a move forward it proves nothing, since consumers get there by themselves.
fn back_and_on(
    before: Option<&CommittedOffset>,
    to: Option<&CommittedOffset>,
    now: Option<i64>,
) -> bool {
    matches!(
        (before, to, now),
        (Some(before), Some(to), Some(now)) if to.offset < now && now < before.offset
    )
}

fn overall<'a>(each: impl Iterator<Item = &'a PartitionOutcome>) -> Outcome {
    let (mut applied, mut moved, mut not, mut unknown) = (0_u32, 0_u32, 0_u32, 0_u32);
    for outcome in each {
        match outcome {
            PartitionOutcome::Applied => applied += 1,
            PartitionOutcome::AppliedThenMoved { .. } => moved += 1,
            PartitionOutcome::NotApplied => not += 1,
            PartitionOutcome::Unknown { .. } => unknown += 1,
        }
    }
    match (applied, moved, not, unknown) {
        (_, _, _, 1..) => Outcome::Unknown,
        (0, 0, _, 0) => Outcome::NotApplied,
        (_, 0, 0, 0) => Outcome::Verified,
        (_, _, 0, 0) => Outcome::AppliedThenMoved,
        (_, _, _, 0) => Outcome::PartiallyApplied,
    }
}

/// Maps with structured keys as lists of pairs, since JSON's keys are text.
mod as_pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        map.iter().collect::<Vec<_>>().serialize(serializer)
    }

    pub(super) fn deserialize<'de, K, V, D>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Vec::<(K, V)>::deserialize(deserializer).map(|pairs| pairs.into_iter().collect())
    }
}

#[cfg(test)]
mod tests;
