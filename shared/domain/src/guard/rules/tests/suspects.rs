//! Which record it is that stops the consumers, where no validator says so.

use super::super::super::policy::{GuardPolicy, Isolation, SkipOn, Validator};
use super::super::super::probe::{Failure, Unlike};
use super::super::super::verdict::{Confidence, Evidence, Verdict};
use super::{at_rest, crash_looping};
use crate::guard::policy::RemediationAction;
use crate::guard::proposal::Ask;
use crate::offset::TopicPartition;
use crate::refusal::Refusal;
use crate::testing::guard::{History, failure, probe};
use crate::testing::p;

/// All that is known of how the group commits is what its samples show.
fn unknown(mut of: History) -> History {
    of.policy(|policy| policy.max_poll_records = None);
    of
}

/// Partition 0 is singled out: member after member ends there, and everything else goes on.
fn singled_out() -> History {
    unknown(crash_looping(4, &[1, 2]))
}

fn suspects(history: &History) -> Option<(i64, i64, u64)> {
    history.finding(0).suspects()
}

fn unlike(offset: i64, validator: Validator) -> Unlike {
    Unlike {
        failure: Failure {
            validator,
            ..failure(offset)
        },
        passing: 20,
    }
}

/// A consumer that commits whole batches dies of a record behind the commit that looks like all others.
#[test]
fn of_a_group_that_may_commit_batches_no_record_is_named() {
    let mut history = singled_out();
    history.policy(|policy| policy.skip_on = SkipOn::Suspected);
    let (assessment, proposals) = history.judged();
    assert_eq!(proposals.skips, []);
    assert_eq!(assessment.findings[0].verdict, Verdict::CrashLoop);
    let evidence = Evidence::Suspects {
        first: 100,
        last: 199,
        records: 100,
        max_poll_records: 500,
        configured: false,
    };
    assert_eq!(assessment.findings[0].evidence[0], evidence);
    let text = evidence.to_string();
    assert!(text.contains("from offset 100 to 199"), "{text}");
    assert!(text.contains("Kafka's default of 500"), "{text}");
    assert_eq!(proposals.withheld, []);
    // It is read before all others.
    assert_eq!(history.judged_without_probes().wants_probe[0], p(0));
    // A person who knows which record it is gets the plan.
    let ask = Ask {
        partition: p(0),
        action: RemediationAction::SkipPoisonRecord,
        through: None,
    };
    assert_eq!(history.asked(Some(&ask)).1.skips[0].last, 100);
}

#[test]
fn a_poll_of_fewer_records_makes_fewer_suspects_and_one_of_one_names_it() {
    let mut history = singled_out();
    history.policy(|policy| policy.max_poll_records = Some(30));
    assert_eq!(suspects(&history), Some((100, 129, 30)));
    let told = history.finding(0).evidence[0].to_string();
    assert!(
        told.contains("or further where offsets are empty"),
        "{told}"
    );
    assert!(told.contains("max_poll_records is 30"), "{told}");
    // The range begins at the record that the consumers see first.
    history.probed(0, probe(100, &[(113, false)]));
    assert_eq!(suspects(&history), Some((113, 142, 30)));
    history.policy(|policy| policy.max_poll_records = Some(1));
    assert_eq!(history.verdict(0), Verdict::PoisonLikely);
    assert_eq!(history.judged().1.skips[0].last, 113);
}

/// The bad record is the last one of its log: there is no other that it could be.
#[test]
fn the_only_record_that_waits_is_the_one() {
    let mut history = singled_out();
    for look in &mut history.samples {
        if let Some(Ok(sample)) = look.partitions.get_mut(&p(0)) {
            (sample.log.high, sample.log.last_stable) = (101, 101);
        }
    }
    assert_eq!(history.verdict(0), Verdict::PoisonLikely);
    for look in &mut history.samples {
        if let Some(Ok(sample)) = look.partitions.get_mut(&p(0)) {
            (sample.log.high, sample.log.last_stable) = (102, 102);
        }
    }
    assert_eq!(suspects(&history), Some((100, 101, 2)));
}

/// A consumer that reads uncommitted records takes those of an open transaction along, and Kafka's default is to do so.
#[test]
fn records_of_an_open_transaction_are_suspects_unless_they_are_known_to_be_passed_over() {
    let mut history = singled_out();
    for look in &mut history.samples {
        if let Some(Ok(sample)) = look.partitions.get_mut(&p(0)) {
            sample.log.last_stable = 101;
        }
    }
    assert_eq!(suspects(&history), Some((100, 199, 100)));
    assert_eq!(history.judged().1.skips, []);
    history.policy(|policy| policy.isolation = Isolation::ReadCommitted);
    assert_eq!(history.verdict(0), Verdict::PoisonLikely);
}

