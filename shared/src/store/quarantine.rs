//! The quarantine's ledger: of one record of one group, however often it is tried, whether and where it is kept.
//!
//! It never holds anything of a record but its outline.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use ulid::Ulid;

use super::body::BODY;
use super::error::Cause;
use super::item::{Attributes, Damaged, Item, bytes, number, text, time, ttl};
use super::keys;
use super::pack::Packed;
use super::plans::KEPT;
use super::table::{Change, Updated, Write};
use super::{Result, Store};
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

/// Takes a try over; whatever copy there was is no longer said to be one.
const TAKE: &str = "SET #state = :pending, #attempt = :attempt, #lease_until = :until, #began_at = :now, \
                    #body = :body, #ttl = :ttl \
                    REMOVE #copy_topic, #copy_partition, #copy_offset, #confirmed_at";

/// Whether an entry is the copy that the condition names.
const IS_COPY: &str = "#state = :confirmed AND #copy_topic = :copy_topic \
                       AND #copy_partition = :copy_partition AND #copy_offset = :copy_offset";

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
        let free = "attribute_not_exists(#pk) OR (#state = :pending AND #lease_until <= :now)";
        self.take_quarantine(entry, now, lease, |take| take.when(free))
            .await
            .map_err(|cause| cause.of("begin_quarantine"))
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
        let is_gone = |take| {
            of_copy(take, gone)
                .when(IS_COPY)
                .value(":confirmed", text(CONFIRMED))
        };
        self.take_quarantine(entry, now, lease, is_gone)
            .await
            .map_err(|cause| cause.of("reopen_quarantine"))
    }

    /// What was kept under this id; `None` where nothing is known to be.
    ///
    /// # Errors
    /// The entry is damaged, or the table cannot be reached.
    pub async fn quarantined(&self, dedupe_id: &DedupeId) -> Result<Option<Outline>> {
        let read = async {
            let Some(item) = self.get(&keys::quarantine(dedupe_id)).await? else {
                return Ok(None);
            };
            Ok(match self.begun(&item, "").await? {
                Begun::Kept { record, .. } => Some(record),
                Begun::Mine { .. } | Begun::Theirs { .. } => None,
            })
        };
        read.await.map_err(|cause: Cause| cause.of("quarantined"))
    }

    async fn take_quarantine(
        &self,
        entry: &LedgerEntry,
        now: Timestamp,
        lease: SignedDuration,
        when: impl FnOnce(Write<Change>) -> Write<Change>,
    ) -> Result<Begun, Cause> {
        let key = keys::quarantine(&entry.dedupe_id);
        let attempt = Ulid::generate().to_string();
        let packed = Packed::new(entry)?;
        let take = Write::change(key, TAKE)
            .value(":pending", text(PENDING))
            .value(":attempt", text(&attempt))
            .value(":until", time(now + lease))
            .value(":now", time(now))
            .value(":body", bytes(packed.bytes()))
            .value(":ttl", ttl(now + KEPT));
        match self.update_returning(when(take)).await? {
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
        self.try_confirm_quarantine(dedupe_id, attempt, copy, now)
            .await
            .map_err(|cause| cause.of("confirm_quarantine"))
    }

    async fn try_confirm_quarantine(
        &self,
        dedupe_id: &DedupeId,
        attempt: &str,
        copy: &KeptCopy,
        now: Timestamp,
    ) -> Result<bool, Cause> {
        let confirm = Write::change(
            keys::quarantine(dedupe_id),
            "SET #state = :confirmed, #copy_topic = :copy_topic, #copy_partition = :copy_partition, \
             #copy_offset = :copy_offset, #confirmed_at = :now, #ttl = :ttl REMOVE #lease_until",
        )
        .when("#attempt = :attempt AND #state = :pending")
        .value(":attempt", text(attempt))
        .value(":pending", text(PENDING))
        .value(":confirmed", text(CONFIRMED))
        .value(":now", time(now))
        .value(":ttl", ttl(now + KEPT));
        match self.update_returning(of_copy(confirm, copy)).await? {
            Updated::Done(_) => Ok(true),
            // A write whose answer was lost finds itself.
            Updated::Not(Some(item)) => Ok(item.text("state")? == CONFIRMED
                && item.text("attempt")? == attempt
                && copy_of(&item)? == *copy),
            Updated::Not(None) => Ok(false),
        }
    }
}

fn of_copy(write: Write<Change>, copy: &KeptCopy) -> Write<Change> {
    write
        .value(":copy_topic", text(&copy.partition.topic))
        .value(":copy_partition", number(copy.partition.partition))
        .value(":copy_offset", number(copy.offset))
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
