//! What the guard found, and what people were told of it.

use jiff::Timestamp;

use super::encoding::body::{BODY, IN_ITEM};
use super::encoding::packed::Packed;
use super::error::Cause;
use super::item::{Attributes, item, text, time, word};
use super::keys;
use super::table::{Query, Range, Update, equals, no_item};
use super::{Result, Store, operation};
use crate::domain::guard::run::{GuardRun, LastAlert};
use crate::domain::ids::RunId;
use crate::domain::offset::GroupId;

impl Store {
    /// Keeps a run, for ever. The same run again is no error; another one under its time and id is a conflict.
    ///
    /// # Errors
    /// Another run has its time and id, it is too big, or the table cannot be reached.
    pub async fn put_guard_run(&self, run: &GuardRun) -> Result<()> {
        operation("put_guard_run", async {
            let key = keys::guard_run(&run.cluster, &run.group, run.at, &run.id.0);
            let packed = Packed::new(run)?;
            let body = self
                .put_body(&BODY, &packed, IN_ITEM, &key.pk, None)
                .await?;
            // The words beside the body are for people who look at the table.
            let item = item(key.clone())
                .with("id", text(&run.id.0))
                .with("at", time(run.at))
                .with("status", word(&run.status))
                .with_all(body);
            if self.table.put_new(item).await? || self.holds(&key, &packed).await? {
                return Ok(());
            }
            Err(Cause::Conflict("another run has this time and id"))
        })
        .await
    }

    /// One run.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn guard_run(
        &self,
        cluster: &str,
        group: &GroupId,
        at: Timestamp,
        id: &RunId,
    ) -> Result<Option<GuardRun>> {
        operation(
            "guard_run",
            self.packed(&keys::guard_run(cluster, group, at, &id.0)),
        )
        .await
    }

    /// The runs of a group that found something and began at `since` or later, newest first.
    ///
    /// # Errors
    /// An item is damaged, or the table cannot be reached.
    pub async fn guard_runs_since(
        &self,
        cluster: &str,
        group: &GroupId,
        since: Timestamp,
    ) -> Result<Vec<GuardRun>> {
        operation("guard_runs_since", async {
            let pk = keys::guard_runs(cluster, group);
            let mut runs = Vec::new();
            let range = Range::Between(keys::from(since), keys::TIMED_END.to_owned());
            for item in self.table.query(Query::new(&pk, range)).await? {
                runs.push(self.body(&BODY, &item, &pk).await?);
            }
            runs.reverse();
            Ok(runs)
        })
        .await
    }

    /// What people were told last of a group.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn told(&self, cluster: &str, group: &GroupId) -> Result<Option<LastAlert>> {
        operation("told", self.read_told(cluster, group)).await
    }

    async fn read_told(&self, cluster: &str, group: &GroupId) -> Result<Option<LastAlert>, Cause> {
        match self.table.get(&keys::told(cluster, group)).await? {
            None => Ok(None),
            Some(item) => Ok(Some(LastAlert {
                signature: item.text("signature")?.to_owned(),
                at: item.time("at")?,
            })),
        }
    }

    /// Notes what people are told of a group; `false` where it is no longer `before` that they were told last, so that
    /// of two runs one tells.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn note_told(
        &self,
        cluster: &str,
        group: &GroupId,
        told: &LastAlert,
        before: Option<&LastAlert>,
    ) -> Result<bool> {
        operation("note_told", async {
            let key = keys::told(cluster, group);
            let unchanged = match before {
                None => no_item(),
                Some(before) => {
                    equals("signature", text(&before.signature)).and(equals("at", time(before.at)))
                }
            };
            let note = Update::of(key)
                .set("signature", text(&told.signature))
                .set("at", time(told.at))
                .when(unchanged);
            // A write whose answer was lost finds itself.
            Ok(self.table.update(note).await?
                || self.read_told(cluster, group).await?.as_ref() == Some(told))
        })
        .await
    }
}
