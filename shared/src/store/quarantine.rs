//! The quarantine's ledger: of one record of one group, however often it is tried, whether and where it is kept.
//!
//! It never holds anything of a record but its outline.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use ulid::Ulid;

use super::encoding::body::BODY;
use super::encoding::packed::Packed;
use super::error::Cause;
use super::item::{Attributes, Damaged, Item, bytes, number, text, time, ttl};
use super::keys;
use super::plans::KEPT;
use super::table::{Condition, Update, Updated, at_most, equals, no_item};
use super::{Result, Store, operation};
use crate::domain::guard::quarantine::{DedupeId, KeptCopy};
use crate::domain::guard::record::Outline;
use crate::domain::offset::{ClusterId, GroupId, TopicId, TopicPartition};

/// A record that is to be kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerEntry {
    /// Recognises the record.
    pub dedupe_id: DedupeId,
    /// Its cluster.
    pub cluster_id: ClusterId,
    /// The group that it stands in the way of.
    pub group: GroupId,
    /// Its partition.
    pub partition: TopicPartition,
    /// The topic's id, where the brokers tell it.
    pub topic_id: Option<TopicId>,
    /// What may be said of it.
    pub record: Outline,
    /// The run of the guard that keeps it.
    pub run: String,
}

/// Whose it is to keep a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// The caller's, until its lease ends.
    Mine {
        /// Names this try; only it can confirm.
        attempt: String,
    },
    /// Another try's.
    Theirs {
        /// When its lease ends.
        until: Timestamp,
    },
    /// It is kept.
    Kept {
        /// Where.
        copy: KeptCopy,
        /// What was kept: the record at this offset may be another one by now.
        record: Outline,
        /// When it was confirmed.
        at: Timestamp,
    },
}

/// Where an entry stands.
const PENDING: &str = "PENDING";
const CONFIRMED: &str = "CONFIRMED";

impl Store {
    /// Begins to keep a record: where nobody does, or who did let the lease run out. Entries are kept for 90 days at
    /// least.
    ///
    /// # Errors
    /// The entry is damaged, or the table cannot be reached.
    pub async fn begin_quarantine(
        &self,
        entry: &LedgerEntry,
        now: Timestamp,
        lease: SignedDuration,
    ) -> Result<Begun> {
        let is_over = equals("state", text(PENDING)).and(at_most("lease_until", time(now)));
        operation(
            "begin_quarantine",
            self.take_quarantine(entry, now, lease, no_item().or(is_over)),
        )
        .await
    }

    /// Begins again to keep a record whose copy is `gone`, or is the copy of another record than the one that is at its
    /// place now. Where another try was faster, the answer is what that one made of it.
    ///
    /// # Errors
    /// The entry is damaged, or the table cannot be reached.
    pub async fn reopen_quarantine(
        &self,
        entry: &LedgerEntry,
        gone: &KeptCopy,
        now: Timestamp,
        lease: SignedDuration,
    ) -> Result<Begun> {
        let is_gone = equals("state", text(CONFIRMED))
            .and(equals("copy_topic", text(&gone.partition.topic)))
            .and(equals("copy_partition", number(gone.partition.partition)))
            .and(equals("copy_offset", number(gone.offset)));
        operation(
            "reopen_quarantine",
            self.take_quarantine(entry, now, lease, is_gone),
        )
        .await
    }

    /// What was kept under this id; `None` where nothing is known to be.
    ///
    /// # Errors
    /// The entry is damaged, or the table cannot be reached.
    pub async fn quarantined(&self, dedupe_id: &DedupeId) -> Result<Option<Outline>> {
        operation("quarantined", async {
            let Some(item) = self.table.get(&keys::quarantine(dedupe_id)).await? else {
                return Ok(None);
            };
            Ok(match self.begun(&item, "").await? {
                Begun::Kept { record, .. } => Some(record),
                Begun::Mine { .. } | Begun::Theirs { .. } => None,
            })
        })
        .await
    }

    async fn take_quarantine(
        &self,
        entry: &LedgerEntry,
        now: Timestamp,
        lease: SignedDuration,
        free: Condition,
    ) -> Result<Begun, Cause> {
        let key = keys::quarantine(&entry.dedupe_id);
        let attempt = Ulid::generate().to_string();
        let packed = Packed::new(entry)?;
        // Whatever copy there was is no longer said to be one.
        let take = Update::of(key)
            .set("state", text(PENDING))
            .set("attempt", text(&attempt))
            .set("lease_until", time(now + lease))
            .set("began_at", time(now))
            .set("body", bytes(packed.bytes()))
            .set("ttl", ttl(now + KEPT))
            .remove("copy_topic")
            .remove("copy_partition")
            .remove("copy_offset")
            .remove("confirmed_at")
            .when(free);
        match self.table.update_returning(take).await? {
            Updated::Done(_) => Ok(Begun::Mine { attempt }),
            Updated::Not(Some(item)) => self.begun(&item, &attempt).await,
            Updated::Not(None) => Err(Cause::Conflict("the ledger has no such copy")),
        }
    }

    /// What an entry says to a try that did not get it.
    async fn begun(&self, item: &Item, attempt: &str) -> Result<Begun, Cause> {
        let pk = item.text("pk")?;
        match item.text("state")? {
            // A write whose answer was lost finds itself.
            PENDING if item.text("attempt")? == attempt => Ok(Begun::Mine {
                attempt: attempt.to_owned(),
            }),
            PENDING => Ok(Begun::Theirs {
                until: item.time("lease_until")?,
            }),
            CONFIRMED => {
                let entry: LedgerEntry = self.body(&BODY, item, pk).await?;
                Ok(Begun::Kept {
                    copy: copy_of(item)?,
                    record: entry.record,
                    at: item.time("confirmed_at")?,
                })
            }
            _ => Err(Damaged { attribute: "state" }.into()),
        }
    }

    /// Notes where the record is kept; `false` where it is another try's by now, whose copy will count.
    ///
    /// # Errors
    /// The entry is damaged, or the table cannot be reached.
    pub async fn confirm_quarantine(
        &self,
        dedupe_id: &DedupeId,
        attempt: &str,
        copy: &KeptCopy,
        now: Timestamp,
    ) -> Result<bool> {
        operation("confirm_quarantine", async {
            let own = equals("attempt", text(attempt)).and(equals("state", text(PENDING)));
            let confirm = Update::of(keys::quarantine(dedupe_id))
                .set("state", text(CONFIRMED))
                .set("copy_topic", text(&copy.partition.topic))
                .set("copy_partition", number(copy.partition.partition))
                .set("copy_offset", number(copy.offset))
                .set("confirmed_at", time(now))
                .set("ttl", ttl(now + KEPT))
                .remove("lease_until")
                .when(own);
            match self.table.update_returning(confirm).await? {
                Updated::Done(_) => Ok(true),
                // A write whose answer was lost finds itself.
                Updated::Not(Some(item)) => Ok(item.text("state")? == CONFIRMED
                    && item.text("attempt")? == attempt
                    && copy_of(&item)? == *copy),
                Updated::Not(None) => Ok(false),
            }
        })
        .await
    }
}

fn copy_of(item: &Item) -> Result<KeptCopy, Damaged> {
    let missing = |attribute| Damaged { attribute };
    let partition = item
        .some_number("copy_partition")?
        .and_then(|partition| i32::try_from(partition).ok())
        .ok_or(missing("copy_partition"))?;
    Ok(KeptCopy {
        partition: TopicPartition::new(item.text("copy_topic")?, partition),
        offset: item
            .some_number("copy_offset")?
            .ok_or(missing("copy_offset"))?,
    })
}
