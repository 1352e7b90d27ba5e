//! Starts the state machine with a rewind that was asked for over HTTP, once per key.

use jiff::Timestamp;
use serde_json::Value;

use super::asker::Asker;
use crate::ports::{Executions, ExecutionsError, NameUse, Started};
use crate::store::{Store, StoreError};
use crate::wire::request_hash;

/// What starting a rewind needs.
#[derive(Debug, Clone, Copy)]
pub struct Starting<'a> {
    pub store: &'a Store,
    pub executions: &'a dyn Executions,
    pub now: fn() -> Timestamp,
}

/// What became of a request that can be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewindStart {
    /// Its execution has begun.
    Begun,
    /// The same request was taken before, under the same key.
    Duplicate,
}

/// Why no rewind was started.
#[derive(Debug, thiserror::Error)]
pub enum RewindNotStarted {
    /// The key was used for another request.
    #[error("the key was used for another request")]
    KeyUsed,
    /// A request with the same key was taken, and is not yet known.
    #[error("a request with the same key was taken, and is not yet known")]
    NotYetKnown,
    /// What is said to be the state machine's ARN is none.
    #[error("no execution can have this name")]
    NoMachine,
    /// The table.
    #[error("the rewind cannot be noted")]
    Store(#[from] StoreError),
    /// Step Functions.
    #[error("the execution cannot be started")]
    Executions(#[from] ExecutionsError),
}

/// Starts an execution of this name with `input`, unless one was started with the same name and input before.
///
/// # Errors
/// The name stands for another request, or the table or Step Functions cannot be reached.
pub async fn start_rewind(
    starting: Starting<'_>,
    asker: Asker<'_>,
    name: &str,
    input: &Value,
) -> Result<RewindStart, RewindNotStarted> {
    let Starting {
        store,
        executions,
        now,
    } = starting;
    if is_taken(starting, name, input).await? {
        return Ok(RewindStart::Duplicate);
    }
    if let Asker::Person(person) = asker {
        // Before the start: the plan's first step looks for it at once.
        let hash = request_hash(&input["request"]);
        if !store.note_requester(name, &hash, person, now()).await? {
            return Err(RewindNotStarted::KeyUsed);
        }
    }
    // Before the start too: a dry run may be reported on at once.
    store.note_asked_over_http(name, now()).await?;
    match executions.start(name, input).await? {
        Started::Now(_) => Ok(RewindStart::Begun),
        // Another request with this key came in between.
        Started::NameTaken if is_taken(starting, name, input).await? => Ok(RewindStart::Duplicate),
        Started::NameTaken => Err(RewindNotStarted::NotYetKnown),
    }
}

/// Whether this very request was taken before under its name.
async fn is_taken(
    starting: Starting<'_>,
    name: &str,
    input: &Value,
) -> Result<bool, RewindNotStarted> {
    let arn = starting.executions.arn(name);
    let arn = arn.ok_or(RewindNotStarted::NoMachine)?;
    match starting.executions.name_use(&arn, input).await? {
        NameUse::Free => Ok(false),
        NameUse::SameInput => Ok(true),
        NameUse::OtherInput => Err(RewindNotStarted::KeyUsed),
    }
}
