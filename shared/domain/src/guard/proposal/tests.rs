use super::*;
use crate::guard::probe::Unlike;
use crate::offset::Fault;
use crate::testing::guard::{History, failure, outline, probe};
use crate::testing::p;

fn ask(action: RemediationAction, through: Option<i64>) -> Ask {
    Ask {
        partition: p(0),
        action,
        through,
    }
}

const SKIP: RemediationAction = RemediationAction::SkipPoisonRecord;
const REWIND: RemediationAction = RemediationAction::RewindOffset;

/// Partition 0 stands alone at 100, in the same hands.
fn suspected() -> History {
    let mut history = History::of(2);
    history.stable(&[("a1", &[0, 1])]);
    for _ in 0..3 {
        history.run().work(&[1]);
    }
    assert_eq!(history.verdict(0), Verdict::PoisonSuspected);
    history
}

fn range(first: i64, last: i64) -> SkipRange {
    SkipRange {
        partition: p(0),
        committed: 100,
        first,
        last,
    }
}

fn not_warranted(verdict: Verdict) -> Refusal {
    Refusal::NotWarranted {
        partition: p(0),
        verdict,
    }
}

fn unreadable(why: &str) -> Refusal {
    Refusal::RecordUnreadable {
        partition: p(0),
        why: why.to_owned(),
    }
}

/// What comes of a history: skips, rewinds of partition 0, refusals.
fn comes(history: &History, ask: Option<&Ask>) -> (Vec<SkipRange>, Option<i64>, Vec<Refusal>) {
    let (_, proposals) = history.asked(ask);
    let rewind = proposals.rewinds.get(&p(0)).copied();
    (proposals.skips, rewind, proposals.withheld)
}

#[test]
fn a_suspicion_makes_a_plan_only_where_the_policy_or_a_person_says_so() {
    let mut history = suspected();
    assert_eq!(comes(&history, None), (vec![], None, vec![]));
    let asked = ask(SKIP, None);
    assert_eq!(comes(&history, Some(&asked)).0, [range(100, 100)]);
    history.policy(|policy| policy.skip_on = SkipOn::Suspected);
    assert_eq!(comes(&history, None).0, [range(100, 100)]);
    history.policy(|policy| policy.remediation_action = RemediationAction::AuditOnly);
    assert_eq!(comes(&history, None), (vec![], None, vec![]));
}

#[test]
fn a_person_is_refused_a_skip_where_it_is_no_remedy() {
    type Change = fn(&mut History);
    let changes: [(Change, Verdict); 6] = [
        (|h| _ = h.fails(0).run(), Verdict::NoData),
        (|h| _ = h.no_commit(0).run(), Verdict::NoCommit),
        (|h| _ = h.committed(0, 201).run(), Verdict::Ahead),
        (|h| _ = h.log(0, 150, 200).run(), Verdict::BelowLogStart),
        (|h| _ = h.open(0, 100).run(), Verdict::BlockedByTransaction),
        (|h| _ = h.work(&[0]).run(), Verdict::Moving),
    ];
    for (change, verdict) in changes {
        let mut history = suspected();
        change(&mut history);
        let asked = ask(SKIP, Some(100));
        assert_eq!(
            comes(&history, Some(&asked)),
            (vec![], None, vec![not_warranted(verdict)])
        );
    }
}

#[test]
fn a_person_asks_for_one_partition_and_gets_a_plan_for_that_one() {
    let mut history = suspected();
    history.probed(0, probe(100, &[(100, true), (101, false)]));
    assert_eq!(comes(&history, None).0, [range(100, 100)]);
    let other = Ask {
        partition: p(1),
        ..ask(SKIP, None)
    };
    let (skips, _, withheld) = comes(&history, Some(&other));
    assert_eq!(skips, []);
    assert_eq!(withheld.len(), 1);
    let unknown = Ask {
        partition: p(9),
        ..ask(SKIP, None)
    };
    assert_eq!(
        comes(&history, Some(&unknown)).2,
        [Refusal::PartitionUnknown { partition: p(9) }]
    );
}

