//! What holds of every plan, whatever the group, its logs and the request are.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::approval::Change;
use super::checkpoint::{Anomaly, CheckpointHeader};
use super::group::{GroupState, GroupType};
use super::identity::{Identity, Requester};
use super::ids::{CheckpointId, PlanId};
use super::offset::{ClusterId, CommittedOffset, Fault, GroupId, TopicPartition, Watermarks};
use super::plan::{
    Disowns, LeftAlone, PartitionMove, Plan, PlanResult, Source, Warning, check_plan,
};
use super::recovery::{AlterAnswer, Outcome, PartitionOutcome, PreImage, judge};
use super::request::{Allowances, Selection};
use crate::testing::*;

/// One partition of a random scene: its log, where the group is, where the checkpoint has it.
#[derive(Debug, Clone)]
struct Spot {
    log_start: i64,
    length: i64,
    epoch: Option<i32>,
    now: Option<CommittedOffset>,
    then: Option<Option<CommittedOffset>>,
    by_time: Option<i64>,
    named: Option<i64>,
}

impl Spot {
    fn log(&self) -> Watermarks {
        Watermarks {
            leader_epoch: self.epoch,
            ..log(self.log_start, self.log_start + self.length)
        }
    }
}

fn arb_commit() -> impl Strategy<Value = CommittedOffset> {
    let metadata = select(vec!["", "", "a", "b"]);
    (0..60_i64, option::of(0..9_i32), metadata).prop_map(|(offset, leader_epoch, metadata)| {
        CommittedOffset {
            offset,
            leader_epoch,
            metadata: metadata.as_bytes().to_vec(),
        }
    })
}

fn arb_spot() -> impl Strategy<Value = Spot> {
    (
        0..20_i64,
        0..40_i64,
        option::of(0..9_i32),
        option::weighted(0.9, arb_commit()),
        option::weighted(0.9, option::weighted(0.9, arb_commit())),
        option::of(0..60_i64),
        option::of(0..60_i64),
    )
        .prop_map(
            |(log_start, length, epoch, now, then, by_time, named)| Spot {
                log_start,
                length,
                epoch,
                now,
                then,
                by_time,
                named,
            },
        )
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Checkpoint,
    Time,
    Offsets,
    Shift(i64),
    Earliest,
}

fn arb_kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        4 => Just(Kind::Checkpoint),
        1 => Just(Kind::Time),
        1 => Just(Kind::Offsets),
        1 => prop_oneof![-60..60_i64, Just(i64::MIN), Just(i64::MAX)].prop_map(Kind::Shift),
        1 => Just(Kind::Earliest),
    ]
}

fn arb_allow() -> impl Strategy<Value = Allowances> {
    // Mostly everything, so that plans come of it.
    let mostly = || prop::bool::weighted(0.9);
    (mostly(), mostly(), mostly()).prop_map(|(clamp, forward, restore_missing)| Allowances {
        clamp,
        forward,
        restore_missing,
        stateful: false,
    })
}

