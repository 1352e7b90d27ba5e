//! Questions about a partition's offsets: what explains where it is, without asking whether something is wrong with the
//! group's consumers.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::case::{Case, isolation_matters};
use super::counts::{RECENT_RUNS, as_length, count_runs, whole_seconds};
use super::standing::Standing;
use crate::guard::policy::Isolation;
use crate::guard::probe::First;
use crate::guard::sample::{PartitionSample, Sample, Trouble};
use crate::guard::verdict::{Confidence, Evidence, Status};
use crate::offset::{Fault, TopicPartition, distance};

/// Longer than any transaction may stay open: the brokers' `transaction.max.timeout.ms` (15 min) and the time in which
/// a coordinator notices (KIP-664).
const LONGEST_TRANSACTION: SignedDuration = SignedDuration::from_secs(910);

/// What goes with a verdict about offsets.
pub(super) struct Found {
    pub(super) confidence: Confidence,
    pub(super) status: Status,
    pub(super) evidence: Vec<Evidence>,
}

impl Found {
    fn surely(status: Status, evidence: Vec<Evidence>) -> Self {
        Self {
            confidence: Confidence::High,
            status,
            evidence,
        }
    }
}

/// One partition of the newest sample.
pub(super) struct Position<'c, 'a> {
    case: &'c Case<'a>,
    partition: &'a TopicPartition,
    reading: &'a Result<PartitionSample, Fault>,
    /// How long it has stood. Only the last question asks, and the rules about a stall go on from it.
    standing: OnceCell<Standing<'a>>,
}

impl<'c, 'a> Position<'c, 'a> {
    pub(super) fn new(
        case: &'c Case<'a>,
        partition: &'a TopicPartition,
        reading: &'a Result<PartitionSample, Fault>,
    ) -> Self {
        Self {
            case,
            partition,
            reading,
            standing: OnceCell::new(),
        }
    }

    pub(super) fn sample(&self) -> Option<&'a PartitionSample> {
        self.reading.as_ref().ok()
    }

    /// How long the partition has stood, if no earlier question explained it.
    pub(super) fn into_standing(self) -> Option<Standing<'a>> {
        match self.reading {
            Ok(_) => self.standing.into_inner(),
            // What stood when it was last read may be why something else stands.
            Err(_) => Standing::when_last_read(self.case, self.partition),
        }
    }

    fn commit(&self) -> Option<(&'a PartitionSample, i64)> {
        let sample = self.sample()?;
        Some((sample, sample.committed?))
    }
}

fn position(sample: &PartitionSample, committed: i64) -> Evidence {
    let log = sample.log;
    Evidence::Position { committed, log }
}

/// Whether the reading failed for another reason than that the topic is gone.
pub(super) fn could_not_be_read(at: &Position<'_, '_>) -> Option<Found> {
    match at.reading.as_ref().err()? {
        Fault::TopicGone => None,
        fault @ (Fault::Unstable
        | Fault::NotAuthorised
        | Fault::NoLeader
        | Fault::Failed { .. }) => {
            let fault = fault.clone();
            Some(Found::surely(
                Status::Unknown,
                vec![Evidence::Failed { fault }],
            ))
        }
    }
}

pub(super) fn topic_is_gone(at: &Position<'_, '_>) -> Option<Found> {
    let gone = at.reading.as_ref().err() == Some(&Fault::TopicGone);
    gone.then(|| Found::surely(Status::Critical, vec![Evidence::TopicGone]))
}

/// Whether the topic is another one than that of an earlier sample, and the group has committed nothing in it yet.
///
/// As soon as it has, the partition is judged as any other: an alarm that stays on for good is none.
pub(super) fn topic_was_created_again(at: &Position<'_, '_>) -> Option<Found> {
    let (case, partition, sample) = (at.case, at.partition, at.sample()?);
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
    untouched.then(|| Found {
        confidence,
        status: Status::Critical,
        evidence: vec![changed],
    })
}

pub(super) fn has_no_commit(at: &Position<'_, '_>) -> Option<Found> {
    let (case, sample) = (at.case, at.sample()?);
    if sample.committed.is_some() {
        return None;
    }
    let offsets = distance(sample.log.log_start, sample.log.high);
    let mut evidence = vec![Evidence::NoPosition { offsets }];
    if sample.unstable {
        evidence.push(Evidence::PendingCommit);
    }
    let without = case
        .samples
        .iter()
        .rposition(|look| {
            look.of_partition(at.partition)
                .is_some_and(|p| p.committed.is_some())
        })
        .map_or(0, |with| with + 1);
    let runs = count_runs(case.samples.get(without..).unwrap_or_default());
    // Somebody is there to read it, or comes and goes, and something is there to be read.
    let there = || match case.trouble(true) {
        Trouble::Crashes | Trouble::Rebalances => true,
        Trouble::None | Trouble::Absent => !case.last.members.is_empty(),
    };
    let neglected = offsets > 0 && runs >= as_length(case.policy.min_samples) && there();
    let status = if neglected {
        Status::Warning
    } else {
        Status::Healthy
    };
    Some(Found::surely(status, evidence))
}

pub(super) fn is_beyond_the_log_end(at: &Position<'_, '_>) -> Option<Found> {
    let (sample, committed) = at.commit()?;
    let evidence = vec![position(sample, committed)];
    (committed > sample.log.high).then(|| Found::surely(Status::Critical, evidence))
}

pub(super) fn is_below_the_log_start(at: &Position<'_, '_>) -> Option<Found> {
    let (sample, committed) = at.commit()?;
    let evidence = vec![position(sample, committed)];
    (committed < sample.log.log_start).then(|| Found::surely(Status::Critical, evidence))
}

