//! All that the rules look at.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::counts::{RECENT_RUNS, as_length};
use super::members::GONE_AFTER_RUNS;
use crate::guard::policy::{GuardPolicy, Isolation};
use crate::guard::probe::{First, Probe, Probed};
use crate::guard::sample::{PartitionSample, Sample, Trouble, is_another, newest_runs, since_gap};
use crate::guard::verdict::Evidence;
use crate::offset::TopicPartition;

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
    // Worked out when they are asked.
    by_record: OnceCell<BTreeSet<String>>,
    trouble: OnceCell<Trouble>,
    trouble_of_the_unmoved: OnceCell<Trouble>,
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
            by_record: OnceCell::new(),
            jump: jump_without_members(samples),
            trouble: OnceCell::new(),
            trouble_of_the_unmoved: OnceCell::new(),
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

    /// That a recovery moved the group since the last run.
    pub(super) fn moved_by_recovery(&self) -> Option<Evidence> {
        let at = self.last.moved_at?;
        let before = self
            .samples
            .iter()
            .rev()
            .find(|sample| sample.run != self.last.run);
        let since = before.is_none_or(|before| before.moved_at != Some(at) || at > before.at);
        since.then_some(Evidence::MovedByRecovery { at })
    }

    /// The looks of the latest runs.
    pub(super) fn recent(&self) -> &'a [Sample] {
        newest_runs(self.samples, self.least_runs())
    }

    /// Over how many runs the members are looked at.
    fn least_runs(&self) -> usize {
        RECENT_RUNS.max(as_length(self.policy.min_samples))
    }

    /// What is wrong with the members; `nothing_moves`: no commit of the group moved in the latest runs.
    ///
    /// What a recovery of Offset Guard stopped did not crash, so only the looks since it moved the group count.
    pub(super) fn trouble(&self, nothing_moves: bool) -> Trouble {
        let place = if nothing_moves {
            &self.trouble_of_the_unmoved
        } else {
            &self.trouble
        };
        *place.get_or_init(|| {
            let before = |look: &Sample| look.moved_at != self.last.moved_at;
            let from = self.samples.iter().rposition(before).map_or(0, |at| at + 1);
            let looks = self.samples.get(from..).unwrap_or_default();
            Trouble::of(looks, self.least_runs(), nothing_moves)
        })
    }

    /// Whether the group is known to commit the records of `topic` one by one: so configured, or seen to.
    pub(super) fn commits_by_record(&self, topic: &str) -> bool {
        let seen = || committed_by_record(self.samples);
        self.policy.max_poll_records == Some(1) || self.by_record.get_or_init(seen).contains(topic)
    }

    /// When somebody was last seen in the group, and how many runs saw nobody since; `None` where somebody is there.
    pub(super) fn last_seen(&self) -> Option<Evidence> {
        let mut looks = self.samples.iter().rev();
        let seen = looks.find(|look| !look.members.is_empty());
        if seen.is_some_and(|seen| seen.run == self.last.run) {
            return None;
        }
        let is_since = |look: &&Sample| seen.is_none_or(|seen| look.run > seen.run);
        let since = self.samples.iter().filter(is_since);
        let runs: BTreeSet<_> = since.map(|look| look.run).collect();
        Some(Evidence::LastSeen {
            at: seen.map(|look| look.at),
            runs: runs.len(),
            limit: GONE_AFTER_RUNS,
        })
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

    /// Whether somebody has tried to probe `partition`.
    pub(super) fn is_probed(&self, partition: &TopicPartition) -> bool {
        self.probes.contains_key(partition)
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

    /// Up to where the group's consumers may have read, exclusive: all that is there, where their isolation level is not
    /// known.
    pub(super) fn may_be_read(&self, sample: &PartitionSample) -> i64 {
        match self.policy.isolation {
            Isolation::ReadCommitted => sample.log.last_stable,
            Isolation::Unknown | Isolation::ReadUncommitted => sample.log.high,
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
/// have come, worked and gone. What spans a recovery of Offset Guard, or lies within one, was that recovery.
pub(super) fn jump_without_members(samples: &[Sample]) -> Option<Evidence> {
    if !samples.iter().all(Sample::is_empty) {
        return None;
    }
    samples.windows(2).find_map(|pair| {
        let [a, b] = pair else { return None };
        let counts =
            a.moved_at == b.moved_at && !b.is_being_moved() && (a.run == b.run || b.is_simple);
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

/// How many steps of one offset, one after the other, show that a group commits record by record.
const STEPS: i64 = 3;

/// The topics of which a partition's commit was seen to go on by one offset at a time while more records waited than it came
/// past: a consumer that commits what one poll returned would have taken them along. Who reads another topic in the same
/// group may do it otherwise.
///
/// One such step may be chance: a fetch that was made before the other records came holds one record. So may two, since
/// the client fetches ahead. The third fetch is made after the first commit, and finds all that waited by then.
fn committed_by_record(samples: &[Sample]) -> BTreeSet<String> {
    let mut topics = BTreeSet::new();
    // Of each partition, where its commit last stood, where the steps began, and the end of the log at that time.
    let mut steps: BTreeMap<&TopicPartition, (i64, i64, i64)> = BTreeMap::new();
    let mut before: Option<&Sample> = None;
    for look in samples {
        let by_members = before.is_some_and(|before| {
            before.moved_at == look.moved_at
                && !look.is_being_moved()
                && !before.members.is_empty()
                && !look.members.is_empty()
        });
        before = Some(look);
        for (partition, reading) in &look.partitions {
            let Some((committed, high)) = reading
                .as_ref()
                .ok()
                .and_then(|p| Some((p.committed?, p.log.high)))
            else {
                steps.remove(partition);
                continue;
            };
            let place = steps
                .entry(partition)
                .or_insert((committed, committed, high));
            let (at, began, _) = *place;
            if !by_members || (committed != at && committed != at.saturating_add(1)) {
                *place = (committed, committed, high);
                continue;
            }
            // While it stands at the beginning, what waits there may still grow.
            if committed == began {
                place.2 = high;
            }
            place.0 = committed;
            let (at, began, high) = *place;
            if at - began >= STEPS && high > began.saturating_add(STEPS) {
                topics.insert(partition.topic.clone());
            }
        }
    }
    topics
}

/// Whether the group's consumers read records of transactions that are open or aborted: so configured, or seen to move
/// a commit on to beyond a last stable offset.
///
/// That a commit lies there is no proof: a reset to the end of the log puts it there too, but only in a group without
/// members.
pub(super) fn reads_uncommitted(samples: &[Sample], policy: &GuardPolicy) -> bool {
    match policy.isolation {
        Isolation::ReadUncommitted => true,
        Isolation::ReadCommitted => false,
        Isolation::Unknown => samples.windows(2).any(|pair| {
            let [a, b] = pair else { return false };
            let by_members =
                !a.members.is_empty() && !b.members.is_empty() && a.moved_at == b.moved_at;
            by_members
                && b.partitions.iter().any(|(partition, reading)| {
                    let beyond = |p: &&PartitionSample| {
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
