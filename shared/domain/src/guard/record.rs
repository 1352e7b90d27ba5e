//! Records as they are: raw bytes that nobody decodes, and what may be said about them without showing them.

use std::fmt;

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::text::{count, time};

/// What a record's timestamp means (`message.timestamp.type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TimestampType {
    /// There is none.
    NotAvailable,
    /// Its producer set it.
    CreateTime,
    /// The broker set it.
    LogAppendTime,
}

impl fmt::Display for TimestampType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAvailable => "NoTimestampType",
            Self::CreateTime => "CreateTime",
            Self::LogAppendTime => "LogAppendTime",
        })
    }
}

/// One header: its key, and its value, which may be absent.
pub type Header = (Vec<u8>, Option<Vec<u8>>);

/// One record, byte for byte. Its payload is shown by nothing here, `Debug` included.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    /// Where it is in its partition.
    pub offset: i64,
    /// The leader epoch of its batch; `None` where the broker did not say.
    pub leader_epoch: Option<i32>,
    /// Milliseconds since 1970; -1 where there is none.
    pub timestamp_ms: i64,
    /// What the timestamp means.
    pub timestamp_type: TimestampType,
    /// The key. No key is not an empty one.
    pub key: Option<Vec<u8>>,
    /// The value. None is a tombstone, not an empty value.
    pub value: Option<Vec<u8>>,
    /// The headers in their order, duplicates too.
    pub headers: Vec<Header>,
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("outline", &self.outline())
            .finish_non_exhaustive()
    }
}

/// Lower-case hexadecimal SHA-256 over a record's key, value and headers, each with its length, absence told from
/// emptiness.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(pub String);

/// What may be said of a record: where it is, how big, and hashes that recognise it. None of its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outline {
    /// Where it is in its partition.
    pub offset: i64,
    /// The leader epoch of its batch.
    pub leader_epoch: Option<i32>,
    /// Milliseconds since 1970; -1 where there is none.
    pub timestamp_ms: i64,
    /// What the timestamp means.
    pub timestamp_type: TimestampType,
    /// Bytes of the key; `None` for no key.
    pub key_bytes: Option<usize>,
    /// Bytes of the value; `None` for a tombstone.
    pub value_bytes: Option<usize>,
    /// How many headers.
    pub headers: usize,
    /// Recognises key, value and headers.
    pub fingerprint: Fingerprint,
}

impl Outline {
    /// The timestamp as an instant, where there is one that can be told.
    #[must_use]
    pub fn timestamp(&self) -> Option<Timestamp> {
        (self.timestamp_type != TimestampType::NotAvailable && self.timestamp_ms >= 0)
            .then(|| Timestamp::from_millisecond(self.timestamp_ms).ok())?
    }

    /// Whether `other` is the same record at the same place: nothing about it changed.
    #[must_use]
    pub fn is_same_record(&self, other: &Self) -> bool {
        self == other
    }
}

impl fmt::Display for Outline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = |bytes: Option<usize>, none: &str| {
            bytes.map_or_else(|| none.to_owned(), |n| count(n, "byte"))
        };
        write!(
            f,
            "record {}: key {}, value {}, {}, SHA-256 {}",
            self.offset,
            bytes(self.key_bytes, "none"),
            bytes(self.value_bytes, "none (tombstone)"),
            count(self.headers, "header"),
            self.fingerprint.0.get(..12).unwrap_or(&self.fingerprint.0),
        )?;
        match self.timestamp() {
            Some(at) => write!(f, ", {} {}", self.timestamp_type, time(at)),
            None => Ok(()),
        }
    }
}

/// The hash over key, value and headers.
#[must_use]
pub fn fingerprint(key: Option<&[u8]>, value: Option<&[u8]>, headers: &[Header]) -> Fingerprint {
    let mut hash = Sha256::new();
    let mut field = |bytes: Option<&[u8]>| match bytes {
        None => hash.update([0]),
        Some(bytes) => {
            hash.update([1]);
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        }
    };
    field(key);
    field(value);
    for (name, value) in headers {
        field(Some(name));
        field(value.as_deref());
    }
    Fingerprint(HEXLOWER.encode(&hash.finalize()))
}

/// Lower-case hexadecimal SHA-256 of `bytes`.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

impl Record {
    /// Bytes of its key, its value and its headers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let length = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
        let headers = self.headers.iter();
        let headers: usize = headers
            .map(|(name, value)| name.len() + length(value))
            .sum();
        length(&self.key) + length(&self.value) + headers
    }

    /// What may be said of it.
    #[must_use]
    pub fn outline(&self) -> Outline {
        Outline {
            offset: self.offset,
            leader_epoch: self.leader_epoch,
            timestamp_ms: self.timestamp_ms,
            timestamp_type: self.timestamp_type,
            key_bytes: self.key.as_ref().map(Vec::len),
            value_bytes: self.value.as_ref().map(Vec::len),
            headers: self.headers.len(),
            fingerprint: fingerprint(self.key.as_deref(), self.value.as_deref(), &self.headers),
        }
    }
}
