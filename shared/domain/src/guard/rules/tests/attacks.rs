//! What could make a good record look like a poison record. Nothing here may end in `POISON_LIKELY` unless it says so.

use super::super::super::policy::Isolation;
use super::super::super::probe::{First, ProbeFault, Unlike};
use super::super::super::verdict::{Status, Verdict};
use super::{at_rest, crash_looping};
use crate::group::GroupState;
use crate::offset::{Fault, TopicPartition};
use crate::testing::guard::{History, failure, outline, probe};
use crate::testing::{at, p, topic};

#[test]
fn a_record_that_comes_after_hours_of_nothing_has_not_waited_for_hours() {
    let mut history = History::of(2);
    history.stable(&[("a1", &[0, 1])]).committed(0, 200);
    for _ in 0..10 {
        history.run().work(&[1]);
    }
    history.high(0, 201).run();
    assert_eq!(history.verdict(0), Verdict::Waiting);
    history.run().work(&[1]);
    assert_eq!(history.verdict(0), Verdict::Waiting);
    history.run();
    assert_eq!(history.verdict(0), Verdict::PoisonSuspected);
}

#[test]
fn a_record_after_a_marker_has_not_waited_since_the_marker() {
    let mut history = History::of(2);
    history.stable(&[("a1", &[0, 1])]).high(0, 101);
    for _ in 0..10 {
        history.run().work(&[1]);
    }
    history.high(0, 103).run();
    history.probed(0, probe(100, &[(101, false)]));
    assert_eq!(history.verdict(0), Verdict::Waiting);
    history.work(&[1]).run().work(&[1]).run();
    assert_eq!(history.verdict(0), Verdict::PoisonSuspected);
}

#[test]
fn what_a_transaction_held_back_has_not_waited_before_it_ended() {
    let mut history = History::of(2);
    history.stable(&[("a1", &[0, 1])]).open(0, 100);
    for _ in 0..6 {
        history.run().work(&[1]);
    }
    assert_eq!(history.verdict(0), Verdict::BlockedByTransaction);
    history.high(0, 200).run();
    assert_eq!(history.verdict(0), Verdict::Waiting);
}

#[test]
fn a_transaction_that_opens_at_the_end_of_an_idle_log_does_not_hang() {
    let mut history = History::of(1);
    history.stable(&[("a1", &[0])]).committed(0, 200).runs(20);
    history.high(0, 210).open(0, 200).run();
    let finding = history.finding(0);
    assert_eq!(finding.verdict, Verdict::BlockedByTransaction);
    assert_eq!(finding.status, Status::Healthy);
    history.runs(3);
    assert_eq!(history.finding(0).status, Status::Warning);
    history.run();
    assert_eq!(history.finding(0).status, Status::Critical);
}

/// A client hung, somebody restarted it, and the next look comes before its first commit.
#[test]
fn a_restart_alone_is_no_second_try_until_it_had_its_time() {
    let mut history = at_rest(4, &[1, 2, 3]);
    assert_eq!(history.verdict(0), Verdict::PoisonSuspected);
    history.stable(&[("a2", &[0, 1]), ("b1", &[2, 3])]);
    for _ in 0..2 {
        history.run().work(&[1, 2, 3]);
        assert_eq!(history.verdict(0), Verdict::PoisonSuspected);
    }
    // Ten minutes on, the restart has not helped either, and the new process gets everything else done.
    history.run();
    assert_eq!(history.verdict(0), Verdict::PoisonLikely);
}

#[test]
fn a_deployment_hands_a_slow_batch_around_and_is_one_try() {
    let mut history = at_rest(2, &[1, 2, 3]);
    history.stable(&[("a2", &[1]), ("b1", &[0, 2, 3])]).run();
    history.work(&[1, 2, 3]);
    history.joining(&["a2", "b1", "b2"]).look();
    history.stable(&[("a2", &[0, 1]), ("b2", &[2, 3])]).look();
    assert_eq!(history.verdict(0), Verdict::PoisonSuspected);
    history.work(&[1, 2, 3]).run();
    assert_eq!(history.verdict(0), Verdict::PoisonSuspected);
}

