//! The rules. Nothing here reads a clock, a network, a file or the environment.

#![forbid(unsafe_code)]

pub mod alter_size;
pub mod approval;
pub mod audit;
pub mod checkpoint;
pub mod disowned;
pub mod fleet;
pub mod group;
pub mod guard;
pub mod identity;
pub mod ids;
pub mod incident;
pub mod near;
pub mod offset;
pub mod plan;
pub mod planner;
pub mod policy;
pub mod ports;
pub mod reasons;
pub mod recovery;
pub mod refusal;
pub mod report;
pub mod request;
pub mod rights;
pub mod secret;
pub mod target;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod text;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod wording;
