//! Whom a plan waits for, and who writes the group's offsets.

use super::*;
use crate::guard::sample::Sample;
use crate::plan::check_plan;

/// A look of the guard at the incident's group, with these members and this commit in partition 1.
fn look(run: &str, time: &str, members: &[&str], committed: i64) -> Sample {
    let mut seen = seen(&[31, committed, 31], &[43, 43, 43]);
    seen.ended_at = at(time);
    if !members.is_empty() {
        describe(&mut seen).state = GroupState::Stable;
    }
    describe(&mut seen).members = members.iter().map(|name| member(name)).collect();
    Sample::of(at(run), &seen, &BTreeSet::new(), &[], None).unwrap()
}

fn stay_stopped(names: &[&str]) -> Warning {
    Warning::MustStayStopped {
        members: names.iter().map(|name| member_seen(name)).collect(),
        drift_limit: 100,
    }
}

#[test]
fn a_plan_waits_as_the_policy_says_whatever_one_reading_shows() {
    // A group that crash-loops: Empty in the reading, and with members in one look of three.
    let crash_looping = |names: &[&str]| {
        incident(|s| {
            waits(s);
            s.looks = vec![
                look("09:20:00", "09:20:00", names, 43),
                look("09:25:00", "09:25:00", &[], 43),
                look("09:29:00", "09:29:00", &[], 43),
            ];
        })
        .ready()
    };
    let plan = crash_looping(&["worker-b", "worker-a"]);
    assert!(plan.waits_for_empty);
    assert_eq!(plan.drift_limit, 100);
    assert_eq!(plan.warnings, [stay_stopped(&["worker-a", "worker-b"])]);
    assert_eq!(plan.members_to_stop().len(), 2);
    assert_eq!(check_plan(&plan), Vec::<String>::new());
    // Where nobody was seen there is nobody to name.
    let plan = crash_looping(&[]);
    assert!(plan.waits_for_empty);
    assert_eq!(plan.warnings, []);
    // A member of long ago says nothing of now.
    let plan = incident(|s| {
        waits(s);
        s.looks = vec![look("07:00:00", "07:00:00", &["worker-a"], 43)];
    });
    assert_eq!(plan.ready().warnings, []);
}

#[test]
fn of_members_that_start_again_the_last_is_named() {
    let mut first = look("09:20:00", "09:20:00", &["worker-a"], 43);
    first.members[0].member_id = "an-older-id".to_owned();
    let plan = incident(|s| {
        waits(s);
        s.looks = vec![first, look("09:25:00", "09:25:00", &["worker-a"], 43)];
    });
    assert_eq!(plan.ready().warnings, [stay_stopped(&["worker-a"])]);
}

#[test]
fn a_dry_run_may_be_made_of_an_active_group() {
    let dry = incident(|s| {
        live(s);
        s.dry_run = true;
    });
    let members = vec![member_seen("worker-a"), member_seen("worker-b")];
    let plan = dry.ready();
    let warning = Warning::ActiveNow {
        state: "Stable".to_owned(),
        members: members.clone(),
    };
    assert_eq!(plan.warnings, [warning]);
    assert!(!plan.waits_for_empty);
    assert_eq!(plan.members_to_stop(), members);
    assert_eq!(check_plan(&plan), Vec::<String>::new());
    // Live, it is refused; and where the policy waits, it says that it would.
    let live_one = incident(live).refused();
    assert_eq!(live_one[0].code(), "GROUP_ACTIVE");
    let waiting = incident(|s| {
        live(s);
        waits(s);
        s.dry_run = true;
    });
    assert_eq!(waiting.ready().warnings, [must_be_stopped()]);
    // What proves nothing proves nothing in a dry run either.
    let unproven = incident(|s| {
        describe(&mut s.seen).state = GroupState::Unknown;
        s.dry_run = true;
    });
    assert_eq!(unproven.refused()[0].code(), "GROUP_STATE_UNPROVEN");
}

#[test]
fn a_plan_says_that_something_else_than_members_writes_the_offsets() {
    let says = |scene: Scene| -> Vec<String> {
        let warnings = scene.ready().warnings;
        let outside = warnings.iter().filter_map(|warning| match warning {
            Warning::WrittenFromOutside { why } => Some(why.clone()),
            _ => None,
        });
        outside.collect()
    };
    let configured = incident(|s| s.policy.guard.external_offsets = true);
    assert_eq!(says(configured), ["so configured: external_offsets"]);
    // The commit moves within one run of looks that all find nobody.
    let moves = |members: &'static [&'static str]| {
        incident(move |s| {
            s.looks = vec![
                look("09:29:00", "09:29:00", members, 33),
                look("09:29:00", "09:29:03", &[], 38),
                look("09:29:00", "09:29:06", &[], 43),
            ];
        })
    };
    let why = says(moves(&[]));
    assert!(why.len() == 1 && why[0].contains("shipments-1"), "{why:?}");
    assert_eq!(says(moves(&["worker-a"])), Vec::<String>::new());
    assert_eq!(says(Scene::incident()), Vec::<String>::new());
}

#[test]
fn nothing_is_said_of_a_log_that_the_group_does_not_read() {
    // Named in the request, read all the same, and never committed: neither end of its log is told.
    let never = |offset| {
        to(Goal::offsets(&[(1, offset)]), |s| {
            commit_nothing(&mut s.seen);
        })
        .refused()
    };
    for offset in [1_000, 0] {
        assert_eq!(
            never(offset),
            [
                Refusal::NoCommittedOffsets { group: group() },
                Refusal::PartitionUnknown { partition: p(1) }
            ]
        );
    }
}
