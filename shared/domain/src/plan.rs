//! A plan: absolute offsets, resolved while planning, that a person approves and that nothing changes afterwards.

mod csv;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::group::{
    Activity, GroupDescription, GroupObservation, GroupState, GroupType, MemberSeen,
};
use super::guard::answers::Grounds;
use super::guard::keeping::span;
use super::guard::quarantine::{Kept, SkippedRecord};
use super::identity::{Identity, Requester};
use super::ids::{CheckpointId, PlanId};
use super::offset::{
    ClusterId, CommittedOffset, Fault, GroupId, TopicId, TopicPartition, Watermarks, distance,
};
use super::refusal::{Refusal, Stale};
use super::request::RewindRequest;
use super::text::{self, grouped, time, verb};
use crate::ids::{ExecutionArn, GroupKey};

/// Where a plan's targets come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum Source {
    /// A checkpoint of this group.
    Checkpoint {
        /// Its id.
        id: CheckpointId,
        /// Its time.
        ended_at: Timestamp,
    },
    /// The first records at or after a time.
    Timestamp {
        /// The time.
        at: Timestamp,
    },
    /// Offsets that the request named.
    Offsets,
    /// A shift from the current offsets.
    Shift {
        /// By how many offsets.
        by: i64,
    },
    /// The log start.
    Earliest,
    /// The state before an earlier plan.
    Undo {
        /// That plan.
        plan: PlanId,
    },
    /// What an earlier plan did not move.
    Finish {
        /// That plan.
        plan: PlanId,
        /// Where its targets came from.
        source: Box<Self>,
    },
    /// The records that the plan names are passed over.
    Skip,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checkpoint { id, ended_at } => {
                write!(f, "checkpoint {id} of {}", time(*ended_at))
            }
            Self::Timestamp { at } => write!(f, "the first records at or after {}", time(*at)),
            Self::Offsets => f.write_str("the offsets named in the request"),
            Self::Shift { by } => write!(f, "the current offsets shifted by {by}"),
            Self::Earliest => f.write_str("the log start"),
            Self::Undo { plan } => write!(f, "the state before plan {plan}"),
            Self::Finish { plan, source } => {
                write!(f, "{source}, where plan {plan} did not move it")
            }
            Self::Skip => f.write_str("after the records that are passed over"),
        }
    }
}

/// One partition's move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionMove {
    /// Which partition.
    pub partition: TopicPartition,
    /// The topic's id while planning.
    pub topic_id: Option<TopicId>,
    /// What was committed while planning.
    pub from: Option<CommittedOffset>,
    /// What is to be committed; `None` removes the commit (only an undo does that).
    pub to: Option<CommittedOffset>,
    /// Where the log began and ended while planning.
    pub log: Watermarks,
    /// Offsets between the target asked for and the log start, which retention deleted.
    pub lost: u64,
    /// Where the log start has passed the target by the time of the apply, the log start is what is committed, up to
    /// this offset: the high watermark while planning, from which on every record is newer than the plan. `None`: the
    /// target is committed as it is, or not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub may_rise_to: Option<i64>,
}

impl PartitionMove {
    /// What is to be committed where the log starts at `log_start`: the target, raised to the log start where the plan
    /// allows that. What the log start raises is bare: epoch and metadata belong to the target.
    #[must_use]
    pub fn target_from(&self, log_start: i64) -> Cow<'_, Option<CommittedOffset>> {
        match &self.to {
            Some(to) if self.may_rise_to.is_some() && to.offset < log_start => {
                Cow::Owned(Some(CommittedOffset::bare(log_start)))
            }
            _ => Cow::Borrowed(&self.to),
        }
    }

    /// At most how many more records retention may take until the apply without making the plan stale.
    #[must_use]
    pub fn may_still_lose(&self) -> u64 {
        match (&self.to, self.may_rise_to) {
            (Some(to), Some(highest)) => distance(to.offset, highest),
            _ => 0,
        }
    }

    /// The target in words: an offset, and whether it may rise with the log start.
    #[must_use]
    pub fn target(&self) -> String {
        match (&self.to, self.may_rise_to) {
            (None, _) => "no commit".to_owned(),
            (Some(to), None) => to.offset.to_string(),
            (Some(to), Some(highest)) if to.offset <= self.log.log_start => {
                format!("log start (now {}; may rise to {highest})", to.offset)
            }
            (Some(to), Some(highest)) => format!(
                "{} (or the log start, where that is higher by then; at most {highest})",
                to.offset
            ),
        }
    }

    /// Whether it passes over nothing that could be read, and so undoes what was read since.
    #[must_use]
    pub fn goes_back(&self) -> bool {
        self.skipped() == 0
    }

    /// At most how many records will be read again. Markers and compaction take up offsets too.
    #[must_use]
    pub fn replayed(&self) -> u64 {
        match (&self.from, &self.to) {
            // A position beyond the log's end never read what lies in between.
            (Some(from), Some(to)) => distance(to.offset, from.offset.min(self.log.high)),
            // Brought back from nothing: all up to the end is read (again).
            (None, Some(to)) => self.log.lag(to.offset),
            (_, None) => 0,
        }
    }

    /// At most how many records will be passed over unread. What retention has deleted cannot be read, so it cannot be
    /// passed over either.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => distance(from.offset.max(self.log.log_start), to.offset),
            _ => 0,
        }
    }
}

