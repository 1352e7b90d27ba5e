//! Questions about a partition whose commit stands for too long: why it does.

use super::case::{Case, isolation_matters};
use super::counts::NAMED;
use super::picture::Picture;
use super::standing::Standing;
use super::suspicion::{Facts, looks_without_owner};
use crate::guard::probe::{First, Probe, Unlike};
use crate::guard::sample::Trouble;
use crate::guard::verdict::{Confidence, Evidence, Finding, Status, Verdict};
use crate::offset::distance;

/// A partition that stands for too long, and everything that is known beside it.
pub(super) struct Stall<'c, 'a> {
    case: &'c Case<'a>,
    here: &'c Standing<'a>,
    picture: &'c Picture<'a>,
    facts: Facts,
}

/// Whether a validator does not pass the first record that the group's consumers see.
pub(super) fn next_record_fails_a_validator(stall: &Stall<'_, '_>) -> Option<Confidence> {
    stall.facts.pinned.is_some().then_some(Confidence::High)
}

/// Whether all that was seen points to one record: it was tried again and again, and everything else went on.
pub(super) fn one_record_stops_it(stall: &Stall<'_, '_>) -> Option<Confidence> {
    let facts = &stall.facts;
    (facts.inferred && facts.named).then_some(Confidence::Medium)
}

/// Whether all that was seen points to a record of this partition, and which one it is remains open.
///
/// Members that end are what is seen of it in every run; that others move meanwhile shows in some.
pub(super) fn one_of_several_records_stops_it(stall: &Stall<'_, '_>) -> Option<Confidence> {
    let facts = &stall.facts;
    let points_here = facts.odd.is_some() || facts.trouble != Trouble::Crashes;
    (facts.inferred && points_here).then_some(Confidence::Medium)
}

pub(super) fn nobody_is_in_the_group(stall: &Stall<'_, '_>) -> Option<Confidence> {
    (stall.facts.trouble == Trouble::Absent).then_some(Confidence::High)
}

pub(super) fn members_keep_rebalancing(stall: &Stall<'_, '_>) -> Option<Confidence> {
    (stall.facts.trouble == Trouble::Rebalances).then_some(Confidence::Medium)
}

/// Whether members end, others of the group go on, and the one record that is next here is of another kind than all that
/// they got past, while what else stands looks as it always did.
///
/// That is enough to show a person this record first instead of sending them to look for it. It is not enough to propose
/// to pass over it by itself, since nobody was seen to have it, to end and to try again: a topic may hold records of two
/// kinds, and what the members die of may be a record that looks like all others, in a partition that went down with this
/// one.
pub(super) fn members_crash_beside_an_odd_record(stall: &Stall<'_, '_>) -> Option<Confidence> {
    let facts = &stall.facts;
    let others_go_on = facts.others_moved && !facts.nothing_moves;
    let beside = facts.trouble == Trouble::Crashes && facts.odd.is_some() && others_go_on;
    beside.then_some(Confidence::Low)
}

pub(super) fn members_crash(stall: &Stall<'_, '_>) -> Option<Confidence> {
    (stall.facts.trouble == Trouble::Crashes).then_some(Confidence::Medium)
}

/// Whether member after member came since it stands, and one did lately.
pub(super) fn members_keep_starting_at_it(stall: &Stall<'_, '_>) -> Option<Confidence> {
    stall.facts.taken_again.then_some(Confidence::Medium)
}

pub(super) fn no_member_has_it(stall: &Stall<'_, '_>) -> Option<Confidence> {
    stall.facts.unassigned.then_some(Confidence::High)
}

/// Whether the group is dead or in an unknown state: nothing can be said of members that nobody sees.
pub(super) fn no_member_was_seen(stall: &Stall<'_, '_>) -> Option<Confidence> {
    (!stall.picture.members.seen).then_some(Confidence::Low)
}

/// Whether its member has had it for too short a time to be blamed.
pub(super) fn is_new_in_its_members_hands(stall: &Stall<'_, '_>) -> Option<Confidence> {
    stall
        .facts
        .new_in_hands
        .is_some()
        .then_some(Confidence::High)
}

