//! Kafka clients that tests and the demo need: topics, records, commits and real group members.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rdkafka::{
    ClientConfig, ClientContext, Message, Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance},
    error::{KafkaError, RDKafkaErrorCode},
    message::{BorrowedMessage, Header, Headers, OwnedHeaders},
    producer::{BaseProducer, FutureProducer, FutureRecord, Producer},
};
use tokio::sync::{OnceCell, oneshot};
use ulid::Ulid;

use crate::{Error, Result, error::Doing, run::until, workdir::blocking};

/// How long a broker may take for one call.
const CALL_LIMIT: Duration = Duration::from_secs(30);

/// How long brokers may take to elect the leaders of thousands of partitions, and to make their logs.
const LEADERS_LIMIT: Duration = Duration::from_secs(180);

pub(crate) fn client_config(
    bootstrap: &str,
    properties: &BTreeMap<String, String>,
) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", bootstrap)
        .set("reconnect.backoff.ms", "50")
        .set("reconnect.backoff.max.ms", "500");
    for (key, value) in properties {
        config.set(key, value);
    }
    config
}

/// A record to produce, or one that was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    /// Where it is.
    pub partition: i32,
    /// Its offset, once it has one.
    pub offset: Option<i64>,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value.
    pub value: Option<Vec<u8>>,
    /// Its headers, in order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// How it is dated when it is produced, in milliseconds since the epoch; `None` is now. Not read back.
    pub timestamp: Option<i64>,
}

impl Record {
    /// A record with nothing but a value.
    pub fn new(partition: i32, value: impl Into<Vec<u8>>) -> Self {
        Self {
            partition,
            value: Some(value.into()),
            ..Self::default()
        }
    }

    fn owned_headers(&self) -> OwnedHeaders {
        self.headers
            .iter()
            .fold(OwnedHeaders::new(), |headers, (key, value)| {
                headers.insert(Header {
                    key,
                    value: value.as_ref(),
                })
            })
    }
}

/// An offset to commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The offset of the next record to read.
    pub offset: i64,
    /// What is stored beside it. (Bytes that are not UTF-8, or a leader epoch, need the group-admin
    /// calls of the core crate; a [`Member`] commits the epoch of what it has read.)
    pub metadata: String,
}

impl Commit {
    /// A commit without metadata.
    pub fn new(topic: &str, partition: i32, offset: i64) -> Self {
        Self {
            topic: topic.to_owned(),
            partition,
            offset,
            metadata: String::new(),
        }
    }
}

/// Makes clients of one cluster.
#[derive(Clone)]
pub struct Client {
    config: ClientConfig,
    /// Made on first use: a new idempotent producer waits up to a second for its id.
    producer: Arc<OnceCell<FutureProducer>>,
}

impl fmt::Debug for Client {
    /// Without the configuration, which may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("bootstrap", &self.config.get("bootstrap.servers"))
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Clients of the cluster at `bootstrap`, with further librdkafka `properties`.
    pub fn new(bootstrap: &str, properties: &BTreeMap<String, String>) -> Self {
        Self {
            config: client_config(bootstrap, properties),
            producer: Arc::default(),
        }
    }

    /// Creates a topic that as many brokers hold as its cluster's default says.
    ///
    /// # Errors
    /// If the broker refuses.
    pub async fn create_topic(
        &self,
        topic: &str,
        partitions: i32,
        configs: &[(&str, &str)],
    ) -> Result<()> {
        let replicas_by_default = TopicReplication::Fixed(-1);
        let mut new = NewTopic::new(topic, partitions, replicas_by_default);
        for (key, value) in configs {
            new = new.set(key, value);
        }
        let doing = || format!("create topic {topic}");
        let answers = self.admin()?.create_topics([&new], &admin_options()).await;
        only(answers, doing)
    }

