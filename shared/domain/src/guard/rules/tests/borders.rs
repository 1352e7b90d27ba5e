//! Near misses: what lies right beside a rule's border, and which rule wins where two match.

use super::super::super::policy::Isolation;
use super::super::super::probe::First;
use super::super::super::sample::{LONGEST_GAP, Sample};
use super::super::super::verdict::{Confidence, Status, Verdict};
use super::{at_rest, crash_looping};
use crate::group::GroupState;
use crate::offset::{Fault, TopicPartition};
use crate::testing::guard::{History, outline, probe};
use crate::testing::{at, p, seen, topic};

fn group() -> History {
    let mut history = History::of(1);
    history.stable(&[("a1", &[0])]);
    history
}

/// Where the commit lies, for a log that holds 100 to 200.
#[test]
fn the_ends_of_the_log() {
    for (committed, verdict) in [
        (99, Verdict::BelowLogStart),
        (100, Verdict::Waiting),
        (199, Verdict::Waiting),
        (200, Verdict::CaughtUp),
        (201, Verdict::Ahead),
    ] {
        let mut history = group();
        history.log(0, 100, 200).committed(0, committed).run();
        assert_eq!(history.verdict(0), verdict, "{committed}");
    }
}

#[test]
fn an_empty_log_is_read_to_its_end() {
    let mut history = group();
    history.log(0, 100, 100).committed(0, 100).run();
    assert_eq!(history.verdict(0), Verdict::CaughtUp);
}

/// A stall needs both: so many runs, and so much time.
#[test]
fn a_stall_takes_runs_and_time() {
    for (runs, apart, stalled) in [
        (3, 300, true),
        (3, 299, false),
        (2, 600, false),
        (4, 200, true),
        (4, 199, false),
    ] {
        let mut history = group();
        for _ in 0..runs {
            history.run_after(apart);
        }
        let verdict = history.verdict(0);
        assert_eq!(
            verdict != Verdict::Waiting,
            stalled,
            "{runs} runs, {apart} s"
        );
    }
}

/// Looks within one run are one sample, however many.
#[test]
fn many_looks_of_one_run_are_one_sample() {
    let mut history = group();
    history.run();
    for _ in 0..300 {
        history.look();
    }
    assert_eq!(history.verdict(0), Verdict::Waiting);
}

#[test]
fn samples_further_apart_than_the_longest_gap_are_not_compared() {
    for (seconds, verdict) in [
        (LONGEST_GAP.as_secs(), Verdict::PoisonSuspected),
        (LONGEST_GAP.as_secs() + 1, Verdict::Waiting),
    ] {
        let mut history = group();
        history.runs(2).run_after(seconds);
        assert_eq!(history.verdict(0), verdict, "{seconds} s");
    }
}

#[test]
fn the_threshold_makes_a_stall_critical_and_does_not_hide_a_smaller_one() {
    for (high, status) in [(149, Status::Warning), (150, Status::Critical)] {
        let mut history = group();
        history.high(0, high).runs(3);
        let finding = history.finding(0);
        assert_eq!(finding.verdict, Verdict::PoisonSuspected);
        assert_eq!(finding.status, status);
    }
}

#[test]
fn a_transaction_holds_back_whoever_is_at_it_and_nobody_else() {
    for (last_stable, verdict) in [
        (99, Verdict::BlockedByTransaction),
        (100, Verdict::BlockedByTransaction),
        (101, Verdict::PoisonSuspected),
        (200, Verdict::PoisonSuspected),
    ] {
        let mut history = group();
        history.open(0, last_stable).runs(3);
        assert_eq!(history.verdict(0), verdict, "{last_stable}");
        history.policy(|policy| policy.isolation = Isolation::ReadUncommitted);
        assert_eq!(history.verdict(0), Verdict::PoisonSuspected);
    }
}

#[test]
fn a_transaction_hangs_after_longer_than_one_may_last() {
    for (seconds, status, confidence) in [
        (599, Status::Healthy, Confidence::Low),
        (600, Status::Warning, Confidence::Low),
        (910, Status::Warning, Confidence::Low),
        (911, Status::Critical, Confidence::Medium),
    ] {
        let mut history = group();
        history.open(0, 100).run().run_after(seconds);
        let finding = history.finding(0);
        assert_eq!(
            (finding.status, finding.confidence),
            (status, confidence),
            "{seconds} s"
        );
    }
    // Another transaction after it is another one.
    let mut history = group();
    history
        .open(0, 100)
        .runs(4)
        .open(0, 150)
        .committed(0, 150)
        .run();
    history.run();
    assert_eq!(history.finding(0).status, Status::Healthy);
}

