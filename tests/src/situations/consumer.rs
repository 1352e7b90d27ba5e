//! A consumer as a process of its own: it reads, works, commits, and fails in the ways in which consumers fail.

use std::error::Error;
use std::io::{Read, stdin};
use std::process::{ExitCode, exit};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::message::BorrowedMessage;
use rdkafka::{ClientConfig, ClientContext, Message, Offset, TopicPartitionList};
use serde_json::Value;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// How long one poll waits for a record.
const POLL: Duration = Duration::from_millis(100);
/// How long is waited before a record is tried again.
const RETRY: Duration = Duration::from_millis(300);
/// How long one tries a record before it gives up and ends.
const GIVES_UP: Duration = Duration::from_millis(500);
/// The exit code of one that failed.
const FAILED: u8 = 3;

/// What the consumer is like.
#[derive(Debug, Clone, Args)]
pub struct ConsumerArgs {
    /// The brokers.
    #[arg(long)]
    pub bootstrap: String,
    /// Its group.
    #[arg(long)]
    pub group: String,
    /// What it subscribes to.
    #[arg(long, value_delimiter = ',')]
    pub topics: Vec<String>,
    /// How it names itself.
    #[arg(long)]
    pub client_id: String,
    /// Assigns itself partition 0 of each topic instead of subscribing.
    #[arg(long)]
    pub assigns_itself: bool,
    /// When it commits.
    #[arg(long, value_enum, default_value_t = Commits::EachRecord)]
    pub commits: Commits,
    /// How many records make a batch.
    #[arg(long, default_value_t = 50)]
    pub batch: usize,
    /// How long it works at each record. A record may name a time of its own: `{"work_ms": 20000}`.
    #[arg(long, default_value_t = 0)]
    pub work_ms: u64,
    /// At which records it fails.
    #[arg(long, value_enum, default_value_t = Fails::Never)]
    pub fails: Fails,
    /// What it does then.
    #[arg(long, value_enum, default_value_t = Then::Leaves)]
    pub then: Then,
    /// Leaves the group and ends so long after it was assigned something.
    #[arg(long)]
    pub lives_ms: Option<u64>,
    /// Further librdkafka properties, `key=value`.
    #[arg(long)]
    pub property: Vec<String>,
}

/// When a consumer commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Commits {
    /// After each record.
    EachRecord,
    /// After a batch of records, all at once.
    EachBatch,
    /// Never.
    Never,
}

/// At which records a consumer fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Fails {
    /// At none.
    Never,
    /// At those that are no JSON.
    AtUndecodable,
    /// At those that say so: `{"marked": true}`.
    AtMarked,
    /// At all, as when a database is down.
    AtAll,
}

/// What a consumer does where it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Then {
    /// Leaves the group and ends.
    Leaves,
    /// Ends without a word, so that the group misses it only after its session.
    Dies,
    /// Goes back to the record and tries again, and reads its other partitions meanwhile.
    Retries,
    /// Tries again and again at once, and polls no more; its heartbeats go on.
    Hangs,
}

