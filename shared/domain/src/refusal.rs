//! A refusal is a correct answer: what was seen, what was required, what to do next.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::guard::verdict::Verdict;
use super::ids::CheckpointId;
use super::ids::PlanId;
use super::offset::{Fault, TopicPartition, distance};
use super::rights::{Right, listed};
use super::text::{count, grouped, time, verb};
use crate::group::MemberSeen;
use crate::ids::ExecutionArn;

/// What changed since a plan was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stale {
    /// The configuration that applies to the group is another one.
    Configuration,
    /// The topic is another one of the same name, or gone.
    Topic {
        /// Its name.
        topic: String,
    },
    /// The committed offset is not where the plan says that it is, or may be.
    CommittedOffset {
        /// Where.
        partition: TopicPartition,
        /// What the plan says.
        planned: Option<i64>,
        /// What was seen.
        seen: Option<i64>,
        /// How far forward it may have gone.
        limit: u64,
    },
    /// A record that is to be passed over is not what the plan was made with.
    SourceRecord {
        /// Where.
        partition: TopicPartition,
        /// Its offset.
        offset: i64,
        /// What was found.
        why: String,
    },
    /// The copy of a record that is to be passed over is not what was kept.
    QuarantineCopy {
        /// Where it was kept.
        copy: String,
        /// What was found.
        why: String,
    },
    /// The plan was made by another release, whose digests this one cannot compare.
    Release,
    /// The log start has passed the offset up to which a target may rise with it.
    LogStart {
        /// Where.
        partition: TopicPartition,
        /// The log start seen.
        log_start: i64,
        /// How far the target may rise.
        highest: i64,
    },
    /// The target left `[log start, high watermark]`.
    Target {
        /// Where.
        partition: TopicPartition,
        /// The target.
        target: i64,
        /// The log start seen.
        log_start: i64,
        /// The high watermark seen.
        high: i64,
    },
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offset =
            |offset: &Option<i64>| offset.map_or("no commit".to_owned(), |o| o.to_string());
        match self {
            Self::Configuration => f.write_str("the group's configuration changed"),
            Self::Topic { topic } => write!(f, "topic {topic} is gone or was created again"),
            Self::CommittedOffset {
                partition,
                planned: Some(planned),
                seen: Some(seen),
                ..
            } if planned == seen => write!(
                f,
                "{partition} was at {planned} in the plan, which was committed again since with another epoch or metadata"
            ),
            Self::CommittedOffset {
                partition,
                planned,
                seen,
                limit,
            } => write!(
                f,
                "{partition} was at {} in the plan and is at {} (it may move forward by at most {})",
                offset(planned),
                offset(seen),
                count(*limit, "offset")
            ),
            Self::SourceRecord {
                partition,
                offset,
                why,
            } => write!(f, "record {offset} of {partition} is not as it was: {why}"),
            Self::QuarantineCopy { copy, why } => {
                write!(
                    f,
                    "the copy in quarantine at {copy} is not as it was: {why}"
                )
            }
            Self::Release => f.write_str(
                "it was made by another release of Offset Guard, which made its digest in another way",
            ),
            Self::LogStart {
                partition,
                log_start,
                highest,
            } => write!(
                f,
                "the log of {partition} starts at {log_start} now, and its target may rise to {highest} at most: \
                 all that was to be read again is deleted"
            ),
            Self::Target {
                partition,
                target,
                log_start,
                high,
            } => write!(
                f,
                "the target {target} of {partition} is no longer within the log, which holds {log_start} to {high}"
            ),
        }
    }
}

/// A person's no to a proposal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    /// Who rejected it.
    pub by: String,
    /// Why.
    pub reason: String,
    /// When.
    pub at: Timestamp,
    /// When it is proposed again, if nothing changes.
    pub until: Timestamp,
}

