//! Executes a plan that was made before: by the guard, or by a dry run that a person has read.

use jiff::Timestamp;
use serde_json::Value;

use super::claim::open_recovery;
use super::{PlanTask, answer, keep};
use crate::app::people::four_eyes;
use crate::config::Config;
use crate::domain::ids::PlanId;
use crate::domain::plan::{Plan, PlanRecord};
use crate::domain::reasons;
use crate::domain::refusal::Refusal;
use crate::error::Error;
use crate::ports::ReadGroups;
use crate::store::Store;
use crate::wire::{LONGEST_TEXT, PlanAnswer};

/// Opens the recovery of the plan that `given` names, or stores under `own_id` why not.
pub(super) async fn take_over<R, F>(
    config: &Config,
    store: &Store,
    step: &PlanTask<'_>,
    (own_id, given): (PlanId, &Value),
    connect: F,
) -> Result<PlanAnswer, Error>
where
    R: ReadGroups,
    F: AsyncFn(&str) -> Result<R, Error>,
{
    let now = Timestamp::now();
    let id = PlanId(reasons::cut(
        given.as_str().unwrap_or_default(),
        LONGEST_TEXT,
    ));
    let record = store.plan(&id).await?;
    let refusal = match &record {
        None => Some(Refusal::PlanNotFound { plan: id }),
        Some(record) => {
            let asks_two = |plan: &Plan| four_eyes(config, plan);
            match record.take_over(now, asks_two) {
                Err(refusal) => Some(refusal),
                Ok(plan) => match refuse_active(plan, connect).await? {
                    Some(active) => Some(active),
                    None => open_recovery(store, step.execution, plan, now).await?,
                },
            }
        }
    };
    let Some(refusal) = refusal else {
        let mut taken =
            record.ok_or_else(|| Error::Broken("a plan that was read is gone".to_owned()))?;
        taken.dry_run = false;
        return Ok(answer(&taken));
    };
    let refused = PlanRecord::refused(own_id, step.execution, now, vec![refusal]);
    let refused = match record {
        Some(record) => PlanRecord {
            cluster: record.cluster,
            group: record.group,
            ..refused
        },
        None => refused,
    };
    keep(store, refused).await
}

/// Why nobody needs to be asked to approve a plan: the group is active, and nothing waits until it is not.
async fn refuse_active<R, F>(plan: &Plan, connect: F) -> Result<Option<Refusal>, Error>
where
    R: ReadGroups,
    F: AsyncFn(&str) -> Result<R, Error>,
{
    if plan.waits_for_empty {
        return Ok(None);
    }
    let described = connect(&plan.cluster).await?.describe(&plan.group).await;
    Ok(plan.refuse_active(&described))
}
