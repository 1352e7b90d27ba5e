//! What can go wrong with the table.

use std::error::Error;

/// What a caller may do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// It may work the next time: throttled, timed out, not reached.
    Transient,
    /// The table holds something else than this call requires; trying the same again is of no use.
    Conflict,
    /// A fault of this program, of its rights or of a stored item.
    Internal,
}

/// An operation on the table that failed.
///
/// Its text names the operation and never holds an item's contents.
#[derive(Debug, thiserror::Error)]
#[error("the table's {operation} failed")]
pub struct StoreError {
    /// The operation, as the method of [`Store`](super::Store) is named.
    pub operation: &'static str,
    /// What may be done about it.
    pub class: ErrorClass,
    /// What happened.
    #[source]
    pub source: Box<dyn Error + Send + Sync>,
}
