//! Every rule once, with everything that it says.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use jiff::Timestamp;

use super::super::super::policy::{Isolation, Validator};
use super::super::super::probe::{Failure, First, Probe, Unlike};
use super::super::super::sample::{LiveRecovery, Stage};
use super::super::super::verdict::{Finding, Verdict};
use super::super::judge::decide_all;
use super::super::table::RULES;
use super::{at_rest, crash_looping};
use crate::group::GroupState;
use crate::ids::PlanId;
use crate::offset::Fault;
use crate::testing::guard::{History, outline, probe};
use crate::testing::{p, topic};

/// A case: the verdict that is expected, what the case is, and its history. It is about partition 0.
type Case = (Verdict, &'static str, History);

/// A group that has partition 0 at rest in one member's hands.
fn group() -> History {
    let mut history = History::of(1);
    history.stable(&[("a1", &[0])]);
    history
}

fn made(of: History, change: impl FnOnce(&mut History)) -> History {
    let mut history = of;
    change(&mut history);
    history
}

/// A recovery that is being applied, and moves partition 0 to `to`.
fn applies(since: Timestamp, to: i64) -> LiveRecovery {
    LiveRecovery {
        plan: PlanId("01KBAKV1R0ZJ3T1W8Q6F2X9C4D".to_owned()),
        since,
        stage: Stage::Applies,
        targets: vec![(p(0), to)],
    }
}

/// A probe that begins with a tombstone, where the records before had values.
fn tombstone() -> Probe {
    let mut odd = probe(100, &[(100, false)]);
    odd.unlike = Some(Unlike {
        failure: Failure {
            offset: 100,
            validator: Validator::NotNull,
            problem: "the value is null: a tombstone".to_owned(),
        },
        passing: 20,
    });
    odd
}

fn of_one_partition() -> Vec<Case> {
    vec![
        (
            Verdict::NoData,
            "its reading failed",
            made(group(), |h| {
                h.run().fails(0).run();
            }),
        ),
        (
            Verdict::TopicChanged,
            "the topic has another id, and its commit is gone with the old one",
            made(group(), |h| {
                h.run();
                h.seen.topics.insert("shipments".into(), topic(8, 1));
                h.no_commit(0).high(0, 5).run();
            }),
        ),
        (
            Verdict::TopicChanged,
            "the topic is gone",
            made(group(), |h| {
                h.run().reading(0).log = Err(Fault::TopicGone);
                h.run();
            }),
        ),
        (
            Verdict::TopicChanged,
            "the brokers tell no ids, and the log ends earlier",
            made(group(), |h| {
                h.seen.topics.insert("shipments".into(), topic(0, 1));
                h.run().high(0, 120).run();
            }),
        ),
        (
            Verdict::NoCommit,
            "its members have read nothing of it for three runs",
            made(group(), |h| {
                h.no_commit(0).runs(3);
            }),
        ),
        (
            Verdict::Ahead,
            "a reset went beyond the end",
            made(group(), |h| {
                h.committed(0, 201).run();
            }),
        ),
        (
            Verdict::BelowLogStart,
            "retention was faster",
            made(group(), |h| {
                h.log(0, 101, 200).run();
            }),
        ),
        (
            Verdict::CaughtUp,
            "everything is read",
            made(group(), |h| {
                h.committed(0, 200).run();
            }),
        ),
        (
            Verdict::Rewound,
            "somebody reset it",
            made(group(), |h| {
                h.run().committed(0, 40).run();
            }),
        ),
        (
            Verdict::Rewound,
            "a recovery moved it back",
            made(group(), |h| {
                h.run().committed(0, 40);
                h.moved_at = Some(h.now());
                h.run();
            }),
        ),
        (
            Verdict::Rewound,
            "a recovery that is not reported yet moved it back",
            made(group(), |h| {
                h.run().committed(0, 40);
                h.recovery = Some(applies(h.now(), 40));
                h.run();
            }),
        ),
        (
            Verdict::ExternalOffsets,
            "so configured",
            made(group(), |h| {
                h.policy(|policy| policy.external_offsets = true).runs(4);
            }),
        ),
        (
            Verdict::ExternalOffsets,
            "its commit moves while nobody is in the group",
            made(History::of(1), |h| {
                h.empty().run().committed(0, 110).look();
            }),
        ),
        (
            Verdict::ExternalOffsets,
            "its commit moves, and it never had a protocol",
            made(History::of(1), |h| {
                h.empty().run();
                h.seen.description.as_mut().unwrap().is_simple = true;
                h.committed(0, 110).run();
            }),
        ),
        (
            Verdict::BlockedByTransaction,
            "a transaction is open where it is",
            made(group(), |h| {
                h.open(0, 100).runs(2);
            }),
        ),
        (
            Verdict::BlockedByTransaction,
            "a transaction hangs, and it is known to read committed records",
            made(group(), |h| {
                h.policy(|policy| policy.isolation = Isolation::ReadCommitted);
                h.open(0, 100).runs(6);
            }),
        ),
        (
            Verdict::BlockedByTransaction,
            "its own transaction has a commit pending",
            made(group(), |h| {
                h.unstable.insert(p(0));
                h.runs(4);
            }),
        ),
        (
            Verdict::MarkersOnly,
            "nothing but a marker waits",
            made(group(), |h| {
                h.high(0, 101).runs(4).probed(0, probe(100, &[]));
            }),
        ),
        (
            Verdict::MarkersOnly,
            "nothing but aborted records, and nobody says what it reads",
            made(group(), |h| {
                let mut probe = probe(100, &[]);
                probe.uncommitted = First::Record(outline(100));
                h.runs(4).probed(0, probe);
            }),
        ),
        (
            Verdict::Slow,
            "it moves, and the log moves faster",
            made(group(), |h| {
                for n in 0..4 {
                    h.committed(0, 100 + n).high(0, 200 + 50 * n).run();
                }
            }),
        ),
        (
            Verdict::Moving,
            "it moves",
            made(group(), |h| {
                h.run().work(&[0]).run();
            }),
        ),
        (
            Verdict::Waiting,
            "nobody has looked before",
            made(group(), |h| {
                h.run();
            }),
        ),
        (
            Verdict::Waiting,
            "it has not stood for long enough",
            made(group(), |h| {
                h.runs(2);
            }),
        ),
        (
            Verdict::Waiting,
            "its consumer has just come back to an old commit",
            made(History::of(1), |h| {
                h.empty().runs(4).stable(&[("a1", &[0])]).run();
            }),
        ),
        (
            Verdict::Waiting,
            "it stood as long before and went on",
            made(group(), |h| {
                h.runs(4).work(&[0]).runs(4);
            }),
        ),
    ]
}

fn of_the_group() -> Vec<Case> {
    vec![
        (
            Verdict::PoisonLikely,
            "a validator fails at the commit",
            made(at_rest(3, &[1, 2, 3]), |h| {
                h.probed(0, probe(200, &[(200, true), (201, false)]));
            }),
        ),
        (
            Verdict::PoisonLikely,
            "processes end at it again and again, and get everything else done",
            crash_looping(4, &[1, 2, 3, 4, 5]),
        ),
        (
            Verdict::NoMembers,
            "nobody is there",
            made(History::of(2), |h| {
                h.empty().runs(3);
            }),
        ),
        (
            Verdict::NoMembers,
            "a recovery has them stopped",
            made(History::of(2), |h| {
                h.recovery = Some(applies(h.now(), 40));
                h.empty().runs(3);
            }),
        ),
        (
            Verdict::RebalanceLoop,
            "its members never come to rest",
            made(History::of(2), |h| {
                for _ in 0..3 {
                    h.joining(&["a1", "b1"]).run();
                    h.state(GroupState::CompletingRebalance).look();
                    h.joining(&["a1", "b1"]).look();
                    h.stable(&[("a1", &[0]), ("b1", &[1])]).look();
                }
            }),
        ),
        (
            Verdict::CrashLoop,
            "its only process ends at the start, and nothing moves",
            crash_looping(4, &[]),
        ),
        (
            Verdict::CrashLoop,
            "processes end at it again and again, and nothing tells at which record of a poll",
            made(crash_looping(4, &[1, 2, 3]), |h| {
                h.policy(|policy| policy.max_poll_records = None);
            }),
        ),
        (
            Verdict::CrashLoop,
            "its process comes and goes, and the last runs met nobody",
            made(History::of(1), |h| {
                for n in 0..3 {
                    h.empty().run().joining(&[&format!("a{n}")]).look();
                }
                h.empty().runs(2);
            }),
        ),
        (
            Verdict::Unassigned,
            "its member reads other partitions",
            made(History::of(2), |h| {
                h.stable(&[("a1", &[1])]);
                for _ in 0..4 {
                    h.run().work(&[1]);
                }
            }),
        ),
        (Verdict::GroupStuck, "everything stands", at_rest(3, &[])),
        (
            Verdict::OwnerStuck,
            "what one member has stands",
            at_rest(3, &[2, 3]),
        ),
        (
            Verdict::PoisonSuspected,
            "it alone stands, in the same hands",
            at_rest(3, &[1, 2, 3]),
        ),
        (
            Verdict::PoisonSuspected,
            "the same, and nothing is known of how the group commits",
            made(at_rest(3, &[1, 2, 3]), |h| {
                h.policy(|policy| policy.max_poll_records = None);
            }),
        ),
        (
            Verdict::PoisonSuspected,
            "processes end beside others, and its next record is a tombstone where there was none",
            made(History::of(2), |h| {
                for n in 0..4 {
                    h.stable(&[("b1", &[1])]).run().work(&[1]);
                    h.joining(&[&format!("a{n}"), "b1"]).look();
                    h.stable(&[("b1", &[1])]).look();
                }
                h.probed(0, tombstone());
            }),
        ),
        (
            Verdict::PoisonLikely,
            "the same, where two samples are enough",
            made(at_rest(0, &[]), |h| {
                h.policy(|policy| {
                    policy.min_samples = 2;
                    policy.stall_seconds = 0;
                });
                h.run().work(&[1, 2, 3]).high(0, 320).run();
            }),
        ),
        (
            Verdict::PoisonSuspected,
            "member after member ends at it, and its next record is a tombstone where there was none",
            made(crash_looping(4, &[1, 2]), |h| {
                h.policy(|policy| policy.max_poll_records = None);
                h.probed(0, tombstone());
            }),
        ),
        (
            Verdict::CrashLoop,
            "member after member comes, and each lives longer than the time between two runs",
            made(History::of(2), |h| {
                for n in 0..3 {
                    h.stable(&[(&format!("a{n}"), &[0, 1])]).runs(2);
                    h.empty().run();
                }
                h.stable(&[("a3", &[0, 1])]).runs(2);
            }),
        ),
        (
            Verdict::StalledUnknown,
            "the brokers call the group dead, and tell no members",
            made(at_rest(3, &[]), |h| {
                h.stable(&[]).state(GroupState::Dead).runs(4);
            }),
        ),
        (
            Verdict::StalledUnknown,
            "two stand in different hands, and the others move",
            at_rest(3, &[1, 3]),
        ),
    ]
}

fn told(finding: &Finding) -> String {
    let mut text = format!(
        "{} {} ({} confidence), lag {:?}\n",
        finding.status, finding.verdict, finding.confidence, finding.lag
    );
    for evidence in &finding.evidence {
        writeln!(text, "  - {evidence}").unwrap();
    }
    writeln!(text, "  next: {}", finding.next_step()).unwrap();
    text
}

/// The number of the rule that decides about partition 0.
fn number_of_rule(history: &History) -> usize {
    let probes = history.read_probes();
    let case =
        super::super::case::Case::new(&history.samples, &probes, &history.policy, history.now());
    let (decided, _) = decide_all(&case.unwrap());
    let mut decided = decided.into_iter();
    let decided = decided.find(|d| d.finding.partition == p(0)).unwrap();
    let place = RULES
        .iter()
        .position(|rule| std::ptr::eq(rule, decided.rule));
    place.unwrap() + 1
}

#[test]
fn every_rule_with_everything_that_it_says() {
    let mut text = String::new();
    let (mut shown, mut asked) = (BTreeSet::new(), BTreeSet::new());
    for (expected, what, history) in of_one_partition().into_iter().chain(of_the_group()) {
        let finding = history.finding(0);
        assert_eq!(finding.verdict, expected, "{what}: {}", told(&finding));
        assert_eq!(finding.partition, p(0));
        shown.insert(expected);
        let number = number_of_rule(&history);
        asked.insert(number);
        writeln!(text, "{number}. {what}\n  {}", told(&finding)).unwrap();
    }
    assert_eq!(shown, Verdict::ALL.into());
    insta::assert_snapshot!(text);
    assert_eq!(asked, (1..=RULES.len()).collect());
}

#[test]
fn a_finding_survives_json() {
    for (_, what, history) in of_one_partition().into_iter().chain(of_the_group()) {
        let finding = history.finding(0);
        let json = serde_json::to_string(&finding).unwrap();
        assert_eq!(
            serde_json::from_str::<Finding>(&json).unwrap(),
            finding,
            "{what}"
        );
    }
}

#[test]
fn every_verdict_is_that_of_a_rule_and_its_code_is_its_name_in_json() {
    let reached: BTreeSet<_> = RULES.iter().map(|rule| rule.verdict).collect();
    assert_eq!(reached, Verdict::ALL.into());
    for verdict in Verdict::ALL {
        assert_eq!(serde_json::to_value(verdict).unwrap(), verdict.code());
    }
}
