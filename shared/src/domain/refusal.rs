//! A refusal is a correct answer: what was seen, what was required, what to do next.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::checkpoint::CheckpointId;
use super::guard::verdict::Verdict;
use super::offset::{Fault, TopicPartition, distance};
use super::plan::PlanId;

/// A member of a group, as much as a person needs to find and stop it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberSeen {
    /// `client.id`.
    pub client_id: String,
    /// The member id.
    pub member_id: String,
    /// Where it connects from.
    pub host: String,
}

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
                "{partition} was at {} in the plan and is at {} (it may move forward by at most {limit})",
                offset(planned),
                offset(seen)
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

/// Why something was not done. The tag `code` is a public contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "SCREAMING_SNAKE_CASE")]
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
    /// The checkpoint lies in a time that a verified rewind undid.
    CheckpointDisowned {
        /// The checkpoint.
        id: CheckpointId,
        /// The plan that undid it.
        by: PlanId,
    },
    /// Nothing that can be undone under that id.
    NothingToUndo {
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
        execution: String,
    },
    /// The principal that applies may not commit for this group.
    NotAuthorisedToAlter {
        /// The group.
        group: String,
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
    /// More records would be passed over than one plan may.
    TooManyRecords {
        /// How many.
        records: u64,
        /// How many one plan may.
        limit: u32,
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
    /// The quarantine topic cannot keep the record.
    QuarantineUnusable {
        /// The topic; empty where none is configured.
        topic: String,
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
    /// The stable code, as it stands in JSON.
    #[must_use]
    pub fn code(&self) -> String {
        // The tag is written by the same derive that writes the JSON, so the two cannot differ.
        match serde_json::to_value(self) {
            Ok(value) => value["code"].as_str().unwrap_or_default().to_owned(),
            Err(_) => String::new(),
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
        text.push_str(&format!(" and {} more", members.len() - SHOWN));
    }
    text
}

impl fmt::Display for Refusal {
    #[expect(
        clippy::too_many_lines,
        reason = "one line a refusal, all in one place"
    )]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidRequest { field, problem } => write!(f, "{field}: {problem}"),
            Self::NotConfigured { asked } => write!(
                f,
                "{asked} is not in the configuration; name a configured cluster and group, or add it there"
            ),
            Self::NoCheckpointBefore {
                before,
                oldest,
                disowned,
            } => {
                write!(f, "no usable checkpoint before {before}")?;
                if *disowned > 0 {
                    write!(
                        f,
                        " ({disowned} were passed over: a later rewind disowned them)"
                    )?;
                }
                match oldest {
                    Some(oldest) => write!(f, "; the oldest is of {oldest}: ask for a later time"),
                    None => f.write_str("; there is none at all: use to_datetime or to_offsets"),
                }
            }
            Self::CheckpointNotFound { id } => write!(
                f,
                "this group has no checkpoint {id} on this cluster; list its checkpoints and name one of them"
            ),
            Self::CheckpointDisowned { id, by } => write!(
                f,
                "checkpoint {id} lies in the time that plan {by} undid; name an earlier checkpoint"
            ),
            Self::NothingToUndo { plan, why } => {
                write!(
                    f,
                    "plan {plan} cannot be undone: {why}; name another target"
                )
            }
            Self::ClusterMismatch { required, seen } => write!(
                f,
                "the brokers belong to cluster {seen}, required is {required}; check the bootstrap servers"
            ),
            Self::GroupNotFound { group } => write!(
                f,
                "group {group} does not exist as a consumer group, and altering it would create it; check the name, \
                 or, if its offsets expired, set restore_missing and name a checkpoint"
            ),
            Self::NoCommittedOffsets { group } => write!(
                f,
                "group {group} has no committed offsets; check the name, \
                 or, if they expired, set restore_missing and name a checkpoint"
            ),
            Self::GroupActive { state, members: m } => write!(
                f,
                "the group is {state} with {} active {}, and Kafka moves no live group's offsets; stop {}",
                m.len(),
                if m.len() == 1 { "member" } else { "members" },
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
                 set allow_clamp to start there and lose {} offsets",
                distance((*requested).max(0), *log_start)
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
                 so up to {} records would be skipped; set allow_forward if that is wanted",
                target.abs_diff(*current)
            ),
            Self::TopicUnknown { topic } => write!(
                f,
                "topic {topic} is unknown to the group; name topics that it has committed"
            ),
            Self::PartitionUnknown { partition } => write!(
                f,
                "the group has no commit for {partition}; name partitions that it has committed, \
                 or set restore_missing if its commit expired"
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
            Self::NotAuthorisedToAlter { group } => write!(
                f,
                "the principal may not commit offsets for group {group}; grant it READ on the group and its topics"
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
                 what lies between unprocessed; let the consumers take one record a poll (max.poll.records=1) until the \
                 commit reaches {poison}, or ask for the whole range with through={poison}"
            ),
            Self::RecordNotSingledOut {
                partition,
                first,
                last,
                records,
            } => write!(
                f,
                "what stops the consumers of {partition} is one of up to {records} records, {first} to {last}, and nothing \
                 tells which; set a validator, set max_poll_records = 1 if they commit record by record, or ask for the \
                 record that it is"
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
                "record {offset} of {partition} was in quarantine before and would go round; deal with it by hand"
            ),
            Self::TooManyRecords { records, limit } => write!(
                f,
                "{records} records would be passed over, and one plan may pass over {limit}; fix the consumer, \
                 or raise max_records_per_plan"
            ),
            Self::TooManySkips {
                partition,
                skips,
                limit,
            } => write!(
                f,
                "{partition} had {skips} skips in 24 hours, and {limit} are allowed; fix its producer or its consumer, \
                 or raise max_skips_per_day"
            ),
            Self::QuarantineUnusable { topic, why } if topic.is_empty() => {
                write!(f, "there is no quarantine topic: {why}")
            }
            Self::QuarantineUnusable { topic, why } => {
                write!(f, "the quarantine topic {topic} cannot keep the record: {why}")
            }
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
                "nobody decided before {approve_by}; ask again if it is still wanted"
            ),
            Self::ApplyTimeOver { apply_by } => {
                write!(f, "approved, but not applied before {apply_by}; plan again")
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
