//! A process of its own for each read of records.
//!
//! Whoever may produce to a topic decides what librdkafka has to unpack: a gzip batch of 1 MB may become 1 GB, and no
//! setting of librdkafka bounds that. So records are read by a child of this program with a limit on its memory. When it
//! is ended, this process lives on, and knows where it was.
//!
//! The child is this very program, started anew with an argument; what it is to read, secrets included, comes over its
//! standard input, and what it reads goes out over its standard output, record by record.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio, exit};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;

use super::records::{self, Order};
use offset_guard_domain::guard::probe::READER_MEMORY_MIB;
use offset_guard_domain::guard::record::{Record, TimestampType};
use offset_guard_domain::offset::Fault;
use offset_guard_domain::ports::RecordsRead;

/// The first argument of a program that is to read records.
const READ: &str = "offset-guard-read-records";
/// The same, once its limits hold.
const READ_LIMITED: &str = "offset-guard-read-records-limited";

/// How many of these processes there are at once. Times [`READER_MEMORY_MIB`] it is what a function's memory must have room
/// for beside its own process.
const AT_ONCE: usize = 3;
/// The memory of such a process: what it may write to, in bytes.
const MEMORY: u64 = READER_MEMORY_MIB << 20;
/// The stacks of its threads, in bytes. librdkafka has a thread per broker, and all of them count as memory.
const STACK: u64 = 512 << 10;
/// How many seconds of a processor it may use, so that one whose parent is gone comes to its end too.
const PROCESSOR_SECONDS: u64 = 60;
/// How long after its time it is waited for.
const GRACE: Duration = Duration::from_secs(2);

/// One place per process.
static PLACES: Semaphore = Semaphore::const_new(AT_ONCE);

/// A program that reads records when it is asked to: one that calls [`serve_if_asked`] before all else.
#[derive(Debug, Clone)]
pub struct ReaderProgram(PathBuf);

impl ReaderProgram {
    /// This very program.
    #[must_use]
    pub fn this() -> Self {
        Self(PathBuf::from("/proc/self/exe"))
    }

    /// Another one.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }
}

/// Reads records and ends the process, where that is what it was started for. Every program that reads records calls it
/// first.
pub fn serve_if_asked() {
    let step = std::env::args_os().nth(1);
    let failed = match step.as_deref().and_then(OsStr::to_str) {
        Some(READ) => limited().err(),
        Some(READ_LIMITED) => serve().err(),
        _ => return,
    };
    exit(i32::from(failed.is_some()));
}

/// Limits this process and starts the program anew, so that what is set up before `main` is within the limits too.
fn limited() -> io::Result<()> {
    let no_more_than = |most| Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    setrlimit(Resource::Data, no_more_than(MEMORY))?;
    setrlimit(Resource::Cpu, no_more_than(PROCESSOR_SECONDS))?;
    setrlimit(Resource::Core, no_more_than(0))?;
    let stack = Rlimit {
        current: Some(STACK),
        ..getrlimit(Resource::Stack)
    };
    setrlimit(Resource::Stack, stack)?;
    Err(Command::new("/proc/self/exe").arg(READ_LIMITED).exec())
}

/// Does what is ordered over the standard input.
fn serve() -> io::Result<()> {
    let mut order = String::new();
    io::stdin().read_to_string(&mut order)?;
    let order: Order = serde_json::from_str(&order)?;
    let mut out = io::stdout().lock();
    // At once: what was read before the process is ended is good.
    let read = records::read(&order, |record| {
        send(&mut out, &Frame::Record(record.into()))
    });
    let last = match &read {
        Ok(until) => Frame::End { until: *until },
        Err(records::Stopped::Fault(fault)) => Frame::Failed {
            fault: serde_json::to_string(fault)?,
        },
        // For whoever listens it is the same as an end of this process, which most such batches are.
        Err(records::Stopped::DoesNotUnpack | records::Stopped::NobodyListens) => return Ok(()),
    };
    send(&mut out, &last)
}

/// What the child says, each after its length in four bytes, the lowest first.
#[derive(Serialize, Deserialize)]
enum Frame<'a> {
    /// The next record.
    #[serde(borrow)]
    Record(Sent<'a>),
    /// The end of the read.
    End { until: i64 },
    /// There is no read; why, as JSON.
    Failed { fault: String },
}