/// Two kinds of consumers in one group: who reads one topic record by record says nothing of who reads the other.
#[test]
fn commits_that_go_on_one_by_one_name_no_record_of_another_topic() {
    let mut history = unknown(History::of(3));
    history.stable(&[("a0", &[0, 1, 2])]).high(1, 1_010);
    for at in 1_000..1_004 {
        history.committed(1, at).look();
    }
    let here = |history: &History| history.finding(0).verdict;
    for n in 1..5 {
        let (a, b) = (format!("a{n}1"), format!("a{n}2"));
        history.stable(&[(&a, &[0, 1, 2])]).run().empty().look();
        history.joining(&[&b]).work(&[1, 2]).look();
        history.stable(&[(&b, &[0, 1, 2])]).look().work(&[1, 2]);
    }
    assert_eq!(here(&history), Verdict::PoisonLikely);
    for look in &mut history.samples {
        let stepped = look.partitions.remove(&p(1)).unwrap();
        let other = TopicPartition::new("returns", 1);
        look.partitions.insert(other, stepped);
    }
    assert_eq!(here(&history), Verdict::CrashLoop);
}

/// Commits of another partition go on by one, time and again, while more records wait than they come past.
#[test]
fn commits_that_go_on_one_by_one_name_the_record() {
    let steps = |steps: &[i64], high: i64| {
        let mut history = unknown(History::of(3));
        let mut at = 1000;
        history.stable(&[("a0", &[0, 1, 2])]);
        history.committed(1, at).high(1, high).run();
        for step in steps {
            at += step;
            history.committed(1, at).high(1, high.max(at)).look();
        }
        for n in 1..5 {
            let (a, b) = (format!("a{n}1"), format!("a{n}2"));
            history.stable(&[(&a, &[0, 1, 2])]).run().empty().look();
            history.joining(&[&b]).work(&[1, 2]).look();
            history.stable(&[(&b, &[0, 1, 2])]).look().work(&[1, 2]);
        }
        history.verdict(0)
    };
    assert_eq!(steps(&[1, 1, 1], 1010), Verdict::PoisonLikely);
    assert_eq!(steps(&[1, 0, 1, 0, 1], 1010), Verdict::PoisonLikely);
    // Each of these may be a batch of what had come by then.
    assert_eq!(steps(&[1, 1], 1010), Verdict::CrashLoop);
    assert_eq!(steps(&[1, 2, 1, 1], 1010), Verdict::CrashLoop);
    assert_eq!(steps(&[1, 1, 1], 1003), Verdict::CrashLoop);
    assert_eq!(steps(&[2, 2, 2], 1010), Verdict::CrashLoop);
}

#[test]
fn a_validator_or_an_odd_kind_names_the_record_and_a_validator_that_passes_does_not() {
    let mut history = singled_out();
    history.probed(0, probe(100, &[(100, true), (101, false)]));
    assert_eq!(history.verdict(0), Verdict::PoisonLikely);
    let mut odd = probe(100, &[(100, false)]);
    odd.unlike = Some(unlike(100, Validator::Json));
    history.probed(0, odd);
    assert_eq!(history.verdict(0), Verdict::PoisonLikely);
    history.policy(|policy| policy.validators = vec![Validator::Utf8]);
    history.probed(0, probe(100, &[(100, false)]));
    assert_eq!(history.verdict(0), Verdict::CrashLoop);
    assert_eq!(suspects(&history), Some((100, 199, 100)));
}

/// What stands out further on is told as such, and the range is not: that record is named.
#[test]
fn a_record_that_stands_out_further_on_is_the_one_that_is_told() {
    let mut history = singled_out();
    let mut odd = probe(100, &[(100, false)]);
    odd.unlike = Some(unlike(104, Validator::Json));
    history.probed(0, odd);
    assert_eq!(history.verdict(0), Verdict::CrashLoop);
    assert_eq!(suspects(&history), None);
    let (_, proposals) = history.judged();
    assert_eq!(proposals.skips, []);
    let further = Refusal::PoisonNotAtCommitted {
        partition: p(0),
        first: 100,
        poison: 104,
    };
    assert_eq!(proposals.withheld, [further]);
}

/// It stands in the same hands all the time: a suspicion as well, of as many records.
#[test]
fn a_partition_that_alone_stands_has_as_many_suspects() {
    let mut history = unknown(at_rest(3, &[1, 2, 3]));
    assert_eq!(suspects(&history), Some((200, 299, 100)));
    history.policy(|policy| policy.skip_on = SkipOn::Suspected);
    let (_, proposals) = history.judged();
    assert_eq!(proposals.skips, []);
    let refusal = Refusal::RecordNotSingledOut {
        partition: p(0),
        first: 200,
        last: 299,
        records: 100,
    };
    assert_eq!(proposals.withheld, [refusal]);
    history.policy(|policy| policy.max_poll_records = Some(1));
    assert_eq!(history.judged().1.skips[0].last, 200);
    // Nor do two samples name one.
    let mut history = unknown(at_rest(0, &[]));
    history.policy(|policy: &mut GuardPolicy| {
        policy.min_samples = 2;
        policy.stall_seconds = 0;
    });
    history.run().work(&[1, 2, 3]).high(0, 320).run();
    assert_eq!(history.verdict(0), Verdict::PoisonSuspected);
    assert_eq!(history.judged().1.skips, []);
}

