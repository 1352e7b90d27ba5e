//! The end of every path: the audit record first, then the people, and the group is free again.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::context::Context;
use super::reconcile::{self, Examined};
use super::{alert, plan_id};
use crate::domain::approval::{Approval, ApprovalStatus, Standing};
use crate::domain::audit::{Audit, AuditPartition, AuditStatus, recorded};
use crate::domain::identity::Requester;
use crate::domain::ids::{ExecutionArn, PlanId};
use crate::domain::offset::TopicPartition;
use crate::domain::plan::{Plan, PlanRecord, PlanResult};
use crate::domain::recovery::{Outcome, PartitionOutcome, PreImage, Recovery};
use crate::domain::refusal::Refusal;
use crate::domain::report::{Conclusion, OnRecord, conclude, conclude_invalid, is_replaced};
use crate::error::Error;
use crate::failure::{ErrorClass, chain};
use crate::store::{Closed, Lapse, Reporter, Store};
use crate::wire::{Asked, LONGEST_TEXT, ReportState, StepError};

/// How the execution ends.
#[derive(Debug, Serialize)]
pub struct Reported {
    /// Whether the execution succeeds.
    pub status: AuditStatus,
    /// The code.
    pub code: String,
    /// One sentence.
    pub message: String,
}

impl From<Audit> for Reported {
    fn from(audit: Audit) -> Self {
        Self {
            status: audit.status,
            code: audit.code,
            message: audit.message,
        }
    }
}

/// Reports an execution. A second report of the same one says what the first did.
///
/// # Errors
/// The table or Step Functions failed. A dead Slack is logged and does not fail it.
pub async fn report_execution<B>(
    ctx: &Context<B>,
    execution: &ExecutionArn,
    started_at: Option<Timestamp>,
    state: &ReportState,
) -> Result<Reported, Error> {
    let asked = Asked::of(&state.input);
    let error = state.last_error().map(StepError::text);
    let audit = match asked {
        Asked::Alert(written) => {
            return alert::report_alert(ctx, execution, written).await;
        }
        Asked::Reconcile(written) => {
            let of = Reconciling {
                execution,
                written,
                error: error.as_deref(),
            };
            of.report(ctx).await?
        }
        Asked::Plan(_) | Asked::Request(_) | Asked::Nothing => {
            let own = Own {
                execution,
                started_at,
                planned: state.plan.as_ref().map(|planned| &planned.plan_id),
                asked,
            };
            end(ctx, &own, error.as_deref()).await?
        }
    };
    Ok(audit.into())
}

/// An execution that is to end another one's recovery.
struct Reconciling<'a> {
    execution: &'a ExecutionArn,
    written: &'a Value,
    error: Option<&'a str>,
}

impl Reconciling<'_> {
    /// Reports for the other execution where that is right, and on this one itself where it is not.
    async fn report<B>(&self, ctx: &Context<B>) -> Result<Audit, Error> {
        let execution = self.execution;
        let refusal = match reconcile::examine(ctx, execution, self.written).await? {
            Examined::Done(recovery) => return written(&ctx.store, &recovery.execution).await,
            Examined::Founded(recovery) if recovery.reconciled_by.as_ref() == Some(execution) => {
                let plan = Some(&recovery.plan);
                let audit = conclusion(ctx, &recovery.execution, plan, self.error).await?;
                return close(ctx, audit, Reporter::Another(execution)).await;
            }
            // The step that asks was passed over or failed, so neither was the fence raised.
            Examined::Founded(_) => reconcile::unfounded(match self.error {
                Some(error) => format!("it could not be confirmed: {error}"),
                None => "it was not confirmed".to_owned(),
            }),
            Examined::Unfounded(refusal) => refusal,
        };
        end_invalid(ctx, execution, refusal).await
    }
}

/// An execution that has a recovery of its own, or none.
#[derive(Debug, Clone, Copy)]
pub struct Own<'a> {
    /// Its ARN.
    pub execution: &'a ExecutionArn,
    /// When it started.
    pub started_at: Option<Timestamp>,
    /// The plan that its plan step named, if that step answered.
    pub planned: Option<&'a PlanId>,
    /// What its input asks for.
    pub asked: Asked<'a>,
}

