use std::collections::BTreeSet;

use super::*;
use crate::group::{GroupState, PartitionReading};
use crate::identity::{Identity, Requester};
use crate::offset::ClusterId;
use crate::offset::Fault;
use crate::plan::{LeftAlone, Warning};
use crate::testing::*;

impl Apply {
    /// What would be sent.
    fn sends(&self) -> Vec<Change> {
        changes(&self.authorize().unwrap())
    }
}

fn changes(approved: &ApprovedPlan) -> Vec<Change> {
    let requests = approved.requests(usize::MAX, |_, _, _| 1);
    assert!(requests.iter().all(|r| r.group().0 == "shipment-sync"));
    requests.into_iter().map(|request| request.change).collect()
}

fn incident(change: impl FnOnce(&mut Apply)) -> Apply {
    Apply::of(&Scene::incident()).changed(change)
}

/// Two partitions to move: 0 from 40 and 1 from 43, both to 31.
fn two(change: impl FnOnce(&mut Apply)) -> Apply {
    let scene =
        Scene::incident().changed(|s| reading(&mut s.seen, 0).committed = Ok(Some(commit(40))));
    Apply::of(&scene).changed(change)
}

/// A plan whose group had yet to be stopped, and that lets commits go forward by 10 until then.
fn drifting(change: impl FnOnce(&mut Apply)) -> Apply {
    let scene = Scene::incident().changed(|s| {
        describe(&mut s.seen).state = GroupState::Stable;
        describe(&mut s.seen).members = vec![member("worker-a")];
        s.policy.wait_for_empty_seconds = Some(600);
        s.policy.drift_limit = 10;
    });
    let stopped = |apply: &mut Apply| {
        describe(&mut apply.seen).state = GroupState::Empty;
        describe(&mut apply.seen).members = Vec::new();
        for n in 0..3 {
            reading(&mut apply.seen, n).log = Ok(log(0, 1_000));
        }
    };
    Apply::of(&scene).changed(stopped).changed(change)
}

/// A plan that brings the whole group back from nothing.
fn bringing_back(change: impl FnOnce(&mut Apply)) -> Apply {
    let scene = Scene::incident().changed(|s| {
        s.allow.restore_missing = true;
        make_dead(&mut s.seen);
        commit_nothing(&mut s.seen);
    });
    Apply::of(&scene).changed(change)
}

fn now_at(partition: i32, now: CommittedOffset) -> impl FnOnce(&mut Apply) {
    move |apply| reading(&mut apply.seen, partition).committed = Ok(Some(now))
}

fn not_approved(found: &str) -> Refusal {
    Refusal::NotApproved {
        found: found.to_owned(),
    }
}

fn stale(changed: Stale) -> Refusal {
    Refusal::PlanStale { changed }
}

fn moved(partition: i32, planned: Option<i64>, seen: Option<i64>, limit: u64) -> Refusal {
    stale(Stale::CommittedOffset {
        partition: p(partition),
        planned,
        seen,
        limit,
    })
}

fn lost(holder: &str) -> Refusal {
    Refusal::ClaimLost {
        holder: holder.to_owned(),
    }
}

#[test]
fn an_approved_plan_is_sent_as_it_is() {
    let approved = incident(|_| {}).authorize().unwrap();
    assert_eq!(
        changes(&approved),
        vec![Change::Commit(vec![(p(1), commit(31))])]
    );
    assert_eq!(
        approved.pre_image().before,
        [(p(1), Some(commit(43)))].into()
    );
}

