//! From a request and a reading to a plan, or to every reason why there is none.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::checkpoint::{Anomaly, Checkpoint, CheckpointHeader, truncations};
use super::group::{Activity, GroupDescription, GroupObservation, GroupState, Member};
use super::offset::{ClusterId, CommittedOffset, Fault, TopicPartition, Watermarks, distance};
use super::plan::{Disowns, LeftAlone, PartitionMove, Plan, PlanId, Source, Warning};
use super::policy::GroupPolicy;
use super::refusal::{MemberSeen, Refusal};
use super::request::{RewindRequest, Selection};

/// What the target of a request resolved to, with the evidence that judges it.
#[derive(Debug)]
pub enum Targets<'a> {
    /// A checkpoint.
    Checkpoint {
        /// The checkpoint.
        checkpoint: &'a Checkpoint,
        /// The newest checkpoint, if that is a later one: the log is compared with it too.
        newest: Option<&'a Checkpoint>,
        /// The headers of all checkpoints after the source.
        later: &'a [CheckpointHeader],
        /// Disowned checkpoints that were passed over to reach it, and by which plans.
        passed_over: (usize, BTreeSet<PlanId>),
    },
    /// The first offset at or after a time, a partition; `None` is "no record that late".
    Timestamp {
        /// The time.
        at: Timestamp,
        /// What the brokers answered.
        offsets: &'a BTreeMap<TopicPartition, Result<Option<i64>, Fault>>,
    },
    /// Offsets named in the request.
    Offsets(&'a BTreeMap<TopicPartition, i64>),
    /// A shift.
    Shift(i64),
    /// The log start.
    Earliest,
    /// There is none, for this reason; the rest is judged all the same, so that all reasons are told at once.
    Missing(&'a Refusal),
    /// The state before an earlier plan.
    Undo {
        /// That plan, which was verified.
        plan: &'a Plan,
        /// What was committed right before it was applied.
        pre_image: &'a BTreeMap<TopicPartition, Option<CommittedOffset>>,
    },
}

/// Everything that a plan is made of.
#[derive(Debug)]
pub struct Planning<'a> {
    /// The id that the plan will have.
    pub id: PlanId,
    /// The instant of planning.
    pub now: Timestamp,
    /// What is asked for.
    pub request: &'a RewindRequest,
    /// The group's policy.
    pub policy: &'a GroupPolicy,
    /// The hash of the configuration that applies to the group.
    pub config_hash: &'a str,
    /// The cluster id that the configuration pins.
    pub pinned_cluster: Option<&'a ClusterId>,
    /// The group now, read with `require_stable`.
    pub seen: &'a GroupObservation,
    /// What the target resolved to.
    pub targets: Targets<'a>,
}

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a refusal that nobody reads is no answer"]
pub enum Planned {
    /// A plan.
    Ready(Box<Plan>),
    /// Every selected partition is where it should be, or is left alone for the reason given.
    NothingToDo(Vec<(TopicPartition, LeftAlone)>),
    /// All reasons at once, in a stable order: the request, the group, its topics, its partitions.
    Refused(Vec<Refusal>),
}

/// What one partition's target is.
enum Wanted {
    /// This commit. The flag says that offset, epoch and metadata were committed together once.
    Commit(CommittedOffset, Together),
    /// No commit at all.
    Nothing,
    /// It is left alone.
    Leave(LeftAlone),
    /// It cannot be said.
    Refuse(Refusal),
}

#[derive(PartialEq, Eq)]
enum Together {
    Yes,
    No,
}

