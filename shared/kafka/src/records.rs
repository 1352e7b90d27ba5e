//! Reading records as they are.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::slice;
use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaError as RdKafkaError;
use rdkafka::{Message, Offset, TopicPartitionList};
use serde::{Deserialize, Serialize};

use super::GroupReader;
use super::contained::{self, ReaderProgram};
use super::error::{ErrorClass, ErrorCode, KafkaError};
use super::ffi::{self, Isolation, Spec};
use super::handle;
use super::observe::split;
use super::settings::{Auth, ConnectionSettings};
use offset_guard_domain::guard::record::Record;
use offset_guard_domain::offset::{Fault, TopicPartition};
use offset_guard_domain::ports::{ReadLimits, ReadRecords, RecordsRead, View};

/// How long one poll waits at most.
const POLL: Duration = Duration::from_millis(100);

/// What one answer of a broker holds at most, beside the first batch, which comes whole whatever its size.
const USUAL_FETCH: &str = "65536";
/// So that an answer holds one batch alone: what cannot be unpacked takes no record before it along.
const ONE_BATCH: &str = "1";

/// What makes a consumer read records one by one, all or none. `isolation.level` is the view's, and
/// `fetch.message.max.bytes` the read's.
const PROPERTIES: [(&str, &str); 9] = [
    // Without it a batch that was damaged is handed out like any other.
    ("check.crcs", "true"),
    // The end of what can be read is an event, and so are the offsets before it that hold no visible record.
    ("enable.partition.eof", "true"),
    // An offset that is not there is an error, and never a reason to read elsewhere.
    ("auto.offset.reset", "error"),
    ("fetch.max.bytes", "1048576"),
    // The largest answer, and the most that a zstd batch may unpack to.
    ("receive.message.max.bytes", "134217728"),
    // Nothing is fetched ahead: what lies behind must not end the process that reads before it has handed out what it
    // has.
    ("queued.min.messages", "1"),
    ("fetch.queue.backoff.ms", "1"),
    ("queued.max.messages.kbytes", "1024"),
    // How long a broker holds its answer back at the end of the log.
    ("fetch.wait.max.ms", "20"),
];

/// Reads records of one partition, on a consumer of its own that is assigned, never subscribed, and commits nothing.
///
/// Each read is done by a process of its own with little memory (`contained`): what a producer wrote can end that one,
/// and no other. A clone shares the connection that looks where logs begin and end.
#[derive(Debug, Clone)]
pub struct RecordReader {
    groups: GroupReader,
    settings: ConnectionSettings,
    program: ReaderProgram,
}

/// One read, as the process that does it is told. It holds secrets.
#[derive(Serialize, Deserialize)]
pub(super) struct Order {
    /// librdkafka's.
    properties: BTreeMap<String, String>,
    msk_region: Option<String>,
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) from: i64,
    /// Exclusive; it is in the log and below the end of the view.
    end: i64,
    records: usize,
    bytes: usize,
    time_ms: u64,
}

/// Why a read came to no end.
#[derive(Debug)]
pub(super) enum Stopped {
    /// It could not be done.
    Fault(Fault),
    /// A batch does not unpack within the memory that there is, if at all.
    DoesNotUnpack,
    /// Who wanted it is gone.
    NobodyListens,
}

impl From<Fault> for Stopped {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl RecordReader {
    /// A reader for the cluster of `settings`, whose reads are done by children of `program`.
    ///
    /// # Errors
    /// Settings that librdkafka refuses.
    pub fn connect(
        settings: ConnectionSettings,
        program: ReaderProgram,
    ) -> Result<Self, KafkaError> {
        Ok(Self {
            groups: GroupReader::connect(settings.clone())?,
            settings,
            program,
        })
    }

    /// The same reader with no read lasting beyond `deadline`.
    #[must_use]
    pub fn until(&self, deadline: Instant) -> Self {
        Self {
            groups: self.groups.until(deadline),
            settings: self.settings.clone(),
            program: self.program.clone(),
        }
    }

    /// Has a process of its own read the records of `range`.
    async fn contained(
        &self,
        partition: &TopicPartition,
        range: Range<i64>,
        view: View,
        limits: ReadLimits,
    ) -> Result<RecordsRead, Fault> {
        let fetches: &[&str] = match limits.records {
            1 => &[ONE_BATCH],
            // What lies behind the wanted records may have come along, and ended the process.
            _ => &[USUAL_FETCH, ONE_BATCH],
        };
        let mut read = RecordsRead {
            records: Vec::new(),
            until: range.start,
        };
        for fetch in fetches {
            let _place = contained::place().await?;
            let now = Instant::now();
            let deadline = self.groups.deadline().min(now + limits.time);
            let time = deadline.saturating_duration_since(now);
            let order = Order {
                properties: self.properties(view, fetch),
                msk_region: match &self.settings.auth {
                    Auth::MskIam { region } => Some(region.clone()),
                    _ => None,
                },
                topic: partition.topic.clone(),
                partition: partition.partition,
                from: range.start,
                end: range.end,
                records: limits.records,
                bytes: limits.bytes,
                time_ms: u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
            };
            let attempt = contained::read(&self.program, &order, deadline).await?;
            read = attempt.read;
            if attempt.finished {
                return Ok(read);
            }
        }
        // What was read is whole, as far as it goes.
        match read.records.is_empty() {
            true => Err(Fault::reader_ended()),
            false => Ok(read),
        }
    }

