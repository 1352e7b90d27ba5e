//! Bounded raw reads at the commits of stalled partitions.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Semaphore;

use super::pace::Pace;
use crate::domain::guard::policy::GuardPolicy;
use crate::domain::guard::probe::{
    Begun, First, Kind, Probe, ProbeFault, ProbeNotes, Probed, Validation, kind_of, validate,
};
use crate::domain::guard::record::Record;
use crate::domain::guard::sample::PartitionSample;
use crate::domain::ids::GroupKey;
use crate::domain::offset::{Fault, TopicPartition};
use crate::error::Error;
use crate::ports::{ReadLimits, ReadRecords, RecordsRead, View};
use crate::store::Store;

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

/// How many partitions are probed at once, of all groups together: their records have to have room in a function's memory.
const AT_ONCE: usize = 3;

/// One place per partition.
static PLACES: Semaphore = Semaphore::const_new(AT_ONCE);

/// Everything that the probes of a group need.
pub(super) struct Probing<'a, D> {
    pub(super) records: &'a D,
    pub(super) store: &'a Store,
    pub(super) group: &'a GroupKey,
    pub(super) policy: &'a GuardPolicy,
    pub(super) reads_uncommitted: bool,
    /// What a person wants to know of, which is read whatever was noted of it.
    pub(super) asked: Option<&'a TopicPartition>,
    /// How far the time of all groups' runs reaches.
    pub(super) pace: &'a Pace,
}

impl<D: ReadRecords> Probing<'_, D> {
    /// Probes as many of `wanted`, in their order, as a run has room for.
    ///
    /// Each is noted before it begins: what ended the process that read, or the run itself, is not read again by the next
    /// one.
    ///
    /// # Errors
    /// It cannot be noted.
    pub(super) async fn all(
        &self,
        wanted: &[(TopicPartition, PartitionSample)],
    ) -> Result<BTreeMap<TopicPartition, Probed>, Error> {
        let mut notes = self.store.probe_notes(self.group).await?;
        let mut probes = BTreeMap::new();
        let mut begun = 0;
        // The last read of this run, and whether it ended the process that read.
        let mut read: Option<(Begun, bool)> = None;
        for (partition, sample) in wanted {
            let is_asked = self.asked == Some(partition);
            let offset = sample.committed.unwrap_or_default();
            let forbidden = notes.forbid(partition, offset, Timestamp::now());
            let has_room = begun < PROBES && (is_asked || self.pace.has_room_for(FIRST.time));
            let probed = match forbidden {
                Some(fault) if !is_asked => Err(fault),
                _ if !has_room => Err(ProbeFault::NoRoom),
                _ => {
                    begun += 1;
                    let now = Timestamp::now();
                    let next = Begun::new(partition, offset, now);
                    notes = self.note(read.as_ref(), Some(&next)).await?;
                    let probed = self.one(partition, sample).await;
                    let ended = probed == Err(Fault::reader_ended());
                    read = Some((next, ended));
                    probed.map_err(|fault| match ended {
                        true => ProbeFault::Ended { at: now },
                        false => ProbeFault::Unreadable(fault),
                    })
                }
            };
            probes.insert(partition.clone(), probed);
        }
        if read.is_some() {
            self.note(read.as_ref(), None).await?;
        }
        Ok(probes)
    }

    /// Notes what came of the last read, and which one is next.
    async fn note(
        &self,
        read: Option<&(Begun, bool)>,
        next: Option<&Begun>,
    ) -> Result<ProbeNotes, Error> {
        let change = |notes: &mut ProbeNotes| {
            if let Some((begun, ended)) = read {
                notes.finish(begun, *ended);
            }
            if let Some(next) = next {
                notes.begin(next.clone());
            }
        };
        let (store, now) = (self.store, Timestamp::now());
        let noted = store.change_probe_notes(self.group, now, change);
        Ok(noted.await?)
    }

    async fn one(
        &self,
        partition: &TopicPartition,
        sample: &PartitionSample,
    ) -> Result<Probe, Fault> {
        let _place = PLACES.acquire().await;
        let (records, policy) = (self.records, self.policy);
        probe(records, partition, sample, policy, self.reads_uncommitted).await
    }
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