#[test]
fn every_check_alone() {
    let cases: Vec<(&str, Apply, Vec<Refusal>)> = vec![
        (
            "no approval",
            incident(|a| a.approval = None),
            vec![not_approved("there is no approval")],
        ),
        (
            "not decided",
            incident(|a| {
                a.approval().status = ApprovalStatus::Pending;
                a.approval().decision = None;
            }),
            vec![not_approved("nobody has decided yet")],
        ),
        (
            "not decided in time, and nobody wrote that down",
            incident(|a| {
                a.approval().status = ApprovalStatus::Pending;
                a.approval().decision = None;
                a.now = at("10:29:01");
            }),
            vec![Refusal::ApprovalExpired {
                approve_by: at("10:29:01"),
            }],
        ),
        (
            "expired",
            incident(|a| {
                a.approval().status = ApprovalStatus::Expired;
                a.approval().decision = None;
            }),
            vec![Refusal::ApprovalExpired {
                approve_by: at("10:29:01"),
            }],
        ),
        (
            "superseded",
            incident(|a| {
                a.approval().status = ApprovalStatus::Superseded;
                a.approval().decision = None;
            }),
            vec![not_approved("the approval was superseded")],
        ),
        (
            "rejected",
            incident(|a| {
                a.approval().status = ApprovalStatus::Rejected;
                a.approval().decision = Some(Decision::Reject);
                a.approval().reason = Some("not today".into());
            }),
            vec![Refusal::Rejected {
                by: "bo".into(),
                reason: "not today".into(),
            }],
        ),
        (
            "rejected, and the status says approved since",
            incident(|a| a.approval().decision = Some(Decision::Reject)),
            vec![Refusal::Rejected {
                by: "bo".into(),
                reason: String::new(),
            }],
        ),
        (
            "rejected, and the status says pending since",
            incident(|a| {
                a.approval().status = ApprovalStatus::Pending;
                a.approval().decision = Some(Decision::Reject);
            }),
            vec![Refusal::Rejected {
                by: "bo".into(),
                reason: String::new(),
            }],
        ),
        (
            "approved by the status alone",
            incident(|a| a.approval().decision = None),
            vec![not_approved(
                "its status was set, and the page stored no decision: it is of an earlier release, or somebody else \
                 wrote to the table",
            )],
        ),
        (
            "approved, and superseded since",
            incident(|a| a.approval().status = ApprovalStatus::Superseded),
            vec![not_approved(
                "the page stored an approval, and the status is SUPERSEDED since",
            )],
        ),
        (
            "approved at no time",
            incident(|a| a.approval().decided_at = None),
            vec![not_approved("the time of the decision is missing")],
        ),
        (
            "the approval of another execution",
            incident(|a| a.approval().execution = "execution-2".into()),
            vec![not_approved(
                "the approval belongs to execution execution-2",
            )],
        ),
        (
            "the approval of another plan",
            incident(|a| a.approval().plan = PlanId("plan-2".into())),
            vec![not_approved(
                "the approval belongs to execution execution-1",
            )],
        ),
        (
            "the last moment to apply",
            incident(|a| a.now = at("10:15:00")),
            vec![Refusal::ApplyTimeOver {
                apply_by: at("10:15:00"),
            }],
        ),
        (
            "another plan than was approved",
            incident(|a| {
                let other = PlanDigest("0".repeat(64));
                a.approval().digest = other;
            }),
            vec![Refusal::PlanDigestMismatch {
                approved: "0".repeat(64),
                stored: incident(|_| {}).plan.digest().0,
            }],
        ),
        (
            "a plan that contradicts itself, approved as such",
            incident(|a| {
                a.plan.moves[0].to = Some(commit(44));
                a.plan.moves[0].log.high = 43;
                reading(&mut a.seen, 1).log = Ok(log(0, 100));
                a.approval = Some(approval(&a.plan));
            }),
            vec![Refusal::InvalidRequest {
                field: "plan".into(),
                problem: "shipments-1 has its target 44 outside its log, 0 to 43".into(),
            }],
        ),
        (
            "switched off",
            incident(|a| a.enabled = false),
            vec![Refusal::ApplySwitchedOff],
        ),
        (
            "Verify has begun",
            incident(|a| a.recovery.fence = 1),
            vec![Refusal::Fenced],
        ),
        (
            "the recovery is closed",
            incident(|a| a.recovery.closed_at = Some(at("09:44:00"))),
            vec![Refusal::Fenced],
        ),
        (
            "nobody holds the group",
            incident(|a| a.claim = None),
            vec![lost("nobody")],
        ),
        (
            "the claim has ended",
            incident(|a| {
                let claim = a.claim.as_mut().unwrap();
                claim.expires_at = at("09:45:00");
            }),
            vec![lost("nobody since 2026-11-30 09:45:00 UTC")],
        ),
        (
            "another execution holds the group",
            incident(|a| a.claim.as_mut().unwrap().execution = "execution-2".into()),
            vec![lost("execution-2 with plan plan-1")],
        ),
        (
            "this execution holds the group with another plan",
            incident(|a| a.claim.as_mut().unwrap().plan = PlanId("plan-2".into())),
            vec![lost("execution-1 with plan plan-2")],
        ),
        (
            "the recovery is another execution's",
            incident(|a| a.recovery.execution = "execution-2".into()),
            vec![lost("execution-2 with plan plan-1")],
        ),
        (
            "the recovery is of another plan",
            incident(|a| a.recovery.plan = PlanId("plan-2".into())),
            vec![lost("execution-1 with plan plan-2")],
        ),
        (
            "another group answered",
            incident(|a| a.seen.group = GroupId("another".into())),
            vec![Refusal::EvidenceIncomplete {
                at: String::new(),
                fault: Fault::another_group(),
            }],
        ),
        (
            "another cluster answered",
            incident(|a| a.seen.cluster_id = ClusterId("cluster-b".into())),
            vec![Refusal::ClusterMismatch {
                required: "cluster-a".into(),
                seen: "cluster-b".into(),
            }],
        ),
        (
            "the configuration changed",
            incident(|a| a.config_hash = "config-2".into()),
            vec![stale(Stale::Configuration)],
        ),
        (
            "a member came back",
            incident(|a| {
                describe(&mut a.seen).state = GroupState::Stable;
                describe(&mut a.seen).members = vec![member("worker-a")];
            }),
            vec![Refusal::GroupActive {
                state: "Stable".into(),
                members: vec![member_seen("worker-a")],
            }],
        ),
        (
            "a state that proves nothing",
            incident(|a| make_dead(&mut a.seen)),
            vec![Refusal::GroupStateUnproven {
                seen: "Dead".into(),
            }],
        ),
        (
            "the group could not be described",
            incident(|a| a.seen.description = Err(Fault::NoLeader)),
            vec![Refusal::GroupStateUnproven {
                seen: "the partition has no leader".into(),
            }],
        ),
        (
            "the topic was created again",
            incident(|a| {
                a.seen.topics.insert("shipments".into(), topic(8, 3));
            }),
            vec![stale(Stale::Topic {
                topic: "shipments".into(),
            })],
        ),
        (
            "the topic's id is unknown now",
            incident(|a| {
                a.seen.topics.insert("shipments".into(), topic(0, 3));
            }),
            vec![stale(Stale::Topic {
                topic: "shipments".into(),
            })],
        ),
        (
            "the topic is gone",
            incident(|a| {
                a.seen.topics.clear();
            }),
            vec![stale(Stale::Topic {
                topic: "shipments".into(),
            })],
        ),
        (
            "retention has passed the target",
            incident(|a| reading(&mut a.seen, 1).log = Ok(log(32, 43))),
            vec![stale(Stale::Target {
                partition: p(1),
                target: 31,
                log_start: 32,
                high: 43,
            })],
        ),
        (
            "the log ends before the target",
            incident(|a| reading(&mut a.seen, 1).log = Ok(log(0, 30))),
            vec![stale(Stale::Target {
                partition: p(1),
                target: 31,
                log_start: 0,
                high: 30,
            })],
        ),
        (
            "pending transactional commits",
            incident(|a| reading(&mut a.seen, 1).committed = Err(Fault::Unstable)),
            vec![Refusal::UnstableOffsets { partition: p(1) }],
        ),
        (
            "the log could not be read",
            incident(|a| reading(&mut a.seen, 1).log = Err(Fault::NoLeader)),
            vec![Refusal::EvidenceIncomplete {
                at: "shipments-1".into(),
                fault: Fault::NoLeader,
            }],
        ),
        (
            "the reading left the partition out",
            incident(|a| {
                a.seen.partitions.remove(&p(1));
            }),
            vec![Refusal::EvidenceIncomplete {
                at: "shipments-1".into(),
                fault: Fault::missing(),
            }],
        ),
        (
            "the group went on by one",
            incident(now_at(1, commit(44))),
            vec![moved(1, Some(43), Some(44), 0)],
        ),
        (
            "the group went back",
            incident(now_at(1, commit(42))),
            vec![moved(1, Some(43), Some(42), 0)],
        ),
        (
            "somebody else has moved it to the target",
            incident(now_at(1, commit(31))),
            vec![moved(1, Some(43), Some(31), 0)],
        ),
        (
            "the same offset was committed again, with metadata: somebody was there",
            incident(now_at(1, with_metadata(43, "new"))),
            vec![moved(1, Some(43), Some(43), 0)],
        ),
        (
            "the commit is gone",
            incident(|a| reading(&mut a.seen, 1).committed = Ok(None)),
            vec![moved(1, Some(43), None, 0)],
        ),
    ];
    for (n, (what, apply, refusals)) in cases.into_iter().enumerate() {
        assert_eq!(apply.refused(), refusals, "case {}: {what}", n + 1);
    }
}

