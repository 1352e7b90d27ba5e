//! The core of Offset Guard: the rules ([`domain`]), the use cases and the adapters that its functions share.

pub mod config;
pub mod domain;
pub mod kafka;
pub mod ports;
pub mod store;
