//! Values as bytes: a version, a SHA-256, and JSON compressed by deflate.

use std::fmt;
use std::io::{Read, Write};

use data_encoding::HEXLOWER;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

/// The first byte. Another layout gets another one, and readers know both for a release.
const VERSION: u8 = 1;

/// The most that a value may take up uncompressed, in bytes. Holds for writers too: what cannot be read is not kept.
/// A plan of 10,000 moves whose commits bear 4 KB of metadata, before and after, takes up 107 MB.
pub(in crate::store) const LIMIT: usize = 160 << 20;

const HASH_LEN: usize = 32;

/// What is wrong with packed bytes, or with a value that is to be packed. Never tells what they hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    #[error("packed in a layout of another release (version {0})")]
    Version(u8),
    #[error("cut off")]
    Short,
    #[error("damaged: the hash differs")]
    Hash,
    #[error("damaged: not deflate")]
    Deflate,
    #[error("more than {LIMIT} bytes uncompressed")]
    TooBig,
    /// The place only: serde's own text quotes the value.
    #[error("not the JSON expected, at line {line} column {column}")]
    Json { line: usize, column: usize },
}

impl From<serde_json::Error> for PackError {
    fn from(error: serde_json::Error) -> Self {
        // The only thing that fails while writing is the limit.
        if error.is_io() {
            return Self::TooBig;
        }
        Self::Json {
            line: error.line(),
            column: error.column(),
        }
    }
}

/// A value's packed bytes.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::store) struct Packed(Vec<u8>);

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packed({} bytes)", self.0.len())
    }
}

impl Packed {
    /// Packs a value.
    pub(in crate::store) fn new<T: Serialize + ?Sized>(value: &T) -> Result<Self, PackError> {
        let mut encoder = DeflateEncoder::new(vec![0; 1 + HASH_LEN], Compression::default());
        serde_json::to_writer(
            Limited {
                to: &mut encoder,
                left: LIMIT,
            },
            value,
        )?;
        let mut bytes = encoder.finish().map_err(|_| PackError::Deflate)?;
        let (head, body) = bytes.split_at_mut(1 + HASH_LEN);
        head[0] = VERSION;
        head[1..].copy_from_slice(&Sha256::digest(&*body));
        Ok(Self(bytes))
    }

    pub(in crate::store) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The hash within, which names these bytes among all others, in hexadecimal.
    pub(in crate::store) fn sha256(&self) -> String {
        HEXLOWER.encode(&self.0[1..=HASH_LEN])
    }
}

/// Unpacks a value, if every byte is as it was written.
pub(in crate::store) fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, PackError> {
    let (&version, rest) = bytes.split_first().ok_or(PackError::Short)?;
    if version != VERSION {
        return Err(PackError::Version(version));
    }
    let (hash, body) = rest.split_at_checked(HASH_LEN).ok_or(PackError::Short)?;
    if Sha256::digest(body).as_slice() != hash {
        return Err(PackError::Hash);
    }
    let mut json = Vec::new();
    let most = u64::try_from(LIMIT).unwrap_or(u64::MAX) + 1;
    DeflateDecoder::new(body)
        .take(most)
        .read_to_end(&mut json)
        .map_err(|_| PackError::Deflate)?;
    if json.len() > LIMIT {
        return Err(PackError::TooBig);
    }
    Ok(serde_json::from_slice(&json)?)
}

/// A writer that fails instead of writing more than a limit.
struct Limited<W> {
    to: W,
    left: usize,
}

impl<W: Write> Write for Limited<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.left = self
            .left
            .checked_sub(written)
            .ok_or(std::io::ErrorKind::FileTooLarge)?;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_value_comes_back_as_it_was(value: Vec<(String, Option<i64>)>) {
            let packed = Packed::new(&value).unwrap();
            prop_assert_eq!(unpack::<Vec<(String, Option<i64>)>>(packed.bytes()), Ok(value));
        }

        #[test]
        fn any_damaged_byte_is_noticed(value: Vec<i64>, at: prop::sample::Index, by in 1_u8..) {
            let mut bytes = Packed::new(&value).unwrap().bytes().to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= by;
            prop_assert!(unpack::<Vec<i64>>(&bytes).is_err());
        }

        #[test]
        fn any_cut_is_noticed(value: Vec<i64>, at: prop::sample::Index) {
            let packed = Packed::new(&value).unwrap();
            let at = at.index(packed.bytes().len());
            prop_assert!(unpack::<Vec<i64>>(&packed.bytes()[..at]).is_err());
        }
    }

    #[test]
    fn another_layout_is_named_and_not_guessed_at() {
        let mut bytes = Packed::new(&1).unwrap().bytes().to_vec();
        bytes[0] = 9;
        assert_eq!(unpack::<i32>(&bytes), Err(PackError::Version(9)));
    }

    #[test]
    fn a_decompression_bomb_is_refused() {
        // As a bad writer would make it: whole, with a right hash, a thousand times bigger than it looks.
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(b"\"").unwrap();
        let spaces = vec![b' '; 1 << 20];
        for _ in 0..=(LIMIT >> 20) {
            encoder.write_all(&spaces).unwrap();
        }
        encoder.write_all(b"\"").unwrap();
        let body = encoder.finish().unwrap();
        assert!(body.len() < LIMIT / 500, "{}", body.len());
        let mut bytes = vec![VERSION];
        bytes.extend(Sha256::digest(&body));
        bytes.extend(body);
        assert_eq!(unpack::<String>(&bytes), Err(PackError::TooBig));
    }

    #[test]
    fn what_could_not_be_read_is_not_written() {
        let value = " ".repeat(LIMIT);
        assert_eq!(Packed::new(&value), Err(PackError::TooBig));
    }

    #[test]
    fn an_error_does_not_quote_what_it_read() {
        let packed = Packed::new("a secret").unwrap();
        let error = unpack::<i32>(packed.bytes()).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("secret"));
    }
}
