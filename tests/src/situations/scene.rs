//! Where one situation is laid: its topics, its group, its consumer processes and whatever happens meanwhile.

use std::future::Future;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use offset_guard::domain::guard::verdict::Verdict;
use offset_guard::domain::offset::{GroupId, TopicPartition};
use offset_guard_local::client::{Client, Commit, Record, Transaction};
use offset_guard_local::kafka::{Cli, ConsoleConsumer, ConsumerProcess, Version};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use tokio::process::{Child, Command};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::Result;
use super::consumer::{Commits, Fails, Then};
use super::guard::Guard;
use super::policy::Policy;

/// How long a consumer may take to leave its group.
const LEAVES_WITHIN: Duration = Duration::from_secs(10);
/// How long the log cleaner may take.
const CLEANED_WITHIN: Duration = Duration::from_secs(40);

/// Where scenes are laid.
#[derive(Debug, Clone)]
pub struct Place {
    /// Clients of its Kafka.
    pub client: Client,
    /// The brokers' addresses.
    pub bootstrap: String,
    /// Which Kafka it is.
    pub version: Version,
    /// The guard of its groups.
    pub guard: Guard,
    /// Kafka's own tools, one of which is a consumer.
    pub cli: Cli,
    /// The program whose `consumer` command is a consumer process.
    pub program: PathBuf,
}

/// What the guard is expected to say of one partition.
#[derive(Debug, Clone)]
pub struct Expected {
    /// The partition.
    pub partition: TopicPartition,
    /// What it may say in the end.
    pub last: Vec<Verdict>,
    /// What it has to say before that.
    pub on_the_way: Option<Verdict>,
    /// What it must not say in any run.
    pub never: Vec<Verdict>,
    /// The first and the last offset that it is to propose to pass over.
    pub skip: Option<(i64, i64)>,
}

/// What the guard is expected to say of the group as a whole.
#[derive(Debug, Clone)]
pub struct ExpectedOfGroup {
    /// What it may say.
    pub any: Vec<Verdict>,
    /// From which run on it has to say so in every one; the first is 1.
    pub from_run: usize,
}

/// One situation while it lasts. Dropped, its processes are killed.
#[derive(Debug)]
pub struct Scene {
    /// Where it is.
    pub place: Place,
    /// How its group is guarded.
    pub policy: Policy,
    /// Of each partition that it is about.
    pub expected: Vec<Expected>,
    /// Of the group, where it is about that.
    pub expected_of_group: Option<ExpectedOfGroup>,
    group: String,
    open: Vec<Transaction>,
    java: Vec<ConsumerProcess>,
    /// Feeders, consumers, and what happens later.
    tasks: JoinSet<Result<()>>,
}

/// A consumer to start.
#[derive(Debug, Clone)]
pub struct Consumer {
    name: String,
    topics: Vec<String>,
    group: String,
    args: Vec<String>,
    restarts: Option<Duration>,
}

/// A consumer that was started. Dropped, it runs to the end of the scene.
#[derive(Debug, Clone, Default)]
pub struct Started {
    stop: Arc<Notify>,
    ended: Arc<Notify>,
}

impl Scene {
    /// An empty scene; `suffix` tells it apart from others of its name.
    #[must_use]
    pub fn new(place: &Place, name: &str, policy: Policy, suffix: &str) -> Self {
        Self {
            place: place.clone(),
            policy,
            expected: Vec::new(),
            expected_of_group: None,
            group: format!("{}-{name}-{suffix}", policy.prefix()),
            open: Vec::new(),
            java: Vec::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Its group.
    #[must_use]
    pub fn group(&self) -> GroupId {
        GroupId(self.group.clone())
    }

    /// The short name of one of its topics.
    #[must_use]
    pub fn short<'a>(&self, topic: &'a str) -> &'a str {
        topic
            .strip_prefix(&format!("{}-", self.group))
            .unwrap_or(topic)
    }

