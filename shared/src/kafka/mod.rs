//! Kafka: reading groups ([`GroupReader`]) and altering their committed offsets ([`GroupWriter`]).

mod error;
mod ffi;
mod handle;
mod observe;
mod reader;
mod session;
mod settings;
#[cfg(test)]
mod tests;
mod writer;

pub use error::{AlterFault, ErrorClass, ErrorCode, KafkaError, Operation};
pub use reader::GroupReader;
pub use settings::{Auth, ConnectionSettings, Credentials, Secret};
pub use writer::{GroupWriter, Move, Outcomes};
