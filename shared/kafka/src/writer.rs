//! Altering what a group has committed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::error::{ErrorCode, KafkaError};
use super::ffi::{self, Limits};
use super::handle::Handle;
use super::settings::ConnectionSettings;
use offset_guard_domain::offset::{CommittedOffset, GroupId, TopicPartition};
use offset_guard_domain::recovery::AlterAnswer;

/// What became of each partition of one request.
type Answers = BTreeMap<TopicPartition, AlterAnswer>;

/// Alters committed offsets, one request at a time, on a handle of its own.
///
/// It is used through [`offset_guard_domain::ports::AlterGroups`], which takes approved changes only.
///
/// After a time-out librdkafka may still send what it has queued for as long as the handle lives, even when a frozen
/// function thaws. So make one for a recovery, and [`close`](Self::close) it before that is reported as ended.
#[derive(Debug)]
pub struct GroupWriter {
    handle: Arc<Handle>,
}

impl GroupWriter {
    /// A writer for the cluster of `settings`.
    ///
    /// # Errors
    /// Settings that librdkafka refuses.
    pub fn connect(settings: &ConnectionSettings) -> Result<Self, KafkaError> {
        Ok(Self {
            handle: Arc::new(Handle::new(settings)?),
        })
    }

    /// Commits `moves` for `group` in **one** request, once: nothing is tried again.
    ///
    /// Kafka creates the group if it does not exist, and checks neither that an offset exists nor what was committed
    /// before. Whoever calls this has checked both.
    pub(super) async fn commit(
        &self,
        group: &GroupId,
        moves: &[(TopicPartition, CommittedOffset)],
        timeout: Duration,
    ) -> Answers {
        let (group, moves) = (group.0.clone(), moves.to_vec());
        let partitions = moves
            .iter()
            .map(|(partition, _)| partition.clone())
            .collect();
        self.once(partitions, timeout, move |handle, limits| {
            ffi::alter(handle, limits, &group, &moves)
        })
        .await
    }

    /// Deletes the committed offsets of `partitions` in one request, once: back to "no commit".
    pub(super) async fn remove(
        &self,
        group: &GroupId,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Answers {
        let (group, partitions) = (group.0.clone(), partitions.to_vec());
        let asked = partitions.clone();
        self.once(partitions, timeout, move |handle, limits| {
            ffi::delete(handle, limits, &group, &asked)
        })
        .await
    }

    async fn once(
        &self,
        partitions: Vec<TopicPartition>,
        timeout: Duration,
        request: impl FnOnce(&Handle, Limits) -> Vec<Result<(), ErrorCode>> + Send + 'static,
    ) -> Answers {
        let handle = Arc::clone(&self.handle);
        let limits = Limits {
            deadline: Instant::now() + timeout,
            request_timeout: timeout,
        };
        let count = partitions.len();
        let codes = tokio::task::spawn_blocking(move || request(&handle, limits))
            .await
            // The thread may have got as far as sending it.
            .unwrap_or_else(|_| vec![Err(ErrorCode::TIMED_OUT); count]);
        let answers = codes
            .into_iter()
            .map(|answer| answer.err().unwrap_or(ErrorCode::NONE).alter_answer());
        partitions.into_iter().zip(answers).collect()
    }

    /// Destroys the handle; when this returns, nothing that it had queued can be sent any more.
    ///
    /// Dropping does the same, but on the thread that drops.
    pub async fn close(self) {
        // A request whose caller was cancelled still waits for its answer on its own thread.
        while Arc::strong_count(&self.handle) > 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // Destroying joins librdkafka's threads, which is not for a runtime's worker.
        if tokio::task::spawn_blocking(move || drop(self))
            .await
            .is_err()
        {
            tracing::warn!("destroying a Kafka handle failed");
        }
    }
}
