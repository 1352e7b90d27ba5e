//! The approval page: GET shows, POST decides.
//!
//! A link's holder sees the plan and says yes or no, on a phone and without scripts. Showing changes nothing, however
//! often a mail scanner or a chat preview looks. A decision is one conditional write; the waiting execution is told
//! afterwards, and reads the stored decision itself.

mod ask;
mod chart;
mod cookie;
mod csv_parts;
mod deps;
mod fault;
mod fault_page;
mod form;
pub(crate) mod headline;
mod look;
mod message;
mod numbers;
mod respond;
mod responses;
mod signin;
mod steps;
mod style;
mod token;
mod view;
mod visible;

#[cfg(test)]
mod tests;

pub use deps::{PageDeps, SignIn};
pub use respond::{handle, respond};
pub use token::{FormKey, KeyTooShort, PREVIOUS_FOR, VALID_FOR};
pub use visible::visible;
