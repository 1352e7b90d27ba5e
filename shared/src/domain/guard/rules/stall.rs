//! Rules 14 to 22: why a partition that stands for too long stands.

use std::collections::{BTreeMap, BTreeSet};

use super::super::probe::{First, Probe};
use super::super::sample::{PartitionSample, Sample};
use super::super::verdict::{Confidence, Evidence, Finding, Status, Verdict};
use super::case::{Case, isolation_matters};
use super::members::Members;
use super::standing::Standing;
use super::{NAMED, RECENT_RUNS, count, runs};
use crate::domain::group::GroupState;
use crate::domain::offset::{TopicPartition, distance};

/// What is the same for all partitions that stand.
pub(super) struct Picture<'a> {
    pub(super) standing: &'a [Standing<'a>],
    members: Members,
    moves: Moves<'a>,
    /// How many of those that stand each member has.
    owners: BTreeMap<&'a str, usize>,
    /// The members of which a partition moved lately.
    moving: BTreeSet<&'a str>,
    /// The first look of the latest runs.
    recent: usize,
}

impl<'a> Picture<'a> {
    pub(super) fn of(case: &Case<'a>, standing: &'a [Standing<'a>]) -> Self {
        let recent = case.samples.len() - case.recent().len();
        let moves = Moves::of(case);
        let owner_of = |partition: &TopicPartition| {
            let sample = case.last.of_partition(partition)?;
            sample.owner.as_deref()
        };
        let mut owners = BTreeMap::new();
        for owner in standing.iter().filter_map(|here| owner_of(here.partition)) {
            *owners.entry(owner).or_default() += 1;
        }
        Self {
            standing,
            members: Members::of(case.recent()),
            owners,
            moving: moves.since(recent).filter_map(owner_of).collect(),
            moves,
            recent,
        }
    }
}

/// Partitions that moved on from one look to the next while somebody was there to move them, with the last look before
/// they did, the latest first. What was before the latest recovery of Offset Guard is left out: it stopped the group and
/// moved it.
struct Moves<'a> {
    moves: Vec<(usize, &'a TopicPartition)>,
    /// The first in order of each of these and all before it: partitions are many, and each asks for one to name.
    examples: Vec<&'a TopicPartition>,
}

impl<'a> Moves<'a> {
    fn of(case: &Case<'a>) -> Self {
        let mut last: BTreeMap<&TopicPartition, usize> = BTreeMap::new();
        for (index, pair) in case.samples.windows(2).enumerate() {
            let [a, b] = pair else { continue };
            if (a.is_empty() && b.is_empty()) || a.moved_at != case.last.moved_at {
                continue;
            }
            for (partition, reading) in &b.partitions {
                let earlier = a.of_partition(partition).and_then(|p| p.committed);
                let later = reading.as_ref().ok().and_then(|p| p.committed);
                if earlier.is_some() && later > earlier {
                    last.insert(partition, index);
                }
            }
        }
        let mut moves: Vec<_> = last.into_iter().map(|(p, index)| (index, p)).collect();
        moves.sort_by_key(|(index, _)| std::cmp::Reverse(*index));
        let examples = moves.iter().scan(None, |first, (_, partition)| {
            let example = first.map_or(*partition, |first: &TopicPartition| first.min(partition));
            *first = Some(example);
            Some(example)
        });
        Self {
            examples: examples.collect(),
            moves,
        }
    }

    /// How many moved since the look `from`.
    fn count(&self, from: usize) -> usize {
        self.moves.partition_point(|(index, _)| *index >= from)
    }

    /// Those that moved since the look `from`.
    fn since(&self, from: usize) -> impl Iterator<Item = &'a TopicPartition> {
        let latest = self.moves.iter().take(self.count(from));
        latest.map(|(_, partition)| *partition)
    }

    /// One of them to name, and how many.
    fn example(&self, from: usize) -> Option<(&'a TopicPartition, usize)> {
        let count = self.count(from);
        Some((self.examples.get(count.checked_sub(1)?)?, count))
    }
}

