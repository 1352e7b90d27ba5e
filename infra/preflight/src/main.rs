//! `cargo demo`: looks for what the demo needs, and becomes the demo.
//!
//! The demo looks too, but only after it was built, which takes minutes on a new machine. This needs nothing but Rust's
//! own library.

#![forbid(unsafe_code)]

use std::env;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use offset_guard_preflight::{Need, check};

fn main() -> ExitCode {
    if let Err(missing) = check(Need::STACK) {
        say(&missing);
        return ExitCode::FAILURE;
    }
    let mut demo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // No --package: one would choose another set of features, and build a second copy of the core.
    demo.args(["run", "--bin", "demo", "--"])
        .args(env::args_os().skip(1));
    // Cargo sets these for what it runs; a build script that asks for them would be run again.
    for (key, _) in env::vars_os() {
        let key_text = key.to_string_lossy();
        if key_text.starts_with("CARGO_PKG_") || key_text.starts_with("CARGO_MANIFEST_") {
            demo.env_remove(key);
        }
    }
    // In its place: Ctrl-C and the exit code are the demo's own.
    let error = demo.exec();
    say(&format_args!("cargo cannot be run: {error}"));
    ExitCode::FAILURE
}

#[expect(clippy::print_stderr, reason = "this is what the person waits for")]
fn say(text: &dyn std::fmt::Display) {
    eprintln!("{text}");
}
