//! Audit records, and the end of a recovery with them.

use super::{Result, Store};
use crate::domain::audit::Audit;
use crate::domain::offset::{ClusterId, GroupId};

/// Whether a report was written now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// Now.
    Now,
    /// The execution has its audit record already; nothing was changed.
    Already,
}

impl Store {
    /// Writes the audit record of an execution and, in the same transaction, ends the recovery that it owns.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn close(&self, audit: &Audit) -> Result<Closed> {
        unimplemented!()
    }

    /// Every audit record of a group, newest first.
    ///
    /// # Errors
    /// An item is damaged, or the table cannot be reached.
    pub async fn audits(&self, cluster: &ClusterId, group: &GroupId) -> Result<Vec<Audit>> {
        unimplemented!()
    }

    /// The audit record of an execution.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn audit_of(&self, execution: &str) -> Result<Option<Audit>> {
        unimplemented!()
    }
}
