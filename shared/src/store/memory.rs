//! The table in memory, for tests that need no real one.
//!
//! Conditions, updates, transactions, ranges and projections do what they do in DynamoDB, and so do its limits on the size
//! of items, keys and transactions; the contract tests run on both. What it does not do: throttle, fail, lose an answer,
//! let two writers meet in one moment, or delete what has expired.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::FutureExt as _;

use super::error::Cause;
use super::item::{Attributes, Item, item};
use super::keys::Key;
use super::table::{
    Action, Query, Range, Table, TableFuture, Transacted, Update, Updated, Write, no_item,
};

/// The largest item, in bytes.
const LARGEST_ITEM: usize = 400 << 10;

/// The longest partition key, in bytes.
const LONGEST_PK: usize = 2_048;

/// The longest sort key, in bytes.
const LONGEST_SK: usize = 1_024;

/// The most writes of one transaction.
const MOST_WRITES: usize = 100;

/// The largest transaction, in bytes.
const LARGEST_TRANSACTION: usize = 4 << 20;

/// The most that one request of a query reads, in bytes.
const LARGEST_PAGE: usize = 1 << 20;

type Items = BTreeMap<(String, String), Item>;

/// A table in memory. Its clones are the same table.
#[derive(Debug, Clone, Default)]
pub struct MemoryTable {
    items: Arc<Mutex<Items>>,
}

impl MemoryTable {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Every item under `pk`, in the order of the sort keys.
    #[must_use]
    pub fn items(&self, pk: &str) -> Vec<Item> {
        let items = self.lock();
        let under = items.range((pk.to_owned(), String::new())..);
        under
            .take_while(|((found, _), _)| found == pk)
            .map(|(_, item)| item.clone())
            .collect()
    }

    /// Puts an item past every check but that it has a key; says whether it has.
    pub fn insert(&self, item: Item) -> bool {
        let Ok(at) = key_of(&item) else {
            return false;
        };
        self.lock().insert(at, item);
        true
    }

    /// Deletes an item; says whether it was there.
    pub fn remove(&self, item: &Item) -> bool {
        key_of(item).is_ok_and(|at| self.lock().remove(&at).is_some())
    }

    fn lock(&self) -> MutexGuard<'_, Items> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes one write, if its condition holds; answers the item before and after it.
    async fn write(&self, write: Write) -> Result<(bool, Option<Item>), Cause> {
        // Other writers may come first, as they may in DynamoDB.
        tokio::task::yield_now().await;
        let mut items = self.lock();
        let (at, after) = outcome(&items, &write)?;
        match after {
            None => Ok((false, items.get(&at).cloned())),
            Some(after) => {
                put(&mut items, at, after.clone());
                Ok((true, after))
            }
        }
    }

    fn range(&self, query: &Query) -> Vec<Item> {
        let found = self.items(&query.pk).into_iter();
        found
            .filter(|item| match (&query.range, item.text("sk")) {
                (_, Err(_)) => false,
                (Range::All, _) => true,
                (Range::Prefix(prefix), Ok(sk)) => sk.starts_with(prefix.as_str()),
                (Range::Between(from, to), Ok(sk)) => from.as_str() <= sk && sk <= to.as_str(),
            })
            .collect()
    }
}

impl Table for MemoryTable {
    fn get<'a>(&'a self, key: &'a Key) -> TableFuture<'a, Option<Item>> {
        async move {
            tokio::task::yield_now().await;
            check_key(&key.pk, &key.sk)?;
            Ok(self.lock().get(&(key.pk.clone(), key.sk.clone())).cloned())
        }
        .boxed()
    }

