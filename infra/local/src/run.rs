//! Processes that end with their last user, however that one ends.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io,
    net::TcpListener,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::signal::unix::{SignalKind, signal};
use ulid::Ulid;

use crate::{
    Error, Result,
    error::Doing,
    workdir::{local, resource, telling_lines},
};

/// How long a process may take to end cleanly before it is killed.
const GRACE: Duration = Duration::from_secs(10);
/// How many ended runs keep their folder, for their logs.
const KEPT_RUNS: usize = 5;
/// Enters its own id before it becomes the program, and becomes nothing once the run has ended.
const ENTER_AND_BECOME: &str = r#"echo "$0" >"$1/$$" && shift && exec "$@""#;

/// A folder in `target/local/run/` with processes, their data and their logs.
///
/// Its processes are ended by a watchdog as soon as nobody holds the run: no handler needs to run for
/// that, so it also works after Ctrl-C or SIGKILL. Clones share one hold.
#[derive(Debug, Clone)]
pub struct Run {
    dir: PathBuf,
    /// Locked, shared; see `watchdog.py`.
    _lease: Arc<File>,
}

impl Run {
    /// Opens a new run, whose processes end `linger` after its last user.
    ///
    /// # Errors
    /// If its folder cannot be made or its watchdog cannot be started.
    pub fn open(linger: Duration) -> Result<Self> {
        let runs = local().join("run");
        remove_ended(&runs);
        let dir = runs.join(Ulid::generate().to_string().to_lowercase());
        let children = dir.join("children");
        fs::create_dir_all(&children).doing(|| format!("create {}", children.display()))?;
        let lease = dir.join("lease");
        File::create(&lease).doing(|| format!("create {}", lease.display()))?;
        let lease = hold(&lease)?.ok_or_else(|| Error::Unexpected {
            from: lease.display().to_string(),
            answer: "a new file is locked".to_owned(),
        })?;
        let run = Self {
            dir,
            _lease: Arc::new(lease),
        };
        run.watch(linger)?;
        Ok(run)
    }

    /// Joins a run that another process may have opened; `None` if it has ended, or lost a process.
    ///
    /// # Errors
    /// If the system refuses to say.
    pub fn join(dir: &Path) -> Result<Option<Self>> {
        let Some(lease) = hold(&dir.join("lease"))? else {
            return Ok(None);
        };
        // Looked at under the lock: the watchdog ends a run while it holds the lock for itself alone.
        let children = children(dir);
        let whole = !children.is_empty() && children.into_iter().all(|pid| belongs(pid, dir));
        Ok(whole.then(|| Self {
            dir: dir.to_owned(),
            _lease: Arc::new(lease),
        }))
    }

    /// The folder of this run.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Lets the processes of this run outlive its users, until [`end_kept`].
    ///
    /// # Errors
    /// If the mark cannot be written.
    pub fn keep(&self) -> Result<()> {
        let mark = self.dir.join("keep");
        File::create(&mark).doing(|| format!("create {}", mark.display()))?;
        Ok(())
    }

    /// Starts `command` in this run's folder, in its own process group, with its output in `<name>.log`.
    pub(crate) fn spawn(&self, name: &str, command: &Command) -> Result<Process> {
        let log = self.dir.join(format!("{name}.log"));
        let output = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .and_then(|file| Ok((file.try_clone()?, file)))
            .doing(|| format!("open {}", log.display()))?;
        self.spawn_to(name, command, log, output)
    }

    /// As [`Run::spawn`], with standard output in a file of its own.
    pub(crate) fn spawn_with_stdout(
        &self,
        name: &str,
        command: &Command,
        stdout: &Path,
    ) -> Result<Process> {
        let log = self.dir.join(format!("{name}.log"));
        let create =
            |path: &Path| File::create(path).doing(|| format!("create {}", path.display()));
        let output = (create(stdout)?, create(&log)?);
        self.spawn_to(name, command, log, output)
    }

