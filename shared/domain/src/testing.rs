//! What the tests of the rules are made of: the incident that the project was begun for, as values.
//!
//! Topic `shipments`, three partitions, group `shipment-sync`. At 08:00 it had read to 31/31/31; a bad release read on
//! to 43 in partition 1; it is 09:30 now and the consumers are stopped.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::approval::{
    Approval, ApprovalStatus, ApprovedPlan, Decision, Evidence, People, authorize,
};
use super::checkpoint::{Checkpoint, CheckpointHeader, checkpoint};
use super::choice::{Older, PassedOver};
use super::disowned::Disowned;
use super::executed::Executed;
use super::group::{
    GroupDescription, GroupObservation, GroupState, GroupType, Member, PartitionReading,
    TopicDescription,
};
use super::guard::quarantine::{Copy, CopySeen, DedupeId, Kept, Reread, SkippedRecord};
use super::guard::sample::Sample;
use super::guard::testing::outline;
use super::identity::{Identity, Requester};
use super::ids::{CheckpointId, PlanId};
use super::offset::{
    ClusterId, CommittedOffset, Fault, FoundByTime, GroupId, TopicId, TopicPartition, Watermarks,
};
use super::plan::{Plan, Warning};
use super::planner::{Planned, Planning, Targets, plan};
use super::policy::GroupPolicy;
use super::recovery::{AlterAnswer, Claim, PartitionOutcome, PreImage, Recovery};
use super::refusal::{MemberSeen, Refusal};
use super::request::{Allowances, ResetSpec, RewindRequest, Selection};
use super::rights::{self, Operation, Rights};
use crate::ids::ExecutionArn;

pub(super) const EXECUTION: &str = "execution-1";

/// An instant of the day of the incident.
pub(super) fn at(time: &str) -> Timestamp {
    format!("2026-11-30T{time}Z").parse().unwrap()
}

/// A partition of `shipments`.
pub(super) fn p(partition: i32) -> TopicPartition {
    TopicPartition::new("shipments", partition)
}

pub(super) fn id(byte: u8) -> Option<TopicId> {
    TopicId::from_bytes([byte; 16])
}

pub(super) fn log(log_start: i64, high: i64) -> Watermarks {
    Watermarks {
        log_start,
        last_stable: high,
        high,
        leader_epoch: Some(5),
    }
}

/// An offset as a consumer commits it: with the epoch of the record before it.
pub(super) fn commit(offset: i64) -> CommittedOffset {
    CommittedOffset {
        leader_epoch: Some(4),
        ..CommittedOffset::bare(offset)
    }
}

pub(super) fn with_metadata(offset: i64, metadata: &str) -> CommittedOffset {
    CommittedOffset {
        metadata: metadata.as_bytes().to_vec(),
        ..commit(offset)
    }
}

pub(super) fn member(name: &str) -> Member {
    Member {
        member_id: format!("{name}-id"),
        client_id: name.to_owned(),
        host: "/10.0.0.7".to_owned(),
        instance_id: None,
        assignment: vec![p(0), p(1), p(2)],
    }
}

pub(super) fn member_seen(name: &str) -> MemberSeen {
    MemberSeen {
        client_id: name.to_owned(),
        member_id: format!("{name}-id"),
        host: "/10.0.0.7".to_owned(),
    }
}

/// An inactive group at these offsets of `shipments`, each partition's log holding 0 to its `high`.
pub(super) fn seen(offsets: &[i64], highs: &[i64]) -> GroupObservation {
    let partitions = offsets.iter().zip(highs).zip(0..);
    GroupObservation {
        cluster_id: ClusterId("cluster-a".to_owned()),
        group: GroupId("shipment-sync".to_owned()),
        description: Ok(GroupDescription {
            state: GroupState::Empty,
            group_type: GroupType::Classic,
            is_simple: false,
            assignor: String::new(),
            members: Vec::new(),
        }),
        topics: [("shipments".to_owned(), topic(7, 3))].into(),
        partitions: partitions
            .map(|((offset, high), partition)| {
                let reading = PartitionReading {
                    committed: Ok(Some(commit(*offset))),
                    log: Ok(log(0, *high)),
                };
                (p(partition), reading)
            })
            .collect(),
        began_at: at("09:29:59"),
        ended_at: at("09:30:00"),
    }
}

pub(super) fn topic(id_byte: u8, partitions: i32) -> Result<TopicDescription, Fault> {
    Ok(TopicDescription {
        id: id(id_byte),
        partitions,
    })
}

pub(super) fn describe(seen: &mut GroupObservation) -> &mut GroupDescription {
    seen.description.as_mut().unwrap()
}

