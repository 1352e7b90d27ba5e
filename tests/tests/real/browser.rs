//! People decide in a real Chromium: what it sends with a form is part of what must work.

use std::time::{Duration, Instant};

use fantoccini::Locator;
use offset_guard::domain::approval::ApprovalStatus;
use offset_guard::page::visible;
use offset_guard_local::browser::{Browser, Key};
use offset_guard_local::client::{Commit, MemberOptions};
use offset_guard_local::operator::{Function, Invoked, text_of};
use offset_guard_tests::{Outcome, PATIENCE, World, now, on_kafka_4};
use serde_json::json;

use crate::asked::{Asked, Result, link_of};
use crate::secrecy::logs;

on_kafka_4!(
    a_person_approves_and_follows,
    a_keyboard_is_enough,
    a_person_rejects_and_another_window_comes_too_late,
    a_program_that_sends_every_form_decides_nothing,
    a_page_that_was_left_open_says_that_time_is_over,
    a_form_of_another_link_and_a_link_that_was_replaced_do_nothing,
    hostile_names_are_text,
);

const APPROVE: &str = "button.primary";
const REJECT: &str = "#reason + button";
/// The page's headline.
const LEAD: &str = ".lead";
/// The name of the group in the page's heading.
const NAME: &str = "h1 .name";

/// A phone and a desk, by day and by night.
const SCREENS: [(u32, bool); 4] = [(390, false), (390, true), (1280, false), (1280, true)];

/// What is wrong with how a page is built: controls that are too small to be hit (WCAG 2.2, 2.5.8) or have no name, and
/// references to nothing.
const FAULTS: &str = r#"
const faults = [];
for (const control of document.querySelectorAll("a, button, summary, textarea, input:not([type=hidden])")) {
  const named = control.labels ? control.labels.length > 0 : true;
  if (!(named || control.textContent.trim()) || control.getBoundingClientRect().height < 24) faults.push(control.outerHTML);
}
for (const link of document.querySelectorAll("a[href^='#']"))
  if (!document.querySelector(link.getAttribute("href"))) faults.push(link.outerHTML);
for (const name of ["aria-labelledby", "aria-describedby"])
  for (const element of document.querySelectorAll(`[${name}]`))
    for (const id of element.getAttribute(name).split(" "))
      if (!document.getElementById(id)) faults.push(`${name} of ${id}`);
const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
if (new Set(ids).size !== ids.length) faults.push(`twice: ${ids}`);
for (const one of ["h1", "main", "header", "title", "html[lang=en]"])
  if (document.querySelectorAll(one).length !== 1 + (one === "title" ? document.querySelectorAll("svg").length : 0)) faults.push(one);
return faults;
"#;

/// The narrowest screen on which nothing may stick out at the side (WCAG 2.2, 1.4.10); also a desk's at 400 per cent.
const NARROWEST: u32 = 320;

/// Takes a picture of the whole page on every screen, into the stack's folder. Nothing may stick out at the side, and
/// everybody must be able to use it.
async fn look(world: &World, browser: &Browser, name: &str) -> Outcome {
    let pictures = world.stack.dir().join("pages");
    std::fs::create_dir_all(&pictures)?;
    for (width, dark) in SCREENS {
        browser.emulate(width, 800, dark).await?;
        let faults = browser.webdriver().execute(FAULTS, Vec::new()).await?;
        assert_eq!(faults, json!([]), "{name} at {width} pixels");
        let sizes = sizes(browser).await?;
        assert_eq!(sizes[0], sizes[1], "{name} sticks out of {width} pixels");
        let height = sizes[2]
            .as_u64()
            .and_then(|height| u32::try_from(height).ok());
        browser
            .emulate(width, height.ok_or("no height")?, dark)
            .await?;
        let scheme = if dark { "dark" } else { "light" };
        let picture = pictures.join(format!("{name}-{width}-{scheme}.png"));
        browser.screenshot(&picture).await?;
    }
    browser.emulate(NARROWEST, 800, false).await?;
    let narrow = sizes(browser).await?;
    assert_eq!(
        narrow[0], narrow[1],
        "{name} sticks out of {NARROWEST} pixels"
    );
    browser.emulate(1280, 800, false).await?;
    Ok(())
}

