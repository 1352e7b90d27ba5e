//! Asks whether a plan could be applied at all, before anybody is asked to approve it.

use serde::Serialize;

use super::context::Context;
use super::load::load_recovery;
use crate::domain::reasons;
use crate::domain::rights;
use crate::error::Error;
use crate::ports::{Brokers, ReadGroups, Role};
use crate::wire::PlanStep;

/// The answer. All fields are always there: a missing one would fail the state that selects it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Nothing that is known keeps the principal from applying the plan.
    pub allowed: bool,
    /// The codes of the refusals; the reasons themselves are on record.
    pub refused: Vec<String>,
}

/// Asks the brokers, as the principal that would apply the plan, what that principal may do.
///
/// What they do not say is noted for the approver, and does not stop the plan: Kafka checks every right itself.
///
/// # Errors
/// The brokers or the table failed.
pub async fn check_rights<B: Brokers>(ctx: &Context<B>, step: &PlanStep) -> Result<Checked, Error> {
    let store = &ctx.store;
    let (plan, _) = load_recovery(store, &step.plan_id).await?;
    let reader = ctx
        .brokers
        .connect_groups(&plan.cluster, Role::Apply)
        .await?;
    let rights = reader
        .rights(&plan.group, &rights::topics(&plan))
        .await
        .map_err(Error::RightsUnread)?;
    let judged = rights::judge(&plan, &rights);
    if judged.refusals.is_empty() {
        if !judged.unknown.is_empty() {
            let unknown = rights::listed(&judged.unknown);
            store.note_unknown_rights(&plan.id, &unknown).await?;
        }
    } else {
        store.note_refusals(&plan.id, &judged.refusals).await?;
    }
    Ok(Checked {
        allowed: judged.refusals.is_empty(),
        refused: reasons::codes(&judged.refusals),
    })
}
