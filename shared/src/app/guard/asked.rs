//! An explicit request to the guard.

use crate::domain::guard::proposal::Ask;
use crate::wire::guard::GuardAsk;

/// A person's request, parsed.
pub(super) struct Asked<'a> {
    pub(super) ask: Ask,
    pub(super) written: &'a GuardAsk,
}

impl<'a> Asked<'a> {
    /// Parses what was written.
    pub(super) fn new(written: &'a GuardAsk) -> Self {
        Self {
            ask: written.ask(),
            written,
        }
    }
}
