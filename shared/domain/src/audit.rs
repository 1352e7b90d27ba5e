//! The last word on one execution: what was asked, what was decided, what was and was not done. Kept for ever.

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::identity::{Identity, Requester};
use super::ids::PlanId;
use super::offset::{ClusterId, CommittedOffset, GroupId, TopicPartition};
use super::plan::PlanDigest;
use super::recovery::{Outcome, PartitionOutcome};
use super::refusal::Refusal;
use crate::ids::ExecutionArn;

/// How an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AuditStatus {
    /// It did what was asked, or there was nothing to do.
    Succeeded,
    /// It refused, or it failed.
    Failed,
}

/// What became of one partition of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditPartition {
    /// Which partition.
    pub partition: TopicPartition,
    /// What was committed while planning, as [`recorded`].
    pub from: Option<CommittedOffset>,
    /// What was to be committed, or was where the log start took its place, as [`recorded`]; `None` removes the commit.
    pub to: Option<CommittedOffset>,
    /// What the pre-image holds, as [`recorded`]: committed right before the first request. `None` is no commit, or no pre-image.
    pub before: Option<CommittedOffset>,
    /// What Verify found; `None` where it was not asked.
    pub outcome: Option<PartitionOutcome>,
}

/// Up to how many bytes the record keeps a commit's metadata.
const METADATA_KEPT: usize = 64;

/// A commit as the record keeps it: of long metadata the words `sha256` and its hash in hexadecimal. The bytes are in the
/// plan and in the pre-image; three times in a record of many partitions they would take minutes to write, and without
/// its record no recovery lets its group go.
#[must_use]
pub fn recorded(commit: &CommittedOffset) -> CommittedOffset {
    let mut commit = commit.clone();
    if commit.metadata.len() > METADATA_KEPT {
        let hash = HEXLOWER.encode(&Sha256::digest(&commit.metadata));
        commit.metadata = format!("sha256 {hash}").into_bytes();
    }
    commit
}

/// The record of one execution's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// When it was written.
    pub at: Timestamp,
    /// The plan, where one was made.
    pub plan: Option<PlanId>,
    /// The execution. It has one audit record, however often its end is reported.
    pub execution: ExecutionArn,
    /// The cluster, where it was known by its own id.
    pub cluster_id: Option<ClusterId>,
    /// The group, where the request named one.
    pub group: Option<GroupId>,
    /// How it ended.
    pub status: AuditStatus,
    /// The refusal's or the end's code.
    pub code: String,
    /// The same for a person, in a line.
    pub message: String,
    /// Who asked.
    pub requested_by: String,
    /// What is proven of who asked.
    #[serde(default, skip_serializing_if = "Requester::is_unverified")]
    pub requester: Requester,
    /// Whether the plan was made as a dry run, and started afterwards by somebody of whom nothing is known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub from_dry_run: bool,
    /// Why.
    pub reason: String,
    /// Who decided.
    pub decided_by: Option<String>,
    /// What is proven of who decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decider: Option<Identity>,
    /// When.
    pub decided_at: Option<Timestamp>,
    /// The digest of the plan.
    pub digest: Option<PlanDigest>,
    /// Every refusal.
    pub refusals: Vec<Refusal>,
    /// What became of the plan, where it was verified.
    pub outcome: Option<Outcome>,
    /// What became of its partitions, in order.
    pub partitions: Vec<AuditPartition>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_keeps_short_metadata_and_the_hash_of_long() {
        let commit = |metadata: Vec<u8>| CommittedOffset {
            metadata,
            ..CommittedOffset::bare(31)
        };
        let short = commit(vec![1; METADATA_KEPT]);
        assert_eq!(recorded(&short), short);
        let long = recorded(&commit(vec![1; 4096]));
        assert_eq!(long.offset, 31);
        let text = String::from_utf8(long.metadata.clone()).unwrap();
        assert!(text.starts_with("sha256 ") && text.len() == 71, "{text}");
        assert_ne!(recorded(&commit(vec![2; 4096])), long);
    }
}
