//! The rule table: from samples and probes to a verdict for every partition.
//!
//! Rules 1 to 13 (`offsets`, and `standing` for the last of them) look at one partition's offsets and explain most of
//! what looks like a stall. Only what none of them explains is stalled, and only then members, owners and the other
//! partitions are asked (`stall`). The first rule that matches decides, and the last one always does.

mod case;
mod members;
mod offsets;
mod stall;
mod standing;
mod uncommitted;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::policy::{GuardPolicy, Isolation};
use super::probe::Probed;
use super::sample::{MembersTrouble, Sample, newest_runs, since_gap};
use super::verdict::{Evidence, Finding, GroupFinding, Status, Verdict};
use crate::group::GroupState;
use crate::offset::TopicPartition;
use case::Case;
use stall::Picture;
use standing::Standing;

/// At least so many runs are looked at for what the members do.
const RECENT_RUNS: usize = 3;
/// How many names one piece of evidence holds.
const NAMED: usize = 5;

/// What the rules say of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assessment {
    /// The worst of the findings; `Unknown` without any sample.
    pub status: Status,
    /// What is wrong with the group as a whole, where its partitions do not show it. Whatever is monitored, it is told.
    pub of_group: Option<GroupFinding>,
    /// One finding a monitored partition, in order.
    pub findings: Vec<Finding>,
    /// The partitions of which a probe would tell more, the most telling first: at their commit, or, where the group has
    /// none, at their log start.
    pub wants_probe: Vec<TopicPartition>,
}

impl Assessment {
    /// What there is to say where a group could not be read at all.
    #[must_use]
    pub fn unknown() -> Self {
        Self {
            status: Status::Unknown,
            of_group: None,
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
    // What is not watched is not told, but it may be why something else stands.
    let mut standing = Vec::new();
    for (partition, reading) in &case.last.partitions {
        let finding = match reading {
            Err(fault) => {
                // What stood when it was last read may be why something else stands.
                standing.extend(Standing::when_last_read(&case, partition));
                Some(offsets::unread(partition, fault))
            }
            Ok(sample) => offsets::explained(&case, partition, sample).or_else(|| {
                let here = Standing::new(&case, partition, sample);
                let waiting = here.waiting(&case);
                standing.push(here);
                waiting
            }),
        };
        findings.extend(finding);
    }
    // What began to wait after the last run may be read in a moment.
    standing.retain(|here| here.stalled || here.runs() > 1);
    let picture = Picture::of(&case, &standing);
    let mut wants_probe = Vec::new();
    for here in standing.iter().filter(|here| here.stalled) {
        let finding = stall::stall(&case, here, &picture);
        if policy.monitors(&here.partition.topic) && !probes.contains_key(here.partition) {
            let telling = match finding.verdict {
                Verdict::PoisonLikely => 0,
                Verdict::CrashLoop if finding.suspects().is_some() => 0,
                Verdict::PoisonSuspected => 1,
                _ => 2,
            };
            wants_probe.push((telling, here.partition.clone()));
        }
        findings.push(finding);
    }
    wants_probe.sort();
    findings.retain(|finding| policy.monitors(&finding.partition.topic));
    findings.sort_by(|a, b| a.partition.cmp(&b.partition));
    let mut wants_probe: Vec<_> = wants_probe.into_iter().map(|(_, p)| p).collect();
    let of_group = uncommitted::never_gets_to_commit(&case);
    if of_group.is_some() {
        wants_probe.extend(uncommitted::wants_probe(&case));
    }
    Assessment {
        status: findings
            .iter()
            .map(|finding| finding.status)
            .chain(of_group.iter().map(|finding| finding.status))
            .max()
            .unwrap_or(Status::Healthy),
        of_group,
        findings,
        wants_probe,
    }
}

/// What is wrong with the members at the end of the newest run, for the next run to go on from.
#[must_use]
pub fn trouble_of_members(
    samples: &[Sample],
    policy: &GuardPolicy,
    now: Timestamp,
) -> Option<MembersTrouble> {
    let no_probes = BTreeMap::new();
    let case = Case::new(samples, &no_probes, policy, now)?;
    Some(MembersTrouble {
        moving: case.trouble(false),
        unmoved: case.trouble(true),
    })
}

/// Whether a group is to be looked at several times within a run: something waits to be read and did not move since the
/// last run, or it waits in a group that is not at rest with members. Of one that never committed it is not known whether
/// anything waits, so it is enough that it is not at rest with the members that it had.
#[must_use]
pub fn is_suspicious(samples: &[Sample], policy: &GuardPolicy) -> bool {
    let Some((last, before)) = samples.split_last() else {
        return false;
    };
    let before = since_gap(before, last.at);
    if uncommitted::has_no_commits(samples) {
        let others = before
            .last()
            .is_some_and(|before| before.members != last.members);
        return last.state != GroupState::Stable || others;
    }
    last.partitions.iter().any(|(partition, reading)| {
        let Ok(sample) = reading else { return false };
        let unmoved = before
            .iter()
            .rev()
            .find_map(|earlier| earlier.of_partition(partition))
            .is_some_and(|earlier| earlier.committed == sample.committed);
        let restless = last.state != GroupState::Stable;
        policy.monitors(&partition.topic) && sample.waits() && (unmoved || restless)
    })
}

/// What shows that something else than members writes the group's offsets, in looks that say something about `now`.
#[must_use]
pub fn jump_without_members(samples: &[Sample], now: Timestamp) -> Option<Evidence> {
    case::jump_without_members(since_gap(samples, now))
}

/// Whether a group that the brokers do not know now is one without commits whose members went a short while ago: brokers
/// forget such a group, and it is back with the next member.
#[must_use]
pub fn is_forgotten(samples: &[Sample], policy: &GuardPolicy) -> bool {
    let runs = members::GONE_AFTER_RUNS.max(count(policy.min_samples));
    uncommitted::has_no_commits(samples)
        && newest_runs(samples, runs)
            .iter()
            .any(|look| !look.members.is_empty())
}

/// Whether the group's consumers read records of transactions that are open or aborted: so configured, or seen to move
/// a commit on to beyond a last stable offset.
///
/// That a commit lies there is no proof: a reset to the end of the log puts it there too, but only in a group without
/// members.
#[must_use]
pub fn reads_uncommitted(samples: &[Sample], policy: &GuardPolicy) -> bool {
    match policy.isolation {
        Isolation::ReadUncommitted => true,
        Isolation::ReadCommitted => false,
        Isolation::Unknown => samples.windows(2).any(|pair| {
            let [a, b] = pair else { return false };
            let by_members =
                !a.members.is_empty() && !b.members.is_empty() && a.moved_at == b.moved_at;
            by_members
                && b.partitions.iter().any(|(partition, reading)| {
                    let beyond = |p: &&super::sample::PartitionSample| {
                        p.committed
                            .is_some_and(|c| c > p.log.last_stable && c <= p.log.high)
                    };
                    let now = reading.as_ref().ok().filter(beyond);
                    let before = a.of_partition(partition);
                    now.zip(before)
                        .is_some_and(|(now, before)| now.committed > before.committed)
                })
        }),
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

fn seconds(duration: SignedDuration) -> u64 {
    u64::try_from(duration.as_secs()).unwrap_or(0)
}

/// A number of samples as a policy says it.
fn count(samples: u32) -> usize {
    usize::try_from(samples).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
