//! The decision: who may take it, how often it is taken, and what never takes it.

use std::collections::BTreeSet;
use std::time::Duration;

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use futures_util::future::{join_all, try_join_all};
use hmac::{Hmac, KeyInit, Mac};
use jiff::{SignedDuration, Timestamp};
use offset_guard::app::decide::LINK_HOLDER;
use offset_guard::app::link::LinkId;
use offset_guard::domain::approval::{ApprovalStatus, Decision};
use offset_guard::domain::audit::AuditStatus;
use offset_guard::domain::refusal::Refusal;
use offset_guard::store::Decided;
use offset_guard_local::operator::{Function, Invoked, form_token, link_in, text_of};
use offset_guard_tests::{Outcome, PATIENCE, World, on_kafka_4};
use reqwest::Method;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::asked::{Answer, Asked, FORM, Result, form, link_id, origin, request, to_loopback};
use crate::secrets::form_key;

on_kafka_4!(
    looking_changes_nothing,
    a_form_token_opens_its_own_form_alone,
    only_the_pages_own_form_is_taken,
    twenty_clicks_make_one_decision,
    a_forged_callback_approves_nothing,
    nobody_decided_in_time,
    approved_and_too_late,
    a_rejection_is_told_with_its_reason,
    a_later_link_takes_the_place_of_an_earlier_one,
    links_that_never_were_all_look_alike,
    a_stored_decision_is_delivered,
    every_answer_keeps_to_itself,
    the_csv_has_the_digest_that_is_approved,
);

/// Somebody's browser, and what looks at links before people do.
const LOOKERS: [&str; 4] = [
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
    "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) SafeLinks",
    "",
];

async fn looking_changes_nothing(world: &World) -> Outcome {
    let asked = Asked::of(world, "test").await?;
    let before = asked.state(world).await?;
    for look in 0..100 {
        let mut headers = vec![("user-agent", LOOKERS[look % LOOKERS.len()])];
        if look % 2 == 1 {
            headers.push(("cookie", "session=1; decision=approve"));
        }
        let got = asked.send(Method::GET, &headers, None).await?;
        assert_eq!(got.status, 200);
        assert!(got.body.contains(&asked.group));
        let head = asked.send(Method::HEAD, &headers, None).await?;
        assert_eq!((head.status, head.body.as_str()), (200, ""));
    }
    // Nor does a query that says what to do.
    let http = to_loopback(&asked.link)?;
    let url = format!("{}?decision=approve&group={}", asked.link, asked.group);
    assert_eq!(
        request(&http, Method::GET, &url, &[], None).await?.status,
        200
    );
    assert_eq!(asked.state(world).await?, before);
    Ok(())
}

async fn a_form_token_opens_its_own_form_alone(world: &World) -> Outcome {
    let (asked, other) = tokio::try_join!(Asked::of(world, "test"), Asked::of(world, "test"))?;
    let before = asked.state(world).await?;
    let own = asked.token("approve").await?;
    let now = Timestamp::now().as_second();
    let stale = signed(world, &asked, "approve", now - 1).await?;
    let fresh = signed(world, &asked, "approve", now + 60).await?;
    let made_longer = own.replacen(own.split('.').next().unwrap_or_default(), "9999999999", 1);
    let refused = [
        ("approve", String::new(), "Not this page&#39;s form"),
        ("approve", "1.x".to_owned(), "Not this page&#39;s form"),
        ("approve", made_longer, "Not this page&#39;s form"),
        (
            "approve",
            other.token("approve").await?,
            "Not this page&#39;s form",
        ),
        (
            "approve",
            asked.token("reject").await?,
            "Not this page&#39;s form",
        ),
        ("reject", own.clone(), "Not this page&#39;s form"),
        ("approved", own.clone(), "Not this page&#39;s form"),
        ("", own.clone(), "Not this page&#39;s form"),
        ("approve", stale, "The form is too old"),
    ];
    for (decision, token, why) in refused {
        let fields = [
            ("decision", decision),
            ("token", token.as_str()),
            ("group", asked.group.as_str()),
        ];
        let answer = asked.post(&fields).await?;
        assert_eq!(answer.status, 403, "{decision} {token}");
        assert!(answer.body.contains(why), "{why}: {}", answer.body);
        assert_eq!(asked.state(world).await?, before, "{decision} {token}");
    }
    let without = [("decision", "approve"), ("group", asked.group.as_str())];
    assert_eq!(asked.post(&without).await?.status, 403);
    // The one that was made here is refused for its age alone: a fresh one gets past, to the group's name.
    let answer = asked
        .post(&[
            ("decision", "approve"),
            ("token", &fresh),
            ("group", "another"),
        ])
        .await?;
    assert_eq!(answer.status, 422);
    assert_eq!(asked.state(world).await?, before);
    assert!(other.execution.ended().await?.is_none());
    Ok(())
}

