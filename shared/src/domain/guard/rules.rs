//! The rule table: from samples and probes to a verdict for every partition.
//!
//! Rules 1 to 13 look at one partition's offsets and explain most of what looks like a stall. Only what none of them
//! explains is stalled, and only then members, owners and the other partitions are asked. The first rule that matches
//! decides, and the last one always does.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::policy::{GuardPolicy, Isolation};
use super::probe::{First, Probe, Probed};
use super::sample::{PartitionSample, Sample, since_gap};
use super::verdict::{Confidence, Evidence, Finding, Status, Verdict};
use crate::domain::group::GroupState;
use crate::domain::offset::{Fault, TopicPartition, distance};

/// Longer than any transaction may stay open: the brokers' `transaction.max.timeout.ms` (15 min) and the time in which
/// a coordinator notices (KIP-664).
const LONGEST_TRANSACTION: SignedDuration = SignedDuration::from_secs(910);
/// A pause that was seen before stretches the time until a stall, but no further than so many times.
const PATIENCE: u32 = 6;
/// At least so many runs are looked at for what the members do.
const RECENT_RUNS: usize = 3;
/// How many names one piece of evidence holds.
const NAMED: usize = 5;

/// What the rules say of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assessment {
    /// The worst of the findings; `Unknown` without any sample.
    pub status: Status,
    /// One finding a monitored partition, in order.
    pub findings: Vec<Finding>,
    /// The stalled partitions of which a probe would tell more, the most telling first.
    pub wants_probe: Vec<TopicPartition>,
}

impl Assessment {
    /// What there is to say where a group could not be read at all.
    #[must_use]
    pub fn unknown() -> Self {
        Self {
            status: Status::Unknown,
            findings: Vec::new(),
            wants_probe: Vec::new(),
        }
    }
}

/// Judges the newest of `samples`, which are in the order of time.
#[must_use]
pub fn judge(
    samples: &[Sample],
    probes: &BTreeMap<TopicPartition, Probed>,
    policy: &GuardPolicy,
    now: Timestamp,
) -> Assessment {
    let Some(case) = Case::new(samples, probes, policy, now) else {
        return Assessment::unknown();
    };
    let mut findings = Vec::new();
    let mut stalled = Vec::new();
    for (partition, reading) in &case.last.partitions {
        if !policy.monitors(&partition.topic) {
            continue;
        }
        match reading {
            Err(fault) => findings.push(unread(partition, fault)),
            Ok(sample) => match explained(&case, partition, sample) {
                Some(finding) => findings.push(finding),
                None => stalled.push(Stalled::new(&case, partition, sample)),
            },
        }
    }
    let mut wants_probe = Vec::new();
    for partition in &stalled {
        let finding = stall(&case, partition, &stalled);
        if !probes.contains_key(partition.partition) {
            wants_probe.push((finding.verdict, partition.partition.clone()));
        }
        findings.push(finding);
    }
    wants_probe.sort_by_key(|(verdict, partition)| {
        let telling = match verdict {
            Verdict::PoisonLikely => 0,
            Verdict::PoisonSuspected => 1,
            _ => 2,
        };
        (telling, partition.clone())
    });
    findings.sort_by(|a, b| a.partition.cmp(&b.partition));
    Assessment {
        status: findings
            .iter()
            .map(|finding| finding.status)
            .max()
            .unwrap_or(Status::Healthy),
        findings,
        wants_probe: wants_probe.into_iter().map(|(_, p)| p).collect(),
    }
}

/// Whether a group is to be looked at several times within a run: something waits to be read and did not move since the
/// last run, or it waits in a group that is not at rest with members.
#[must_use]
pub fn is_suspicious(samples: &[Sample], policy: &GuardPolicy) -> bool {
    let Some((last, before)) = samples.split_last() else {
        return false;
    };
    let before = since_gap(before, last.at);
    last.partitions.iter().any(|(partition, reading)| {
        let Ok(sample) = reading else { return false };
        let waits = sample.committed.is_some_and(|c| c < sample.log.high);
        let unmoved = before
            .iter()
            .rev()
            .find_map(|earlier| earlier.of_partition(partition))
            .is_some_and(|earlier| earlier.committed == sample.committed);
        let restless = last.state != GroupState::Stable;
        policy.monitors(&partition.topic) && waits && (unmoved || restless)
    })
}

/// Whether the group's consumers read records of transactions that are open or aborted: so configured, or seen to have
/// committed beyond a last stable offset.
#[must_use]
pub fn reads_uncommitted(samples: &[Sample], policy: &GuardPolicy) -> bool {
    match policy.isolation {
        Isolation::ReadUncommitted => true,
        Isolation::ReadCommitted => false,
        Isolation::Unknown => samples.iter().any(|sample| {
            let beyond = |p: &PartitionSample| {
                p.committed
                    .is_some_and(|c| c > p.log.last_stable && c <= p.log.high)
            };
            sample.partitions.values().flatten().any(beyond)
        }),
    }
}

