//! What is proposed for the findings of a run, or why nothing is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::policy::{GuardPolicy, Isolation, RemediationAction, SkipOn};
use super::probe::{First, Probe, Probed};
use super::rules::Assessment;
use super::verdict::{Finding, Verdict};
use crate::offset::TopicPartition;
use crate::refusal::Refusal;

/// What a person asks the guard to plan, whatever it would propose by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Which partition.
    pub partition: TopicPartition,
    /// Skip or rewind.
    pub action: RemediationAction,
    /// The last offset that a skip passes over, where it is more than the record that stands in the way. Every record up
    /// to it is quarantined, good ones too.
    pub through: Option<i64>,
}

/// A part of the log that a plan passes over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkipRange {
    /// The partition.
    pub partition: TopicPartition,
    /// The committed offset.
    pub committed: i64,
    /// The first visible record from there on.
    pub first: i64,
    /// The last record that is passed over; the target is the offset after it.
    pub last: i64,
}

/// What to plan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Proposals {
    /// Parts of logs to pass over: one plan.
    pub skips: Vec<SkipRange>,
    /// Positions to go back to: one plan.
    pub rewinds: BTreeMap<TopicPartition, i64>,
    /// Why nothing is proposed where something might have been.
    pub withheld: Vec<Refusal>,
}

/// Decides what to propose. `skips_today` counts each partition's skips of the last 24 hours.
#[must_use]
pub fn propose(
    assessment: &Assessment,
    probes: &BTreeMap<TopicPartition, Probed>,
    policy: &GuardPolicy,
    reads_uncommitted: bool,
    ask: Option<&Ask>,
    skips_today: &BTreeMap<TopicPartition, u32>,
) -> Proposals {
    let mut proposals = Proposals::default();
    if let Some(ask) = ask
        && !assessment
            .findings
            .iter()
            .any(|finding| finding.partition == ask.partition)
    {
        proposals.withheld.push(Refusal::PartitionUnknown {
            partition: ask.partition.clone(),
        });
    }
    for finding in &assessment.findings {
        let asked = ask.filter(|ask| ask.partition == finding.partition);
        let action = asked.map_or(policy.remediation_action, |ask| ask.action);
        // A person who asks for one partition gets a plan for that one.
        if ask.is_some() && asked.is_none() {
            continue;
        }
        match action {
            RemediationAction::AuditOnly => {}
            RemediationAction::RewindOffset => match rewind(finding, policy, asked.is_some()) {
                Some(Ok(to)) => {
                    proposals.rewinds.insert(finding.partition.clone(), to);
                }
                Some(Err(refusal)) => proposals.withheld.push(refusal),
                None => {}
            },
            RemediationAction::SkipPoisonRecord => {
                let probe = probes.get(&finding.partition);
                let today = skips_today.get(&finding.partition).copied().unwrap_or(0);
                match skip(finding, probe, policy, reads_uncommitted, asked, today) {
                    Some(Ok(range)) => proposals.skips.push(range),
                    Some(Err(refusal)) => proposals.withheld.push(refusal),
                    None => {}
                }
            }
        }
    }
    proposals
}

/// Where to go back to: only from where an offset has left its log, or where a person asks for it.
fn rewind(finding: &Finding, policy: &GuardPolicy, asked: bool) -> Option<Result<i64, Refusal>> {
    let back = i64::from(policy.rewind_record_count);
    let (committed, log) = match finding.position() {
        Some(position) => position,
        None if asked => return Some(Err(not_warranted(finding))),
        None => return None,
    };
    match finding.verdict {
        Verdict::BelowLogStart => Some(Ok(log.log_start)),
        Verdict::Ahead => Some(Ok(log.high.saturating_sub(back).max(log.log_start))),
        Verdict::NoData | Verdict::TopicChanged | Verdict::NoCommit => {
            asked.then(|| Err(not_warranted(finding)))
        }
        Verdict::CaughtUp
        | Verdict::Rewound
        | Verdict::ExternalOffsets
        | Verdict::BlockedByTransaction
        | Verdict::MarkersOnly
        | Verdict::Slow
        | Verdict::Moving
        | Verdict::Waiting
        | Verdict::PoisonLikely
        | Verdict::NoMembers
        | Verdict::RebalanceLoop
        | Verdict::CrashLoop
        | Verdict::Unassigned
        | Verdict::GroupStuck
        | Verdict::OwnerStuck
        | Verdict::PoisonSuspected
        | Verdict::StalledUnknown => {
            asked.then(|| Ok(committed.saturating_sub(back).max(log.log_start)))
        }
    }
}

fn not_warranted(finding: &Finding) -> Refusal {
    Refusal::NotWarranted {
        partition: finding.partition.clone(),
        verdict: finding.verdict,
    }
}

/// Whether a skip may be proposed for a verdict at all: by itself, or because a person asks for it.
#[must_use]
pub fn warrants_skip(verdict: Verdict, policy: &GuardPolicy, asked: bool) -> bool {
    match verdict {
        Verdict::PoisonLikely => true,
        Verdict::PoisonSuspected => asked || policy.skip_on == SkipOn::Suspected,
        // The person may know what cannot be seen from here; the record waits at the commit all the same.
        Verdict::Waiting
        | Verdict::NoMembers
        | Verdict::RebalanceLoop
        | Verdict::CrashLoop
        | Verdict::Unassigned
        | Verdict::GroupStuck
        | Verdict::OwnerStuck
        | Verdict::StalledUnknown => asked,
        Verdict::NoData
        | Verdict::TopicChanged
        | Verdict::NoCommit
        | Verdict::Ahead
        | Verdict::BelowLogStart
        | Verdict::CaughtUp
        | Verdict::Rewound
        | Verdict::ExternalOffsets
        | Verdict::BlockedByTransaction
        | Verdict::MarkersOnly
        | Verdict::Slow
        | Verdict::Moving => false,
    }
}