    /// Deletes a topic, and waits until the brokers have forgotten it.
    ///
    /// # Errors
    /// If the broker refuses.
    pub async fn delete_topic(&self, topic: &str) -> Result<()> {
        let admin = self.admin()?;
        let answers = admin.delete_topics(&[topic], &admin_options()).await;
        only(answers, || format!("delete topic {topic}"))?;
        let admin = Arc::new(admin);
        until(
            &format!("topic {topic} to be gone"),
            CALL_LIMIT,
            async || {
                let (admin, topic) = (admin.clone(), topic.to_owned());
                blocking(move || {
                    let metadata = admin
                        .inner()
                        .fetch_metadata(None, CALL_LIMIT)
                        .doing(|| "list topics".to_owned())?;
                    let gone = metadata.topics().iter().all(|known| known.name() != topic);
                    Ok(gone.then_some(()))
                })
                .await
            },
        )
        .await
    }

    /// Raises the number of partitions of a topic to `count`, and waits until each has a leader.
    ///
    /// # Errors
    /// If the broker refuses.
    pub async fn raise_partitions(&self, topic: &str, count: usize) -> Result<()> {
        let new = NewPartitions::new(topic, count);
        let admin = self.admin()?;
        let answers = admin.create_partitions([&new], &admin_options()).await;
        only(answers, || format!("raise the partitions of {topic}"))?;
        let admin = Arc::new(admin);
        until(
            &format!("{topic} to have {count} partitions"),
            LEADERS_LIMIT,
            async || {
                let (admin, topic) = (admin.clone(), topic.to_owned());
                blocking(move || {
                    let metadata = admin
                        .inner()
                        .fetch_metadata(Some(&topic), CALL_LIMIT)
                        .doing(|| format!("describe {topic}"))?;
                    let led = metadata
                        .topics()
                        .iter()
                        .flat_map(|topic| topic.partitions())
                        .filter(|partition| partition.leader() >= 0);
                    Ok((led.count() >= count).then_some(()))
                })
                .await
            },
        )
        .await?;
        // A producer that has asked before sends to the partitions that it knows of, and to no others.
        let Some(producer) = self.producer.get().cloned() else {
            return Ok(());
        };
        let doing = format!("describe {topic}");
        let topic = topic.to_owned();
        blocking(move || {
            let metadata = producer.client().fetch_metadata(Some(&topic), CALL_LIMIT);
            metadata.doing(|| doing)?;
            Ok(())
        })
        .await
    }