/// Why something was not done. The tag `code` is a public contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, strum::VariantNames)]
#[serde(tag = "code", rename_all = "SCREAMING_SNAKE_CASE")]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum Refusal {
    /// The request does not say what to do.
    InvalidRequest {
        /// The field.
        field: String,
        /// What is wrong and what to write instead.
        problem: String,
    },
    /// The group or the cluster is not in the configuration.
    NotConfigured {
        /// What was asked for.
        asked: String,
        /// The configured name that may have been meant.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        near: Option<String>,
    },
    /// No usable checkpoint strictly before that time.
    NoCheckpointBefore {
        /// The time asked for.
        before: Timestamp,
        /// The oldest usable checkpoint there is.
        oldest: Option<Timestamp>,
        /// How many were passed over because a later rewind disowned them.
        disowned: usize,
    },
    /// No such checkpoint for this cluster and group.
    CheckpointNotFound {
        /// The id asked for.
        id: CheckpointId,
    },
    /// The checkpoint lies in a time that a verified rewind undid, at least for some of what was asked for.
    CheckpointDisowned {
        /// The checkpoint.
        id: CheckpointId,
        /// The plan that undid it; the first of them, where there are more.
        by: PlanId,
        /// Which of the partitions asked for it undid; empty where those are all.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        partitions: Vec<TopicPartition>,
    },
    /// Of some partitions, every checkpoint of before the time asked for lies in a time that a verified rewind undid.
    PartitionsDisowned {
        /// The time asked for.
        before: Timestamp,
        /// Which.
        partitions: Vec<TopicPartition>,
    },
    /// Nothing that can be undone under that id.
    NothingToUndo {
        /// The plan asked for.
        plan: PlanId,
        /// Why not.
        why: String,
    },
    /// Nothing that can be finished under that id.
    NothingToFinish {
        /// The plan asked for.
        plan: PlanId,
        /// Why not.
        why: String,
    },
    /// The brokers belong to another cluster than the configuration or the checkpoint says.
    ClusterMismatch {
        /// The cluster id required.
        required: String,
        /// The cluster id seen.
        seen: String,
    },
    /// The group does not exist. Altering it would create it.
    GroupNotFound {
        /// The group.
        group: String,
        /// The configured name that may have been meant.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        near: Option<String>,
    },
    /// The group exists but has no committed offsets.
    NoCommittedOffsets {
        /// The group.
        group: String,
    },
    /// The group has members, or is about to.
    GroupActive {
        /// Its state.
        state: String,
        /// Its members.
        members: Vec<MemberSeen>,
    },
    /// It is not proven that the group is inactive.
    GroupStateUnproven {
        /// What was seen.
        seen: String,
    },
    /// A Kafka Streams or Connect group: its position is not only in its offsets.
    StatefulGroup {
        /// `Kafka Streams` or `Kafka Connect`.
        kind: String,
    },
    /// The topic does not exist any more.
    TopicGone {
        /// The topic.
        topic: String,
    },
    /// The topic was deleted and created again: the offsets belong to another log.
    TopicRecreated {
        /// The topic.
        topic: String,
        /// The id that the checkpoint holds.
        then: String,
        /// The id that it has now.
        now: String,
    },
    /// The log was truncated since: the same offset may be another record.
    LogTruncated {
        /// Where.
        partition: TopicPartition,
        /// The higher watermark of before.
        high_before: i64,
        /// The lower one of after.
        high_after: i64,
    },
    /// The target was deleted by retention.
    OffsetBelowLogStart {
        /// Where.
        partition: TopicPartition,
        /// The target.
        requested: i64,
        /// The first offset that still exists.
        log_start: i64,
    },
    /// The target does not exist yet.
    OffsetAboveHighWatermark {
        /// Where.
        partition: TopicPartition,
        /// The target.
        requested: i64,
        /// The high watermark.
        high: i64,
    },
    /// The target is ahead of the group: records would be skipped.
    ForwardMove {
        /// Where.
        partition: TopicPartition,
        /// Where the group is.
        current: i64,
        /// The target.
        target: i64,
    },
    /// The request names a topic that the group neither committed nor is assigned.
    TopicUnknown {
        /// The topic.
        topic: String,
    },
    /// The group has no commit there, or the partition does not exist.
    PartitionUnknown {
        /// Where.
        partition: TopicPartition,
    },
    /// Pending transactional commits: the offset read is not final.
    UnstableOffsets {
        /// Where.
        partition: TopicPartition,
    },
    /// A reading that the decision needs holds no value.
    EvidenceIncomplete {
        /// Where; empty for the group itself.
        at: String,
        /// Why.
        fault: Fault,
    },
    /// The request selects no partition that the group has.
    NothingSelected {
        /// The group.
        group: String,
    },
    /// Another recovery of this group is open.
    RecoveryLive {
        /// Its plan.
        plan: PlanId,
        /// Its execution.
        execution: ExecutionArn,
    },
    /// The principal that applies lacks rights that the plan needs.
    NotAuthorisedToAlter {
        /// The group.
        group: String,
        /// Which rights; empty in refusals that were stored before these were told.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        missing: Vec<Right>,
    },
    /// What is asked for does not follow from what was seen.
    NotWarranted {
        /// Where.
        partition: TopicPartition,
        /// Why the partition is where it is.
        verdict: Verdict,
    },
    /// The poison record is not the next one: a commit after it would pass over good records unprocessed.
    PoisonNotAtCommitted {
        /// Where.
        partition: TopicPartition,
        /// The first record that waits.
        first: i64,
        /// The first record that fails.
        poison: i64,
    },
    /// The record that stops the consumers is one of several, and nothing tells which.
    RecordNotSingledOut {
        /// Where.
        partition: TopicPartition,
        /// The first of them.
        first: i64,
        /// The last of them, where each offset in between holds a record.
        last: i64,
        /// How many at most.
        records: u64,
    },
    /// Aborted records lie at the commit, and whether the group reads them is not known.
    IsolationUnknown {
        /// Where.
        partition: TopicPartition,
        /// The first record of a `read_committed` consumer.
        committed: Option<i64>,
        /// The first record of a `read_uncommitted` consumer.
        uncommitted: Option<i64>,
    },
    /// The record that would be passed over cannot be read, so it cannot be kept.
    RecordUnreadable {
        /// Where.
        partition: TopicPartition,
        /// Why.
        why: String,
    },
    /// The record comes from quarantine itself: it would go round and round.
    RecordFromQuarantine {
        /// Where.
        partition: TopicPartition,
        /// The record.
        offset: i64,
    },
    /// More records of one partition would be passed over than one plan may.
    TooManyRecords {
        /// Where; unknown for those of before it was kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partition: Option<TopicPartition>,
        /// How many at least.
        records: u64,
        /// How many one plan may.
        limit: u32,
    },
    /// The plan passes over as many records as one may, or as one run can keep, without those of this partition.
    PlanFull {
        /// Where.
        partition: TopicPartition,
        /// How many records one plan may pass over.
        limit: u32,
    },
    /// A person said no to the same proposal, and nothing has changed since.
    RejectedBefore {
        /// Where.
        partition: TopicPartition,
        /// The plan that was rejected.
        plan: PlanId,
        /// What was said, and how long it counts.
        rejection: Box<Rejection>,
    },
    /// Nobody answered the same proposal, and it is not made again yet.
    UnansweredBefore {
        /// Where.
        partition: TopicPartition,
        /// The plan that nobody decided on.
        plan: PlanId,
        /// When its time was over.
        at: Timestamp,
        /// When it is proposed again, if nothing changes.
        until: Timestamp,
        /// The rights that the applying principal lacks, where nobody was asked for that.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        missing: Vec<Right>,
    },
    /// The partition's skips of the last 24 hours are as many as may be.
    TooManySkips {
        /// Where.
        partition: TopicPartition,
        /// How many there were.
        skips: u32,
        /// How many there may be.
        limit: u32,
    },
    /// The quarantine topic cannot keep the record, or any record.
    QuarantineUnusable {
        /// The topic; empty where none is configured.
        topic: String,
        /// Whose record it cannot keep; `None` for all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partition: Option<TopicPartition>,
        /// Why.
        why: String,
    },
    /// A record that would be passed over is not known to be kept.
    QuarantineUnconfirmed {
        /// Where.
        partition: TopicPartition,
        /// The record.
        offset: i64,
        /// Why.
        why: String,
    },
    /// The plan does not exist.
    PlanNotFound {
        /// The plan.
        plan: PlanId,
    },
    /// The plan has been executed before; a plan is good once.
    PlanUsed {
        /// The plan.
        plan: PlanId,
    },
    /// The world is not what the plan says any more.
    PlanStale {
        /// What changed.
        changed: Stale,
    },
    /// The stored plan is not the one that was approved.
    PlanDigestMismatch {
        /// The digest that was approved.
        approved: String,
        /// The digest of the stored plan.
        stored: String,
    },
    /// There is no approval, or not for this execution.
    NotApproved {
        /// What there is instead.
        found: String,
    },
    /// A person said no.
    Rejected {
        /// Who.
        by: String,
        /// Why.
        reason: String,
    },
    /// The group needs four eyes, and nobody knows who asked.
    RequesterUnverified,
    /// The group needs four eyes, and these were not two people.
    FourEyesMissing {
        /// What was seen.
        found: String,
    },
    /// Nobody decided in time.
    ApprovalExpired {
        /// The end of the time.
        approve_by: Timestamp,
    },
    /// Approved, but too late to be applied.
    ApplyTimeOver {
        /// The end of the time.
        apply_by: Timestamp,
    },
    /// The group was not still in time.
    NotEmptyInTime {
        /// Its state.
        state: String,
        /// Who must be stopped.
        members: Vec<MemberSeen>,
    },
    /// Applying is switched off.
    ApplySwitchedOff,
    /// This execution does not hold the group (any more).
    ClaimLost {
        /// Who holds it.
        holder: String,
    },
    /// Verify has begun: nothing may be sent any more.
    Fenced,
    /// The broker did not accept a commit, because members are back.
    GroupBecameActive {
        /// Where.
        partition: TopicPartition,
        /// The error's name in Kafka's protocol.
        error: String,
    },
    /// The broker did not accept a commit.
    BrokerRejected {
        /// Where.
        partition: TopicPartition,
        /// What it said.
        error: String,
    },
}

