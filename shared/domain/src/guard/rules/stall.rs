//! Rules 14 to 22: why a partition that stands for too long stands.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::super::probe::{First, Probe, Unlike};
use super::super::sample::{PartitionSample, Sample, Stage, Trouble};
use super::super::verdict::{Confidence, Evidence, Finding, Status, Verdict};
use super::case::{Case, isolation_matters};
use super::members::{GONE_AFTER_RUNS, Members, comings};
use super::standing::Standing;
use super::{NAMED, RECENT_RUNS, count, newest_runs, runs};
use crate::group::GroupState;
use crate::offset::{TopicPartition, distance};

/// What is the same for all partitions that stand.
pub(super) struct Picture<'a> {
    pub(super) standing: &'a [Standing<'a>],
    members: Members,
    /// How many members came in the place of others within an hour of the usual schedule.
    replaced: usize,
    moves: Moves<'a>,
    /// How many of those that stand each member has.
    owners: BTreeMap<&'a str, usize>,
    /// The members of which a partition moved lately.
    moving: BTreeSet<&'a str>,
    /// The first look of the latest runs.
    recent: usize,
    /// Those that moved since the last look of the run before this one.
    lately: BTreeSet<&'a TopicPartition>,
    /// Of the looks from one on, in how many runs members started anew, and whether they end or are short-lived: partitions
    /// are many, and most of them stand since the same look.
    comings: RefCell<BTreeMap<usize, (usize, bool)>>,
}

