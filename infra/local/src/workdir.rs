//! Where the local stack keeps what it fetched, and how that gets there once.

use std::{
    env,
    ffi::OsStr,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{Error, Result, error::Doing};

/// How many lines of a log or an output stand in an error.
const LINES: usize = 20;

/// The root of the workspace: where `infra/local` is.
///
/// Cargo names the package's folder to what it runs; that comes first, since a checkout may have been
/// moved after it was built.
pub fn workspace() -> PathBuf {
    let built_in = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    env::var_os("CARGO_MANIFEST_DIR")
        .map(PathBuf::from)
        .into_iter()
        .chain(env::current_dir())
        .chain([built_in.clone()])
        .find_map(|start| {
            start
                .ancestors()
                .find(|dir| dir.join("infra/local/requirements.txt").is_file())
                .map(Path::to_owned)
        })
        .unwrap_or(built_in)
}

/// A resource file of this crate.
pub(crate) fn resource(name: &str) -> PathBuf {
    workspace().join("infra/local").join(name)
}

/// `target/local`.
pub(crate) fn local() -> PathBuf {
    workspace().join("target/local")
}

/// Tells the person who waits what is going on.
///
/// Written straight to standard error, so that the test harness does not hold it back.
pub fn progress(line: &str) {
    // Nobody left to tell is no reason to stop.
    let _ = writeln!(io::stderr(), "{line}");
}

/// The Python of the environment that holds the local AWS and the AWS client.
///
/// # Errors
/// If the environment cannot be made.
pub async fn python() -> Result<PathBuf> {
    let requirements = resource("requirements.txt");
    let made_from = read(&requirements)?;
    let notice = "Fetching the local AWS (Python packages) ...";
    let venv = install("venv", made_from, notice, async move |dir: PathBuf| {
        let mut make = Command::new("python3");
        make.args(["-m", "venv"]).arg(&dir);
        let mut fill = Command::new(dir.join("bin/python"));
        fill.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "-r",
        ])
        .arg(requirements);
        blocking(move || {
            run_tool(&mut make)?;
            run_tool(&mut fill)
        })
        .await
    })
    .await?;
    // Scripts in bin/ name the folder that they were installed in, which has another name by now: run
    // a module with `-m` instead.
    Ok(venv.join("bin/python"))
}

/// Makes `target/local/<name>` with `make`, unless it is there already, made from the same thing.
///
/// Safe to call from many processes at once; what was interrupted is done again.
pub(crate) async fn install(
    name: &str,
    made_from: String,
    notice: &str,
    make: impl AsyncFnOnce(PathBuf) -> Result<()>,
) -> Result<PathBuf> {
    let local = local();
    fs::create_dir_all(&local).doing(|| format!("create {}", local.display()))?;
    let dir = local.join(name);
    let unfinished = local.join(format!("{name}.unfinished"));
    let lock = local.join(format!("{name}.lock"));
    let _lock = blocking(move || exclusive_lock(&lock)).await?;
    let stamp = Path::new(".made-from");
    if fs::read_to_string(dir.join(stamp)).is_ok_and(|text| text == made_from) {
        return Ok(dir);
    }
    progress(notice);
    remove_dir(&unfinished)?;
    fs::create_dir(&unfinished).doing(|| format!("create {}", unfinished.display()))?;
    make(unfinished.clone()).await?;
    let stamp = unfinished.join(stamp);
    fs::write(&stamp, made_from).doing(|| format!("write {}", stamp.display()))?;
    remove_dir(&dir)?;
    fs::rename(&unfinished, &dir).doing(|| format!("rename {}", unfinished.display()))?;
    Ok(dir)
}

/// Runs `work` where it may block.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)
        .doing(|| "finish a piece of blocking work".to_owned())?
}

/// Waits for the lock on the file at `path`; it is held until the file is dropped.
pub(crate) fn exclusive_lock(path: &Path) -> Result<File> {
    let file = File::create(path).doing(|| format!("create {}", path.display()))?;
    file.lock().doing(|| format!("lock {}", path.display()))?;
    Ok(file)
}

pub(crate) fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).doing(|| format!("read {}", path.display()))
}

fn remove_dir(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.doing(|| format!("remove {}", dir.display())),
    }
}

/// Maven on a project file that puts its build folder under `outputDirectory`. Without a project file, or with one that
/// says nothing of its build folder, the plugins leave their notes in the checkout.
pub(crate) fn maven(pom: &Path) -> Command {
    let mut command = Command::new("mvn");
    command
        .args(["--quiet", "--batch-mode", "--file"])
        .arg(pom)
        .current_dir(local());
    command
}

/// Runs a tool to its end and keeps its output for the case that it fails.
pub(crate) fn run_tool(command: &mut Command) -> Result<()> {
    let program = describe(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .doing(|| format!("run {program}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(Error::Tool {
        program,
        status: output.status,
        output: last_lines(&String::from_utf8_lossy(&text)),
    })
}

/// The program of a command and its first arguments, for an error.
pub(crate) fn describe(command: &Command) -> String {
    let words: Vec<_> = [command.get_program()]
        .into_iter()
        .chain(command.get_args().take(2))
        .map(OsStr::to_string_lossy)
        .collect();
    words.join(" ")
}

/// The last lines of a text.
pub(crate) fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// The lines of a log that tell why its process ended: a broker logs its error first, and then at
/// length how it shuts down.
pub(crate) fn telling_lines(log: &str) -> String {
    let error = log.lines().position(|line| {
        [" ERROR ", " FATAL ", "Traceback "]
            .iter()
            .any(|mark| line.contains(mark))
    });
    match error {
        Some(first) => log
            .lines()
            .skip(first)
            .take(LINES)
            .collect::<Vec<_>>()
            .join("\n"),
        None => last_lines(log),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_tells_more_than_the_shutdown_after_it() {
        let shutdown = "INFO Stopped\n".repeat(LINES);
        let log = format!("1 INFO Starting\n2 ERROR Address already in use\n{shutdown}");
        assert!(telling_lines(&log).starts_with("2 ERROR Address already in use\nINFO Stopped"));
        assert_eq!(
            telling_lines("1 INFO Starting\nKilled"),
            "1 INFO Starting\nKilled"
        );
    }
}
