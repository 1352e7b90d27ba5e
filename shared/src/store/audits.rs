//! Audit records, and the end of a recovery with them.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::back_off::back_off;
use super::checkpoints::moved;
use super::encoding::body::{BODY, IN_ITEM};
use super::encoding::packed::Packed;
use super::error::Cause;
use super::item::{Attributes, item, text, time, word};
use super::keys::{self, Key};
use super::table::{
    Query, Range, Transacted, Update, Write, absent, differs, equals, no_item, present,
};
use super::{Result, Store, operation};
use crate::domain::audit::Audit;
use crate::domain::guard::answers::{Answer, Answered};
use crate::domain::ids::{ExecutionArn, GroupKey, PlanId};
use crate::domain::offset::TopicPartition;
use crate::domain::plan::{PlanRecord, PlanResult, Source};
use crate::domain::recovery::{Outcome, PartitionOutcome, Recovery};
use crate::domain::refusal::Refusal;
use crate::domain::report::EndCode;

/// Why another execution's report is not written.
const NOT_ANOTHERS: Cause =
    Cause::Conflict("the execution has no open recovery, so nobody else reports on it");

/// How often an end is tried while what it ends changes under it.
const TRIES: u32 = 5;

/// Whether a report was written now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// Now.
    Now,
    /// The execution has its audit record already, and that one stands.
    Already,
}

