//! Altering what a group has committed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::error::{AlterFault, ErrorCode, KafkaError};
use super::ffi::{self, Limits};
use super::handle::Handle;
use super::settings::ConnectionSettings;
use crate::domain::offset::{CommittedOffset, GroupId, TopicPartition};

/// One partition and the position to commit for it.
pub type Move = (TopicPartition, CommittedOffset);

/// What became of each partition of one request, in the request's order.
pub type Outcomes = Vec<(TopicPartition, Result<(), AlterFault>)>;

/// Alters committed offsets, one request at a time, on a handle of its own.
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
    pub(crate) async fn alter(
        &self,
        group: &GroupId,
        moves: &[Move],
        timeout: Duration,
    ) -> Outcomes {
        let (group, moves) = (group.0.clone(), moves.to_vec());
        let partitions: Vec<_> = moves
            .iter()
            .map(|(partition, _)| partition.clone())
            .collect();
        self.once(partitions, timeout, move |handle, limits| {
            ffi::alter(handle, limits, &group, &moves)
        })
        .await
    }

    /// Deletes the committed offsets of `partitions` in one request, once: back to "no commit".
    pub(crate) async fn delete(
        &self,
        group: &GroupId,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Outcomes {
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
    ) -> Outcomes {
        let handle = Arc::clone(&self.handle);
        let limits = Limits {
            deadline: Instant::now() + timeout,
            request_timeout: timeout,
        };
        let count = partitions.len();
        let answers = tokio::task::spawn_blocking(move || request(&handle, limits))
            .await
            // The thread may have got as far as sending it.
            .unwrap_or_else(|_| vec![Err(ErrorCode::TIMED_OUT); count]);
        let answers = answers
            .into_iter()
            .map(|answer| answer.map_err(|code| code.alter_fault(count == 1)));
        partitions.into_iter().zip(answers).collect()
    }

    /// Destroys the handle; when this returns, nothing that it had queued can be sent any more.
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