/// A [`Record`], whose bytes nobody copies.
#[derive(Serialize, Deserialize)]
struct Sent<'a> {
    offset: i64,
    leader_epoch: Option<i32>,
    timestamp_ms: i64,
    timestamp_type: TimestampType,
    #[serde(borrow)]
    key: Option<&'a [u8]>,
    #[serde(borrow)]
    value: Option<&'a [u8]>,
    #[serde(borrow)]
    headers: Vec<(&'a [u8], Option<&'a [u8]>)>,
}

impl<'a> From<&'a Record> for Sent<'a> {
    fn from(record: &'a Record) -> Self {
        let headers = record.headers.iter();
        Self {
            offset: record.offset,
            leader_epoch: record.leader_epoch,
            timestamp_ms: record.timestamp_ms,
            timestamp_type: record.timestamp_type,
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            headers: headers
                .map(|(name, value)| (name.as_slice(), value.as_deref()))
                .collect(),
        }
    }
}

impl From<Sent<'_>> for Record {
    fn from(sent: Sent<'_>) -> Self {
        let headers = sent.headers.into_iter();
        Self {
            offset: sent.offset,
            leader_epoch: sent.leader_epoch,
            timestamp_ms: sent.timestamp_ms,
            timestamp_type: sent.timestamp_type,
            key: sent.key.map(<[u8]>::to_vec),
            value: sent.value.map(<[u8]>::to_vec),
            headers: headers
                .map(|(name, value)| (name.to_vec(), value.map(<[u8]>::to_vec)))
                .collect(),
        }
    }
}

fn send(out: &mut impl Write, frame: &Frame<'_>) -> io::Result<()> {
    let bytes = postcard::to_extend(frame, vec![0; 4]).map_err(io::Error::other)?;
    let mut bytes = bytes;
    let length = u32::try_from(bytes.len() - 4).map_err(io::Error::other)?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    out.write_all(&bytes)?;
    out.flush()
}

/// What became of a read.
#[derive(Debug)]
pub(super) struct Attempt {
    /// What was read; whole, as far as it goes.
    pub(super) read: RecordsRead,
    /// Whether the process came to its own end, and was not ended before.
    pub(super) finished: bool,
}

/// A place for one process that reads.
///
/// # Errors
/// There will be none any more.
pub(super) async fn place() -> Result<impl Drop, Fault> {
    PLACES.acquire().await.map_err(|_| failed("INTERRUPTED"))
}

/// Has a child of `program` read what `order` says.
///
/// # Errors
/// It says why it could not, or it could not be started.
pub(super) async fn read(
    program: &ReaderProgram,
    order: &Order,
    deadline: Instant,
) -> Result<Attempt, Fault> {
    let not_started = |error: &dyn std::fmt::Display| {
        tracing::error!(%error, "the process that reads records could not be started");
        failed("READER_NOT_STARTED")
    };
    let json = serde_json::to_vec(order).map_err(|_| failed("READER_NOT_STARTED"))?;
    let mut child = tokio::process::Command::new(&program.0)
        .arg(READ)
        // Each further arena of glibc would take its share of the memory.
        .env("MALLOC_ARENA_MAX", "2")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| not_started(&error))?;
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(failed("READER_NOT_STARTED"));
    };
    let mut attempt = Attempt {
        read: RecordsRead {
            records: Vec::new(),
            until: order.from,
        },
        finished: false,
    };
    let conversation = async {
        // One that does not listen has ended, which its output says.
        let _ = input.write_all(&json).await;
        drop(input);
        frames(output, &mut attempt).await
    };
    let heard = tokio::time::timeout_at((deadline + GRACE).into(), conversation).await;
    // It has nothing more to say, and its connections need not be closed in order.
    let _ = child.start_kill();
    let status = child.wait().await;
    match heard {
        Ok(Ok(())) => {}
        Ok(Err(fault)) => return Err(fault),
        Err(_) => tracing::warn!("the process that reads records did not end in its time"),
    }
    if !attempt.finished {
        tracing::warn!(
            topic = order.topic,
            partition = order.partition,
            from = attempt.read.until,
            status = status.map_or(String::new(), |status| status.to_string()),
            memory_mib = READER_MEMORY_MIB,
            "the process that reads records was ended"
        );
    }
    Ok(attempt)
}

