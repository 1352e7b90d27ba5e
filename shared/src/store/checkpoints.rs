//! Checkpoints, their retirement, and what is known of a group's runs.

use jiff::{SignedDuration, Timestamp};

use super::back_off::back_off;
use super::encoding::body::{ANOMALIES, BESIDE, BODY, IN_ITEM};
use super::encoding::checkpoint::Body;
use super::encoding::disowned::{self, DISOWNED_BY};
use super::encoding::packed::{Packed, unpack};
use super::error::Cause;
use super::item::{Attributes, Damaged, Item, item, number, text, time, ttl};
use super::keys::{self, CHUNKS, Key, TIMED};
use super::table::{Query, Range, Transacted, Update, Write, absent, equals, item_exists, less};
use super::{Result, Store, operation};
use crate::domain::checkpoint::{Checkpoint, CheckpointHeader, PastCommit};
use crate::domain::disowned::{Disowned, Undone};
use crate::domain::ids::{CheckpointId, GroupKey, PlanId};
use crate::domain::offset::{ClusterId, GroupId};
use crate::domain::plan::PartitionMove;
use crate::domain::recovery::Recovery;

/// How long the marker of a scheduled run is kept. A scheduler and Lambda's queue together give up after 30 hours.
const RUN_KEPT: SignedDuration = SignedDuration::from_hours(48);

/// How much longer than their header chunks are kept, so that no header ever points at nothing.
pub(super) const CHUNKS_OUTLIVE: SignedDuration = SignedDuration::from_hours(24);

/// What a header needs of its item.
const HEADER: &[&str] = &[
    "id",
    "ended_at",
    "anomalies",
    "anomalies_sha256",
    "anomalies_chunks",
    "disowned_by",
    "ttl",
];

/// How many checkpoints a group's history goes back: two days of hourly ones.
const HISTORY: usize = 48;

/// What marking a checkpoint needs of its item.
const MARKS: &[&str] = &["sk", "ended_at", "disowned_by"];

/// How often a mark is tried that loses against another one.
const TRIES: u32 = 8;

/// What the history needs of a checkpoint's item.
const PAST: &[&str] = &["ended_at", "disowned_by", "ttl", "body"];

/// What became of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// It is stored.
    Stored,
    /// The same scheduled run has stored one before; this one is not kept.
    AlreadyRun,
    /// A recovery may have moved the group while it was read; this one is not kept. Read it again.
    Moved,
}

impl Store {
    /// Stores a checkpoint; with `scheduled`, once for that group and scheduled time.
    ///
    /// One whose reading overlaps a recovery's Apply is not stored: it may hold offsets of before the Apply under a time
    /// of after it, where no rewind disowns it. That is part of the write's condition, so no recovery can come between.
    ///
    /// # Errors
    /// Another checkpoint has its time and id, it is too big, or the table cannot be reached.
    pub async fn put_checkpoint(
        &self,
        c: &Checkpoint,
        scheduled: Option<Timestamp>,
    ) -> Result<Put> {
        operation("put_checkpoint", async {
            let Some(unmoved) = self.unmoved(c).await? else {
                return Ok(Put::Moved);
            };
            let chunks = keys::checkpoint_chunks(&c.group_key(), &c.id);
            let packed = Packed::new(&Body::from(c))?;
            let body = self
                .put_body(&BODY, &packed, IN_ITEM, &chunks, None)
                .await?;
            let key = keys::checkpoint(&c.group_key(), c.ended_at, &c.id);
            let mut header = item(key.clone())
                .with("id", text(&c.id.0))
                .with("ended_at", time(c.ended_at))
                .with_all(body);
            if !c.anomalies.is_empty() {
                let anomalies = Packed::new(&c.anomalies)?;
                let anomalies = self
                    .put_body(&ANOMALIES, &anomalies, BESIDE, &chunks, None)
                    .await?;
                header = header.with_all(anomalies);
            }

            let mut writes = vec![Write::put_new(header)];
            writes.extend(unmoved);
            writes.extend(scheduled.map(|scheduled| {
                let marker = item(keys::run(&c.group_key(), scheduled))
                    .with("id", text(&c.id.0))
                    .with("ttl", ttl(c.ended_at + RUN_KEPT));
                Write::put_new(marker)
            }));
            let failed = match self.table.transact(&writes).await? {
                Transacted::Done => return Ok(Put::Stored),
                Transacted::Failed(failed) => failed,
            };
            if scheduled.is_some() && failed.last() == Some(&true) {
                return Ok(Put::AlreadyRun);
            }
            if failed.first() != Some(&true) {
                return Ok(Put::Moved);
            }
            // A write whose answer was lost finds itself.
            if self.holds(&key, &packed).await? {
                return Ok(Put::Stored);
            }
            Err(Cause::Conflict("another checkpoint has this time and id"))
        })
        .await
    }

