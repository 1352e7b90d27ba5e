//! Kafka: reading groups ([`GroupReader`]) and altering their committed offsets ([`GroupWriter`]).

pub mod alter_size;
mod error;
mod ffi;
mod handle;
mod observe;
mod ports;
mod reader;
mod session;
mod settings;
#[cfg(test)]
mod tests;
mod writer;

pub use error::{ErrorClass, ErrorCode, KafkaError, Operation};
pub use reader::GroupReader;
pub use settings::{Auth, ConnectionSettings, Credentials};
pub use writer::GroupWriter;