/// Everything stands, and what is restarted stands as well. Partition 3 stopped a run later than the others, so it moved
/// while they stood.
#[test]
fn an_outage_with_restarts_is_no_poison_for_those_that_stopped_first() {
    let mut history = History::of(3);
    history.stable(&[("a1", &[0]), ("b1", &[1]), ("c1", &[2])]);
    history.run().work(&[1, 2]).run().work(&[2]).run();
    for n in 2..9 {
        let (a, b, c) = (format!("a{n}"), format!("b{n}"), format!("c{n}"));
        history.empty().run();
        history.stable(&[(&a, &[0]), (&b, &[1]), (&c, &[2])]).look();
        for partition in 0..3 {
            let verdict = history.verdict(partition);
            assert_ne!(verdict, Verdict::PoisonLikely, "round {n}");
        }
    }
    assert_eq!(history.verdicts(), [Verdict::CrashLoop; 3]);
}

/// The database is down, the consumer dies at whatever comes, and all but one partition were read to their end before.
#[test]
fn an_outage_in_a_quiet_group_is_no_poison_at_the_one_record_that_waits() {
    let mut history = History::of(2);
    history.stable(&[("a1", &[0, 1])]).committed(1, 200).run();
    history.committed(1, 210).high(1, 210);
    for n in 1..8 {
        let (a, b) = (format!("a{n}1"), format!("a{n}2"));
        history.stable(&[(&a, &[0, 1])]).run();
        history.empty().look();
        history.joining(&[&b]).look();
        history.stable(&[(&b, &[0, 1])]).look();
    }
    assert_eq!(history.verdicts(), [Verdict::CrashLoop, Verdict::CaughtUp]);
}

/// Nothing new comes. What waited beside the bad record is read to its end at the first start, before anybody sees a
/// restart.
#[test]
fn what_was_read_to_its_end_beside_it_speaks_against_the_record() {
    let mut history = History::of(3);
    history.empty().run();
    history.committed(1, 200).committed(2, 200);
    for n in 1..5 {
        let (a, b) = (format!("a{n}1"), format!("a{n}2"));
        history.stable(&[(&a, &[0, 1, 2])]).run();
        history.empty().look();
        history.joining(&[&b]).look();
    }
    assert_eq!(history.verdict(0), Verdict::PoisonLikely);
}

/// One process has both. It dies at a record of partition 1, whose commit moved for a while longer than that of partition
/// 0, which therefore has stood for longer.
#[test]
fn a_neighbour_that_stands_first_is_not_taken_for_the_cause() {
    let mut history = History::of(4);
    history.stable(&[("a1", &[0, 1]), ("b1", &[2, 3])]).run();
    history.committed(1, 150);
    for n in 2..8 {
        let name = format!("a{n}");
        history.stable(&[(&name, &[0, 1]), ("b1", &[2, 3])]).run();
        history.stable(&[("b1", &[2, 3])]).look();
        history.joining(&[&name, "b1"]).work(&[2, 3]).look();
        let name = format!("a{n}0");
        history.stable(&[(&name, &[0, 1]), ("b1", &[2, 3])]).look();
        assert_ne!(history.verdict(0), Verdict::PoisonLikely, "run {n}");
        assert_ne!(history.verdict(1), Verdict::PoisonLikely, "run {n}");
    }
    assert_eq!(history.verdict(0), Verdict::CrashLoop);
}

#[test]
fn a_neighbour_that_nobody_watches_may_be_the_cause_as_well() {
    let mut history = crash_looping(4, &[1, 2]);
    assert_eq!(history.verdict(0), Verdict::PoisonLikely);
    let bad = TopicPartition::new("returns", 0);
    for look in &mut history.samples {
        let stands = look.of_partition(&p(0)).unwrap().clone();
        look.partitions.insert(bad.clone(), Ok(stands));
    }
    history.policy(|policy| policy.monitored_topics = vec!["shipments".to_owned()]);
    let (assessment, proposals) = history.judged();
    assert_eq!(history.verdict(0), Verdict::CrashLoop);
    assert!(assessment.findings.iter().all(|f| f.partition != bad));
    assert!(!history.judged_without_probes().wants_probe.contains(&bad));
    assert_eq!(proposals.skips, []);
}

