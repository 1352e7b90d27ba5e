//! A consumer as teams write them: it decodes every record, and dies of one that it cannot decode.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{ClientConfig, Message};

/// How long it may run: the demo ends it, and nothing else may outlive the demo.
const LONGEST: Duration = Duration::from_secs(600);

/// Reads, decodes and commits one record after the other; prints where each was.
///
/// Ends with failure at the first record that is no JSON, without leaving the group and without committing it, as a
/// process that panics does.
pub(crate) fn consume(bootstrap: &str, group: &str, topic: &str) -> ExitCode {
    match run(bootstrap, group, topic) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // The client's threads go with the process; nothing is left or committed.
            let _ = writeln!(std::io::stderr(), "{why}");
            std::process::exit(1);
        }
    }
}

fn run(bootstrap: &str, group: &str, topic: &str) -> Result<(), String> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", group)
        .set("client.id", "order-sync")
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .set("session.timeout.ms", "6000")
        .create()
        .map_err(|error| error.to_string())?;
    consumer
        .subscribe(&[topic])
        .map_err(|error| error.to_string())?;
    let began = std::time::Instant::now();
    while began.elapsed() < LONGEST {
        let Some(polled) = consumer.poll(Duration::from_millis(200)) else {
            continue;
        };
        let record = polled.map_err(|error| error.to_string())?;
        let value = record.payload().unwrap_or_default();
        let place = format!("{}@{}", record.partition(), record.offset());
        serde_json::from_slice::<serde_json::Value>(value)
            .map_err(|error| format!("record {place}: {error}"))?;
        // Before the commit: what is committed was processed, whenever the process is ended.
        writeln!(std::io::stdout(), "{place}").map_err(|error| error.to_string())?;
        consumer
            .commit_message(&record, CommitMode::Sync)
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}
