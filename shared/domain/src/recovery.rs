//! One recovery from its claim to its end: what was done, what was seen afterwards, what may be said of it.

pub mod progress;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::ids::PlanId;
use super::offset::{ClusterId, CommittedOffset, Fault, GroupId, TopicPartition};
use super::plan::{PartitionMove, Plan};
use super::refusal::Refusal;
use crate::ids::{ExecutionArn, GroupKey};

/// How long one request to change offsets may take.
pub const LONGEST_REQUEST: SignedDuration = SignedDuration::from_secs(15);

/// The hold that one execution has on one group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The execution.
    pub execution: ExecutionArn,
    /// Its plan.
    pub plan: PlanId,
    /// When it ends by itself. It outlives Apply, because Kafka cannot check a fence.
    pub expires_at: Timestamp,
}

/// What was committed for every moved partition right before the first request was sent, and what was sent where that
/// is not the plan's own target. Written once.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "StoredPreImage", into = "StoredPreImage")]
pub struct PreImage {
    /// What was committed, for each partition that the plan moves.
    pub before: BTreeMap<TopicPartition, Option<CommittedOffset>>,
    /// The log start that was sent, for each partition whose log start had passed the plan's target by then.
    pub raised: BTreeMap<TopicPartition, i64>,
}

impl PreImage {
    /// Of these commits, with no target raised.
    #[must_use]
    pub fn of(before: BTreeMap<TopicPartition, Option<CommittedOffset>>) -> Self {
        Self {
            before,
            raised: BTreeMap::new(),
        }
    }

    /// What was sent for a move, or is still to be sent: its target, unless that was raised to the log start. `None`
    /// removes the commit.
    #[must_use]
    pub fn sent<'a>(&self, m: &'a PartitionMove) -> Cow<'a, Option<CommittedOffset>> {
        match self.raised.get(&m.partition) {
            Some(offset) => Cow::Owned(Some(CommittedOffset::bare(*offset))),
            None => Cow::Borrowed(&m.to),
        }
    }
}

/// A pre-image as it is stored. Without raised targets it is what it always was, so that a Verify of an earlier release
/// can judge by it; one with them it cannot read, and so does not misjudge.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StoredPreImage {
    Before(#[serde(with = "as_pairs")] BTreeMap<TopicPartition, Option<CommittedOffset>>),
    Raised {
        #[serde(with = "as_pairs")]
        before: BTreeMap<TopicPartition, Option<CommittedOffset>>,
        #[serde(with = "as_pairs")]
        raised: BTreeMap<TopicPartition, i64>,
    },
}

impl From<StoredPreImage> for PreImage {
    fn from(stored: StoredPreImage) -> Self {
        match stored {
            StoredPreImage::Before(before) => Self::of(before),
            StoredPreImage::Raised { before, raised } => Self { before, raised },
        }
    }
}

impl From<PreImage> for StoredPreImage {
    fn from(image: PreImage) -> Self {
        let PreImage { before, raised } = image;
        if raised.is_empty() {
            Self::Before(before)
        } else {
            Self::Raised { before, raised }
        }
    }
}

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
    pub execution: ExecutionArn,
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
    pub reconciled_by: Option<ExecutionArn>,
    /// Rights that the plan needs and of which the brokers did not say whether the applying principal has them.
    pub unknown_rights: Option<String>,
    /// Why a step after planning refused.
    pub refusals: Vec<Refusal>,
    /// What Verify found.
    pub outcome: Option<Outcome>,
    /// When the report was written.
    pub closed_at: Option<Timestamp>,
}

impl Recovery {
    /// The group of the cluster that it holds.
    #[must_use]
    pub fn group_key(&self) -> GroupKey {
        GroupKey::new(self.cluster_id.clone(), self.group.clone())
    }

    /// A recovery of `plan` that `execution` opens at `at`: nothing has been done yet.
    #[must_use]
    pub fn open(plan: &Plan, execution: &ExecutionArn, at: Timestamp) -> Self {
        Self {
            plan: plan.id.clone(),
            execution: execution.clone(),
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
            unknown_rights: None,
            refusals: Vec::new(),
            outcome: None,
            closed_at: None,
        }
    }

    /// Whether something of its Apply may still have been under way when a reading of the group began. Such a reading may
    /// hold offsets of before the Apply although it ended after it.
    #[must_use]
    pub fn may_have_moved_since(&self, began_at: Timestamp) -> bool {
        self.under_way_until().is_some_and(|over| began_at <= over)
    }

