//! Every line that a person may read of a refusal, a warning or a partition that is left alone, and one plan's canonical
//! form, kept as text: a change of wording shows as a change of one file.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::guard::quarantine::Kept;
use super::guard::verdict::Verdict;
use super::ids::CheckpointId;
use super::ids::PlanId;
use super::offset::{Fault, TopicPartition};
use super::plan::{LeftAlone, Warning};
use super::refusal::{Refusal, Rejection, Stale};
use super::rights::{Operation, ResourceType, Right};
use crate::testing::guard::failure;
use crate::testing::*;

/// The names of an enum's variants, as its source has them: a variant that is new is missed by no test.
fn variants(source: &str, name: &str) -> BTreeSet<String> {
    let (_, body) = source.split_once(&format!("pub enum {name} {{\n")).unwrap();
    let (body, _) = body.split_once("\n}\n").unwrap();
    body.lines()
        .filter_map(|line| line.strip_prefix("    "))
        .filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()))
        .map(|line| {
            let end = line.find(|c: char| !c.is_alphanumeric());
            line[..end.unwrap_or(line.len())].to_owned()
        })
        .collect()
}

/// The name of a value's variant, as `Debug` writes it.
fn variant(value: &impl std::fmt::Debug) -> String {
    let text = format!("{value:?}");
    let end = text.find(|c: char| !c.is_alphanumeric());
    text[..end.unwrap_or(text.len())].to_owned()
}

fn plan_id() -> PlanId {
    PlanId("01JDZ0PLAN".into())
}

fn checkpoint_id() -> CheckpointId {
    CheckpointId("01JDZ0CHECKPOINT".into())
}

fn stale(changed: Stale) -> Refusal {
    Refusal::PlanStale { changed }
}

fn unread(at: &str, fault: Fault) -> Refusal {
    Refusal::EvidenceIncomplete {
        at: at.into(),
        fault,
    }
}

fn of_the_request() -> Vec<Refusal> {
    let before = at("08:00:00");
    vec![
        Refusal::InvalidRequest {
            field: "rewind_before".into(),
            problem: "it has no zone; write 2026-11-30T08:00:00Z".into(),
        },
        Refusal::NotConfigured {
            asked: "group orders on cluster local".into(),
            near: None,
        },
        Refusal::NotConfigured {
            asked: "group orderservice on cluster local".into(),
            near: Some("OrderService".into()),
        },
        Refusal::NoCheckpointBefore {
            before,
            oldest: None,
            disowned: 0,
        },
        Refusal::NoCheckpointBefore {
            before,
            oldest: Some(at("09:00:00")),
            disowned: 0,
        },
        Refusal::NoCheckpointBefore {
            before,
            oldest: Some(at("09:00:00")),
            disowned: 3,
        },
        Refusal::CheckpointNotFound {
            id: checkpoint_id(),
        },
        Refusal::CheckpointDisowned {
            id: checkpoint_id(),
            by: plan_id(),
            partitions: Vec::new(),
        },
        Refusal::CheckpointDisowned {
            id: checkpoint_id(),
            by: plan_id(),
            partitions: (0..7).map(p).collect(),
        },
        Refusal::PartitionsDisowned {
            before,
            partitions: vec![p(0), p(2)],
        },
        Refusal::NothingToUndo {
            plan: plan_id(),
            why: "it left shipments-1 at 31, which is at 35 now".into(),
        },
        Refusal::NothingToFinish {
            plan: plan_id(),
            why: "it left shipments-1 at 31, which is at 35 now".into(),
        },
        Refusal::TopicUnknown {
            topic: "orders".into(),
        },
        Refusal::PartitionUnknown { partition: p(9) },
        Refusal::NothingSelected {
            group: "shipment-sync".into(),
        },
        Refusal::RecoveryLive {
            plan: plan_id(),
            execution: "execution-2".into(),
        },
        Refusal::PlanNotFound { plan: plan_id() },
        Refusal::PlanUsed { plan: plan_id() },
    ]
}

