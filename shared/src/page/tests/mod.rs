//! The page without a table: what is shown, what is refused, what a form leads to.

mod contrast;
mod decide;
mod picture;
mod respond;
mod show;
mod signin;

use std::collections::BTreeMap;

use aws_lambda_events::http::Method;
use jiff::{SignedDuration, Timestamp};
use url::Url;

use super::look::Look;
use super::token::FormKey;
use crate::app::approval_case::ApprovalCase;
use crate::app::decide::LINK_HOLDER;
use crate::app::link::LinkId;
use crate::domain::approval::{ApprovalStatus, Decision};
use crate::domain::checkpoint::PastCommit;
use crate::domain::ids::{CheckpointId, PlanId};
use crate::domain::offset::{CommittedOffset, GroupId, TopicPartition};
use crate::domain::plan::{LeftAlone, Plan, Source, Warning};
use crate::domain::recovery::Recovery;
use crate::domain::testing::pending_approval;
use crate::domain::testing::shown::{moved, plan, skip};
use crate::http::Request;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The instant of all tests: 18 minutes after the plan was made.
fn now() -> Timestamp {
    at("2026-03-14T02:18:00Z")
}

fn minutes(minutes: i64) -> SignedDuration {
    SignedDuration::from_mins(minutes)
}

fn link() -> LinkId {
    LinkId::parse("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8").unwrap()
}

fn key() -> FormKey {
    FormKey::new(&[7; 32], None).unwrap()
}

fn look<'a>(link: &'a LinkId, key: &'a FormKey, now: Timestamp) -> Look<'a> {
    Look {
        link,
        key,
        person: None,
        number: 1,
        follow: true,
        now,
    }
}

fn case(plan: Plan) -> ApprovalCase {
    ApprovalCase {
        approval: pending_approval(&plan),
        plan,
        recovery: None,
        result: BTreeMap::new(),
        raised: BTreeMap::new(),
        audit: None,
        past: Vec::new(),
    }
}

fn pending() -> ApprovalCase {
    case(plan())
}

fn decided(status: ApprovalStatus) -> ApprovalCase {
    let mut case = pending();
    case.approval.status = status;
    case.approval.decision = match status {
        ApprovalStatus::Approved => Some(Decision::Approve),
        ApprovalStatus::Rejected => Some(Decision::Reject),
        ApprovalStatus::Pending | ApprovalStatus::Expired | ApprovalStatus::Superseded => None,
    };
    case.approval.decided_by = Some(LINK_HOLDER.to_owned());
    case.approval.decided_at = Some(at("2026-03-14T02:10:00Z"));
    case.approval.reason = Some(String::new());
    case.approval.delivered_at = Some(at("2026-03-14T02:10:01Z"));
    case.recovery = Some(Recovery::open(
        &case.plan,
        &case.approval.execution,
        case.plan.created_at,
    ));
    case
}

fn request(method: Method, id: &str) -> Request {
    let mut request = Request::default();
    request.method = Some(method);
    request.path = format!("/approvals/{id}");
    request
}

fn post(id: &str, fields: &[(&str, &str)]) -> Request {
    let mut body = url::form_urlencoded::Serializer::new(String::new());
    body.extend_pairs(fields);
    request(Method::POST, id)
        .with_header("origin", "https://guard.example")
        .with_header("content-type", "application/x-www-form-urlencoded")
        .with_body(body.finish(), false)
}

fn public_url() -> Url {
    Url::parse("https://guard.example").unwrap()
}

/// What hourly checkpoints held of the partition that moves. One lies in a time that an earlier rewind undid; the last
/// is the plan's source.
fn past() -> Vec<PastCommit> {
    let offsets = [2, 9, 9, 14, 21, 19, 22, 27, 28, 31];
    let begins = at("2026-03-13T16:00:02Z");
    (0..)
        .zip(offsets)
        .map(|(hour, offset)| PastCommit {
            at: begins + SignedDuration::from_hours(hour),
            offset: Some(offset),
            disowned: hour == 4,
        })
        .collect()
}
