//! Partitions whose commit stands although there is something to read: for how long, and through whose hands they went.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::case::Case;
use super::counts::{as_length, whole_seconds};
use super::members::measure_turnover;
use crate::group::{GroupState, MemberSeen};
use crate::guard::policy::GuardPolicy;
use crate::guard::probe::First;
use crate::guard::sample::{PartitionSample, Sample, is_another};
use crate::guard::verdict::Evidence;
use crate::offset::TopicPartition;

/// A pause that was seen before stretches the time until a stall, but no further than so many times.
const PATIENCE: u32 = 6;

/// A partition whose offsets do not explain where it is.
pub(super) struct Standing<'a> {
    pub(super) partition: &'a TopicPartition,
    pub(super) sample: &'a PartitionSample,
    pub(super) committed: i64,
    /// Since when its commit was seen to stand with a record behind it that its consumers could read.
    pub(super) since: Timestamp,
    /// The samples since then.
    pub(super) looks: &'a [Sample],
    /// The place of the first of `looks` among all samples.
    pub(super) from: usize,
    /// Who had it meanwhile, by member id.
    pub(super) owners: BTreeSet<&'a str>,
    /// For long enough, and in enough runs.
    pub(super) stalled: bool,
}

impl<'a> Standing<'a> {
    pub(super) fn new(
        case: &Case<'a>,
        partition: &'a TopicPartition,
        sample: &'a PartitionSample,
    ) -> Self {
        let committed = sample.committed.unwrap_or_default();
        let (since, looks) = since(case, partition, sample, committed);
        let mut here = Self {
            partition,
            sample,
            committed,
            since,
            looks,
            from: case.samples.len() - looks.len(),
            owners: looks
                .iter()
                .filter_map(|look| look.of_partition(partition)?.owner.as_deref())
                .collect(),
            stalled: false,
        };
        here.stalled = here.runs() >= as_length(case.policy.min_samples).max(2)
            && here.stood(case) >= patience(case.policy, sample);
        here
    }

    /// Of a partition that could not be read this time; never stalled.
    pub(super) fn when_last_read(case: &Case<'a>, partition: &'a TopicPartition) -> Option<Self> {
        let mut looks = case.samples.iter().rev();
        let sample = looks.find_map(|look| look.of_partition(partition))?;
        sample.waits().then(|| Self {
            stalled: false,
            ..Self::new(case, partition, sample)
        })
    }

    /// In how many runs it was seen to stand: those in which its reading failed are none.
    pub(super) fn runs(&self) -> usize {
        let read = |look: &&Sample| look.of_partition(self.partition).is_some();
        let of_runs: BTreeSet<_> = self.looks.iter().filter(read).map(|l| l.run).collect();
        of_runs.len()
    }

    /// Since when it has been in somebody's hands without a break, where that is too short to blame who has it or what they
    /// have: whoever comes back to an old commit gets the time that everybody gets.
    ///
    /// A run in which nobody was seen to have it is a break. What lies before the first look that is remembered is none.
    pub(super) fn is_new_in_hands(&self, case: &Case<'_>) -> Option<Evidence> {
        let has = |look: &&Sample| {
            let nobodys = look.state == GroupState::Stable
                && look
                    .of_partition(self.partition)
                    .is_some_and(|p| p.owner.is_none());
            !look.members.is_empty() && !nobodys
        };
        let mut runs = BTreeSet::new();
        let mut since = None;
        let mut rest = self.looks;
        while let Some(last) = rest.last() {
            let from = rest.partition_point(|look| look.run != last.run);
            let (before, of_run) = rest.split_at(from);
            let Some(first) = of_run.iter().find(has) else {
                break;
            };
            runs.insert(last.run);
            since = Some(first.at);
            rest = before;
        }
        if rest.is_empty() {
            return None;
        }
        let since = since.unwrap_or(case.last.at);
        let had = case.last.at.duration_since(since);
        let long = had >= patience(case.policy, self.sample)
            && runs.len() >= as_length(case.policy.min_samples).max(2);
        (!long).then(|| Evidence::OwnedSince {
            since,
            seconds: whole_seconds(had),
        })
    }

    fn stood(&self, case: &Case<'_>) -> SignedDuration {
        case.last.at.duration_since(self.since)
    }

    pub(super) fn stillness(&self, case: &Case<'_>) -> Evidence {
        Evidence::Still {
            since: self.since,
            seconds: whole_seconds(self.stood(case)),
            runs: self.runs(),
        }
    }

    /// Why it is too early to call it a stall, the most telling first; `None` if it has stood for long enough.
    pub(super) fn waiting(&self, case: &Case<'_>) -> Option<Vec<Evidence>> {
        if self.stalled {
            return None;
        }
        let by_us = case.moved_by_recovery().filter(|_| self.runs() <= 1);
        let mut evidence = vec![match by_us {
            Some(by_us) => by_us,
            None if case.before_this_run(self.partition).is_none() => Evidence::FirstSample,
            None => self.stillness(case),
        }];
        let usual = SignedDuration::from_secs(i64::from(case.policy.stall_seconds));
        if self.stood(case) >= usual && patience(case.policy, self.sample) > usual {
            let seconds = self.sample.longest_pause_seconds;
            evidence.push(Evidence::StoodBefore { seconds });
        }
        evidence.push(Evidence::Position {
            committed: self.committed,
            log: self.sample.log,
        });
        Some(evidence)
    }

