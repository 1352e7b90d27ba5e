//! People sign in at a real OpenID Connect provider, in a real Chromium, and four eyes are two people.

use std::collections::BTreeMap;

use fantoccini::Locator;
use offset_guard::domain::approval::ApprovalStatus;
use offset_guard::domain::identity::Requester;
use offset_guard_local::browser::Browser;
use offset_guard_local::client::Commit;
use offset_guard_local::keycloak::{self, Keycloak};
use offset_guard_local::stack::Stack;
use offset_guard_tests::readme::Proof;
use offset_guard_tests::{CLASSIC_ON_4, Outcome, PATIENCE, World, shared_options};
use reqwest::Method;
use serde_json::{Value, json};

use crate::asked::{Answer, Asked, FORM, Result, form, link_id, link_of, request};
use crate::readme::{DEFINITIONS, Shell};
use crate::secrecy::logs;

const APPROVE: &str = "button.primary";
const LEAD: &str = ".lead";
const SIGN_IN: &str = "main a";

const FOUR_EYES: &str = r#"
[[groups]]
cluster = "main"
pattern = "careful-*"
settle_seconds = 1
four_eyes = true

# The group of README.md's commands.
[[groups]]
cluster = "main"
name = "shipment-sync"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn only_people_whom_the_provider_knows_decide() -> Outcome {
    let mut keycloak = Keycloak::start().await?;
    let mut options = shared_options(CLASSIC_ON_4.kafka);
    options.parameters = BTreeMap::from(
        [
            ("OidcIssuer", keycloak.issuer().as_str()),
            ("OidcClientId", keycloak::PAGE_CLIENT),
            ("OidcGroups", keycloak::APPROVERS),
            ("OidcPersonClaim", "sub"),
            ("OidcApiAudience", keycloak::API_AUDIENCE),
            ("OidcApiGroups", keycloak::APPROVERS),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    options.config.push_str(FOUR_EYES);
    options.secrets = BTreeMap::from([(
        "OidcClientSecretArn".to_owned(),
        keycloak::PAGE_SECRET.to_owned(),
    )]);
    let world = World::of(Stack::start(&options).await?, CLASSIC_ON_4)?;
    keycloak.ready().await?;
    nobody_sees_a_plan_without_signing_in(&world).await?;
    a_member_signs_in_and_approves(&world, &keycloak).await?;
    whoever_is_in_no_group_that_may_decides_nothing(&world).await?;
    only_tokens_for_this_api_ask_for_anything(&world, &keycloak).await?;
    only_people_in_the_named_group_ask(&world, &keycloak).await?;
    four_eyes_are_two_people(&world, &keycloak).await?;
    what_readme_shows_to_api_clients(&world, &keycloak).await?;
    nobody_told_a_secret(&world, &keycloak).await?;
    keycloak.stop().await?;
    world.stack.stop().await?;
    Ok(())
}

/// Follows a link to its sign-in, and signs in there.
async fn sign_in(browser: &Browser, link: &str, person: &str) -> Outcome {
    browser.goto(link).await?;
    browser.click(SIGN_IN).await?;
    at_the_provider(browser, person).await
}

/// Signs in as somebody else than the one whom the provider remembers and asks for the password.
async fn as_somebody_else(browser: &Browser, person: &str) -> Outcome {
    browser
        .until_text("body", "Please re-authenticate to continue", PATIENCE)
        .await?;
    browser.click("#reset-login").await?;
    at_the_provider(browser, person).await
}

async fn at_the_provider(browser: &Browser, person: &str) -> Outcome {
    browser
        .until_text("body", "Sign in to your account", PATIENCE)
        .await?;
    browser.fill("#username", person).await?;
    browser
        .fill("#password", &keycloak::password(person))
        .await?;
    browser.click("#kc-login").await?;
    Ok(())
}

async fn nobody_sees_a_plan_without_signing_in(world: &World) -> Outcome {
    let asked = Asked::of(world, "test").await?;
    let before = asked.state(world).await?;
    let get = asked.get().await?;
    assert_eq!(get.status, 403);
    assert!(
        get.body.contains("Sign in to see this plan"),
        "{}",
        get.body
    );
    for hidden in [&asked.group, &asked.topic, &asked.plan.0] {
        assert!(!get.body.contains(hidden), "{}", get.body);
    }
    // Whether there is such a plan is for members too.
    let unknown = asked.link.replace(link_id(&asked.link), &"A".repeat(43));
    let http = crate::asked::to_loopback(&unknown)?;
    let other = request(&http, Method::GET, &unknown, &[], None).await?;
    assert_eq!((other.status, other.body), (403, get.body));
    let csv = format!("{}?format=csv", asked.link);
    let csv = request(&http, Method::GET, &csv, &[], None).await?;
    assert_eq!(csv.status, 403);
    let fields = [
        ("decision", "approve"),
        ("token", "x"),
        ("group", &asked.group),
    ];
    assert_eq!(asked.post(&fields).await?.status, 403);
    assert_eq!(asked.state(world).await?, before);
    Ok(())
}

async fn a_member_signs_in_and_approves(world: &World, keycloak: &Keycloak) -> Outcome {
    let asked = Asked::of(world, "test").await?;
    let browser = Browser::start().await?;
    sign_in(&browser, &asked.link, "mara").await?;
    browser
        .until_text(LEAD, "Waits for a decision", PATIENCE)
        .await?;
    let page = browser.text("main").await?;
    assert!(page.contains("You are signed in as Mara Ito"), "{page}");
    assert_eq!(
        browser.webdriver().current_url().await?.as_str(),
        asked.link
    );
    browser.fill("#group", &asked.group).await?;
    browser.click(APPROVE).await?;
    browser
        .until_text(LEAD, "Applied and verified", PATIENCE)
        .await?;
    let approval = asked.approval(world).await?;
    assert_eq!(approval.status, ApprovalStatus::Approved);
    let by = approval.decided_by.unwrap_or_default();
    let issuer = keycloak.issuer();
    assert!(by.starts_with("subject "), "{by}");
    assert!(
        by.ends_with(&format!(" (\"Mara Ito\"), identity verified by {issuer}")),
        "{by}"
    );
    asked.execution.end().await?;
    let audit = asked.audit(world).await?;
    assert_eq!(audit.decided_by.as_deref(), Some(by.as_str()));
    assert_eq!(audit.decider.map(|decider| decider.issuer), Some(issuer));
    browser.stop().await?;
    Ok(())
}

async fn whoever_is_in_no_group_that_may_decides_nothing(world: &World) -> Outcome {
    let asked = Asked::of(world, "test").await?;
    let before = asked.state(world).await?;
    let browser = Browser::start().await?;
    sign_in(&browser, &asked.link, "otto").await?;
    browser
        .until_text("h1", "Not for you to decide", PATIENCE)
        .await?;
    let page = browser.text("body").await?;
    assert!(page.contains("You are signed in as Otto Berg"), "{page}");
    assert!(
        page.contains("in none of the groups") && !page.contains(keycloak::APPROVERS),
        "{page}"
    );
    assert!(
        !page.contains(&asked.group) && !page.contains(&asked.topic),
        "{page}"
    );
    assert_eq!(asked.state(world).await?, before);

    // Somebody else at the same browser.
    browser.click("main a").await?;
    as_somebody_else(&browser, "dana").await?;
    browser
        .until_text(LEAD, "Waits for a decision", PATIENCE)
        .await?;
    browser.fill("#reason", "not tonight").await?;
    browser.click("#reason + button").await?;
    browser.until_text(LEAD, "Rejected", PATIENCE).await?;
    let by = asked.approval(world).await?.decided_by.unwrap_or_default();
    assert!(
        by.contains(" (\"Dana Lund\"), identity verified by "),
        "{by}"
    );
    browser.stop().await?;
    Ok(())
}

/// An access token of a person, as a command line gets one.
async fn token(keycloak: &Keycloak, client: &str, person: &str) -> Result<String> {
    let fields = [
        ("grant_type", "password"),
        ("client_id", client),
        ("username", person),
        ("password", &keycloak::password(person)),
        ("scope", "openid"),
    ];
    access_token(keycloak, &fields).await
}

/// An access token of a program of its own, in the group of those who may ask.
async fn machines_token(keycloak: &Keycloak) -> Result<String> {
    let fields = [
        ("grant_type", "client_credentials"),
        ("client_id", keycloak::MACHINE_CLIENT),
        ("client_secret", keycloak::MACHINE_SECRET),
    ];
    access_token(keycloak, &fields).await
}

async fn access_token(keycloak: &Keycloak, fields: &[(&str, &str)]) -> Result<String> {
    let address = format!("{}/protocol/openid-connect/token", keycloak.issuer());
    let http = crate::asked::to_loopback(&address)?;
    let answer = request(&http, Method::POST, &address, &[FORM], Some(form(fields))).await?;
    let answer: Value = serde_json::from_str(&answer.body)?;
    let token = answer["access_token"].as_str();
    Ok(token.ok_or("the provider gives no token")?.to_owned())
}

/// Whom the API sees.
async fn me(world: &World, token: &str) -> Result<Value> {
    let address = format!("{}/v1/me", world.stack.output("ApiUrl")?);
    let http = crate::asked::to_loopback(&address)?;
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    let answer = request(&http, Method::GET, &address, &headers, None).await?;
    assert_eq!(answer.status, 200, "{}", answer.body);
    Ok(serde_json::from_str(&answer.body)?)
}

/// Asks for a rewind as an API client does.
async fn ask(world: &World, token: Option<&str>, key: &str, body: &Value) -> Result<Answer> {
    let address = format!("{}/v1/rewinds", world.stack.output("ApiUrl")?);
    let http = crate::asked::to_loopback(&address)?;
    let bearer = token.map(|token| format!("Bearer {token}"));
    let mut headers = vec![("idempotency-key", key)];
    if let Some(bearer) = &bearer {
        headers.push(("authorization", bearer));
    }
    request(
        &http,
        Method::POST,
        &address,
        &headers,
        Some(body.to_string()),
    )
    .await
}

/// Until what is shown to the owner of a token under a key has come so far.
async fn until_shown(world: &World, token: &str, key: &str, code: &str) -> Outcome {
    let address = format!("{}/v1/recoveries/{key}", world.stack.output("ApiUrl")?);
    let http = crate::asked::to_loopback(&address)?;
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    let asked = std::time::Instant::now();
    loop {
        let answer = request(&http, Method::GET, &address, &headers, None).await?;
        let shown: Value = serde_json::from_str(&answer.body)?;
        if shown["code"] == code {
            return Ok(());
        }
        if asked.elapsed() > PATIENCE {
            return Err(format!("{code} was waited for: {}", answer.body).into());
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}

async fn only_tokens_for_this_api_ask_for_anything(world: &World, keycloak: &Keycloak) -> Outcome {
    let body = json!({ "request": { "group": world.group("test"), "shift_by": -1 } });
    let good = token(keycloak, keycloak::API_CLIENT, "mara").await?;
    let other = token(keycloak, "another-cli", "mara").await?;
    let (signed, _) = good.rsplit_once('.').ok_or("no signature")?;
    let unsigned = format!("{signed}.");
    for token in [
        None,
        Some("x"),
        Some(other.as_str()),
        Some(unsigned.as_str()),
    ] {
        let answer = ask(world, token, "nobody", &body).await?;
        assert_eq!(answer.status, 401, "{}", answer.body);
    }
    // With a sender's secret one asks elsewhere, where it names nobody.
    let address = format!("{}/rewinds", world.stack.output("ApiUrl")?);
    let http = crate::asked::to_loopback(&address)?;
    let bearer = format!("Bearer {good}");
    let headers = [("authorization", bearer.as_str())];
    let answer = request(
        &http,
        Method::POST,
        &address,
        &headers,
        Some(body.to_string()),
    )
    .await?;
    assert_eq!(answer.status, 401, "{}", answer.body);
    Ok(())
}

async fn only_people_in_the_named_group_ask(world: &World, keycloak: &Keycloak) -> Outcome {
    let body = json!({ "request": { "group": world.group("test"), "shift_by": -1 } });
    let code = |answer: &Answer| -> Result<Value> {
        Ok(serde_json::from_str::<Value>(&answer.body)?["code"].clone())
    };
    let otto = token(keycloak, keycloak::API_CLIENT, "otto").await?;
    let answer = ask(world, Some(&otto), "otto", &body).await?;
    assert_eq!((answer.status, code(&answer)?), (403, json!("MAY_NOT_ASK")));
    let seen = me(world, &otto).await?;
    assert_eq!(
        (&seen["name"], &seen["may_ask"]),
        (&json!("Otto Berg"), &json!(false))
    );

    // A program is nobody, although it is in the group.
    let machine = machines_token(keycloak).await?;
    let answer = ask(world, Some(&machine), "machine", &body).await?;
    assert_eq!(
        (answer.status, code(&answer)?),
        (403, json!("NOT_A_PERSON"))
    );
    let seen = me(world, &machine).await?;
    assert_eq!(
        (&seen["person"], &seen["may_ask"]),
        (&json!(false), &json!(false))
    );

    let mara = token(keycloak, keycloak::API_CLIENT, "mara").await?;
    let seen = me(world, &mara).await?;
    assert_eq!(
        (&seen["person"], &seen["may_ask"]),
        (&json!(true), &json!(true))
    );
    let aliases = seen["aliases"].as_array().ok_or("no aliases")?;
    assert!(aliases.contains(&json!("mara@example.com")), "{seen}");
    Ok(())
}

async fn what_readme_shows_to_api_clients(world: &World, keycloak: &Keycloak) -> Outcome {
    let mut shell = Shell::of(world).await?;
    shell.define(DEFINITIONS).await?;
    let token = token(keycloak, keycloak::API_CLIENT, "mara").await?;
    shell.set("ACCESS_TOKEN", &token);
    let asked = "curl -X POST \"$(output ApiUrl)/v1/rewinds\"";
    let taken: Value = serde_json::from_str(&shell.block(asked, &[]).await?)?;
    assert_eq!(taken["code"], "ACCEPTED", "{taken}");
    let me = "curl \"$(output ApiUrl)/v1/me\"";
    let seen: Value = serde_json::from_str(&shell.block(me, &[]).await?)?;
    assert_eq!(seen["may_ask"], true, "{seen}");
    let rotate = "aws secretsmanager put-secret-value --secret-id \"$(output FormKeyArn)\"";
    shell.block(rotate, &[]).await?;
    shell.has_run_all(Proof::RunWithSignIn)
}

async fn four_eyes_are_two_people(world: &World, keycloak: &Keycloak) -> Outcome {
    let (group, topic) = (world.group("careful"), world.topic("four-eyes"));
    world.filled_topic(&topic, 1, 5).await?;
    world
        .client
        .commit(&group, &[Commit::new(&topic, 0, 5)])
        .await?;
    // Whoever may start an execution can write any name into it.
    let named = json!({ "shift_by": -3, "requested_by": "subject 7 (\"Mara Ito\"), identity verified by nobody" });
    let refused = world.refused(world.rewind(&group, &named)).await?;
    assert_eq!(refused.codes, ["REQUESTER_UNVERIFIED"]);

    let body = json!({ "request": { "group": group, "shift_by": -3, "dry_run": false, "reason": "a test" } });
    let maras = token(keycloak, keycloak::API_CLIENT, "mara").await?;
    let key = format!("four-eyes-{}", world.group("key"));
    let answer = ask(world, Some(&maras), &key, &body).await?;
    assert_eq!(answer.status, 202, "{}", answer.body);
    let again = ask(world, Some(&maras), &key, &body).await?;
    assert_eq!(again.status, 200, "{}", again.body);
    let danas = token(keycloak, keycloak::API_CLIENT, "dana").await?;
    // A key is the asker's own: hers stands for another request, which finds the group held.
    let hers = ask(world, Some(&danas), &key, &body).await?;
    assert_eq!(hers.status, 202, "{}", hers.body);
    let mut others = body.clone();
    others["request"]["shift_by"] = json!(-2);
    let taken = ask(world, Some(&maras), &key, &others).await?;
    assert_eq!(taken.status, 422, "{}", taken.body);
    for (token, code) in [(&maras, "WAITING_FOR_APPROVAL"), (&danas, "ENDED")] {
        until_shown(world, token, &key, code).await?;
    }

    let link = link_of(world, &topic).await?;
    let approval = world.store.approval(&crate::asked::hash_of(&link)).await?;
    let execution = approval.ok_or("the link leads to no approval")?.execution;
    let execution = world.operator.execution(execution);
    let asked = Asked::known(world, group, topic, execution, link).await?;
    let before = asked.state(world).await?;

    let browser = Browser::start().await?;
    sign_in(&browser, &asked.link, "mara").await?;
    browser
        .until_text(LEAD, "Waits for a decision", PATIENCE)
        .await?;
    let page = browser.text("main").await?;
    assert!(
        page.contains("You asked for this plan, and this group needs four eyes"),
        "{page}"
    );
    assert!(
        page.contains("Asked by subject ") && page.contains(" (\"Mara Ito\")"),
        "{page}"
    );
    let forms = browser.webdriver().find_all(Locator::Css("#group")).await?;
    assert!(forms.is_empty());
    assert_eq!(asked.state(world).await?, before);

    browser.click("#decide ~ p a").await?;
    as_somebody_else(&browser, "dana").await?;
    browser
        .until_text("main", "You are signed in as Dana Lund", PATIENCE)
        .await?;
    browser.fill("#group", &asked.group).await?;
    browser.click(APPROVE).await?;
    browser
        .until_text(LEAD, "Applied and verified", PATIENCE)
        .await?;
    assert_eq!(asked.execution.end().await?.code(), "VERIFIED");
    assert_eq!(asked.offsets(world).await?, [Some(2)]);
    let audit = asked.audit(world).await?;
    let decider = audit.decider.ok_or("nobody decided")?;
    assert_eq!(decider.name(), "Dana Lund");
    match audit.requester {
        Requester::Verified(requester) => {
            assert_eq!(requester.name(), "Mara Ito");
            assert!(!requester.is(&decider));
        }
        other => return Err(format!("{other:?}").into()),
    }
    browser.stop().await?;
    Ok(())
}

/// Of all that went back and forth, nothing secret is in a log.
async fn nobody_told_a_secret(world: &World, keycloak: &Keycloak) -> Outcome {
    let token = token(keycloak, keycloak::API_CLIENT, "mara").await?;
    let (header, _) = token.split_once('.').ok_or("no token")?;
    for (name, text) in logs(world).await? {
        for secret in [
            keycloak::PAGE_SECRET,
            // What the provider sends people back with.
            "session_state=",
            "&code=",
            "code_verifier",
            "__Host-offset-guard",
            // Every token of this issuer begins with it.
            header,
        ] {
            assert!(!text.contains(secret), "{secret:?} is in {name}");
        }
    }
    Ok(())
}
