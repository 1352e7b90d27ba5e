//! Why each partition is where it is, and what may be done about it.

pub mod answers;
pub mod evidence;
pub mod headers;
pub mod keeping;
mod live_recovery;
pub mod policy;
pub mod probe;
pub mod proposal;
pub mod quarantine;
pub mod record;
pub mod rules;
pub mod run;
pub mod sample;
pub mod verdict;
