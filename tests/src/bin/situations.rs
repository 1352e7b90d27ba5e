//! Lays situations in which consumer groups are found, with real consumer processes on a real broker, lets the guard
//! look at them, and scores what it says: `cargo run -p offset-guard-tests --bin situations`.

#![forbid(unsafe_code)]

use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use offset_guard_local::aws::LocalAws;
use offset_guard_local::client::Client;
use offset_guard_local::kafka::{Kafka, KafkaOptions, Version};
use offset_guard_local::run::Run;
use offset_guard_local::workdir::{progress, workspace};
use offset_guard_tests::bare;
use offset_guard_tests::situations::consumer::{ConsumerArgs, consume};
use offset_guard_tests::situations::guard::Guard;
use offset_guard_tests::situations::scene::Place;
use offset_guard_tests::situations::{Played, Situation, catalogue, play_all, table};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Where the table is kept.
const TABLE: &str = "infra/docs/situations.md";
/// What stands above the tables.
const HEAD: &str = include_str!("../situations/table.md");

/// Lays situations and scores the guard's verdicts.
#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// On this Kafka only: 3.9 or 4.
    #[arg(long)]
    broker: Option<Version>,
    /// Only these situations.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// How many situations are laid at once.
    #[arg(long, default_value_t = 10)]
    at_once: usize,
    /// Write the table into the documentation.
    #[arg(long)]
    write: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Is one consumer of a situation.
    #[command(hide = true)]
    Consumer(ConsumerArgs),
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    if let Some(Command::Consumer(consumer)) = &args.command {
        return consume(consumer);
    }
    tokio::runtime::Runtime::new()?.block_on(run(&args))
}

async fn run(args: &Args) -> Result<ExitCode> {
    let mut chosen = catalogue::all();
    if !args.only.is_empty() {
        chosen = args
            .only
            .iter()
            .map(|name| catalogue::named(name).ok_or_else(|| format!("no situation {name}")))
            .collect::<std::result::Result<_, _>>()?;
    }
    let mut text = HEAD.to_owned();
    let mut right = true;
    for version in Version::ALL {
        if args.broker.is_some_and(|only| only != version) {
            continue;
        }
        let played = play(version, &chosen, args.at_once).await?;
        let summary = table::summary(version, &played);
        progress(&summary);
        text.push('\n');
        text.push_str(&table::markdown(version, &played));
        right &= played.iter().all(Played::is_right);
    }
    if args.write {
        let path = workspace().join(TABLE);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, text)?;
    }
    Ok(if right {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

async fn play(version: Version, chosen: &[Situation], at_once: usize) -> Result<Vec<Played>> {
    let run = Run::open(Duration::ZERO)?;
    let mut options = KafkaOptions {
        version,
        ..KafkaOptions::default()
    };
    for (key, value) in [
        // Members that died are missed while somebody looks, in either protocol.
        ("group.min.session.timeout.ms", "1000"),
        ("group.consumer.session.timeout.ms", "6000"),
        ("group.consumer.min.session.timeout.ms", "6000"),
        ("group.consumer.heartbeat.interval.ms", "1000"),
        ("group.consumer.min.heartbeat.interval.ms", "1000"),
        ("log.cleaner.backoff.ms", "500"),
        // As brokers are by default: they give the first member's companions time to come.
        ("group.initial.rebalance.delay.ms", "3000"),
    ] {
        options.properties.insert(key.to_owned(), value.to_owned());
    }
    let kafka = Kafka::start(&run, &options).await?;
    let aws = LocalAws::start(&run, &[].into()).await?;
    let place = Place {
        client: Client::new(&kafka.bootstrap(), &options.client_properties),
        bootstrap: kafka.bootstrap(),
        version,
        guard: Guard::new(&kafka.bootstrap(), &bare::local_sdk(&aws.endpoint()))
            .await
            .map_err(|error| error.to_string())?,
        cli: kafka.cli()?,
        program: std::env::current_exe()?,
    };
    let chosen: Vec<_> = chosen
        .iter()
        .copied()
        .filter(|situation| situation.runs_on(version))
        .collect();
    let played = play_all(&chosen, &place, "1", at_once, |over| {
        progress(&table::lines(over));
    })
    .await;
    kafka.stop().await?;
    aws.stop().await?;
    Ok(played)
}
