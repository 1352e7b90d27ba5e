mod activity;
mod earlier;

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::checkpoint::{Anomaly, CheckpointHeader};
use crate::group::{GroupObservation, GroupState, GroupType};
use crate::guard::quarantine::{Kept, SkippedRecord};
use crate::identity::{Identity, Requester};
use crate::ids::{CheckpointId, PlanId};
use crate::offset::{ClusterId, CommittedOffset, Fault, FoundByTime, GroupId};
use crate::plan::{Plan, PlanResult, Source, Warning, check_plan};
use crate::refusal::Stale;
use crate::request::{Allowances, Selection};
use crate::target::Older;
use crate::target::checkpoint::PassedOver;
use crate::testing::guard::failure;
use crate::testing::*;

/// What a case comes to.
enum Comes {
    /// Moves as (partition, from, to); the rest is left alone as named; these warnings, in this order.
    Plan(
        Vec<(i32, Option<CommittedOffset>, Option<CommittedOffset>)>,
        Vec<(i32, LeftAlone)>,
        Vec<Warning>,
    ),
    /// Everything is left alone, for these reasons.
    Nothing(Vec<(i32, LeftAlone)>),
    /// All refusals, in this order.
    Refused(Vec<Refusal>),
}
use Comes::{Nothing, Plan as Planned_, Refused};
use LeftAlone::{
    AlreadyThere, NoCommit, NoCommitInSource, NoRecordThatLate, NotInSource, NotMovedThen,
    NotSelected,
};

