//! Two incidents, played from end to end: a bad release has read and committed, and its group is taken back; and a record
//! that no consumer can decode is found, kept and passed over.

#![forbid(unsafe_code)]

mod consumer;
mod poison;

use std::time::Duration;

use clap::Parser;
use offset_guard_local::client::{Protocol, Record};
use offset_guard_local::kafka::{ConsoleConsumer, Version};
use offset_guard_local::operator::{
    Ended, Execution, Function, Invoked, Operator, link_in, text_of,
};
use offset_guard_local::stack::{BOOTSTRAP, CLUSTER_ID, Stack, StackOptions};
use offset_guard_local::{Error, Result, run};
use serde_json::{Value, json};

/// Plays the incident on Apache Kafka itself, with the real functions behind the real state machine.
#[derive(Debug, Parser)]
#[command(name = "cargo demo", version)]
struct Args {
    /// Which Kafka: 4 (the newest) or 3.9.
    #[arg(long, default_value = "4")]
    kafka: Version,
    /// Which group protocol the consumers speak: classic, or consumer (KIP-848; needs Kafka 4).
    #[arg(long, default_value = "classic", value_parser = protocol)]
    protocol: Protocol,
    /// Approve through the page's own form instead of waiting for a person in a browser.
    #[arg(long)]
    yes: bool,
    /// Leave everything running afterwards.
    #[arg(long)]
    keep: bool,
    /// End what an earlier `--keep` left running, and do nothing else.
    #[arg(long, conflicts_with_all = ["yes", "keep"])]
    end: bool,
    /// Be the second act's consumer: bootstrap servers, group, topic.
    #[arg(long, hide = true, num_args = 3)]
    consume: Option<Vec<String>>,
}

fn protocol(text: &str) -> std::result::Result<Protocol, String> {
    [Protocol::Classic, Protocol::Consumer]
        .into_iter()
        .find(|protocol| protocol.name() == text)
        .ok_or_else(|| "write classic or consumer".to_owned())
}

const TOPIC: &str = "shipments";
const GROUP: &str = "shipment-sync";
/// How long a consumer may take to do its part.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a person has to approve.
const DECISION: Duration = Duration::from_secs(3_600);

#[tokio::main]
async fn main() -> std::process::ExitCode {
    let args = Args::parse();
    if let Some([bootstrap, group, topic]) = args.consume.as_deref() {
        return consumer::consume(bootstrap, group, topic);
    }
    match play(&args).await {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("\nThe demo stopped: {}", chain(&error)));
            std::process::ExitCode::FAILURE
        }
    }
}

async fn play(args: &Args) -> Result<()> {
    if args.end {
        let ended = run::end_kept()?;
        say(&format!(
            "Stacks that were kept and are ended now: {ended}."
        ));
        return Ok(());
    }
    if args.protocol == Protocol::Consumer && args.kafka == Version::V3_9 {
        return Err(Error::Unexpected {
            from: "--protocol consumer".to_owned(),
            answer: "Kafka 3.9 does not speak KIP-848 by default; use --kafka 4".to_owned(),
        });
    }
    let mut options = StackOptions {
        config: config(),
        ..StackOptions::default()
    };
    options.kafka.version = args.kafka;
    let stack = Stack::start(&options).await?;
    let scene = Scene {
        operator: Operator::of(&stack)?,
        stack,
        args,
    };
    scene.incident().await?;
    scene.poison().await?;
    let Scene { stack, .. } = scene;
    if args.keep {
        say(&format!(
            "\nEverything is left running: brokers at {}, the local AWS at {}. `cargo demo --end` ends it.",
            stack.bootstrap(),
            stack.aws_endpoint()
        ));
        return stack.keep();
    }
    stack.stop().await
}

fn config() -> String {
    format!(
        "[clusters.main]\n\
         bootstrap_servers = [\"{BOOTSTRAP}\"]\n\
         cluster_id = \"{CLUSTER_ID}\"\n\
         auth = \"plaintext\"\n\n\
         [[groups]]\n\
         cluster = \"main\"\n\
         name = \"{GROUP}\"\n\n\
         {}",
        poison::config()
    )
}