/// All that the rules look at.
struct Case<'a> {
    /// In the order of time, without a gap; never empty.
    samples: &'a [Sample],
    last: &'a Sample,
    probes: &'a BTreeMap<TopicPartition, Probed>,
    policy: &'a GuardPolicy,
    /// The group has committed beyond a last stable offset, or is known to.
    reads_uncommitted: bool,
    jump: Option<Evidence>,
}

impl<'a> Case<'a> {
    fn new(
        samples: &'a [Sample],
        probes: &'a BTreeMap<TopicPartition, Probed>,
        policy: &'a GuardPolicy,
        now: Timestamp,
    ) -> Option<Self> {
        // A newest sample that is too old says nothing about now.
        let samples = since_gap(samples, now);
        let last = samples.last()?;
        let reads_uncommitted = match policy.isolation {
            Isolation::ReadUncommitted => true,
            Isolation::ReadCommitted => false,
            Isolation::Unknown => samples.iter().any(|sample| {
                sample.partitions.values().flatten().any(|p| {
                    p.committed
                        .is_some_and(|c| c > p.log.last_stable && c <= p.log.high)
                })
            }),
        };
        Some(Self {
            samples,
            last,
            probes,
            policy,
            reads_uncommitted,
            jump: jump_without_members(samples),
        })
    }

    /// The last sample of an earlier run in which `partition` was read, with the topic that it has now.
    fn before_this_run(&self, partition: &TopicPartition) -> Option<&'a PartitionSample> {
        let id = self.last.topic_id(&partition.topic);
        self.samples
            .iter()
            .rev()
            .filter(|sample| sample.run != self.last.run)
            .find_map(|sample| {
                let of = sample.of_partition(partition)?;
                (sample.topic_id(&partition.topic) == id).then_some(of)
            })
    }

    /// The samples, oldest first, since which the commit of `partition` has stood.
    fn still(&self, partition: &TopicPartition, committed: Option<i64>) -> &'a [Sample] {
        let id = self.last.topic_id(&partition.topic);
        let mut from = self.samples.len();
        for (index, sample) in self.samples.iter().enumerate().rev() {
            match sample.of_partition(partition) {
                Some(then)
                    if then.committed == committed && sample.topic_id(&partition.topic) == id =>
                {
                    from = index;
                }
                Some(_) => break,
                // A reading that failed says nothing about what was there.
                None => {}
            }
        }
        self.samples.get(from..).unwrap_or_default()
    }

    /// The looks of the latest runs.
    fn recent(&self) -> &'a [Sample] {
        let runs = RECENT_RUNS.max(usize::try_from(self.policy.min_samples).unwrap_or(RECENT_RUNS));
        let mut seen: Vec<Timestamp> = Vec::new();
        let mut from = self.samples.len();
        for (index, sample) in self.samples.iter().enumerate().rev() {
            if seen.last() != Some(&sample.run) {
                if seen.len() == runs {
                    break;
                }
                seen.push(sample.run);
            }
            from = index;
        }
        self.samples.get(from..).unwrap_or_default()
    }

    fn this_run(&self) -> impl Iterator<Item = &'a Sample> {
        let run = self.last.run;
        self.samples.iter().filter(move |sample| sample.run == run)
    }

    /// The probe of `partition`, if it is one of where the group is now.
    fn probe(&self, partition: &TopicPartition, committed: i64) -> Option<&'a Probe> {
        match self.probes.get(partition)? {
            Ok(probe) if probe.from == committed => Some(probe),
            Ok(_) | Err(_) => None,
        }
    }

    /// What the group's consumers see first; `None` where that depends on an isolation level that nobody knows.
    fn first_visible(&self, probe: &'a Probe) -> Option<&'a First> {
        if self.reads_uncommitted {
            return Some(&probe.uncommitted);
        }
        let same = probe.committed.offset() == probe.uncommitted.offset();
        (self.policy.isolation == Isolation::ReadCommitted || same).then_some(&probe.committed)
    }
}

/// How many runs `samples` are of.
fn runs(samples: &[Sample]) -> usize {
    samples
        .iter()
        .map(|sample| sample.run)
        .collect::<BTreeSet<_>>()
        .len()
}

/// Commits that moved on while nobody was in the group: once between two looks of one run, or twice.
///
/// Once between two runs may be a group that came, worked and went, or somebody's reset. What spans a recovery of
/// Offset Guard was that recovery.
fn jump_without_members(samples: &[Sample]) -> Option<Evidence> {
    let mut between_runs = 0;
    for pair in samples.windows(2) {
        let [a, b] = pair else { continue };
        let moved_by_us =
            b.moved_at.is_some_and(|at| at > a.at && at <= b.at) || a.moved_at != b.moved_at;
        if !a.is_empty() || !b.is_empty() || moved_by_us {
            continue;
        }
        let jump = b.partitions.iter().find_map(|(partition, now)| {
            let from = a.of_partition(partition)?.committed?;
            let to = now.as_ref().ok()?.committed?;
            (to > from).then(|| Evidence::JumpedWithoutMembers {
                partition: partition.clone(),
                from,
                to,
            })
        });
        let Some(jump) = jump else { continue };
        between_runs += 1;
        if a.run == b.run || between_runs == 2 {
            return Some(jump);
        }
    }
    None
}

