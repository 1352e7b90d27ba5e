//! What every use case works with.

use std::sync::Arc;

use jiff::Timestamp;

use crate::config::Config;
use crate::ports::{Clock, Executions, Notifier};
use crate::store::Store;

/// The configuration, the table, and the ports to everything else.
///
/// `B` is [`Brokers`](crate::ports::Brokers) where the use case needs a cluster; what needs none takes any context.
#[derive(Debug, Clone)]
pub struct Context<B = ()> {
    pub config: Arc<Config>,
    pub store: Store,
    pub brokers: B,
    pub executions: Arc<dyn Executions>,
    pub notifier: Arc<dyn Notifier>,
    pub clock: Clock,
    /// Whether Apply may send where the switch in the table is not set.
    pub apply_enabled: bool,
}

impl<B> Context<B> {
    /// The present time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
}