/// What the rules 14 to 22 ask.
struct Facts {
    /// A validator does not pass the first record that the group's consumers see.
    pinned: Option<Evidence>,
    /// It was tried again and again, and everything else went on.
    inferred: bool,
    /// Others moved on while this one stood.
    others_moved: bool,
    /// No other one moved lately.
    nothing_moves: bool,
    alone: bool,
    owner_stuck: bool,
    unassigned: bool,
    two_samples: bool,
}

/// Rules 14 to 22.
pub(super) fn stall(case: &Case<'_>, here: &Standing<'_>, picture: &Picture<'_>) -> Finding {
    let probe = case.probe(here.partition, here.committed);
    let mut lately = picture.moves.since(picture.recent);
    let facts = Facts {
        pinned: probe.and_then(|probe| pinned(case, probe)),
        inferred: inferred(case, here, picture),
        others_moved: picture.moves.count(here.from) > 0,
        nothing_moves: lately.all(|partition| partition == here.partition),
        alone: picture.standing.len() == 1,
        owner_stuck: owner_stuck(here, picture),
        unassigned: unassigned(case, here),
        two_samples: two_samples(case, here),
    };
    let (verdict, confidence) = decide(&facts, &picture.members);
    let lag = here.sample.log.lag(here.committed);
    let status = if verdict == Verdict::PoisonLikely || lag >= case.policy.deadlock_lag_threshold {
        Status::Critical
    } else {
        Status::Warning
    };
    Finding {
        partition: here.partition.clone(),
        verdict,
        confidence: soften(case, probe, &facts, verdict, confidence),
        status,
        lag: Some(lag),
        evidence: evidence(case, here, picture, &facts, verdict),
    }
}

/// The rules 14 to 22 themselves.
fn decide(facts: &Facts, members: &Members) -> (Verdict, Confidence) {
    if facts.pinned.is_some() {
        (Verdict::PoisonLikely, Confidence::High)
    } else if facts.inferred {
        (Verdict::PoisonLikely, Confidence::Medium)
    } else if members.absent() {
        (Verdict::NoMembers, Confidence::High)
    } else if members.rebalance_loop() {
        (Verdict::RebalanceLoop, Confidence::Medium)
    } else if members.crash_loop() {
        (Verdict::CrashLoop, Confidence::Medium)
    } else if facts.unassigned {
        (Verdict::Unassigned, Confidence::High)
    } else if !members.seen {
        // Dead or in an unknown state: of members that nobody sees nothing can be said.
        (Verdict::StalledUnknown, Confidence::Low)
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

/// Poison that was inferred is less sure where nobody looked at the record yet, or where the validators pass it.
fn soften(
    case: &Case<'_>,
    probe: Option<&Probe>,
    facts: &Facts,
    verdict: Verdict,
    confidence: Confidence,
) -> Confidence {
    let guessed = verdict == Verdict::PoisonLikely && facts.pinned.is_none();
    let passes = probe.is_none_or(|probe| {
        !case.policy.validators.is_empty() && probe.validation.first_failure().is_none()
    });
    if guessed && passes {
        Confidence::Low
    } else {
        confidence
    }
}

/// What pins the first record that the consumers see as the poison record.
fn pinned(case: &Case<'_>, probe: &Probe) -> Option<Evidence> {
    let first = case.first_visible(probe)?.offset()?;
    let failure = probe.validation.failing_from(first).next()?;
    Some(Evidence::ValidatorFailed {
        offset: failure.offset,
        validator: failure.validator,
        problem: failure.problem.clone(),
    })
}

/// Whether all that was seen points to the record, without a validator that says so. Each of these alone has another
/// explanation, so all of them are asked.
fn inferred(case: &Case<'_>, here: &Standing<'_>, picture: &Picture<'_>) -> bool {
    let handovers = here.handovers();
    let Some(first) = handovers.first() else {
        return false;
    };
    let nobodys = looks_without_owner(case, here).is_some_and(|looks| looks > 0);
    let unread = case.not_probed(here.partition, here.committed).is_some();
    // What asks all partitions comes last: it is asked of few.
    if nobodys
        || unread
        || picture.members.rebalance_loop()
        || picture.moves.count(here.from) == 0
        || !here.tried_again(case, &handovers)
        || !(here.is_singled_out(picture.standing) || is_odd_one_out(case, here, picture))
    {
        return false;
    }
    let moved = went_on(case, here, picture, here.from + first);
    let topic = &here.partition.topic;
    // An assignment covers whole topics: somebody had it if somebody moved another one of its topic.
    let somebodys = !here.owners.is_empty() || moved.iter().any(|other| other.topic == *topic);
    !moved.is_empty() && somebodys && here.is_not_its_host(&moved)
}

/// Whether the record here is of another kind than those before it, and no other stalled partition's is: whoever dies of a
/// record takes down all that it has not read by then, so those that stand with it are no reason against it.
fn is_odd_one_out(case: &Case<'_>, here: &Standing<'_>, picture: &Picture<'_>) -> bool {
    let odd = |standing: &Standing<'_>| {
        let probe = case.probe(standing.partition, standing.committed)?;
        // Where nobody knows which record the consumers see first, it is not known to be this one.
        let first = case.first_visible(probe)?.offset();
        let unlike = probe.unlike.as_ref();
        Some(unlike.is_some_and(|unlike| first == Some(unlike.failure.offset)))
    };
    odd(here) == Some(true)
        && picture
            .standing
            .iter()
            .filter(|other| other.partition != here.partition && other.stalled)
            .all(|other| odd(other) == Some(false))
}

/// Partitions that went on while this one was tried in vain: those that moved after it was tried again, from the look
/// `again` on, and those that waited beside it and were read to their end.
///
/// What only moved before it was tried again may have moved before everything broke.
fn went_on<'a>(
    case: &Case<'_>,
    here: &Standing<'_>,
    picture: &Picture<'a>,
    again: usize,
) -> BTreeSet<&'a TopicPartition> {
    let waits = |look: &Sample, other: &TopicPartition| {
        let of = look.of_partition(other);
        of.map(PartitionSample::waits)
    };
    let drained = |other: &&TopicPartition| {
        waits(case.last, other) == Some(false)
            && here
                .looks
                .iter()
                .any(|look| waits(look, other) == Some(true))
    };
    let read = picture.moves.since(here.from).filter(drained);
    picture.moves.since(again).chain(read).collect()
}