/// A form token as the page would make it, with any expiry.
async fn signed(world: &World, asked: &Asked, decision: &str, expires: i64) -> Result<String> {
    let key = form_key(world).await?;
    let digest = asked.approval(world).await?.digest;
    let link = link_id(&asked.link);
    let key = Hmac::<Sha256>::new_from_slice(key.as_bytes())?
        .chain_update("offset-guard key for forms 1")
        .finalize()
        .into_bytes();
    let mac = Hmac::<Sha256>::new_from_slice(&key)?
        .chain_update(format!(
            "offset-guard approval form 2\n{link}\n{decision}\n{digest}\n\n{expires}\n"
        ))
        .finalize()
        .into_bytes();
    Ok(format!("{expires}.{}", BASE64URL_NOPAD.encode(&mac)))
}

async fn only_the_pages_own_form_is_taken(world: &World) -> Outcome {
    let asked = Asked::of(world, "test").await?;
    let before = asked.state(world).await?;
    let token = asked.token("approve").await?;
    let own = origin(&asked.link)?;
    let own = ("origin", own.as_str());
    let with_group = |group: &str| {
        form(&[
            ("decision", "approve"),
            ("token", &token),
            ("group", group),
            ("reason", ""),
        ])
    };
    let right = with_group(&asked.group);
    let site = |value| ("sec-fetch-site", value);

    // Where it comes from.
    let foreign = [
        vec![FORM],
        vec![FORM, site("none")],
        vec![FORM, site("cross-site")],
        vec![FORM, ("origin", "null")],
        vec![FORM, ("origin", "null"), site("cross-site")],
        vec![FORM, ("origin", "https://evil.example")],
        vec![
            FORM,
            ("origin", "https://evil.example"),
            site("same-origin"),
        ],
        vec![FORM, ("origin", "http://127.0.0.1"), site("same-site")],
    ];
    for headers in foreign {
        let answer = asked
            .send(Method::POST, &headers, Some(right.clone()))
            .await?;
        assert_eq!(answer.status, 403, "{headers:?}");
        assert_eq!(asked.state(world).await?, before, "{headers:?}");
    }
    // What it is.
    let multipart = "multipart/form-data; boundary=x";
    for content_type in ["text/plain", "application/json", multipart, ""] {
        let headers = [("content-type", content_type), own];
        let answer = asked.send(Method::POST, &headers, Some(right.clone()));
        assert_eq!(answer.await?.status, 415, "{content_type}");
    }
    // How much.
    for extra in [8_193, 300_000] {
        let body = format!("{right}&x={}", "x".repeat(extra));
        let answer = asked.send(Method::POST, &[FORM, own], Some(body)).await?;
        assert_eq!(answer.status, 413, "{extra}");
    }
    // By which method: the API has no route for any other.
    for method in [
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
        Method::TRACE,
    ] {
        let headers = [FORM, own];
        let answer = asked.send(method.clone(), &headers, Some(right.clone()));
        let status = answer.await?.status;
        assert!(matches!(status, 403..=405), "{method}: {status}");
    }
    assert_eq!(asked.state(world).await?, before);

    // Whose name is typed; and these come from where they should, whichever way the browser says so.
    let at_home = [
        vec![FORM, own],
        vec![FORM, site("same-origin")],
        vec![FORM, ("origin", "null"), site("same-origin")],
    ];
    let upper = asked.group.to_uppercase();
    let longer = format!("{}-2", asked.group);
    for headers in at_home {
        for typed in ["", "another", &upper, &longer] {
            let body = with_group(typed);
            let answer = asked.send(Method::POST, &headers, Some(body)).await?;
            assert_eq!(answer.status, 422, "{headers:?} {typed}");
            assert!(answer.body.contains("Nothing was decided"));
            assert!(
                form_token(&answer.body, "approve").is_some(),
                "it can be tried again"
            );
        }
    }
    assert_eq!(asked.state(world).await?, before);
    Ok(())
}