/// READ on a group and on more topics than are named, DELETE on the group.
fn lacking() -> Vec<Right> {
    let right = |operation, resource, name: &str| Right {
        operation,
        resource,
        name: name.to_owned(),
    };
    let of_group = [Operation::Read, Operation::Delete]
        .map(|operation| right(operation, ResourceType::Group, "shipment-sync"));
    let of_topics = (1..=7).map(|n| {
        right(
            Operation::Read,
            ResourceType::Topic,
            &format!("shipments-{n}"),
        )
    });
    of_group.into_iter().chain(of_topics).collect()
}

fn of_the_group() -> Vec<Refusal> {
    let group = || "shipment-sync".to_owned();
    let many = (1..=7).map(|n| member_seen(&format!("worker-{n}")));
    vec![
        Refusal::ClusterMismatch {
            required: "cluster-a".into(),
            seen: "cluster-b".into(),
        },
        Refusal::GroupNotFound {
            group: group(),
            near: None,
        },
        Refusal::GroupNotFound {
            group: group(),
            near: Some("Shipment-Sync".into()),
        },
        Refusal::NoCommittedOffsets { group: group() },
        Refusal::GroupActive {
            state: "Stable".into(),
            members: vec![member_seen("worker-a"), member_seen("worker-b")],
        },
        Refusal::GroupActive {
            state: "Stable".into(),
            members: many.collect(),
        },
        Refusal::GroupActive {
            state: "PreparingRebalance".into(),
            members: vec![],
        },
        Refusal::GroupStateUnproven {
            seen: "Dead".into(),
        },
        Refusal::StatefulGroup {
            kind: "Kafka Streams".into(),
        },
        Refusal::NotAuthorisedToAlter {
            group: group(),
            missing: vec![],
        },
        Refusal::NotAuthorisedToAlter {
            group: group(),
            missing: lacking(),
        },
        unread("", Fault::NotAuthorised),
        unread(
            "shipments-1",
            Fault::Failed {
                code: "REQUEST_TIMED_OUT".into(),
            },
        ),
        unread("shipments-1", Fault::NoLeader),
        unread("shipments-1", Fault::TopicGone),
    ]
}

fn of_the_partitions() -> Vec<Refusal> {
    let partition = || p(1);
    vec![
        Refusal::TopicGone {
            topic: "shipments".into(),
        },
        Refusal::TopicRecreated {
            topic: "shipments".into(),
            then: id(7).unwrap().to_string(),
            now: id(8).unwrap().to_string(),
        },
        Refusal::TopicRecreated {
            topic: "shipments".into(),
            then: "unknown, shipments-1 starting at 9".into(),
            now: "unknown, shipments-1 starting at 0".into(),
        },
        Refusal::LogTruncated {
            partition: partition(),
            high_before: 60,
            high_after: 43,
        },
        Refusal::OffsetBelowLogStart {
            partition: partition(),
            requested: 31,
            log_start: 36,
        },
        Refusal::OffsetBelowLogStart {
            partition: partition(),
            requested: -4,
            log_start: 36,
        },
        Refusal::OffsetBelowLogStart {
            partition: partition(),
            requested: -4,
            log_start: 0,
        },
        Refusal::OffsetAboveHighWatermark {
            partition: partition(),
            requested: 50,
            high: 43,
        },
        Refusal::ForwardMove {
            partition: partition(),
            current: 31,
            target: 43,
        },
        Refusal::UnstableOffsets {
            partition: partition(),
        },
    ]
}

