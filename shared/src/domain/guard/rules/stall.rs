//! Rules 14 to 22: why a partition that stands for too long stands.

use std::collections::BTreeSet;

use super::super::probe::{First, Probe};
use super::super::sample::Sample;
use super::super::verdict::{Confidence, Evidence, Finding, Status, Verdict};
use super::case::{Case, isolation_matters};
use super::members::{Members, comings};
use super::standing::Standing;
use super::{NAMED, RECENT_RUNS, count, runs};
use crate::domain::group::GroupState;
use crate::domain::offset::{TopicPartition, distance};

/// What the rules 14 to 22 ask.
struct Facts<'a> {
    members: Members,
    /// A validator does not pass the first record that the group's consumers see.
    pinned: Option<Evidence>,
    /// It was tried again and again, and everything else went on.
    inferred: bool,
    /// Partitions that moved on while this one stood.
    moved: BTreeSet<&'a TopicPartition>,
    nothing_moves: bool,
    alone: bool,
    owner_stuck: bool,
    unassigned: bool,
    two_samples: bool,
}

/// Rules 14 to 22. `standing` are all partitions that stand, this one too.
pub(super) fn stall(case: &Case<'_>, here: &Standing<'_>, standing: &[Standing<'_>]) -> Finding {
    let probe = case.probe(here.partition, here.committed);
    let moved_lately = moved(case, case.recent(), here.partition);
    let members = Members::of(case.recent());
    let facts = Facts {
        pinned: probe.and_then(|probe| pinned(case, probe)),
        inferred: inferred(case, here, standing, &members),
        moved: moved(case, here.looks, here.partition),
        nothing_moves: moved_lately.is_empty(),
        alone: standing.len() == 1,
        owner_stuck: owner_stuck(case, here, standing, &moved_lately),
        unassigned: unassigned(case, here),
        two_samples: two_samples(case, here),
        members,
    };
    let (verdict, confidence) = decide(&facts);
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
        evidence: evidence(case, here, standing, &facts, verdict),
    }
}

/// The rules 14 to 22 themselves.
fn decide(facts: &Facts<'_>) -> (Verdict, Confidence) {
    let members = &facts.members;
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
        let confidence = if facts.moved.is_empty() {
            Confidence::Low
        } else {
            Confidence::Medium
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
    facts: &Facts<'_>,
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
fn inferred(
    case: &Case<'_>,
    here: &Standing<'_>,
    standing: &[Standing<'_>],
    members: &Members,
) -> bool {
    let handovers = here.handovers();
    let Some(first) = handovers.first() else {
        return false;
    };
    // What moved before it was tried again may have moved before everything broke.
    let since = here.looks.get(*first..).unwrap_or_default();
    let moved = moved(case, since, here.partition);
    let topic = &here.partition.topic;
    // An assignment covers whole topics: somebody had it if somebody moved another one of its topic.
    let somebodys = !here.owners.is_empty() || moved.iter().any(|other| other.topic == *topic);
    let nobodys = looks_without_owner(case, here).is_some_and(|looks| looks > 0);
    let unread = case.not_probed(here.partition, here.committed).is_some();
    here.tried_again(case, &handovers)
        && !moved.is_empty()
        && here.is_not_its_host(&moved)
        && here.is_singled_out(standing)
        && somebodys
        && !nobodys
        && !unread
        && !members.rebalance_loop()
}

/// Partitions that moved on from one look to the next while somebody was there to move them. What was before the latest
/// recovery of Offset Guard is left out: it stopped the group and moved it.
fn moved<'a>(
    case: &Case<'_>,
    looks: &'a [Sample],
    except: &TopicPartition,
) -> BTreeSet<&'a TopicPartition> {
    let mut moved = BTreeSet::new();
    for pair in looks.windows(2) {
        let [a, b] = pair else { continue };
        if (a.is_empty() && b.is_empty()) || a.moved_at != case.last.moved_at {
            continue;
        }
        for (partition, reading) in &b.partitions {
            let earlier = a.of_partition(partition).and_then(|p| p.committed);
            let later = reading.as_ref().ok().and_then(|p| p.committed);
            if partition != except && earlier.is_some() && later > earlier {
                moved.insert(partition);
            }
        }
    }
    moved
}

/// Whether the owner has two or more that stand while those of other owners move.
fn owner_stuck(
    case: &Case<'_>,
    here: &Standing<'_>,
    standing: &[Standing<'_>],
    moved: &BTreeSet<&TopicPartition>,
) -> bool {
    let owner_of = |partition: &TopicPartition| {
        let sample = case.last.of_partition(partition)?;
        sample.owner.as_deref()
    };
    let Some(owner) = owner_of(here.partition) else {
        return false;
    };
    let own = standing
        .iter()
        .filter(|other| owner_of(other.partition) == Some(owner))
        .count();
    let others_move = moved
        .iter()
        .any(|partition| owner_of(partition).is_some_and(|other| other != owner));
    own >= 2 && others_move
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
    standing: &[Standing<'_>],
    facts: &Facts<'_>,
    verdict: Verdict,
) -> Vec<Evidence> {
    let mut evidence = Vec::new();
    if facts.two_samples && verdict == Verdict::PoisonLikely {
        evidence.push(Evidence::TwoSamples);
    }
    evidence.extend(facts.pinned.clone());
    evidence.push(here.stillness(case));
    evidence.extend(of_hands(case, here));
    match facts.moved.first() {
        Some(example) => evidence.push(Evidence::OthersMoved {
            example: (*example).clone(),
            count: facts.moved.len(),
        }),
        None => evidence.push(Evidence::NothingMoved),
    }
    if standing.len() > 1 {
        let others = || standing.iter().filter(|o| o.partition != here.partition);
        evidence.push(Evidence::AlsoStalled {
            partitions: others().take(NAMED).map(|o| o.partition.clone()).collect(),
            count: others().count(),
        });
    }
    let members = &facts.members;
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
fn of_hands(case: &Case<'_>, here: &Standing<'_>) -> Vec<Evidence> {
    let mut evidence = Vec::new();
    if here.owners.len() >= 2 {
        let named = here.owners.iter().take(NAMED);
        evidence.push(Evidence::Owners {
            member_ids: named.map(|id| (*id).to_owned()).collect(),
            count: here.owners.len(),
        });
    }
    let arrivals = comings(here.looks).replaced;
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
fn of_probe(case: &Case<'_>, here: &Standing<'_>, facts: &Facts<'_>) -> Vec<Evidence> {
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
