//! Calls with a deadline, on a handle that is replaced when it has to be.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::error::{ErrorClass, ErrorCode, KafkaError, Operation};
use super::ffi::Limits;
use super::handle::Handle;
use super::settings::ConnectionSettings;

/// A handle is not kept longer: its coordinator cache only ever refreshes what it already believes, and a function
/// that was frozen may wake up with a token that expired meanwhile.
const OLDEST_HANDLE: Duration = Duration::from_secs(600);
/// Tries of what a coordinator or a connection failed: 0.1 + 0.2 + … + 3 s of waiting between them.
const TRIES: u32 = 9;
/// How long the first try of a request may take, the second twice as long, and so on up to the settings' time-out: a
/// broker that died is noticed soon, and one that is slow is given its time.
const FIRST_TRY: Duration = Duration::from_secs(5);
/// Tries of what failed for single partitions: longer waits would delay the reading of all the others.
const ELEMENT_TRIES: u32 = 3;

/// The connection to one cluster. Clones share the handle.
#[derive(Debug, Clone)]
pub(super) struct Session {
    shared: Arc<Shared>,
    deadline: Option<Instant>,
}

#[derive(Debug)]
struct Shared {
    settings: ConnectionSettings,
    slot: Mutex<Slot>,
}

#[derive(Debug, Clone)]
struct Slot {
    handle: Arc<Handle>,
    built: Instant,
}

impl Session {
    pub(super) fn new(settings: ConnectionSettings) -> Result<Self, KafkaError> {
        let slot = Slot::new(&settings)?;
        Ok(Self {
            shared: Arc::new(Shared {
                settings,
                slot: Mutex::new(slot),
            }),
            deadline: None,
        })
    }

