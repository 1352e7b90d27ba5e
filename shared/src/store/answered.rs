//! Executions whose asker is answered over HTTP.

use jiff::{SignedDuration, Timestamp};

use super::error::Cause;
use super::item::{time, ttl};
use super::table::Write;
use super::{Result, Store, keys};

/// How long that is of use: longer than any recovery lasts.
const KEPT: SignedDuration = SignedDuration::from_hours(7 * 24);

impl Store {
    /// Notes, before the execution of this name is started, that it was asked for over HTTP. The webhook alone has the
    /// right to.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn note_asked_over_http(&self, execution_name: &str, now: Timestamp) -> Result<()> {
        let key = keys::asked_over_http(execution_name);
        let note = Write::change(key, "SET #asked_at = :now, #ttl = :ttl")
            .value(":now", time(now))
            .value(":ttl", ttl(now + KEPT));
        let noted = self.update(note).await;
        noted
            .map(|_| ())
            .map_err(|cause: Cause| cause.of("note_asked_over_http"))
    }

    /// Whether the execution of this name was asked for over HTTP.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn asked_over_http(&self, execution_name: &str) -> Result<bool> {
        let note = self.get(&keys::asked_over_http(execution_name)).await;
        note.map(|note| note.is_some())
            .map_err(|cause: Cause| cause.of("asked_over_http"))
    }
}
