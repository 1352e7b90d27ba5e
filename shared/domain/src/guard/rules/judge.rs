//! Walks the rule table over all partitions of a group.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::case::Case;
use super::offsets::Position;
use super::picture::Picture;
use super::stall::Stall;
use super::standing::Standing;
use super::table::{Rule, explain, explain_stall};
use super::uncommitted;
use crate::guard::policy::GuardPolicy;
use crate::guard::probe::Probed;
use crate::guard::sample::Sample;
use crate::guard::verdict::{Finding, GroupFinding, Status, Verdict};
use crate::offset::TopicPartition;

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

/// A finding, and the rule that decided it.
pub(super) struct Decided {
    pub(super) finding: Finding,
    pub(super) rule: &'static Rule,
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
    let (decided, mut wants_probe) = decide_all(&case);
    let findings: Vec<_> = decided.into_iter().map(|decided| decided.finding).collect();
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

/// What is decided about each monitored partition, in order, and which partitions a probe would tell more of.
pub(super) fn decide_all(case: &Case<'_>) -> (Vec<Decided>, Vec<TopicPartition>) {
    let mut decided = Vec::new();
    // What is not monitored is not reported, but it may be why something else stands.
    let mut standing = Vec::new();
    for (partition, reading) in &case.last.partitions {
        let position = Position::new(case, partition, reading);
        decided.extend(explain(&position).map(|(rule, found)| Decided {
            finding: Finding {
                partition: partition.clone(),
                verdict: rule.verdict,
                confidence: found.confidence,
                status: found.status,
                lag: position.sample().and_then(|sample| sample.lag()),
                evidence: found.evidence,
            },
            rule,
        }));
        standing.extend(position.into_standing());
    }
    // What began to wait after the last run may be read in a moment.
    standing.retain(|here| here.stalled || here.runs() > 1);
    let stalls = decide_stalls(case, &standing);
    let mut wants_probe: Vec<_> = stalls
        .iter()
        .filter_map(|stall| wants_probe(case, stall))
        .collect();
    wants_probe.sort();
    decided.extend(stalls);
    decided.retain(|decided| case.policy.monitors(&decided.finding.partition.topic));
    decided.sort_by(|a, b| a.finding.partition.cmp(&b.finding.partition));
    (decided, wants_probe.into_iter().map(|(_, p)| p).collect())
}

/// Why each partition that stands for too long stands.
fn decide_stalls(case: &Case<'_>, standing: &[Standing<'_>]) -> Vec<Decided> {
    let picture = Picture::new(case, standing);
    let stalled = standing.iter().filter(|here| here.stalled);
    stalled
        .filter_map(|here| {
            let stall = Stall::new(case, here, &picture);
            let (rule, confidence) = explain_stall(&stall)?;
            let finding = stall.finding(rule.verdict, confidence);
            Some(Decided { finding, rule })
        })
        .collect()
}

/// How telling a probe of a stalled partition would be, the most telling first; `None` if it is not to be probed.
fn wants_probe(case: &Case<'_>, decided: &Decided) -> Option<(u8, TopicPartition)> {
    let finding = &decided.finding;
    let partition = &finding.partition;
    if !case.policy.monitors(&partition.topic) || case.is_probed(partition) {
        return None;
    }
    let telling = match decided.rule.verdict {
        Verdict::PoisonLikely => 0,
        Verdict::CrashLoop if finding.suspects().is_some() => 0,
        Verdict::PoisonSuspected => 1,
        _ => 2,
    };
    Some((telling, partition.clone()))
}
