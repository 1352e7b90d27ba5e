//! Connections to clusters.

use std::future::Future;

use offset_guard_domain::ports::{AlterGroups, KeepRecords, ReadGroups, ReadRecords};

use crate::error::Error;
use crate::rest_proxy::RestProxy;

/// The principal to connect as. Each cluster has one secret per role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Describes groups and topics.
    Read,
    /// Describes, reads records, and writes to the quarantine topic.
    Guard,
    /// Commits offsets for the configured groups.
    Apply,
}

/// Connects to the configured clusters, each by its name in the configuration.
///
/// Nothing is connected before it is asked for: a broker that is down must not keep a function from starting.
///
/// # Errors
/// Every method fails if the cluster is not configured or its secret is not usable.
pub trait Brokers {
    /// Reads groups and logs.
    type Groups: ReadGroups;
    /// Reads records.
    type Records: ReadRecords;
    /// Writes copies of records.
    type Keeper: KeepRecords;
    /// Alters committed offsets.
    type Writer: AlterGroups;

    /// A reader of groups and logs.
    fn connect_groups(
        &self,
        cluster: &str,
        role: Role,
    ) -> impl Future<Output = Result<Self::Groups, Error>>;

    /// A reader of records.
    fn connect_records(
        &self,
        cluster: &str,
        role: Role,
    ) -> impl Future<Output = Result<Self::Records, Error>>;

    /// A writer of copies, as the principal of the guard.
    fn connect_keeper(&self, cluster: &str) -> impl Future<Output = Result<Self::Keeper, Error>>;

    /// A writer of committed offsets, as the principal that may commit.
    fn connect_writer(&self, cluster: &str) -> impl Future<Output = Result<Self::Writer, Error>>;

    /// The REST Proxy of the cluster; `None` if none is configured.
    fn find_rest_proxy(
        &self,
        cluster: &str,
    ) -> impl Future<Output = Result<Option<RestProxy>, Error>>;
}