#[test]
fn all_checks_together_in_a_stable_order() {
    let refused = two(|a| {
        a.approval().status = ApprovalStatus::Expired;
        a.approval().decision = None;
        a.enabled = false;
        a.recovery.fence = 2;
        a.claim = None;
        a.seen.cluster_id = ClusterId("cluster-b".into());
        a.config_hash = "config-2".into();
        describe(&mut a.seen).members = vec![member("worker-a")];
        a.seen.topics.insert("shipments".into(), topic(8, 3));
        reading(&mut a.seen, 0).log = Ok(log(32, 43));
        reading(&mut a.seen, 1).committed = Ok(Some(commit(50)));
    })
    .refused();
    let codes: Vec<_> = refused.iter().map(Refusal::code).collect();
    assert_eq!(
        codes,
        [
            "APPROVAL_EXPIRED",
            "APPLY_SWITCHED_OFF",
            "FENCED",
            "CLAIM_LOST",
            "CLUSTER_MISMATCH",
            "PLAN_STALE",
            "GROUP_ACTIVE",
            "PLAN_STALE",
            "PLAN_STALE",
            "PLAN_STALE",
        ]
    );
    assert_eq!(
        refused[8..],
        [
            stale(Stale::Target {
                partition: p(0),
                target: 31,
                log_start: 32,
                high: 43,
            }),
            moved(1, Some(43), Some(50), 0),
        ]
    );
}

