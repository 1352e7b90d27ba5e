//! Copies in quarantine.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use offset_guard::domain::guard::headers::{self, Origin};
use offset_guard::domain::guard::keeping::{cautions, unfit};
use offset_guard::domain::guard::policy::HeaderSet;
use offset_guard::domain::guard::quarantine::{DedupeId, KeptCopy};
use offset_guard::domain::guard::record::Header;
use offset_guard::domain::guard::verdict::Verdict;
use offset_guard::domain::offset::{ClusterId, Fault, GroupId, TopicPartition};
use offset_guard::ports::{KeepRecords, KeepingTopic, ReadRecords, View};
use offset_guard_local::kafka::{Kafka, KafkaOptions};
use offset_guard_local::run::Run;
use offset_guard_tests::{Outcome, PATIENCE};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

use super::{PLENTY, Place, failed, on_both};

on_both!(
    a_copy_is_byte_for_byte_what_it_is_a_copy_of,
    a_topic_is_described_as_it_is_configured,
    no_topic_is_ever_created,
    the_limit_of_a_topic_is_known_to_the_byte,
);

fn origin(place: &Place) -> Origin {
    let (cluster_id, group) = (
        ClusterId("cluster".to_owned()),
        GroupId("shipment-sync".to_owned()),
    );
    Origin {
        topic_id: None,
        partition: place.partition(),
        verdict: Verdict::PoisonLikely,
        detail: "the value is no UTF-8 from byte 0 on".to_owned(),
        evidence: "[]".to_owned(),
        dedupe_id: DedupeId::of(&cluster_id, &group, None, &place.partition(), 0),
        run_id: "run".to_owned(),
        quarantined_at: Timestamp::now(),
        tool_version: "0.1.0".to_owned(),
        cluster_id,
        group,
    }
}

async fn a_copy_is_byte_for_byte_what_it_is_a_copy_of(place: Place) -> Outcome {
    let quarantine = format!("{}-quarantine", place.topic);
    place.client.create_topic(&place.topic, 1, &[]).await?;
    place.client.create_topic(&quarantine, 3, &[]).await?;
    let header = |name: &[u8], value: Option<&[u8]>| (name.to_vec(), value.map(<[u8]>::to_vec));
    let odd: Vec<Header> = vec![
        header(b"\xff\xfe", Some(b"\x00\xff")),
        header(b"trace", None),
        header(b"trace", Some(b"")),
        header(b"trace", Some(b"1")),
        header(b"", None),
        // What a C string cannot hold, and what the guard itself writes.
        header(b"a\0b", None),
        header(b"a\0b", Some(b"")),
        header(b"\0", Some(b"\0value")),
        header(b"offset-guard.x", Some(b"1")),
        header(b"offset-guard.dedupe.id", Some(&[b'a'; 64])),
        header(b"offset-guard.origin.headers", Some(b"2")),
    ];
    let shapes = [
        (
            Some(b"\xffkey".as_slice()),
            Some(b"\x00\xffvalue".as_slice()),
        ),
        (Some(b""), Some(b"")),
        (None, None),
        (Some(b"key"), None),
    ];
    for (key, value) in shapes {
        let source = place.keeper.keep(&place.topic, key, value, &odd).await?;
        let record = read_back(&place, &source).await?;
        assert_eq!(
            (record.key.as_deref(), record.value.as_deref()),
            (key, value)
        );
        assert_eq!(record.headers, odd);

        let origin = origin(&place);
        let sets = [HeaderSet::Spring, HeaderSet::Connect];
        let with = headers::of_copy(&record, &origin, &sets);
        let kept = place.keeper.keep(&quarantine, key, value, &with).await?;
        let copy = read_back(&place, &kept).await?;
        let seen = headers::seen(&copy);
        assert_eq!(seen.fingerprint, record.outline().fingerprint);
        assert_eq!(seen.dedupe_id, Some(origin.dedupe_id));
        assert_eq!(copy.headers, with);
    }
    Ok(())
}

async fn read_back(
    place: &Place,
    at: &KeptCopy,
) -> Result<super::Record, Box<dyn std::error::Error>> {
    let read = place
        .reader
        .read(
            &at.partition,
            at.offset,
            at.offset + 1,
            View::Committed,
            PLENTY,
        )
        .await?;
    Ok(read
        .records
        .into_iter()
        .next()
        .ok_or("the copy is not there")?)
}

async fn a_topic_is_described_as_it_is_configured(place: Place) -> Outcome {
    let configs = [
        ("cleanup.policy", "compact,delete"),
        ("max.message.bytes", "2000"),
        ("min.insync.replicas", "3"),
        ("retention.ms", "60000"),
        ("retention.bytes", "5000000"),
    ];
    place.client.create_topic(&place.topic, 4, &configs).await?;
    let described = place
        .keeper
        .keeping_topic(&place.topic)
        .await?
        .ok_or("not found")?;
    let expected = KeepingTopic {
        partitions: 4,
        replicas: 1,
        cleanup_policy: "compact,delete".to_owned(),
        max_message_bytes: 2000,
        min_insync_replicas: 3,
        retention_ms: Some(60_000),
        retention_bytes: Some(5_000_000),
    };
    assert_eq!(described, expected);

    let forever = format!("{}-forever", place.topic);
    place
        .client
        .create_topic(&forever, 1, &[("retention.ms", "-1")])
        .await?;
    let described = place
        .keeper
        .keeping_topic(&forever)
        .await?
        .ok_or("not found")?;
    assert_eq!(described.retention_ms, None);
    assert_eq!(described.retention_bytes, None);
    let told = cautions("kept", &described);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].to_string().contains("it has one replica"),
        "{told:?}"
    );
    Ok(())
}

