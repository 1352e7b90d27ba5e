//! Records read as they are and kept as they are, on real brokers.

mod bombs;
mod faults;
mod keeping;
mod proxy;
mod reading;

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use offset_guard::domain::guard::record::Record;
use offset_guard::domain::offset::{Fault, TopicPartition};
use offset_guard::kafka::{Auth, ConnectionSettings, RecordKeeper, RecordReader};
use offset_guard::ports::{ReadLimits, ReadRecords, RecordsRead, View};
use offset_guard_local::client::Client;
use offset_guard_local::kafka::{Kafka, KafkaOptions, Version};
use offset_guard_local::run::Run;
use tokio::sync::OnceCell;
use ulid::Ulid;

/// More than any test here reads.
const PLENTY: ReadLimits = ReadLimits {
    records: 10_000,
    bytes: 100_000_000,
    time: Duration::from_secs(30),
};

/// One broker that creates topics for whoever asks, which nobody here may do.
async fn start(version: Version) -> Result<Kafka, offset_guard_local::Error> {
    let properties = [
        ("auto.create.topics.enable", "true"),
        ("log.cleaner.backoff.ms", "100"),
        ("message.max.bytes", "20000000"),
    ];
    let options = KafkaOptions {
        version,
        properties: properties
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        ..KafkaOptions::default()
    };
    Kafka::start(&Run::open(Duration::ZERO)?, &options).await
}

/// What a test works with: a Kafka that all tests of a version share, and a topic name of its own.
struct Place {
    bootstrap: String,
    client: Client,
    reader: RecordReader,
    keeper: RecordKeeper,
    topic: String,
}

impl Place {
    async fn on(version: Version) -> Result<Self, Box<dyn Error>> {
        // Their processes end with this one.
        static ALL: [OnceCell<Kafka>; 2] = [const { OnceCell::const_new() }; 2];
        let index = usize::from(version == Version::V4);
        let kafka = ALL[index].get_or_try_init(|| start(version)).await?;
        Self::at(&kafka.bootstrap())
    }

    fn at(bootstrap: &str) -> Result<Self, Box<dyn Error>> {
        let settings = ConnectionSettings::new(bootstrap, Auth::Plaintext);
        Ok(Self {
            bootstrap: bootstrap.to_owned(),
            client: Client::new(bootstrap, &BTreeMap::new()),
            reader: RecordReader::connect(settings.clone(), offset_guard_tests::reader_program())?,
            keeper: RecordKeeper::connect(settings)?,
            topic: format!("shipments-{}", Ulid::generate().to_string().to_lowercase()),
        })
    }

    fn partition(&self) -> TopicPartition {
        TopicPartition::new(&self.topic, 0)
    }

    async fn read(&self, from: i64, until: i64, view: View) -> Result<RecordsRead, Fault> {
        self.reader
            .read(&self.partition(), from, until, view, PLENTY)
            .await
    }
}

fn offsets(read: &RecordsRead) -> Vec<i64> {
    read.records.iter().map(|record| record.offset).collect()
}

fn failed(code: &str) -> Fault {
    Fault::Failed {
        code: code.to_owned(),
    }
}

/// Makes one test a Kafka of each `async fn(Place) -> Outcome` that is named.
macro_rules! on_both {
    ($($test:ident),+ $(,)?) => {
        $(mod $test {
            use offset_guard_local::kafka::Version;

            #[tokio::test(flavor = "multi_thread")]
            async fn on_3_9() -> offset_guard_tests::Outcome {
                super::$test(super::Place::on(Version::V3_9).await?).await
            }
            #[tokio::test(flavor = "multi_thread")]
            async fn on_4() -> offset_guard_tests::Outcome {
                super::$test(super::Place::on(Version::V4).await?).await
            }
        })+
    };
}
use on_both;
