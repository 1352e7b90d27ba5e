use aws_lambda_events::apigw::ApiGatewayV2httpResponse;
use sha2::{Digest, Sha256};

use super::*;
use crate::domain::audit::{Audit, AuditStatus};
use crate::domain::recovery::{Outcome, PartitionOutcome, Quiet};
use crate::domain::refusal::Refusal;
use crate::http::{BodyFault, Response};
use crate::page::ask::{Ask, link_text, read_ask, read_number};
use crate::page::csv_parts::answer_csv;
use crate::page::responses::redirect;
use crate::page::style::CSS;

fn shown(case: &ApprovalCase) -> Response {
    look(&link(), &key(), now()).show(case).unwrap()
}

fn html(case: &ApprovalCase) -> String {
    shown(case).body
}

fn snapshot(name: &str, html: &str) {
    assert!(
        html.contains(CSS),
        "the style sheet is in the page as it is"
    );
    insta::assert_snapshot!(name, html.replace(CSS, "(page.css)"));
}

fn header(response: &Response, name: &str) -> String {
    let headers = &response.headers;
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_owned()
}

#[test]
fn a_plan_that_waits_for_its_decision() {
    let mut case = pending();
    case.past = past();
    snapshot("pending", &html(&case));
}

/// How far commits may go forward stands in the plan, and is told also where nobody was seen whom to stop.
#[test]
fn an_approver_reads_how_far_commits_may_go_forward() {
    let mut case = pending();
    let told = |case: &ApprovalCase| {
        let text = "may go forward by at most 10,000 offsets per partition";
        html(case).matches(text).count()
    };
    assert_eq!(told(&case), 1, "with the members to stop");
    case.plan.warnings.clear();
    assert_eq!(told(&case), 1, "by itself");
    assert!(html(&case).contains("what is read until then is read again as well"));
    case.plan.drift_limit = 0;
    assert_eq!(told(&case), 0);
    case.plan.drift_limit = 10_000;
    case.plan.waits_for_empty = false;
    assert_eq!(told(&case), 0);
}

#[test]
fn an_approver_reads_where_no_leader_epoch_is_committed() {
    let mut case = pending();
    assert!(html(&case).contains("none is committed in all partitions"));
    case.plan.moves.push(moved("shipments", 2, 43, 31));
    case.plan.moves[0].to.as_mut().unwrap().leader_epoch = Some(0);
    assert!(html(&case).contains("none is committed in 1 of 2 partitions"));
    case.plan.moves.pop();
    assert!(!html(&case).contains("Leader epoch"));
}

#[test]
fn a_plan_that_was_applied_and_verified() {
    let mut case = decided(ApprovalStatus::Approved);
    case.result.insert(
        TopicPartition::new("shipments", 1),
        PartitionOutcome::Applied,
    );
    if let Some(recovery) = &mut case.recovery {
        recovery.apply_by = Some(at("2026-03-14T02:45:00Z"));
        recovery.apply_until = Some(at("2026-03-14T02:12:30Z"));
        recovery.apply_ended_at = Some(at("2026-03-14T02:12:01Z"));
        recovery.outcome = Some(Outcome::Verified);
        recovery.closed_at = Some(at("2026-03-14T02:12:04Z"));
    }
    case.audit = Some(audit("VERIFIED", Some(Outcome::Verified), Vec::new()));
    snapshot("verified", &html(&case));
}

#[test]
fn a_plan_that_passes_over_records() {
    let page = html(&case(skip()));
    snapshot("skip", &page);
    // A record is known by its outline alone, and many are told of by the CSV.
    let mut many = skip();
    many.skips = vec![many.skips[0].clone(); 60];
    let page = html(&case(many));
    assert_eq!(page.matches("data-label=\"SHA-256\"").count(), 50);
    assert!(page.contains("50 of 60, the rest is in the CSV"));
}