    /// The looks at which it was in other hands than before: another member had it, or, where nobody could be seen to
    /// have it, members had come in the place of others.
    pub(super) fn handovers(&self) -> Vec<usize> {
        let mut known: BTreeSet<&str> = BTreeSet::new();
        let mut holder: Option<&str> = None;
        let mut handovers = Vec::new();
        for (index, look) in self.looks.iter().enumerate() {
            let ids: BTreeSet<&str> = look.members.iter().map(|m| m.member_id.as_str()).collect();
            let owner = look
                .of_partition(self.partition)
                .and_then(|p| p.owner.as_deref());
            match (owner, holder) {
                (Some(owner), Some(before)) if owner != before => handovers.push(index),
                (None, before) if before.is_none_or(|before| !ids.contains(before)) => {
                    let come = ids.iter().any(|id| !known.contains(id));
                    let gone = known.iter().any(|id| !ids.contains(id));
                    if come && gone {
                        handovers.push(index);
                        holder = None;
                    }
                }
                _ => {}
            }
            holder = owner.or(holder);
            known.extend(ids);
        }
        handovers
    }

    /// Whether it was tried again, by another member or a process that started anew, and stood all the same: processes
    /// that end at it again and again, or one that had as long as it takes to call it a stall.
    ///
    /// One round of restarts (a deployment) is no such thing, and neither is a member that is thrown out for taking long
    /// over a batch and comes back with another id.
    pub(super) fn tried_again(&self, case: &Case<'_>, handovers: &[usize]) -> bool {
        let at = |index: &usize| self.looks.get(*index);
        let in_runs: BTreeSet<Timestamp> = handovers.iter().filter_map(at).map(|l| l.run).collect();
        if in_runs.len() > 1 && measure_turnover(self.looks).end_or_are_short_lived() {
            return true;
        }
        let Some(newest) = handovers.last().and_then(at) else {
            return false;
        };
        let stall = SignedDuration::from_secs(i64::from(case.policy.stall_seconds));
        let since: Vec<_> = self.looks.iter().filter(|l| l.at >= newest.at).collect();
        let in_runs: BTreeSet<Timestamp> = since.iter().map(|look| look.run).collect();
        self.sample.owner.is_some()
            && case.last.at.duration_since(newest.at) >= stall
            && in_runs.len() >= as_length(case.policy.min_samples)
    }

    /// Whether nothing else stands that may be why this stands too: of another partition it is known that another member
    /// had it all the time. What moved `lately` does not stand.
    pub(super) fn is_singled_out(
        &self,
        standing: &[Self],
        lately: &BTreeSet<&TopicPartition>,
    ) -> bool {
        standing
            .iter()
            .filter(|other| other.partition != self.partition && !lately.contains(other.partition))
            .all(|other| {
                !self.owners.is_empty()
                    && !other.owners.is_empty()
                    && self.owners.is_disjoint(&other.owners)
            })
    }

    /// Whether those who could not get past this partition could read another one of `moved`: it went through the hands
    /// of two clients or more, or its only one moved another.
    pub(super) fn is_not_its_host(&self, moved: &BTreeSet<&TopicPartition>) -> bool {
        let clients_of = |partition: &TopicPartition| -> BTreeSet<(&str, &str)> {
            let had = |look: &'a Sample| {
                let owner = look.of_partition(partition)?.owner.as_deref()?;
                look.members.iter().find(|m| m.member_id == owner)
            };
            self.looks.iter().filter_map(had).map(client).collect()
        };
        let all: BTreeSet<_> = self
            .looks
            .iter()
            .flat_map(|look| look.members.iter().map(client))
            .collect();
        let own = clients_of(self.partition);
        all.len() == 1
            || own.len() > 1
            || moved
                .iter()
                .any(|other| !own.is_disjoint(&clients_of(other)))
    }
}

/// What a process keeps when it starts again.
fn client(member: &MemberSeen) -> (&str, &str) {
    (&member.client_id, &member.host)
}

/// Since when, and in which looks, the commit stood with something behind it that the consumers could read: the record
/// that a probe found, or anything at all.
///
/// A group that had read everything, or everything up to a transaction that was open, did not stand.
fn since<'a>(
    case: &Case<'a>,
    partition: &TopicPartition,
    sample: &PartitionSample,
    committed: i64,
) -> (Timestamp, &'a [Sample]) {
    let probe = case.probe(partition, committed);
    let first = match probe.and_then(|probe| case.first_visible(probe)) {
        Some(First::Record(record)) => record.offset,
        Some(First::None { .. }) | None => committed,
    };
    let id = case.last.topic_id(&partition.topic);
    let mut high = sample.log.high;
    let mut from = case.samples.len();
    let mut began = false;
    for (index, look) in case.samples.iter().enumerate().rev() {
        // A reading that failed says nothing about what was there.
        let Some(then) = look.of_partition(partition) else {
            continue;
        };
        began = then.committed != Some(committed)
            || is_another(look.topic_id(&partition.topic), id)
            || then.log.high > high
            || case.readable(then) <= first;
        if began {
            break;
        }
        high = then.log.high;
        from = index;
    }
    let looks = case.samples.get(from..).unwrap_or_default();
    let seen = looks.first().unwrap_or(case.last).at;
    // What lies before the first sample, a sample remembers.
    let since = if began || looks.is_empty() {
        sample.still_since.max(seen)
    } else {
        sample.still_since
    };
    (since, looks)
}

/// How long a commit may stand before that is a stall: what the policy says, and longer where it was seen to stand
/// longer and then to move on by itself (consumers that commit rarely).
fn patience(policy: &GuardPolicy, sample: &PartitionSample) -> SignedDuration {
    let most = policy.stall_seconds.saturating_mul(PATIENCE);
    let seen = sample.longest_pause_seconds.saturating_mul(2).min(most);
    SignedDuration::from_secs(i64::from(policy.stall_seconds.max(seen)))
}