/// `max.poll.interval.ms`: a batch takes longer than a member may, so it is thrown out, its partition goes to the other
/// one, and it comes back with another id. Nobody ever dies.
#[test]
fn a_member_thrown_out_for_a_slow_batch_has_not_died_of_a_record() {
    let mut history = History::of(4);
    for n in 0..8 {
        let (a, b) = (format!("a{}", n / 2 + n % 2), format!("b{}", n / 2));
        let members: [(&str, &[i32]); 2] = if n % 2 == 0 {
            [(&a, &[0, 1]), (&b, &[2, 3])]
        } else {
            [(&a, &[2, 3]), (&b, &[0, 1])]
        };
        history.stable(&members).run().work(&[1, 2, 3]).look();
        assert_ne!(history.verdict(0), Verdict::PoisonLikely, "run {n}");
    }
}

/// The same with the group between two rests most of the time.
#[test]
fn a_rebalance_loop_is_one_although_all_else_moves() {
    let mut history = History::of(4);
    for n in 0..6 {
        let (a, b) = (format!("a{n}"), format!("b{n}"));
        history.joining(&[&a, &b]).run().look().work(&[1, 2, 3]);
        let c = format!("a{n}0");
        history.stable(&[(&c, &[0, 1]), (&b, &[2, 3])]).look();
    }
    assert_eq!(history.verdict(0), Verdict::RebalanceLoop);
}

/// `a` is a host with a full disk. Its session outlives each of its processes, so nobody else ever gets its partition.
#[test]
fn a_host_on_which_nothing_runs_is_no_poison_in_its_only_partition() {
    let mut history = History::of(3);
    for n in 1..7 {
        let name = format!("a{n}");
        history.stable(&[(&name, &[0]), ("b1", &[1]), ("c1", &[2])]);
        history.run().work(&[1, 2]);
        let next = format!("a{n}0");
        history.joining(&[&name, &next, "b1", "c1"]).look();
        history.stable(&[(&next, &[0]), ("b1", &[1]), ("c1", &[2])]);
        history.look().work(&[1, 2]);
        assert_ne!(history.verdict(0), Verdict::PoisonLikely, "run {n}");
    }
    // As soon as another host had it too, it is the record.
    for n in 7..10 {
        let name = format!("a{n}");
        history.stable(&[(&name, &[1]), ("b1", &[0]), ("c1", &[2])]);
        history.run().work(&[1, 2]);
        let next = format!("b{n}");
        history.joining(&[&name, &next, "b1", "c1"]).look();
        history.stable(&[(&name, &[0]), (&next, &[1]), ("c1", &[2])]);
        history.look().work(&[1, 2]);
    }
    assert_eq!(history.verdict(0), Verdict::PoisonLikely);
}

/// The group reads another topic now; its processes crash over and over for a reason of their own.
#[test]
fn a_topic_that_nobody_reads_any_more_has_no_poison() {
    let mut history = History::of(1);
    let other = TopicPartition::new("returns", 0);
    let reading = history.reading(0).clone();
    history.seen.partitions.insert(other.clone(), reading);
    history.seen.topics.insert("returns".into(), topic(9, 1));
    for n in 1..8 {
        let name = format!("a{n}");
        history
            .stable(&[(&name, &[])])
            .state(GroupState::CompletingRebalance);
        history.run().empty().look();
        let moved = history.seen.partitions.get_mut(&other).unwrap();
        moved.committed = Ok(Some(crate::testing::commit(100 + n)));
        let name = format!("a{n}0");
        history.joining(&[&name]).look();
        assert_ne!(history.verdict(0), Verdict::PoisonLikely, "run {n}");
    }
}

