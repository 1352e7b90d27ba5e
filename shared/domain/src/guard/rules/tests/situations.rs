//! Situations that look like a deadlock and are none, each with its own verdict and without a skip; and public reports of
//! what went wrong for others, by their symptom.

use super::super::super::policy::{Isolation, RemediationAction, SkipOn};
use super::super::super::probe::First;
use super::super::super::proposal::SkipRange;
use super::super::super::verdict::{Confidence, Evidence, Status, Verdict};
use super::super::is_suspicious;
use super::{at_rest, crash_looping};
use crate::group::{GroupState, GroupType};
use crate::offset::Fault;
use crate::refusal::Refusal;
use crate::testing::guard::{History, outline, probe};
use crate::testing::{describe, p, topic};

/// The verdict of partition 0, for which no skip may be proposed, not even where a suspicion is enough for one.
fn harmless(mut history: History) -> Verdict {
    history.policy(|policy| policy.skip_on = SkipOn::Suspected);
    let (assessment, proposals) = history.judged();
    assert_eq!(proposals.skips, []);
    assert_eq!(proposals.rewinds, [].into());
    assessment.findings.first().unwrap().verdict
}

fn made(of: History, change: impl FnOnce(&mut History)) -> History {
    let mut history = of;
    change(&mut history);
    history
}

#[test]
fn one_bad_record_in_one_of_six_partitions_is_named_and_nothing_else() {
    let mut history = crash_looping(5, &[1, 2, 3, 4, 5]);
    let (assessment, proposals) = history.judged();
    let poisoned: Vec<_> = assessment
        .findings
        .iter()
        .filter(|finding| finding.verdict == Verdict::PoisonLikely)
        .map(|finding| &finding.partition)
        .collect();
    assert_eq!(poisoned, [&p(0)]);
    assert_eq!(assessment.status, Status::Critical);
    let skip = SkipRange {
        partition: p(0),
        committed: 100,
        first: 100,
        last: 100,
    };
    assert_eq!(proposals.skips, [skip]);
    history.policy(|policy| policy.remediation_action = RemediationAction::AuditOnly);
    assert_eq!(history.judged().1.skips, []);
}

#[test]
fn open_transaction() {
    let history = made(at_rest(5, &[1, 2, 3]), |h| {
        h.open(0, 200).runs(2);
    });
    assert_eq!(harmless(history), Verdict::BlockedByTransaction);
}

#[test]
fn hanging_transaction() {
    let history = made(at_rest(0, &[]), |h| {
        h.open(0, 200).runs(20);
    });
    assert_eq!(history.finding(0).status, Status::Critical);
    assert_eq!(harmless(history), Verdict::BlockedByTransaction);
}

/// Nothing but markers and aborted records before the transaction that hangs: the group is not at it, and still held back.
#[test]
fn hanging_transaction_behind_markers() {
    let history = made(at_rest(0, &[]), |h| {
        let mut found = probe(200, &[]);
        found.committed = First::None { until: 205 };
        found.uncommitted = First::Record(outline(205));
        h.open(0, 205).runs(6).probed(0, found);
    });
    assert_eq!(harmless(history), Verdict::BlockedByTransaction);
}

#[test]
fn marker_only_tail() {
    let history = made(at_rest(5, &[1, 2, 3]), |h| {
        h.probed(0, probe(200, &[]));
        if let Ok(probe) = h.probes.get_mut(&p(0)).unwrap() {
            probe.committed = First::None { until: 300 };
            probe.uncommitted = First::None { until: 300 };
        }
    });
    assert_eq!(harmless(history), Verdict::MarkersOnly);
}

/// A read that ended early has not seen the end.
#[test]
fn a_read_that_ended_before_the_end_shows_no_marker_only_tail() {
    let history = made(at_rest(5, &[1, 2, 3]), |h| {
        h.probed(0, probe(200, &[]));
    });
    assert_eq!(history.verdict(0), Verdict::PoisonSuspected);
    let (_, proposals) = history.judged();
    assert_eq!(proposals.skips, []);
}

#[test]
fn slow_but_advancing_consumer() {
    let history = made(at_rest(0, &[]), |h| {
        for n in 1..5 {
            h.committed(0, 200 + n).high(0, 300 + 100 * n).run();
        }
    });
    assert_eq!(harmless(history), Verdict::Slow);
}

