//! Senders of alerts: their secrets, their budgets, and what their alerts start.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use offset_guard::domain::incident::{IncidentState, Subject};
use offset_guard::domain::offset::GroupId;
use offset_guard_tests::Outcome;
use reqwest::Method;
use serde_json::json;
use tokio::time::Instant;

use super::stage::{COOLDOWN, SENDERS, Stage, WINDOW, assert_code, code, firing, secret, until};

pub(super) async fn nobody_without_the_secret(stage: &Stage) -> Outcome {
    let group = stage.group();
    let body = firing(&group, Timestamp::now());
    let started = stage.lambda.count();
    for (path, offered) in [
        ("/webhooks/am", secret("am2")),
        ("/webhooks/am", secret("am").to_uppercase()),
        ("/webhooks/am", String::new()),
        ("/webhooks/nobody", secret("am")),
        ("/webhooks/oncall", secret("am")),
        ("/rewinds", "wrong".to_owned()),
    ] {
        let answer = stage.post_with(path, &offered, &body).await?;
        assert_code(&answer, 401, "NOT_AUTHENTICATED");
        let challenge = answer.headers.get("www-authenticate");
        assert_eq!(
            challenge.and_then(|value| value.to_str().ok()),
            Some("Bearer")
        );
    }
    let bare = stage
        .send(
            Method::POST,
            "/webhooks/am",
            &[],
            Some("not looked at".to_owned()),
        )
        .await?;
    assert_code(&bare, 401, "NOT_AUTHENTICATED");
    // Not even a body that is too long is read for a stranger.
    let large = json!("x".repeat(300_000));
    let large = stage.post_with("/webhooks/am", "wrong", &large).await?;
    assert_code(&large, 401, "NOT_AUTHENTICATED");
    // An alert sender is somebody, and no operator.
    let rewind = stage
        .post_with("/rewinds", &secret("am"), &json!({"request": {}}))
        .await?;
    assert_code(&rewind, 403, "NOT_AN_OPERATOR");
    assert_eq!(stage.lambda.count(), started);
    assert_eq!(stage.incident(&group).await?, None);
    Ok(())
}

pub(super) async fn one_run_an_incident(stage: &Stage) -> Outcome {
    let group = stage.group();
    let body = firing(&group, Timestamp::now());
    // Two replicas and eighteen repetitions at once: each is answered, and one of them with a run.
    let sent = (0..20).map(|_| stage.post("am", &body));
    let mut answers: BTreeMap<(u16, String), usize> = BTreeMap::new();
    for answer in futures_util::future::join_all(sent).await {
        *answers.entry(code(&answer?)).or_default() += 1;
    }
    let expected = [
        ((200, "DUPLICATE".to_owned()), 19),
        ((202, "ACCEPTED".to_owned()), 1),
    ];
    assert_eq!(answers, expected.into());
    let events = stage.lambda.taken(&group);
    assert_eq!(events.len(), 1);
    assert_eq!(
        events[0],
        json!({"cluster": "main", "group": group, "incident": events[0]["incident"]})
    );
    assert_eq!(stage.incident(&group).await?, Some(IncidentState::Queued));

    stage.run(&events[0], true).await?;
    assert_code(&stage.post("am", &body).await?, 200, "DUPLICATE");
    // What resolves starts nothing, and what fires anew is news.
    let mut resolved = body.clone();
    resolved["alerts"][0]["status"] = json!("resolved");
    assert_code(&stage.post("am", &resolved).await?, 200, "NOTHING_FIRING");
    let anew = firing(&group, Timestamp::now());
    assert_code(&stage.post("am", &anew).await?, 202, "ACCEPTED");
    let events = stage.lambda.taken(&group);
    stage.run(&events[1], true).await?;
    // After the cool-down a repetition is one again.
    tokio::time::sleep(COOLDOWN).await;
    assert_code(&stage.post("am", &anew).await?, 202, "ACCEPTED");
    // And a run that failed covers nothing.
    let events = stage.lambda.taken(&group);
    assert_eq!(events.len(), 3);
    stage.run(&events[2], false).await?;
    assert_code(&stage.post("am", &anew).await?, 202, "ACCEPTED");
    Ok(())
}

