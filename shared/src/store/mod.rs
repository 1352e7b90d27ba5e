//! One DynamoDB table: checkpoints, plans, approvals, recoveries, audit records and the switch.
//!
//! Every read that decides is strongly consistent, and every write that decides is conditional.

mod approvals;
mod audits;
mod checkpoints;
mod control;
mod error;
mod plans;
mod recoveries;
mod secret;

use aws_sdk_dynamodb::Client;

pub use approvals::{Decided, Lapse};
pub use audits::Closed;
pub use checkpoints::Put;
pub use error::{ErrorClass, StoreError};
pub use recoveries::Opened;
pub use secret::{LinkHash, TaskToken};

type Result<T> = std::result::Result<T, StoreError>;

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
