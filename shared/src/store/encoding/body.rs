//! Packed values in items: within the item that they belong to, or in chunks beside it.
//!
//! Chunks are written first and the item that names them last: until then nothing is visible.

use aws_sdk_dynamodb::types::AttributeValue;
use jiff::Timestamp;
use serde::de::DeserializeOwned;

use super::packed::{Packed, unpack};
use crate::store::Store;
use crate::store::error::Cause;
use crate::store::item::{Attributes, Damaged, Item, bytes, number, text, ttl};
use crate::store::keys::{self, Key};
use crate::store::table::{Query, Range};

/// The most that a body may take up within an item, in bytes; DynamoDB's limit for a whole item is 400 KiB.
pub(in crate::store) const IN_ITEM: usize = 300 << 10;

/// The same for a body that is not the only one of its item.
pub(in crate::store) const BESIDE: usize = 64 << 10;

/// The attributes of one body.
pub(in crate::store) struct Field {
    /// The packed bytes, where they fit.
    pub(in crate::store) packed: &'static str,
    /// Their hash.
    sha256: &'static str,
    /// How many chunks they are in, where they do not.
    chunks: &'static str,
}

pub(in crate::store) const BODY: Field = Field {
    packed: "body",
    sha256: "body_sha256",
    chunks: "body_chunks",
};

pub(in crate::store) const ANOMALIES: Field = Field {
    packed: "anomalies",
    sha256: "anomalies_sha256",
    chunks: "anomalies_chunks",
};

pub(in crate::store) const REFUSALS: Field = Field {
    packed: "refusals",
    sha256: "refusals_sha256",
    chunks: "refusals_chunks",
};

impl Field {
    /// The attribute that a body has none of when it has `place`: one stands for a body in its item, the other for chunks.
    pub(in crate::store) fn other(&self, place: &str) -> &'static str {
        if place == self.packed {
            self.chunks
        } else {
            self.packed
        }
    }

    /// The hash of the body in `item`.
    pub(in crate::store) fn sha256<'a>(&self, item: &'a Item) -> Result<&'a str, Damaged> {
        item.text(self.sha256)
    }
}

impl Store {
    /// Writes the chunks of `packed` under `pk`, if it needs any, and returns the attributes that stand for it.
    ///
    /// `expires_at` must be later than the expiry of the item that will name them.
    pub(in crate::store) async fn put_body(
        &self,
        field: &Field,
        packed: &Packed,
        limit: usize,
        pk: &str,
        expires_at: Option<Timestamp>,
    ) -> Result<[(&'static str, AttributeValue); 2], Cause> {
        let sha256 = packed.sha256();
        let whole = packed.bytes();
        if whole.len() <= limit {
            return Ok([(field.packed, bytes(whole)), (field.sha256, text(sha256))]);
        }
        let mut count = 0;
        for (index, chunk) in whole.chunks(IN_ITEM).enumerate() {
            let key = Key::new(pk.to_owned(), keys::chunk(&sha256, index));
            let item = crate::store::item::item(key)
                .with(BODY.packed, bytes(chunk))
                .with_some("ttl", expires_at.map(ttl));
            self.table.put(item).await?;
            count += 1;
        }
        Ok([(field.chunks, number(count)), (field.sha256, text(sha256))])
    }

    /// The body that `item` holds or names, proven undamaged; `None` if it has none.
    pub(in crate::store) async fn some_body<T: DeserializeOwned>(
        &self,
        field: &Field,
        item: &Item,
        pk: &str,
    ) -> Result<Option<T>, Cause> {
        if let Some(packed) = item.some_bytes(field.packed)? {
            return Ok(Some(unpack(packed)?));
        }
        let Some(count) = item.some_number(field.chunks)? else {
            return Ok(None);
        };
        let range = Range::Prefix(keys::chunks_of(field.sha256(item)?));
        let chunks = self.table.query(Query::new(pk, range)).await?;
        let gone = Damaged {
            attribute: field.chunks,
        };
        if usize::try_from(count) != Ok(chunks.len()) {
            return Err(gone.into());
        }
        let mut whole = Vec::new();
        for chunk in &chunks {
            let chunk = chunk.some_bytes(BODY.packed)?;
            whole.extend_from_slice(chunk.ok_or_else(|| gone.clone())?);
        }
        Ok(Some(unpack(&whole)?))
    }

    /// The body that `item` must have.
    pub(in crate::store) async fn body<T: DeserializeOwned>(
        &self,
        field: &Field,
        item: &Item,
        pk: &str,
    ) -> Result<T, Cause> {
        let missing = Damaged {
            attribute: field.packed,
        };
        let body = self.some_body(field, item, pk).await?;
        body.ok_or_else(|| missing.into())
    }

    /// The body of the item at `key`.
    pub(in crate::store) async fn packed<T: DeserializeOwned>(
        &self,
        key: &Key,
    ) -> Result<Option<T>, Cause> {
        match self.table.get(key).await? {
            None => Ok(None),
            Some(item) => Ok(Some(self.body(&BODY, &item, &key.pk).await?)),
        }
    }

    /// Whether the item at `key` has exactly this body.
    pub(in crate::store) async fn holds(&self, key: &Key, packed: &Packed) -> Result<bool, Cause> {
        match self.table.get(key).await? {
            None => Ok(false),
            Some(item) => Ok(BODY.sha256(&item)? == packed.sha256()),
        }
    }
}
