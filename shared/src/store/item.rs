//! Items: attributes by name, written and read with their types.

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::keys::{Key, instant};

pub(super) type Item = HashMap<String, AttributeValue>;

/// An item without an attribute that it must have, or with one of another kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a stored item is damaged: {attribute} is missing or not what it should be")]
pub struct Damaged {
    pub(super) attribute: &'static str,
}

pub(super) fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

pub(super) fn number(value: impl Into<i128>) -> AttributeValue {
    AttributeValue::N(value.into().to_string())
}

pub(super) fn flag(value: bool) -> AttributeValue {
    AttributeValue::Bool(value)
}

pub(super) fn bytes(value: &[u8]) -> AttributeValue {
    AttributeValue::B(Blob::new(value))
}

/// An instant as text that conditions can compare.
pub(super) fn time(at: Timestamp) -> AttributeValue {
    text(instant(at))
}

/// A `ttl`: epoch **seconds**; milliseconds would be 50,000 years away.
pub(super) fn ttl(at: Timestamp) -> AttributeValue {
    AttributeValue::N(at.as_second().to_string())
}

/// A value that serde writes as one word, such as a status.
pub(super) fn word(value: &impl Serialize) -> AttributeValue {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => text(word),
        other => text(other.map_or(String::new(), |other| other.to_string())),
    }
}

/// A small value as JSON.
pub(super) fn json(value: &impl Serialize) -> AttributeValue {
    text(serde_json::to_string(value).unwrap_or_default())
}

/// A new item under `key`.
pub(super) fn item(key: Key) -> Item {
    Item::from([
        ("pk".to_owned(), text(key.pk)),
        ("sk".to_owned(), text(key.sk)),
    ])
}

/// Reading and writing by name. A name that is absent is `None`; one of another kind is damage.
pub(super) trait Attributes {
    fn with(self, name: &str, value: AttributeValue) -> Self;
    fn with_some(self, name: &str, value: Option<AttributeValue>) -> Self;
    fn with_all<const N: usize>(self, attributes: [(&'static str, AttributeValue); N]) -> Self;
    fn text(&self, name: &'static str) -> Result<&str, Damaged>;
    fn some_text(&self, name: &'static str) -> Result<Option<&str>, Damaged>;
    fn time(&self, name: &'static str) -> Result<Timestamp, Damaged>;
    fn some_time(&self, name: &'static str) -> Result<Option<Timestamp>, Damaged>;
    fn some_number(&self, name: &'static str) -> Result<Option<i64>, Damaged>;
    fn some_bytes(&self, name: &'static str) -> Result<Option<&[u8]>, Damaged>;
    fn some_flag(&self, name: &'static str) -> Result<Option<bool>, Damaged>;
    fn some_word<T: DeserializeOwned>(&self, name: &'static str) -> Result<Option<T>, Damaged>;
    fn some_json<T: DeserializeOwned>(&self, name: &'static str) -> Result<Option<T>, Damaged>;
}

fn read<'a, T>(
    item: &'a Item,
    attribute: &'static str,
    as_kind: impl FnOnce(&'a AttributeValue) -> Option<T>,
) -> Result<Option<T>, Damaged> {
    item.get(attribute)
        .map(|value| as_kind(value).ok_or(Damaged { attribute }))
        .transpose()
}

impl Attributes for Item {
    fn with(mut self, name: &str, value: AttributeValue) -> Self {
        self.insert(name.to_owned(), value);
        self
    }

    fn with_some(self, name: &str, value: Option<AttributeValue>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    fn with_all<const N: usize>(self, attributes: [(&'static str, AttributeValue); N]) -> Self {
        attributes
            .into_iter()
            .fold(self, |item, (name, value)| item.with(name, value))
    }

    fn text(&self, name: &'static str) -> Result<&str, Damaged> {
        self.some_text(name)?.ok_or(Damaged { attribute: name })
    }

    fn some_text(&self, name: &'static str) -> Result<Option<&str>, Damaged> {
        read(self, name, |value| value.as_s().ok().map(String::as_str))
    }

    fn time(&self, name: &'static str) -> Result<Timestamp, Damaged> {
        self.some_time(name)?.ok_or(Damaged { attribute: name })
    }

    fn some_time(&self, name: &'static str) -> Result<Option<Timestamp>, Damaged> {
        read(self, name, |value| value.as_s().ok()?.parse().ok())
    }

    fn some_number(&self, name: &'static str) -> Result<Option<i64>, Damaged> {
        read(self, name, |value| value.as_n().ok()?.parse().ok())
    }

    fn some_bytes(&self, name: &'static str) -> Result<Option<&[u8]>, Damaged> {
        read(self, name, |value| value.as_b().ok().map(Blob::as_ref))
    }

    fn some_flag(&self, name: &'static str) -> Result<Option<bool>, Damaged> {
        read(self, name, |value| value.as_bool().ok().copied())
    }

    fn some_json<T: DeserializeOwned>(&self, name: &'static str) -> Result<Option<T>, Damaged> {
        self.some_text(name)?
            .map(|text| serde_json::from_str(text).map_err(|_| Damaged { attribute: name }))
            .transpose()
    }

    fn some_word<T: DeserializeOwned>(&self, name: &'static str) -> Result<Option<T>, Damaged> {
        read(self, name, |value| {
            serde_json::from_value(serde_json::Value::from(value.as_s().ok()?.as_str())).ok()
        })
    }
}
