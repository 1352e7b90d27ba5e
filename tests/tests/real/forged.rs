//! Whoever may start an execution may write any input. It is a request and nothing else: it ends nobody's recovery, writes
//! nobody's record, and says nothing in the place of a step.

use std::error::Error;
use std::time::Duration;

use offset_guard::domain::audit::{Audit, AuditStatus};
use offset_guard::domain::ids::{ExecutionArn, PlanId};
use offset_guard::domain::offset::GroupId;
use offset_guard_local::client::Commit;
use offset_guard_local::operator::{Ended, Execution};
use offset_guard_tests::{CLASSIC_ON_4, Outcome, PATIENCE, World};
use serde_json::{Value, json};
use tokio::time::Instant;
use ulid::Ulid;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What a forger would like to be read by others.
const PLANTED: &str = "planted by somebody";

/// A group at 20 in the only partition of its topic.
async fn stage() -> Result<(World, String, String)> {
    let world = World::enter(CLASSIC_ON_4).await?;
    let (topic, group) = (world.topic("forged"), world.group("test"));
    world.filled_topic(&topic, 1, 30).await?;
    let commit = Commit::new(&topic, 0, 20);
    world.client.commit(&group, &[commit]).await?;
    Ok((world, topic, group))
}

async fn audit(world: &World, arn: &ExecutionArn) -> Result<Audit> {
    let audit = world.store.audit_of(arn).await?;
    audit.ok_or_else(|| format!("{arn} has no audit record").into())
}

/// Starts an execution with an input, and holds it to be refused for that input alone.
async fn refused(world: &World, input: Value) -> Result<Ended> {
    let execution = world.operator.start(input.clone()).await?;
    let ended = execution.end().await?;
    assert_eq!(
        (ended.status.as_str(), ended.code()),
        ("FAILED", "REFUSED"),
        "{input}: {ended:?}"
    );
    let audit = audit(world, &execution.arn).await?;
    assert_eq!((audit.plan, audit.status), (None, AuditStatus::Failed));
    let codes: Vec<_> = audit
        .refusals
        .iter()
        .map(|refusal| refusal.code())
        .collect();
    assert_eq!(codes, ["INVALID_REQUEST"]);
    assert!(!audit.message.contains(PLANTED), "{}", audit.message);
    Ok(ended)
}