/// A scene of those partitions; partition `n` is the n-th spot.
fn scene(spots: &[Spot], kind: Kind, allow: Allowances) -> Scene {
    let numbered = || (0..).map(p).zip(spots);
    let count = i32::try_from(spots.len()).unwrap();
    let zeroes = vec![0; spots.len()];
    let mut now = seen(&zeroes, &zeroes);
    now.topics.insert("shipments".into(), topic(7, count));
    for (partition, spot) in numbered() {
        let reading = now.partitions.get_mut(&partition).unwrap();
        reading.committed = Ok(spot.now.clone());
        reading.log = Ok(spot.log());
    }
    let goal = match kind {
        Kind::Checkpoint => {
            let mut then = now.clone();
            // One partition is always committed, or there would be no checkpoint.
            let first = CommittedOffset::bare(0);
            for (partition, spot) in numbered() {
                match &spot.then {
                    None => drop(then.partitions.remove(&partition)),
                    Some(committed) => {
                        then.partitions.get_mut(&partition).unwrap().committed =
                            Ok(committed.clone());
                    }
                }
            }
            if then.has_no_commits() {
                let reading = now.partitions[&p(0)].clone();
                then.partitions.insert(p(0), reading);
                then.partitions.get_mut(&p(0)).unwrap().committed = Ok(Some(first));
            }
            Goal::checkpoint(checkpoint_at("cp-0800", "08:00:00", then))
        }
        Kind::Time => Goal::Time(
            at("08:00:00"),
            numbered()
                .map(|(partition, spot)| (partition, Ok(spot.by_time.map(found_at))))
                .collect(),
        ),
        Kind::Offsets => Goal::Offsets(
            numbered()
                .filter_map(|(partition, spot)| Some((partition, spot.named?)))
                .collect(),
        ),
        Kind::Shift(by) => Goal::Shift(by),
        Kind::Earliest => Goal::Earliest,
    };
    Scene {
        seen: now,
        allow,
        ..Scene::from(goal)
    }
}

fn arb_scene() -> impl Strategy<Value = (Vec<Spot>, Kind, Allowances)> {
    (vec(arb_spot(), 1..6), arb_kind(), arb_allow())
}

/// The plan of a scene, where there is one.
fn planned(scene: &Scene) -> Result<Plan, TestCaseError> {
    match scene.plan() {
        PlanResult::Ready(plan) => Ok(plan),
        PlanResult::Refused(_) | PlanResult::NothingToDo(_) => {
            Err(TestCaseError::reject("there is no plan"))
        }
    }
}

