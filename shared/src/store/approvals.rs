//! Approvals: asked for once, decided once.

use jiff::Timestamp;

use super::{LinkHash, Result, Store, TaskToken};
use crate::domain::approval::{Approval, Decision};
use crate::domain::plan::{PlanDigest, PlanId};

/// What became of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decided {
    /// It stands from now on.
    Now(Approval),
    /// It changed nothing. This stands instead: decided before, or still pending but over or for another digest.
    Already(Approval),
}

/// How an approval ends without a person's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lapse {
    /// Nobody decided in time.
    Expired,
    /// Another request took its place.
    Superseded,
}

impl Store {
    /// Stores a request for approval with its token. An earlier pending one of the same plan is superseded.
    ///
    /// # Errors
    /// The link exists already, or the table cannot be reached.
    pub async fn request_approval(
        &self,
        a: &Approval,
        link: &LinkHash,
        token: &TaskToken,
    ) -> Result<()> {
        unimplemented!()
    }

    /// The approval behind a link.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn approval(&self, link: &LinkHash) -> Result<Option<Approval>> {
        unimplemented!()
    }

    /// The newest approval of a plan.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn approval_of(&self, plan: &PlanId) -> Result<Option<(LinkHash, Approval)>> {
        unimplemented!()
    }

    /// Decides, if it is pending, in time and for this digest: by one conditional write, once.
    ///
    /// # Errors
    /// There is no such approval, or the table cannot be reached.
    pub async fn decide(
        &self,
        link: &LinkHash,
        digest: &PlanDigest,
        decision: Decision,
        by: &str,
        reason: &str,
        now: Timestamp,
    ) -> Result<Decided> {
        unimplemented!()
    }

    /// Ends an approval that is still pending; returns what stands.
    ///
    /// # Errors
    /// There is no such approval, or the table cannot be reached.
    pub async fn close_approval(&self, link: &LinkHash, lapse: Lapse) -> Result<Approval> {
        unimplemented!()
    }

    /// The token of the execution that waits for this approval.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn task_token(&self, link: &LinkHash) -> Result<Option<TaskToken>> {
        unimplemented!()
    }

    /// Notes that the decision reached the waiting execution.
    ///
    /// # Errors
    /// There is no such approval, or the table cannot be reached.
    pub async fn mark_delivered(&self, link: &LinkHash, now: Timestamp) -> Result<()> {
        unimplemented!()
    }
}
