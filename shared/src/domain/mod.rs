//! The rules. Nothing here reads a clock, a network, a file or the environment.

pub mod group;
pub mod offset;
