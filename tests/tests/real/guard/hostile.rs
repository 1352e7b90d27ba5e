//! Records that a producer makes so that they cannot be kept.

use offset_guard::domain::guard::headers::seen;
use offset_guard::domain::guard::quarantine::Kept;
use offset_guard::domain::guard::record::Header;
use offset_guard::domain::recovery::Outcome as Proven;
use offset_guard::kafka::{RecordKeeper, RecordReader};
use offset_guard::ports::{KeepRecords, ReadLimits, ReadRecords, View};
use offset_guard_tests::{Outcome, World, on_kafka_4, reader_program};
use serde_json::json;

use super::rig::Rig;

on_kafka_4!(
    no_header_of_a_producer_keeps_a_record_from_being_kept,
    a_copy_that_is_produced_again_goes_round_only_where_a_person_asks,
);

const ONE: ReadLimits = ReadLimits {
    records: 1,
    bytes: 1,
    time: std::time::Duration::from_secs(20),
};

async fn no_header_of_a_producer_keeps_a_record_from_being_kept(world: &World) -> Outcome {
    let header = |name: &[u8], value: Option<&[u8]>| (name.to_vec(), value.map(<[u8]>::to_vec));
    let id = "a".repeat(64);
    let hostile: Vec<Vec<Header>> = vec![
        vec![header(b"offset-guard.x", Some(b"1"))],
        vec![
            header(b"offset-guard.origin.headers", Some(b"0")),
            header(b"offset-guard.dedupe.id", Some(id.as_bytes())),
        ],
        vec![header(b"offset-guard.dedupe.id", Some(&[b'#'; 5_000]))],
        vec![
            header(b"a\0b", None),
            header(b"\0", Some(b"\0")),
            header(b"a\0b", Some(b"")),
        ],
        vec![
            header(b"", None),
            header(b"\xff\xfe", Some(b"\xff")),
            header(b"", Some(b"")),
        ],
        (0..20_000).map(|_| header(b"n", None)).collect(),
    ];
    let rig = Rig::bare(world, &[("max_skips_per_day", "100")]).await?;
    world.client.create_topic(&rig.bench.topic, 1, &[]).await?;
    world.client.create_topic(&rig.quarantine, 1, &[]).await?;
    // The keeper writes what no other client here can.
    let keeper = RecordKeeper::connect(rig.settings())?;
    for headers in &hostile {
        let value = Some(&b"not JSON"[..]);
        keeper.keep(&rig.bench.topic, None, value, headers).await?;
    }
    rig.bench.commit(&[0]).await?;
    let (id, plan) = rig.until_planned().await?;
    assert_eq!(plan.skips.len(), hostile.len());
    let reader = RecordReader::connect(rig.settings(), reader_program())?;
    for skipped in &plan.skips {
        let Kept::In(copy) = &skipped.kept else {
            return Err("it is not kept".into());
        };
        let read = reader
            .read(
                &copy.partition,
                copy.offset,
                copy.offset + 1,
                View::Committed,
                ONE,
            )
            .await?;
        let copy = &read.records[0];
        assert_eq!(seen(copy).fingerprint, skipped.record.fingerprint);
        assert_eq!(seen(copy).dedupe_id.as_ref(), Some(&skipped.dedupe_id));
        let own = &hostile[usize::try_from(skipped.record.offset)?];
        assert_eq!(&copy.headers[..own.len()], own);
    }
    rig.bench.approved_plan(&id).await?;
    rig.bench.apply(&id, &[]).await?;
    assert_eq!(rig.bench.verify(&id).await?.outcome, Some(Proven::Verified));
    Ok(())
}

async fn a_copy_that_is_produced_again_goes_round_only_where_a_person_asks(
    world: &World,
) -> Outcome {
    let rig = Rig::new(world, &[], &[&["{}", "not JSON"]]).await?;
    rig.bench.commit(&[1]).await?;
    let (id, _) = rig.until_planned().await?;
    rig.bench.approved_plan(&id).await?;
    rig.bench.apply(&id, &[]).await?;
    rig.bench.verify(&id).await?;
    rig.bench.report(&id).await?;
    // Somebody sends the copy back where it came from, as it is.
    let copies = rig.copies().await?;
    world.client.produce(&rig.bench.topic, &copies).await?;
    let mut result = rig.tick().await?;
    for _ in 0..15 {
        if !result.withheld.is_empty() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        result = rig.tick().await?;
    }
    assert_eq!(result.withheld, ["RECORD_FROM_QUARANTINE"], "{result:?}");
    assert_eq!((result.plan, rig.copies().await?.len()), (None, 1));
    let result = rig.run(&rig.ask("skip_poison_record", &json!({}))).await?;
    let (_, plan) = rig.planned(result).await?;
    assert_eq!(plan.skips.len(), 1);
    assert_eq!(rig.copies().await?.len(), 2);
    Ok(())
}