/// A commit passes over a prefix: the good records before the bad one would be lost with it.
#[test]
fn a_record_that_fails_further_on_is_told_and_passed_over_only_as_a_named_range() {
    let mut history = suspected();
    history.probed(0, probe(100, &[(100, false), (101, false), (102, true)]));
    let further = Refusal::PoisonNotAtCommitted {
        partition: p(0),
        first: 100,
        poison: 102,
    };
    assert_eq!(comes(&history, None), (vec![], None, vec![further.clone()]));
    let asked = ask(SKIP, None);
    assert_eq!(comes(&history, Some(&asked)).2, [further]);
    let asked = ask(SKIP, Some(102));
    assert_eq!(comes(&history, Some(&asked)).0, [range(100, 102)]);
}

/// Consumers that take many records a poll die of any of them. Where no validator is configured, one that is of another
/// kind than all before the commit is a reason not to pass over the good one in front of it.
#[test]
fn a_record_of_another_kind_further_on_keeps_the_good_one_in_front_of_it() {
    let mut history = suspected();
    history.policy(|policy| policy.skip_on = SkipOn::Suspected);
    let mut probe = probe(100, &[]);
    probe.committed = First::Record(outline(100));
    probe.uncommitted = First::Record(outline(100));
    history.probed(0, probe.clone());
    assert_eq!(comes(&history, None).0, [range(100, 100)]);
    let unlike = |offset| Unlike {
        failure: failure(offset),
        passing: 20,
    };
    probe.unlike = Some(unlike(100));
    history.probed(0, probe.clone());
    assert_eq!(comes(&history, None).0, [range(100, 100)]);
    probe.unlike = Some(unlike(117));
    history.probed(0, probe);
    let further = Refusal::PoisonNotAtCommitted {
        partition: p(0),
        first: 100,
        poison: 117,
    };
    assert_eq!(comes(&history, None), (vec![], None, vec![further]));
}

/// Where nobody is there to fail at it, or everything moves, a bad record further on is not told yet.
#[test]
fn a_record_further_on_is_no_news_where_nothing_is_stuck_at_it() {
    let mut history = suspected();
    history.empty().runs(3);
    history.probed(0, probe(100, &[(100, false), (101, true)]));
    assert_eq!(history.verdict(0), Verdict::NoMembers);
    assert_eq!(comes(&history, None), (vec![], None, vec![]));
}

#[test]
fn a_contiguous_run_of_bad_records_is_one_range_and_ends_at_the_first_good_one() {
    let mut history = suspected();
    history.probed(
        0,
        probe(100, &[(100, true), (103, true), (104, false), (105, true)]),
    );
    assert_eq!(comes(&history, None).0, [range(100, 103)]);
}

#[test]
fn a_named_range_lies_within_what_waits_and_can_be_read() {
    let mut history = suspected();
    for (through, refused) in [(99, true), (100, false), (199, false), (200, true)] {
        let asked = ask(SKIP, Some(through));
        let (skips, _, withheld) = comes(&history, Some(&asked));
        assert_eq!(skips.is_empty(), refused, "{through}");
        assert_eq!(withheld.len(), usize::from(refused), "{through}");
    }
    // A transaction is open at 150.
    history.open(0, 150).run();
    let asked = ask(SKIP, Some(150));
    assert_eq!(
        comes(&history, Some(&asked)).2,
        [Refusal::InvalidRequest {
            field: "through".to_owned(),
            problem: "150 is not among the records that wait in shipments-0, 100 to 149".to_owned(),
        }]
    );
    history.policy(|policy| policy.isolation = Isolation::ReadUncommitted);
    assert_eq!(comes(&history, Some(&asked)).0, [range(100, 150)]);
}

#[test]
fn what_nobody_could_read_is_not_passed_over() {
    let mut history = suspected();
    history.policy(|policy| policy.skip_on = SkipOn::Suspected);
    let fault = Fault::Failed {
        code: "BAD_MSG".to_owned(),
    };
    let unread = super::super::probe::ProbeFault::Unreadable(fault);
    history.probes.insert(p(0), Err(unread));
    assert_eq!(
        comes(&history, None).2,
        [unreadable(
            "its records could not be read: the reading failed (BAD_MSG)"
        )]
    );
    history.probed(0, probe(99, &[(99, true)]));
    assert_eq!(
        comes(&history, None).2,
        [unreadable("the group moved while it was being read")]
    );
    let assessment = history.judged_without_probes();
    let none = BTreeMap::new();
    let proposals = propose(
        &assessment,
        &none,
        &history.policy,
        false,
        None,
        &BTreeMap::new(),
    );
    assert_eq!(
        proposals.withheld,
        [unreadable("it was not read in this run")]
    );
    assert_eq!(proposals.skips, []);
}