/// Whether the owner has two or more that stand while those of other owners move.
fn owner_stuck(here: &Standing<'_>, picture: &Picture<'_>) -> bool {
    here.sample.owner.as_deref().is_some_and(|owner| {
        let own = picture.owners.get(owner).copied().unwrap_or(0);
        own >= 2 && picture.moving.iter().any(|other| *other != owner)
    })
}

/// Whether the group was at rest with members in the latest runs, and none of them had the partition.
fn unassigned(case: &Case<'_>, here: &Standing<'_>) -> bool {
    let looks = looks_without_owner(case, here);
    case.last.state == GroupState::Stable
        && runs(case.recent()) >= count(case.policy.min_samples).min(RECENT_RUNS)
        && looks.is_some_and(|looks| looks >= 2)
}

/// In how many of the latest looks at rest no member had the partition; `None` if one had it in any.
fn looks_without_owner(case: &Case<'_>, here: &Standing<'_>) -> Option<usize> {
    let at_rest = case
        .recent()
        .iter()
        .filter(|look| look.state == GroupState::Stable && !look.members.is_empty());
    let mut looks = 0;
    for look in at_rest {
        match look.of_partition(here.partition) {
            Some(sample) if sample.owner.is_some() => return None,
            Some(_) => looks += 1,
            None => {}
        }
    }
    Some(looks)
}

/// Whether the simplest rule in use would call it a deadlock, where the policy asks for that rule: the same commit in two
/// samples while the log grew, and enough lag.
fn two_samples(case: &Case<'_>, here: &Standing<'_>) -> bool {
    let grew = case
        .before_this_run(here.partition)
        .is_some_and(|(_, before)| here.sample.log.high > before.log.high);
    let lag = here.sample.log.lag(here.committed);
    let unread = case.not_probed(here.partition, here.committed).is_some();
    case.policy.two_sample_rule() && grew && lag >= case.policy.deadlock_lag_threshold && !unread
}