/// Whether a record further on may be what the consumers do not get past, although no skip is proposed.
fn may_hide_poison(verdict: Verdict) -> bool {
    matches!(
        verdict,
        Verdict::RebalanceLoop
            | Verdict::CrashLoop
            | Verdict::GroupStuck
            | Verdict::OwnerStuck
            | Verdict::PoisonSuspected
            | Verdict::StalledUnknown
    )
}

/// The records to pass over: `None` where no skip is in question, and a refusal where one is and must not be.
fn skip(
    finding: &Finding,
    probe: Option<&Probed>,
    policy: &GuardPolicy,
    reads_uncommitted: bool,
    asked: Option<&Ask>,
    skips_today: u32,
) -> Option<Result<SkipRange, Refusal>> {
    if warrants_skip(finding.verdict, policy, asked.is_some()) {
        // A person may know which record it is.
        if asked.is_none()
            && let Some(refusal) = one_of_many(finding)
        {
            return Some(Err(refusal));
        }
        let through = asked.and_then(|ask| ask.through);
        let range = range(
            finding,
            probe,
            policy,
            reads_uncommitted,
            through,
            skips_today,
        );
        return Some(range);
    }
    if asked.is_some() {
        return Some(Err(not_warranted(finding)));
    }
    if !may_hide_poison(finding.verdict) {
        return None;
    }
    let probe = probe?.as_ref().ok()?;
    let first = first_record(probe, policy, reads_uncommitted, finding).ok()?;
    further_on(probe, first, finding).map(Err)
}

fn range(
    finding: &Finding,
    probe: Option<&Probed>,
    policy: &GuardPolicy,
    reads_uncommitted: bool,
    through: Option<i64>,
    skips_today: u32,
) -> Result<SkipRange, Refusal> {
    let partition = || finding.partition.clone();
    let unreadable = |why: String| Refusal::RecordUnreadable {
        partition: partition(),
        why,
    };
    let probe = match probe {
        Some(Ok(probe)) => probe,
        Some(Err(fault)) => return Err(unreadable(fault.to_string())),
        None => return Err(unreadable("it was not read in this run".to_owned())),
    };
    let (committed, log) = finding
        .position()
        .ok_or_else(|| unreadable("the group has no position".to_owned()))?;
    if probe.from != committed {
        return Err(unreadable(
            "the group moved while it was being read".to_owned(),
        ));
    }
    if skips_today >= policy.max_skips_per_day {
        return Err(Refusal::TooManySkips {
            partition: partition(),
            skips: skips_today,
            limit: policy.max_skips_per_day,
        });
    }
    let first = first_record(probe, policy, reads_uncommitted, finding)?;
    let last = match through {
        Some(through) => through,
        None => poison(probe, first, finding)?,
    };
    let end = if reads_uncommitted {
        log.high
    } else {
        log.last_stable
    };
    if last < first || last >= end {
        return Err(Refusal::InvalidRequest {
            field: "through".to_owned(),
            problem: format!(
                "{last} is not among the records that wait in {}, {first} to {}",
                finding.partition,
                end.saturating_sub(1)
            ),
        });
    }
    Ok(SkipRange {
        partition: partition(),
        committed,
        first,
        last,
    })
}

/// The first record that the group's consumers see.
fn first_record(
    probe: &Probe,
    policy: &GuardPolicy,
    reads_uncommitted: bool,
    finding: &Finding,
) -> Result<i64, Refusal> {
    let (committed, uncommitted) = (probe.committed.offset(), probe.uncommitted.offset());
    if policy.isolation == Isolation::Unknown && !reads_uncommitted && committed != uncommitted {
        return Err(Refusal::IsolationUnknown {
            partition: finding.partition.clone(),
            committed,
            uncommitted,
        });
    }
    let first = if reads_uncommitted {
        &probe.uncommitted
    } else {
        &probe.committed
    };
    match first {
        First::Record(record) => Ok(record.offset),
        First::None { until } => Err(Refusal::RecordUnreadable {
            partition: finding.partition.clone(),
            why: format!("no record is visible before {until}"),
        }),
    }
}

/// The last of the records that stand in the way: those that fail one after another from the first on, or the first
/// alone where nothing is known against any.
fn poison(probe: &Probe, first: i64, finding: &Finding) -> Result<i64, Refusal> {
    if let Some(last) = probe.validation.failing_from(first).last() {
        return Ok(last.offset);
    }
    match further_on(probe, first, finding) {
        Some(refusal) => Err(refusal),
        None => Ok(first),
    }
}

/// That nothing tells which of several records stops the consumers: the next one may well be good.
fn one_of_many(finding: &Finding) -> Option<Refusal> {
    let (first, last, records) = finding.suspects()?;
    Some(Refusal::RecordNotSingledOut {
        partition: finding.partition.clone(),
        first,
        last,
        records,
    })
}

/// That it is not the record that waits which stands out, but one behind it: a validator does not pass it, or it is of
/// another kind than all before the commit. A commit passes over a prefix: the good records before it would be lost.
fn further_on(probe: &Probe, first: i64, finding: &Finding) -> Option<Refusal> {
    let unlike = probe.unlike.as_ref().map(|unlike| &unlike.failure);
    let failure = probe.validation.first_failure().or(unlike)?;
    (failure.offset > first).then(|| Refusal::PoisonNotAtCommitted {
        partition: finding.partition.clone(),
        first,
        poison: failure.offset,
    })
}

#[cfg(test)]
mod tests;