/// What a recovery moved was not moved by consumers, and what it stopped did not crash.
#[test]
fn our_own_recovery_is_no_evidence() {
    let mut history = at_rest(3, &[]);
    history.empty().run();
    history
        .committed(1, 250)
        .committed(2, 250)
        .committed(3, 250);
    history.moved_at = Some(history.now());
    history.stable(&[("a2", &[0, 1]), ("b2", &[2, 3])]);
    history.runs(2).empty().run();
    history.stable(&[("a3", &[0, 1]), ("b3", &[2, 3])]).run();
    // Whoever has just come gets the time that everybody gets.
    assert_eq!(history.verdicts(), [Verdict::Waiting; 4]);
    history.runs(2);
    assert_eq!(history.verdicts(), [Verdict::GroupStuck; 4]);
}

#[test]
fn what_a_recovery_passed_over_did_not_move_by_itself() {
    let mut history = at_rest(3, &[1, 2, 3]);
    history.committed(0, 201).empty();
    history.moved_at = Some(history.now());
    history.run();
    assert_eq!(history.verdict(0), Verdict::Waiting);
}

/// Nobody saw what happened meanwhile, so it counts from anew.
#[test]
fn an_hour_without_a_guard_is_no_hour_of_standing() {
    let mut history = at_rest(4, &[1, 2, 3]);
    assert_eq!(history.verdict(0), Verdict::PoisonSuspected);
    history.pass(3600).run();
    assert_eq!(history.verdict(0), Verdict::Waiting);
    history.run();
    assert_eq!(history.verdict(0), Verdict::Waiting);
    history.run();
    assert_eq!(history.verdict(0), Verdict::GroupStuck);
}

#[test]
fn readings_that_fail_in_between_hide_nothing_and_invent_nothing() {
    let mut history = crash_looping(2, &[1, 2]);
    let good = history.seen.partitions.clone();
    history.fails(0).stable(&[("a8", &[0, 1, 2])]).run();
    assert_eq!(history.verdict(0), Verdict::NoData);
    assert_eq!(history.verdict(1), Verdict::Moving);
    history.seen.partitions = good;
    history
        .seen
        .topics
        .insert("shipments".into(), Err(Fault::NoLeader));
    history.empty().run().joining(&["a9"]).work(&[1, 2]).look();
    history.seen.topics.insert("shipments".into(), topic(7, 3));
    history.stable(&[("a9", &[0, 1, 2])]).look();
    history.empty().run();
    history.joining(&["a10"]).work(&[1, 2]).look();
    history.stable(&[("a10", &[0, 1, 2])]).look();
    assert_eq!(history.verdict(0), Verdict::PoisonLikely);
}

#[test]
fn two_bad_records_under_one_process_are_left_to_a_validator() {
    let mut history = crash_looping(5, &[1, 2, 3]);
    for look in &mut history.samples {
        let stands = look.of_partition(&p(0)).unwrap().clone();
        look.partitions.insert(p(1), Ok(stands));
    }
    assert_eq!(
        history.verdicts(),
        [
            Verdict::CrashLoop,
            Verdict::CrashLoop,
            Verdict::Moving,
            Verdict::Moving
        ]
    );
    history.probed(0, probe(100, &[(100, true), (101, false)]));
    history.probed(1, probe(100, &[(100, true), (101, false)]));
    assert_eq!(history.verdict(0), Verdict::PoisonLikely);
    assert_eq!(history.verdict(1), Verdict::PoisonLikely);
    let (_, proposals) = history.judged();
    assert_eq!(proposals.skips.len(), 2);
}

