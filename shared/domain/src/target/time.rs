//! The first record of each partition at or after a time.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::data::{Target, Wanted};
use super::reading::{judge_each_committed, refuse_unread};
use crate::group::GroupObservation;
use crate::offset::{Fault, FoundByTime, TopicPartition};
use crate::plan::{LeftAlone, Source, Warning};
use crate::refusal::Refusal;
use crate::request::RewindRequest;

/// What the brokers answered for each partition; `None` is "no record that late".
pub type FirstRecords = BTreeMap<TopicPartition, Result<Option<FoundByTime>, Fault>>;

/// The time that lies `duration` before `now`.
///
/// # Errors
/// There is no such time.
pub fn time_before(now: Timestamp, duration: SignedDuration) -> Result<Timestamp, Refusal> {
    now.checked_sub(duration)
        .map_err(|_| Refusal::InvalidRequest {
            field: "by_duration".to_owned(),
            problem: "it reaches further back than time itself; write PT2H30M".to_owned(),
        })
}

/// Resolves the target: the records that were found for `at`.
#[must_use]
pub fn resolve_time(
    at: Timestamp,
    found: &FirstRecords,
    request: &RewindRequest,
    seen: &GroupObservation,
) -> Target {
    let allow = request.allow;
    let bare = |offset| Wanted::bare(offset, allow.clamp);
    let wanted = judge_each_committed(seen, |partition, from, log| match found.get(partition) {
        // One that was written after the log's end was read is beyond it.
        Some(Ok(Some(found))) => bare(found.offset.min(log.high)),
        // As Kafka's own tool does: no record that late means the end of the log.
        Some(Ok(None)) if allow.forward => bare(log.high),
        // Nothing of that time is there to be read again, and no other partition has to wait for that.
        Some(Ok(None)) if from.offset < log.high => Wanted::Leave(LeftAlone::NoRecordThatLate),
        Some(Ok(None)) => bare(log.high),
        Some(Err(fault)) => Wanted::Refuse(refuse_unread(partition, fault)),
        None => Wanted::Refuse(refuse_unread(partition, &Fault::missing())),
    });
    let out_of_order = found.iter().filter_map(|(partition, found)| {
        let found = found.as_ref().ok()?.as_ref()?;
        let log = seen.partitions.get(partition)?.log.as_ref().ok()?;
        let warning = Warning::TimesOutOfOrder {
            partition: partition.clone(),
            offset: found.offset,
            dated: found.is_out_of_order(log.high)?,
        };
        Some((partition.clone(), warning))
    });
    Target {
        warnings_where_moved: out_of_order.collect(),
        ..Target::new(Source::Timestamp { at }, wanted)
    }
}