/// Rules 1 and 2, for a partition without a reading.
fn unread(partition: &TopicPartition, fault: &Fault) -> Finding {
    let (verdict, confidence, status, evidence) = match fault {
        Fault::TopicGone => (
            Verdict::TopicChanged,
            Confidence::High,
            Status::Critical,
            Evidence::TopicGone,
        ),
        fault => (
            Verdict::NoData,
            Confidence::High,
            Status::Unknown,
            Evidence::Failed {
                fault: fault.clone(),
            },
        ),
    };
    Finding {
        partition: partition.clone(),
        verdict,
        confidence,
        status,
        lag: None,
        evidence: vec![evidence],
    }
}

/// Rules 2 to 13: what explains where a partition is without asking whether something is wrong with its consumers.
fn explained(
    case: &Case<'_>,
    partition: &TopicPartition,
    sample: &PartitionSample,
) -> Option<Finding> {
    let found = |verdict, confidence, status, evidence: Vec<Evidence>| {
        Some(Finding {
            partition: partition.clone(),
            verdict,
            confidence,
            status,
            lag: sample.lag(),
            evidence,
        })
    };
    if let Some(changed) = recreated(case, partition, sample) {
        let (verdict, status) = (Verdict::TopicChanged, Status::Critical);
        return found(verdict, Confidence::High, status, vec![changed]);
    }
    let log = sample.log;
    let Some(committed) = sample.committed else {
        return no_commit(case, partition, sample);
    };
    let position = Evidence::Position { committed, log };
    if committed > log.high {
        let (verdict, status) = (Verdict::Ahead, Status::Critical);
        return found(verdict, Confidence::High, status, vec![position]);
    }
    if committed < log.log_start {
        let (verdict, status) = (Verdict::BelowLogStart, Status::Critical);
        return found(verdict, Confidence::High, status, vec![position]);
    }
    if committed == log.high {
        let (verdict, status) = (Verdict::CaughtUp, Status::Healthy);
        return found(verdict, Confidence::High, status, vec![position]);
    }
    if let Some(back) = went_back(case, partition) {
        let (status, mut evidence) = match case.last.moved_at {
            // Only a recovery since the last run explains it.
            Some(at) if moved_this_run(case, at) => {
                (Status::Healthy, vec![Evidence::MovedByRecovery { at }])
            }
            _ => (Status::Warning, Vec::new()),
        };
        evidence.extend([back, position]);
        return found(Verdict::Rewound, Confidence::High, status, evidence);
    }
    if case.policy.external_offsets {
        let (verdict, evidence) = (
            Verdict::ExternalOffsets,
            vec![Evidence::Configured, position],
        );
        return found(verdict, Confidence::High, Status::Healthy, evidence);
    }
    if case.last.is_empty()
        && let Some(jump) = &case.jump
    {
        let confidence = if case.last.is_simple {
            Confidence::High
        } else {
            Confidence::Medium
        };
        let evidence = vec![jump.clone(), position];
        return found(
            Verdict::ExternalOffsets,
            confidence,
            Status::Warning,
            evidence,
        );
    }
    let before = case.before_this_run(partition);
    let advanced = advanced(case, partition, committed);
    if advanced.is_none()
        && let Some((confidence, status, evidence)) = blocked(case, partition, sample, committed)
    {
        let evidence = [vec![evidence, position], isolation_note(case)].concat();
        return found(Verdict::BlockedByTransaction, confidence, status, evidence);
    }
    if advanced.is_none()
        && let Some((confidence, status, evidence)) = markers_only(case, partition, committed)
    {
        let evidence = [evidence, vec![position]].concat();
        return found(Verdict::MarkersOnly, confidence, status, evidence);
    }
    if let Some(by) = advanced {
        let advanced = Evidence::Advanced { by };
        if let Some(grew) = falls_behind(case, partition) {
            let (verdict, evidence) = (Verdict::Slow, vec![grew, advanced, position]);
            return found(verdict, Confidence::Medium, Status::Warning, evidence);
        }
        let (verdict, evidence) = (Verdict::Moving, vec![advanced, position]);
        return found(verdict, Confidence::High, Status::Healthy, evidence);
    }
    let still = case.still(partition, sample.committed);
    let (for_now, patience) = (stood(case, sample), patience(case.policy, sample));
    let enough = usize::try_from(case.policy.min_samples).unwrap_or(usize::MAX);
    if before.is_none() || runs(still) < enough || for_now < patience {
        let mut evidence = vec![if before.is_none() {
            Evidence::FirstSample
        } else {
            stillness(case, sample, still)
        }];
        if patience > SignedDuration::from_secs(i64::from(case.policy.stall_seconds))
            && for_now.as_secs() >= i64::from(case.policy.stall_seconds)
        {
            let seconds = sample.longest_pause_seconds;
            evidence.push(Evidence::StoodBefore { seconds });
        }
        evidence.push(position);
        return found(
            Verdict::Waiting,
            Confidence::High,
            Status::Healthy,
            evidence,
        );
    }
    None
}