fn of_the_guard() -> Vec<Refusal> {
    let partition = || p(1);
    vec![
        Refusal::NotWarranted {
            partition: partition(),
            verdict: Verdict::BlockedByTransaction,
        },
        Refusal::PoisonNotAtCommitted {
            partition: partition(),
            first: 43,
            poison: 47,
        },
        Refusal::RecordNotSingledOut {
            partition: partition(),
            first: 43,
            last: 542,
            records: 500,
        },
        Refusal::IsolationUnknown {
            partition: partition(),
            committed: Some(47),
            uncommitted: Some(43),
        },
        Refusal::IsolationUnknown {
            partition: partition(),
            committed: None,
            uncommitted: Some(43),
        },
        Refusal::RecordUnreadable {
            partition: partition(),
            why: "its records could not be read: the reading failed (BAD_MSG)".into(),
        },
        Refusal::RecordFromQuarantine {
            partition: partition(),
            offset: 43,
        },
        Refusal::TooManyRecords {
            partition: Some(partition()),
            records: 101,
            limit: 100,
        },
        Refusal::PlanFull {
            partition: partition(),
            limit: 100,
        },
        Refusal::RejectedBefore {
            partition: partition(),
            plan: plan_id(),
            rejection: Box::new(Rejection {
                by: "bo".into(),
                reason: "billing needs it".into(),
                at: at("09:40:00"),
                until: at("23:40:00"),
            }),
        },
        Refusal::RejectedBefore {
            partition: partition(),
            plan: plan_id(),
            rejection: Box::new(Rejection {
                by: "bo".into(),
                reason: String::new(),
                at: at("09:40:00"),
                until: at("23:40:00"),
            }),
        },
        Refusal::UnansweredBefore {
            partition: partition(),
            plan: plan_id(),
            at: at("10:29:01"),
            until: at("16:29:01"),
            missing: Vec::new(),
        },
        Refusal::UnansweredBefore {
            partition: partition(),
            plan: plan_id(),
            at: at("10:29:01"),
            until: at("16:29:01"),
            missing: vec![Right {
                operation: Operation::Read,
                resource: ResourceType::Topic,
                name: "shipments".into(),
            }],
        },
        Refusal::TooManySkips {
            partition: partition(),
            skips: 3,
            limit: 3,
        },
        Refusal::QuarantineUnusable {
            topic: String::new(),
            partition: None,
            why: "none is configured".into(),
        },
        Refusal::QuarantineUnusable {
            topic: "shipments-quarantine".into(),
            partition: None,
            why: "its cleanup.policy is compact".into(),
        },
        Refusal::QuarantineUnusable {
            topic: "shipments-quarantine".into(),
            partition: Some(partition()),
            why: "it is the topic that the record is in".into(),
        },
        Refusal::QuarantineUnconfirmed {
            partition: partition(),
            offset: 43,
            why: "a dry run writes nothing".into(),
        },
    ]
}

fn after_the_plan() -> Vec<Refusal> {
    let partition = || p(1);
    vec![
        Refusal::NotApproved {
            found: "nobody has decided yet".into(),
        },
        Refusal::Rejected {
            by: "bo".into(),
            reason: String::new(),
        },
        Refusal::Rejected {
            by: "bo".into(),
            reason: "not during the sale".into(),
        },
        Refusal::ApprovalExpired {
            approve_by: at("10:29:01"),
        },
        Refusal::ApplyTimeOver {
            apply_by: at("10:15:00"),
        },
        Refusal::NotEmptyInTime {
            state: "Stable".into(),
            members: vec![member_seen("worker-a")],
        },
        Refusal::NotEmptyInTime {
            state: "Empty, but its offsets move".into(),
            members: vec![],
        },
        Refusal::PlanDigestMismatch {
            approved: "aaaa".into(),
            stored: "bbbb".into(),
        },
        stale(Stale::Configuration),
        stale(Stale::Topic {
            topic: "shipments".into(),
        }),
        stale(Stale::CommittedOffset {
            partition: partition(),
            planned: Some(43),
            seen: Some(50),
            limit: 0,
        }),
        stale(Stale::CommittedOffset {
            partition: partition(),
            planned: Some(43),
            seen: Some(43),
            limit: 0,
        }),
        stale(Stale::CommittedOffset {
            partition: partition(),
            planned: None,
            seen: Some(50),
            limit: 100,
        }),
        stale(Stale::SourceRecord {
            partition: partition(),
            offset: 43,
            why: "it is gone".into(),
        }),
        stale(Stale::QuarantineCopy {
            copy: "shipments-quarantine-1@7".into(),
            why: "it is another record".into(),
        }),
        stale(Stale::Release),
        stale(Stale::LogStart {
            partition: p(1),
            log_start: 44,
            highest: 43,
        }),
        stale(Stale::Target {
            partition: partition(),
            target: 31,
            log_start: 36,
            high: 43,
        }),
        Refusal::RequesterUnverified,
        Refusal::FourEyesMissing {
            found: "the decider's identity is not verified".into(),
        },
        Refusal::ApplySwitchedOff,
        Refusal::ClaimLost {
            holder: "execution-2 with plan 01JDZ0PLAN".into(),
        },
        Refusal::Fenced,
        Refusal::GroupBecameActive {
            partition: partition(),
            error: "UNKNOWN_MEMBER_ID".into(),
        },
        Refusal::BrokerRejected {
            partition: partition(),
            error: "OFFSET_METADATA_TOO_LARGE".into(),
        },
    ]
}

