//! Reading records as they are.

use std::ops::Range;
use std::slice;
use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaError as RdKafkaError;
use rdkafka::{Message, Offset, TopicPartitionList};

use super::GroupReader;
use super::error::{ErrorClass, ErrorCode, KafkaError};
use super::ffi::{self, Isolation, Spec};
use super::handle;
use super::observe::split;
use super::settings::ConnectionSettings;
use crate::domain::guard::record::Record;
use crate::domain::offset::{Fault, TopicPartition};
use crate::ports::{ReadLimits, ReadRecords, RecordsRead, View};

/// How long one poll waits at most.
const POLL: Duration = Duration::from_millis(100);

/// What makes a consumer read records one by one, all or none. `isolation.level` is the view's.
const PROPERTIES: [(&str, &str); 8] = [
    // Without it a batch that was damaged is handed out like any other.
    ("check.crcs", "true"),
    // The end of what can be read is an event, and so are the offsets before it that hold no visible record.
    ("enable.partition.eof", "true"),
    // An offset that is not there is an error, and never a reason to read elsewhere.
    ("auto.offset.reset", "error"),
    // Enough for one record of any usual size; a bigger one is sent whole all the same.
    ("fetch.message.max.bytes", "1048576"),
    ("fetch.max.bytes", "4194304"),
    // What is fetched ahead lies in memory: it stops at so much.
    ("queued.max.messages.kbytes", "4096"),
    ("queued.min.messages", "1000"),
    // How long a broker holds its answer back at the end of the log.
    ("fetch.wait.max.ms", "20"),
];

/// Reads records of one partition, on a consumer of its own that is assigned, never subscribed, and commits nothing.
///
/// A clone shares the connection that looks where logs begin and end; each read has another for the records.
#[derive(Debug, Clone)]
pub struct RecordReader {
    groups: GroupReader,
    settings: ConnectionSettings,
}

impl RecordReader {
    /// A reader for the cluster of `settings`.
    ///
    /// # Errors
    /// Settings that librdkafka refuses.
    pub fn connect(settings: ConnectionSettings) -> Result<Self, KafkaError> {
        Ok(Self {
            groups: GroupReader::connect(settings.clone())?,
            settings,
        })
    }

    /// The same reader with no read lasting beyond `deadline`.
    #[must_use]
    pub fn until(&self, deadline: Instant) -> Self {
        Self {
            groups: self.groups.until(deadline),
            settings: self.settings.clone(),
        }
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
        let (settings, partition) = (self.settings.clone(), partition.clone());
        let read = move || read(&settings, &partition, from..end, view, limits, deadline);
        tokio::task::spawn_blocking(read)
            .await
            .map_err(|_| failed("INTERRUPTED"))?
    }
}

/// Reads what is visible in `range`, all of which is in the log and below the end of the view.
fn read(
    settings: &ConnectionSettings,
    partition: &TopicPartition,
    range: Range<i64>,
    view: View,
    limits: ReadLimits,
    deadline: Instant,
) -> Result<RecordsRead, Fault> {
    let isolation = match view {
        View::Committed => "read_committed",
        View::Uncommitted => "read_uncommitted",
    };
    let properties = [&PROPERTIES[..], &[("isolation.level", isolation)]].concat();
    let consumer = handle::consumer(settings, &properties).map_err(|error| error.fault())?;
    let mut assignment = TopicPartitionList::new();
    assignment
        .add_partition_offset(
            &partition.topic,
            partition.partition,
            Offset::Offset(range.start),
        )
        .and_then(|()| consumer.assign(&assignment))
        .map_err(|error| ErrorCode::of(&error).fault())?;

    let mut read = RecordsRead {
        records: Vec::new(),
        until: range.start,
    };
    let mut bytes = 0;
    while read.until < range.end {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return match consumer.context().last_error().check() {
                // What was read is whole, as far as it goes.
                Ok(()) if !read.records.is_empty() => Ok(read),
                Ok(()) => Err(ErrorCode::TIMED_OUT.fault()),
                Err(code) => Err(code.fault()),
            };
        }
        match consumer.poll(left.min(POLL)) {
            None => {}
            Some(Ok(message)) if message.offset() >= range.end => read.until = range.end,
            Some(Ok(message)) => {
                let record = ffi::record(&message)?;
                read.until = record.offset + 1;
                bytes += size(&record);
                read.records.push(record);
                if read.records.len() >= limits.records || bytes >= limits.bytes {
                    break;
                }
            }
            // A leader that was only just elected may not know yet how far the log was readable before.
            Some(Err(RdKafkaError::PartitionEOF(_))) => {
                let high = ffi::last_high_watermark(&consumer, partition);
                if high.map_err(ErrorCode::fault)? >= range.end {
                    read.until = range.end;
                }
            }
            Some(Err(error)) => {
                let code = ErrorCode::of(&error);
                if !is_about_a_connection(code) {
                    // After a batch that it cannot read, librdkafka goes on with the next one.
                    return Err(fault(code));
                }
            }
        }
    }
    Ok(read)
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

fn failed(code: &str) -> Fault {
    Fault::Failed {
        code: code.to_owned(),
    }
}

fn size(record: &Record) -> usize {
    let bytes = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
    let headers = record.headers.iter();
    bytes(&record.key)
        + bytes(&record.value)
        + headers
            .map(|(name, value)| name.len() + bytes(value))
            .sum::<usize>()
}