    /// The same session with no call lasting beyond `deadline`, nor longer than the settings allow.
    pub(super) fn until(&self, deadline: Instant) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            deadline: Some(deadline),
        }
    }

    /// The same session, with one deadline for all the calls that are made with it.
    pub(super) fn bounded(&self) -> Self {
        self.until(self.deadline())
    }

    /// When every call ends at the latest.
    pub(super) fn ends_at(&self) -> Option<Instant> {
        self.deadline
    }

    /// When a call that begins now ends at the latest.
    pub(super) fn deadline(&self) -> Instant {
        let longest = Instant::now() + self.shared.settings.call_timeout;
        self.deadline.map_or(longest, |at| at.min(longest))
    }

    /// One request, tried again where that can help.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        operation: Operation,
        call: impl Fn(&Handle, Limits) -> Result<T, ErrorCode> + Send + Sync + 'static,
    ) -> Result<T, KafkaError> {
        let (mut answers, connection) = self
            .try_each(operation, vec![()], move |handle, limits, _| {
                vec![call(handle, limits)]
            })
            .await?;
        answers
            .pop()
            .unwrap_or(Err(ErrorCode::MISSING))
            .map_err(|code| KafkaError::Request {
                operation,
                code,
                connection,
            })
    }

    /// One answer for each of `items`; those that failed are tried again where that can help.
    ///
    /// # Errors
    /// Where **every** item failed because of the coordinator or the connection: then nothing was read at all.
    pub(super) async fn each<I, T>(
        &self,
        operation: Operation,
        items: Vec<I>,
        call: impl Fn(&Handle, Limits, &[I]) -> Vec<Result<T, ErrorCode>> + Send + Sync + 'static,
    ) -> Result<Vec<Result<T, ErrorCode>>, KafkaError>
    where
        I: Clone + Send + Sync + 'static,
        T: Send + 'static,
    {
        let (answers, connection) = self.try_each(operation, items, call).await?;
        let whole = |answer: &Result<T, ErrorCode>| {
            let code = answer.as_ref().err().copied()?;
            matches!(
                code.class(),
                ErrorClass::Transient | ErrorClass::NewHandleNeeded
            )
            .then_some(code)
        };
        match answers.iter().map(whole).collect::<Option<Vec<_>>>() {
            Some(codes) if !codes.is_empty() => Err(KafkaError::Request {
                operation,
                code: codes[0],
                connection,
            }),
            _ => Ok(answers),
        }
    }

    async fn try_each<I, T>(
        &self,
        operation: Operation,
        items: Vec<I>,
        call: impl Fn(&Handle, Limits, &[I]) -> Vec<Result<T, ErrorCode>> + Send + Sync + 'static,
    ) -> Result<(Vec<Result<T, ErrorCode>>, Option<ErrorCode>), KafkaError>
    where
        I: Clone + Send + Sync + 'static,
        T: Send + 'static,
    {
        let deadline = self.deadline();
        let call = Arc::new(call);
        let mut answers: Vec<Result<T, ErrorCode>> =
            items.iter().map(|_| Err(ErrorCode::MISSING)).collect();
        let mut pending: Vec<usize> = (0..items.len()).collect();
        let mut failed = 0;
        loop {
            let limits = Limits {
                deadline,
                request_timeout: self
                    .shared
                    .settings
                    .request_timeout
                    .min(FIRST_TRY * (failed + 1)),
            };
            let handle = self.handle()?;
            let asked: Vec<I> = pending.iter().map(|&i| items[i].clone()).collect();
            let (call, on) = (Arc::clone(&call), Arc::clone(&handle));
            handle.forget_error();
            let fresh = tokio::task::spawn_blocking(move || call(&on, limits, &asked))
                .await
                .map_err(|source| KafkaError::Interrupted { operation, source })?;

            failed += 1;
            let (mut again, mut renew) = (Vec::new(), false);
            for (&i, answer) in pending.iter().zip(fresh) {
                if let Err(code) = &answer {
                    let tries = match code.class() {
                        ErrorClass::NewHandleNeeded | ErrorClass::Transient => TRIES,
                        ErrorClass::ElementTransient => ELEMENT_TRIES,
                        ErrorClass::NotAuthorised | ErrorClass::Invalid | ErrorClass::Other => 0,
                    };
                    if failed < tries {
                        again.push(i);
                    }
                    // A coordinator or a leader that died is waited for until the time-out (ListOffsets then answers
                    // without its partitions), and so again on a handle that has not heard of the new one.
                    renew |= code.class() == ErrorClass::NewHandleNeeded
                        || matches!(*code, ErrorCode::TIMED_OUT | ErrorCode::MISSING);
                }
                answers[i] = answer;
            }
            let wait = backoff(failed);
            let connection = handle.last_error();
            let refused = connection.is_some_and(|code| code.class() == ErrorClass::NotAuthorised);
            if again.is_empty() || refused || Instant::now() + wait >= deadline {
                return Ok((answers, connection));
            }
            if renew {
                self.renew(&handle)?;
            }
            tracing::debug!(%operation, failed = again.len(), renew, "trying again");
            tokio::time::sleep(wait).await;
            pending = again;
        }
    }

    fn handle(&self) -> Result<Arc<Handle>, KafkaError> {
        let slot = self.slot();
        if slot.built.elapsed() > OLDEST_HANDLE {
            self.renew(&slot.handle)?;
            return Ok(self.slot().handle);
        }
        Ok(slot.handle)
    }

    /// Replaces `seen`, unless another call has done so already.
    fn renew(&self, seen: &Arc<Handle>) -> Result<(), KafkaError> {
        let mut slot = self
            .shared
            .slot
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(&slot.handle, seen) {
            *slot = Slot::new(&self.shared.settings)?;
        }
        Ok(())
    }

    fn slot(&self) -> Slot {
        self.shared
            .slot
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Slot {
    fn new(settings: &ConnectionSettings) -> Result<Self, KafkaError> {
        Ok(Self {
            handle: Arc::new(Handle::new(settings)?),
            built: Instant::now(),
        })
    }
}

/// 0.1 s, doubled with each failure, at most 3 s.
fn backoff(failed: u32) -> Duration {
    Duration::from_millis(100)
        .saturating_mul(1 << failed.saturating_sub(1).min(5))
        .min(Duration::from_secs(3))
}
