//! Operators: requests to guard and to rewind, their budgets and their keys.

use jiff::Timestamp;
use offset_guard::domain::incident::IncidentState;
use offset_guard_local::client::Commit;
use offset_guard_local::operator::{link_in, text_of};
use offset_guard_tests::{Outcome, PATIENCE};
use reqwest::Method;
use serde_json::{Value, json};
use ulid::Ulid;

use super::stage::{GUARDED, Stage, assert_code, code, firing, secret, until};

pub(super) async fn no_operator_asks_without_end(stage: &Stage) -> Outcome {
    let group = stage.group();
    let rewind = json!({"request": {"group": group, "shift_by": -3}});
    let look = json!({"group": group});
    let ask = async |n: usize| match n % 2 {
        0 => stage.post_with("/rewinds", &secret("eager"), &rewind).await,
        _ => stage.post("eager", &look).await,
    };
    let mut refused = 0;
    for n in 0..8 {
        let answer = ask(n).await?;
        match answer.status {
            202 => {}
            _ => {
                assert_code(&answer, 429, "TOO_MANY_REQUESTS");
                refused += 1;
            }
        }
    }
    // The minute may have changed between two of them.
    assert!((2..=5).contains(&refused), "{refused}");
    // Nobody else is held back.
    assert_code(&stage.post("oncall", &look).await?, 202, "ACCEPTED");
    Ok(())
}

pub(super) async fn a_request_to_guard(stage: &Stage) -> Outcome {
    let group = stage.group();
    let body = json!({"group": group, "ask": {
        "action": "skip_poison_record", "topic": "shipments", "partition": 1, "dry_run": false,
        "requested_by": "ada", "reason": "a broken record",
    }});
    let headers = |key| {
        let authorization = format!("Bearer {}", secret("oncall"));
        [
            ("authorization", authorization),
            ("idempotency-key", String::from(key)),
        ]
    };
    let ask_for = async |key, body: &Value| {
        let headers = headers(key);
        let headers = headers
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        let path = "/webhooks/oncall";
        stage
            .send(Method::POST, path, &headers, Some(body.to_string()))
            .await
    };
    let ask = async |key| ask_for(key, &body).await;
    assert_code(&ask("release-4.2").await?, 202, "ACCEPTED");
    assert_code(&ask("release-4.2").await?, 200, "DUPLICATE");
    assert_code(&ask("release 43").await?, 400, "INVALID_REQUEST");
    let mut other = body.clone();
    other["ask"]["partition"] = json!(2);
    assert_code(
        &ask_for("release-4.2", &other).await?,
        422,
        "IDEMPOTENCY_KEY_USED",
    );
    // Without a key each is another request.
    assert_code(&stage.post("oncall", &body).await?, 202, "ACCEPTED");
    assert_code(&stage.post("oncall", &body).await?, 202, "ACCEPTED");
    let events = stage.lambda.taken(&group);
    assert_eq!(events.len(), 3);
    let mut wanted = body["ask"].clone();
    wanted["requested_by"] = json!("oncall, for ada (not verified)");
    assert_eq!(events[0]["ask"], wanted);
    stage.run(&events[0], true).await?;
    assert_code(&ask("release-4.2").await?, 200, "DUPLICATE");
    assert_code(
        &ask_for("release-4.2", &other).await?,
        422,
        "IDEMPOTENCY_KEY_USED",
    );
    Ok(())
}

pub(super) async fn guard_itself_says_when_it_is_done(stage: &Stage) -> Outcome {
    let world = &stage.world;
    let group = format!("{GUARDED}{}", Ulid::generate().to_string().to_lowercase());
    let topic = world.topic("guarded");
    world.filled_topic(&topic, 1, 5).await?;
    let commit = Commit::new(&topic, 0, 5);
    world.client.commit(&group, &[commit]).await?;
    let body = firing(&group, Timestamp::now());
    assert_code(&stage.post("patient", &body).await?, 202, "ACCEPTED");
    until("the end of the run", async || {
        let state = stage.incident(&group).await?;
        assert_ne!(state, Some(IncidentState::Failed));
        Ok((state == Some(IncidentState::Finished)).then_some(()))
    })
    .await?;
    assert_code(&stage.post("patient", &body).await?, 200, "DUPLICATE");
    Ok(())
}

