//! Kafka: reading groups ([`GroupReader`]) and records ([`RecordReader`]), keeping records ([`RecordKeeper`]), and
//! altering committed offsets ([`GroupWriter`]).
//!
//! From the top down, without an arrow that runs back up:
//!
//! - `ports`: the domain's ports. They know no C, and no code but as a fault or an answer.
//! - `process`: the child process in which records are read.
//! - `librdkafka`: configuration, handles, and admin requests with retries and a deadline.
//! - `ffi`: the calls into the C library. All unsafe code of the workspace.
//! - `codes`, `meaning`, `error`, `settings`, `token`: what the others share.

mod codes;
mod error;
mod ffi;
mod librdkafka;
mod meaning;
mod ports;
mod process;
mod settings;
#[cfg(test)]
mod tests;
mod token;

pub use ports::{GroupReader, GroupWriter, RecordKeeper, RecordReader};
pub use process::{ReaderProgram, serve_if_asked};
pub use settings::{Auth, ConnectionSettings, SaslCredentials};
pub use token::{LoginToken, TokenSource};
