//! The webhook: alerts start guard, and operators ask for rewinds.
//!
//! Who sends is proven first, and before that nothing is read of a body and nothing is changed. A body chooses
//! configured groups and nothing else. A run is claimed, then handed over; only a run that may still come to its end
//! makes the same alert a duplicate, so whatever fails is tried again by the sender.

mod alerts;
mod answer;
mod auth;
mod body;
mod choose;
mod deps;
mod fault;
mod operator;
mod people;
pub(crate) mod recovery;
mod respond;
mod routes;

#[cfg(test)]
mod tests;

pub use answer::Answer;
pub use deps::{Callers, WebhookDeps};
pub use people::TokenIssuer;
pub use respond::{handle, respond};
pub use routes::{ROUTES, Route};