type Mutation = (&'static str, fn(&mut Plan));

/// What can be broken in a plan without anybody noticing, if nobody looked.
fn breakages() -> Vec<Mutation> {
    vec![
        ("no moves", |plan| plan.moves.clear()),
        ("a move twice", |plan| {
            plan.moves.insert(0, plan.moves[0].clone());
        }),
        ("moves out of order", |plan| {
            let mut before = plan.moves[0].clone();
            before.partition.partition = -1;
            plan.moves.push(before);
        }),
        ("a move to where it is", |plan| {
            plan.moves[0].from = plan.moves[0].to.clone();
        }),
        ("a target above the log", |plan| {
            let m = &mut plan.moves[0];
            m.to = Some(CommittedOffset::bare(m.log.high + 1));
        }),
        ("a target below the log", |plan| {
            let m = &mut plan.moves[0];
            m.to = Some(CommittedOffset::bare(m.log.log_start - 1));
        }),
        ("a commit that is removed", |plan| {
            plan.moves[0].from = Some(CommittedOffset::bare(1));
            plan.moves[0].to = None;
        }),
        ("an epoch that the log has not reached", |plan| {
            let m = &mut plan.moves[0];
            m.to.as_mut().unwrap().leader_epoch = Some(m.log.leader_epoch.map_or(0, |e| e + 1));
        }),
        ("metadata at an offset that nobody committed", |plan| {
            plan.source = Source::Offsets;
            plan.moves[0].to.as_mut().unwrap().metadata = b"x".to_vec();
        }),
        ("a loss that does not begin at the log start", |plan| {
            let m = &mut plan.moves[0];
            m.log.log_start -= 1;
            m.to = Some(CommittedOffset::bare(m.log.log_start + 1));
            m.log.high = m.log.high.max(m.log.log_start + 1);
            m.lost = 1;
        }),
        ("a target that may rise beyond what was there", |plan| {
            let m = &mut plan.moves[0];
            m.may_rise_to = Some(m.log.high + 1);
        }),
        ("a target that may rise to below itself", |plan| {
            let m = &mut plan.moves[0];
            let to = m.to.as_ref().unwrap().offset;
            m.may_rise_to = Some(to - 1);
        }),
        ("moved and left alone", |plan| {
            let partition = plan.moves[0].partition.clone();
            plan.left_alone = vec![(partition, LeftAlone::AlreadyThere)];
        }),
        ("left alone twice", |plan| {
            let other = (p(99), LeftAlone::NotSelected);
            plan.left_alone = vec![other.clone(), other];
        }),
        ("no time to approve", |plan| {
            plan.approve_by = plan.created_at
        }),
        ("no time to apply", |plan| plan.apply_within_seconds = 0),
        ("drift without a wait", |plan| plan.drift_limit = 1),
        ("a live group without a wait", |plan| {
            plan.state = GroupState::Stable;
            plan.warnings.clear();
        }),
        ("a group that is created over its commits", |plan| {
            plan.warnings.push(Warning::CreatesGroup);
            plan.moves[0].from = Some(CommittedOffset::bare(0));
            plan.moves[0].to = Some(CommittedOffset::bare(plan.moves[0].log.high));
        }),
        ("a future that is disowned", |plan| {
            plan.disowns = Some(Disowns {
                after: at("09:30:02"),
            });
        }),
    ]
}

/// Everything of a plan that decides what happens, or what its approver believes to happen.
fn changes() -> Vec<Mutation> {
    vec![
        ("id", |plan| plan.id = PlanId("plan-2".into())),
        ("cluster", |plan| plan.cluster.push('2')),
        ("cluster id", |plan| {
            plan.cluster_id = ClusterId("cluster-b".into());
        }),
        ("group", |plan| plan.group = GroupId("another".into())),
        ("group type", |plan| plan.group_type = GroupType::Consumer),
        ("state", |plan| plan.state = GroupState::Stable),
        ("configuration", |plan| plan.config_hash.push('2')),
        ("created at", |plan| plan.created_at = at("09:30:02")),
        ("approve by", |plan| plan.approve_by = at("10:29:02")),
        ("apply within", |plan| plan.apply_within_seconds += 1),
        ("wait", |plan| plan.waits_for_empty = true),
        ("drift", |plan| plan.drift_limit += 1),
        ("source", |plan| plan.source = Source::Earliest),
        ("checkpoint", |plan| {
            plan.source = Source::Checkpoint {
                id: CheckpointId("cp-0801".into()),
                ended_at: at("08:00:00"),
            };
        }),
        ("checkpoint's time", |plan| {
            plan.source = Source::Checkpoint {
                id: CheckpointId("cp-0800".into()),
                ended_at: at("08:00:01"),
            };
        }),
        ("disowned time", |plan| plan.disowns = None),
        ("requester", |plan| plan.requested_by.push('2')),
        ("requester's further names", |plan| {
            let mara = Identity::new("https://id.example", "1", "Mara");
            plan.requester = Requester::Verified(mara.with_aliases(["mara@example.com"]));
        }),
        ("requester's proof", |plan| {
            plan.requester = Requester::Guard
        }),
        ("four eyes", |plan| plan.four_eyes = true),
        ("reason", |plan| plan.reason.push('\n')),
        ("warning", |plan| plan.warnings.push(Warning::AssignOnly)),
        ("warning's count", |plan| {
            plan.warnings.push(Warning::Lost { offsets: 7 });
        }),
        ("one move less", |plan| plan.moves.clear()),
        ("topic", |plan| {
            plan.moves[0].partition.topic = "returns".into();
        }),
        ("partition", |plan| plan.moves[0].partition.partition = 0),
        ("topic id", |plan| plan.moves[0].topic_id = id(8)),
        ("unknown topic id", |plan| plan.moves[0].topic_id = None),
        ("current", |plan| plan.moves[0].from = None),
        ("current offset", |plan| {
            plan.moves[0].from.as_mut().unwrap().offset += 1;
        }),
        ("current epoch", |plan| {
            plan.moves[0].from.as_mut().unwrap().leader_epoch = Some(3);
        }),
        ("current metadata", |plan| {
            plan.moves[0].from.as_mut().unwrap().metadata.push(0);
        }),
        ("removal", |plan| plan.moves[0].to = None),
        ("target offset", |plan| {
            plan.moves[0].to.as_mut().unwrap().offset += 1;
        }),
        ("target epoch", |plan| {
            plan.moves[0].to.as_mut().unwrap().leader_epoch = None;
        }),
        ("target metadata", |plan| {
            plan.moves[0].to.as_mut().unwrap().metadata.push(0);
        }),
        ("log start", |plan| plan.moves[0].log.log_start += 1),
        ("last stable offset", |plan| {
            plan.moves[0].log.last_stable += 1;
        }),
        ("high watermark", |plan| plan.moves[0].log.high += 1),
        ("loss", |plan| plan.moves[0].lost += 1),
        ("rise", |plan| plan.moves[0].may_rise_to = Some(43)),
        ("another rise", |plan| plan.moves[0].may_rise_to = Some(42)),
        ("the log's epoch", |plan| {
            plan.moves[0].log.leader_epoch = None
        }),
        ("the form's version", |plan| plan.csv_version += 1),
        ("what is left alone", |plan| {
            plan.left_alone.pop();
        }),
        ("why it is left alone", |plan| {
            plan.left_alone[0].1 = LeftAlone::NotSelected;
        }),
    ]
}

#[test]
fn the_digest_covers_everything_that_decides() {
    let plan = Scene::incident().ready();
    let mut digests = BTreeMap::from([(plan.digest().0, "the plan itself")]);
    for (what, change) in changes() {
        let mut changed = plan.clone();
        change(&mut changed);
        let other = digests.insert(changed.digest().0, what);
        assert_eq!(other, None, "{what}: the same digest");
    }
    assert_eq!(plan.clone().digest(), plan.digest());
}

/// Brokers and tables answer in any order.
#[test]
fn the_order_of_what_was_read_is_no_matter() {
    let scene = |reversed: bool| {
        let turn = |n: usize| if reversed { 2 - n } else { n };
        let note = |n: usize| Anomaly::OffsetWentBackwards {
            partition: p(1),
            before: 60 + i64::try_from(n).unwrap(),
            after: 50,
        };
        Scene::incident().changed(|s| {
            s.policy.wait_for_empty_seconds = Some(600);
            describe(&mut s.seen).state = GroupState::Stable;
            describe(&mut s.seen).members = (0..3)
                .map(|n| member(&format!("worker-{}", turn(n))))
                .collect();
            s.selection = Selection::Only(
                [(
                    "shipments".to_owned(),
                    Some((0..3).map(|n| [2, 0, 1][turn(n)]).collect()),
                )]
                .into(),
            );
            let at_0900 = header(s.source());
            s.checkpoint_source().later = (0..3)
                .map(|n| CheckpointHeader {
                    anomalies: vec![note(turn(n))],
                    ..at_0900.clone()
                })
                .collect();
        })
    };
    assert_eq!(scene(false).ready(), scene(true).ready());
    assert_eq!(scene(false).ready().digest(), scene(true).ready().digest());
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 20_000, ..ProptestConfig::default() })]

    /// Planning never panics, and what it makes passes the check that shares no code with it.
    #[test]
    fn every_plan_is_sound((spots, kind, allow) in arb_scene()) {
        let scene = scene(&spots, kind, allow);
        let plan = planned(&scene)?;
        prop_assert_eq!(check_plan(&plan), Vec::<String>::new());
        for m in &plan.moves {
            let Some(to) = &m.to else { panic!("no undo") };
            prop_assert!(m.log.log_start <= to.offset && to.offset <= m.log.high, "{m:?}");
            prop_assert_eq!(Ok(&m.from), scene.seen.partitions[&m.partition].committed.as_ref());
            if !allow.forward {
                prop_assert_eq!(m.skipped(), 0);
            }
            if !allow.clamp {
                prop_assert_eq!(m.lost, 0);
            }
        }
        // Every partition is moved or left alone, and none is both.
        let named: BTreeSet<&TopicPartition> = plan.moves.iter().map(|m| &m.partition)
            .chain(plan.left_alone.iter().map(|(partition, _)| partition))
            .collect();
        prop_assert_eq!(named, scene.seen.partitions.keys().collect());
        prop_assert_eq!(plan.moves.len() + plan.left_alone.len(), scene.seen.partitions.len());
    }

    #[test]
    fn after_a_plan_there_is_nothing_left_to_do((spots, kind, allow) in arb_scene()) {
        let mut scene = scene(&spots, kind, allow);
        let plan = planned(&scene)?;
        // A shift from the new position is another shift.
        prop_assume!(!matches!(kind, Kind::Shift(_)));
        apply(&plan, &mut scene.seen);
        match scene.plan() {
            PlanResult::NothingToDo(left_alone) => {
                prop_assert_eq!(left_alone.len(), plan.moves.len() + plan.left_alone.len());
            }
            other => prop_assert!(false, "{other:?}"),
        }
    }

    /// The undo restores the pre-image: offset and metadata as they were, and the epoch unless the log has not
    /// reached it. Only where the group stood outside of its log is there no way back.
    #[test]
    fn an_undo_restores_what_was_there((spots, kind, allow) in arb_scene()) {
        let mut scene = scene(&spots, kind, allow);
        let plan = planned(&scene)?;
        let before = pre_image(&plan);
        apply(&plan, &mut scene.seen);
        let undone = Scene {
            seen: scene.seen.clone(),
            allow: Allowances::default(),
            ..Scene::from(Goal::undo(plan.clone(), before.clone()))
        };
        let outside = plan.moves.iter().any(|m| {
            m.from.as_ref().is_some_and(|f| f.offset < m.log.log_start || f.offset > m.log.high)
        });
        if outside {
            prop_assert!(matches!(undone.plan(), PlanResult::Refused(_)));
            return Ok(());
        }
        let undo = undone.ready();
        prop_assert_eq!(check_plan(&undo), Vec::<String>::new());
        prop_assert_eq!(undo.moves.len(), plan.moves.len());
        apply(&undo, &mut scene.seen);
        for m in &plan.moves {
            let restored = m.from.clone().map(|mut from| {
                let reached = |epoch: &i32| m.log.leader_epoch.is_some_and(|now| *epoch <= now);
                from.leader_epoch = from.leader_epoch.filter(reached);
                from
            });
            prop_assert_eq!(&scene.seen.partitions[&m.partition].committed, &Ok(restored));
        }
        // And the undo of the undo brings the plan's own targets back.
        let again = Scene {
            allow: Allowances { restore_missing: true, ..Allowances::default() },
            seen: scene.seen,
            ..Scene::from(Goal::undo(undo.clone(), pre_image(&undo)))
        }
        .ready();
        for (m, a) in plan.moves.iter().zip(&again.moves) {
            prop_assert_eq!(&m.to, &a.to);
        }
    }

    #[test]
    fn a_broken_plan_is_noticed((spots, kind, allow) in arb_scene(), which: Index) {
        let plan = planned(&scene(&spots, kind, allow))?;
        let breakages = breakages();
        let (what, break_it) = which.get(&breakages);
        let mut broken = plan;
        break_it(&mut broken);
        prop_assert!(!check_plan(&broken).is_empty(), "{what}: {broken:?}");
    }

    /// Whatever happened since, what is sent is what was approved, and only for partitions that are where the plan or
    /// the pre-image has them.
    #[test]
    fn nothing_else_is_ever_sent(
        (spots, kind, allow) in arb_scene(),
        waits: bool,
        since in vec((0..4_u8, 0..60_i64), 6),
        has_pre_image: bool,
        before in vec((0..3_u8, 0..60_i64), 6),
        deleted in vec(prop_oneof![2 => Just(0), 1 => 0..60_i64], 6),
        grown in 0..20_i64,
    ) {
        let mut scene = scene(&spots, kind, allow);
        if waits {
            scene.policy.wait_for_empty_seconds = Some(600);
            scene.policy.drift_limit = 5;
            describe(&mut scene.seen).members = vec![member("worker-a")];
        }
        planned(&scene)?;
        let mut applying = Apply::of(&scene);
        describe(&mut applying.seen).members.clear();
        let moves = applying.plan.moves.clone();
        if has_pre_image {
            applying.pre_image = Some(PreImage::of(
                moves.iter().zip(&before).map(|(m, (kind, offset))| {
                    let then = match kind {
                        0 => Some(CommittedOffset::bare(*offset)),
                        _ => m.from.clone(),
                    };
                    (m.partition.clone(), then)
                }).collect(),
            ));
        }
        for (m, (kind, offset)) in moves.iter().zip(&since) {
            let remembered = applying.pre_image.as_ref().and_then(|image| image.before.get(&m.partition));
            let now = match (kind, remembered) {
                (0, _) => m.to.clone(),
                (1, _) => Some(CommittedOffset::bare(*offset)),
                (2, Some(then)) => then.clone(),
                _ => m.from.clone(),
            };
            applying.seen.partitions.get_mut(&m.partition).unwrap().committed = Ok(now);
        }
        if !applying.seen.has_no_commits() {
            describe(&mut applying.seen).state = GroupState::Empty;
        }
        // Retention goes on, and so do the producers.
        for (m, deleted) in moves.iter().zip(&deleted) {
            let reading = applying.seen.partitions.get_mut(&m.partition).unwrap();
            let high = m.log.high + grown;
            reading.log = Ok(Watermarks {
                log_start: (m.log.log_start + deleted).min(high),
                last_stable: high,
                high,
                ..m.log
            });
        }
        let log_of = |m: &PartitionMove| *applying.seen.partitions[&m.partition].log.as_ref().unwrap();
        let authorized = applying.authorize();
        // Nothing but the log start moved, and nowhere beyond the plan's bound: that alone refuses nothing.
        let within = |m: &PartitionMove| {
            let (start, to) = (log_of(m).log_start, m.to.as_ref().unwrap().offset);
            start <= to || m.may_rise_to.is_some_and(|highest| start <= highest)
        };
        let untouched = moves.iter().all(|m| {
            applying.seen.partitions[&m.partition].committed == Ok(m.from.clone())
        });
        if !has_pre_image && untouched {
            prop_assert_eq!(authorized.is_ok(), moves.iter().all(within));
        }
        let Ok(approved) = authorized else { return Ok(()) };
        for request in approved.requests(25, |_, _, _| 10) {
            let sent: Vec<(TopicPartition, Option<CommittedOffset>)> = match request.change() {
                Change::Commit(commits) => commits.iter().map(|(p, c)| (p.clone(), Some(c.clone()))).collect(),
                Change::Remove(partitions) => partitions.iter().map(|p| (p.clone(), None)).collect(),
            };
            for (partition, to) in sent {
                let m = moves.iter().find(|m| m.partition == partition);
                let m = m.ok_or_else(|| TestCaseError::fail(format!("{partition} is not in the plan")))?;
                // The plan's target, or where retention has passed it the log start, bare and within the bound.
                let (log, planned) = (log_of(m), m.to.as_ref().unwrap().offset);
                let sent = to.as_ref().unwrap().offset;
                prop_assert!(log.log_start <= sent && sent <= log.high);
                if has_pre_image || log.log_start <= planned {
                    prop_assert_eq!(&to, &m.to);
                } else {
                    prop_assert_eq!(&to, &Some(CommittedOffset::bare(log.log_start)));
                    prop_assert!(m.may_rise_to.is_some_and(|highest| sent <= highest));
                }
                let remembered = approved.pre_image().sent(m).into_owned();
                prop_assert_eq!(&remembered, &to);
                let now = applying.seen.partitions[&partition].committed.as_ref().unwrap();
                match &applying.pre_image {
                    Some(image) => prop_assert_eq!(&image.before[&partition], now),
                    None if !waits => prop_assert_eq!(&m.from, now),
                    None => {
                        let drift = match (&m.from, now) {
                            (Some(from), Some(now)) => now.offset - from.offset,
                            (None, None) => 0,
                            _ => return Err(TestCaseError::fail("a commit came or went")),
                        };
                        prop_assert!((0..=5).contains(&drift), "{drift}");
                    }
                }
            }
        }
        // All or nothing: what is not sent is done already.
        for m in &moves {
            let now = applying.seen.partitions[&m.partition].committed.as_ref().unwrap();
            let remembered = &approved.pre_image().before[&m.partition];
            let sent = approved.pre_image().sent(m);
            prop_assert!(now == sent.as_ref() || now == remembered, "{m:?} is at {now:?}");
        }
    }

    #[test]
    fn a_judgement_says_no_more_than_was_seen(
        (spots, kind, allow) in arb_scene(),
        has_pre_image: bool,
        each in vec((0..6_u8, 0..60_i64, 0..5_u8), 6),
        risen in vec(option::of(0..60_i64), 6),
    ) {
        let plan = planned(&scene(&spots, kind, allow))?;
        let mut image = pre_image(&plan);
        image.raised = plan.moves.iter().zip(&risen)
            .filter_map(|(m, risen)| Some((m.partition.clone(), (*risen)?)))
            .collect();
        // What is judged by is what was sent.
        let sent = |m: &PartitionMove| {
            if has_pre_image { image.sent(m).into_owned() } else { m.to.clone() }
        };
        let mut answers = BTreeMap::new();
        let mut now = BTreeMap::new();
        for (m, (kind, offset, answer)) in plan.moves.iter().zip(&each) {
            let name = || "NAME".to_owned();
            let answer = match answer {
                0 => Some(AlterAnswer::Accepted),
                1 => Some(AlterAnswer::Rejected(name())),
                2 => Some(AlterAnswer::GroupActive(name())),
                3 => Some(AlterAnswer::Unknown(name())),
                _ => None,
            };
            answers.extend(answer.map(|answer| (m.partition.clone(), answer)));
            let seen = match kind {
                0 | 1 => Ok(sent(m)),
                2 => Ok(m.from.clone()),
                3 => Ok(Some(CommittedOffset::bare(*offset))),
                4 => Err(Fault::NoLeader),
                _ => continue,
            };
            now.insert(m.partition.clone(), seen);
        }
        let image = has_pre_image.then_some(&image);
        let (outcome, each) = judge(&plan, image, &answers, &now, false);
        prop_assert_eq!(each.len(), plan.moves.len());
        let at_target = |m: &PartitionMove| now.get(&m.partition) == Some(&Ok(sent(m)));
        let all_there = plan.moves.iter().all(at_target);
        prop_assert!(outcome != Outcome::Verified || all_there);
        if has_pre_image {
            prop_assert_eq!(outcome == Outcome::Verified, all_there);
        } else {
            prop_assert!(matches!(outcome, Outcome::NotApplied | Outcome::Unknown));
        }
        for m in &plan.moves {
            let said = &each[&m.partition];
            if at_target(m) {
                prop_assert_ne!(said, &PartitionOutcome::NotApplied);
            }
            if outcome == Outcome::NotApplied {
                prop_assert_eq!(said, &PartitionOutcome::NotApplied);
            }
            if matches!(said, PartitionOutcome::Applied) {
                prop_assert!(has_pre_image && at_target(m));
            }
            // What was not read can be called not applied only where nothing was sent.
            if !matches!(now.get(&m.partition), Some(Ok(_))) && has_pre_image {
                prop_assert!(matches!(said, PartitionOutcome::Unknown { .. }), "{said:?}");
            }
        }
    }
}
