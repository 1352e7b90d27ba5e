//! From a request and a reading to a plan, or to every reason why there is none.

mod activity;
mod executed;
mod targets;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::checkpoint::Anomaly;
use super::group::MemberSeen;
use super::group::{Activity, GroupDescription, GroupObservation, GroupState, Member};
use super::guard::quarantine::{Kept, SkippedRecord};
use super::guard::sample::Sample;
use super::ids::PlanId;
use super::offset::{ClusterId, CommittedOffset, Fault, TopicId, TopicPartition, distance};
use super::plan::{CSV_VERSION, Disowns, LeftAlone, PartitionMove, Plan, Source, Warning, total};
use super::policy::GroupPolicy;
use super::refusal::Refusal;
use super::request::{RewindRequest, Selection};
pub use targets::Targets;
use targets::{
    Together, Wanted, bounded, commit_at, log_truncations, may_rise, source_log, source_time,
    source_topic_id, wanted,
};

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
    /// What the guard saw of the group in its latest runs, oldest first; none where it does not look.
    pub looks: &'a [Sample],
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

/// What becomes of one partition.
enum Becomes {
    Moved {
        m: PartitionMove,
        drops_metadata: bool,
    },
    LeftAlone(LeftAlone),
    Refused(Refusal),
}

/// Makes the plan.
pub fn plan(planning: &Planning<'_>) -> Planned {
    if let Targets::Missing(refusal) = planning.targets {
        let mut refusals = unknown_requester(planning);
        refusals.push(refusal.clone());
        refusals.extend(cluster_and_group(planning));
        return Planned::Refused(refusals);
    }
    let mut refusals = unknown_requester(planning);
    refusals.extend(cluster_and_group(planning));

    let mut moves = Vec::new();
    let mut left_alone = Vec::new();
    let mut asked = Vec::new();
    for partition in known(planning) {
        match not_asked(planning, partition) {
            Some(why) => left_alone.push((partition.clone(), why)),
            None => asked.push(partition),
        }
    }
    let judged = topics(planning, &asked);
    refusals.extend(judged.values().flatten().cloned());
    refusals.extend(named_but_unknown(planning));
    let mut dropped_metadata = 0;
    for partition in asked {
        // What is wrong with a topic says it of all its partitions.
        if judged
            .get(partition.topic.as_str())
            .is_some_and(Option::is_some)
        {
            continue;
        }
        match judge(planning, partition) {
            Becomes::LeftAlone(why) => left_alone.push((partition.clone(), why)),
            Becomes::Refused(refusal) => refusals.push(refusal),
            Becomes::Moved { m, drops_metadata } => {
                dropped_metadata += usize::from(drops_metadata);
                moves.push(m);
            }
        }
    }
    left_alone.sort();
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

/// A plan of which nobody knows who asked for it never gets the two people that the policy wants.
fn unknown_requester(planning: &Planning<'_>) -> Vec<Refusal> {
    let unknown = planning.policy.four_eyes && planning.request.requester.is_unverified();
    unknown
        .then_some(Refusal::RequesterUnverified)
        .into_iter()
        .collect()
}

/// Every partition that was read or that the source knows, so that one that the reading left out is noticed.
fn known<'a>(planning: &'a Planning<'_>) -> BTreeSet<&'a TopicPartition> {
    let mut known: BTreeSet<_> = planning.seen.partitions.keys().collect();
    match &planning.targets {
        Targets::Checkpoint { checkpoint, .. } => known.extend(checkpoint.partitions.keys()),
        Targets::Undo(of) | Targets::Finish(of) => known.extend(of.pre_image.before.keys()),
        Targets::Past { committed, .. } => known.extend(committed.keys()),
        Targets::Timestamp { .. }
        | Targets::Offsets(_)
        | Targets::Shift(_)
        | Targets::Earliest
        | Targets::Missing(_) => {}
    }
    known
}

/// Why a partition is left alone whatever its reading says; `None` if the request is about it.
///
/// Decided before anything is read from it: a partition that would not be moved anyway cannot stand in the way.
fn not_asked(planning: &Planning<'_>, partition: &TopicPartition) -> Option<LeftAlone> {
    if !planning.request.selection.contains(partition) {
        return Some(LeftAlone::NotSelected);
    }
    match &planning.targets {
        Targets::Checkpoint { checkpoint, .. } => match checkpoint.partitions.get(partition) {
            None => Some(LeftAlone::NotInSource),
            Some(then) if then.committed.is_none() => Some(LeftAlone::NoCommitInSource),
            Some(_) => None,
        },
        Targets::Offsets(offsets) => {
            (!offsets.contains_key(partition)).then_some(LeftAlone::NotSelected)
        }
        Targets::Past {
            committed,
            withheld,
            ..
        } => (!committed.contains_key(partition)).then(|| match withheld.get(partition) {
            Some(why) => LeftAlone::Withheld { why: why.clone() },
            None => LeftAlone::NotSelected,
        }),
        Targets::Undo(of) => executed::left_by_undo(*of, partition),
        Targets::Finish(of) => executed::left_by_finish(*of, partition),
        Targets::Timestamp { .. } | Targets::Shift(_) | Targets::Earliest => {
            let committed = &planning.seen.partitions.get(partition)?.committed;
            (*committed == Ok(None)).then_some(LeftAlone::NoCommit)
        }
        Targets::Missing(_) => None,
    }
}

/// One partition that the request is about.
fn judge(planning: &Planning<'_>, partition: &TopicPartition) -> Becomes {
    let Some(reading) = planning.seen.partitions.get(partition) else {
        return Becomes::Refused(evidence(partition, &Fault::missing()));
    };
    let (from, log) = match (&reading.committed, &reading.log) {
        (Ok(from), Ok(log)) => (from.as_ref(), log),
        // A request may name what never was; a source names only what was there.
        (_, Err(Fault::TopicGone)) if matches!(planning.targets, Targets::Offsets(_)) => {
            return Becomes::Refused(Refusal::PartitionUnknown {
                partition: partition.clone(),
            });
        }
        (Err(fault), _) | (_, Err(fault)) => return Becomes::Refused(evidence(partition, fault)),
    };
    let move_to = |to: Option<CommittedOffset>, lost| PartitionMove {
        partition: partition.clone(),
        topic_id: id_of(planning, &partition.topic),
        from: from.cloned(),
        may_rise_to: (may_rise(planning, partition) && to.is_some()).then_some(log.high),
        to,
        log: *log,
        lost,
    };
    let (target, together) = match wanted(planning, partition, from, log) {
        Wanted::Leave(why) => return Becomes::LeftAlone(why),
        Wanted::Refuse(refusal) => return Becomes::Refused(refusal),
        Wanted::Nothing if from.is_none() => return Becomes::LeftAlone(LeftAlone::AlreadyThere),
        Wanted::Nothing => {
            return Becomes::Moved {
                m: move_to(None, 0),
                drops_metadata: false,
            };
        }
        Wanted::Commit(target, together) => (target, together),
    };
    // Before the bounds: a group that is where it should be needs no move, even if retention has passed it.
    if is_at(from, &target, together) {
        return Becomes::LeftAlone(LeftAlone::AlreadyThere);
    }
    let offset = match bounded(planning, partition, from, log, target.offset) {
        Ok(offset) => offset,
        Err(refusal) => return Becomes::Refused(refusal),
    };
    let (to, together) = if together == Together::Yes && offset == target.offset {
        (commit_at(&target, log), Together::Yes)
    } else {
        (CommittedOffset::bare(offset), Together::No)
    };
    // And after them: a clamped target may be where the group is.
    if is_at(from, &to, together) {
        return Becomes::LeftAlone(LeftAlone::AlreadyThere);
    }
    let had_metadata =
        !target.metadata.is_empty() || from.is_some_and(|from| !from.metadata.is_empty());
    let drops_metadata = had_metadata && to.metadata.is_empty();
    // Offsets below 0 never held a record.
    let lost = distance(target.offset.max(0), offset);
    Becomes::Moved {
        m: move_to(Some(to), lost),
        drops_metadata,
    }
}

/// Whether the group is at `target` already.
///
/// For a position that was committed so once, the metadata belongs to it: some clients keep there which records beyond
/// the offset are done. The epoch does not: the same position is committed again under every new leader.
fn is_at(from: Option<&CommittedOffset>, target: &CommittedOffset, together: Together) -> bool {
    from.is_some_and(|from| {
        from.offset == target.offset
            && (together == Together::No || from.metadata == target.metadata)
    })
}

/// What must hold of the cluster and of the group as a whole.
fn cluster_and_group(planning: &Planning<'_>) -> Vec<Refusal> {
    let seen = planning.seen;
    let group = || seen.group.0.clone();
    let mut refusals = Vec::new();

    let (source_cluster, source_group) = match &planning.targets {
        Targets::Checkpoint { checkpoint, .. } => {
            (Some(&checkpoint.cluster_id), Some(&checkpoint.group))
        }
        Targets::Undo(of) | Targets::Finish(of) => {
            (Some(&of.plan.cluster_id), Some(&of.plan.group))
        }
        _ => (None, None),
    };
    let required: BTreeSet<_> = [planning.pinned_cluster, source_cluster]
        .into_iter()
        .flatten()
        .filter(|required| **required != seen.cluster_id)
        .collect();
    refusals.extend(
        required
            .into_iter()
            .map(|required| Refusal::ClusterMismatch {
                required: required.0.clone(),
                seen: seen.cluster_id.0.clone(),
            }),
    );
    if source_group.is_some_and(|source| *source != planning.request.group) {
        refusals.extend(foreign_source(planning));
    }
    if seen.group != planning.request.group {
        refusals.push(Refusal::EvidenceIncomplete {
            at: String::new(),
            fault: Fault::another_group(),
        });
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
            Targets::Checkpoint { .. } | Targets::Undo(_) | Targets::Finish(_)
        );
    match seen.activity() {
        Activity::Inactive => {}
        Activity::Active { state, members } => {
            if !waits(planning) && !planning.request.dry_run {
                refusals.push(Refusal::GroupActive {
                    state: state.to_string(),
                    members: members_seen(&members),
                });
            }
        }
        Activity::Unproven { .. } if seen.looks_absent() => {
            if !restorable {
                refusals.push(Refusal::GroupNotFound {
                    group: group(),
                    near: None,
                });
            }
        }
        Activity::Unproven { seen } => refusals.push(Refusal::GroupStateUnproven { seen }),
    }
    // Whatever its state: a live group without commits has nothing that could be moved either.
    if seen.has_no_commits() && !seen.looks_absent() && !restorable {
        refusals.push(Refusal::NoCommittedOffsets { group: group() });
    }
    if let Some(kind) = stateful(planning, description)
        && !planning.request.allow.stateful
    {
        refusals.push(Refusal::StatefulGroup {
            kind: kind.to_owned(),
        });
    }
    refusals
}

/// A source that belongs to another group, as if there were none.
fn foreign_source(planning: &Planning<'_>) -> Option<Refusal> {
    match &planning.targets {
        Targets::Checkpoint { checkpoint, .. } => Some(Refusal::CheckpointNotFound {
            id: checkpoint.id.clone(),
        }),
        Targets::Undo(of) => Some(Refusal::NothingToUndo {
            plan: of.plan.id.clone(),
            why: "it belongs to another group".to_owned(),
        }),
        Targets::Finish(of) => Some(Refusal::NothingToFinish {
            plan: of.plan.id.clone(),
            why: "it belongs to another group".to_owned(),
        }),
        _ => None,
    }
}

/// Every topic that is asked about, with what is wrong with it: gone, unreadable, or not the one that the source knew.
fn topics<'a>(
    planning: &Planning<'_>,
    asked: &[&'a TopicPartition],
) -> BTreeMap<&'a str, Option<Refusal>> {
    let topics: BTreeSet<&str> = asked.iter().map(|p| p.topic.as_str()).collect();
    topics
        .into_iter()
        .map(|topic| (topic, topic_fault(planning, asked, topic)))
        .collect()
}