    fn query(&self, query: Query) -> TableFuture<'_, Vec<Item>> {
        async move {
            tokio::task::yield_now().await;
            let found = self.range(&query).into_iter();
            Ok(found.map(|item| projected(item, &query)).collect())
        }
        .boxed()
    }

    fn query_last(&self, query: Query, limit: usize) -> TableFuture<'_, Vec<Item>> {
        async move {
            tokio::task::yield_now().await;
            let mut read = 0;
            let found = self.range(&query).into_iter().rev().take(limit);
            // Whole items count, whatever is asked for of them.
            let page = found.take_while(|item| {
                read += size(item);
                read <= LARGEST_PAGE
            });
            Ok(page.map(|item| projected(item, &query)).collect())
        }
        .boxed()
    }

    fn put(&self, item: Item) -> TableFuture<'_, ()> {
        async move { self.write(Write::put(item)).await.map(|_| ()) }.boxed()
    }

    fn put_new(&self, item: Item) -> TableFuture<'_, bool> {
        async move {
            let (held, _) = self.write(Write::put(item).when(no_item())).await?;
            Ok(held)
        }
        .boxed()
    }

    fn update(&self, update: Update) -> TableFuture<'_, bool> {
        async move {
            let (held, _) = self.write(update.into()).await?;
            Ok(held)
        }
        .boxed()
    }

    fn update_returning(&self, update: Update) -> TableFuture<'_, Updated> {
        async move {
            Ok(match self.write(update.into()).await? {
                (true, after) => Updated::Done(after.unwrap_or_default()),
                (false, there) => Updated::Not(there),
            })
        }
        .boxed()
    }

    fn transact<'a>(&'a self, writes: &'a [Write]) -> TableFuture<'a, Transacted> {
        async move {
            tokio::task::yield_now().await;
            let mut items = self.lock();
            let outcomes = writes.iter().map(|write| outcome(&items, write));
            let outcomes: Vec<_> = outcomes.collect::<Result<_, _>>()?;
            check_transaction(writes, &outcomes)?;
            let failed: Vec<_> = outcomes.iter().map(|(_, after)| after.is_none()).collect();
            if failed.contains(&true) {
                return Ok(Transacted::Failed(failed));
            }
            for (at, after) in outcomes {
                put(&mut items, at, after.flatten());
            }
            Ok(Transacted::Done)
        }
        .boxed()
    }
}

type At = (String, String);

/// Where a write happens, and what is there after it; `None` if its condition does not hold.
fn outcome(items: &Items, write: &Write) -> Result<(At, Option<Option<Item>>), Cause> {
    let at = match &write.action {
        Action::Put(item) => key_of(item)?,
        Action::Update(key, _) | Action::Delete(key) | Action::Check(key) => {
            (key.pk.clone(), key.sk.clone())
        }
    };
    check_key(&at.0, &at.1)?;
    let there = items.get(&at);
    let held = |condition: &super::table::Condition| condition.holds(there);
    if !write.condition.as_ref().is_none_or(held) {
        return Ok((at, None));
    }
    let after = match &write.action {
        Action::Put(item) => Some(item.clone()),
        Action::Update(key, changes) => {
            let mut after = there.cloned().unwrap_or_else(|| item(key.clone()));
            changes.iter().for_each(|change| change.apply(&mut after));
            Some(after)
        }
        Action::Delete(_) => None,
        Action::Check(_) => there.cloned(),
    };
    if after
        .as_ref()
        .is_some_and(|after| size(after) > LARGEST_ITEM)
    {
        return Err(invalid("Item size has exceeded the maximum allowed size"));
    }
    Ok((at, Some(after)))
}

fn put(items: &mut Items, at: At, after: Option<Item>) {
    match after {
        Some(after) => items.insert(at, after),
        None => items.remove(&at),
    };
}

fn key_of(item: &Item) -> Result<At, Cause> {
    Ok((item.text("pk")?.to_owned(), item.text("sk")?.to_owned()))
}

fn check_key(pk: &str, sk: &str) -> Result<(), Cause> {
    if pk.is_empty() || pk.len() > LONGEST_PK || sk.is_empty() || sk.len() > LONGEST_SK {
        return Err(invalid("a key is empty or too long"));
    }
    Ok(())
}

fn check_transaction(
    writes: &[Write],
    outcomes: &[(At, Option<Option<Item>>)],
) -> Result<(), Cause> {
    let items: BTreeSet<_> = outcomes.iter().map(|(at, _)| at).collect();
    if writes.is_empty() || writes.len() > MOST_WRITES || items.len() < writes.len() {
        return Err(invalid(
            "a transaction has no writes, more than 100, or two of one item",
        ));
    }
    let all: usize = writes
        .iter()
        .map(|write| match &write.action {
            Action::Put(item) => size(item),
            Action::Update(..) | Action::Delete(_) | Action::Check(_) => 0,
        })
        .sum();
    if all > LARGEST_TRANSACTION {
        return Err(invalid("a transaction has more than 4 MB"));
    }
    Ok(())
}

/// An error as DynamoDB answers it to a request that is not one.
fn invalid(message: &str) -> Cause {
    Cause::Service {
        code: "ValidationException".to_owned(),
        message: message.to_owned(),
        transient: false,
    }
}

fn projected(mut item: Item, query: &Query) -> Item {
    if !query.only.is_empty() {
        item.retain(|name, _| query.only.contains(&name.as_str()));
    }
    item
}