    /// The full name of one of its topics.
    #[must_use]
    pub fn topic(&self, short: &str) -> String {
        format!("{}-{short}", self.group)
    }

    /// Creates a topic, and fills each partition with some good records.
    ///
    /// # Errors
    /// Kafka refuses.
    pub async fn topic_of(&self, short: &str, partitions: i32, records: usize) -> Result<String> {
        let topic = self.topic(short);
        let client = &self.place.client;
        client.create_topic(&topic, partitions, &[]).await?;
        for partition in 0..partitions {
            self.good(&topic, partition, records).await?;
        }
        Ok(topic)
    }

    /// Produces good records.
    ///
    /// # Errors
    /// Kafka refuses.
    pub async fn good(&self, topic: &str, partition: i32, count: usize) -> Result<()> {
        let records: Vec<_> = (0..count).map(|n| good(partition, n)).collect();
        self.place.client.produce(topic, &records).await?;
        Ok(())
    }

    /// Produces a record that no consumer here can decode, and answers with its offset.
    ///
    /// # Errors
    /// Kafka refuses.
    pub async fn bad(&self, topic: &str, partition: i32) -> Result<i64> {
        let record = Record::new(partition, b"\x00\x9f no JSON".to_vec());
        let offsets = self.place.client.produce(topic, &[record]).await?;
        Ok(offsets.first().copied().ok_or("a record has no offset")?)
    }

