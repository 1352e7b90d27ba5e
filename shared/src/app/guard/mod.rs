//! Looks at groups, says why each partition is where it is, keeps what stands in the way, and proposes a plan.
//!
//! One group's run: look (`look`), judge (`domain::guard::rules`), keep the records that a plan would pass over
//! (`quarantine`), plan (`propose`), and report (`tell`).

mod asked;
mod copies;
mod group;
mod look;
mod pace;
mod probe;
mod propose;
mod quarantine;
mod result;
mod run;
mod sources;
mod tell;

pub use result::GuardResult;
pub use run::guard_groups;
pub use sources::Sources;