    fn properties(&self, view: View, fetch: &str) -> BTreeMap<String, String> {
        let isolation = match view {
            View::Committed => "read_committed",
            View::Uncommitted => "read_uncommitted",
        };
        let more = [
            ("isolation.level", isolation),
            ("fetch.message.max.bytes", fetch),
        ];
        let config = handle::consumer_config(&self.settings, &[&PROPERTIES[..], &more].concat());
        let properties = config.config_map();
        properties
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    /// Up to where `view` sees now, for a read from `from` on; a position that is not in the log is a fault.
    async fn end(&self, partition: &TopicPartition, from: i64, view: View) -> Result<i64, Fault> {
        let asked = slice::from_ref(partition);
        let topics = self.groups.topics(asked).await;
        let (_, mut faults) = split::<()>(asked, &topics.map_err(|error| error.fault())?);
        if let Some(Err(fault)) = faults.remove(partition) {
            return Err(fault);
        }
        let start = self
            .offset(partition, Spec::Earliest, View::Uncommitted)
            .await?;
        let end = self.offset(partition, Spec::Latest, view).await?;
        // What an open transaction holds back is in the log.
        let high = match view {
            View::Committed if from > end => {
                self.offset(partition, Spec::Latest, View::Uncommitted)
                    .await?
            }
            View::Committed | View::Uncommitted => end,
        };
        if from < start || from > high {
            return Err(Fault::out_of_range());
        }
        Ok(end)
    }

    async fn offset(
        &self,
        partition: &TopicPartition,
        spec: Spec,
        view: View,
    ) -> Result<i64, Fault> {
        let isolation = match view {
            View::Committed => Isolation::ReadCommitted,
            View::Uncommitted => Isolation::ReadUncommitted,
        };
        let asked = slice::from_ref(partition);
        let mut ends = self.groups.ends(asked, spec, isolation).await;
        Ok(ends.pop().ok_or_else(Fault::missing)??.offset)
    }
}

impl ReadRecords for RecordReader {
    async fn read(
        &self,
        partition: &TopicPartition,
        from: i64,
        until: i64,
        view: View,
        limits: ReadLimits,
    ) -> Result<RecordsRead, Fault> {
        let deadline = self.groups.deadline().min(Instant::now() + limits.time);
        let end = self
            .until(deadline)
            .end(partition, from, view)
            .await?
            .min(until);
        if from >= end {
            return Ok(RecordsRead {
                records: Vec::new(),
                until: from,
            });
        }
        self.contained(partition, from..end, view, limits).await
    }
}

/// Reads what `order` says and hands each record to `found`; answers up to where it looked at every offset.
pub(super) fn read(
    order: &Order,
    mut found: impl FnMut(&Record) -> io::Result<()>,
) -> Result<i64, Stopped> {
    let deadline = Instant::now() + Duration::from_millis(order.time_ms);
    let properties = &order.properties;
    let consumer =
        handle::consumer_of(properties, order.msk_region.clone()).map_err(|error| error.fault())?;
    let partition = TopicPartition::new(&order.topic, order.partition);
    let mut assignment = TopicPartitionList::new();
    assignment
        .add_partition_offset(
            &partition.topic,
            partition.partition,
            Offset::Offset(order.from),
        )
        .and_then(|()| consumer.assign(&assignment))
        .map_err(|error| ErrorCode::of(&error).fault())?;

    let (mut records, mut bytes, mut until) = (0, 0, order.from);
    while until < order.end {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return match consumer.context().last_error().check() {
                // What was read is whole, as far as it goes.
                Ok(()) if records > 0 => Ok(until),
                Ok(()) => Err(ErrorCode::TIMED_OUT.fault().into()),
                Err(code) => Err(code.fault().into()),
            };
        }
        match consumer.poll(left.min(POLL)) {
            None => {}
            Some(Ok(message)) if message.offset() >= order.end => until = order.end,
            Some(Ok(message)) => {
                let record = ffi::record(&message)?;
                found(&record).map_err(|_| Stopped::NobodyListens)?;
                until = record.offset + 1;
                bytes += record.bytes();
                records += 1;
                if records >= order.records || bytes >= order.bytes {
                    break;
                }
            }
            // A leader that was only just elected may not know yet how far the log was readable before.
            Some(Err(RdKafkaError::PartitionEOF(_))) => {
                let high = ffi::last_high_watermark(&consumer, &partition);
                if high.map_err(ErrorCode::fault)? >= order.end {
                    until = order.end;
                }
            }
            Some(Err(error)) => {
                let code = ErrorCode::of(&error);
                if code == ErrorCode::BAD_COMPRESSION || code == ErrorCode::CRIT_SYS_RESOURCE {
                    return Err(Stopped::DoesNotUnpack);
                }
                if !is_about_a_connection(code) {
                    // After a batch that it cannot read, librdkafka goes on with the next one.
                    return Err(fault(code).into());
                }
            }
        }
    }
    Ok(until)
}

/// Whether an error is one that librdkafka gets over by itself, or about the reader's own group, which nobody needs.
fn is_about_a_connection(code: ErrorCode) -> bool {
    code.class() == ErrorClass::Transient || code == ErrorCode::GROUP_AUTH
}

fn fault(code: ErrorCode) -> Fault {
    if code == ErrorCode::AUTO_OFFSET_RESET {
        return Fault::out_of_range();
    }
    code.fault()
}