    /// Deletes the records of a partition before `offset`, which becomes the log start.
    ///
    /// # Errors
    /// If the broker refuses.
    pub async fn delete_records(&self, topic: &str, partition: i32, offset: i64) -> Result<()> {
        let doing = || format!("delete records of {topic}-{partition}");
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(offset))
            .doing(doing)?;
        let answer = self
            .admin()?
            .delete_records(&list, &admin_options())
            .await
            .doing(doing)?;
        answer
            .elements()
            .into_iter()
            .try_for_each(|partition| partition.error().doing(doing))
    }

    /// Produces records and waits until all are stored; answers with their offsets, in order.
    ///
    /// # Errors
    /// With the first that could not be stored.
    pub async fn produce(&self, topic: &str, records: &[Record]) -> Result<Vec<i64>> {
        let doing = || format!("produce to {topic}");
        let producer = self
            .producer
            .get_or_try_init(async || {
                self.config
                    .clone()
                    .set("enable.idempotence", "true")
                    .set("linger.ms", "0")
                    .create()
                    .doing(|| "create a producer".to_owned())
            })
            .await?;
        let mut deliveries = Vec::with_capacity(records.len());
        for record in records {
            let mut future = FutureRecord::<[u8], [u8]>::to(topic)
                .partition(record.partition)
                .headers(record.owned_headers());
            future.key = record.key.as_deref();
            future.payload = record.value.as_deref();
            future.timestamp = record.timestamp;
            let delivery = producer
                .send_result(future)
                .map_err(|(error, _)| error)
                .doing(doing)?;
            deliveries.push(delivery);
        }
        let mut offsets = Vec::with_capacity(records.len());
        for delivery in deliveries {
            let delivered = delivery
                .await
                .map_err(|_| KafkaError::Canceled)
                .doing(doing)?;
            offsets.push(delivered.map_err(|(error, _)| error).doing(doing)?.offset);
        }
        Ok(offsets)
    }

    /// Produces `count` numbered records to one partition.
    ///
    /// # Errors
    /// As [`Client::produce`].
    pub async fn produce_numbered(
        &self,
        topic: &str,
        partition: i32,
        count: usize,
    ) -> Result<Vec<i64>> {
        let records: Vec<_> = (0..count)
            .map(|number| Record::new(partition, format!("{topic}-{partition}-{number}")))
            .collect();
        self.produce(topic, &records).await
    }

    /// Produces records in a transaction that is still open when this returns.
    ///
    /// # Errors
    /// If the broker refuses.
    pub async fn begin_transaction(&self, topic: &str, records: &[Record]) -> Result<Transaction> {
        let producer: BaseProducer = self
            .config
            .clone()
            .set("transactional.id", Ulid::generate().to_string())
            // Some have to stay open for longer than a minute.
            .set("transaction.timeout.ms", "600000")
            .create()
            .doing(|| "create a transactional producer".to_owned())?;
        let (topic, records) = (topic.to_owned(), records.to_vec());
        blocking(move || {
            let doing = || format!("produce to {topic} in a transaction");
            producer.init_transactions(CALL_LIMIT).doing(doing)?;
            producer.begin_transaction().doing(doing)?;
            for record in &records {
                let mut base = rdkafka::producer::BaseRecord::<[u8], [u8]>::to(&topic)
                    .partition(record.partition)
                    .headers(record.owned_headers());
                base.key = record.key.as_deref();
                base.payload = record.value.as_deref();
                producer
                    .send(base)
                    .map_err(|(error, _)| error)
                    .doing(doing)?;
            }
            producer.flush(CALL_LIMIT).doing(doing)?;
            Ok(Transaction { producer })
        })
        .await
    }

    /// Commits offsets of a group that has no members, as a consumer that assigns itself would.
    ///
    /// # Errors
    /// If the broker refuses.
    pub async fn commit(&self, group: &str, commits: &[Commit]) -> Result<()> {
        let consumer = Arc::new(self.simple_consumer(group)?);
        let doing = format!("commit offsets of {group}");
        let list = list_of(commits).doing(|| doing.clone())?;
        until("a group's coordinator", CALL_LIMIT, async || {
            let (consumer, list, doing) = (consumer.clone(), list.clone(), doing.clone());
            match blocking(move || consumer.commit(&list, CommitMode::Sync).doing(|| doing)).await {
                // A broker that is only just creating its topic of offsets.
                Err(error)
                    if is_code(&error, RDKafkaErrorCode::CoordinatorLoadInProgress)
                        || is_code(&error, RDKafkaErrorCode::NotCoordinator) =>
                {
                    Ok(None)
                }
                done => done.map(Some),
            }
        })
        .await
    }

    /// Adds commits of a group without members to a transaction: they are pending until it ends.
    ///
    /// # Errors
    /// If the broker refuses.
    pub async fn commit_within(
        &self,
        transaction: Transaction,
        group: &str,
        commits: &[Commit],
    ) -> Result<Transaction> {
        let consumer = self.simple_consumer(group)?;
        let doing = format!("commit offsets of {group} in a transaction");
        let list = list_of(commits).doing(|| doing.clone())?;
        blocking(move || {
            let group = consumer
                .group_metadata()
                .ok_or(KafkaError::Canceled)
                .doing(|| doing.clone())?;
            transaction
                .producer
                .send_offsets_to_transaction(&list, &group, CALL_LIMIT)
                .doing(|| doing)?;
            Ok(transaction)
        })
        .await
    }

    /// The committed offsets of a group in the partitions `0..partitions` of a topic; `None` where
    /// nothing is committed.
    ///
    /// # Errors
    /// If the broker refuses.
    pub async fn committed(
        &self,
        group: &str,
        topic: &str,
        partitions: i32,
    ) -> Result<Vec<Option<i64>>> {
        let consumer = self.simple_consumer(group)?;
        let doing = format!("read the committed offsets of {group}");
        let mut list = TopicPartitionList::new();
        list.add_partition_range(topic, 0, partitions.saturating_sub(1));
        blocking(move || {
            let committed = consumer
                .committed_offsets(list, CALL_LIMIT)
                .doing(|| doing)?;
            Ok(committed
                .elements()
                .iter()
                .map(|partition| match partition.offset() {
                    Offset::Offset(offset) => Some(offset),
                    _ => None,
                })
                .collect())
        })
        .await
    }

    /// The end offsets of all of a topic's partitions, in their order.
    ///
    /// # Errors
    /// If the broker does not answer.
    pub async fn end_offsets(&self, topic: &str) -> Result<Vec<i64>> {
        let consumer = self.simple_consumer(&nobody())?;
        let topic = topic.to_owned();
        let doing = format!("read the ends of {topic}");
        blocking(move || {
            let metadata = consumer.fetch_metadata(Some(&topic), CALL_LIMIT);
            let metadata = metadata.doing(|| doing.clone())?;
            let partitions = metadata.topics().iter().flat_map(|t| t.partitions());
            let mut ends: Vec<(i32, i64)> = Vec::new();
            for partition in partitions {
                let id = partition.id();
                let (_, end) = consumer
                    .fetch_watermarks(&topic, id, CALL_LIMIT)
                    .doing(|| doing.clone())?;
                ends.push((id, end));
            }
            ends.sort_unstable();
            Ok(ends.into_iter().map(|(_, end)| end).collect())
        })
        .await
    }

    /// The record at or after an offset, read without being in any group.
    ///
    /// # Errors
    /// If there is none within the limit, or the broker refuses.
    pub async fn read(&self, topic: &str, partition: i32, offset: i64) -> Result<Record> {
        let consumer = self.simple_consumer(&nobody())?;
        let doing = format!("read {topic}-{partition} at {offset}");
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(offset))
            .doing(|| doing.clone())?;
        blocking(move || {
            consumer.assign(&list).doing(|| doing.clone())?;
            let deadline = std::time::Instant::now() + CALL_LIMIT;
            while std::time::Instant::now() < deadline {
                if let Some(polled) = consumer.poll(Duration::from_millis(100)) {
                    return Ok(record_of(&polled.doing(|| doing)?));
                }
            }
            Err(Error::TimedOut {
                what: doing,
                after: CALL_LIMIT,
            })
        })
        .await
    }

    /// Joins a group with a real member that runs in this process.
    ///
    /// # Errors
    /// If the client cannot be created.
    pub fn join(&self, group: &str, topics: &[&str], options: &MemberOptions) -> Result<Member> {
        Member::join(&self.config, group, topics, options)
    }

    fn admin(&self) -> Result<AdminClient<DefaultClientContext>> {
        self.config
            .create()
            .doing(|| "create an admin client".to_owned())
    }

    fn simple_consumer(&self, group: &str) -> Result<BaseConsumer> {
        self.config
            .clone()
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .create()
            .doing(|| "create a consumer".to_owned())
    }
}

