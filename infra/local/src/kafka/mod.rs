//! Apache Kafka itself, in KRaft mode, on loopback.

mod cli;
mod java;

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    fs,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use data_encoding::BASE64URL_NOPAD;
use rdkafka::consumer::{BaseConsumer, Consumer};
use ulid::Ulid;

use self::java::Program;
pub(crate) use java::Java;

pub use cli::{Cli, CliOutput, ConsoleConsumer, ConsumerProcess, GroupRow, OutputLine};

use crate::{
    Error, Result,
    client::client_config,
    error::Doing,
    run::{Process, Run, free_ports, until},
    workdir::{blocking, run_tool},
};

/// How long a broker may take to serve on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(90);
/// How often other ports are tried when somebody else took one between its choice and its use.
const START_ATTEMPTS: usize = 3;

/// A release of Apache Kafka.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Default,
    serde::Serialize,
    serde::Deserialize,
)]
pub enum Version {
    /// 3.9: the last line with the old group coordinator as its default.
    V3_9,
    /// The newest 4.x.
    #[default]
    V4,
}

impl Version {
    /// Every version that the tests run on.
    pub const ALL: [Self; 2] = [Self::V3_9, Self::V4];

    /// The release, such as `4.4.0`.
    pub const fn release(self) -> &'static str {
        match self {
            Self::V3_9 => "3.9.2",
            Self::V4 => "4.4.0",
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.release())
    }
}

impl FromStr for Version {
    type Err = String;

    /// From a release, or from its line: `3.9`, `4`, `4.4.0`.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|version| {
                version.release() == text || version.release().starts_with(&format!("{text}."))
            })
            .ok_or_else(|| {
                let known: Vec<_> = Self::ALL.iter().map(|version| version.release()).collect();
                format!("no such Kafka here; there are {}", known.join(" and "))
            })
    }
}

/// What to start.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct KafkaOptions {
    /// Which Kafka.
    pub version: Version,
    /// How many brokers, each also a controller: one or three.
    pub brokers: u8,
    /// Broker properties beside and above the usual ones.
    pub properties: BTreeMap<String, String>,
    /// What a client needs to speak to the brokers beside their addresses, in the names that librdkafka
    /// and the Java client share.
    pub client_properties: BTreeMap<String, String>,
}

impl Default for KafkaOptions {
    /// One broker of the newest Kafka.
    fn default() -> Self {
        Self {
            version: Version::default(),
            brokers: 1,
            properties: BTreeMap::new(),
            client_properties: BTreeMap::new(),
        }
    }
}

/// A running Kafka cluster. Dropped, it is killed.
#[derive(Debug)]
pub struct Kafka {
    run: Run,
    options: KafkaOptions,
    java: Java,
    cluster_id: String,
    brokers: Vec<Broker>,
}

#[derive(Debug)]
struct Broker {
    port: u16,
    dir: PathBuf,
    /// `None` while it is stopped.
    process: Option<Process>,
}

impl Kafka {
    /// Starts a cluster and waits until every broker serves: 2 to 3 s for one broker on two cores, 4 to 8 s
    /// for three.
    ///
    /// # Errors
    /// If Kafka cannot be fetched or started; a broker that died says the end of its log.
    pub async fn start(run: &Run, options: &KafkaOptions) -> Result<Self> {
        Self::start_with(Java::of(options.version).await?, run, options).await
    }

    async fn start_with(java: Java, run: &Run, options: &KafkaOptions) -> Result<Self> {
        for _ in 1..START_ATTEMPTS {
            let ports = free_ports::<6>()?;
            match Self::start_on(&java, run, options, &ports).await {
                Err(Error::Died { log, .. }) if port_was_taken(&log) => {}
                other => return other,
            }
        }
        Self::start_on(&java, run, options, &free_ports::<6>()?).await
    }