pub(super) async fn a_start_that_fails_is_lost_nowhere(stage: &Stage) -> Outcome {
    let group = stage.group();
    let body = firing(&group, Timestamp::now());
    // The client tries three times by itself.
    stage.lambda.throttle(3);
    let throttled = stage.post("am", &body).await?;
    assert_code(&throttled, 503, "TRY_AGAIN");
    assert!(throttled.headers.contains_key("retry-after"));
    assert_eq!(stage.incident(&group).await?, Some(IncidentState::Failed));
    assert_code(&stage.post("am", &body).await?, 202, "ACCEPTED");
    assert_eq!(stage.lambda.taken(&group).len(), 1);

    // Whoever claims and dies before it starts anything does not make the others' alerts duplicates.
    let group = stage.group();
    let subject = Subject::Group {
        cluster: "main".to_owned(),
        group: GroupId(group.clone()),
    };
    let claim = offset_guard::store::IncidentClaim {
        subject: &subject,
        run: "dead",
        since: None,
        asked: None,
        cooldown_seconds: 60,
    };
    let before = Timestamp::now() - SignedDuration::from_secs(11);
    stage.world.store.claim_incident(&claim, before).await?;
    let body = firing(&group, Timestamp::now());
    assert_code(&stage.post("am", &body).await?, 503, "TRY_AGAIN");
    let answer = until("the claim to run out", async || {
        let answer = stage.post("am", &body).await?;
        Ok((answer.status != 503).then_some(answer))
    });
    assert_code(&answer.await?, 202, "ACCEPTED");
    assert_eq!(stage.lambda.taken(&group).len(), 1);
    Ok(())
}

