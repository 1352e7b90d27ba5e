//! Histories of a group in a few lines: set what is true, then take a run's look at it, or one more look.
//!
//! Topic `shipments` unless a case says otherwise; every partition's log holds 0 to 200, committed is 100, and the group is
//! known to commit record by record. A member's name is a letter for its client and host, and a number for its
//! incarnation: `a2` is what `a1` is after a restart.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::{at, commit, describe, log, p, seen, topic};
use crate::group::{GroupObservation, GroupState, Member, PartitionReading};
use crate::guard::policy::{GuardPolicy, Validator};
use crate::guard::probe::{Failure, First, Probe, Probed, Validation};
use crate::guard::proposal::{Ask, Proposals, propose};
use crate::guard::record::{Fingerprint, Outline, TimestampType};
use crate::guard::rules::{Assessment, judge, reads_uncommitted};
use crate::guard::sample::{LiveRecovery, Sample};
use crate::guard::verdict::{Finding, Verdict};
use crate::offset::{Fault, TopicPartition};

/// What may be said of a record at `offset`.
pub fn outline(offset: i64) -> Outline {
    Outline {
        offset,
        leader_epoch: Some(5),
        timestamp_ms: 1_796_029_200_000,
        timestamp_type: TimestampType::CreateTime,
        key_bytes: Some(3),
        value_bytes: Some(17),
        headers: 1,
        fingerprint: Fingerprint(format!("{offset:064x}")),
    }
}

pub fn failure(offset: i64) -> Failure {
    Failure {
        offset,
        validator: Validator::Json,
        problem: "the value is no JSON: it is malformed at line 1, column 1".to_owned(),
    }
}

/// A probe that begins at `from` and finds these records for consumers of both isolation levels: `true` where a validator
/// fails.
pub fn probe(from: i64, records: &[(i64, bool)]) -> Probe {
    let first = match records.first() {
        Some((offset, _)) => First::Record(outline(*offset)),
        None => First::None { until: 200 },
    };
    let judged = |(offset, bad): &(i64, bool)| (*offset, bad.then(|| failure(*offset)));
    Probe {
        from,
        committed: first.clone(),
        uncommitted: first,
        validation: Validation {
            records: records.iter().map(judged).collect(),
        },
        unlike: None,
    }
}

/// A group's history, and what is true of it at the moment.
#[derive(Debug, Clone)]
pub struct History {
    pub samples: Vec<Sample>,
    pub seen: GroupObservation,
    pub unstable: BTreeSet<TopicPartition>,
    pub policy: GuardPolicy,
    /// What a raw read finds, where it is not one good record at the commit.
    pub probes: BTreeMap<TopicPartition, Probed>,
    pub moved_at: Option<Timestamp>,
    /// What holds the group while looks are taken.
    pub recovery: Option<LiveRecovery>,
    pub skips_today: BTreeMap<TopicPartition, u32>,
    now: Timestamp,
    run: Timestamp,
}

impl History {
    /// A group with so many partitions, and nobody in it yet.
    pub fn of(partitions: i32) -> Self {
        let count = usize::try_from(partitions).unwrap();
        let mut seen = seen(&vec![100; count], &vec![200; count]);
        seen.topics = [("shipments".to_owned(), topic(7, partitions))].into();
        Self {
            samples: Vec::new(),
            seen,
            unstable: BTreeSet::new(),
            policy: GuardPolicy {
                max_poll_records: Some(1),
                ..GuardPolicy::default()
            },
            probes: BTreeMap::new(),
            moved_at: None,
            recovery: None,
            skips_today: BTreeMap::new(),
            now: at("08:00:00"),
            run: at("08:00:00"),
        }
    }

    pub fn now(&self) -> Timestamp {
        self.now
    }

    pub fn policy(&mut self, change: impl FnOnce(&mut GuardPolicy)) -> &mut Self {
        change(&mut self.policy);
        self
    }

    /// Time in which nobody looks.
    pub fn pass(&mut self, seconds: i64) -> &mut Self {
        self.now += SignedDuration::from_secs(seconds);
        self
    }

    /// A new run, five minutes after the last look, with one look.
    pub fn run(&mut self) -> &mut Self {
        self.run_after(300)
    }

    pub fn runs(&mut self, count: usize) -> &mut Self {
        for _ in 0..count {
            self.run();
        }
        self
    }

    pub fn run_after(&mut self, seconds: i64) -> &mut Self {
        self.pass(seconds);
        self.run = self.now;
        self.take();
        self
    }

    /// One more look in this run, three seconds later.
    pub fn look(&mut self) -> &mut Self {
        self.pass(3);
        self.take();
        self
    }

    fn take(&mut self) {
        self.seen.ended_at = self.now;
        let history = &self.samples;
        let of = Sample::of(self.run, &self.seen, &self.unstable, history, self.moved_at);
        self.samples.push(Sample {
            recovery: self.recovery.clone(),
            trouble: None,
            ..of.unwrap()
        });
    }