/// Makes the plan.
pub fn plan(planning: &Planning<'_>) -> Planned {
    let mut refusals = Vec::new();
    if let Targets::Missing(refusal) = planning.targets {
        refusals.push(refusal.clone());
    }
    refusals.extend(cluster_and_group(planning));
    if matches!(planning.targets, Targets::Missing(_)) {
        return Planned::Refused(refusals);
    }
    refusals.extend(topics(planning));

    let mut moves = Vec::new();
    let mut left_alone = Vec::new();
    let mut dropped_metadata = 0;
    refusals.extend(named_but_unknown(planning));
    for (partition, reading) in &planning.seen.partitions {
        if !planning.request.selection.contains(partition) {
            left_alone.push((partition.clone(), LeftAlone::NotSelected));
            continue;
        }
        let log = match &reading.log {
            Ok(log) => *log,
            // The topic's own refusal says it already.
            Err(Fault::TopicGone) => continue,
            Err(fault) => {
                refusals.push(evidence(partition, fault));
                continue;
            }
        };
        let from = match &reading.committed {
            Ok(from) => from.as_ref(),
            Err(fault) => {
                refusals.push(evidence(partition, fault));
                continue;
            }
        };
        match wanted(planning, partition, from, &log) {
            Wanted::Leave(why) => left_alone.push((partition.clone(), why)),
            Wanted::Refuse(refusal) => refusals.push(refusal),
            Wanted::Nothing if from.is_none() => {
                left_alone.push((partition.clone(), LeftAlone::AlreadyThere));
            }
            Wanted::Nothing => moves.push(PartitionMove {
                partition: partition.clone(),
                topic_id: topic_id(planning, partition),
                from: from.cloned(),
                to: None,
                log,
                lost: 0,
            }),
            Wanted::Commit(target, together) => {
                if from.is_some_and(|from| from.offset == target.offset) {
                    // The position is what counts: an equal offset with another epoch or metadata is not moved.
                    left_alone.push((partition.clone(), LeftAlone::AlreadyThere));
                    continue;
                }
                match bounded(planning, partition, from, &log, target.offset) {
                    Err(refusal) => refusals.push(refusal),
                    Ok(offset) => {
                        let lost = distance(target.offset, offset);
                        let to = commit_at(offset, &target, &log, &together);
                        if from.is_some_and(|from| !from.metadata.is_empty())
                            && to.metadata.is_empty()
                        {
                            dropped_metadata += 1;
                        }
                        moves.push(PartitionMove {
                            partition: partition.clone(),
                            topic_id: topic_id(planning, partition),
                            from: from.cloned(),
                            to: Some(to),
                            log,
                            lost,
                        });
                    }
                }
            }
        }
    }
    refusals.extend(log_truncations(planning, &moves));
    if refusals.is_empty()
        && moves.is_empty()
        && left_alone
            .iter()
            .all(|(_, why)| *why == LeftAlone::NotSelected)
    {
        refusals.push(Refusal::NothingSelected {
            group: planning.seen.group.0.clone(),
        });
    }
    if !refusals.is_empty() {
        return Planned::Refused(refusals);
    }
    if moves.is_empty() {
        return Planned::NothingToDo(left_alone);
    }
    let warnings = warnings(planning, &moves, dropped_metadata);
    Planned::Ready(Box::new(assemble(planning, moves, left_alone, warnings)))
}

/// What must hold of the cluster and of the group as a whole.
fn cluster_and_group(planning: &Planning<'_>) -> Vec<Refusal> {
    let seen = planning.seen;
    let group = || seen.group.0.clone();
    let mut refusals = Vec::new();

    let checkpoint_cluster = match &planning.targets {
        Targets::Checkpoint { checkpoint, .. } => Some(&checkpoint.cluster_id),
        Targets::Undo { plan, .. } => Some(&plan.cluster_id),
        _ => None,
    };
    for required in [planning.pinned_cluster, checkpoint_cluster]
        .into_iter()
        .flatten()
    {
        if *required != seen.cluster_id {
            refusals.push(Refusal::ClusterMismatch {
                required: required.0.clone(),
                seen: seen.cluster_id.0.clone(),
            });
        }
    }

    let description = match &seen.description {
        Ok(description) => description,
        Err(fault) => {
            refusals.push(Refusal::EvidenceIncomplete {
                at: String::new(),
                fault: fault.clone(),
            });
            return refusals;
        }
    };
    let restorable = planning.request.allow.restore_missing
        && matches!(
            planning.targets,
            Targets::Checkpoint { .. } | Targets::Undo { .. }
        );
    match seen.activity() {
        Activity::Inactive if !seen.has_commits() && !restorable => {
            refusals.push(Refusal::NoCommittedOffsets { group: group() });
        }
        Activity::Inactive => {}
        Activity::Active { state, members } => {
            if planning.policy.wait_for_empty_seconds.is_none() {
                refusals.push(Refusal::GroupActive {
                    state: state.to_string(),
                    members: members_seen(&members),
                });
            }
        }
        // Dead, no members, no offsets: to a consumer's eyes, a group that does not exist.
        Activity::Unproven { .. }
            if description.state == GroupState::Dead && !seen.has_commits() =>
        {
            if !restorable {
                refusals.push(Refusal::GroupNotFound { group: group() });
            }
        }
        Activity::Unproven { seen } => refusals.push(Refusal::GroupStateUnproven { seen }),
    }
    if description.may_alter == Some(false) {
        refusals.push(Refusal::NotAuthorisedToAlter { group: group() });
    }
    if let Some(kind) = stateful(seen, description)
        && !planning.request.allow.stateful
    {
        refusals.push(Refusal::StatefulGroup {
            kind: kind.to_owned(),
        });
    }
    refusals
}