async fn twenty_clicks_make_one_decision(world: &World) -> Outcome {
    let asked = Asked::of(world, "test").await?;
    let approve = asked.token("approve").await?;
    let reject = asked.token("reject").await?;
    let clicks = (0..20).map(async |n| -> Result<Answer> {
        let (decision, token) = if n % 2 == 0 {
            ("approve", &approve)
        } else {
            ("reject", &reject)
        };
        let reason = format!("click {n}");
        let answer = asked
            .post(&[
                ("decision", decision),
                ("token", token),
                ("group", &asked.group),
                ("reason", &reason),
            ])
            .await?;
        // A browser follows to the page itself.
        Ok(match answer.status {
            303 => asked.get().await?,
            _ => answer,
        })
    });
    let shown = try_join_all(clicks).await?;
    let approval = asked.approval(world).await?;
    let approved = match approval.status {
        ApprovalStatus::Approved => true,
        ApprovalStatus::Rejected => false,
        other => return Err(format!("twenty clicks left it {other:?}").into()),
    };
    let said: BTreeSet<_> = shown
        .iter()
        .filter_map(|answer| line_with(&answer.body, "Decided by"))
        .collect();
    let at = approval.decided_at.ok_or("decided at no time")?;
    let at = at.strftime("%Y-%m-%d %H:%M:%S UTC");
    assert_eq!(
        said.into_iter().collect::<Vec<_>>(),
        [format!("Decided by {LINK_HOLDER} on {at}.")]
    );
    for answer in &shown {
        assert!(
            matches!(answer.status, 200 | 409 | 410),
            "{}",
            answer.status
        );
        let rejected = answer.body.contains("Rejected. Nothing was moved.");
        assert_eq!(rejected, !approved, "{}", answer.body);
        assert!(form_token(&answer.body, "approve").is_none() || answer.body.contains("again"));
    }
    let ended = asked.execution.end().await?;
    let (code, offset) = if approved {
        ("VERIFIED", 2)
    } else {
        ("REJECTED", 5)
    };
    assert_eq!((ended.status.as_str(), ended.code()), ("SUCCEEDED", code));
    assert_eq!(asked.offsets(world).await?, [Some(offset)]);
    assert_eq!(asked.audit(world).await?.decided_at, approval.decided_at);
    Ok(())
}

/// The paragraph of a page that begins with `start`.
fn line_with(page: &str, start: &str) -> Option<String> {
    let line = page.split("<p>").find(|line| line.starts_with(start))?;
    Some(line.split("</p>").next()?.to_owned())
}

async fn a_forged_callback_approves_nothing(world: &World) -> Outcome {
    let executions = aws_sdk_sfn::Client::new(world.operator.sdk());
    let forge = async |output: &str| -> Outcome {
        // Its consumers run: nothing may be done to them either.
        let asked = Asked::of(world, "waiting").await?;
        let member = world.member(&asked.group, &asked.topic, 1).await?;
        let (approve, before) = (asked.token("approve").await?, asked.offsets(world).await?);
        executions
            .send_task_success()
            .task_token(asked.task_token(world).await?.expose())
            .output(output)
            .send()
            .await?;
        let ended = asked.execution.end().await?;
        assert_eq!(
            (ended.status.as_str(), ended.code()),
            ("FAILED", "NOT_APPROVED"),
            "{output}"
        );
        let states = entered(&executions, &asked.execution.arn.0).await?;
        let told = ["Admit", "Admitted", "Report", "Reported", "Failed"];
        assert!(states.ends_with(&told.map(str::to_owned)), "{states:?}");
        assert!(
            !states
                .iter()
                .any(|state| state == "Observe" || state == "Apply")
        );

        assert_eq!(member.assigned().len(), 1);
        assert_eq!(asked.offsets(world).await?, before);
        let approval = asked.approval(world).await?;
        assert_eq!(approval.status, ApprovalStatus::Superseded);
        assert_eq!((approval.decided_by, approval.decided_at), (None, None));
        assert!(!asked.is_claimed(world).await?);
        let audit = asked.audit(world).await?;
        assert_eq!(audit.status, AuditStatus::Failed);
        assert!(
            audit.message.contains("nobody has decided"),
            "{}",
            audit.message
        );
        assert_eq!(world.told(&asked.execution.arn.0)?.len(), 1);

        // The link is dead, for those who look and for those who had it open.
        let closed = asked.state(world).await?;
        let page = asked.get().await?;
        assert_eq!(page.status, 410);
        assert!(
            page.body.contains("ended before anybody decided"),
            "{}",
            page.body
        );
        assert!(form_token(&page.body, "approve").is_none());
        let late = [
            ("decision", "approve"),
            ("token", approve.as_str()),
            ("group", asked.group.as_str()),
        ];
        let answer = asked.post(&late).await?;
        assert_eq!(answer.status, 410);
        assert!(answer.body.contains("has changed nothing"));
        assert_eq!(asked.state(world).await?, closed);
        Ok(())
    };
    let outputs = [
        r#"{"decision":"approved"}"#,
        r#"{"decision":"approve","admitted":true,"report":{"status":"SUCCEEDED"}}"#,
        r#""garbage""#,
    ];
    for forged in join_all(outputs.map(forge)).await {
        forged?;
    }
    Ok(())
}