async fn no_topic_is_ever_created(place: Place) -> Outcome {
    let before = topics(&place)?;
    assert_eq!(place.keeper.keeping_topic(&place.topic).await?, None);
    let kept = place.keeper.keep(&place.topic, None, None, &[]).await;
    assert_eq!(kept, Err(Fault::TopicGone));
    let read = place.read(0, 1, View::Committed).await;
    assert_eq!(read, Err(Fault::TopicGone));
    let beyond = TopicPartition::new("no-such-topic", 7);
    let read = place
        .reader
        .read(&beyond, 0, 1, View::Committed, PLENTY)
        .await;
    assert_eq!(read, Err(Fault::TopicGone));
    // The other tests' topics come and go meanwhile.
    let new: Vec<_> = topics(&place)?.difference(&before).cloned().collect();
    assert!(
        !new.contains(&place.topic) && !new.contains(&beyond.topic),
        "{new:?}"
    );
    Ok(())
}

fn topics(place: &Place) -> Result<BTreeSet<String>, Box<dyn std::error::Error>> {
    let client: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &place.bootstrap)
        .create()?;
    let metadata = client.fetch_metadata(None, PATIENCE)?;
    let names = metadata
        .topics()
        .iter()
        .map(|topic| topic.name().to_owned());
    Ok(names.collect())
}

async fn the_limit_of_a_topic_is_known_to_the_byte(place: Place) -> Outcome {
    place
        .client
        .create_topic(&place.topic, 1, &[("max.message.bytes", "2000")])
        .await?;
    let topic = place
        .keeper
        .keeping_topic(&place.topic)
        .await?
        .ok_or("not found")?;
    let headers: Vec<Header> = vec![
        (b"trace".to_vec(), Some(vec![b'1'; 70])),
        (b"none".to_vec(), None),
    ];
    let mut largest = None;
    for size in 1800..1900 {
        let value = vec![b'x'; size];
        let record = super::Record {
            offset: 0,
            leader_epoch: None,
            timestamp_ms: 0,
            timestamp_type: offset_guard::domain::guard::record::TimestampType::CreateTime,
            key: Some(b"key".to_vec()),
            value: Some(value.clone()),
            headers: Vec::new(),
        };
        let fits = unfit(&record, &headers, "shipments", &place.topic, &topic).is_none();
        let kept = place
            .keeper
            .keep(&place.topic, Some(b"key"), Some(&value), &headers)
            .await;
        match kept {
            Ok(_) => {
                assert!(fits, "{size}");
                largest = Some(size);
            }
            Err(fault) => {
                assert!(!fits, "{size}");
                assert_eq!(fault, failed("MSG_SIZE_TOO_LARGE"));
                break;
            }
        }
    }
    let largest = largest.ok_or("nothing was kept")?;
    assert!((1800..1899).contains(&largest), "{largest}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_too_few_brokers_have_is_not_kept() -> Outcome {
    let options = KafkaOptions {
        brokers: 3,
        ..KafkaOptions::default()
    };
    let mut kafka = Kafka::start(&Run::open(Duration::ZERO)?, &options).await?;
    let place = Place::at(&kafka.bootstrap())?;
    place
        .client
        .create_topic(&place.topic, 1, &[("min.insync.replicas", "3")])
        .await?;
    keep_in_new_topic(&place, &place.topic).await?;
    let other = format!("{}-two", place.topic);
    place
        .client
        .create_topic(&other, 1, &[("min.insync.replicas", "2")])
        .await?;
    keep_in_new_topic(&place, &other).await?;
    kafka.stop_broker(2).await?;

    let began = Instant::now();
    let kept = place
        .keeper
        .keep(&place.topic, None, Some(b"value"), &[])
        .await;
    assert_eq!(kept, Err(failed("_MSG_TIMED_OUT")));
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    // One broker is down, and what the others have is read and kept all the same.
    let kept = place.keeper.keep(&other, None, Some(b"value"), &[]).await?;
    assert_eq!(kept.offset, 1);
    assert_eq!(
        read_back(&place, &kept).await?.value,
        Some(b"value".to_vec())
    );
    kafka.stop().await?;
    Ok(())
}

/// Keeps a record in a topic that was just created: a moment later than its controller, every broker knows the topic.
async fn keep_in_new_topic(place: &Place, topic: &str) -> Outcome {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match place.keeper.keep(topic, None, Some(b"kept"), &[]).await {
            Err(Fault::TopicGone) if Instant::now() < deadline => {}
            kept => return Ok(kept.map(|_| ())?),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