type Case = (&'static str, Scene, Comes);

/// Runs a table. A failure names the case by its number in the table.
fn check(cases: Vec<Case>) {
    for (n, (what, scene, comes)) in cases.into_iter().enumerate() {
        let name = format!("case {}: {what}", n + 1);
        let left = |left: Vec<(i32, LeftAlone)>| -> Vec<_> {
            left.into_iter().map(|(n, why)| (p(n), why)).collect()
        };
        match (scene.plan(), comes) {
            (PlanResult::Ready(plan), Planned_(moves, left_alone, warnings)) => {
                let planned: Vec<_> = plan
                    .moves
                    .iter()
                    .map(|m| (m.partition.clone(), m.from.clone(), m.to.clone()))
                    .collect();
                let moves: Vec<_> = moves
                    .into_iter()
                    .map(|(n, from, to)| (p(n), from, to))
                    .collect();
                assert_eq!(planned, moves, "{name}");
                assert_eq!(plan.left_alone, left(left_alone), "{name}");
                assert_eq!(plan.warnings, warnings, "{name}");
                assert_eq!(check_plan(&plan), Vec::<String>::new(), "{name}");
            }
            (PlanResult::NothingToDo(seen), Nothing(left_alone)) => {
                assert_eq!(seen, left(left_alone), "{name}");
            }
            (PlanResult::Refused(seen), Refused(refusals)) => assert_eq!(seen, refusals, "{name}"),
            (seen, _) => panic!("{name}: {seen:?}"),
        }
    }
}

/// Partition 1 back from 43 to 31, the other two where they should be.
fn back_to_31(warnings: Vec<Warning>) -> Comes {
    Planned_(
        vec![(1, Some(commit(43)), Some(commit(31)))],
        vec![(0, AlreadyThere), (2, AlreadyThere)],
        warnings,
    )
}

fn incident(change: impl FnOnce(&mut Scene)) -> Scene {
    Scene::incident().changed(change)
}

fn to(goal: Goal, change: impl FnOnce(&mut Scene)) -> Scene {
    Scene::from(goal).changed(change)
}

fn group() -> String {
    "shipment-sync".to_owned()
}

fn evidence_of(at: &str, fault: Fault) -> Refusal {
    Refusal::EvidenceIncomplete {
        at: at.to_owned(),
        fault,
    }
}

fn no_leader(partition: i32) -> Refusal {
    evidence_of(&p(partition).to_string(), Fault::NoLeader)
}

fn unknown(partition: TopicPartition) -> Refusal {
    Refusal::PartitionUnknown { partition }
}

fn forward(partition: i32, current: i64, target: i64) -> Refusal {
    Refusal::ForwardMove {
        partition: p(partition),
        current,
        target,
    }
}

fn truncated(partition: i32, high_before: i64, high_after: i64) -> Refusal {
    Refusal::LogTruncated {
        partition: p(partition),
        high_before,
        high_after,
    }
}

fn below(partition: i32, requested: i64, log_start: i64) -> Refusal {
    Refusal::OffsetBelowLogStart {
        partition: p(partition),
        requested,
        log_start,
    }
}

fn above(partition: i32, requested: i64, high: i64) -> Refusal {
    Refusal::OffsetAboveHighWatermark {
        partition: p(partition),
        requested,
        high,
    }
}

fn may_rise(partitions: usize, offsets: u64) -> Warning {
    Warning::MayRise {
        partitions,
        offsets,
    }
}

fn only(topic: &str, partitions: Option<Vec<i32>>) -> Selection {
    Selection::Only([(topic.to_owned(), partitions)].into())
}

fn live(scene: &mut Scene) {
    let description = describe(&mut scene.seen);
    description.state = GroupState::Stable;
    description.members = vec![member("worker-b"), member("worker-a")];
}

fn waits(scene: &mut Scene) {
    scene.policy.wait_for_empty_seconds = Some(600);
    scene.policy.drift_limit = 100;
}

fn must_be_stopped() -> Warning {
    Warning::MustBeStopped {
        members: vec![member_seen("worker-a"), member_seen("worker-b")],
        drift_limit: 100,
    }
}

fn other(topic: &str) -> TopicPartition {
    TopicPartition::new(topic, 0)
}

/// Adds partition 0 of another topic, committed at 5 of 9.
fn add_topic(seen: &mut GroupObservation, name: &str, described: u8) {
    seen.topics.insert(name.to_owned(), topic(described, 1));
    let reading = seen.partitions[&p(0)].clone();
    seen.partitions.insert(other(name), reading);
    let reading = seen.partitions.get_mut(&other(name)).unwrap();
    reading.committed = Ok(Some(commit(5)));
    reading.log = Ok(log(0, 9));
}

#[test]
fn the_cluster_and_the_group() {
    let lost_group = |scene: &mut Scene| {
        make_dead(&mut scene.seen);
        commit_nothing(&mut scene.seen);
    };
    check(vec![
        ("the incident", Scene::incident(), back_to_31(vec![])),
        (
            "the pinned cluster answers",
            incident(|s| s.pinned = Some(ClusterId("cluster-a".into()))),
            back_to_31(vec![]),
        ),
        (
            "another cluster answers than is pinned and than the checkpoint is of: said once",
            incident(|s| {
                s.pinned = Some(ClusterId("cluster-a".into()));
                s.seen.cluster_id = ClusterId("cluster-b".into());
            }),
            Refused(vec![Refusal::ClusterMismatch {
                required: "cluster-a".into(),
                seen: "cluster-b".into(),
            }]),
        ),
        (
            "the checkpoint is of another cluster than the pinned one",
            incident(|s| {
                s.pinned = Some(ClusterId("cluster-b".into()));
                s.seen.cluster_id = ClusterId("cluster-c".into());
            }),
            Refused(vec![
                Refusal::ClusterMismatch {
                    required: "cluster-a".into(),
                    seen: "cluster-c".into(),
                },
                Refusal::ClusterMismatch {
                    required: "cluster-b".into(),
                    seen: "cluster-c".into(),
                },
            ]),
        ),
        (
            "the checkpoint is of another group",
            incident(|s| s.source().group = GroupId("another".into())),
            Refused(vec![Refusal::CheckpointNotFound {
                id: CheckpointId("cp-0800".into()),
            }]),
        ),
        (
            "the reading is of another group",
            incident(|s| s.seen.group = GroupId("another".into())),
            Refused(vec![evidence_of("", Fault::another_group())]),
        ),
        (
            "the group could not be described",
            incident(|s| s.seen.description = Err(Fault::NotAuthorised)),
            Refused(vec![evidence_of("", Fault::NotAuthorised)]),
        ),
        (
            "the group does not exist: a typing error would create it",
            incident(lost_group),
            Refused(vec![Refusal::GroupNotFound {
                group: group(),
                near: None,
            }]),
        ),
        (
            "the group exists without a commit",
            incident(|s| commit_nothing(&mut s.seen)),
            Refused(vec![Refusal::NoCommittedOffsets { group: group() }]),
        ),
        (
            "a live group without a commit is refused as both",
            incident(|s| {
                live(s);
                commit_nothing(&mut s.seen);
            }),
            Refused(vec![
                Refusal::GroupActive {
                    state: "Stable".into(),
                    members: vec![member_seen("worker-a"), member_seen("worker-b")],
                },
                Refusal::NoCommittedOffsets { group: group() },
            ]),
        ),
        (
            "waiting does not help a live group without a commit",
            incident(|s| {
                live(s);
                waits(s);
                commit_nothing(&mut s.seen);
            }),
            Refused(vec![Refusal::NoCommittedOffsets { group: group() }]),
        ),
        (
            "a group without a commit, and a target that could not be reached either",
            incident(|s| {
                commit_nothing(&mut s.seen);
                reading(&mut s.seen, 2).log = Ok(log(40, 43));
            }),
            Refused(vec![
                Refusal::NoCommittedOffsets { group: group() },
                below(2, 31, 40),
            ]),
        ),
        (
            "Dead with commits: a live Streams group looks so",
            incident(|s| make_dead(&mut s.seen)),
            Refused(vec![Refusal::GroupStateUnproven {
                seen: "Dead".into(),
            }]),
        ),
        (
            "Dead, and whether it has commits could not be read",
            incident(|s| {
                lost_group(s);
                reading(&mut s.seen, 2).committed = Err(Fault::NoLeader);
            }),
            Refused(vec![
                Refusal::GroupStateUnproven {
                    seen: "Dead".into(),
                },
                unknown(p(0)),
                unknown(p(1)),
                no_leader(2),
            ]),
        ),
        (
            "a state that this client does not know, with members",
            incident(|s| {
                describe(&mut s.seen).state = GroupState::Unknown;
                describe(&mut s.seen).members = vec![member("worker-a")];
            }),
            Refused(vec![Refusal::GroupActive {
                state: "Unknown".into(),
                members: vec![member_seen("worker-a")],
            }]),
        ),
        (
            "a state that this client does not know, without members",
            incident(|s| describe(&mut s.seen).state = GroupState::Unknown),
            Refused(vec![Refusal::GroupStateUnproven {
                seen: "Unknown".into(),
            }]),
        ),
        (
            "Dead with members",
            incident(|s| {
                make_dead(&mut s.seen);
                describe(&mut s.seen).members = vec![member("worker-a")];
            }),
            Refused(vec![Refusal::GroupActive {
                state: "Dead".into(),
                members: vec![member_seen("worker-a")],
            }]),
        ),
        (
            "Empty with a member: a static member that left, or a race",
            incident(|s| describe(&mut s.seen).members = vec![member("worker-a")]),
            Refused(vec![Refusal::GroupActive {
                state: "Empty".into(),
                members: vec![member_seen("worker-a")],
            }]),
        ),
        (
            "a live group, and no wait configured; its members in order",
            incident(live),
            Refused(vec![Refusal::GroupActive {
                state: "Stable".into(),
                members: vec![member_seen("worker-a"), member_seen("worker-b")],
            }]),
        ),
        (
            "a live group, and a wait",
            incident(|s| {
                live(s);
                waits(s);
            }),
            back_to_31(vec![must_be_stopped()]),
        ),
        (
            "a wait is no answer to a state that proves nothing",
            incident(|s| {
                waits(s);
                describe(&mut s.seen).state = GroupState::Unknown;
            }),
            Refused(vec![Refusal::GroupStateUnproven {
                seen: "Unknown".into(),
            }]),
        ),
        (
            "offsets without a group protocol",
            incident(|s| describe(&mut s.seen).is_simple = true),
            back_to_31(vec![Warning::AssignOnly]),
        ),
        (
            "no target at all, and everything that is wrong with the group beside it",
            to(
                Goal::Missing(Refusal::NoCheckpointBefore {
                    before: at("07:00:00"),
                    oldest: Some(at("08:00:00")),
                    disowned: 0,
                }),
                live,
            ),
            Refused(vec![
                Refusal::NoCheckpointBefore {
                    before: at("07:00:00"),
                    oldest: Some(at("08:00:00")),
                    disowned: 0,
                },
                Refusal::GroupActive {
                    state: "Stable".into(),
                    members: vec![member_seen("worker-a"), member_seen("worker-b")],
                },
            ]),
        ),
    ]);
}

/// Every state beside the two that may pass: Empty without members, and Dead for a group that is brought back.
#[test]
fn no_other_state_than_empty_is_inactive() {
    use GroupState::*;
    for state in [
        Stable,
        PreparingRebalance,
        CompletingRebalance,
        Assigning,
        Reconciling,
        Dead,
        Unknown,
    ] {
        for group_type in [GroupType::Classic, GroupType::Consumer, GroupType::Unknown] {
            let scene = incident(|s| {
                describe(&mut s.seen).state = state;
                describe(&mut s.seen).group_type = group_type;
            });
            assert!(
                matches!(
                    scene.refused()[..],
                    [Refusal::GroupActive { .. } | Refusal::GroupStateUnproven { .. }]
                ),
                "{state} {group_type}"
            );
        }
    }
}

#[test]
fn stateful_groups() {
    // Version 2, a time, no processor metadata; and version 1.
    const STREAMS_2: &str = "AgAAAZrRkLoA";
    const STREAMS_1: &str = "AQAAAZrRkLoA";
    let kind = |kind: &str| Refusal::StatefulGroup {
        kind: kind.to_owned(),
    };
    let warning = |kind: &str| Warning::Stateful {
        kind: kind.to_owned(),
    };
    let connect = |scene: &mut Scene| {
        let name = GroupId("connect-orders-sink".into());
        scene.seen.group = name.clone();
        scene.source().group = name;
    };
    let committed = |metadata: &'static str| {
        move |scene: &mut Scene| {
            reading(&mut scene.seen, 0).committed = Ok(Some(with_metadata(31, metadata)));
            scene.source().partitions.get_mut(&p(0)).unwrap().committed =
                Some(with_metadata(31, metadata));
        }
    };
    check(vec![
        (
            "Streams, by its metadata",
            incident(committed(STREAMS_2)),
            Refused(vec![kind("Kafka Streams")]),
        ),
        (
            "Streams, by its older metadata",
            incident(committed(STREAMS_1)),
            Refused(vec![kind("Kafka Streams")]),
        ),
        (
            "Streams, by its assignor",
            incident(|s| describe(&mut s.seen).assignor = "stream".into()),
            Refused(vec![kind("Kafka Streams")]),
        ),
        (
            "Streams, allowed: its metadata goes back with its offset",
            incident(|s| {
                s.allow.stateful = true;
                reading(&mut s.seen, 1).committed = Ok(Some(with_metadata(43, STREAMS_2)));
                s.source().partitions.get_mut(&p(1)).unwrap().committed =
                    Some(with_metadata(31, STREAMS_1));
            }),
            Planned_(
                vec![(
                    1,
                    Some(with_metadata(43, STREAMS_2)),
                    Some(with_metadata(31, STREAMS_1)),
                )],
                vec![(0, AlreadyThere), (2, AlreadyThere)],
                vec![warning("Kafka Streams")],
            ),
        ),
        (
            "Streams that lost its commits is still known by its checkpoint",
            incident(|s| {
                committed(STREAMS_2)(s);
                commit_nothing(&mut s.seen);
                s.allow.restore_missing = true;
            }),
            Refused(vec![kind("Kafka Streams")]),
        ),
        (
            "metadata that only looks a little like it: the version, and too short a time",
            incident(committed("AgAAAZrRkLo=")),
            back_to_31(vec![]),
        ),
        (
            "a host name as metadata",
            incident(committed("worker-17")),
            back_to_31(vec![]),
        ),
    ]);
    // The request names the group too, so this one is not a case of the table.
    let scene = incident(connect);
    assert_eq!(scene.refused().last(), Some(&kind("Kafka Connect")));
}