    fn spawn_to(
        &self,
        name: &str,
        command: &Command,
        log: PathBuf,
        (stdout, stderr): (File, File),
    ) -> Result<Process> {
        let children = self.dir.join("children");
        let mut entering = Command::new("/bin/sh");
        entering
            .args([
                OsStr::new("-c"),
                OsStr::new(ENTER_AND_BECOME),
                OsStr::new(name),
            ])
            .arg(&children)
            .arg(command.get_program())
            .args(command.get_args());
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => entering.env(key, value),
                None => entering.env_remove(key),
            };
        }
        let child = entering
            .current_dir(&self.dir)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .doing(|| format!("start {name}"))?;
        Ok(Process {
            name: name.to_owned(),
            entry: children.join(child.id().to_string()),
            child,
            log,
        })
    }

    fn watch(&self, linger: Duration) -> Result<()> {
        let log = self.dir.join("watchdog.log");
        let output = File::create(&log).doing(|| format!("create {}", log.display()))?;
        watchdog(&self.dir, linger)
            .stderr(output)
            .spawn()
            .doing(|| "start the watchdog".to_owned())?;
        Ok(())
    }
}

/// Ends the runs that [`Run::keep`] left up, and says how many there were.
///
/// # Errors
/// If one of them cannot be ended.
pub fn end_kept() -> Result<usize> {
    let mut ended = 0;
    for dir in folders(&local().join("run")) {
        ended += usize::from(end_if_kept(&dir)?);
    }
    Ok(ended)
}

fn end_if_kept(dir: &Path) -> Result<bool> {
    let mark = dir.join("keep");
    if !mark.is_file() {
        return Ok(false);
    }
    fs::remove_file(&mark).doing(|| format!("remove {}", mark.display()))?;
    watchdog(dir, Duration::ZERO)
        .status()
        .doing(|| "run the watchdog".to_owned())?;
    Ok(true)
}

/// In a process group of its own: a Ctrl-C is meant for the others.
fn watchdog(run: &Path, linger: Duration) -> Command {
    let mut command = Command::new("python3");
    command
        .arg(resource("watchdog.py"))
        .arg(run)
        .arg(linger.as_secs_f64().to_string())
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

/// The lease at `path`, held; `None` if its run has ended or is about to.
fn hold(path: &Path) -> Result<Option<File>> {
    let lease = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.doing(|| format!("open {}", path.display()))?,
    };
    match lease.try_lock_shared() {
        Ok(()) => Ok(Some(lease)),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(error)) => {
            Err(error).doing(|| format!("lock {}", path.display()))
        }
    }
}

/// Removes all but the newest ended runs; what cannot be removed now will be another time.
fn remove_ended(runs: &Path) {
    let mut ended: Vec<_> = folders(runs)
        .into_iter()
        .filter(|dir| has_ended(dir))
        .collect();
    // The name begins with the time.
    ended.sort();
    ended.truncate(ended.len().saturating_sub(KEPT_RUNS));
    for dir in ended {
        let _ = fs::remove_dir_all(dir);
    }
}

/// Whether nobody uses the run and none of its processes is left, be it that its watchdog ended them or
/// that the machine was restarted.
fn has_ended(dir: &Path) -> bool {
    let unused = File::open(dir.join("lease")).is_ok_and(|lease| lease.try_lock().is_ok());
    unused && !children(dir).into_iter().any(|pid| belongs(pid, dir))
}

/// The processes that entered themselves into the run in `dir`.
fn children(dir: &Path) -> Vec<u32> {
    fs::read_dir(dir.join("children"))
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

/// Whether the process with this id is one of the run in `dir`, by the folder that it works in.
fn belongs(pid: u32, dir: &Path) -> bool {
    fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|working| working == dir)
}

pub(crate) fn folders(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_dir())
        .collect()
}

/// A process of a run. Dropped, it is killed with all that it started.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    entry: PathBuf,
    log: PathBuf,
}

impl Process {
    /// What its log says about its end.
    pub(crate) fn log(&self) -> String {
        telling_lines(&fs::read_to_string(&self.log).unwrap_or_default())
    }

    /// `None` while it runs.
    pub(crate) fn exit_status(&mut self) -> Result<Option<std::process::ExitStatus>> {
        self.child
            .try_wait()
            .doing(|| format!("look after {}", self.name))
    }