    pub fn state(&mut self, state: GroupState) -> &mut Self {
        describe(&mut self.seen).state = state;
        self
    }

    /// The group at rest with these members and their partitions of `shipments`.
    pub fn stable(&mut self, members: &[(&str, &[i32])]) -> &mut Self {
        let of = |(name, partitions): &(&str, &[i32])| Member {
            member_id: format!("{name}-id"),
            client_id: name[..1].to_owned(),
            host: format!("/10.0.0.{}", name.as_bytes()[0]),
            instance_id: None,
            assignment: partitions.iter().map(|n| p(*n)).collect(),
        };
        describe(&mut self.seen).members = members.iter().map(of).collect();
        self.state(GroupState::Stable)
    }

    /// The members while they join: nobody has a partition.
    pub fn joining(&mut self, members: &[&str]) -> &mut Self {
        let members: Vec<(&str, &[i32])> = members.iter().map(|m| (*m, &[][..])).collect();
        self.stable(&members).state(GroupState::PreparingRebalance)
    }

    pub fn empty(&mut self) -> &mut Self {
        self.stable(&[]).state(GroupState::Empty)
    }

    pub fn reading(&mut self, partition: i32) -> &mut PartitionReading {
        self.seen.partitions.get_mut(&p(partition)).unwrap()
    }

    pub fn committed(&mut self, partition: i32, offset: i64) -> &mut Self {
        self.reading(partition).committed = Ok(Some(commit(offset)));
        self
    }

    pub fn no_commit(&mut self, partition: i32) -> &mut Self {
        self.reading(partition).committed = Ok(None);
        self
    }

    pub fn log(&mut self, partition: i32, start: i64, high: i64) -> &mut Self {
        self.reading(partition).log = Ok(log(start, high));
        self
    }

    /// A transaction is open at `last_stable`.
    pub fn open(&mut self, partition: i32, last_stable: i64) -> &mut Self {
        if let Ok(log) = &mut self.reading(partition).log {
            log.last_stable = last_stable;
        }
        self
    }

    pub fn high(&mut self, partition: i32, high: i64) -> &mut Self {
        self.log(partition, 0, high)
    }

    pub fn fails(&mut self, partition: i32) -> &mut Self {
        let fault = Fault::Failed {
            code: "REQUEST_TIMED_OUT".to_owned(),
        };
        self.reading(partition).log = Err(fault);
        self
    }

    /// The commits of these go on by 10, and their logs by 10 too.
    pub fn work(&mut self, partitions: &[i32]) -> &mut Self {
        for n in partitions {
            let reading = self.reading(*n);
            let committed = reading.committed.as_ref().unwrap().as_ref().unwrap().offset;
            let high = reading.log.as_ref().unwrap().high;
            self.committed(*n, committed + 10).high(*n, high + 10);
        }
        self
    }

    pub fn probed(&mut self, partition: i32, probe: Probe) -> &mut Self {
        self.probes.insert(p(partition), Ok(probe));
        self
    }

    pub fn judged_without_probes(&self) -> Assessment {
        judge(&self.samples, &BTreeMap::new(), &self.policy, self.now)
    }

    /// As a run does it: judge, read what the rules want to know more of, judge again, and propose.
    pub fn judged(&self) -> (Assessment, Proposals) {
        self.asked(None)
    }

    pub fn asked(&self, ask: Option<&Ask>) -> (Assessment, Proposals) {
        let probes = self.read_probes();
        let assessment = judge(&self.samples, &probes, &self.policy, self.now);
        let uncommitted = reads_uncommitted(&self.samples, &self.policy);
        let (policy, skips) = (&self.policy, &self.skips_today);
        let proposals = propose(&assessment, &probes, policy, uncommitted, ask, skips);
        (assessment, proposals)
    }

    /// What a run reads of what the rules want to know more of.
    pub fn read_probes(&self) -> BTreeMap<TopicPartition, Probed> {
        let mut probes = self.probes.clone();
        for partition in self.judged_without_probes().wants_probe {
            let sample = self.samples.last().unwrap().of_partition(&partition);
            let sample = sample.unwrap();
            let from = sample.committed.unwrap_or(sample.log.log_start);
            let good = probe(from, &[(from, false)]);
            probes.entry(partition).or_insert(Ok(good));
        }
        probes
    }

    pub fn finding(&self, partition: i32) -> Finding {
        let (assessment, _) = self.judged();
        let mut findings = assessment.findings.into_iter();
        findings.find(|f| f.partition == p(partition)).unwrap()
    }

    pub fn verdict(&self, partition: i32) -> Verdict {
        self.finding(partition).verdict
    }

    /// The verdicts in the order of partitions, where nothing is proposed.
    pub fn verdicts(&self) -> Vec<Verdict> {
        let (assessment, proposals) = self.judged();
        assert_eq!(proposals.skips, [], "a skip is proposed");
        assessment.findings.iter().map(|f| f.verdict).collect()
    }
}
