//! Plans that were good when they were made, and approvals that come in vain.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use jiff::Timestamp;
use offset_guard::domain::approval::Decision;
use offset_guard::domain::ids::PlanId;
use offset_guard::domain::offset::GroupId;
use offset_guard::domain::plan::PlanResult;
use offset_guard::store::Decided;
use offset_guard_local::client::Commit;
use offset_guard_local::operator::Execution;
use offset_guard_tests::{Outcome, World, on_every_kafka, on_kafka_4};
use serde_json::{Value, json};

use super::{Scene, hash_of, sweep, targets, until};

on_every_kafka!(
    offsets_that_moved,
    commits_that_are_pending,
    a_log_start_that_rose_meanwhile,
);
on_kafka_4!(
    records_that_were_deleted_meanwhile,
    a_topic_that_was_created_again_meanwhile,
    a_decision_that_arrives_too_late,
    a_plan_that_nobody_decides_on,
    a_stored_plan_that_is_another_one,
    a_stored_plan_that_is_damaged,
    one_recovery_at_a_time,
);

fn earliest() -> Value {
    json!({"to_earliest": true})
}

async fn offsets_that_moved(world: &World) -> Outcome {
    let scene = Scene::read(world, "test", 2, 9).await?;
    let execution = scene.asked(&earliest()).await?;
    scene.link(&execution).await?;
    // A consumer that assigns itself is no member, and its commit all the same is one.
    let commit = Commit::new(scene.topic(), 1, 8);
    world.client.commit(&scene.group, &[commit]).await?;
    scene
        .approved_in_vain(
            &execution,
            &["PLAN_STALE"],
            &[
                &format!("{} was at 9 in the plan and is at 8", scene.partition(1)),
                "plan again",
            ],
        )
        .await?;
    scene.moves(&earliest()).await?;
    Ok(())
}

async fn commits_that_are_pending(world: &World) -> Outcome {
    let scene = Scene::committed(world, "test", 2, 9, 4).await?;
    let execution = scene.asked(&earliest()).await?;
    scene.link(&execution).await?;
    let transaction = world.client.begin_transaction(scene.topic(), &[]).await?;
    let pending = [Commit::new(scene.topic(), 1, 7)];
    let transaction = world
        .client
        .commit_within(transaction, &scene.group, &pending)
        .await?;
    scene
        .approved_in_vain(
            &execution,
            &["UNSTABLE_OFFSETS"],
            &["wait until the transaction ends, then plan again"],
        )
        .await?;
    transaction.abort().await?;
    scene.moves(&earliest()).await?;
    Ok(())
}

/// Retention deletes records between the approval and the apply: "the log start" is where the log starts then.
async fn a_log_start_that_rose_meanwhile(world: &World) -> Outcome {
    let scene = Scene::read(world, "test", 3, 9).await?;
    let before = scene.in_kafka().await?;
    let execution = scene.asked(&earliest()).await?;
    let link = scene.link(&execution).await?;
    let told = world.told(&scene.group)?;
    let told = told
        .iter()
        .find(|text| text.contains("Approval needed"))
        .ok_or("nobody was told")?;
    for line in [
        "9 → log start (now 0; may rise to 9)",
        "up to 27 more records may be lost until then",
    ] {
        assert!(told.contains(line), "{line:?} is not in {told:?}");
    }
    world.client.delete_records(scene.topic(), 1, 4).await?;
    world.operator.approve(&link, &scene.group).await?;
    let ended = execution.end().await?;
    assert_eq!(ended.code(), "VERIFIED", "{ended:?}");
    let after = world.offsets(&scene.group, scene.topic(), 3).await?;
    assert_eq!(after, [Some(0), Some(4), Some(0)]);

    // The record says what was committed, the plan what was approved, and an undo goes by what was committed.
    let plan = scene.plan_of(&ended).await?;
    assert_eq!(targets(&plan), [(0, Some(0)), (1, Some(0)), (2, Some(0))]);
    let audit = world.store.audit_of(&execution.arn).await?;
    let audit = audit.ok_or("no audit record")?;
    let to: Vec<_> = audit
        .partitions
        .iter()
        .map(|p| p.to.as_ref().map(|to| to.offset))
        .collect();
    assert_eq!(to, [Some(0), Some(4), Some(0)]);
    scene.moves(&json!({"undo": plan.id.0})).await?;
    assert_eq!(scene.in_kafka().await?, before);
    Ok(())
}