/// Why a partition of the group is not moved.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, strum::IntoStaticStr,
)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum LeftAlone {
    /// The request did not select it.
    NotSelected,
    /// It is where it should be.
    AlreadyThere,
    /// The source does not have it: added later, or of a topic that the group did not read then.
    NotInSource,
    /// The source has it without a commit.
    NoCommitInSource,
    /// The group has no commit there to shift or to compare with.
    NoCommit,
    /// The plan that is undone did not move it.
    NotMovedThen,
    /// No record of it is as late as the time that was asked for.
    NoRecordThatLate,
    /// The plan that is undone was to move it, and it was not applied there.
    NotAppliedThen,
    /// The plan that is finished moved it.
    AppliedThen,
    /// The plan that is finished was not to move it.
    NotInPlan,
    /// It should be moved as well, and this keeps it out of the plan.
    Withheld {
        /// The refusal in one line.
        why: String,
    },
}

impl fmt::Display for LeftAlone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Withheld { why } => return write!(f, "withheld: {why}"),
            Self::NotSelected => "not selected by the request",
            Self::AlreadyThere => "already at the target",
            Self::NotInSource => "not in the source: added later, or not read by the group then",
            Self::NoCommitInSource => "had no commit in the source",
            Self::NoCommit => "has no commit",
            Self::NotMovedThen => "not moved by the plan that is undone",
            Self::NoRecordThatLate => "has no record as late as the time asked for",
            Self::NotAppliedThen => {
                "not moved by the plan that is undone, which was applied in part"
            }
            Self::AppliedThen => "moved by the plan that is finished",
            Self::NotInPlan => "not in the plan that is finished",
        })
    }
}