#[test]
fn topics_and_readings() {
    let recreated = |then: String, now: String| Refusal::TopicRecreated {
        topic: "shipments".into(),
        then,
        now,
    };
    let gone = |topic: &str| Refusal::TopicGone {
        topic: topic.into(),
    };
    check(vec![
        (
            "the topic is gone: said once, not for every partition",
            incident(|s| {
                s.seen
                    .topics
                    .insert("shipments".into(), Err(Fault::TopicGone));
                for n in 0..3 {
                    reading(&mut s.seen, n).log = Err(Fault::TopicGone);
                }
            }),
            Refused(vec![gone("shipments")]),
        ),
        (
            "the principal may not see the topic: said once",
            incident(|s| {
                s.seen
                    .topics
                    .insert("shipments".into(), Err(Fault::NotAuthorised));
                for n in 0..3 {
                    reading(&mut s.seen, n).log = Err(Fault::NotAuthorised);
                }
            }),
            Refused(vec![evidence_of("shipments", Fault::NotAuthorised)]),
        ),
        (
            "the reading left the topic out",
            incident(|s| s.seen.topics.clear()),
            Refused(vec![evidence_of("shipments", Fault::missing())]),
        ),
        (
            "the topic was created again: nothing else is said of offsets in another log",
            incident(|s| {
                s.seen.topics.insert("shipments".into(), topic(8, 3));
                reading(&mut s.seen, 1).log = Ok(log(0, 3));
            }),
            Refused(vec![recreated(
                id(7).unwrap().to_string(),
                id(8).unwrap().to_string(),
            )]),
        ),
        (
            "no topic ids, and a log start that went down",
            incident(|s| {
                s.source().topics.get_mut("shipments").unwrap().id = None;
                s.source().partitions.get_mut(&p(1)).unwrap().log.log_start = 9;
            }),
            Refused(vec![recreated(
                "unknown, shipments-1 starting at 9".into(),
                "unknown, shipments-1 starting at 0".into(),
            )]),
        ),
        (
            "no topic id in the checkpoint, and nothing that speaks against it",
            incident(|s| s.source().topics.get_mut("shipments").unwrap().id = None),
            back_to_31(vec![Warning::TopicIdUnknown {
                topic: "shipments".into(),
            }]),
        ),
        (
            "no topic id now",
            incident(|s| {
                s.seen.topics.insert("shipments".into(), topic(0, 3));
            }),
            back_to_31(vec![Warning::TopicIdUnknown {
                topic: "shipments".into(),
            }]),
        ),
        (
            "a partition that the topic does not have any more, its topic described",
            incident(|s| reading(&mut s.seen, 1).log = Err(Fault::TopicGone)),
            Refused(vec![evidence_of("shipments-1", Fault::TopicGone)]),
        ),
        (
            "a partition of the checkpoint that the reading left out",
            incident(|s| {
                s.seen.partitions.remove(&p(1));
            }),
            Refused(vec![evidence_of("shipments-1", Fault::missing())]),
        ),
        (
            "pending transactional commits",
            incident(|s| reading(&mut s.seen, 1).committed = Err(Fault::Unstable)),
            Refused(vec![Refusal::UnstableOffsets { partition: p(1) }]),
        ),
        (
            "a log that could not be read, and a commit that could not",
            incident(|s| {
                reading(&mut s.seen, 0).log = Err(Fault::NoLeader);
                reading(&mut s.seen, 2).committed = Err(Fault::NotAuthorised);
            }),
            Refused(vec![
                no_leader(0),
                evidence_of("shipments-2", Fault::NotAuthorised),
            ]),
        ),
        (
            "what is not selected does not stand in the way",
            incident(|s| {
                s.selection = only("shipments", Some(vec![1]));
                reading(&mut s.seen, 0).committed = Err(Fault::Unstable);
                add_topic(&mut s.seen, "returns", 9);
                s.seen
                    .topics
                    .insert("returns".into(), Err(Fault::TopicGone));
            })
            .changed(|s| {
                s.seen.partitions.remove(&other("returns"));
            }),
            Planned_(
                vec![(1, Some(commit(43)), Some(commit(31)))],
                vec![(0, NotSelected), (2, NotSelected)],
                vec![],
            ),
        ),
        (
            "nor does what is not in the checkpoint",
            incident(|s| {
                s.source().partitions.remove(&p(0));
                s.source().partitions.get_mut(&p(2)).unwrap().committed = None;
                reading(&mut s.seen, 0).log = Err(Fault::NoLeader);
                reading(&mut s.seen, 2).committed = Err(Fault::Unstable);
            }),
            Planned_(
                vec![(1, Some(commit(43)), Some(commit(31)))],
                vec![(0, NotInSource), (2, NoCommitInSource)],
                vec![],
            ),
        ),
    ]);
    // Another topic that is gone stands in the way where it is part of the source.
    let scene = incident(|s| {
        let mut then = seen(&[31, 31, 31], &[31, 43, 31]);
        add_topic(&mut then, "returns", 9);
        s.goal = Goal::checkpoint(checkpoint_at("cp-0800", "08:00:00", then));
        add_topic(&mut s.seen, "returns", 9);
        s.seen
            .topics
            .insert("returns".into(), Err(Fault::TopicGone));
    });
    assert_eq!(scene.refused(), vec![gone("returns")]);
}

fn older_for(partition: i32) -> Older {
    Older {
        id: CheckpointId("cp-0700".into()),
        ended_at: at("07:00:00"),
        by: [PlanId("plan-0".into())].into(),
        partitions: [p(partition)].into(),
    }
}

