//! A number of offsets from where the group is.

use super::data::{Target, Wanted};
use super::reading::judge_each_committed;
use crate::group::GroupObservation;
use crate::plan::Source;
use crate::request::RewindRequest;

/// Resolves the target: `by` offsets from each commit; negative is back.
#[must_use]
pub fn resolve_shift(by: i64, request: &RewindRequest, seen: &GroupObservation) -> Target {
    let wanted = judge_each_committed(seen, |_, from, _| {
        Wanted::bare(from.offset.saturating_add(by), request.allow.clamp)
    });
    Target::new(Source::Shift { by }, wanted)
}
