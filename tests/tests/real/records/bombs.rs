//! Batches that are small on the wire and large when they are unpacked.

use std::collections::BTreeMap;
use std::error::Error;

use offset_guard::domain::offset::Fault;
use offset_guard::ports::{ReadLimits, ReadRecords, View};
use offset_guard_local::client::{Client, Record as Produced};
use offset_guard_tests::Outcome;

use super::{PLENTY, Place, offsets, on_both};

on_both!(
    a_batch_that_does_not_fit_into_memory_ends_no_process_but_the_one_that_reads_it,
    a_batch_that_does_not_fit_into_memory_takes_no_record_before_it_along,
);

/// More than the process that reads may have, in bytes; as gzip or lz4 it is about 1 MB.
const UNPACKED: usize = 300 << 20;

/// Three records, a batch that unpacks to [`UNPACKED`] bytes at offset 3, and a record behind it.
async fn with_bomb(place: &Place, codec: &str) -> Result<(), Box<dyn Error>> {
    place.client.create_topic(&place.topic, 1, &[]).await?;
    let properties = BTreeMap::from([
        ("compression.type".to_owned(), codec.to_owned()),
        ("message.max.bytes".to_owned(), "400000000".to_owned()),
        // Over the limits of a producer's queue alone.
        (
            "queue.buffering.max.kbytes".to_owned(),
            "1000000".to_owned(),
        ),
    ]);
    let bomber = Client::new(&place.bootstrap, &properties);
    for value in [b"0".to_vec(), b"1".to_vec(), b"2".to_vec()] {
        place
            .client
            .produce(&place.topic, &[Produced::new(0, value)])
            .await?;
    }
    let bomb = Produced::new(0, vec![b' '; UNPACKED]);
    bomber.produce(&place.topic, &[bomb]).await?;
    place
        .client
        .produce(&place.topic, &[Produced::new(0, "4")])
        .await?;
    Ok(())
}

async fn a_batch_that_does_not_fit_into_memory_ends_no_process_but_the_one_that_reads_it(
    place: Place,
) -> Outcome {
    for codec in ["gzip", "lz4", "snappy", "zstd"] {
        let place = Place::at(&place.bootstrap)?;
        with_bomb(&place, codec).await?;
        for view in [View::Committed, View::Uncommitted] {
            let read = place.read(3, 5, view).await;
            assert_eq!(read, Err(Fault::reader_ended()), "{codec}");
        }
        // What lies behind is read as ever.
        let behind = place.read(4, 5, View::Committed).await?;
        assert_eq!((offsets(&behind), behind.until), (vec![4], 5), "{codec}");
    }
    Ok(())
}

async fn a_batch_that_does_not_fit_into_memory_takes_no_record_before_it_along(
    place: Place,
) -> Outcome {
    for codec in ["gzip", "lz4", "snappy", "zstd"] {
        let place = Place::at(&place.bootstrap)?;
        with_bomb(&place, codec).await?;
        let before = place.read(0, 5, View::Committed).await?;
        assert_eq!(
            (offsets(&before), before.until),
            (vec![0, 1, 2], 3),
            "{codec}"
        );
        let one = ReadLimits {
            records: 1,
            ..PLENTY
        };
        let partition = place.partition();
        let last = place.reader.read(&partition, 2, 5, View::Committed, one);
        let last = last.await?;
        assert_eq!((offsets(&last), last.until), (vec![2], 3), "{codec}");
    }
    Ok(())
}
