//! Approvals: asked for once, decided once.

use jiff::Timestamp;

use super::back_off::back_off;
use super::error::Cause;
use super::item::{Attributes, Damaged, Item, flag, item, json, text, time, ttl, word};
use super::plans::KEPT;
use super::table::{Transacted, Update, Updated, Write, absent, equals, item_exists, more};
use super::{LinkHash, Result, Store, TaskToken, keys, operation};
use crate::domain::approval::{Approval, ApprovalStatus, Decision};
use crate::domain::identity::Decider;
use crate::domain::ids::{ExecutionArn, PlanId};
use crate::domain::plan::PlanDigest;

/// How often a request is tried while another one of the same plan is under way.
const TRIES: u32 = 5;

const LINK_USED: Cause = Cause::Conflict("the link exists already");

const DECIDED: Cause = Cause::Conflict("a person has decided about this plan");

const NO_SUCH: Cause = Cause::Conflict("there is no such approval");

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

impl Lapse {
    fn status(self) -> ApprovalStatus {
        match self {
            Self::Expired => ApprovalStatus::Expired,
            Self::Superseded => ApprovalStatus::Superseded,
        }
    }
}

impl Store {
    /// Stores a request for approval with its token. An earlier pending one of the same plan is superseded; one that is
    /// decided stands, whichever way, so that nobody else is asked what a person has answered.
    ///
    /// # Errors
    /// The link exists already, an earlier request is decided, or the table cannot be reached.
    pub async fn request_approval(
        &self,
        a: &Approval,
        link: &LinkHash,
        token: &TaskToken,
    ) -> Result<()> {
        operation("request_approval", async {
            let expires_at = ttl(a.approve_by + KEPT);
            for tries in 0..TRIES {
                let earlier = self.read_approval_of(&a.plan).await?;
                if earlier.as_ref().is_some_and(|(earlier, _)| earlier == link) {
                    return Err(LINK_USED);
                }
                if earlier.as_ref().is_some_and(|(_, a)| a.decision.is_some()) {
                    return Err(DECIDED);
                }
                let pointer = item(keys::approval_pointer(&a.plan))
                    .with("link", text(&link.0))
                    .with("ttl", expires_at.clone());
                let token = item(keys::task_token(link))
                    .with("token", text(token.expose()))
                    .with("ttl", expires_at.clone());
                let mut writes = vec![
                    Write::put_new(approval_item(a, link).with("ttl", expires_at.clone())),
                    Write::put(token),
                    match &earlier {
                        None => Write::put_new(pointer),
                        Some((earlier, _)) => {
                            Write::put(pointer).when(equals("link", text(&earlier.0)))
                        }
                    },
                ];
                if let Some((earlier, there)) = &earlier
                    && there.stands() == ApprovalStatus::Pending
                {
                    writes.push(lapse(earlier, Lapse::Superseded).into());
                }
                match self.table.transact(&writes).await? {
                    Transacted::Done => return Ok(()),
                    Transacted::Failed(failed) if failed.first() == Some(&true) => {
                        return Err(LINK_USED);
                    }
                    // The earlier one was decided or replaced in the same moment.
                    Transacted::Failed(_) => back_off(tries).await,
                }
            }
            Err(Cause::Contended)
        })
        .await
    }

