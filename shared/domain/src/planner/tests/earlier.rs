//! An earlier plan that was applied in part: undone where it was applied, finished where it was not.

use super::*;
use crate::plan::LeftAlone::{AppliedThen, NotAppliedThen};
use crate::plan::check_plan;
use crate::recovery::AlterAnswer;
use crate::recovery::PartitionOutcome::{self, Applied, NotApplied, Overwritten, Unknown};

/// All three partitions from 43 back to 31; then the group as it was left, each with what became of it.
fn partly(finish: bool, became: [PartitionOutcome; 3], left: [i64; 3]) -> Scene {
    let scene = incident(|s| {
        for n in 0..3 {
            reading(&mut s.seen, n).committed = Ok(Some(commit(43)));
        }
    });
    after_part(scene, finish, became, left)
}

/// A scene's plan, applied in part; then the group as it was left.
fn after_part(scene: Scene, finish: bool, became: [PartitionOutcome; 3], left: [i64; 3]) -> Scene {
    let plan = scene.ready();
    let outcomes = (0..)
        .zip(became)
        .map(|(n, became)| (p(n), became))
        .collect();
    let before = pre_image(&plan);
    let of = executed(plan, before, outcomes);
    let goal = if finish {
        Goal::Finish(of)
    } else {
        Goal::Undo(of)
    };
    let mut later = Scene { goal, ..scene };
    for (n, offset) in (0..).zip(left) {
        reading(&mut later.seen, n).committed = Ok(Some(commit(offset)));
    }
    later
}

fn lost() -> PartitionOutcome {
    Unknown {
        seen: "the request timed out".to_owned(),
    }
}

fn answered(scene: &mut Scene, answer: AlterAnswer) {
    scene.earlier().answers.insert(p(1), answer);
}

fn undone() -> (i32, Option<CommittedOffset>, Option<CommittedOffset>) {
    (0, Some(commit(31)), Some(commit(43)))
}

fn finished(partition: i32) -> (i32, Option<CommittedOffset>, Option<CommittedOffset>) {
    (partition, Some(commit(43)), Some(commit(31)))
}

fn no_undo(why: &str) -> Refusal {
    Refusal::NothingToUndo {
        plan: PlanId("plan-1".into()),
        why: why.to_owned(),
    }
}

fn no_finish(why: &str) -> Refusal {
    Refusal::NothingToFinish {
        plan: PlanId("plan-1".into()),
        why: why.to_owned(),
    }
}

const UNKNOWN: &str = "it is not known whether it moved shipments-1 (seen: 38); leave that partition out by naming \
                       topics, and use to_offsets for it";

#[test]
fn what_was_applied_is_undone_and_the_rest_is_left_alone_by_name() {
    check(vec![
        (
            "one applied, two not",
            partly(false, [Applied, NotApplied, NotApplied], [31, 43, 43]),
            Planned_(
                vec![undone()],
                vec![(1, NotAppliedThen), (2, NotAppliedThen)],
                vec![Warning::Skips { offsets: 12 }],
            ),
        ),
        (
            "what was not applied may be anywhere by now",
            partly(false, [Applied, NotApplied, NotApplied], [31, 50, 43]),
            Planned_(
                vec![undone()],
                vec![(1, NotAppliedThen), (2, NotAppliedThen)],
                vec![Warning::Skips { offsets: 12 }],
            ),
        ),
        (
            "what was applied has moved since",
            partly(false, [Applied, NotApplied, NotApplied], [35, 43, 43]),
            Refused(vec![no_undo(
                "it left shipments-0 at 31, which is at 35 now",
            )]),
        ),
        (
            "what was overwritten since is no different",
            partly(
                false,
                [Overwritten { now: Some(40) }, Applied, Applied],
                [40, 31, 31],
            ),
            Refused(vec![no_undo(
                "it left shipments-0 at 31, which is at 40 now",
            )]),
        ),
    ]);
}

#[test]
fn what_nobody_could_tell_is_judged_by_what_is_there_now_and_never_guessed() {
    check(vec![
        (
            "at the target: it was applied",
            partly(false, [NotApplied, lost(), NotApplied], [43, 31, 43]),
            Planned_(
                vec![(1, Some(commit(31)), Some(commit(43)))],
                vec![(0, NotAppliedThen), (2, NotAppliedThen)],
                vec![Warning::Skips { offsets: 12 }],
            ),
        ),
        (
            "where it was before: it was not applied",
            partly(false, [Applied, lost(), NotApplied], [31, 43, 43]),
            Planned_(
                vec![undone()],
                vec![(1, NotAppliedThen), (2, NotAppliedThen)],
                vec![Warning::Skips { offsets: 12 }],
            ),
        ),
        (
            "accepted, and somewhere else",
            partly(false, [Applied, lost(), NotApplied], [31, 20, 43])
                .changed(|s| answered(s, AlterAnswer::Accepted)),
            Refused(vec![no_undo(&UNKNOWN.replace("38", "20"))]),
        ),
        (
            "beyond the pre-image, and nobody heard the answer",
            partly(true, [Applied, lost(), NotApplied], [31, 60, 43]),
            Refused(vec![no_finish(&UNKNOWN.replace("38", "60"))]),
        ),
        (
            "left out by name, it is in nobody's way",
            partly(true, [Applied, lost(), NotApplied], [31, 60, 43])
                .changed(|s| s.selection = only("shipments", Some(vec![0, 2]))),
            Planned_(
                vec![finished(2)],
                vec![(0, AppliedThen), (1, NotSelected)],
                vec![],
            ),
        ),
    ]);
}