impl Refusal {
    /// The code of every refusal.
    pub const CODES: &[&str] = <Self as strum::VariantNames>::VARIANTS;

    /// The stable code, as it stands in JSON.
    #[must_use]
    pub fn code(&self) -> String {
        // The tag is written by the same derive that writes the JSON, so the two cannot differ.
        match serde_json::to_value(self) {
            Ok(value) => value["code"].as_str().unwrap_or_default().to_owned(),
            Err(_) => String::new(),
        }
    }

    /// The partition whose skip or rewind it withholds from a plan of the guard; `None` where it is of all of them.
    #[must_use]
    pub fn withholds(&self) -> Option<&TopicPartition> {
        match self {
            Self::NotWarranted { partition, .. }
            | Self::PoisonNotAtCommitted { partition, .. }
            | Self::IsolationUnknown { partition, .. }
            | Self::RecordUnreadable { partition, .. }
            | Self::RecordFromQuarantine { partition, .. }
            | Self::PlanFull { partition, .. }
            | Self::RejectedBefore { partition, .. }
            | Self::UnansweredBefore { partition, .. }
            | Self::TooManySkips { partition, .. }
            | Self::QuarantineUnconfirmed { partition, .. }
            | Self::OffsetBelowLogStart { partition, .. }
            | Self::OffsetAboveHighWatermark { partition, .. }
            | Self::ForwardMove { partition, .. }
            | Self::LogTruncated { partition, .. }
            | Self::UnstableOffsets { partition }
            | Self::PlanStale {
                changed: Stale::CommittedOffset { partition, .. },
            }
            | Self::PartitionUnknown { partition } => Some(partition),
            Self::TooManyRecords { partition, .. } | Self::QuarantineUnusable { partition, .. } => {
                partition.as_ref()
            }
            _ => None,
        }
    }
}