async fn records_that_were_deleted_meanwhile(world: &World) -> Outcome {
    let scene = Scene::committed(world, "test", 2, 9, 6).await?;
    // Whoever named an offset meant that one.
    let execution = scene.asked(&scene.to_offset(2)).await?;
    scene.link(&execution).await?;
    world.client.delete_records(scene.topic(), 0, 3).await?;
    scene
        .approved_in_vain(
            &execution,
            &["PLAN_STALE"],
            &["no longer within the log, which holds 3 to 9", "plan again"],
        )
        .await?;
    // And of what was to be read again something must be left.
    let execution = scene.asked(&earliest()).await?;
    scene.link(&execution).await?;
    world.produce(scene.topic(), 0, 3).await?;
    world.client.delete_records(scene.topic(), 0, 10).await?;
    scene
        .approved_in_vain(
            &execution,
            &["PLAN_STALE"],
            &[
                "starts at 10 now, and its target may rise to 9",
                "plan again",
            ],
        )
        .await
}

async fn a_topic_that_was_created_again_meanwhile(world: &World) -> Outcome {
    let scene = Scene::committed(world, "test", 1, 9, 6).await?;
    let execution = scene.asked(&earliest()).await?;
    scene.link(&execution).await?;
    world.client.delete_topic(scene.topic()).await?;
    world.filled_topic(scene.topic(), 1, 9).await?;
    scene.commit(&[6]).await?;
    scene
        .approved_in_vain(
            &execution,
            &["PLAN_STALE"],
            &["is gone or was created again", "plan again"],
        )
        .await
}

/// Decides as the page does, without telling the execution: cut off between the two.
async fn decide_silently(scene: &Scene<'_>, execution: &Execution) -> Outcome {
    let world = scene.world;
    let link = hash_of(&scene.link(execution).await?)?;
    let approval = world.store.approval(&link).await?.ok_or("no approval")?;
    let (approve, now) = (Decision::Approve, Timestamp::now());
    let decided = world
        .store
        .decide(&link, &approval.digest, approve, "tests", "", now)
        .await?;
    assert!(matches!(decided, Decided::Now(_)), "{decided:?}");
    Ok(())
}

async fn a_decision_that_arrives_too_late(world: &World) -> Outcome {
    let scene = Scene::committed(world, "brief", 2, 9, 6).await?;
    let execution = scene.asked(&earliest()).await?;
    decide_silently(&scene, &execution).await?;
    let decided = Timestamp::now();
    until("the time to be over", async || {
        let seconds = Timestamp::now().duration_since(decided).as_secs_f64();
        Ok((seconds > 3.0).then_some(()))
    })
    .await?;
    let before = scene.in_kafka().await?;
    sweep(world, &execution).await?;
    scene
        .ended_in_vain(
            &execution,
            before,
            &["APPLY_TIME_OVER"],
            &["approved, but not applied before", "plan again"],
        )
        .await?;
    scene.dry_run(&earliest()).await?;
    Ok(())
}

async fn a_plan_that_nobody_decides_on(world: &World) -> Outcome {
    let scene = Scene::committed(world, "hasty", 2, 9, 6).await?;
    let before = scene.in_kafka().await?;
    let execution = scene.asked(&earliest()).await?;
    let link = scene.link(&execution).await?;
    let ended = until("the wait to be ended", async || {
        sweep(world, &execution).await?;
        Ok(execution.ended().await?)
    })
    .await?;
    assert_eq!(
        (ended.status.as_str(), ended.code()),
        ("FAILED", "APPROVAL_EXPIRED")
    );
    let audit = world.store.audit_of(&execution.arn).await?;
    let audit = audit.ok_or("there is no audit record")?;
    let codes: Vec<_> = audit.refusals.iter().map(|r| r.code()).collect();
    assert_eq!(codes, ["APPROVAL_EXPIRED"]);
    super::assert_says(&audit.message, &["nobody decided before", "ask again"]);
    let late = world.operator.approve(&link, &scene.group).await;
    assert!(late.is_err(), "the page takes no decision any more");
    assert_eq!(scene.in_kafka().await?, before);
    scene.is_free().await?;
    scene.dry_run(&earliest()).await?;
    Ok(())
}

/// The table below the store's own rules.
async fn table(
    world: &World,
) -> Result<(aws_sdk_dynamodb::Client, String), Box<dyn std::error::Error>> {
    let client = aws_sdk_dynamodb::Client::new(world.operator.sdk());
    Ok((client, world.stack.output("TableName")?.to_owned()))
}

fn key(plan: &PlanId) -> std::collections::HashMap<String, AttributeValue> {
    let pk = AttributeValue::S(format!("PLAN#{plan}"));
    [
        ("pk".to_owned(), pk),
        ("sk".to_owned(), AttributeValue::S("META".to_owned())),
    ]
    .into()
}

