//! The switch that stops every apply.

use super::{Result, Store};

impl Store {
    /// Whether applying is switched on; `None` where nobody has set it.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn apply_switch(&self) -> Result<Option<bool>> {
        unimplemented!()
    }

    /// Switches applying on or off.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn set_apply_switch(&self, on: bool) -> Result<()> {
        unimplemented!()
    }
}