/// Something that an approver has to know and that is no reason to refuse.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum Warning {
    /// Checkpoints that would have been chosen were passed over.
    DisownedPassedOver {
        /// How many.
        count: usize,
        /// The plans that disowned them.
        by: BTreeSet<PlanId>,
    },
    /// Some partitions are taken from a checkpoint that is older than the plan's own, because a rewind undid what the
    /// newer ones hold of them.
    OlderCheckpoint {
        /// How many partitions.
        partitions: usize,
        /// The older checkpoint.
        id: CheckpointId,
        /// Its time.
        ended_at: Timestamp,
        /// The plans that undid the time between.
        by: BTreeSet<PlanId>,
    },
    /// Where retention passes a target before the plan is applied, the log start is taken instead.
    MayRise {
        /// In how many partitions that may happen.
        partitions: usize,
        /// At most how many records more would be lost in all.
        offsets: u64,
    },
    /// The record that was found for the time asked for is dated long after that time, and no record behind it is dated
    /// later: the times of the records are not in the order of their offsets.
    TimesOutOfOrder {
        /// Where.
        partition: TopicPartition,
        /// The record that was found.
        offset: i64,
        /// How it is dated.
        dated: Timestamp,
    },
    /// Between the source and now the group's offsets went back by themselves.
    WentBackwardsSince {
        /// Where.
        partition: TopicPartition,
    },
    /// The group does not exist and applying will create it.
    CreatesGroup,
    /// Records are lost to retention.
    Lost {
        /// How many offsets in all.
        offsets: u64,
    },
    /// Records will be passed over unread.
    Skips {
        /// How many at most in all.
        offsets: u64,
    },
    /// Metadata that some client committed is not kept, since it belongs to another offset.
    MetadataDropped {
        /// In how many partitions.
        partitions: usize,
    },
    /// Commits are removed, since there were none before the plan that is undone.
    Removes {
        /// In how many partitions.
        partitions: usize,
    },
    /// A topic's id is unknown now or in the source, so that a recreated topic could not be told from the old one.
    TopicIdUnknown {
        /// The topic.
        topic: String,
    },
    /// Whether the applying principal may commit for the group is unknown. Only in plans of before that principal was asked
    /// itself.
    MayAlterUnknown,
    /// The group was active while planning; its consumers must be stopped after approval.
    MustBeStopped {
        /// Its members.
        members: Vec<MemberSeen>,
        /// How far a commit may still go forward until then.
        drift_limit: u64,
    },
    /// The group was Empty while planning, and had members shortly before; they must not be there when it is applied.
    MustStayStopped {
        /// The members that were seen last.
        members: Vec<MemberSeen>,
        /// How far a commit may still go forward until then.
        drift_limit: u64,
    },
    /// The group was active while planning, and nothing waits until it is not: the plan can be read, not applied.
    ActiveNow {
        /// Its state.
        state: String,
        /// Its members.
        members: Vec<MemberSeen>,
    },
    /// Something else than the group's members writes its offsets.
    WrittenFromOutside {
        /// What shows it.
        why: String,
    },
    /// The group's offsets come without a group protocol: consumers that assign themselves cannot be seen.
    AssignOnly,
    /// A Kafka Streams or Connect group.
    Stateful {
        /// Which.
        kind: String,
    },
    /// Records are passed over, and no copy of them is kept.
    RecordsLost {
        /// How many.
        records: usize,
    },
    /// Records are passed over that no validator finds anything wrong with.
    GoodRecordsSkipped {
        /// How many.
        records: usize,
    },
    /// Two samples of the group are all that the plan rests on.
    TwoSamples,
    /// The quarantine topic can keep copies, but not as safely as it should.
    QuarantineAtRisk {
        /// The topic.
        topic: String,
        /// What about it.
        why: String,
    },
    /// The copies of records are deleted after a time.
    CopiesExpire {
        /// The quarantine topic.
        topic: String,
        /// How long after they were written, in seconds.
        after_seconds: u64,
    },
}

impl Warning {
    /// The members that it says must be stopped.
    #[must_use]
    pub fn members_to_stop(&self) -> &[MemberSeen] {
        match self {
            Self::MustBeStopped { members, .. }
            | Self::MustStayStopped { members, .. }
            | Self::ActiveNow { members, .. } => members,
            Self::DisownedPassedOver { .. }
            | Self::OlderCheckpoint { .. }
            | Self::MayRise { .. }
            | Self::TimesOutOfOrder { .. }
            | Self::WentBackwardsSince { .. }
            | Self::CreatesGroup
            | Self::Lost { .. }
            | Self::Skips { .. }
            | Self::MetadataDropped { .. }
            | Self::Removes { .. }
            | Self::TopicIdUnknown { .. }
            | Self::MayAlterUnknown
            | Self::WrittenFromOutside { .. }
            | Self::AssignOnly
            | Self::Stateful { .. }
            | Self::RecordsLost { .. }
            | Self::GoodRecordsSkipped { .. }
            | Self::TwoSamples
            | Self::QuarantineAtRisk { .. }
            | Self::CopiesExpire { .. } => &[],
        }
    }
}

