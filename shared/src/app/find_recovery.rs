//! Finds a recovery by the key that it was asked for under, or by its plan.

use super::asker::{Asker, name_execution};
use super::plan_id;
use crate::domain::audit::Audit;
use crate::domain::ids::PlanId;
use crate::domain::plan::PlanRecord;
use crate::domain::recovery::Recovery;
use crate::error::Error;
use crate::ports::{Execution, Executions};
use crate::store::Store;

/// Where recoveries are looked for.
#[derive(Debug, Clone, Copy)]
pub struct Finding<'a> {
    pub store: &'a Store,
    pub executions: &'a dyn Executions,
}

/// An execution, and what is on record of it.
#[derive(Debug)]
pub struct FoundRecovery {
    pub execution: Execution,
    pub plan: Option<PlanRecord>,
    pub recovery: Option<Recovery>,
    pub audit: Option<Audit>,
}

/// The recovery that `asker` asked for under the key `id`, or else the one of the plan `id`.
///
/// # Errors
/// The table or Step Functions cannot be reached.
pub async fn find_recovery(
    finding: Finding<'_>,
    asker: Asker<'_>,
    id: &str,
) -> Result<Option<FoundRecovery>, Error> {
    match find_by_key(finding, asker, id).await? {
        Some(found) => Ok(Some(found)),
        None => find_by_plan(finding, PlanId(id.to_owned())).await,
    }
}

/// The execution that an asker's own key stands for; with its plan, by its audit record or by when it started.
async fn find_by_key(
    finding: Finding<'_>,
    asker: Asker<'_>,
    key: &str,
) -> Result<Option<FoundRecovery>, Error> {
    let store = finding.store;
    let name = name_execution(asker, key);
    let Some(arn) = finding.executions.arn(&name) else {
        return Ok(None);
    };
    let Some(execution) = finding.executions.describe(&arn).await? else {
        return Ok(None);
    };
    let audit = store.audit_of(&arn).await?;
    let recorded = audit.as_ref().and_then(|audit| audit.plan.clone());
    let id = recorded.unwrap_or_else(|| plan_id(&arn, execution.started_at));
    let plan = store.plan(&id).await?;
    let recovery = match &plan {
        Some(plan) => store.recovery(&plan.id).await?,
        None => None,
    };
    Ok(Some(FoundRecovery {
        execution,
        plan,
        recovery,
        audit,
    }))
}

/// The execution that carries out a plan, or else the one that made it.
async fn find_by_plan(finding: Finding<'_>, id: PlanId) -> Result<Option<FoundRecovery>, Error> {
    let store = finding.store;
    let Some(plan) = store.plan(&id).await? else {
        return Ok(None);
    };
    let recovery = store.recovery(&id).await?;
    let arn = match &recovery {
        Some(recovery) => Some(recovery.execution.clone()),
        None if plan.execution.0.starts_with("arn:") => Some(plan.execution.clone()),
        // The guard's runs are no executions; the one that it starts for a plan has the plan's name.
        None => finding.executions.arn(&plan.id.0),
    };
    let Some(arn) = arn else {
        return Ok(None);
    };
    let Some(execution) = finding.executions.describe(&arn).await? else {
        return Ok(None);
    };
    Ok(Some(FoundRecovery {
        execution,
        audit: store.audit_of(&arn).await?,
        plan: Some(plan),
        recovery,
    }))
}
