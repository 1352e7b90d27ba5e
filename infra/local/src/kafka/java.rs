//! Kafka's jars, fetched once, and a Java that starts fast on them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use tokio::sync::OnceCell;

use super::{Kafka, KafkaOptions, Version};
use crate::{
    Result,
    error::Doing,
    run::Run,
    workdir::{blocking, install, maven, read, resource, run_tool},
};

/// Runs the classes of one Kafka.
#[derive(Debug, Clone)]
pub(crate) struct Java {
    version: Version,
    /// The jars in a fixed order: an archive is good for exactly the class path that it was made with.
    class_path: String,
    archives: Archives,
}

/// Parsed and verified classes in files that the Java machine maps into memory (class data sharing),
/// which halves the time that a broker or a tool needs to start.
#[derive(Debug, Clone)]
enum Archives {
    /// Written to this folder when a process ends.
    Write(PathBuf),
    /// Read from this folder.
    Read(PathBuf),
}

/// What is run; each has its own archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    Format,
    Broker,
    Tool,
}

impl Java {
    /// Fetches this Kafka and prepares its classes, on first use.
    pub(crate) async fn of(version: Version) -> Result<Self> {
        let jars = fetch(version).await?;
        let class_path = class_path(&jars)?;
        let made_from = format!("{class_path}\n{}", java_version().await?);
        let archives = install(
            &format!("kafka-{version}-classes"),
            made_from,
            &format!("Preparing the classes of Apache Kafka {version} (once) ..."),
            {
                let class_path = class_path.clone();
                async move |dir| {
                    let java = Self {
                        version,
                        class_path,
                        archives: Archives::Write(dir),
                    };
                    java.write_archives().await
                }
            },
        )
        .await?;
        Ok(Self {
            version,
            class_path,
            archives: Archives::Read(archives),
        })
    }

    pub(super) const fn version(&self) -> Version {
        self.version
    }

    /// A command that still lacks its class and arguments.
    pub(super) fn command(&self, program: Program) -> Command {
        let (level, heap, archive) = match program {
            Program::Format => ("WARN", "-Xmx128m", "format.jsa"),
            Program::Broker => ("INFO", "-Xmx768m", "broker.jsa"),
            Program::Tool => ("WARN", "-Xmx256m", "tool.jsa"),
        };
        let archive = match &self.archives {
            Archives::Write(dir) => {
                format!("-XX:ArchiveClassesAtExit={}", dir.join(archive).display())
            }
            Archives::Read(dir) => format!("-XX:SharedArchiveFile={}", dir.join(archive).display()),
        };
        let mut command = Command::new("java");
        command
            // No second compiler and no collector threads, for programs that live for seconds.
            .args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
            // An archive that does not fit is passed over; nothing about it may stand in a tool's output.
            .args(["-Xshare:auto", "-Xlog:disable"])
            .args([archive.as_str(), heap])
            .arg(format!("-Dlevel={level}"))
            .arg(format!(
                "-Dlog4j2.configurationFile={}",
                resource("kafka/log4j2.yaml").display()
            ))
            .arg(format!(
                "-Dlog4j.configuration=file:{}",
                resource("kafka/log4j.properties").display()
            ))
            .args(["-cp", &self.class_path]);
        command
    }

    /// Plays through what will be done often.
    async fn write_archives(self) -> Result<()> {
        let run = Run::open(Duration::ZERO)?;
        let options = KafkaOptions {
            version: self.version,
            ..KafkaOptions::default()
        };
        let kafka = Kafka::start_with(self, &run, &options).await?;
        let client = crate::client::Client::new(&kafka.bootstrap(), &BTreeMap::new());
        client.create_topic("prepared", 1, &[]).await?;
        client
            .commit("prepared", &[crate::client::Commit::new("prepared", 0, 0)])
            .await?;
        kafka.cli()?.describe_group("prepared").await?;
        kafka.stop().await
    }
}

/// The folder with the jars of this Kafka, fetched on first use.
async fn fetch(version: Version) -> Result<PathBuf> {
    let pom = resource("kafka/pom.xml");
    let (profile, size) = match version {
        Version::V3_9 => ("kafka-3", "56 MB"),
        Version::V4 => ("kafka-4", "54 MB"),
    };
    let made_from = format!("{version}\n{}", read(&pom)?);
    let notice = format!("Fetching Apache Kafka {version} ({size}) ...");
    install(
        &format!("kafka-{version}"),
        made_from,
        &notice,
        async move |dir: PathBuf| {
            let mut maven = maven(&pom);
            maven
                .arg("dependency:copy-dependencies")
                .args(["-P", profile, "-DincludeScope=runtime"])
                .arg(format!("-Dkafka.version={version}"))
                .arg(format!("-DoutputDirectory={}", dir.display()));
            blocking(move || run_tool(&mut maven)).await
        },
    )
    .await
}

fn class_path(dir: &Path) -> Result<String> {
    let doing = || format!("list {}", dir.display());
    let mut jars = Vec::new();
    for entry in fs::read_dir(dir).doing(doing)? {
        let path = entry.doing(doing)?.path();
        if path.extension().is_some_and(|extension| extension == "jar") {
            jars.push(path.display().to_string());
        }
    }
    jars.sort();
    Ok(jars.join(":"))
}

/// What Java says of itself, asked once: an archive is good for exactly the Java that wrote it.
async fn java_version() -> Result<&'static String> {
    static VERSION: OnceCell<String> = OnceCell::const_new();
    let ask = || {
        let output = Command::new("java")
            .arg("-version")
            .output()
            .doing(|| "run java".to_owned())?;
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    };
    VERSION.get_or_try_init(|| blocking(ask)).await
}
