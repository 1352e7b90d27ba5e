//! People decide in a real Chromium: what it sends with a form is part of what must work.

use std::time::{Duration, Instant};

use offset_guard::domain::approval::ApprovalStatus;
use offset_guard_local::browser::Browser;
use offset_guard_local::client::{Commit, MemberOptions};
use offset_guard_local::operator::text_of;
use offset_guard_tests::{Outcome, PATIENCE, World, now, on_kafka_4};
use serde_json::json;

use crate::asked::{Asked, Result, link_of};

on_kafka_4!(
    a_person_approves_and_follows,
    a_person_rejects_and_another_window_comes_too_late,
    a_page_that_was_left_open_says_that_time_is_over,
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

/// Takes a picture of the whole page on every screen, into the stack's folder. Nothing may stick out at the side.
async fn look(world: &World, browser: &Browser, name: &str) -> Outcome {
    let pictures = world.stack.dir().join("pages");
    std::fs::create_dir_all(&pictures)?;
    for (width, dark) in SCREENS {
        browser.emulate(width, 800, dark).await?;
        let sizes = "const page = document.documentElement; return [page.scrollWidth, page.clientWidth, page.scrollHeight];";
        let sizes = browser.webdriver().execute(sizes, Vec::new()).await?;
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
    browser.emulate(1280, 800, false).await?;
    Ok(())
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
    world.consume(&group, &topic, 3, 93).await?;
    world.checkpoint(&group).await?;
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
    follow(&browser, &asked.link, "Approved and admitted").await?;
    let page = browser.text("main").await?;
    assert!(page.contains("Stop the group's consumers now"), "{page}");
    look(world, &browser, "approved").await?;
    let decided_at = asked.approval(world).await?.decided_at;
    assert_eq!(
        asked.approval(world).await?.status,
        ApprovalStatus::Approved
    );

    // A reload sends nothing again.
    browser.webdriver().refresh().await?;
    browser.until_text(LEAD, "Approved", PATIENCE).await?;
    assert_eq!(asked.approval(world).await?.decided_at, decided_at);

    member.stop().await?;
    follow(&browser, &asked.link, "Applied and verified").await?;
    assert_eq!(asked.execution.end().await?.code(), "VERIFIED");
    browser.goto(&asked.link).await?;
    let page = browser.text("main").await?;
    assert!(page.contains("Reported: VERIFIED"), "{page}");
    look(world, &browser, "verified").await?;
    let offsets = world.offsets(&asked.group, &asked.topic, 3).await?;
    assert_eq!(offsets, [Some(31); 3]);
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

async fn hostile_names_are_text(world: &World) -> Outcome {
    let evil = r#"<script>alert(1)</script>&"'"#;
    let group = format!("{}-{evil}", world.group("waiting"));
    // As many and as long names as Slack would refuse in one piece.
    let topic = world.topic(&"t".repeat(200));
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

    browser.fill("#group", &asked.group).await?;
    browser.click(APPROVE).await?;
    browser.until_text(LEAD, "Approved", PATIENCE).await?;
    harmless(&browser, &asked).await?;
    member.stop().await?;
    follow(&browser, &asked.link, "Applied and verified").await?;
    assert_eq!(asked.execution.end().await?.code(), "VERIFIED");
    browser.goto(&asked.link).await?;
    harmless(&browser, &asked).await?;

    // In Slack the only thing between angle brackets is the link, and no line is a stranger's.
    let messages = world.stack.slack().messages()?;
    let told: Vec<_> = messages
        .iter()
        .filter(|message| text_of(message).contains(&world.group("waiting")))
        .collect();
    assert_eq!(told.len(), 2, "the request and the result");
    for message in told {
        let all = message
            .to_string()
            .replace(&format!("<{}|", asked.link), "");
        assert!(!all.contains('<'), "{all}");
        let text = text_of(message);
        assert!(!text.contains("\n*Decide before noon*"), "{text}");
        assert!(
            text.contains("&lt;script&gt;alert(1)&lt;/script&gt;&amp;\"'"),
            "{text}"
        );
    }
    browser.stop().await?;
    Ok(())
}

/// Nothing ran, nothing was loaded, and the group's name stands there as it is.
async fn harmless(browser: &Browser, asked: &Asked) -> Outcome {
    assert!(!browser.has_dialog().await?);
    let script = "return [document.scripts.length, document.images.length, document.querySelectorAll('svg').length];";
    let found = browser.webdriver().execute(script, Vec::new()).await?;
    assert_eq!(found, json!([0, 0, 0]));
    assert_eq!(browser.text(NAME).await?, asked.group);
    Ok(())
}
