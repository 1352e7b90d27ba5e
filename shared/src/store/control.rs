//! The switch that stops every apply.

use super::error::Cause;
use super::item::{Attributes, Damaged, flag, item};
use super::{Result, Store, keys};

impl Store {
    /// Whether applying is switched on; `None` where nobody has set it.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn apply_switch(&self) -> Result<Option<bool>> {
        self.try_apply_switch()
            .await
            .map_err(|cause| cause.of("apply_switch"))
    }

    pub(super) async fn try_apply_switch(&self) -> Result<Option<bool>, Cause> {
        match self.get(&keys::apply_switch()).await? {
            None => Ok(None),
            // Somebody has set something: that it cannot be read must not read as "on".
            Some(item) => {
                let on = item.some_flag("on")?;
                Ok(Some(on.ok_or(Damaged { attribute: "on" })?))
            }
        }
    }

    /// Switches applying on or off.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn set_apply_switch(&self, on: bool) -> Result<()> {
        self.put(item(keys::apply_switch()).with("on", flag(on)))
            .await
            .map_err(|cause| cause.of("set_apply_switch"))
    }
}