/// Topics that are gone or are not what the source knew.
fn topics(planning: &Planning<'_>) -> Vec<Refusal> {
    let selected: BTreeSet<&str> = planning
        .seen
        .partitions
        .keys()
        .filter(|partition| planning.request.selection.contains(partition))
        .map(|partition| partition.topic.as_str())
        .collect();
    let mut refusals = Vec::new();
    for topic in selected {
        let now = match planning.seen.topics.get(topic) {
            Some(Ok(now)) => now,
            Some(Err(Fault::TopicGone)) => {
                refusals.push(Refusal::TopicGone {
                    topic: topic.to_owned(),
                });
                continue;
            }
            Some(Err(fault)) => {
                refusals.push(Refusal::EvidenceIncomplete {
                    at: topic.to_owned(),
                    fault: fault.clone(),
                });
                continue;
            }
            None => {
                refusals.push(Refusal::EvidenceIncomplete {
                    at: topic.to_owned(),
                    fault: Fault::Failed {
                        code: "MISSING_FROM_ANSWER".to_owned(),
                    },
                });
                continue;
            }
        };
        let then = match &planning.targets {
            Targets::Checkpoint { checkpoint, .. } => checkpoint.topic_id(topic),
            Targets::Undo { plan, .. } => plan
                .moves
                .iter()
                .find(|m| m.partition.topic == topic)
                .and_then(|m| m.topic_id),
            _ => None,
        };
        if let (Some(then), Some(now)) = (then, now.id)
            && then != now
        {
            refusals.push(Refusal::TopicRecreated {
                topic: topic.to_owned(),
                then: then.to_string(),
                now: now.to_string(),
            });
        }
    }
    refusals
}

/// Topics and partitions that the request names and that are not the group's.
fn named_but_unknown(planning: &Planning<'_>) -> Vec<Refusal> {
    let known = &planning.seen.partitions;
    let topic_known = |topic: &str| known.keys().any(|partition| partition.topic == topic);
    let mut refusals = Vec::new();
    let mut partitions = Vec::new();
    if let Selection::Only(topics) = &planning.request.selection {
        for (topic, named) in topics {
            if topic_known(topic) {
                let named = named.iter().flatten();
                partitions.extend(named.map(|p| TopicPartition::new(topic, *p)));
            } else {
                refusals.push(Refusal::TopicUnknown {
                    topic: topic.clone(),
                });
            }
        }
    }
    if let Targets::Offsets(offsets) = planning.targets {
        partitions.extend(offsets.keys().cloned());
    }
    let unknown = partitions.into_iter().filter(|p| !known.contains_key(p));
    refusals.extend(unknown.map(|partition| Refusal::PartitionUnknown { partition }));
    refusals
}