#[test]
fn the_log_may_grow_and_the_plan_may_wait_until_the_last_moment() {
    let approved = incident(|a| {
        a.now = at("10:14:59");
        reading(&mut a.seen, 1).log = Ok(log(31, 9_000));
        a.seen.partitions.insert(
            p(3),
            PartitionReading {
                committed: Err(Fault::NoLeader),
                log: Err(Fault::NoLeader),
            },
        );
    });
    assert_eq!(approved.sends().len(), 1);
}

#[test]
fn how_far_a_group_may_go_on_until_it_is_stopped() {
    let sends = vec![Change::Commit(vec![(p(1), commit(31))])];
    let cases = [
        ("nowhere", commit(43), true),
        ("to the limit", commit(53), true),
        ("beyond the limit", commit(54), false),
        ("back", commit(42), false),
        (
            "nowhere, with the last commit of a consumer that closes",
            with_metadata(43, "closing"),
            true,
        ),
    ];
    for (what, now, allowed) in cases {
        let apply = drifting(now_at(1, now.clone()));
        if allowed {
            let approved = apply.authorize().unwrap();
            assert_eq!(changes(&approved), sends, "{what}");
            // What is remembered is what was there, not what was planned.
            assert_eq!(
                approved.pre_image().before,
                [(p(1), Some(now))].into(),
                "{what}"
            );
        } else {
            let limit = moved(1, Some(43), Some(now.offset), 10);
            assert_eq!(apply.refused(), vec![limit], "{what}");
        }
    }
    let gone = drifting(|a| reading(&mut a.seen, 1).committed = Ok(None));
    assert_eq!(gone.refused(), vec![moved(1, Some(43), None, 10)]);
}

#[test]
fn a_plan_that_skips_does_not_bring_back_a_group_that_has_passed_its_target() {
    let skipping = |now: i64| {
        let scene = Scene::from(Goal::offsets(&[(1, 50)])).changed(|s| {
            s.allow.forward = true;
            describe(&mut s.seen).members = vec![member("worker-a")];
            s.policy.wait_for_empty_seconds = Some(600);
            reading(&mut s.seen, 1).log = Ok(log(0, 100));
        });
        Apply::of(&scene).changed(|a| {
            describe(&mut a.seen).members = Vec::new();
            reading(&mut a.seen, 1).committed = Ok(Some(commit(now)));
        })
    };
    assert_eq!(skipping(43).sends().len(), 1);
    assert_eq!(skipping(50).sends().len(), 1);
    assert_eq!(
        skipping(51).refused(),
        vec![moved(1, Some(43), Some(51), 10_000)]
    );
}

#[test]
fn a_retry_is_judged_by_the_pre_image() {
    let before = || PreImage::of([(p(0), Some(commit(40))), (p(1), Some(commit(43)))].into());
    let retried = |change: fn(&mut Apply)| two(|a| a.pre_image = Some(before())).changed(change);
    let send = |partitions: &[i32]| -> Vec<Change> {
        vec![Change::Commit(
            partitions.iter().map(|n| (p(*n), commit(31))).collect(),
        )]
    };
    assert_eq!(retried(|_| {}).sends(), send(&[0, 1]), "nothing was sent");
    let half = retried(|a| reading(&mut a.seen, 0).committed = Ok(Some(commit(31))));
    assert_eq!(half.sends(), send(&[1]), "half moved: the rest");
    assert_eq!(
        half.authorize().unwrap().pre_image(),
        &before(),
        "the first try's pre-image stands"
    );
    let all = retried(|a| {
        for n in [0, 1] {
            reading(&mut a.seen, n).committed = Ok(Some(commit(31)));
        }
    });
    assert_eq!(all.sends(), vec![], "all moved: nothing to send");
    let gone_on = retried(|a| {
        reading(&mut a.seen, 0).committed = Ok(Some(commit(31)));
        reading(&mut a.seen, 1).committed = Ok(Some(commit(35)));
    });
    assert_eq!(
        gone_on.refused(),
        vec![moved(1, Some(43), Some(35), 0)],
        "one is somewhere else: nothing more is sent"
    );
    let same_offset = retried(|a| {
        reading(&mut a.seen, 1).committed = Ok(Some(with_metadata(43, "new")));
    });
    assert_eq!(same_offset.refused(), vec![moved(1, Some(43), Some(43), 0)]);
    let damaged = retried(|a| {
        a.pre_image.as_mut().unwrap().before.remove(&p(1));
    });
    assert_eq!(damaged.refused(), vec![moved(1, Some(43), Some(43), 0)]);
}

