//! The processes of one's own stack: frozen, so that a step takes as long as a test needs, or killed in the middle.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::time::{Duration, Instant};

use offset_guard_local::operator::{Function, Invoked};
use offset_guard_tests::{PATIENCE, World};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Processes that stand still until this is dropped.
#[derive(Debug)]
pub(crate) struct Frozen(Vec<Pid>);

impl Frozen {
    fn new(pids: Vec<Pid>) -> Result<Self> {
        if pids.is_empty() {
            return Err("there is no such process".into());
        }
        let frozen = Self(pids);
        for pid in &frozen.0 {
            kill_process(*pid, Signal::STOP)?;
        }
        Ok(frozen)
    }
}

impl Frozen {
    /// Waits until one of these functions has been given an invocation, which it will not look at before it thaws.
    pub(crate) async fn until_invoked(&self) -> Result<()> {
        let asked = Instant::now();
        while !self.0.iter().any(|pid| has_something_to_read(*pid)) {
            if asked.elapsed() > PATIENCE {
                return Err("nothing was invoked".into());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for pid in &self.0 {
            // One that was killed meanwhile needs no thaw.
            let _ = kill_process(*pid, Signal::CONT);
        }
    }
}

/// Freezes the brokers.
pub(crate) fn freeze_brokers(world: &World) -> Result<Frozen> {
    Frozen::new(children(world, "broker-")?)
}

/// Freezes the process of a function that its next invocation gets; the one after that gets another.
pub(crate) async fn freeze_next(world: &World, function: Function, output: &str) -> Result<Frozen> {
    let none = json!({"step": "none"});
    let invoke = async || world.operator.invoke(&world.stack, function, &none).await;
    // What it did last may still be on its way out: these take the same way after it.
    for _ in 0..3 {
        invoke().await?;
    }
    // Then all go, so that the one which answers next is the only one and the first of its pool.
    kill(world, output)?;
    let asked = Instant::now();
    loop {
        match invoke().await? {
            Invoked::Failed { error, .. } if error == "OffsetGuard.InvalidRequest" => {
                return Frozen::new(functions(world, output)?);
            }
            // It met the process that was killed.
            Invoked::Failed { .. } if asked.elapsed() < PATIENCE => {}
            answer => return Err(format!("no process answers as it should: {answer:?}").into()),
        }
    }
}

/// Whether the process's connection to its runtime API holds an answer, which is its next invocation.
fn has_something_to_read(pid: Pid) -> bool {
    let pid = pid.as_raw_pid();
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let environment = String::from_utf8_lossy(&environment);
    let port = environment.split('\0').find_map(|variable| {
        let (_, port) = variable
            .strip_prefix("AWS_LAMBDA_RUNTIME_API=")?
            .split_once(':')?;
        port.parse::<u16>().ok()
    });
    let remote = port.map(|port| format!("0100007F:{port:04X}"));
    let connections = fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap_or_default();
    connections.lines().any(|line| {
        // sl, local address, remote address, state, tx_queue:rx_queue
        let mut columns = line.split_whitespace().skip(2);
        let to_api = columns.next().map(str::to_owned) == remote;
        let queues = columns.nth(1).and_then(|queues| queues.split_once(':'));
        to_api && queues.is_some_and(|(_, received)| !received.trim_matches('0').is_empty())
    })
}

/// Kills every process of a function, as a crash of its environment would.
pub(crate) fn kill(world: &World, output: &str) -> Result<()> {
    for pid in functions(world, output)? {
        kill_process(pid, Signal::KILL)?;
    }
    Ok(())
}

/// The processes that run the function of an output of the template: what descends from this stack's own local AWS and
/// has the function's name in its environment.
fn functions(world: &World, output: &str) -> Result<Vec<Pid>> {
    let name = format!("AWS_LAMBDA_FUNCTION_NAME={}", world.stack.output(output)?);
    let roots = children(world, "aws-")?;
    let parents = parents();
    let descends = |pid: i32| {
        std::iter::successors(Some(pid), |pid| parents.get(pid).copied())
            .any(|pid| roots.iter().any(|root| root.as_raw_pid() == pid))
    };
    let runs = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == name.as_bytes())
    };
    Ok(parents
        .keys()
        .copied()
        .filter(|pid| descends(*pid) && runs(pid))
        .filter_map(Pid::from_raw)
        .collect())
}

/// The processes that the stack itself started under a name that begins so.
fn children(world: &World, name: &str) -> Result<Vec<Pid>> {
    let mut pids = Vec::new();
    for entry in fs::read_dir(world.stack.dir().join("children"))? {
        let entry = entry?;
        if fs::read_to_string(entry.path())?.starts_with(name) {
            let pid = entry.file_name().to_string_lossy().parse()?;
            pids.extend(Pid::from_raw(pid));
        }
    }
    Ok(pids)
}

/// Every process that is not a zombie, and its parent.
fn parents() -> BTreeMap<i32, i32> {
    let stats = fs::read_dir("/proc").into_iter().flatten().flatten();
    stats
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            // The command's name stands in parentheses and may hold anything.
            let (_, rest) = stat.rsplit_once(") ")?;
            let mut rest = rest.split(' ');
            let (state, parent) = (rest.next()?, rest.next()?);
            (state != "Z").then_some((pid, parent.parse().ok()?))
        })
        .collect()
}
