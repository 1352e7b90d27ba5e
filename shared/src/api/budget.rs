//! How often one asker may ask. Whoever asks as fast as the route lets them takes the account's concurrency, and what
//! people are told with it.

use super::WebhookDeps;
use super::problem::Problem;
use crate::config::Sender;
use crate::domain::identity::Identity;

/// How many requests one person may make in a minute.
const OF_A_PERSON: u32 = 20;

/// Counts a request of an operator, whom a secret proved.
pub(super) async fn of_sender(operator: &Sender, deps: &WebhookDeps) -> Result<(), Problem> {
    count(&operator.name, operator.requests_per_minute, deps).await
}

/// Counts a request of a person, by the issuer's word.
pub(super) async fn of_person(person: &Identity, deps: &WebhookDeps) -> Result<(), Problem> {
    // No sender's name has a space.
    let name = format!("person {} {}", person.issuer, person.subject);
    count(&name, OF_A_PERSON, deps).await
}

async fn count(asker: &str, most: u32, deps: &WebhookDeps) -> Result<(), Problem> {
    if deps.store.count_run(asker, most, (deps.now)()).await? {
        return Ok(());
    }
    tracing::warn!(asker, most, "too many requests in a minute");
    Err(Problem::TooOften { most })
}