#[test]
fn every_refusal_in_one_line() {
    let refusals: Vec<_> = [
        of_the_request(),
        of_the_group(),
        of_the_partitions(),
        of_the_guard(),
        after_the_plan(),
    ]
    .into_iter()
    .flatten()
    .collect();
    let shown: BTreeSet<_> = refusals.iter().map(variant).collect();
    assert_eq!(shown, variants(include_str!("refusal.rs"), "Refusal"));
    let stale: BTreeSet<_> = refusals
        .iter()
        .filter_map(|refusal| match refusal {
            Refusal::PlanStale { changed } => Some(variant(changed)),
            _ => None,
        })
        .collect();
    assert_eq!(stale, variants(include_str!("refusal.rs"), "Stale"));

    let mut text = String::new();
    for refusal in &refusals {
        let line = refusal.to_string();
        assert!(!line.contains('\n'), "{line}");
        writeln!(text, "{}\n  {line}", refusal.code()).unwrap();
    }
    insta::assert_snapshot!(text);
}

/// The tag of every refusal is a public contract; each is read back as it was written.
#[test]
fn every_refusal_survives_json() {
    let all = [
        of_the_request(),
        of_the_group(),
        of_the_partitions(),
        of_the_guard(),
        after_the_plan(),
    ];
    for refusal in all.into_iter().flatten() {
        let json = serde_json::to_string(&refusal).unwrap();
        assert_eq!(serde_json::from_str::<Refusal>(&json).unwrap(), refusal);
    }
}

#[test]
fn every_warning_in_one_line() {
    let warnings = [
        Warning::DisownedPassedOver {
            count: 2,
            by: [plan_id(), PlanId("01JDZ1PLAN".into())].into(),
        },
        Warning::OlderCheckpoint {
            partitions: 1,
            id: checkpoint_id(),
            ended_at: at("07:00:00"),
            by: [plan_id()].into(),
        },
        Warning::OlderCheckpoint {
            partitions: 2,
            id: checkpoint_id(),
            ended_at: at("07:00:00"),
            by: [plan_id(), PlanId("01JDZ1PLAN".into())].into(),
        },
        Warning::MayRise {
            partitions: 2,
            offsets: 40,
        },
        Warning::TimesOutOfOrder {
            partition: p(1),
            offset: 5,
            dated: at("23:00:00"),
        },
        Warning::WentBackwardsSince { partition: p(1) },
        Warning::CreatesGroup,
        Warning::Lost { offsets: 5 },
        Warning::Skips { offsets: 12 },
        Warning::MetadataDropped { partitions: 1 },
        Warning::Removes { partitions: 3 },
        Warning::TopicIdUnknown {
            topic: "shipments".into(),
        },
        Warning::MayAlterUnknown,
        Warning::MustBeStopped {
            members: vec![member_seen("worker-a"), member_seen("worker-b")],
            drift_limit: 100,
        },
        Warning::MustStayStopped {
            members: vec![member_seen("worker-a")],
            drift_limit: 0,
        },
        Warning::ActiveNow {
            state: "Stable".into(),
            members: vec![member_seen("worker-a")],
        },
        Warning::WrittenFromOutside {
            why: "so configured: external_offsets".into(),
        },
        Warning::AssignOnly,
        Warning::Stateful {
            kind: "Kafka Connect".into(),
        },
        Warning::RecordsLost { records: 1 },
        Warning::GoodRecordsSkipped { records: 2 },
        Warning::TwoSamples,
        Warning::QuarantineAtRisk {
            topic: "shipments-quarantine".into(),
            why: "it has one replica: a copy is on one broker alone".into(),
        },
        Warning::CopiesExpire {
            topic: "shipments-quarantine".into(),
            after_seconds: 604_800,
        },
    ];
    let shown: BTreeSet<_> = warnings.iter().map(variant).collect();
    assert_eq!(shown, variants(include_str!("plan.rs"), "Warning"));
    let mut text = String::new();
    for warning in &warnings {
        writeln!(text, "{}\n  {warning}", variant(warning)).unwrap();
    }
    insta::assert_snapshot!(text);
}