/// The drift of a first try is in its pre-image; a second one has no drift of its own.
#[test]
fn a_retry_allows_no_drift_beyond_the_pre_image() {
    let drifted = |now: i64| {
        drifting(|a| {
            a.pre_image = Some(PreImage::of([(p(1), Some(commit(50)))].into()));
            reading(&mut a.seen, 1).committed = Ok(Some(commit(now)));
        })
    };
    assert_eq!(drifted(50).sends().len(), 1);
    assert_eq!(
        drifted(51).refused(),
        vec![moved(1, Some(43), Some(51), 10)]
    );
    assert_eq!(
        drifted(43).refused(),
        vec![moved(1, Some(43), Some(43), 10)]
    );
}

#[test]
fn bringing_a_group_back() {
    assert!(
        bringing_back(|_| {})
            .plan
            .warnings
            .contains(&Warning::CreatesGroup)
    );
    let all = vec![Change::Commit((0..3).map(|n| (p(n), commit(31))).collect())];
    assert_eq!(bringing_back(|_| {}).sends(), all, "still absent");

    // It was created, by hand or by a consumer that left again, and has no commit yet.
    let created = bringing_back(|a| describe(&mut a.seen).state = GroupState::Empty);
    assert_eq!(created.sends(), all);

    let committed = bringing_back(|a| {
        describe(&mut a.seen).state = GroupState::Empty;
        reading(&mut a.seen, 1).committed = Ok(Some(commit(5)));
    });
    assert_eq!(committed.refused(), vec![moved(1, None, Some(5), 0)]);

    let dead = || Refusal::GroupStateUnproven {
        seen: "Dead".into(),
    };
    let alive_after_all = bringing_back(|a| {
        reading(&mut a.seen, 1).committed = Ok(Some(commit(5)));
    });
    assert_eq!(
        alive_after_all.refused(),
        vec![dead(), moved(1, None, Some(5), 0)]
    );

    let unread = bringing_back(|a| reading(&mut a.seen, 1).committed = Err(Fault::NoLeader));
    assert_eq!(
        unread.refused(),
        vec![
            dead(),
            Refusal::EvidenceIncomplete {
                at: "shipments-1".into(),
                fault: Fault::NoLeader,
            }
        ],
        "absence is not proven by a reading that failed"
    );

    let not_described = bringing_back(|a| a.seen.description = Err(Fault::NotAuthorised));
    assert_eq!(
        not_described.refused(),
        vec![Refusal::GroupStateUnproven {
            seen: "not authorised to read it".into(),
        }]
    );

    // A retry after the first request went through: the group is there now.
    let half = bringing_back(|a| {
        describe(&mut a.seen).state = GroupState::Empty;
        reading(&mut a.seen, 0).committed = Ok(Some(commit(31)));
        a.pre_image = Some(PreImage::of((0..3).map(|n| (p(n), None)).collect()));
    });
    assert_eq!(
        half.sends(),
        vec![Change::Commit(vec![(p(1), commit(31)), (p(2), commit(31))])]
    );
}

#[test]
fn only_a_group_that_is_to_be_brought_back_rests_when_it_is_gone() {
    let back = bringing_back(|_| {});
    assert!(back.plan.finds_at_rest(&back.seen));
    let joined = bringing_back(|apply| {
        let description = describe(&mut apply.seen);
        description.state = GroupState::Stable;
        description.members = vec![member("c-1")];
    });
    assert!(!joined.plan.finds_at_rest(&joined.seen));
    let here = incident(|_| {});
    assert!(here.plan.finds_at_rest(&here.seen));
    let gone = incident(|apply| make_dead(&mut apply.seen));
    assert!(!gone.plan.finds_at_rest(&gone.seen));
}

#[test]
fn requests_are_as_few_as_fit_and_removals_go_last() {
    let scene = Scene::incident().changed(|s| {
        s.allow.restore_missing = true;
        commit_nothing(&mut s.seen);
    });
    let mut apply = Apply::of(&scene);
    let approved = apply.authorize().unwrap();
    let partitions = |limit: usize| -> Vec<Vec<i32>> {
        approved
            .requests(limit, |_, _, _| 10)
            .iter()
            .map(|request| match request.change() {
                Change::Commit(commits) => commits.iter().map(|(p, _)| p.partition).collect(),
                Change::Remove(_) => panic!("nothing is removed"),
            })
            .collect()
    };
    assert_eq!(partitions(30), [[0, 1, 2]]);
    assert_eq!(partitions(29), [vec![0, 1], vec![2]]);
    assert_eq!(partitions(10), [[0], [1], [2]]);
    // One commit that is over the limit by itself still goes out: the broker has the last word on it.
    assert_eq!(partitions(1), [[0], [1], [2]]);

    // The undo of the incident beside a commit that there was none of before.
    apply = two(|_| {});
    let undone = Scene {
        goal: Goal::undo(
            apply.plan.clone(),
            PreImage::of([(p(0), None), (p(1), Some(commit(43)))].into()),
        ),
        ..Scene::incident()
    }
    .changed(|s| {
        reading(&mut s.seen, 0).committed = Ok(Some(commit(31)));
        reading(&mut s.seen, 1).committed = Ok(Some(commit(31)));
    });
    assert_eq!(
        Apply::of(&undone).sends(),
        vec![
            Change::Commit(vec![(p(1), commit(43))]),
            Change::Remove(vec![p(0)]),
        ]
    );
}