/// How far the group's commits may go until it has stopped.
fn until_stopped(drift_limit: u64) -> String {
    match drift_limit {
        0 => "no commit that it moves may move until then".to_owned(),
        limit => format!(
            "until then its commits may go forward by at most {} per partition",
            text::count(limit, "offset")
        ),
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DisownedPassedOver { count, by } => {
                let by: Vec<_> = by.iter().map(PlanId::to_string).collect();
                write!(
                    f,
                    "{} {} passed over: taken in a time that plan {} undid",
                    text::count(*count, "newer checkpoint"),
                    verb(*count, "was", "were"),
                    by.join(", ")
                )
            }
            Self::OlderCheckpoint {
                partitions: count,
                id,
                ended_at,
                by,
            } => {
                let by: Vec<_> = by.iter().map(PlanId::to_string).collect();
                write!(
                    f,
                    "{} {} taken from checkpoint {id} of {}: plan {} undid what newer checkpoints hold there",
                    partitions(*count),
                    verb(*count, "is", "are"),
                    time(*ended_at),
                    by.join(", ")
                )
            }
            Self::MayRise {
                partitions: count,
                offsets,
            } => write!(
                f,
                "in {}, the log start is taken where retention passes the target before the plan is applied: \
                 up to {} may be lost until then",
                partitions(*count),
                text::count(*offsets, "more record")
            ),
            Self::TimesOutOfOrder {
                partition,
                offset,
                dated,
            } => write!(
                f,
                "the first record of {partition} that is late enough, {offset}, is dated {}, and none of those behind \
                 it is dated later: unless all are of that instant, times are out of order there, and records from before \
                 the time asked for will be replayed",
                time(*dated)
            ),
            Self::WentBackwardsSince { partition } => write!(
                f,
                "the offset of {partition} went back by itself after the source was taken"
            ),
            Self::CreatesGroup => {
                f.write_str("the group does not exist; applying creates it with these offsets")
            }
            Self::Lost { offsets } => write!(
                f,
                "{} asked for {} lost to retention and cannot be replayed",
                text::count(*offsets, "offset"),
                verb(*offsets, "is", "are")
            ),
            Self::Skips { offsets } => {
                write!(f, "up to {} will be passed over unread", text::count(*offsets, "record"))
            }
            Self::MetadataDropped { partitions } => write!(
                f,
                "partitions whose commit metadata will be empty: {} (what there is belongs to another position)",
                grouped(*partitions)
            ),
            Self::Removes { partitions } => write!(
                f,
                "partitions whose commits are removed: {} (their consumers will start where auto.offset.reset says)",
                grouped(*partitions)
            ),
            Self::TopicIdUnknown { topic } => write!(
                f,
                "the id of topic {topic} is unknown now or in the source, so a recreated topic could not be noticed"
            ),
            Self::MayAlterUnknown => {
                f.write_str("whether the applying principal may commit for this group is unknown")
            }
            Self::MustBeStopped {
                members,
                drift_limit,
            } => {
                let members = text::count(members.len(), "member");
                let until = until_stopped(*drift_limit);
                write!(
                    f,
                    "the group is active ({members}): stop its consumers after approving; {until}"
                )
            }
            Self::MustStayStopped {
                members,
                drift_limit,
            } => {
                let members = text::count(members.len(), "member");
                let until = until_stopped(*drift_limit);
                write!(
                    f,
                    "the group was Empty while this was planned, and had members shortly before ({members}): \
                     its consumers come back unless they are stopped after approving; {until}"
                )
            }
            Self::ActiveNow { state, members } => {
                let members = text::count(members.len(), "member");
                write!(
                    f,
                    "the group is {state} ({members}), and nothing waits until it is Empty: this can be read, and not \
                     applied before its consumers are stopped; or set wait_for_empty_seconds"
                )
            }
            Self::WrittenFromOutside { why } => write!(
                f,
                "the group's offsets are written from outside ({why}): stop what writes them, or it overwrites what is applied"
            ),
            Self::AssignOnly => f.write_str(
                "the group has no group protocol: consumers that assign themselves are invisible",
            ),
            Self::Stateful { kind } => write!(
                f,
                "a {kind} group: its state stores or connector offsets are not moved with it"
            ),
            Self::RecordsLost { records } => write!(
                f,
                "THE RECORDS WILL BE LOST: {} {} passed over and no copy is kept (publish_to_dlq_topic = false)",
                text::count(*records, "record"),
                verb(*records, "is", "are")
            ),
            Self::GoodRecordsSkipped { records } => write!(
                f,
                "of the records that are passed over, {} {} no validator, and the group never reads {}",
                grouped(*records),
                verb(*records, "fails", "fail"),
                verb(*records, "it", "them")
            ),
            Self::TwoSamples => f.write_str(
                "two-sample evidence: the policy asks for no more than two looks at the group before a skip is proposed",
            ),
            Self::QuarantineAtRisk { topic, why } => write!(
                f,
                "the quarantine topic {topic} is not as safe as it should be: {why}"
            ),
            Self::CopiesExpire {
                topic,
                after_seconds,
            } => write!(
                f,
                "the copies in {topic} are deleted {} after they were written (its retention.ms)",
                span(after_seconds.saturating_mul(1_000))
            ),
        }
    }
}