pub(super) async fn a_rewind_from_its_request_to_its_end(stage: &Stage) -> Outcome {
    let world = &stage.world;
    let (group, topic) = (stage.group(), world.topic("rewinds"));
    world.filled_topic(&topic, 1, 5).await?;
    world
        .client
        .commit(&group, &[Commit::new(&topic, 0, 5)])
        .await?;
    let body = json!({"request": {"group": group, "shift_by": -3, "reason": "a bad release", "requested_by": "ada"}});
    let token = format!("Bearer {}", secret("oncall"));
    let key = format!("release-4.2-{}", Ulid::generate());
    let ask = async |key: &str, body: &Value| {
        let headers = [("authorization", token.as_str()), ("idempotency-key", key)];
        let body = Some(body.to_string());
        stage.send(Method::POST, "/rewinds", &headers, body).await
    };
    let look = async |id: &str, token: &str| {
        let path = format!("/recoveries/{id}");
        stage
            .send(Method::GET, &path, &[("authorization", token)], None)
            .await
    };
    let asked = ask(&key, &body).await?;
    assert_code(&asked, 202, "ACCEPTED");
    let asked: Value = serde_json::from_str(&asked.body)?;
    assert_eq!(
        (&asked["id"], &asked["dry_run"]),
        (&json!(key), &json!(true))
    );
    assert_code(&ask(&key, &body).await?, 200, "DUPLICATE");
    let mut other = body.clone();
    other["request"]["shift_by"] = json!(-4);
    assert_code(&ask(&key, &other).await?, 422, "IDEMPOTENCY_KEY_USED");

    let shown = until("the dry run to end", async || {
        let answer = look(&key, &token).await?;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let shown: Value = serde_json::from_str(&answer.body)?;
        Ok((shown["code"] == "ENDED").then_some(shown))
    })
    .await?;
    assert_eq!(shown["result"]["code"], "DRY_RUN", "{shown}");
    assert_eq!(shown["requested_by"], "oncall, for ada (not verified)");
    assert_eq!(shown["group"], group);
    assert_eq!(world.offsets(&group, &topic, 1).await?, [Some(5)]);
    // Its plan leads to it too, and its own words are told apart from another's after its end as before it.
    let plan = shown["plan"].as_str().ok_or("no plan is named")?.to_owned();
    let by_plan: Value = serde_json::from_str(&look(&plan, &token).await?.body)?;
    assert_eq!(by_plan["result"], shown["result"]);
    assert_code(&ask(&key, &body).await?, 200, "DUPLICATE");
    assert_code(&ask(&key, &other).await?, 422, "IDEMPOTENCY_KEY_USED");
    keys_are_the_senders_own(stage, &plan, &key, &group, &body).await?;

    // Who asked has the answer; the channel of approvals is not told as well.
    assert_eq!(world.told(&group)?, [""; 0]);

    // A live one waits for approval, whoever asks.
    let mut live = body.clone();
    live["request"]["dry_run"] = json!(false);
    let key = format!("k-{}", Ulid::generate());
    assert_code(&ask(&key, &live).await?, 202, "ACCEPTED");
    until("the plan to wait for approval", async || {
        let answer = look(&key, &token).await?;
        Ok((code(&answer).1 == "WAITING_FOR_APPROVAL").then_some(()))
    })
    .await?;
    assert_eq!(world.offsets(&group, &topic, 1).await?, [Some(5)]);
    let with_link = |message: &Value| {
        let text = text_of(message);
        text.contains(&topic) && link_in(&text).is_some()
    };
    let message = text_of(&world.stack.slack().until(PATIENCE, with_link).await?);
    let link = link_in(&message)
        .ok_or("the message has no link")?
        .to_owned();
    world.operator.approve(&link, &group).await?;
    let shown = until("the recovery to end", async || {
        let answer = look(&key, &token).await?;
        let shown: Value = serde_json::from_str(&answer.body)?;
        Ok((shown["code"] == "ENDED").then_some(shown))
    })
    .await?;
    assert_eq!(shown["result"]["code"], "VERIFIED", "{shown}");
    assert_eq!(shown["result"]["partitions"], json!({"Applied": 1}));
    assert_eq!(world.offsets(&group, &topic, 1).await?, [Some(2)]);

    let am = format!("Bearer {}", secret("am"));
    assert_code(&look(&key, &am).await?, 403, "NOT_AN_OPERATOR");
    assert_code(&look(&key, "Bearer x").await?, 401, "NOT_AUTHENTICATED");
    assert_code(&look("none", &token).await?, 404, "NO_SUCH_RECOVERY");
    Ok(())
}

/// Whatever key an operator writes, the execution has a name of that operator's own.
async fn keys_are_the_senders_own(
    stage: &Stage,
    plan: &str,
    key: &str,
    group: &str,
    body: &Value,
) -> Outcome {
    let world = &stage.world;
    let bearer = |sender| format!("Bearer {}", secret(sender));
    let ask = async |sender, key: &str| {
        let authorization = bearer(sender);
        let headers = [
            ("authorization", authorization.as_str()),
            ("idempotency-key", key),
        ];
        let body = Some(body.to_string());
        stage.send(Method::POST, "/rewinds", &headers, body).await
    };
    for name in [plan.to_owned(), format!("{plan}-reconcile-1")] {
        assert_code(&ask("oncall", &name).await?, 202, "ACCEPTED");
        // Nothing has taken the name that the sweep or the guard would give.
        let taken = world.operator.named(&name).ended().await;
        assert!(taken.is_err(), "{name}: {taken:?}");
    }
    // What another sender asked for under the same key is its own, and nobody else's.
    let look = async |sender, id: &str| {
        let path = format!("/recoveries/{id}");
        let authorization = bearer(sender);
        stage
            .send(
                Method::GET,
                &path,
                &[("authorization", authorization.as_str())],
                None,
            )
            .await
    };
    assert_code(&look("narrow", key).await?, 404, "NO_SUCH_RECOVERY");
    // Nor does a plan of a group that a sender may not name tell it anything.
    let unseen = look("narrow", plan).await?;
    assert_code(&unseen, 404, "NO_SUCH_RECOVERY");
    assert!(!unseen.body.contains(group), "{}", unseen.body);
    Ok(())
}