/// A policy without four eyes, and nobody on record.
const NOBODY: People<'_> = People {
    four_eyes: false,
    noted: None,
};

#[test]
fn the_time_to_apply_starts_at_the_decision() {
    let plan = Scene::incident().ready();
    let mut given = approval(&plan);
    assert_eq!(given.apply_by(&plan), Some(at("10:15:00")));
    assert_eq!(
        given.admits(&plan, NOBODY, &EXECUTION.into(), at("10:14:59")),
        Ok(at("10:15:00"))
    );
    for status in [
        ApprovalStatus::Pending,
        ApprovalStatus::Rejected,
        ApprovalStatus::Expired,
        ApprovalStatus::Superseded,
    ] {
        given.status = status;
        assert_eq!(given.apply_by(&plan), None, "{status:?}");
        assert!(
            given
                .admits(&plan, NOBODY, &EXECUTION.into(), at("09:45:00"))
                .is_err()
        );
    }
}

#[test]
fn an_approval_is_open_until_its_time_and_then_closed_for_good() {
    let plan = Scene::incident().ready();
    let mut asked = approval(&plan);
    asked.status = ApprovalStatus::Pending;
    asked.decision = None;
    assert_eq!(asked.standing(at("10:29:00")), Standing::Open);
    assert_eq!(
        asked.standing(at("10:29:01")),
        Standing::Closed(ApprovalStatus::Expired)
    );
    asked.decision = Some(Decision::Reject);
    assert_eq!(
        asked.standing(at("09:45:00")),
        Standing::Closed(ApprovalStatus::Rejected)
    );
}

/// 500 partitions to the log start, which is 7 everywhere while planning.
fn to_the_log_start(change: impl FnOnce(&mut Apply)) -> Apply {
    let scene = Scene::from(Goal::Earliest).changed(|s| {
        let mut reading = s.seen.partitions[&p(0)].clone();
        reading.log = Ok(log(7, 43));
        s.seen.partitions = (0..500).map(|n| (p(n), reading.clone())).collect();
        s.seen.topics.insert("shipments".into(), topic(7, 500));
    });
    Apply::of(&scene).changed(change)
}

#[test]
fn a_log_start_that_rose_since_is_the_target_and_holds_up_no_other() {
    let risen = to_the_log_start(|a| reading(&mut a.seen, 3).log = Ok(log(9, 50)));
    let approved = risen.authorize().unwrap();
    let Change::Commit(commits) = &changes(&approved)[0] else {
        panic!("no commit");
    };
    assert_eq!(commits.len(), 500);
    for (partition, commit) in commits {
        let start = if *partition == p(3) { 9 } else { 7 };
        assert_eq!(*commit, CommittedOffset::bare(start), "{partition}");
    }
    let image = approved.pre_image();
    assert_eq!(
        image.raised,
        [(p(3), 9)].into(),
        "what was sent is remembered"
    );
    assert_eq!(image.before[&p(3)], Some(commit(31)));
}

#[test]
fn a_log_start_rises_to_the_end_that_was_seen_and_no_further() {
    let rises_to = |start: i64| {
        to_the_log_start(|a| reading(&mut a.seen, 3).log = Ok(log(start, start.max(43))))
    };
    // All that the plan was to read again is deleted by then, but nothing else is passed over.
    assert_eq!(
        rises_to(43).authorize().unwrap().pre_image().raised,
        [(p(3), 43)].into()
    );
    assert_eq!(
        rises_to(44).refused(),
        vec![stale(Stale::LogStart {
            partition: p(3),
            log_start: 44,
            highest: 43,
        })]
    );
    // A log that was cut off has lost more than its beginning.
    let cut = to_the_log_start(|a| reading(&mut a.seen, 3).log = Ok(log(0, 5)));
    assert_eq!(
        cut.refused(),
        vec![stale(Stale::Target {
            partition: p(3),
            target: 7,
            log_start: 0,
            high: 5,
        })]
    );
}

