//! The function binaries, built once and laid out for deployment.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde::Deserialize;
use tokio::sync::OnceCell;

use crate::{
    Error, Result,
    error::Doing,
    workdir::{blocking, describe, exclusive_lock, local, progress, run_tool, workspace},
};

/// What was built.
#[derive(Debug, Clone)]
pub struct Binaries {
    /// A folder with `<function>/bootstrap` for every function.
    pub functions: PathBuf,
    /// The binary that stands in for Slack.
    pub(crate) slack_sink: PathBuf,
}

/// One line of `cargo build --message-format=json`.
#[derive(Deserialize)]
struct CargoMessage {
    manifest_path: Option<PathBuf>,
    target: Option<CargoTarget>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct CargoTarget {
    name: String,
}

/// Builds all binaries of the workspace and lays the functions out, once a process.
///
/// # Errors
/// If cargo or `strip` fails; cargo itself says why on standard error.
pub async fn build() -> Result<&'static Binaries> {
    static BUILT: OnceCell<Binaries> = OnceCell::const_new();
    BUILT.get_or_try_init(|| blocking(build_now)).await
}

fn build_now() -> Result<Binaries> {
    fs::create_dir_all(local()).doing(|| format!("create {}", local().display()))?;
    let _lock = exclusive_lock(&local().join("functions.lock"))?;
    progress("Building the functions ...");
    let functions = local().join("functions");
    let mut slack_sink = None;
    for (name, package, executable) in cargo_build()? {
        if package.starts_with(workspace().join("functions")) {
            lay_out(&executable, &functions.join(&name))?;
        } else if name == "slack-sink" {
            slack_sink = Some(executable);
        }
    }
    let slack_sink = slack_sink.ok_or_else(|| Error::Unexpected {
        from: "cargo build".to_owned(),
        answer: "no binary slack-sink".to_owned(),
    })?;
    Ok(Binaries {
        functions,
        slack_sink,
    })
}

/// Builds with the profile and the features of this very binary, so that nothing is built twice; answers
/// with name, manifest and path of each binary.
fn cargo_build() -> Result<Vec<(String, PathBuf, PathBuf)>> {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args([
            "build",
            "--workspace",
            "--bins",
            "--quiet",
            "--message-format=json-render-diagnostics",
        ])
        .current_dir(workspace())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    // Cargo sets these for what it runs; a build script that asks for them would be run again.
    for (key, _) in env::vars_os() {
        if key.to_string_lossy().starts_with("CARGO_PKG_")
            || key.to_string_lossy().starts_with("CARGO_MANIFEST_")
        {
            command.env_remove(key);
        }
    }
    let program = describe(&command);
    let output = command.output().doing(|| format!("run {program}"))?;
    if !output.status.success() {
        return Err(Error::Tool {
            program,
            status: output.status,
            output: "(see above)".to_owned(),
        });
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(serde_json::from_str::<CargoMessage>)
        .filter_map(|message| match message {
            Ok(CargoMessage {
                manifest_path: Some(manifest),
                target: Some(target),
                executable: Some(executable),
            }) => Some(Ok((target.name, manifest, executable))),
            Ok(_) => None,
            Err(error) => {
                Some(Err(io::Error::other(error)).doing(|| "read cargo's messages".to_owned()))
            }
        })
        .collect()
}

/// Copies a binary without its debug information, which is most of it, unless that was done already.
fn lay_out(executable: &Path, dir: &Path) -> Result<()> {
    let bootstrap = dir.join("bootstrap");
    let modified = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified());
    let built = modified(executable).doing(|| format!("look at {}", executable.display()))?;
    if modified(&bootstrap).is_ok_and(|laid_out| laid_out > built) {
        return Ok(());
    }
    fs::create_dir_all(dir).doing(|| format!("create {}", dir.display()))?;
    let unfinished = dir.join("unfinished");
    run_tool(
        Command::new("strip")
            .arg("-o")
            .arg(&unfinished)
            .arg(executable),
    )?;
    fs::rename(&unfinished, &bootstrap).doing(|| format!("write {}", bootstrap.display()))
}
