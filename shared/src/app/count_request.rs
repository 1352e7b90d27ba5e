//! Counts how often one asker asks. Anyone who asks as fast as the route allows takes up the account's concurrency, and
//! with it the messages that people are sent.

use std::borrow::Cow;

use jiff::Timestamp;

use super::asker::Asker;
use crate::store::{Store, StoreError};

/// How many requests one person may make per minute.
pub const REQUESTS_OF_A_PERSON: u32 = 20;

/// Counts one request of an asker; `false` where `most` were counted already in this minute.
///
/// # Errors
/// The table cannot be reached.
pub async fn count_request(
    store: &Store,
    asker: Asker<'_>,
    most: u32,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let name = match asker {
        Asker::Sender(name) => Cow::Borrowed(name),
        // No sender's name has a space.
        Asker::Person(person) => format!("person {} {}", person.issuer, person.subject).into(),
    };
    let is_within = store.count_run(&name, most, now).await?;
    if !is_within {
        tracing::warn!(asker = %name, most, "too many requests in a minute");
    }
    Ok(is_within)
}