/// As a broker describes a group that does not exist, a live share group, and a live Streams group.
pub(super) fn make_dead(seen: &mut GroupObservation) {
    describe(seen).state = GroupState::Dead;
    describe(seen).is_simple = true;
}

pub(super) fn reading(seen: &mut GroupObservation, partition: i32) -> &mut PartitionReading {
    seen.partitions.get_mut(&p(partition)).unwrap()
}

pub(super) fn commit_nothing(seen: &mut GroupObservation) {
    for reading in seen.partitions.values_mut() {
        reading.committed = Ok(None);
    }
}

/// A checkpoint of a reading, which ended at that time.
pub(super) fn checkpoint_at(name: &str, time: &str, mut seen: GroupObservation) -> Checkpoint {
    seen.ended_at = at(time);
    checkpoint(CheckpointId(name.to_owned()), &seen, None, false).unwrap()
}

pub(super) fn header(of: &Checkpoint) -> CheckpointHeader {
    CheckpointHeader {
        id: of.id.clone(),
        ended_at: of.ended_at,
        disowned: Disowned::default(),
        anomalies: of.anomalies.clone(),
        pinned: false,
        expires_at: None,
    }
}

/// A record that was found by its time, about which nothing is odd.
pub(super) fn found_at(offset: i64) -> FoundByTime {
    FoundByTime {
        offset,
        dated: None,
        overtaken: None,
    }
}

/// The target of a scene.
pub(super) enum Target {
    Checkpoint {
        checkpoint: Checkpoint,
        newest: Option<Checkpoint>,
        later: Vec<CheckpointHeader>,
        older: Vec<Older>,
        passed_over: PassedOver,
    },
    Timestamp(
        Timestamp,
        BTreeMap<TopicPartition, Result<Option<FoundByTime>, Fault>>,
    ),
    Offsets(BTreeMap<TopicPartition, i64>),
    Shift(i64),
    Earliest,
    /// A plan that was verified.
    Undo(Plan, PreImage),
    /// A plan of which some is on record.
    Earlier(Earlier),
    /// The commits at which records were read, these records, and whether two samples are all that there was.
    Past(BTreeMap<TopicPartition, i64>, Vec<SkippedRecord>, bool),
    Missing(Refusal),
}

/// An earlier plan that is to be undone or finished.
pub(super) struct Earlier {
    pub(super) finish: bool,
    pub(super) plan: Plan,
    pub(super) pre_image: PreImage,
    pub(super) answers: BTreeMap<TopicPartition, AlterAnswer>,
    pub(super) outcomes: BTreeMap<TopicPartition, PartitionOutcome>,
}

impl Earlier {
    fn executed(&self) -> Executed<'_> {
        Executed {
            plan: &self.plan,
            pre_image: &self.pre_image,
            answers: &self.answers,
            outcomes: &self.outcomes,
        }
    }
}

/// What is on record of a plan that was verified.
pub(super) fn applied(plan: &Plan) -> BTreeMap<TopicPartition, PartitionOutcome> {
    let each = plan.moves.iter();
    each.map(|m| (m.partition.clone(), PartitionOutcome::Applied))
        .collect()
}

/// A record that is passed over, and where it is kept.
pub(super) fn skipped(partition: i32, offset: i64, kept: Kept) -> SkippedRecord {
    SkippedRecord {
        partition: p(partition),
        record: outline(offset),
        failure: None,
        dedupe_id: DedupeId(format!("{partition}-{offset}")),
        kept,
    }
}

/// In quarantine at that offset.
pub(super) fn kept(offset: i64) -> Kept {
    Kept::In(Copy {
        partition: TopicPartition::new("shipments-quarantine", 0),
        offset,
    })
}

/// What is found where everything is as it was.
pub(super) fn reread(skipped: &SkippedRecord) -> Reread {
    Reread {
        source: Ok(Some(skipped.record.clone())),
        copy: Ok(Some(CopySeen {
            fingerprint: skipped.record.fingerprint.clone(),
            dedupe_id: Some(skipped.dedupe_id.clone()),
        })),
    }
}

impl Target {
    pub(super) fn checkpoint(checkpoint: Checkpoint) -> Self {
        Self::Checkpoint {
            checkpoint,
            newest: None,
            later: Vec::new(),
            older: Vec::new(),
            passed_over: PassedOver::default(),
        }
    }

    pub(super) fn past(committed: &[(i32, i64)], records: Vec<SkippedRecord>) -> Self {
        let committed = committed.iter().map(|(n, offset)| (p(*n), *offset));
        Self::Past(committed.collect(), records, false)
    }

