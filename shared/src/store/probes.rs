//! Which probes of a group are under way, and which ended the process that read.

use jiff::{SignedDuration, Timestamp};

use super::error::Cause;
use super::item::{Attributes, text, ttl};
use super::keys;
use super::table::{Write, back_off};
use super::{Result, Store};
use crate::domain::guard::probe::{ProbeNotes, READ_AGAIN_AFTER};
use crate::domain::ids::GroupKey;

/// How long they are kept after the last of them is of use.
const KEPT: SignedDuration = SignedDuration::from_hours(1);

/// How often a change is tried while other runs change the same.
const TRIES: u32 = 5;

impl Store {
    /// What is noted of a group's probes. What cannot be read any more is nothing: it is of use for an hour at most.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn probe_notes(&self, group: &GroupKey) -> Result<ProbeNotes> {
        let written = self.written_notes(group).await;
        let written = written.map_err(|cause| cause.of("probe_notes"))?;
        Ok(notes_of(written.as_deref()))
    }

    /// Changes what is noted of a group's probes, and answers what that is then. Two runs of one group may note at once:
    /// neither undoes what the other noted, so `change` may be asked more than once.
    ///
    /// # Errors
    /// The table cannot be reached, or other runs keep changing it.
    pub async fn change_probe_notes(
        &self,
        group: &GroupKey,
        now: Timestamp,
        change: impl Fn(&mut ProbeNotes),
    ) -> Result<ProbeNotes> {
        let changed = async {
            for tries in 0..TRIES {
                let before = self.written_notes(group).await?;
                let mut notes = notes_of(before.as_deref());
                change(&mut notes);
                let key = keys::probe_notes(group);
                let note = Write::change(key, "SET #notes = :notes, #ttl = :ttl")
                    .value(":notes", text(serde_json::json!(notes).to_string()))
                    .value(":ttl", ttl(now + READ_AGAIN_AFTER + KEPT));
                let note = match &before {
                    None => note.when("attribute_not_exists(#notes)"),
                    Some(before) => note
                        .when("#notes = :before")
                        .value(":before", text(before.as_str())),
                };
                if self.update(note).await? {
                    return Ok(notes);
                }
                back_off(tries).await;
            }
            Err(Cause::Contended)
        };
        changed
            .await
            .map_err(|cause: Cause| cause.of("change_probe_notes"))
    }

    /// The notes as they are written.
    async fn written_notes(&self, group: &GroupKey) -> Result<Option<String>, Cause> {
        let item = self.get(&keys::probe_notes(group)).await?;
        let notes = item.as_ref().and_then(|item| item.text("notes").ok());
        Ok(notes.map(str::to_owned))
    }
}

fn notes_of(written: Option<&str>) -> ProbeNotes {
    written
        .and_then(|notes| serde_json::from_str(notes).ok())
        .unwrap_or_default()
}
