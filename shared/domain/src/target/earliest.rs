//! The log start of every partition.

use super::data::{Target, Wanted};
use super::reading::judge_each_committed;
use crate::group::GroupObservation;
use crate::plan::Source;

/// Resolves the target: the log start now, which the target follows until the plan is applied.
#[must_use]
pub fn resolve_earliest(seen: &GroupObservation) -> Target {
    let wanted = judge_each_committed(seen, |_, _, log| Wanted::bare(log.log_start, true));
    Target::new(Source::Earliest, wanted)
}