    pub(super) fn offsets(offsets: &[(i32, i64)]) -> Self {
        Self::Offsets(offsets.iter().map(|(n, offset)| (p(*n), *offset)).collect())
    }
}

/// Everything that one plan is made of, owned, so that a case can change one thing of it.
pub(super) struct Scene {
    pub(super) seen: GroupObservation,
    pub(super) target: Target,
    pub(super) allow: Allowances,
    pub(super) selection: Selection,
    pub(super) policy: GroupPolicy,
    pub(super) pinned: Option<ClusterId>,
    pub(super) requester: Requester,
    pub(super) dry_run: bool,
    pub(super) looks: Vec<Sample>,
    /// What a skip withholds.
    pub(super) withheld: BTreeMap<TopicPartition, String>,
    /// What a skip says of its quarantine topic.
    pub(super) cautions: Vec<Warning>,
}

impl Scene {
    /// The incident: back to 08:00, when partition 1 was at 31.
    pub(super) fn incident() -> Self {
        Self::from(Target::checkpoint(checkpoint_at(
            "cp-0800",
            "08:00:00",
            seen(&[31, 31, 31], &[31, 43, 31]),
        )))
    }

    /// The group at 31/43/31, each log ending at 43, and another target.
    pub(super) fn from(target: Target) -> Self {
        Self {
            seen: seen(&[31, 43, 31], &[43, 43, 43]),
            target,
            allow: Allowances::default(),
            selection: Selection::All,
            policy: GroupPolicy::default(),
            pinned: None,
            requester: Requester::Unverified,
            dry_run: false,
            looks: Vec::new(),
            withheld: BTreeMap::new(),
            cautions: Vec::new(),
        }
    }

