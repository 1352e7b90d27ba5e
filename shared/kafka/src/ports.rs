//! The domain's ports, on real brokers.

mod group_reader;
mod group_writer;
mod observe;
mod readable;
mod record_keeper;
mod record_reader;

pub use self::group_reader::GroupReader;
pub use self::group_writer::GroupWriter;
pub use self::record_keeper::RecordKeeper;
pub use self::record_reader::RecordReader;