#[test]
fn long_batch() {
    let history = made(History::of(1), |h| {
        h.stable(&[("a1", &[0])]).run().work(&[0]).runs(2);
    });
    assert_eq!(harmless(history), Verdict::Waiting);
}

#[test]
fn idle_topic() {
    let history = made(History::of(1), |h| {
        h.stable(&[("a1", &[0])]).committed(0, 200).runs(9);
    });
    assert_eq!(harmless(history), Verdict::CaughtUp);
}

#[test]
fn nobody_home() {
    let history = made(History::of(2), |h| {
        for _ in 0..5 {
            h.empty().run().look().look();
        }
    });
    assert_eq!(harmless(history), Verdict::NoMembers);
}

#[test]
fn partition_assigned_to_nobody() {
    let history = made(at_rest(0, &[]), |h| {
        h.stable(&[("a1", &[1]), ("b1", &[2, 3])]);
        for _ in 0..4 {
            h.run().work(&[1, 2, 3]);
        }
    });
    assert_eq!(harmless(history), Verdict::Unassigned);
}

#[test]
fn rebalance_loop() {
    let history = made(History::of(2), |h| {
        for n in 0..5 {
            let (a, b) = (format!("a{n}"), format!("b{n}"));
            h.joining(&[&a, &b]).run().look();
            h.state(GroupState::CompletingRebalance).look();
            h.stable(&[(&a, &[0]), (&b, &[1])]).look();
        }
    });
    assert_eq!(harmless(history), Verdict::RebalanceLoop);
}

#[test]
fn all_partitions_stuck() {
    assert_eq!(harmless(at_rest(5, &[])), Verdict::GroupStuck);
}

#[test]
fn one_member_stuck() {
    assert_eq!(harmless(at_rest(5, &[2, 3])), Verdict::OwnerStuck);
}

/// The commits of one member's partitions stopped one after the other: the first of them is no suspect meanwhile.
#[test]
fn one_member_stuck_with_one_partition_before_the_other() {
    let mut history = at_rest(1, &[1, 2, 3]);
    for _ in 0..2 {
        history.run().work(&[2, 3]);
    }
    assert_eq!(history.verdict(1), Verdict::Waiting);
    assert_eq!(harmless(history), Verdict::OwnerStuck);
}

#[test]
fn commit_below_log_start() {
    let history = made(at_rest(5, &[1, 2, 3]), |h| {
        h.log(0, 250, 300).run();
    });
    assert_eq!(harmless(history), Verdict::BelowLogStart);
}

#[test]
fn commit_above_the_end() {
    let history = made(at_rest(5, &[1, 2, 3]), |h| {
        h.committed(0, 301).run();
    });
    assert_eq!(harmless(history), Verdict::Ahead);
}

#[test]
fn never_committed() {
    let history = made(at_rest(0, &[]), |h| {
        h.no_commit(0).runs(5);
    });
    assert_eq!(harmless(history), Verdict::NoCommit);
}

#[test]
fn offsets_that_went_backwards() {
    let history = made(at_rest(5, &[]), |h| {
        h.committed(0, 150).run();
    });
    assert_eq!(harmless(history.clone()), Verdict::Rewound);
    // From then on it is judged anew.
    let history = made(history, |h| {
        h.run();
    });
    assert_eq!(harmless(history), Verdict::Waiting);
}

#[test]
fn topic_recreated() {
    let history = made(at_rest(5, &[]), |h| {
        h.seen.topics.insert("shipments".into(), topic(8, 4));
        h.run();
    });
    assert_eq!(harmless(history.clone()), Verdict::TopicChanged);
    // Once the group has committed in the new one, it is judged there.
    let history = made(history, |h| {
        h.committed(0, 10).high(0, 20).run();
    });
    assert_eq!(harmless(history.clone()), Verdict::Rewound);
    let history = made(history, |h| {
        h.run();
    });
    assert_eq!(harmless(history), Verdict::Waiting);
}

#[test]
fn assign_only_consumer_so_configured() {
    let history = made(at_rest(5, &[]), |h| {
        h.policy(|policy| policy.external_offsets = true);
    });
    assert_eq!(harmless(history), Verdict::ExternalOffsets);
}

