//! What a read sees, and what it says of the offsets where it sees nothing.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::{Duration, Instant};

use offset_guard::domain::guard::record::TimestampType;
use offset_guard::domain::offset::{Fault, TopicPartition};
use offset_guard::kafka::{Auth, ConnectionSettings, GroupReader};
use offset_guard::ports::{ReadGroups, ReadLimits, ReadRecords, RecordsRead, View};
use offset_guard_local::client::{Client, Record as Produced};
use offset_guard_tests::{Outcome, PATIENCE};

use super::{PLENTY, Place, failed, offsets, on_both};

on_both!(
    every_field_is_read_as_it_was_produced,
    every_compression_is_read,
    a_compaction_gap_is_passed_over,
    aborted_records_are_in_one_view_and_not_in_the_other,
    a_tail_of_markers_is_read_to_its_end,
    a_record_larger_than_a_fetch_is_read_whole,
    an_offset_that_is_not_in_the_log_is_a_fault,
    a_read_ends_at_its_limits,
    a_read_leaves_no_group_behind,
);

fn produced(key: Option<&[u8]>, value: Option<&[u8]>) -> Produced {
    Produced {
        key: key.map(<[u8]>::to_vec),
        value: value.map(<[u8]>::to_vec),
        ..Produced::default()
    }
}

async fn every_field_is_read_as_it_was_produced(place: Place) -> Outcome {
    let at_append = [("message.timestamp.type", "LogAppendTime")];
    let other = format!("{}-appended", place.topic);
    place.client.create_topic(&place.topic, 1, &[]).await?;
    place.client.create_topic(&other, 1, &at_append).await?;
    let header = |name: &str, value: Option<&[u8]>| (name.to_owned(), value.map(<[u8]>::to_vec));
    let with_headers = Produced {
        headers: vec![
            header("trace", Some(b"1")),
            header("trace", None),
            header("", Some(b"")),
            header("trace", Some(b"\xff\x00")),
        ],
        ..produced(Some(b"\x00key\xff"), Some(b"\xff\xfenot UTF-8"))
    };
    let sent = [
        produced(None, None),
        produced(Some(b""), Some(b"")),
        produced(None, Some(b"value")),
        produced(Some(b"key"), None),
        with_headers,
    ];
    place.client.produce(&place.topic, &sent).await?;
    place.client.produce(&other, &sent[..1]).await?;

    let read = place.read(0, 100, View::Committed).await?;
    assert_eq!((offsets(&read), read.until), (vec![0, 1, 2, 3, 4], 5));
    for (record, sent) in read.records.iter().zip(&sent) {
        assert_eq!(record.key, sent.key);
        assert_eq!(record.value, sent.value);
        let headers = sent.headers.iter();
        let headers: Vec<_> = headers
            .map(|(k, v)| (k.clone().into_bytes(), v.clone()))
            .collect();
        assert_eq!(record.headers, headers);
        assert_eq!(record.leader_epoch, Some(0));
        assert_eq!(record.timestamp_type, TimestampType::CreateTime);
        assert!(record.timestamp_ms > 0);
    }
    let appended = TopicPartition::new(&other, 0);
    let read = place
        .reader
        .read(&appended, 0, 1, View::Committed, PLENTY)
        .await?;
    assert_eq!(read.records[0].timestamp_type, TimestampType::LogAppendTime);
    Ok(())
}

async fn every_compression_is_read(place: Place) -> Outcome {
    place.client.create_topic(&place.topic, 1, &[]).await?;
    for codec in ["gzip", "snappy", "lz4", "zstd"] {
        let properties = BTreeMap::from([
            ("compression.type".to_owned(), codec.to_owned()),
            ("batch.num.messages".to_owned(), "50".to_owned()),
        ]);
        let client = Client::new(&place.bootstrap, &properties);
        client.produce_numbered(&place.topic, 0, 100).await?;
    }
    // In the middle of a batch.
    let read = place.read(7, 400, View::Committed).await?;
    assert_eq!((offsets(&read), read.until), ((7..400).collect(), 400));
    let last = format!("{}-0-99", place.topic);
    assert_eq!(read.records[392].value, Some(last.into_bytes()));
    Ok(())
}

