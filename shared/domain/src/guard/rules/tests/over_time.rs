//! What the rules say of a group's members from run to run: not what the chance of a look makes of it.

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::super::verdict::{Evidence, Verdict};
use super::super::members::GONE_AFTER_RUNS;
use super::super::trouble_of_members;
use crate::group::GroupState;
use crate::testing::guard::History;

/// How many runs the samples are kept of.
const REMEMBERED: usize = 24;

/// What one look meets.
#[derive(Debug, Clone, Copy)]
enum Met {
    Nobody,
    /// A process that has just joined, and is gone by the next look.
    Joins,
    /// The same with an assignment.
    Works,
    /// The two members, at rest or not.
    Two(GroupState),
    /// The same after the second one was thrown out and let in again.
    Again(GroupState),
}

/// What the rules say of the one partition, which stands all the time, after each run.
fn verdicts(runs: &[Vec<Met>]) -> Vec<Verdict> {
    let mut said = Vec::new();
    after_each_run(runs, |history| said.push(history.verdict(0)));
    said
}

/// What they say after the last run.
fn last_verdict(runs: &[Vec<Met>]) -> Option<Verdict> {
    after_each_run(runs, |_| {}).map(|history| history.verdict(0))
}

/// Plays runs one after the other, and returns the history as it is before the last one is kept.
fn after_each_run(runs: &[Vec<Met>], mut see: impl FnMut(&History)) -> Option<History> {
    let mut history = History::of(1);
    let (mut process, mut again) = (0, 0);
    let mut last = None;
    for (index, looks) in runs.iter().enumerate() {
        for (n, met) in looks.iter().enumerate() {
            process += 1;
            let name = format!("a{process}");
            match met {
                Met::Nobody => _ = history.empty(),
                Met::Joins => _ = history.joining(&[&name]),
                Met::Works => _ = history.stable(&[(&name, &[0])]),
                Met::Two(state) | Met::Again(state) => {
                    again += i32::from(matches!(met, Met::Again(_)));
                    let other = format!("c{again}");
                    history.stable(&[("b1", &[0]), (&other, &[])]).state(*state);
                }
            }
            if n == 0 {
                history.run();
            } else {
                history.look();
            }
        }
        let mut began: Vec<_> = history.samples.iter().map(|look| look.run).collect();
        began.dedup();
        if let Some(oldest) = began.len().checked_sub(REMEMBERED) {
            history.samples.retain(|look| look.run >= began[oldest]);
        }
        see(&history);
        if index + 1 == runs.len() {
            last = Some(history.clone());
        }
        // As a run of the guard does, before it keeps its looks.
        let trouble = trouble_of_members(&history.samples, &history.policy, history.now());
        let run = history.samples.last().unwrap().run;
        let of_run = history.samples.iter_mut().rev();
        for look in of_run.take_while(|look| look.run == run) {
            look.trouble = trouble;
        }
    }
    last
}

/// The verdicts without those that follow an equal one.
fn changes(said: &[Verdict]) -> Vec<Verdict> {
    let mut changes = said.to_vec();
    changes.dedup();
    changes
}

/// None of the verdicts about members is given, taken back and given again.
fn alternate(said: &[Verdict]) -> bool {
    let about_members = [
        Verdict::NoMembers,
        Verdict::RebalanceLoop,
        Verdict::CrashLoop,
        Verdict::Unassigned,
    ];
    let changes = changes(said);
    let times = |verdict| changes.iter().filter(|said| **said == verdict).count();
    about_members.into_iter().any(|verdict| times(verdict) > 1)
}

/// Runs over a group whose only process ends at once, again and again: most looks meet nobody, and up to ten runs in a row do.
fn crash_loop() -> impl Strategy<Value = Vec<Vec<Met>>> {
    let nobody = || vec(Just(Met::Nobody), 1..4);
    let met = prop_oneof![
        3 => Just(Met::Nobody),
        1 => Just(Met::Joins),
        1 => Just(Met::Works),
    ];
    let meets = (
        vec(met, 0..4),
        prop_oneof![Just(Met::Joins), Just(Met::Works)],
        any::<prop::sample::Index>(),
    )
        .prop_map(|(mut looks, one, at)| {
            looks.insert(at.index(looks.len() + 1), one);
            looks
        });
    let stretch = (vec(nobody(), 0..GONE_AFTER_RUNS - 1), meets).prop_map(|(mut runs, meets)| {
        runs.push(meets);
        runs
    });
    vec(stretch, 2..9).prop_map(|stretches| stretches.concat())
}

