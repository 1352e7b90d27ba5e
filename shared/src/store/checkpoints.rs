//! Checkpoints, their retirement, and what is known of a group's runs.

use jiff::Timestamp;

use super::{Result, Store};
use crate::domain::checkpoint::{Checkpoint, CheckpointHeader, CheckpointId};
use crate::domain::offset::{ClusterId, GroupId};
use crate::domain::plan::PlanId;

/// What became of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// It is stored.
    Stored,
    /// The same scheduled run has stored one before; this one is not kept.
    AlreadyRun,
}

impl Store {
    /// Stores a checkpoint; with `scheduled`, once for that cluster, group and scheduled time.
    ///
    /// # Errors
    /// The table cannot be reached or refuses the write.
    pub async fn put_checkpoint(
        &self,
        c: &Checkpoint,
        scheduled: Option<Timestamp>,
    ) -> Result<Put> {
        unimplemented!()
    }

    /// All checkpoints that have not expired at `now`, newest first.
    ///
    /// # Errors
    /// The table cannot be reached, or an item is damaged.
    pub async fn headers(
        &self,
        cluster: &ClusterId,
        group: &GroupId,
        now: Timestamp,
    ) -> Result<Vec<CheckpointHeader>> {
        unimplemented!()
    }

    /// One checkpoint, whole and proven undamaged.
    ///
    /// # Errors
    /// It is gone, incomplete or damaged, or the table cannot be reached.
    pub async fn checkpoint(
        &self,
        cluster: &ClusterId,
        group: &GroupId,
        header: &CheckpointHeader,
    ) -> Result<Checkpoint> {
        unimplemented!()
    }

    /// Lets these expire at `at`, except those that are pinned or have an expiry already.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn retire(
        &self,
        cluster: &ClusterId,
        group: &GroupId,
        headers: &[&CheckpointHeader],
        at: Timestamp,
    ) -> Result<()> {
        unimplemented!()
    }

    /// Marks every checkpoint of `after < ended_at <= until` as undone by a plan, where none is so marked yet.
    /// Returns how many it marked.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn disown(
        &self,
        cluster: &ClusterId,
        group: &GroupId,
        after: Timestamp,
        until: Timestamp,
        by: &PlanId,
    ) -> Result<usize> {
        unimplemented!()
    }

    /// Keeps what became of a run for one group, for alarms. A late, older success changes nothing.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn note_checkpoint_run(
        &self,
        cluster: &ClusterId,
        group: &GroupId,
        at: Timestamp,
        result: std::result::Result<&CheckpointId, &str>,
    ) -> Result<()> {
        unimplemented!()
    }

    /// When a recovery last moved the group.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn last_recovery_end(
        &self,
        cluster: &ClusterId,
        group: &GroupId,
    ) -> Result<Option<Timestamp>> {
        unimplemented!()
    }

    /// Notes that a recovery moved the group, or may have, at `at`. Never goes back.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn note_moved(
        &self,
        cluster: &ClusterId,
        group: &GroupId,
        at: Timestamp,
    ) -> Result<()> {
        unimplemented!()
    }
}
