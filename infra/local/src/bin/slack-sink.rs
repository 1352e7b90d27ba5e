//! Stands in for Slack in a local stack: see [`offset_guard_local::slack`].

#![forbid(unsafe_code)]

use std::path::PathBuf;

use clap::Parser;

/// Stores the messages that are posted to it.
#[derive(Debug, Parser)]
struct Args {
    /// The folder for its address and its messages.
    dir: PathBuf,
}

#[tokio::main]
async fn main() -> offset_guard_local::Result<()> {
    offset_guard_local::slack::serve(&Args::parse().dir).await
}
