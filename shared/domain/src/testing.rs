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
use super::disowned::Disowned;
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
use super::plan::{Plan, PlanResult};
use super::planner::{Planned, Planning, plan_request};
use super::policy::GroupPolicy;
use super::recovery::{Claim, Outcome, PartitionOutcome, PreImage, Recovery};
use super::refusal::{MemberSeen, Refusal};
use super::request::{Allowances, ResetSpec, RewindRequest, Selection};
use super::rights::{self, Operation, Rights};
use super::target::Target;
use super::target::checkpoint::{CheckpointSource, resolve_checkpoint};
use super::target::earliest::resolve_earliest;
use super::target::executed::Executed;
use super::target::finish::resolve_finish;
use super::target::offsets::resolve_offsets;
use super::target::shift::resolve_shift;
use super::target::skip::{Skip, resolve_skip};
use super::target::time::{FirstRecords, resolve_time};
use super::target::undo::resolve_undo;

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

/// Where a scene is to go.
#[derive(Debug)]
pub(super) enum Goal {
    Checkpoint(CheckpointSource),
    Time(Timestamp, FirstRecords),
    Offsets(BTreeMap<TopicPartition, i64>),
    Shift(i64),
    Earliest,
    Undo(Executed),
    Finish(Executed),
    Skip(Skip),
    Missing(Refusal),
}

/// What is on record of a plan that was verified.
pub(super) fn applied(plan: &Plan) -> BTreeMap<TopicPartition, PartitionOutcome> {
    let each = plan.moves.iter();
    each.map(|m| (m.partition.clone(), PartitionOutcome::Applied))
        .collect()
}