pub(super) fn has_read_everything(at: &Position<'_, '_>) -> Option<Found> {
    let (sample, committed) = at.commit()?;
    let evidence = vec![position(sample, committed)];
    (committed == sample.log.high).then(|| Found::surely(Status::Healthy, evidence))
}

/// Whether the commit went back since the last run, and that was not made up for. It is healthy where a recovery of Offset
/// Guard put it.
pub(super) fn went_back(at: &Position<'_, '_>) -> Option<Found> {
    let (case, partition) = (at.case, at.partition);
    let (sample, committed) = at.commit()?;
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
    let position = position(sample, committed);
    let (status, evidence) = match by_live.or_else(|| case.moved_by_recovery()) {
        Some(by_us) => (Status::Healthy, vec![by_us, back, position]),
        None => (Status::Warning, vec![back, position]),
    };
    Some(Found::surely(status, evidence))
}

/// Whether what is committed says nothing about the consumers.
pub(super) fn is_kept_elsewhere(at: &Position<'_, '_>) -> Option<Found> {
    let case = at.case;
    let (sample, committed) = at.commit()?;
    let position = position(sample, committed);
    if case.policy.external_offsets {
        let evidence = vec![Evidence::Configured, position];
        return Some(Found::surely(Status::Healthy, evidence));
    }
    let jump = case.jump.clone()?;
    // A group that never had a protocol never had members.
    let confidence = if case.last.is_simple {
        Confidence::High
    } else {
        Confidence::Medium
    };
    Some(Found {
        confidence,
        status: Status::Warning,
        evidence: vec![jump, position],
    })
}

pub(super) fn moves_and_falls_behind(at: &Position<'_, '_>) -> Option<Found> {
    let (sample, committed) = at.commit()?;
    let by = advanced(at, committed)?;
    let grew = falls_behind(at.case, at.partition)?;
    Some(Found {
        confidence: Confidence::Medium,
        status: Status::Warning,
        evidence: vec![grew, Evidence::Advanced { by }, position(sample, committed)],
    })
}

pub(super) fn moves(at: &Position<'_, '_>) -> Option<Found> {
    let (sample, committed) = at.commit()?;
    let by = advanced(at, committed)?;
    let evidence = vec![Evidence::Advanced { by }, position(sample, committed)];
    Some(Found::surely(Status::Healthy, evidence))
}

/// How far the commit came since the last run, or within this one, by itself.
fn advanced(at: &Position<'_, '_>, committed: i64) -> Option<u64> {
    let (case, partition) = (at.case, at.partition);
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

/// Whether its lag grew from each of the latest runs to the next.
fn falls_behind(case: &Case<'_>, partition: &TopicPartition) -> Option<Evidence> {
    let enough = RECENT_RUNS.max(as_length(case.policy.min_samples));
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

/// Whether the consumers wait for somebody's transaction to end.
pub(super) fn waits_for_a_transaction(at: &Position<'_, '_>) -> Option<Found> {
    let (case, partition) = (at.case, at.partition);
    let (sample, committed) = at.commit()?;
    let with_isolation = |seen: Evidence| -> Vec<Evidence> {
        let position = position(sample, committed);
        [seen, position]
            .into_iter()
            .chain(case.isolation_note())
            .collect()
    };
    let log = sample.log;
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
        let open = Evidence::OpenTransaction {
            last_stable: log.last_stable,
            seconds: whole_seconds(open_for),
            hanging,
        };
        return Some(Found {
            confidence,
            status,
            evidence: with_isolation(open),
        });
    }
    sample.unstable.then(|| {
        let stood = case.last.at.duration_since(sample.still_since);
        let status = if stood > LONGEST_TRANSACTION {
            Status::Critical
        } else {
            Status::Healthy
        };
        Found {
            confidence: Confidence::Medium,
            status,
            evidence: with_isolation(Evidence::PendingCommit),
        }
    })
}

/// Whether the raw read found nothing that the consumers could read, up to the end of what they may read.
pub(super) fn has_no_record_left(at: &Position<'_, '_>) -> Option<Found> {
    let case = at.case;
    let (sample, committed) = at.commit()?;
    let position = position(sample, committed);
    let probe = case.probe(at.partition, committed)?;
    let log = sample.log;
    match (&probe.committed, &probe.uncommitted) {
        (_, First::None { until }) if *until >= log.high => {
            let nothing = Evidence::NothingVisible { until: *until };
            Some(Found::surely(Status::Healthy, vec![nothing, position]))
        }
        (First::None { until }, First::Record(_))
            if *until >= log.last_stable && !case.reads_uncommitted =>
        {
            let nothing = Evidence::NothingVisible { until: *until };
            if case.policy.isolation == Isolation::ReadCommitted {
                return Some(Found::surely(Status::Healthy, vec![nothing, position]));
            }
            // Aborted records: a read_committed group has read all, a read_uncommitted one may be stuck at them.
            Some(Found {
                confidence: Confidence::Low,
                status: Status::Warning,
                evidence: vec![nothing, isolation_matters(probe), position],
            })
        }
        (First::None { .. } | First::Record(_), First::None { .. } | First::Record(_)) => None,
    }
}

/// Whether it has stood for too short a time, or in too few runs, to say anything.
pub(super) fn has_not_stood_long_enough(at: &Position<'_, '_>) -> Option<Found> {
    let sample = at.sample()?;
    let new = || Standing::new(at.case, at.partition, sample);
    let evidence = at.standing.get_or_init(new).waiting(at.case)?;
    Some(Found::surely(Status::Healthy, evidence))
}