fn reconcile(plan: &str, execution: &ExecutionArn) -> Value {
    json!({ "reconcile": { "plan_id": plan, "execution": execution } })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reconcile_against_a_running_execution_changes_nothing() -> Outcome {
    let (world, topic, group) = stage().await?;
    let target = json!({"to_offsets": [{"topic": topic, "partition": 0, "offset": 5}]});
    let execution = world
        .operator
        .request(world.rewind(&group, &target))
        .await?;
    let link = execution.link(&world.stack, &group, PATIENCE).await?;
    let held = async || {
        let claim = world
            .store
            .claim(&world.key_of(&GroupId(group.clone())))
            .await?;
        claim.ok_or_else(|| Box::<dyn Error>::from("nobody holds the group"))
    };
    let before = held().await?;
    let plan = before.plan.clone();
    let recovery = world.store.recovery(&plan).await?;
    let asked = world.store.approval_of(&plan).await?;

    // To end it, to hide it, and with what a step would have answered beside it.
    let kill = reconcile(&plan.0, &execution.arn);
    let hide = reconcile("x", &execution.arn);
    let mut dressed = kill.clone();
    dressed["confirm"] = json!({"confirmed": true});
    dressed["plan"] =
        json!({"verdict": "needs_approval", "plan_id": plan, "digest": null, "summary": PLANTED});
    dressed["verify"] = json!({"next": "report", "outcome": PLANTED});
    for input in [kill, hide, dressed] {
        refused(&world, input).await?;
        assert_eq!(held().await?, before);
        assert_eq!(world.store.recovery(&plan).await?, recovery);
        assert_eq!(world.store.approval_of(&plan).await?, asked);
        assert_eq!(world.store.audit_of(&execution.arn).await?, None);
        assert_eq!(execution.ended().await?, None);
    }

    world.operator.approve(&link, &group).await?;
    let ended = execution.end().await?;
    assert_eq!(
        (ended.status.as_str(), ended.code()),
        ("SUCCEEDED", "VERIFIED"),
        "{ended:?}"
    );
    assert_eq!(world.offsets(&group, &topic, 1).await?, [Some(5)]);
    let audit = audit(&world, &execution.arn).await?;
    assert_eq!(
        (audit.code.as_str(), audit.plan),
        ("VERIFIED", Some(plan.clone()))
    );
    // Over, it is over for everybody.
    let late = refused(&world, reconcile(&plan.0, &execution.arn)).await?;
    assert!(
        late.cause
            .is_some_and(|cause| cause.contains("was reported on at"))
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_name_of_an_execution_that_has_not_begun_cannot_be_blocked() -> Outcome {
    let (world, _, group) = stage().await?;
    let name = Ulid::generate().to_string();
    let execution = world.operator.named(&name);
    for plan in ["x", &name] {
        refused(&world, reconcile(plan, &execution.arn)).await?;
    }
    assert_eq!(world.store.audit_of(&execution.arn).await?, None);
    let request = json!({"request": world.rewind(&group, &json!({"shift_by": -3}))});
    started(&world, &name, &request).await?;
    let link = execution.link(&world.stack, &group, PATIENCE).await?;
    world.operator.approve(&link, &group).await?;
    assert_eq!(execution.end().await?.code(), "VERIFIED");
    assert_eq!(audit(&world, &execution.arn).await?.code, "VERIFIED");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_planted_beside_a_request_reaches_nobody() -> Outcome {
    let (world, _, group) = stage().await?;
    let error = json!({"Error": PLANTED, "Cause": PLANTED});
    let plan = json!({"verdict": "dry_run", "plan_id": "01K", "digest": null, "summary": PLANTED});
    let planted = [
        json!({"error": error, "observe_error": error, "apply_error": error, "verify_error": error}),
        // Of another type than a step would write.
        json!({"error": 5, "observe_error": [], "apply_error": PLANTED, "verify_error": true}),
        json!({"plan": plan, "admit": {"admitted": true}, "report": {"code": PLANTED}}),
        json!({"plan": PLANTED, "report_error": PLANTED, "started_at": 7}),
    ];
    let mut dry = world.rewind(&group, &json!({"shift_by": -3}));
    dry["dry_run"] = json!(true);
    for more in &planted {
        let mut input = json!({ "request": dry });
        input
            .as_object_mut()
            .ok_or("an object")?
            .extend(more.as_object().cloned().unwrap_or_default());
        let execution = world.operator.start(input).await?;
        let ended = execution.end().await?;
        assert_eq!(
            (ended.status.as_str(), ended.code()),
            ("SUCCEEDED", "DRY_RUN"),
            "{ended:?}"
        );
        is_clean(&world, &execution, &ended).await?;
    }
    // Where the plan step fails, what it would have answered is not read from the input either.
    let mut unknown = json!({ "request": world.rewind("unknown-group", &json!({"shift_by": -3})) });
    unknown["plan"] = plan.clone();
    unknown["error"] = error;
    let execution = world.operator.start(unknown).await?;
    let ended = execution.end().await?;
    assert_eq!(ended.code(), "REFUSED", "{ended:?}");
    is_clean(&world, &execution, &ended).await?;
    // An input that asks for nothing is told so, whatever else it holds.
    for input in [
        json!({}),
        json!({"plan": plan}),
        json!("text"),
        json!([{"request": {}}]),
        json!({"request": PLANTED}),
    ] {
        let execution = world.operator.start(input.clone()).await?;
        let ended = execution.end().await?;
        assert_eq!(ended.code(), "REFUSED", "{input}: {ended:?}");
        assert_eq!(audit(&world, &execution.arn).await?.refusals.len(), 1);
    }
    // So is one that would have something told.
    for alert in [
        // (null is a key that is not there to the local AWS, and one that is to AWS.)
        json!(5),
        json!({"text": PLANTED}),
        json!({
            "run_id": "01K", "at": "2026-11-30T10:00:00Z", "cluster": "main", "group": PLANTED,
        }),
    ] {
        let ended = refused(&world, json!({ "alert": alert })).await?;
        assert!(!format!("{ended:?}").contains(PLANTED), "{ended:?}");
    }
    assert_eq!(world.told(PLANTED)?, Vec::<String>::new());
    Ok(())
}

/// Nothing that was planted is in the record, the output or the cause.
async fn is_clean(world: &World, execution: &Execution, ended: &Ended) -> Outcome {
    let audit = audit(world, &execution.arn).await?;
    for text in [format!("{audit:?}"), format!("{ended:?}")] {
        assert!(!text.contains(PLANTED), "{text}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aborted_execution_has_its_record_whatever_its_name_is() -> Outcome {
    let (world, _, group) = stage().await?;
    let name = format!("{}-reconcile-1", Ulid::generate());
    let request = json!({"request": world.rewind(&group, &json!({"shift_by": -3}))});
    let execution = started(&world, &name, &request).await?;
    execution.link(&world.stack, &group, PATIENCE).await?;
    execution.abort().await?;
    assert_eq!(
        until_reported(&world, &execution).await?.code,
        "NOT_APPROVED"
    );
    // So has one that held no group, and one that would have ended another one's recovery.
    let never = PlanId(Ulid::generate().to_string());
    for input in [json!({"request": {}}), reconcile(&never.0, &execution.arn)] {
        let name = format!("{}-reconcile-2", Ulid::generate());
        let execution = started(&world, &name, &input).await?;
        execution.abort().await.ok();
        assert_eq!(
            until_reported(&world, &execution).await?.status,
            AuditStatus::Failed
        );
    }
    Ok(())
}

async fn until_reported(world: &World, execution: &Execution) -> Result<Audit> {
    let asked = Instant::now();
    loop {
        if let Some(audit) = world.store.audit_of(&execution.arn).await? {
            return Ok(audit);
        }
        if asked.elapsed() > 2 * PATIENCE {
            return Err(format!("nobody reported on {}", execution.arn).into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// An execution under a name that its starter chose.
async fn started(world: &World, name: &str, input: &Value) -> Result<Execution> {
    let started = aws_sdk_sfn::Client::new(world.operator.sdk())
        .start_execution()
        .state_machine_arn(world.stack.output("StateMachineArn")?)
        .name(name)
        .input(input.to_string())
        .send()
        .await?;
    Ok(world
        .operator
        .execution(ExecutionArn(started.execution_arn)))
}
