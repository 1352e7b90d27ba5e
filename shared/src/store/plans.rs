//! Plans, which nothing changes.

use jiff::SignedDuration;

use super::checkpoints::CHUNKS_OUTLIVE;
use super::encoding::body::{BODY, IN_ITEM};
use super::encoding::packed::Packed;
use super::error::Cause;
use super::item::{Attributes, item, ttl};
use super::keys;
use super::{Result, Store, operation};
use crate::domain::ids::PlanId;
use crate::domain::plan::PlanRecord;

/// How long a plan is kept, and how long an approval after its end.
pub(super) const KEPT: SignedDuration = SignedDuration::from_hours(90 * 24);

impl Store {
    /// Stores a plan. The same plan again is no error; another one under its id is a conflict.
    ///
    /// # Errors
    /// Another plan has this id, it is too big, or the table cannot be reached.
    pub async fn put_plan(&self, record: &PlanRecord) -> Result<()> {
        operation("put_plan", async {
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
            if self.table.put_new(meta).await? || self.holds(&key, &packed).await? {
                return Ok(());
            }
            Err(Cause::Conflict("another plan has this id"))
        })
        .await
    }

    /// A plan, proven undamaged.
    ///
    /// # Errors
    /// It is damaged, or the table cannot be reached.
    pub async fn plan(&self, id: &PlanId) -> Result<Option<PlanRecord>> {
        operation("plan", self.packed(&keys::plan(id))).await
    }
}

#[cfg(test)]
mod tests {
    use super::super::encoding::packed::{LIMIT, unpack};
    use super::*;
    use crate::domain::plan::PlanResult;
    use crate::domain::testing::shown::plan;

    /// The most metadata that brokers take by default, on both sides of every move. Ten times as many moves as are packed
    /// here have to fit.
    #[test]
    fn a_plan_of_ten_thousand_partitions_with_long_metadata_can_be_kept() {
        let mut plan = plan();
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        let mut noise = move || {
            std::iter::repeat_with(|| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random.to_le_bytes()
            })
            .take(512)
            .flatten()
            .collect::<Vec<u8>>()
        };
        let only = plan.moves[0].clone();
        plan.moves = (0..1_000)
            .map(|n| {
                let mut m = only.clone();
                m.partition.partition = n;
                for committed in [&mut m.from, &mut m.to] {
                    committed.as_mut().unwrap().metadata = noise();
                }
                m
            })
            .collect();
        let record = PlanRecord {
            id: plan.id.clone(),
            execution: "execution-1".into(),
            created_at: plan.created_at,
            cluster: plan.cluster.clone(),
            group: plan.group.clone(),
            dry_run: false,
            requested_by: String::new(),
            reason: String::new(),
            grounds: Vec::new(),
            result: PlanResult::Ready(plan),
        };
        let json = serde_json::to_vec(&record).unwrap().len();
        assert!(json * 10 < LIMIT, "{json}");
        let packed = Packed::new(&record).unwrap();
        let back: PlanRecord = unpack(packed.bytes()).unwrap();
        assert!(back == record, "it comes back as it was");
    }
}