/// What stands with a bad record under one process may be told apart by what its records are.
#[test]
fn of_two_under_one_process_the_one_of_another_kind_is_the_bad_one() {
    let mut history = crash_looping(5, &[1, 2, 3]);
    for look in &mut history.samples {
        let stands = look.of_partition(&p(0)).unwrap().clone();
        look.partitions.insert(p(1), Ok(stands));
    }
    let unlike = |offset| Unlike {
        failure: failure(offset),
        passing: 20,
    };
    let mut odd = probe(100, &[(100, false)]);
    odd.unlike = Some(unlike(100));
    history.probed(0, odd.clone());
    assert_eq!(history.verdict(0), Verdict::PoisonLikely);
    assert_eq!(history.verdict(1), Verdict::CrashLoop);
    // Both are, or one could not be read: then neither stands out.
    history.probed(1, odd.clone());
    assert_eq!(history.verdict(0), Verdict::CrashLoop);
    history.probes.insert(p(1), Err(ProbeFault::NoRoom));
    assert_eq!(history.verdict(0), Verdict::CrashLoop);
    // The kind is that of a record that these consumers may not see first.
    history.probes.remove(&p(1));
    odd.uncommitted = First::Record(outline(100));
    odd.committed = First::Record(outline(103));
    odd.unlike = Some(unlike(103));
    history.probed(0, odd);
    assert_eq!(history.verdict(0), Verdict::CrashLoop);
    history.policy(|policy| policy.isolation = Isolation::ReadCommitted);
    assert_eq!(history.verdict(0), Verdict::PoisonLikely);
}

/// A process that is killed leaves its session behind, so the next one joins beside it and waits for it to end.
#[test]
fn a_crash_that_leaves_its_session_behind_is_a_crash() {
    let mut history = History::of(3);
    for n in 0..5 {
        let (zombie, next) = (format!("a{}", 2 * n), format!("a{}", 2 * n + 1));
        history.joining(&[&zombie, &next]).run().look().look();
        history.work(&[1, 2]);
        history.stable(&[(&next, &[0, 1, 2])]).look();
        history.work(&[1, 2]);
    }
    assert_eq!(history.verdict(0), Verdict::PoisonLikely);
}

#[test]
fn more_consumers_are_no_crash_loop() {
    let mut history = at_rest(2, &[1, 2, 3]);
    history.stable(&[("a1", &[0, 1]), ("b1", &[2]), ("c1", &[3])]);
    history.run().work(&[1, 2, 3]);
    history.stable(&[("a1", &[0]), ("b1", &[2]), ("c1", &[3]), ("d1", &[1])]);
    history.run().work(&[1, 2, 3]);
    assert_eq!(history.verdict(0), Verdict::PoisonSuspected);
}

/// It comes, works and goes between two looks; it is a group like any other.
#[test]
fn a_job_that_comes_and_goes_keeps_its_offsets_in_the_group() {
    let mut history = History::of(2);
    history.empty().run();
    for _ in 0..5 {
        history.work(&[0]).run();
        assert_eq!(history.verdict(0), Verdict::Moving);
    }
}

/// Whoever is caught now and then in a group that is mostly empty moves its commits while nobody looks.
#[test]
fn a_group_that_is_caught_now_and_then_keeps_its_offsets_in_it() {
    let mut history = History::of(2);
    history.joining(&["a1"]).run();
    history.empty().look().work(&[1]).look();
    assert_eq!(history.verdict(1), Verdict::Moving);
}

/// `kafka-consumer-groups --to-latest` ends at the high watermark, also where a transaction is open.
#[test]
fn a_reset_beyond_the_last_stable_offset_says_nothing_of_the_isolation() {
    let mut history = History::of(1);
    history.empty().open(0, 100).run();
    history.committed(0, 200).run();
    history.stable(&[("a1", &[0])]).high(0, 300).open(0, 100);
    history.runs(4);
    assert_eq!(history.verdict(0), Verdict::BlockedByTransaction);
}

#[test]
fn a_consumer_that_moves_on_beyond_it_reads_uncommitted_records() {
    let mut history = History::of(1);
    history.stable(&[("a1", &[0])]).open(0, 100).run();
    history.committed(0, 110).run();
    history.runs(3);
    assert_eq!(history.verdict(0), Verdict::PoisonSuspected);
    history.policy(|policy| policy.isolation = Isolation::ReadCommitted);
    assert_eq!(history.verdict(0), Verdict::BlockedByTransaction);
}