/// How wide a page is, how wide its window is, and how high it is.
async fn sizes(browser: &Browser) -> Result<serde_json::Value> {
    let sizes = "const page = document.documentElement; return [page.scrollWidth, page.clientWidth, page.scrollHeight];";
    Ok(browser.webdriver().execute(sizes, Vec::new()).await?)
}

/// Loads the page, as a person does who waits, until its headline says what is waited for.
async fn follow(browser: &Browser, link: &str, wanted: &str) -> Outcome {
    let start = Instant::now();
    loop {
        browser.goto(link).await?;
        let lead = browser.text(LEAD).await?;
        if lead.contains(wanted) {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            return Err(format!("waited for {wanted:?}; the page says {lead:?}").into());
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

/// Whether there is something at a CSS selector.
async fn shows(browser: &Browser, selector: &str) -> Result<bool> {
    let script = "return document.querySelector(arguments[0]) !== null;";
    let found = browser.webdriver().execute(script, vec![json!(selector)]);
    Ok(found.await? == json!(true))
}

async fn a_person_approves_and_follows(world: &World) -> Outcome {
    let (topic, group) = (world.topic("shipments"), world.group("waiting"));
    world.filled_topic(&topic, 3, 31).await?;
    for read in [7, 16, 24, 31] {
        let commits: Vec<_> = (0..3).map(|p| Commit::new(&topic, p, read)).collect();
        world.client.commit(&group, &commits).await?;
        world.checkpoint(&group).await?;
    }
    let before_release = now();
    world.produce(&topic, 1, 12).await?;
    let member = world.member(&group, &topic, 3).await?;
    member.until_read(12, PATIENCE).await?;
    member.commit().await?;
    let rewind = json!({
        "rewind_before": before_release, "requested_by": "dana@example.com",
        "reason": "Release 4.2 marked 12 shipments as sent that never left.",
    });
    let execution = world
        .operator
        .request(world.rewind(&group, &rewind))
        .await?;
    let link = link_of(world, &topic).await?;
    let asked = Asked::known(world, group, topic, execution, link).await?;

    let browser = Browser::start().await?;
    browser.goto(&asked.link).await?;
    browser
        .until_text(LEAD, "Waits for a decision", PATIENCE)
        .await?;
    assert_eq!(browser.text(NAME).await?, asked.group);
    let described = browser.text("#chart-desc").await?;
    assert!(described.starts_with("4 checkpoints, from "), "{described}");
    assert!(
        described.ends_with(" moves it from 43 to 31."),
        "{described}"
    );
    look(world, &browser, "open").await?;

    // A wrong name first.
    let before = asked.state(world).await?;
    browser.fill("#group", "another-group").await?;
    browser.click(APPROVE).await?;
    browser
        .until_text("#wrong", "That is not the group's id", PATIENCE)
        .await?;
    look(world, &browser, "wrong-name").await?;
    assert_eq!(asked.state(world).await?, before);

    browser.fill("#group", &asked.group).await?;
    browser.click(APPROVE).await?;
    browser.until_text(LEAD, "Approved", PATIENCE).await?;
    assert_eq!(
        browser.webdriver().current_url().await?.as_str(),
        asked.link
    );
    // From here on the page loads itself again, to the end.
    browser
        .until_text(LEAD, "Approved and admitted", PATIENCE)
        .await?;
    let page = browser.text("main").await?;
    assert!(page.contains("Stop the group's consumers now"), "{page}");
    assert!(
        page.contains(&format!("client-of-{} at /127.0.0.1", asked.group)),
        "{page}"
    );
    look(world, &browser, "waiting").await?;
    let decided_at = asked.approval(world).await?.decided_at;
    assert_eq!(
        asked.approval(world).await?.status,
        ApprovalStatus::Approved
    );

    // The way back leads to no form, and a reload sends nothing again.
    browser.webdriver().back().await?;
    browser.until_text(LEAD, "Approved", PATIENCE).await?;
    assert!(!shows(&browser, "#group").await?);
    browser.webdriver().refresh().await?;
    browser.until_text(LEAD, "Approved", PATIENCE).await?;
    assert_eq!(asked.approval(world).await?.decided_at, decided_at);

    member.stop().await?;
    browser
        .until_text(LEAD, "Applied and verified", PATIENCE)
        .await?;
    browser
        .until_text("main", "Reported: VERIFIED", PATIENCE)
        .await?;
    assert!(!shows(&browser, "meta[http-equiv=refresh]").await?);
    assert_eq!(browser.text("td.good").await?, "applied");
    assert_eq!(asked.execution.end().await?.code(), "VERIFIED");
    look(world, &browser, "verified").await?;
    let offsets = world.offsets(&asked.group, &asked.topic, 3).await?;
    assert_eq!(offsets, [Some(31); 3]);
    browser.stop().await?;
    Ok(())
}

async fn a_keyboard_is_enough(world: &World) -> Outcome {
    let asked = Asked::of(world, "test").await?;
    let browser = Browser::start().await?;
    browser.goto(&asked.link).await?;
    let press = async |keys: &str| -> Outcome {
        let focused = browser.webdriver().active_element().await?;
        Ok(focused.send_keys(keys).await?)
    };
    let (tab, enter) = (Key::Tab.to_string(), Key::Enter.to_string());
    // The first stop is the way past everything.
    press(&tab).await?;
    let first = browser.webdriver().active_element().await?;
    assert_eq!(first.text().await?, "Skip to the decision");
    press(&enter).await?;
    press(&tab).await?;
    let field = browser.webdriver().active_element().await?;
    assert_eq!(field.attr("id").await?.as_deref(), Some("group"));
    press(&asked.group).await?;
    press(&tab).await?;
    let button = browser.webdriver().active_element().await?;
    assert_eq!(button.text().await?, "Approve");
    look(world, &browser, "typed").await?;
    press(&enter).await?;
    browser
        .until_text(LEAD, "Applied and verified", PATIENCE)
        .await?;
    assert_eq!(asked.execution.end().await?.code(), "VERIFIED");
    assert_eq!(asked.offsets(world).await?, [Some(2)]);
    browser.stop().await?;
    Ok(())
}

async fn a_person_rejects_and_another_window_comes_too_late(world: &World) -> Outcome {
    let asked = Asked::of(world, "test").await?;
    let browser = Browser::start().await?;
    browser.goto(&asked.link).await?;
    let first = browser.webdriver().window().await?;
    let second = browser.webdriver().new_window(true).await?.handle;
    browser.webdriver().switch_to_window(second).await?;
    browser.goto(&asked.link).await?;
    browser.fill("#group", &asked.group).await?;

    browser.webdriver().switch_to_window(first).await?;
    browser.fill("#reason", "the shipments did leave").await?;
    // An impatient double click.
    let twice =
        "const button = document.querySelector(arguments[0]); button.click(); button.click();";
    browser
        .webdriver()
        .execute(twice, vec![json!(REJECT)])
        .await?;
    browser
        .until_text(LEAD, "Rejected. Nothing was moved.", PATIENCE)
        .await?;
    // Neither the way back nor the way forth brings the form back.
    browser.webdriver().back().await?;
    browser
        .until_text(LEAD, "Rejected. Nothing was moved.", PATIENCE)
        .await?;
    assert!(!shows(&browser, "#group").await?);
    browser.webdriver().forward().await?;
    browser
        .until_text(LEAD, "Rejected. Nothing was moved.", PATIENCE)
        .await?;
    let approval = asked.approval(world).await?;
    assert_eq!(approval.status, ApprovalStatus::Rejected);
    assert_eq!(approval.reason.as_deref(), Some("the shipments did leave"));

    let windows = browser.webdriver().windows().await?;
    let second = windows.into_iter().nth(1).ok_or("no second window")?;
    browser.webdriver().switch_to_window(second).await?;
    browser.click(APPROVE).await?;
    browser
        .until_text(LEAD, "Rejected. Nothing was moved.", PATIENCE)
        .await?;
    let page = browser.text("main").await?;
    assert!(page.contains("This was decided before"), "{page}");
    assert!(page.contains("Decided by a holder of the link"), "{page}");
    assert!(page.contains("the shipments did leave"), "{page}");
    assert_eq!(asked.execution.end().await?.code(), "REJECTED");
    follow(&browser, &asked.link, "Rejected").await?;
    look(world, &browser, "rejected").await?;
    assert_eq!(asked.offsets(world).await?, [Some(5)]);
    browser.stop().await?;
    Ok(())
}

/// Scanners of mail and chat open links in a browser and send what forms they find, past the browser's own checks.
async fn a_program_that_sends_every_form_decides_nothing(world: &World) -> Outcome {
    let asked = Asked::of(world, "test").await?;
    let before = asked.state(world).await?;
    let browser = Browser::start().await?;
    browser.goto(&asked.link).await?;
    let forms = browser.webdriver().find_all(Locator::Css("form")).await?;
    assert_eq!(forms.len(), 2);
    for index in 0..forms.len() {
        browser.goto(&asked.link).await?;
        browser
            .webdriver()
            .execute("document.forms[arguments[0]].submit()", vec![json!(index)])
            .await?;
        browser
            .until_text("[role=alert]", "Nothing was decided", PATIENCE)
            .await?;
        assert_eq!(asked.state(world).await?, before);
    }
    look(world, &browser, "unsaid").await?;
    browser.stop().await?;
    Ok(())
}

async fn a_page_that_was_left_open_says_that_time_is_over(world: &World) -> Outcome {
    let browser = Browser::start().await?;
    let asked = Asked::of(world, "hasty").await?;
    browser.goto(&asked.link).await?;
    browser.fill("#group", &asked.group).await?;
    let before = asked.state(world).await?;
    while asked.get().await?.status == 200 {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    browser.click(APPROVE).await?;
    browser
        .until_text(LEAD, "Expired: nobody decided by", PATIENCE)
        .await?;
    let page = browser.text("main").await?;
    assert!(page.contains("What you sent has changed nothing"), "{page}");
    assert!(!shows(&browser, "#group").await?);
    assert_eq!(asked.state(world).await?, before);
    look(world, &browser, "expired").await?;

    browser.goto(&format!("{}x", asked.link)).await?;
    browser
        .until_text("h1", "There is no such approval", PATIENCE)
        .await?;
    look(world, &browser, "unknown").await?;
    asked.sweep(world).await?;
    assert_eq!(asked.execution.end().await?.code(), "APPROVAL_EXPIRED");
    browser.stop().await?;
    Ok(())
}

async fn a_form_of_another_link_and_a_link_that_was_replaced_do_nothing(world: &World) -> Outcome {
    let (asked, other) = tokio::try_join!(Asked::of(world, "test"), Asked::of(world, "test"))?;
    let before = (asked.state(world).await?, other.state(world).await?);
    let browser = Browser::start().await?;
    browser.goto(&asked.link).await?;
    // Whoever lures with a form of their own has a link of their own at most.
    let foreign = "document.querySelector('[name=token]').value = arguments[0];";
    let token = json!(other.token("approve").await?);
    browser.webdriver().execute(foreign, vec![token]).await?;
    browser.fill("#group", &asked.group).await?;
    browser.click(APPROVE).await?;
    browser
        .until_text("h1", "Not this page's form", PATIENCE)
        .await?;
    look(world, &browser, "foreign-form").await?;
    assert_eq!(
        (asked.state(world).await?, other.state(world).await?),
        before
    );
    browser.click("main a").await?;
    browser
        .until_text(LEAD, "Waits for a decision", PATIENCE)
        .await?;

    // The same step once more takes the link's place, also of a page that stands open.
    let event = json!({
        "step": "request", "execution": asked.execution.arn, "plan_id": asked.plan,
        "task_token": asked.task_token(world).await?.expose(),
    });
    let again = world
        .operator
        .invoke(&world.stack, Function::ApprovalTask, &event);
    assert_eq!(again.await?, Invoked::Returned(json!({})));
    let replaced = asked.state(world).await?;
    browser.fill("#group", &asked.group).await?;
    browser.click(APPROVE).await?;
    browser.until_text(LEAD, "Superseded", PATIENCE).await?;
    let page = browser.text("main").await?;
    assert!(page.contains("What you sent has changed nothing"), "{page}");
    assert!(!shows(&browser, "#group").await?);
    look(world, &browser, "superseded").await?;
    assert_eq!(asked.state(world).await?, replaced);
    browser.stop().await?;
    Ok(())
}

async fn hostile_names_are_text(world: &World) -> Outcome {
    let evil = r#"<script>alert(1)</script>&"'"#;
    let group = format!("{}-{evil}\nERROR forged", world.group("waiting"));
    // As many and as long names as Slack would refuse in one piece, of all the signs that Kafka allows.
    let topic = world.topic(&format!("..-__proto__.-{}", "t".repeat(186)));
    world.filled_topic(&topic, 12, 5).await?;
    let commits: Vec<_> = (0..12).map(|p| Commit::new(&topic, p, 5)).collect();
    world.client.commit(&group, &commits).await?;
    let options = MemberOptions {
        client_id: Some("<img src=x onerror=alert(2)>".to_owned()),
        ..MemberOptions::of(world.setting.protocol)
    };
    let member = world.client.join(&group, &[&topic], &options)?;
    member.until_assigned(12, PATIENCE).await?;
    let reason = format!(
        "\"><svg onload=alert(3)> <!channel> <@U012ABCDEF>\n*Decide before noon*: <https://evil.example|read the plan>\n{}",
        "&".repeat(380)
    );
    let rewind = json!({
        "shift_by": -3, "reason": reason, "requested_by": "</p><b onmouseover=alert(4)>dana",
    });
    let execution = world
        .operator
        .request(world.rewind(&group, &rewind))
        .await?;
    let link = link_of(world, &topic).await?;
    let asked = Asked::known(world, group, topic, execution, link).await?;

    let browser = Browser::start().await?;
    browser.goto(&asked.link).await?;
    harmless(&browser, &asked).await?;
    let page = browser.text("main").await?;
    for shown in [
        "<img src=x onerror=alert(2)> at ",
        "\"><svg onload=alert(3)> <!channel> <@U012ABCDEF>",
        "</p><b onmouseover=alert(4)>dana",
    ] {
        assert!(page.contains(shown), "{shown} is not in {page}");
    }
    look(world, &browser, "hostile").await?;

    browser.fill("#group", &visible(&asked.group)).await?;
    browser.click(APPROVE).await?;
    browser.until_text(LEAD, "Approved", PATIENCE).await?;
    harmless(&browser, &asked).await?;
    member.stop().await?;
    follow(&browser, &asked.link, "Applied and verified").await?;
    assert_eq!(asked.execution.end().await?.code(), "VERIFIED");
    browser.goto(&asked.link).await?;
    harmless(&browser, &asked).await?;

    // In Slack the only text with markup is the page's own line, and no line is a stranger's.
    let messages = world.stack.slack().messages()?;
    let told: Vec<_> = messages
        .iter()
        .filter(|message| text_of(message).contains(&world.group("waiting")))
        .collect();
    assert_eq!(told.len(), 2, "the request and the result");
    for message in told {
        let blocks = message["blocks"].as_array().ok_or("no blocks")?;
        for text in blocks
            .iter()
            .flat_map(|block| [&block["text"], &block["elements"][0]])
        {
            let link = format!("<{}|read the plan>", asked.link);
            let text_of_it = text["text"].as_str().unwrap_or_default();
            match text["type"].as_str() {
                Some("mrkdwn") => assert!(text_of_it.ends_with(&link), "{text}"),
                Some("plain_text") => assert_eq!(text["emoji"], false),
                _ => assert!(text.is_null(), "{text}"),
            }
        }
        let title = message["text"].as_str().unwrap_or_default();
        assert!(!title.contains('<'), "{title}");
        let text = text_of(message);
        assert!(!text.contains("\n*Decide before noon*"), "{text}");
        assert!(text.contains("<script>alert(1)</script>&\"'"), "{text}");
    }
    // Nor is a line of a function's log.
    for (name, text) in logs(world).await? {
        if name.starts_with("/aws/lambda/") {
            assert!(
                !text.lines().any(|line| line.starts_with("ERROR forged")),
                "{name}"
            );
        }
    }
    browser.stop().await?;
    Ok(())
}

/// Nothing ran, nothing was loaded, and the group's name stands there as it is.
async fn harmless(browser: &Browser, asked: &Asked) -> Outcome {
    assert!(!browser.has_dialog().await?);
    let found = browser.webdriver().execute(LIVE, Vec::new()).await?;
    assert_eq!(found, json!([]));
    assert_eq!(browser.text(NAME).await?, visible(&asked.group));
    Ok(())
}

/// All that runs, loads or listens. The one drawing is the page's own.
const LIVE: &str = r#"
const live = [...document.querySelectorAll("script, img, iframe, object, embed, link, base, svg:not(.chart)")];
for (const element of document.querySelectorAll("*"))
  if ([...element.attributes].some((attribute) => attribute.name.startsWith("on"))) live.push(element);
return live.map((element) => element.outerHTML);
"#;