/// What one partition should become.
fn wanted(
    planning: &Planning<'_>,
    partition: &TopicPartition,
    from: Option<&CommittedOffset>,
    log: &Watermarks,
) -> Wanted {
    let bare = |offset| Wanted::Commit(CommittedOffset::bare(offset), Together::No);
    match &planning.targets {
        Targets::Checkpoint { checkpoint, .. } => match checkpoint.partitions.get(partition) {
            None => Wanted::Leave(LeftAlone::NotInSource),
            Some(then) => match &then.committed {
                None => Wanted::Leave(LeftAlone::NoCommitInSource),
                Some(_) if from.is_none() && !planning.request.allow.restore_missing => {
                    Wanted::Refuse(Refusal::PartitionUnknown {
                        partition: partition.clone(),
                    })
                }
                Some(committed) => Wanted::Commit(committed.clone(), Together::Yes),
            },
        },
        Targets::Timestamp { offsets, .. } => match offsets.get(partition) {
            _ if from.is_none() => Wanted::Leave(LeftAlone::NoCommit),
            Some(Ok(Some(offset))) => bare(*offset),
            // As Kafka's own tool does: no record that late means the end of the log.
            Some(Ok(None)) => bare(log.high),
            Some(Err(fault)) => Wanted::Refuse(evidence(partition, fault)),
            None => Wanted::Refuse(Refusal::PartitionUnknown {
                partition: partition.clone(),
            }),
        },
        Targets::Offsets(offsets) => match offsets.get(partition) {
            None => Wanted::Leave(LeftAlone::NotSelected),
            Some(_) if from.is_none() => Wanted::Refuse(Refusal::PartitionUnknown {
                partition: partition.clone(),
            }),
            Some(offset) => bare(*offset),
        },
        Targets::Shift(by) => match from {
            None => Wanted::Leave(LeftAlone::NoCommit),
            Some(from) => bare(from.offset.saturating_add(*by)),
        },
        Targets::Earliest => match from {
            None => Wanted::Leave(LeftAlone::NoCommit),
            Some(_) => bare(log.log_start),
        },
        Targets::Missing(refusal) => Wanted::Refuse((*refusal).clone()),
        Targets::Undo { plan, pre_image } => {
            let Some(before) = pre_image.get(partition) else {
                return Wanted::Leave(LeftAlone::NotInSource);
            };
            let wrote = plan
                .moves
                .iter()
                .find(|m| m.partition == *partition)
                .and_then(|m| m.to.as_ref());
            if from != wrote {
                let at = |c: Option<&CommittedOffset>| {
                    c.map_or("no commit".to_owned(), |c| c.offset.to_string())
                };
                return Wanted::Refuse(Refusal::NothingToUndo {
                    plan: plan.id.clone(),
                    why: format!(
                        "it left {partition} at {}, which is at {} now",
                        at(wrote),
                        at(from)
                    ),
                });
            }
            match before {
                None => Wanted::Nothing,
                Some(committed) => Wanted::Commit(committed.clone(), Together::Yes),
            }
        }
    }
}

/// The target within the log, clamped only where that is allowed.
fn bounded(
    planning: &Planning<'_>,
    partition: &TopicPartition,
    from: Option<&CommittedOffset>,
    log: &Watermarks,
    requested: i64,
) -> Result<i64, Refusal> {
    let allow = planning.request.allow;
    if requested > log.high {
        return Err(Refusal::OffsetAboveHighWatermark {
            partition: partition.clone(),
            requested,
            high: log.high,
        });
    }
    if requested < log.log_start && !allow.clamp {
        return Err(Refusal::OffsetBelowLogStart {
            partition: partition.clone(),
            requested,
            log_start: log.log_start,
        });
    }
    let target = requested.max(log.log_start);
    let undo = matches!(planning.targets, Targets::Undo { .. });
    if let Some(from) = from
        && target > from.offset
        && !allow.forward
        && !undo
    {
        return Err(Refusal::ForwardMove {
            partition: partition.clone(),
            current: from.offset,
            target,
        });
    }
    Ok(target)
}

/// The commit to write. Metadata and epoch only go with the offset that they were committed with, and an epoch that
/// the log has not reached (an unclean election, another cluster) would make consumers see a truncation.
fn commit_at(
    offset: i64,
    wanted: &CommittedOffset,
    log: &Watermarks,
    together: &Together,
) -> CommittedOffset {
    if *together == Together::No || offset != wanted.offset {
        return CommittedOffset::bare(offset);
    }
    CommittedOffset {
        offset,
        leader_epoch: wanted
            .leader_epoch
            .filter(|epoch| log.leader_epoch.is_none_or(|current| *epoch <= current)),
        metadata: wanted.metadata.clone(),
    }
}

