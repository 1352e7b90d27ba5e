//! Where a group is to go, as data: what each partition should become, and what is known of where that comes from.
//!
//! Every kind of target has a file here with a function that resolves it. Nothing outside of these files asks which kind
//! a target is of.

pub mod checkpoint;
pub mod choice;
mod data;
pub mod earliest;
pub mod executed;
pub mod finish;
pub mod offsets;
mod reading;
pub mod shift;
pub mod skip;
pub mod time;
pub mod undo;

pub use data::*;
pub(super) use reading::{is_streams_commit, read_position};
