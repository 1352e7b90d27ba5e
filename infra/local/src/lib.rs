//! The local stack: Apache Kafka itself, a local AWS that deploys the real template, and a sink for
//! Slack messages, for the demo and the tests.
//!
//! Everything binds loopback on free ports and lives in `target/local/`: what was fetched (one folder
//! of jars per Kafka version, one Python environment) and one folder per [`run::Run`] with its
//! processes, data and logs. A run ends with the last process that uses it, however that one ends.

#![forbid(unsafe_code)]

pub mod alertmanager;
pub mod aws;
pub mod browser;
pub mod client;
mod error;
pub mod functions;
pub mod kafka;
pub mod keycloak;
pub mod operator;
pub mod run;
pub mod slack;
pub mod stack;
pub mod workdir;

pub use error::{Error, Result};
