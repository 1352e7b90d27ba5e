//! A run of the guard that found something of everything, and its findings.

use super::facts::at_second;
use crate::group::GroupState;
use crate::guard::evidence::Evidence;
use crate::guard::policy::Validator;
use crate::guard::probe::Failure;
use crate::guard::quarantine::{DedupeId, Kept, KeptCopy, SkippedRecord};
use crate::guard::record::{Fingerprint, Outline, TimestampType};
use crate::guard::run::{GuardAction, GuardRun, SecondSource};
use crate::guard::verdict::{Confidence, Finding, Status, Verdict};
use crate::ids::{PlanId, RunId};
use crate::offset::{ClusterId, GroupId, TopicPartition, Watermarks};
use crate::refusal::Refusal;

/// A critical finding if `verdict` is a poison record, else a warning.
pub fn finding(partition: i32, verdict: Verdict, lag: Option<u64>) -> Finding {
    let log = Watermarks {
        log_start: 0,
        last_stable: 855,
        high: 855,
        leader_epoch: Some(5),
    };
    Finding {
        partition: TopicPartition::new("shipments", partition),
        verdict,
        confidence: Confidence::High,
        status: match verdict {
            Verdict::PoisonLikely => Status::Critical,
            _ => Status::Warning,
        },
        lag,
        evidence: vec![
            Evidence::ValidatorFailed {
                offset: 43,
                validator: Validator::Json,
                problem: "it is no JSON".to_owned(),
            },
            Evidence::Position { committed: 43, log },
            Evidence::NothingMoved,
        ],
    }
}

/// A run that found one record in the way and proposed to pass over it.
pub fn guard_run() -> GuardRun {
    let partition = TopicPartition::new("shipments", 0);
    GuardRun {
        id: RunId("01JGUARDRUN".to_owned()),
        at: at_second(0),
        cluster: "production".to_owned(),
        cluster_id: Some(ClusterId("5L6g3nShT-eMCtK--X86sw".to_owned())),
        group: GroupId("shipment-sync".to_owned()),
        status: Status::Critical,
        failed: None,
        state: Some(GroupState::Stable),
        members: 3,
        looks: 4,
        of_group: None,
        recovery: None,
        findings: vec![
            finding(2, Verdict::NoCommit, None),
            finding(0, Verdict::PoisonLikely, Some(812)),
        ],
        verdicts: [
            (Verdict::PoisonLikely, 1),
            (Verdict::NoCommit, 1),
            (Verdict::Moving, 1),
        ]
        .into(),
        second_source: SecondSource::Differs {
            how: "the group has no members".to_owned(),
        },
        withheld: vec![Refusal::TooManySkips {
            partition: TopicPartition::new("shipments", 1),
            skips: 3,
            limit: 3,
        }],
        records: vec![SkippedRecord {
            partition: partition.clone(),
            record: Outline {
                offset: 43,
                leader_epoch: Some(5),
                timestamp_ms: 1_799_999_000_000,
                timestamp_type: TimestampType::CreateTime,
                key_bytes: Some(4),
                value_bytes: Some(16),
                headers: 1,
                fingerprint: Fingerprint("c0ffee".repeat(10)),
            },
            failure: Some(Failure {
                offset: 43,
                validator: Validator::Json,
                problem: "it is no JSON".to_owned(),
            }),
            dedupe_id: DedupeId("d".repeat(64)),
            kept: Kept::In(KeptCopy {
                partition: TopicPartition::new("quarantine", 0),
                offset: 7,
            }),
        }],
        dry_run: false,
        action: GuardAction::Proposed {
            plan: PlanId("01JPLAN".to_owned()),
        },
    }
}
