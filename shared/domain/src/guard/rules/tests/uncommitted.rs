//! Groups that never committed anything.

use super::super::super::policy::Validator;
use super::super::super::probe::Probe;
use super::super::super::sample::Sample;
use super::super::super::verdict::{Evidence, Finding, GroupFinding, Status, Verdict};
use super::super::{is_forgotten, is_suspicious};
use crate::offset::Fault;
use crate::testing::guard::{History, outline, probe};
use crate::testing::p;

fn of_group(history: &History) -> Option<GroupFinding> {
    history.judged().0.of_group
}

/// A consumer dies of the first record of its topic, and is started again two seconds later: most looks meet nobody, and
/// few what it was assigned.
fn dies_at_first(runs: i32, assigned: bool) -> History {
    let mut history = History::of(1);
    history.no_commit(0);
    let reading = history.seen.partitions.remove(&p(0)).unwrap();
    for n in 0..runs {
        let (a, b) = (format!("a{n}1"), format!("a{n}2"));
        history.empty().run();
        history.joining(&[&a]).look();
        history.empty().look();
        if assigned {
            history.seen.partitions.insert(p(0), reading.clone());
            history.stable(&[(&b, &[0])]).look();
        }
        history.empty().look();
    }
    history
}

#[test]
fn members_that_come_and_go_without_a_commit_are_told_in_every_run() {
    for assigned in [false, true] {
        for monitored in [
            vec![],
            vec!["shipments".to_owned()],
            vec!["returns".to_owned()],
        ] {
            for runs in 3..30 {
                let mut history = dies_at_first(runs, assigned);
                history.policy(|policy| policy.monitored_topics.clone_from(&monitored));
                let (assessment, proposals) = history.judged();
                let found = assessment.of_group.unwrap();
                assert_eq!(found.verdict, Verdict::CrashLoop);
                let status = if assigned {
                    Status::Critical
                } else {
                    Status::Warning
                };
                assert_eq!((found.status, assessment.status), (status, status));
                assert!(matches!(found.evidence[0], Evidence::NeverCommitted { .. }));
                assert!(found.next_step().contains("auto.offset.reset"));
                assert_eq!((proposals.skips, proposals.withheld), (vec![], vec![]));
            }
        }
    }
    assert_eq!(of_group(&dies_at_first(2, true)), None, "too early to tell");
}

/// The records where they begin are read where it was seen what they were assigned.
#[test]
fn the_record_at_which_they_begin_is_shown() {
    let mut history = dies_at_first(4, true);
    assert_eq!(history.judged_without_probes().wants_probe, [p(0)]);
    let first = |history: &History| of_group(history).unwrap().evidence[1].clone();
    let shown = |problem| Evidence::FirstRecord {
        partition: p(0),
        record: outline(0),
        problem,
    };
    assert_eq!(first(&history), shown(None));
    history.policy(|policy| policy.validators = vec![Validator::Json]);
    let bad: Probe = probe(0, &[(0, true)]);
    let problem = bad.validation.first_failure().map(|f| f.problem.clone());
    history.probed(0, bad);
    assert_eq!(first(&history), shown(problem));
    assert_eq!(
        dies_at_first(4, false).judged_without_probes().wants_probe,
        []
    );
}

#[test]
fn members_that_stay_and_never_commit_are_no_finding_of_the_group() {
    let mut history = History::of(2);
    history.no_commit(0).no_commit(1).stable(&[("a1", &[0, 1])]);
    for _ in 0..10 {
        history.run();
        let (assessment, _) = history.judged();
        assert_eq!(assessment.of_group, None);
        assert_ne!(assessment.status, Status::Critical);
        assert!(!is_suspicious(&history.samples, &history.policy));
    }
    // One deployment is no coming and going.
    history.stable(&[("a2", &[0, 1])]).runs(3);
    assert_eq!(of_group(&history), None);
}

#[test]
fn a_group_that_nobody_was_in_or_that_has_a_commit_or_hides_one_is_none_of_these() {
    let mut nobody = History::of(1);
    nobody.no_commit(0).empty().runs(5);
    assert_eq!(of_group(&nobody), None);
    assert!(
        is_suspicious(&nobody.samples, &nobody.policy),
        "somebody may come"
    );
    let mut history = dies_at_first(5, true);
    assert!(of_group(&history).is_some());
    let mut hides = history.clone();
    hides.fails(0).run();
    assert_eq!(of_group(&hides), None);
    hides.reading(0).log = Err(Fault::TopicGone);
    hides.samples.pop();
    hides.run();
    assert!(of_group(&hides).is_some());
    history.policy(|policy| policy.external_offsets = true);
    assert_eq!(of_group(&history), None);
    history.policy(|policy| policy.external_offsets = false);
    history.committed(0, 1).run();
    assert_eq!(of_group(&history), None);
}

/// With nothing to read, members that come and go are worth a look and no more.
#[test]
fn nothing_to_read_is_not_critical() {
    let mut history = dies_at_first(5, true);
    history.log(0, 0, 0).empty().run();
    assert_eq!(of_group(&history).unwrap().status, Status::Warning);
}

/// As soon as nobody comes any more, there is no loop.
#[test]
fn it_ends_with_the_last_of_them() {
    let mut history = dies_at_first(5, true);
    history.runs(11);
    assert!(of_group(&history).is_some());
    assert!(is_forgotten(&history.samples, &history.policy));
    history.run();
    assert_eq!(of_group(&history), None);
    assert!(!is_forgotten(&history.samples, &history.policy));
}

#[test]
fn a_partition_without_a_commit_is_told_where_members_come_and_go() {
    let status = |finding: Finding| finding.status;
    assert_eq!(status(dies_at_first(5, true).finding(0)), Status::Warning);
    // The brokers forget a group without commits as soon as nobody is in it; one that had commits is another matter.
    let forgotten = |samples: &[Sample]| is_forgotten(samples, &History::of(1).policy);
    assert!(forgotten(&dies_at_first(1, false).samples));
    let mut history = History::of(1);
    history.stable(&[("a1", &[0])]).run();
    assert!(!forgotten(&history.samples));
    assert!(!forgotten(&[]));
}
