use super::*;
use crate::domain::approval::Decision;
use crate::domain::identity::{Identity, Requester};
use crate::page::ask::{Ask, read_ask};
use crate::page::fault::PageFault;
use crate::page::fault_page::render_fault;
use crate::page::form::Form;
use crate::page::look::Step;
use crate::page::token::Signed;

fn status(request: &Request) -> u16 {
    match read_ask(request, &public_url()) {
        Ok(_) => 200,
        Err(problem) => render_fault(&problem).status,
    }
}

#[test]
fn what_is_no_request_of_this_page_has_its_own_status() {
    let link = link();
    let id = link.expose();
    assert_eq!(status(&request(Method::GET, id)), 200);
    assert_eq!(status(&request(Method::HEAD, id)), 200);
    assert_eq!(status(&post(id, &[])), 200);
    for method in [
        Method::PUT,
        Method::DELETE,
        Method::PATCH,
        Method::OPTIONS,
        Method::TRACE,
    ] {
        assert_eq!(status(&request(method, id)), 405);
    }
    for id in [
        "",
        "short",
        "../approvals",
        "%00",
        &"A".repeat(44),
        &"é".repeat(22),
    ] {
        assert_eq!(status(&request(Method::GET, id)), 404, "{id}");
        assert_eq!(status(&post(id, &[])), 404, "{id}");
    }
    assert_eq!(status(&post(id, &[("reason", &"x".repeat(9_000))])), 413);
    let odd = |content_type| {
        request(Method::POST, id)
            .with_header("origin", "https://evil.example")
            .with_header("content-type", content_type)
    };
    let foreign = odd("application/x-www-form-urlencoded");
    assert_eq!(status(&foreign), 403);
    let odd = odd("application/json");
    assert_eq!(status(&odd), 415);
    let odd = odd.with_body("%%%".to_owned(), true);
    assert_eq!(status(&odd), 400);
}

#[test]
fn a_refused_method_is_told_which_there_are() {
    let refused = read_ask(&request(Method::PUT, link().expose()), &public_url());
    let headers = render_fault(&refused.unwrap_err()).headers;
    assert_eq!(headers.get("allow").unwrap(), "GET, HEAD, POST");
}

/// What a form leads to at an instant.
fn judge(case: &ApprovalCase, form: &Form, now: Timestamp) -> Result<Step, u16> {
    let (link, key) = (link(), key());
    look(&link, &key, now)
        .judge(case, form)
        .map_err(|problem| render_fault(&problem).status)
}

