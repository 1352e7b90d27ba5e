//! What the use cases need of the outside.
//!
//! Each port is a trait with one adapter that talks to the real thing. Tests put an adapter of their own in its place, or
//! a fault between. The ports of Kafka are defined beside the rules, so that the Kafka adapter depends on nothing else.

mod brokers;
mod clock;
mod executions;
mod notifier;

pub use offset_guard_domain::ports::*;

pub use self::brokers::{Brokers, Role};
pub use self::clock::Clock;
pub use self::executions::{
    Execution, ExecutionStatus, Executions, ExecutionsError, NameUse, Started, TaskAnswer,
};
pub use self::notifier::{NobodyNotified, Notifier, NotifyError, Question};
