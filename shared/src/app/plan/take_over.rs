//! Executes a plan that was made before: by the guard, or by a dry run that a person has read.

use jiff::Timestamp;
use serde_json::Value;

use super::claim::open_recovery;
use super::keep::{answer, keep};
use crate::app::context::Context;
use crate::app::people::four_eyes;
use crate::domain::ids::{ExecutionArn, PlanId};
use crate::domain::plan::{Plan, PlanRecord};
use crate::domain::reasons;
use crate::domain::refusal::Refusal;
use crate::error::Error;
use crate::ports::{Brokers, ReadGroups, Role};
use crate::wire::{LONGEST_TEXT, PlanAnswer};

/// What a plan is taken over with.
pub(super) struct TakeOver<'a, B> {
    pub(super) ctx: &'a Context<B>,
    pub(super) execution: &'a ExecutionArn,
    /// The id under which it is stored where the plan is not executed.
    pub(super) own_id: PlanId,
}

impl<B: Brokers> TakeOver<'_, B> {
    /// Opens the recovery of the plan that `given` names, or stores why not.
    pub(super) async fn run(self, given: &Value) -> Result<PlanAnswer, Error> {
        let (store, execution, now) = (&self.ctx.store, self.execution, self.ctx.now());
        let id = PlanId(reasons::cut(
            given.as_str().unwrap_or_default(),
            LONGEST_TEXT,
        ));
        let Some(mut record) = store.plan(&id).await? else {
            let refusals = vec![Refusal::PlanNotFound { plan: id }];
            let refused = PlanRecord::refused(self.own_id, execution.clone(), now, refusals);
            return keep(store, refused).await;
        };
        match self.refuse(&record, now).await? {
            None => {
                record.dry_run = false;
                Ok(answer(&record))
            }
            Some(refusal) => {
                let refused =
                    PlanRecord::refused(self.own_id, execution.clone(), now, vec![refusal]);
                let refused = PlanRecord {
                    cluster: record.cluster,
                    group: record.group,
                    ..refused
                };
                keep(store, refused).await
            }
        }
    }

    /// Opens the recovery, or says why not.
    async fn refuse(&self, record: &PlanRecord, now: Timestamp) -> Result<Option<Refusal>, Error> {
        let plan = match record.take_over(now, |plan| four_eyes(&self.ctx.config, plan)) {
            Ok(plan) => plan,
            Err(refusal) => return Ok(Some(refusal)),
        };
        if let Some(active) = refuse_active(&self.ctx.brokers, plan).await? {
            return Ok(Some(active));
        }
        open_recovery(&self.ctx.store, self.execution, plan, now).await
    }
}

/// Why nobody needs to be asked to approve a plan: the group is active, and nothing waits until it is not.
async fn refuse_active<B: Brokers>(brokers: &B, plan: &Plan) -> Result<Option<Refusal>, Error> {
    if plan.waits_for_empty {
        return Ok(None);
    }
    let groups = brokers.connect_groups(&plan.cluster, Role::Read).await?;
    let described = groups.describe(&plan.group).await;
    Ok(plan.refuse_active(&described))
}