#[test]
fn checkpoints() {
    let restore = |scene: &mut Scene| scene.allow.restore_missing = true;
    let by = |n: &str| [PlanId(n.to_owned())].into();
    let later = |scene: &mut Scene, headers: Vec<CheckpointHeader>| {
        scene.checkpoint_source().later = headers;
    };
    let at_0900 = || checkpoint_at("cp-0900", "09:00:00", seen(&[31, 43, 31], &[43, 43, 43]));
    let noted = |anomalies: Vec<Anomaly>| CheckpointHeader {
        anomalies,
        ..header(&at_0900())
    };
    let note = |partition, high_before, high_after| Anomaly::LogTruncated {
        partition: p(partition),
        high_before,
        high_after,
    };
    check(vec![
        (
            "everything is where it was",
            incident(|s| reading(&mut s.seen, 1).committed = Ok(Some(commit(31)))),
            Nothing(vec![
                (0, AlreadyThere),
                (1, AlreadyThere),
                (2, AlreadyThere),
            ]),
        ),
        (
            "the same position under another leader is the same position",
            incident(|s| {
                let mut again = commit(31);
                again.leader_epoch = Some(5);
                reading(&mut s.seen, 1).committed = Ok(Some(again));
            }),
            Nothing(vec![
                (0, AlreadyThere),
                (1, AlreadyThere),
                (2, AlreadyThere),
            ]),
        ),
        (
            "the same offset with other metadata is another position",
            incident(|s| {
                reading(&mut s.seen, 1).committed = Ok(Some(with_metadata(31, "done: 33, 35")));
            }),
            Planned_(
                vec![(1, Some(with_metadata(31, "done: 33, 35")), Some(commit(31)))],
                vec![(0, AlreadyThere), (2, AlreadyThere)],
                vec![Warning::MetadataDropped { partitions: 1 }],
            ),
        ),
        (
            "metadata goes back with the offset that it was committed with",
            incident(|s| {
                s.source().partitions.get_mut(&p(1)).unwrap().committed =
                    Some(with_metadata(31, "then"));
                reading(&mut s.seen, 1).committed = Ok(Some(with_metadata(43, "now")));
            }),
            Planned_(
                vec![(
                    1,
                    Some(with_metadata(43, "now")),
                    Some(with_metadata(31, "then")),
                )],
                vec![(0, AlreadyThere), (2, AlreadyThere)],
                vec![],
            ),
        ),
        (
            "an epoch above the log's own is dropped",
            incident(|s| {
                let mut then = commit(31);
                then.leader_epoch = Some(6);
                s.source().partitions.get_mut(&p(1)).unwrap().committed = Some(then);
            }),
            Planned_(
                vec![(1, Some(commit(43)), Some(CommittedOffset::bare(31)))],
                vec![(0, AlreadyThere), (2, AlreadyThere)],
                vec![],
            ),
        ),
        (
            "so is one where the log's own is unknown",
            incident(|s| {
                let mut unknown = log(0, 43);
                unknown.leader_epoch = None;
                reading(&mut s.seen, 1).log = Ok(unknown);
            }),
            Planned_(
                vec![(1, Some(commit(43)), Some(CommittedOffset::bare(31)))],
                vec![(0, AlreadyThere), (2, AlreadyThere)],
                vec![],
            ),
        ),
        (
            "partitions added since are listed and left",
            incident(|s| {
                s.source().partitions.remove(&p(2));
            }),
            Planned_(
                vec![(1, Some(commit(43)), Some(commit(31)))],
                vec![(0, AlreadyThere), (2, NotInSource)],
                vec![],
            ),
        ),
        (
            "a partition without a commit then is left",
            incident(|s| s.source().partitions.get_mut(&p(1)).unwrap().committed = None),
            Nothing(vec![
                (0, AlreadyThere),
                (1, NoCommitInSource),
                (2, AlreadyThere),
            ]),
        ),
        (
            "a partition whose commit expired",
            incident(|s| reading(&mut s.seen, 0).committed = Ok(None)),
            Refused(vec![unknown(p(0))]),
        ),
        (
            "a partition whose commit expired, allowed",
            incident(|s| {
                restore(s);
                reading(&mut s.seen, 0).committed = Ok(None);
            }),
            Planned_(
                vec![
                    (0, None, Some(commit(31))),
                    (1, Some(commit(43)), Some(commit(31))),
                ],
                vec![(2, AlreadyThere)],
                vec![],
            ),
        ),
        (
            "a group whose commits expired, allowed: it exists",
            incident(|s| {
                restore(s);
                commit_nothing(&mut s.seen);
            }),
            Planned_(
                (0..3).map(|n| (n, None, Some(commit(31)))).collect(),
                vec![],
                vec![],
            ),
        ),
        (
            "a group that expired, allowed: it will be created",
            incident(|s| {
                restore(s);
                make_dead(&mut s.seen);
                commit_nothing(&mut s.seen);
            }),
            Planned_(
                (0..3).map(|n| (n, None, Some(commit(31)))).collect(),
                vec![],
                vec![Warning::CreatesGroup],
            ),
        ),
        (
            "a live group whose commits expired, allowed, after a wait",
            incident(|s| {
                restore(s);
                live(s);
                waits(s);
                commit_nothing(&mut s.seen);
            }),
            Planned_(
                (0..3).map(|n| (n, None, Some(commit(31)))).collect(),
                vec![],
                vec![must_be_stopped()],
            ),
        ),
        (
            "bringing back does not make Dead with commits any safer",
            incident(|s| {
                restore(s);
                make_dead(&mut s.seen);
            }),
            Refused(vec![Refusal::GroupStateUnproven {
                seen: "Dead".into(),
            }]),
        ),
        (
            "a later rewind disowned what would have been chosen",
            incident(|s| {
                s.checkpoint_source().passed_over = PassedOver {
                    count: 2,
                    by: by("plan-0"),
                };
            }),
            back_to_31(vec![Warning::DisownedPassedOver {
                count: 2,
                by: by("plan-0"),
            }]),
        ),
        (
            "a partition from an older checkpoint: what was noted before the source counts for it alone",
            incident(|s| {
                reading(&mut s.seen, 0).committed = Ok(Some(commit(40)));
                let source = s.checkpoint_source();
                let back = |n| Anomaly::OffsetWentBackwards {
                    partition: p(n),
                    before: 50,
                    after: 40,
                };
                source.older = vec![older_for(0)];
                let at_0730 = checkpoint_at("cp-0730", "07:30:00", seen(&[31; 3], &[43; 3]));
                source.later = vec![CheckpointHeader {
                    anomalies: vec![back(0), back(1)],
                    ..header(&at_0730)
                }];
            }),
            Planned_(
                vec![
                    (0, Some(commit(40)), Some(commit(31))),
                    (1, Some(commit(43)), Some(commit(31))),
                ],
                vec![(2, AlreadyThere)],
                vec![
                    Warning::OlderCheckpoint {
                        partitions: 1,
                        id: CheckpointId("cp-0700".into()),
                        ended_at: at("07:00:00"),
                        by: by("plan-0"),
                    },
                    Warning::WentBackwardsSince { partition: p(0) },
                ],
            ),
        ),
        (
            "nothing is moved that an older checkpoint was taken for",
            incident(|s| {
                s.checkpoint_source().older = vec![older_for(0)];
            }),
            back_to_31(vec![]),
        ),
        (
            "the offsets went back by themselves since",
            incident(|s| {
                let back = |n| Anomaly::OffsetWentBackwards {
                    partition: p(n),
                    before: 50,
                    after: 40,
                };
                // Partition 0 is not moved, so what happened to it is not told.
                later(s, vec![noted(vec![back(1), back(0)]), noted(vec![back(1)])]);
            }),
            back_to_31(vec![Warning::WentBackwardsSince { partition: p(1) }]),
        ),
        (
            "the log is shorter than it was",
            incident(|s| {
                s.source().partitions.get_mut(&p(1)).unwrap().log.high = 60;
            }),
            Refused(vec![truncated(1, 60, 43)]),
        ),
        (
            "the log is shorter than the newest checkpoint saw it",
            incident(|s| {
                let mut grown = at_0900();
                grown.partitions.get_mut(&p(1)).unwrap().log.high = 55;
                s.checkpoint_source().newest = Some(grown);
            }),
            Refused(vec![truncated(1, 55, 43)]),
        ),
        (
            "a later checkpoint noted it, and the log has grown past it since",
            incident(|s| later(s, vec![noted(vec![note(1, 40, 35)])])),
            Refused(vec![truncated(1, 40, 35)]),
        ),
        (
            "a truncation where nothing is moved is no reason",
            incident(|s| later(s, vec![noted(vec![note(0, 40, 35)])])),
            back_to_31(vec![]),
        ),
        (
            "truncations are told once a partition, sorted, and after everything else",
            incident(|s| {
                s.allow.restore_missing = true;
                reading(&mut s.seen, 0).committed = Ok(None);
                reading(&mut s.seen, 2).committed = Ok(Some(commit(35)));
                reading(&mut s.seen, 2).log = Ok(log(33, 43));
                s.source().partitions.get_mut(&p(1)).unwrap().log.high = 60;
                later(s, vec![noted(vec![note(1, 50, 40), note(0, 40, 35)])]);
            }),
            Refused(vec![
                below(2, 31, 33),
                truncated(0, 40, 35),
                truncated(1, 60, 43),
            ]),
        ),
    ]);
}

#[test]
fn bounds() {
    let clamp = |scene: &mut Scene| scene.allow.clamp = true;
    let starts_at =
        |start: i64| move |scene: &mut Scene| reading(&mut scene.seen, 1).log = Ok(log(start, 43));
    let now_at = |offset: i64| {
        move |scene: &mut Scene| {
            reading(&mut scene.seen, 1).committed = Ok(Some(commit(offset)));
        }
    };
    let others = || vec![(0, AlreadyThere), (2, AlreadyThere)];
    check(vec![
        (
            "retention has passed the target",
            incident(starts_at(36)),
            Refused(vec![below(1, 31, 36)]),
        ),
        (
            "allowed: it starts where the log does, bare, and says what is lost",
            incident(|s| {
                clamp(s);
                starts_at(36)(s);
            }),
            Planned_(
                vec![(1, Some(commit(43)), Some(CommittedOffset::bare(36)))],
                others(),
                vec![Warning::Lost { offsets: 5 }, may_rise(1, 7)],
            ),
        ),
        (
            "allowed, with metadata that belongs to the target that is gone",
            incident(|s| {
                clamp(s);
                starts_at(36)(s);
                s.source().partitions.get_mut(&p(1)).unwrap().committed =
                    Some(with_metadata(31, "then"));
            }),
            Planned_(
                vec![(1, Some(commit(43)), Some(CommittedOffset::bare(36)))],
                others(),
                vec![
                    Warning::Lost { offsets: 5 },
                    may_rise(1, 7),
                    Warning::MetadataDropped { partitions: 1 },
                ],
            ),
        ),
        (
            "the target is the log start",
            incident(starts_at(31)),
            back_to_31(vec![]),
        ),
        (
            "the group is at the log start already, and the target before it",
            incident(|s| {
                clamp(s);
                starts_at(36)(s);
                now_at(36)(s);
            }),
            Nothing(vec![
                (0, AlreadyThere),
                (1, AlreadyThere),
                (2, AlreadyThere),
            ]),
        ),
        (
            "the group is where it was, and retention has passed it: nothing to move",
            incident(|s| {
                starts_at(36)(s);
                now_at(31)(s);
            }),
            Nothing(vec![
                (0, AlreadyThere),
                (1, AlreadyThere),
                (2, AlreadyThere),
            ]),
        ),
        (
            "retention has passed target and group: clamping skips nothing that is still there",
            incident(|s| {
                clamp(s);
                starts_at(36)(s);
                now_at(33)(s);
            }),
            Planned_(
                vec![(1, Some(commit(33)), Some(CommittedOffset::bare(36)))],
                others(),
                vec![Warning::Lost { offsets: 5 }, may_rise(1, 7)],
            ),
        ),
        (
            "the target does not exist yet",
            incident(|s| {
                s.allow.forward = true;
                reading(&mut s.seen, 1).log = Ok(log(0, 30));
                now_at(10)(s);
                s.source().partitions.get_mut(&p(1)).unwrap().log.high = 30;
            }),
            Refused(vec![above(1, 31, 30)]),
        ),
        (
            "the target is the log's end",
            incident(|s| {
                s.allow.forward = true;
                now_at(10)(s);
                reading(&mut s.seen, 1).log = Ok(log(0, 31));
                s.source().partitions.get_mut(&p(1)).unwrap().log.high = 31;
            }),
            Planned_(
                vec![(1, Some(commit(10)), Some(commit(31)))],
                others(),
                vec![Warning::Skips { offsets: 21 }],
            ),
        ),
        (
            "the target is ahead of the group",
            incident(now_at(30)),
            Refused(vec![forward(1, 30, 31)]),
        ),
        (
            "a group beyond the log's end comes back, and only what exists is replayed",
            incident(now_at(5_000)),
            Planned_(
                vec![(1, Some(commit(5_000)), Some(commit(31)))],
                others(),
                vec![],
            ),
        ),
        (
            "all that is wrong with the partitions, in their order",
            incident(|s| {
                reading(&mut s.seen, 0).log = Ok(log(40, 43));
                reading(&mut s.seen, 0).committed = Ok(Some(commit(42)));
                reading(&mut s.seen, 1).committed = Err(Fault::Unstable);
                reading(&mut s.seen, 2).committed = Ok(Some(commit(3)));
            }),
            Refused(vec![
                below(0, 31, 40),
                Refusal::UnstableOffsets { partition: p(1) },
                forward(2, 3, 31),
            ]),
        ),
    ]);
}