/// Consumers that commit every quarter of an hour.
#[test]
fn a_rare_commit_is_given_its_time() {
    let mut history = History::of(2);
    history.stable(&[("a1", &[0, 1])]);
    for _ in 0..3 {
        for _ in 0..3 {
            history.run().work(&[1]);
        }
        history.work(&[0]);
    }
    history.runs(4);
    assert_eq!(history.verdict(0), Verdict::Waiting);
    history.runs(3);
    assert_eq!(history.verdict(0), Verdict::GroupStuck);
}

#[test]
fn an_outage_makes_nobody_patient() {
    let mut history = History::of(2);
    history.stable(&[("a1", &[0, 1])]).run();
    history.empty().runs(10);
    history.stable(&[("a2", &[0, 1])]).run().work(&[0, 1]).run();
    let sample = history.samples.last().unwrap().of_partition(&p(0)).unwrap();
    assert_eq!(sample.longest_pause_seconds, 300);
}

#[test]
fn one_long_pause_is_forgotten() {
    let mut history = History::of(1);
    history.stable(&[("a1", &[0])]).runs(9).work(&[0]).run();
    let longest = |history: &History| {
        let sample = history.samples.last().unwrap().of_partition(&p(0)).unwrap();
        sample.longest_pause_seconds
    };
    assert_eq!(longest(&history), 2700);
    history.work(&[0]).run();
    assert_eq!(longest(&history), 1350);
    history.work(&[0]).run().work(&[0]).run().work(&[0]).run();
    assert_eq!(longest(&history), 300);
}

/// After an unclean election the same offset is another record.
#[test]
fn a_log_that_lost_its_end_starts_anew() {
    let mut history = at_rest(4, &[1, 2, 3]);
    assert_eq!(history.verdict(0), Verdict::PoisonSuspected);
    history.high(0, 250).run();
    assert_eq!(history.verdict(0), Verdict::Waiting);
    let sample = history.samples.last().unwrap().of_partition(&p(0)).unwrap();
    assert_eq!(sample.still_since, history.now());
}

#[test]
fn what_cannot_be_read_is_not_called_poison() {
    let mut history = crash_looping(4, &[1, 2]);
    assert_eq!(history.verdict(0), Verdict::PoisonLikely);
    for fault in [ProbeFault::NoRoom, ProbeFault::Unreadable(Fault::missing())] {
        history.probes.insert(p(0), Err(fault));
        assert_eq!(history.verdicts()[0], Verdict::CrashLoop);
    }
}

/// A probe of where the group was a moment ago says nothing about where it is.
#[test]
fn a_probe_of_another_offset_is_none() {
    let mut history = at_rest(3, &[1, 2, 3]);
    history.probed(0, probe(199, &[(200, true)]));
    assert_eq!(history.verdict(0), Verdict::PoisonSuspected);
}

/// Aborted records lie before the first one that a `read_committed` consumer sees.
#[test]
fn a_validator_pins_nothing_while_nobody_knows_what_the_consumers_read() {
    let mut history = at_rest(3, &[1, 2, 3]);
    let mut found = probe(200, &[(203, true)]);
    found.uncommitted = First::Record(outline(200));
    history.probed(0, found);
    assert_eq!(history.verdict(0), Verdict::PoisonSuspected);
    history.policy(|policy| policy.isolation = Isolation::ReadCommitted);
    assert_eq!(history.verdict(0), Verdict::PoisonLikely);
}

/// A group of a kind that librdkafka has no words for: whoever is in it is not seen.
#[test]
fn of_a_group_that_looks_dead_nothing_is_inferred() {
    let mut history = at_rest(3, &[1, 2, 3]);
    history.empty().state(GroupState::Dead).runs(5);
    assert_eq!(history.verdicts(), [Verdict::StalledUnknown; 4]);
}

#[test]
fn samples_of_last_week_say_nothing() {
    let mut history = at_rest(4, &[1, 2, 3]);
    history.pass(7 * 86_400);
    let (assessment, proposals) = history.judged();
    assert_eq!(assessment.status, Status::Unknown);
    assert_eq!(assessment.findings, []);
    assert_eq!(proposals.skips, []);
    assert!(history.now() > at("09:00:00"));
}