/// What speaks for a verdict, the most telling first.
fn evidence(
    case: &Case<'_>,
    here: &Standing<'_>,
    picture: &Picture<'_>,
    facts: &Facts,
    verdict: Verdict,
) -> Vec<Evidence> {
    let mut evidence = Vec::new();
    if facts.two_samples && verdict == Verdict::PoisonLikely {
        evidence.push(Evidence::TwoSamples);
    }
    evidence.extend(facts.pinned.clone());
    evidence.push(here.stillness(case));
    evidence.extend(of_hands(case, here, picture));
    evidence.push(match picture.moves.example(here.from) {
        Some((example, count)) => Evidence::OthersMoved {
            example: example.clone(),
            count,
        },
        None => Evidence::NothingMoved,
    });
    if !facts.alone {
        let others = picture.standing.iter().map(|other| other.partition);
        let others = others.filter(|other| *other != here.partition);
        evidence.push(Evidence::AlsoStalled {
            partitions: others.take(NAMED).cloned().collect(),
            count: picture.standing.len() - 1,
        });
    }
    let members = &picture.members;
    evidence.push(Evidence::Looks {
        looks: members.looks,
        empty: members.empty,
        rebalancing: members.rebalancing,
        state: case.last.state,
        members: case.last.members.len(),
    });
    evidence.extend(of_probe(case, here, facts));
    evidence.extend(case.isolation_note());
    evidence.push(Evidence::Position {
        committed: here.committed,
        log: here.sample.log,
    });
    evidence
}

/// Through whose hands it went, and in whose it is.
fn of_hands(case: &Case<'_>, here: &Standing<'_>, picture: &Picture<'_>) -> Vec<Evidence> {
    let mut evidence = Vec::new();
    if here.owners.len() >= 2 {
        let named = here.owners.iter().take(NAMED);
        evidence.push(Evidence::Owners {
            member_ids: named.map(|id| (*id).to_owned()).collect(),
            count: here.owners.len(),
        });
    }
    let arrivals = picture.members.comings.replaced;
    if arrivals > 0 {
        evidence.push(Evidence::Arrivals { count: arrivals });
    }
    let owner = here.sample.owner.as_ref().and_then(|owner| {
        let mut members = case.last.members.iter();
        members.find(|member| member.member_id == *owner)
    });
    match (owner, looks_without_owner(case, here)) {
        (Some(owner), _) => evidence.push(Evidence::Owner {
            client_id: owner.client_id.clone(),
            member_id: owner.member_id.clone(),
            host: owner.host.clone(),
        }),
        (None, Some(looks)) if looks > 0 => evidence.push(Evidence::NoOwner { looks }),
        (None, _) => {}
    }
    evidence
}

/// What the raw read found, or why there is none.
fn of_probe(case: &Case<'_>, here: &Standing<'_>, facts: &Facts) -> Vec<Evidence> {
    let mut evidence = Vec::new();
    let Some(probe) = case.probe(here.partition, here.committed) else {
        let why = case.not_probed(here.partition, here.committed);
        let why = why.unwrap_or_else(|| "its records were not read".to_owned());
        return vec![Evidence::NotProbed { why }];
    };
    match case.first_visible(probe) {
        Some(First::Record(record)) => evidence.push(Evidence::FirstVisible {
            record: record.clone(),
            absent: distance(here.committed, record.offset),
        }),
        Some(First::None { until }) => evidence.push(Evidence::NothingVisible { until: *until }),
        None => evidence.push(isolation_matters(probe)),
    }
    if let Some(unlike) = &probe.unlike
        && facts.pinned.is_none()
    {
        evidence.push(Evidence::UnlikeThoseBefore {
            offset: unlike.failure.offset,
            validator: unlike.failure.validator,
            problem: unlike.failure.problem.clone(),
            passing: unlike.passing,
        });
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
