//! Ends the recovery of an execution that is over without a report, by another execution.
//!
//! Who may start an execution may write any input, so a reconcile is a claim like any other. It is believed after both
//! who can know were asked: the table, whose recovery it is, and Step Functions, whether that one is over.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;

use super::context::Context;
use crate::domain::ids::ExecutionArn;
use crate::domain::recovery::Recovery;
use crate::domain::refusal::Refusal;
use crate::domain::text::time;
use crate::error::Error;
use crate::ports::ExecutionStatus;
use crate::wire::{LONGEST_TEXT, Reconcile};

/// For how long after a recovery was opened an execution that Step Functions does not know proves nothing:
/// DescribeExecution is eventually consistent, and may not know yet what runs.
const UNKNOWN_PROVES_NOTHING: SignedDuration = SignedDuration::from_mins(2);

/// Whether an execution that opened a recovery can still do anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It runs, or waits to be redriven.
    Runs,
    /// It is over, or so long gone that Step Functions has forgotten it.
    Over {
        /// When it ended, where that is known.
        since: Option<Timestamp>,
    },
    /// Nobody can say.
    Unproven,
}

/// Asks Step Functions whether the execution that opened a recovery at `opened_at` is over.
///
/// # Errors
/// Step Functions failed.
pub async fn standing<B>(
    ctx: &Context<B>,
    owner: &ExecutionArn,
    opened_at: Timestamp,
) -> Result<Standing, Error> {
    let found = ctx.executions.describe(owner).await?;
    let found = found.map(|found| (found.status, found.stopped_at));
    Ok(judge(found, ctx.now().duration_since(opened_at)))
}

/// The rule for what Step Functions knows: a status, and when it was reached. `age` is how long ago the recovery was
/// opened.
fn judge(found: Option<(ExecutionStatus, Option<Timestamp>)>, age: SignedDuration) -> Standing {
    match found {
        Some((ExecutionStatus::Running, _)) => Standing::Runs,
        Some((
            ExecutionStatus::Succeeded
            | ExecutionStatus::Failed
            | ExecutionStatus::TimedOut
            | ExecutionStatus::Aborted,
            since,
        )) => Standing::Over { since },
        // A status that is new to this client may be one of an execution that goes on.
        Some((ExecutionStatus::Unknown, _)) => Standing::Unproven,
        None if age < UNKNOWN_PROVES_NOTHING => Standing::Unproven,
        None => Standing::Over { since: None },
    }
}

/// What a reconcile comes to.
#[derive(Debug)]
pub enum Examined {
    /// The recovery's own execution is over, and nobody else ends it.
    Founded(Recovery),
    /// This very execution has ended the recovery already.
    Done(Recovery),
    /// It cannot be believed.
    Unfounded(Refusal),
}

/// Sees whether `execution` may end the recovery that its input names.
///
/// # Errors
/// The table or Step Functions failed.
pub async fn examine<B>(
    ctx: &Context<B>,
    execution: &ExecutionArn,
    written: &Value,
) -> Result<Examined, Error> {
    let no = |problem: String| Ok(Examined::Unfounded(unfounded(problem)));
    let named: Result<Reconcile, _> = serde_json::from_value(written.clone());
    let Ok(Reconcile {
        plan_id,
        execution: owner,
    }) = named
    else {
        return no("write {\"plan_id\": ..., \"execution\": ...}, as the sweep does".to_owned());
    };
    // The plan's id is part of a key, which has room for so much.
    if plan_id.0.len() > LONGEST_TEXT {
        return no("there is no plan of such a long id".to_owned());
    }
    let Some(recovery) = ctx.store.recovery(&plan_id).await? else {
        return no(format!(
            "plan {plan_id} has no recovery, so there is none to end"
        ));
    };
    if recovery.execution != owner {
        return no(format!(
            "the recovery of plan {plan_id} belongs to another execution"
        ));
    }
    if let Some(at) = recovery.closed_at {
        return if recovery.reconciled_by.as_ref() == Some(execution) {
            Ok(Examined::Done(recovery))
        } else {
            no(format!(
                "the recovery of plan {plan_id} was reported on at {}",
                time(at)
            ))
        };
    }
    match standing(ctx, &owner, recovery.opened_at).await? {
        Standing::Over { .. } => {}
        Standing::Runs => {
            return no(format!(
                "the execution of plan {plan_id} runs, and reports by itself; stop it first if it is to end"
            ));
        }
        Standing::Unproven => {
            return no(format!(
                "it is not proven that the execution of plan {plan_id} is over; the sweep asks again"
            ));
        }
    }
    match &recovery.reconciled_by {
        Some(other) if other != execution && !is_over(ctx, other).await? => no(format!(
            "another execution ends the recovery of plan {plan_id}"
        )),
        Some(_) | None => Ok(Examined::Founded(recovery)),
    }
}

/// Whether an execution that ends another one's recovery is known to be over.
///
/// # Errors
/// Step Functions failed.
pub async fn is_over<B>(ctx: &Context<B>, execution: &ExecutionArn) -> Result<bool, Error> {
    let found = ctx.executions.describe(execution).await?;
    // It noted itself in the table a moment ago at most, so here an unknown one is never an old one.
    let found = found.map(|found| (found.status, found.stopped_at));
    let standing = judge(found, SignedDuration::ZERO);
    Ok(matches!(standing, Standing::Over { .. }))
}

/// The refusal of an input that names a recovery which this execution may not end.
#[must_use]
pub fn unfounded(problem: String) -> Refusal {
    Refusal::InvalidRequest {
        field: "reconcile".to_owned(),
        problem,
    }
}

/// The answer of the step; the report finds out for itself what else there is to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Confirmed {
    /// Whether the execution may end the recovery.
    pub confirmed: bool,
}

/// Notes in the table that `execution` may end the recovery that its input names, if it may. Verify and Report go by
/// that note, and not by the input.
///
/// # Errors
/// The table or Step Functions failed.
pub async fn confirm_reconcile<B>(
    ctx: &Context<B>,
    execution: &ExecutionArn,
    written: &Value,
) -> Result<Confirmed, Error> {
    let confirmed = match examine(ctx, execution, written).await? {
        Examined::Founded(recovery) => {
            let before = recovery.reconciled_by.as_ref();
            ctx.store
                .note_reconcile(&recovery.plan, &recovery.execution, execution, before)
                .await?
        }
        // Nothing is left to be proven of it; the report says what was said.
        Examined::Done(_) => false,
        Examined::Unfounded(refusal) => {
            tracing::warn!(execution = execution.0, %refusal, "a reconcile is not believed");
            false
        }
    };
    Ok(Confirmed { confirmed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_is_over_when_step_functions_says_so_or_has_long_forgotten_it() {
        let (young, old) = (
            UNKNOWN_PROVES_NOTHING - SignedDuration::from_millis(1),
            UNKNOWN_PROVES_NOTHING,
        );
        let over = Standing::Over { since: None };
        for (status, early, late) in [
            (
                Some(ExecutionStatus::Running),
                Standing::Runs,
                Standing::Runs,
            ),
            (Some(ExecutionStatus::Succeeded), over, over),
            (Some(ExecutionStatus::Failed), over, over),
            (Some(ExecutionStatus::TimedOut), over, over),
            (Some(ExecutionStatus::Aborted), over, over),
            (
                Some(ExecutionStatus::Unknown),
                Standing::Unproven,
                Standing::Unproven,
            ),
            (None, Standing::Unproven, over),
        ] {
            let found = status.map(|status| (status, None));
            assert_eq!(
                (judge(found, young), judge(found, old)),
                (early, late),
                "{status:?}"
            );
        }
    }
}
