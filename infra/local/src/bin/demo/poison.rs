//! The second act: a record that no consumer can decode, found, kept and passed over.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use data_encoding::HEXLOWER;
use offset_guard_local::client::{Client, Record};
use offset_guard_local::operator::{Function, Invoked, link_in};
use offset_guard_local::stack::Stack;
use offset_guard_local::{Error, Result};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use crate::{PATIENCE, Scene, say, title};

pub(crate) const GROUP: &str = "order-sync";
const TOPIC: &str = "orders";
const QUARANTINE: &str = "orders-quarantine";
const PARTITIONS: i32 = 6;
/// How many records each partition gets before the bad one.
const EACH: usize = 40;
/// Where the bad record is.
const BAD: (i32, i64) = (3, 40);
/// How many records each partition gets at most after it.
const MOST: usize = 300;
/// How often the guard looks at most until it must have found it.
const TICKS: usize = 20;

/// What the demo's configuration says of the second act's group: the rules of a real one, in seconds instead of minutes.
pub(crate) fn config() -> String {
    format!(
        "[[groups]]\n\
         cluster = \"main\"\n\
         name = \"{GROUP}\"\n\
         settle_seconds = 3\n\
         guard = {{ dry_run = false, quarantine_topic = \"{QUARANTINE}\", min_samples = 3, stall_seconds = 15, \
         rebalance_grace_seconds = 8 }}\n"
    )
}

impl Scene<'_> {
    pub(crate) async fn poison(&self) -> Result<()> {
        let client = self.stack.client();
        title("10. Another topic, of 6 partitions, and a consumer that decodes JSON");
        client.create_topic(TOPIC, PARTITIONS, &[]).await?;
        client.create_topic(QUARANTINE, 1, &[]).await?;
        for partition in 0..PARTITIONS {
            client.produce(TOPIC, &orders(partition, 0, EACH)).await?;
        }
        let consumer = Supervised::start(&self.stack)?;
        self.until_caught_up().await?;
        self.describe_group(GROUP).await?;
        let bad = bad_record();
        client.produce(TOPIC, std::slice::from_ref(&bad)).await?;
        let producer = Trickle::start(client.clone());
        say(&format!(
            "Record {} of {TOPIC}-{} is no JSON; good ones follow in all partitions. The consumer dies of it, and is started \
             again and again.",
            BAD.1, BAD.0
        ));

        title("11. The guard looks, every few seconds instead of every 5 minutes");
        let plan = self.until_proposed().await?;
        self.tell(|text| text.contains("POISON_LIKELY"))?;

        title("12. The record is kept before anybody is asked");
        self.compare(&bad).await?;

        title("13. More looks add nothing");
        for _ in 0..2 {
            self.look().await?;
        }
        let kept = client.end_offsets(QUARANTINE).await?.iter().sum::<i64>();
        say(&format!("{QUARANTINE} holds {kept} record."));
        expect_equal("records in quarantine", kept, 1)?;

        title("14. A person approves, and stops the consumer as the page says");
        let execution = self.operator.named(&plan);
        let link = execution.link(&self.stack, GROUP, PATIENCE).await?;
        self.tell(|text| link_in(text).is_some())?;
        let (died, mut processed) = consumer.stop().await?;
        let trickled = producer.stop().await?;
        say(&format!(
            "The consumer had died {died} times; it is stopped now."
        ));
        self.approve(&execution, &link, GROUP).await?;
        self.expect(&execution, "VERIFIED").await?;

        title("15. The consumer starts once more, and catches up");
        let consumer = Supervised::start(&self.stack)?;
        self.until_caught_up().await?;
        let (died, more) = consumer.stop().await?;
        expect_equal("deaths of the consumer", died, 0)?;
        processed.extend(more);
        self.describe_group(GROUP).await?;
        let partitions = usize::try_from(PARTITIONS).unwrap_or_default();
        let produced = partitions * (EACH + trickled) + 1;
        say(&format!(
            "Produced {produced} records: {} were processed, {kept} is in quarantine. None was lost.",
            processed.len()
        ));
        expect_equal("records processed and kept", processed.len() + 1, produced)
    }

    /// One look of the guard; answers with its result for the group.
    async fn look(&self) -> Result<Value> {
        let event = json!({ "cluster": "main", "group": GROUP });
        match self
            .operator
            .invoke(&self.stack, Function::Guard, &event)
            .await?
        {
            Invoked::Returned(results) => {
                let result = results[0].clone();
                say(&format!("  {}", result["summary"].as_str().unwrap_or("?")));
                Ok(result)
            }
            Invoked::Failed { error, message } => Err(Error::Unexpected {
                from: format!("the guard ({error})"),
                answer: message,
            }),
        }
    }

    /// Looks until the guard proposes a plan.
    async fn until_proposed(&self) -> Result<String> {
        for _ in 0..TICKS {
            let result = self.look().await?;
            if let Some(plan) = result["plan"].as_str() {
                return Ok(plan.to_owned());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Err(Error::Unexpected {
            from: "the guard".to_owned(),
            answer: format!("no plan in {TICKS} looks"),
        })
    }

    /// Shows the record and its copy, and holds the one to the other.
    async fn compare(&self, bad: &Record) -> Result<()> {
        let client = self.stack.client();
        let source = client.read(TOPIC, BAD.0, BAD.1).await?;
        let copy = client.read(QUARANTINE, 0, 0).await?;
        let hex = |bytes: &Option<Vec<u8>>| {
            bytes
                .as_ref()
                .map_or("none".to_owned(), |bytes| HEXLOWER.encode(bytes))
        };
        for (name, record) in [("source", &source), ("copy", &copy)] {
            say(&format!("  {name:<7} key   {}", hex(&record.key)));
            say(&format!("  {:<7} value {}", "", hex(&record.value)));
        }
        for (key, value) in &copy.headers {
            let text = String::from_utf8_lossy(value.as_deref().unwrap_or_default()).into_owned();
            let short: String = text.chars().take(100).collect();
            say(&format!("          {key}: {short}"));
        }
        let originals = copy.headers.get(..bad.headers.len());
        let same = source.key == copy.key
            && source.value == copy.value
            && originals == Some(bad.headers.as_slice());
        expect_equal("copy and source, byte for byte", same, true)
    }

    async fn until_caught_up(&self) -> Result<()> {
        for _ in 0..60 {
            let rows = self.stack.cli()?.describe_group(GROUP).await?;
            let all = usize::try_from(PARTITIONS).is_ok_and(|count| rows.len() == count);
            if all && rows.iter().all(|row| row.lag == Some(0)) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Err(Error::TimedOut {
            what: "the group to catch up".to_owned(),
            after: PATIENCE,
        })
    }
}

/// `order 3-41`, as JSON.
fn orders(partition: i32, first: usize, count: usize) -> Vec<Record> {
    (first..first + count)
        .map(|n| {
            Record::new(
                partition,
                json!({ "order": format!("{partition}-{n}") }).to_string(),
            )
        })
        .collect()
}

/// A record that its producer cut off, with headers of its own.
fn bad_record() -> Record {
    Record {
        key: Some(b"order-40".to_vec()),
        headers: vec![
            ("trace".to_owned(), Some(b"4bf92f35".to_vec())),
            ("trace".to_owned(), None),
        ],
        ..Record::new(BAD.0, b"{\"order\": \"3-\xff\x00".to_vec())
    }
}

fn expect_equal<T: PartialEq + std::fmt::Debug>(what: &str, is: T, should_be: T) -> Result<()> {
    if is == should_be {
        return Ok(());
    }
    Err(Error::Unexpected {
        from: what.to_owned(),
        answer: format!("{is:?}, expected was {should_be:?}"),
    })
}

/// A producer that goes on while the consumer dies.
struct Trickle {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Result<usize>>,
}

impl Trickle {
    fn start(client: Client) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            let mut each = 0;
            while !stopping.load(Ordering::Relaxed) && each < MOST {
                for partition in 0..PARTITIONS {
                    client
                        .produce(TOPIC, &orders(partition, EACH + each, 1))
                        .await?;
                }
                each += 1;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Ok(each)
        });
        Self { stop, task }
    }

    /// Ends it; answers how many records each partition got.
    async fn stop(self) -> Result<usize> {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.map_err(|error| Error::Unexpected {
            from: "the producer".to_owned(),
            answer: error.to_string(),
        })?
    }
}

