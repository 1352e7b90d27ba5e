//! What the tests on real parts share: a stack that one run of the tests starts once, and a name of one's own in it.
//!
//! A test enters a [`World`], works with topics and groups that carry its name, and asserts on what Kafka, the table,
//! the executions and the people's messages say.

#![forbid(unsafe_code)]

use std::error::Error;
use std::time::Duration;

use jiff::Timestamp;
use offset_guard::config::Config;
use offset_guard::domain::ids::GroupKey;
use offset_guard::domain::offset::{ClusterId, CommittedOffset, GroupId, TopicPartition};
use offset_guard::kafka::{Auth, ConnectionSettings, GroupReader, ReaderProgram};
use offset_guard::ports::ReadGroups;
use offset_guard::store::{DynamoTable, Store};
use offset_guard_local::client::{Client, Member, MemberOptions, Protocol, Record};
use offset_guard_local::kafka::Version;
use offset_guard_local::operator::{Ended, Function, Invoked, Operator, text_of};
use offset_guard_local::stack::{BOOTSTRAP, CLUSTER_ID, Stack, StackOptions};
use serde_json::{Value, json};
use ulid::Ulid;

pub mod bare;
pub mod context;
pub mod loopback;
pub mod readme;
pub mod situations;
pub mod step_functions;
pub mod template;
pub mod wide;

/// What a test returns.
pub type Outcome = Result<(), Box<dyn Error>>;

/// How long real parts may take for anything that they do at once.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A Kafka and the protocol that the groups on it speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// The Kafka.
    pub kafka: Version,
    /// The groups' protocol.
    pub protocol: Protocol,
}

/// The oldest Kafka and the classic protocol.
pub const CLASSIC_ON_3_9: Setting = Setting {
    kafka: Version::V3_9,
    protocol: Protocol::Classic,
};
/// The newest Kafka and the classic protocol.
pub const CLASSIC_ON_4: Setting = Setting {
    kafka: Version::V4,
    protocol: Protocol::Classic,
};
/// The newest Kafka and KIP-848.
pub const CONSUMER_ON_4: Setting = Setting {
    kafka: Version::V4,
    protocol: Protocol::Consumer,
};

/// Makes one test a setting of each `async fn(&World) -> Outcome` that is named.
#[macro_export]
macro_rules! on_every_kafka {
    ($($test:ident),+ $(,)?) => {
        $(mod $test {
            #[tokio::test(flavor = "multi_thread")]
            async fn classic_on_3_9() -> $crate::Outcome {
                super::$test(&$crate::World::enter($crate::CLASSIC_ON_3_9).await?).await
            }
            #[tokio::test(flavor = "multi_thread")]
            async fn classic_on_4() -> $crate::Outcome {
                super::$test(&$crate::World::enter($crate::CLASSIC_ON_4).await?).await
            }
            #[tokio::test(flavor = "multi_thread")]
            async fn consumer_on_4() -> $crate::Outcome {
                super::$test(&$crate::World::enter($crate::CONSUMER_ON_4).await?).await
            }
        })+
    };
}

/// Makes a test of each `async fn(&World) -> Outcome` that is named, on the newest Kafka with the classic protocol.
#[macro_export]
macro_rules! on_kafka_4 {
    ($($test:ident),+ $(,)?) => {
        $(mod $test {
            #[tokio::test(flavor = "multi_thread")]
            async fn classic_on_4() -> $crate::Outcome {
                super::$test(&$crate::World::enter($crate::CLASSIC_ON_4).await?).await
            }
        })+
    };
}

/// The groups of the shared stacks. A group's name says which policy it has.
const CONFIG: &str = r#"
[clusters.main]
bootstrap_servers = ["@BOOTSTRAP@"]
cluster_id = "@CLUSTER_ID@"
auth = "plaintext"

# Waits, after the approval, until its consumers have stopped.
[[groups]]
cluster = "main"
pattern = "waiting-*"
wait_for_empty_seconds = 60
settle_seconds = 2
apply_within_seconds = 90

