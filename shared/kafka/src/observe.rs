//! One whole reading of a group, in an order in which a race cannot invent a fault.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::error::{ErrorCode, KafkaError};
use super::ffi::{Found, Isolation, Spec, Topic};
use super::reader::{GroupReader, PerPartition, Topics};
use offset_guard_domain::group::{GroupObservation, PartitionReading, TopicDescription};
use offset_guard_domain::offset::{Fault, GroupId, TopicPartition, Watermarks};

impl GroupReader {
    /// One whole reading of `group`: every partition that it has a commit for, that a member is assigned, or that is
    /// in `expected` (give the partitions of an earlier reading: topics that the principal can no longer see are left
    /// out of "all commits" silently, and only show when asked for by name).
    ///
    /// Read in the order log start, committed, high watermark, last stable offset, each after the one before it is
    /// complete, so that a moving log or group cannot look like an offset out of range. With `stable`, a commit that
    /// an open transaction may still change is [`Fault::Unstable`].
    ///
    /// # Errors
    /// Nothing could be read: no broker, no coordinator, or the group's commits are withheld as a whole. What fails
    /// for the description, for a topic or for a partition alone is a fault in the observation.
    pub async fn observe(
        &self,
        group: &GroupId,
        expected: &BTreeSet<TopicPartition>,
        stable: bool,
    ) -> Result<GroupObservation, KafkaError> {
        let (began_at, this) = (Timestamp::now(), self.bounded());
        let (cluster_id, description, found) = tokio::join!(
            this.cluster_id(),
            this.describe(group),
            this.all_committed(group, stable)
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

        let topics = this.topics(&partitions).await?;
        let (there, mut log) = split(&partitions, &topics);
        let log_start = this
            .ends(&there, Spec::Earliest, Isolation::ReadUncommitted)
            .await;
        let mut committed = this.committed(group, &partitions, stable).await?;
        let high = this
            .ends(&there, Spec::Latest, Isolation::ReadUncommitted)
            .await;
        let last_stable = this
            .ends(&there, Spec::Latest, Isolation::ReadCommitted)
            .await;
        for (((partition, log_start), high), last_stable) in
            there.into_iter().zip(log_start).zip(high).zip(last_stable)
        {
            log.insert(partition, watermarks(log_start, high, last_stable));
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
                .map(|(name, topic)| (name, topic.map(|topic| topic.description())))
                .collect(),
            began_at,
            ended_at: Timestamp::now(),
        })
    }
}

impl Topic {
    fn description(&self) -> TopicDescription {
        TopicDescription {
            id: self.id,
            partitions: self.partitions,
        }
    }
}

/// The partitions whose log can be asked for, and a fault for each of the others.
///
/// The others are not asked for: librdkafka holds a whole ListOffsets call for seconds while it looks for them.
pub(super) fn split<T>(
    partitions: &[TopicPartition],
    topics: &Topics,
) -> (Vec<TopicPartition>, PerPartition<T>) {
    let (mut there, mut faults) = (Vec::new(), BTreeMap::new());
    for partition in partitions {
        let fault = match topics.get(&partition.topic) {
            None => ErrorCode::MISSING.fault(),
            Some(Err(fault)) => fault.clone(),
            Some(Ok(topic)) if !(0..topic.partitions).contains(&partition.partition) => {
                Fault::TopicGone
            }
            Some(Ok(topic)) if topic.leaderless.contains(&partition.partition) => Fault::NoLeader,
            Some(Ok(_)) => {
                there.push(partition.clone());
                continue;
            }
        };
        faults.insert(partition.clone(), Err(fault));
    }
    (there, faults)
}

fn watermarks(
    log_start: Result<Found, Fault>,
    high: Result<Found, Fault>,
    last_stable: Result<Found, Fault>,
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

    fn found(offset: i64) -> Result<Found, Fault> {
        Ok(Found {
            offset,
            leader_epoch: Some(4),
            timestamp: None,
        })
    }

    #[test]
    fn a_log_that_grows_while_it_is_read_is_not_stable_beyond_its_end() {
        let log = watermarks(found(3), found(10), found(12)).unwrap();
        assert_eq!((log.log_start, log.last_stable, log.high), (3, 10, 10));
        assert_eq!(log.leader_epoch, Some(4));

        let log = watermarks(found(3), found(10), found(7)).unwrap();
        assert_eq!((log.last_stable, log.high), (7, 10));
        let one_end_short = watermarks(found(3), Err(Fault::NoLeader), found(7));
        assert_eq!(one_end_short, Err(Fault::NoLeader));
    }

    #[test]
    fn only_partitions_that_exist_and_have_a_leader_are_asked_for_their_ends() {
        let topic = Topic {
            id: None,
            partitions: 3,
            replicas: 1,
            leaderless: vec![2],
        };
        let topics = BTreeMap::from([
            ("shipments".to_owned(), Ok(topic)),
            ("deleted".to_owned(), Err(Fault::TopicGone)),
            ("hidden".to_owned(), Err(Fault::NotAuthorised)),
        ]);
        let asked = [
            ("deleted", 0),
            ("hidden", 0),
            ("never-described", 0),
            ("shipments", 0),
            ("shipments", 2),
            ("shipments", 3),
        ]
        .map(|(topic, partition)| TopicPartition::new(topic, partition));

        let (there, faults) = split::<()>(&asked, &topics);

        assert_eq!(there, [TopicPartition::new("shipments", 0)]);
        let faults: Vec<_> = faults.into_values().map(Result::unwrap_err).collect();
        let missing = Fault::Failed {
            code: "MISSING_FROM_ANSWER".to_owned(),
        };
        assert_eq!(
            faults,
            [
                Fault::TopicGone,
                Fault::NotAuthorised,
                missing,
                Fault::NoLeader,
                Fault::TopicGone
            ]
        );
    }
}
