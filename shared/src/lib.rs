//! The core of Offset Guard: the rules, the use cases and the adapters that its functions share.
//!
//! - [`domain`]: the rules. Pure; it decides.
//! - [`app`]: the use cases. Each reads, lets the domain decide, and does what it decided.
//! - [`ports`]: what the use cases need of Kafka; [`kafka`] is the adapter.
//! - [`store`], [`executions`], [`functions`], [`secrets`], [`slack`]: adapters to AWS and to Slack.
//! - [`rest_proxy`]: a second, read-only source of what a group is.
//! - [`page`]: the approval page; [`oidc`]: how people sign in to it; [`webhook`]: alerts and operators' requests;
//!   [`metrics`]: what CloudWatch reads in the log.
//! - [`wire`]: what crosses the border; [`config`], [`connect`] and [`mod@env`]: what a process is given.
//! - [`error`]: the world failed.

#![forbid(unsafe_code)]

pub use offset_guard_domain as domain;
pub use offset_guard_domain::ports;
pub use offset_guard_kafka as kafka;

mod address;
pub mod app;
pub mod config;
pub mod connect;
pub mod env;
pub mod error;
pub mod executions;
pub mod functions;
pub mod metrics;
pub mod oidc;
pub mod page;
pub mod rest_proxy;
pub mod secrets;
pub mod slack;
pub mod store;
pub mod webhook;
pub mod wire;