fn audit(code: &str, outcome: Option<Outcome>, refusals: Vec<Refusal>) -> Audit {
    let case = pending();
    Audit {
        at: at("2026-03-14T02:12:04Z"),
        plan: Some(case.plan.id),
        execution: case.approval.execution,
        cluster_id: Some(case.plan.cluster_id),
        group: Some(case.plan.group),
        status: if refusals.is_empty() {
            AuditStatus::Succeeded
        } else {
            AuditStatus::Failed
        },
        code: code.to_owned(),
        message: "every partition is at its target".to_owned(),
        requested_by: case.plan.requested_by,
        requester: case.plan.requester,
        from_dry_run: false,
        reason: case.plan.reason,
        decided_by: None,
        decider: None,
        decided_at: None,
        digest: Some(case.approval.digest),
        refusals,
        outcome,
        partitions: Vec::new(),
    }
}

/// Names that would run, hide or reorder if they were printed as they are.
fn hostile() -> ApprovalCase {
    let evil = r#"<script>alert(1)</script>&"'"#;
    let mut plan = plan();
    plan.group = GroupId(format!("{evil}\u{202E}cnys"));
    plan.cluster = evil.to_owned();
    plan.requested_by = format!("\"><img src=x onerror=alert(1)>{evil}");
    plan.reason = format!("{evil}\n\u{0}\u{1B}[2J");
    plan.source = Source::Checkpoint {
        id: CheckpointId(evil.to_owned()),
        ended_at: at("2026-03-14T01:00:02Z"),
    };
    plan.moves[0].partition.topic = evil.to_owned();
    plan.left_alone[0].0.topic = format!("{evil}\u{200B}");
    plan.warnings.push(Warning::Stateful {
        kind: evil.to_owned(),
    });
    if let Warning::MustBeStopped { members, .. } = &mut plan.warnings[0] {
        members[0].client_id = evil.to_owned();
        members[0].host = "\u{2066}host\u{2069}".to_owned();
    }
    case(plan)
}