fn topic_fault(planning: &Planning<'_>, asked: &[&TopicPartition], topic: &str) -> Option<Refusal> {
    let unread = |fault: &Fault| Refusal::EvidenceIncomplete {
        at: topic.to_owned(),
        fault: fault.clone(),
    };
    let now = match planning.seen.topics.get(topic) {
        Some(Ok(now)) => now,
        Some(Err(Fault::TopicGone)) => {
            return Some(Refusal::TopicGone {
                topic: topic.to_owned(),
            });
        }
        Some(Err(fault)) => return Some(unread(fault)),
        None => return Some(unread(&Fault::missing())),
    };
    let recreated = |then: String, now: String| Refusal::TopicRecreated {
        topic: topic.to_owned(),
        then,
        now,
    };
    let then = source_topic_id(planning, topic);
    if let (Some(then), Some(now)) = (then, now.id) {
        return (then != now).then(|| recreated(then.to_string(), now.to_string()));
    }
    // Without both ids, a log start that went down is what shows another log: retention only ever raises it.
    asked.iter().filter(|p| p.topic == topic).find_map(|p| {
        let before = source_log(planning, p)?.log_start;
        let after = planning
            .seen
            .partitions
            .get(p)?
            .log
            .as_ref()
            .ok()?
            .log_start;
        let called = |start: i64| format!("unknown, {p} starting at {start}");
        (after < before).then(|| recreated(called(before), called(after)))
    })
}

