//! The table: checkpoints, plans, approvals, recoveries, audit records, what the guard and the webhook remember, and the
//! switch.
//!
//! Every read that decides is strongly consistent, and every write that decides is conditional. The table itself is behind
//! [`Table`]: in DynamoDB, and in memory for tests.

mod answered;
mod approvals;
mod audits;
mod back_off;
mod checkpoints;
mod control;
mod dynamo;
mod encoding;
mod error;
mod guard_runs;
mod incidents;
mod item;
mod keys;
#[cfg(any(test, feature = "testing"))]
mod memory;
mod plans;
mod probes;
mod quarantine;
mod recoveries;
mod requesters;
mod samples;
mod secret;
mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod untold;

use std::sync::Arc;

pub use approvals::{Decided, Lapse};
pub use audits::{Closed, Reporter};
pub use checkpoints::Put;
pub use dynamo::DynamoTable;
pub use error::StoreError;
pub use incidents::{Claimed, IncidentClaim};
pub use quarantine::{Begun, LedgerEntry};
pub use recoveries::Opened;
pub use samples::{RING_RUNS, Ring};
pub use secret::{LinkHash, TaskToken};
pub use table::Table;

use error::Cause;

type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Everything that is kept, in a table. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    table: Arc<dyn Table>,
}

impl Store {
    /// A store over this table.
    #[must_use]
    pub fn new(table: impl Table + 'static) -> Self {
        Self {
            table: Arc::new(table),
        }
    }
}

/// Does what an operation of the store does, and names the operation in what goes wrong.
async fn operation<T>(
    name: &'static str,
    work: impl Future<Output = Result<T, Cause>>,
) -> Result<T> {
    work.await.map_err(|cause| cause.of(name))
}