/// Runs over a group that never comes to rest, and that nobody leaves for good.
fn rebalance_loop() -> impl Strategy<Value = Vec<Vec<Met>>> {
    let rests = prop_oneof![
        Just(GroupState::Stable),
        Just(GroupState::PreparingRebalance),
        Just(GroupState::CompletingRebalance),
        Just(GroupState::Reconciling),
    ];
    let met = prop_oneof![
        3 => rests.clone().prop_map(Met::Two),
        1 => rests.prop_map(Met::Again),
    ];
    let run = (vec(met, 0..4), any::<prop::sample::Index>()).prop_map(|(mut looks, at)| {
        let one = Met::Two(GroupState::PreparingRebalance);
        looks.insert(at.index(looks.len() + 1), one);
        looks
    });
    vec(run, 4..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn no_verdict_about_members_alternates_while_a_process_ends_again_and_again(runs in crash_loop()) {
        let said = verdicts(&runs);
        prop_assert!(!alternate(&said), "{said:?}");
    }

    #[test]
    fn no_verdict_about_members_alternates_while_they_do_not_come_to_rest(runs in rebalance_loop()) {
        let said = verdicts(&runs);
        prop_assert!(!alternate(&said), "{said:?}");
    }

    #[test]
    fn nobody_at_all_is_nobody_all_the_time(looks in vec(1..4_usize, 3..30)) {
        let runs: Vec<_> = looks.iter().map(|looks| vec![Met::Nobody; *looks]).collect();
        prop_assert_eq!(changes(&verdicts(&runs)), [Verdict::Waiting, Verdict::NoMembers]);
    }

    /// Whatever it did before, a group that was left has nobody in it after the stated number of runs.
    #[test]
    fn a_group_that_was_left_is_said_to_be(runs in prop_oneof![crash_loop(), rebalance_loop()]) {
        let mut runs = runs;
        runs.extend(vec![vec![Met::Nobody]; GONE_AFTER_RUNS]);
        prop_assert_eq!(last_verdict(&runs), Some(Verdict::NoMembers));
    }

    /// And one whose members have come to rest has no loop any more.
    #[test]
    fn a_group_that_came_to_rest_has_no_loop(runs in prop_oneof![crash_loop(), rebalance_loop()]) {
        let mut runs = runs;
        runs.extend(vec![vec![Met::Two(GroupState::Stable)]; 4]);
        prop_assert_eq!(last_verdict(&runs), Some(Verdict::PoisonSuspected));
    }
}

/// Two seconds between the lives of a process that leaves when it ends: a run meets it or not.
#[test]
fn a_crash_loop_that_few_looks_meet_stays_one() {
    let met = |met: bool| match met {
        true => vec![Met::Nobody, Met::Joins, Met::Nobody],
        false => vec![Met::Nobody; 3],
    };
    let mut runs: Vec<_> = [1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0]
        .into_iter()
        .map(|n| met(n == 1))
        .collect();
    let said = verdicts(&runs);
    assert_eq!(changes(&said), [Verdict::Waiting, Verdict::CrashLoop]);
    // Then somebody stops it for good. Two of the runs have met nobody already.
    runs.extend(vec![met(false); GONE_AFTER_RUNS - 3]);
    assert_eq!(verdicts(&runs).last(), Some(&Verdict::CrashLoop));
    runs.push(met(false));
    assert_eq!(verdicts(&runs).last(), Some(&Verdict::NoMembers));
}

/// It is told that nobody was seen lately, and for how long that will be borne.
#[test]
fn a_crash_loop_that_nobody_was_seen_in_lately_says_so() {
    let mut history = History::of(1);
    for n in 0..3 {
        history.empty().run().joining(&[&format!("a{n}")]).look();
        history.empty().look();
    }
    let seen = history.samples[7].at;
    history.runs(2);
    let finding = history.finding(0);
    assert_eq!(finding.verdict, Verdict::CrashLoop);
    let last_seen = Evidence::LastSeen {
        at: Some(seen),
        runs: 2,
        limit: GONE_AFTER_RUNS,
    };
    assert!(
        finding.evidence.contains(&last_seen),
        "{:?}",
        finding.evidence
    );
}

/// Members that were there for long, once deployed anew, and then stopped: nobody has to wait to be told.
#[test]
fn members_that_stayed_and_were_stopped_are_gone_at_once() {
    let mut history = History::of(1);
    history.stable(&[("a1", &[0])]).runs(3);
    history.empty().look();
    history.stable(&[("a2", &[0])]).look().runs(3);
    history.empty().run();
    assert_eq!(history.verdict(0), Verdict::NoMembers);
}

/// Lives longer than the time between two runs.
#[test]
fn a_slow_crash_loop_is_one_from_its_third_restart_on() {
    let mut history = History::of(2);
    let mut said = Vec::new();
    for n in 0..8 {
        history.stable(&[(&format!("a{n}"), &[0, 1])]).run();
        said.push(history.verdict(0));
        history.run();
        said.push(history.verdict(0));
        history.empty().run();
        said.push(history.verdict(0));
    }
    assert!(
        said[11..].iter().all(|said| *said == Verdict::CrashLoop),
        "{said:?}"
    );
}
