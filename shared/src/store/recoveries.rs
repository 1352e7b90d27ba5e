//! Recoveries and the claims that they have on groups.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use tokio::try_join;

use super::back_off::back_off;
use super::encoding::body::{BESIDE, BODY, IN_ITEM, REFUSALS};
use super::encoding::packed::Packed;
use super::error::Cause;
use super::item::{Attributes, Damaged, Item, item, number, text, time, word};
use super::keys::{self, ANSWERS, Key, OPEN};
use super::table::{
    Condition, Query, Range, Transacted, Update, Updated, Write, absent, at_most, equals,
    item_exists, no_item,
};
use super::{Result, Store, operation};
use crate::domain::ids::{ExecutionArn, GroupKey, PlanId};
use crate::domain::offset::{ClusterId, GroupId, TopicPartition};
use crate::domain::recovery::{
    AlterAnswer, Claim, Outcome, PartitionOutcome, PreImage, Quiet, Recovery,
};
use crate::domain::refusal::Refusal;

/// How often a claim is tried that is let go or taken in the same moment.
const TRIES: u32 = 5;

const ENDED: Cause = Cause::Conflict("the execution has ended and is reported on");

const NOT_OPEN: Cause = Cause::Conflict("there is no open recovery of this plan");

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
    /// The execution is reported on already: a step that outlives its execution must not claim what nobody would
    /// release. Or the table cannot be reached.
    pub async fn open_recovery(
        &self,
        r: &Recovery,
        claim: &Claim,
        now: Timestamp,
    ) -> Result<Opened> {
        operation("open_recovery", async {
            for tries in 0..TRIES {
                let take = take_claim(r, claim, now);
                let [recovery, open, not_ended] = self.opening(r).await?;
                let writes = [take, recovery, open, not_ended];
                let ended = match self.table.transact(&writes).await? {
                    Transacted::Done => return Ok(Opened::Yes),
                    Transacted::Failed(failed) => failed.last() == Some(&true),
                };
                // What was in the way is read after the fact, and may be gone by now.
                if let Some(there) = self.read_recovery(&r.plan).await? {
                    if there.execution != r.execution || there.closed_at.is_some() {
                        return Ok(Opened::PlanUsed);
                    }
                    // The same step again: the recovery is there, and its claim has to be still or again.
                    let not_ended = Write::none(keys::audit_pointer(&r.execution));
                    let take = [take_claim(r, claim, now), not_ended];
                    if let Transacted::Done = self.table.transact(&take).await? {
                        return Ok(Opened::Yes);
                    }
                }
                if ended {
                    return Err(ENDED);
                }
                if let Some(there) = self.read_claim(&r.group_key()).await?
                    && there.expires_at > now
                    && there.execution != claim.execution
                {
                    return Ok(Opened::HeldBy(there));
                }
                back_off(tries).await;
            }
            Err(Cause::Contended)
        })
        .await
    }

    /// Takes the place of the recovery that holds the group, and opens this one: only while the other waits for its
    /// approval, asked for or not. In one transaction its approval is closed, its fence raised and its claim handed
    /// over, so that it can be neither approved nor applied from then on. It stays open until its execution reports.
    ///
    /// `false`: it is decided, over, or does not hold the group any more; nothing happened.
    ///
    /// # Errors
    /// An item is damaged, or the table cannot be reached.
    pub async fn supersede_recovery(
        &self,
        r: &Recovery,
        claim: &Claim,
        holder: &Claim,
    ) -> Result<bool> {
        operation("supersede_recovery", async {
            let holds = equals("execution", text(&holder.execution.0))
                .and(equals("plan", text(&holder.plan.0)));
            let hand_over = Write::put(claim_item(r, claim)).when(holds);
            let waits = equals("fence", number(0))
                .and(absent("apply_by"))
                .and(absent("closed_at"));
            let fence = Update::of(keys::recovery(&holder.plan))
                .set("fence", number(1))
                .set("superseded_by", text(&r.plan.0))
                .when(waits);
            let mut writes = vec![hand_over, fence.into()];
            writes.extend(self.opening(r).await?);
            writes.extend(self.end_of_wait(&holder.plan).await?);
            Ok(matches!(
                self.table.transact(&writes).await?,
                Transacted::Done
            ))
        })
        .await
    }

    /// What opens a recovery, apart from its claim.
    async fn opening(&self, r: &Recovery) -> Result<[Write; 3], Cause> {
        let open = item(keys::open(&r.plan))
            .with("plan", text(&r.plan.0))
            .with("execution", text(&r.execution.0));
        Ok([
            Write::put_new(self.recovery_item(r).await?),
            Write::put(open),
            Write::none(keys::audit_pointer(&r.execution)),
        ])
    }

    /// A plan's recovery.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn recovery(&self, plan: &PlanId) -> Result<Option<Recovery>> {
        operation("recovery", self.read_recovery(plan)).await
    }

    pub(super) async fn read_recovery(&self, plan: &PlanId) -> Result<Option<Recovery>, Cause> {
        match self.table.get(&keys::recovery(plan)).await? {
            None => Ok(None),
            Some(item) => Ok(Some(self.recovery_of(&item).await?)),
        }
    }

    /// The claim on a group, whether expired or not.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn claim(&self, group: &GroupKey) -> Result<Option<Claim>> {
        operation("claim", self.read_claim(group)).await
    }

    pub(super) async fn read_claim(&self, group: &GroupKey) -> Result<Option<Claim>, Cause> {
        let Some(item) = self.table.get(&keys::claim(group)).await? else {
            return Ok(None);
        };
        Ok(Some(Claim {
            execution: ExecutionArn(item.text("execution")?.to_owned()),
            plan: PlanId(item.text("plan")?.to_owned()),
            expires_at: item.time("expires_at")?,
        }))
    }

    /// Every recovery without a report, with its execution.
    ///
    /// # Errors
    /// An item is damaged, or the table cannot be reached.
    pub async fn open_recoveries(&self) -> Result<Vec<(PlanId, ExecutionArn)>> {
        operation("open_recoveries", async {
            let mut open = Vec::new();
            for item in self.table.query(Query::new(OPEN, Range::All)).await? {
                let plan = PlanId(item.text("plan")?.to_owned());
                open.push((plan, ExecutionArn(item.text("execution")?.to_owned())));
            }
            Ok(open)
        })
        .await
    }

    /// Makes a claim last until `expires_at`; `false` if the execution does not hold it.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn renew_claim(
        &self,
        group: &GroupKey,
        execution: &ExecutionArn,
        expires_at: Timestamp,
    ) -> Result<bool> {
        let renew = Update::of(keys::claim(group))
            .set("expires_at", time(expires_at))
            .when(equals("execution", text(&execution.0)));
        operation("renew_claim", self.table.update(renew)).await
    }

    /// Changes an open recovery; a conflict if there is none.
    async fn change_open(&self, change: Update) -> Result<(), Cause> {
        match self.table.update(change.when(is_open())).await? {
            true => Ok(()),
            false => Err(NOT_OPEN),
        }
    }

    /// Sets until when the plan may be applied.
    ///
    /// # Errors
    /// There is no open recovery, or the table cannot be reached.
    pub async fn set_apply_by(&self, plan: &PlanId, apply_by: Timestamp) -> Result<()> {
        let set = Update::of(keys::recovery(plan)).set("apply_by", time(apply_by));
        operation("set_apply_by", self.change_open(set)).await
    }

    /// Keeps why a step after planning refused.
    ///
    /// # Errors
    /// There is no open recovery, or the table cannot be reached.
    pub async fn note_refusals(&self, plan: &PlanId, refusals: &[Refusal]) -> Result<()> {
        let key = keys::recovery(plan);
        operation("note_refusals", async {
            let packed = Packed::new(refusals)?;
            // A stale plan of many partitions has as many refusals, which need not fit.
            let [(place, refusals), (hash, sha256)] = self
                .put_body(&REFUSALS, &packed, BESIDE, &key.pk, None)
                .await?;
            let note = Update::of(key)
                .set(place, refusals)
                .set(hash, sha256)
                .remove(REFUSALS.other(place));
            self.change_open(note).await
        })
        .await
    }

    /// Keeps which rights of the applying principal the brokers said nothing of.
    ///
    /// # Errors
    /// There is no open recovery, or the table cannot be reached.
    pub async fn note_unknown_rights(&self, plan: &PlanId, unknown: &str) -> Result<()> {
        let note = Update::of(keys::recovery(plan)).set("unknown_rights", text(unknown));
        operation("note_unknown_rights", self.change_open(note)).await
    }

    /// Keeps since when the group was seen quiet, or that it is not.
    ///
    /// # Errors
    /// There is no open recovery, or the table cannot be reached.
    pub async fn note_quiet(&self, plan: &PlanId, quiet: Option<&Quiet>) -> Result<()> {
        let note = Update::of(keys::recovery(plan))
            .set_or_remove("quiet_since", quiet.map(|quiet| time(quiet.since)))
            .set_or_remove("quiet_commits", quiet.map(|quiet| text(&quiet.commits)));
        operation("note_quiet", self.change_open(note)).await
    }

    /// Notes that Apply runs and may send until `apply_until`; `false` if the fence is raised or the recovery closed.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn begin_apply(&self, plan: &PlanId, apply_until: Timestamp) -> Result<bool> {
        let begin = Update::of(keys::recovery(plan))
            .set("apply_until", time(apply_until))
            .remove("apply_ended_at")
            .when(equals("fence", number(0)).and(absent("closed_at")));
        operation("begin_apply", self.table.update(begin)).await
    }

    /// Whether Apply may send: the fence is not raised and the recovery not closed; and the switch, where it is set.
    ///
    /// # Errors
    /// An item is damaged, or the table cannot be reached.
    pub async fn may_send(&self, plan: &PlanId) -> Result<(bool, Option<bool>)> {
        let fence = async {
            let Some(item) = self.table.get(&keys::recovery(plan)).await? else {
                return Ok(false);
            };
            Ok(item.some_number("fence")? == Some(0) && item.some_time("closed_at")?.is_none())
        };
        operation("may_send", async {
            try_join!(fence, self.read_apply_switch())
        })
        .await
    }

    /// Stores the pre-image unless there is one, and returns the stored one.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn keep_pre_image(&self, plan: &PlanId, pre_image: &PreImage) -> Result<PreImage> {
        operation("keep_pre_image", async {
            let key = keys::pre_image(plan);
            let new = self.packed_item(key.clone(), pre_image).await?;
            if self.table.put_new(new).await? {
                return Ok(pre_image.clone());
            }
            let kept = self.packed(&key).await?;
            kept.ok_or(Cause::Conflict("the pre-image is gone"))
        })
        .await
    }

    /// The stored pre-image.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn pre_image(&self, plan: &PlanId) -> Result<Option<PreImage>> {
        operation("pre_image", self.packed(&keys::pre_image(plan))).await
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
        operation("record_answers", async {
            let key = keys::answers(plan, request, attempt);
            self.table.put(self.packed_item(key, answers).await?).await
        })
        .await
    }

    /// What the broker said of each partition, in whatever order it was recorded: Accepted stands over everything,
    /// and Unknown over Rejected, since a rejected attempt proves nothing of another one.
    ///
    /// # Errors
    /// An item is damaged, or the table cannot be reached.
    pub async fn answers(&self, plan: &PlanId) -> Result<BTreeMap<TopicPartition, AlterAnswer>> {
        operation("answers", async {
            let pk = keys::recoveries(plan);
            let mut all: BTreeMap<TopicPartition, AlterAnswer> = BTreeMap::new();
            for item in self
                .table
                .query(Query::new(&pk, Range::Prefix(ANSWERS.to_owned())))
                .await?
            {
                let answers: Vec<(TopicPartition, AlterAnswer)> =
                    self.body(&BODY, &item, &pk).await?;
                for (partition, answer) in answers {
                    let answer = match all.remove(&partition) {
                        Some(before) => answer.or(before),
                        None => answer,
                    };
                    all.insert(partition, answer);
                }
            }
            Ok(all)
        })
        .await
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
        let end = Update::of(keys::recovery(plan))
            .set("apply_ended_at", time(at))
            .when(equals("apply_until", time(apply_until)));
        operation("end_apply", async {
            self.table.update(end).await?;
            Ok(())
        })
        .await
    }

    /// Notes that `execution` may end the recovery of `owner`, whose own execution is over; in the place of `before`, if
    /// another one was to. `false` if the recovery is not that of `owner`, is closed, or is another's to end.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn note_reconcile(
        &self,
        plan: &PlanId,
        owner: &ExecutionArn,
        execution: &ExecutionArn,
        before: Option<&ExecutionArn>,
    ) -> Result<bool> {
        let owned = equals("execution", text(&owner.0)).and(absent("closed_at"));
        let by = |by: &ExecutionArn| equals("reconciled_by", text(&by.0));
        let free = absent("reconciled_by")
            .or(by(execution))
            .or(by(before.unwrap_or(execution)));
        let note = Update::of(keys::recovery(plan))
            .set("reconciled_by", text(&execution.0))
            .when(owned.and(free));
        operation("note_reconcile", self.table.update(note)).await
    }

    /// Raises the fence for `execution` and returns the recovery after it; `None` if there is none that it may end: its
    /// own, or one that it was found to be right in ending.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn raise_fence(
        &self,
        plan: &PlanId,
        execution: &ExecutionArn,
    ) -> Result<Option<Recovery>> {
        let execution = text(&execution.0);
        let raise = Update::of(keys::recovery(plan))
            .add("fence", 1)
            .when(equals("execution", execution.clone()).or(equals("reconciled_by", execution)));
        operation("raise_fence", async {
            match self.table.update_returning(raise).await? {
                Updated::Done(item) => Ok(Some(self.recovery_of(&item).await?)),
                Updated::Not(_) => Ok(None),
            }
        })
        .await
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
        let set = Update::of(keys::recovery(plan))
            .set("outcome", word(outcome))
            .when(is_open());
        operation("set_outcome", async {
            let pairs: Vec<_> = partitions.iter().collect();
            let result = self.packed_item(keys::result(plan), &pairs).await?;
            match self
                .table
                .transact(&[set.into(), Write::put(result)])
                .await?
            {
                Transacted::Done => Ok(()),
                Transacted::Failed(_) => Err(NOT_OPEN),
            }
        })
        .await
    }

    /// What Verify found of each partition.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn result(
        &self,
        plan: &PlanId,
    ) -> Result<Option<BTreeMap<TopicPartition, PartitionOutcome>>> {
        operation("result", async {
            let pairs: Option<Vec<_>> = self.packed(&keys::result(plan)).await?;
            Ok(pairs.map(|pairs| pairs.into_iter().collect()))
        })
        .await
    }

    /// A new item that has `value` as its body.
    async fn packed_item<T: Serialize + ?Sized>(&self, key: Key, value: &T) -> Result<Item, Cause> {
        let packed = Packed::new(value)?;
        let body = self
            .put_body(&BODY, &packed, IN_ITEM, &key.pk, None)
            .await?;
        Ok(item(key).with_all(body))
    }

    async fn recovery_item(&self, r: &Recovery) -> Result<Item, Cause> {
        let refusals = Packed::new(&r.refusals)?;
        let key = keys::recovery(&r.plan);
        let refusals = self
            .put_body(&REFUSALS, &refusals, BESIDE, &key.pk, None)
            .await?;
        let quiet = r.quiet.as_ref();
        Ok(item(key)
            .with("plan", text(&r.plan.0))
            .with("execution", text(&r.execution.0))
            .with("cluster_id", text(&r.cluster_id.0))
            .with("group", text(&r.group.0))
            .with("opened_at", time(r.opened_at))
            .with_some("apply_by", r.apply_by.map(time))
            .with_some("quiet_since", quiet.map(|quiet| time(quiet.since)))
            .with_some("quiet_commits", quiet.map(|quiet| text(&quiet.commits)))
            .with("fence", number(r.fence))
            .with_some("apply_until", r.apply_until.map(time))
            .with_some("apply_ended_at", r.apply_ended_at.map(time))
            .with_some(
                "superseded_by",
                r.superseded_by.as_ref().map(|by| text(&by.0)),
            )
            .with_some(
                "reconciled_by",
                r.reconciled_by.as_ref().map(|by| text(&by.0)),
            )
            .with_some("unknown_rights", r.unknown_rights.as_deref().map(text))
            .with_all(refusals)
            .with_some("outcome", r.outcome.as_ref().map(word))
            .with_some("closed_at", r.closed_at.map(time)))
    }

    async fn recovery_of(&self, item: &Item) -> Result<Recovery, Cause> {
        let plan = PlanId(item.text("plan")?.to_owned());
        let refusals = self
            .some_body(&REFUSALS, item, &keys::recoveries(&plan))
            .await?;
        let fence = item
            .some_number("fence")?
            .and_then(|fence| u64::try_from(fence).ok());
        let quiet = match item.some_time("quiet_since")? {
            None => None,
            Some(since) => Some(Quiet {
                since,
                commits: item.text("quiet_commits")?.to_owned(),
            }),
        };
        let superseded_by = item.some_text("superseded_by")?;
        let reconciled_by = item.some_text("reconciled_by")?;
        Ok(Recovery {
            plan,
            execution: ExecutionArn(item.text("execution")?.to_owned()),
            cluster_id: ClusterId(item.text("cluster_id")?.to_owned()),
            group: GroupId(item.text("group")?.to_owned()),
            opened_at: item.time("opened_at")?,
            apply_by: item.some_time("apply_by")?,
            quiet,
            fence: fence.ok_or(Damaged { attribute: "fence" })?,
            apply_until: item.some_time("apply_until")?,
            apply_ended_at: item.some_time("apply_ended_at")?,
            superseded_by: superseded_by.map(|by| PlanId(by.to_owned())),
            reconciled_by: reconciled_by.map(ExecutionArn::from),
            unknown_rights: item.some_text("unknown_rights")?.map(str::to_owned),
            refusals: refusals.unwrap_or_default(),
            outcome: item.some_word("outcome")?,
            closed_at: item.some_time("closed_at")?,
        })
    }
}

/// Takes a claim where there is none, where it is over, or where it is this execution's for this plan.
fn take_claim(r: &Recovery, claim: &Claim, now: Timestamp) -> Write {
    let own =
        equals("execution", text(&claim.execution.0)).and(equals("plan", text(&claim.plan.0)));
    let free = no_item().or(at_most("expires_at", time(now))).or(own);
    Write::put(claim_item(r, claim)).when(free)
}

fn claim_item(r: &Recovery, claim: &Claim) -> Item {
    item(keys::claim(&r.group_key()))
        .with("execution", text(&claim.execution.0))
        .with("plan", text(&claim.plan.0))
        .with("expires_at", time(claim.expires_at))
}

/// The condition of everything that belongs to a recovery's life.
fn is_open() -> Condition {
    item_exists().and(absent("closed_at"))
}