    /// What an approver has to know of rights that the brokers said nothing of.
    #[must_use]
    pub fn rights_warning(&self) -> Option<String> {
        let unknown = self.unknown_rights.as_ref()?;
        Some(format!(
            "whether the applying principal may do what the plan needs is unknown; the brokers do not say of {unknown}"
        ))
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
    /// It was applied, and is somewhere else since although the group has no members.
    Overwritten {
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
            Self::Overwritten { now } => write!(
                f,
                "applied, and overwritten from outside since ({})",
                now.map_or("removed".to_owned(), |now| format!("now {now}"))
            ),
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
    /// Every partition was moved, and some were written since although the group has no members.
    Overwritten,
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
            Self::Overwritten | Self::PartiallyApplied | Self::Unknown => false,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Verified => "every partition is at its target",
            Self::NotApplied => "no partition was moved",
            Self::AppliedThenMoved => "every partition was moved, and consumers have gone on since",
            Self::Overwritten => {
                "every partition was moved, and some were overwritten from outside since: the group has no members"
            }
            Self::PartiallyApplied => "some partitions were moved and some were not",
            Self::Unknown => "it cannot be said of every partition whether it was moved",
        })
    }
}

/// Judges what was read after an apply that may or may not have happened.
///
/// `pre_image` is `None` if none was stored: then nothing was ever sent. `answers` holds what the broker said of each
/// partition, as far as it was recorded: the most that any try may have done (see [`AlterAnswer::or`]). `now` is read
/// with a fresh handle; a partition that is missing there proves nothing. `is_memberless` says that the group was seen to
/// have no members since, and is one whose consumers would be members.
#[must_use]
pub fn judge(
    plan: &Plan,
    pre_image: Option<&PreImage>,
    answers: &BTreeMap<TopicPartition, AlterAnswer>,
    now: &BTreeMap<TopicPartition, Result<Option<CommittedOffset>, Fault>>,
    is_memberless: bool,
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
            let before = pre_image.before.get(&m.partition);
            let sent = pre_image.sent(m);
            let (answer, now) = (answers.get(&m.partition), now.get(&m.partition));
            let outcome =
                judge_partition(sent.as_ref().as_ref(), before, answer, now, is_memberless);
            (m.partition.clone(), outcome)
        })
        .collect();
    (overall(each.values()), each)
}

/// Judges one partition, as [`judge`] does.
pub(super) fn judge_partition(
    sent: Option<&CommittedOffset>,
    before: Option<&Option<CommittedOffset>>,
    answer: Option<&AlterAnswer>,
    now: Option<&Result<Option<CommittedOffset>, Fault>>,
    is_memberless: bool,
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
    if now.as_ref() == sent {
        return PartitionOutcome::Applied;
    }
    let position = now.as_ref().map(|now| now.offset);
    let at = || position.map_or("no commit".to_owned(), |at| at.to_string());
    match answer {
        Some(AlterAnswer::Accepted) if now == before => {
            // Lost by the brokers, or written back from outside: what was there before does not say.
            unknown(format!("accepted by the broker, but still at {}", at()))
        }
        Some(AlterAnswer::Accepted) if is_memberless => {
            PartitionOutcome::Overwritten { now: position }
        }
        Some(AlterAnswer::Accepted) if gone_on(sent, now.as_ref()) => {
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
            // What writes from outside goes back, too.
            if !is_memberless && back_and_on(before.as_ref(), sent, position) {
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
    let (mut applied, mut moved, mut overwritten, mut not, mut unknown) =
        (0_u32, 0_u32, 0_u32, 0_u32, 0_u32);
    for outcome in each {
        match outcome {
            PartitionOutcome::Applied => applied += 1,
            PartitionOutcome::AppliedThenMoved { .. } => moved += 1,
            PartitionOutcome::Overwritten { .. } => overwritten += 1,
            PartitionOutcome::NotApplied => not += 1,
            PartitionOutcome::Unknown { .. } => unknown += 1,
        }
    }
    match (applied, moved, overwritten, not, unknown) {
        (_, _, _, _, 1..) => Outcome::Unknown,
        (0, 0, 0, _, 0) => Outcome::NotApplied,
        (_, _, _, 1.., 0) => Outcome::PartiallyApplied,
        (_, _, 1.., 0, 0) => Outcome::Overwritten,
        (_, 1.., 0, 0, 0) => Outcome::AppliedThenMoved,
        (_, 0, 0, 0, 0) => Outcome::Verified,
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
