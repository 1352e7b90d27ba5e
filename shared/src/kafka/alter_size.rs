//! How much fits one alter request.

use crate::domain::offset::{CommittedOffset, GroupId, TopicPartition};
use crate::domain::plan::Plan;

/// Estimated bytes of one request. The broker stores it as one batch of `__consumer_offsets`, whose
/// `max.message.bytes` is 1 MiB by default.
pub const LIMIT: usize = 512 * 1024;

/// Estimated bytes of one stored commit beside its group, topic and metadata.
const OVERHEAD: usize = 60;

/// Estimated bytes of one stored commit.
#[must_use]
pub fn estimate(group: &GroupId, partition: &TopicPartition, commit: &CommittedOffset) -> usize {
    group.0.len() + partition.topic.len() + commit.metadata.len() + OVERHEAD
}

/// How many requests a plan needs: as few as fit for its commits, and one for all that it removes.
#[must_use]
pub fn requests_of(plan: &Plan) -> usize {
    let (mut requests, mut bytes, mut removes) = (0, LIMIT, 0);
    for m in &plan.moves {
        let Some(to) = &m.to else {
            removes = 1;
            continue;
        };
        let more = estimate(&plan.group, &m.partition, to);
        if bytes + more > LIMIT {
            requests += 1;
            bytes = 0;
        }
        bytes += more;
    }
    requests + removes
}
