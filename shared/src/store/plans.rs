//! Plans, which nothing changes.

use jiff::SignedDuration;

use super::body::{BODY, IN_ITEM};
use super::checkpoints::CHUNKS_OUTLIVE;
use super::error::Cause;
use super::item::{Attributes, item, ttl};
use super::keys;
use super::pack::Packed;
use super::{Result, Store};
use crate::domain::plan::{PlanId, PlanRecord};

/// How long a plan is kept, and how long an approval after its end.
pub(super) const KEPT: SignedDuration = SignedDuration::from_hours(90 * 24);

impl Store {
    /// Stores a plan. The same plan again is no error; another one under its id is a conflict.
    ///
    /// # Errors
    /// Another plan has this id, it is too big, or the table cannot be reached.
    pub async fn put_plan(&self, record: &PlanRecord) -> Result<()> {
        self.try_put_plan(record)
            .await
            .map_err(|cause| cause.of("put_plan"))
    }

    async fn try_put_plan(&self, record: &PlanRecord) -> Result<(), Cause> {
        let key = keys::plan(&record.id);
        let expires_at = record.created_at + KEPT;
        let packed = Packed::new(record)?;
        let chunks_until = Some(expires_at + CHUNKS_OUTLIVE);
        let body = self
            .put_body(&BODY, &packed, IN_ITEM, &key.pk, chunks_until)
            .await?;
        let meta = item(key.clone())
            .with("ttl", ttl(expires_at))
            .with_all(body);
        if self.put_new(meta).await? || self.holds(&key, &packed).await? {
            return Ok(());
        }
        Err(Cause::Conflict("another plan has this id"))
    }

    /// A plan, proven undamaged.
    ///
    /// # Errors
    /// It is damaged, or the table cannot be reached.
    pub async fn plan(&self, id: &PlanId) -> Result<Option<PlanRecord>> {
        self.packed(&keys::plan(id))
            .await
            .map_err(|cause| cause.of("plan"))
    }
}
