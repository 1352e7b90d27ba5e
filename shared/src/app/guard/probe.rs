//! Bounded raw reads at the commits of stalled partitions.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::domain::guard::policy::GuardPolicy;
use crate::domain::guard::probe::{
    First, Kind, Probe, ProbeFault, Probed, Validation, kind_of, validate,
};
use crate::domain::guard::record::Record;
use crate::domain::guard::sample::PartitionSample;
use crate::domain::offset::{Fault, TopicPartition};
use crate::ports::{ReadLimits, ReadRecords, RecordsRead, View};

/// How many records before the commit show what kind of records a partition holds.
const NEIGHBOURS: usize = 20;
/// Over how many offsets before the commit they are looked for, one after the other: a compacted log has gaps.
const WINDOWS: [i64; 3] = [20, 200, 2000];
/// With so many of them, no longer window is read.
const ENOUGH: usize = 5;
/// How many partitions of one group are probed in a run.
const PROBES: usize = 8;
/// The limits of a read that is only after the first record.
const FIRST: ReadLimits = ReadLimits {
    records: 1,
    bytes: 1,
    time: Duration::from_secs(10),
};
/// The most that the records of one poll may take up, in bytes.
const POLL_BYTES: usize = 16 << 20;

/// Probes as many of `wanted`, in their order, as a run has room for.
pub(super) async fn probe_all<D: ReadRecords>(
    records: &D,
    wanted: &[(TopicPartition, PartitionSample)],
    policy: &GuardPolicy,
    reads_uncommitted: bool,
) -> BTreeMap<TopicPartition, Probed> {
    let mut probes = BTreeMap::new();
    for (n, (partition, sample)) in wanted.iter().enumerate() {
        let probed = if n < PROBES {
            probe(records, partition, sample, policy, reads_uncommitted)
                .await
                .map_err(ProbeFault::Unreadable)
        } else {
            Err(ProbeFault::NoRoom)
        };
        probes.insert(partition.clone(), probed);
    }
    probes
}

async fn probe<D: ReadRecords>(
    records: &D,
    partition: &TopicPartition,
    sample: &PartitionSample,
    policy: &GuardPolicy,
    reads_uncommitted: bool,
) -> Result<Probe, Fault> {
    let from = sample.committed.ok_or_else(Fault::missing)?;
    let kind = kind_of(&neighbours(records, partition, sample, from).await);
    let poll = ReadLimits {
        // Where nothing is known of the records, nothing can be said of those behind the first.
        records: if policy.validators.is_empty() && !kind.is_some_and(Kind::is_of_values) {
            1
        } else {
            usize::try_from(policy.poll_records()).unwrap_or(usize::MAX)
        },
        bytes: POLL_BYTES,
        time: FIRST.time,
    };
    let (of_committed, of_uncommitted) = if reads_uncommitted {
        (FIRST, poll)
    } else {
        (poll, FIRST)
    };
    let log = sample.log;
    let (committed, uncommitted) = (
        read(
            records,
            partition,
            from,
            log.last_stable,
            View::Committed,
            of_committed,
        )
        .await?,
        read(
            records,
            partition,
            from,
            log.high,
            View::Uncommitted,
            of_uncommitted,
        )
        .await?,
    );
    let seen = if reads_uncommitted {
        &uncommitted
    } else {
        &committed
    };
    let validation = if policy.validators.is_empty() {
        Validation::default()
    } else {
        Validation {
            records: seen
                .records
                .iter()
                .map(|record| (record.offset, validate(&policy.validators, record)))
                .collect(),
        }
    };
    let unlike = kind.and_then(|kind| kind.unlike(&seen.records));
    Ok(Probe {
        from,
        committed: first(&committed),
        uncommitted: first(&uncommitted),
        validation,
        unlike,
    })
}

/// The records right before the commit, which the group got past. They are only a hint, so what cannot be read of them is
/// left out.
async fn neighbours<D: ReadRecords>(
    records: &D,
    partition: &TopicPartition,
    sample: &PartitionSample,
    committed: i64,
) -> Vec<Record> {
    let mut found = Vec::new();
    for window in WINDOWS {
        let from = committed.saturating_sub(window).max(sample.log.log_start);
        let limits = ReadLimits {
            records: usize::try_from(window).unwrap_or(usize::MAX),
            bytes: POLL_BYTES,
            time: FIRST.time,
        };
        match read(records, partition, from, committed, View::Committed, limits).await {
            Ok(read) if read.until >= committed => found = read.records,
            Ok(_) => break,
            Err(fault) => {
                tracing::debug!(%partition, %fault, "the records before the commit were not read");
                break;
            }
        }
        if found.len() >= ENOUGH || from <= sample.log.log_start {
            break;
        }
    }
    let more = found.len().saturating_sub(NEIGHBOURS);
    found.split_off(more)
}

fn first(read: &RecordsRead) -> First {
    match read.records.first() {
        Some(record) => First::Record(record.outline()),
        None => First::None { until: read.until },
    }
}

/// Reads up to `until`; nothing where the commit is there already.
async fn read<D: ReadRecords>(
    records: &D,
    partition: &TopicPartition,
    from: i64,
    until: i64,
    view: View,
    limits: ReadLimits,
) -> Result<RecordsRead, Fault> {
    if from >= until {
        return Ok(RecordsRead {
            records: Vec::new(),
            until: from,
        });
    }
    let read = records.read(partition, from, until, view, limits).await?;
    // A read that ended for lack of time before it saw anything says nothing about what is there.
    if read.records.is_empty() && read.until < until {
        return Err(Fault::Failed {
            code: "READ_CUT_SHORT".to_owned(),
        });
    }
    Ok(read)
}
