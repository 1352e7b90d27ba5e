//! The few ways in which the table is asked and changed.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{
    AttributeValue, CancellationReason, ConditionCheck, Delete, Put, ReturnValue,
    ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};

use super::Store;
use super::error::Cause;
use super::item::{Item, text};
use super::keys::Key;

/// How often a write is tried that loses against a transaction on the same item.
const TRIES: u32 = 8;

/// The condition under which there is no item yet.
const IS_NEW: &str = "attribute_not_exists(#pk)";

/// Which sort keys.
pub(super) enum Range {
    All,
    /// Those that begin so.
    Prefix(String),
    /// Those between two, both included.
    Between(String, String),
}

/// What a condition compares, and what it compares with.
///
/// In every expression each attribute stands as `#name`, since DynamoDB reserves several hundred words.
#[derive(Default)]
struct Terms {
    condition: Option<&'static str>,
    values: HashMap<String, AttributeValue>,
}

/// A write, and under which condition it happens: one of a transaction, or a single change.
pub(super) struct Write<A = Action> {
    action: A,
    terms: Terms,
}

pub(super) enum Action {
    Put(Item),
    Change(Change),
    Delete(Key),
    /// Writes nothing, and lets the transaction happen only under its condition.
    Check(Key),
}

/// A change of single attributes of an item.
pub(super) struct Change {
    key: Key,
    expression: &'static str,
}

/// What became of an update.
pub(super) enum Updated {
    /// It happened, and this is the item after it.
    Done(Item),
    /// Its condition did not hold; the item as it is, if there is one.
    Not(Option<Item>),
}

/// What became of a transaction.
pub(super) enum Transacted {
    Done,
    /// Nothing happened. By write, in order: whether its condition failed.
    Failed(Vec<bool>),
}

impl<A> Write<A> {
    fn new(action: A) -> Self {
        Self {
            action,
            terms: Terms::default(),
        }
    }

    pub(super) fn when(mut self, condition: &'static str) -> Self {
        self.terms.condition = Some(condition);
        self
    }

    pub(super) fn value(mut self, name: &str, value: AttributeValue) -> Self {
        self.terms.values.insert(name.to_owned(), value);
        self
    }
}

impl Write<Change> {
    /// Changes an item; makes one unless there is a condition.
    pub(super) fn change(key: Key, expression: &'static str) -> Self {
        Self::new(Change { key, expression })
    }
}

impl From<Write<Change>> for Write {
    fn from(write: Write<Change>) -> Self {
        Self {
            action: Action::Change(write.action),
            terms: write.terms,
        }
    }
}

impl Write {
    /// Puts an item, over another one unless there is a condition.
    pub(super) fn put(item: Item) -> Self {
        Self::new(Action::Put(item))
    }

    /// Puts an item where there is none.
    pub(super) fn put_new(item: Item) -> Self {
        Self::put(item).when(IS_NEW)
    }

    /// That there is no such item.
    pub(super) fn none(key: Key) -> Self {
        Self::check(key).when(IS_NEW)
    }

    /// That an item is as its condition says.
    pub(super) fn check(key: Key) -> Self {
        Self::new(Action::Check(key))
    }

    /// Deletes an item, if there is one.
    pub(super) fn delete(key: Key) -> Self {
        Self::new(Action::Delete(key))
    }

    fn in_transaction(&self, table: &str) -> Result<TransactWriteItem, Cause> {
        let terms = &self.terms;
        let condition = terms.condition.map(str::to_owned);
        let write = TransactWriteItem::builder();
        let built = match &self.action {
            Action::Put(item) => Put::builder()
                .table_name(table)
                .set_item(Some(item.clone()))
                .set_condition_expression(condition)
                .set_expression_attribute_names(names(&[terms.expression()]))
                .set_expression_attribute_values(terms.values())
                .build()
                .map(|put| write.put(put)),
            Action::Change(Change { key, expression }) => Update::builder()
                .table_name(table)
                .set_key(Some(attributes(key)))
                .update_expression(*expression)
                .set_condition_expression(condition)
                .set_expression_attribute_names(names(&[expression, terms.expression()]))
                .set_expression_attribute_values(terms.values())
                .build()
                .map(|update| write.update(update)),
            Action::Delete(key) => Delete::builder()
                .table_name(table)
                .set_key(Some(attributes(key)))
                .set_condition_expression(condition)
                .set_expression_attribute_names(names(&[terms.expression()]))
                .set_expression_attribute_values(terms.values())
                .build()
                .map(|delete| write.delete(delete)),
            Action::Check(key) => ConditionCheck::builder()
                .table_name(table)
                .set_key(Some(attributes(key)))
                .set_condition_expression(condition)
                .set_expression_attribute_names(names(&[terms.expression()]))
                .set_expression_attribute_values(terms.values())
                .build()
                .map(|check| write.condition_check(check)),
        };
        let built = built.map_err(|error| Cause::Request(error.to_string()))?;
        Ok(built.build())
    }
}

impl Terms {
    fn expression(&self) -> &'static str {
        self.condition.unwrap_or_default()
    }

    /// An empty map would be refused.
    fn values(&self) -> Option<HashMap<String, AttributeValue>> {
        (!self.values.is_empty()).then(|| self.values.clone())
    }
}