/// For how long the commit was seen to stand.
fn stood(case: &Case<'_>, sample: &PartitionSample) -> SignedDuration {
    case.last.at.duration_since(sample.still_since)
}

/// How long a commit may stand before that is a stall: what the policy says, and longer where it was seen to stand
/// longer and then to move on by itself (consumers that commit rarely).
fn patience(policy: &GuardPolicy, sample: &PartitionSample) -> SignedDuration {
    let most = policy.stall_seconds.saturating_mul(PATIENCE);
    let seen = sample.longest_pause_seconds.saturating_mul(2).min(most);
    SignedDuration::from_secs(i64::from(policy.stall_seconds.max(seen)))
}

fn stillness(case: &Case<'_>, sample: &PartitionSample, still: &[Sample]) -> Evidence {
    Evidence::Still {
        since: sample.still_since,
        seconds: seconds(stood(case, sample)),
        runs: runs(still),
    }
}

fn seconds(duration: SignedDuration) -> u64 {
    u64::try_from(duration.as_secs()).unwrap_or(0)
}

/// Whether the topic is another one than that of an earlier sample, and the group has committed nothing in it yet.
///
/// As soon as it has, the partition is judged anew: an alarm that stays on for good is none.
fn recreated(
    case: &Case<'_>,
    partition: &TopicPartition,
    sample: &PartitionSample,
) -> Option<Evidence> {
    let now = case.last.topic_id(&partition.topic)?;
    let (before, then) = case.samples.iter().rev().find_map(|earlier| {
        let id = earlier.topic_id(&partition.topic)?;
        (id != now).then_some((id, earlier))
    })?;
    let committed_then = then.of_partition(partition).and_then(|p| p.committed);
    (sample.committed.is_none() || sample.committed == committed_then).then(|| {
        Evidence::TopicRecreated {
            before: before.to_string(),
            now: now.to_string(),
        }
    })
}

/// Rule 3.
fn no_commit(
    case: &Case<'_>,
    partition: &TopicPartition,
    sample: &PartitionSample,
) -> Option<Finding> {
    let offsets = distance(sample.log.log_start, sample.log.high);
    let mut evidence = vec![Evidence::NoPosition { offsets }];
    if sample.unstable {
        evidence.push(Evidence::PendingCommit);
    }
    let enough = usize::try_from(case.policy.min_samples).unwrap_or(usize::MAX);
    let runs = runs(case.still(partition, None));
    // Somebody is there to read it, and something is there to be read.
    let neglected = offsets > 0 && !case.last.members.is_empty() && runs >= enough;
    Some(Finding {
        partition: partition.clone(),
        verdict: Verdict::NoCommit,
        confidence: Confidence::High,
        status: if neglected {
            Status::Warning
        } else {
            Status::Healthy
        },
        lag: None,
        evidence,
    })
}

/// A commit that went back since the last run, and was not made up for.
fn went_back(case: &Case<'_>, partition: &TopicPartition) -> Option<Evidence> {
    let before = case.before_this_run(partition).and_then(|p| p.committed);
    let this_run = case
        .this_run()
        .filter_map(|sample| sample.of_partition(partition)?.committed);
    let positions: Vec<i64> = before.into_iter().chain(this_run).collect();
    let (&to, earlier) = positions.split_last()?;
    let &from = earlier.iter().max()?;
    (to < from).then_some(Evidence::WentBack { from, to })
}

fn moved_this_run(case: &Case<'_>, at: Timestamp) -> bool {
    case.samples
        .iter()
        .rev()
        .find(|sample| sample.run != case.last.run)
        .is_none_or(|before| at > before.at)
}

/// How far the commit came since the last run, or within this one.
fn advanced(case: &Case<'_>, partition: &TopicPartition, committed: i64) -> Option<u64> {
    let before = case.before_this_run(partition).and_then(|p| p.committed);
    let from = before.or_else(|| {
        case.this_run()
            .find_map(|sample| sample.of_partition(partition)?.committed)
    })?;
    Some(distance(from, committed)).filter(|by| *by > 0)
}

