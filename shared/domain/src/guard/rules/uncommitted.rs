//! A group that never committed anything, so that none of its partitions can be judged.

use std::collections::BTreeSet;

use super::case::Case;
use super::counts::{as_length, count_runs};
use crate::guard::probe::First;
use crate::guard::sample::{Sample, Trouble};
use crate::guard::verdict::{Confidence, Evidence, GroupFinding, Status, Verdict};
use crate::offset::{Fault, TopicPartition, distance};

/// How many partitions are looked into at their log start.
const PROBED: usize = 3;

/// Members that come and go, or never come to rest, in a group that has never committed an offset: they end before they
/// get anything done, as one that dies of the first record of its topic. Partitions show nothing of it: they have no
/// commit that could stand, and mostly no owner.
///
/// Members that stay are no such case. They may have nothing to read, or keep their offsets elsewhere, and what they
/// leave unread is told of the partitions that they have.
pub(super) fn never_gets_to_commit(case: &Case<'_>) -> Option<GroupFinding> {
    if case.policy.external_offsets || !has_no_commits(case.samples) {
        return None;
    }
    let seen = |look: &Sample| !look.members.is_empty();
    let first = case.samples.iter().position(seen)?;
    let since = case.samples.get(first..).unwrap_or_default();
    let stood = case.last.at.duration_since(since.first()?.at).as_secs();
    if count_runs(since) < as_length(case.policy.min_samples).max(2)
        || stood < i64::from(case.policy.stall_seconds)
    {
        return None;
    }
    let verdict = match case.trouble(true) {
        Trouble::Crashes => Verdict::CrashLoop,
        Trouble::Rebalances => Verdict::RebalanceLoop,
        Trouble::None | Trouble::Absent => return None,
    };
    let with_members: Vec<_> = since.iter().filter(|look| seen(look)).collect();
    let members: BTreeSet<_> = with_members
        .iter()
        .flat_map(|look| look.members.iter().map(|m| m.member_id.as_str()))
        .collect();
    let in_runs: BTreeSet<_> = with_members.iter().map(|look| look.run).collect();
    let mut evidence = vec![Evidence::NeverCommitted {
        members: members.len(),
        runs: in_runs.len(),
    }];
    evidence.extend(first_records(case));
    let logs = logs(case);
    let offsets = logs.iter().map(|(_, _, offsets)| *offsets);
    let offsets = offsets.fold(0, u64::saturating_add);
    evidence.push(match logs.first() {
        Some((example, ..)) => Evidence::Assigned {
            example: (*example).clone(),
            count: logs.len(),
            offsets,
        },
        None => Evidence::AssignmentUnseen,
    });
    evidence.extend(case.last_seen());
    let recent = case.recent();
    evidence.push(Evidence::Looks {
        looks: recent.len(),
        empty: recent.iter().filter(|look| look.is_empty()).count(),
        rebalancing: recent.iter().filter(|look| look.is_rebalancing()).count(),
        state: case.last.state,
        members: case.last.members.len(),
    });
    let status = if offsets >= case.policy.deadlock_lag_threshold.max(1) {
        Status::Critical
    } else {
        Status::Warning
    };
    Some(GroupFinding {
        verdict,
        confidence: Confidence::Medium,
        status,
        evidence,
    })
}

/// Where such a group's consumers may begin, as far as it is known what they were assigned: what to read there.
pub(super) fn wants_probe(case: &Case<'_>) -> Vec<TopicPartition> {
    let unread = logs(case)
        .into_iter()
        .filter(|(partition, start, offsets)| {
            *offsets > 0
                && case.probe(partition, *start).is_none()
                && case.not_probed(partition, *start).is_none()
        });
    unread
        .take(PROBED)
        .map(|(partition, ..)| partition.clone())
        .collect()
}

/// Whether none of `samples` has a commit, and the last one hides none.
pub(super) fn has_no_commits(samples: &[Sample]) -> bool {
    let hides =
        |reading: &Result<_, Fault>| matches!(reading, Err(fault) if *fault != Fault::TopicGone);
    let last = samples.last();
    last.is_some_and(|last| !last.partitions.values().any(hides))
        && samples.iter().all(|look| {
            let mut read = look.partitions.values().filter_map(|p| p.as_ref().ok());
            read.all(|p| p.committed.is_none())
        })
}

/// The partitions that its members were seen to have, with their log start and how many offsets they hold.
fn logs<'a>(case: &Case<'a>) -> Vec<(&'a TopicPartition, i64, u64)> {
    let partitions = case.last.partitions.iter();
    partitions
        .filter_map(|(partition, reading)| {
            let log = reading.as_ref().ok()?.log;
            Some((partition, log.log_start, distance(log.log_start, log.high)))
        })
        .collect()
}

/// The records at which its consumers begin, those first that a validator does not pass.
fn first_records(case: &Case<'_>) -> Vec<Evidence> {
    let mut found: Vec<_> = logs(case)
        .into_iter()
        .filter_map(|(partition, start, _)| {
            let probe = case.probe(partition, start)?;
            let first = case.first_visible(probe)?;
            let First::Record(record) = first else {
                return None;
            };
            let mut failing = probe.validation.failing_from(record.offset);
            let problem = failing.next().map(|failure| failure.problem.clone());
            let evidence = Evidence::FirstRecord {
                partition: partition.clone(),
                record: record.clone(),
                problem: problem.clone(),
            };
            Some((problem.is_none(), evidence))
        })
        .collect();
    found.sort_by_key(|(passes, _)| *passes);
    found
        .into_iter()
        .take(PROBED)
        .map(|(_, evidence)| evidence)
        .collect()
}
