//! One DynamoDB table: checkpoints, plans, approvals, recoveries, audit records, what the guard and the webhook remember,
//! and the switch.
//!
//! Every read that decides is strongly consistent, and every write that decides is conditional.

mod approvals;
mod audits;
mod body;
mod checkpoints;
mod columns;
mod control;
mod error;
mod guard_runs;
mod incidents;
mod item;
mod keys;
mod looks;
mod pack;
mod plans;
mod quarantine;
mod recoveries;
mod requesters;
mod samples;
mod secret;
mod table;

use aws_sdk_dynamodb::Client;

pub use approvals::{Decided, Lapse};
pub use audits::{Closed, Reporter};
pub use checkpoints::Put;
pub use error::{ErrorClass, StoreError};
pub use incidents::{Claimed, IncidentClaim};
pub use quarantine::{Begun, LedgerEntry};
pub use recoveries::Opened;
pub use samples::{RING_RUNS, Ring};
pub use secret::{LinkHash, TaskToken};

type Result<T, E = StoreError> = std::result::Result<T, E>;

/// The table. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    client: Client,
    table: String,
}

impl Store {
    /// The table named `table`, reached through `client`.
    #[must_use]
    pub fn new(client: Client, table: String) -> Self {
        Self { client, table }
    }
}
