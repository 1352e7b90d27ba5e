//! A plan and its recovery, as the table has them.

use crate::domain::ids::PlanId;
use crate::domain::plan::{Plan, PlanResult};
use crate::domain::recovery::Recovery;
use crate::error::Error;
use crate::store::Store;

/// A plan that is being executed, and its recovery.
///
/// # Errors
/// One of the two is not there: that is a defect, since the execution comes from them.
pub(super) async fn load_recovery(store: &Store, id: &PlanId) -> Result<(Plan, Recovery), Error> {
    let record = store.plan(id).await?;
    let recovery = store.recovery(id).await?;
    match (record.map(|record| record.result), recovery) {
        (Some(PlanResult::Ready(plan)), Some(recovery)) => Ok((plan, recovery)),
        _ => Err(Error::Broken(format!(
            "plan {id} or its recovery is not on record"
        ))),
    }
}
