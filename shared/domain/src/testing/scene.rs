//! Everything that one plan is made of, so that a case changes one thing of it.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::facts::{at, p, seen};
use super::records::{applied, checkpoint_at};
use crate::checkpoint::{Checkpoint, CheckpointHeader};
use crate::choice::{Older, PassedOver};
use crate::executed::Executed;
use crate::group::GroupObservation;
use crate::guard::quarantine::SkippedRecord;
use crate::guard::sample::Sample;
use crate::identity::Requester;
use crate::ids::PlanId;
use crate::offset::{ClusterId, Fault, FoundByTime, GroupId, TopicPartition};
use crate::plan::{Plan, Warning};
use crate::planner::{Planned, Planning, Targets, plan};
use crate::policy::GroupPolicy;
use crate::recovery::{AlterAnswer, PartitionOutcome, PreImage};
use crate::refusal::Refusal;
use crate::request::{Allowances, ResetSpec, RewindRequest, Selection};

/// The target of a scene.
pub enum Target {
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
pub struct Earlier {
    pub finish: bool,
    pub plan: Plan,
    pub pre_image: PreImage,
    pub answers: BTreeMap<TopicPartition, AlterAnswer>,
    pub outcomes: BTreeMap<TopicPartition, PartitionOutcome>,
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

impl Target {
    pub fn checkpoint(checkpoint: Checkpoint) -> Self {
        Self::Checkpoint {
            checkpoint,
            newest: None,
            later: Vec::new(),
            older: Vec::new(),
            passed_over: PassedOver::default(),
        }
    }

    pub fn past(committed: &[(i32, i64)], records: Vec<SkippedRecord>) -> Self {
        let committed = committed.iter().map(|(n, offset)| (p(*n), *offset));
        Self::Past(committed.collect(), records, false)
    }

    pub fn offsets(offsets: &[(i32, i64)]) -> Self {
        Self::Offsets(offsets.iter().map(|(n, offset)| (p(*n), *offset)).collect())
    }
}

/// Everything that one plan is made of, owned, so that a case can change one thing of it.
pub struct Scene {
    pub seen: GroupObservation,
    pub target: Target,
    pub allow: Allowances,
    pub selection: Selection,
    pub policy: GroupPolicy,
    pub pinned: Option<ClusterId>,
    pub requester: Requester,
    pub dry_run: bool,
    pub looks: Vec<Sample>,
    /// What a skip withholds.
    pub withheld: BTreeMap<TopicPartition, String>,
    /// What a skip says of its quarantine topic.
    pub cautions: Vec<Warning>,
}

impl Scene {
    /// The incident: back to 08:00, when partition 1 was at 31.
    pub fn incident() -> Self {
        Self::from(Target::checkpoint(checkpoint_at(
            "cp-0800",
            "08:00:00",
            seen(&[31, 31, 31], &[31, 43, 31]),
        )))
    }

    /// The group at 31/43/31, each log ending at 43, and another target.
    pub fn from(target: Target) -> Self {
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

    pub fn changed(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// The checkpoint that is the target.
    pub fn source(&mut self) -> &mut Checkpoint {
        match &mut self.target {
            Target::Checkpoint { checkpoint, .. } => checkpoint,
            _ => panic!("the target is no checkpoint"),
        }
    }

    pub fn plan(&self) -> Planned {
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

    pub fn ready(&self) -> Plan {
        match self.plan() {
            Planned::Ready(plan) => *plan,
            other => panic!("no plan: {other:?}"),
        }
    }

    pub fn refused(&self) -> Vec<Refusal> {
        match self.plan() {
            Planned::Refused(refusals) => refusals,
            other => panic!("not refused: {other:?}"),
        }
    }
}
