//! The switch that stops every apply.

use super::error::Cause;
use super::item::{Attributes, Damaged};
use super::{Result, Store, keys, operation};

impl Store {
    /// Whether applying is switched on; `None` where nobody has set it.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn apply_switch(&self) -> Result<Option<bool>> {
        operation("apply_switch", self.read_apply_switch()).await
    }

    pub(super) async fn read_apply_switch(&self) -> Result<Option<bool>, Cause> {
        match self.table.get(&keys::apply_switch()).await? {
            None => Ok(None),
            // People write this item by hand, in a hurry: a misspelt one must not read as "not set".
            Some(item) => Ok(Some(
                item.some_flag("on")?.ok_or(Damaged { attribute: "on" })?,
            )),
        }
    }
}