    /// The conditions under which no recovery has moved the group since its reading began, until it is stored; `None`
    /// where one may have.
    ///
    /// One that has ended is noted with the group, and one that has not holds the claim on it: its own record says since
    /// when its Apply runs and until when something of it may be under way.
    async fn unmoved(&self, c: &Checkpoint) -> Result<Option<Vec<Write>>, Cause> {
        let noted = Write::check(
            keys::moved(&c.group_key()),
            absent("at").or(less("at", time(c.began_at))),
        );
        let key = keys::claim(&c.group_key());
        let Some(claim) = self.read_claim(&c.group_key()).await? else {
            return Ok(Some(vec![noted, Write::none(key)]));
        };
        let claimed = Write::check(key, equals("plan", text(&claim.plan.0)));
        let as_read = match self.read_recovery(&claim.plan).await? {
            Some(held) if held.may_have_moved_since(c.began_at) => return Ok(None),
            Some(Recovery {
                apply_until: Some(until),
                ..
            }) => equals("apply_until", time(until)),
            Some(_) | None => absent("apply_until"),
        };
        let recovery = Write::check(keys::recovery(&claim.plan), as_read);
        Ok(Some(vec![noted, claimed, recovery]))
    }

    /// All checkpoints that have not expired at `now`, newest first.
    ///
    /// # Errors
    /// The table cannot be reached, or an item is damaged.
    pub async fn headers(&self, group: &GroupKey, now: Timestamp) -> Result<Vec<CheckpointHeader>> {
        operation("headers", async {
            let mut headers = Vec::new();
            for item in self.table.query(timed(group).only(HEADER)).await? {
                headers.push(self.header(group, &item).await?);
            }
            // The table deletes what has expired days late.
            headers.retain(|header| header.expires_at.is_none_or(|at| now < at));
            headers.reverse();
            Ok(headers)
        })
        .await
    }

    /// The newest header of a group, without reading the others.
    ///
    /// # Errors
    /// It is damaged, or the table cannot be reached.
    pub async fn newest_header(
        &self,
        group: &GroupKey,
        now: Timestamp,
    ) -> Result<Option<CheckpointHeader>> {
        operation("newest_header", async {
            let of_group = timed(group).only(HEADER);
            let Some(item) = self.table.query_last(of_group, 1).await?.pop() else {
                return Ok(None);
            };
            let newest = self.header(group, &item).await?;
            // The table deletes what has expired days late.
            let expired = newest.expires_at.is_some_and(|at| at <= now);
            Ok((!expired).then_some(newest))
        })
        .await
    }

    async fn header(&self, group: &GroupKey, item: &Item) -> Result<CheckpointHeader, Cause> {
        let id = CheckpointId(item.text("id")?.to_owned());
        let chunks = keys::checkpoint_chunks(group, &id);
        let anomalies = self.some_body(&ANOMALIES, item, &chunks).await?;
        let expires_at = item
            .some_number("ttl")?
            .map(|seconds| {
                Timestamp::from_second(seconds).map_err(|_| Damaged { attribute: "ttl" })
            })
            .transpose()?;
        Ok(CheckpointHeader {
            id,
            ended_at: item.time("ended_at")?,
            disowned: disowned(item)?,
            anomalies: anomalies.unwrap_or_default(),
            expires_at,
        })
    }

    /// One checkpoint, whole and proven undamaged.
    ///
    /// # Errors
    /// It is gone, incomplete or damaged, or the table cannot be reached.
    pub async fn checkpoint(
        &self,
        group: &GroupKey,
        header: &CheckpointHeader,
    ) -> Result<Checkpoint> {
        operation("checkpoint", async {
            let key = keys::checkpoint(group, header.ended_at, &header.id);
            let item = self.table.get(&key).await?;
            let item = item.ok_or(Cause::Conflict("the checkpoint is gone"))?;
            let chunks = keys::checkpoint_chunks(group, &header.id);
            let body: Body = self.body(&BODY, &item, &chunks).await?;
            let anomalies = self.some_body(&ANOMALIES, &item, &chunks).await?;
            body.checkpoint(anomalies.unwrap_or_default())
                .filter(|c| c.group_key() == *group && c.id == header.id)
                .ok_or(Cause::Damaged(Damaged { attribute: "body" }))
        })
        .await
    }

