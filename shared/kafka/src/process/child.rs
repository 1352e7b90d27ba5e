//! The child: limits itself, reads, and ends.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, exit};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::consume::{Stopped, consume};
use super::frame::{Frame, send_frame};
use super::order::ReadOrder;
use offset_guard_domain::guard::probe::READER_MEMORY_MIB;

/// The first argument of a program that is to read records.
pub(super) const READ: &str = "offset-guard-read-records";
/// The first argument of such a program when its limits hold.
const READ_LIMITED: &str = "offset-guard-read-records-limited";

/// Memory that the child may write to, in bytes.
pub(super) const MEMORY: u64 = READER_MEMORY_MIB << 20;
/// Stack of each thread of the child, in bytes. librdkafka has one thread per broker, and all stacks count as memory.
const STACK: u64 = 512 << 10;
/// Processor seconds of the child, so that a child whose parent is gone ends too.
const PROCESSOR_SECONDS: u64 = 60;
/// Reads records and ends the process, if the process was started for that. Every program that reads records calls this
/// first.
pub fn serve_if_asked() {
    let step = std::env::args_os().nth(1);
    let failed = match step.as_deref().and_then(OsStr::to_str) {
        Some(READ) => restart_limited().err(),
        Some(READ_LIMITED) => serve_order().err(),
        _ => return,
    };
    exit(i32::from(failed.is_some()));
}

/// Limits this process and starts the program again, so that everything set up before `main` is within the limits too.
fn restart_limited() -> io::Result<()> {
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

/// Reads the records of the order on the standard input.
fn serve_order() -> io::Result<()> {
    let mut order = String::new();
    io::stdin().read_to_string(&mut order)?;
    let order: ReadOrder = serde_json::from_str(&order)?;
    let mut out = io::stdout().lock();
    // Each record is sent at once: it is good even if this process is killed later.
    let read = consume(&order, |record| {
        send_frame(&mut out, &Frame::Record(record.into()))
    });
    let last = match &read {
        Ok(until) => Frame::End { until: *until },
        Err(Stopped::Fault(fault)) => Frame::Failed {
            fault: serde_json::to_string(fault)?,
        },
        // To the parent this is the same as a killed child, which most such batches end in.
        Err(Stopped::DoesNotUnpack | Stopped::ParentGone) => return Ok(()),
    };
    send_frame(&mut out, &last)
}