# Its consumers have hardly any time to stop.
[[groups]]
cluster = "main"
pattern = "impatient-*"
wait_for_empty_seconds = 3
settle_seconds = 1
apply_within_seconds = 60

# Its consumers may hardly go on until they stop.
[[groups]]
cluster = "main"
pattern = "strict-*"
wait_for_empty_seconds = 60
settle_seconds = 1
apply_within_seconds = 90
drift_limit = 2

# Nobody has much time to approve.
[[groups]]
cluster = "main"
pattern = "hasty-*"
approve_within_seconds = 8
settle_seconds = 2

# Forgets soon.
[[groups]]
cluster = "main"
pattern = "keeping-*"
keep_checkpoints = 2
min_history_seconds = 4
settle_seconds = 2

# Approved in time, and too late a moment after.
[[groups]]
cluster = "main"
pattern = "brief-*"
apply_within_seconds = 3
settle_seconds = 1

# Waits for its consumers, and is never seen at rest for long enough while a test lasts.
[[groups]]
cluster = "main"
pattern = "restless-*"
wait_for_empty_seconds = 300
settle_seconds = 300
apply_within_seconds = 900

# Named as Kafka Connect names the groups of its sinks.
[[groups]]
cluster = "main"
pattern = "connect-*"
settle_seconds = 2

# Its records are to be JSON, and what is none may be skipped; the rules of a real one in seconds.
[[groups]]
cluster = "main"
pattern = "poison-*"
settle_seconds = 1
wait_for_empty_seconds = 60
apply_within_seconds = 120
guard = { dry_run = false, quarantine_topic = "poison-quarantine", validators = ["json"], min_samples = 3, stall_seconds = 4, rebalance_grace_seconds = 1 }

[[groups]]
cluster = "main"
pattern = "test-*"
settle_seconds = 2
"#;

/// The options of the stack that all tests of one Kafka share.
#[must_use]
pub fn shared_options(kafka: Version) -> StackOptions {
    let mut options = StackOptions {
        config: CONFIG
            .replace("@BOOTSTRAP@", BOOTSTRAP)
            .replace("@CLUSTER_ID@", CLUSTER_ID),
        ..StackOptions::default()
    };
    options.kafka.version = kafka;
    options
}

/// A stack, and a name of one's own in it.
#[derive(Debug)]
pub struct World {
    /// The stack.
    pub stack: Stack,
    /// Somebody with access to it.
    pub operator: Operator,
    /// The table.
    pub store: Store,
    /// Clients of its Kafka.
    pub client: Client,
    /// What it runs on.
    pub setting: Setting,
    name: String,
}

impl World {
    /// Enters the shared stack of a setting.
    ///
    /// # Errors
    /// It cannot be started; the error names what is missing.
    pub async fn enter(setting: Setting) -> Result<Self, Box<dyn Error>> {
        let stack = Stack::shared(&shared_options(setting.kafka)).await?;
        Self::of(stack, setting)
    }

    /// A world of a stack of one's own.
    ///
    /// # Errors
    /// The stack is not whole.
    pub fn of(stack: Stack, setting: Setting) -> Result<Self, Box<dyn Error>> {
        let operator = Operator::of(&stack)?;
        let table = stack.output("TableName")?.to_owned();
        let store = Store::new(DynamoTable::new(
            aws_sdk_dynamodb::Client::new(operator.sdk()),
            table,
        ));
        Ok(Self {
            client: stack.client(),
            operator,
            store,
            setting,
            stack,
            name: Ulid::generate().to_string().to_lowercase(),
        })
    }

    /// A topic name of this test's own.
    #[must_use]
    pub fn topic(&self, base: &str) -> String {
        format!("{base}-{}", self.name)
    }

    /// A group of this test's own; `policy` is what stands before `-*` in the configuration.
    #[must_use]
    pub fn group(&self, policy: &str) -> String {
        format!("{policy}-{}", self.name)
    }