/// Takes what the child says until it says that it is done, or ends.
async fn frames(mut output: impl AsyncRead + Unpin, attempt: &mut Attempt) -> Result<(), Fault> {
    let mut bytes = Vec::new();
    while let Ok(length) = output.read_u32_le().await {
        if u64::from(length) > MEMORY {
            return Err(failed("READER_UNINTELLIGIBLE"));
        }
        bytes.resize(usize::try_from(length).unwrap_or(usize::MAX), 0);
        if output.read_exact(&mut bytes).await.is_err() {
            break;
        }
        let unintelligible = |_| failed("READER_UNINTELLIGIBLE");
        match postcard::from_bytes(&bytes).map_err(unintelligible)? {
            Frame::Record(sent) => {
                let record = Record::from(sent);
                attempt.read.until = record.offset + 1;
                attempt.read.records.push(record);
            }
            Frame::End { until } => {
                attempt.read.until = until;
                attempt.finished = true;
                break;
            }
            Frame::Failed { fault } => {
                let fault = serde_json::from_str(&fault);
                return Err(fault.unwrap_or_else(|_| failed("READER_UNINTELLIGIBLE")));
            }
        }
    }
    Ok(())
}

fn failed(code: &str) -> Fault {
    Fault::Failed {
        code: code.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            offset: 43,
            leader_epoch: Some(7),
            timestamp_ms: 1_700_000_000_000,
            timestamp_type: TimestampType::LogAppendTime,
            key: None,
            value: Some(b"\x00\xffnot UTF-8".to_vec()),
            headers: vec![
                (b"trace".to_vec(), None),
                (b"\xff".to_vec(), Some(Vec::new())),
            ],
        }
    }

    async fn heard(bytes: &[u8]) -> Result<Attempt, Fault> {
        let read = RecordsRead {
            records: Vec::new(),
            until: 40,
        };
        let mut attempt = Attempt {
            read,
            finished: false,
        };
        frames(bytes, &mut attempt).await.map(|()| attempt)
    }

    #[tokio::test]
    async fn records_come_through_byte_for_byte() {
        let mut said = Vec::new();
        send(&mut said, &Frame::Record((&record()).into())).unwrap();
        send(&mut said, &Frame::End { until: 50 }).unwrap();
        let heard = heard(&said).await.unwrap();
        assert_eq!(heard.read.records, [record()]);
        assert_eq!((heard.read.until, heard.finished), (50, true));
    }

    #[tokio::test]
    async fn what_was_said_before_the_end_of_the_process_is_good() {
        let mut said = Vec::new();
        send(&mut said, &Frame::Record((&record()).into())).unwrap();
        let whole = said.len();
        send(&mut said, &Frame::Record((&record()).into())).unwrap();
        for cut in [whole, whole + 2, said.len() - 1] {
            let heard = heard(&said[..cut]).await.unwrap();
            assert_eq!(heard.read.records, [record()]);
            assert_eq!((heard.read.until, heard.finished), (44, false));
        }
        let nothing = heard(&[]).await.unwrap();
        assert_eq!((nothing.read.until, nothing.finished), (40, false));
    }

    #[tokio::test]
    async fn why_it_could_not_read_comes_through() {
        let mut said = Vec::new();
        let fault = serde_json::to_string(&Fault::NotAuthorised).unwrap();
        send(&mut said, &Frame::Failed { fault }).unwrap();
        assert_eq!(heard(&said).await.unwrap_err(), Fault::NotAuthorised);
    }

    #[tokio::test]
    async fn what_no_reader_says_is_a_fault() {
        let refused = failed("READER_UNINTELLIGIBLE");
        assert_eq!(heard(&[0xff; 8]).await.unwrap_err(), refused);
        assert_eq!(heard(b"\x01\0\0\0\x09").await.unwrap_err(), refused);
    }
}