/// `1 partition`, `12 partitions`.
#[must_use]
pub fn partitions(count: usize) -> String {
    text::count(count, "partition")
}

/// What a plan disowns once it is verified: what the checkpoints in `(after, the apply]` hold of the partitions that it
/// takes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disowns {
    /// The source's time, exclusive.
    pub after: Timestamp,
}

/// The version of [`Plan::to_csv`]. A plan of another one cannot be compared with the digest that was approved.
pub const CSV_VERSION: u32 = 3;

/// The lower-case hexadecimal SHA-256 of [`Plan::to_csv`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PlanDigest(pub String);

impl fmt::Display for PlanDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An immutable, concrete plan for one group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Its id.
    pub id: PlanId,
    /// The cluster's name in the configuration.
    pub cluster: String,
    /// The cluster's own id, checked again before anything is sent.
    pub cluster_id: ClusterId,
    /// The group.
    pub group: GroupId,
    /// Its protocol while planning.
    pub group_type: GroupType,
    /// Its state while planning.
    pub state: GroupState,
    /// The hash of the configuration that applies to the group.
    pub config_hash: String,
    /// The version of the form that its digest is made of: [`CSV_VERSION`], unless another release made the plan.
    #[serde(default)]
    pub csv_version: u32,
    /// When the plan was made.
    pub created_at: Timestamp,
    /// Until when it may be decided.
    pub approve_by: Timestamp,
    /// How long after the decision it may be applied, in seconds.
    pub apply_within_seconds: u32,
    /// Whether the recovery waits for the group to be Empty.
    pub waits_for_empty: bool,
    /// How far forward a commit may have gone between plan and apply, in offsets a partition.
    pub drift_limit: u64,
    /// Where the targets come from.
    pub source: Source,
    /// The moves, sorted by partition, each partition once.
    pub moves: Vec<PartitionMove>,
    /// The records that are passed over, sorted by partition and offset; none unless the source is [`Source::Skip`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skips: Vec<SkippedRecord>,
    /// What is left alone and why, sorted by partition.
    pub left_alone: Vec<(TopicPartition, LeftAlone)>,
    /// What the approver has to know.
    pub warnings: Vec<Warning>,
    /// What it disowns once verified.
    pub disowns: Option<Disowns>,
    /// Who asked.
    pub requested_by: String,
    /// What is proven of who asked.
    #[serde(default, skip_serializing_if = "Requester::is_unverified")]
    pub requester: Requester,
    /// Whether only another person than the requester may approve it, and both have to be known to an issuer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub four_eyes: bool,
    /// Why.
    pub reason: String,
}

impl Plan {
    /// The group of the cluster that it moves.
    #[must_use]
    pub fn group_key(&self) -> GroupKey {
        GroupKey::new(self.cluster_id.clone(), self.group.clone())
    }

    /// At most how many records will be read again, in all.
    #[must_use]
    pub fn replayed(&self) -> u64 {
        total(self.moves.iter().map(PartitionMove::replayed))
    }