    /// The cluster's id.
    #[must_use]
    pub fn cluster_id(&self) -> ClusterId {
        ClusterId(self.stack.cluster_id().to_owned())
    }

    /// A group of the cluster.
    #[must_use]
    pub fn key_of(&self, group: &GroupId) -> GroupKey {
        GroupKey::new(self.cluster_id(), group.clone())
    }

    /// The configuration that the functions have.
    ///
    /// # Errors
    /// It is not there.
    pub fn config(&self) -> Result<Config, Box<dyn Error>> {
        Ok(Config::load(self.stack.dir().join("offset-guard.toml"))?)
    }

    /// How this test's own code connects to Kafka.
    #[must_use]
    pub fn settings(&self) -> ConnectionSettings {
        ConnectionSettings::new(self.stack.bootstrap(), Auth::Plaintext)
    }

    /// Creates a topic and fills each partition with `records` records.
    ///
    /// # Errors
    /// Kafka refuses.
    pub async fn filled_topic(
        &self,
        topic: &str,
        partitions: i32,
        records: usize,
    ) -> Result<(), Box<dyn Error>> {
        self.client.create_topic(topic, partitions, &[]).await?;
        for partition in 0..partitions {
            self.produce(topic, partition, records).await?;
        }
        Ok(())
    }

    /// Produces `count` records to one partition.
    ///
    /// # Errors
    /// Kafka refuses.
    pub async fn produce(
        &self,
        topic: &str,
        partition: i32,
        count: usize,
    ) -> Result<(), Box<dyn Error>> {
        let records: Vec<_> = (0..count)
            .map(|n| Record::new(partition, format!("{topic} {partition} {n}")))
            .collect();
        self.client.produce(topic, &records).await?;
        Ok(())
    }

    /// A live member of `group`, once it owns all `partitions` of `topic`.
    ///
    /// # Errors
    /// It does not come to own them.
    pub async fn member(
        &self,
        group: &str,
        topic: &str,
        partitions: usize,
    ) -> Result<Member, Box<dyn Error>> {
        let options = MemberOptions {
            client_id: Some(format!("client-of-{group}")),
            ..MemberOptions::of(self.setting.protocol)
        };
        let member = self.client.join(group, &[topic], &options)?;
        member.until_assigned(partitions, PATIENCE).await?;
        Ok(member)
    }

    /// Lets a real member of `group` read `count` records, commit and leave.
    ///
    /// # Errors
    /// It does not read that many.
    pub async fn consume(
        &self,
        group: &str,
        topic: &str,
        partitions: usize,
        count: usize,
    ) -> Result<Vec<Record>, Box<dyn Error>> {
        let member = self.member(group, topic, partitions).await?;
        member.until_read(count, PATIENCE).await?;
        member.commit().await?;
        let read = member.stop().await?;
        Ok(read.into_iter().map(|(_, record)| record).collect())
    }

    /// What is committed in the first `partitions` of a topic.
    ///
    /// # Errors
    /// Kafka refuses.
    pub async fn offsets(
        &self,
        group: &str,
        topic: &str,
        partitions: i32,
    ) -> Result<Vec<Option<i64>>, Box<dyn Error>> {
        Ok(self.client.committed(group, topic, partitions).await?)
    }

    /// What is committed, with epoch and metadata.
    ///
    /// # Errors
    /// Kafka refuses, or a partition cannot be read.
    pub async fn triples(
        &self,
        group: &str,
        topic: &str,
        partitions: i32,
    ) -> Result<Vec<Option<CommittedOffset>>, Box<dyn Error>> {
        let asked: Vec<_> = (0..partitions)
            .map(|p| TopicPartition::new(topic, p))
            .collect();
        let reader = GroupReader::connect(self.settings())?;
        let read = reader.committed(&GroupId(group.to_owned()), &asked).await?;
        let mut triples = Vec::new();
        for partition in &asked {
            match read.get(partition) {
                Some(Ok(committed)) => triples.push(committed.clone()),
                Some(Err(fault)) => return Err(format!("{partition}: {fault}").into()),
                None => return Err(format!("{partition} is missing").into()),
            }
        }
        Ok(triples)
    }