/// The stage and who stands on it.
struct Scene<'a> {
    stack: Stack,
    operator: Operator,
    args: &'a Args,
}

impl Scene<'_> {
    async fn incident(&self) -> Result<()> {
        let client = self.stack.client();
        title("1. A topic of 3 partitions, 93 records, and a group that reads them");
        client.create_topic(TOPIC, 3, &[]).await?;
        for partition in 0..3 {
            client.produce(TOPIC, &records(partition, 0, 31)).await?;
        }
        self.consume(93).await?;
        self.describe().await?;

        title("2. A checkpoint");
        let before_first = now();
        self.checkpoint().await?;

        title(
            "3. A bad release goes out: it reads 12 more records and commits them; the hourly checkpoint follows",
        );
        let before_release = now();
        client.produce(TOPIC, &records(1, 31, 12)).await?;
        self.consume(12).await?;
        self.describe().await?;
        self.checkpoint().await?;

        title("4. What would a rewind to before the release do? (a dry run)");
        let request = |before: &str, dry_run: bool| {
            json!({
                "cluster": "main", "group": GROUP, "rewind_before": before, "dry_run": dry_run,
                "reason": "the release wrote garbage downstream", "requested_by": "demo",
            })
        };
        let dry_run = self
            .operator
            .request(request(&before_release, true))
            .await?;
        self.expect(&dry_run, "DRY_RUN").await?;
        self.describe().await?;

        title("5. A rewind to before any checkpoint is refused");
        let refused = self.operator.request(request(&before_first, false)).await?;
        self.expect(&refused, "REFUSED").await?;

        title("6. A rewind with a consumer still running is refused");
        let consumer = self.stack.cli()?.console_consumer(&self.consumer())?;
        self.until_member().await?;
        let refused = self
            .operator
            .request(request(&before_release, false))
            .await?;
        self.expect(&refused, "REFUSED").await?;
        consumer.stop().await?;

        title("7. The consumer is stopped, and the rewind is asked for again");
        let rewind = self
            .operator
            .request(request(&before_release, false))
            .await?;
        let link = rewind.link(&self.stack, GROUP, PATIENCE).await?;
        self.tell(|text| link_in(text).is_some())?;
        self.approve(&rewind, &link, GROUP).await?;
        self.expect(&rewind, "VERIFIED").await?;

        title("8. Kafka's own tool says");
        self.describe().await?;

        title("9. The mended release starts, and reads what the bad one had read");
        let read = self.consume(12).await?;
        say(&format!(
            "It read exactly {read} records: offsets 31 to 42 of {TOPIC}-1."
        ));
        Ok(())
    }

    /// Runs a real consumer process until it has read `count` records, and stops it.
    async fn consume(&self, count: u64) -> Result<usize> {
        let mut consumer = self.consumer();
        // One more than there is, so that it has to wait, and its last commit is the one that it makes when it ends.
        consumer.max_messages = Some(count + 1);
        consumer.timeout = Some(Duration::from_secs(3));
        let mut process = self.stack.cli()?.console_consumer(&consumer)?;
        let read = process.until_ended(PATIENCE).await?.len();
        say(&format!(
            "A consumer read {read} records, committed and ended."
        ));
        if u64::try_from(read).ok() != Some(count) {
            return Err(Error::Unexpected {
                from: "the consumer".to_owned(),
                answer: format!("{read} records, expected were {count}"),
            });
        }
        Ok(read)
    }

    fn consumer(&self) -> ConsoleConsumer {
        let mut consumer = ConsoleConsumer::new(GROUP, TOPIC);
        let protocol = self.args.protocol.name().to_owned();
        consumer
            .properties
            .insert("group.protocol".to_owned(), protocol);
        consumer
    }

    /// Waits until the group has a member.
    async fn until_member(&self) -> Result<()> {
        for _ in 0..60 {
            let rows = self.stack.cli()?.describe_group(GROUP).await?;
            if rows.iter().any(|row| row.consumer_id.is_some()) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        Err(Error::TimedOut {
            what: "the group to have a member".to_owned(),
            after: Duration::from_secs(30),
        })
    }

    /// What `kafka-consumer-groups --describe` says of the first act's group.
    async fn describe(&self) -> Result<()> {
        self.describe_group(GROUP).await
    }

    async fn describe_group(&self, group: &str) -> Result<()> {
        let number = |value: Option<i64>| value.map_or("-".to_owned(), |value| value.to_string());
        say(&format!(
            "  {:<12} {:>9} {:>14} {:>14} {:>5}",
            "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"
        ));
        for row in self.stack.cli()?.describe_group(group).await? {
            say(&format!(
                "  {:<12} {:>9} {:>14} {:>14} {:>5}",
                row.topic,
                row.partition,
                number(row.current_offset),
                number(row.log_end_offset),
                number(row.lag)
            ));
        }
        Ok(())
    }

    async fn checkpoint(&self) -> Result<()> {
        let event = json!({ "scheduled_time": now(), "group": GROUP });
        match self
            .operator
            .invoke(&self.stack, Function::Checkpoint, &event)
            .await?
        {
            Invoked::Returned(stored) => {
                for one in stored.as_array().into_iter().flatten() {
                    say(&format!(
                        "Checkpoint {} of {GROUP}: {} partitions.",
                        one["checkpoint_id"].as_str().unwrap_or("?"),
                        one["partitions"]
                    ));
                }
                Ok(())
            }
            Invoked::Failed { error, message } => Err(Error::Unexpected {
                from: format!("the checkpoint function ({error})"),
                answer: message,
            }),
        }
    }

    /// Waits for a person in a browser, or is that person.
    async fn approve(&self, rewind: &Execution, link: &str, group: &str) -> Result<()> {
        if self.args.yes {
            say("Approving through the page's own form ...");
            return self.operator.approve(link, group).await;
        }
        say(&format!(
            "Open this page, read the plan, type {group} and approve:\n\n  {link}\n\n(waiting; Ctrl-C ends the demo)"
        ));
        rewind.ended_within(DECISION).await?;
        Ok(())
    }

    /// Waits for the end of an execution, shows what people were told, and holds it to `code`.
    async fn expect(&self, execution: &Execution, code: &str) -> Result<()> {
        let ended: Ended = execution.end().await?;
        self.tell(|text| text.contains(execution.arn.name()))?;
        say(&format!(
            "The execution ended {} with {}.",
            ended.status,
            ended.code()
        ));
        if ended.code() == code {
            return Ok(());
        }
        Err(Error::Unexpected {
            from: "the execution".to_owned(),
            answer: format!(
                "{} ({})",
                ended.code(),
                ended.cause.as_deref().unwrap_or_default()
            ),
        })
    }

    /// Shows the last message in Slack that `is_it`.
    fn tell(&self, is_it: impl Fn(&str) -> bool) -> Result<()> {
        let messages = self.stack.slack().messages()?;
        let last = messages
            .iter()
            .map(|message: &Value| text_of(message))
            .rfind(|text| is_it(text));
        for line in last.unwrap_or_default().lines() {
            say(&format!("  │ {line}"));
        }
        Ok(())
    }
}

fn records(partition: i32, first: usize, count: usize) -> Vec<Record> {
    (first..first + count)
        .map(|n| Record::new(partition, format!("shipment {partition}-{n}")))
        .collect()
}

/// The present instant, RFC 3339 in UTC.
fn now() -> String {
    jiff::Timestamp::now().to_string()
}

fn title(text: &str) {
    say(&format!("\n── {text}"));
}

#[expect(clippy::print_stdout, reason = "what the demo says is its output")]
fn say(text: &str) {
    println!("{text}");
}

/// An error and its causes in a line.
fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error: &&dyn std::error::Error| error.source())
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}