/// A group that nobody is in.
fn nobody() -> String {
    format!("reader-{}", Ulid::generate())
}

fn list_of(commits: &[Commit]) -> std::result::Result<TopicPartitionList, KafkaError> {
    let mut list = TopicPartitionList::new();
    for commit in commits {
        let mut element = list.add_partition(&commit.topic, commit.partition);
        element.set_offset(Offset::Offset(commit.offset))?;
        element.set_metadata(&commit.metadata);
    }
    Ok(list)
}

fn admin_options() -> AdminOptions {
    AdminOptions::new()
        .operation_timeout(Some(CALL_LIMIT))
        .request_timeout(Some(CALL_LIMIT))
}

type TopicAnswers = std::result::Result<Vec<rdkafka::admin::TopicResult>, KafkaError>;

/// The answer to a call about one topic.
fn only(answers: TopicAnswers, doing: impl Fn() -> String) -> Result<()> {
    for answer in answers.doing(&doing)? {
        answer
            .map_err(|(_, code)| KafkaError::AdminOp(code))
            .doing(&doing)?;
    }
    Ok(())
}

/// A transaction that is open. Dropped, it stays so until the broker's transaction time-out.
pub struct Transaction {
    producer: BaseProducer,
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}

impl Transaction {
    /// Commits it.
    ///
    /// # Errors
    /// If the broker refuses.
    pub async fn commit(self) -> Result<()> {
        blocking(move || {
            self.producer
                .commit_transaction(CALL_LIMIT)
                .doing(|| "commit a transaction".to_owned())
        })
        .await
    }