/// Logs among the moved ones that lost records since the checkpoint: compared with now, and as every later
/// checkpoint noted it.
fn log_truncations(planning: &Planning<'_>, moves: &[PartitionMove]) -> Vec<Refusal> {
    let Targets::Checkpoint {
        checkpoint,
        newest,
        later,
        ..
    } = &planning.targets
    else {
        return Vec::new();
    };
    let id_now = |topic: &str| planning.seen.topics.get(topic)?.as_ref().ok()?.id;
    let high_now = |partition: &TopicPartition| {
        Some(
            planning
                .seen
                .partitions
                .get(partition)?
                .log
                .as_ref()
                .ok()?
                .high,
        )
    };
    let mut found: Vec<Anomaly> = truncations(checkpoint, id_now, high_now);
    if let Some(newest) = newest {
        found.extend(truncations(newest, id_now, high_now));
    }
    found.extend(later.iter().flat_map(|header| header.anomalies.clone()));

    let moved: BTreeSet<_> = moves.iter().map(|m| &m.partition).collect();
    let mut seen = BTreeSet::new();
    found
        .into_iter()
        .filter_map(|anomaly| match anomaly {
            Anomaly::LogTruncated {
                partition,
                high_before,
                high_after,
            } if moved.contains(&partition) && seen.insert(partition.clone()) => {
                Some(Refusal::LogTruncated {
                    partition,
                    high_before,
                    high_after,
                })
            }
            Anomaly::LogTruncated { .. } | Anomaly::OffsetWentBackwards { .. } => None,
        })
        .collect()
}

fn warnings(
    planning: &Planning<'_>,
    moves: &[PartitionMove],
    dropped_metadata: usize,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let seen = planning.seen;
    let Ok(description) = &seen.description else {
        return warnings;
    };
    if description.state == GroupState::Dead {
        warnings.push(Warning::CreatesGroup);
    }
    let lost = moves.iter().map(|m| m.lost).sum();
    if lost > 0 {
        warnings.push(Warning::Lost { offsets: lost });
    }
    let skips = moves.iter().map(PartitionMove::skipped).sum();
    if skips > 0 {
        warnings.push(Warning::Skips { offsets: skips });
    }
    if let Activity::Active { members, .. } = seen.activity() {
        warnings.push(Warning::MustBeStopped {
            members: members_seen(&members),
            drift_limit: planning.policy.drift_limit,
        });
    }
    if let Targets::Checkpoint {
        later, passed_over, ..
    } = &planning.targets
    {
        let (count, by) = passed_over.clone();
        if count > 0 {
            warnings.push(Warning::DisownedPassedOver { count, by });
        }
        let moved: BTreeSet<_> = moves.iter().map(|m| &m.partition).collect();
        let back: BTreeSet<_> = later
            .iter()
            .flat_map(|header| &header.anomalies)
            .filter_map(|anomaly| match anomaly {
                Anomaly::OffsetWentBackwards { partition, .. } => Some(partition),
                Anomaly::LogTruncated { .. } => None,
            })
            .filter(|partition| moved.contains(partition))
            .collect();
        warnings.extend(
            back.into_iter()
                .map(|partition| Warning::WentBackwardsSince {
                    partition: partition.clone(),
                }),
        );
    }
    if dropped_metadata > 0 {
        warnings.push(Warning::MetadataDropped {
            partitions: dropped_metadata,
        });
    }
    if let Some(kind) = stateful(seen, description) {
        warnings.push(Warning::Stateful {
            kind: kind.to_owned(),
        });
    }
    if description.is_simple && description.state != GroupState::Dead {
        warnings.push(Warning::AssignOnly);
    }
    let unidentified: BTreeSet<_> = moves
        .iter()
        .filter(|m| m.topic_id.is_none())
        .map(|m| m.partition.topic.clone())
        .collect();
    warnings.extend(
        unidentified
            .into_iter()
            .map(|topic| Warning::TopicIdUnknown { topic }),
    );
    if description.may_alter.is_none() {
        warnings.push(Warning::MayAlterUnknown);
    }
    warnings
}