    /// An error once the process has ended.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        match self.exit_status()? {
            None => Ok(()),
            Some(status) => Err(Error::Died {
                name: self.name.clone(),
                status,
                log: self.log(),
            }),
        }
    }

    /// Asks it to end.
    pub(crate) fn terminate(&mut self) {
        self.signal(Signal::TERM);
    }

    /// Asks it to end, waits, and kills it when it takes too long.
    pub(crate) async fn stop(&mut self) -> Result<()> {
        self.terminate();
        self.end().await
    }

    /// Waits until it has ended, and kills it when it takes too long.
    pub(crate) async fn end(&mut self) -> Result<()> {
        let asked = Instant::now();
        while self.exit_status()?.is_none() {
            if asked.elapsed() > GRACE {
                return self.kill();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.kill()
    }

    /// Kills it and everything that it started, and reaps it.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.signal(Signal::KILL);
        self.child
            .wait()
            .doing(|| format!("wait for {}", self.name))?;
        // Gone already if the watchdog has ended the run.
        let _ = fs::remove_file(&self.entry);
        Ok(())
    }

    fn signal(&self, signal: Signal) {
        // It fails only when nobody is left in the group. An id that has become free is not given out
        // again before all others were, so no stranger can have it by now.
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, signal);
        }
    }

    /// Leaves it to the watchdog.
    pub(crate) fn leave(self) {
        std::mem::forget(self);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// Returns when this process is asked to end, by Ctrl-C or SIGTERM.
///
/// # Errors
/// If the system does not let it listen for that.
pub async fn interrupted() -> Result<()> {
    let doing = || "listen for signals".to_owned();
    let mut terminate = signal(SignalKind::terminate()).doing(doing)?;
    tokio::select! {
        interrupt = tokio::signal::ctrl_c() => interrupt.doing(doing),
        _ = terminate.recv() => Ok(()),
    }
}

/// Loopback ports that are free at this moment.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut ports = [0; N];
    // All are held until the last is found, so that no two are the same.
    let mut held = Vec::with_capacity(N);
    for port in &mut ports {
        let listener =
            TcpListener::bind(("127.0.0.1", 0)).doing(|| "find a free port".to_owned())?;
        *port = listener
            .local_addr()
            .doing(|| "find a free port".to_owned())?
            .port();
        held.push(listener);
    }
    Ok(ports)
}

/// Waits until `ready` answers `Some`, at most for `limit`.
pub(crate) async fn until<T>(
    what: &str,
    limit: Duration,
    mut ready: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(value) = ready().await? {
            return Ok(value);
        }
        if start.elapsed() > limit {
            return Err(Error::TimedOut {
                what: what.to_owned(),
                after: limit,
            });
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(15);

    fn sleeper(run: &Run) -> Process {
        run.spawn("sleeper", Command::new("sleep").arg("600"))
            .unwrap()
    }

    /// A sleeper that has entered itself into the run.
    async fn settled_sleeper(run: &Run) -> Process {
        let process = sleeper(run);
        until("a child", LIMIT, async || {
            Ok((!children(run.dir()).is_empty()).then_some(()))
        })
        .await
        .unwrap();
        process
    }

    async fn until_ended(dir: &Path) {
        until("the run to end", LIMIT, async || {
            Ok(has_ended(dir).then_some(()))
        })
        .await
        .unwrap();
    }

    #[tokio::test]
    async fn the_last_user_ends_a_run_and_every_process_in_it() {
        let run = Run::open(Duration::ZERO).unwrap();
        let process = settled_sleeper(&run).await;
        let dir = run.dir().to_owned();
        let other = Run::join(&dir).unwrap().unwrap();
        process.leave();
        drop(run);
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!has_ended(&dir));
        drop(other);
        until_ended(&dir).await;
        assert!(Run::join(&dir).unwrap().is_none());
    }

    #[tokio::test]
    async fn a_process_that_comes_too_late_never_starts() {
        let run = Run::open(Duration::ZERO).unwrap();
        fs::rename(run.dir().join("children"), run.dir().join("ended")).unwrap();
        let mut late = sleeper(&run);
        until("the process to give up", LIMIT, async || late.exit_status())
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn a_run_that_lost_a_process_is_not_joined() {
        let run = Run::open(Duration::ZERO).unwrap();
        let process = settled_sleeper(&run).await;
        let dir = run.dir().to_owned();
        process.signal(Signal::KILL);
        until("the loss to be seen", LIMIT, async || {
            Ok(Run::join(&dir)?.is_none().then_some(()))
        })
        .await
        .unwrap();
    }

    #[tokio::test]
    async fn a_kept_run_outlives_its_user() {
        let run = Run::open(Duration::ZERO).unwrap();
        run.keep().unwrap();
        let process = sleeper(&run);
        let dir = run.dir().to_owned();
        process.leave();
        drop(run);
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(!has_ended(&dir));
        assert!(end_if_kept(&dir).unwrap());
        assert!(has_ended(&dir));
    }
}
