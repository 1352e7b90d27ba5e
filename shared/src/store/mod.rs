//! One DynamoDB table: checkpoints, plans, approvals, recoveries, incidents, audit records and the switch.
//!
//! Every read that decides is strongly consistent, and every write that decides is conditional.

mod approvals;
mod audits;
mod body;
mod checkpoints;
mod columns;
mod control;
mod error;
mod incidents;
mod item;
mod keys;
mod pack;
mod plans;
mod recoveries;
mod secret;
mod table;

use aws_sdk_dynamodb::Client;

pub use approvals::{Decided, Lapse};
pub use audits::Closed;
pub use checkpoints::Put;
pub use error::{ErrorClass, StoreError};
pub use incidents::{Claimed, IncidentClaim};
pub use recoveries::Opened;
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