#[test]
fn what_was_not_applied_is_finished_from_exactly_where_it_was() {
    check(vec![
        (
            "the rest, to the targets of then",
            partly(true, [Applied, NotApplied, NotApplied], [31, 43, 43]),
            Planned_(
                vec![finished(1), finished(2)],
                vec![(0, AppliedThen)],
                vec![],
            ),
        ),
        (
            "wherever consumers have gone with what was applied",
            partly(true, [Applied, NotApplied, NotApplied], [40, 43, 43]),
            Planned_(
                vec![finished(1), finished(2)],
                vec![(0, AppliedThen)],
                vec![],
            ),
        ),
        (
            "a partition of the rest that has moved",
            partly(true, [Applied, NotApplied, NotApplied], [31, 44, 43])
                .changed(|s| reading(&mut s.seen, 1).log = Ok(log(0, 50))),
            Refused(vec![no_finish(
                "it left shipments-1 at 43, which is at 44 now",
            )]),
        ),
        (
            "nothing is left to do",
            partly(true, [Applied, Applied, Applied], [31, 31, 31]),
            Nothing(vec![(0, AppliedThen), (1, AppliedThen), (2, AppliedThen)]),
        ),
        (
            "retention has passed a target",
            partly(true, [Applied, Applied, NotApplied], [31, 31, 43])
                .changed(|s| reading(&mut s.seen, 2).log = Ok(log(35, 43))),
            Refused(vec![below(2, 31, 35)]),
        ),
        (
            "the topic was created again since",
            partly(true, [Applied, Applied, NotApplied], [31, 31, 43]).changed(|s| {
                s.seen.topics.insert("shipments".into(), topic(8, 3));
            }),
            Refused(vec![Refusal::TopicRecreated {
                topic: "shipments".into(),
                then: id(7).unwrap().to_string(),
                now: id(8).unwrap().to_string(),
            }]),
        ),
    ]);
}

/// A plan to the log start, or one that may be clamped, was approved with targets that rise. So the rest of it rises, too.
#[test]
fn where_targets_were_to_rise_with_the_log_start_those_of_the_rest_do() {
    let to_earliest = |finish| {
        let scene = to(Goal::Earliest, |s| {
            for n in 0..3 {
                reading(&mut s.seen, n).committed = Ok(Some(commit(43)));
            }
        });
        after_part(
            scene,
            finish,
            [Applied, NotApplied, NotApplied],
            [0, 43, 43],
        )
    };
    let rest = to_earliest(true).changed(|s| {
        s.allow.clamp = false;
        reading(&mut s.seen, 1).log = Ok(log(5, 43));
    });
    let start = |offset| Some(CommittedOffset::bare(offset));
    check(vec![(
        "retention has passed one of the targets",
        rest,
        Planned_(
            vec![
                (1, Some(commit(43)), start(5)),
                (2, Some(commit(43)), start(0)),
            ],
            vec![(0, AppliedThen)],
            vec![Warning::Lost { offsets: 5 }, may_rise(2, 38 + 43)],
        ),
    )]);
    let plan = to_earliest(true).ready();
    assert_eq!(plan.moves[0].may_rise_to, Some(43));
}

/// Some clients keep in the metadata which records beyond the offset are done: to take that back is a move.
#[test]
fn what_was_to_lose_its_metadata_alone_is_finished() {
    let scene = incident(|s| {
        for then in s.source().partitions.values_mut() {
            then.committed = Some(CommittedOffset::bare(31));
        }
        for n in 0..3 {
            reading(&mut s.seen, n).committed = Ok(Some(with_metadata(31, "done: 33")));
        }
    });
    let rest = after_part(scene, true, [Applied, NotApplied, NotApplied], [31; 3]);
    let plan = rest.changed(|s| {
        for n in 1..3 {
            reading(&mut s.seen, n).committed = Ok(Some(with_metadata(31, "done: 33")));
        }
    });
    let plan = plan.ready();
    let rest: Vec<_> = plan.moves.iter().map(|m| m.partition.partition).collect();
    assert_eq!(rest, [1, 2]);
    assert_eq!(plan.moves[0].to, Some(CommittedOffset::bare(31)));
}

#[test]
fn the_rest_of_a_plan_is_a_plan_of_its_own_that_names_the_first() {
    let plan = partly(true, [Applied, NotApplied, NotApplied], [31, 43, 43]).ready();
    assert_eq!(
        plan.source.to_string(),
        "checkpoint cp-0800 of 2026-11-30 08:00:00 UTC, where plan plan-1 did not move it"
    );
    // Epochs and metadata that were committed with the source's offsets come with them.
    assert_eq!(plan.moves[0].to, Some(commit(31)));
    assert_eq!(check_plan(&plan), Vec::<String>::new());
    // It undoes the same time as the first.
    let disowned = plan.disowns.map(|disowns| disowns.after);
    assert_eq!(disowned, Some(at("08:00:00")));
}