/// Two members of two partitions each; `a` dies at partition 0 again and again, so that 1 stands as well, and `b` goes on. No
/// look meets an owner of either: what is inferred from members that try in vain cannot be.
fn dies_beside_others() -> History {
    let mut history = unknown(History::of(4));
    for n in 0..4 {
        history.stable(&[("b1", &[2, 3])]).run().work(&[2, 3]);
        history.joining(&[&format!("a{n}"), "b1"]).look();
        history.stable(&[("b1", &[2, 3])]).look().work(&[2, 3]);
    }
    history
}

#[test]
fn of_members_that_end_beside_others_the_record_that_is_odd_is_shown_and_not_proposed() {
    let history = dies_beside_others();
    assert_eq!(history.verdict(0), Verdict::CrashLoop);
    for validator in [Validator::Json, Validator::NotNull] {
        let mut history = history.clone();
        let mut odd = probe(100, &[(100, false)]);
        odd.unlike = Some(unlike(100, validator));
        history.probed(0, odd.clone());
        let finding = history.finding(0);
        assert_eq!(
            (finding.verdict, finding.confidence),
            (Verdict::PoisonSuspected, Confidence::Low)
        );
        let first = &finding.evidence[0];
        assert!(matches!(
            first,
            Evidence::UnlikeThoseBefore { offset: 100, .. }
        ));
        assert_eq!(history.verdict(1), Verdict::CrashLoop);
        let (_, proposals) = history.judged();
        assert_eq!((proposals.skips, proposals.withheld), (vec![], vec![]));
        // Where another one that stands is as odd, none is shown.
        history.probed(1, odd);
        assert_eq!(history.verdict(0), Verdict::CrashLoop);
    }
}

/// All consumers die at whatever comes, and one of the records that wait happens to be odd.
#[test]
fn an_odd_record_in_an_outage_is_no_suspect() {
    let mut history = unknown(crash_looping(4, &[]));
    let mut odd = probe(100, &[(100, false)]);
    odd.unlike = Some(unlike(100, Validator::Json));
    history.probed(0, odd);
    assert_eq!(history.verdict(0), Verdict::CrashLoop);
}

/// A tombstone is how any compacted topic deletes: it is shown, and never proposed by itself.
#[test]
fn a_tombstone_is_a_suspect_at_most() {
    let mut history = singled_out();
    let mut odd = probe(100, &[(100, false)]);
    odd.unlike = Some(unlike(100, Validator::NotNull));
    history.probed(0, odd.clone());
    let finding = history.finding(0);
    assert_eq!(finding.verdict, Verdict::PoisonSuspected);
    assert_eq!(finding.suspects(), None);
    assert_eq!(history.judged().1.skips, []);
    // A tombstone elsewhere is no reason against a record that is no JSON here.
    let mut history = dies_beside_others();
    history.probed(1, odd.clone());
    odd.unlike = Some(unlike(100, Validator::Json));
    history.probed(0, odd);
    assert_eq!(history.verdict(0), Verdict::PoisonSuspected);
    assert_eq!(history.verdict(1), Verdict::CrashLoop);
}

/// Nobody ran for long, and the one who comes finds an old commit.
#[test]
fn who_has_just_come_back_to_an_old_commit_is_no_suspect() {
    let mut history = unknown(History::of(2));
    history.empty().runs(5);
    history.stable(&[("a1", &[0, 1])]).committed(1, 200).run();
    let finding = history.finding(0);
    assert_eq!(finding.verdict, Verdict::Waiting);
    let owned = |history: &History, seconds| {
        let finding = history.finding(0);
        let owned = Evidence::OwnedSince {
            since: history.samples[5].at,
            seconds,
        };
        (finding.verdict, finding.evidence[0] == owned)
    };
    assert_eq!(owned(&history, 0), (Verdict::Waiting, true));
    history.run_after(599);
    assert_eq!(owned(&history, 599), (Verdict::Waiting, true));
    // Ten minutes, in as many runs as a stall takes.
    history.run_after(1);
    assert_eq!(history.verdict(0), Verdict::PoisonSuspected);
    // A look that meets the group between two members of it takes nothing back.
    history.joining(&["a1"]).run();
    assert_eq!(history.verdict(0), Verdict::PoisonSuspected);
}

/// The same for all that stands, and for a partition that only this member reads again.
#[test]
fn nobody_is_blamed_before_his_time() {
    let mut history = History::of(3);
    history.empty().runs(5);
    history.stable(&[("a1", &[0, 1, 2])]).run();
    assert_eq!(history.verdicts(), [Verdict::Waiting; 3]);
    history.runs(2);
    assert_eq!(history.verdicts(), [Verdict::GroupStuck; 3]);
    let mut history = at_rest(0, &[]);
    history.stable(&[("a1", &[1]), ("b1", &[2, 3])]);
    for _ in 0..4 {
        history.run().work(&[1, 2, 3]);
    }
    assert_eq!(history.verdict(0), Verdict::Unassigned);
    history.stable(&[("a1", &[0, 1]), ("b1", &[2, 3])]).run();
    assert_eq!(history.verdict(0), Verdict::Waiting);
}
