//! What the child sends to its parent.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use offset_guard_domain::guard::record::{Record, TimestampType};

/// One message of the child. On the wire, its length comes first, in four bytes with the lowest first.
#[derive(Serialize, Deserialize)]
pub(super) enum Frame<'a> {
    /// The next record.
    #[serde(borrow)]
    Record(SentRecord<'a>),
    /// The end of the read: every offset below was looked at.
    End { until: i64 },
    /// Nothing could be read; the fault is JSON.
    Failed { fault: String },
}

/// A [`Record`] that borrows its bytes.
#[derive(Serialize, Deserialize)]
pub(super) struct SentRecord<'a> {
    offset: i64,
    leader_epoch: Option<i32>,
    timestamp_ms: i64,
    timestamp_type: TimestampType,
    #[serde(borrow)]
    key: Option<&'a [u8]>,
    #[serde(borrow)]
    value: Option<&'a [u8]>,
    #[serde(borrow)]
    headers: Vec<(&'a [u8], Option<&'a [u8]>)>,
}

impl<'a> From<&'a Record> for SentRecord<'a> {
    fn from(record: &'a Record) -> Self {
        let headers = record.headers.iter();
        Self {
            offset: record.offset,
            leader_epoch: record.leader_epoch,
            timestamp_ms: record.timestamp_ms,
            timestamp_type: record.timestamp_type,
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            headers: headers
                .map(|(name, value)| (name.as_slice(), value.as_deref()))
                .collect(),
        }
    }
}

impl From<SentRecord<'_>> for Record {
    fn from(sent: SentRecord<'_>) -> Self {
        let headers = sent.headers.into_iter();
        Self {
            offset: sent.offset,
            leader_epoch: sent.leader_epoch,
            timestamp_ms: sent.timestamp_ms,
            timestamp_type: sent.timestamp_type,
            key: sent.key.map(<[u8]>::to_vec),
            value: sent.value.map(<[u8]>::to_vec),
            headers: headers
                .map(|(name, value)| (name.to_vec(), value.map(<[u8]>::to_vec)))
                .collect(),
        }
    }
}

pub(super) fn send_frame(out: &mut impl Write, frame: &Frame<'_>) -> io::Result<()> {
    let mut bytes = postcard::to_extend(frame, vec![0; 4]).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len() - 4).map_err(io::Error::other)?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    out.write_all(&bytes)?;
    out.flush()
}
