//! Altering what a group has committed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::codes::ErrorCode;
use crate::ffi::{self, CallLimits};
use crate::librdkafka::handle::Handle;
use crate::settings::ConnectionSettings;
use offset_guard_domain::approval::{AlterRequest, Change};
use offset_guard_domain::offset::{CommittedOffset, GroupId, TopicPartition};
use offset_guard_domain::ports::{AlterGroups, BrokerError};
use offset_guard_domain::recovery::AlterAnswer;

/// The answer for each partition of one request.
type AlterAnswers = BTreeMap<TopicPartition, AlterAnswer>;

/// Alters committed offsets, one request at a time, on its own handle.
///
/// It is used through [`AlterGroups`], which takes only approved changes.
///
/// After a time-out librdkafka may still send queued requests for as long as the handle lives, even when a frozen function
/// thaws. So make one writer per recovery, and [`close`](AlterGroups::close) it before the recovery is reported as ended.
#[derive(Debug)]
pub struct GroupWriter {
    handle: Arc<Handle>,
}

impl GroupWriter {
    /// A writer for the cluster of `settings`.
    ///
    /// # Errors
    /// librdkafka refuses the settings.
    pub fn connect(settings: &ConnectionSettings) -> Result<Self, BrokerError> {
        Ok(Self {
            handle: Arc::new(Handle::new(settings)?),
        })
    }

    /// Commits `moves` for `group` in **one** request, once: nothing is tried again.
    ///
    /// Kafka creates the group if it does not exist, and checks neither that an offset exists nor what was committed
    /// before. The caller must have checked both.
    pub(crate) async fn commit(
        &self,
        group: &GroupId,
        moves: &[(TopicPartition, CommittedOffset)],
        timeout: Duration,
    ) -> AlterAnswers {
        let (group, moves) = (group.0.clone(), moves.to_vec());
        let partitions = moves
            .iter()
            .map(|(partition, _)| partition.clone())
            .collect();
        self.send_once(partitions, timeout, move |handle, limits| {
            ffi::alter_offsets(handle, limits, &group, &moves)
        })
        .await
    }

    /// Deletes the committed offsets of `partitions` in one request, once: back to "no commit".
    async fn remove(
        &self,
        group: &GroupId,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> AlterAnswers {
        let (group, partitions) = (group.0.clone(), partitions.to_vec());
        let asked = partitions.clone();
        self.send_once(partitions, timeout, move |handle, limits| {
            ffi::delete_offsets(handle, limits, &group, &asked)
        })
        .await
    }

    async fn send_once(
        &self,
        partitions: Vec<TopicPartition>,
        timeout: Duration,
        request: impl FnOnce(&Handle, CallLimits) -> Vec<Result<(), ErrorCode>> + Send + 'static,
    ) -> AlterAnswers {
        let handle = Arc::clone(&self.handle);
        let limits = CallLimits {
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
}

impl AlterGroups for GroupWriter {
    async fn alter(
        &self,
        request: &AlterRequest,
        timeout: Duration,
    ) -> BTreeMap<TopicPartition, AlterAnswer> {
        let group = request.group();
        match request.change() {
            Change::Commit(moves) => self.commit(group, moves, timeout).await,
            Change::Remove(partitions) => self.remove(group, partitions, timeout).await,
        }
    }

    /// Destroys the handle. When this returns, nothing that it had queued can be sent any more.
    ///
    /// Dropping does the same, but on the thread that drops.
    async fn close(self) {
        // A request whose caller was cancelled still waits for its answer on its own thread.
        while Arc::strong_count(&self.handle) > 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // Destroying joins librdkafka's threads, which must not happen on a runtime's worker.
        if tokio::task::spawn_blocking(move || drop(self))
            .await
            .is_err()
        {
            tracing::warn!("destroying a Kafka handle failed");
        }
    }
}