#[test]
fn assign_only_consumer_that_gives_itself_away() {
    let history = made(History::of(2), |h| {
        h.empty().run().work(&[1]).look();
        h.runs(5);
    });
    assert_eq!(harmless(history), Verdict::ExternalOffsets);
}

#[test]
fn crash_on_start_up_whatever_the_record() {
    let history = made(History::of(2), |h| {
        for n in 0..5 {
            let (a, b) = (format!("a{n}1"), format!("a{n}2"));
            h.joining(&[&a]).run().empty().look();
            h.joining(&[&b]).look().empty().look();
        }
    });
    assert_eq!(harmless(history), Verdict::CrashLoop);
}

#[test]
fn a_group_empty_in_most_looks_because_it_crash_loops() {
    let history = made(History::of(2), |h| {
        for n in 0..4 {
            h.empty().run().look().look();
            h.joining(&[&format!("a{n}")]).look();
            h.empty().look();
        }
    });
    assert_eq!(harmless(history), Verdict::CrashLoop);
}

#[test]
fn compaction_gap_at_the_commit() {
    let mut history = crash_looping(4, &[1, 2]);
    history.probed(0, probe(100, &[(113, false)]));
    let finding = history.finding(0);
    assert_eq!(finding.verdict, Verdict::PoisonLikely);
    let first = Evidence::FirstVisible {
        record: outline(113),
        absent: 13,
    };
    assert!(finding.evidence.contains(&first));
    let skip = SkipRange {
        partition: p(0),
        committed: 100,
        first: 113,
        last: 113,
    };
    assert_eq!(history.judged().1.skips, [skip]);
}

#[test]
fn aborted_records_at_the_commit() {
    let mut history = crash_looping(4, &[1, 2]);
    let mut found = probe(100, &[(113, false)]);
    found.uncommitted = First::Record(outline(100));
    history.probed(0, found);
    let (_, proposals) = history.judged();
    assert_eq!(proposals.skips, []);
    assert_eq!(
        proposals.withheld,
        [Refusal::IsolationUnknown {
            partition: p(0),
            committed: Some(113),
            uncommitted: Some(100),
        }]
    );
    history.policy(|policy| policy.isolation = Isolation::ReadCommitted);
    assert_eq!(history.judged().1.skips[0].first, 113);
    history.policy(|policy| policy.isolation = Isolation::ReadUncommitted);
    assert_eq!(history.judged().1.skips[0].first, 100);
}

#[test]
fn twenty_bad_records_in_a_row() {
    let mut history = at_rest(5, &[1, 2, 3]);
    let records: Vec<_> = (200..230).map(|n| (n, n < 220)).collect();
    history.probed(0, probe(200, &records));
    let skip = SkipRange {
        partition: p(0),
        committed: 200,
        first: 200,
        last: 219,
    };
    assert_eq!(history.judged().1.skips, [skip]);
}

// Public reports, by their symptom.

/// A live KIP-848 group that the classic protocol calls Dead, and states that are newer than a client: neither is "nobody
/// there".
#[test]
fn a_state_without_a_word_is_not_nobody() {
    for state in [GroupState::Dead, GroupState::Unknown] {
        let history = made(at_rest(5, &[]), |h| {
            describe(&mut h.seen).group_type = GroupType::Unknown;
            h.state(state).runs(4);
        });
        assert_ne!(harmless(history), Verdict::NoMembers);
    }
    let mut history = at_rest(5, &[]);
    history.state(GroupState::Unknown).runs(4);
    assert_eq!(history.verdict(0), Verdict::RebalanceLoop);
}

/// "The end minus nothing" is no lag.
#[test]
fn a_partition_without_a_commit_has_no_lag() {
    let mut history = at_rest(0, &[]);
    history.no_commit(0).runs(5);
    assert_eq!(history.finding(0).lag, None);
    history.empty().run();
    assert_eq!(history.finding(0).status, Status::Healthy);
}

/// A commit beyond the end has no negative lag, and is not healthy.
#[test]
fn a_commit_beyond_the_end_has_no_negative_lag() {
    let mut history = at_rest(0, &[]);
    history.committed(0, 5000).run();
    let finding = history.finding(0);
    assert_eq!((finding.verdict, finding.lag), (Verdict::Ahead, Some(0)));
}

