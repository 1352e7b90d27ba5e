//! Reads named records again, many of them through one reading: what a plan passes over, and its copies.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};

use crate::domain::guard::headers::seen;
use crate::domain::guard::quarantine::{CopySeen, Kept, KeptCopy, Reread};
use crate::domain::guard::record::Outline;
use crate::domain::offset::{Fault, TopicPartition};
use crate::domain::plan::Plan;
use crate::ports::{ReadLimits, ReadRecords, View};

/// How many partitions are read at once.
const AT_ONCE: usize = 8;
/// How many offsets that nobody asked for are read over between two that somebody did: cheaper than another reading.
const GAP: i64 = 256;
/// How much one reading may bring into memory.
const READ_BYTES: usize = 8 << 20;
/// How many records one reading may bring into memory.
const READ_RECORDS: usize = 4_096;
/// How long one reading may take.
const READ_TIME: Duration = Duration::from_secs(20);

/// What was found at one place: nothing, or what may be said of the record there.
type Found = Result<Option<Looked>, Fault>;

/// A record that was read again. Nothing of its payload is kept.
#[derive(Debug, Clone)]
struct Looked {
    outline: Outline,
    /// What it says it is a copy of.
    seen: CopySeen,
}

/// Every record that `plan` passes over, and its copy, as they are now. What is not read by `until` is a fault.
pub async fn reread<D: ReadRecords>(
    records: &D,
    plan: &Plan,
    until: Instant,
) -> BTreeMap<(TopicPartition, i64), Reread> {
    let sources = plan
        .skips
        .iter()
        .map(|skipped| (&skipped.partition, skipped.record.offset));
    let copies = plan.skips.iter().filter_map(|skipped| match &skipped.kept {
        Kept::In(copy) => Some((&copy.partition, copy.offset)),
        Kept::No | Kept::NotYet => None,
    });
    let found = look(records, sources.chain(copies), until).await;
    let at = |partition: &TopicPartition, offset: i64| {
        let found = found.get(&(partition.clone(), offset));
        found.cloned().unwrap_or_else(|| Err(Fault::missing()))
    };
    let read = plan.skips.iter().map(|skipped| {
        let (partition, offset) = (&skipped.partition, skipped.record.offset);
        let copy = match &skipped.kept {
            Kept::In(copy) => at(&copy.partition, copy.offset),
            Kept::No | Kept::NotYet => Ok(None),
        };
        let reread = Reread {
            source: at(partition, offset).map(|looked| looked.map(|looked| looked.outline)),
            copy: copy.map(|looked| looked.map(|looked| looked.seen)),
        };
        ((partition.clone(), offset), reread)
    });
    read.collect()
}

/// What lies where copies were written. What is not read by `until` is a fault.
pub async fn copies<D: ReadRecords>(
    records: &D,
    copies: impl IntoIterator<Item = &KeptCopy>,
    until: Instant,
) -> BTreeMap<(TopicPartition, i64), Result<Option<CopySeen>, Fault>> {
    let places = copies
        .into_iter()
        .map(|copy| (&copy.partition, copy.offset));
    let found = look(records, places, until).await;
    let seen = |found: Found| found.map(|looked| looked.map(|looked| looked.seen));
    found
        .into_iter()
        .map(|(place, found)| (place, seen(found)))
        .collect()
}

async fn look<'a, D: ReadRecords>(
    records: &D,
    places: impl Iterator<Item = (&'a TopicPartition, i64)>,
    until: Instant,
) -> BTreeMap<(TopicPartition, i64), Found> {
    let mut wanted: BTreeMap<&TopicPartition, BTreeSet<i64>> = BTreeMap::new();
    for (partition, offset) in places {
        wanted.entry(partition).or_default().insert(offset);
    }
    let found: Vec<_> = stream::iter(wanted)
        .map(|(partition, offsets)| async move {
            let found = of_partition(records, partition, &offsets, until).await;
            (partition, found)
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    found
        .into_iter()
        .flat_map(|(partition, found)| {
            let place = move |(offset, found)| ((partition.clone(), offset), found);
            found.into_iter().map(place)
        })
        .collect()
}

/// The records at these offsets of one partition, read in as few readings as their places allow. A reading that fails is
/// halved, so that what cannot be read is known by itself and hides nothing beside it.
async fn of_partition<D: ReadRecords>(
    records: &D,
    partition: &TopicPartition,
    offsets: &BTreeSet<i64>,
    until: Instant,
) -> BTreeMap<i64, Found> {
    let mut found = BTreeMap::new();
    let mut runs: VecDeque<Vec<i64>> = runs(offsets).into();
    while let Some(mut run) = runs.pop_front() {
        let (Some(first), Some(last)) = (run.first().copied(), run.last().copied()) else {
            continue;
        };
        let limits = ReadLimits {
            records: READ_RECORDS,
            bytes: READ_BYTES,
            time: READ_TIME.min(until.saturating_duration_since(Instant::now())),
        };
        if limits.time.is_zero() {
            let late = Fault::Failed {
                code: "NO_TIME_LEFT".to_owned(),
            };
            found.extend(run.into_iter().map(|offset| (offset, Err(late.clone()))));
            continue;
        }
        let end = last.saturating_add(1);
        let read = records
            .read(partition, first, end, View::Uncommitted, limits)
            .await;
        match read {
            Ok(read) => {
                let wanted = read.records.iter().filter(|r| offsets.contains(&r.offset));
                found.extend(wanted.map(|record| {
                    let looked = Looked {
                        outline: record.outline(),
                        seen: seen(record),
                    };
                    (record.offset, Ok(Some(looked)))
                }));
                // Where the log ends before the run does, or has not reached it again since its topic was made anew,
                // there is nothing.
                let looked_at = if read.until > first { read.until } else { end };
                let rest = run.split_off(run.partition_point(|offset| *offset < looked_at));
                for offset in run {
                    found.entry(offset).or_insert(Ok(None));
                }
                if !rest.is_empty() {
                    runs.push_front(rest);
                }
            }
            Err(fault) if run.len() > 1 && is_of_a_record(&fault) => {
                let second = run.split_off(run.len() / 2);
                runs.push_front(second);
                runs.push_front(run);
            }
            // An offset that its log no longer has is known to hold nothing.
            Err(fault) if fault == Fault::out_of_range() => {
                found.extend(run.into_iter().map(|offset| (offset, Ok(None))));
            }
            Err(fault) => {
                found.extend(run.into_iter().map(|offset| (offset, Err(fault.clone()))));
            }
        }
    }
    found
}

/// Offsets that lie close enough together to be read at once.
fn runs(offsets: &BTreeSet<i64>) -> Vec<Vec<i64>> {
    let mut runs: Vec<Vec<i64>> = Vec::new();
    for offset in offsets {
        match runs.last_mut() {
            Some(run)
                if run
                    .last()
                    .is_some_and(|last| offset.saturating_sub(*last) <= GAP) =>
            {
                run.push(*offset);
            }
            _ => runs.push(vec![*offset]),
        }
    }
    runs
}

/// Whether a reading may have failed for one record of it: the others are worth another try.
fn is_of_a_record(fault: &Fault) -> bool {
    match fault {
        Fault::TopicGone | Fault::NotAuthorised | Fault::NoLeader | Fault::Unstable => false,
        Fault::Failed { code } => !code.contains("TIMED_OUT"),
    }
}

#[cfg(test)]
mod tests;
