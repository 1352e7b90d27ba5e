//! What cannot be read is a fault, and never a gap.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use offset_guard::ports::{ReadLimits, ReadRecords, View};
use offset_guard_local::client::{Client, Record as Produced};
use offset_guard_tests::Outcome;

use super::proxy::{MARK, Proxied};
use super::{PLENTY, Place, failed, offsets};

/// After such a batch librdkafka goes on with the next, so that the record behind it looks like the first visible one.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_batch_ends_the_read() -> Outcome {
    let proxied = Proxied::start().await?;
    let place = Place::at(&proxied.bootstrap)?;
    place.client.create_topic(&place.topic, 1, &[]).await?;
    for value in [b"good".to_vec(), MARK.repeat(4), b"good".to_vec()] {
        // One batch each.
        place
            .client
            .produce(&place.topic, &[Produced::new(0, value)])
            .await?;
    }
    let whole = place.read(0, 3, View::Committed).await?;
    assert_eq!(offsets(&whole), [0, 1, 2]);

    proxied.damage.flip.store(true, Ordering::SeqCst);
    for view in [View::Committed, View::Uncommitted] {
        assert_eq!(place.read(0, 3, view).await, Err(failed("_BAD_MSG")));
        assert_eq!(place.read(1, 3, view).await, Err(failed("_BAD_MSG")));
    }
    let behind = place.read(2, 3, View::Committed).await?;
    assert_eq!(offsets(&behind), [2]);
    proxied.kafka.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_goes_away_in_the_middle_is_a_fault() -> Outcome {
    let proxied = Proxied::start().await?;
    let properties = BTreeMap::from([("message.max.bytes".to_owned(), "20000000".to_owned())]);
    let client = Client::new(&proxied.bootstrap, &properties);
    let place = Place::at(&proxied.bootstrap)?;
    client.create_topic(&place.topic, 1, &[]).await?;
    for _ in 0..10 {
        let record = Produced::new(0, vec![b'x'; 1_000_000]);
        client.produce(&place.topic, &[record]).await?;
    }
    let read = place.read(0, 10, View::Committed).await?;
    assert_eq!(read.records.len(), 10);

    proxied.damage.left.store(4_500_000, Ordering::SeqCst);
    let began = Instant::now();
    let limits = ReadLimits {
        time: Duration::from_secs(4),
        ..PLENTY
    };
    let read = place
        .reader
        .read(&place.partition(), 0, 10, View::Committed, limits)
        .await;
    assert!(read.is_err(), "{read:?}");
    assert!(
        began.elapsed() < Duration::from_secs(8),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(proxied.damage.left.load(Ordering::SeqCst), 0);
    proxied.kafka.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_broker_at_all_is_a_fault() -> Outcome {
    let place = Place::at("127.0.0.1:1")?;
    let limits = ReadLimits {
        time: Duration::from_secs(2),
        ..PLENTY
    };
    let began = Instant::now();
    let read = place
        .reader
        .read(&place.partition(), 0, 1, View::Committed, limits)
        .await;
    assert!(read.is_err(), "{read:?}");
    assert!(
        began.elapsed() < Duration::from_secs(6),
        "{:?}",
        began.elapsed()
    );
    Ok(())
}