/// The size of an item in bytes, as DynamoDB counts it.
fn size(item: &Item) -> usize {
    let attribute = |(name, value): (&String, &AttributeValue)| {
        name.len()
            + match value {
                AttributeValue::S(text) => text.len(),
                AttributeValue::B(bytes) => bytes.as_ref().len(),
                AttributeValue::N(number) => number.len() / 2 + 1,
                _ => 1,
            }
    };
    item.iter().map(attribute).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::item::{bytes, number, text};
    use crate::store::table::equals;

    fn key(sk: &str) -> Key {
        Key::new("P".to_owned(), sk)
    }

    fn code<T: std::fmt::Debug>(answer: Result<T, Cause>) -> String {
        match answer.unwrap_err() {
            Cause::Service { code, .. } => code,
            other => panic!("{other}"),
        }
    }

    #[tokio::test]
    async fn what_dynamodb_does_not_take_is_not_taken() {
        let table = MemoryTable::new();
        let large = |bytes_of_it| item(key("large")).with("body", bytes(&vec![0; bytes_of_it]));
        table.put(large(LARGEST_ITEM - 20)).await.unwrap();
        assert_eq!(
            code(table.put(large(LARGEST_ITEM)).await),
            "ValidationException"
        );
        let long = Key::new("P".to_owned(), "s".repeat(LONGEST_SK + 1));
        assert_eq!(code(table.get(&long).await), "ValidationException");
        let writes = |count: usize| -> Vec<_> {
            let keys = (0..count).map(|n| key(&n.to_string()));
            keys.map(Write::delete).collect()
        };
        table.transact(&writes(MOST_WRITES)).await.unwrap();
        for refused in [writes(MOST_WRITES + 1), vec![Write::delete(key("a")); 2]] {
            assert_eq!(code(table.transact(&refused).await), "ValidationException");
        }
    }

    #[tokio::test]
    async fn an_update_makes_an_item_or_answers_the_one_that_is_there() {
        let table = MemoryTable::new();
        let count = || Update::of(key("n")).add("count", 1);
        let Updated::Done(one) = table.update_returning(count()).await.unwrap() else {
            panic!("nothing was in the way");
        };
        assert_eq!(one, item(key("n")).with("count", number(1)));
        let other = count().when(equals("count", text("1")));
        let Updated::Not(Some(there)) = table.update_returning(other).await.unwrap() else {
            panic!("a number is no text");
        };
        assert_eq!(there, one);
        let none = Update::of(key("m")).when(equals("count", number(1)));
        assert!(matches!(
            table.update_returning(none).await.unwrap(),
            Updated::Not(None)
        ));
        assert_eq!(table.items("P"), [one]);
    }

    #[tokio::test]
    async fn a_transaction_happens_whole_or_not_at_all() {
        let table = MemoryTable::new();
        let put = Write::put_new(item(key("a")));
        let check = |at: &str| Write::check(key(at), crate::store::table::item_exists());
        let failed = table.transact(&[put.clone(), check("b")]).await.unwrap();
        assert!(matches!(failed, Transacted::Failed(failed) if failed == [false, true]));
        assert!(table.items("P").is_empty());
        table.insert(item(key("b")));
        let done = table.transact(&[put, check("b")]).await.unwrap();
        assert!(matches!(done, Transacted::Done));
        assert_eq!(table.items("P").len(), 2);
    }

    #[tokio::test]
    async fn ranges_hold_both_ends_and_the_last_page_ends_at_a_megabyte() {
        let table = MemoryTable::new();
        for sk in ["T#1", "T#2", "T#3", "U#1"] {
            let large = item(key(sk)).with("body", bytes(&vec![0; 390 << 10]));
            assert!(table.insert(large));
        }
        let sks = |items: Vec<Item>| -> Vec<String> {
            let sk = |item: &Item| item.text("sk").unwrap().to_owned();
            items.iter().map(sk).collect()
        };
        let range = |range| Query::new("P", range).only(&["sk"]);
        let between = range(Range::Between("T#2".to_owned(), "T#3".to_owned()));
        assert_eq!(sks(table.query(between).await.unwrap()), ["T#2", "T#3"]);
        let prefix = range(Range::Prefix("T#".to_owned()));
        assert_eq!(sks(table.query(prefix).await.unwrap()).len(), 3);
        let last = table.query_last(range(Range::All), 10).await.unwrap();
        assert!(last.iter().all(|item| item.len() == 1));
        assert_eq!(sks(last), ["U#1", "T#3"]);
    }
}
