//! The rules. Nothing here reads a clock, a network, a file or the environment.

pub mod approval;
pub mod audit;
pub mod checkpoint;
pub mod group;
pub mod guard;
pub mod identity;
pub mod incident;
pub mod offset;
pub mod plan;
pub mod planner;
pub mod policy;
pub mod reasons;
pub mod recovery;
pub mod refusal;
pub mod report;
pub mod request;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod wording;