impl<'a> Picture<'a> {
    pub(super) fn of(case: &Case<'a>, standing: &'a [Standing<'a>]) -> Self {
        let recent = case.samples.len() - case.recent().len();
        let moves = Moves::of(case);
        let owner_of = |partition: &TopicPartition| {
            let sample = case.last.of_partition(partition)?;
            sample.owner.as_deref()
        };
        let previous = (case.samples.len() - case.this_run().count()).saturating_sub(1);
        let mut owners = BTreeMap::new();
        for owner in standing.iter().filter_map(|here| owner_of(here.partition)) {
            *owners.entry(owner).or_default() += 1;
        }
        Self {
            standing,
            members: Members::of(case.recent()),
            replaced: comings(newest_runs(case.samples, GONE_AFTER_RUNS)).replaced,
            owners,
            moving: moves.since(recent).filter_map(owner_of).collect(),
            lately: moves.since(previous).collect(),
            comings: RefCell::default(),
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
            let by_us = a.moved_at != case.last.moved_at || b.is_being_moved();
            if (a.is_empty() && b.is_empty()) || by_us {
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
    /// Among which records the one that stops it is, where nothing tells which.
    suspects: Option<Evidence>,
    /// How the record here, and no other one that stands, is of another kind than those before it.
    odd: Option<Unlike>,
    /// The next record is the one: the group commits record by record, no other one waits, or its kind is odd enough.
    named: bool,
    /// Others moved on while this one stood.
    others_moved: bool,
    /// No other one moved lately.
    nothing_moves: bool,
    alone: bool,
    owner_stuck: bool,
    unassigned: bool,
    /// Member after member came since it stands, and one did lately.
    taken_again: bool,
    two_samples: bool,
    trouble: Trouble,
    /// Since when somebody has it, where that is not long.
    new_in_hands: Option<Evidence>,
    /// A recovery of Offset Guard has its consumers stopped.
    stopped_by: Option<Evidence>,
}

impl Facts {
    fn of(case: &Case<'_>, here: &Standing<'_>, picture: &Picture<'_>) -> Self {
        let probe = case.probe(here.partition, here.committed);
        let mut lately = picture.moves.since(picture.recent);
        let nothing_moves = lately.all(|partition| partition == here.partition);
        let odd = odd_one_out(case, here, picture);
        let suspects = suspects(case, here);
        Self {
            pinned: probe.and_then(|probe| pinned(case, probe)),
            inferred: inferred(case, here, picture),
            named: suspects.is_none() || odd.is_some_and(Unlike::is_strong),
            suspects: suspects.filter(|_| odd.is_none() && !is_told_further_on(probe)),
            odd: odd.cloned(),
            others_moved: picture.moves.count(here.from) > 0,
            nothing_moves,
            alone: picture.standing.len() == 1,
            owner_stuck: owner_stuck(here, picture),
            unassigned: unassigned(case, here),
            taken_again: taken_again(here, picture),
            two_samples: two_samples(case, here),
            trouble: case.trouble(nothing_moves),
            new_in_hands: here.is_new_in_hands(case),
            stopped_by: stopped_by(case),
        }
    }
}

/// Rules 14 to 22.
pub(super) fn stall(case: &Case<'_>, here: &Standing<'_>, picture: &Picture<'_>) -> Finding {
    let facts = Facts::of(case, here, picture);
    let (verdict, confidence) = decide(&facts, &picture.members);
    let lag = here.sample.log.lag(here.committed);
    let status = match verdict {
        Verdict::Waiting => Status::Healthy,
        // It has them stopped itself, and starts them or has them started.
        Verdict::NoMembers if facts.stopped_by.is_some() => Status::Healthy,
        Verdict::PoisonLikely => Status::Critical,
        _ if lag >= case.policy.deadlock_lag_threshold => Status::Critical,
        _ => Status::Warning,
    };
    let probe = case.probe(here.partition, here.committed);
    Finding {
        partition: here.partition.clone(),
        verdict,
        confidence: soften(case, probe, &facts, verdict, confidence),
        status,
        lag: Some(lag),
        evidence: match facts.new_in_hands {
            Some(new) if verdict == Verdict::Waiting => {
                let (committed, log) = (here.committed, here.sample.log);
                vec![
                    new,
                    here.stillness(case),
                    Evidence::Position { committed, log },
                ]
            }
            _ => evidence(case, here, picture, &facts, verdict),
        },
    }
}

/// The rules 14 to 22 themselves.
fn decide(facts: &Facts, members: &Members) -> (Verdict, Confidence) {
    if facts.pinned.is_some() {
        return (Verdict::PoisonLikely, Confidence::High);
    }
    // All that was seen points to this partition, but to one record of it only where that one has a name.
    if facts.inferred && facts.named {
        return (Verdict::PoisonLikely, Confidence::Medium);
    }
    // Members that end are what is seen of it in every run; that others move meanwhile shows in some.
    if facts.inferred && (facts.odd.is_some() || facts.trouble != Trouble::Crashes) {
        return (Verdict::PoisonSuspected, Confidence::Medium);
    }
    match facts.trouble {
        Trouble::Absent => return (Verdict::NoMembers, Confidence::High),
        Trouble::Rebalances => return (Verdict::RebalanceLoop, Confidence::Medium),
        // Members end, others of the group go on, and the one record that is next here is of another kind than all that
        // they got past, while what else stands looks as it always did. That is enough to show a person this record first
        // instead of sending them to look for it. It is not enough to propose to pass over it by itself, since nobody was
        // seen to have it, to end and to try again: a topic may hold records of two kinds, and what the members die of
        // may be a record that looks like all others, in a partition that went down with this one.
        Trouble::Crashes if facts.odd.is_some() && facts.others_moved && !facts.nothing_moves => {
            return (Verdict::PoisonSuspected, Confidence::Low);
        }
        Trouble::Crashes => return (Verdict::CrashLoop, Confidence::Medium),
        Trouble::None if facts.taken_again => return (Verdict::CrashLoop, Confidence::Medium),
        Trouble::None => {}
    }
    if facts.unassigned {
        (Verdict::Unassigned, Confidence::High)
    } else if !members.seen {
        // Dead or in an unknown state: of members that nobody sees nothing can be said.
        (Verdict::StalledUnknown, Confidence::Low)
    } else if facts.new_in_hands.is_some() {
        (Verdict::Waiting, Confidence::High)
    } else if !facts.alone && facts.nothing_moves {
        (Verdict::GroupStuck, Confidence::Medium)
    } else if facts.owner_stuck {
        (Verdict::OwnerStuck, Confidence::Medium)
    } else if facts.alone && facts.two_samples && facts.named {
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

/// That the recovery that holds the group has its consumers stopped.
fn stopped_by(case: &Case<'_>) -> Option<Evidence> {
    let live = case.last.recovery.as_ref();
    live.filter(|live| live.stage >= Stage::Approved)
        .map(|live| Evidence::Recovery { live: live.clone() })
}

/// Among which records the one that stops the consumers is, as far as where they commit tells. A consumer takes as many
/// records as one poll returns, and commits after them: it may end at any of these, and its commit does not move.
///
/// `None` where it is the next one: the group is known to commit record by record, or no other one waits.
fn suspects(case: &Case<'_>, here: &Standing<'_>) -> Option<Evidence> {
    let probe = case.probe(here.partition, here.committed);
    let first = match probe.and_then(|probe| case.first_visible(probe)) {
        Some(First::Record(record)) => record.offset,
        Some(First::None { .. }) | None => here.committed,
    };
    let max_poll_records = case.policy.poll_records();
    let waiting = distance(first, case.may_be_read(here.sample));
    let records = waiting.min(u64::from(max_poll_records));
    if records <= 1 || case.commits_by_record(&here.partition.topic) {
        return None;
    }
    let more = i64::try_from(records - 1).unwrap_or(i64::MAX);
    Some(Evidence::Suspects {
        first,
        last: first.saturating_add(more),
        records,
        max_poll_records,
        configured: case.policy.max_poll_records.is_some(),
    })
}

/// Whether a record behind the commit fails or is odd, which is told by itself.
fn is_told_further_on(probe: Option<&Probe>) -> bool {
    probe.is_some_and(|probe| probe.validation.first_failure().is_some() || probe.unlike.is_some())
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
    let nobodys = looks_without_owner(case, here).is_some_and(|looks| looks > 0);
    let unread = case.not_probed(here.partition, here.committed).is_some();
    // What asks all members of all looks comes last: it is asked of few.
    if nobodys || unread || picture.moves.count(here.from) == 0 {
        return false;
    }
    // A record that is unlike those before it is no matter of rebalances, hosts or neighbours.
    let odd = odd_one_out(case, here, picture).is_some_and(Unlike::is_strong);
    let of_members = || picture.members.rebalance_loop();
    if !odd && (of_members() || !here.is_singled_out(picture.standing, &picture.lately)) {
        return false;
    }
    let handovers = here.handovers();
    let Some(first) = handovers.first() else {
        return false;
    };
    if !here.tried_again(case, &handovers) {
        return false;
    }
    let moved = went_on(case, here, picture, here.from + first);
    let topic = &here.partition.topic;
    // An assignment covers whole topics: somebody had it if somebody moved another one of its topic.
    let somebodys = !here.owners.is_empty() || moved.iter().any(|other| other.topic == *topic);
    !moved.is_empty() && somebodys && (odd || here.is_not_its_host(&moved))
}

/// What the record here has that those before it have not, if no other stalled partition's is of another kind: whoever dies
/// of a record takes down all that it has not read by then, so those that stand with it are no reason against it.
fn odd_one_out<'a>(
    case: &Case<'a>,
    here: &Standing<'_>,
    picture: &Picture<'_>,
) -> Option<&'a Unlike> {
    // Where nobody knows which record the consumers see first, it is not known to be this one.
    let odd = |standing: &Standing<'_>| -> Option<Option<&'a Unlike>> {
        let probe = case.probe(standing.partition, standing.committed)?;
        let first = case.first_visible(probe)?.offset();
        let unlike = probe.unlike.as_ref();
        Some(unlike.filter(|unlike| first == Some(unlike.failure.offset)))
    };
    let mut others = picture
        .standing
        .iter()
        .filter(|other| other.partition != here.partition && other.stalled);
    // A weak sign elsewhere is no reason against a strong one here.
    odd(here)?.filter(|here| {
        let is_no_rival = |other: &Unlike| here.is_strong() && !other.is_strong();
        others.all(|other| odd(other).is_some_and(|other| other.is_none_or(is_no_rival)))
    })
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

/// Whether member after member came since it stands, more slowly than the latest runs show: to this partition alone, or,
/// often enough to be no deployment, because those before them ended. One has to have come lately, and not to stay.
fn taken_again(here: &Standing<'_>, picture: &Picture<'_>) -> bool {
    if picture.replaced == 0 || picture.members.at_rest() {
        return false;
    }
    let mut known = picture.comings.borrow_mut();
    let (restarts, end) = *known.entry(here.from).or_insert_with(|| {
        let since = comings(here.looks);
        (since.restarts(), since.end_or_are_short_lived())
    });
    let alone = picture.standing.len() == 1;
    restarts >= if alone { 2 } else { 3 } && (alone || end)
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
    if verdict == Verdict::NoMembers {
        evidence.extend(facts.stopped_by.clone());
    }
    evidence.extend(facts.pinned.clone());
    if verdict == Verdict::PoisonSuspected {
        evidence.extend(facts.odd.as_ref().map(unlike));
    }
    if verdict == Verdict::PoisonSuspected || (verdict == Verdict::CrashLoop && facts.inferred) {
        evidence.extend(facts.suspects.clone());
    }
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
    if verdict == Verdict::CrashLoop {
        evidence.extend(case.last_seen());
    }
    let of_probe = of_probe(case, here, facts);
    let told = |seen: &Evidence| evidence.contains(seen);
    let of_probe: Vec<_> = of_probe.into_iter().filter(|seen| !told(seen)).collect();
    evidence.extend(of_probe);
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
    if facts.pinned.is_none() {
        evidence.extend(probe.unlike.as_ref().map(unlike));
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

fn unlike(unlike: &Unlike) -> Evidence {
    Evidence::UnlikeThoseBefore {
        offset: unlike.failure.offset,
        validator: unlike.failure.validator,
        problem: unlike.failure.problem.clone(),
        passing: unlike.passing,
    }
}