/// The names of the states that an execution entered, in order.
async fn entered(executions: &aws_sdk_sfn::Client, arn: &str) -> Result<Vec<String>> {
    let history = executions
        .get_execution_history()
        .execution_arn(arn)
        .max_results(1_000)
        .send()
        .await?;
    Ok(history
        .events()
        .iter()
        .filter_map(|event| event.state_entered_event_details())
        .map(|state| state.name().to_owned())
        .collect())
}

async fn nobody_decided_in_time(world: &World) -> Outcome {
    let asked = Asked::of(world, "hasty").await?;
    let before = asked.state(world).await?;
    let approve = asked.token("approve").await?;
    let page = until_answer(&asked, 410).await?;
    assert!(
        page.body.contains("Expired: nobody decided by"),
        "{}",
        page.body
    );
    assert!(page.body.contains("Nothing was moved"));
    assert!(form_token(&page.body, "approve").is_none());
    // Who had it open is told the same, not that the form is old.
    let late = [
        ("decision", "approve"),
        ("token", approve.as_str()),
        ("group", asked.group.as_str()),
    ];
    let answer = asked.post(&late).await?;
    assert_eq!(answer.status, 410);
    assert!(answer.body.contains("Expired: nobody decided by"));
    assert_eq!(asked.state(world).await?, before);

    // The wait itself is longer than the policy's; the sweep ends it, and with it the claim on the group.
    asked.sweep(world).await?;
    let ended = asked.execution.end().await?;
    assert_eq!(
        (ended.status.as_str(), ended.code()),
        ("FAILED", "APPROVAL_EXPIRED")
    );
    assert_eq!(asked.offsets(world).await?, [Some(5)]);
    let approval = asked.approval(world).await?;
    assert_eq!(approval.status, ApprovalStatus::Expired);
    assert_eq!(approval.decided_by, None);
    let audit = asked.audit(world).await?;
    assert_eq!(audit.code, "APPROVAL_EXPIRED");
    assert!(
        audit.message.contains("No offset was changed"),
        "{}",
        audit.message
    );
    assert!(!asked.is_claimed(world).await?);
    let told = world.told("APPROVAL_EXPIRED")?;
    assert!(
        told.iter().any(|text| text.contains(&asked.group)),
        "{told:?}"
    );
    assert_eq!(asked.get().await?.status, 410);
    Ok(())
}

