//! How many commits fit into one alter request.
//!
//! The broker accepts a request's commits in one write, but not those of two requests, so as few requests as possible are
//! safest.

use crate::offset::{CommittedOffset, GroupId, TopicPartition};
use crate::plan::Plan;

/// Largest request, in estimated bytes. The broker stores a request as one batch of `__consumer_offsets`, whose
/// `max.message.bytes` is 1 MiB by default.
pub const REQUEST_BYTES: usize = 512 * 1024;
/// Estimated bytes of one stored commit beside its group, topic and metadata.
const COMMIT_BYTES: usize = 60;

/// Estimates the bytes of one commit in a request.
#[must_use]
pub fn estimate_commit(
    group: &GroupId,
    partition: &TopicPartition,
    commit: &CommittedOffset,
) -> usize {
    group.0.len() + partition.topic.len() + commit.metadata.len() + COMMIT_BYTES
}

/// Whether a plan needs more than one request, between which nothing may move.
#[must_use]
pub fn needs_several_requests(plan: &Plan) -> bool {
    let commits = plan.moves.iter().filter_map(|m| Some((m, m.to.as_ref()?)));
    let bytes: usize = commits
        .map(|(m, to)| estimate_commit(&plan.group, &m.partition, to))
        .sum();
    let removes = plan.moves.iter().any(|m| m.to.is_none());
    bytes > REQUEST_BYTES || (removes && bytes > 0)
}
