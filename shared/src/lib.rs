//! The core of Offset Guard: the rules, the use cases and the adapters that its functions share.
//!
//! - [`domain`]: the rules. Pure; it decides.
//! - [`app`]: the use cases. Each reads, lets the domain decide, and does what it decided.
//! - [`ports`]: what the use cases need of the outside; [`kafka`] is the adapter to brokers.
//! - [`store`]: the table; [`aws`]: everything else of AWS; [`slack`]: messages.
//! - [`rest_proxy`]: a second, read-only source of what a group is.
//! - [`http`]: requests and responses; [`page`]: the approval page; [`oidc`]: how people sign in to it; [`api`]: alerts and operators' requests.
//! - [`wire`]: what crosses the border; [`config`], [`connect`], [`mod@env`] and [`environment`]: what a process is given.
//! - [`error`] and [`failure`]: what can fail, and what can be done about it.

#![forbid(unsafe_code)]

pub use offset_guard_domain as domain;
pub use offset_guard_kafka as kafka;

mod address;
pub mod api;
pub mod app;
pub mod aws;
pub mod config;
pub mod connect;
pub mod env;
pub mod environment;
pub mod error;
pub mod failure;
pub mod http;
pub mod oidc;
pub mod page;
pub mod ports;
#[cfg(test)]
mod progress_tests;
pub mod rest_proxy;
pub mod slack;
pub mod store;
pub mod wire;
