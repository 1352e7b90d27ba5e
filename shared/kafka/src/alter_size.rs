//! How much fits into one alter request. The broker accepts a request's commits in one write, but not two requests',
//! so as few requests as fit are the safest.

use offset_guard_domain::offset::{CommittedOffset, GroupId, TopicPartition};
use offset_guard_domain::plan::Plan;

/// Estimated bytes of one request. The broker stores a request as one batch of `__consumer_offsets`, whose
/// `max.message.bytes` is 1 MiB by default.
pub const LIMIT: usize = 512 * 1024;
/// Estimated bytes of one stored commit beside its group, topic and metadata.
const COMMIT_BYTES: usize = 60;

/// The estimated bytes that one commit takes up in a request.
#[must_use]
pub fn estimate(group: &GroupId, partition: &TopicPartition, commit: &CommittedOffset) -> usize {
    group.0.len() + partition.topic.len() + commit.metadata.len() + COMMIT_BYTES
}

/// Whether a plan needs more than one request, between which nothing may move.
#[must_use]
pub fn needs_several(plan: &Plan) -> bool {
    let commits = plan.moves.iter().filter_map(|m| Some((m, m.to.as_ref()?)));
    let bytes: usize = commits
        .map(|(m, to)| estimate(&plan.group, &m.partition, to))
        .sum();
    let removes = plan.moves.iter().any(|m| m.to.is_none());
    bytes > LIMIT || (removes && bytes > 0)
}