/// The form as a browser takes it from the page and sends it.
fn form(case: &ApprovalCase, decision: Decision, group: &str) -> Form {
    let page = look(&link(), &key(), now()).show(case).unwrap().body;
    let field = format!("name=\"decision\" value=\"{}\"", decision.as_str());
    let (_, rest) = page.split_once(&field).unwrap();
    let (_, rest) = rest.split_once("name=\"token\" value=\"").unwrap();
    let (token, _) = rest.split_once('"').unwrap();
    let fields = [
        ("decision", decision.as_str()),
        ("token", token),
        ("group", group),
        ("reason", "not tonight"),
    ];
    match read_ask(&post(link().expose(), &fields), &public_url()) {
        Ok((_, Ask::Decide(form))) => form,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_pages_own_forms_decide() {
    let case = pending();
    for (decision, typed) in [
        (Decision::Approve, "shipment-sync"),
        (Decision::Approve, " shipment-sync "),
        (Decision::Reject, ""),
    ] {
        let form = form(&case, decision, typed);
        assert_eq!(
            judge(&case, &form, now()),
            Ok(Step::Decide(decision)),
            "{typed}"
        );
    }
}

/// A plan that two people have to stand behind.
fn of_four_eyes(requester: Requester) -> ApprovalCase {
    let mut plan = plan();
    plan.four_eyes = true;
    plan.requester = requester;
    case(plan)
}

#[test]
fn whoever_asked_for_a_plan_of_four_eyes_can_only_reject_it() {
    let person = |subject| Identity::new("https://id.example", subject, "Mara");
    let (mara, dana) = (person("1"), person("2"));
    let (link, key) = (link(), key());
    let leads = |case: &ApprovalCase, by: Option<&Identity>, decision| {
        let look = Look {
            person: by,
            ..look(&link, &key, now())
        };
        let signed = Signed {
            link: &link,
            decision,
            digest: &case.approval.digest,
            person: by,
        };
        let form = Form {
            decision: Some(decision),
            token: key.sign(&signed, now() + minutes(5)),
            group: "shipment-sync".to_owned(),
            reason: "not tonight".to_owned(),
        };
        let shown = look.show(case).unwrap().body;
        assert_eq!(
            shown.contains("class=\"primary\""),
            case.plan.approved_by(by).is_ok(),
            "{by:?}"
        );
        assert!(shown.contains(">Reject</button>"));
        look.judge(case, &form).unwrap()
    };
    let asked = of_four_eyes(Requester::Verified(mara.clone()));
    let guards = of_four_eyes(Requester::Guard);
    let approve = Decision::Approve;
    assert_eq!(leads(&asked, Some(&dana), approve), Step::Decide(approve));
    assert_eq!(leads(&asked, Some(&mara), approve), Step::SameEyes);
    assert_eq!(leads(&asked, None, approve), Step::SameEyes);
    assert_eq!(leads(&guards, Some(&mara), approve), Step::Decide(approve));
    assert_eq!(leads(&guards, None, approve), Step::SameEyes);
    let reject = Decision::Reject;
    for by in [Some(&mara), Some(&dana), None] {
        assert_eq!(leads(&asked, by, reject), Step::Decide(reject));
    }
    // Without four eyes everybody decides alone.
    let own = {
        let mut plan = plan();
        plan.requester = Requester::Verified(mara.clone());
        case(plan)
    };
    assert_eq!(leads(&own, Some(&mara), approve), Step::Decide(approve));
    let refused = look(&link, &key, now()).same_eyes(&asked).unwrap();
    assert_eq!(refused.status, 403);
    assert!(refused.body.contains("Another person has to approve this."));
}

/// Every form of a page, as a program sends it that types nothing.
fn untouched_forms(page: &str) -> Vec<Form> {
    let attribute = |tag: &str, name: &str| {
        let (_, rest) = tag.split_once(&format!("{name}=\""))?;
        Some(rest.split_once('"')?.0.to_owned())
    };
    page.split("<form ")
        .skip(1)
        .map(|form| {
            let (form, _) = form.split_once("</form>").unwrap();
            let fields: Vec<_> = form
                .split('<')
                .filter(|tag| tag.starts_with("input") || tag.starts_with("textarea"))
                .map(|tag| {
                    let value = attribute(tag, "value").unwrap_or_default();
                    (attribute(tag, "name").unwrap(), value)
                })
                .collect();
            let fields: Vec<_> = fields
                .iter()
                .map(|(n, v)| (n.as_str(), v.as_str()))
                .collect();
            match read_ask(&post(link().expose(), &fields), &public_url()) {
                Ok((_, Ask::Decide(form))) => form,
                other => panic!("{other:?}"),
            }
        })
        .collect()
}

#[test]
fn a_form_that_nothing_was_typed_into_decides_nothing() {
    let case = pending();
    let (link, key) = (link(), key());
    let look = look(&link, &key, now());
    let page = look.show(&case).unwrap().body;
    let judged: Vec<_> = untouched_forms(&page)
        .iter()
        .map(|form| judge(&case, form, now()))
        .collect();
    assert_eq!(judged, [Ok(Step::WrongName), Ok(Step::NoReason)]);
    assert_eq!(
        page.matches(" required").count(),
        2,
        "browsers say so first"
    );

    // What such a program gets says so, and its forms decide nothing either.
    for answer in [
        look.no_reason(&case).unwrap(),
        look.wrong_name(&case, String::new()).unwrap(),
    ] {
        assert_eq!(answer.status, 422);
        assert!(answer.body.contains("Nothing was decided."));
        for form in untouched_forms(&answer.body) {
            let judged = judge(&case, &form, now()).unwrap();
            assert!(!matches!(judged, Step::Decide(_)), "{judged:?}");
        }
    }
    // Blanks are nothing.
    let mut blank = form(&case, Decision::Reject, "");
    blank.reason = " \n".to_owned();
    assert_eq!(judge(&case, &blank, now()), Ok(Step::NoReason));
}

#[test]
fn an_approval_needs_the_groups_id() {
    let case = pending();
    for typed in ["", " ", "shipment", "Shipment-sync", "shipment-sync-2"] {
        let form = form(&case, Decision::Approve, typed);
        assert_eq!(judge(&case, &form, now()), Ok(Step::WrongName), "{typed:?}");
    }
}

#[test]
fn an_id_that_no_keyboard_has_is_typed_as_it_is_shown() {
    let named = |group: &str| {
        let mut plan = plan();
        plan.group = GroupId(group.to_owned());
        case(plan)
    };
    for (group, typed, step) in [
        ("a\u{202E}b", "a⟨U+202E⟩b", Step::Decide(Decision::Approve)),
        ("a\u{202E}b", "ab", Step::WrongName),
        (" padded ", "padded", Step::Decide(Decision::Approve)),
        (" ", "", Step::WrongName),
        ("", "", Step::WrongName),
    ] {
        let case = named(group);
        let form = form(&case, Decision::Approve, typed);
        assert_eq!(judge(&case, &form, now()), Ok(step), "{group:?} {typed:?}");
    }
}

#[test]
fn a_form_without_this_pages_token_is_refused() {
    let case = pending();
    let good = form(&case, Decision::Approve, "shipment-sync");
    let with = |change: fn(&mut Form)| {
        let mut form = good.clone();
        change(&mut form);
        judge(&case, &form, now())
    };
    assert_eq!(with(|_| ()), Ok(Step::Decide(Decision::Approve)));
    assert_eq!(with(|form| form.token.clear()), Err(403));
    assert_eq!(with(|form| form.token.push('A')), Err(403));
    // The token of the other button, and a word that no button has.
    assert_eq!(
        with(|form| form.decision = Some(Decision::Reject)),
        Err(403)
    );
    assert_eq!(with(|form| form.decision = None), Err(403));

    let mut other = plan();
    other.moves[0].to = Some(CommittedOffset::bare(30));
    assert_eq!(
        judge(&super::case(other), &good, now()),
        Err(403),
        "another plan's"
    );

    let elsewhere = LinkId::random().unwrap();
    let key = key();
    let judged = look(&elsewhere, &key, now()).judge(&case, &good);
    assert!(matches!(judged, Err(PageFault::Token(_))), "another link's");
}

#[test]
fn a_form_is_good_for_a_quarter_of_an_hour_and_never_longer_than_the_approval() {
    let case = pending();
    let open = form(&case, Decision::Reject, "");
    let last = SignedDuration::from_millis(14 * 60_000 + 59_999);
    assert!(judge(&case, &open, now() + last).is_ok());
    assert_eq!(judge(&case, &open, now() + minutes(15)), Err(403));

    let mut short = pending();
    short.approval.approve_by = now() + minutes(1);
    let open = form(&short, Decision::Reject, "");
    assert!(judge(&short, &open, now() + SignedDuration::from_secs(59)).is_ok());
    // The approval is over with it, and that is what is said then.
    assert_eq!(judge(&short, &open, now() + minutes(1)), Ok(Step::TooLate));
}

#[test]
fn an_old_form_of_a_decided_approval_tells_how_it_went_and_does_nothing() {
    let mut undelivered = decided(ApprovalStatus::Approved);
    undelivered.approval.delivered_at = None;
    let old = form(&pending(), Decision::Approve, "");
    for case in [decided(ApprovalStatus::Rejected), undelivered] {
        assert_eq!(judge(&case, &old, now() + minutes(16)), Ok(Step::Already));
    }
}

#[test]
fn a_second_look_leaves_the_first_form_good() {
    let case = pending();
    let first = form(&case, Decision::Reject, "");
    look(&link(), &key(), now() + minutes(5))
        .show(&case)
        .unwrap();
    assert!(judge(&case, &first, now() + minutes(10)).is_ok());
}

#[test]
fn a_click_after_the_decision_decides_nothing() {
    for decision in [Decision::Approve, Decision::Reject] {
        let late = form(&pending(), decision, "");
        for status in [ApprovalStatus::Approved, ApprovalStatus::Rejected] {
            assert_eq!(judge(&decided(status), &late, now()), Ok(Step::Deliver));
        }
        for status in [ApprovalStatus::Expired, ApprovalStatus::Superseded] {
            assert_eq!(judge(&decided(status), &late, now()), Ok(Step::TooLate));
        }
    }
}

#[test]
fn the_button_that_sends_a_decision_again_works_after_the_approvals_time() {
    let mut case = decided(ApprovalStatus::Approved);
    case.approval.delivered_at = None;
    case.approval.approve_by = now() - minutes(1);
    let again = form(&case, Decision::Approve, "");
    assert_eq!(judge(&case, &again, now()), Ok(Step::Deliver));
}

#[test]
fn a_decision_that_met_nobody_or_did_not_arrive_says_so() {
    let mut case = decided(ApprovalStatus::Approved);
    case.approval.delivered_at = None;
    let (link, key) = (link(), key());
    let look = look(&link, &key, now());
    let gone = look.no_longer_waiting(&case).unwrap();
    assert_eq!(gone.status, 410);
    assert!(gone.body.contains("no longer waits"));
    assert!(gone.body.contains("Decided by a holder of the link"));
    let stuck = look.not_delivered(&case).unwrap();
    assert_eq!(stuck.status, 503);
    assert!(stuck.body.contains("Send the decision again"));
    assert!(stuck.headers.contains_key("retry-after"));
}

#[test]
fn an_id_with_blanks_that_are_overlooked_is_typed_exactly_or_copied_as_it_is_shown() {
    let named = |group: &str| {
        let mut plan = plan();
        plan.group = GroupId(group.to_owned());
        case(plan)
    };
    let (link, key) = (link(), key());
    for (group, shown) in [
        ("a  b", "a␣␣b"),
        (" lead", "␣lead"),
        ("trail ", "trail␣"),
        ("a b", "a b"),
    ] {
        let case = named(group);
        let page = look(&link, &key, now()).show(&case).unwrap().body;
        let name = format!("<bdi class=\"name\">{shown}</bdi>");
        assert_eq!(
            page.matches(&name).count(),
            3,
            "heading, label and details: {page}"
        );
        assert!(
            page.contains("white-space: pre-wrap"),
            "two blanks are drawn as two"
        );
        for typed in [group, shown] {
            let form = form(&case, Decision::Approve, typed);
            assert_eq!(
                judge(&case, &form, now()),
                Ok(Step::Decide(Decision::Approve)),
                "{typed:?}"
            );
        }
    }
    for typed in ["a b", "ab", "a   b"] {
        let case = named("a  b");
        let form = form(&case, Decision::Approve, typed);
        assert_eq!(judge(&case, &form, now()), Ok(Step::WrongName), "{typed:?}");
    }
}