    /// The approval behind a link.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn approval(&self, link: &LinkHash) -> Result<Option<Approval>> {
        operation("approval", self.read_approval(link)).await
    }

    /// Whether a link was ever given out, and its record is still kept.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn is_given_out(&self, link: &LinkHash) -> Result<bool> {
        operation("is_given_out", async {
            Ok(self.table.get(&keys::approval(link)).await?.is_some())
        })
        .await
    }

    async fn read_approval(&self, link: &LinkHash) -> Result<Option<Approval>, Cause> {
        match self.table.get(&keys::approval(link)).await? {
            None => Ok(None),
            Some(item) => Ok(Some(approval_of(&item)?)),
        }
    }

    /// The newest approval of a plan.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn approval_of(&self, plan: &PlanId) -> Result<Option<(LinkHash, Approval)>> {
        operation("approval_of", self.read_approval_of(plan)).await
    }

    async fn read_approval_of(&self, plan: &PlanId) -> Result<Option<(LinkHash, Approval)>, Cause> {
        let Some(pointer) = self.table.get(&keys::approval_pointer(plan)).await? else {
            return Ok(None);
        };
        let link = LinkHash(pointer.text("link")?.to_owned());
        let approval = self.read_approval(&link).await?;
        Ok(approval.map(|approval| (link, approval)))
    }

    /// Decides, if it is pending, in time and for this digest: by one conditional write, once. The decision stands in an
    /// attribute of its own, which no other write of this store touches and no other role may write.
    ///
    /// # Errors
    /// There is no such approval, or the table cannot be reached.
    pub async fn decide(
        &self,
        link: &LinkHash,
        digest: &PlanDigest,
        decision: Decision,
        by: impl Into<Decider>,
        reason: &str,
        now: Timestamp,
    ) -> Result<Decided> {
        let by = by.into();
        let pending = equals("status", word(&ApprovalStatus::Pending))
            .and(absent("decision"))
            .and(more("approve_by", time(now)))
            .and(equals("digest", text(&digest.0)));
        let mut decide = Update::of(keys::approval(link))
            .set("status", word(&decision.status()))
            .set("decision", word(&decision))
            .set("decided_by", text(by.shown()))
            .set("decided_at", time(now))
            .set("reason", text(reason))
            .when(pending);
        if let Some(identity) = by.identity() {
            decide = decide.set("decider", json(identity));
        }
        operation("decide", async {
            match self.table.update_returning(decide).await? {
                Updated::Done(item) => Ok(Decided::Now(approval_of(&item)?)),
                Updated::Not(Some(item)) => Ok(Decided::Already(approval_of(&item)?)),
                Updated::Not(None) => Err(NO_SUCH),
            }
        })
        .await
    }

    /// Ends an approval that is still pending; returns what stands.
    ///
    /// # Errors
    /// There is no such approval, or the table cannot be reached.
    pub async fn close_approval(&self, link: &LinkHash, how: Lapse) -> Result<Approval> {
        operation("close_approval", async {
            // Who closes has a right to these few attributes, so nothing is asked back with the write.
            self.table.update(lapse(link, how)).await?;
            self.read_approval(link).await?.ok_or(NO_SUCH)
        })
        .await
    }

    /// What ends the wait for a plan's approval, whether it was asked for yet or not, and fails where it is decided.
    ///
    /// It reads no approval: who plans has no right to one, nor to the token that lies beside it.
    pub(super) async fn end_of_wait(&self, plan: &PlanId) -> Result<Vec<Write>, Cause> {
        let key = keys::approval_pointer(plan);
        let Some(pointer) = self.table.get(&key).await? else {
            return Ok(vec![Write::none(key)]);
        };
        let link = LinkHash(pointer.text("link")?.to_owned());
        let newest = Write::check(key, equals("link", text(&link.0)));
        Ok(vec![newest, lapse(&link, Lapse::Superseded).into()])
    }

    /// The token of the execution that waits for this approval.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn task_token(&self, link: &LinkHash) -> Result<Option<TaskToken>> {
        operation("task_token", async {
            let Some(item) = self.table.get(&keys::task_token(link)).await? else {
                return Ok(None);
            };
            Ok(Some(TaskToken::new(item.text("token")?.to_owned())))
        })
        .await
    }

    /// Notes that the decision reached the waiting execution.
    ///
    /// # Errors
    /// There is no such approval, or the table cannot be reached.
    pub async fn mark_delivered(&self, link: &LinkHash, now: Timestamp) -> Result<()> {
        let mark = Update::of(keys::approval(link))
            .set_once("delivered_at", time(now))
            .when(item_exists());
        operation("mark_delivered", async {
            match self.table.update(mark).await? {
                true => Ok(()),
                false => Err(NO_SUCH),
            }
        })
        .await
    }
}

/// Ends a pending approval without a decision. Whoever may do this has a right to the key and the status, and to no
/// attribute more: the condition must name none either.
fn lapse(link: &LinkHash, how: Lapse) -> Update {
    Update::of(keys::approval(link))
        .set("status", word(&how.status()))
        .when(equals("status", word(&ApprovalStatus::Pending)))
}

fn approval_item(a: &Approval, link: &LinkHash) -> Item {
    item(keys::approval(link))
        .with("plan", text(&a.plan.0))
        .with("digest", text(&a.digest.0))
        .with("execution", text(&a.execution.0))
        .with("created_at", time(a.created_at))
        .with("approve_by", time(a.approve_by))
        .with("status", word(&a.status))
        .with_some("from_dry_run", a.from_dry_run.then(|| flag(true)))
        .with_some("decided_by", a.decided_by.as_ref().map(text))
        .with_some("decider", a.decider.as_ref().map(json))
        .with_some("decided_at", a.decided_at.map(time))
        .with_some("reason", a.reason.as_ref().map(text))
        .with_some("delivered_at", a.delivered_at.map(time))
}

fn approval_of(item: &Item) -> Result<Approval, Damaged> {
    let some = |name| Ok(item.some_text(name)?.map(str::to_owned));
    Ok(Approval {
        plan: PlanId(item.text("plan")?.to_owned()),
        digest: PlanDigest(item.text("digest")?.to_owned()),
        execution: ExecutionArn(item.text("execution")?.to_owned()),
        created_at: item.time("created_at")?,
        approve_by: item.time("approve_by")?,
        status: item.some_word("status")?.ok_or(Damaged {
            attribute: "status",
        })?,
        decision: item.some_word("decision")?,
        from_dry_run: item.some_flag("from_dry_run")?.unwrap_or_default(),
        decided_by: some("decided_by")?,
        decider: item.some_json("decider")?,
        decided_at: item.some_time("decided_at")?,
        reason: some("reason")?,
        delivered_at: item.some_time("delivered_at")?,
    })
}
