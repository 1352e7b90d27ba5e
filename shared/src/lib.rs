//! The core of Offset Guard: the rules ([`domain`]), the use cases and the adapters that its functions share.

pub mod domain;
pub mod errors;
pub mod executions;
pub mod page;
pub mod store;