    /// What the newest checkpoints of `until` or earlier hold of one move's partition, oldest first.
    ///
    /// It is for a picture, so it asks the table once: what that answers is enough. A checkpoint that does not fit its
    /// item, one that has expired at `now`, and one of another log are left out.
    ///
    /// # Errors
    /// The table cannot be reached, or an item is damaged.
    pub async fn history(
        &self,
        group: &GroupKey,
        of: &PartitionMove,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<PastCommit>> {
        operation("history", async {
            let pk = keys::checkpoints(group);
            let range = Range::Between(TIMED.to_owned(), keys::checkpoints_until(until));
            let mut past = Vec::new();
            for item in self
                .table
                .query_last(Query::new(&pk, range).only(PAST), HISTORY)
                .await?
            {
                let expired = item
                    .some_number("ttl")?
                    .is_some_and(|at| at <= now.as_second());
                let Some(packed) = item.some_bytes(BODY.packed)?.filter(|_| !expired) else {
                    continue;
                };
                let body: Body = unpack(packed)?;
                let checkpoint = body
                    .checkpoint(Vec::new())
                    .ok_or(Damaged { attribute: "body" })?;
                let Some(then) = checkpoint.same_log(&of.partition, of.topic_id) else {
                    continue;
                };
                past.push(PastCommit {
                    at: item.time("ended_at")?,
                    offset: then.committed.as_ref().map(|c| c.offset),
                    disowned: disowned(&item)?.by(&of.partition).is_some(),
                });
            }
            past.reverse();
            Ok(past)
        })
        .await
    }

    /// Lets these expire at `at`, except those that have an expiry already.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn retire(
        &self,
        group: &GroupKey,
        headers: &[&CheckpointHeader],
        at: Timestamp,
    ) -> Result<()> {
        operation("retire", async {
            for header in headers {
                self.retire_one(group, header, at).await?;
            }
            Ok(())
        })
        .await
    }

    async fn retire_one(
        &self,
        group: &GroupKey,
        header: &CheckpointHeader,
        at: Timestamp,
    ) -> Result<(), Cause> {
        let key = keys::checkpoint(group, header.ended_at, &header.id);
        let retire = Update::of(key)
            .set("ttl", ttl(at))
            .when(item_exists().and(absent("ttl")));
        if !self.table.update(retire).await? {
            return Ok(());
        }
        // The header first: chunks must never go before it.
        let pk = keys::checkpoint_chunks(group, &header.id);
        let chunks = Query::new(&pk, Range::Prefix(CHUNKS.to_owned())).only(&["sk"]);
        for chunk in self.table.query(chunks).await? {
            let key = Key::new(pk.clone(), chunk.text("sk")?);
            let expire = Update::of(key)
                .set("ttl", ttl(at + CHUNKS_OUTLIVE))
                .when(item_exists());
            self.table.update(expire).await?;
        }
        Ok(())
    }

    /// Marks in every checkpoint of `after < ended_at <= until` what a plan undid of it, besides what others did. Returns
    /// in how many that says something new.
    ///
    /// # Errors
    /// The table cannot be reached, or an item is damaged.
    pub async fn disown(
        &self,
        group: &GroupKey,
        (after, until): (Timestamp, Timestamp),
        by: &PlanId,
        undone: &Undone,
    ) -> Result<usize> {
        operation("disown", async {
            if until <= after {
                return Ok(0);
            }
            let pk = keys::checkpoints(group);
            let range = Range::Between(keys::from(after), keys::checkpoints_until(until));
            let mut marked = 0;
            for item in self.table.query(Query::new(&pk, range).only(MARKS)).await? {
                // The range holds `after` itself.
                if item.time("ended_at")? > after {
                    let key = Key::new(pk.clone(), item.text("sk")?);
                    marked += usize::from(self.mark(&key, item, by, undone).await?);
                }
            }
            Ok(marked)
        })
        .await
    }

