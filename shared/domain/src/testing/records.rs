//! What is on record: checkpoints, plans, approvals, claims, recoveries, copies of records.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use super::facts::{at, p};
use super::guard::outline;
use crate::approval::{Approval, ApprovalStatus, Decision};
use crate::checkpoint::{Checkpoint, CheckpointHeader, checkpoint};
use crate::disowned::Disowned;
use crate::group::GroupObservation;
use crate::guard::quarantine::{CopySeen, DedupeId, Kept, KeptCopy, Reread, SkippedRecord};
use crate::ids::CheckpointId;
use crate::offset::TopicPartition;
use crate::plan::{Plan, PlanRecord, PlanResult};
use crate::recovery::{Claim, Outcome, PartitionOutcome, PreImage, Recovery};
use crate::rights::{self, Operation, Rights};
use crate::target::executed::Executed;

pub const EXECUTION: &str = "execution-1";

/// A checkpoint of a reading, which ended at that time.
pub fn checkpoint_at(name: &str, time: &str, mut seen: GroupObservation) -> Checkpoint {
    seen.ended_at = at(time);
    checkpoint(CheckpointId(name.to_owned()), &seen, None, false).unwrap()
}

pub fn header(of: &Checkpoint) -> CheckpointHeader {
    CheckpointHeader {
        id: of.id.clone(),
        ended_at: of.ended_at,
        disowned: Disowned::default(),
        anomalies: of.anomalies.clone(),
        expires_at: None,
    }
}

/// What is on record of a plan that was verified.
pub fn applied(plan: &Plan) -> BTreeMap<TopicPartition, PartitionOutcome> {
    let each = plan.moves.iter();
    each.map(|m| (m.partition.clone(), PartitionOutcome::Applied))
        .collect()
}

/// A plan of which that is on record.
pub fn executed(
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
pub fn skipped(partition: i32, offset: i64, kept: Kept) -> SkippedRecord {
    SkippedRecord {
        partition: p(partition),
        record: outline(offset),
        failure: None,
        dedupe_id: DedupeId(format!("{partition}-{offset}")),
        kept,
    }
}

/// In quarantine at that offset.
pub fn kept(offset: i64) -> Kept {
    Kept::In(KeptCopy {
        partition: TopicPartition::new("shipments-quarantine", 0),
        offset,
    })
}

/// What is found where everything is as it was.
pub fn reread(skipped: &SkippedRecord) -> Reread {
    Reread {
        source: Ok(Some(skipped.record.clone())),
        copy: Ok(Some(CopySeen {
            fingerprint: skipped.record.fingerprint.clone(),
            dedupe_id: Some(skipped.dedupe_id.clone()),
        })),
    }
}

/// What was committed for the moved partitions when a plan was made.
pub fn pre_image(plan: &Plan) -> PreImage {
    let each = plan.moves.iter();
    PreImage::of(
        each.map(|m| (m.partition.clone(), m.from.clone()))
            .collect(),
    )
}

/// An approval of `plan`, given at 09:40, by the execution [`EXECUTION`].
pub fn approval(plan: &Plan) -> Approval {
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

/// The request for the approval of `plan`, four seconds after it was made. Nobody has decided it yet.
pub fn pending_approval(plan: &Plan) -> Approval {
    Approval {
        plan: plan.id.clone(),
        digest: plan.digest(),
        execution: "recovery-1".into(),
        created_at: plan.created_at + SignedDuration::from_secs(4),
        approve_by: plan.approve_by,
        status: ApprovalStatus::Pending,
        decision: None,
        from_dry_run: false,
        decided_by: None,
        decider: None,
        decided_at: None,
        reason: None,
        delivered_at: None,
    }
}

/// All that `plan` needs, and the brokers say so.
pub fn allowed(plan: &Plan) -> Rights {
    let all = || Some([Operation::Read, Operation::Delete].into());
    Rights {
        group: all(),
        topics: rights::topics(plan)
            .into_iter()
            .map(|topic| (topic, Ok(all())))
            .collect(),
    }
}

pub fn claim(plan: &Plan) -> Claim {
    Claim {
        execution: EXECUTION.into(),
        plan: plan.id.clone(),
        expires_at: at("12:00:00"),
    }
}

pub fn recovery(plan: &Plan) -> Recovery {
    Recovery::open(plan, &EXECUTION.into(), plan.created_at)
}

/// The record of `plan`, made by [`EXECUTION`] without grounds.
pub fn plan_record(plan: Plan) -> PlanRecord {
    PlanRecord {
        id: plan.id.clone(),
        execution: EXECUTION.into(),
        created_at: plan.created_at,
        cluster: plan.cluster.clone(),
        group: plan.group.clone(),
        dry_run: false,
        requested_by: plan.requested_by.clone(),
        reason: plan.reason.clone(),
        grounds: Vec::new(),
        result: PlanResult::Ready(plan),
    }
}