#[test]
fn every_reason_to_leave_a_partition_alone() {
    let reasons = [
        LeftAlone::NotSelected,
        LeftAlone::AlreadyThere,
        LeftAlone::NotInSource,
        LeftAlone::NoCommitInSource,
        LeftAlone::NoCommit,
        LeftAlone::NotMovedThen,
        LeftAlone::NoRecordThatLate,
        LeftAlone::NotAppliedThen,
        LeftAlone::AppliedThen,
        LeftAlone::NotInPlan,
        LeftAlone::Withheld {
            why: Refusal::PlanFull {
                partition: p(1),
                limit: 100,
            }
            .to_string(),
        },
    ];
    let shown: BTreeSet<_> = reasons.iter().map(variant).collect();
    assert_eq!(shown, variants(include_str!("plan.rs"), "LeftAlone"));
    let mut text = String::new();
    for reason in reasons {
        writeln!(text, "{}: {reason}", variant(&reason)).unwrap();
    }
    insta::assert_snapshot!(text);
}

/// The canonical form with something of everything: a rewind with metadata, a clamped one, a partition brought back,
/// one that is left alone, warnings, and a reason that tries to be more than one line.
#[test]
fn one_plan_as_csv() {
    let mut scene = Scene::incident().changed(|s| {
        s.allow.clamp = true;
        s.allow.restore_missing = true;
        reading(&mut s.seen, 1).committed = Ok(Some(with_metadata(43, "now")));
        reading(&mut s.seen, 2).log = Ok(log(33, 43));
        reading(&mut s.seen, 2).committed = Ok(Some(commit(40)));
        let added = TopicPartition::new("shipments", 3);
        let reading = s.seen.partitions[&p(0)].clone();
        s.seen.partitions.insert(added, reading);
    });
    scene.source().partitions.get_mut(&p(1)).unwrap().committed = Some(with_metadata(31, "then"));
    reading(&mut scene.seen, 0).committed = Ok(None);
    let mut plan = scene.ready();
    plan.reason = "a \"quote\",\na line, and a\ttab".into();
    insta::assert_snapshot!(format!("{}\ndigest {}", plan.to_csv(), plan.digest()));
}

/// A skip: one record that a validator fails and that is kept, and one after a gap that nobody keeps.
#[test]
fn one_skip_as_csv() {
    let mut bad = skipped(0, 31, kept(7));
    bad.failure = Some(failure(31));
    let mut lost = skipped(2, 35, Kept::No);
    lost.record.key_bytes = None;
    lost.record.value_bytes = None;
    lost.record.leader_epoch = None;
    let scene = Scene::from(Goal::skip(&[(0, 31), (2, 31)], vec![bad, lost]));
    let plan = scene.ready();
    insta::assert_snapshot!(format!("{}\ndigest {}", plan.to_csv(), plan.digest()));
}