async fn a_stored_plan_that_is_another_one(world: &World) -> Outcome {
    let scene = Scene::committed(world, "test", 2, 9, 6).await?;
    let execution = scene.asked(&earliest()).await?;
    decide_silently(&scene, &execution).await?;
    let id = scene.open_plan(&execution).await?;
    let mut record = world.store.plan(&id).await?.ok_or("no plan")?;
    if let PlanResult::Ready(plan) = &mut record.result {
        plan.moves[0].to.as_mut().ok_or("no target")?.offset = 1;
    }
    let (client, table) = table(world).await?;
    let delete = client.delete_item().table_name(table);
    delete.set_key(Some(key(&id))).send().await?;
    world.store.put_plan(&record).await?;

    let before = scene.in_kafka().await?;
    let link = scene.link(&execution).await?;
    let (status, page) = world.operator.get(&link).await?;
    assert!(status >= 400, "{status}");
    assert!(!page.contains("<form"), "nothing can be decided there");
    sweep(world, &execution).await?;
    scene
        .ended_in_vain(
            &execution,
            before,
            &["PLAN_DIGEST_MISMATCH"],
            &["nothing was moved, plan again"],
        )
        .await?;
    scene.moves(&earliest()).await?;
    Ok(())
}

async fn a_stored_plan_that_is_damaged(world: &World) -> Outcome {
    let scene = Scene::committed(world, "test", 2, 9, 6).await?;
    let execution = scene.asked(&earliest()).await?;
    decide_silently(&scene, &execution).await?;
    let id = scene.open_plan(&execution).await?;
    let (client, table) = table(world).await?;
    let damage = client
        .update_item()
        .table_name(table)
        .set_key(Some(key(&id)))
        .update_expression("SET body = :body")
        .expression_attribute_values(":body", AttributeValue::B(Blob::new(b"damaged")));
    damage.send().await?;

    let before = scene.in_kafka().await?;
    sweep(world, &execution).await?;
    scene
        .ended_in_vain(&execution, before, &[], &["plan"])
        .await?;
    scene.moves(&earliest()).await?;
    Ok(())
}

async fn one_recovery_at_a_time(world: &World) -> Outcome {
    const REQUESTS: usize = 10;
    let scene = Scene::committed(world, "test", 2, 9, 6).await?;
    let before = scene.in_kafka().await?;
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..REQUESTS {
        let (operator, request) = (world.operator.clone(), scene.request(&earliest()));
        asking.spawn(async move { operator.request(request).await });
    }
    let mut executions = Vec::new();
    while let Some(asked) = asking.join_next().await {
        executions.push(asked??);
    }
    let (waiting, refused) = until("all but one to end", async || {
        let (mut waiting, mut ended) = (Vec::new(), Vec::new());
        for execution in &executions {
            match execution.ended().await? {
                None => waiting.push(execution),
                Some(end) => ended.push((execution, end)),
            }
        }
        Ok((ended.len() == REQUESTS - 1).then_some((waiting, ended)))
    })
    .await?;
    let [waiting] = waiting[..] else {
        return Err(format!("{} wait", waiting.len()).into());
    };
    let plan = scene.open_plan(waiting).await?;
    for (execution, ended) in refused {
        assert_eq!((ended.status.as_str(), ended.code()), ("FAILED", "REFUSED"));
        let audit = world.store.audit_of(&execution.arn).await?;
        let audit = audit.ok_or("there is no audit record")?;
        let codes: Vec<_> = audit.refusals.iter().map(|r| r.code()).collect();
        assert_eq!(codes, ["RECOVERY_LIVE"]);
        super::assert_says(
            &audit.message,
            &[&plan.0, &waiting.arn.0, "decide or stop that one first"],
        );
    }
    // A dry run is told the same, beside what else speaks against it.
    let mut dry_run = scene.request(&scene.to_offset(99));
    dry_run["dry_run"] = json!(true);
    let refused = world.refused(dry_run).await?;
    assert_eq!(
        refused.codes,
        [
            "OFFSET_ABOVE_HIGH_WATERMARK",
            "OFFSET_ABOVE_HIGH_WATERMARK",
            "RECOVERY_LIVE"
        ]
    );
    assert_eq!(scene.in_kafka().await?, before);

    let group = GroupId(scene.group.clone());
    let claim = world.store.claim(&world.key_of(&group)).await?;
    assert_eq!(
        claim.map(|claim| claim.execution),
        Some(waiting.arn.clone())
    );
    let link = scene.link(waiting).await?;
    world.operator.approve(&link, &scene.group).await?;
    assert_eq!(waiting.end().await?.code(), "VERIFIED");
    scene.is_free().await?;
    // It is over, so the group can be asked for again.
    let mut forward = scene.to_offset(6);
    forward["allow_forward"] = json!(true);
    scene.dry_run(&forward).await?;
    Ok(())
}
