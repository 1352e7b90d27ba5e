//! Everything that one plan is made of, so that a case changes one thing of it.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::facts::{at, p, seen};
use super::records::{applied, checkpoint_at, executed};
use crate::checkpoint::Checkpoint;
use crate::group::GroupObservation;
use crate::guard::quarantine::SkippedRecord;
use crate::guard::sample::Sample;
use crate::identity::Requester;
use crate::ids::PlanId;
use crate::offset::{ClusterId, GroupId, TopicPartition};
use crate::plan::{Plan, PlanResult};
use crate::planner::{Planned, Planning, plan_request};
use crate::policy::GroupPolicy;
use crate::recovery::PreImage;
use crate::refusal::Refusal;
use crate::request::{Allowances, ResetSpec, RewindRequest, Selection};
use crate::target::Target;
use crate::target::checkpoint::{CheckpointSource, resolve_checkpoint};
use crate::target::earliest::resolve_earliest;
use crate::target::executed::Executed;
use crate::target::finish::resolve_finish;
use crate::target::offsets::resolve_offsets;
use crate::target::shift::resolve_shift;
use crate::target::skip::{Skip, resolve_skip};
use crate::target::time::{FirstRecords, resolve_time};
use crate::target::undo::resolve_undo;

/// Where a scene is to go.
#[derive(Debug)]
pub enum Goal {
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

impl Goal {
    pub fn checkpoint(checkpoint: Checkpoint) -> Self {
        Self::Checkpoint(CheckpointSource::new(checkpoint))
    }

    /// The undo of a plan that was applied and verified.
    pub fn undo(plan: Plan, pre_image: PreImage) -> Self {
        let outcomes = applied(&plan);
        Self::Undo(executed(plan, pre_image, outcomes))
    }

    pub fn skip(committed: &[(i32, i64)], records: Vec<SkippedRecord>) -> Self {
        let committed = committed.iter().map(|(n, offset)| (p(*n), *offset));
        Self::Skip(Skip {
            committed: committed.collect(),
            records,
            ..Skip::default()
        })
    }

    pub fn offsets(offsets: &[(i32, i64)]) -> Self {
        Self::Offsets(offsets.iter().map(|(n, offset)| (p(*n), *offset)).collect())
    }

    /// The target that it resolves to.
    pub fn resolve(
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
pub struct Scene {
    pub seen: GroupObservation,
    pub goal: Goal,
    pub allow: Allowances,
    pub selection: Selection,
    pub policy: GroupPolicy,
    pub pinned: Option<ClusterId>,
    pub requester: Requester,
    pub dry_run: bool,
    pub looks: Vec<Sample>,
}

impl Scene {
    /// The incident: back to 08:00, when partition 1 was at 31.
    pub fn incident() -> Self {
        Self::from(Goal::checkpoint(checkpoint_at(
            "cp-0800",
            "08:00:00",
            seen(&[31, 31, 31], &[31, 43, 31]),
        )))
    }

    /// The group at 31/43/31, each log ending at 43, and another target.
    pub fn from(goal: Goal) -> Self {
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

    pub fn changed(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// The checkpoint that it goes back to, with its evidence.
    pub fn checkpoint_source(&mut self) -> &mut CheckpointSource {
        match &mut self.goal {
            Goal::Checkpoint(source) => source,
            other => panic!("no checkpoint: {other:?}"),
        }
    }

    /// The checkpoint that it goes back to.
    pub fn source(&mut self) -> &mut Checkpoint {
        &mut self.checkpoint_source().checkpoint
    }

    /// The earlier plan that it undoes or finishes.
    pub fn earlier(&mut self) -> &mut Executed {
        match &mut self.goal {
            Goal::Undo(of) | Goal::Finish(of) => of,
            other => panic!("no earlier plan: {other:?}"),
        }
    }

    /// What it passes over.
    pub fn skip(&mut self) -> &mut Skip {
        match &mut self.goal {
            Goal::Skip(skip) => skip,
            other => panic!("no skip: {other:?}"),
        }
    }

    /// The plan, where the group has no history of checkpoints.
    pub fn plan(&self) -> PlanResult {
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

    pub fn ready(&self) -> Plan {
        match self.plan() {
            PlanResult::Ready(plan) => plan,
            other => panic!("no plan: {other:?}"),
        }
    }

    pub fn refused(&self) -> Vec<Refusal> {
        match self.plan() {
            PlanResult::Refused(refusals) => refusals,
            other => panic!("not refused: {other:?}"),
        }
    }
}
