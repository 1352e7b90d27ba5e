//! Links and forms: who looks changes nothing, and only the form of the page decides.

use std::collections::BTreeSet;

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use offset_guard::app::link::LinkId;
use offset_guard::domain::approval::ApprovalStatus;
use offset_guard_local::operator::{Function, Invoked, form_token, link_in, text_of};
use offset_guard_tests::{Outcome, PATIENCE, World, on_kafka_4};
use reqwest::Method;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::asked::{Asked, FORM, Result, form, link_id, origin, request, to_loopback};
use crate::secrets::form_key;

on_kafka_4!(
    looking_changes_nothing,
    a_form_token_opens_its_own_form_alone,
    only_the_pages_own_form_is_taken,
    a_later_link_takes_the_place_of_an_earlier_one,
    links_that_never_were_all_look_alike,
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
pub(super) async fn signed(
    world: &World,
    asked: &Asked,
    decision: &str,
    expires: i64,
) -> Result<String> {
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
