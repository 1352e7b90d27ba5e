//! The table in DynamoDB.

mod expression;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{
    CancellationReason, ConditionCheck, Delete, Put, ReturnValue,
    ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update as UpdateItem,
};
use expression::Terms;
use futures_util::FutureExt as _;

use super::back_off::back_off;
use super::error::Cause;
use super::item::{Item, item};
use super::keys::Key;
use super::table::{
    Action, Query, Table, TableFuture, Transacted, Update, Updated, Write, no_item,
};

/// How often a write is tried that loses against a transaction on the same item.
const TRIES: u32 = 8;

/// One DynamoDB table. Reads are strongly consistent.
#[derive(Debug, Clone)]
pub struct DynamoTable {
    client: Client,
    name: String,
}

impl DynamoTable {
    /// The table of this name, reached through `client`.
    #[must_use]
    pub fn new(client: Client, name: String) -> Self {
        Self { client, name }
    }

    fn query_request(&self, query: Query) -> QueryFluentBuilder {
        let mut terms = Terms::default();
        let within = terms.within(&query.pk, query.range);
        let only = terms.only(query.only);
        self.client
            .query()
            .table_name(&self.name)
            .key_condition_expression(within)
            .set_projection_expression(only)
            .set_expression_attribute_names(terms.names())
            .set_expression_attribute_values(terms.values())
            .consistent_read(true)
    }

    /// `PutItem`; says whether the condition held.
    async fn put_item(&self, write: Write) -> Result<bool, Cause> {
        let Action::Put(item) = write.action else {
            return Err(Cause::Request("not a put".to_owned()));
        };
        let mut terms = Terms::default();
        let condition = terms.condition(write.condition.as_ref());
        let put = || async {
            let put = self.client.put_item().table_name(&self.name);
            let answer = put
                .set_item(Some(item.clone()))
                .set_condition_expression(condition.clone())
                .set_expression_attribute_names(terms.names())
                .set_expression_attribute_values(terms.values())
                .send()
                .await;
            held(answer.map_err(Cause::from))
        };
        settle(put).await
    }

    fn update_request(&self, update: &Update) -> UpdateItemFluentBuilder {
        let mut terms = Terms::default();
        let expression = terms.update(&update.changes);
        let condition = terms.condition(update.condition.as_ref());
        self.client
            .update_item()
            .table_name(&self.name)
            .set_key(Some(attributes(&update.key)))
            .update_expression(expression)
            .set_condition_expression(condition)
            .set_expression_attribute_names(terms.names())
            .set_expression_attribute_values(terms.values())
    }

    async fn try_update_returning(&self, update: &Update) -> Result<Try<Updated>, Cause> {
        let answer = self
            .update_request(update)
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
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
    }

    async fn try_transact(&self, writes: &[Write]) -> Result<Try<Transacted>, Cause> {
        let writes: Vec<_> = writes
            .iter()
            .map(|write| in_transaction(write, &self.name))
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
    }
}

impl Table for DynamoTable {
    fn get<'a>(&'a self, key: &'a Key) -> TableFuture<'a, Option<Item>> {
        async move {
            let answer = self
                .client
                .get_item()
                .table_name(&self.name)
                .set_key(Some(attributes(key)))
                .consistent_read(true)
                .send()
                .await?;
            Ok(answer.item)
        }
        .boxed()
    }

    fn query(&self, query: Query) -> TableFuture<'_, Vec<Item>> {
        async move {
            let items = self
                .query_request(query)
                .into_paginator()
                .items()
                .send()
                .collect::<Result<Vec<_>, _>>()
                .await?;
            Ok(items)
        }
        .boxed()
    }

    fn query_last(&self, query: Query, limit: usize) -> TableFuture<'_, Vec<Item>> {
        async move {
            let answer = self
                .query_request(query)
                .scan_index_forward(false)
                .limit(i32::try_from(limit).unwrap_or(i32::MAX))
                .send()
                .await?;
            Ok(answer.items.unwrap_or_default())
        }
        .boxed()
    }

    fn put(&self, item: Item) -> TableFuture<'_, ()> {
        async move { self.put_item(Write::put(item)).await.map(|_| ()) }.boxed()
    }

    fn put_new(&self, item: Item) -> TableFuture<'_, bool> {
        self.put_item(Write::put(item).when(no_item())).boxed()
    }

    fn update(&self, update: Update) -> TableFuture<'_, bool> {
        async move {
            let try_update = || async {
                let answer = self.update_request(&update).send().await;
                held(answer.map_err(Cause::from))
            };
            settle(try_update).await
        }
        .boxed()
    }

    fn update_returning(&self, update: Update) -> TableFuture<'_, Updated> {
        async move { settle(|| self.try_update_returning(&update)).await }.boxed()
    }

    fn transact<'a>(&'a self, writes: &'a [Write]) -> TableFuture<'a, Transacted> {
        settle(|| self.try_transact(writes)).boxed()
    }
}

fn in_transaction(write: &Write, table: &str) -> Result<TransactWriteItem, Cause> {
    let mut terms = Terms::default();
    // The changes of an update first, as in `UpdateItem`.
    let changes = match &write.action {
        Action::Update(_, changes) => terms.update(changes),
        Action::Put(_) | Action::Delete(_) | Action::Check(_) => String::new(),
    };
    let condition = terms.condition(write.condition.as_ref());
    let (names, values) = (terms.names(), terms.values());
    let item = TransactWriteItem::builder();
    let built = match &write.action {
        Action::Put(put) => Put::builder()
            .table_name(table)
            .set_item(Some(put.clone()))
            .set_condition_expression(condition)
            .set_expression_attribute_names(names)
            .set_expression_attribute_values(values)
            .build()
            .map(|put| item.put(put)),
        Action::Update(key, _) => UpdateItem::builder()
            .table_name(table)
            .set_key(Some(attributes(key)))
            .update_expression(changes)
            .set_condition_expression(condition)
            .set_expression_attribute_names(names)
            .set_expression_attribute_values(values)
            .build()
            .map(|update| item.update(update)),
        Action::Delete(key) => Delete::builder()
            .table_name(table)
            .set_key(Some(attributes(key)))
            .set_condition_expression(condition)
            .set_expression_attribute_names(names)
            .set_expression_attribute_values(values)
            .build()
            .map(|delete| item.delete(delete)),
        Action::Check(key) => ConditionCheck::builder()
            .table_name(table)
            .set_key(Some(attributes(key)))
            .set_condition_expression(condition)
            .set_expression_attribute_names(names)
            .set_expression_attribute_values(values)
            .build()
            .map(|check| item.condition_check(check)),
    };
    let built = built.map_err(|error| Cause::Request(error.to_string()))?;
    Ok(built.build())
}

fn attributes(key: &Key) -> Item {
    item(key.clone())
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