    /// Aborts it.
    ///
    /// # Errors
    /// If the broker refuses.
    pub async fn abort(self) -> Result<()> {
        blocking(move || {
            self.producer
                .abort_transaction(CALL_LIMIT)
                .doing(|| "abort a transaction".to_owned())
        })
        .await
    }
}

/// How a group's members find their partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// The members elect a leader that assigns.
    #[default]
    Classic,
    /// The broker assigns (KIP-848; Kafka 4 and later).
    Consumer,
}

impl Protocol {
    /// Its name in `group.protocol`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Consumer => "consumer",
        }
    }
}

/// How a member joins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemberOptions {
    /// The group's protocol.
    pub protocol: Protocol,
    /// How the member names itself to the broker.
    pub client_id: Option<String>,
    /// Makes it a static member, which does not leave when it stops (`group.instance.id`).
    pub instance_id: Option<String>,
    /// Further librdkafka properties.
    pub properties: BTreeMap<String, String>,
}

impl MemberOptions {
    /// A plain member of a group with this protocol.
    pub fn of(protocol: Protocol) -> Self {
        Self {
            protocol,
            ..Self::default()
        }
    }
}

/// A live group member: a consumer that polls in a thread of this process, and commits when it is told to.
#[derive(Debug)]
pub struct Member {
    seen: Arc<Mutex<Seen>>,
    orders: mpsc::Sender<Order>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Seen {
    assigned: Vec<(String, i32)>,
    records: Vec<(String, Record)>,
}

enum Order {
    /// Commit the positions, and say how that went.
    Commit(oneshot::Sender<std::result::Result<(), KafkaError>>),
}

struct MemberContext {
    seen: Arc<Mutex<Seen>>,
}

impl ClientContext for MemberContext {}

impl ConsumerContext for MemberContext {
    fn post_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let assigned = match rebalance {
            // A revocation that ends in no assignment is seen here before the consumer forgets it.
            Rebalance::Revoke(_) => Vec::new(),
            Rebalance::Assign(_) | Rebalance::Error(_) => consumer
                .assignment()
                .map(|list| partitions(&list))
                .unwrap_or_default(),
        };
        lock(&self.seen).assigned = assigned;
    }
}

fn partitions(list: &TopicPartitionList) -> Vec<(String, i32)> {
    list.elements()
        .iter()
        .map(|partition| (partition.topic().to_owned(), partition.partition()))
        .collect()
}

