//! Small numbers that all rules share.

use std::collections::BTreeSet;

use jiff::SignedDuration;

use crate::guard::sample::Sample;

/// Fewest runs that are looked at for what the members do.
pub(super) const RECENT_RUNS: usize = 3;
/// Most names that one piece of evidence holds.
pub(super) const NAMED: usize = 5;

/// The number of runs that `samples` were taken in.
pub(super) fn count_runs(samples: &[Sample]) -> usize {
    samples
        .iter()
        .map(|sample| sample.run)
        .collect::<BTreeSet<_>>()
        .len()
}

/// Whole seconds; 0 for a negative duration.
pub(super) fn whole_seconds(duration: SignedDuration) -> u64 {
    u64::try_from(duration.as_secs()).unwrap_or(0)
}

/// A number of a policy as a length.
pub(super) fn as_length(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
