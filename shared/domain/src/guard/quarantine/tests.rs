use super::*;
use crate::guard::record::{Fingerprint, TimestampType};
use crate::testing::guard::outline;
use crate::testing::{id, p};

fn copy() -> KeptCopy {
    KeptCopy {
        partition: TopicPartition::new("shipments-quarantine", 1),
        offset: 7,
    }
}

fn dedupe(
    cluster: &str,
    group: &str,
    topic: Option<TopicId>,
    partition: i32,
    offset: i64,
) -> DedupeId {
    let (cluster, group) = (ClusterId(cluster.into()), GroupId(group.into()));
    DedupeId::of(&cluster, &group, topic, &p(partition), offset)
}

fn skipped(kept: Kept) -> SkippedRecord {
    SkippedRecord {
        partition: p(1),
        record: outline(43),
        failure: None,
        dedupe_id: dedupe("cluster-a", "shipment-sync", id(7), 1, 43),
        kept,
    }
}

fn seen(record: &SkippedRecord) -> Reread {
    Reread {
        source: Ok(Some(record.record.clone())),
        copy: Ok(Some(CopySeen {
            fingerprint: record.record.fingerprint.clone(),
            dedupe_id: Some(record.dedupe_id.clone()),
        })),
    }
}

fn source(why: &str) -> Option<Stale> {
    Some(Stale::SourceRecord {
        partition: p(1),
        offset: 43,
        why: why.into(),
    })
}

fn lost(why: &str) -> Option<Stale> {
    Some(Stale::QuarantineCopy {
        copy: "shipments-quarantine-1@7".into(),
        why: why.into(),
    })
}

#[test]
fn a_record_and_its_copy_as_they_were_are_not_stale() {
    for kept in [Kept::In(copy()), Kept::No, Kept::NotYet] {
        let record = skipped(kept);
        assert_eq!(record.stale(&seen(&record)), None);
    }
}

#[test]
fn a_source_that_is_another_record_is_stale_whatever_is_kept_of_it() {
    let changes: [fn(&mut Outline); 6] = [
        |now| now.fingerprint = Fingerprint("0".repeat(64)),
        // The same bytes under another leader: the log was rewritten.
        |now| now.leader_epoch = Some(6),
        |now| now.offset = 44,
        |now| now.timestamp_ms += 1,
        |now| now.timestamp_type = TimestampType::LogAppendTime,
        |now| now.value_bytes = None,
    ];
    for kept in [Kept::In(copy()), Kept::No] {
        for change in changes {
            let record = skipped(kept.clone());
            let mut now = seen(&record);
            change(now.source.as_mut().unwrap().as_mut().unwrap());
            assert_eq!(record.stale(&now), source("it is another record"));
        }
        let record = skipped(kept);
        let mut now = seen(&record);
        now.source = Ok(None);
        assert_eq!(record.stale(&now), source("it is gone"));
        now.source = Err(Fault::NoLeader);
        assert_eq!(record.stale(&now), source("the partition has no leader"));
    }
}

#[test]
fn a_copy_that_is_gone_or_another_one_is_stale() {
    let record = skipped(Kept::In(copy()));
    let mut now = seen(&record);
    now.copy = Ok(None);
    assert_eq!(record.stale(&now), lost("it is gone"));
    now.copy = Err(Fault::TopicGone);
    assert_eq!(
        record.stale(&now),
        lost("the broker does not know this topic or partition")
    );
    let good = seen(&record).copy.unwrap().unwrap();
    for other in [
        CopySeen {
            fingerprint: Fingerprint("0".repeat(64)),
            ..good.clone()
        },
        CopySeen {
            dedupe_id: None,
            ..good.clone()
        },
        CopySeen {
            dedupe_id: Some(dedupe("cluster-a", "shipment-sync", id(7), 1, 44)),
            ..good
        },
    ] {
        now.copy = Ok(Some(other));
        assert_eq!(record.stale(&now), lost("it is another record"));
    }
}

#[test]
fn of_a_record_that_is_not_kept_no_copy_is_missed() {
    let record = skipped(Kept::No);
    let mut now = seen(&record);
    now.copy = Ok(None);
    assert_eq!(record.stale(&now), None);
}

/// Two clusters, two groups whose names look alike, two incarnations of a topic: never one record.
#[test]
fn a_dedupe_id_tells_apart_whatever_differs() {
    let ids = [
        dedupe("a", "g", id(7), 0, 1),
        dedupe("b", "g", id(7), 0, 1),
        dedupe("a", "g.h", id(7), 0, 1),
        dedupe("a", "g-h", id(7), 0, 1),
        dedupe("a", "g", id(8), 0, 1),
        dedupe("a", "g", None, 0, 1),
        dedupe("a", "g", id(7), 1, 1),
        dedupe("a", "g", id(7), 0, 11),
        dedupe("a", "g", id(7), 1, 0),
        dedupe("a\",\"g", "", id(7), 0, 1),
    ];
    let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len());
    assert_eq!(dedupe("a", "g", id(7), 0, 1), ids[0]);
    assert!(ids[0].0.len() == 64 && ids[0].0.chars().all(|c| c.is_ascii_hexdigit()));
    // Kept in the headers of copies and in the ledger: it must not change.
    assert_eq!(
        dedupe("cluster-a", "shipment-sync", id(7), 1, 43).to_string(),
        "26d98dcb328c34e2c513c98a4ff40abc1f49985c3fadbd5be8489edb0b91e6b4"
    );
}
