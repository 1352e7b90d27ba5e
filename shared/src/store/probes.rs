//! Which probes of a group are under way, and which ended the process that read.

use jiff::{SignedDuration, Timestamp};

use super::back_off::back_off;
use super::error::Cause;
use super::item::{Attributes, text, ttl};
use super::keys;
use super::table::{Update, absent, equals};
use super::{Result, Store, operation};
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
        operation("probe_notes", async {
            Ok(notes_of(self.written_notes(group).await?.as_deref()))
        })
        .await
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
        operation("change_probe_notes", async {
            for tries in 0..TRIES {
                let before = self.written_notes(group).await?;
                let mut notes = notes_of(before.as_deref());
                change(&mut notes);
                let key = keys::probe_notes(group);
                let note = Update::of(key)
                    .set("notes", text(serde_json::json!(notes).to_string()))
                    .set("ttl", ttl(now + READ_AGAIN_AFTER + KEPT))
                    .when(match &before {
                        None => absent("notes"),
                        Some(before) => equals("notes", text(before.as_str())),
                    });
                if self.table.update(note).await? {
                    return Ok(notes);
                }
                back_off(tries).await;
            }
            Err(Cause::Contended)
        })
        .await
    }

    /// The notes as they are written.
    async fn written_notes(&self, group: &GroupKey) -> Result<Option<String>, Cause> {
        let item = self.table.get(&keys::probe_notes(group)).await?;
        let notes = item.as_ref().and_then(|item| item.text("notes").ok());
        Ok(notes.map(str::to_owned))
    }
}

fn notes_of(written: Option<&str>) -> ProbeNotes {
    written
        .and_then(|notes| serde_json::from_str(notes).ok())
        .unwrap_or_default()
}