    /// Takes a checkpoint of one group through the function, and answers with its id.
    ///
    /// # Errors
    /// The function fails; the text is its own.
    pub async fn checkpoint(&self, group: &str) -> Result<String, Box<dyn Error>> {
        let event = json!({"cluster": "main", "group": group});
        let invoked = self
            .operator
            .invoke(&self.stack, Function::Checkpoint, &event)
            .await?;
        match invoked {
            Invoked::Returned(results) => Ok(results[0]["checkpoint_id"]
                .as_str()
                .ok_or_else(|| format!("no checkpoint: {results}"))?
                .to_owned()),
            Invoked::Failed { message, .. } => Err(message.into()),
        }
    }

    /// Lets the guard look as `event` asks, and answers with its results.
    ///
    /// # Errors
    /// The function fails; the text is its own.
    pub async fn guard(&self, event: &Value) -> Result<Value, Box<dyn Error>> {
        let invoked = self.operator.invoke(&self.stack, Function::Guard, event);
        match invoked.await? {
            Invoked::Returned(results) => Ok(results),
            Invoked::Failed { message, .. } => Err(message.into()),
        }
    }

    /// A request for this world's cluster; `target` and whatever else is merged into it.
    #[must_use]
    pub fn rewind(&self, group: &str, more: &Value) -> Value {
        let mut request = json!({
            "cluster": "main", "group": group, "dry_run": false,
            "reason": "a test", "requested_by": "tests",
        });
        if let (Some(request), Some(more)) = (request.as_object_mut(), more.as_object()) {
            request.extend(more.clone());
        }
        request
    }

    /// Asks for a rewind that is expected to end without anybody's decision.
    ///
    /// # Errors
    /// It does not end.
    pub async fn refused(&self, request: Value) -> Result<Refused, Box<dyn Error>> {
        let execution = self.operator.request(request).await?;
        let ended = execution.end().await?;
        let audit = self.store.audit_of(&execution.arn).await?;
        let audit = audit.ok_or_else(|| format!("there is no audit record of {ended:?}"))?;
        Ok(Refused {
            codes: audit
                .refusals
                .iter()
                .map(|refusal| refusal.code())
                .collect(),
            message: audit.message,
            ended,
        })
    }

    /// Asks for a rewind, approves it on the page, and answers with its end.
    ///
    /// # Errors
    /// It is refused, or does not end.
    pub async fn approved(&self, group: &str, request: Value) -> Result<Ended, Box<dyn Error>> {
        let execution = self.operator.request(request).await?;
        let link = execution.link(&self.stack, group, PATIENCE).await?;
        self.operator.approve(&link, group).await?;
        Ok(execution.end().await?)
    }

    /// The texts of all messages that name `word`.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn told(&self, word: &str) -> Result<Vec<String>, Box<dyn Error>> {
        let messages = self.stack.slack().messages()?;
        let texts = messages.iter().map(text_of);
        Ok(texts.filter(|text| text.contains(word)).collect())
    }
}

/// How a refused request ended.
#[derive(Debug)]
pub struct Refused {
    /// The refusals' codes, in order.
    pub codes: Vec<String>,
    /// What people are told.
    pub message: String,
    /// The execution's end.
    pub ended: Ended,
}

/// The program that reads records for the tests: it lies beside theirs, or one folder up.
#[must_use]
pub fn reader_program() -> ReaderProgram {
    let this = std::env::current_exe().unwrap_or_default();
    let beside = this.ancestors().skip(1).take(2);
    let mut found = beside.map(|dir| dir.join("record-reader"));
    ReaderProgram::at(found.find(|path| path.exists()).unwrap_or_default())
}

/// The present instant, RFC 3339 in UTC.
#[must_use]
pub fn now() -> String {
    Timestamp::now().to_string()
}
