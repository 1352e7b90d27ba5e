//! What a write does, as a value: rendered for DynamoDB, applied in memory.

use aws_sdk_dynamodb::types::AttributeValue;

use super::condition::{Condition, no_item};
use crate::store::item::{Item, number};
use crate::store::keys::Key;

/// A write, and under which condition it happens.
#[derive(Debug, Clone)]
pub struct Write {
    pub(in crate::store) action: Action,
    pub(in crate::store) condition: Option<Condition>,
}

/// What a write does.
#[derive(Debug, Clone)]
pub(in crate::store) enum Action {
    /// Puts the item, over another one if there is one.
    Put(Item),
    /// Changes attributes of the item, and makes it if there is none.
    Update(Key, Vec<Change>),
    /// Deletes the item, if there is one.
    Delete(Key),
    /// Writes nothing, and lets its transaction happen only under its condition.
    Check(Key),
}

/// A change of one attribute.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::store) enum Change {
    /// The attribute becomes this value.
    Set(&'static str, AttributeValue),
    /// The attribute becomes this value unless it has one.
    SetOnce(&'static str, AttributeValue),
    /// The attribute goes, if it is there.
    Remove(&'static str),
    /// The number grows by this much, from 0 if it is not there.
    Add(&'static str, i32),
}

/// A write that changes attributes of one item.
#[derive(Debug, Clone)]
pub struct Update {
    pub(in crate::store) key: Key,
    pub(in crate::store) changes: Vec<Change>,
    pub(in crate::store) condition: Option<Condition>,
}

impl Update {
    /// Changes the item at `key`; makes it if there is none and no condition says otherwise.
    pub(in crate::store) fn of(key: Key) -> Self {
        Self {
            key,
            changes: Vec::new(),
            condition: None,
        }
    }

    /// Only under this condition.
    pub(in crate::store) fn when(mut self, condition: Condition) -> Self {
        self.condition = Some(condition);
        self
    }

    /// Lets an attribute be `value`.
    pub(in crate::store) fn set(self, attribute: &'static str, value: AttributeValue) -> Self {
        self.with(Change::Set(attribute, value))
    }

    /// Lets an attribute be `value` unless it has one.
    pub(in crate::store) fn set_once(self, attribute: &'static str, value: AttributeValue) -> Self {
        self.with(Change::SetOnce(attribute, value))
    }

    /// Removes an attribute.
    pub(in crate::store) fn remove(self, attribute: &'static str) -> Self {
        self.with(Change::Remove(attribute))
    }

    /// Adds to a number.
    pub(in crate::store) fn add(self, attribute: &'static str, more: i32) -> Self {
        self.with(Change::Add(attribute, more))
    }

    /// Sets an attribute where there is a value, and removes it where there is none.
    pub(in crate::store) fn set_or_remove(
        self,
        attribute: &'static str,
        value: Option<AttributeValue>,
    ) -> Self {
        self.with(match value {
            Some(value) => Change::Set(attribute, value),
            None => Change::Remove(attribute),
        })
    }

    fn with(mut self, change: Change) -> Self {
        self.changes.push(change);
        self
    }
}

impl From<Update> for Write {
    fn from(update: Update) -> Self {
        Self {
            action: Action::Update(update.key, update.changes),
            condition: update.condition,
        }
    }
}

impl Write {
    fn new(action: Action) -> Self {
        Self {
            action,
            condition: None,
        }
    }

    /// Puts an item, over another one unless there is a condition.
    pub(in crate::store) fn put(item: Item) -> Self {
        Self::new(Action::Put(item))
    }

    /// Puts an item where there is none.
    pub(in crate::store) fn put_new(item: Item) -> Self {
        Self::put(item).when(no_item())
    }

    /// Lets a transaction happen only where there is no such item.
    pub(in crate::store) fn none(key: Key) -> Self {
        Self::check(key, no_item())
    }

    /// Lets a transaction happen only where the item is as the condition says.
    pub(in crate::store) fn check(key: Key, condition: Condition) -> Self {
        Self::new(Action::Check(key)).when(condition)
    }

    /// Deletes an item, if there is one.
    pub(in crate::store) fn delete(key: Key) -> Self {
        Self::new(Action::Delete(key))
    }

    /// Only under this condition.
    pub(in crate::store) fn when(mut self, condition: Condition) -> Self {
        self.condition = Some(condition);
        self
    }
}

impl Change {
    /// Makes the change.
    pub(in crate::store) fn apply(&self, item: &mut Item) {
        match self {
            Self::Set(attribute, value) => {
                item.insert((*attribute).to_owned(), value.clone());
            }
            Self::SetOnce(attribute, value) => {
                item.entry((*attribute).to_owned())
                    .or_insert_with(|| value.clone());
            }
            Self::Remove(attribute) => {
                item.remove(*attribute);
            }
            Self::Add(attribute, more) => {
                let before = item.get(*attribute).and_then(|value| value.as_n().ok());
                let before: i128 = before.and_then(|number| number.parse().ok()).unwrap_or(0);
                item.insert((*attribute).to_owned(), number(before + i128::from(*more)));
            }
        }
    }
}
