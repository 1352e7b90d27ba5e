//! Rules 1 to 12: what explains where a partition is without asking whether something is wrong with its consumers.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::super::policy::Isolation;
use super::super::probe::First;
use super::super::sample::{PartitionSample, Sample, Trouble};
use super::super::verdict::{Confidence, Evidence, Finding, Status, Verdict};
use super::case::{Case, isolation_matters};
use super::{RECENT_RUNS, count, runs, seconds};
use crate::offset::{Fault, TopicPartition, distance};

/// Longer than any transaction may stay open: the brokers' `transaction.max.timeout.ms` (15 min) and the time in which
/// a coordinator notices (KIP-664).
const LONGEST_TRANSACTION: SignedDuration = SignedDuration::from_secs(910);

/// What a rule found: the verdict and what goes with it.
type Found = (Verdict, Confidence, Status, Vec<Evidence>);

/// Rules 1 and 2, for a partition without a reading.
pub(super) fn unread(partition: &TopicPartition, fault: &Fault) -> Finding {
    let (verdict, status, evidence) = match fault {
        Fault::TopicGone => (Verdict::TopicChanged, Status::Critical, Evidence::TopicGone),
        Fault::Unstable | Fault::NotAuthorised | Fault::NoLeader | Fault::Failed { .. } => (
            Verdict::NoData,
            Status::Unknown,
            Evidence::Failed {
                fault: fault.clone(),
            },
        ),
    };
    Finding {
        partition: partition.clone(),
        verdict,
        confidence: Confidence::High,
        status,
        lag: None,
        evidence: vec![evidence],
    }
}

/// Rules 2 to 12.
pub(super) fn explained(
    case: &Case<'_>,
    partition: &TopicPartition,
    sample: &PartitionSample,
) -> Option<Finding> {
    let (verdict, confidence, status, evidence) =
        recreated(case, partition, sample).or_else(|| match sample.committed {
            None => Some(no_commit(case, partition, sample)),
            Some(committed) => with_commit(case, partition, sample, committed),
        })?;
    Some(Finding {
        partition: partition.clone(),
        verdict,
        confidence,
        status,
        lag: sample.lag(),
        evidence,
    })
}

/// Rules 4 to 12. Every finding shows the position.
fn with_commit(
    case: &Case<'_>,
    partition: &TopicPartition,
    sample: &PartitionSample,
    committed: i64,
) -> Option<Found> {
    let log = sample.log;
    let position = Evidence::Position { committed, log };
    let found = place(sample, committed)
        .or_else(|| rewound(case, partition))
        .or_else(|| external(case))
        .or_else(|| match advanced(case, partition, committed) {
            Some(by) => Some(moving(case, partition, by)),
            None => blocked(case, partition, sample, committed)
                .or_else(|| markers_only(case, partition, sample, committed)),
        });
    let (verdict, confidence, status, mut evidence) = found?;
    evidence.push(position);
    if verdict == Verdict::BlockedByTransaction {
        evidence.extend(case.isolation_note());
    }
    Some((verdict, confidence, status, evidence))
}

/// Rule 2: whether the topic is another one than that of an earlier sample, and the group has committed nothing in it
/// yet.
///
/// As soon as it has, the partition is judged anew: an alarm that stays on for good is none.
fn recreated(
    case: &Case<'_>,
    partition: &TopicPartition,
    sample: &PartitionSample,
) -> Option<Found> {
    let now = case.last.topic_id(&partition.topic);
    let (confidence, changed, then) = case.samples.iter().rev().find_map(|earlier| {
        let before = earlier.topic_id(&partition.topic);
        let then = earlier.of_partition(partition)?;
        if let (Some(before), Some(now)) = (before, now) {
            return (before != now).then(|| {
                let (before, now) = (before.to_string(), now.to_string());
                let changed = Evidence::TopicRecreated { before, now };
                (Confidence::High, changed, then)
            });
        }
        // Without ids, a log that ends earlier than it did is the only trace.
        let (before, now) = (then.log.high, sample.log.high);
        let changed = Evidence::LogShrank { before, now };
        (now < before).then_some((Confidence::Medium, changed, then))
    })?;
    // A group that had no commit there either has lost nothing.
    then.committed?;
    let untouched = sample.committed.is_none() || sample.committed == then.committed;
    untouched.then(|| {
        (
            Verdict::TopicChanged,
            confidence,
            Status::Critical,
            vec![changed],
        )
    })
}