/// Consumes until it fails, or until nobody holds its standard input any more.
///
/// # Errors
/// Kafka refuses the client or its subscription.
pub fn consume(args: &ConsumerArgs) -> Result<ExitCode> {
    let stopped = watch_stdin();
    let revoked = Arc::new(AtomicBool::new(false));
    let consumer = connect(args, &revoked)?;
    let mut worker = Worker {
        args,
        consumer: &consumer,
        stopped: &stopped,
        done: Vec::new(),
    };
    let mut assigned_at = None;
    while !stopped.load(Ordering::Relaxed) {
        let polled = consumer.poll(POLL);
        // What was not committed will be read again, by whoever has it now.
        if revoked.swap(false, Ordering::Relaxed) {
            worker.done.clear();
        }
        // What the client reports besides records, it deals with by itself.
        if let Some(Ok(message)) = polled
            && worker.handle(&message) == Fate::Ends
        {
            return Ok(ExitCode::from(FAILED));
        }
        worker.commit_batch();
        if assigned_at.is_none() && consumer.assignment()?.count() > 0 {
            assigned_at = Some(Instant::now());
        }
        let lived = assigned_at.map(|at| at.elapsed());
        if let (Some(lived), Some(lives)) = (lived, args.lives_ms)
            && lived >= Duration::from_millis(lives)
        {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Set once whoever started this process is gone, or wants it to end.
fn watch_stdin() -> Arc<AtomicBool> {
    let stopped = Arc::new(AtomicBool::new(false));
    thread::spawn({
        let stopped = stopped.clone();
        move || {
            let _ = stdin().read_to_end(&mut Vec::new());
            stopped.store(true, Ordering::Relaxed);
        }
    });
    stopped
}

struct Context {
    revoked: Arc<AtomicBool>,
}

impl ClientContext for Context {}

impl ConsumerContext for Context {
    fn pre_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if matches!(rebalance, Rebalance::Revoke(_)) {
            self.revoked.store(true, Ordering::Relaxed);
        }
    }
}

fn connect(args: &ConsumerArgs, revoked: &Arc<AtomicBool>) -> Result<BaseConsumer<Context>> {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", &args.bootstrap)
        .set("group.id", &args.group)
        .set("client.id", &args.client_id)
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false");
    for property in &args.property {
        let (key, value) = property
            .split_once('=')
            .ok_or_else(|| format!("{property} is no key=value"))?;
        config.set(key, value);
    }
    let context = Context {
        revoked: revoked.clone(),
    };
    let consumer: BaseConsumer<Context> = config.create_with_context(context)?;
    if args.assigns_itself {
        let mut list = TopicPartitionList::new();
        for topic in &args.topics {
            list.add_partition_offset(topic, 0, Offset::Stored)?;
        }
        consumer.assign(&list)?;
    } else {
        let topics: Vec<_> = args.topics.iter().map(String::as_str).collect();
        consumer.subscribe(&topics)?;
    }
    Ok(consumer)
}

/// What becomes of the process after a record.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    GoesOn,
    Ends,
}

struct Worker<'a> {
    args: &'a ConsumerArgs,
    consumer: &'a BaseConsumer<Context>,
    stopped: &'a AtomicBool,
    /// What was worked at since the last commit: the next offset to read, by topic and partition.
    done: Vec<(String, i32, i64)>,
}

impl Worker<'_> {
    fn handle(&mut self, message: &BorrowedMessage<'_>) -> Fate {
        let value = serde_json::from_slice::<Value>(message.payload().unwrap_or_default());
        let fails = match self.args.fails {
            Fails::Never => false,
            Fails::AtUndecodable => value.is_err(),
            Fails::AtMarked => value.as_ref().is_ok_and(|value| value["marked"] == true),
            Fails::AtAll => true,
        };
        if fails {
            return self.fail(message);
        }
        let own = value.ok().and_then(|value| value["work_ms"].as_u64());
        self.work(Duration::from_millis(own.unwrap_or(self.args.work_ms)));
        let (topic, partition, next) = (
            message.topic().to_owned(),
            message.partition(),
            message.offset() + 1,
        );
        match self.args.commits {
            Commits::Never => {}
            Commits::EachRecord => self.commit(&[(topic, partition, next)]),
            Commits::EachBatch => self.done.push((topic, partition, next)),
        }
        Fate::GoesOn
    }

    fn fail(&self, message: &BorrowedMessage<'_>) -> Fate {
        match self.args.then {
            Then::Leaves => {
                self.work(GIVES_UP);
                Fate::Ends
            }
            Then::Dies => {
                self.work(GIVES_UP);
                exit(FAILED.into())
            }
            Then::Retries => {
                let offset = Offset::Offset(message.offset());
                // One that was revoked meanwhile is somebody else's to try.
                let _ = self
                    .consumer
                    .seek(message.topic(), message.partition(), offset, RETRY);
                self.work(RETRY);
                Fate::GoesOn
            }
            Then::Hangs => {
                while !self.stopped.load(Ordering::Relaxed) {
                    thread::sleep(RETRY);
                }
                Fate::Ends
            }
        }
    }

    /// Works for so long, or until it is told to stop.
    fn work(&self, time: Duration) {
        let began = Instant::now();
        while began.elapsed() < time && !self.stopped.load(Ordering::Relaxed) {
            thread::sleep(POLL.min(time.saturating_sub(began.elapsed())));
        }
    }

    fn commit_batch(&mut self) {
        if self.done.len() >= self.args.batch {
            let done = std::mem::take(&mut self.done);
            self.commit(&done);
        }
    }

    /// A commit that the group does not take means that somebody else has the partition now.
    fn commit(&self, done: &[(String, i32, i64)]) {
        let mut list = TopicPartitionList::new();
        for (topic, partition, next) in done {
            match list.find_partition(topic, *partition) {
                Some(mut element) => {
                    let _ = element.set_offset(Offset::Offset(*next));
                }
                None => {
                    let _ = list.add_partition_offset(topic, *partition, Offset::Offset(*next));
                }
            }
        }
        let _ = self.consumer.commit(&list, CommitMode::Sync);
    }
}
