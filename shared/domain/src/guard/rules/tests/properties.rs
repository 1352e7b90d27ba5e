//! What holds of every history, whatever it is.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::super::policy::{Isolation, RemediationAction, SkipOn};
use super::super::super::probe::{First, Probe, ProbeFault, Validation};
use super::super::super::proposal::{Ask, propose};
use super::super::super::verdict::{Evidence, Status, Verdict};
use super::super::{judge, reads_uncommitted};
use crate::group::GroupState;
use crate::offset::{Fault, TopicPartition, Watermarks};
use crate::testing::guard::{History, failure, outline};
use crate::testing::{commit, p, topic};

/// One partition in one look: a fault, or a commit, a log and an owner.
#[derive(Debug, Clone)]
struct Spot {
    fails: bool,
    gone: bool,
    committed: Option<i64>,
    log_start: i64,
    open: i64,
    high: i64,
    owner: Option<usize>,
    unstable: bool,
}

#[derive(Debug, Clone)]
struct Look {
    state: GroupState,
    members: Vec<usize>,
    spots: Vec<Spot>,
    new_run: bool,
    pause: i64,
    topic: u8,
    moved: bool,
    is_simple: bool,
}

const PARTITIONS: usize = 4;

fn spot() -> impl Strategy<Value = Spot> {
    (
        (prop::bool::weighted(0.05), prop::bool::weighted(0.02)),
        // Few values, so that commits stand, move, go back and lie outside of their logs.
        option::weighted(
            0.95,
            select(vec![-1, 0, 9, 10, 10, 10, 10, 11, 20, i64::MAX]),
        ),
        select(vec![0, 0, 0, 5, 11]),
        select(vec![0, 0, 0, 1, 5, 10]),
        select(vec![10, 15, 20, 20, 20, 100, i64::MAX]),
        option::weighted(0.8, 0..4_usize),
        prop::bool::weighted(0.05),
    )
        .prop_map(
            |((fails, gone), committed, log_start, open, high, owner, unstable)| Spot {
                fails,
                gone,
                committed,
                log_start,
                open,
                high,
                owner,
                unstable,
            },
        )
}

fn look() -> impl Strategy<Value = Look> {
    (
        select(vec![
            GroupState::Empty,
            GroupState::Stable,
            GroupState::Stable,
            GroupState::Stable,
            GroupState::PreparingRebalance,
            GroupState::CompletingRebalance,
            GroupState::Assigning,
            GroupState::Reconciling,
            GroupState::Dead,
            GroupState::Unknown,
        ]),
        vec(0..6_usize, 0..4),
        vec(spot(), PARTITIONS),
        prop::bool::weighted(0.5),
        select(vec![1, 3, 200, 300, 400, 4000]),
        select(vec![7_u8, 7, 7, 7, 7, 7, 8, 0]),
        (prop::bool::weighted(0.05), prop::bool::weighted(0.1)),
    )
        .prop_map(
            |(state, members, spots, new_run, pause, topic, (moved, is_simple))| Look {
                state,
                members,
                spots,
                new_run,
                pause,
                topic,
                moved,
                is_simple,
            },
        )
}

fn history(looks: &[Look]) -> History {
    let names = ["a1", "a2", "a3", "b1", "b2", "c1"];
    let mut history = History::of(i32::try_from(PARTITIONS).unwrap());
    for look in looks {
        let members: Vec<(&str, Vec<i32>)> = look
            .members
            .iter()
            .enumerate()
            .map(|(place, name)| {
                let has = |n: &usize| look.spots[*n].owner == Some(place);
                let owned = (0..PARTITIONS).filter(has);
                (
                    names[*name],
                    owned.map(|n| i32::try_from(n).unwrap()).collect(),
                )
            })
            .collect();
        let members: Vec<_> = members.iter().map(|(n, of)| (*n, of.as_slice())).collect();
        history.stable(&members).state(look.state);
        history.seen.description.as_mut().unwrap().is_simple = look.is_simple;
        history.seen.topics = [("shipments".into(), topic(look.topic, 4))].into();
        history.unstable.clear();
        for (n, spot) in (0..).zip(&look.spots) {
            if spot.unstable {
                history.unstable.insert(p(n));
            }
            let reading = history.reading(n);
            reading.committed = Ok(spot.committed.map(commit));
            let last_stable = (spot.high - spot.open).max(0);
            reading.log = Ok(Watermarks {
                log_start: spot.log_start,
                last_stable,
                high: spot.high,
                leader_epoch: None,
            });
            if spot.fails {
                reading.log = Err(Fault::missing());
            }
            if spot.gone {
                reading.committed = Err(Fault::TopicGone);
            }
        }
        if look.moved {
            history.moved_at = Some(history.now());
        }
        if look.new_run {
            history.run_after(look.pause);
        } else {
            history.pass(look.pause).look();
        }
    }
    history
}