/// Rule 3.
fn no_commit(case: &Case<'_>, partition: &TopicPartition, sample: &PartitionSample) -> Found {
    let offsets = distance(sample.log.log_start, sample.log.high);
    let mut evidence = vec![Evidence::NoPosition { offsets }];
    if sample.unstable {
        evidence.push(Evidence::PendingCommit);
    }
    let without = case
        .samples
        .iter()
        .rposition(|look| {
            look.of_partition(partition)
                .is_some_and(|p| p.committed.is_some())
        })
        .map_or(0, |with| with + 1);
    let runs = runs(case.samples.get(without..).unwrap_or_default());
    // Somebody is there to read it, or comes and goes, and something is there to be read.
    let there = || match case.trouble(true) {
        Trouble::Crashes | Trouble::Rebalances => true,
        Trouble::None | Trouble::Absent => !case.last.members.is_empty(),
    };
    let neglected = offsets > 0 && runs >= count(case.policy.min_samples) && there();
    let status = if neglected {
        Status::Warning
    } else {
        Status::Healthy
    };
    (Verdict::NoCommit, Confidence::High, status, evidence)
}

/// Rules 4 to 6: where the commit lies in the log.
fn place(sample: &PartitionSample, committed: i64) -> Option<Found> {
    let log = sample.log;
    let (verdict, status) = if committed > log.high {
        (Verdict::Ahead, Status::Critical)
    } else if committed < log.log_start {
        (Verdict::BelowLogStart, Status::Critical)
    } else if committed == log.high {
        (Verdict::CaughtUp, Status::Healthy)
    } else {
        return None;
    };
    Some((verdict, Confidence::High, status, Vec::new()))
}

/// Rule 7: the commit went back since the last run, and that was not made up for. Where a recovery of Offset Guard put it,
/// it was meant to be.
fn rewound(case: &Case<'_>, partition: &TopicPartition) -> Option<Found> {
    let before = case.before_this_run(partition);
    let this_run = case
        .this_run()
        .filter_map(|sample| sample.of_partition(partition)?.committed);
    let positions: Vec<i64> = before
        .and_then(|(_, p)| p.committed)
        .into_iter()
        .chain(this_run)
        .collect();
    let (&to, earlier) = positions.split_last()?;
    let &from = earlier.iter().max()?;
    if to >= from {
        return None;
    }
    let back = Evidence::WentBack { from, to };
    let live = case.last.recovery.as_ref();
    let by_live = live.filter(|live| live.explains(partition, to));
    let by_live = by_live.map(|live| Evidence::Recovery { live: live.clone() });
    let (status, evidence) = match by_live.or_else(|| moved_by_recovery(case)) {
        Some(by_us) => (Status::Healthy, vec![by_us, back]),
        None => (Status::Warning, vec![back]),
    };
    Some((Verdict::Rewound, Confidence::High, status, evidence))
}

/// That a recovery moved the group since the last run.
pub(super) fn moved_by_recovery(case: &Case<'_>) -> Option<Evidence> {
    let at = case.last.moved_at?;
    let before = case
        .samples
        .iter()
        .rev()
        .find(|sample| sample.run != case.last.run);
    let since = before.is_none_or(|before| before.moved_at != Some(at) || at > before.at);
    since.then_some(Evidence::MovedByRecovery { at })
}

/// Rule 8: what is committed says nothing about the consumers.
fn external(case: &Case<'_>) -> Option<Found> {
    let verdict = Verdict::ExternalOffsets;
    if case.policy.external_offsets {
        let evidence = vec![Evidence::Configured];
        return Some((verdict, Confidence::High, Status::Healthy, evidence));
    }
    let jump = case.jump.clone()?;
    // A group that never had a protocol never had members.
    let confidence = if case.last.is_simple {
        Confidence::High
    } else {
        Confidence::Medium
    };
    Some((verdict, confidence, Status::Warning, vec![jump]))
}

/// How far the commit came since the last run, or within this one, by itself.
fn advanced(case: &Case<'_>, partition: &TopicPartition, committed: i64) -> Option<u64> {
    let same = |sample: &Sample| sample.moved_at == case.last.moved_at;
    let before = case
        .before_this_run(partition)
        .filter(|(sample, _)| same(sample))
        .and_then(|(_, p)| p.committed);
    let from = before.or_else(|| {
        let mut looks = case.this_run().filter(|sample| same(sample));
        looks.find_map(|sample| sample.of_partition(partition)?.committed)
    })?;
    Some(distance(from, committed)).filter(|by| *by > 0)
}