    /// Produces a record that looks like all others and that consumers of [`Fails::AtMarked`] fail at, and answers with its
    /// offset.
    ///
    /// # Errors
    /// Kafka refuses.
    pub async fn marked(&self, topic: &str, partition: i32) -> Result<i64> {
        let record = Record::new(partition, r#"{"partition": 0, "marked": true}"#);
        let offsets = self.place.client.produce(topic, &[record]).await?;
        Ok(offsets.first().copied().ok_or("a record has no offset")?)
    }

    /// Produces a record at which consumers work for so long, and answers with its offset.
    ///
    /// # Errors
    /// Kafka refuses.
    pub async fn long(&self, topic: &str, partition: i32, work: Duration) -> Result<i64> {
        let value = format!(r#"{{"work_ms": {}}}"#, work.as_millis());
        let record = Record::new(partition, value);
        let offsets = self.place.client.produce(topic, &[record]).await?;
        Ok(offsets.first().copied().ok_or("a record has no offset")?)
    }

    /// Commits `offset` in the first `partitions` of a topic, from outside the group.
    ///
    /// # Errors
    /// Kafka refuses.
    pub async fn commit(&self, topic: &str, partitions: i32, offset: i64) -> Result<()> {
        let commits: Vec<_> = (0..partitions)
            .map(|partition| Commit::new(topic, partition, offset))
            .collect();
        self.place.client.commit(&self.group, &commits).await?;
        Ok(())
    }

    /// Holds a transaction open to the end of the scene.
    pub fn hold(&mut self, transaction: Transaction) {
        self.open.push(transaction);
    }

    /// Waits until the record at `offset` is the first one in partition 0 from offset `from` on, because the log cleaner
    /// took the others.
    ///
    /// # Errors
    /// It does not take them in time.
    pub async fn until_next_is(&self, topic: &str, from: i64, offset: i64) -> Result<()> {
        let began = Instant::now();
        while began.elapsed() < CLEANED_WITHIN {
            let (bootstrap, topic) = (self.place.bootstrap.clone(), topic.to_owned());
            let first = tokio::task::spawn_blocking(move || first_offset(&bootstrap, &topic, from));
            if first.await?? == Some(offset) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        Err(format!("{topic} is not compacted").into())
    }

    /// From now on, a good record in each partition every so often.
    pub fn feed(
        &mut self,
        topic: &str,
        partitions: impl IntoIterator<Item = i32>,
        every: Duration,
    ) {
        let (client, topic) = (self.place.client.clone(), topic.to_owned());
        let partitions: Vec<_> = partitions.into_iter().collect();
        self.tasks.spawn_local(async move {
            for n in 0.. {
                let records: Vec<_> = partitions.iter().map(|p| good(*p, n)).collect();
                client.produce(&topic, &records).await?;
                tokio::time::sleep(every).await;
            }
            Ok(())
        });
    }

    /// Does something while the guard already looks.
    pub fn later<F>(&mut self, after: Duration, what: F)
    where
        F: Future<Output = Result<()>> + 'static,
    {
        self.tasks.spawn_local(async move {
            tokio::time::sleep(after).await;
            what.await
        });
    }

    /// A consumer of the scene's group.
    #[must_use]
    pub fn consumer(&self, name: &str, topics: &[&str]) -> Consumer {
        Consumer {
            name: name.to_owned(),
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
            group: self.group.clone(),
            args: Vec::new(),
            restarts: None,
        }
    }

    /// Starts a consumer process.
    pub fn start(&mut self, consumer: &Consumer) -> Started {
        let started = Started::default();
        let (place, consumer, control) = (self.place.clone(), consumer.clone(), started.clone());
        self.tasks.spawn_local(async move {
            let ended = consumer.supervise(&place, &control.stop).await;
            control.ended.notify_one();
            ended
        });
        started
    }

    /// Starts a consumer of the Java client, which commits by itself every five seconds what it has polled.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start_java(&mut self, topic: &str) -> Result<()> {
        let mut consumer = ConsoleConsumer::new(&self.group, topic);
        let property = ("isolation.level", "read_committed");
        consumer
            .properties
            .insert(property.0.to_owned(), property.1.to_owned());
        self.java.push(self.place.cli.console_consumer(&consumer)?);
        Ok(())
    }

    /// Says what is expected of one partition.
    pub fn expect(&mut self, topic: &str, partition: i32, last: &[Verdict]) -> &mut Expected {
        self.expected.push(Expected {
            partition: TopicPartition::new(topic, partition),
            last: last.to_vec(),
            on_the_way: None,
            never: Vec::new(),
            skip: None,
        });
        let newest = self.expected.len() - 1;
        &mut self.expected[newest]
    }

    /// Says what is expected of the group as a whole, in every run from `from_run` on.
    pub fn expect_of_group(&mut self, any: &[Verdict], from_run: usize) {
        self.expected_of_group = Some(ExpectedOfGroup {
            any: any.to_vec(),
            from_run,
        });
    }

    /// Whether something that ran beside has failed.
    ///
    /// # Errors
    /// With what went wrong.
    pub fn check(&mut self) -> Result<()> {
        while let Some(ended) = self.tasks.try_join_next() {
            ended??;
        }
        Ok(())
    }

    /// Ends all that belongs to it.
    pub async fn end(mut self) {
        self.tasks.shutdown().await;
    }
}

fn good(partition: i32, n: usize) -> Record {
    Record {
        // A compacted topic takes no record without a key.
        key: Some(n.to_string().into()),
        ..Record::new(partition, format!(r#"{{"shipment": {n}}}"#))
    }
}

/// The offset of the first record that is left in partition 0.
fn first_offset(bootstrap: &str, topic: &str, from: i64) -> Result<Option<i64>> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "looks-at-a-compacted-topic")
        .set("enable.auto.commit", "false")
        .create()?;
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, Offset::Offset(from))?;
    consumer.assign(&list)?;
    let polled = consumer.poll(Duration::from_secs(5)).transpose()?;
    Ok(polled.map(|message| message.offset()))
}

impl Expected {
    /// The guard has to propose to pass over these.
    pub fn skip(&mut self, first: i64, last: i64) {
        self.skip = Some((first, last));
    }

    /// The guard must not have said any of these.
    pub fn never(&mut self, verdicts: &[Verdict]) {
        self.never = verdicts.to_vec();
    }

    /// The guard has to have said this before.
    pub fn after(&mut self, verdict: Verdict) {
        self.on_the_way = Some(verdict);
    }
}

impl Consumer {
    /// Starts again so long after it has ended.
    #[must_use]
    pub fn restarts(mut self, after: Duration) -> Self {
        self.restarts = Some(after);
        self
    }