#[test]
fn counts() {
    let replayed = |scene: Scene| (scene.ready().replayed(), scene.ready().skipped());
    assert_eq!(replayed(Scene::incident()), (12, 0));
    let beyond = incident(|s| reading(&mut s.seen, 1).committed = Ok(Some(commit(5_000))));
    assert_eq!(replayed(beyond), (12, 0));
    let brought_back = incident(|s| {
        s.allow.restore_missing = true;
        commit_nothing(&mut s.seen);
    });
    assert_eq!(replayed(brought_back), (36, 0));
    let rescued = to(Goal::Earliest, |s| {
        s.selection = only("shipments", Some(vec![0]));
        reading(&mut s.seen, 0).committed = Ok(Some(commit(3)));
        reading(&mut s.seen, 0).log = Ok(log(5, 43));
    });
    assert_eq!(replayed(rescued), (0, 0));
    let ahead = to(Goal::offsets(&[(0, 40)]), |s| s.allow.forward = true);
    assert_eq!(replayed(ahead), (0, 9));
}

#[test]
fn targets_by_time() {
    let by_time = |offsets: &[(i32, Result<Option<i64>, Fault>)]| {
        let found = |offset: &Option<i64>| offset.map(found_at);
        let offsets = offsets
            .iter()
            .map(|(n, offset)| (p(*n), offset.as_ref().map(found).map_err(Clone::clone)));
        Goal::Time(at("08:00:00"), offsets.collect())
    };
    check(vec![
        (
            "the first records at or after that time, bare",
            to(
                by_time(&[(0, Ok(Some(31))), (1, Ok(Some(31))), (2, Ok(Some(20)))]),
                |_| {},
            ),
            Planned_(
                vec![
                    (1, Some(commit(43)), Some(CommittedOffset::bare(31))),
                    (2, Some(commit(31)), Some(CommittedOffset::bare(20))),
                ],
                vec![(0, AlreadyThere)],
                vec![],
            ),
        ),
        (
            "no record that late: left alone, and the others' plan stands",
            to(
                by_time(&[(0, Ok(None)), (1, Ok(Some(31))), (2, Ok(Some(31)))]),
                |_| {},
            ),
            Planned_(
                vec![(1, Some(commit(43)), Some(CommittedOffset::bare(31)))],
                vec![(0, NoRecordThatLate), (2, AlreadyThere)],
                vec![],
            ),
        ),
        (
            "no record that late anywhere; one has read to the end",
            to(
                by_time(&[(0, Ok(None)), (1, Ok(None)), (2, Ok(None))]),
                |_| {},
            ),
            Nothing(vec![
                (0, NoRecordThatLate),
                (1, AlreadyThere),
                (2, NoRecordThatLate),
            ]),
        ),
        (
            "no record that late is the log's end where a step forward is allowed",
            to(
                by_time(&[(0, Ok(None)), (1, Ok(None)), (2, Ok(Some(31)))]),
                |s| s.allow.forward = true,
            ),
            Planned_(
                vec![(0, Some(commit(31)), Some(CommittedOffset::bare(43)))],
                vec![(1, AlreadyThere), (2, AlreadyThere)],
                vec![Warning::Skips { offsets: 12 }],
            ),
        ),
        (
            "no record that late, and the group is beyond the log: back to its end",
            to(
                by_time(&[(0, Ok(Some(31))), (1, Ok(None)), (2, Ok(Some(31)))]),
                |s| reading(&mut s.seen, 1).committed = Ok(Some(commit(90))),
            ),
            Planned_(
                vec![(1, Some(commit(90)), Some(CommittedOffset::bare(43)))],
                vec![(0, AlreadyThere), (2, AlreadyThere)],
                vec![],
            ),
        ),
        (
            "a record written after the log's end was read is the log's end too",
            to(
                by_time(&[(0, Ok(Some(31))), (1, Ok(Some(44))), (2, Ok(Some(31)))]),
                |_| {},
            ),
            Nothing(vec![
                (0, AlreadyThere),
                (1, AlreadyThere),
                (2, AlreadyThere),
            ]),
        ),
        (
            "a time that could not be looked up, and one that the answer left out",
            to(
                by_time(&[(0, Err(Fault::NoLeader)), (1, Ok(Some(31)))]),
                |_| {},
            ),
            Refused(vec![
                no_leader(0),
                evidence_of("shipments-2", Fault::missing()),
            ]),
        ),
        (
            "a partition without a commit is left, whatever else is wrong with it",
            to(by_time(&[(1, Ok(Some(31))), (2, Ok(Some(31)))]), |s| {
                reading(&mut s.seen, 0).committed = Ok(None);
                reading(&mut s.seen, 0).log = Err(Fault::NoLeader);
            }),
            Planned_(
                vec![(1, Some(commit(43)), Some(CommittedOffset::bare(31)))],
                vec![(0, NoCommit), (2, AlreadyThere)],
                vec![],
            ),
        ),
        (
            "metadata stays where the position is",
            to(
                by_time(&[(0, Ok(Some(31))), (1, Ok(Some(31))), (2, Ok(Some(31)))]),
                |s| {
                    reading(&mut s.seen, 0).committed = Ok(Some(with_metadata(31, "kept")));
                    reading(&mut s.seen, 1).committed = Ok(Some(with_metadata(43, "dropped")));
                },
            ),
            Planned_(
                vec![(
                    1,
                    Some(with_metadata(43, "dropped")),
                    Some(CommittedOffset::bare(31)),
                )],
                vec![(0, AlreadyThere), (2, AlreadyThere)],
                vec![Warning::MetadataDropped { partitions: 1 }],
            ),
        ),
    ]);
}

/// Record 5 of 43 is dated 2031, and is found for every time of today.
#[test]
fn a_record_that_is_dated_ahead_of_all_others_is_told() {
    let ahead = "2031-01-01T00:00:00Z".parse().unwrap();
    let found = |offset, dated, overtaken| FoundByTime {
        offset,
        dated: Some(dated),
        overtaken,
    };
    let asked = at("08:00:00");
    let behind = |dated| found(5, dated, None).to_ask_behind(asked);
    assert_eq!(behind(at("08:00:59")), None, "a pause is no disorder");
    assert_eq!(behind(at("08:01:01")), Some(at("08:01:01.001")));

    let warned = |found: FoundByTime| {
        let offsets = (0..3).map(|n| (p(n), Ok(Some(found_at(31)))));
        let mut offsets: BTreeMap<_, _> = offsets.collect();
        offsets.insert(p(1), Ok(Some(found)));
        let plan = to(Goal::Time(asked, offsets), |_| {}).ready();
        assert_eq!(plan.moves[0].to, Some(CommittedOffset::bare(found.offset)));
        plan.warnings
    };
    let told = Warning::TimesOutOfOrder {
        partition: p(1),
        offset: 5,
        dated: ahead,
    };
    assert_eq!(warned(found(5, ahead, Some(false))), [told]);
    assert_eq!(
        warned(found(5, ahead, Some(true))),
        [],
        "a later one follows"
    );
    assert_eq!(warned(found(42, ahead, Some(false))), [], "none follows");
    assert_eq!(warned(found(5, ahead, None)), [], "it is not known");
}