    /// Each broker takes two of the ports: one for its clients, one for its controller.
    async fn start_on(
        java: &Java,
        run: &Run,
        options: &KafkaOptions,
        ports: &[u16],
    ) -> Result<Self> {
        // An id may be a time and 80 random bits as well as 128 random ones. It never begins with "-".
        let cluster_id = BASE64URL_NOPAD.encode(&Ulid::generate().to_bytes());
        let ports: Vec<_> = ports
            .chunks_exact(2)
            .take(options.brokers.into())
            .filter_map(|pair| Some((*pair.first()?, *pair.get(1)?)))
            .collect();
        let mut kafka = Self {
            run: run.clone(),
            options: options.clone(),
            java: java.clone(),
            cluster_id,
            brokers: Vec::new(),
        };
        for (index, (port, _)) in ports.iter().enumerate() {
            let dir = run.dir().join(format!("broker-{port}"));
            fs::create_dir(&dir).doing(|| format!("create {}", dir.display()))?;
            let properties = server_properties(options, &ports, index, &dir);
            let file = dir.join("server.properties");
            fs::write(&file, properties).doing(|| format!("write {}", file.display()))?;
            kafka.brokers.push(Broker {
                port: *port,
                dir,
                process: None,
            });
        }
        kafka.format().await?;
        for broker in 0..kafka.brokers.len() {
            kafka.spawn(broker)?;
        }
        kafka.wait_until_serving().await?;
        Ok(kafka)
    }

    /// The addresses to give to a client.
    pub fn bootstrap(&self) -> String {
        let addresses: Vec<_> = self
            .brokers
            .iter()
            .map(|broker| format!("127.0.0.1:{}", broker.port))
            .collect();
        addresses.join(",")
    }

    /// The cluster's id, as DescribeCluster answers it.
    pub fn cluster_id(&self) -> &str {
        &self.cluster_id
    }

    /// Kafka's own command line tools, speaking to this cluster.
    ///
    /// # Errors
    /// If the file with the client properties cannot be written.
    pub fn cli(&self) -> Result<Cli> {
        Cli::new(
            self.run.clone(),
            self.java.clone(),
            self.bootstrap(),
            &self.options.client_properties,
        )
    }

    /// Stops one broker, counted from 0: asks, waits, and kills it when it takes too long.
    ///
    /// # Errors
    /// If the system cannot end it.
    pub async fn stop_broker(&mut self, broker: usize) -> Result<()> {
        match self
            .brokers
            .get_mut(broker)
            .and_then(|broker| broker.process.take())
        {
            Some(mut process) => process.stop().await,
            None => Ok(()),
        }
    }

    /// Starts a stopped broker again, on its data, and waits until it serves. In a cluster of three the
    /// others admit it only once its old session has run out (`broker.session.timeout.ms`, 9 s).
    ///
    /// # Errors
    /// As [`Kafka::start`].
    pub async fn start_broker(&mut self, broker: usize) -> Result<()> {
        self.spawn(broker)?;
        self.wait_until_serving().await
    }

    /// [`Kafka::stop_broker`], then [`Kafka::start_broker`].
    ///
    /// # Errors
    /// As those.
    pub async fn restart_broker(&mut self, broker: usize) -> Result<()> {
        self.stop_broker(broker).await?;
        self.start_broker(broker).await
    }

    /// Stops all brokers at once: asks, waits, and kills those that take too long.
    ///
    /// # Errors
    /// If the system cannot end one.
    pub async fn stop(mut self) -> Result<()> {
        let mut running: Vec<_> = self
            .brokers
            .iter_mut()
            .filter_map(|broker| broker.process.take())
            .collect();
        for process in &mut running {
            process.terminate();
        }
        for process in &mut running {
            process.end().await?;
        }
        Ok(())
    }

    /// Leaves the brokers to the run's watchdog.
    pub(crate) fn leave(mut self) {
        for process in self
            .brokers
            .iter_mut()
            .filter_map(|broker| broker.process.take())
        {
            process.leave();
        }
    }

    async fn format(&self) -> Result<()> {
        let mut formatting = tokio::task::JoinSet::new();
        for broker in &self.brokers {
            let mut command = self.java.command(Program::Format);
            command
                .arg("kafka.tools.StorageTool")
                .arg("format")
                .arg(format!("--cluster-id={}", self.cluster_id))
                .arg("--config")
                .arg(broker.dir.join("server.properties"));
            formatting.spawn(blocking(move || run_tool(&mut command)));
        }
        formatting.join_all().await.into_iter().collect()
    }