/// How many offsets the first record lies behind the commit, how many of these hold aborted data, which records fail, and
/// whether a `read_committed` consumer sees none; `None` where nothing could be read.
type Found = Option<(i64, i64, Vec<bool>, bool)>;

/// What a raw read at each partition's last commit found.
fn probes() -> impl Strategy<Value = Vec<Found>> {
    let found = (0..3_i64, 0..3_i64, vec(any::<bool>(), 0..5), any::<bool>());
    vec(option::weighted(0.8, found), PARTITIONS)
}

fn with_probes(history: &mut History, found: &[Found]) {
    for (n, found) in (0..).zip(found) {
        let committed = history
            .samples
            .last()
            .and_then(|l| l.of_partition(&p(n))?.committed);
        let from = committed.unwrap_or(0).clamp(0, 1 << 40);
        let probed = match found {
            None => Err(ProbeFault::Unreadable(Fault::missing())),
            Some((gap, aborted, bad, nothing)) => {
                let first = from + gap;
                let at = |n: usize| first + i64::try_from(n).unwrap();
                let records = bad.iter().enumerate();
                Ok(Probe {
                    from,
                    committed: if *nothing || bad.is_empty() {
                        First::None { until: from }
                    } else {
                        First::Record(outline(first))
                    },
                    uncommitted: First::Record(outline((first - aborted).max(from))),
                    validation: Validation {
                        records: records
                            .map(|(n, bad)| (at(n), bad.then(|| failure(at(n)))))
                            .collect(),
                    },
                    unlike: None,
                })
            }
        };
        history.probes.insert(p(n), probed);
    }
}

prop_compose! {
    fn any_history()(
        looks in vec(look(), 1..14),
        found in probes(),
        min_samples in 0..4_u32,
        stall_seconds in select(vec![0_u32, 10, 600]),
        isolation in select(vec![Isolation::Unknown, Isolation::ReadCommitted, Isolation::ReadUncommitted]),
        suspected in any::<bool>(),
        external_offsets in prop::bool::weighted(0.05),
    ) -> History {
        let mut history = history(&looks);
        with_probes(&mut history, &found);
        history.policy(|policy| {
            policy.min_samples = min_samples;
            policy.stall_seconds = stall_seconds;
            policy.isolation = isolation;
            policy.external_offsets = external_offsets;
            policy.validators = vec![failure(0).validator];
            policy.skip_on = if suspected { SkipOn::Suspected } else { SkipOn::Likely };
        });
        history
    }
}

/// A history in which things stand: random ones are mostly noise.
fn standing_history() -> impl Strategy<Value = History> {
    (any_history(), vec((look(), 1..4_usize), 3..6)).prop_map(|(noise, stands)| {
        let mut looks = Vec::new();
        let base = stands[0].0.spots.clone();
        for (mut look, times) in stands {
            // Partition 0 stands at 10 of 20 throughout, the others do as they like.
            look.spots[0] = Spot {
                fails: false,
                gone: false,
                committed: Some(10),
                log_start: 0,
                open: 0,
                high: 20,
                owner: base[0].owner,
                unstable: false,
            };
            look.topic = 7;
            look.pause = look.pause.min(400);
            for again in 0..times {
                look.new_run = again == 0;
                looks.push(look.clone());
            }
        }
        let mut history = history(&looks);
        history.policy = noise.policy.clone();
        history.probes = noise.probes.clone();
        if let Some(Ok(probe)) = history.probes.get_mut(&p(0)) {
            let shift = 10 - probe.from;
            probe.from = 10;
            for first in [&mut probe.committed, &mut probe.uncommitted] {
                if let First::Record(record) = first {
                    record.offset += shift;
                }
            }
            for (offset, failure) in &mut probe.validation.records {
                *offset += shift;
                if let Some(failure) = failure {
                    failure.offset += shift;
                }
            }
        }
        history
    })
}

fn either() -> impl Strategy<Value = History> {
    prop_oneof![any_history(), standing_history()]
}