async fn a_compaction_gap_is_passed_over(place: Place) -> Outcome {
    let compacted = [
        ("cleanup.policy", "compact"),
        ("segment.ms", "200"),
        ("min.cleanable.dirty.ratio", "0.0"),
        ("max.compaction.lag.ms", "200"),
    ];
    place
        .client
        .create_topic(&place.topic, 1, &compacted)
        .await?;
    let replaced = vec![produced(Some(b"key"), Some(b"value")); 10];
    place.client.produce(&place.topic, &replaced).await?;
    // A record into a later segment: the first is not compacted while it is the active one.
    let began = Instant::now();
    let mut high = 10;
    let read = loop {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let next = produced(Some(b"other"), Some(b"value"));
        place.client.produce(&place.topic, &[next]).await?;
        high += 1;
        let read = place.read(3, high, View::Committed).await?;
        assert_eq!(read.until, high);
        if offsets(&read)[0] == 9 || began.elapsed() > PATIENCE {
            break read;
        }
    };
    assert_eq!(offsets(&read)[0], 9);

    let gap = place.read(3, 9, View::Committed).await?;
    assert_eq!((offsets(&gap), gap.until), (vec![], 9));
    let one = ReadLimits {
        records: 1,
        ..PLENTY
    };
    let first = place
        .reader
        .read(&place.partition(), 3, high, View::Uncommitted, one)
        .await?;
    assert_eq!((offsets(&first), first.until), (vec![9], 10));
    Ok(())
}

async fn aborted_records_are_in_one_view_and_not_in_the_other(place: Place) -> Outcome {
    let records = |value: &str| vec![Produced::new(0, value); 2];
    place.client.create_topic(&place.topic, 1, &[]).await?;
    // 0 and 1 aborted, 2 their marker; 3 and 4 committed, 5 their marker; 6 and 7 open.
    let aborted = place
        .client
        .begin_transaction(&place.topic, &records("aborted"))
        .await?;
    aborted.abort().await?;
    let committed = place
        .client
        .begin_transaction(&place.topic, &records("committed"))
        .await?;
    committed.commit().await?;
    let open = place
        .client
        .begin_transaction(&place.topic, &records("open"))
        .await?;

    let read = read_up_to(&place, 6).await?;
    assert_eq!(offsets(&read), [3, 4]);
    let read = place.read(0, 100, View::Uncommitted).await?;
    assert_eq!((offsets(&read), read.until), (vec![0, 1, 3, 4, 6, 7], 8));
    let read = place.read(0, 3, View::Committed).await?;
    assert_eq!((offsets(&read), read.until), (vec![], 3));
    // Nothing is looked at of what the open transaction holds back.
    for from in 6..=8 {
        let read = place.read(from, 100, View::Committed).await?;
        assert_eq!((offsets(&read), read.until), (vec![], from));
    }
    let beyond = place.read(9, 100, View::Committed).await;
    assert_eq!(beyond, Err(failed("OFFSET_OUT_OF_RANGE")));

    open.abort().await?;
    let read = read_up_to(&place, 9).await?;
    assert_eq!(offsets(&read), [3, 4]);
    Ok(())
}

