//! How long a writer waits that lost against another one.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Waits longer each time, and hardly ever as long as another writer that lost in the same moment.
pub(super) async fn back_off(tries: u32) {
    let most = 20_u64 << tries.min(6);
    let random = RandomState::new().hash_one(tries);
    tokio::time::sleep(Duration::from_millis(most / 2 + random % most)).await;
}