/// Who reports on an execution.
#[derive(Debug, Clone, Copy)]
pub enum Reporter<'a> {
    /// The execution itself, or the sweep once it is over. It holds no recovery, or one of these plans' or of the
    /// record's own.
    Itself(&'a [PlanId]),
    /// Another execution, which was found to be right in ending its recovery ([`Store::note_reconcile`]).
    Another(&'a ExecutionArn),
}

impl Store {
    /// Writes the audit record of an execution and, in the same transaction, ends the recovery that it owns: its
    /// claim and its place among the open ones go, and the group is noted as moved if it was, or may have been.
    /// While an Apply may still be under way the claim does not go, but ends with it.
    /// A recovery that is opened while the execution is being reported on is ended with it, or not opened.
    ///
    /// # Errors
    /// Another execution reports, and there is no open recovery that it may end: then nothing is written. Or the table
    /// cannot be reached.
    pub async fn close(&self, audit: &Audit, by: Reporter<'_>) -> Result<Closed> {
        operation("close", async {
            let plans = plans(audit, by);
            let pointer = keys::audit_pointer(&audit.execution);
            for tries in 0..TRIES {
                let closed = match self.table.get(&pointer).await? {
                    None => Closed::Now,
                    Some(_) => Closed::Already,
                };
                let mut writes = match closed {
                    Closed::Now => Vec::from(self.record(audit).await?),
                    Closed::Already => Vec::new(),
                };
                let recovery = self.owned(audit, &plans).await?;
                if let (None, Closed::Now, Reporter::Another(_)) = (&recovery, closed, by) {
                    return Err(NOT_ANOTHERS);
                }
                if closed == Closed::Now {
                    let others = plans.iter().copied();
                    let others =
                        others.filter(|plan| recovery.as_ref().is_none_or(|r| r.plan != **plan));
                    writes.extend(others.map(|plan| holds_none(audit, plan)));
                }
                if let Some(recovery) = &recovery {
                    writes.extend(self.ending(audit, recovery, by).await?);
                }
                if writes.is_empty() {
                    return Ok(closed);
                }
                if let Transacted::Done = self.table.transact(&writes).await? {
                    return Ok(closed);
                }
                // Another end of the same execution was faster, or what was read just now is no longer so.
                back_off(tries).await;
            }
            Err(Cause::Contended)
        })
        .await
    }

    /// The audit record itself, and the pointer that makes it the only one.
    async fn record(&self, audit: &Audit) -> Result<[Write; 2], Cause> {
        let (cluster, group) = (audit.cluster_id.as_ref(), audit.group.as_ref());
        let key = keys::audit(cluster, group, audit.at, &audit.execution);
        let packed = Packed::new(audit)?;
        let body = self
            .put_body(&BODY, &packed, IN_ITEM, &key.pk, None)
            .await?;
        let pointer = item(keys::audit_pointer(&audit.execution))
            .with("audit_pk", text(&key.pk))
            .with("audit_sk", text(&key.sk));
        // The words beside the body are for people who look at the table.
        let record = item(key)
            .with("at", time(audit.at))
            .with("execution", text(&audit.execution.0))
            .with_some("plan", audit.plan.as_ref().map(|plan| text(&plan.0)))
            .with("status", word(&audit.status))
            .with("code", text(&audit.code))
            .with_all(body);
        Ok([Write::put_new(pointer), Write::put_new(record)])
    }

    /// The recovery that this execution owns and that is not closed.
    async fn owned(&self, audit: &Audit, plans: &[&PlanId]) -> Result<Option<Recovery>, Cause> {
        for plan in plans {
            let recovery = self.read_recovery(plan).await?;
            let own = recovery.filter(|r| r.execution == audit.execution && r.closed_at.is_none());
            if own.is_some() {
                return Ok(own);
            }
        }
        Ok(None)
    }

    async fn ending(
        &self,
        audit: &Audit,
        recovery: &Recovery,
        by: Reporter<'_>,
    ) -> Result<Vec<Write>, Cause> {
        let group = &recovery.group_key();
        let of_execution = equals("execution", text(&audit.execution.0));
        let open = of_execution.clone().and(absent("closed_at"));
        let close = Update::of(keys::recovery(&recovery.plan))
            .set("closed_at", time(audit.at))
            .when(match by {
                Reporter::Itself(_) => open,
                Reporter::Another(by) => open.and(equals("reconciled_by", text(&by.0))),
            });
        let mut writes = vec![close.into(), Write::delete(keys::open(&recovery.plan))];
        // An expired claim may be another execution's by now.
        let claim = self.read_claim(group).await?;
        if claim.is_some_and(|claim| claim.execution == audit.execution) {
            let key = keys::claim(group);
            // Nobody may claim the group while a request of this recovery can still reach the brokers.
            let release = match recovery.under_way_until().filter(|until| *until > audit.at) {
                None => Write::delete(key),
                Some(until) => Update::of(key).set("expires_at", time(until)).into(),
            };
            writes.push(release.when(of_execution));
        }
        let was_moved = match &audit.outcome {
            // An Apply that began and that nothing was proven of.
            None => recovery.apply_until.is_some(),
            Some(outcome) => moves(outcome),
        };
        let noted = self.read_last_recovery_end(group).await?;
        if was_moved && noted.is_none_or(|noted| noted < audit.at) {
            writes.push(moved(group, audit.at).into());
        }
        Ok(writes)
    }

    /// How many recoveries of skips moved each partition, or may have, and were reported on at `since` or later.
    ///
    /// # Errors
    /// An item is damaged, or the table cannot be reached.
    pub async fn skips_since(
        &self,
        group: &GroupKey,
        since: Timestamp,
    ) -> Result<BTreeMap<TopicPartition, u32>> {
        operation("skips_since", async {
            let pk = keys::audits(Some(&group.cluster_id), Some(&group.group));
            let range = Range::Between(keys::from(since), keys::TIMED_END.to_owned());
            let mut skips = BTreeMap::new();
            for item in self.table.query(Query::new(&pk, range)).await? {
                let audit: Audit = self.body(&BODY, &item, &pk).await?;
                for partition in self.skipped(audit).await? {
                    *skips.entry(partition).or_default() += 1;
                }
            }
            Ok(skips)
        })
        .await
    }

    /// Every plan of a group that a person rejected, or that nobody decided on in time, and that was reported on at `since`
    /// or later. They are read from the audit records, which are written by whatever ends a recovery, in the transaction
    /// that lets its group go: none is lost, and none is there twice.
    ///
    /// # Errors
    /// An item is damaged, or the table cannot be reached.
    pub async fn answered_since(
        &self,
        group: &GroupKey,
        since: Timestamp,
    ) -> Result<Vec<Answered>> {
        operation("answered_since", async {
            let pk = keys::audits(Some(&group.cluster_id), Some(&group.group));
            let range = Range::Between(keys::from(since), keys::TIMED_END.to_owned());
            let mut answered = Vec::new();
            for item in self.table.query(Query::new(&pk, range)).await? {
                // Nobody was asked about what was refused, and the guard would make it again in every run.
                let ends = [
                    EndCode::Rejected,
                    EndCode::ApprovalExpired,
                    EndCode::Refused,
                ];
                let code = item.text("code")?;
                if !ends.iter().any(|end| end.code() == code) {
                    continue;
                }
                let audit: Audit = self.body(&BODY, &item, &pk).await?;
                let (at, answer) = (audit.at, answer(&audit));
                let Some(plan) = audit.plan else {
                    continue;
                };
                let record: Option<PlanRecord> = self.packed(&keys::plan(&plan)).await?;
                answered.extend(record.map(|record| Answered { record, answer, at }));
            }
            Ok(answered)
        })
        .await
    }

    /// The partitions that a recovery moved, or may have, if it was a skip's.
    async fn skipped(&self, audit: Audit) -> Result<Vec<TopicPartition>, Cause> {
        let Some(id) = audit.plan else {
            return Ok(Vec::new());
        };
        let may_have_moved = match audit.outcome {
            Some(outcome) => moves(&outcome),
            // Whether an Apply began, that nothing was proven of.
            None => {
                let recovery = self.read_recovery(&id).await?;
                recovery.is_some_and(|r| r.apply_until.is_some())
            }
        };
        if !may_have_moved {
            return Ok(Vec::new());
        }
        let record: Option<PlanRecord> = self.packed(&keys::plan(&id)).await?;
        let plan = match record.map(|record| record.result) {
            Some(PlanResult::Ready(plan)) if plan.source == Source::Skip => plan,
            Some(_) | None => return Ok(Vec::new()),
        };
        let not_applied = |partition: &TopicPartition| {
            let mut of = audit.partitions.iter();
            of.any(|of| {
                of.partition == *partition && of.outcome == Some(PartitionOutcome::NotApplied)
            })
        };
        let mut partitions: Vec<_> = plan.moves.into_iter().map(|m| m.partition).collect();
        partitions.retain(|partition| !not_applied(partition));
        Ok(partitions)
    }

    /// The audit record of an execution.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn audit_of(&self, execution: &ExecutionArn) -> Result<Option<Audit>> {
        operation("audit_of", async {
            let Some(pointer) = self.table.get(&keys::audit_pointer(execution)).await? else {
                return Ok(None);
            };
            let key = Key::new(
                pointer.text("audit_pk")?.to_owned(),
                pointer.text("audit_sk")?,
            );
            self.packed(&key).await
        })
        .await
    }

    /// Notes that the people have been told what the audit record of an execution says. The first note stands.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn note_audit_told(&self, execution: &ExecutionArn, now: Timestamp) -> Result<()> {
        let note = item(keys::audit_told(execution)).with("told_at", time(now));
        operation("note_audit_told", async {
            self.table.put_new(note).await?;
            Ok(())
        })
        .await
    }

    /// Whether the people are known to have been told what the audit record of an execution says.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn audit_told(&self, execution: &ExecutionArn) -> Result<bool> {
        operation("audit_told", async {
            Ok(self
                .table
                .get(&keys::audit_told(execution))
                .await?
                .is_some())
        })
        .await
    }
}

