//! A plan: absolute offsets, resolved while planning, that a person approves and that nothing changes afterwards.

use std::collections::BTreeSet;
use std::fmt;

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::checkpoint::CheckpointId;
use super::group::{Activity, GroupObservation, GroupState, GroupType};
use super::guard::answers::Grounds;
use super::guard::keeping::span;
use super::guard::quarantine::{Kept, SkippedRecord};
use super::identity::{Identity, Requester};
use super::offset::{
    ClusterId, CommittedOffset, GroupId, TopicId, TopicPartition, Watermarks, distance,
};
use super::refusal::Refusal;

/// A plan's id: a ULID.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PlanId(pub String);

impl fmt::Display for PlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a plan's targets come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The records that the plan names are passed over.
    Skip,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checkpoint { id, ended_at } => write!(f, "checkpoint {id} of {ended_at}"),
            Self::Timestamp { at } => write!(f, "the first records at or after {at}"),
            Self::Offsets => f.write_str("the offsets named in the request"),
            Self::Shift { by } => write!(f, "the current offsets shifted by {by}"),
            Self::Earliest => f.write_str("the log start"),
            Self::Undo { plan } => write!(f, "the state before plan {plan}"),
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
}

impl PartitionMove {
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
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
        })
    }
}

/// Something that an approver has to know and that is no reason to refuse.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Warning {
    /// Checkpoints that would have been chosen were passed over.
    DisownedPassedOver {
        /// How many.
        count: usize,
        /// The plans that disowned them.
        by: BTreeSet<PlanId>,
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
    /// Whether the applying principal may commit for the group is unknown.
    MayAlterUnknown,
    /// The group was active while planning; its consumers must be stopped after approval.
    MustBeStopped {
        /// Its members.
        members: Vec<super::refusal::MemberSeen>,
        /// How far a commit may still go forward until then.
        drift_limit: u64,
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
    pub fn members_to_stop(&self) -> &[super::refusal::MemberSeen] {
        match self {
            Self::MustBeStopped { members, .. } => members,
            Self::DisownedPassedOver { .. }
            | Self::WentBackwardsSince { .. }
            | Self::CreatesGroup
            | Self::Lost { .. }
            | Self::Skips { .. }
            | Self::MetadataDropped { .. }
            | Self::Removes { .. }
            | Self::TopicIdUnknown { .. }
            | Self::MayAlterUnknown
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

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DisownedPassedOver { count, by } => {
                let by: Vec<_> = by.iter().map(PlanId::to_string).collect();
                write!(
                    f,
                    "{count} newer checkpoints were passed over: taken in a time that plan {} undid",
                    by.join(", ")
                )
            }
            Self::WentBackwardsSince { partition } => write!(
                f,
                "the offset of {partition} went back by itself after the source was taken"
            ),
            Self::CreatesGroup => {
                f.write_str("the group does not exist; applying creates it with these offsets")
            }
            Self::Lost { offsets } => write!(
                f,
                "{offsets} offsets that were asked for are lost to retention and cannot be replayed"
            ),
            Self::Skips { offsets } => {
                write!(f, "up to {offsets} records will be passed over unread")
            }
            Self::MetadataDropped { partitions } => write!(
                f,
                "partitions whose commit metadata will be empty: {partitions} (what there is belongs to another position)"
            ),
            Self::Removes { partitions } => write!(
                f,
                "partitions whose commits are removed: {partitions} \
                 (their consumers will start where auto.offset.reset says)"
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
                let members = match members.len() {
                    1 => "1 member".to_owned(),
                    count => format!("{count} members"),
                };
                let until = match drift_limit {
                    0 => "no commit that it moves may move until then".to_owned(),
                    limit => format!(
                        "until then its commits may go forward by at most {limit} a partition"
                    ),
                };
                write!(
                    f,
                    "the group is active ({members}): stop its consumers after approving; {until}"
                )
            }
            Self::AssignOnly => f.write_str(
                "the group has no group protocol: consumers that assign themselves are invisible",
            ),
            Self::Stateful { kind } => write!(
                f,
                "a {kind} group: its state stores or connector offsets are not moved with it"
            ),
            Self::RecordsLost { records } => write!(
                f,
                "THE RECORDS WILL BE LOST: {records} are passed over and no copy is kept (publish_to_dlq_topic = false)"
            ),
            Self::GoodRecordsSkipped { records } => write!(
                f,
                "{records} of the records that are passed over fail no validator, and the group never reads them"
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
    if count == 1 {
        "1 partition".to_owned()
    } else {
        format!("{count} partitions")
    }
}

/// What a plan disowns once it is verified: the checkpoints in `(after, the apply]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disowns {
    /// The source's time, exclusive.
    pub after: Timestamp,
}

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
        self.moves.iter().any(|m| m.skipped() == 0)
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

    /// The members that must stop after the approval, as they were seen while planning.
    #[must_use]
    pub fn members_to_stop(&self) -> &[super::refusal::MemberSeen] {
        let mut members = self.warnings.iter().map(Warning::members_to_stop);
        members.find(|named| !named.is_empty()).unwrap_or_default()
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

    /// The canonical form: a CSV that a person can read, and whose SHA-256 is the plan's digest.
    ///
    /// Every field that decides what will happen is in it, so two plans with one digest do the same.
    /// Text is quoted as JSON is, which keeps every line one line.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let text = |text: &str| serde_json::Value::from(text).to_string();
        let mut csv = String::new();
        let mut field = |name: &str, value: String| {
            csv.push_str(name);
            csv.push(',');
            csv.push_str(&value);
            csv.push('\n');
        };
        field("plan", text(&self.id.0));
        field("cluster", text(&self.cluster));
        field("cluster_id", text(&self.cluster_id.0));
        field("group", text(&self.group.0));
        field("group_type", self.group_type.to_string());
        field("state", self.state.to_string());
        field("config_hash", text(&self.config_hash));
        field("created_at", self.created_at.to_string());
        field("approve_by", self.approve_by.to_string());
        field(
            "apply_within_seconds",
            self.apply_within_seconds.to_string(),
        );
        field("waits_for_empty", self.waits_for_empty.to_string());
        field("drift_limit", self.drift_limit.to_string());
        field("source", text(&self.source.to_string()));
        field(
            "disowns_after",
            self.disowns
                .map_or(String::new(), |disowns| disowns.after.to_string()),
        );
        field("requested_by", text(&self.requested_by));
        // Lines that not every plan has: those of plans without them are what they always were.
        match &self.requester {
            Requester::Unverified => {}
            Requester::Guard => field("requester", text("guard")),
            Requester::Verified(identity) => field("requester", text(&identity.to_string())),
        }
        if self.four_eyes {
            field("four_eyes", "true".to_owned());
        }
        field("reason", text(&self.reason));
        for warning in &self.warnings {
            field("warning", text(&warning.to_string()));
        }
        csv.push_str(
            "topic,partition,topic_id,current_offset,current_epoch,current_metadata_hex,\
             target_offset,target_epoch,target_metadata_hex,log_start,last_stable,high,lost\n",
        );
        for m in &self.moves {
            let id = m.topic_id.map_or(String::new(), |id| id.to_string());
            let (from, to) = (triple(m.from.as_ref()), triple(m.to.as_ref()));
            csv.push_str(&format!(
                "{},{},{id},{from},{to},{},{},{},{}\n",
                text(&m.partition.topic),
                m.partition.partition,
                m.log.log_start,
                m.log.last_stable,
                m.log.high,
                m.lost
            ));
        }
        for skipped in &self.skips {
            csv.push_str(&skipped_line(skipped));
        }
        for (partition, why) in &self.left_alone {
            csv.push_str(&format!(
                "{},{},{}\n",
                text(&partition.topic),
                partition.partition,
                text(&format!("left alone: {why}"))
            ));
        }
        csv
    }

    /// The digest that an approval is bound to.
    #[must_use]
    pub fn digest(&self) -> PlanDigest {
        PlanDigest(HEXLOWER.encode(&Sha256::digest(self.to_csv())))
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
    /// The execution that it was made for.
    pub execution: String,
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
    /// Whether the guard made the plan by itself. Anybody may write its name where requesters write theirs.
    #[must_use]
    pub fn is_of_guard(&self) -> bool {
        matches!(&self.result, PlanResult::Ready(plan) if plan.requester == Requester::Guard)
    }
}

/// A sum of counts that a broken reading cannot make overflow.
pub(super) fn total(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// One record that is passed over: where, when, how big, its hash, what is wrong with it, where it is kept.
fn skipped_line(skipped: &SkippedRecord) -> String {
    let text = |text: &str| serde_json::Value::from(text).to_string();
    let number = |n: Option<String>| n.unwrap_or_default();
    let record = &skipped.record;
    let failure = skipped.failure.as_ref().map_or_else(
        || "no validator fails".to_owned(),
        |failure| format!("fails {}: {}", failure.validator, failure.problem),
    );
    let kept = match &skipped.kept {
        Kept::In(copy) => format!("kept at {copy}"),
        Kept::No => "NOT KEPT".to_owned(),
        Kept::NotYet => "not kept yet".to_owned(),
    };
    format!(
        "passed over,{},{},{},{},{},{},{},{},{},{},{},{}\n",
        text(&skipped.partition.topic),
        skipped.partition.partition,
        record.offset,
        number(record.leader_epoch.map(|epoch| epoch.to_string())),
        record.timestamp_type,
        record.timestamp_ms,
        number(record.key_bytes.map(|bytes| bytes.to_string())),
        number(record.value_bytes.map(|bytes| bytes.to_string())),
        record.fingerprint.0,
        skipped.dedupe_id,
        text(&failure),
        text(&kept)
    )
}

/// `offset,epoch,metadata` with empty fields for what is absent.
fn triple(committed: Option<&CommittedOffset>) -> String {
    committed.map_or_else(
        || ",,".to_owned(),
        |c| {
            let epoch = c
                .leader_epoch
                .map_or(String::new(), |epoch| epoch.to_string());
            format!("{},{epoch},{}", c.offset, HEXLOWER.encode(&c.metadata))
        },
    )
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
        if plan.state != GroupState::Empty && !plan.creates_group() {
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
        if !matches!(plan.source, Source::Undo { .. }) {
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
    if m.lost > 0 && to.offset != m.log.log_start {
        wrong.push("loses records although it does not begin at the log start".to_owned());
    }
    let remembered = matches!(plan.source, Source::Checkpoint { .. } | Source::Undo { .. });
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