/// Rule 9: the consumers wait for somebody's transaction to end.
fn blocked(
    case: &Case<'_>,
    partition: &TopicPartition,
    sample: &PartitionSample,
    committed: i64,
) -> Option<(Confidence, Status, Evidence)> {
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
        let evidence = Evidence::OpenTransaction {
            last_stable: log.last_stable,
            seconds: seconds(open_for),
            hanging,
        };
        return Some((confidence, status, evidence));
    }
    if sample.unstable {
        let hanging = stood(case, sample) > LONGEST_TRANSACTION;
        let status = if hanging {
            Status::Critical
        } else {
            Status::Healthy
        };
        return Some((Confidence::Medium, status, Evidence::PendingCommit));
    }
    None
}

/// That a group was seen to read uncommitted records, where the configuration leaves it open.
fn isolation_note(case: &Case<'_>) -> Vec<Evidence> {
    if case.reads_uncommitted && case.policy.isolation == Isolation::Unknown {
        vec![Evidence::ReadsUncommitted]
    } else {
        Vec::new()
    }
}

/// Rule 10: the raw read found nothing that the consumers could read.
fn markers_only(
    case: &Case<'_>,
    partition: &TopicPartition,
    committed: i64,
) -> Option<(Confidence, Status, Vec<Evidence>)> {
    let probe = case.probe(partition, committed)?;
    let nothing = |until| Evidence::NothingVisible { until };
    match (&probe.committed, &probe.uncommitted) {
        (_, First::None { until }) => {
            Some((Confidence::High, Status::Healthy, vec![nothing(*until)]))
        }
        (First::None { until }, First::Record(_)) if !case.reads_uncommitted => {
            if case.policy.isolation == Isolation::ReadCommitted {
                return Some((Confidence::High, Status::Healthy, vec![nothing(*until)]));
            }
            // Aborted records: a read_committed group has read all, a read_uncommitted one may be stuck at them.
            let evidence = vec![nothing(*until), isolation_matters(probe)];
            Some((Confidence::Low, Status::Warning, evidence))
        }
        (First::None { .. } | First::Record(_), First::Record(_)) => None,
    }
}

fn isolation_matters(probe: &Probe) -> Evidence {
    Evidence::IsolationMatters {
        committed: probe.committed.offset(),
        uncommitted: probe.uncommitted.offset(),
    }
}

/// Rule 11: it moves, but its lag grew from each of the latest runs to the next.
fn falls_behind(case: &Case<'_>, partition: &TopicPartition) -> Option<Evidence> {
    let enough = RECENT_RUNS.max(usize::try_from(case.policy.min_samples).unwrap_or(RECENT_RUNS));
    let mut by_run: BTreeMap<Timestamp, u64> = BTreeMap::new();
    for sample in case.samples {
        if let Some(lag) = sample
            .of_partition(partition)
            .and_then(PartitionSample::lag)
        {
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

/// A partition that none of the rules 1 to 13 explains, with what its members did meanwhile.
struct Stalled<'a> {
    partition: &'a TopicPartition,
    sample: &'a PartitionSample,
    committed: i64,
    /// The looks since which the commit has stood.
    still: &'a [Sample],
    /// Who had it meanwhile.
    owners: BTreeSet<&'a str>,
}

impl<'a> Stalled<'a> {
    fn new(case: &Case<'a>, partition: &'a TopicPartition, sample: &'a PartitionSample) -> Self {
        let still = case.still(partition, sample.committed);
        let owners = still
            .iter()
            .filter_map(|look| look.of_partition(partition)?.owner.as_deref())
            .collect();
        Self {
            partition,
            sample,
            committed: sample.committed.unwrap_or_default(),
            still,
            owners,
        }
    }

    /// Whether two or more members had it while its commit stood, or members were replaced while nobody was seen to
    /// keep it.
    fn changed_hands(&self, last: &Sample) -> bool {
        let kept = match self.owners.first() {
            Some(only) if self.owners.len() == 1 => {
                last.members.iter().any(|m| m.member_id == **only)
            }
            _ => false,
        };
        self.owners.len() >= 2 || (!kept && replaced(self.still) >= 2)
    }

    /// Whether no other stalled partition can be why this one stands: none had the same member.
    fn is_singled_out(&self, stalled: &[Self]) -> bool {
        stalled
            .iter()
            .filter(|other| other.partition != self.partition)
            .all(|other| {
                !self.owners.is_empty()
                    && !other.owners.is_empty()
                    && self.owners.is_disjoint(&other.owners)
            })
    }
}

/// How many members were replaced by others: all that were there, less than the most that were there at once.
fn replaced(looks: &[Sample]) -> usize {
    let mut ids = BTreeSet::new();
    let mut most = 0;
    for look in looks {
        most = most.max(look.members.len());
        ids.extend(look.members.iter().map(|m| m.member_id.as_str()));
    }
    ids.len().saturating_sub(most)
}

/// Partitions that moved on from one look to the next, while somebody was there to move them.
fn moved<'a>(looks: &'a [Sample], except: &TopicPartition) -> BTreeSet<&'a TopicPartition> {
    let mut moved = BTreeSet::new();
    for pair in looks.windows(2) {
        let [a, b] = pair else { continue };
        if a.is_empty() && b.is_empty() {
            continue;
        }
        for (partition, reading) in &b.partitions {
            let earlier = a.of_partition(partition).and_then(|p| p.committed);
            let later = reading.as_ref().ok().and_then(|p| p.committed);
            if partition != except && earlier.is_some() && later > earlier {
                moved.insert(partition);
            }
        }
    }
    moved
}