#[test]
fn named_offsets() {
    check(vec![
        (
            "one partition; the others are not asked for, and their state is no matter",
            to(Goal::offsets(&[(1, 31)]), |s| {
                reading(&mut s.seen, 0).committed = Err(Fault::Unstable);
                reading(&mut s.seen, 2).log = Err(Fault::NoLeader);
            }),
            Planned_(
                vec![(1, Some(commit(43)), Some(CommittedOffset::bare(31)))],
                vec![(0, NotSelected), (2, NotSelected)],
                vec![],
            ),
        ),
        (
            "a partition that the group does not have, named in two ways",
            to(Goal::offsets(&[(1, 31), (9, 31)]), |s| {
                s.selection = only("shipments", Some(vec![1, 9]));
            }),
            Refused(vec![unknown(p(9))]),
        ),
        (
            "a partition without a commit",
            to(Goal::offsets(&[(0, 31), (1, 31)]), |s| {
                s.allow.restore_missing = true;
                reading(&mut s.seen, 0).committed = Ok(None);
            }),
            Refused(vec![unknown(p(0))]),
        ),
        (
            "named offsets bring no group back: there is no memory of it",
            to(Goal::offsets(&[(0, 31), (1, 31)]), |s| {
                s.allow.restore_missing = true;
                make_dead(&mut s.seen);
                commit_nothing(&mut s.seen);
            }),
            Refused(vec![
                Refusal::GroupNotFound {
                    group: group(),
                    near: None,
                },
                unknown(p(0)),
                unknown(p(1)),
            ]),
        ),
        (
            "offsets that other tools mean something else by",
            to(Goal::offsets(&[(0, -1), (1, -2)]), |s| {
                s.allow.clamp = true;
                s.allow.forward = true;
            }),
            Refused(vec![
                Refusal::InvalidRequest {
                    field: "to_offsets".into(),
                    problem:
                        "-1 for shipments-0 is no offset; write one from 0 on, or use to_earliest"
                            .into(),
                },
                Refusal::InvalidRequest {
                    field: "to_offsets".into(),
                    problem:
                        "-2 for shipments-1 is no offset; write one from 0 on, or use to_earliest"
                            .into(),
                },
            ]),
        ),
        (
            "above the log and below it, and ahead of the group",
            to(Goal::offsets(&[(0, 44), (1, 1), (2, 43)]), |s| {
                reading(&mut s.seen, 1).log = Ok(log(2, 43));
            }),
            Refused(vec![above(0, 44, 43), below(1, 1, 2), forward(2, 31, 43)]),
        ),
        (
            "ahead of the group, allowed",
            to(Goal::offsets(&[(2, 43)]), |s| s.allow.forward = true),
            Planned_(
                vec![(2, Some(commit(31)), Some(CommittedOffset::bare(43)))],
                vec![(0, NotSelected), (1, NotSelected)],
                vec![Warning::Skips { offsets: 12 }],
            ),
        ),
        (
            "no offset at all",
            to(Goal::offsets(&[]), |_| {}),
            Refused(vec![Refusal::NothingSelected { group: group() }]),
        ),
        (
            "offsets that the selection leaves out",
            to(Goal::offsets(&[(1, 31)]), |s| {
                s.selection = only("shipments", Some(vec![0]));
            }),
            Refused(vec![Refusal::NothingSelected { group: group() }]),
        ),
    ]);
}

#[test]
fn shifts_and_the_log_start() {
    check(vec![
        (
            "two back",
            to(Goal::Shift(-2), |_| {}),
            Planned_(
                [(0, 31), (1, 43), (2, 31)]
                    .map(|(n, at)| (n, Some(commit(at)), Some(CommittedOffset::bare(at - 2))))
                    .into(),
                vec![],
                vec![],
            ),
        ),
        (
            "forward",
            to(Goal::Shift(5), |_| {}),
            Refused(vec![
                forward(0, 31, 36),
                above(1, 48, 43),
                forward(2, 31, 36),
            ]),
        ),
        (
            "back beyond the first offset there ever was",
            to(Goal::Shift(i64::MIN), |s| {
                s.selection = only("shipments", Some(vec![0]));
            }),
            Refused(vec![below(0, i64::MIN + 31, 0)]),
        ),
        (
            "the same, allowed: no record is lost that never was",
            to(Goal::Shift(-40), |s| {
                s.selection = only("shipments", Some(vec![0]));
                s.allow.clamp = true;
            }),
            Planned_(
                vec![(0, Some(commit(31)), Some(CommittedOffset::bare(0)))],
                vec![(1, NotSelected), (2, NotSelected)],
                vec![may_rise(1, 43)],
            ),
        ),
        (
            "beyond every number",
            to(Goal::Shift(i64::MAX), |s| {
                s.selection = only("shipments", Some(vec![0]));
            }),
            Refused(vec![above(0, i64::MAX, 43)]),
        ),
        (
            "to the log start; one partition is there, and one has no commit",
            to(Goal::Earliest, |s| {
                reading(&mut s.seen, 0).committed = Ok(Some(commit(0)));
                reading(&mut s.seen, 1).log = Ok(log(7, 43));
                reading(&mut s.seen, 2).committed = Ok(None);
            }),
            Planned_(
                vec![(1, Some(commit(43)), Some(CommittedOffset::bare(7)))],
                vec![(0, AlreadyThere), (2, NoCommit)],
                vec![may_rise(1, 36)],
            ),
        ),
        (
            "to the log start from before it: a rescue, and no step forward",
            to(Goal::Earliest, |s| {
                s.selection = only("shipments", Some(vec![0]));
                reading(&mut s.seen, 0).committed = Ok(Some(commit(3)));
                reading(&mut s.seen, 0).log = Ok(log(5, 43));
            }),
            Planned_(
                vec![(0, Some(commit(3)), Some(CommittedOffset::bare(5)))],
                vec![(1, NotSelected), (2, NotSelected)],
                vec![may_rise(1, 38)],
            ),
        ),
    ]);
}

#[test]
fn selections() {
    check(vec![
        (
            "a topic by name",
            incident(|s| s.selection = only("shipments", None)),
            back_to_31(vec![]),
        ),
        (
            "a topic that the group does not know",
            incident(|s| s.selection = only("orders", None)),
            Refused(vec![Refusal::TopicUnknown {
                topic: "orders".into(),
            }]),
        ),
        (
            "a topic and a partition that it does not know",
            incident(|s| {
                s.selection = Selection::Only(
                    [
                        ("orders".to_owned(), Some(vec![0])),
                        ("shipments".to_owned(), Some(vec![1, 8])),
                    ]
                    .into(),
                );
            }),
            Refused(vec![
                Refusal::TopicUnknown {
                    topic: "orders".into(),
                },
                unknown(p(8)),
            ]),
        ),
        (
            "nothing, in two ways",
            incident(|s| s.selection = Selection::Only(BTreeMap::new())),
            Refused(vec![Refusal::NothingSelected { group: group() }]),
        ),
        (
            "no partition of a topic",
            incident(|s| s.selection = only("shipments", Some(vec![]))),
            Refused(vec![Refusal::NothingSelected { group: group() }]),
        ),
        (
            "a partition that is where it should be",
            incident(|s| s.selection = only("shipments", Some(vec![0]))),
            Nothing(vec![(0, AlreadyThere), (1, NotSelected), (2, NotSelected)]),
        ),
        (
            "a partition that the checkpoint knows and the reading left out is no unknown one",
            incident(|s| {
                s.selection = only("shipments", Some(vec![1]));
                s.seen.partitions.remove(&p(1));
            }),
            Refused(vec![evidence_of("shipments-1", Fault::missing())]),
        ),
    ]);
}