    /// At most how many records will be passed over unread, in all.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        total(self.moves.iter().map(PartitionMove::skipped))
    }

    /// Whether any partition goes back, and with that undoes what was remembered since. A plan that only goes forward
    /// undoes nothing.
    #[must_use]
    pub fn goes_back(&self) -> bool {
        self.moves.iter().any(PartitionMove::goes_back)
    }

    /// A record that it passes over and of which no copy was made yet: such a plan shows what would be done, no more.
    #[must_use]
    pub fn unkept(&self) -> Option<&SkippedRecord> {
        self.skips.iter().find(|s| s.kept == Kept::NotYet)
    }

    /// Whether applying creates the group: no partition has a commit, and it is gone.
    #[must_use]
    pub fn creates_group(&self) -> bool {
        self.warnings.contains(&Warning::CreatesGroup)
    }

    /// Whether it was made of an active group that nothing waits for: applying it needs the group to be at rest by then.
    #[must_use]
    pub fn is_of_active_group(&self) -> bool {
        let of_active = |w: &Warning| matches!(w, Warning::ActiveNow { .. });
        self.warnings.iter().any(of_active)
    }

    /// The members that must stop after the approval, as they were seen while planning or shortly before.
    #[must_use]
    pub fn members_to_stop(&self) -> &[MemberSeen] {
        let mut members = self.warnings.iter().map(Warning::members_to_stop);
        members.find(|named| !named.is_empty()).unwrap_or_default()
    }

    /// What an approver has to know of commits that may go forward until it is applied, where no warning says so: the
    /// plan waits for the group to be Empty, and nobody was seen whom to stop.
    #[must_use]
    pub fn drift_warning(&self) -> Option<String> {
        let named = |w: &Warning| {
            matches!(
                w,
                Warning::MustBeStopped { .. } | Warning::MustStayStopped { .. }
            )
        };
        let unsaid = self.waits_for_empty && !self.warnings.iter().any(named);
        let again = if self.goes_back() {
            ", and what is read until then is read again as well"
        } else {
            ""
        };
        (unsaid && self.drift_limit > 0).then(|| {
            let until = until_stopped(self.drift_limit);
            format!("it is applied when the group is Empty; {until}{again}")
        })
    }

    /// How many of its commits are without a leader epoch: consumers that start there do not check whether the log was
    /// truncated.
    #[must_use]
    pub fn without_epoch(&self) -> usize {
        let commits = self.moves.iter().filter_map(|m| m.to.as_ref());
        commits.filter(|to| to.leader_epoch.is_none()).count()
    }

    /// Whether `seen` shows the group as still as applying needs it: inactive or, where it is to be brought back, gone.
    #[must_use]
    pub fn finds_at_rest(&self, seen: &GroupObservation) -> bool {
        match seen.activity() {
            Activity::Inactive => true,
            Activity::Active { .. } => false,
            Activity::Unproven { .. } => self.creates_group() && seen.looks_absent(),
        }
    }

    /// Why nobody needs to be asked to approve it: the group, as it is described now, is active, and nothing waits until
    /// it is not.
    #[must_use]
    pub fn refuse_active(&self, described: &Result<GroupDescription, Fault>) -> Option<Refusal> {
        match Activity::of(described) {
            Activity::Active { state, members } if !self.waits_for_empty => {
                Some(Refusal::GroupActive {
                    state: state.to_string(),
                    members: MemberSeen::all(&members),
                })
            }
            Activity::Active { .. } | Activity::Inactive | Activity::Unproven { .. } => None,
        }
    }

    /// Who asked for it, for people. A dry run that was taken over was made live by somebody of whom nothing is known.
    #[must_use]
    pub fn asked_by(&self, from_dry_run: bool) -> String {
        let who = self.requester.shown(&self.requested_by);
        if from_dry_run {
            format!("{who} as a dry run; started by somebody who is not verified")
        } else {
            who
        }
    }

    /// Why `decider` may not approve it, if so.
    ///
    /// # Errors
    /// Four eyes are required and not there.
    pub fn approved_by(&self, decider: Option<&Identity>) -> Result<(), Refusal> {
        if self.four_eyes {
            self.requester.approved_by(decider)
        } else {
            Ok(())
        }
    }
}

/// What planning led to.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one at a time, and a box would only be in the way of matching"
)]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlanResult {
    /// There is something to approve.
    Ready(Plan),
    /// Nothing has to move: every partition of the group, and why it is left alone.
    NothingToDo(Vec<(TopicPartition, LeftAlone)>),
    /// Every reason why it is not done, in a stable order.
    Refused(Vec<Refusal>),
}

/// One request for a plan and what came of it, as it is kept. Nothing changes it afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanRecord {
    /// Its id; a plan that is [`PlanResult::Ready`] has the same.
    pub id: PlanId,
    /// The execution that it was made for; for a plan of the guard the id of the guard's run, which is not an ARN.
    pub execution: ExecutionArn,
    /// When it was made.
    pub created_at: Timestamp,
    /// The cluster's name in the configuration.
    pub cluster: String,
    /// The group, exactly.
    pub group: GroupId,
    /// Only to plan and to tell.
    pub dry_run: bool,
    /// Who asked.
    pub requested_by: String,
    /// Why.
    pub reason: String,
    /// What a plan of the guard rests on, per partition that it moves. Empty for others, and for those of before it was
    /// kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grounds: Vec<(TopicPartition, Grounds)>,
    /// What came of it.
    pub result: PlanResult,
}

impl PlanRecord {
    /// What came of a request.
    #[must_use]
    pub fn new(
        id: PlanId,
        execution: ExecutionArn,
        created_at: Timestamp,
        request: &RewindRequest,
        result: PlanResult,
    ) -> Self {
        Self {
            id,
            execution,
            created_at,
            cluster: request.cluster.clone(),
            group: request.group.clone(),
            dry_run: request.dry_run,
            requested_by: request.requested_by.clone(),
            reason: request.reason.clone(),
            grounds: Vec::new(),
            result,
        }
    }

