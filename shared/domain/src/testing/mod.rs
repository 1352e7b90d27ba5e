//! Fixtures for tests, behind the feature `testing`: one builder per type, for every crate of the workspace.
//!
//! The scene is the incident that this project was begun for. Topic `shipments` has three partitions, group
//! `shipment-sync`. At 08:00 the group had read to 31/31/31. A bad release read on to 43 in partition 1. It is 09:30 now,
//! and the consumers are stopped.
//!
//! Builders panic on values that make no sense, as tests do.

#![allow(
    missing_docs,
    missing_debug_implementations,
    clippy::unwrap_used,
    clippy::panic,
    reason = "fixtures are read in their tests, and a fixture that cannot be built fails the test"
)]

mod apply;
mod facts;
pub mod guard;
pub mod guard_run;
mod records;
mod scene;
pub mod shown;

pub use apply::*;
pub use facts::*;
pub use records::*;
pub use scene::*;
