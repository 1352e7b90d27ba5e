//! What only tests ask of the store: operations that people do by hand, or nobody does alone.

use jiff::Timestamp;

pub use super::memory::MemoryTable;

use super::checkpoints::moved;
use super::encoding::body::BODY;
use super::item::{Attributes, flag, item};
use super::keys::{self, TIMED};
use super::table::{Query, Range};
use super::{Result, Store, operation};
use crate::domain::audit::Audit;
use crate::domain::ids::GroupKey;

impl Store {
    /// A store over a new table in memory.
    #[must_use]
    pub fn in_memory() -> (Self, MemoryTable) {
        let table = MemoryTable::new();
        (Self::new(table.clone()), table)
    }

    /// Switches applying on or off, as people do in the table itself.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn set_apply_switch(&self, on: bool) -> Result<()> {
        let switch = item(keys::apply_switch()).with("on", flag(on));
        operation("set_apply_switch", self.table.put(switch)).await
    }

    /// Every audit record of a group, newest first.
    ///
    /// # Errors
    /// An item is damaged, or the table cannot be reached.
    pub async fn audits(&self, group: &GroupKey) -> Result<Vec<Audit>> {
        operation("audits", async {
            let pk = keys::audits(Some(&group.cluster_id), Some(&group.group));
            let all = Query::new(&pk, Range::Prefix(TIMED.to_owned()));
            let mut audits = Vec::new();
            for item in self.table.query(all).await? {
                audits.push(self.body(&BODY, &item, &pk).await?);
            }
            audits.reverse();
            Ok(audits)
        })
        .await
    }

    /// Notes that a recovery moved the group, or may have, at `at`. Never goes back.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn note_moved(&self, group: &GroupKey, at: Timestamp) -> Result<()> {
        operation("note_moved", async {
            self.table.update(moved(group, at)).await?;
            Ok(())
        })
        .await
    }
}