fn assemble(
    planning: &Planning<'_>,
    moves: Vec<PartitionMove>,
    left_alone: Vec<(TopicPartition, LeftAlone)>,
    warnings: Vec<Warning>,
) -> Plan {
    let (request, policy) = (planning.request, planning.policy);
    let (state, group_type) = planning.seen.description.as_ref().map_or(
        (GroupState::Unknown, super::group::GroupType::Unknown),
        |description| (description.state, description.group_type),
    );
    let active = matches!(planning.seen.activity(), Activity::Active { .. });
    let (source, disowned_after) = match &planning.targets {
        Targets::Checkpoint { checkpoint, .. } => (
            Source::Checkpoint {
                id: checkpoint.id.clone(),
                ended_at: checkpoint.ended_at,
            },
            Some(checkpoint.ended_at),
        ),
        // Records written at or after that time are read again, so what was remembered after it is undone.
        Targets::Timestamp { at, .. } => (Source::Timestamp { at: *at }, Some(*at)),
        Targets::Offsets(_) => (Source::Offsets, None),
        Targets::Shift(by) => (Source::Shift { by: *by }, None),
        Targets::Earliest | Targets::Missing(_) => (Source::Earliest, None),
        Targets::Undo { plan, .. } => (
            Source::Undo {
                plan: plan.id.clone(),
            },
            None,
        ),
    };
    let skips = moves.iter().any(|m| m.skipped() > 0);
    Plan {
        id: planning.id.clone(),
        cluster: request.cluster.clone(),
        cluster_id: planning.seen.cluster_id.clone(),
        group: planning.seen.group.clone(),
        group_type,
        state,
        config_hash: planning.config_hash.to_owned(),
        created_at: planning.now,
        approve_by: planning.now + seconds(policy.approve_within_seconds),
        apply_within_seconds: policy.apply_within_seconds,
        waits_for_empty: active,
        drift_limit: if active { policy.drift_limit } else { 0 },
        source,
        moves,
        left_alone,
        warnings,
        // A plan that goes forward undoes nothing.
        disowns: disowned_after
            .filter(|_| !skips)
            .map(|after| Disowns { after }),
        requested_by: request.requested_by.clone(),
        reason: request.reason.clone(),
    }
}

/// A `u32` of seconds as a duration.
#[must_use]
pub fn seconds(seconds: u32) -> SignedDuration {
    SignedDuration::from_secs(i64::from(seconds))
}

fn topic_id(planning: &Planning<'_>, partition: &TopicPartition) -> Option<super::offset::TopicId> {
    planning
        .seen
        .topics
        .get(&partition.topic)?
        .as_ref()
        .ok()?
        .id
}

/// A partition that could not be read, as a refusal.
fn evidence(partition: &TopicPartition, fault: &Fault) -> Refusal {
    match fault {
        Fault::Unstable => Refusal::UnstableOffsets {
            partition: partition.clone(),
        },
        Fault::TopicGone | Fault::NotAuthorised | Fault::NoLeader | Fault::Failed { .. } => {
            Refusal::EvidenceIncomplete {
                at: partition.to_string(),
                fault: fault.clone(),
            }
        }
    }
}

/// Members as a refusal shows them.
#[must_use]
pub fn members_seen(members: &[Member]) -> Vec<MemberSeen> {
    members
        .iter()
        .map(|member| MemberSeen {
            client_id: member.client_id.clone(),
            member_id: member.member_id.clone(),
            host: member.host.clone(),
        })
        .collect()
}

/// `Kafka Streams` or `Kafka Connect`, where the group is one as far as can be seen.
fn stateful(seen: &GroupObservation, description: &GroupDescription) -> Option<&'static str> {
    // Connect names its sink groups so (KIP-610 and before); there is no other sign once the tasks are stopped.
    if seen.group.0.starts_with("connect-") {
        return Some("Kafka Connect");
    }
    let streams = description.assignor == "stream"
        || seen.partitions.values().any(|reading| {
            reading
                .committed
                .as_ref()
                .ok()
                .and_then(Option::as_ref)
                .is_some_and(|committed| is_streams_metadata(&committed.metadata))
        });
    streams.then_some("Kafka Streams")
}

/// Streams commits base64 of a version byte (1 or 2), the partition time as eight bytes and, from version 2 on, more.
fn is_streams_metadata(metadata: &[u8]) -> bool {
    data_encoding::BASE64
        .decode(metadata)
        .is_ok_and(|bytes| match bytes.split_first() {
            Some((1, rest)) => rest.len() == 8,
            Some((2, rest)) => rest.len() >= 8,
            _ => false,
        })
}