    pub(super) fn changed(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// The checkpoint that is the target.
    pub(super) fn source(&mut self) -> &mut Checkpoint {
        match &mut self.target {
            Target::Checkpoint { checkpoint, .. } => checkpoint,
            _ => panic!("the target is no checkpoint"),
        }
    }

    pub(super) fn plan(&self) -> Planned {
        let request = RewindRequest {
            cluster: "local".to_owned(),
            group: GroupId("shipment-sync".to_owned()),
            // The rules read the resolved target, never this.
            target: ResetSpec::ToEarliest,
            selection: self.selection.clone(),
            allow: self.allow,
            dry_run: self.dry_run,
            reason: "the 08:10 release dropped records".to_owned(),
            requested_by: "ana".to_owned(),
            requester: self.requester.clone(),
        };
        let none = BTreeMap::new();
        let applied = match &self.target {
            Target::Undo(plan, _) => applied(plan),
            _ => BTreeMap::new(),
        };
        plan(&Planning {
            id: PlanId("plan-1".to_owned()),
            now: at("09:30:01"),
            request: &request,
            policy: &self.policy,
            config_hash: "config-1",
            pinned_cluster: self.pinned.as_ref(),
            seen: &self.seen,
            looks: &self.looks,
            targets: match &self.target {
                Target::Checkpoint {
                    checkpoint,
                    newest,
                    later,
                    older,
                    passed_over,
                } => Targets::Checkpoint {
                    checkpoint,
                    newest: newest.as_ref(),
                    later,
                    older,
                    passed_over,
                },
                Target::Timestamp(at, offsets) => Targets::Timestamp { at: *at, offsets },
                Target::Offsets(offsets) => Targets::Offsets(offsets),
                Target::Shift(by) => Targets::Shift(*by),
                Target::Earliest => Targets::Earliest,
                Target::Undo(plan, pre_image) => Targets::Undo(Executed {
                    plan,
                    pre_image,
                    answers: &none,
                    outcomes: &applied,
                }),
                Target::Earlier(earlier) if earlier.finish => Targets::Finish(earlier.executed()),
                Target::Earlier(earlier) => Targets::Undo(earlier.executed()),
                Target::Past(committed, records, two_samples) => Targets::Past {
                    committed,
                    records,
                    two_samples: *two_samples,
                    withheld: &self.withheld,
                    cautions: &self.cautions,
                },
                Target::Missing(refusal) => Targets::Missing(refusal),
            },
        })
    }

    pub(super) fn ready(&self) -> Plan {
        match self.plan() {
            Planned::Ready(plan) => *plan,
            other => panic!("no plan: {other:?}"),
        }
    }

    pub(super) fn refused(&self) -> Vec<Refusal> {
        match self.plan() {
            Planned::Refused(refusals) => refusals,
            other => panic!("not refused: {other:?}"),
        }
    }
}

/// What was committed for the moved partitions when a plan was made.
pub(super) fn pre_image(plan: &Plan) -> PreImage {
    let each = plan.moves.iter();
    PreImage::of(
        each.map(|m| (m.partition.clone(), m.from.clone()))
            .collect(),
    )
}

/// The group after every move of `plan` was applied.
pub(super) fn apply(plan: &Plan, seen: &mut GroupObservation) {
    for m in &plan.moves {
        seen.partitions.get_mut(&m.partition).unwrap().committed = Ok(m.to.clone());
    }
    // Kafka drops a group that is left without members and offsets, and makes one that is committed to.
    let emptied = seen.has_no_commits();
    describe(seen).state = if emptied {
        GroupState::Dead
    } else {
        GroupState::Empty
    };
}

/// An approval of `plan`, given at 09:40.
pub(super) fn approval(plan: &Plan) -> Approval {
    Approval {
        plan: plan.id.clone(),
        digest: plan.digest(),
        execution: EXECUTION.into(),
        created_at: plan.created_at,
        approve_by: plan.approve_by,
        status: ApprovalStatus::Approved,
        decision: Some(Decision::Approve),
        from_dry_run: false,
        decided_by: Some("bo".to_owned()),
        decider: None,
        decided_at: Some(at("09:40:00")),
        reason: None,
        delivered_at: None,
    }
}

/// All that `plan` needs, and the brokers say so.
pub(super) fn allowed(plan: &Plan) -> Rights {
    let all = || Some([Operation::Read, Operation::Delete].into());
    Rights {
        group: all(),
        topics: rights::topics(plan)
            .into_iter()
            .map(|topic| (topic, Ok(all())))
            .collect(),
    }
}

pub(super) fn claim(plan: &Plan) -> Claim {
    Claim {
        execution: EXECUTION.into(),
        plan: plan.id.clone(),
        expires_at: at("12:00:00"),
    }
}

pub(super) fn recovery(plan: &Plan) -> Recovery {
    Recovery::open(plan, &EXECUTION.into(), plan.created_at)
}

/// Everything that Apply reads, owned, so that a case can change one thing of it.
pub(super) struct Apply {
    pub(super) plan: Plan,
    pub(super) now: Timestamp,
    pub(super) execution: ExecutionArn,
    pub(super) approval: Option<Approval>,
    pub(super) four_eyes: bool,
    pub(super) noted: Option<Identity>,
    pub(super) recovery: Recovery,
    pub(super) claim: Option<Claim>,
    pub(super) enabled: bool,
    pub(super) config_hash: String,
    pub(super) seen: GroupObservation,
    pub(super) rights: Rights,
    pub(super) pre_image: Option<PreImage>,
    pub(super) rereads: BTreeMap<(TopicPartition, i64), Reread>,
}

impl Apply {
    /// The incident's plan, approved at 09:40, applied at 09:45.
    pub(super) fn of(scene: &Scene) -> Self {
        let plan = scene.ready();
        Self {
            now: at("09:45:00"),
            execution: EXECUTION.into(),
            approval: Some(approval(&plan)),
            four_eyes: plan.four_eyes,
            noted: match &plan.requester {
                Requester::Verified(identity) => Some(identity.clone()),
                Requester::Guard | Requester::Unverified => None,
            },
            recovery: recovery(&plan),
            claim: Some(claim(&plan)),
            enabled: true,
            config_hash: plan.config_hash.clone(),
            seen: scene.seen.clone(),
            rights: allowed(&plan),
            pre_image: None,
            rereads: BTreeMap::new(),
            plan,
        }
    }

    pub(super) fn changed(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub(super) fn approval(&mut self) -> &mut Approval {
        self.approval.as_mut().unwrap()
    }

    pub(super) fn authorize(&self) -> Result<ApprovedPlan, Vec<Refusal>> {
        authorize(
            &self.plan,
            &Evidence {
                now: self.now,
                execution: &self.execution,
                approval: self.approval.as_ref(),
                people: People {
                    four_eyes: self.four_eyes,
                    noted: self.noted.as_ref(),
                },
                recovery: &self.recovery,
                claim: self.claim.as_ref(),
                apply_enabled: self.enabled,
                config_hash: &self.config_hash,
                seen: &self.seen,
                rights: &self.rights,
                pre_image: self.pre_image.as_ref(),
                rereads: &self.rereads,
            },
        )
    }

    pub(super) fn refused(&self) -> Vec<Refusal> {
        self.authorize().unwrap_err()
    }
}
