//! The rule table, case by case.

mod attacks;
mod borders;
mod many;
mod over_time;
mod properties;
mod recoveries;
mod situations;
mod suspects;
mod table;
mod two_samples;
mod uncommitted;

use crate::testing::guard::History;

/// One member that crashes at record 100 of partition 0, starts anew, and gets everything else done: for so many runs.
pub(super) fn crash_looping(runs: usize, others: &[i32]) -> History {
    let all: Vec<i32> = std::iter::once(0).chain(others.iter().copied()).collect();
    let mut history = History::of(i32::try_from(all.len()).unwrap());
    let mut incarnation = 0;
    for _ in 0..runs {
        incarnation += 1;
        let name = format!("a{incarnation}");
        history.stable(&[(&name, &all)]).run();
        history.empty().look();
        incarnation += 1;
        let name = format!("a{incarnation}");
        history.joining(&[&name]).work(others).look();
        history.stable(&[(&name, &all)]).look();
        history.work(others);
    }
    history
}

/// Two members at rest; `a1` has partitions 0 and 1, `b1` has 2 and 3. Those in `moving` go on from run to run.
pub(super) fn at_rest(runs: usize, moving: &[i32]) -> History {
    let mut history = History::of(4);
    history.stable(&[("a1", &[0, 1]), ("b1", &[2, 3])]);
    for n in [0, 1, 2, 3] {
        history.committed(n, 200);
    }
    history.run();
    for n in [0, 1, 2, 3] {
        history.high(n, 300);
    }
    for _ in 0..runs {
        history.run().work(moving);
    }
    history
}
