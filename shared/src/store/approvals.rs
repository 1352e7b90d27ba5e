//! Approvals: asked for once, decided once.

use jiff::Timestamp;

use super::error::Cause;
use super::item::{Attributes, Damaged, Item, flag, item, json, text, time, ttl, word};
use super::plans::KEPT;
use super::table::{Change, Transacted, Updated, Write, back_off};
use super::{LinkHash, Result, Store, TaskToken, keys};
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
        self.try_request_approval(a, link, token)
            .await
            .map_err(|cause| cause.of("request_approval"))
    }

    async fn try_request_approval(
        &self,
        a: &Approval,
        link: &LinkHash,
        token: &TaskToken,
    ) -> Result<(), Cause> {
        let expires_at = ttl(a.approve_by + KEPT);
        for tries in 0..TRIES {
            let earlier = self.try_approval_of(&a.plan).await?;
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
                    Some((earlier, _)) => Write::put(pointer)
                        .when("#link = :earlier")
                        .value(":earlier", text(&earlier.0)),
                },
            ];
            if let Some((earlier, there)) = &earlier
                && there.stands() == ApprovalStatus::Pending
            {
                writes.push(lapse(earlier, Lapse::Superseded).into());
            }
            match self.transact(&writes).await? {
                Transacted::Done => return Ok(()),
                Transacted::Failed(failed) if failed.first() == Some(&true) => {
                    return Err(LINK_USED);
                }
                // The earlier one was decided or replaced in the same moment.
                Transacted::Failed(_) => back_off(tries).await,
            }
        }
        Err(Cause::Contended)
    }

    /// The approval behind a link.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn approval(&self, link: &LinkHash) -> Result<Option<Approval>> {
        self.try_approval(link)
            .await
            .map_err(|cause| cause.of("approval"))
    }

    /// Whether a link was ever given out, and its record is still kept.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn is_given_out(&self, link: &LinkHash) -> Result<bool> {
        let found = self.get(&keys::approval(link)).await;
        let found = found.map_err(|cause| cause.of("is_given_out"))?;
        Ok(found.is_some())
    }

    async fn try_approval(&self, link: &LinkHash) -> Result<Option<Approval>, Cause> {
        match self.get(&keys::approval(link)).await? {
            None => Ok(None),
            Some(item) => Ok(Some(approval_of(&item)?)),
        }
    }

    /// The newest approval of a plan.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn approval_of(&self, plan: &PlanId) -> Result<Option<(LinkHash, Approval)>> {
        self.try_approval_of(plan)
            .await
            .map_err(|cause| cause.of("approval_of"))
    }

    async fn try_approval_of(&self, plan: &PlanId) -> Result<Option<(LinkHash, Approval)>, Cause> {
        let Some(pointer) = self.get(&keys::approval_pointer(plan)).await? else {
            return Ok(None);
        };
        let link = LinkHash(pointer.text("link")?.to_owned());
        let approval = self.try_approval(&link).await?;
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
        let set = match by.identity() {
            None => {
                "SET #status = :status, #decision = :decision, #decided_by = :by, #decided_at = :now, #reason = :reason"
            }
            Some(_) => {
                "SET #status = :status, #decision = :decision, #decided_by = :by, #decided_at = :now, #reason = :reason, \
                 #decider = :decider"
            }
        };
        let mut decide = Write::change(keys::approval(link), set)
            .when(
                "#status = :pending AND attribute_not_exists(#decision) AND #approve_by > :now AND #digest = :digest",
            )
            .value(":status", word(&decision.status()))
            .value(":decision", word(&decision))
            .value(":by", text(by.shown()))
            .value(":now", time(now))
            .value(":reason", text(reason))
            .value(":pending", word(&ApprovalStatus::Pending))
            .value(":digest", text(&digest.0));
        if let Some(identity) = by.identity() {
            decide = decide.value(":decider", json(identity));
        }
        let decided = async {
            match self.update_returning(decide).await? {
                Updated::Done(item) => Ok(Decided::Now(approval_of(&item)?)),
                Updated::Not(Some(item)) => Ok(Decided::Already(approval_of(&item)?)),
                Updated::Not(None) => Err(NO_SUCH),
            }
        };
        decided.await.map_err(|cause: Cause| cause.of("decide"))
    }

    /// Ends an approval that is still pending; returns what stands.
    ///
    /// # Errors
    /// There is no such approval, or the table cannot be reached.
    pub async fn close_approval(&self, link: &LinkHash, how: Lapse) -> Result<Approval> {
        let closed = async {
            // Who closes has a right to these few attributes, so nothing is asked back with the write.
            self.update(lapse(link, how)).await?;
            self.try_approval(link).await?.ok_or(NO_SUCH)
        };
        closed
            .await
            .map_err(|cause: Cause| cause.of("close_approval"))
    }

    /// What ends the wait for a plan's approval, whether it was asked for yet or not, and fails where it is decided.
    ///
    /// It reads no approval: who plans has no right to one, nor to the token that lies beside it.
    pub(super) async fn end_of_wait(&self, plan: &PlanId) -> Result<Vec<Write>, Cause> {
        let key = keys::approval_pointer(plan);
        let Some(pointer) = self.get(&key).await? else {
            return Ok(vec![Write::none(key)]);
        };
        let link = LinkHash(pointer.text("link")?.to_owned());
        let newest = Write::check(key).when("#link = :link");
        Ok(vec![
            newest.value(":link", text(&link.0)),
            lapse(&link, Lapse::Superseded).into(),
        ])
    }

    /// The token of the execution that waits for this approval.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn task_token(&self, link: &LinkHash) -> Result<Option<TaskToken>> {
        let read = async {
            let Some(item) = self.get(&keys::task_token(link)).await? else {
                return Ok(None);
            };
            Ok(Some(TaskToken::new(item.text("token")?.to_owned())))
        };
        read.await.map_err(|cause: Cause| cause.of("task_token"))
    }

    /// Notes that the decision reached the waiting execution.
    ///
    /// # Errors
    /// There is no such approval, or the table cannot be reached.
    pub async fn mark_delivered(&self, link: &LinkHash, now: Timestamp) -> Result<()> {
        let operation = "mark_delivered";
        let mark = Write::change(
            keys::approval(link),
            "SET #delivered_at = if_not_exists(#delivered_at, :now)",
        )
        .when("attribute_exists(#pk)")
        .value(":now", time(now));
        match self.update(mark).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(NO_SUCH.of(operation)),
            Err(cause) => Err(cause.of(operation)),
        }
    }
}

/// Ends a pending approval without a decision. Whoever may do this has a right to the key and the status, and to no
/// attribute more: the condition must name none either.
fn lapse(link: &LinkHash, how: Lapse) -> Write<Change> {
    Write::change(keys::approval(link), "SET #status = :status")
        .when("#status = :pending")
        .value(":status", word(&how.status()))
        .value(":pending", word(&ApprovalStatus::Pending))
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