fn allows_a_skip(verdict: Verdict, policy: SkipOn) -> bool {
    verdict == Verdict::PoisonLikely
        || (verdict == Verdict::PoisonSuspected && policy == SkipOn::Suspected)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_partition_gets_one_finding_and_the_same_every_time(history in either()) {
        let (assessment, proposals) = history.judged();
        let (again, proposals_again) = history.judged();
        prop_assert_eq!(&assessment, &again);
        prop_assert_eq!(proposals, proposals_again);
        let last = history.samples.last().unwrap();
        let found: Vec<_> = assessment.findings.iter().map(|f| &f.partition).collect();
        prop_assert_eq!(found, last.partitions.keys().collect::<Vec<_>>());
        let worst = assessment.findings.iter().map(|f| f.status).max();
        prop_assert_eq!(Some(assessment.status), worst);
    }

    #[test]
    fn nothing_but_poison_leads_to_a_skip_and_only_within_the_log(history in either()) {
        let (assessment, proposals) = history.judged();
        let uncommitted = reads_uncommitted(&history.samples, &history.policy);
        for skip in &proposals.skips {
            let finding = assessment.findings.iter().find(|f| f.partition == skip.partition).unwrap();
            prop_assert!(allows_a_skip(finding.verdict, history.policy.skip_on));
            let last = history.samples.last().unwrap();
            let sample = last.of_partition(&skip.partition).unwrap();
            let Ok(probe) = &history.probes[&skip.partition] else {
                return Err(TestCaseError::fail("a record that nobody read is passed over"));
            };
            prop_assert_eq!(Some(skip.committed), sample.committed);
            prop_assert!(skip.committed <= skip.first && skip.first <= skip.last);
            prop_assert!(skip.last < sample.log.high);
            prop_assert!(uncommitted || skip.last < sample.log.last_stable);
            let first = if uncommitted { &probe.uncommitted } else { &probe.committed };
            prop_assert_eq!(Some(skip.first), first.offset());
            // More than the first record goes only if every one of them was read, and fails.
            let failing = |offset: i64| {
                probe.validation.records.iter().any(|(at, failure)| *at == offset && failure.is_some())
            };
            prop_assert!(skip.first == skip.last || (skip.first..=skip.last).all(failing));
            // A record that passes is never passed over because of one further on.
            let further = probe.validation.first_failure().map(|f| f.offset);
            prop_assert!(further.is_none_or(|further| further <= skip.first || failing(skip.first)));
        }
    }

    #[test]
    fn a_stall_is_of_something_that_waits_and_was_seen_to_wait_before(history in either()) {
        let (assessment, _) = history.judged();
        for finding in &assessment.findings {
            if finding.verdict < Verdict::PoisonLikely {
                continue;
            }
            let last = history.samples.last().unwrap();
            let sample = last.of_partition(&finding.partition).unwrap();
            prop_assert!(sample.waits());
            let stood = finding.evidence.iter().find_map(|e| match e {
                Evidence::Still { seconds, runs, .. } => Some((*seconds, *runs)),
                _ => None,
            });
            let (seconds, runs) = stood.unwrap();
            prop_assert!(seconds >= u64::from(history.policy.stall_seconds));
            prop_assert!(runs >= 2 && runs >= usize::try_from(history.policy.min_samples).unwrap());
        }
    }

    #[test]
    fn what_cannot_be_read_blinds_no_other(history in either(), blind in 0..4_i32) {
        let mut blinded = history.clone();
        blinded.samples.last_mut().unwrap().partitions.insert(p(blind), Err(Fault::NoLeader));
        let (before, _) = history.judged();
        let (after, _) = blinded.judged();
        for (was, is) in before.findings.iter().zip(&after.findings) {
            prop_assert_eq!(&was.partition, &is.partition);
            // What explains itself is explained all the same, and what stands still stands.
            if was.partition == p(blind) {
                prop_assert_eq!(is.verdict, Verdict::NoData);
            } else if !was.verdict.is_stall() {
                prop_assert_eq!(was, is);
            } else {
                // Whoever has it may have had it for too short a time, where the moves that spoke against that are not seen.
                let is_new = is.evidence.iter().any(|e| matches!(e, Evidence::OwnedSince { .. }));
                prop_assert!(is.verdict.is_stall() || (is.verdict == Verdict::Waiting && is_new));
                let poison = Verdict::PoisonLikely;
                prop_assert!(is.verdict != poison || was.verdict == poison);
            }
        }
    }

    /// A partition that has nothing to read, and never had.
    #[test]
    fn a_healthy_partition_more_makes_no_poison(history in either()) {
        let mut more = history.clone();
        let healthy = TopicPartition::new("shipments", 99);
        for look in &mut more.samples {
            let mut sample = super::super::super::sample::PartitionSample {
                committed: Some(50),
                log: crate::testing::log(0, 50),
                owner: None,
                unstable: false,
                still_since: look.at,
                stable_since: look.at,
                longest_pause_seconds: 0,
            };
            sample.owner = look.members.first().map(|m| m.member_id.clone());
            look.partitions.insert(healthy.clone(), Ok(sample));
        }
        let (before, _) = history.judged();
        let (after, _) = more.judged();
        let others: Vec<_> = after.findings.iter().filter(|f| f.partition != healthy).collect();
        prop_assert_eq!(before.findings.iter().collect::<Vec<_>>(), others);
    }

    #[test]
    fn less_evidence_is_never_more_poison(history in either()) {
        // One look is never enough.
        let mut first = history.clone();
        first.samples.drain(..first.samples.len() - 1);
        let (assessment, proposals) = first.judged();
        prop_assert!(assessment.findings.iter().all(|f| f.verdict < Verdict::PoisonLikely));
        prop_assert_eq!(proposals.skips, vec![]);
        // Nor is a record that nobody could read.
        let mut unread = history;
        for probed in unread.probes.values_mut() {
            *probed = Err(ProbeFault::NoRoom);
        }
        let (assessment, proposals) = unread.judged();
        prop_assert!(assessment.findings.iter().all(|f| f.verdict != Verdict::PoisonLikely));
        prop_assert_eq!(proposals.skips, vec![]);
    }

    #[test]
    fn an_asked_skip_is_refused_or_within_what_waits(
        history in either(), asked in 0..5_i32, through in option::of(0..30_i64)
    ) {
        let ask = Ask { partition: p(asked), action: RemediationAction::SkipPoisonRecord, through };
        let (assessment, proposals) = history.asked(Some(&ask));
        prop_assert_eq!(proposals.skips.len() + proposals.withheld.len(), 1);
        prop_assert_eq!(proposals.rewinds.len(), 0);
        for skip in proposals.skips {
            prop_assert_eq!(&skip.partition, &ask.partition);
            let sample = history.samples.last().unwrap().of_partition(&ask.partition).unwrap();
            prop_assert!(sample.waits() && skip.first >= skip.committed && skip.last < sample.log.high);
            let verdict = assessment.findings.iter().find(|f| f.partition == ask.partition).unwrap().verdict;
            prop_assert!(verdict.is_stall() || verdict == Verdict::Waiting, "{}", verdict);
        }
    }

    #[test]
    fn a_rewind_lands_within_the_log(history in either(), asked in option::of(0..4_i32), back in 1..50_u32) {
        let mut history = history;
        history.policy(|policy| {
            policy.remediation_action = RemediationAction::RewindOffset;
            policy.rewind_record_count = back;
        });
        let ask = asked.map(|n| Ask {
            partition: p(n), action: RemediationAction::RewindOffset, through: None
        });
        let (assessment, proposals) = history.asked(ask.as_ref());
        prop_assert_eq!(proposals.skips, vec![]);
        for (partition, to) in &proposals.rewinds {
            let sample = history.samples.last().unwrap().of_partition(partition).unwrap();
            prop_assert!(*to >= sample.log.log_start);
            let verdict = assessment.findings.iter().find(|f| f.partition == *partition).unwrap().verdict;
            let left_its_log = matches!(verdict, Verdict::BelowLogStart | Verdict::Ahead);
            prop_assert!(left_its_log || ask.as_ref().is_some_and(|ask| ask.partition == *partition));
        }
    }
}