/// What the request names and the group does not have.
fn named_but_unknown(planning: &Planning<'_>) -> Vec<Refusal> {
    let known = known(planning);
    let topics: BTreeSet<&str> = known.iter().map(|p| p.topic.as_str()).collect();
    let mut refusals = Vec::new();
    let mut named = BTreeSet::new();
    if let Selection::Only(selected) = &planning.request.selection {
        for (topic, partitions) in selected {
            if topics.contains(topic.as_str()) {
                let partitions = partitions.iter().flatten();
                named.extend(partitions.map(|p| TopicPartition::new(topic, *p)));
            } else {
                refusals.push(Refusal::TopicUnknown {
                    topic: topic.clone(),
                });
            }
        }
    }
    if let Targets::Offsets(offsets) = planning.targets {
        named.extend(offsets.keys().cloned());
        let negative = offsets.iter().filter(|(_, offset)| **offset < 0);
        refusals.extend(negative.map(|(partition, offset)| Refusal::InvalidRequest {
            field: "to_offsets".to_owned(),
            problem: format!(
                "{offset} for {partition} is no offset; write one from 0 on, or use to_earliest"
            ),
        }));
    }
    let unknown = named.into_iter().filter(|p| !known.contains(p));
    refusals.extend(unknown.map(|partition| Refusal::PartitionUnknown { partition }));
    refusals
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
    let lost = total(moves.iter().map(|m| m.lost));
    if lost > 0 {
        warnings.push(Warning::Lost { offsets: lost });
    }
    let rising = moves.iter().filter(|m| m.may_rise_to.is_some());
    let partitions = rising.clone().count();
    if partitions > 0 {
        warnings.push(Warning::MayRise {
            partitions,
            offsets: total(rising.map(PartitionMove::may_still_lose)),
        });
    }
    let skips = total(moves.iter().map(PartitionMove::skipped));
    if skips > 0 {
        warnings.push(Warning::Skips { offsets: skips });
    }
    warnings.extend(activity::warning(planning));
    warnings.extend(activity::written_from_outside(planning));
    if let Targets::Past {
        records,
        two_samples,
        cautions,
        ..
    } = planning.targets
    {
        warnings.extend(of_skip(records, two_samples));
        warnings.extend_from_slice(cautions);
    }
    warnings.extend(of_source(planning, moves));
    if dropped_metadata > 0 {
        warnings.push(Warning::MetadataDropped {
            partitions: dropped_metadata,
        });
    }
    let removed = moves.iter().filter(|m| m.to.is_none()).count();
    if removed > 0 {
        warnings.push(Warning::Removes {
            partitions: removed,
        });
    }
    if let Some(kind) = stateful(planning, description) {
        warnings.push(Warning::Stateful {
            kind: kind.to_owned(),
        });
    }
    if description.is_simple && description.state != GroupState::Dead {
        warnings.push(Warning::AssignOnly);
    }
    let topics_moved: BTreeSet<_> = moves.iter().map(|m| m.partition.topic.as_str()).collect();
    let has_source = matches!(
        planning.targets,
        Targets::Checkpoint { .. } | Targets::Undo(_) | Targets::Finish(_)
    );
    let unidentified = topics_moved.into_iter().filter(|topic| {
        id_of(planning, topic).is_none()
            || (has_source && source_topic_id(planning, topic).is_none())
    });
    warnings.extend(unidentified.map(|topic| Warning::TopicIdUnknown {
        topic: topic.to_owned(),
    }));
    warnings
}

