//! Which recovery holds a group, from what is on record.

use jiff::Timestamp;

use super::sample::{LiveRecovery, Stage};
use crate::plan::Plan;
use crate::recovery::{Claim, Recovery};

impl LiveRecovery {
    /// What holds the group at `now`; `None` where the claim has run out, or the recovery is not its own or has ended.
    #[must_use]
    pub fn from_claim(claim: &Claim, recovery: &Recovery, now: Timestamp) -> Option<Self> {
        let holds = claim.expires_at > now
            && recovery.plan == claim.plan
            && recovery.execution == claim.execution
            && recovery.closed_at.is_none()
            && recovery.superseded_by.is_none();
        holds.then(|| Self {
            plan: recovery.plan.clone(),
            since: recovery.opened_at,
            stage: match (recovery.apply_by, recovery.apply_until) {
                (_, Some(_)) => Stage::Applies,
                (Some(_), None) => Stage::Approved,
                (None, None) => Stage::AwaitsApproval,
            },
            targets: Vec::new(),
        })
    }

    /// The recovery from Apply on, with the targets of its plan.
    #[must_use]
    pub fn with_targets(self, plan: &Plan) -> Self {
        let moves = plan.moves.iter();
        let targets = moves.filter_map(|m| Some((m.partition.clone(), m.to.as_ref()?.offset)));
        Self {
            stage: Stage::Applies,
            targets: targets.collect(),
            ..self
        }
    }
}