/// What people answered to a plan that was rejected or that expired, or why they were not asked.
fn answer(audit: &Audit) -> Answer {
    if audit.code == EndCode::Refused.code() {
        let missing = audit.refusals.iter().flat_map(|refusal| match refusal {
            Refusal::NotAuthorisedToAlter { missing, .. } => missing.clone(),
            _ => Vec::new(),
        });
        let missing = missing.collect();
        return Answer::NotAsked { missing };
    }
    if audit.code != EndCode::Rejected.code() {
        return Answer::Unanswered;
    }
    let mut refusals = audit.refusals.iter();
    let rejected = refusals.find_map(|refusal| match refusal {
        Refusal::Rejected { by, reason } => Some((by.clone(), reason.clone())),
        _ => None,
    });
    let (by, reason) = rejected.unwrap_or_else(|| {
        let by = audit.decided_by.clone();
        (by.unwrap_or_else(|| "somebody".to_owned()), String::new())
    });
    Answer::Rejected { by, reason }
}

/// The plans whose recoveries an execution may hold.
fn plans<'a>(audit: &'a Audit, by: Reporter<'a>) -> Vec<&'a PlanId> {
    let more = match by {
        Reporter::Itself(plans) => plans,
        Reporter::Another(_) => &[],
    };
    let mut plans: Vec<_> = audit.plan.iter().chain(more).collect();
    plans.sort();
    plans.dedup();
    plans
}

/// That the execution holds no open recovery of this plan: one that is opened at this moment is either seen and ended
/// with the record, or meets the record and is not opened.
fn holds_none(audit: &Audit, plan: &PlanId) -> Write {
    let of_another = differs("execution", text(&audit.execution.0));
    Write::check(
        keys::recovery(plan),
        no_item().or(of_another).or(present("closed_at")),
    )
}

/// Whether a recovery that came to this moved its group, or may have.
fn moves(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::NotApplied => false,
        Outcome::Verified
        | Outcome::AppliedThenMoved
        | Outcome::Overwritten
        | Outcome::PartiallyApplied
        | Outcome::Unknown => true,
    }
}
