//! Who asked, as it was proven where the request came in. An execution's input is no proof: whoever may start one can
//! write anything into it.

use jiff::{SignedDuration, Timestamp};

use super::error::Cause;
use super::item::{Attributes, Item, item, json, text, time, ttl};
use super::table::{Transacted, Write, at_most, equals, no_item};
use super::{Result, Store, keys, operation};
use crate::domain::identity::Identity;

/// How long a note makes a plan somebody's. The execution is started right after it, and plans at once; much later, the
/// name may be free again for whoever knows what was asked under it.
const BELIEVED: SignedDuration = SignedDuration::from_hours(1);
/// How long a note is kept: longer than a plan takes from the request to the last moment in which it may be applied, so
/// that the two can be compared until then.
const KEPT: SignedDuration = SignedDuration::from_hours(24);

impl Store {
    /// Notes, before the execution of this name is started, who asks for exactly the request of this hash. The first
    /// note stands until it is too old; `false` says that it is another one.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn note_requester(
        &self,
        execution_name: &str,
        request: &str,
        identity: &Identity,
        now: Timestamp,
    ) -> Result<bool> {
        operation("note_requester", async {
            let note = item(keys::requester(execution_name))
                .with("request", text(request))
                .with("identity", json(identity))
                .with("believed_until", time(now + BELIEVED))
                .with("ttl", ttl(now + KEPT));
            // The same once more makes the note young again.
            let same = equals("request", text(request)).and(equals("identity", json(identity)));
            let put = Write::put(note).when(no_item().or(at_most("ttl", ttl(now))).or(same));
            if matches!(self.table.transact(&[put]).await?, Transacted::Done) {
                return Ok(true);
            }
            let stands = self.note(execution_name, now).await?;
            Ok(match stands {
                Some(note) if note.text("request")? == request => {
                    asked(&note)?.is_some_and(|stands| stands.is(identity))
                }
                Some(_) | None => false,
            })
        })
        .await
    }

    /// Who is known to ask, now, for exactly the request of this hash by the execution of this name.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn requester(
        &self,
        execution_name: &str,
        request: &str,
        now: Timestamp,
    ) -> Result<Option<Identity>> {
        operation("requester", async {
            let Some(note) = self.note(execution_name, now).await? else {
                return Ok(None);
            };
            // A note that does not say until when is of an earlier release, and may be months old.
            let believed = note.some_time("believed_until")?;
            let believed = believed.is_some_and(|until| now < until);
            if !believed || note.text("request")? != request {
                return Ok(None);
            }
            asked(&note)
        })
        .await
    }

    /// Who is on record to have asked by the execution of this name, so that a plan can be held to it.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn noted_requester(
        &self,
        execution_name: &str,
        now: Timestamp,
    ) -> Result<Option<Identity>> {
        operation("noted_requester", async {
            match self.note(execution_name, now).await? {
                None => Ok(None),
                Some(note) => asked(&note),
            }
        })
        .await
    }

    /// The note, unless its time is over: DynamoDB deletes it some time after that.
    async fn note(&self, execution_name: &str, now: Timestamp) -> Result<Option<Item>, Cause> {
        let note = self.table.get(&keys::requester(execution_name)).await?;
        let Some(note) = note else {
            return Ok(None);
        };
        let until = note.some_number("ttl")?.unwrap_or_default();
        Ok((now.as_second() < until).then_some(note))
    }
}

fn asked(note: &Item) -> Result<Option<Identity>, Cause> {
    Ok(note.some_json("identity")?)
}
