//! Offsets that the request names.

use std::collections::BTreeMap;

use super::data::{Target, Wanted};
use super::reading::judge_reading;
use crate::group::GroupObservation;
use crate::offset::{Fault, TopicPartition};
use crate::plan::{LeftAlone, Source};
use crate::refusal::Refusal;
use crate::request::RewindRequest;

/// Resolves the target: these offsets, and no other partition.
#[must_use]
pub fn resolve_offsets(
    offsets: &BTreeMap<TopicPartition, i64>,
    request: &RewindRequest,
    seen: &GroupObservation,
) -> Target {
    let judge_one = |partition: &TopicPartition| {
        let Some(offset) = offsets.get(partition) else {
            return Wanted::NotAsked(LeftAlone::NotSelected);
        };
        let unknown = Wanted::Refuse(Refusal::PartitionUnknown {
            partition: partition.clone(),
        });
        // A request may name what never was; a source names only what was there.
        let log = seen.partitions.get(partition).map(|reading| &reading.log);
        if log == Some(&Err(Fault::TopicGone)) {
            return unknown;
        }
        judge_reading(seen, partition, |from, _| match from {
            // Also where the group has no commits at all: how far a log that it does not read reaches is not said.
            None => unknown,
            Some(_) => Wanted::bare(*offset, request.allow.clamp),
        })
    };
    let partitions = seen.partitions.keys();
    let wanted = partitions.map(|partition| (partition.clone(), judge_one(partition)));
    let negative = offsets.iter().filter(|(_, offset)| **offset < 0);
    let wrong = negative.map(|(partition, offset)| Refusal::InvalidRequest {
        field: "to_offsets".to_owned(),
        problem: format!(
            "{offset} for {partition} is no offset; write one from 0 on, or use to_earliest"
        ),
    });
    Target {
        named: offsets.keys().cloned().collect(),
        wrong: wrong.collect(),
        ..Target::new(Source::Offsets, wanted.collect())
    }
}
