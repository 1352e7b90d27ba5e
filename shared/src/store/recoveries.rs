//! Recoveries and the claims that they have on groups.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Result, Store};
use crate::domain::offset::{ClusterId, GroupId, TopicPartition};
use crate::domain::plan::PlanId;
use crate::domain::recovery::{
    AlterAnswer, Claim, Outcome, PartitionOutcome, PreImage, Quiet, Recovery,
};
use crate::domain::refusal::Refusal;

/// Whether a recovery was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    /// It is, and the group is claimed for it; by this call or by an earlier one of the same execution.
    Yes,
    /// Another live claim holds the group.
    HeldBy(Claim),
    /// The plan has a recovery already: of another execution, or ended.
    PlanUsed,
}

impl Store {
    /// Opens a recovery and claims its group. A claim past its `expires_at` is taken over.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn open_recovery(
        &self,
        r: &Recovery,
        claim: &Claim,
        now: Timestamp,
    ) -> Result<Opened> {
        unimplemented!()
    }

    /// A plan's recovery.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn recovery(&self, plan: &PlanId) -> Result<Option<Recovery>> {
        unimplemented!()
    }

    /// The claim on a group, whether expired or not.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn claim(&self, cluster: &ClusterId, group: &GroupId) -> Result<Option<Claim>> {
        unimplemented!()
    }

    /// Every recovery without a report, with its execution.
    ///
    /// # Errors
    /// An item is damaged, or the table cannot be reached.
    pub async fn open_recoveries(&self) -> Result<Vec<(PlanId, String)>> {
        unimplemented!()
    }

    /// Makes a claim last until `expires_at`; `false` if the execution does not hold it.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn renew_claim(
        &self,
        cluster: &ClusterId,
        group: &GroupId,
        execution: &str,
        expires_at: Timestamp,
    ) -> Result<bool> {
        unimplemented!()
    }

    /// Sets until when the plan may be applied.
    ///
    /// # Errors
    /// There is no open recovery, or the table cannot be reached.
    pub async fn set_apply_by(&self, plan: &PlanId, apply_by: Timestamp) -> Result<()> {
        unimplemented!()
    }

    /// Keeps why a step after the approval refused.
    ///
    /// # Errors
    /// There is no open recovery, or the table cannot be reached.
    pub async fn note_refusals(&self, plan: &PlanId, refusals: &[Refusal]) -> Result<()> {
        unimplemented!()
    }

    /// Keeps since when the group was seen quiet, or that it is not.
    ///
    /// # Errors
    /// There is no open recovery, or the table cannot be reached.
    pub async fn note_quiet(&self, plan: &PlanId, quiet: Option<&Quiet>) -> Result<()> {
        unimplemented!()
    }

    /// Notes that Apply runs and may send until `apply_until`; `false` if the fence is raised or the recovery closed.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn begin_apply(&self, plan: &PlanId, apply_until: Timestamp) -> Result<bool> {
        unimplemented!()
    }

    /// Whether Apply may send: the fence is not raised and the recovery not closed; and the switch, where it is set.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn may_send(&self, plan: &PlanId) -> Result<(bool, Option<bool>)> {
        unimplemented!()
    }

    /// Stores the pre-image unless there is one, and returns the stored one.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn keep_pre_image(&self, plan: &PlanId, pre_image: &PreImage) -> Result<PreImage> {
        unimplemented!()
    }

    /// The stored pre-image.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn pre_image(&self, plan: &PlanId) -> Result<Option<PreImage>> {
        unimplemented!()
    }

    /// Keeps what the broker said of one request of one attempt.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn record_answers(
        &self,
        plan: &PlanId,
        request: usize,
        attempt: &str,
        answers: &[(TopicPartition, AlterAnswer)],
    ) -> Result<()> {
        unimplemented!()
    }

    /// What the broker said of each partition. Accepted stands, whatever another attempt was told.
    ///
    /// # Errors
    /// An item is damaged, or the table cannot be reached.
    pub async fn answers(&self, plan: &PlanId) -> Result<BTreeMap<TopicPartition, AlterAnswer>> {
        unimplemented!()
    }

    /// Notes that the Apply that began with `apply_until` ended by itself. One that began later is not touched.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn end_apply(
        &self,
        plan: &PlanId,
        apply_until: Timestamp,
        at: Timestamp,
    ) -> Result<()> {
        unimplemented!()
    }

    /// Raises the fence and returns the recovery after it; `None` if there is none.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn raise_fence(&self, plan: &PlanId) -> Result<Option<Recovery>> {
        unimplemented!()
    }

    /// Keeps what Verify found.
    ///
    /// # Errors
    /// There is no open recovery, or the table cannot be reached.
    pub async fn set_outcome(
        &self,
        plan: &PlanId,
        outcome: &Outcome,
        partitions: &BTreeMap<TopicPartition, PartitionOutcome>,
    ) -> Result<()> {
        unimplemented!()
    }

    /// What Verify found of each partition.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn result(
        &self,
        plan: &PlanId,
    ) -> Result<Option<BTreeMap<TopicPartition, PartitionOutcome>>> {
        unimplemented!()
    }
}
