//! Checkpoints, their retirement, and what is known of a group's runs.

use jiff::{SignedDuration, Timestamp};

use super::body::{ANOMALIES, BESIDE, BODY, IN_ITEM};
use super::columns::Body;
use super::error::Cause;
use super::item::{Attributes, Damaged, Item, flag, item, number, text, time, ttl};
use super::keys::{self, CHUNKS, Key, TIMED};
use super::marks::{self, DISOWNED_BY};
use super::pack::{Packed, unpack};
use super::table::{Change, Range, Transacted, Write, back_off};
use super::{Result, Store};
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
const HEADER: &str = "#id, #ended_at, #anomalies, #anomalies_sha256, #anomalies_chunks, \
                      #disowned_by, #pinned, #ttl";

/// How many checkpoints a group's history goes back: two days of hourly ones.
const HISTORY: i32 = 48;

/// What marking a checkpoint needs of its item.
const MARKS: &str = "#sk, #ended_at, #disowned_by";

/// How often a mark is tried that loses against another one.
const TRIES: u32 = 8;

/// What the history needs of a checkpoint's item.
const PAST: &str = "#ended_at, #disowned_by, #ttl, #body";

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
        self.try_put_checkpoint(c, scheduled)
            .await
            .map_err(|cause| cause.of("put_checkpoint"))
    }

    async fn try_put_checkpoint(
        &self,
        c: &Checkpoint,
        scheduled: Option<Timestamp>,
    ) -> Result<Put, Cause> {
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
        let failed = match self.transact(&writes).await? {
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
    }

    /// The conditions under which no recovery has moved the group since its reading began, until it is stored; `None`
    /// where one may have.
    ///
    /// One that has ended is noted with the group, and one that has not holds the claim on it: its own record says since
    /// when its Apply runs and until when something of it may be under way.
    async fn unmoved(&self, c: &Checkpoint) -> Result<Option<Vec<Write>>, Cause> {
        let noted = Write::check(keys::moved(&c.group_key()))
            .when("attribute_not_exists(#at) OR #at < :began")
            .value(":began", time(c.began_at));
        let key = keys::claim(&c.group_key());
        let Some(claim) = self.try_claim(&c.group_key()).await? else {
            return Ok(Some(vec![noted, Write::none(key)]));
        };
        let claimed = Write::check(key)
            .when("#plan = :plan")
            .value(":plan", text(&claim.plan.0));
        let recovery = Write::check(keys::recovery(&claim.plan));
        let recovery = match self.try_recovery(&claim.plan).await? {
            Some(held) if held.may_have_moved_since(c.began_at) => return Ok(None),
            Some(Recovery {
                apply_until: Some(until),
                ..
            }) => recovery
                .when("#apply_until = :until")
                .value(":until", time(until)),
            Some(_) | None => recovery.when("attribute_not_exists(#apply_until)"),
        };
        Ok(Some(vec![noted, claimed, recovery]))
    }

    /// All checkpoints that have not expired at `now`, newest first.
    ///
    /// # Errors
    /// The table cannot be reached, or an item is damaged.
    pub async fn headers(&self, group: &GroupKey, now: Timestamp) -> Result<Vec<CheckpointHeader>> {
        let headers = self
            .all_headers(group, Range::Prefix(TIMED.to_owned()))
            .await;
        let mut headers = headers.map_err(|cause| cause.of("headers"))?;
        // The table deletes what has expired days late.
        headers.retain(|header| header.expires_at.is_none_or(|at| now < at));
        headers.reverse();
        Ok(headers)
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
        let newest = self.try_newest_header(group).await;
        let newest = newest.map_err(|cause| cause.of("newest_header"))?;
        // The table deletes what has expired days late.
        Ok(newest.filter(|header| header.expires_at.is_none_or(|at| now < at)))
    }

    async fn try_newest_header(&self, group: &GroupKey) -> Result<Option<CheckpointHeader>, Cause> {
        let pk = keys::checkpoints(group);
        let range = Range::Prefix(TIMED.to_owned());
        match self.query_last(&pk, range, HEADER, 1).await?.first() {
            None => Ok(None),
            Some(item) => Ok(Some(self.header(group, item).await?)),
        }
    }

    /// The headers of a range of times, oldest first, the expired ones among them.
    async fn all_headers(
        &self,
        group: &GroupKey,
        range: Range,
    ) -> Result<Vec<CheckpointHeader>, Cause> {
        let pk = keys::checkpoints(group);
        let mut headers = Vec::new();
        for item in self.query(&pk, range, HEADER).await? {
            headers.push(self.header(group, &item).await?);
        }
        Ok(headers)
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
            pinned: item.some_flag("pinned")?.unwrap_or(false),
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
        self.try_checkpoint(group, header)
            .await
            .map_err(|cause| cause.of("checkpoint"))
    }

    async fn try_checkpoint(
        &self,
        group: &GroupKey,
        header: &CheckpointHeader,
    ) -> Result<Checkpoint, Cause> {
        let key = keys::checkpoint(group, header.ended_at, &header.id);
        let item = self.get(&key).await?;
        let item = item.ok_or(Cause::Conflict("the checkpoint is gone"))?;
        let chunks = keys::checkpoint_chunks(group, &header.id);
        let body: Body = self.body(&BODY, &item, &chunks).await?;
        let anomalies = self.some_body(&ANOMALIES, &item, &chunks).await?;
        body.checkpoint(anomalies.unwrap_or_default())
            .filter(|c| c.group_key() == *group && c.id == header.id)
            .ok_or(Cause::Damaged(Damaged { attribute: "body" }))
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
        self.try_history(group, of, until, now)
            .await
            .map_err(|cause| cause.of("history"))
    }

    async fn try_history(
        &self,
        group: &GroupKey,
        of: &PartitionMove,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<PastCommit>, Cause> {
        let pk = keys::checkpoints(group);
        let range = Range::Between(TIMED.to_owned(), keys::checkpoints_until(until));
        let mut past = Vec::new();
        for item in self.query_last(&pk, range, PAST, HISTORY).await? {
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
    }

    /// Lets these expire at `at`, except those that are pinned or have an expiry already.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn retire(
        &self,
        group: &GroupKey,
        headers: &[&CheckpointHeader],
        at: Timestamp,
    ) -> Result<()> {
        for header in headers {
            self.retire_one(group, header, at)
                .await
                .map_err(|cause| cause.of("retire"))?;
        }
        Ok(())
    }

    async fn retire_one(
        &self,
        group: &GroupKey,
        header: &CheckpointHeader,
        at: Timestamp,
    ) -> Result<(), Cause> {
        let key = keys::checkpoint(group, header.ended_at, &header.id);
        let retire = Write::change(key, "SET #ttl = :ttl")
            .when(
                "attribute_exists(#pk) AND attribute_not_exists(#ttl) \
                 AND (attribute_not_exists(#pinned) OR #pinned = :no)",
            )
            .value(":ttl", ttl(at))
            .value(":no", flag(false));
        if !self.update(retire).await? {
            return Ok(());
        }
        // The header first: chunks must never go before it.
        let pk = keys::checkpoint_chunks(group, &header.id);
        for chunk in self
            .query(&pk, Range::Prefix(CHUNKS.to_owned()), "#sk")
            .await?
        {
            let key = Key::new(pk.clone(), chunk.text("sk")?);
            let expire = Write::change(key, "SET #ttl = :ttl")
                .when("attribute_exists(#pk)")
                .value(":ttl", ttl(at + CHUNKS_OUTLIVE));
            self.update(expire).await?;
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
        let disown = async {
            if until <= after {
                return Ok(0);
            }
            let pk = keys::checkpoints(group);
            let range = Range::Between(keys::from(after), keys::checkpoints_until(until));
            let mut marked = 0;
            for item in self.query(&pk, range, MARKS).await? {
                // The range holds `after` itself.
                if item.time("ended_at")? > after {
                    let key = Key::new(pk.clone(), item.text("sk")?);
                    marked += usize::from(self.mark(&key, item, by, undone).await?);
                }
            }
            Ok(marked)
        };
        disown.await.map_err(|cause: Cause| cause.of("disown"))
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
            let set = Write::change(key.clone(), "SET #disowned_by = :new")
                .value(":new", text(marks::write(&with)));
            let set = match item.some_text(DISOWNED_BY)? {
                None => set.when("attribute_exists(#pk) AND attribute_not_exists(#disowned_by)"),
                Some(old) => set.when("#disowned_by = :old").value(":old", text(old)),
            };
            if self.update(set).await? {
                return Ok(true);
            }
            match self.get(key).await? {
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
        self.put(item)
            .await
            .map_err(|cause| cause.of("remember_group"))
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
        self.try_remembered_groups(cluster, now)
            .await
            .map_err(|cause| cause.of("remembered_groups"))
    }

    async fn try_remembered_groups(
        &self,
        cluster: &ClusterId,
        now: Timestamp,
    ) -> Result<Vec<GroupId>, Cause> {
        let pk = keys::checkpointed(cluster);
        let mut groups = Vec::new();
        for item in self
            .query(&pk, Range::Prefix(keys::GROUPS.to_owned()), "")
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
            Ok(id) => Write::change(
                head,
                "SET #last_success_at = :at, #last_id = :id, #consecutive_failures = :none",
            )
            .value(":id", text(&id.0))
            .value(":none", number(0)),
            Err(failure) => Write::change(
                head,
                "SET #last_failure_at = :at, #last_failure = :failure \
                 ADD #consecutive_failures :one",
            )
            .value(":failure", text(failure))
            .value(":one", number(1)),
        }
        .when("attribute_not_exists(#last_success_at) OR #last_success_at < :at")
        .value(":at", time(at));
        match self.update(note).await {
            Ok(_) => Ok(()),
            Err(cause) => Err(cause.of("note_checkpoint_run")),
        }
    }

    /// When a recovery last moved the group.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn last_recovery_end(&self, group: &GroupKey) -> Result<Option<Timestamp>> {
        self.try_last_recovery_end(group)
            .await
            .map_err(|cause| cause.of("last_recovery_end"))
    }

    pub(super) async fn try_last_recovery_end(
        &self,
        group: &GroupKey,
    ) -> Result<Option<Timestamp>, Cause> {
        match self.get(&keys::moved(group)).await? {
            None => Ok(None),
            Some(item) => Ok(Some(item.time("at")?)),
        }
    }

    /// Notes that a recovery moved the group, or may have, at `at`. Never goes back.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn note_moved(&self, group: &GroupKey, at: Timestamp) -> Result<()> {
        match self.update(moved(group, at)).await {
            Ok(_) => Ok(()),
            Err(cause) => Err(cause.of("note_moved")),
        }
    }
}

/// What rewinds undid of the checkpoint of an item.
fn disowned(item: &Item) -> Result<Disowned, Damaged> {
    item.some_text(DISOWNED_BY)?
        .map_or_else(|| Ok(Disowned::default()), marks::read)
}

/// The write of [`Store::note_moved`]; its condition fails where a later time stands.
pub(super) fn moved(group: &GroupKey, at: Timestamp) -> Write<Change> {
    Write::change(keys::moved(group), "SET #at = :at")
        .when("attribute_not_exists(#at) OR #at < :at")
        .value(":at", time(at))
}