/// Rule 9: the consumers wait for somebody's transaction to end.
fn blocked(
    case: &Case<'_>,
    partition: &TopicPartition,
    sample: &PartitionSample,
    committed: i64,
) -> Option<Found> {
    let log = sample.log;
    let verdict = Verdict::BlockedByTransaction;
    let open = log.last_stable < log.high;
    // Nothing but markers and aborted data up to the open transaction: the consumers are where it begins.
    let at_it = committed >= log.last_stable
        || case.probe(partition, committed).is_some_and(
            |probe| matches!(probe.committed, First::None { until } if until >= log.last_stable),
        );
    if open && at_it && !case.reads_uncommitted {
        let open_for = case.last.at.duration_since(sample.stable_since);
        let hanging = open_for > LONGEST_TRANSACTION;
        let long = open_for.as_secs() >= i64::from(case.policy.stall_seconds);
        let confidence = match (case.policy.isolation, hanging) {
            (Isolation::ReadCommitted, true) => Confidence::High,
            (Isolation::ReadCommitted, false) | (_, true) => Confidence::Medium,
            (_, false) => Confidence::Low,
        };
        let status = match (hanging, long) {
            (true, _) => Status::Critical,
            (false, true) => Status::Warning,
            (false, false) => Status::Healthy,
        };
        let evidence = Evidence::OpenTransaction {
            last_stable: log.last_stable,
            seconds: seconds(open_for),
            hanging,
        };
        return Some((verdict, confidence, status, vec![evidence]));
    }
    sample.unstable.then(|| {
        let stood = case.last.at.duration_since(sample.still_since);
        let status = if stood > LONGEST_TRANSACTION {
            Status::Critical
        } else {
            Status::Healthy
        };
        let evidence = vec![Evidence::PendingCommit];
        (verdict, Confidence::Medium, status, evidence)
    })
}

/// Rule 10: the raw read found nothing that the consumers could read, up to the end of what they may read.
fn markers_only(
    case: &Case<'_>,
    partition: &TopicPartition,
    sample: &PartitionSample,
    committed: i64,
) -> Option<Found> {
    let probe = case.probe(partition, committed)?;
    let log = sample.log;
    let verdict = Verdict::MarkersOnly;
    match (&probe.committed, &probe.uncommitted) {
        (_, First::None { until }) if *until >= log.high => {
            let evidence = vec![Evidence::NothingVisible { until: *until }];
            Some((verdict, Confidence::High, Status::Healthy, evidence))
        }
        (First::None { until }, First::Record(_))
            if *until >= log.last_stable && !case.reads_uncommitted =>
        {
            let nothing = Evidence::NothingVisible { until: *until };
            if case.policy.isolation == Isolation::ReadCommitted {
                return Some((verdict, Confidence::High, Status::Healthy, vec![nothing]));
            }
            // Aborted records: a read_committed group has read all, a read_uncommitted one may be stuck at them.
            let evidence = vec![nothing, isolation_matters(probe)];
            Some((verdict, Confidence::Low, Status::Warning, evidence))
        }
        (First::None { .. } | First::Record(_), First::None { .. } | First::Record(_)) => None,
    }
}

/// Rules 11 and 12: it moves, and either keeps up or does not.
fn moving(case: &Case<'_>, partition: &TopicPartition, by: u64) -> Found {
    let advanced = Evidence::Advanced { by };
    match falls_behind(case, partition) {
        Some(grew) => (
            Verdict::Slow,
            Confidence::Medium,
            Status::Warning,
            vec![grew, advanced],
        ),
        None => (
            Verdict::Moving,
            Confidence::High,
            Status::Healthy,
            vec![advanced],
        ),
    }
}

/// Whether its lag grew from each of the latest runs to the next.
fn falls_behind(case: &Case<'_>, partition: &TopicPartition) -> Option<Evidence> {
    let enough = RECENT_RUNS.max(count(case.policy.min_samples));
    let mut by_run: BTreeMap<Timestamp, u64> = BTreeMap::new();
    for sample in case.samples {
        let of = sample.of_partition(partition);
        if let Some(lag) = of.and_then(PartitionSample::lag) {
            by_run.insert(sample.run, lag);
        }
    }
    let lags: Vec<u64> = by_run.into_values().rev().take(enough).collect();
    let (to, from) = (*lags.first()?, *lags.last()?);
    let grows = lags.len() == enough && lags.is_sorted_by(|newer, older| newer > older);
    (grows && to >= case.policy.deadlock_lag_threshold).then_some(Evidence::LagGrew {
        from,
        to,
        runs: enough,
    })
}
