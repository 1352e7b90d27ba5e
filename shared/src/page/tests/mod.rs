//! The page without a table: what is shown, what is refused, what a form leads to.

mod contrast;
mod decide;
mod picture;
mod respond;
mod show;
mod signin;

use std::collections::BTreeMap;

use aws_lambda_events::http::{HeaderMap, HeaderValue, Method};
use jiff::{SignedDuration, Timestamp};
use url::Url;

use super::case::Case;
use super::http::Request;
use super::link::LinkId;
use super::look::Look;
use super::token::FormKey;
use crate::domain::approval::{Approval, ApprovalStatus, Decision};
use crate::domain::checkpoint::PastCommit;
use crate::domain::group::{GroupState, GroupType};
use crate::domain::guard::policy::Validator;
use crate::domain::guard::probe::Failure;
use crate::domain::guard::quarantine::{Copy, DedupeId, Kept, SkippedRecord};
use crate::domain::guard::record::{Fingerprint, Outline, TimestampType};
use crate::domain::identity::Requester;
use crate::domain::ids::{CheckpointId, PlanId};
use crate::domain::offset::{
    ClusterId, CommittedOffset, GroupId, TopicId, TopicPartition, Watermarks,
};
use crate::domain::plan::{CSV_VERSION, Disowns, LeftAlone, PartitionMove, Plan, Source, Warning};
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
        person: None,
        number: 1,
        follow: true,
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
        may_rise_to: None,
    }
}

/// The plan of the incident: one partition of three goes back from 43 to 31.
pub(crate) fn plan() -> Plan {
    Plan {
        id: PlanId("01KMT8R3V4Q2X7YB5N6C0D1E2F".to_owned()),
        cluster: "orders-prod".to_owned(),
        cluster_id: ClusterId("MkU3OEVBNTcwNTJENDM2Qg".to_owned()),
        group: GroupId("shipment-sync".to_owned()),
        group_type: GroupType::Classic,
        state: GroupState::Stable,
        config_hash: "c0ffee".to_owned(),
        csv_version: CSV_VERSION,
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
        requester: Requester::Unverified,
        four_eyes: false,
        reason: "Release 4.2 marked 12 shipments as sent that never left.\nReplay them.".to_owned(),
    }
}

/// A guard's plan: two records are passed over, of which one is kept.
pub(crate) fn skip() -> Plan {
    let mut plan = plan();
    plan.source = Source::Skip;
    plan.requested_by = "guard".to_owned();
    plan.reason =
        "POISON_LIKELY: the record at 43 is no JSON, and nothing was read for 12 min".to_owned();
    plan.disowns = None;
    plan.left_alone.clear();
    plan.moves = vec![moved("shipments", 1, 43, 45)];
    let record = |offset, failure: Option<&str>, kept| {
        let partition = TopicPartition::new("shipments", 1);
        SkippedRecord {
            dedupe_id: DedupeId::of(&plan.cluster_id, &plan.group, None, &partition, offset),
            partition,
            record: Outline {
                offset,
                leader_epoch: Some(0),
                timestamp_ms: 1_773_453_600_000,
                timestamp_type: TimestampType::CreateTime,
                key_bytes: None,
                value_bytes: Some(1_432),
                headers: 2,
                fingerprint: Fingerprint("9f86d081884c7d659a2feaa0c55ad015".repeat(2)),
            },
            failure: failure.map(|problem| Failure {
                offset,
                validator: Validator::Json,
                problem: problem.to_owned(),
            }),
            kept,
        }
    };
    let copy = Copy {
        partition: TopicPartition::new("quarantine", 0),
        offset: 7,
    };
    plan.skips = vec![
        record(43, Some("it ends in the middle of a value"), Kept::In(copy)),
        record(44, None, Kept::No),
    ];
    plan.warnings.push(Warning::RecordsLost { records: 1 });
    plan
}

/// The request for its approval, which nobody has decided yet.
pub(crate) fn approval(plan: &Plan) -> Approval {
    Approval {
        plan: plan.id.clone(),
        digest: plan.digest(),
        execution: "recovery-1".into(),
        created_at: plan.created_at + SignedDuration::from_secs(4),
        approve_by: plan.approve_by,
        status: ApprovalStatus::Pending,
        decision: None,
        from_dry_run: false,
        decided_by: None,
        decider: None,
        decided_at: None,
        reason: None,
        delivered_at: None,
    }
}

fn case(plan: Plan) -> Case {
    Case {
        approval: approval(&plan),
        plan,
        recovery: None,
        result: BTreeMap::new(),
        raised: BTreeMap::new(),
        audit: None,
        past: Vec::new(),
    }
}

fn pending() -> Case {
    case(plan())
}

fn decided(status: ApprovalStatus) -> Case {
    let mut case = pending();
    case.approval.status = status;
    case.approval.decision = match status {
        ApprovalStatus::Approved => Some(Decision::Approve),
        ApprovalStatus::Rejected => Some(Decision::Reject),
        ApprovalStatus::Pending | ApprovalStatus::Expired | ApprovalStatus::Superseded => None,
    };
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
