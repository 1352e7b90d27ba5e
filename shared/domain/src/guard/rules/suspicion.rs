//! The facts about a partition that stands, on which the questions about a stall rest.

use std::collections::BTreeSet;

use super::case::Case;
use super::counts::{RECENT_RUNS, as_length, count_runs};
use super::members::measure_turnover;
use super::picture::Picture;
use super::standing::Standing;
use crate::group::GroupState;
use crate::guard::probe::{First, Probe, Unlike};
use crate::guard::sample::{PartitionSample, Sample, Stage, Trouble};
use crate::guard::verdict::Evidence;
use crate::offset::{TopicPartition, distance};

/// What was seen of a partition that stands.
pub(super) struct Facts {
    /// A validator does not pass the first record that the group's consumers see.
    pub(super) pinned: Option<Evidence>,
    /// It was tried again and again, and everything else went on.
    pub(super) inferred: bool,
    /// Among which records the one that stops it is, where nothing tells which.
    pub(super) suspects: Option<Evidence>,
    /// How the record here, and no other one that stands, is of another kind than those before it.
    pub(super) odd: Option<Unlike>,
    /// The next record is the one: the group commits record by record, no other one waits, or its kind is odd enough.
    pub(super) named: bool,
    /// Others moved on while this one stood.
    pub(super) others_moved: bool,
    /// No other one moved lately.
    pub(super) nothing_moves: bool,
    pub(super) alone: bool,
    pub(super) owner_stuck: bool,
    pub(super) unassigned: bool,
    /// Member after member came since it stands, and one did lately.
    pub(super) taken_again: bool,
    pub(super) two_samples: bool,
    pub(super) trouble: Trouble,
    /// Since when somebody has it, where that is not long.
    pub(super) new_in_hands: Option<Evidence>,
    /// A recovery of Offset Guard has its consumers stopped.
    pub(super) stopped_by: Option<Evidence>,
}

impl Facts {
    pub(super) fn new(case: &Case<'_>, here: &Standing<'_>, picture: &Picture<'_>) -> Self {
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
    let mut known = picture.turnover.borrow_mut();
    let (restarts, end) = *known.entry(here.from).or_insert_with(|| {
        let since = measure_turnover(here.looks);
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
        && count_runs(case.recent()) >= as_length(case.policy.min_samples).min(RECENT_RUNS)
        && looks.is_some_and(|looks| looks >= 2)
}

/// In how many of the latest looks at rest no member had the partition; `None` if one had it in any.
pub(super) fn looks_without_owner(case: &Case<'_>, here: &Standing<'_>) -> Option<usize> {
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