#[test]
fn slow_is_a_lag_that_grows_from_each_run_to_the_next_and_is_large() {
    for (highs, verdict) in [
        ([200, 250, 300], Verdict::Slow),
        ([200, 250, 260], Verdict::Moving),
        ([200, 210, 250], Verdict::Moving),
    ] {
        let mut history = group();
        for (n, high) in (0..).zip(highs) {
            history.committed(0, 100 + 10 * n).high(0, high).run();
        }
        assert_eq!(history.verdict(0), verdict, "{highs:?}");
    }
    let mut history = group();
    for (n, high) in (0..).zip([140, 151, 169]) {
        history.committed(0, 100 + 10 * n).high(0, high).run();
    }
    assert_eq!(history.verdict(0), Verdict::Moving, "a lag of 49");
    history.high(0, 190).committed(0, 121).run();
    assert_eq!(history.verdict(0), Verdict::Slow, "a lag of 69");
}

#[test]
fn a_commit_that_went_back_and_came_again_is_not_rewound() {
    let mut history = group();
    history.run().committed(0, 50).run();
    assert_eq!(history.verdict(0), Verdict::Rewound);
    history.committed(0, 100).look();
    assert_eq!(history.verdict(0), Verdict::Waiting);
}

#[test]
fn one_in_a_hurry_is_no_loop() {
    let mut history = at_rest(2, &[1, 2, 3]);
    history.joining(&["a1", "b1"]).look();
    history.stable(&[("a1", &[0, 1]), ("b1", &[2, 3])]).look();
    history.work(&[1, 2, 3]).run();
    assert_eq!(history.verdict(0), Verdict::PoisonSuspected);
}

#[test]
fn half_of_the_looks_without_members_are_no_loop_and_more_are() {
    let mut history = History::of(2);
    for n in 0..3 {
        history.stable(&[("a1", &[0, 1])]).run();
        history.empty().look();
        if n == 2 {
            history.stable(&[("a1", &[0, 1])]).look();
        }
    }
    assert_eq!(history.verdict(0), Verdict::GroupStuck);
    history.empty().look().look();
    assert_eq!(history.verdict(0), Verdict::CrashLoop);
}

#[test]
fn a_group_that_everybody_left_has_no_members() {
    let mut history = at_rest(3, &[]);
    assert_eq!(history.verdict(0), Verdict::GroupStuck);
    history.empty().run();
    assert_eq!(history.verdict(0), Verdict::NoMembers);
}

#[test]
fn one_look_without_an_owner_is_not_unassigned() {
    let mut history = History::of(2);
    for _ in 0..3 {
        history.stable(&[("a1", &[0, 1])]).run().work(&[1]);
    }
    history.stable(&[("a1", &[1])]).look();
    assert_eq!(history.verdict(0), Verdict::PoisonSuspected);
}

#[test]
fn a_probe_that_nobody_made_room_for_leaves_the_stall_a_stall() {
    let history = at_rest(3, &[1, 2, 3]);
    let assessment = history.judged_without_probes();
    assert_eq!(assessment.wants_probe, [p(0)]);
    assert_eq!(assessment.findings[0].verdict, Verdict::PoisonSuspected);
}

#[test]
fn the_most_telling_partition_is_read_first() {
    let mut history = at_rest(4, &[0, 1, 2]);
    for look in &mut history.samples {
        let reading = look.partitions[&p(3)].clone();
        look.partitions.insert(TopicPartition::new("a", 0), reading);
    }
    let assessment = history.judged_without_probes();
    assert_eq!(assessment.wants_probe, [TopicPartition::new("a", 0), p(3)]);
    let mut history = crash_looping(4, &[1, 2]);
    history.policy(|policy| policy.monitored_topics = vec!["shipments".into()]);
    assert_eq!(history.judged_without_probes().wants_probe, [p(0)]);
}

// Which of two wins.

#[test]
fn a_gone_topic_wins_over_a_failed_reading() {
    let mut history = group();
    history.run().fails(0).reading(0).committed = Err(Fault::TopicGone);
    history.run();
    assert_eq!(history.verdict(0), Verdict::TopicChanged);
}

#[test]
fn a_recreated_topic_wins_over_a_commit_beyond_its_end_and_over_none() {
    for committed in [None, Some(100)] {
        let mut history = group();
        history.run();
        history.seen.topics.insert("shipments".into(), topic(8, 1));
        history.high(0, 5).no_commit(0);
        if let Some(committed) = committed {
            history.committed(0, committed);
        }
        history.run();
        assert_eq!(history.verdict(0), Verdict::TopicChanged);
    }
}

#[test]
fn a_topic_whose_id_is_not_known_for_once_is_the_same() {
    let mut history = group();
    history.runs(2);
    history.seen.topics.insert("shipments".into(), topic(0, 1));
    history.run();
    assert_eq!(history.verdict(0), Verdict::PoisonSuspected);
}

#[test]
fn a_commit_outside_of_its_log_wins_over_one_that_went_back() {
    let mut history = group();
    history.run().committed(0, 50).log(0, 60, 200).run();
    assert_eq!(history.verdict(0), Verdict::BelowLogStart);
}