#[test]
fn an_answer_that_a_commit_is_unstable_is_no_data_and_no_offset() {
    let mut history = at_rest(0, &[]);
    history.reading(0).committed = Err(Fault::Unstable);
    history.run();
    assert_eq!(history.verdict(0), Verdict::NoData);
    assert_eq!(history.finding(0).lag, None);
}

/// A client that hangs after a leader change: one partition of sixteen, no bad record, and a restart helps.
#[test]
fn a_hung_client_is_a_suspicion_at_most() {
    let mut history = at_rest(9, &[1, 2, 3]);
    history.high(0, 5000).run().work(&[1, 2, 3]);
    let finding = history.finding(0);
    assert_eq!(finding.verdict, Verdict::PoisonSuspected);
    assert!(finding.next_step().contains("threads"));
    assert_eq!(history.judged().1.skips, []);
}

/// Commits every ten minutes, a look every minute.
#[test]
fn a_slow_commit_cadence_is_learnt() {
    let mut history = History::of(1);
    history.stable(&[("a1", &[0])]).run();
    for _ in 0..3 {
        for _ in 0..10 {
            history.run_after(60);
        }
        history.work(&[0]);
    }
    for minute in 0..15 {
        history.run_after(60);
        let moved = minute == 0;
        let expected = if moved {
            Verdict::Moving
        } else {
            Verdict::Waiting
        };
        assert_eq!(history.verdict(0), expected, "minute {minute}");
    }
}

/// A record that will not deserialise, at the end of a quiet topic: nothing comes after it, and its lag is one.
#[test]
fn a_bad_record_at_a_quiet_tail_is_found() {
    let mut quiet = History::of(3);
    quiet.high(0, 101);
    for n in 0..4 {
        let (a, b) = (format!("a{n}1"), format!("a{n}2"));
        quiet.stable(&[(&a, &[0, 1, 2])]).run().empty().look();
        quiet.joining(&[&b]).work(&[1, 2]).look();
        quiet.stable(&[(&b, &[0, 1, 2])]).look().work(&[1, 2]);
    }
    let finding = quiet.finding(0);
    assert_eq!(
        (finding.verdict, finding.status, finding.lag),
        (Verdict::PoisonLikely, Status::Critical, Some(1))
    );
}

/// After so many skips of one partition in a day, people have to look.
#[test]
fn a_partition_that_is_skipped_again_and_again_is_left_to_people() {
    let mut history = crash_looping(4, &[1, 2]);
    history.skips_today.insert(p(0), 3);
    let (_, proposals) = history.judged();
    assert_eq!(proposals.skips, []);
    assert_eq!(
        proposals.withheld,
        [Refusal::TooManySkips {
            partition: p(0),
            skips: 3,
            limit: 3,
        }]
    );
}

#[test]
fn the_end_of_a_log_need_not_grow_for_a_stall() {
    let history = at_rest(5, &[]);
    assert_eq!(
        history.samples[1].of_partition(&p(0)).unwrap().log.high,
        300
    );
    assert_eq!(history.verdict(0), Verdict::GroupStuck);
}

#[test]
fn a_partition_that_could_not_be_read_blinds_no_other() {
    let mut history = crash_looping(4, &[1, 2, 3]);
    history.fails(3).run();
    assert_eq!(history.verdict(3), Verdict::NoData);
    assert_eq!(history.verdict(0), Verdict::PoisonLikely);
    assert_eq!(history.finding(0).confidence, Confidence::Medium);
}

#[test]
fn a_group_is_suspicious_while_something_waits_and_stands() {
    let suspicious = |history: &History| is_suspicious(&history.samples, &history.policy);
    assert!(!suspicious(&History::of(1)));
    let mut history = History::of(1);
    history.stable(&[("a1", &[0])]).run();
    assert!(!suspicious(&history));
    history.run();
    assert!(suspicious(&history));
    history.work(&[0]).run();
    assert!(!suspicious(&history));
    history.joining(&["a1"]).work(&[0]).run();
    assert!(suspicious(&history));
    history.committed(0, 230).high(0, 230).run();
    assert!(!suspicious(&history));
    history.high(0, 240).run();
    assert!(suspicious(&history));
    history.policy(|policy| policy.monitored_topics = vec!["returns".to_owned()]);
    assert!(!suspicious(&history));
}