fn attributes(key: &Key) -> Item {
    super::item::item(key.clone())
}

/// Every `#name` of some expressions, as itself.
fn names(expressions: &[&str]) -> Option<HashMap<String, String>> {
    let names: HashMap<_, _> = expressions
        .iter()
        .flat_map(|expression| expression.split('#').skip(1))
        .filter_map(|rest| {
            rest.split(|c: char| !c.is_alphanumeric() && c != '_')
                .next()
        })
        .map(|name| (format!("#{name}"), name.to_owned()))
        .collect();
    (!names.is_empty()).then_some(names)
}

/// What a try came to.
enum Try<T> {
    Settled(T),
    /// Another writer of the same item was under way; nothing happened.
    Interfered,
}

/// Tries until no other writer is in the way. DynamoDB leaves this to its callers, and so does its client.
async fn settle<T, F: Future<Output = Result<Try<T>, Cause>>>(
    attempt: impl Fn() -> F,
) -> Result<T, Cause> {
    for tries in 0..TRIES {
        if let Try::Settled(outcome) = attempt().await? {
            return Ok(outcome);
        }
        back_off(tries).await;
    }
    Err(Cause::Contended)
}

/// Waits longer each time, and hardly ever as long as another writer that lost in the same moment.
pub(super) async fn back_off(tries: u32) {
    let most = 20_u64 << tries.min(6);
    let random = RandomState::new().hash_one(tries);
    tokio::time::sleep(Duration::from_millis(most / 2 + random % most)).await;
}

/// The answer to a single write: `true` where its condition held.
fn held<T>(answer: Result<T, Cause>) -> Result<Try<bool>, Cause> {
    match answer {
        Ok(_) => Ok(Try::Settled(true)),
        Err(Cause::Service { code, .. }) if code == "ConditionalCheckFailedException" => {
            Ok(Try::Settled(false))
        }
        Err(Cause::Service { code, .. }) if code == "TransactionConflictException" => {
            Ok(Try::Interfered)
        }
        Err(other) => Err(other),
    }
}

/// Why a transaction was cancelled (`CancellationReasons`: one code for each write, `None` for those that were fine).
fn cancelled(reasons: &[CancellationReason]) -> Result<Try<Transacted>, Cause> {
    let codes: Vec<_> = reasons
        .iter()
        .map(|reason| reason.code().unwrap_or("None"))
        .collect();
    let failed: Vec<_> = codes
        .iter()
        .map(|code| *code == "ConditionalCheckFailed")
        .collect();
    if failed.contains(&true) {
        return Ok(Try::Settled(Transacted::Failed(failed)));
    }
    let passing = |code: &&str| {
        matches!(
            *code,
            "None" | "TransactionConflict" | "ThrottlingError" | "ProvisionedThroughputExceeded"
        )
    };
    if codes.iter().all(passing) {
        return Ok(Try::Interfered);
    }
    Err(Cause::Service {
        code: "TransactionCanceledException".to_owned(),
        message: codes.join(", "),
        transient: false,
    })
}

impl Store {
    /// One item, read strongly.
    pub(super) async fn get(&self, key: &Key) -> Result<Option<Item>, Cause> {
        let answer = self
            .client
            .get_item()
            .table_name(&self.table)
            .set_key(Some(attributes(key)))
            .consistent_read(true)
            .send()
            .await?;
        Ok(answer.item)
    }

    /// Every item of `range` under `pk`, read strongly, all pages, in the order of the sort keys. `only` names the
    /// attributes that are needed; all if it is empty.
    pub(super) async fn query(
        &self,
        pk: &str,
        range: Range,
        only: &'static str,
    ) -> Result<Vec<Item>, Cause> {
        let items = self
            .query_request(pk, range, only)
            .into_paginator()
            .items()
            .send()
            .collect::<Result<Vec<_>, _>>()
            .await?;
        Ok(items)
    }

    /// The last items of `range` under `pk`, the last one first: what one request returns, which is at most `limit`
    /// items and 1 MB (`Query` in DynamoDB's reference).
    pub(super) async fn query_last(
        &self,
        pk: &str,
        range: Range,
        only: &'static str,
        limit: i32,
    ) -> Result<Vec<Item>, Cause> {
        let answer = self
            .query_request(pk, range, only)
            .scan_index_forward(false)
            .limit(limit)
            .send()
            .await?;
        Ok(answer.items.unwrap_or_default())
    }

    fn query_request(&self, pk: &str, range: Range, only: &'static str) -> QueryFluentBuilder {
        let query = self.client.query().table_name(&self.table);
        let (within, query) = match range {
            Range::All => ("#pk = :pk", query),
            Range::Prefix(prefix) => (
                "#pk = :pk AND begins_with(#sk, :prefix)",
                query.expression_attribute_values(":prefix", text(prefix)),
            ),
            Range::Between(from, to) => (
                "#pk = :pk AND #sk BETWEEN :from AND :to",
                query
                    .expression_attribute_values(":from", text(from))
                    .expression_attribute_values(":to", text(to)),
            ),
        };
        query
            .key_condition_expression(within)
            .expression_attribute_values(":pk", text(pk))
            .set_projection_expression((!only.is_empty()).then(|| only.to_owned()))
            .set_expression_attribute_names(names(&[within, only]))
            .consistent_read(true)
    }

