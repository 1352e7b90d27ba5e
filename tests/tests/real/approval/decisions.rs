//! What decides, how often, and until when.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use jiff::{SignedDuration, Timestamp};
use offset_guard::app::decide::LINK_HOLDER;
use offset_guard::domain::approval::{ApprovalStatus, Decision};
use offset_guard::domain::audit::AuditStatus;
use offset_guard::domain::refusal::Refusal;
use offset_guard::store::Decided;
use offset_guard_local::operator::form_token;
use offset_guard_tests::{Outcome, PATIENCE, World, on_kafka_4};

use super::page::signed;
use crate::asked::{Answer, Asked, Result};

on_kafka_4!(
    twenty_clicks_make_one_decision,
    a_forged_callback_approves_nothing,
    nobody_decided_in_time,
    approved_and_too_late,
    a_rejection_is_told_with_its_reason,
    a_stored_decision_is_delivered,
);

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