impl Own<'_> {
    /// The plans whose recoveries it may hold. A plan step that failed has named none, but may have claimed the group
    /// or even stored the plan: the plan's id is the one in the input, or follows from the execution.
    fn plans(&self) -> Vec<PlanId> {
        let given = match self.asked {
            Asked::Plan(given) => given.as_str().filter(|id| id.len() <= LONGEST_TEXT),
            Asked::Reconcile(_) | Asked::Alert(_) | Asked::Request(_) | Asked::Nothing => None,
        };
        let made = self.started_at.map(|at| plan_id(self.execution, at));
        let given = given.filter(|id| !id.is_empty());
        let mut plans: Vec<_> = self.planned.cloned().into_iter().collect();
        plans.extend(given.map(|id| PlanId(id.to_owned())));
        plans.extend(made);
        plans
    }

    /// The plan that it is about.
    async fn plan(&self, store: &Store, plans: &[PlanId]) -> Result<Option<PlanId>, Error> {
        if let Some(planned) = self.planned {
            return Ok(Some(planned.clone()));
        }
        for id in plans {
            let own = |by: &ExecutionArn| by == self.execution;
            let recovery = store.recovery(id).await?;
            if recovery.is_some_and(|recovery| own(&recovery.execution)) {
                return Ok(Some(id.clone()));
            }
            match store.plan(id).await {
                Ok(Some(record)) if own(&record.execution) => return Ok(Some(id.clone())),
                Ok(_) => {}
                // It is there and cannot be read. What it was is told without it.
                Err(error) if error.class == ErrorClass::Internal => {
                    tracing::error!(plan = id.0, error = chain(&error), "the plan is unreadable");
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }
}

/// Ends an execution: writes its audit record, closes what it has open, releases its group, and tells the people.
///
/// However often and by however many it is ended, there is one record, it is what every one of them gets, and people
/// are told by the one that wrote it.
///
/// # Errors
/// The table failed. A dead Slack is logged and does not fail it.
pub async fn end<B>(ctx: &Context<B>, own: &Own<'_>, error: Option<&str>) -> Result<Audit, Error> {
    let plans = own.plans();
    let plan = own.plan(&ctx.store, &plans).await?;
    let audit = conclusion(ctx, own.execution, plan.as_ref(), error).await?;
    close(ctx, audit, Reporter::Itself(&plans)).await
}

/// Ends an execution whose input asks for nothing that can be done.
///
/// # Errors
/// The table failed. A dead Slack is logged and does not fail it.
pub async fn end_invalid<B>(
    ctx: &Context<B>,
    execution: &ExecutionArn,
    refusal: Refusal,
) -> Result<Audit, Error> {
    let on_record = Seen::default();
    let conclusion = conclude_invalid(refusal);
    let audit = audit(ctx.now(), execution, None, on_record, conclusion);
    close(ctx, audit, Reporter::Itself(&[])).await
}

async fn close<B>(ctx: &Context<B>, audit: Audit, by: Reporter<'_>) -> Result<Audit, Error> {
    match ctx.store.close(&audit, by).await? {
        Closed::Now => {
            notify(ctx, &audit).await;
            Ok(audit)
        }
        Closed::Already => written(&ctx.store, &audit.execution).await,
    }
}

/// Tells the people what an execution came to, unless its asker is answered: dry runs and refusals that were asked for
/// over HTTP are read there, and would use up what Slack takes. Whatever a person was asked to decide, or may have moved a
/// group, is told.
async fn notify<B>(ctx: &Context<B>, audit: &Audit) {
    let execution = &audit.execution.0;
    let nobody_was_asked = audit.digest.is_none() && audit.cluster_id.is_none();
    if nobody_was_asked {
        match ctx.store.asked_over_http(audit.execution.name()).await {
            Ok(true) => {
                tracing::info!(execution, "its asker is answered over HTTP");
                return;
            }
            Ok(false) => {}
            // Told once too often is better than never.
            Err(error) => {
                tracing::warn!(
                    execution,
                    error = chain(&error),
                    "who is answered is not known"
                );
            }
        }
    }
    if let Err(error) = ctx.notifier.report_result(audit).await {
        tracing::error!(
            execution,
            error = chain(&error),
            "the result could not be told"
        );
    }
}

/// The audit record of an execution that has one.
async fn written(store: &Store, execution: &ExecutionArn) -> Result<Audit, Error> {
    let audit = store.audit_of(execution).await?;
    audit.ok_or_else(|| Error::Broken("an audit record that was there is gone".to_owned()))
}

/// All that is on record of an execution.
#[derive(Default)]
struct Seen {
    record: Option<PlanRecord>,
    /// Whether another plan is on record than was put to the approver. Then it is not `record`.
    replaced: bool,
    recovery: Option<Recovery>,
    approval: Option<Approval>,
    pre_image: Option<PreImage>,
    outcomes: BTreeMap<TopicPartition, PartitionOutcome>,
}

/// What is to be said of an execution, from all that is on record.
async fn conclusion<B>(
    ctx: &Context<B>,
    execution: &ExecutionArn,
    plan_id: Option<&PlanId>,
    error: Option<&str>,
) -> Result<Audit, Error> {
    let seen = match plan_id {
        Some(id) => look(ctx, execution, id).await?,
        None => Seen::default(),
    };
    let conclusion = conclude(OnRecord {
        plan: seen.record.as_ref(),
        replaced: seen.replaced,
        approval: seen.approval.as_ref(),
        recovery: seen.recovery.as_ref(),
        may_have_sent: seen.pre_image.is_some(),
        error,
    });
    Ok(audit(ctx.now(), execution, plan_id, seen, conclusion))
}

/// Ends what is still open for the execution, and reads what there is then.
async fn look<B>(ctx: &Context<B>, execution: &ExecutionArn, id: &PlanId) -> Result<Seen, Error> {
    let store = &ctx.store;
    let record = match store.plan(id).await {
        Ok(record) => record,
        // What cannot be read will not be read by a retry either, and the group must be let go all the same.
        Err(error) if error.class == ErrorClass::Internal => {
            tracing::error!(plan = id.0, error = chain(&error), "the plan is unreadable");
            None
        }
        Err(error) => return Err(error.into()),
    };
    let recovery = store.recovery(id).await?;
    // A plan that another execution holds is not this one's to report on.
    let recovery = match recovery.filter(|recovery| recovery.execution == *execution) {
        // Verify has not raised the fence. A step that outlives its execution must not send anything once it is said
        // here that nothing was sent.
        Some(recovery) if recovery.fence == 0 && recovery.closed_at.is_none() => {
            store.raise_fence(id, execution).await?
        }
        recovery => recovery,
    };
    if recovery.is_none() {
        return Ok(Seen {
            record,
            ..Seen::default()
        });
    }
    let approval = end_approval(ctx, id).await?;
    let other = |record: &PlanRecord| approval.as_ref().is_some_and(|a| is_replaced(record, a));
    let replaced = record.as_ref().is_some_and(other);
    if replaced {
        tracing::error!(
            plan = id.0,
            "the stored plan is not the one that approval was asked for"
        );
    }
    Ok(Seen {
        record: record.filter(|_| !replaced),
        replaced,
        recovery,
        approval,
        pre_image: store.pre_image(id).await?,
        outcomes: store.result(id).await?.unwrap_or_default(),
    })
}

fn audit(
    at: Timestamp,
    execution: &ExecutionArn,
    plan_id: Option<&PlanId>,
    seen: Seen,
    conclusion: Conclusion,
) -> Audit {
    let Seen {
        record,
        replaced,
        recovery,
        approval,
        pre_image,
        outcomes,
    } = seen;
    let plan = match record.as_ref().map(|record| &record.result) {
        Some(PlanResult::Ready(plan)) => Some(plan),
        Some(PlanResult::NothingToDo(_) | PlanResult::Refused(_)) | None => None,
    };
    let moves = plan.map_or(&[][..], |plan| &plan.moves[..]);
    let partitions = moves.iter().map(|m| AuditPartition {
        partition: m.partition.clone(),
        from: m.from.as_ref().map(recorded),
        to: match &pre_image {
            Some(image) => image.sent(m).as_ref().as_ref().map(recorded),
            None => m.to.as_ref().map(recorded),
        },
        before: pre_image
            .as_ref()
            .and_then(|image| image.before.get(&m.partition)?.as_ref())
            .map(recorded),
        outcome: outcomes.get(&m.partition).cloned(),
    });
    let Conclusion {
        code,
        message,
        refusals,
    } = conclusion;
    Audit {
        at,
        plan: plan_id.cloned(),
        execution: execution.clone(),
        cluster_id: recovery.as_ref().map(|r| r.cluster_id.clone()),
        // Whoever may put a plan over another one may not write what holds the group.
        group: recovery
            .as_ref()
            .map(|r| r.group.clone())
            .or_else(|| record.as_ref().map(|r| r.group.clone())),
        status: code.status(),
        code: code.code().to_owned(),
        message,
        requested_by: said(&record, plan, |r| &r.requested_by, |p| &p.requested_by),
        requester: plan.map_or(Requester::Unverified, |plan| plan.requester.clone()),
        from_dry_run: approval.as_ref().is_some_and(|a| a.from_dry_run),
        reason: said(&record, plan, |r| &r.reason, |p| &p.reason),
        decided_by: approval.as_ref().and_then(|a| a.decided_by.clone()),
        decider: approval.as_ref().and_then(|a| a.decider.clone()),
        decided_at: approval.as_ref().and_then(|a| a.decided_at),
        digest: approval.map(|a| a.digest),
        refusals,
        outcome: match recovery.and_then(|r| r.outcome) {
            // Verify judged by another plan than was sent.
            Some(_) if replaced && pre_image.is_some() => Some(Outcome::Unknown),
            outcome => outcome,
        },
        partitions: partitions.collect(),
    }
}

/// A text of a request: as the plan has it, whose digest covers it, or else as the record of a refusal has it.
fn said(
    record: &Option<PlanRecord>,
    plan: Option<&Plan>,
    of_record: impl Fn(&PlanRecord) -> &String,
    of_plan: impl Fn(&Plan) -> &String,
) -> String {
    let written = plan.map(of_plan).or(record.as_ref().map(of_record));
    written.cloned().unwrap_or_default()
}

/// An execution that is over waits for nobody: a link that is still open must not be decided any more.
async fn end_approval<B>(ctx: &Context<B>, plan: &PlanId) -> Result<Option<Approval>, Error> {
    let Some((link, approval)) = ctx.store.approval_of(plan).await? else {
        return Ok(None);
    };
    if approval.stands() != ApprovalStatus::Pending {
        return Ok(Some(approval));
    }
    let lapse = match approval.standing(ctx.now()) {
        Standing::Closed(ApprovalStatus::Expired) => Lapse::Expired,
        Standing::Open | Standing::Closed(_) => Lapse::Superseded,
    };
    Ok(Some(ctx.store.close_approval(&link, lapse).await?))
}
