//! Decides an approval, and delivers the decision.
//!
//! A decision is one conditional write; the waiting execution is told afterwards, and reads the stored decision itself.

use std::time::Duration;

use jiff::Timestamp;

use super::deliver::{DeliverError, Delivery, deliver_decision};
use crate::domain::approval::{Approval, Decision};
use crate::domain::identity::{Decider, Identity};
use crate::domain::plan::PlanDigest;
use crate::ports::Executions;
use crate::store::{Decided, LinkHash, Store, StoreError};

/// Who decided, where possession of the link is all that is asked for.
pub const LINK_HOLDER: &str = "a holder of the link (identity not verified)";

/// How often, and how far apart, it is looked whether another click delivered the decision: about as long as a write to
/// the table takes on a bad day.
const LOOKS: u32 = 4;
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);

/// What deciding needs.
#[derive(Debug, Clone, Copy)]
pub struct Deciding<'a> {
    pub store: &'a Store,
    pub executions: &'a dyn Executions,
    /// The approval's link.
    pub link: &'a LinkHash,
    pub now: Timestamp,
}

/// What a person decides.
#[derive(Debug, Clone, Copy)]
pub struct MadeDecision<'a> {
    pub decision: Decision,
    /// The digest of the plan that the person saw.
    pub digest: &'a PlanDigest,
    /// The person, where people sign in.
    pub person: Option<&'a Identity>,
    /// Why. No reason is kept of an approval.
    pub reason: &'a str,
}

/// A decision that stands, and what became of its delivery.
#[derive(Debug)]
pub struct Settled {
    pub approval: Approval,
    /// Whether it had been decided before.
    pub already: bool,
    pub delivery: Result<Delivery, DeliverError>,
}

/// Writes a decision, unless one stands, and delivers what stands then.
///
/// # Errors
/// The table failed. What is decided may stand all the same.
pub async fn decide_approval(
    deciding: Deciding<'_>,
    made: MadeDecision<'_>,
) -> Result<Settled, StoreError> {
    let MadeDecision {
        decision,
        digest,
        person,
        reason,
    } = made;
    let reason = match decision {
        Decision::Approve => "",
        Decision::Reject => reason,
    };
    let by = person.map_or(Decider::from(LINK_HOLDER), |person| {
        Decider::from(person.clone())
    });
    let Deciding {
        store, link, now, ..
    } = deciding;
    let decided = store.decide(link, digest, decision, by, reason, now);
    match decided.await? {
        Decided::Now(approval) => {
            tracing::info!(plan = %approval.plan, decision = decision.as_str(), "decided");
            settle_decision(deciding, approval, false).await
        }
        Decided::Already(approval) => settle_decision(deciding, approval, true).await,
    }
}

/// Delivers a decision that stands. `already`: it had been decided before.
///
/// # Errors
/// The table failed.
pub async fn settle_decision(
    deciding: Deciding<'_>,
    approval: Approval,
    already: bool,
) -> Result<Settled, StoreError> {
    let Deciding {
        store,
        executions,
        link,
        now,
    } = deciding;
    let mut delivery = deliver_decision(store, executions, link, &approval, now).await;
    if matches!(delivery, Ok(Delivery::NoLongerWaiting))
        && is_delivered_meanwhile(store, link).await?
    {
        delivery = Ok(Delivery::Delivered);
    }
    Ok(Settled {
        approval,
        already,
        delivery,
    })
}

/// Whether another click has told the execution. It does so and notes it in two steps, so this looks a few times.
async fn is_delivered_meanwhile(store: &Store, link: &LinkHash) -> Result<bool, StoreError> {
    for _ in 0..LOOKS {
        let approval = store.approval(link).await?;
        if approval.is_some_and(|approval| approval.delivered_at.is_some()) {
            return Ok(true);
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    Ok(false)
}
