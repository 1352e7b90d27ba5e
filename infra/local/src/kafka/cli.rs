//! Kafka's own command line tools, run from the same jars as the broker.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use ulid::Ulid;

use super::{
    Version,
    java::{Java, Program},
};
use crate::{
    Error, Result,
    error::Doing,
    run::{Process, Run, until},
    workdir::{blocking, describe, last_lines},
};

const CONSUMER_GROUPS: &str = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand";

/// Kafka's own command line tools, speaking to one cluster.
#[derive(Debug, Clone)]
pub struct Cli {
    run: Run,
    java: Java,
    bootstrap: String,
    /// A file with client properties, for clusters that ask for more than an address.
    client_config: Option<PathBuf>,
}

/// What a tool printed and whether it was content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CliOutput {
    /// Whether it ended with status 0. Some tools do so after an error: look at the texts too.
    pub success: bool,
    /// What it printed.
    pub stdout: String,
    /// What it logged.
    pub stderr: String,
}

/// One line of `kafka-consumer-groups --describe`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRow {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The committed offset; `None` where the tool prints `-`.
    pub current_offset: Option<i64>,
    /// The log end offset; `None` where the tool prints `-`.
    pub log_end_offset: Option<i64>,
    /// Their distance; `None` where the tool prints `-`.
    pub lag: Option<i64>,
    /// The member that owns the partition, if one does.
    pub consumer_id: Option<String>,
}

impl Cli {
    pub(crate) fn new(
        run: Run,
        java: Java,
        bootstrap: String,
        client_properties: &BTreeMap<String, String>,
    ) -> Result<Self> {
        let client_config = if client_properties.is_empty() {
            None
        } else {
            let file = run.dir().join("client.properties");
            let text: String = client_properties
                .iter()
                .map(|(key, value)| format!("{key}={value}\n"))
                .collect();
            fs::write(&file, text).doing(|| format!("write {}", file.display()))?;
            Some(file)
        };
        Ok(Self {
            run,
            java,
            bootstrap,
            client_config,
        })
    }

    /// Runs `kafka-consumer-groups`.
    ///
    /// # Errors
    /// If it cannot be run; a tool that fails is an answer.
    pub async fn consumer_groups(&self, args: &[&str]) -> Result<CliOutput> {
        self.admin_tool(CONSUMER_GROUPS, args).await
    }

    /// Runs `kafka-topics`.
    ///
    /// # Errors
    /// As [`Cli::consumer_groups`].
    pub async fn topics(&self, args: &[&str]) -> Result<CliOutput> {
        self.admin_tool("org.apache.kafka.tools.TopicCommand", args)
            .await
    }

    /// Runs `kafka-get-offsets`.
    ///
    /// # Errors
    /// As [`Cli::consumer_groups`].
    pub async fn get_offsets(&self, args: &[&str]) -> Result<CliOutput> {
        self.admin_tool("org.apache.kafka.tools.GetOffsetShell", args)
            .await
    }

    /// Runs `kafka-acls`.
    ///
    /// # Errors
    /// As [`Cli::consumer_groups`].
    pub async fn acls(&self, args: &[&str]) -> Result<CliOutput> {
        let class = match self.java.version() {
            Version::V3_9 => "kafka.admin.AclCommand",
            Version::V4 => "org.apache.kafka.tools.AclCommand",
        };
        self.admin_tool(class, args).await
    }

    /// `kafka-consumer-groups --describe --group`, as rows in the order of topic and partition.
    ///
    /// # Errors
    /// If the tool fails, such as for a group that does not exist.
    pub async fn describe_group(&self, group: &str) -> Result<Vec<GroupRow>> {
        let output = self
            .consumer_groups(&["--describe", "--group", group])
            .await?;
        // The tool may say "Error" and end with status 0.
        let failed = |text: &str| text.lines().any(|line| line.starts_with("Error"));
        if output.success && !failed(&output.stdout) && !failed(&output.stderr) {
            return Ok(parse_group(&output.stdout));
        }
        Err(Error::Unexpected {
            from: format!("kafka-consumer-groups --describe --group {group}"),
            answer: last_lines(&[output.stdout, output.stderr].concat()),
        })
    }