/// Nearly every rule is reached by a few random histories, or they would prove little.
#[test]
fn the_random_histories_reach_poison_and_more() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen: BTreeMap<Verdict, usize> = BTreeMap::new();
    for _ in 0..1000 {
        let history = either().new_tree(&mut runner).unwrap().current();
        for finding in history.judged().0.findings {
            *seen.entry(finding.verdict).or_default() += 1;
        }
        if Verdict::ALL.len() - seen.len() <= 2 {
            return;
        }
    }
    panic!("few verdicts were reached: {seen:?}");
}

/// Ten thousand partitions, half of which stand, in a group that crashes over and over: whatever compares each with each
/// makes this test take minutes.
#[test]
fn ten_thousand_partitions_are_judged() {
    let mut history = History::of(10_000);
    let half: Vec<i32> = (0..5_000).collect();
    let rest: Vec<i32> = (5_000..10_000).collect();
    for n in 0..4 {
        history.stable(&[(&format!("a{n}"), &half), (&format!("b{n}"), &rest)]);
        history.run().look().work(&rest);
    }
    let assessment = history.judged_without_probes();
    assert_eq!(assessment.findings.len(), 10_000);
    assert_eq!(assessment.wants_probe.len(), 5_000);
    assert!(assessment.status == Status::Critical);
    let none = BTreeMap::new();
    let policy = &history.policy;
    let again = judge(&history.samples, &none, policy, history.now());
    let proposals = propose(&again, &none, policy, false, None, &BTreeMap::new());
    assert_eq!(proposals.skips, []);
}