    /// At which records it fails, and what it does then.
    #[must_use]
    pub fn fails(self, fails: Fails, then: Then) -> Self {
        self.value("--fails", fails).value("--then", then)
    }

    /// When it commits.
    #[must_use]
    pub fn commits(self, commits: Commits) -> Self {
        self.value("--commits", commits)
    }

    /// How many records make a batch; it commits after each batch.
    #[must_use]
    pub fn batch(self, records: usize) -> Self {
        self.commits(Commits::EachBatch)
            .with("--batch", &records.to_string())
    }

    /// How long it works at each record.
    #[must_use]
    pub fn works(self, time: Duration) -> Self {
        self.with("--work-ms", &time.as_millis().to_string())
    }

    /// How long it stays in the group.
    #[must_use]
    pub fn lives(self, time: Duration) -> Self {
        self.with("--lives-ms", &time.as_millis().to_string())
    }

    /// Assigns itself the partitions 0.
    #[must_use]
    pub fn assigns_itself(mut self) -> Self {
        self.args.push("--assigns-itself".to_owned());
        self
    }

    /// A librdkafka property.
    #[must_use]
    pub fn property(self, key: &str, value: &str) -> Self {
        self.with("--property", &format!("{key}={value}"))
    }

    /// Speaks the protocol of KIP-848.
    #[must_use]
    pub fn consumer_protocol(self) -> Self {
        self.property("group.protocol", "consumer")
    }

    fn with(mut self, flag: &str, value: &str) -> Self {
        self.args.extend([flag.to_owned(), value.to_owned()]);
        self
    }

    fn value(self, flag: &str, value: impl clap::ValueEnum) -> Self {
        match value.to_possible_value() {
            Some(value) => self.with(flag, value.get_name()),
            None => self,
        }
    }

    /// Runs the process, again and again where it restarts, until this is dropped.
    ///
    /// # Errors
    /// It cannot be started.
    pub async fn run(&self, place: &Place) -> Result<()> {
        self.supervise(place, &Notify::new()).await
    }

    /// Runs the process, again and again where it restarts, until it is to stop.
    async fn supervise(&self, place: &Place, stop: &Notify) -> Result<()> {
        loop {
            let mut child = self.spawn(place)?;
            // A consumer ends when nobody holds its input any more.
            let held = child.stdin.take();
            tokio::select! {
                ended = child.wait() => {
                    ended?;
                }
                () = stop.notified() => {
                    drop(held);
                    return leave(child).await;
                }
            }
            let Some(after) = self.restarts else {
                return Ok(());
            };
            tokio::select! {
                () = tokio::time::sleep(after) => {}
                () = stop.notified() => return Ok(()),
            }
        }
    }

    fn spawn(&self, place: &Place) -> Result<Child> {
        let mut command = Command::new(&place.program);
        command
            .arg("consumer")
            .args(["--bootstrap", &place.bootstrap])
            .args(["--group", &self.group])
            .args(["--topics", &self.topics.join(",")])
            .args(["--client-id", &self.name])
            .args(&self.args);
        if !self
            .args
            .iter()
            .any(|arg| arg.starts_with("group.protocol"))
        {
            // Short enough that a member which died is missed while somebody looks.
            for property in ["session.timeout.ms=6000", "heartbeat.interval.ms=1000"] {
                command.args(["--property", property]);
            }
        }
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()?;
        Ok(child)
    }
}

/// Waits for a consumer to leave its group, and kills it where it does not.
async fn leave(mut child: Child) -> Result<()> {
    let leaves = tokio::time::timeout(LEAVES_WITHIN, child.wait()).await;
    if leaves.is_err() {
        child.kill().await?;
    }
    Ok(())
}

impl Started {
    /// Lets it leave its group and end, for good.
    pub async fn stop(self) {
        self.stop.notify_one();
        self.ended.notified().await;
    }
}
