//! How values are written into items: packed as bytes, in the item itself or in chunks beside it.

pub(super) mod body;
pub(super) mod checkpoint;
pub(super) mod disowned;
pub(super) mod look;
pub(super) mod packed;
