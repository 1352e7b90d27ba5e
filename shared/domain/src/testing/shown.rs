//! A plan with something of everything that people read about a plan: for pages, messages and golden texts.

use crate::group::MemberSeen;
use crate::group::{GroupState, GroupType};
use crate::guard::policy::Validator;
use crate::guard::probe::Failure;
use crate::guard::quarantine::{DedupeId, Kept, KeptCopy, SkippedRecord};
use crate::guard::record::{Fingerprint, Outline, TimestampType};
use crate::identity::Requester;
use crate::ids::{CheckpointId, PlanId};
use crate::offset::{ClusterId, CommittedOffset, GroupId, TopicId, TopicPartition, Watermarks};
use crate::plan::{CSV_VERSION, Disowns, LeftAlone, PartitionMove, Plan, Source, Warning};

/// A move whose log ends at the higher of both offsets.
pub fn moved(topic: &str, partition: i32, from: i64, to: i64) -> PartitionMove {
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
pub fn plan() -> Plan {
    Plan {
        id: PlanId("01KMT8R3V4Q2X7YB5N6C0D1E2F".to_owned()),
        cluster: "orders-prod".to_owned(),
        cluster_id: ClusterId("MkU3OEVBNTcwNTJENDM2Qg".to_owned()),
        group: GroupId("shipment-sync".to_owned()),
        group_type: GroupType::Classic,
        state: GroupState::Stable,
        config_hash: "c0ffee".to_owned(),
        csv_version: CSV_VERSION,
        created_at: "2026-03-14T02:00:00Z".parse().unwrap(),
        approve_by: "2026-03-14T02:59:00Z".parse().unwrap(),
        apply_within_seconds: 2_100,
        waits_for_empty: true,
        drift_limit: 10_000,
        source: Source::Checkpoint {
            id: CheckpointId("01KMT1Z0A1B2C3D4E5F6G7H8J9".to_owned()),
            ended_at: "2026-03-14T01:00:02Z".parse().unwrap(),
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
            after: "2026-03-14T01:00:02Z".parse().unwrap(),
        }),
        requested_by: "mara@example.com".to_owned(),
        requester: Requester::Unverified,
        four_eyes: false,
        reason: "Release 4.2 marked 12 shipments as sent that never left.\nReplay them.".to_owned(),
    }
}

/// A guard's plan: two records are passed over, of which one is kept.
pub fn skip() -> Plan {
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
    let copy = KeptCopy {
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
