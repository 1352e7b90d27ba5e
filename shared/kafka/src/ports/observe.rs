//! One whole reading of a group, in an order in which a race cannot invent a fault.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::readable::split_readable;
use crate::codes::ErrorCode;
use crate::error::KafkaError;
use crate::ffi::{FoundOffset, IsolationLevel, OffsetSpec, TopicMetadata};
use crate::librdkafka::admin_client::AdminClient;
use offset_guard_domain::group::{GroupObservation, PartitionReading, TopicDescription};
use offset_guard_domain::offset::{Fault, GroupId, TopicPartition, Watermarks};

/// Reads `group` as a whole: every partition that it has a commit for, that a member is assigned, or that is in
/// `expected`. Give the partitions of an earlier reading: "all commits" silently leaves out topics that the principal can
/// no longer see, and such topics show only when asked for by name.
///
/// The order is log start, committed, high watermark, last stable offset, each after the one before it is complete, so
/// that a moving log or group cannot look like an offset out of range. With `stable`, a commit that an open transaction
/// may still change is [`Fault::Unstable`].
///
/// # Errors
/// Nothing could be read: no broker, no coordinator, or the group's commits are withheld as a whole. A failure of the
/// description, of a topic or of a partition alone is a fault in the observation.
pub(super) async fn observe_group(
    client: &AdminClient,
    group: &GroupId,
    expected: &BTreeSet<TopicPartition>,
    stable: bool,
) -> Result<GroupObservation, KafkaError> {
    let began_at = Timestamp::now();
    let (cluster_id, description, found) = tokio::join!(
        client.describe_cluster_id(),
        client.describe_group(group),
        client.list_all_committed(group, stable)
    );
    let cluster_id = cluster_id?;
    let mut partitions = expected.clone();
    partitions.extend(found?);
    if let Ok(description) = &description {
        for member in &description.members {
            partitions.extend(member.assignment.iter().cloned());
        }
    }
    let partitions: Vec<_> = partitions.into_iter().collect();

    let topics = client.describe_topics(&partitions).await?;
    let (readable, mut log) = split_readable(&partitions, &topics);
    let log_start = client
        .list_ends(
            &readable,
            OffsetSpec::Earliest,
            IsolationLevel::ReadUncommitted,
        )
        .await;
    let mut committed = client.list_committed(group, &partitions, stable).await?;
    let high = client
        .list_ends(
            &readable,
            OffsetSpec::Latest,
            IsolationLevel::ReadUncommitted,
        )
        .await;
    let last_stable = client
        .list_ends(&readable, OffsetSpec::Latest, IsolationLevel::ReadCommitted)
        .await;
    for (((partition, log_start), high), last_stable) in readable
        .into_iter()
        .zip(log_start)
        .zip(high)
        .zip(last_stable)
    {
        log.insert(partition, to_watermarks(log_start, high, last_stable));
    }

    let missing = || ErrorCode::MISSING.fault();
    let partitions = partitions.into_iter().map(|partition| {
        let reading = PartitionReading {
            committed: committed
                .remove(&partition)
                .unwrap_or_else(|| Err(missing())),
            log: log.remove(&partition).unwrap_or_else(|| Err(missing())),
        };
        (partition, reading)
    });
    Ok(GroupObservation {
        cluster_id,
        group: group.clone(),
        description,
        partitions: partitions.collect(),
        topics: topics
            .into_iter()
            .map(|(name, topic)| (name, topic.map(to_description)))
            .collect(),
        began_at,
        ended_at: Timestamp::now(),
    })
}

fn to_description(topic: TopicMetadata) -> TopicDescription {
    TopicDescription {
        id: topic.id,
        partitions: topic.partitions,
    }
}

fn to_watermarks(
    log_start: Result<FoundOffset, Fault>,
    high: Result<FoundOffset, Fault>,
    last_stable: Result<FoundOffset, Fault>,
) -> Result<Watermarks, Fault> {
    let (log_start, high, last_stable) = (log_start?, high?, last_stable?);
    Ok(Watermarks {
        log_start: log_start.offset,
        // Read after it, so the log may have grown in between.
        last_stable: last_stable.offset.min(high.offset),
        high: high.offset,
        leader_epoch: high.leader_epoch,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(offset: i64) -> Result<FoundOffset, Fault> {
        Ok(FoundOffset {
            offset,
            leader_epoch: Some(4),
            timestamp: None,
        })
    }

    #[test]
    fn a_log_that_grows_while_it_is_read_is_not_stable_beyond_its_end() {
        let log = to_watermarks(found(3), found(10), found(12)).unwrap();
        assert_eq!((log.log_start, log.last_stable, log.high), (3, 10, 10));
        assert_eq!(log.leader_epoch, Some(4));

        let log = to_watermarks(found(3), found(10), found(7)).unwrap();
        assert_eq!((log.last_stable, log.high), (7, 10));
        let one_end_short = to_watermarks(found(3), Err(Fault::NoLeader), found(7));
        assert_eq!(one_end_short, Err(Fault::NoLeader));
    }
}