/// A plan of which that is on record.
pub(super) fn executed(
    plan: Plan,
    pre_image: PreImage,
    outcomes: BTreeMap<TopicPartition, PartitionOutcome>,
) -> Executed {
    Executed {
        plan,
        pre_image,
        answers: BTreeMap::new(),
        outcomes,
        outcome: Outcome::Verified,
    }
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

impl Goal {
    pub(super) fn checkpoint(checkpoint: Checkpoint) -> Self {
        Self::Checkpoint(CheckpointSource::new(checkpoint))
    }

    /// The undo of a plan that was applied and verified.
    pub(super) fn undo(plan: Plan, pre_image: PreImage) -> Self {
        let outcomes = applied(&plan);
        Self::Undo(executed(plan, pre_image, outcomes))
    }

    pub(super) fn skip(committed: &[(i32, i64)], records: Vec<SkippedRecord>) -> Self {
        let committed = committed.iter().map(|(n, offset)| (p(*n), *offset));
        Self::Skip(Skip {
            committed: committed.collect(),
            records,
            ..Skip::default()
        })
    }

    pub(super) fn offsets(offsets: &[(i32, i64)]) -> Self {
        Self::Offsets(offsets.iter().map(|(n, offset)| (p(*n), *offset)).collect())
    }

    /// The target that it resolves to.
    pub(super) fn resolve(
        &self,
        request: &RewindRequest,
        seen: &GroupObservation,
    ) -> Result<Target, Refusal> {
        match self {
            Self::Checkpoint(source) => resolve_checkpoint(source, request, seen),
            Self::Time(at, found) => Ok(resolve_time(*at, found, request, seen)),
            Self::Offsets(offsets) => Ok(resolve_offsets(offsets, request, seen)),
            Self::Shift(by) => Ok(resolve_shift(*by, request, seen)),
            Self::Earliest => Ok(resolve_earliest(seen)),
            Self::Undo(of) => resolve_undo(of, request, seen),
            Self::Finish(of) => resolve_finish(of, request, seen),
            Self::Skip(skip) => Ok(resolve_skip(skip, seen)),
            Self::Missing(refusal) => Err(refusal.clone()),
        }
    }
}

/// Everything that one plan is made of, owned, so that a case can change one thing of it.
pub(super) struct Scene {
    pub(super) seen: GroupObservation,
    pub(super) goal: Goal,
    pub(super) allow: Allowances,
    pub(super) selection: Selection,
    pub(super) policy: GroupPolicy,
    pub(super) pinned: Option<ClusterId>,
    pub(super) requester: Requester,
    pub(super) dry_run: bool,
    pub(super) looks: Vec<Sample>,
}

impl Scene {
    /// The incident: back to 08:00, when partition 1 was at 31.
    pub(super) fn incident() -> Self {
        Self::from(Goal::checkpoint(checkpoint_at(
            "cp-0800",
            "08:00:00",
            seen(&[31, 31, 31], &[31, 43, 31]),
        )))
    }

    /// The group at 31/43/31, each log ending at 43, and another target.
    pub(super) fn from(goal: Goal) -> Self {
        Self {
            seen: seen(&[31, 43, 31], &[43, 43, 43]),
            goal,
            allow: Allowances::default(),
            selection: Selection::All,
            policy: GroupPolicy::default(),
            pinned: None,
            requester: Requester::Unverified,
            dry_run: false,
            looks: Vec::new(),
        }
    }

    pub(super) fn changed(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// The checkpoint that it goes back to, with its evidence.
    pub(super) fn checkpoint_source(&mut self) -> &mut CheckpointSource {
        match &mut self.goal {
            Goal::Checkpoint(source) => source,
            other => panic!("no checkpoint: {other:?}"),
        }
    }

    /// The checkpoint that it goes back to.
    pub(super) fn source(&mut self) -> &mut Checkpoint {
        &mut self.checkpoint_source().checkpoint
    }

    /// The earlier plan that it undoes or finishes.
    pub(super) fn earlier(&mut self) -> &mut Executed {
        match &mut self.goal {
            Goal::Undo(of) | Goal::Finish(of) => of,
            other => panic!("no earlier plan: {other:?}"),
        }
    }

    /// What it passes over.
    pub(super) fn skip(&mut self) -> &mut Skip {
        match &mut self.goal {
            Goal::Skip(skip) => skip,
            other => panic!("no skip: {other:?}"),
        }
    }

    /// The plan, where the group has no history of checkpoints.
    pub(super) fn plan(&self) -> PlanResult {
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
        let target = self.goal.resolve(&request, &self.seen);
        let planned = plan_request(&Planning {
            id: PlanId("plan-1".to_owned()),
            now: at("09:30:01"),
            request: &request,
            policy: &self.policy,
            config_hash: "config-1",
            pinned_cluster: self.pinned.as_ref(),
            seen: &self.seen,
            looks: &self.looks,
            target: target.as_ref(),
        });
        match planned {
            Planned::Draft(draft) => PlanResult::Ready(draft.finish(None)),
            Planned::NothingToDo(left_alone) => PlanResult::NothingToDo(left_alone),
            Planned::Refused(refusals) => PlanResult::Refused(refusals),
        }
    }

    pub(super) fn ready(&self) -> Plan {
        match self.plan() {
            PlanResult::Ready(plan) => plan,
            other => panic!("no plan: {other:?}"),
        }
    }

    pub(super) fn refused(&self) -> Vec<Refusal> {
        match self.plan() {
            PlanResult::Refused(refusals) => refusals,
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
        execution: EXECUTION.to_owned(),
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
        execution: EXECUTION.to_owned(),
        plan: plan.id.clone(),
        expires_at: at("12:00:00"),
    }
}

pub(super) fn recovery(plan: &Plan) -> Recovery {
    Recovery::open(plan, EXECUTION, plan.created_at)
}

/// Everything that Apply reads, owned, so that a case can change one thing of it.
pub(super) struct Apply {
    pub(super) plan: Plan,
    pub(super) now: Timestamp,
    pub(super) execution: String,
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
            execution: EXECUTION.to_owned(),
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