#[test]
fn undo() {
    /// The scene after the incident's plan was applied, and its undo.
    fn undone(change: impl FnOnce(&mut Scene)) -> Scene {
        let scene = Scene::incident();
        let plan = scene.ready();
        let mut undone = Scene {
            goal: Goal::undo(plan.clone(), pre_image(&plan)),
            ..scene
        };
        apply(&plan, &mut undone.seen);
        undone.changed(change)
    }
    /// The undo of a plan that brought the whole group back.
    fn brought_back(change: impl FnOnce(&mut Scene)) -> Scene {
        let scene = incident(|s| {
            s.allow.restore_missing = true;
            make_dead(&mut s.seen);
            commit_nothing(&mut s.seen);
        });
        let plan = scene.ready();
        let mut undone = Scene {
            goal: Goal::undo(plan.clone(), pre_image(&plan)),
            allow: Allowances::default(),
            ..scene
        };
        apply(&plan, &mut undone.seen);
        undone.changed(change)
    }
    let nothing = |why: &str| Refusal::NothingToUndo {
        plan: PlanId("plan-1".into()),
        why: why.to_owned(),
    };
    let others = || vec![(0, NotMovedThen), (2, NotMovedThen)];
    check(vec![
        (
            "forward again, without being asked whether that is allowed",
            undone(|_| {}),
            Planned_(
                vec![(1, Some(commit(31)), Some(commit(43)))],
                others(),
                vec![Warning::Skips { offsets: 12 }],
            ),
        ),
        (
            "what the plan did not move is no matter",
            undone(|s| {
                reading(&mut s.seen, 0).committed = Err(Fault::Unstable);
                reading(&mut s.seen, 2).committed = Ok(Some(commit(40)));
            }),
            Planned_(
                vec![(1, Some(commit(31)), Some(commit(43)))],
                others(),
                vec![Warning::Skips { offsets: 12 }],
            ),
        ),
        (
            "the group has gone on",
            undone(|s| reading(&mut s.seen, 1).committed = Ok(Some(commit(35)))),
            Refused(vec![nothing(
                "it left shipments-1 at 31, which is at 35 now",
            )]),
        ),
        (
            "the same offset was committed again, with metadata",
            undone(|s| reading(&mut s.seen, 1).committed = Ok(Some(with_metadata(31, "new")))),
            Refused(vec![nothing(
                "it left shipments-1 at 31, which was committed again since with another epoch or metadata",
            )]),
        ),
        (
            "the commit is gone",
            undone(|s| reading(&mut s.seen, 1).committed = Ok(None)),
            Refused(vec![nothing(
                "it left shipments-1 at 31, which is at no commit now",
            )]),
        ),
        (
            "of another group",
            undone(|s| {
                s.earlier().plan.group = GroupId("another".into());
            }),
            Refused(vec![nothing("it belongs to another group")]),
        ),
        (
            "on another cluster",
            undone(|s| s.seen.cluster_id = ClusterId("cluster-b".into())),
            Refused(vec![Refusal::ClusterMismatch {
                required: "cluster-a".into(),
                seen: "cluster-b".into(),
            }]),
        ),
        (
            "the topic was created again since",
            undone(|s| {
                s.seen.topics.insert("shipments".into(), topic(8, 3));
            }),
            Refused(vec![Refusal::TopicRecreated {
                topic: "shipments".into(),
                then: id(7).unwrap().to_string(),
                now: id(8).unwrap().to_string(),
            }]),
        ),
        (
            "the log is shorter than when the plan was made",
            undone(|s| {
                s.earlier().plan.moves[0].log.high = 60;
            }),
            Refused(vec![truncated(1, 60, 43)]),
        ),
        (
            "retention has passed where the group was",
            undone(|s| {
                reading(&mut s.seen, 1).log = Ok(log(50, 60));
            }),
            Refused(vec![below(1, 43, 50)]),
        ),
        (
            "a group that was brought back: its commits are removed",
            brought_back(|_| {}),
            Planned_(
                (0..3).map(|n| (n, Some(commit(31)), None)).collect(),
                vec![],
                vec![Warning::Removes { partitions: 3 }, Warning::AssignOnly],
            ),
        ),
        (
            "some of a group that was brought back",
            brought_back(|s| s.selection = only("shipments", Some(vec![2]))),
            Planned_(
                vec![(2, Some(commit(31)), None)],
                vec![(0, NotSelected), (1, NotSelected)],
                vec![Warning::Removes { partitions: 1 }, Warning::AssignOnly],
            ),
        ),
    ]);

    // The undo of an undo that removed everything brings a group back, which has to be allowed.
    let removal = brought_back(|_| {});
    let plan = removal.ready();
    let mut again = Scene {
        goal: Goal::undo(plan.clone(), pre_image(&plan)),
        ..removal
    };
    apply(&plan, &mut again.seen);
    assert_eq!(
        again.refused(),
        vec![Refusal::GroupNotFound {
            group: group(),
            near: None
        }]
    );
    again.allow.restore_missing = true;
    let plan = again.ready();
    assert!(plan.creates_group());
    assert_eq!(plan.moves.len(), 3);
    assert_eq!(plan.moves[0].to, Some(commit(31)));
}

#[test]
fn what_a_plan_disowns() {
    let disowned = |scene: Scene| scene.ready().disowns.map(|disowns| disowns.after);
    assert_eq!(disowned(Scene::incident()), Some(at("08:00:00")));
    // A plan that only goes forward undoes nothing; one that also goes back does.
    let ahead = |scene: &mut Scene| {
        scene.allow.forward = true;
        reading(&mut scene.seen, 0).committed = Ok(Some(commit(20)));
    };
    let mixed = incident(ahead);
    assert_eq!(disowned(mixed), Some(at("08:00:00")));
    let forward_alone = incident(|s| {
        ahead(s);
        reading(&mut s.seen, 1).committed = Ok(Some(commit(31)));
    });
    assert_eq!(disowned(forward_alone), None);

    // Without a source checkpoint, the history of checkpoints has to say.
    let by_time = (0..3).map(|n| (p(n), Ok(Some(found_at(31))))).collect();
    for goal in [
        Goal::Time(at("08:00:00"), by_time),
        Goal::offsets(&[(1, 31)]),
        Goal::Shift(-1),
        Goal::Earliest,
    ] {
        assert_eq!(disowned(Scene::from(goal)), None);
    }
    // A checkpoint by a clock that is ahead has no time after it.
    let ahead_of_time = incident(|s| s.source().ended_at = at("23:00:00"));
    assert_eq!(disowned(ahead_of_time), None);
}

#[test]
fn a_plan_says_what_it_was_made_of() {
    let plan = incident(|s| {
        live(s);
        waits(s);
    })
    .ready();
    assert_eq!(plan.cluster, "local");
    assert_eq!(plan.cluster_id.0, "cluster-a");
    assert_eq!(plan.group.0, "shipment-sync");
    assert_eq!(plan.state, GroupState::Stable);
    assert_eq!(plan.config_hash, "config-1");
    assert_eq!(plan.created_at, at("09:30:01"));
    assert_eq!(plan.approve_by, at("10:29:01"));
    assert!(plan.waits_for_empty);
    assert_eq!(plan.drift_limit, 100);
    assert_eq!(
        plan.source,
        Source::Checkpoint {
            id: CheckpointId("cp-0800".into()),
            ended_at: at("08:00:00"),
        }
    );
    assert_eq!(plan.requested_by, "ana");

    // Where nothing waits, nothing may move at all.
    let plan = Scene::incident().ready();
    assert!(!plan.waits_for_empty);
    assert_eq!(plan.drift_limit, 0);
}

#[test]
fn a_plan_of_four_eyes_begins_with_somebody_whom_the_issuer_knows() {
    let plan = |four_eyes, requester: Requester| {
        Scene::incident()
            .changed(|s| {
                s.policy.four_eyes = four_eyes;
                s.requester = requester;
            })
            .plan()
    };
    let mara = || Requester::Verified(Identity::new("https://id.example", "1", "Mara"));
    for (four_eyes, requester) in [
        (false, Requester::Unverified),
        (false, mara()),
        (true, mara()),
        (true, Requester::Guard),
    ] {
        match plan(four_eyes, requester.clone()) {
            PlanResult::Ready(plan) => {
                assert_eq!((plan.four_eyes, plan.requester), (four_eyes, requester));
            }
            other => panic!("{other:?}"),
        }
    }
    let refused = PlanResult::Refused(vec![Refusal::RequesterUnverified]);
    assert_eq!(plan(true, Requester::Unverified), refused);
    // With all other reasons, and first.
    let nowhere = Scene::from(Goal::Missing(Refusal::PlanNotFound {
        plan: PlanId("plan-0".into()),
    }))
    .changed(|s| s.policy.four_eyes = true);
    assert_eq!(nowhere.refused()[0], Refusal::RequesterUnverified);
    assert_eq!(nowhere.refused()[1].code(), "PLAN_NOT_FOUND");
}

/// Partition 0 stands at 31 of 43; this record, and what else, is passed over.
fn past(records: Vec<SkippedRecord>, change: impl FnOnce(&mut Scene)) -> Scene {
    to(Goal::skip(&[(0, 31)], records), change)
}

fn one() -> Vec<SkippedRecord> {
    vec![skipped(0, 31, kept(7))]
}

fn failing(mut skipped: SkippedRecord) -> SkippedRecord {
    skipped.failure = Some(failure(skipped.record.offset));
    skipped
}

fn goes_to(target: i64, warnings: Vec<Warning>) -> Comes {
    Planned_(
        vec![(0, Some(commit(31)), Some(CommittedOffset::bare(target)))],
        vec![(1, NotSelected), (2, NotSelected)],
        warnings,
    )
}

