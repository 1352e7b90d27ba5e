//! The table as the store sees it: the few ways in which it is asked and changed.
//!
//! Every answer is of the moment: no read is older than a write that was answered before it.

mod condition;
mod write;

use std::fmt::Debug;

use futures_util::future::BoxFuture;

pub(super) use condition::{
    Comparison, Condition, absent, at_most, differs, equals, item_exists, less, more, no_item,
    present,
};
pub(super) use write::{Action, Change, Update, Write};

use super::error::Cause;
use super::item::Item;
use super::keys::Key;

/// What an operation on the table comes to.
pub(super) type TableFuture<'a, T> = BoxFuture<'a, Result<T, Cause>>;

/// A table of items, each under a partition key and a sort key.
pub trait Table: Debug + Send + Sync {
    /// One item.
    fn get<'a>(&'a self, key: &'a Key) -> TableFuture<'a, Option<Item>>;

    /// Every item of a range, in the order of the sort keys.
    fn query(&self, query: Query) -> TableFuture<'_, Vec<Item>>;

    /// The last items of a range, the last one first: what one request returns, which is at most `limit` items and
    /// 1 MB (`Query` in DynamoDB's reference).
    fn query_last(&self, query: Query, limit: usize) -> TableFuture<'_, Vec<Item>>;

    /// Puts an item, over another one if there is one.
    fn put(&self, item: Item) -> TableFuture<'_, ()>;

    /// Puts an item where there is none; says whether it did.
    fn put_new(&self, item: Item) -> TableFuture<'_, bool>;

    /// Changes an item if the condition holds; says whether it did.
    fn update(&self, update: Update) -> TableFuture<'_, bool>;

    /// Changes an item if the condition holds; returns it either way.
    fn update_returning(&self, update: Update) -> TableFuture<'_, Updated>;

    /// Makes all of the writes or none: at most 100, each of another item.
    fn transact<'a>(&'a self, writes: &'a [Write]) -> TableFuture<'a, Transacted>;
}

/// Items under one partition key, and how much of each is needed.
#[derive(Debug, Clone)]
pub struct Query {
    pub(super) pk: String,
    pub(super) range: Range,
    /// The attributes that are needed; all if there are none.
    pub(super) only: &'static [&'static str],
}

/// A range of sort keys.
#[derive(Debug, Clone)]
pub(super) enum Range {
    /// All of them.
    All,
    /// Those that begin so.
    Prefix(String),
    /// Those between two, both included.
    Between(String, String),
}

/// What became of an update.
#[derive(Debug)]
pub enum Updated {
    /// It happened, and this is the item after it.
    Done(Item),
    /// Its condition did not hold; the item as it is, if there is one.
    Not(Option<Item>),
}

/// What became of a transaction.
#[derive(Debug)]
pub enum Transacted {
    /// All of it happened.
    Done,
    /// Nothing happened. For each write, in order: whether its condition failed.
    Failed(Vec<bool>),
}

impl Query {
    /// The items of `range` under `pk`, whole.
    pub(super) fn new(pk: &str, range: Range) -> Self {
        Self {
            pk: pk.to_owned(),
            range,
            only: &[],
        }
    }

    /// Only these attributes of each.
    pub(super) fn only(mut self, attributes: &'static [&'static str]) -> Self {
        self.only = attributes;
        self
    }
}
