//! Questions about a group as a whole.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::case::{self, Case};
use super::counts::as_length;
use super::{members, uncommitted};
use crate::group::GroupState;
use crate::guard::policy::GuardPolicy;
use crate::guard::sample::{MembersTrouble, Sample, newest_runs, since_gap};
use crate::guard::verdict::Evidence;

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
    let runs = members::GONE_AFTER_RUNS.max(as_length(policy.min_samples));
    uncommitted::has_no_commits(samples)
        && newest_runs(samples, runs)
            .iter()
            .any(|look| !look.members.is_empty())
}

/// Whether the group's consumers read records of transactions that are open or aborted: so configured, or seen to move
/// a commit on to beyond a last stable offset.
#[must_use]
pub fn reads_uncommitted(samples: &[Sample], policy: &GuardPolicy) -> bool {
    case::reads_uncommitted(samples, policy)
}