fn stands_elsewhere(planned: Option<i64>, seen: Option<i64>) -> Comes {
    Refused(vec![Refusal::PlanStale {
        changed: Stale::CommittedOffset {
            partition: p(0),
            planned,
            seen,
            limit: 0,
        },
    }])
}

#[test]
fn past_named_records() {
    let skips = |offsets| Warning::Skips { offsets };
    check(vec![
        (
            "past one record; the rest is left alone, whatever it is",
            past(one(), |s| {
                reading(&mut s.seen, 1).log = Err(Fault::NoLeader)
            }),
            goes_to(32, vec![skips(1)]),
        ),
        (
            "past a record after a gap: the target is right after it",
            past(vec![skipped(0, 36, kept(7))], |_| {}),
            goes_to(37, vec![skips(6)]),
        ),
        (
            "past the last record of the log",
            past(vec![skipped(0, 42, kept(7))], |_| {}),
            goes_to(43, vec![skips(12)]),
        ),
        (
            "past a run of bad records: one move",
            past(
                (31..34).map(|n| failing(skipped(0, n, kept(n)))).collect(),
                |_| {},
            ),
            goes_to(34, vec![skips(3)]),
        ),
        (
            "past a range that somebody named, with good records in it",
            past(
                vec![
                    skipped(0, 31, kept(7)),
                    failing(skipped(0, 32, kept(8))),
                    skipped(0, 33, kept(9)),
                ],
                |_| {},
            ),
            goes_to(
                34,
                vec![skips(3), Warning::GoodRecordsSkipped { records: 2 }],
            ),
        ),
        (
            "past a record of which no copy is kept",
            past(vec![skipped(0, 31, Kept::No)], |_| {}),
            goes_to(32, vec![skips(1), Warning::RecordsLost { records: 1 }]),
        ),
        (
            "a dry run, in which nothing is kept yet",
            past(vec![skipped(0, 31, Kept::NotYet)], |_| {}),
            goes_to(32, vec![skips(1)]),
        ),
        (
            "two samples are all that it rests on",
            past(one(), |s| s.skip().two_samples = true),
            goes_to(32, vec![skips(1), Warning::TwoSamples]),
        ),
        (
            "metadata belongs to the offset that it was committed with",
            past(one(), |s| {
                reading(&mut s.seen, 0).committed = Ok(Some(with_metadata(31, "bitmap")));
            }),
            Planned_(
                vec![(
                    0,
                    Some(with_metadata(31, "bitmap")),
                    Some(CommittedOffset::bare(32)),
                )],
                vec![(1, NotSelected), (2, NotSelected)],
                vec![skips(1), Warning::MetadataDropped { partitions: 1 }],
            ),
        ),
        (
            "the group moved on since its records were read",
            past(one(), |s| {
                reading(&mut s.seen, 0).committed = Ok(Some(commit(32)))
            }),
            stands_elsewhere(Some(31), Some(32)),
        ),
        (
            "the group went back since: what lies before would be lost with it",
            past(one(), |s| {
                reading(&mut s.seen, 0).committed = Ok(Some(commit(30)))
            }),
            stands_elsewhere(Some(31), Some(30)),
        ),
        (
            "its commit is gone",
            past(one(), |s| reading(&mut s.seen, 0).committed = Ok(None)),
            stands_elsewhere(Some(31), None),
        ),
        (
            "a transaction of the group has a commit pending",
            past(one(), |s| {
                reading(&mut s.seen, 0).committed = Err(Fault::Unstable)
            }),
            Refused(vec![Refusal::UnstableOffsets { partition: p(0) }]),
        ),
        (
            "the log lost the record",
            past(one(), |s| reading(&mut s.seen, 0).log = Ok(log(0, 31))),
            Refused(vec![above(0, 32, 31)]),
        ),
        (
            "retention has passed the target",
            past(one(), |s| reading(&mut s.seen, 0).log = Ok(log(33, 43))),
            Refused(vec![below(0, 32, 33)]),
        ),
        (
            "the group lives, and nobody waits for it to stop",
            past(one(), live),
            Refused(vec![Refusal::GroupActive {
                state: "Stable".into(),
                members: vec![member_seen("worker-a"), member_seen("worker-b")],
            }]),
        ),
    ]);
}

/// Between plan and apply a group that passes over named records may not move at all, whatever the policy lets others do.
#[test]
fn past_named_records_of_a_group_that_lives_waits_for_it_and_lets_nothing_drift() {
    let scene = past(one(), |s| {
        live(s);
        waits(s);
        s.policy.drift_limit = 100;
    });
    let plan = scene.ready();
    assert!(plan.waits_for_empty);
    assert_eq!(plan.drift_limit, 0);
    assert_eq!(plan.source, Source::Skip);
    assert_eq!(plan.skips, one());
    assert_eq!(plan.disowns, None);
    assert!(!plan.goes_back());
    assert_eq!(check_plan(&plan), Vec::<String>::new());
}

#[test]
fn a_skip_that_is_damaged_is_noticed() {
    let scene = to(
        Goal::skip(
            &[(0, 31), (2, 31)],
            vec![
                skipped(0, 31, kept(7)),
                skipped(0, 32, kept(8)),
                skipped(2, 33, kept(9)),
            ],
        ),
        |_| {},
    );
    let plan = scene.ready();
    assert_eq!(check_plan(&plan), Vec::<String>::new());
    type Damage = fn(&mut Plan);
    let damages: [(&str, Damage, &str); 9] = [
        (
            "a record is left out",
            |p| drop(p.skips.remove(2)),
            "shipments-2 does not move to right after",
        ),
        (
            "the last one is left out",
            |p| drop(p.skips.remove(1)),
            "shipments-0 does not move to right after",
        ),
        (
            "one is there twice",
            |p| p.skips.insert(1, p.skips[0].clone()),
            "not in order",
        ),
        (
            "they are out of order",
            |p| p.skips.swap(0, 1),
            "not in order",
        ),
        (
            "one lies before the commit",
            |p| p.skips[0].record.offset = 30,
            "shipments-0 does not move to right after",
        ),
        (
            "it goes further than its records",
            |p| p.moves[0].to = Some(CommittedOffset::bare(34)),
            "shipments-0 does not move to right after",
        ),
        (
            "a partition that names records does not move",
            |p| drop(p.moves.remove(1)),
            "a partition that it does not move",
        ),
        (
            "it drifts",
            |p| p.drift_limit = 1,
            "passes over named records",
        ),
        (
            "it says that it is something else",
            |p| p.source = Source::Offsets,
            "it is no skip",
        ),
    ];
    for (what, damage, says) in damages {
        let mut damaged = plan.clone();
        damage(&mut damaged);
        let wrong = check_plan(&damaged);
        assert!(wrong.iter().any(|w| w.contains(says)), "{what}: {wrong:?}");
        assert_ne!(damaged.digest(), plan.digest(), "{what}");
    }
}

/// What is approved is what is passed over and where it is kept: any change of it is another plan.
#[test]
fn the_digest_is_over_the_records_too() {
    let plan = past(one(), |_| {}).ready();
    let changes: [fn(&mut SkippedRecord); 8] = [
        |s| s.record.offset += 1,
        |s| s.record.leader_epoch = None,
        |s| s.record.timestamp_ms += 1,
        |s| s.record.value_bytes = None,
        |s| s.record.fingerprint.0.push('0'),
        |s| s.dedupe_id.0.push('0'),
        |s| s.failure = Some(failure(31)),
        |s| s.kept = Kept::No,
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let mut other = plan.clone();
        change(&mut other.skips[0]);
        assert_ne!(other.digest(), plan.digest(), "change {n}");
    }
}

/// What cannot be kept is named where the approver reads what is left alone, and decides nothing about the others.
#[test]
fn what_is_withheld_is_named_with_its_reason_and_stands_in_the_digest() {
    let scene = |withheld: &str| {
        past(one(), |scene| {
            scene.skip().withheld = [(p(2), withheld.to_owned())].into();
            scene.skip().cautions = vec![Warning::CopiesExpire {
                topic: "kept".to_owned(),
                after_seconds: 604_800,
            }];
        })
    };
    let plan = scene("the copy is too large").ready();
    let why = "the copy is too large".to_owned();
    assert_eq!(
        plan.left_alone,
        [(p(1), NotSelected), (p(2), LeftAlone::Withheld { why }),]
    );
    assert_eq!(plan.moves.len(), 1);
    assert_eq!(check_plan(&plan), Vec::<String>::new());
    let caution = Warning::CopiesExpire {
        topic: "kept".to_owned(),
        after_seconds: 604_800,
    };
    assert!(plan.warnings.contains(&caution), "{:?}", plan.warnings);
    assert_ne!(plan.digest(), scene("another reason").ready().digest());
}
