//! The rules: from samples and probes to a verdict per partition.
//!
//! - [`table`]: the rules in the order in which they are asked.
//! - [`mod@judge`]: walks the table.
//! - `offsets`, `stall`: the questions; `standing`, `picture`, `suspicion`: what the questions about a stall rest on.
//! - [`group`]: questions about the group as a whole; `uncommitted`: a group that never committed.
//! - `case`, `members`: what was seen, and what the members did.

mod case;
mod counts;
pub mod group;
pub mod judge;
mod members;
mod offsets;
mod picture;
mod stall;
mod standing;
mod suspicion;
pub mod table;
mod uncommitted;

pub use group::{
    is_forgotten, is_suspicious, jump_without_members, reads_uncommitted, trouble_of_members,
};
pub use judge::{Assessment, judge};
pub use table::{RULES, Rule};

#[cfg(test)]
mod tests;