    /// What came of something that could not be read as a request.
    #[must_use]
    pub fn refused(
        id: PlanId,
        execution: ExecutionArn,
        created_at: Timestamp,
        refusals: Vec<Refusal>,
    ) -> Self {
        Self {
            id,
            execution,
            created_at,
            cluster: String::new(),
            group: GroupId(String::new()),
            dry_run: false,
            requested_by: String::new(),
            reason: String::new(),
            grounds: Vec::new(),
            result: PlanResult::Refused(refusals),
        }
    }

    /// Adds a reason why it is not done.
    pub fn refuse(&mut self, refusal: Refusal) {
        match &mut self.result {
            PlanResult::Refused(refusals) => refusals.push(refusal),
            PlanResult::Ready(_) | PlanResult::NothingToDo(_) => {
                self.result = PlanResult::Refused(vec![refusal]);
            }
        }
    }

    /// Whether the guard made the plan by itself. Anybody may write its name where requesters write theirs.
    #[must_use]
    pub fn is_of_guard(&self) -> bool {
        matches!(&self.result, PlanResult::Ready(plan) if plan.requester == Requester::Guard)
    }

    /// Whether a plan that holds the group gives way: one that the guard made by itself, to one that a person asks for.
    #[must_use]
    pub fn yields_to(&self, plan: &Plan) -> bool {
        plan.requester != Requester::Guard && self.is_of_guard()
    }

    /// The plan, where another execution may carry it out; `asks_four_eyes` says whether the configuration asks for two
    /// people now.
    ///
    /// # Errors
    /// Why none may.
    pub fn take_over(
        &self,
        now: Timestamp,
        asks_four_eyes: impl FnOnce(&Plan) -> bool,
    ) -> Result<&Plan, Refusal> {
        let plan = match &self.result {
            PlanResult::Ready(plan) => plan,
            PlanResult::Refused(_) | PlanResult::NothingToDo(_) => {
                return Err(Refusal::PlanNotFound {
                    plan: self.id.clone(),
                });
            }
        };
        if now >= plan.approve_by {
            return Err(Refusal::ApprovalExpired {
                approve_by: plan.approve_by,
            });
        }
        if let Some(record) = plan.unkept() {
            return Err(Refusal::QuarantineUnconfirmed {
                partition: record.partition.clone(),
                offset: record.record.offset,
                why: "the plan is a dry run, which keeps nothing; ask again without dry_run"
                    .to_owned(),
            });
        }
        if plan.csv_version != CSV_VERSION {
            return Err(Refusal::PlanStale {
                changed: Stale::Release,
            });
        }
        // Whoever made it as a dry run, the guard too, did not propose it; and who wants it done now is not known.
        let proposed = plan.requester == Requester::Guard && !self.dry_run;
        if !proposed && (plan.four_eyes || asks_four_eyes(plan)) {
            return Err(Refusal::RequesterUnverified);
        }
        Ok(plan)
    }
}

