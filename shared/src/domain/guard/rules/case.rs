//! All that the rules look at.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::super::policy::{GuardPolicy, Isolation};
use super::super::probe::{First, Probe, Probed};
use super::super::sample::{PartitionSample, Sample, is_another, since_gap};
use super::super::verdict::Evidence;
use super::{RECENT_RUNS, count, reads_uncommitted};
use crate::domain::offset::TopicPartition;

/// All that the rules look at.
pub(super) struct Case<'a> {
    /// In the order of time, without a gap; never empty.
    pub(super) samples: &'a [Sample],
    pub(super) last: &'a Sample,
    pub(super) policy: &'a GuardPolicy,
    /// The group is known to read records of open and aborted transactions.
    pub(super) reads_uncommitted: bool,
    /// A commit moved although nobody is ever in the group.
    pub(super) jump: Option<Evidence>,
    probes: &'a BTreeMap<TopicPartition, Probed>,
}

impl<'a> Case<'a> {
    pub(super) fn new(
        samples: &'a [Sample],
        probes: &'a BTreeMap<TopicPartition, Probed>,
        policy: &'a GuardPolicy,
        now: Timestamp,
    ) -> Option<Self> {
        // A newest sample that is too old says nothing about now.
        let samples = since_gap(samples, now);
        Some(Self {
            samples,
            last: samples.last()?,
            policy,
            reads_uncommitted: reads_uncommitted(samples, policy),
            jump: jump_without_members(samples),
            probes,
        })
    }

    /// The last sample of an earlier run in which `partition` was read in the log that it has now.
    pub(super) fn before_this_run(
        &self,
        partition: &TopicPartition,
    ) -> Option<(&'a Sample, &'a PartitionSample)> {
        let id = self.last.topic_id(&partition.topic);
        self.samples
            .iter()
            .rev()
            .filter(|sample| sample.run != self.last.run)
            .find_map(|sample| Some((sample, sample.of_partition(partition)?)))
            .filter(|(sample, _)| !is_another(sample.topic_id(&partition.topic), id))
    }

    /// The looks of the latest runs.
    pub(super) fn recent(&self) -> &'a [Sample] {
        let runs = RECENT_RUNS.max(count(self.policy.min_samples));
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

    pub(super) fn this_run(&self) -> impl Iterator<Item = &'a Sample> {
        let run = self.last.run;
        self.samples.iter().filter(move |sample| sample.run == run)
    }

    /// The probe of `partition`, if it is one of where the group is now.
    pub(super) fn probe(&self, partition: &TopicPartition, committed: i64) -> Option<&'a Probe> {
        match self.probes.get(partition)? {
            Ok(probe) if probe.from == committed => Some(probe),
            Ok(_) | Err(_) => None,
        }
    }

    /// Why there is no probe of `partition` where the group is now; `None` where nobody has asked for one yet.
    pub(super) fn not_probed(&self, partition: &TopicPartition, committed: i64) -> Option<String> {
        match self.probes.get(partition)? {
            Ok(probe) if probe.from == committed => None,
            Ok(_) => Some("its records were read at another offset".to_owned()),
            Err(fault) => Some(fault.to_string()),
        }
    }

    /// What the group's consumers see first; `None` where that depends on an isolation level that nobody knows.
    pub(super) fn first_visible(&self, probe: &'a Probe) -> Option<&'a First> {
        if self.reads_uncommitted {
            return Some(&probe.uncommitted);
        }
        let same = probe.committed.offset() == probe.uncommitted.offset();
        (self.policy.isolation == Isolation::ReadCommitted || same).then_some(&probe.committed)
    }

    /// Up to where the group's consumers can read, exclusive: at least so far, where their isolation level is not known.
    pub(super) fn readable(&self, sample: &PartitionSample) -> i64 {
        if self.reads_uncommitted {
            sample.log.high
        } else {
            sample.log.last_stable
        }
    }

    /// That a group was seen to read uncommitted records, where the configuration leaves it open.
    pub(super) fn isolation_note(&self) -> Option<Evidence> {
        let seen = self.reads_uncommitted && self.policy.isolation == Isolation::Unknown;
        seen.then_some(Evidence::ReadsUncommitted)
    }
}

pub(super) fn isolation_matters(probe: &Probe) -> Evidence {
    Evidence::IsolationMatters {
        committed: probe.committed.offset(),
        uncommitted: probe.uncommitted.offset(),
    }
}

/// Commits that moved on while nobody was in the group, in which nobody was ever seen: whoever is seen now and then may
/// have been there in between.
///
/// Of a group that once had a protocol only what moves between two looks of one run counts: between two runs a member may
/// have come, worked and gone. What spans a recovery of Offset Guard was that recovery.
pub(super) fn jump_without_members(samples: &[Sample]) -> Option<Evidence> {
    if !samples.iter().all(Sample::is_empty) {
        return None;
    }
    samples.windows(2).find_map(|pair| {
        let [a, b] = pair else { return None };
        let counts = a.moved_at == b.moved_at && (a.run == b.run || b.is_simple);
        b.partitions
            .iter()
            .filter(|_| counts)
            .find_map(|(partition, now)| {
                let from = a.of_partition(partition)?.committed?;
                let to = now.as_ref().ok()?.committed?;
                (to > from).then(|| Evidence::JumpedWithoutMembers {
                    partition: partition.clone(),
                    from,
                    to,
                })
            })
    })
}