/// Rules 14 to 22.
fn stall(case: &Case<'_>, stalled: &Stalled<'_>, all: &[Stalled<'_>]) -> Finding {
    let probe = case.probe(stalled.partition, stalled.committed);
    let members = Members::of(case.recent());
    let moved_meanwhile = moved(stalled.still, stalled.partition);
    let moved_lately = moved(case.recent(), stalled.partition);
    let facts = Facts {
        pinned: probe.and_then(|probe| pinned(case, probe)),
        changed_hands: stalled.changed_hands(case.last),
        others_moved: !moved_meanwhile.is_empty(),
        singled_out: stalled.is_singled_out(all),
        nothing_moves: moved_lately.is_empty(),
        alone: all.len() == 1,
        owner_stuck: owner_stuck(case, stalled, all, &moved_lately),
        unassigned: unassigned(case, stalled),
        two_samples: two_samples(case, stalled),
    };
    let (verdict, confidence) = decide(&facts, &members);
    let lag = stalled.sample.log.lag(stalled.committed);
    let status = if verdict == Verdict::PoisonLikely || lag >= case.policy.deadlock_lag_threshold {
        Status::Critical
    } else {
        Status::Warning
    };
    Finding {
        partition: stalled.partition.clone(),
        verdict,
        confidence: soften(case, probe, &facts, verdict, confidence),
        status,
        lag: Some(lag),
        evidence: evidence(
            case,
            stalled,
            all,
            probe,
            &members,
            &facts,
            verdict,
            &moved_meanwhile,
        ),
    }
}

/// What the rules 14 to 22 ask.
struct Facts {
    /// A validator does not pass the first record that the group's consumers see.
    pinned: Option<Evidence>,
    changed_hands: bool,
    others_moved: bool,
    singled_out: bool,
    nothing_moves: bool,
    alone: bool,
    owner_stuck: bool,
    unassigned: bool,
    two_samples: bool,
}

/// The rules 14 to 22 themselves.
fn decide(facts: &Facts, members: &Members) -> (Verdict, Confidence) {
    if facts.pinned.is_some() {
        (Verdict::PoisonLikely, Confidence::High)
    } else if facts.changed_hands && facts.others_moved && facts.singled_out {
        (Verdict::PoisonLikely, Confidence::Medium)
    } else if members.absent() {
        (Verdict::NoMembers, Confidence::High)
    } else if members.rebalance_loop() {
        (Verdict::RebalanceLoop, Confidence::Medium)
    } else if members.crash_loop() {
        (Verdict::CrashLoop, Confidence::Medium)
    } else if facts.unassigned {
        (Verdict::Unassigned, Confidence::High)
    } else if !facts.alone && facts.nothing_moves {
        (Verdict::GroupStuck, Confidence::Medium)
    } else if facts.owner_stuck {
        (Verdict::OwnerStuck, Confidence::Medium)
    } else if facts.alone && facts.two_samples {
        (Verdict::PoisonLikely, Confidence::Low)
    } else if facts.alone {
        let confidence = if facts.others_moved {
            Confidence::Medium
        } else {
            Confidence::Low
        };
        (Verdict::PoisonSuspected, confidence)
    } else {
        (Verdict::StalledUnknown, Confidence::Low)
    }
}

/// Poison that was inferred is less sure where nobody could look at the record, or where the validators pass it.
fn soften(
    case: &Case<'_>,
    probe: Option<&Probe>,
    facts: &Facts,
    verdict: Verdict,
    confidence: Confidence,
) -> Confidence {
    let inferred = verdict == Verdict::PoisonLikely && facts.pinned.is_none();
    let passes = probe.is_none_or(|probe| {
        !case.policy.validators.is_empty() && probe.validation.first_failure().is_none()
    });
    if inferred && passes {
        Confidence::Low
    } else {
        confidence
    }
}

/// What pins the first record that the consumers see as the poison record.
fn pinned(case: &Case<'_>, probe: &Probe) -> Option<Evidence> {
    let first = case.first_visible(probe)?.offset()?;
    let failure = probe.validation.failing_prefix().next()?;
    (failure.offset == first).then(|| Evidence::ValidatorFailed {
        offset: failure.offset,
        validator: failure.validator,
        problem: failure.problem.clone(),
    })
}

/// Whether the owner has two or more stalled partitions while those of other owners move.
fn owner_stuck(
    case: &Case<'_>,
    stalled: &Stalled<'_>,
    all: &[Stalled<'_>],
    moved: &BTreeSet<&TopicPartition>,
) -> bool {
    let owner_of = |partition: &TopicPartition| {
        let sample = case.last.of_partition(partition)?;
        sample.owner.as_deref()
    };
    let Some(owner) = owner_of(stalled.partition) else {
        return false;
    };
    let own = all
        .iter()
        .filter(|other| owner_of(other.partition) == Some(owner))
        .count();
    let others_move = moved
        .iter()
        .any(|partition| owner_of(partition).is_some_and(|other| other != owner));
    own >= 2 && others_move
}

/// Whether the group was at rest with members in the latest runs, and none of them had the partition.
fn unassigned(case: &Case<'_>, stalled: &Stalled<'_>) -> bool {
    let looks = looks_without_owner(case, stalled);
    let enough = usize::try_from(case.policy.min_samples).unwrap_or(usize::MAX);
    case.last.state == GroupState::Stable
        && looks.is_some_and(|looks| runs(case.recent()) >= enough.min(RECENT_RUNS) && looks >= 2)
}

/// In how many of the latest looks at rest no member had the partition; `None` if one had it in any.
fn looks_without_owner(case: &Case<'_>, stalled: &Stalled<'_>) -> Option<usize> {
    let at_rest = case
        .recent()
        .iter()
        .filter(|look| look.state == GroupState::Stable && !look.members.is_empty());
    let mut looks = 0;
    for look in at_rest {
        match look.of_partition(stalled.partition) {
            Some(sample) if sample.owner.is_some() => return None,
            Some(_) => looks += 1,
            None => {}
        }
    }
    Some(looks)
}

/// Whether the simplest rule in use would call it a deadlock, where the policy asks for that rule: the same commit in two
/// samples while the log grew, and enough lag.
fn two_samples(case: &Case<'_>, stalled: &Stalled<'_>) -> bool {
    let grew = case
        .before_this_run(stalled.partition)
        .is_some_and(|before| stalled.sample.log.high > before.log.high);
    let lag = stalled.sample.log.lag(stalled.committed);
    case.policy.two_sample_rule() && grew && lag >= case.policy.deadlock_lag_threshold
}

/// What the members did in the latest looks.
struct Members {
    looks: usize,
    empty: usize,
    rebalancing: usize,
    /// Nobody in any look of the newest run.
    empty_now: bool,
    /// Somebody came after nobody had been there.
    returns: usize,
    /// Nobody was there after somebody had been.
    departures: usize,
    /// Looks with members that were never seen before, the first look with members left out.
    turnovers: usize,
    /// A member of the first look with members is in the last one, and these are of different runs.
    survivor: bool,
    /// One look held two members of one client on one host, one of them new.
    doubles: bool,
}

impl Members {
    fn of(looks: &[Sample]) -> Self {
        let mut known: BTreeSet<&str> = BTreeSet::new();
        let (mut returns, mut departures, mut turnovers) = (0, 0, 0);
        let mut doubles = false;
        let mut before: Option<bool> = None;
        for look in looks {
            let empty = look.members.is_empty();
            match before {
                Some(true) if !empty => returns += 1,
                Some(false) if empty => departures += 1,
                _ => {}
            }
            before = Some(empty);
            let new = |id: &str| !known.contains(id);
            let fresh = look.members.iter().any(|m| new(&m.member_id));
            if fresh && !known.is_empty() {
                turnovers += 1;
                doubles |= look.members.iter().any(|m| {
                    new(&m.member_id)
                        && look.members.iter().any(|other| {
                            other.member_id != m.member_id
                                && (&other.client_id, &other.host) == (&m.client_id, &m.host)
                        })
                });
            }
            known.extend(look.members.iter().map(|m| m.member_id.as_str()));
        }
        let last_run = looks.last().map(|look| look.run);
        let mut with_members = looks.iter().filter(|look| !look.members.is_empty());
        let first = with_members.next();
        let last = with_members.next_back();
        let survivor = first.zip(last).is_some_and(|(first, last)| {
            first.run != last.run && first.members.iter().any(|m| last.members.contains(m))
        });
        Self {
            looks: looks.len(),
            empty: looks.iter().filter(|look| look.is_empty()).count(),
            rebalancing: looks.iter().filter(|look| look.is_rebalancing()).count(),
            empty_now: looks
                .iter()
                .filter(|look| Some(look.run) == last_run)
                .all(Sample::is_empty),
            returns,
            departures,
            turnovers,
            survivor,
            doubles,
        }
    }

    fn mostly_empty(&self) -> bool {
        self.empty * 2 > self.looks
    }

    fn mostly_rebalancing(&self) -> bool {
        self.rebalancing * 2 > self.looks && self.looks >= RECENT_RUNS
    }

    /// Whether all went and new ones came, again and again: processes that end, not members that rebalance.
    fn turns_over(&self) -> bool {
        !self.survivor && self.turnovers >= 2 && (self.empty > 0 || self.doubles)
    }

    fn absent(&self) -> bool {
        self.empty_now && (self.empty == self.looks || self.returns == 0)
    }

    fn rebalance_loop(&self) -> bool {
        self.mostly_rebalancing() && !self.turns_over()
    }

    fn crash_loop(&self) -> bool {
        self.turnovers >= 2
            || (self.turnovers >= 1 && self.mostly_empty())
            || (self.returns >= 1 && self.departures >= 1 && self.mostly_empty())
    }
}

/// What speaks for a verdict, the most telling first.
#[expect(
    clippy::too_many_arguments,
    reason = "it tells what all of these are, and decides nothing"
)]
fn evidence(
    case: &Case<'_>,
    stalled: &Stalled<'_>,
    all: &[Stalled<'_>],
    probe: Option<&Probe>,
    members: &Members,
    facts: &Facts,
    verdict: Verdict,
    moved: &BTreeSet<&TopicPartition>,
) -> Vec<Evidence> {
    let mut evidence = Vec::new();
    if facts.two_samples && verdict == Verdict::PoisonLikely {
        evidence.push(Evidence::TwoSamples);
    }
    evidence.extend(facts.pinned.clone());
    evidence.push(stillness(case, stalled.sample, stalled.still));
    if stalled.owners.len() >= 2 {
        let named = stalled.owners.iter().take(NAMED);
        evidence.push(Evidence::Owners {
            member_ids: named.map(|id| (*id).to_owned()).collect(),
            count: stalled.owners.len(),
        });
    }
    let arrivals = replaced(stalled.still);
    if arrivals > 0 {
        evidence.push(Evidence::Arrivals { count: arrivals });
    }
    match moved.first() {
        Some(example) => evidence.push(Evidence::OthersMoved {
            example: (*example).clone(),
            count: moved.len(),
        }),
        None => evidence.push(Evidence::NothingMoved),
    }
    if all.len() > 1 {
        let others = || all.iter().filter(|o| o.partition != stalled.partition);
        evidence.push(Evidence::AlsoStalled {
            partitions: others().take(NAMED).map(|o| o.partition.clone()).collect(),
            count: others().count(),
        });
    }
    let owner = stalled.sample.owner.as_ref().and_then(|owner| {
        let mut members = case.last.members.iter();
        members.find(|member| member.member_id == *owner)
    });
    match (owner, looks_without_owner(case, stalled)) {
        (Some(owner), _) => evidence.push(Evidence::Owner {
            client_id: owner.client_id.clone(),
            member_id: owner.member_id.clone(),
            host: owner.host.clone(),
        }),
        (None, Some(looks)) if looks > 0 => evidence.push(Evidence::NoOwner { looks }),
        (None, _) => {}
    }
    evidence.push(Evidence::Looks {
        looks: members.looks,
        empty: members.empty,
        rebalancing: members.rebalancing,
        state: case.last.state,
        members: case.last.members.len(),
    });
    evidence.extend(of_probe(case, stalled, probe, facts));
    evidence.extend(isolation_note(case));
    evidence.push(Evidence::Position {
        committed: stalled.committed,
        log: stalled.sample.log,
    });
    evidence
}

/// What the raw read found, or why there is none.
fn of_probe(
    case: &Case<'_>,
    stalled: &Stalled<'_>,
    probe: Option<&Probe>,
    facts: &Facts,
) -> Vec<Evidence> {
    let mut evidence = Vec::new();
    let Some(probe) = probe else {
        let why = match case.probes.get(stalled.partition) {
            Some(Err(fault)) => fault.to_string(),
            Some(Ok(_)) => "its records were read at another offset".to_owned(),
            None => "its records were not read".to_owned(),
        };
        return vec![Evidence::NotProbed { why }];
    };
    match case.first_visible(probe) {
        Some(First::Record(record)) => evidence.push(Evidence::FirstVisible {
            record: record.clone(),
            absent: distance(stalled.committed, record.offset),
        }),
        Some(First::None { until }) => evidence.push(Evidence::NothingVisible { until: *until }),
        None => evidence.push(isolation_matters(probe)),
    }
    match probe.validation.first_failure() {
        Some(failure) if facts.pinned.is_none() => evidence.push(Evidence::ValidatorFailed {
            offset: failure.offset,
            validator: failure.validator,
            problem: failure.problem.clone(),
        }),
        Some(_) => {}
        None if case.policy.validators.is_empty() => {}
        None => evidence.push(Evidence::ValidatorsPass {
            records: probe.validation.records.len(),
        }),
    }
    evidence
}