    fn spawn(&mut self, index: usize) -> Result<()> {
        if let Some(broker) = self.brokers.get_mut(index) {
            let mut command = self.java.command(Program::Broker);
            command
                .arg("kafka.Kafka")
                .arg(broker.dir.join("server.properties"));
            broker.process = Some(
                self.run
                    .spawn(&format!("broker-{}", broker.port), &command)?,
            );
        }
        Ok(())
    }

    /// A cluster serves when its metadata names every broker that was started.
    async fn wait_until_serving(&mut self) -> Result<()> {
        let config = client_config(&self.bootstrap(), &self.options.client_properties);
        let running = self
            .brokers
            .iter()
            .filter(|broker| broker.process.is_some())
            .count();
        let client = blocking(move || {
            config
                .create::<BaseConsumer>()
                .doing(|| "create a Kafka client".to_owned())
        })
        .await?;
        let client = std::sync::Arc::new(client);
        until("Kafka to serve", START_LIMIT, async || {
            for process in self
                .brokers
                .iter_mut()
                .filter_map(|broker| broker.process.as_mut())
            {
                process.check_alive()?;
            }
            let client = client.clone();
            blocking(move || {
                let metadata = client.fetch_metadata(None, Duration::from_millis(500));
                Ok(metadata
                    .is_ok_and(|metadata| metadata.brokers().len() >= running)
                    .then_some(()))
            })
            .await
        })
        .await
    }
}

fn port_was_taken(log: &str) -> bool {
    log.contains("Address already in use") || log.contains("Failed to bind")
}

fn server_properties(
    options: &KafkaOptions,
    ports: &[(u16, u16)],
    index: usize,
    dir: &Path,
) -> String {
    let voters: Vec<_> = ports
        .iter()
        .enumerate()
        .map(|(index, (_, controller))| format!("{}@127.0.0.1:{controller}", index + 1))
        .collect();
    let (port, controller) = ports.get(index).copied().unwrap_or_default();
    let replicas = ports.len();
    let in_sync = replicas.min(2);
    let mut text = format!(
        "\
process.roles=broker,controller
node.id={id}
controller.quorum.voters={voters}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
default.replication.factor={replicas}
min.insync.replicas={in_sync}
offsets.topic.num.partitions=4
offsets.topic.replication.factor={replicas}
transaction.state.log.num.partitions=2
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr={in_sync}
share.coordinator.state.topic.num.partitions=2
share.coordinator.state.topic.replication.factor={replicas}
share.coordinator.state.topic.min.isr={in_sync}
group.initial.rebalance.delay.ms=0
log.index.size.max.bytes=65536
log.retention.check.interval.ms=1000
log.initial.task.delay.ms=1000
controlled.shutdown.enable={many}
",
        id = index + 1,
        voters = voters.join(","),
        data = dir.join("data").display(),
        many = replicas > 1,
    );
    for (key, value) in &options.properties {
        // Of two lines with one key the later counts.
        let _ = writeln!(text, "{key}={value}");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn versions_are_found_by_release_and_by_line() {
        for (text, version) in [
            ("3.9", Version::V3_9),
            ("3.9.2", Version::V3_9),
            ("4", Version::V4),
        ] {
            assert_eq!(text.parse(), Ok(version));
        }
        assert_eq!(
            "5".parse::<Version>(),
            Err("no such Kafka here; there are 3.9.2 and 4.4.0".to_owned())
        );
    }

    #[tokio::test]
    async fn a_taken_port_is_told_apart_from_other_deaths() {
        let run = Run::open(Duration::ZERO).unwrap();
        let java = Java::of(Version::V4).await.unwrap();
        let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let [free] = free_ports().unwrap();
        let ports = [taken.local_addr().unwrap().port(), free];
        let error = Kafka::start_on(&java, &run, &KafkaOptions::default(), &ports)
            .await
            .unwrap_err();
        let Error::Died { log, .. } = error else {
            panic!("{error}");
        };
        assert!(port_was_taken(&log), "{log}");
    }
}