/// Reads until the last stable offset is `until`: a transaction's markers are written after it has ended.
async fn read_up_to(place: &Place, until: i64) -> Result<RecordsRead, Box<dyn Error>> {
    let began = Instant::now();
    loop {
        let read = place.read(0, 100, View::Committed).await?;
        if read.until == until {
            return Ok(read);
        }
        if began.elapsed() > PATIENCE {
            return Err(format!("it is read up to {}", read.until).into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn a_tail_of_markers_is_read_to_its_end(place: Place) -> Outcome {
    place.client.create_topic(&place.topic, 1, &[]).await?;
    let record = [Produced::new(0, "value")];
    let transaction = place
        .client
        .begin_transaction(&place.topic, &record)
        .await?;
    transaction.commit().await?;
    let aborted = place
        .client
        .begin_transaction(&place.topic, &record)
        .await?;
    aborted.abort().await?;
    read_up_to(&place, 4).await?;

    let began = Instant::now();
    // The marker at 1, the aborted record at 2 and its marker at 3.
    let read = place.read(1, 100, View::Committed).await?;
    assert_eq!((offsets(&read), read.until), (vec![], 4));
    let read = place.read(1, 100, View::Uncommitted).await?;
    assert_eq!((offsets(&read), read.until), (vec![2], 4));
    let read = place.read(3, 4, View::Uncommitted).await?;
    assert_eq!((offsets(&read), read.until), (vec![], 4));
    assert!(began.elapsed() < PATIENCE / 4, "{:?}", began.elapsed());
    Ok(())
}

async fn a_record_larger_than_a_fetch_is_read_whole(place: Place) -> Outcome {
    place.client.create_topic(&place.topic, 1, &[]).await?;
    let properties = BTreeMap::from([("message.max.bytes".to_owned(), "20000000".to_owned())]);
    let client = Client::new(&place.bootstrap, &properties);
    // Bytes that no two offsets of it share, so that no part can be in another's place.
    let big: Vec<u8> = (0..5_000_000_u32)
        .map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0])
        .collect();
    let sent = [
        Produced::new(0, "before"),
        Produced::new(0, big.clone()),
        Produced::new(0, "after"),
    ];
    client.produce(&place.topic, &sent).await?;

    let read = place.read(0, 3, View::Committed).await?;
    assert_eq!((offsets(&read), read.until), (vec![0, 1, 2], 3));
    assert!(read.records[1].value.as_ref() == Some(&big));
    // It alone is more than the limit, and still read.
    let small = ReadLimits {
        bytes: 1000,
        ..PLENTY
    };
    let read = place
        .reader
        .read(&place.partition(), 1, 3, View::Committed, small)
        .await?;
    assert_eq!((offsets(&read), read.until), (vec![1], 2));
    Ok(())
}

async fn an_offset_that_is_not_in_the_log_is_a_fault(place: Place) -> Outcome {
    place.client.create_topic(&place.topic, 1, &[]).await?;
    place.client.produce_numbered(&place.topic, 0, 5).await?;
    let out_of_range = Err(failed("OFFSET_OUT_OF_RANGE"));
    for view in [View::Committed, View::Uncommitted] {
        let end = place.read(5, 100, view).await?;
        assert_eq!((offsets(&end), end.until), (vec![], 5));
        assert_eq!(place.read(6, 100, view).await, out_of_range);
    }
    place.client.delete_records(&place.topic, 0, 3).await?;
    assert_eq!(place.read(2, 100, View::Committed).await, out_of_range);
    let read = place.read(3, 100, View::Committed).await?;
    assert_eq!((offsets(&read), read.until), (vec![3, 4], 5));
    Ok(())
}

async fn a_read_ends_at_its_limits(place: Place) -> Outcome {
    place.client.create_topic(&place.topic, 1, &[]).await?;
    let records = vec![Produced::new(0, vec![b'x'; 100]); 50];
    place.client.produce(&place.topic, &records).await?;
    let partition = place.partition();
    let limited = async |limits| {
        let read = place
            .reader
            .read(&partition, 10, 40, View::Committed, limits)
            .await?;
        Ok::<_, Fault>((offsets(&read), read.until))
    };
    let few = ReadLimits {
        records: 3,
        ..PLENTY
    };
    assert_eq!(limited(few).await?, (vec![10, 11, 12], 13));
    let small = ReadLimits {
        bytes: 250,
        ..PLENTY
    };
    assert_eq!(limited(small).await?, (vec![10, 11, 12], 13));
    assert_eq!(limited(PLENTY).await?, ((10..40).collect(), 40));
    Ok(())
}

async fn a_read_leaves_no_group_behind(place: Place) -> Outcome {
    place.client.create_topic(&place.topic, 1, &[]).await?;
    place.client.produce_numbered(&place.topic, 0, 5).await?;
    let read = place.read(0, 5, View::Committed).await?;
    assert_eq!(read.records.len(), 5);
    let settings = ConnectionSettings::new(&place.bootstrap, Auth::Plaintext);
    let groups = GroupReader::connect(settings)?.list_groups().await?;
    let own = groups
        .iter()
        .filter(|group| group.0.starts_with("offset-guard-"));
    assert_eq!(own.count(), 0, "{groups:?}");
    Ok(())
}
