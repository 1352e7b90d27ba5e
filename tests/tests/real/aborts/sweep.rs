//! What the sweep ends, delivers, and leaves alone.

use std::error::Error;
use std::time::{Duration, Instant};

use offset_guard::app::report::{self, Own};
use offset_guard::domain::approval::Decision;
use offset_guard::domain::ids::ExecutionArn;
use offset_guard::domain::recovery::Outcome as Came;
use offset_guard::wire::Asked;
use offset_guard_local::client::Commit;
use offset_guard_local::operator::{Execution, Function, form_token};
use offset_guard_tests::{Outcome, PATIENCE};
use serde_json::json;

use super::case::{APPLY_TIMEOUT, Case};
use crate::history::until_entered;
use crate::processes::{freeze_brokers, kill};

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_came_between_two_looks_of_the_sweep_is_released() -> Outcome {
    let case = Case::new().await?;
    let (execution, _) = case.asked().await?;
    let plan = case.plan_of(&execution).await?;
    // As if the plan step had claimed the group just when the sweep wrote that there was nothing.
    let blind = Own {
        execution: &execution.arn,
        started_at: None,
        planned: None,
        asked: Asked::Nothing,
    };
    report::end(&case.context()?, &blind, None).await?;
    execution.abort().await?;
    case.reconcile(&plan, 1).await?.end().await?;
    case.ended(&execution, "NOT_PLANNED").await?;
    case.may_be_asked_again().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_apply_that_is_killed_is_waited_for_and_told_as_it_was() -> Outcome {
    let case = Case::new().await?;
    let name = case.world.stack.output("RewindApplyFunction")?;
    let endpoint = case.world.stack.aws_endpoint();
    let url = format!("{endpoint}/2015-03-31/functions/{name}/configuration");
    let http = reqwest::Client::builder().no_proxy().build()?;
    let shorter = http.put(url).json(&json!({"Timeout": APPLY_TIMEOUT}));
    shorter.send().await?.error_for_status()?;

    // One is killed as soon as something may have been sent.
    let (raced, link) = case.asked().await?;
    let raced_plan = case.plan_of(&raced).await?;
    let applying = case.freeze(Function::RewindApply).await?;
    case.approve(&link).await?;
    applying.until_invoked().await?;
    drop(applying);
    while case.world.store.pre_image(&raced_plan).await?.is_none() {
        if raced.ended().await?.is_some() {
            return Err("it ended without a pre-image".into());
        }
    }
    kill(&case.world, "RewindApplyFunction")?;

    // One is killed while it reads, and goes on by itself; one more is stopped while it waits for its Apply to be over.
    let mut others = Vec::new();
    for n in 0..2 {
        let group = format!("{}-{n}", case.group);
        case.world
            .client
            .commit(&group, &[Commit::new(&case.topic, 0, 20)])
            .await?;
        let request = case.world.rewind(&group, &case.target);
        let execution = case.world.operator.request(request).await?;
        let link = execution.link(&case.world.stack, &group, PATIENCE).await?;
        others.push((group, execution, link));
    }
    let brokers = freeze_brokers(&case.world)?;
    for (group, execution, link) in &others {
        let plan = case.plan_of(execution).await?;
        case.world.operator.approve(link, group).await?;
        until_entered(&case.world, execution, "Apply", 1).await?;
        let begun = async || {
            let recovery = case.world.store.recovery(&plan).await?;
            Ok::<_, Box<dyn Error>>(recovery.is_some_and(|recovery| recovery.apply_until.is_some()))
        };
        while !begun().await? {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        kill(&case.world, "RewindApplyFunction")?;
        until_entered(&case.world, execution, "WaitForApply", 1).await?;
    }
    drop(brokers);
    let [(_, goes_on, _), (_, stopped, _)] = &others[..] else {
        return Err("there are two others".into());
    };
    stopped.abort().await?;

    for (execution, code) in [
        (goes_on, "APPROVED_NOT_APPLIED"),
        (stopped, "APPROVED_NOT_APPLIED"),
    ] {
        let audit = case.ended(execution, code).await?;
        assert_eq!(audit.outcome, Some(Came::NotApplied));
        case.told_once(execution, code).await?;
    }
    let ended = goes_on.end().await?;
    assert_eq!(
        (ended.status.as_str(), ended.code()),
        ("FAILED", "APPROVED_NOT_APPLIED")
    );
    for (group, ..) in &others {
        assert_eq!(case.world.offsets(group, &case.topic, 1).await?, [Some(20)]);
    }
    // Whenever the first was hit, what is said of it is true.
    let ended = raced.end().await?;
    let (code, offset) = match ended.code() {
        "VERIFIED" => ("VERIFIED", 5),
        _ => ("APPROVED_NOT_APPLIED", 20),
    };
    case.ended(&raced, code).await?;
    assert_eq!(case.offset().await?, Some(offset));
    case.told_once(&raced, code).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reconcile_that_is_stopped_itself_is_tried_again() -> Outcome {
    let case = Case::new().await?;
    let (execution, link) = case.asked().await?;
    let applying = case.freeze(Function::RewindApply).await?;
    case.approve(&link).await?;
    applying.until_invoked().await?;
    let plan = case.plan_of(&execution).await?;
    let verifying = case.freeze(Function::Rewind).await?;
    execution.abort().await?;
    let first = case.reconcile(&plan, 1).await?;
    verifying.until_invoked().await?;
    // While it runs nothing is started beside it.
    let nothing =
        json!({"delivered": 0, "expired": 0, "reconciling": 0, "stuck": 0, "superseded": 0});
    assert_eq!(case.sweep(Some(&execution.arn)).await?, nothing);
    first.abort().await?;
    assert_eq!(case.world.store.audit_of(&first.arn).await?, None);

    let again =
        json!({"delivered": 0, "expired": 0, "reconciling": 1, "stuck": 0, "superseded": 0});
    assert_eq!(case.sweep(None).await?, again);
    let second = case.reconcile(&plan, 2).await?;
    second.end().await?;
    case.ended(&execution, "APPROVED_NOT_APPLIED").await?;
    drop((applying, verifying));
    // Neither of the two has a report of its own, and nothing more is started.
    for reconcile in [&first, &second] {
        assert_eq!(case.sweep(Some(&reconcile.arn)).await?, nothing);
        assert_eq!(case.world.store.audit_of(&reconcile.arn).await?, None);
    }
    assert_eq!(case.sweep(None).await?, nothing);
    case.told_once(&execution, "APPROVED_NOT_APPLIED").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_that_was_not_delivered_is() -> Outcome {
    let case = Case::new().await?;
    let nothing =
        json!({"delivered": 0, "expired": 0, "reconciling": 0, "stuck": 0, "superseded": 0});
    // By the sweep.
    let (execution, _) = case.asked().await?;
    // Nobody has decided: the sweep leaves it alone, by its name too.
    assert_eq!(case.sweep(None).await?, nothing);
    assert_eq!(case.sweep(Some(&execution.arn)).await?, nothing);
    assert_eq!(execution.ended().await?, None);
    assert_eq!(case.world.store.audit_of(&execution.arn).await?, None);
    decide(&case, &execution, Decision::Approve).await?;
    let delivered =
        json!({"delivered": 1, "expired": 0, "reconciling": 0, "stuck": 0, "superseded": 0});
    assert_eq!(case.sweep(None).await?, delivered);
    let ended = execution.end().await?;
    assert_eq!(
        (ended.status.as_str(), ended.code()),
        ("SUCCEEDED", "VERIFIED")
    );
    assert_eq!(case.sweep(None).await?, nothing);

    // By the person who clicks again.
    let target = json!({"to_offsets": [{"topic": case.topic, "partition": 0, "offset": 2}]});
    let request = case.world.rewind(&case.group, &target);
    let execution = case.world.operator.request(request).await?;
    until_entered(&case.world, &execution, "RequestApproval", 1).await?;
    let links = || {
        let told = case.world.told(&case.group)?;
        let links = told
            .iter()
            .filter_map(|text| offset_guard_local::operator::link_in(text));
        Ok::<_, Box<dyn Error>>(links.map(str::to_owned).collect::<Vec<_>>())
    };
    let asked = Instant::now();
    while links()?.len() < 2 && asked.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let link = links()?.pop().ok_or("nobody was asked")?;
    let (_, page) = case.world.operator.get(&link).await?;
    let token = form_token(&page, "reject").ok_or("there is no form")?;
    decide(&case, &execution, Decision::Reject).await?;
    let form = [
        ("decision", "reject"),
        ("token", &token),
        ("group", &case.group),
    ];
    let (status, _) = case.world.operator.post(&link, &form, true).await?;
    assert!(status < 500, "{status}");
    let ended = execution.end().await?;
    assert_eq!(
        (ended.status.as_str(), ended.code()),
        ("SUCCEEDED", "REJECTED")
    );
    assert_eq!(case.offset().await?, Some(5));
    Ok(())
}

/// Stores a decision as the page does, and is killed before it is delivered.
async fn decide(case: &Case, execution: &Execution, decision: Decision) -> Outcome {
    let plan = case.plan_of(execution).await?;
    let store = &case.world.store;
    let (link, asked) = store.approval_of(&plan).await?.ok_or("nobody was asked")?;
    let now = jiff::Timestamp::now();
    store
        .decide(&link, &asked.digest, decision, "somebody", "", now)
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_that_runs_is_never_swept() -> Outcome {
    let case = Case::new().await?;
    let frozen = case.freeze(Function::Rewind).await?;
    // It plans, so it holds nothing yet.
    let execution = case.start().await?;
    frozen.until_invoked().await?;
    let swept = case.sweep(Some(&execution.arn)).await;
    assert!(swept.is_err_and(|error| error.to_string().contains("OffsetGuard.Transient")));
    assert_eq!(case.world.store.audit_of(&execution.arn).await?, None);
    // One that never was is not swept either.
    let nothing =
        json!({"delivered": 0, "expired": 0, "reconciling": 0, "stuck": 0, "superseded": 0});
    let never = ExecutionArn(format!("{}x", execution.arn));
    assert_eq!(case.sweep(Some(&never)).await?, nothing);
    assert_eq!(case.world.store.audit_of(&never).await?, None);
    drop(frozen);
    until_entered(&case.world, &execution, "RequestApproval", 1).await?;
    execution.abort().await?;
    case.ended(&execution, "NOT_APPROVED").await?;
    Ok(())
}