/// The page, once it answers with `status`.
async fn until_answer(asked: &Asked, status: u16) -> Result<Answer> {
    let waited = tokio::time::timeout(PATIENCE, async {
        loop {
            let page = asked.get().await?;
            if page.status == status {
                return Ok(page);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    waited.await?
}

async fn approved_and_too_late(world: &World) -> Outcome {
    let asked = Asked::of(world, "brief").await?;
    let approval = store_decision(world, &asked, Decision::Approve).await?;
    // Its delivery is cut off for longer than the policy lets pass between decision and apply.
    let over = approval + SignedDuration::from_secs(3);
    let left = Duration::try_from(over.duration_since(Timestamp::now())).unwrap_or_default();
    tokio::time::sleep(left).await;
    assert_eq!(resend(&asked).await?.status, 303);
    let ended = asked.execution.end().await?;
    assert_eq!(
        (ended.status.as_str(), ended.code()),
        ("FAILED", "APPROVED_NOT_APPLIED")
    );
    let audit = asked.audit(world).await?;
    let codes: Vec<_> = audit.refusals.iter().map(Refusal::code).collect();
    assert_eq!(codes, ["APPLY_TIME_OVER"]);
    assert_eq!(audit.decided_by.as_deref(), Some(LINK_HOLDER));
    assert_eq!(asked.offsets(world).await?, [Some(5)]);
    let page = asked.get().await?;
    assert_eq!(page.status, 200);
    assert!(
        page.body
            .contains("Approved, but not applied: nothing was sent."),
        "{}",
        page.body
    );
    assert!(page.body.contains("APPLY_TIME_OVER"));
    Ok(())
}

/// Stores a decision as the page does, and is cut off before it is delivered. The answer is when it was taken.
async fn store_decision(world: &World, asked: &Asked, decision: Decision) -> Result<Timestamp> {
    let digest = asked.approval(world).await?.digest;
    let now = Timestamp::now();
    let decided = world
        .store
        .decide(&asked.hash, &digest, decision, LINK_HOLDER, "", now)
        .await?;
    assert!(matches!(decided, Decided::Now(_)), "{decided:?}");
    Ok(now)
}

/// Sends a stored decision again through the form that the page shows then.
async fn resend(asked: &Asked) -> Result<Answer> {
    let page = asked.get().await?.body;
    assert!(page.contains("Send the decision again"), "{page}");
    let token = form_token(&page, "approve").ok_or("no form to send it again")?;
    asked
        .post(&[("decision", "approve"), ("token", &token)])
        .await
}

async fn a_rejection_is_told_with_its_reason(world: &World) -> Outcome {
    let asked = Asked::of(world, "test").await?;
    let why = "not today <b>&</b> *not* like this\r\n<!channel> ask <@U012ABCDEF>";
    let answer = asked.decide("reject", why).await?;
    assert_eq!(answer.status, 303);
    let ended = asked.execution.end().await?;
    assert_eq!(
        (ended.status.as_str(), ended.code()),
        ("SUCCEEDED", "REJECTED")
    );
    assert_eq!(asked.offsets(world).await?, [Some(5)]);
    let stored = "not today <b>&</b> *not* like this\n<!channel> ask <@U012ABCDEF>";
    let approval = asked.approval(world).await?;
    assert_eq!(approval.reason.as_deref(), Some(stored));
    let audit = asked.audit(world).await?;
    assert!(audit.message.contains(stored), "{}", audit.message);
    let page = asked.get().await?;
    assert_eq!(page.status, 200);
    assert!(page.body.contains("Rejected. Nothing was moved."));
    assert!(
        page.body.contains(
            "Reason: not today &#60;b&#62;&#38;&#60;/b&#62; *not* like this &#60;!channel&#62;"
        ),
        "{}",
        page.body
    );
    let told = world.told(&asked.execution.arn.0)?;
    assert_eq!(told.len(), 1);
    assert!(
        told[0].contains("not today <b>&</b> *not* like this <!channel> ask <@U012ABCDEF>"),
        "{told:?}"
    );

    // A second click shows who decided and when, and changes nothing.
    let before = asked.state(world).await?;
    let token = signed(world, &asked, "approve", Timestamp::now().as_second() + 60).await?;
    let again = [
        ("decision", "approve"),
        ("token", token.as_str()),
        ("group", asked.group.as_str()),
    ];
    let answer = asked.post(&again).await?;
    assert_eq!(answer.status, 409);
    assert!(answer.body.contains("This was decided before"));
    let at = approval.decided_at.ok_or("decided at no time")?;
    let at = at.strftime("%Y-%m-%d %H:%M:%S UTC");
    let by = format!("Decided by {LINK_HOLDER} on {at}.");
    assert!(answer.body.contains(&by), "{}", answer.body);
    assert_eq!(asked.state(world).await?, before);
    Ok(())
}

async fn a_later_link_takes_the_place_of_an_earlier_one(world: &World) -> Outcome {
    let first = Asked::of(world, "test").await?;
    let first_token = first.token("approve").await?;
    // The same step once more, as after a time-out of the first.
    let event = json!({
        "step": "request", "execution": first.execution.arn, "plan_id": first.plan,
        "task_token": first.task_token(world).await?.expose(),
    });
    let asked_again = world
        .operator
        .invoke(&world.stack, Function::ApprovalTask, &event);
    assert_eq!(asked_again.await?, Invoked::Returned(json!({})));
    let message = world.stack.slack().until(PATIENCE, |message| {
        let text = text_of(message);
        text.contains(&first.topic) && link_in(&text).is_some_and(|link| link != first.link)
    });
    let message = text_of(&message.await?);
    let link = link_in(&message).ok_or("no link")?.to_owned();
    let (group, topic) = (first.group.clone(), first.topic.clone());
    let second = Asked::known(world, group, topic, first.execution.clone(), link).await?;
    assert_eq!(second.plan, first.plan);

    let superseded = first.state(world).await?;
    let pending = second.state(world).await?;
    assert_eq!(
        first.approval(world).await?.status,
        ApprovalStatus::Superseded
    );
    let page = first.get().await?;
    assert_eq!(page.status, 410);
    assert!(
        page.body
            .contains("Superseded: another request took its place.")
    );
    let fields = |token| {
        [
            ("decision", "approve"),
            ("token", token),
            ("group", first.group.as_str()),
        ]
    };
    assert_eq!(first.post(&fields(&first_token)).await?.status, 410);
    // Plan, digest and decision are the same ones; the link is not.
    let second_token = second.token("approve").await?;
    assert_eq!(second.post(&fields(&first_token)).await?.status, 403);
    assert_eq!(first.post(&fields(&second_token)).await?.status, 403);
    assert_eq!(first.state(world).await?, superseded);
    assert_eq!(second.state(world).await?, pending);

    assert_eq!(second.post(&fields(&second_token)).await?.status, 303);
    assert_eq!(second.execution.end().await?.code(), "VERIFIED");
    assert_eq!(second.offsets(world).await?, [Some(2)]);
    Ok(())
}

async fn links_that_never_were_all_look_alike(world: &World) -> Outcome {
    let asked = Asked::of(world, "test").await?;
    let before = asked.state(world).await?;
    let (base, id) = asked.link.rsplit_once('/').ok_or("no link")?;
    let never = LinkId::random()?;
    let flipped: String = id.chars().rev().collect();
    let ids = [
        never.expose(),
        &flipped,
        &id[1..],
        &format!("{id}="),
        &format!("{id}A"),
        &id.to_lowercase(),
        "x",
        "%00",
        "%3Cscript%3E",
        "..",
        asked.plan.0.as_str(),
        asked.hash.as_str(),
        &"a".repeat(2_000),
    ]
    .map(str::to_owned);
    let http = to_loopback(&asked.link)?;
    let mut answers = BTreeSet::new();
    for id in ids.iter().filter(|id| *id != "..") {
        let answer = request(&http, Method::GET, &format!("{base}/{id}"), &[], None).await?;
        answers.insert((answer.status, answer.body));
        let headers = [FORM, ("origin", &origin(&asked.link)?)];
        let body = Some(form(&[("decision", "approve"), ("group", &asked.group)]));
        let answer = request(&http, Method::POST, &format!("{base}/{id}"), &headers, body).await?;
        answers.insert((answer.status, answer.body));
    }
    assert_eq!(answers.len(), 1, "{answers:?}");
    let (status, text) = answers.first().ok_or("no answer")?;
    assert_eq!(*status, 404);
    assert!(text.contains("There is no such approval"));
    assert!(!text.contains(&asked.group));
    assert_eq!(asked.state(world).await?, before);
    Ok(())
}

async fn a_stored_decision_is_delivered(world: &World) -> Outcome {
    let (by_form, by_another, by_sweep) = tokio::try_join!(
        Asked::of(world, "test"),
        Asked::of(world, "test"),
        Asked::of(world, "test")
    )?;
    let contradicting = by_another.token("reject").await?;
    for asked in [&by_form, &by_another, &by_sweep] {
        store_decision(world, asked, Decision::Approve).await?;
        // Looking does not deliver it.
        let before = asked.state(world).await?;
        let page = asked.get().await?;
        assert!(page.body.contains("Approved. Nothing has been moved yet."));
        assert_eq!(asked.state(world).await?, before);
        assert!(asked.execution.ended().await?.is_none());
    }
    assert_eq!(resend(&by_form).await?.status, 303);

    // Who sends the opposite wakes the execution too, and does not change what it reads then.
    let fields = [
        ("decision", "reject"),
        ("token", contradicting.as_str()),
        ("reason", "too late"),
    ];
    let answer = by_another.post(&fields).await?;
    assert_eq!(answer.status, 409);
    assert!(answer.body.contains("This was decided before"));

    let swept = by_sweep.sweep(world).await?;
    assert_eq!(swept["delivered"], 1, "{swept}");

    for asked in [&by_form, &by_another, &by_sweep] {
        let ended = asked.execution.end().await?;
        assert_eq!(
            (ended.status.as_str(), ended.code()),
            ("SUCCEEDED", "VERIFIED")
        );
        assert_eq!(asked.offsets(world).await?, [Some(2)]);
        let approval = asked.approval(world).await?;
        assert_eq!(approval.status, ApprovalStatus::Approved);
        assert!(approval.delivered_at.is_some());
        assert_eq!(approval.reason.as_deref(), Some(""));
    }
    Ok(())
}

async fn every_answer_keeps_to_itself(world: &World) -> Outcome {
    let asked = Asked::of(world, "test").await?;
    let http = to_loopback(&asked.link)?;
    let get = async |suffix: &str| {
        let url = format!("{}{suffix}", asked.link);
        request(&http, Method::GET, &url, &[], None).await
    };
    let (base, _) = asked.link.rsplit_once('/').ok_or("no link")?;
    let answers = [
        (200, get("").await?),
        (200, get("?format=csv").await?),
        (200, get("?page=2").await?),
        (200, asked.send(Method::HEAD, &[], None).await?),
        (404, get("x").await?),
        (
            404,
            request(&http, Method::GET, &format!("{base}/x"), &[], None).await?,
        ),
        (403, asked.post(&[("decision", "approve")]).await?),
        (
            415,
            asked.send(Method::POST, &[], Some(String::new())).await?,
        ),
        (422, asked.decide("reject", " ").await?),
        (303, asked.decide("reject", "a test").await?),
    ];
    let policy = [
        "default-src 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "style-src 'sha256-",
    ];
    for (status, answer) in answers {
        assert_eq!(answer.status, status);
        let header = |name: &str| {
            let value = answer
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        assert_eq!(header("cache-control"), "no-store", "{status}");
        assert_eq!(header("referrer-policy"), "same-origin", "{status}");
        assert_eq!(header("x-content-type-options"), "nosniff", "{status}");
        assert_eq!(header("x-robots-tag"), "noindex", "{status}");
        let sent = header("content-security-policy");
        for part in policy {
            assert!(sent.contains(part), "{status} {sent}");
        }
        assert!(
            !sent.contains("inline") && !sent.contains("script-src"),
            "{sent}"
        );
        assert_eq!(header("set-cookie"), "", "{status}");
        assert!(!answer.body.contains("<script"), "{status}");
    }
    // Where the form leads is said without the host, so that it holds behind any name.
    asked.execution.end().await?;
    Ok(())
}

async fn the_csv_has_the_digest_that_is_approved(world: &World) -> Outcome {
    let asked = Asked::of(world, "test").await?;
    let http = to_loopback(&asked.link)?;
    let url = format!("{}?format=csv", asked.link);
    let csv = request(&http, Method::GET, &url, &[], None).await?;
    let digest = HEXLOWER.encode(&Sha256::digest(&csv.body));
    assert_eq!(asked.approval(world).await?.digest.0, digest);
    assert!(
        asked
            .get()
            .await?
            .body
            .contains(&format!("sha256 {digest}"))
    );
    let name = format!("attachment; filename=\"plan-{}.csv\"", asked.plan);
    assert_eq!(csv.headers["content-disposition"], name.as_str());
    assert!(csv.body.contains(&asked.topic) && csv.body.contains(&asked.group));

    assert_eq!(asked.decide("approve", "").await?.status, 303);
    assert_eq!(asked.execution.end().await?.code(), "VERIFIED");
    let audit = asked.audit(world).await?;
    assert_eq!(audit.digest.map(|digest| digest.0), Some(digest));
    assert_eq!(
        request(&http, Method::GET, &url, &[], None).await?.body,
        csv.body
    );
    Ok(())
}