/// What there is to know of where the targets come from.
fn of_source(planning: &Planning<'_>, moves: &[PartitionMove]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let moved: BTreeMap<_, _> = moves.iter().map(|m| (&m.partition, m)).collect();
    if let Targets::Timestamp { offsets, .. } = planning.targets {
        warnings.extend(offsets.iter().filter_map(|(partition, found)| {
            let found = found.as_ref().ok()?.as_ref()?;
            let dated = found.is_out_of_order(moved.get(partition)?.log.high)?;
            Some(Warning::TimesOutOfOrder {
                partition: partition.clone(),
                offset: found.offset,
                dated,
            })
        }));
    }
    let Targets::Checkpoint {
        checkpoint,
        later,
        older,
        passed_over,
        ..
    } = planning.targets
    else {
        return warnings;
    };
    if passed_over.count > 0 {
        warnings.push(Warning::DisownedPassedOver {
            count: passed_over.count,
            by: passed_over.by.clone(),
        });
    }
    warnings.extend(older.iter().filter_map(|older| {
        let of_it = older.partitions.iter().filter(|at| moved.contains_key(at));
        let partitions = of_it.count();
        (partitions > 0).then(|| Warning::OlderCheckpoint {
            partitions,
            id: older.id.clone(),
            ended_at: older.ended_at,
            by: older.by.clone(),
        })
    }));
    let back: BTreeSet<_> = later
        .iter()
        .flat_map(|header| {
            header
                .anomalies
                .iter()
                .map(move |anomaly| (header, anomaly))
        })
        .filter_map(|(header, anomaly)| match anomaly {
            Anomaly::OffsetWentBackwards { partition, .. } => Some((header, partition)),
            Anomaly::LogTruncated { .. } => None,
        })
        .filter(|(header, at)| header.ended_at > source_time(checkpoint, older, at))
        .map(|(_, partition)| partition)
        .filter(|partition| moved.contains_key(partition))
        .collect();
    warnings.extend(
        back.into_iter()
            .map(|partition| Warning::WentBackwardsSince {
                partition: partition.clone(),
            }),
    );
    warnings
}