/// A sum of counts that a broken reading cannot make overflow.
pub(super) fn total(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// What is wrong with a plan, found without any of the code that made it.
///
/// Run on every plan before it is offered and again before it is applied: a fault here is a bug in planning or a
/// damaged item, never a matter of opinion.
#[must_use]
pub fn check_plan(plan: &Plan) -> Vec<String> {
    let mut wrong = Vec::new();
    if plan.moves.is_empty() {
        wrong.push("it moves nothing".to_owned());
    }
    let in_order = |a: &TopicPartition, b: &TopicPartition| a < b;
    if !plan
        .moves
        .is_sorted_by(|a, b| in_order(&a.partition, &b.partition))
    {
        wrong.push("its moves are not in order, or one is there twice".to_owned());
    }
    if !plan.left_alone.is_sorted_by(|a, b| in_order(&a.0, &b.0)) {
        wrong.push("what it leaves alone is not in order, or one is there twice".to_owned());
    }
    let moved: BTreeSet<_> = plan.moves.iter().map(|m| &m.partition).collect();
    for (partition, _) in &plan.left_alone {
        if moved.contains(partition) {
            wrong.push(format!("{partition} is both moved and left alone"));
        }
    }
    for m in &plan.moves {
        let at = &m.partition;
        wrong.extend(
            check_move(plan, m)
                .into_iter()
                .map(|fault| format!("{at} {fault}")),
        );
    }
    wrong.extend(check_skips(plan));
    if plan.approve_by <= plan.created_at {
        wrong.push("it expires before it can be approved".to_owned());
    }
    if plan.apply_within_seconds == 0 {
        wrong.push("it expires before it can be applied".to_owned());
    }
    if !plan.waits_for_empty {
        if plan.drift_limit != 0 {
            wrong.push("offsets may move although it waits for nobody to stop".to_owned());
        }
        if plan.state != GroupState::Empty && !plan.creates_group() && !plan.is_of_active_group() {
            let state = plan.state;
            wrong.push(format!("the group is {state}, but it does not wait for it"));
        }
    }
    if plan.creates_group() && plan.moves.iter().any(|m| m.from.is_some()) {
        wrong.push("it creates a group that has commits".to_owned());
    }
    if plan
        .disowns
        .is_some_and(|disowns| disowns.after > plan.created_at)
    {
        wrong.push("it disowns a time that is yet to come".to_owned());
    }
    wrong
}

/// A skip passes over exactly the records that it names, and every one of its partitions names some.
fn check_skips(plan: &Plan) -> Vec<String> {
    let mut wrong = Vec::new();
    if plan.source != Source::Skip {
        if !plan.skips.is_empty() {
            wrong.push("it names records that are passed over, but it is no skip".to_owned());
        }
        return wrong;
    }
    if plan.drift_limit != 0 {
        wrong.push("offsets may move although it passes over named records".to_owned());
    }
    let place = |s: &SkippedRecord| (s.partition.clone(), s.record.offset);
    if !plan.skips.is_sorted_by(|a, b| place(a) < place(b)) {
        wrong.push("its records are not in order, or one is there twice".to_owned());
    }
    for m in &plan.moves {
        let last = plan.skips.iter().rfind(|s| s.partition == m.partition);
        let first = plan.skips.iter().find(|s| s.partition == m.partition);
        let named = match (&m.from, &m.to, first, last) {
            (Some(from), Some(to), Some(first), Some(last)) => {
                from.offset <= first.record.offset
                    && last.record.offset.checked_add(1) == Some(to.offset)
            }
            _ => false,
        };
        if !named {
            let at = &m.partition;
            wrong.push(format!(
                "{at} does not move to right after the records that it names"
            ));
        }
    }
    let moved: BTreeSet<_> = plan.moves.iter().map(|m| &m.partition).collect();
    if plan.skips.iter().any(|s| !moved.contains(&s.partition)) {
        wrong.push("it names records of a partition that it does not move".to_owned());
    }
    wrong
}

fn check_move(plan: &Plan, m: &PartitionMove) -> Vec<String> {
    let mut wrong = Vec::new();
    if m.from == m.to {
        wrong.push("is moved to where it is".to_owned());
    }
    let Some(to) = &m.to else {
        if !matches!(plan.source, Source::Undo { .. } | Source::Finish { .. }) {
            wrong.push("loses its commit, but this is no undo".to_owned());
        }
        return wrong;
    };
    if to.offset < m.log.log_start || to.offset > m.log.high {
        let (target, start, high) = (to.offset, m.log.log_start, m.log.high);
        wrong.push(format!(
            "has its target {target} outside its log, {start} to {high}"
        ));
    }
    if let Some(highest) = m.may_rise_to
        && (highest < to.offset || highest > m.log.high || plan.source == Source::Skip)
    {
        wrong.push(format!("may rise to {highest}, which is no end for it"));
    }
    if m.lost > 0 && to.offset != m.log.log_start {
        wrong.push("loses records although it does not begin at the log start".to_owned());
    }
    let remembered = matches!(
        plan.source,
        Source::Checkpoint { .. } | Source::Undo { .. } | Source::Finish { .. }
    );
    let bare = to.leader_epoch.is_none() && to.metadata.is_empty();
    if !bare && (!remembered || m.lost > 0) {
        wrong
            .push("gets an epoch or metadata that were never committed with its target".to_owned());
    }
    if let Some(epoch) = to.leader_epoch
        && m.log.leader_epoch.is_none_or(|current| epoch > current)
    {
        wrong.push(format!(
            "gets the leader epoch {epoch}, which its log has not reached"
        ));
    }
    wrong
}
