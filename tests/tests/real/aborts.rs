//! Executions that are stopped from outside, at every state, and what the sweep makes of them.
//!
//! A step that a test needs to last is frozen with its process, on a stack that only these tests share, one after the
//! other. Thawed, it goes on although its execution is gone, as a function in AWS would.

mod case;
mod sweep;

use std::sync::Arc;

use self::case::{Case, Result};
use offset_guard::app::approval::{self, Asking};
use offset_guard::app::context::Context;
use offset_guard::app::plan;
use offset_guard::domain::approval::ApprovalStatus;
use offset_guard::domain::recovery::Outcome as Came;
use offset_guard::error::Error as AppError;
use offset_guard::kafka::GroupReader;
use offset_guard::slack::Slack;
use offset_guard::store::TaskToken;
use offset_guard::wire::PlanStep;
use offset_guard_local::operator::{Execution, Function, form_token};
use offset_guard_tests::Outcome;
use reqwest::Url;
use serde_json::json;

use crate::history::until_entered;
use crate::processes::Frozen;

#[tokio::test(flavor = "multi_thread")]
async fn stopped_while_it_plans() -> Outcome {
    let case = Case::new().await?;
    let frozen = case.freeze(Function::Rewind).await?;
    let execution = case.start().await?;
    case.stop_in(&execution, "Plan", Some(&frozen)).await?;
    let audit = case.ended(&execution, "NOT_PLANNED").await?;
    assert!(
        audit.message.contains("No offset was changed"),
        "{}",
        audit.message
    );
    drop(frozen);

    // The step that outlived it claims nothing any more.
    let (config, settings) = (case.world.config()?, case.world.settings());
    let found = case
        .context()?
        .executions
        .describe(&execution.arn)
        .await?
        .ok_or("no execution")?;
    let input = json!({"request": case.world.rewind(&case.group, &case.target)});
    let read = async |_: &str| Ok(GroupReader::connect(settings.clone())?);
    let step = plan::PlanTask {
        execution: &execution.arn,
        started_at: found.started_at,
        input: &input,
    };
    let late = plan::run(&config, &case.world.store, &step, read).await;
    assert!(matches!(late, Err(AppError::Store(_))), "{late:?}");
    case.nothing_is_open(&execution).await?;
    case.told_once(&execution, "NOT_PLANNED").await?;
    case.may_be_asked_again().await
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_while_its_rights_are_asked() -> Outcome {
    let case = Case::new().await?;
    let frozen = case.freeze(Function::RewindApply).await?;
    let execution = case.start().await?;
    case.stop_in(&execution, "CheckRights", Some(&frozen))
        .await?;
    let audit = case.ended(&execution, "NOT_APPROVED").await?;
    assert_eq!(audit.outcome, Some(Came::NotApplied));
    drop(frozen);
    let plan = case.plan_of(&execution).await?;
    assert_eq!(case.world.store.approval_of(&plan).await?, None);
    assert_eq!(case.offset().await?, Some(20));
    case.told_once(&execution, "NOT_APPROVED").await?;
    case.may_be_asked_again().await
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_before_anybody_is_asked() -> Outcome {
    let case = Case::new().await?;
    let frozen = case.freeze(Function::ApprovalTask).await?;
    let execution = case.start().await?;
    case.stop_in(&execution, "RequestApproval", Some(&frozen))
        .await?;
    let audit = case.ended(&execution, "NOT_APPROVED").await?;
    assert_eq!(audit.outcome, Some(Came::NotApplied));
    drop(frozen);

    // The step that outlived it asks nobody.
    let plan = case.plan_of(&execution).await?;
    let url = Url::parse("http://127.0.0.1/")?;
    let token = TaskToken::new("of nothing that waits".to_owned());
    let asking = Asking {
        public_url: &url,
        swept: true,
    };
    let slack = Slack::new(Ok(Url::parse(case.world.stack.slack().url())?));
    let ctx = Context {
        notifier: Arc::new(slack),
        ..case.context()?
    };
    approval::request_approval(&ctx, asking, &execution.arn, &plan, &token).await?;
    assert_eq!(case.world.store.approval_of(&plan).await?, None);
    case.told_once(&execution, "NOT_APPROVED").await?;
    assert_eq!(case.world.told(&case.group)?.len(), 1);
    case.may_be_asked_again().await
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_while_a_person_is_asked() -> Outcome {
    let case = Case::new().await?;
    let (execution, link) = case.asked().await?;
    let (_, page) = case.world.operator.get(&link).await?;
    let token = form_token(&page, "approve").ok_or("there is no form")?;
    case.stop_in(&execution, "RequestApproval", None).await?;
    case.ended(&execution, "NOT_APPROVED").await?;
    // The link is worth nothing any more.
    let plan = case.plan_of(&execution).await?;
    let form = [
        ("decision", "approve"),
        ("token", &token),
        ("group", &case.group),
    ];
    let (status, _) = case.world.operator.post(&link, &form, true).await?;
    assert!((400..500).contains(&status), "{status}");
    let stands = case.world.store.approval_of(&plan).await?;
    assert_eq!(
        stands.map(|(_, approval)| approval.status),
        Some(ApprovalStatus::Superseded)
    );
    assert_eq!(case.offset().await?, Some(20));
    case.told_once(&execution, "NOT_APPROVED").await?;
    case.may_be_asked_again().await
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_while_it_is_admitted() -> Outcome {
    let case = Case::new().await?;
    let (execution, link) = case.asked().await?;
    let frozen = case.freeze(Function::ApprovalTask).await?;
    case.approve(&link).await?;
    case.stop_in(&execution, "Admit", Some(&frozen)).await?;
    let audit = case.ended(&execution, "APPROVED_NOT_APPLIED").await?;
    assert_eq!(audit.outcome, Some(Came::NotApplied));
    assert!(audit.decided_by.is_some() && audit.decided_at.is_some());
    drop(frozen);

    // Admitted late, it gets nothing.
    let plan = case.plan_of(&execution).await?;
    let step = PlanStep {
        execution: execution.arn.clone(),
        plan_id: plan,
    };
    let late = approval::admit_plan(&case.context()?, &step).await;
    assert!(!late.is_ok_and(|late| late.admitted));
    case.nothing_is_open(&execution).await?;
    assert_eq!(case.offset().await?, Some(20));
    case.told_once(&execution, "APPROVED_NOT_APPLIED").await?;
    case.may_be_asked_again().await
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_while_it_looks() -> Outcome {
    let case = Case::new().await?;
    let (execution, link) = case.asked().await?;
    let frozen = case.freeze(Function::Rewind).await?;
    case.approve(&link).await?;
    case.stop_in(&execution, "Observe", Some(&frozen)).await?;
    case.ended(&execution, "APPROVED_NOT_APPLIED").await?;
    drop(frozen);
    assert_eq!(case.offset().await?, Some(20));
    case.told_once(&execution, "APPROVED_NOT_APPLIED").await?;
    case.may_be_asked_again().await
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_while_it_waits_for_consumers() -> Outcome {
    let case = Case::of("waiting").await?;
    let member = case.world.member(&case.group, &case.topic, 1).await?;
    let (execution, link) = case.asked().await?;
    case.approve(&link).await?;
    case.stop_in(&execution, "WaitUntilEmpty", None).await?;
    case.ended(&execution, "APPROVED_NOT_APPLIED").await?;
    assert_eq!(case.offset().await?, Some(20));
    case.told_once(&execution, "APPROVED_NOT_APPLIED").await?;
    case.may_be_asked_again().await?;
    member.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_before_it_applies() -> Outcome {
    let case = Case::new().await?;
    let (execution, link) = case.asked().await?;
    let frozen = case.freeze(Function::RewindApply).await?;
    case.approve(&link).await?;
    case.stop_in(&execution, "Apply", Some(&frozen)).await?;
    let audit = case.ended(&execution, "APPROVED_NOT_APPLIED").await?;
    assert_eq!(audit.outcome, Some(Came::NotApplied));
    drop(frozen);

    // Nor does a late Apply send anything.
    let plan = case.plan_of(&execution).await?;
    let late = case.apply(&execution, &plan).await;
    assert!(!late.is_ok_and(|applied| applied.requests > 0));
    assert_eq!(case.world.store.pre_image(&plan).await?, None);
    assert_eq!(case.offset().await?, Some(20));
    case.told_once(&execution, "APPROVED_NOT_APPLIED").await?;
    case.may_be_asked_again().await
}

/// Until the offsets are changed and `state`, which the frozen `function` runs, is entered.
async fn applied_until(
    case: &Case,
    function: Function,
    state: &str,
) -> Result<(Execution, Frozen)> {
    let (execution, link) = case.asked().await?;
    let applying = case.freeze(Function::RewindApply).await?;
    case.approve(&link).await?;
    applying.until_invoked().await?;
    let frozen = case.freeze(function).await?;
    drop(applying);
    until_entered(&case.world, &execution, state, 1).await?;
    Ok((execution, frozen))
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_before_it_verifies() -> Outcome {
    let case = Case::new().await?;
    let (execution, frozen) = applied_until(&case, Function::Rewind, "Verify").await?;
    case.stop_in(&execution, "Verify", Some(&frozen)).await?;
    let audit = case.ended(&execution, "VERIFIED").await?;
    assert_eq!(audit.outcome, Some(Came::Verified));
    drop(frozen);
    assert_eq!(case.offset().await?, Some(5));
    case.told_once(&execution, "VERIFIED").await
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_before_it_reports() -> Outcome {
    let case = Case::new().await?;
    let (execution, frozen) = applied_until(&case, Function::ApprovalTask, "Report").await?;
    case.stop_in(&execution, "Report", Some(&frozen)).await?;
    let audit = case.ended(&execution, "VERIFIED").await?;
    drop(frozen);

    // A report that runs twice says the same, to everybody, once.
    let plan = case.plan_of(&execution).await?;
    let event = json!({"step": "report", "execution": execution.arn, "state": {
        "plan": {"verdict": "needs_approval", "plan_id": plan, "digest": null, "summary": ""},
        "verify_error": {"Error": "OffsetGuard.Transient", "Cause": "something else"},
    }});
    let (first, second) = tokio::join!(case.task(&event), case.task(&event));
    let said = json!({"status": "SUCCEEDED", "code": "VERIFIED", "message": audit.message});
    assert_eq!((first?, second?), (said.clone(), said));
    assert_eq!(
        case.world.store.audit_of(&execution.arn).await?,
        Some(audit)
    );
    assert_eq!(case.offset().await?, Some(5));
    case.told_once(&execution, "VERIFIED").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_that_was_not_reported_is_reported_as_one() -> Outcome {
    let case = Case::new().await?;
    let frozen = case.freeze(Function::ApprovalTask).await?;
    let request = case.world.rewind(
        &case.group,
        &json!({"rewind_before": "2020-01-01T00:00:00Z"}),
    );
    let execution = case.world.operator.request(request).await?;
    case.stop_in(&execution, "Report", Some(&frozen)).await?;
    let audit = case.ended(&execution, "REFUSED").await?;
    assert_eq!(audit.refusals.len(), 1);
    assert_eq!(audit.requested_by, "tests");
    drop(frozen);
    case.told_once(&execution, "REFUSED").await?;

    // An execution that ended by its own report leaves nothing to its sweep.
    let request = case.world.rewind(
        &case.group,
        &json!({"rewind_before": "2020-01-01T00:00:00Z"}),
    );
    let failed = case.world.operator.request(request).await?;
    assert_eq!(failed.end().await?.status, "FAILED");
    let nothing =
        json!({"delivered": 0, "expired": 0, "reconciling": 0, "stuck": 0, "superseded": 0});
    assert_eq!(case.sweep(Some(&failed.arn)).await?, nothing);
    case.told_once(&failed, "REFUSED").await?;
    case.may_be_asked_again().await
}