/// Whether the recovery waits for the group to be Empty: as the policy says, whatever one reading shows. A group that
/// crash-loops is Empty in most of them.
fn waits(planning: &Planning<'_>) -> bool {
    planning.policy.wait_for_empty_seconds.is_some()
}

/// How far forward a commit may go until the plan is applied. Where named records are passed over, not at all: whatever
/// the group reads itself need not be passed over.
fn drift_limit(planning: &Planning<'_>) -> u64 {
    match planning.targets {
        Targets::Past { .. } => 0,
        _ => planning.policy.drift_limit,
    }
}

/// What the approver of a skip has to know.
fn of_skip(records: &[SkippedRecord], two_samples: bool) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let lost = records.iter().filter(|r| r.kept == Kept::No).count();
    if lost > 0 {
        warnings.push(Warning::RecordsLost { records: lost });
    }
    let good = records.iter().filter(|r| r.failure.is_none()).count();
    let judged = records.iter().any(|r| r.failure.is_some());
    if judged && good > 0 {
        warnings.push(Warning::GoodRecordsSkipped { records: good });
    }
    if two_samples {
        warnings.push(Warning::TwoSamples);
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
    let source = match &planning.targets {
        Targets::Checkpoint { checkpoint, .. } => Source::Checkpoint {
            id: checkpoint.id.clone(),
            ended_at: checkpoint.ended_at,
        },
        Targets::Timestamp { at, .. } => Source::Timestamp { at: *at },
        Targets::Offsets(_) => Source::Offsets,
        Targets::Past { .. } => Source::Skip,
        Targets::Shift(by) => Source::Shift { by: *by },
        Targets::Earliest | Targets::Missing(_) => Source::Earliest,
        Targets::Undo(of) => Source::Undo {
            plan: of.plan.id.clone(),
        },
        Targets::Finish(of) => Source::Finish {
            plan: of.plan.id.clone(),
            source: Box::new(of.plan.source.clone()),
        },
    };
    // Without a source checkpoint, only the history of checkpoints can say. A time of records is no time of reading:
    // the group may have read them hours later, and their producer's clock may be ahead.
    let undone_since = match (&source, &planning.targets) {
        (Source::Checkpoint { ended_at, .. }, _) => Some(*ended_at),
        (_, Targets::Finish(of)) => of.plan.disowns.map(|disowns| disowns.after),
        _ => None,
    };
    let mut plan = Plan {
        id: planning.id.clone(),
        cluster: request.cluster.clone(),
        cluster_id: planning.seen.cluster_id.clone(),
        group: planning.seen.group.clone(),
        group_type,
        state,
        config_hash: planning.config_hash.to_owned(),
        csv_version: CSV_VERSION,
        created_at: planning.now,
        approve_by: planning.now + seconds(policy.approve_within_seconds),
        apply_within_seconds: policy.apply_within_seconds,
        waits_for_empty: waits(planning),
        drift_limit: if waits(planning) {
            drift_limit(planning)
        } else {
            0
        },
        source,
        moves,
        skips: match planning.targets {
            Targets::Past { records, .. } => records.to_vec(),
            _ => Vec::new(),
        },
        left_alone,
        warnings,
        disowns: None,
        requested_by: request.requested_by.clone(),
        requester: request.requester.clone(),
        four_eyes: policy.four_eyes,
        reason: request.reason.clone(),
    };
    plan.disowns = undone_since
        .filter(|after| plan.goes_back() && *after < planning.now)
        .map(|after| Disowns { after });
    plan
}