    /// Starts `kafka-console-consumer`: a real consumer process of the Java client.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn console_consumer(&self, consumer: &ConsoleConsumer) -> Result<ConsumerProcess> {
        let (property, config) = match self.java.version() {
            Version::V3_9 => ("--consumer-property", "--consumer.config"),
            Version::V4 => ("--command-property", "--command-config"),
        };
        let print = match self.java.version() {
            Version::V3_9 => "--property",
            Version::V4 => "--formatter-property",
        };
        let mut command = self.java.command(Program::Tool);
        command
            .arg("org.apache.kafka.tools.consumer.ConsoleConsumer")
            .args(["--bootstrap-server", &self.bootstrap])
            .args(["--topic", &consumer.topic])
            .args(["--group", &consumer.group])
            .args([property, &format!("client.id={}", consumer.client_id)]);
        for shown in ["print.partition", "print.offset"] {
            command.args([print, &format!("{shown}=true")]);
        }
        for (key, value) in &consumer.properties {
            command.args([property, &format!("{key}={value}")]);
        }
        if consumer.from_beginning {
            command.arg("--from-beginning");
        }
        if let Some(max) = consumer.max_messages {
            command.args(["--max-messages", &max.to_string()]);
        }
        if let Some(timeout) = consumer.timeout {
            command.args(["--timeout-ms", &timeout.as_millis().to_string()]);
        }
        if let Some(file) = &self.client_config {
            command.arg(config).arg(file);
        }
        let name = format!("consumer-{}", Ulid::generate().to_string().to_lowercase());
        let stdout = self.run.dir().join(format!("{name}.out"));
        let process = self.run.spawn_with_stdout(&name, &command, &stdout)?;
        Ok(ConsumerProcess { process, stdout })
    }

    /// `kafka-consumer-groups` with these arguments, for whoever runs it in another way.
    pub fn consumer_groups_command(&self, args: &[&str]) -> Command {
        self.admin_command(CONSUMER_GROUPS, args)
    }

    fn admin_command(&self, class: &str, args: &[&str]) -> Command {
        let mut command = self.java.command(Program::Tool);
        command
            .arg(class)
            .args(["--bootstrap-server", &self.bootstrap])
            .args(args)
            .stdin(Stdio::null());
        if let Some(file) = &self.client_config {
            command.arg("--command-config").arg(file);
        }
        command
    }

    async fn admin_tool(&self, class: &str, args: &[&str]) -> Result<CliOutput> {
        let mut command = self.admin_command(class, args);
        blocking(move || {
            let output = command
                .output()
                .doing(|| format!("run {}", describe(&command)))?;
            Ok(CliOutput {
                success: output.status.success(),
                stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
                stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            })
        })
        .await
    }
}

/// The columns are GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID and more; what
/// stands above them, such as "Consumer group 'x' has no active members.", is not a row.
fn parse_group(text: &str) -> Vec<GroupRow> {
    let number = |column: &str| (column != "-").then(|| column.parse().ok()).flatten();
    let mut rows: Vec<_> = text
        .lines()
        .filter_map(|line| {
            let columns: Vec<_> = line.split_whitespace().collect();
            let [_, topic, partition, current, end, lag, consumer, ..] = columns.as_slice() else {
                return None;
            };
            Some(GroupRow {
                topic: (*topic).to_owned(),
                partition: partition.parse().ok()?,
                current_offset: number(current),
                log_end_offset: number(end),
                lag: number(lag),
                consumer_id: (*consumer != "-").then(|| (*consumer).to_owned()),
            })
        })
        .collect();
    rows.sort_by(|a, b| (&a.topic, a.partition).cmp(&(&b.topic, b.partition)));
    rows
}

/// What a console consumer is to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleConsumer {
    /// Its group.
    pub group: String,
    /// Its topic.
    pub topic: String,
    /// How it names itself to the broker.
    pub client_id: String,
    /// Whether it starts at the earliest record where nothing is committed.
    pub from_beginning: bool,
    /// After how many records it ends by itself.
    pub max_messages: Option<u64>,
    /// How long it waits for a record before it ends by itself.
    pub timeout: Option<Duration>,
    /// Consumer properties, such as `group.protocol=consumer`.
    pub properties: BTreeMap<String, String>,
}