    /// Puts an item, whatever is there.
    pub(super) async fn put(&self, item: Item) -> Result<(), Cause> {
        let put = || async {
            let put = self.client.put_item().table_name(&self.table);
            let answer = put.set_item(Some(item.clone())).send().await;
            held(answer.map_err(Cause::from))
        };
        settle(put).await.map(|_| ())
    }

    /// Puts an item where there is none; says whether it did.
    pub(super) async fn put_new(&self, item: Item) -> Result<bool, Cause> {
        let put = || async {
            let put = self.client.put_item().table_name(&self.table);
            let answer = put
                .set_item(Some(item.clone()))
                .condition_expression(IS_NEW)
                .set_expression_attribute_names(names(&[IS_NEW]))
                .send()
                .await;
            held(answer.map_err(Cause::from))
        };
        settle(put).await
    }

    /// Changes an item if the condition holds; says whether it did.
    pub(super) async fn update(&self, write: Write<Change>) -> Result<bool, Cause> {
        let update = || async {
            let answer = self.update_request(&write).send().await;
            held(answer.map_err(Cause::from))
        };
        settle(update).await
    }

    /// Changes an item if the condition holds; returns it either way.
    pub(super) async fn update_returning(&self, write: Write<Change>) -> Result<Updated, Cause> {
        let update = || async {
            let answer = self
                .update_request(&write)
                .return_values(ReturnValue::AllNew)
                .return_values_on_condition_check_failure(
                    ReturnValuesOnConditionCheckFailure::AllOld,
                )
                .send()
                .await;
            match answer {
                Ok(answer) => Ok(Try::Settled(Updated::Done(
                    answer.attributes.unwrap_or_default(),
                ))),
                Err(SdkError::ServiceError(service))
                    if service.err().is_conditional_check_failed_exception() =>
                {
                    let item = match service.into_err() {
                        UpdateItemError::ConditionalCheckFailedException(failed) => failed.item,
                        _ => None,
                    };
                    Ok(Try::Settled(Updated::Not(item)))
                }
                Err(error) => match held::<()>(Err(error.into()))? {
                    Try::Settled(_) => Ok(Try::Settled(Updated::Not(None))),
                    Try::Interfered => Ok(Try::Interfered),
                },
            }
        };
        settle(update).await
    }

    fn update_request(&self, write: &Write<Change>) -> UpdateItemFluentBuilder {
        let Change { key, expression } = &write.action;
        let terms = &write.terms;
        self.client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(attributes(key)))
            .update_expression(*expression)
            .set_condition_expression(terms.condition.map(str::to_owned))
            .set_expression_attribute_names(names(&[expression, terms.expression()]))
            .set_expression_attribute_values(terms.values())
    }

    /// Does all of it or nothing.
    pub(super) async fn transact(&self, writes: &[Write]) -> Result<Transacted, Cause> {
        let transact = || async {
            let writes: Vec<_> = writes
                .iter()
                .map(|write| write.in_transaction(&self.table))
                .collect::<Result<_, _>>()?;
            let answer = self
                .client
                .transact_write_items()
                .set_transact_items(Some(writes))
                .send()
                .await;
            match answer {
                Ok(_) => Ok(Try::Settled(Transacted::Done)),
                Err(SdkError::ServiceError(service)) => match service.err() {
                    TransactWriteItemsError::TransactionCanceledException(why) => {
                        cancelled(why.cancellation_reasons())
                    }
                    _ => Err(SdkError::ServiceError(service).into()),
                },
                Err(error) => Err(error.into()),
            }
        };
        settle(transact).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reasons(codes: &[&str]) -> Vec<CancellationReason> {
        codes
            .iter()
            .map(|code| CancellationReason::builder().code(*code).build())
            .collect()
    }

    #[test]
    fn every_attribute_of_an_expression_gets_its_name() {
        let names = names(&["SET #a = :a, #b_1 = #c REMOVE #d", "attribute_exists(#a)"]).unwrap();
        let mut found: Vec<_> = names.into_values().collect();
        found.sort();
        assert_eq!(found, ["a", "b_1", "c", "d"]);
        assert_eq!(super::names(&["", ""]), None);
    }

    #[test]
    fn a_failed_condition_decides_even_beside_a_conflict() {
        let both = cancelled(&reasons(&["TransactionConflict", "ConditionalCheckFailed"]));
        assert!(
            matches!(both, Ok(Try::Settled(Transacted::Failed(failed))) if failed == [false, true])
        );
    }

    #[test]
    fn a_conflict_alone_is_tried_again_and_anything_else_is_an_error() {
        let conflict = cancelled(&reasons(&["None", "TransactionConflict"]));
        assert!(matches!(conflict, Ok(Try::Interfered)));
        assert!(cancelled(&reasons(&["None", "ValidationError"])).is_err());
    }
}