#[test]
fn a_gap_that_no_record_ends_leaves_nothing_to_pass_over() {
    let mut history = suspected();
    let mut nothing = probe(100, &[]);
    nothing.committed = First::None { until: 150 };
    nothing.uncommitted = First::None { until: 150 };
    history.probed(0, nothing);
    let asked = ask(SKIP, None);
    assert_eq!(
        comes(&history, Some(&asked)).2,
        [unreadable("no record is visible before 150")]
    );
}

/// The validators read what the consumers see: a record before it says nothing against the first one.
#[test]
fn records_that_the_consumers_do_not_see_are_not_counted() {
    let mut history = suspected();
    let mut found = probe(100, &[(105, false)]);
    found.uncommitted = First::Record(outline(100));
    found.validation.records = vec![(100, Some(failure(100))), (105, None)];
    history.probed(0, found);
    history.policy(|policy| {
        policy.isolation = Isolation::ReadCommitted;
        policy.skip_on = SkipOn::Suspected;
    });
    assert_eq!(history.verdict(0), Verdict::PoisonSuspected);
    assert_eq!(comes(&history, None).0, [range(105, 105)]);
}

#[test]
fn the_cap_counts_one_partition_s_skips_of_the_day() {
    let mut history = suspected();
    history.policy(|policy| policy.skip_on = SkipOn::Suspected);
    history.skips_today.insert(p(1), 9);
    history.skips_today.insert(p(0), 2);
    assert_eq!(comes(&history, None).0.len(), 1);
    history.skips_today.insert(p(0), 3);
    assert_eq!(comes(&history, None).0, []);
    history.policy(|policy| policy.max_skips_per_day = 0);
    history.skips_today.clear();
    assert_eq!(comes(&history, None).0, []);
}

/// Reading the same record again helps nobody.
#[test]
fn a_rewind_is_no_remedy_for_poison() {
    let mut history = suspected();
    history.policy(|policy| policy.remediation_action = REWIND);
    history.probed(0, probe(100, &[(100, true)]));
    assert_eq!(history.verdict(0), Verdict::PoisonLikely);
    assert_eq!(comes(&history, None), (vec![], None, vec![]));
}

#[test]
fn a_rewind_goes_back_into_the_log_and_never_before_it() {
    let mut history = suspected();
    history.policy(|policy| {
        policy.remediation_action = REWIND;
        policy.rewind_record_count = 30;
    });
    history.log(0, 120, 200).run();
    assert_eq!(comes(&history, None).1, Some(120), "below the log start");
    history.committed(0, 201).run();
    assert_eq!(comes(&history, None).1, Some(170), "ahead of the end");
    history.log(0, 190, 200).run();
    assert_eq!(comes(&history, None).1, Some(190));
    // The guard does not offer it as a skip.
    history.policy(|policy| policy.remediation_action = SKIP);
    assert_eq!(comes(&history, None), (vec![], None, vec![]));
}

#[test]
fn a_person_may_go_back_from_anywhere_that_is_a_position() {
    let mut history = suspected();
    history.policy(|policy| policy.rewind_record_count = 30);
    let asked = ask(REWIND, None);
    assert_eq!(comes(&history, Some(&asked)).1, Some(70));
    history.log(0, 90, 200).run();
    assert_eq!(comes(&history, Some(&asked)).1, Some(90));
    history.no_commit(0).run();
    assert_eq!(
        comes(&history, Some(&asked)),
        (vec![], None, vec![not_warranted(Verdict::NoCommit)])
    );
    history.fails(0).run();
    assert_eq!(
        comes(&history, Some(&asked)).2,
        [not_warranted(Verdict::NoData)]
    );
}

#[test]
fn after_a_topic_was_created_again_nobody_goes_back_in_it() {
    let mut history = suspected();
    let id = crate::testing::topic(8, 2);
    history.seen.topics.insert("shipments".into(), id);
    history.run();
    let asked = ask(REWIND, None);
    assert_eq!(
        comes(&history, Some(&asked)).2,
        [not_warranted(Verdict::TopicChanged)]
    );
}
