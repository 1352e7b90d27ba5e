//! Plans, which nothing changes.

use super::{Result, Store};
use crate::domain::plan::{PlanId, PlanRecord};

impl Store {
    /// Stores a plan. The same plan again is no error; another one under its id is a conflict.
    ///
    /// # Errors
    /// Another plan has this id, or the table cannot be reached.
    pub async fn put_plan(&self, record: &PlanRecord) -> Result<()> {
        unimplemented!()
    }

    /// A plan, proven undamaged.
    ///
    /// # Errors
    /// It is damaged, or the table cannot be reached.
    pub async fn plan(&self, id: &PlanId) -> Result<Option<PlanRecord>> {
        unimplemented!()
    }
}
