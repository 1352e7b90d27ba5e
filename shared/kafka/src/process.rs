//! Reads records in a child process with little memory.
//!
//! Everybody who may produce to a topic decides what librdkafka has to unpack: a gzip batch of 1 MB may become 1 GB, and no
//! setting of librdkafka bounds that. So a child of this program, with a limit on its memory, reads the records. When the
//! child is killed, this process lives on, and knows how far the child was.
//!
//! The child is this very program, started again with an argument. Its order, secrets included, comes over its standard
//! input, and the records go out over its standard output, one by one.

mod child;
mod consume;
mod frame;
mod order;
mod parent;

pub use self::child::serve_if_asked;
pub(crate) use self::order::{OrderedToken, ReadOrder};
pub use self::parent::ReaderProgram;
pub(crate) use self::parent::{acquire_place, read_in_child};