    /// Adds a plan's mark to those of one checkpoint; says whether it is new. Another plan may do so at the same time.
    async fn mark(
        &self,
        key: &Key,
        mut item: Item,
        by: &PlanId,
        undone: &Undone,
    ) -> Result<bool, Cause> {
        for tries in 0..TRIES {
            let Some(with) = disowned(&item)?.with(by, undone) else {
                return Ok(false);
            };
            let as_read = match item.some_text(DISOWNED_BY)? {
                None => item_exists().and(absent(DISOWNED_BY)),
                Some(old) => equals(DISOWNED_BY, text(old)),
            };
            let set = Update::of(key.clone())
                .set(DISOWNED_BY, text(disowned::write(&with)))
                .when(as_read);
            if self.table.update(set).await? {
                return Ok(true);
            }
            match self.table.get(key).await? {
                // Deleted, since it had expired.
                None => return Ok(false),
                Some(there) => item = there,
            }
            back_off(tries).await;
        }
        Err(Cause::Contended)
    }

    /// Remembers until `until` that the group has a checkpoint, so that it is missed when it disappears.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn remember_group(&self, group: &GroupKey, until: Timestamp) -> Result<()> {
        let item = item(keys::checkpointed_group(group))
            .with("group", text(&group.group.0))
            .with("ttl", ttl(until));
        operation("remember_group", self.table.put(item)).await
    }

    /// Every group of the cluster that is remembered at `now`.
    ///
    /// # Errors
    /// The table cannot be reached, or an item is damaged.
    pub async fn remembered_groups(
        &self,
        cluster: &ClusterId,
        now: Timestamp,
    ) -> Result<Vec<GroupId>> {
        operation("remembered_groups", async {
            let pk = keys::checkpointed(cluster);
            let mut groups = Vec::new();
            for item in self
                .table
                .query(Query::new(&pk, Range::Prefix(keys::GROUPS.to_owned())))
                .await?
            {
                // The table deletes what has expired days late.
                if item
                    .some_number("ttl")?
                    .is_none_or(|at| now.as_second() < at)
                {
                    groups.push(GroupId(item.text("group")?.to_owned()));
                }
            }
            Ok(groups)
        })
        .await
    }

    /// Keeps what became of a run for one group, for alarms. A run that ended before the newest success changes
    /// nothing.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn note_checkpoint_run(
        &self,
        group: &GroupKey,
        at: Timestamp,
        result: Result<&CheckpointId, &str>,
    ) -> Result<()> {
        let head = keys::checkpoint_head(group);
        let note = match result {
            Ok(id) => Update::of(head)
                .set("last_success_at", time(at))
                .set("last_id", text(&id.0))
                .set("consecutive_failures", number(0)),
            Err(failure) => Update::of(head)
                .set("last_failure_at", time(at))
                .set("last_failure", text(failure))
                .add("consecutive_failures", 1),
        };
        let newest = absent("last_success_at").or(less("last_success_at", time(at)));
        operation("note_checkpoint_run", async {
            self.table.update(note.when(newest)).await?;
            Ok(())
        })
        .await
    }

    /// When a recovery last moved the group.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn last_recovery_end(&self, group: &GroupKey) -> Result<Option<Timestamp>> {
        operation("last_recovery_end", self.read_last_recovery_end(group)).await
    }

    pub(super) async fn read_last_recovery_end(
        &self,
        group: &GroupKey,
    ) -> Result<Option<Timestamp>, Cause> {
        match self.table.get(&keys::moved(group)).await? {
            None => Ok(None),
            Some(item) => Ok(Some(item.time("at")?)),
        }
    }
}

/// The checkpoints of a group, oldest first.
fn timed(group: &GroupKey) -> Query {
    Query::new(&keys::checkpoints(group), Range::Prefix(TIMED.to_owned()))
}

/// What rewinds undid of the checkpoint of an item.
fn disowned(item: &Item) -> Result<Disowned, Damaged> {
    item.some_text(DISOWNED_BY)?
        .map_or_else(|| Ok(Disowned::default()), disowned::read)
}

/// Notes that a recovery moved the group, or may have, at `at`; its condition fails where a later time stands.
pub(super) fn moved(group: &GroupKey, at: Timestamp) -> Update {
    Update::of(keys::moved(group))
        .set("at", time(at))
        .when(absent("at").or(less("at", time(at))))
}
