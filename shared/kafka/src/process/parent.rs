//! The parent: starts a child and receives what it reads.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;

use super::child::{MEMORY, READ};
use super::frame::Frame;
use super::order::ReadOrder;
use offset_guard_domain::guard::probe::READER_MEMORY_MIB;
use offset_guard_domain::guard::record::Record;
use offset_guard_domain::offset::Fault;
use offset_guard_domain::ports::RecordsRead;

/// Children at once. Times [`READER_MEMORY_MIB`], it is the memory that a function needs beside its own process.
const AT_ONCE: usize = 3;
/// How long a child is waited for after its deadline.
const GRACE: Duration = Duration::from_secs(2);

/// One place per child.
static PLACES: Semaphore = Semaphore::const_new(AT_ONCE);

/// A program that calls [`serve_if_asked`](crate::serve_if_asked) before everything else.
#[derive(Debug, Clone)]
pub struct ReaderProgram(PathBuf);

impl ReaderProgram {
    /// The program that runs now.
    #[must_use]
    pub fn this() -> Self {
        Self(PathBuf::from("/proc/self/exe"))
    }

    /// The program at `path`.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }
}

/// The result of a read in a child.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// The records up to the point where the child ended.
    pub(crate) read: RecordsRead,
    /// Whether the child ended by itself and was not killed.
    pub(crate) finished: bool,
}

/// Waits for a place for one child.
///
/// # Errors
/// The runtime shuts down.
pub(crate) async fn acquire_place() -> Result<impl Drop, Fault> {
    PLACES.acquire().await.map_err(|_| to_fault("INTERRUPTED"))
}

/// Has a child of `program` read what `order` says.
///
/// # Errors
/// The child reports a fault, or could not be started.
pub(crate) async fn read_in_child(
    program: &ReaderProgram,
    order: &ReadOrder,
    deadline: Instant,
) -> Result<Attempt, Fault> {
    let not_started = |error: &dyn std::fmt::Display| {
        tracing::error!(%error, "the process that reads records could not be started");
        to_fault("READER_NOT_STARTED")
    };
    let json = serde_json::to_vec(order).map_err(|_| to_fault("READER_NOT_STARTED"))?;
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
        return Err(to_fault("READER_NOT_STARTED"));
    };
    let mut attempt = Attempt {
        read: RecordsRead {
            records: Vec::new(),
            until: order.from,
        },
        finished: false,
    };
    let conversation = async {
        // A child that does not listen has ended, which its output shows.
        let _ = input.write_all(&json).await;
        drop(input);
        receive_frames(output, &mut attempt).await
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

/// Receives frames until the child says that it is done, or ends.
async fn receive_frames(
    mut output: impl AsyncRead + Unpin,
    attempt: &mut Attempt,
) -> Result<(), Fault> {
    let mut bytes = Vec::new();
    while let Ok(length) = output.read_u32_le().await {
        if u64::from(length) > MEMORY {
            return Err(to_fault("READER_UNINTELLIGIBLE"));
        }
        bytes.resize(usize::try_from(length).unwrap_or(usize::MAX), 0);
        if output.read_exact(&mut bytes).await.is_err() {
            break;
        }
        let unintelligible = |_| to_fault("READER_UNINTELLIGIBLE");
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
                return Err(fault.unwrap_or_else(|_| to_fault("READER_UNINTELLIGIBLE")));
            }
        }
    }
    Ok(())
}

fn to_fault(code: &str) -> Fault {
    Fault::Failed {
        code: code.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::frame::send_frame;
    use offset_guard_domain::guard::record::TimestampType;

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
        receive_frames(bytes, &mut attempt).await.map(|()| attempt)
    }

    #[tokio::test]
    async fn records_come_through_byte_for_byte() {
        let mut said = Vec::new();
        send_frame(&mut said, &Frame::Record((&record()).into())).unwrap();
        send_frame(&mut said, &Frame::End { until: 50 }).unwrap();
        let heard = heard(&said).await.unwrap();
        assert_eq!(heard.read.records, [record()]);
        assert_eq!((heard.read.until, heard.finished), (50, true));
    }

    #[tokio::test]
    async fn what_was_said_before_the_end_of_the_process_is_good() {
        let mut said = Vec::new();
        send_frame(&mut said, &Frame::Record((&record()).into())).unwrap();
        let whole = said.len();
        send_frame(&mut said, &Frame::Record((&record()).into())).unwrap();
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
        send_frame(&mut said, &Frame::Failed { fault }).unwrap();
        assert_eq!(heard(&said).await.unwrap_err(), Fault::NotAuthorised);
    }

    #[tokio::test]
    async fn what_no_reader_says_is_a_fault() {
        let refused = to_fault("READER_UNINTELLIGIBLE");
        assert_eq!(heard(&[0xff; 8]).await.unwrap_err(), refused);
        assert_eq!(heard(b"\x01\0\0\0\x09").await.unwrap_err(), refused);
    }
}