#[test]
fn hostile_names_are_text_and_can_be_seen() {
    let case = hostile();
    let typed = r#""><script>alert(2)</script>"#.to_owned();
    let page = look(&link(), &key(), now())
        .wrong_name(&case, typed)
        .unwrap();
    assert_eq!(page.status, 422);
    for live in [
        "<script", "<img", "\u{202E}", "\u{200B}", "\u{0}", "\u{1B}", "\u{2066}",
    ] {
        assert!(!page.body.contains(live), "{live:?} came through");
    }
    // The one that was typed stands in an attribute and stays inside its quotes.
    assert!(
        page.body
            .contains(r#"value="&#34;&#62;&#60;script&#62;alert(2)&#60;/script&#62;""#)
    );
    assert!(page.body.contains("⟨U+202E⟩cnys"));
    snapshot("hostile", &page.body);
}

#[test]
fn every_response_says_that_it_is_private_and_inert() {
    let style = data_encoding::BASE64.encode(&Sha256::digest(CSS));
    for response in [shown(&pending()), answer_csv(&pending(), 1), redirect("x")] {
        assert_eq!(header(&response, "cache-control"), "no-store");
        assert_eq!(header(&response, "referrer-policy"), "same-origin");
        assert_eq!(header(&response, "x-content-type-options"), "nosniff");
        assert_eq!(header(&response, "x-robots-tag"), "noindex");
        assert_eq!(
            header(&response, "content-security-policy"),
            format!(
                "default-src 'none'; style-src 'sha256-{style}'; form-action 'self'; \
                 frame-ancestors 'none'; base-uri 'none'"
            )
        );
    }
}

#[test]
fn the_page_needs_nothing_but_itself() {
    let page = html(&pending());
    let between = page.split("<style>").nth(1).unwrap();
    assert_eq!(between.split("</style>").next(), Some(CSS));
    for foreign in [
        "<script", "<link", "<img", "<iframe", "style=\"", "http:", "https:", "url(",
    ] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    // The link's secret is in the address alone, which a copy of the page does not carry.
    assert!(!page.contains(link().expose()));
}

#[test]
fn the_csv_has_the_digest_that_the_page_shows() {
    for case in [pending(), hostile(), case(big(10_000))] {
        let table = answer_csv(&case, 1);
        let digest = data_encoding::HEXLOWER.encode(&Sha256::digest(&table.body));
        assert_eq!(digest, case.approval.digest.0);
        assert!(html(&case).contains(&digest));
        assert_eq!(header(&table, "content-type"), "text/csv; charset=utf-8");
    }
    let named = "attachment; filename=\"plan-01KMT8R3V4Q2X7YB5N6C0D1E2F.csv\"";
    assert_eq!(
        header(&answer_csv(&pending(), 1), "content-disposition"),
        named
    );
    let mut odd = pending();
    odd.plan.id = PlanId("a\"\r\nb".to_owned());
    let plain = "attachment; filename=\"plan.csv\"";
    assert_eq!(header(&answer_csv(&odd, 1), "content-disposition"), plain);
}

/// Kafka's longest names and the longest metadata that brokers take by default, in as many partitions as there may be.
#[test]
fn the_csv_of_a_heavy_plan_comes_in_parts_that_fit_an_answer() {
    let mut plan = big(10_000);
    for m in &mut plan.moves {
        m.partition.topic = m.partition.topic.repeat(249);
        for committed in [&mut m.from, &mut m.to] {
            committed.as_mut().unwrap().metadata = vec![0xff; 4096];
        }
    }
    let case = case(plan);
    let page = html(&case);
    let mut whole = String::new();
    for part in 1..=2 {
        assert!(page.contains(&format!("?format=csv&amp;part={part}\"")));
        let table = answer_csv(&case, part);
        let named = format!("plan-{}.part-{part}-of-2.csv", case.plan.id);
        assert!(header(&table, "content-disposition").contains(&named));
        let answer = serde_json::to_string(&ApiGatewayV2httpResponse::from(table.clone())).unwrap();
        assert!(answer.len() < 6_000_000, "{}", answer.len());
        whole.push_str(&table.body);
    }
    assert!(!page.contains("part=3"));
    assert_eq!(answer_csv(&case, 3), answer_csv(&case, 2));
    let digest = data_encoding::HEXLOWER.encode(&Sha256::digest(&whole));
    assert_eq!(digest, case.approval.digest.0);
}

#[test]
fn a_target_that_may_rise_says_so_and_where_it_came_to() {
    let mut plan = plan();
    plan.moves[0].log.log_start = 31;
    plan.moves[0].may_rise_to = Some(43);
    plan.moves.push(moved("shipments", 2, 40, 20));
    plan.moves[1].may_rise_to = Some(39);
    let mut case = case(plan);
    let page = html(&case);
    assert!(page.contains(">log start (now 31; may rise to 43)<"));
    assert!(page.contains(">20 (or the log start, where that is higher by then; at most 39)<"));
    let applied = PartitionOutcome::Applied;
    case.result = case
        .plan
        .moves
        .iter()
        .map(|m| (m.partition.clone(), applied.clone()))
        .collect();
    case.raised.insert(TopicPartition::new("shipments", 1), 35);
    let page = html(&case);
    assert!(page.contains(">applied at 35, the log start by then<"));
    assert!(page.contains(">applied<"));
}

/// A plan of many partitions in three topics, where the later ones move farther.
fn big(partitions: i32) -> Plan {
    let mut plan = plan();
    plan.left_alone.clear();
    plan.moves = (0..partitions)
        .zip(["a", "b", "c"].into_iter().cycle())
        .map(|(n, topic)| moved(topic, n / 3, 1_000_000, 999_999 - i64::from(n)))
        .collect();
    plan.moves.sort_by(|a, b| a.partition.cmp(&b.partition));
    plan
}

#[test]
fn a_big_plan_shows_totals_and_the_largest_moves_and_the_rest_by_pages() {
    let case = case(big(10_000));
    let (link, key) = (link(), key());
    let body = |number| {
        let look = Look {
            number,
            ..look(&link, &key, now())
        };
        look.show(&case).unwrap().body
    };
    let first = body(1);
    assert!(first.contains("50 of 10,000, the largest moves first"));
    assert!(first.contains("\u{2212}10000</td>"), "the largest of all");
    assert!(first.contains("By topic"));
    assert!(first.contains("page 1 of 200"));
    assert!(first.contains("href=\"?page=2#moves\""));
    assert!(!first.contains("Previous"));
    let rows = |page: &str| page.matches("data-label=\"Log end\"").count();
    assert_eq!(rows(&first), 50);

    let second = body(2);
    assert!(second.contains("href=\"?page=1#moves\"") && second.contains("href=\"?page=3#moves\""));
    assert!(second.contains("\u{2212}9950</td>") && !second.contains("\u{2212}9951</td>"));

    let last = body(200);
    assert!(last.contains("page 200 of 200") && !last.contains("Next"));
    // Beyond either end is the nearest page that there is.
    assert_eq!(body(usize::MAX), last);
    assert_eq!(body(0), first);
}

#[test]
fn what_went_wrong_comes_first_in_a_big_result() {
    let mut case = decided(ApprovalStatus::Approved);
    case.plan = big(200);
    for m in &case.plan.moves {
        let applied = PartitionOutcome::Applied;
        case.result.insert(m.partition.clone(), applied);
    }
    let smallest = TopicPartition::new("a", 0);
    let seen = "17".to_owned();
    case.result
        .insert(smallest, PartitionOutcome::Unknown { seen });
    let page = html(&case);
    let first = page.split("data-label=\"Result\"").nth(1).unwrap();
    assert!(
        first.starts_with(" class=\"wide free bad\">unknown: 17<"),
        "{first}"
    );
}

#[test]
fn partitions_left_alone_are_told_in_ranges() {
    let mut plan = plan();
    let far = (0..500).chain([700, 702]);
    plan.left_alone = far
        .map(|n| (TopicPartition::new("old", n), LeftAlone::NotInSource))
        .collect();
    let page = html(&case(plan));
    assert!(page.contains("502 partitions (0\u{2013}499, 700, 702): not in the source"));
}

#[test]
fn all_warnings_are_there_however_many() {
    let mut plan = plan();
    plan.drift_limit = 0;
    plan.warnings = (0..40)
        .map(|n| Warning::WentBackwardsSince {
            partition: TopicPartition::new("t", n),
        })
        .collect();
    let page = html(&case(plan));
    assert!(page.contains("<summary>30 more</summary>"));
    assert!((0..40).all(|n| page.contains(&format!("the offset of t-{n} went back"))));
}

#[test]
fn a_recovery_that_ended_before_anybody_decided_says_that_and_no_more() {
    let mut case = decided(ApprovalStatus::Superseded);
    case.approval.decided_by = None;
    case.approval.decided_at = None;
    let mut end = audit("NOT_APPROVED", None, Vec::new());
    end.decided_at = None;
    case.audit = Some(end);
    let page = shown(&case);
    assert_eq!(page.status, 410);
    assert!(
        page.body
            .contains("the recovery ended before anybody decided")
    );
    assert!(page.body.contains("Reported: NOT_APPROVED"));
    assert!(!page.body.contains("another request"));

    // Decided through a later link of the same recovery.
    if let Some(audit) = &mut case.audit {
        audit.decided_at = Some(now());
    }
    assert!(shown(&case).body.contains("another request took its place"));
}

#[test]
fn a_status_for_each_standing() {
    let mut expired = pending();
    expired.approval.approve_by = now();
    for (case, status, says) in [
        (pending(), 200, "Waits for a decision"),
        (expired, 410, "Expired: nobody decided"),
        (
            decided(ApprovalStatus::Expired),
            410,
            "Expired: nobody decided",
        ),
        (decided(ApprovalStatus::Superseded), 410, "Superseded"),
        (
            decided(ApprovalStatus::Rejected),
            200,
            "Rejected. Nothing was moved.",
        ),
        (
            decided(ApprovalStatus::Approved),
            200,
            "Approved. Nothing has been moved yet.",
        ),
    ] {
        let page = shown(&case);
        assert_eq!(page.status, status);
        assert!(page.body.contains(says), "{says}");
        let open = says.starts_with("Waits");
        assert_eq!(page.body.contains("name=\"group\""), open, "{says}");
        assert_eq!(
            page.body.contains("Identity is not verified"),
            open,
            "{says}"
        );
    }
}

#[test]
fn the_page_follows_an_approved_recovery_to_its_end() {
    let says = |case: &ApprovalCase, text: &str| {
        let page = html(case);
        assert!(page.contains(text), "{text}");
    };
    let mut case = decided(ApprovalStatus::Approved);
    says(&case, "Stop the group's consumers now");
    let change = |case: &mut ApprovalCase, change: fn(&mut Recovery)| {
        change(case.recovery.as_mut().unwrap())
    };

    change(&mut case, |r| r.apply_by = Some(at("2026-03-14T02:45:00Z")));
    says(
        &case,
        "Approved and admitted: to be applied by 2026-03-14 02:45:00 UTC.",
    );
    change(&mut case, |r| {
        r.apply_until = Some(at("2026-03-14T02:20:00Z"))
    });
    says(&case, "being applied now");
    change(&mut case, |r| {
        r.apply_ended_at = Some(at("2026-03-14T02:19:00Z"))
    });
    says(&case, "being read back now");
    for (outcome, text) in [
        (
            Outcome::Verified,
            "Applied and verified: every partition is at its target.",
        ),
        (
            Outcome::AppliedThenMoved,
            "Applied: every partition was moved",
        ),
        (Outcome::NotApplied, "Approved, but not applied"),
        (
            Outcome::PartiallyApplied,
            "Look at this: some partitions were moved",
        ),
        (
            Outcome::Overwritten,
            "Look at this: every partition was moved, and some were overwritten from outside",
        ),
        (Outcome::Unknown, "Look at this: it cannot be said"),
    ] {
        let mut case = case.clone();
        case.recovery.as_mut().unwrap().outcome = Some(outcome);
        says(&case, text);
    }
    change(&mut case, |r| {
        r.closed_at = Some(at("2026-03-14T02:21:00Z"))
    });
    says(
        &case,
        "it ended while it was applied, and nothing was verified",
    );

    let mut unsent = decided(ApprovalStatus::Approved);
    unsent.audit = Some(audit(
        "APPLY_SWITCHED_OFF",
        None,
        vec![Refusal::ApplySwitchedOff],
    ));
    says(&unsent, "Approved, but not applied: nothing was sent.");
    says(&unsent, "Refused, APPLY_SWITCHED_OFF:");
}

#[test]
fn a_page_loads_itself_again_for_as_long_as_more_is_to_come() {
    let reloads = |case: &ApprovalCase| html(case).contains("http-equiv=\"refresh\"");
    let mut running = decided(ApprovalStatus::Approved);
    assert!(reloads(&running));
    let (link, key) = (link(), key());
    let still = Look {
        follow: false,
        number: 3,
        ..look(&link, &key, now())
    };
    let page = still.show(&running).unwrap().body;
    assert!(!page.contains("refresh") && page.contains("Follow the recovery"));

    // A form that is being filled in is left alone, and what is over stays as it is.
    for case in [
        pending(),
        decided(ApprovalStatus::Rejected),
        decided(ApprovalStatus::Superseded),
    ] {
        assert!(!reloads(&case), "{:?}", case.progress(now()));
    }
    // Verified, and soon to be reported.
    running.recovery.as_mut().unwrap().outcome = Some(Outcome::Verified);
    assert!(reloads(&running));
    running.audit = Some(audit("VERIFIED", Some(Outcome::Verified), Vec::new()));
    assert!(!reloads(&running));
}

#[test]
fn whom_an_approved_plan_waits_for_is_named_until_the_group_is_empty() {
    let mut case = decided(ApprovalStatus::Approved);
    let waits = "Stop the group's consumers now";
    let member = "shipment-sync-1 at /10.0.3.17, member shipment-sync-1-6f1c";
    let (_, said) = html(&case)
        .split_once(waits)
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    assert!(said.split("</div>").next().unwrap().contains(member));
    assert!(
        said.contains("<span class=\"unseen\">now: </span><span class=\"what\">The consumers stop")
    );

    case.past = past();
    snapshot("waiting", &html(&case));

    case.recovery.as_mut().unwrap().quiet = Some(Quiet {
        since: at("2026-03-14T02:17:00Z"),
        commits: String::new(),
    });
    let page = html(&case);
    assert!(!page.contains(waits));
    assert!(page.contains("The group was seen empty and still"));
    assert!(page.contains("now: </span><span class=\"what\">The offsets are applied"));

    let mut at_once = decided(ApprovalStatus::Approved);
    at_once.plan.waits_for_empty = false;
    assert!(!html(&at_once).contains(waits));
}

#[test]
fn what_should_be_nothing_stands_out_when_it_is_not() {
    assert!(!html(&pending()).contains("<div class=\"bad\">"));
    let mut plan = plan();
    plan.moves[0].lost = 12_000;
    plan.moves.push(moved("shipments", 2, 40, 1_040));
    let page = html(&case(plan));
    for (of, number) in [
        ("skipped at most", "1,000"),
        ("lost to retention", "12,000"),
    ] {
        let figure = format!("<div class=\"bad\"><dt>{of}</dt><dd>{number}</dd></div>");
        assert!(page.contains(&figure), "{figure}");
    }
}

#[test]
fn a_decision_that_did_not_arrive_can_be_sent_again() {
    let button = "Send the decision again";
    for status in [ApprovalStatus::Approved, ApprovalStatus::Rejected] {
        let mut case = decided(status);
        assert!(!html(&case).contains(button));
        case.approval.delivered_at = None;
        assert!(html(&case).contains(button));
        // The recovery went on, so it was told; nobody noted it.
        case.recovery.as_mut().unwrap().apply_by = Some(now());
        assert!(!html(&case).contains(button));
    }
}

#[test]
fn time_left_is_said_in_units_that_matter() {
    let mut case = pending();
    for (left, text) in [
        (SignedDuration::from_secs(1), ": 1 s left."),
        (SignedDuration::from_secs(119), ": 119 s left."),
        (minutes(41), ": 41 min left."),
        (minutes(125), ": 2 h 5 min left."),
    ] {
        case.approval.approve_by = now() + left;
        assert!(html(&case).contains(text), "{text}");
    }
}

#[test]
fn odd_queries_show_the_page() {
    let mut get = request(Method::GET, link().expose());
    for (query, asked) in [
        ("", 1),
        ("page=2", 2),
        ("page=x&page=3", 1),
        ("page=-1", 1),
        ("page=%FF", 1),
    ] {
        get.query = query.to_owned();
        assert_eq!(read_number(&get, "page"), asked, "{query}");
        assert!(
            matches!(read_ask(&get, &public_url()), Ok((_, Ask::Show))),
            "{query}"
        );
    }
    get.query = "page=2&format=csv".to_owned();
    assert!(matches!(
        read_ask(&get, &public_url()),
        Ok((_, Ask::Table(1)))
    ));
}

#[test]
fn events_of_the_http_api_come_in_and_go_out() {
    let event = serde_json::json!({
        "version": "2.0",
        "routeKey": "POST /approvals/{id}",
        "rawPath": "/stage/approvals/abc",
        "rawQueryString": "page=2",
        "headers": { "Content-Type": "text/x", "ORIGIN": "https://guard.example" },
        "requestContext": { "http": { "method": "POST", "path": "/stage/approvals/abc" } },
        "body": "YT1i",
        "isBase64Encoded": true,
    });
    let read = |event| Request::from_event(event).unwrap();
    let request = read(event.clone());
    assert_eq!(
        (request.method.as_ref(), link_text(&request)),
        (Some(&Method::POST), "abc")
    );
    assert_eq!(request.body(9), Ok(b"a=b".to_vec()));
    assert_eq!(request.header("content-type"), Some("text/x"));
    assert_eq!(read_number(&request, "page"), 2);

    let mut plain = event.clone();
    plain["isBase64Encoded"] = false.into();
    assert_eq!(read(plain).body(9), Ok(b"YT1i".to_vec()));
    let mut garbled = event.clone();
    garbled["body"] = "%%%".into();
    assert_eq!(read(garbled).body(9), Err(BodyFault::Garbled));
    let mut bare = event;
    bare.as_object_mut().unwrap().remove("body");
    bare["rawPath"] = "/".into();
    let bare = read(bare);
    assert_eq!((link_text(&bare), bare.body(9)), ("", Ok(Vec::new())));

    let out = serde_json::to_value(ApiGatewayV2httpResponse::from(shown(&pending()))).unwrap();
    assert_eq!(out["statusCode"], 200);
    assert_eq!(out["headers"]["content-type"], "text/html; charset=utf-8");
    assert_eq!(out["headers"]["cache-control"], "no-store");
    assert_eq!(out["isBase64Encoded"], false);
    assert!(out["body"].as_str().unwrap().starts_with("<!doctype html>"));
}
