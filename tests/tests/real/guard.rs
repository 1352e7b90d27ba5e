//! What the guard does about a record that stands in the way, from the first look to the group that goes on: on real
//! brokers, with the real function where nothing has to be put in between.

mod answers;
mod asked;
mod bombs;
mod consumer;
mod dry;
mod failures;
mod gaps;
mod hostile;
mod killed;
mod limits;
mod many;
mod poisoned;
mod quarantine;
mod ranges;
mod recovering;
mod rig;
mod stale;

use offset_guard::domain::guard::headers::seen;
use offset_guard::domain::guard::quarantine::DedupeId;
use offset_guard::domain::guard::record;
use offset_guard_local::client::{Client, Record};

use crate::asked::Result;

/// A record that was read, as the guard knows records.
fn raw(record: &Record) -> record::Record {
    record::Record {
        offset: record.offset.unwrap_or_default(),
        leader_epoch: None,
        timestamp_ms: -1,
        timestamp_type: record::TimestampType::NotAvailable,
        key: record.key.clone(),
        value: record.value.clone(),
        headers: record
            .headers
            .iter()
            .map(|(name, value)| (name.clone().into_bytes(), value.clone()))
            .collect(),
    }
}

/// The text of a header that stands for itself.
fn header(record: &Record, name: &str) -> String {
    let mut found = record.headers.iter().filter(|(key, _)| key == name);
    let value = found.next().and_then(|(_, value)| value.clone());
    String::from_utf8(value.unwrap_or_default()).unwrap_or_default()
}

/// The copies of records in `source` that lie in the one partition of a quarantine topic, oldest first.
async fn copies(client: &Client, quarantine: &str, source: &str) -> Result<Vec<Record>> {
    let end = client.end_offsets(quarantine).await?;
    let mut copies = Vec::new();
    for offset in 0..end.first().copied().unwrap_or_default() {
        let record = client.read(quarantine, 0, offset).await?;
        if record.offset == Some(offset) && header(&record, "offset-guard.origin.topic") == source {
            copies.push(record);
        }
    }
    Ok(copies)
}

/// The dedupe id that a copy carries.
fn dedupe_id(copy: &Record) -> Option<DedupeId> {
    seen(&raw(copy)).dedupe_id
}

/// The copy of exactly this record, and nothing in it but the record and what the guard says of it.
#[track_caller]
fn assert_copy(copy: &Record, record: &Record) {
    assert_eq!(copy.key, record.key);
    assert_eq!(copy.value, record.value);
    let (own, guards) = copy.headers.split_at(record.headers.len());
    assert_eq!(own, record.headers);
    assert!(
        guards
            .iter()
            .all(|(name, _)| name.starts_with("offset-guard.")),
        "{guards:?}"
    );
    assert!(dedupe_id(copy).is_some());
}