/// What a thread that panicked has seen is still worth reading.
fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Member {
    fn join(
        config: &ClientConfig,
        group: &str,
        topics: &[&str],
        options: &MemberOptions,
    ) -> Result<Self> {
        let mut config = config.clone();
        config
            .set("group.id", group)
            .set("group.protocol", options.protocol.name())
            .set("auto.offset.reset", "earliest")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "true");
        if options.protocol == Protocol::Classic {
            config.set("heartbeat.interval.ms", "1000");
        }
        if let Some(id) = &options.client_id {
            config.set("client.id", id);
        }
        if let Some(id) = &options.instance_id {
            config.set("group.instance.id", id);
        }
        for (key, value) in &options.properties {
            config.set(key, value);
        }
        let seen = Arc::new(Mutex::new(Seen::default()));
        let doing = || format!("join group {group}");
        let context = MemberContext { seen: seen.clone() };
        let consumer: BaseConsumer<MemberContext> =
            config.create_with_context(context).doing(doing)?;
        consumer.subscribe(topics).doing(doing)?;
        let (orders, received) = mpsc::channel();
        let thread = thread::Builder::new()
            .name(format!("member of {group}"))
            .spawn({
                let seen = seen.clone();
                move || poll(&consumer, &seen, &received)
            })
            .doing(|| "start a thread".to_owned())?;
        Ok(Self {
            seen,
            orders,
            thread: Some(thread),
        })
    }

    /// The partitions that it owns now.
    pub fn assigned(&self) -> Vec<(String, i32)> {
        lock(&self.seen).assigned.clone()
    }

    /// What it has read, as topic and record, in order.
    pub fn records(&self) -> Vec<(String, Record)> {
        lock(&self.seen).records.clone()
    }

    /// Waits until it owns at least `count` partitions.
    ///
    /// # Errors
    /// If that takes longer than `limit`.
    pub async fn until_assigned(&self, count: usize, limit: Duration) -> Result<()> {
        until(
            &format!("a member to own {count} partitions"),
            limit,
            async || Ok((lock(&self.seen).assigned.len() >= count).then_some(())),
        )
        .await
    }

    /// Waits until it has read at least `count` records.
    ///
    /// # Errors
    /// If that takes longer than `limit`.
    pub async fn until_read(&self, count: usize, limit: Duration) -> Result<()> {
        until(
            &format!("a member to read {count} records"),
            limit,
            async || Ok((lock(&self.seen).records.len() >= count).then_some(())),
        )
        .await
    }

    /// Commits the position behind the last record that it has read of each partition.
    ///
    /// # Errors
    /// If the broker refuses, or nothing was read.
    pub async fn commit(&self) -> Result<()> {
        let (answer, answered) = oneshot::channel();
        let gone = |_| KafkaError::Canceled;
        let doing = || "commit as a member".to_owned();
        self.orders
            .send(Order::Commit(answer))
            .map_err(|_| KafkaError::Canceled)
            .doing(doing)?;
        answered.await.map_err(gone).doing(doing)?.doing(doing)
    }

    /// Stops it: it leaves the group, unless it is a static member, and commits nothing more.
    ///
    /// # Errors
    /// If its thread panicked.
    pub async fn stop(mut self) -> Result<Vec<(String, Record)>> {
        let seen = self.seen.clone();
        blocking(move || {
            self.end();
            Ok(())
        })
        .await?;
        let records = std::mem::take(&mut lock(&seen).records);
        Ok(records)
    }

    fn end(&mut self) {
        // The thread ends when nobody can give it orders any more.
        self.orders = mpsc::channel().0;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.end();
    }
}

fn poll(
    consumer: &BaseConsumer<MemberContext>,
    seen: &Mutex<Seen>,
    orders: &mpsc::Receiver<Order>,
) {
    loop {
        match orders.recv_timeout(Duration::ZERO) {
            Ok(Order::Commit(answer)) => {
                // Whoever asked may have stopped waiting.
                let _ = answer.send(consumer.commit_consumer_state(CommitMode::Sync));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // What the client reports besides records, it deals with by itself.
        if let Some(Ok(message)) = consumer.poll(Duration::from_millis(50)) {
            let record = record_of(&message);
            lock(seen)
                .records
                .push((message.topic().to_owned(), record));
        }
    }
}

fn record_of(message: &BorrowedMessage<'_>) -> Record {
    let headers = message.headers().into_iter().flat_map(Headers::iter);
    Record {
        partition: message.partition(),
        offset: Some(message.offset()),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers: headers
            .map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec)))
            .collect(),
        timestamp: None,
    }
}

/// Whether an error is the broker's answer `code`.
pub fn is_code(error: &Error, code: RDKafkaErrorCode) -> bool {
    matches!(error, Error::Kafka { source, .. } if source.rdkafka_error_code() == Some(code))
}
