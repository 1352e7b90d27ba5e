//! The page without a table: what is shown, what is refused, what a form leads to.

mod decide;
mod respond;
mod show;

use std::collections::BTreeMap;

use aws_lambda_events::http::{HeaderMap, HeaderValue, Method};
use jiff::{SignedDuration, Timestamp};
use url::Url;

use super::case::Case;
use super::http::Request;
use super::link::LinkId;
use super::look::Look;
use super::token::FormKey;
use crate::domain::approval::{Approval, ApprovalStatus};
use crate::domain::checkpoint::CheckpointId;
use crate::domain::group::{GroupState, GroupType};
use crate::domain::offset::{
    ClusterId, CommittedOffset, GroupId, TopicId, TopicPartition, Watermarks,
};
use crate::domain::plan::{Disowns, LeftAlone, PartitionMove, Plan, PlanId, Source, Warning};
use crate::domain::recovery::Recovery;
use crate::domain::refusal::MemberSeen;

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
        number: 1,
        now,
    }
}

fn moved(topic: &str, partition: i32, from: i64, to: i64) -> PartitionMove {
    PartitionMove {
        partition: TopicPartition::new(topic, partition),
        topic_id: TopicId::from_bytes([5; 16]),
        from: Some(CommittedOffset::bare(from)),
        to: Some(CommittedOffset::bare(to)),
        log: Watermarks {
            log_start: 0,
            last_stable: from.max(to),
            high: from.max(to),
            leader_epoch: Some(0),
        },
        lost: 0,
    }
}

/// The plan of the incident: one partition of three goes back from 43 to 31.
fn plan() -> Plan {
    Plan {
        id: PlanId("01KMT8R3V4Q2X7YB5N6C0D1E2F".to_owned()),
        cluster: "orders-prod".to_owned(),
        cluster_id: ClusterId("MkU3OEVBNTcwNTJENDM2Qg".to_owned()),
        group: GroupId("shipment-sync".to_owned()),
        group_type: GroupType::Classic,
        state: GroupState::Stable,
        config_hash: "c0ffee".to_owned(),
        created_at: at("2026-03-14T02:00:00Z"),
        approve_by: at("2026-03-14T02:59:00Z"),
        apply_within_seconds: 2_100,
        waits_for_empty: true,
        drift_limit: 10_000,
        source: Source::Checkpoint {
            id: CheckpointId("01KMT1Z0A1B2C3D4E5F6G7H8J9".to_owned()),
            ended_at: at("2026-03-14T01:00:02Z"),
        },
        moves: vec![moved("shipments", 1, 43, 31)],
        skips: Vec::new(),
        left_alone: vec![
            (TopicPartition::new("shipments", 0), LeftAlone::AlreadyThere),
            (TopicPartition::new("shipments", 2), LeftAlone::AlreadyThere),
            (TopicPartition::new("shipments", 3), LeftAlone::NotInSource),
        ],
        warnings: vec![
            Warning::MustBeStopped {
                members: vec![MemberSeen {
                    client_id: "shipment-sync-1".to_owned(),
                    member_id: "shipment-sync-1-6f1c".to_owned(),
                    host: "/10.0.3.17".to_owned(),
                }],
                drift_limit: 10_000,
            },
            Warning::MayAlterUnknown,
        ],
        disowns: Some(Disowns {
            after: at("2026-03-14T01:00:02Z"),
        }),
        requested_by: "mara@example.com".to_owned(),
        reason: "Release 4.2 marked 12 shipments as sent that never left.\nReplay them.".to_owned(),
    }
}

fn case(plan: Plan) -> Case {
    Case {
        approval: Approval {
            plan: plan.id.clone(),
            digest: plan.digest(),
            execution: "recovery-1".to_owned(),
            created_at: plan.created_at + SignedDuration::from_secs(4),
            approve_by: plan.approve_by,
            status: ApprovalStatus::Pending,
            decided_by: None,
            decided_at: None,
            reason: None,
            delivered_at: None,
        },
        plan,
        recovery: None,
        result: BTreeMap::new(),
        audit: None,
    }
}

fn pending() -> Case {
    case(plan())
}

fn decided(status: ApprovalStatus) -> Case {
    let mut case = pending();
    case.approval.status = status;
    case.approval.decided_by = Some(super::LINK_HOLDER.to_owned());
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
    Request {
        method,
        id: id.to_owned(),
        query: String::new(),
        headers: HeaderMap::new(),
        body: Some(Vec::new()),
    }
}

fn post(id: &str, fields: &[(&str, &str)]) -> Request {
    let mut request = request(Method::POST, id);
    let headers = &mut request.headers;
    headers.insert("origin", HeaderValue::from_static("https://guard.example"));
    headers.insert(
        "content-type",
        HeaderValue::from_static("application/x-www-form-urlencoded"),
    );
    let mut body = url::form_urlencoded::Serializer::new(String::new());
    body.extend_pairs(fields);
    request.body = Some(body.finish().into_bytes());
    request
}

fn public_url() -> Url {
    Url::parse("https://guard.example").unwrap()
}
