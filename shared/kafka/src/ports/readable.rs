//! Which logs can be asked for their offsets.

use std::collections::BTreeMap;

use crate::codes::ErrorCode;
use crate::ffi::TopicMetadata;
use crate::librdkafka::admin_client::{PerPartition, PerTopic};
use offset_guard_domain::offset::{Fault, TopicPartition};

/// Splits `partitions` into those whose log can be asked for, and a fault for each of the others.
///
/// The others must not be asked for: librdkafka holds a whole ListOffsets call for seconds while it looks for them.
pub(super) fn split_readable<T>(
    partitions: &[TopicPartition],
    topics: &PerTopic<TopicMetadata>,
) -> (Vec<TopicPartition>, PerPartition<T>) {
    let (mut readable, mut faults) = (Vec::new(), BTreeMap::new());
    for partition in partitions {
        let fault = match topics.get(&partition.topic) {
            None => ErrorCode::MISSING.fault(),
            Some(Err(fault)) => fault.clone(),
            Some(Ok(topic)) if !(0..topic.partitions).contains(&partition.partition) => {
                Fault::TopicGone
            }
            Some(Ok(topic)) if topic.leaderless.contains(&partition.partition) => Fault::NoLeader,
            Some(Ok(_)) => {
                readable.push(partition.clone());
                continue;
            }
        };
        faults.insert(partition.clone(), Err(fault));
    }
    (readable, faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_partitions_that_exist_and_have_a_leader_are_asked_for_their_ends() {
        let topic = TopicMetadata {
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

        let (readable, faults) = split_readable::<()>(&asked, &topics);

        assert_eq!(readable, [TopicPartition::new("shipments", 0)]);
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