/// A consumer process that is started again whenever it dies, as an orchestrator does.
struct Supervised {
    stop: Arc<AtomicBool>,
    deaths: Arc<AtomicUsize>,
    output: PathBuf,
    task: JoinHandle<()>,
}

impl Supervised {
    fn start(stack: &Stack) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let deaths = Arc::new(AtomicUsize::new(0));
        let bootstrap = stack.bootstrap().to_owned();
        let output = stack
            .dir()
            .join(format!("order-sync-{}", ulid::Ulid::generate()));
        std::fs::write(&output, "").map_err(|error| broken(&error))?;
        let (stopping, died, into) = (Arc::clone(&stop), Arc::clone(&deaths), output.clone());
        let task = tokio::spawn(async move {
            while !stopping.load(Ordering::Relaxed) {
                let Ok(mut child) = spawn(&bootstrap, &into) else {
                    return;
                };
                while !stopping.load(Ordering::Relaxed) {
                    match tokio::time::timeout(Duration::from_millis(200), child.wait()).await {
                        Ok(_) => {
                            died.fetch_add(1, Ordering::Relaxed);
                            break;
                        }
                        Err(_) => continue,
                    }
                }
                let _ = child.kill().await;
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        });
        Ok(Self {
            stop,
            deaths,
            output,
            task,
        })
    }

    /// Ends the process; answers how often it died by itself, and which records it processed.
    async fn stop(self) -> Result<(usize, BTreeSet<String>)> {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.task.await;
        let text = std::fs::read_to_string(&self.output).map_err(|error| broken(&error))?;
        let _ = std::fs::remove_file(&self.output);
        let processed = text.lines().map(str::to_owned).collect();
        Ok((self.deaths.load(Ordering::Relaxed), processed))
    }
}

fn spawn(bootstrap: &str, into: &Path) -> std::io::Result<Child> {
    let output = std::fs::OpenOptions::new().append(true).open(into)?;
    Command::new(std::env::current_exe()?)
        .args(["--consume", bootstrap, GROUP, TOPIC])
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
}

fn broken(error: &std::io::Error) -> Error {
    Error::Unexpected {
        from: "the consumer's output".to_owned(),
        answer: error.to_string(),
    }
}
