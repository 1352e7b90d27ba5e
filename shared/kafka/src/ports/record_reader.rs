//! Reading records as they are.

use std::collections::BTreeMap;
use std::ops::Range;
use std::slice;
use std::time::Instant;

use super::readable::split_readable;
use crate::ffi::{IsolationLevel, OffsetSpec};
use crate::librdkafka::admin_client::AdminClient;
use crate::librdkafka::properties::{consumer_config, to_map};
use crate::process::{OrderedToken, ReadOrder, ReaderProgram, acquire_place, read_in_child};
use crate::settings::ConnectionSettings;
use offset_guard_domain::offset::{Fault, TopicPartition};
use offset_guard_domain::ports::{BrokerError, ReadLimits, ReadRecords, RecordsRead, View};

/// Largest answer of a broker, in bytes, unless its first batch is larger: that comes whole.
const USUAL_FETCH: &str = "65536";
/// Makes an answer hold only one batch, so that a batch that cannot be unpacked loses no record before it.
const ONE_BATCH: &str = "1";

/// Properties that make a consumer read every record, one by one, or fail. `isolation.level` depends on the view, and
/// `fetch.message.max.bytes` on the read.
const PROPERTIES: [(&str, &str); 9] = [
    // Without it a damaged batch is returned like any other.
    ("check.crcs", "true"),
    // The end of what can be read is an event, and so are the offsets before it that hold no visible record.
    ("enable.partition.eof", "true"),
    // A missing offset is an error, and never a reason to read elsewhere.
    ("auto.offset.reset", "error"),
    ("fetch.max.bytes", "1048576"),
    // The largest answer, and the most that a zstd batch may unpack to.
    ("receive.message.max.bytes", "134217728"),
    // Nothing is fetched ahead: a later batch must not end the child before it has sent the earlier records.
    ("queued.min.messages", "1"),
    ("fetch.queue.backoff.ms", "1"),
    ("queued.max.messages.kbytes", "1024"),
    // How long a broker delays its answer at the end of the log.
    ("fetch.wait.max.ms", "20"),
];

/// Reads records of one partition, on a consumer that is assigned, never subscribes, and commits nothing.
///
/// Each read has its own child process with little memory (see `process`): a producer's batch can end only that process. A
/// clone shares the connection that finds where logs begin and end.
#[derive(Debug, Clone)]
pub struct RecordReader {
    client: AdminClient,
    settings: ConnectionSettings,
    program: ReaderProgram,
}

impl RecordReader {
    /// A reader for the cluster of `settings`, whose reads are done by children of `program`.
    ///
    /// # Errors
    /// librdkafka refuses the settings.
    pub fn connect(
        settings: ConnectionSettings,
        program: ReaderProgram,
    ) -> Result<Self, BrokerError> {
        Ok(Self {
            client: AdminClient::connect(settings.clone())?,
            settings,
            program,
        })
    }

    /// The same reader with no read lasting beyond `deadline`.
    #[must_use]
    pub fn until(&self, deadline: Instant) -> Self {
        Self {
            client: self.client.until(deadline),
            settings: self.settings.clone(),
            program: self.program.clone(),
        }
    }

    /// Has a child process read the records of `range`.
    async fn read_contained(
        &self,
        partition: &TopicPartition,
        range: Range<i64>,
        view: View,
        limits: ReadLimits,
    ) -> Result<RecordsRead, Fault> {
        let fetches: &[&str] = match limits.records {
            1 => &[ONE_BATCH],
            // A batch behind the wanted records may have come along, and ended the child.
            _ => &[USUAL_FETCH, ONE_BATCH],
        };
        let mut read = RecordsRead {
            records: Vec::new(),
            until: range.start,
        };
        for fetch in fetches {
            let _place = acquire_place().await?;
            let now = Instant::now();
            let deadline = self.client.deadline().min(now + limits.time);
            let token = self.issue_token().await;
            let time = deadline.saturating_duration_since(Instant::now());
            let order = ReadOrder {
                properties: self.read_properties(view, fetch),
                token,
                topic: partition.topic.clone(),
                partition: partition.partition,
                from: range.start,
                end: range.end,
                records: limits.records,
                bytes: limits.bytes,
                time_ms: u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
            };
            let attempt = read_in_child(&self.program, &order, deadline).await?;
            read = attempt.read;
            if attempt.finished {
                return Ok(read);
            }
        }
        // The records that were read are whole.
        match read.records.is_empty() {
            true => Err(Fault::reader_ended()),
            false => Ok(read),
        }
    }

    fn read_properties(&self, view: View, fetch: &str) -> BTreeMap<String, String> {
        let isolation = match view {
            View::Committed => "read_committed",
            View::Uncommitted => "read_uncommitted",
        };
        let more = [
            ("isolation.level", isolation),
            ("fetch.message.max.bytes", fetch),
        ];
        let mut config = consumer_config(&self.settings);
        for (name, value) in PROPERTIES.iter().chain(&more) {
            config.set(*name, *value);
        }
        to_map(&config)
    }

    /// A token for one child, which cannot get one by itself.
    async fn issue_token(&self) -> Option<OrderedToken> {
        let source = self.settings.token_source()?;
        let issue = tokio::task::spawn_blocking(move || OrderedToken::issue(&*source));
        Some(issue.await.unwrap_or_else(|_| OrderedToken::Refused {
            reason: "the source of tokens panicked".to_owned(),
        }))
    }

    /// The end of what `view` sees now, for a read that starts at `from`; a position that is not in the log is a fault.
    async fn find_end(
        &self,
        partition: &TopicPartition,
        from: i64,
        view: View,
    ) -> Result<i64, Fault> {
        let asked = slice::from_ref(partition);
        let topics = self.client.describe_topics(asked).await;
        let (_, mut faults) = split_readable::<()>(asked, &topics.map_err(|error| error.fault())?);
        if let Some(Err(fault)) = faults.remove(partition) {
            return Err(fault);
        }
        let start = self
            .find_offset(partition, OffsetSpec::Earliest, View::Uncommitted)
            .await?;
        let end = self
            .find_offset(partition, OffsetSpec::Latest, view)
            .await?;
        // Records that an open transaction holds back are in the log.
        let high = match view {
            View::Committed if from > end => {
                self.find_offset(partition, OffsetSpec::Latest, View::Uncommitted)
                    .await?
            }
            View::Committed | View::Uncommitted => end,
        };
        if from < start || from > high {
            return Err(Fault::out_of_range());
        }
        Ok(end)
    }

    async fn find_offset(
        &self,
        partition: &TopicPartition,
        spec: OffsetSpec,
        view: View,
    ) -> Result<i64, Fault> {
        let isolation = match view {
            View::Committed => IsolationLevel::ReadCommitted,
            View::Uncommitted => IsolationLevel::ReadUncommitted,
        };
        let asked = slice::from_ref(partition);
        let mut ends = self.client.list_ends(asked, spec, isolation).await;
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
        let deadline = self.client.deadline().min(Instant::now() + limits.time);
        let end = self
            .until(deadline)
            .find_end(partition, from, view)
            .await?
            .min(until);
        if from >= end {
            return Ok(RecordsRead {
                records: Vec::new(),
                until: from,
            });
        }
        self.read_contained(partition, from..end, view, limits)
            .await
    }
}
