//! Kafka: reading groups ([`GroupReader`]) and records ([`RecordReader`]), keeping records ([`RecordKeeper`]), and
//! altering committed offsets ([`GroupWriter`]).

pub mod alter_size;
pub mod contained;
mod error;
mod ffi;
mod handle;
mod keep;
mod observe;
mod ports;
mod reader;
mod records;
mod session;
mod settings;
#[cfg(test)]
mod tests;
mod writer;

pub use contained::ReaderProgram;
pub use error::{ErrorClass, ErrorCode, KafkaError, Operation};
pub use keep::RecordKeeper;
pub use reader::GroupReader;
pub use records::RecordReader;
pub use settings::{Auth, ConnectionSettings, Credentials};
pub use writer::GroupWriter;