#[test]
fn where_clamping_is_allowed_a_target_is_kept_until_retention_passes_it() {
    let scene = Scene::incident().changed(|s| s.allow.clamp = true);
    let starts_at = |start: i64| {
        Apply::of(&scene).changed(|a| reading(&mut a.seen, 1).log = Ok(log(start, 43)))
    };
    assert_eq!(
        starts_at(31).sends(),
        [Change::Commit(vec![(p(1), commit(31))])]
    );
    // Epoch and metadata belong to the offset that is gone.
    let bare = CommittedOffset::bare(36);
    assert_eq!(starts_at(36).sends(), [Change::Commit(vec![(p(1), bare)])]);
}

#[test]
fn a_retry_sends_what_the_first_try_sent() {
    let first = PreImage {
        before: (0..500).map(|n| (p(n), Some(commit(31)))).collect(),
        raised: [(p(3), 9)].into(),
    };
    let retried = |start: i64, now: CommittedOffset| {
        to_the_log_start(|a| {
            a.pre_image = Some(first.clone());
            reading(&mut a.seen, 3).log = Ok(log(start, 50));
            reading(&mut a.seen, 3).committed = Ok(Some(now));
        })
    };
    let sent = |apply: &Apply| match &apply.sends()[..] {
        [Change::Commit(commits)] => commits.iter().find(|(at, _)| *at == p(3)).cloned(),
        other => panic!("{other:?}"),
    };
    let bare = CommittedOffset::bare;
    assert_eq!(sent(&retried(9, commit(31))), Some((p(3), bare(9))));
    assert_eq!(sent(&retried(9, bare(9))), None, "done");
    assert_eq!(
        sent(&retried(12, bare(9))),
        None,
        "done, wherever the log starts"
    );
    // Still to be sent, and what was sent does not exist any more.
    assert_eq!(
        retried(12, commit(31)).refused(),
        vec![stale(Stale::Target {
            partition: p(3),
            target: 9,
            log_start: 12,
            high: 50,
        })]
    );
    assert_eq!(
        retried(9, bare(7)).refused(),
        vec![moved(3, Some(31), Some(7), 0)]
    );
}

#[test]
fn a_plan_of_another_release_is_refused_by_that_name() {
    let old = incident(|a| a.plan.csv_version = 0);
    assert_eq!(old.refused(), vec![stale(Stale::Release)]);
}

#[test]
fn topics_are_named_once() {
    let plan = two(|_| {}).plan;
    assert_eq!(topics(&plan), BTreeSet::from(["shipments"]));
    assert_eq!(plan.left_alone, vec![(p(2), LeftAlone::AlreadyThere)]);
}

#[test]
fn four_eyes_are_looked_for_again_before_anything_is_sent() {
    let mara = Identity::new("https://id.example", "1", "Mara");
    let dana = Identity::new("https://id.example", "2", "Dana");
    let apply = |requester: Requester, decider: Option<&Identity>| {
        let scene = Scene::incident().changed(|s| {
            s.policy.four_eyes = true;
            s.requester = requester;
        });
        Apply::of(&scene).changed(|apply| apply.approval().decider = decider.cloned())
    };
    let asked = || Requester::Verified(mara.clone());
    assert_eq!(apply(asked(), Some(&dana)).sends().len(), 1);
    assert_eq!(apply(Requester::Guard, Some(&mara)).sends().len(), 1);
    for (requester, decider) in [
        (asked(), Some(&mara)),
        (asked(), None),
        (Requester::Guard, None),
    ] {
        let codes: Vec<_> = apply(requester, decider)
            .refused()
            .iter()
            .map(Refusal::code)
            .collect();
        assert_eq!(codes, ["FOUR_EYES_MISSING"]);
    }
}

#[test]
fn a_plan_is_no_witness_of_who_asked_for_it_or_of_how_many_eyes_it_needs() {
    let mara = Identity::new("https://id.example", "1", "Mara");
    let dana = Identity::new("https://id.example", "2", "Dana");
    let of = |requester: Requester, change: &dyn Fn(&mut Apply)| {
        let scene = Scene::incident().changed(|s| s.requester = requester);
        Apply::of(&scene).changed(|apply| {
            apply.approval().decider = Some(dana.clone());
            change(apply);
        })
    };
    let asked = || Requester::Verified(mara.clone());
    assert_eq!(of(asked(), &|_| ()).sends().len(), 1);
    // The policy has four eyes, and the plan says that it needs none.
    for requester in [asked(), Requester::Guard, Requester::Unverified] {
        let refused = of(requester, &|apply| apply.four_eyes = true).refused();
        assert!(
            matches!(&refused[..], [Refusal::FourEyesMissing { found }] if found.contains("without it")),
            "{refused:?}"
        );
    }
    // The plan names somebody who is not on record, or not as it names them.
    for noted in [
        None,
        Some(dana.clone()),
        Some(mara.clone().with_aliases(["mara@example.com"])),
    ] {
        let refused = of(asked(), &|apply| apply.noted.clone_from(&noted)).refused();
        assert!(
            matches!(&refused[..], [Refusal::NotApproved { found }] if found.contains("not on record")),
            "{refused:?}"
        );
    }
}