impl ConsoleConsumer {
    /// A consumer of `topic` in `group` that starts at the beginning and runs until it is stopped.
    pub fn new(group: &str, topic: &str) -> Self {
        Self {
            group: group.to_owned(),
            topic: topic.to_owned(),
            client_id: "console-consumer".to_owned(),
            from_beginning: true,
            max_messages: None,
            timeout: None,
            properties: BTreeMap::new(),
        }
    }
}

/// A running console consumer. Dropped, it is killed, and the broker misses it only after the session
/// time-out.
#[derive(Debug)]
pub struct ConsumerProcess {
    process: Process,
    stdout: PathBuf,
}

/// A record as the console consumer prints it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputLine {
    /// Where the record was.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
    /// Its value.
    pub value: String,
}

impl ConsumerProcess {
    /// The records that it has read so far.
    ///
    /// # Errors
    /// If its output cannot be read.
    pub fn records(&self) -> Result<Vec<OutputLine>> {
        let text =
            fs::read_to_string(&self.stdout).doing(|| format!("read {}", self.stdout.display()))?;
        Ok(text.lines().filter_map(parse_record).collect())
    }

    /// Waits until it has read at least `count` records.
    ///
    /// # Errors
    /// If it ends before, or takes longer than `limit`.
    pub async fn until_read(&mut self, count: usize, limit: Duration) -> Result<Vec<OutputLine>> {
        until(
            &format!("a consumer to read {count} records"),
            limit,
            async || {
                let records = self.records()?;
                if records.len() >= count {
                    return Ok(Some(records));
                }
                self.process.check_alive()?;
                Ok(None)
            },
        )
        .await
    }

    /// Waits until it ends by itself, and answers with the records that it read.
    ///
    /// # Errors
    /// If it takes longer than `limit`.
    pub async fn until_ended(&mut self, limit: Duration) -> Result<Vec<OutputLine>> {
        until("a consumer to end", limit, async || {
            self.process.exit_status()
        })
        .await?;
        self.records()
    }

    /// Stops it as an operator would (SIGTERM): it commits, leaves the group and ends.
    ///
    /// # Errors
    /// If it cannot be ended or its output cannot be read.
    pub async fn stop(mut self) -> Result<Vec<OutputLine>> {
        self.process.stop().await?;
        self.records()
    }
}

/// `Partition:1<TAB>Offset:42<TAB>value`, in the order that either version prints.
fn parse_record(line: &str) -> Option<OutputLine> {
    let mut columns = line.splitn(3, '\t');
    let (first, second) = (columns.next()?, columns.next()?);
    let find = |name| {
        [first, second]
            .into_iter()
            .find_map(|column| column.strip_prefix(name))
    };
    Some(OutputLine {
        partition: find("Partition:")?.parse().ok()?,
        offset: find("Offset:")?.parse().ok()?,
        value: columns.next()?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_described_group_is_read_with_and_without_members() {
        let text = "
Consumer group 'shipment-sync' has no active members.

GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID     HOST            CLIENT-ID
shipment-sync   shipments       1          31              43              12              -               -               -
shipment-sync   shipments       0          -               31              -               console-1       /127.0.0.1      console
";
        let row =
            |partition, current_offset, log_end_offset, lag, consumer_id: Option<&str>| GroupRow {
                topic: "shipments".to_owned(),
                partition,
                current_offset,
                log_end_offset: Some(log_end_offset),
                lag,
                consumer_id: consumer_id.map(str::to_owned),
            };
        assert_eq!(
            parse_group(text),
            [
                row(0, None, 31, None, Some("console-1")),
                row(1, Some(31), 43, Some(12), None),
            ]
        );
    }

    #[test]
    fn a_printed_record_may_hold_tabs() {
        let record = OutputLine {
            partition: 1,
            offset: 42,
            value: "a\tb".to_owned(),
        };
        assert_eq!(parse_record("Partition:1\tOffset:42\ta\tb"), Some(record));
    }
}