#[test]
fn offsets_kept_elsewhere_win_over_all_that_stands_and_moves() {
    for moves in [true, false] {
        let mut history = group();
        history
            .policy(|policy| policy.external_offsets = true)
            .run();
        if moves {
            history.work(&[0]);
        }
        history.runs(4);
        assert_eq!(history.verdict(0), Verdict::ExternalOffsets);
        history.committed(0, 500).high(0, 500).run();
        assert_eq!(history.verdict(0), Verdict::CaughtUp);
    }
}

#[test]
fn what_moves_is_not_blocked_although_a_transaction_is_open_there() {
    let mut history = group();
    history.run().committed(0, 150).open(0, 150).run();
    assert_eq!(history.verdict(0), Verdict::Moving);
    history.run();
    assert_eq!(history.verdict(0), Verdict::BlockedByTransaction);
}

#[test]
fn a_transaction_wins_over_a_validator_that_fails_behind_it() {
    let mut history = at_rest(3, &[1, 2, 3]);
    history.open(0, 200).run();
    history.probed(0, probe(200, &[(200, true)]));
    assert_eq!(history.verdict(0), Verdict::BlockedByTransaction);
}

#[test]
fn a_record_that_fails_wins_over_nobody_there_and_over_everything_stuck() {
    let mut history = at_rest(3, &[]);
    history.probed(0, probe(200, &[(200, true)]));
    assert_eq!(history.verdict(0), Verdict::PoisonLikely);
    assert_eq!(history.verdict(1), Verdict::GroupStuck);
    history.empty().runs(3);
    assert_eq!(history.verdict(0), Verdict::PoisonLikely);
    assert_eq!(history.verdict(1), Verdict::NoMembers);
}

#[test]
fn a_record_that_fails_further_on_pins_nothing() {
    let mut history = at_rest(3, &[1, 2, 3]);
    history.probed(0, probe(200, &[(200, false), (201, true)]));
    assert_eq!(history.verdict(0), Verdict::PoisonSuspected);
}

/// The guess of a crash loop is less sure where the validators find nothing.
#[test]
fn validators_that_pass_make_a_guess_less_sure() {
    let mut history = crash_looping(4, &[1, 2]);
    assert_eq!(history.finding(0).confidence, Confidence::Medium);
    history.policy(|policy| policy.validators = vec![super::super::super::policy::Validator::Utf8]);
    history.probed(0, probe(100, &[(100, false)]));
    assert_eq!(history.finding(0).confidence, Confidence::Low);
}

/// Aborted records at the commit of a group that is seen to read them.
#[test]
fn what_a_group_was_seen_to_read_decides_which_record_is_the_first() {
    let mut history = at_rest(3, &[1, 2, 3]);
    let mut found = probe(200, &[(204, true)]);
    found.uncommitted = First::Record(outline(200));
    found.validation.records = vec![
        (200, None),
        (204, Some(crate::testing::guard::failure(204))),
    ];
    history.probed(0, found);
    history.policy(|policy| policy.isolation = Isolation::ReadUncommitted);
    assert_eq!(history.verdict(0), Verdict::PoisonSuspected);
    history.policy(|policy| policy.isolation = Isolation::ReadCommitted);
    assert_eq!(history.verdict(0), Verdict::PoisonLikely);
}

// Where a simpler guard goes wrong at its first step.

#[test]
fn a_group_that_could_not_be_described_makes_no_sample() {
    let mut seen = seen(&[1], &[2]);
    seen.description = Err(Fault::another_group());
    let sample = Sample::of(at("08:00:00"), &seen, &[].into(), &[], None);
    assert_eq!(sample, Err(Fault::another_group()));
}

#[test]
fn a_partition_that_is_new_or_was_not_read_before_has_nothing_to_compare_with() {
    let mut history = at_rest(0, &[]);
    let reading = history.seen.partitions.remove(&p(0)).unwrap();
    history.samples.clear();
    history.fails(1).runs(3);
    history.seen.partitions.insert(p(0), reading);
    history.high(1, 300).run();
    assert_eq!(history.verdict(0), Verdict::Waiting);
    assert_eq!(history.verdict(1), Verdict::Waiting);
}

#[test]
fn the_states_of_newer_protocols_count_as_rebalancing() {
    for state in [
        GroupState::Assigning,
        GroupState::Reconciling,
        GroupState::Unknown,
    ] {
        let mut history = at_rest(0, &[]);
        history.state(state).runs(4);
        assert_eq!(history.verdict(0), Verdict::RebalanceLoop, "{state}");
    }
}

#[test]
fn no_monitored_topics_are_all_of_them() {
    let mut history = at_rest(0, &[]);
    assert_eq!(history.judged().0.findings.len(), 4);
    history.policy(|policy| policy.monitored_topics = vec!["returns".into()]);
    let (assessment, _) = history.judged();
    assert_eq!(assessment.findings, []);
    assert_eq!(assessment.status, Status::Healthy);
}