/// A skip of record 31 of partition 0 and record 33 of partition 2, both kept, and read again as they were.
fn skip(change: impl FnOnce(&mut Apply)) -> Apply {
    let records = vec![skipped(0, 31, kept(7)), skipped(2, 33, kept(8))];
    let scene = Scene::from(Goal::skip(&[(0, 31), (2, 31)], records));
    let reread_all = |apply: &mut Apply| {
        let of = |s: &SkippedRecord| ((s.partition.clone(), s.record.offset), reread(s));
        apply.rereads = apply.plan.skips.iter().map(of).collect();
    };
    Apply::of(&scene).changed(reread_all).changed(change)
}

fn again(apply: &mut Apply, partition: i32, offset: i64) -> &mut Reread {
    apply.rereads.get_mut(&(p(partition), offset)).unwrap()
}

#[test]
fn records_that_are_as_they_were_are_passed_over() {
    assert_eq!(skip(|_| {}).sends().len(), 1);
    let approved = skip(|_| {}).authorize().unwrap();
    assert_eq!(approved.pending.len(), 2);
}

/// One record that is not as it was stops the whole plan, and every reason is told.
#[test]
fn records_that_are_not_as_they_were_are_not_passed_over() {
    let source = |partition: i32, offset: i64, why: &str| {
        stale(Stale::SourceRecord {
            partition: p(partition),
            offset,
            why: why.into(),
        })
    };
    let copy = |why: &str| {
        stale(Stale::QuarantineCopy {
            copy: "shipments-quarantine-0@7".into(),
            why: why.into(),
        })
    };
    let unconfirmed = |why: &str| Refusal::QuarantineUnconfirmed {
        partition: p(0),
        offset: 31,
        why: why.into(),
    };
    type Change = fn(&mut Apply);
    let cases: Vec<(Change, Vec<Refusal>)> = vec![
        (
            |a| drop(a.rereads.remove(&(p(0), 31))),
            vec![unconfirmed("it was not read again")],
        ),
        (
            |a| a.plan.skips[0].kept = Kept::NotYet,
            vec![unconfirmed("the plan is a dry run, which keeps nothing")],
        ),
        (
            |a| again(a, 0, 31).source = Ok(None),
            vec![source(0, 31, "it is gone")],
        ),
        (
            |a| again(a, 0, 31).copy = Ok(None),
            vec![copy("it is gone")],
        ),
        (
            |a| again(a, 0, 31).copy = Err(Fault::TopicGone),
            vec![copy("the broker does not know this topic or partition")],
        ),
        (
            |a| {
                again(a, 0, 31).copy = Ok(None);
                again(a, 2, 33).source = Err(Fault::NoLeader);
            },
            vec![
                copy("it is gone"),
                source(2, 33, "the partition has no leader"),
            ],
        ),
    ];
    for (change, refusals) in cases {
        let apply = skip(|a| {
            change(a);
            // The approval is of the plan as it stands.
            a.approval = Some(approval(&a.plan));
        });
        assert_eq!(apply.refused(), refusals);
    }
}

#[test]
fn a_commit_that_moved_at_all_keeps_the_records() {
    for seen in [30, 32, 40] {
        let apply = skip(now_at(0, commit(seen)));
        assert_eq!(apply.refused(), [moved(0, Some(31), Some(seen), 0)]);
    }
    // Committed anew at the same place, by somebody who knows another epoch.
    let other = CommittedOffset {
        leader_epoch: Some(5),
        ..commit(31)
    };
    assert_eq!(
        skip(now_at(0, other)).refused(),
        [moved(0, Some(31), Some(31), 0)]
    );
}

#[test]
fn a_right_that_is_missing_keeps_the_door_shut() {
    let lacks =
        |apply: &Apply| -> Vec<String> { apply.refused().iter().map(Refusal::code).collect() };
    let nothing = || Some(BTreeSet::new());
    let group = incident(|apply| apply.rights.group = nothing());
    assert_eq!(lacks(&group), ["NOT_AUTHORISED_TO_ALTER"]);
    let topic = incident(|apply| {
        apply
            .rights
            .topics
            .insert("shipments".to_owned(), Ok(nothing()));
    });
    assert_eq!(lacks(&topic), ["NOT_AUTHORISED_TO_ALTER"]);
    // Brokers that say nothing check it themselves.
    let unknown = incident(|apply| {
        apply.rights.group = None;
        apply.rights.topics.insert("shipments".to_owned(), Ok(None));
    });
    assert_eq!(unknown.sends().len(), 1);
}