/// A `u32` of seconds as a duration.
#[must_use]
pub fn seconds(seconds: u32) -> SignedDuration {
    SignedDuration::from_secs(i64::from(seconds))
}

/// The id that a topic has now.
fn id_of(planning: &Planning<'_>, topic: &str) -> Option<TopicId> {
    planning.seen.topics.get(topic)?.as_ref().ok()?.id
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
    let mut seen: Vec<_> = members
        .iter()
        .map(|member| MemberSeen {
            client_id: member.client_id.clone(),
            member_id: member.member_id.clone(),
            host: member.host.clone(),
        })
        .collect();
    // Brokers list them in no order.
    seen.sort_by(|a, b| (&a.client_id, &a.member_id).cmp(&(&b.client_id, &b.member_id)));
    seen
}

/// `Kafka Streams` or `Kafka Connect`, where the group is one as far as can be seen, now or in the source.
fn stateful(planning: &Planning<'_>, description: &GroupDescription) -> Option<&'static str> {
    // Connect names its sink groups so (KIP-610 and before); there is no other sign once the tasks are stopped.
    if planning.seen.group.0.starts_with("connect-") {
        return Some("Kafka Connect");
    }
    let is_streams = |commit: &CommittedOffset| is_streams_metadata(&commit.metadata);
    let now = planning.seen.partitions.values();
    let streams = description.assignor == "stream"
        || now
            .filter_map(|reading| reading.committed.as_ref().ok()?.as_ref())
            .any(is_streams)
        || match &planning.targets {
            Targets::Checkpoint { checkpoint, .. } => checkpoint
                .partitions
                .values()
                .filter_map(|then| then.committed.as_ref())
                .any(is_streams),
            Targets::Undo(of) | Targets::Finish(of) => {
                of.pre_image.before.values().flatten().any(is_streams)
            }
            _ => false,
        };
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

#[cfg(test)]
mod tests;
