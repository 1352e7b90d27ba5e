//! Executions whose asker is answered over HTTP.

use jiff::{SignedDuration, Timestamp};

use super::item::{time, ttl};
use super::table::Update;
use super::{Result, Store, keys, operation};

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
        let note = Update::of(key)
            .set("asked_at", time(now))
            .set("ttl", ttl(now + KEPT));
        operation("note_asked_over_http", async {
            self.table.update(note).await?;
            Ok(())
        })
        .await
    }

    /// Whether the execution of this name was asked for over HTTP.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn asked_over_http(&self, execution_name: &str) -> Result<bool> {
        operation("asked_over_http", async {
            let note = self
                .table
                .get(&keys::asked_over_http(execution_name))
                .await?;
            Ok(note.is_some())
        })
        .await
    }
}
