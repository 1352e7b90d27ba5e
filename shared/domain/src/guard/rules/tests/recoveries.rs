//! What a recovery of Offset Guard itself does to its group while the guard looks.

use jiff::{SignedDuration, Timestamp};

use super::super::super::sample::{LiveRecovery, Stage};
use super::super::super::verdict::{Evidence, Status, Verdict};
use super::at_rest;
use crate::ids::PlanId;
use crate::recovery::Recovery;
use crate::testing::guard::History;
use crate::testing::{Scene, claim, p};

fn live(since: Timestamp, stage: Stage, targets: &[(i32, i64)]) -> LiveRecovery {
    LiveRecovery {
        plan: PlanId("01KBPLAN".to_owned()),
        since,
        stage,
        targets: targets.iter().map(|(n, to)| (p(*n), *to)).collect(),
    }
}

fn says(history: &History, partition: i32) -> (Verdict, Status, Option<String>) {
    let finding = history.finding(partition);
    let named = finding
        .evidence
        .iter()
        .find(|e| matches!(e, Evidence::Recovery { .. }));
    (
        finding.verdict,
        finding.status,
        named.map(ToString::to_string),
    )
}

/// Between Apply and Report the commit is back, and nothing else says who moved it.
#[test]
fn what_is_being_applied_is_named_and_no_alarm() {
    let mut history = at_rest(3, &[]);
    let since = history.now();
    history.empty().committed(0, 150).committed(1, 150);
    history.recovery = Some(live(since, Stage::Applies, &[(0, 150)]));
    history.run();
    let (verdict, status, named) = says(&history, 0);
    assert_eq!((verdict, status), (Verdict::Rewound, Status::Healthy));
    assert!(
        named
            .unwrap()
            .starts_with("recovery 01KBPLAN is being applied")
    );
    // Partition 1 is none of its business.
    assert_eq!(says(&history, 1), (Verdict::Rewound, Status::Warning, None));
    // Consumers that have started again are further on than its target, and never before it.
    let mut on = history.clone();
    on.samples.pop();
    on.committed(0, 160).run();
    assert_eq!(says(&on, 0).1, Status::Healthy);
    on.samples.pop();
    on.committed(0, 149).run();
    assert_eq!(says(&on, 0), (Verdict::Rewound, Status::Warning, None));
}

#[test]
fn a_plan_that_nobody_approved_and_a_claim_that_is_gone_explain_nothing() {
    let mut history = at_rest(3, &[]);
    let since = history.now();
    history.empty().committed(0, 150);
    for recovery in [None, Some(Stage::AwaitsApproval), Some(Stage::Approved)] {
        let mut history = history.clone();
        history.recovery = recovery.map(|stage| live(since, stage, &[(0, 150)]));
        history.run();
        assert_eq!(says(&history, 0), (Verdict::Rewound, Status::Warning, None));
    }
}

/// Its consumers are stopped for it.
#[test]
fn nobody_in_a_group_whose_recovery_is_approved_is_no_alarm() {
    let mut history = at_rest(3, &[]);
    let since = history.now();
    history.empty();
    for (stage, alarms) in [
        (None, true),
        (Some(Stage::AwaitsApproval), true),
        (Some(Stage::Approved), false),
        (Some(Stage::Applies), false),
    ] {
        let mut history = history.clone();
        history.recovery = stage.map(|stage| live(since, stage, &[]));
        history.run();
        let (verdict, status, named) = says(&history, 0);
        assert_eq!(verdict, Verdict::NoMembers);
        assert_eq!(status != Status::Healthy, alarms, "{stage:?}");
        assert_eq!(named.is_none(), alarms, "{stage:?}");
        assert_eq!(history.judged().0.status != Status::Healthy, alarms);
        // After its report, everything is as it was.
        history.recovery = None;
        history.run();
        assert_eq!(
            says(&history, 0),
            (Verdict::NoMembers, Status::Critical, None)
        );
    }
}

/// A skip moves a commit on while nobody is in the group. That is no sign of offsets that are kept elsewhere, neither at
/// once nor after the recovery's end is noted.
#[test]
fn what_it_moves_on_did_not_jump() {
    let mut history = History::of(2);
    history.empty().run();
    let since = history.now();
    history.recovery = Some(live(since, Stage::Applies, &[(0, 101)]));
    history.committed(0, 101).look();
    assert_ne!(history.verdict(0), Verdict::ExternalOffsets);
    assert_ne!(history.verdict(1), Verdict::ExternalOffsets);
    history.recovery = None;
    history.moved_at = Some(history.now());
    history.run();
    assert_ne!(history.verdict(1), Verdict::ExternalOffsets);
}

/// What the table says of a recovery, and what that explains.
#[test]
fn a_claim_says_how_far_its_recovery_is_and_nothing_once_it_is_over() {
    let plan = Scene::incident().ready();
    let claim = claim(&plan);
    let at = claim.expires_at - SignedDuration::from_secs(1);
    let open = Recovery::open(&plan, &claim.execution, at);
    let stage =
        |recovery: &Recovery, now| LiveRecovery::from_claim(&claim, recovery, now).map(|l| l.stage);
    assert_eq!(stage(&open, at), Some(Stage::AwaitsApproval));
    assert_eq!(stage(&open, claim.expires_at), None, "it has run out");
    let approved = Recovery {
        apply_by: Some(at),
        ..open.clone()
    };
    assert_eq!(stage(&approved, at), Some(Stage::Approved));
    let applies = Recovery {
        apply_until: Some(at),
        ..approved
    };
    assert_eq!(stage(&applies, at), Some(Stage::Applies));
    let over = [
        Recovery {
            closed_at: Some(at),
            ..applies.clone()
        },
        Recovery {
            superseded_by: Some(PlanId("01KBOTHER".to_owned())),
            ..applies.clone()
        },
        Recovery {
            execution: "another".into(),
            ..applies.clone()
        },
        Recovery {
            plan: PlanId("01KBOTHER".to_owned()),
            ..applies.clone()
        },
    ];
    for recovery in over {
        assert_eq!(stage(&recovery, at), None);
    }
    let of = LiveRecovery::from_claim(&claim, &applies, at).unwrap();
    let of = of.with_targets(&plan);
    let moved = &plan.moves[0];
    let to = moved.to.as_ref().unwrap().offset;
    let explains = |offset| of.explains(&moved.partition, offset);
    assert!(explains(to) && explains(to + 9) && !explains(to - 1));
    assert!(!of.explains(&p(99), to));
}