/// `client-a (host /127.0.0.1, member id client-a-1)`, at most five of them.
fn members(members: &[MemberSeen]) -> String {
    const SHOWN: usize = 5;
    let mut text = members
        .iter()
        .take(SHOWN)
        .map(|m| format!("{} ({}, member id {})", m.client_id, m.host, m.member_id))
        .collect::<Vec<_>>()
        .join(", ");
    if members.len() > SHOWN {
        text.push_str(&format!(" and {} more", grouped(members.len() - SHOWN)));
    }
    text
}

/// `shipments-0, shipments-3 and 12 more`.
fn some_of(partitions: &[TopicPartition]) -> String {
    const SHOWN: usize = 5;
    let named: Vec<_> = partitions
        .iter()
        .take(SHOWN)
        .map(TopicPartition::to_string)
        .collect();
    match partitions.len().saturating_sub(SHOWN) {
        0 => named.join(", "),
        more => format!("{} and {} more", named.join(", "), grouped(more)),
    }
}

impl fmt::Display for Refusal {
    #[expect(
        clippy::too_many_lines,
        reason = "one line a refusal, all in one place"
    )]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidRequest { field, problem } => write!(f, "{field}: {problem}"),
            Self::NotConfigured { asked, near } => {
                write!(f, "{asked} is not in the configuration")?;
                if let Some(near) = near {
                    write!(f, ", which has {near:?}")?;
                }
                f.write_str("; name a configured cluster and group, or add it there")
            }
            Self::NoCheckpointBefore {
                before,
                oldest,
                disowned,
            } => {
                write!(f, "no usable checkpoint before {}", time(*before))?;
                if *disowned > 0 {
                    write!(
                        f,
                        " ({} {} passed over: a later rewind disowned {})",
                        grouped(*disowned),
                        verb(*disowned, "was", "were"),
                        verb(*disowned, "it", "them")
                    )?;
                }
                match oldest {
                    Some(oldest) => {
                        write!(f, "; the oldest is of {}: ask for a later time", time(*oldest))
                    }
                    None => f.write_str("; there is none at all: use to_datetime or to_offsets"),
                }
            }
            Self::CheckpointNotFound { id } => write!(
                f,
                "this group has no checkpoint {id} on this cluster; list its checkpoints and name one of them"
            ),
            Self::CheckpointDisowned { id, by, partitions } if partitions.is_empty() => write!(
                f,
                "checkpoint {id} lies in the time that plan {by} undid; name an earlier checkpoint"
            ),
            Self::CheckpointDisowned { id, by, partitions } => write!(
                f,
                "checkpoint {id} lies in the time that plan {by} undid for {}; leave these out by naming the topics and \
                 partitions to move, name an earlier checkpoint, or use rewind_before, which takes an older one for these alone",
                some_of(partitions)
            ),
            Self::PartitionsDisowned { before, partitions } => write!(
                f,
                "no usable checkpoint before {} holds {}: a later rewind undid what there is; leave these out by \
                 naming the topics and partitions to move, or use to_datetime or to_offsets for them",
                time(*before),
                some_of(partitions)
            ),
            Self::NothingToUndo { plan, why } => {
                write!(
                    f,
                    "plan {plan} cannot be undone: {why}; name another target"
                )
            }
            Self::NothingToFinish { plan, why } => {
                write!(
                    f,
                    "plan {plan} cannot be finished: {why}; name another target"
                )
            }
            Self::ClusterMismatch { required, seen } => write!(
                f,
                "the brokers belong to cluster {seen}, required is {required}; check the bootstrap servers"
            ),
            Self::GroupNotFound { group, near } => {
                write!(
                    f,
                    "group {group} does not exist as a consumer group, and altering it would create it; check the name"
                )?;
                if let Some(near) = near {
                    write!(f, " (the configuration has {near:?} too)")?;
                }
                f.write_str(", or, if its offsets expired, set restore_missing and name a checkpoint")
            }
            Self::NoCommittedOffsets { group } => write!(
                f,
                "group {group} has no committed offsets; check the name, \
                 or, if they expired, set restore_missing and name a checkpoint"
            ),
            Self::GroupActive { state, members: m } => write!(
                f,
                "the group is {state} with {}, and Kafka moves no live group's offsets; stop {}",
                count(m.len(), "active member"),
                if m.is_empty() {
                    "its consumers".to_owned()
                } else {
                    members(m)
                }
            ),
            Self::GroupStateUnproven { seen } => write!(
                f,
                "it is not proven that the group is inactive (seen: {seen}, required: Empty without members); \
                 check what kind of group it is"
            ),
            Self::StatefulGroup { kind } => write!(
                f,
                "this is a {kind} group, whose state is not only in its offsets; \
                 use its own tools, or set allow_stateful if you know what its offsets alone do"
            ),
            Self::TopicGone { topic } => write!(
                f,
                "topic {topic} does not exist any more; leave it out by naming the topics to move"
            ),
            Self::TopicRecreated { topic, then, now } => write!(
                f,
                "topic {topic} was deleted and created again (its id then: {then}; now: {now}): \
                 its offsets are of another log; leave it out, or use to_earliest for it"
            ),
            Self::LogTruncated {
                partition,
                high_before,
                high_after,
            } => write!(
                f,
                "the log of {partition} was truncated since (it reached {high_before}, later only {high_after}): \
                 the same offset may be another record; use to_datetime or to_offsets"
            ),
            Self::OffsetBelowLogStart {
                partition,
                requested: ..0,
                log_start: 0,
            } => write!(
                f,
                "{partition}: an offset below 0 does not exist; set allow_clamp to start at 0"
            ),
            Self::OffsetBelowLogStart {
                partition,
                requested,
                log_start,
            } => write!(
                f,
                "{partition}: offset {requested} was deleted by retention, the log starts at {log_start}; \
                 set allow_clamp to start there and lose {}",
                count(distance((*requested).max(0), *log_start), "offset")
            ),
            Self::OffsetAboveHighWatermark {
                partition,
                requested,
                high,
            } => write!(
                f,
                "{partition}: offset {requested} does not exist, the log ends at {high}; ask for at most {high}"
            ),
            Self::ForwardMove {
                partition,
                current,
                target,
            } => write!(
                f,
                "{partition}: the target {target} is ahead of the current offset {current}, \
                 so up to {} would be skipped; set allow_forward if that is wanted",
                count(target.abs_diff(*current), "record")
            ),
            Self::TopicUnknown { topic } => write!(
                f,
                "topic {topic} is unknown to the group; name topics that it has committed"
            ),
            Self::PartitionUnknown { partition } => write!(
                f,
                "the group has no commit for {partition}; name partitions that it has committed, \
                 or, if its commit expired, name a checkpoint and set restore_missing"
            ),
            Self::UnstableOffsets { partition } => write!(
                f,
                "{partition} has pending transactional commits; wait until the transaction ends, then plan again"
            ),
            Self::EvidenceIncomplete { at, fault } => {
                if at.is_empty() {
                    write!(
                        f,
                        "the group could not be read: {fault}; mend that, then plan again"
                    )
                } else {
                    write!(
                        f,
                        "{at} could not be read: {fault}; mend that, then plan again"
                    )
                }
            }
            Self::NothingSelected { group } => write!(
                f,
                "the named topics and partitions are none of group {group}'s; name some that it has committed"
            ),
            Self::RecoveryLive { plan, execution } => write!(
                f,
                "another recovery of this group is open (plan {plan}, execution {execution}); \
                 decide or stop that one first"
            ),
            Self::NotAuthorisedToAlter { group, missing } if missing.is_empty() => write!(
                f,
                "the principal may not commit offsets for group {group}; grant it READ on the group and its topics"
            ),
            Self::NotAuthorisedToAlter { missing, .. } => write!(
                f,
                "the applying principal lacks {}; grant it that, then plan again",
                listed(missing)
            ),
            Self::NotWarranted { partition, verdict } => write!(
                f,
                "{partition} is {verdict}, for which this is no remedy; {}",
                verdict.next_step()
            ),
            Self::PoisonNotAtCommitted {
                partition,
                first,
                poison,
            } => write!(
                f,
                "record {poison} of {partition} fails, but {first} is the next one, and a commit after {poison} would lose \
                 what lies between unprocessed; let the consumers take one record per poll (max.poll.records=1) until the \
                 commit reaches {poison}, or ask for the whole range with through={poison}"
            ),
            Self::RecordNotSingledOut {
                partition,
                first,
                last,
                records,
            } => write!(
                f,
                "what stops the consumers of {partition} is one of up to {}, {first} to {last}, and nothing \
                 tells which; set a validator, set max_poll_records = 1 if they commit record by record, or ask for the \
                 record that it is",
                count(*records, "record")
            ),
            Self::IsolationUnknown {
                partition,
                committed,
                uncommitted,
            } => {
                let first = |offset: &Option<i64>| offset.map_or("none".to_owned(), |o| o.to_string());
                write!(
                    f,
                    "aborted records lie at the commit of {partition}: the next record is {} for read_committed and {} for \
                     read_uncommitted consumers; set the group's isolation in the configuration",
                    first(committed),
                    first(uncommitted)
                )
            }
            Self::RecordUnreadable { partition, why } => write!(
                f,
                "the record of {partition} that waits cannot be kept, so it is not passed over: {why}"
            ),
            Self::RecordFromQuarantine { partition, offset } => write!(
                f,
                "record {offset} of {partition} is a copy from quarantine and would go round; fix what sends it back, \
                 or ask for its skip to keep it once more"
            ),
            Self::TooManyRecords {
                partition,
                records,
                limit,
            } => {
                write!(f, "at least {}", count(*records, "record"))?;
                if let Some(partition) = partition {
                    write!(f, " of {partition}")?;
                }
                write!(
                    f,
                    " would be passed over, and one plan may pass over {}; fix the consumer, \
                     or raise max_records_per_plan",
                    grouped(*limit)
                )
            }
            Self::PlanFull { partition, limit } => write!(
                f,
                "{partition} waits for the next plan: this one has as many records as one may \
                 (max_records_per_plan = {limit}, 32 MiB, and the time of one run)"
            ),
            Self::RejectedBefore {
                partition,
                plan,
                rejection,
            } => {
                let Rejection {
                    by,
                    reason,
                    at,
                    until,
                } = &**rejection;
                write!(
                    f,
                    "a person said no to this: {by} rejected plan {plan} for {partition} on {}",
                    time(*at)
                )?;
                if !reason.is_empty() {
                    write!(f, " ({reason})")?;
                }
                write!(
                    f,
                    "; it is proposed again after {}, or when another record or other evidence is there; \
                     ask for it to have it planned now",
                    time(*until)
                )
            }
            Self::UnansweredBefore {
                partition,
                plan,
                at,
                until,
                missing,
            } if !missing.is_empty() => write!(
                f,
                "nobody was asked about plan {plan} for {partition} at {}, since the applying principal lacks {}; grant it \
                 that; it is proposed again after {}; ask for it to have it planned now",
                time(*at),
                listed(missing),
                time(*until)
            ),
            Self::UnansweredBefore {
                partition,
                plan,
                at,
                until,
                ..
            } => write!(
                f,
                "nobody decided on plan {plan} for {partition} by {}; it is proposed again after {}; \
                 ask for it to have it planned now",
                time(*at),
                time(*until)
            ),
            Self::TooManySkips {
                partition,
                skips,
                limit,
            } => write!(
                f,
                "{partition} had {} in 24 hours, and {} {} allowed; fix its producer or its consumer, \
                 or raise max_skips_per_day",
                count(*skips, "skip"),
                grouped(*limit),
                verb(*limit, "is", "are")
            ),
            Self::QuarantineUnusable { topic, why, .. } if topic.is_empty() => {
                write!(f, "there is no quarantine topic: {why}")
            }
            Self::QuarantineUnusable {
                topic,
                partition: None,
                why,
            } => write!(f, "the quarantine topic {topic} cannot keep the record: {why}"),
            Self::QuarantineUnusable {
                topic,
                partition: Some(partition),
                why,
            } => write!(
                f,
                "the quarantine topic {topic} cannot keep the record of {partition}: {why}"
            ),
            Self::QuarantineUnconfirmed {
                partition,
                offset,
                why,
            } => write!(
                f,
                "record {offset} of {partition} is not known to be kept: {why}; it is not passed over"
            ),
            Self::PlanNotFound { plan } => write!(f, "there is no plan {plan}; plan again"),
            Self::PlanUsed { plan } => {
                write!(
                    f,
                    "plan {plan} was executed before, and a plan is good once; plan again"
                )
            }
            Self::PlanStale { changed } => {
                write!(f, "the plan does not fit any more: {changed}; plan again")
            }
            Self::PlanDigestMismatch { approved, stored } => write!(
                f,
                "the stored plan has digest {stored}, approved was {approved}; nothing was moved, plan again"
            ),
            Self::NotApproved { found } => {
                write!(
                    f,
                    "the plan is not approved for this execution ({found}); plan again"
                )
            }
            Self::Rejected { by, reason } => {
                write!(f, "rejected by {by}")?;
                if reason.is_empty() {
                    Ok(())
                } else {
                    write!(f, ": {reason}")
                }
            }
            Self::RequesterUnverified => f.write_str(
                "the group's policy is four_eyes, and the requester's identity is not verified; ask by POST /v1/rewinds \
                 with a token of the issuer",
            ),
            Self::FourEyesMissing { found } => write!(
                f,
                "the group's policy is four_eyes, and {found}; let another person sign in and decide"
            ),
            Self::ApprovalExpired { approve_by } => write!(
                f,
                "nobody decided before {}; ask again if it is still wanted",
                time(*approve_by)
            ),
            Self::ApplyTimeOver { apply_by } => {
                write!(f, "approved, but not applied before {}; plan again", time(*apply_by))
            }
            Self::NotEmptyInTime { state, members: m } => write!(
                f,
                "the group did not come to rest in time (seen: {state}); stop {} and plan again",
                if m.is_empty() {
                    "its consumers".to_owned()
                } else {
                    members(m)
                }
            ),
            Self::ApplySwitchedOff => f.write_str(
                "applying is switched off (item CONTROL/APPLY of the table, or the parameter ApplyEnabled); switch it on and plan again",
            ),
            Self::ClaimLost { holder } => write!(
                f,
                "this execution does not hold the group any more (holder: {holder}); plan again"
            ),
            Self::GroupBecameActive { partition, error } => write!(
                f,
                "the broker rejected {partition} ({error}): the group has active members; \
                 stop its consumers and plan again"
            ),
            Self::BrokerRejected { partition, error } => {
                write!(
                    f,
                    "the broker rejected {partition} ({error}); mend that and plan again"
                )
            }
            Self::Fenced => {
                f.write_str("verification has begun, so nothing more is sent; read its result")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_reads_as_code_with_facts() {
        let refusal = Refusal::OffsetBelowLogStart {
            partition: TopicPartition::new("t", 0),
            requested: 3,
            log_start: 5,
        };
        assert_eq!(refusal.code(), "OFFSET_BELOW_LOG_START");
        assert_eq!(
            serde_json::to_value(&refusal).unwrap(),
            serde_json::json!({
                "code": "OFFSET_BELOW_LOG_START",
                "partition": {"topic": "t", "partition": 0},
                "requested": 3,
                "log_start": 5,
            })
        );
    }

    #[test]
    fn a_refusal_of_before_rights_were_named_can_be_read() {
        let stored = serde_json::json!({"code": "NOT_AUTHORISED_TO_ALTER", "group": "g"});
        let refusal: Refusal = serde_json::from_value(stored.clone()).unwrap();
        assert!(refusal.to_string().contains("group g"), "{refusal}");
        assert_eq!(serde_json::to_value(refusal).unwrap(), stored);
    }

    #[test]
    fn a_live_group_is_refused_by_the_names_of_its_members() {
        let member = |n: usize| MemberSeen {
            client_id: format!("c{n}"),
            member_id: format!("c{n}-x"),
            host: "/10.0.0.1".into(),
        };
        let text = Refusal::GroupActive {
            state: "Stable".into(),
            members: (0..7).map(member).collect(),
        }
        .to_string();
        assert!(
            text.contains("stop c0 (/10.0.0.1, member id c0-x)"),
            "{text}"
        );
        assert!(text.ends_with("and 2 more"), "{text}");
    }
}