pub(super) async fn no_more_than_the_budget(stage: &Stage) -> Outcome {
    let groups: Vec<String> = (0..5).map(|_| stage.group()).collect();
    let mut storm = firing(&groups[0], Timestamp::now());
    let alert = storm["alerts"][0].clone();
    let alerts = groups.iter().map(|group| {
        let mut alert = alert.clone();
        alert["labels"]["consumergroup"] = json!(group);
        alert
    });
    storm["alerts"] = alerts.collect();
    let started = |groups: &[String]| {
        let runs = groups.iter().map(|group| stage.lambda.taken(group).len());
        runs.sum::<usize>()
    };
    assert_code(&stage.post("patient", &storm).await?, 503, "TRY_AGAIN");
    // The minute may have changed between two of them, and never is a group looked at twice.
    assert!((3..=5).contains(&started(&groups)));
    let second = Duration::from_secs(60);
    let deadline = Instant::now() + second + second;
    while stage.post("patient", &storm).await?.status == 503 {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    let each: Vec<_> = groups
        .iter()
        .map(|group| stage.lambda.taken(group).len())
        .collect();
    assert_eq!(each, [1; 5]);
    Ok(())
}

pub(super) async fn every_kind_of_body(stage: &Stage) -> Outcome {
    let group = stage.group();
    let mut grafana = firing(&group, Timestamp::now());
    grafana["version"] = json!("1");
    grafana["orgId"] = json!(1);
    grafana["title"] = json!("[FIRING:1]");
    assert_code(&stage.post("grafana", &grafana).await?, 202, "ACCEPTED");
    let plain = json!({"group": stage.group()});
    assert_code(&stage.post("plain", &plain).await?, 202, "ACCEPTED");
    assert_code(&stage.post("plain", &plain).await?, 200, "DUPLICATE");

    for (sender, body, status, code) in [
        ("plain", json!({"group": "nobodys"}), 422, "NO_SUCH_GROUP"),
        (
            "plain",
            json!({"group": "waiting-x"}),
            403,
            "GROUP_NOT_ALLOWED",
        ),
        ("plain", json!({"gruop": "test-x"}), 400, "INVALID_BODY"),
        ("plain", grafana.clone(), 400, "INVALID_BODY"),
        ("am", grafana, 400, "INVALID_BODY"),
        ("am", json!({}), 400, "INVALID_BODY"),
        ("oncall", json!({"group": 5}), 400, "INVALID_REQUEST"),
    ] {
        assert_code(&stage.post(sender, &body).await?, status, code);
    }
    Ok(())
}

/// What a body or a header may hold is answered with a 4xx, whatever it is, and starts nothing.
pub(super) async fn hostile_requests(stage: &Stage) -> Outcome {
    let started = stage.lambda.count();
    let authorization = format!("Bearer {}", secret("am"));
    let bytes = ("content-type", "application/octet-stream");
    let json_type = ("content-type", "application/json");
    let proven = ("authorization", authorization.as_str());
    let deep = "[".repeat(200_000);
    let oversize = "x".repeat(256 * 1024 + 1);
    let headers: [(&str, &str); 3] = [proven, json_type, ("x-odd", "\u{7f}\u{e9} ü")];
    for (headers, body, status) in [
        (vec![proven, json_type], oversize, 413),
        (vec![proven, json_type], deep, 400),
        (vec![proven, json_type], String::new(), 400),
        (
            vec![proven, json_type],
            "{\"version\": \"4\"".to_owned(),
            400,
        ),
        (vec![proven, json_type], "\u{0}\u{feff}{}".to_owned(), 400),
        (vec![proven, bytes], "{}".to_owned(), 400),
    ] {
        let answer = stage
            .send(Method::POST, "/webhooks/am", &headers, Some(body))
            .await?;
        assert_eq!(answer.status, status, "{}", answer.body);
    }
    let latin = [0xff, 0xfe, b'{', b'}'];
    let url = format!("{}/webhooks/am", stage.api);
    let garbled = stage
        .http
        .post(&url)
        .header(proven.0, proven.1)
        .header(bytes.0, bytes.1)
        .body(latin.to_vec());
    assert_eq!(garbled.send().await?.status().as_u16(), 400);
    let mut odd = stage.http.post(&url).body("{}");
    for (name, value) in headers.into_iter().take(2) {
        odd = odd.header(name, value);
    }
    let odd = odd.header(
        "x-odd",
        reqwest::header::HeaderValue::from_bytes("ü é".as_bytes())?,
    );
    assert_eq!(odd.send().await?.status().as_u16(), 400);
    for path in ["/webhooks/", "/webhooks/a/b", "/webhooks", "/recoveries/"] {
        let answer = stage
            .send(Method::POST, path, &[proven, json_type], None)
            .await?;
        assert!((400..500).contains(&answer.status), "{path}: {answer:?}");
    }
    assert_eq!(stage.lambda.count(), started);
    Ok(())
}

pub(super) async fn a_rotated_secret(stage: &Stage) -> Outcome {
    let body = json!({
        "version": "4", "alerts": [],
    });
    let post = async |secret: &str| stage.post_with("/webhooks/am2", secret, &body).await;
    let (first, second, third) = (secret("am2"), "the-second-secret", "the-third-secret");
    assert_code(&post(&first).await?, 200, "NOTHING_FIRING");
    // What was read a moment ago is not read again for everybody who has a wrong secret.
    tokio::time::sleep(Duration::from_secs(5)).await;
    stage.put_secret("am2", second).await?;
    let rotated = Instant::now();
    assert_code(&post(second).await?, 200, "NOTHING_FIRING");
    assert_code(&post(&first).await?, 200, "NOTHING_FIRING");
    tokio::time::sleep_until(rotated + WINDOW + Duration::from_secs(2)).await;
    assert_code(&post(&first).await?, 401, "NOT_AUTHENTICATED");
    assert_code(&post(second).await?, 200, "NOTHING_FIRING");
    // Rotated twice, the first is nobody's.
    tokio::time::sleep(Duration::from_secs(5)).await;
    stage.put_secret("am2", third).await?;
    assert_code(&post(third).await?, 200, "NOTHING_FIRING");
    assert_code(&post(second).await?, 200, "NOTHING_FIRING");
    assert_code(&post(&first).await?, 401, "NOT_AUTHENTICATED");
    Ok(())
}

pub(super) async fn no_secret_is_told(stage: &Stage) -> Outcome {
    let logs = crate::secrecy::logs(&stage.world).await?;
    let webhook = "/aws/lambda/offset-guard-webhook";
    let said = logs
        .iter()
        .any(|(name, text)| name == webhook && text.contains("answered"));
    assert!(said, "the webhook logs nothing");
    for (name, text) in &logs {
        for secret in SENDERS.map(secret).iter().map(String::as_str).chain([
            "the-second-secret",
            "the-third-secret",
            "a broken record",
        ]) {
            assert!(!text.contains(secret), "{secret} stands in {name}");
        }
    }
    Ok(())
}