pub(super) fn several_stand_and_none_moves(stall: &Stall<'_, '_>) -> Option<Confidence> {
    let facts = &stall.facts;
    (!facts.alone && facts.nothing_moves).then_some(Confidence::Medium)
}

/// Whether its member has two or more that stand while those of other members move.
pub(super) fn one_members_partitions_stand(stall: &Stall<'_, '_>) -> Option<Confidence> {
    stall.facts.owner_stuck.then_some(Confidence::Medium)
}

/// Whether the simplest rule in use calls it a deadlock, and it is known which record is next.
pub(super) fn two_samples_agree(stall: &Stall<'_, '_>) -> Option<Confidence> {
    let facts = &stall.facts;
    (facts.alone && facts.two_samples && facts.named).then_some(Confidence::Low)
}

pub(super) fn stands_alone(stall: &Stall<'_, '_>) -> Option<Confidence> {
    let confidence = if stall.facts.others_moved {
        Confidence::Medium
    } else {
        Confidence::Low
    };
    stall.facts.alone.then_some(confidence)
}

/// Matches always: nothing that was seen says why it stands.
pub(super) fn stands(_: &Stall<'_, '_>) -> Option<Confidence> {
    Some(Confidence::Low)
}

impl<'c, 'a> Stall<'c, 'a> {
    pub(super) fn new(
        case: &'c Case<'a>,
        here: &'c Standing<'a>,
        picture: &'c Picture<'a>,
    ) -> Self {
        Self {
            case,
            here,
            picture,
            facts: Facts::new(case, here, picture),
        }
    }

    /// The finding that goes with a verdict.
    pub(super) fn finding(&self, verdict: Verdict, confidence: Confidence) -> Finding {
        let (case, here, facts) = (self.case, self.here, &self.facts);
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
            confidence: soften(case, probe, facts, verdict, confidence),
            status,
            lag: Some(lag),
            evidence: match &facts.new_in_hands {
                Some(new) if verdict == Verdict::Waiting => {
                    let (committed, log) = (here.committed, here.sample.log);
                    vec![
                        new.clone(),
                        here.stillness(case),
                        Evidence::Position { committed, log },
                    ]
                }
                _ => self.evidence(verdict),
            },
        }
    }

    /// What speaks for a verdict, the most telling first.
    fn evidence(&self, verdict: Verdict) -> Vec<Evidence> {
        let (case, here, picture, facts) = (self.case, self.here, self.picture, &self.facts);
        let mut evidence = Vec::new();
        if facts.two_samples && verdict == Verdict::PoisonLikely {
            evidence.push(Evidence::TwoSamples);
        }
        if verdict == Verdict::NoMembers {
            evidence.extend(facts.stopped_by.clone());
        }
        evidence.extend(facts.pinned.clone());
        if verdict == Verdict::PoisonSuspected {
            evidence.extend(facts.odd.as_ref().map(evidence_of_kind));
        }
        if verdict == Verdict::PoisonSuspected || (verdict == Verdict::CrashLoop && facts.inferred)
        {
            evidence.extend(facts.suspects.clone());
        }
        evidence.push(here.stillness(case));
        evidence.extend(evidence_of_owners(case, here, picture));
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
        let of_probe = evidence_of_probe(case, here, facts);
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

/// Through whose hands the partition went, and in whose it is.
fn evidence_of_owners(
    case: &Case<'_>,
    here: &Standing<'_>,
    picture: &Picture<'_>,
) -> Vec<Evidence> {
    let mut evidence = Vec::new();
    if here.owners.len() >= 2 {
        let named = here.owners.iter().take(NAMED);
        evidence.push(Evidence::Owners {
            member_ids: named.map(|id| (*id).to_owned()).collect(),
            count: here.owners.len(),
        });
    }
    let arrivals = picture.members.turnover.replaced;
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
fn evidence_of_probe(case: &Case<'_>, here: &Standing<'_>, facts: &Facts) -> Vec<Evidence> {
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
        evidence.extend(probe.unlike.as_ref().map(evidence_of_kind));
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

fn evidence_of_kind(unlike: &Unlike) -> Evidence {
    Evidence::UnlikeThoseBefore {
        offset: unlike.failure.offset,
        validator: unlike.failure.validator,
        problem: unlike.failure.problem.clone(),
        passing: unlike.passing,
    }
}
