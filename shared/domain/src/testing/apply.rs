//! Everything that Apply reads, so that a case changes one thing of it.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::facts::{at, describe};
use super::records::{EXECUTION, allowed, approval, claim, recovery};
use super::scene::Scene;
use crate::approval::{Approval, ApprovedPlan, Evidence, People, authorize};
use crate::group::{GroupObservation, GroupState};
use crate::guard::quarantine::Reread;
use crate::identity::{Identity, Requester};
use crate::ids::ExecutionArn;
use crate::offset::TopicPartition;
use crate::plan::Plan;
use crate::recovery::{Claim, PreImage, Recovery};
use crate::refusal::Refusal;
use crate::rights::Rights;

/// The group after every move of `plan` was applied.
pub fn apply(plan: &Plan, seen: &mut GroupObservation) {
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

/// Everything that Apply reads, owned, so that a case can change one thing of it.
pub struct Apply {
    pub plan: Plan,
    pub now: Timestamp,
    pub execution: ExecutionArn,
    pub approval: Option<Approval>,
    pub four_eyes: bool,
    pub noted: Option<Identity>,
    pub recovery: Recovery,
    pub claim: Option<Claim>,
    pub enabled: bool,
    pub config_hash: String,
    pub seen: GroupObservation,
    pub rights: Rights,
    pub pre_image: Option<PreImage>,
    pub rereads: BTreeMap<(TopicPartition, i64), Reread>,
}

impl Apply {
    /// The incident's plan, approved at 09:40, applied at 09:45.
    pub fn of(scene: &Scene) -> Self {
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

    pub fn changed(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub fn approval(&mut self) -> &mut Approval {
        self.approval.as_mut().unwrap()
    }

    pub fn authorize(&self) -> Result<ApprovedPlan, Vec<Refusal>> {
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

    pub fn refused(&self) -> Vec<Refusal> {
        self.authorize().unwrap_err()
    }
}
