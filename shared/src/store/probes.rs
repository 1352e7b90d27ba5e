//! Which probes of a group are under way, and which ended the process that read.

use jiff::{SignedDuration, Timestamp};

use super::error::Cause;
use super::item::{Attributes, text, ttl};
use super::keys;
use super::table::Write;
use super::{Result, Store};
use crate::domain::guard::probe::{ProbeNotes, READ_AGAIN_AFTER};
use crate::domain::offset::{ClusterId, GroupId};

/// How long they are kept after the last of them is of use.
const KEPT: SignedDuration = SignedDuration::from_hours(1);

impl Store {
    /// What is noted of a group's probes. What cannot be read any more is nothing: it is of use for an hour at most.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn probe_notes(&self, cluster: &ClusterId, group: &GroupId) -> Result<ProbeNotes> {
        let item = self.get(&keys::probe_notes(cluster, group)).await;
        let item = item.map_err(|cause: Cause| cause.of("probe_notes"))?;
        let notes = item.as_ref().and_then(|item| item.text("notes").ok());
        Ok(notes
            .and_then(|notes| serde_json::from_str(notes).ok())
            .unwrap_or_default())
    }

    /// Notes what is to be known of a group's probes.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn put_probe_notes(
        &self,
        cluster: &ClusterId,
        group: &GroupId,
        notes: &ProbeNotes,
        now: Timestamp,
    ) -> Result<()> {
        let key = keys::probe_notes(cluster, group);
        let note = Write::change(key, "SET #notes = :notes, #ttl = :ttl")
            .value(":notes", text(serde_json::json!(notes).to_string()))
            .value(":ttl", ttl(now + READ_AGAIN_AFTER + KEPT));
        let noted = self.update(note).await;
        noted
            .map(|_| ())
            .map_err(|cause: Cause| cause.of("put_probe_notes"))
    }
}
