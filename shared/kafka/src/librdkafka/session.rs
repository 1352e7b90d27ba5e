//! Calls with a deadline, on a handle that is replaced when it has to be.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::codes::ErrorCode;
use crate::error::{AdminRequest, KafkaError};
use crate::ffi::CallLimits;
use crate::librdkafka::handle::Handle;
use crate::meaning::CodeClass;
use crate::settings::ConnectionSettings;

/// Oldest handle that is still used. Its coordinator cache only refreshes the coordinator that it already has, and a
/// function that was frozen may wake up with an expired token.
const OLDEST_HANDLE: Duration = Duration::from_secs(600);
/// Tries after an error of a coordinator or a connection, with 0.1 + 0.2 + … + 3 s between them.
const TRIES: u32 = 9;
/// Longest time for the first try of a request. The second gets twice as long, and so on up to the settings' time-out,
/// so that a dead broker is noticed soon and a slow one can still answer.
const FIRST_TRY: Duration = Duration::from_secs(5);
/// Tries after an error of single partitions: longer waits would delay the reading of all the others.
const ELEMENT_TRIES: u32 = 3;

/// The connection to one cluster. Clones share the handle.
#[derive(Debug, Clone)]
pub(crate) struct AdminSession {
    shared: Arc<SharedHandle>,
    deadline: Option<Instant>,
}

#[derive(Debug)]
struct SharedHandle {
    settings: ConnectionSettings,
    slot: Mutex<HandleSlot>,
}

#[derive(Debug, Clone)]
struct HandleSlot {
    handle: Arc<Handle>,
    built: Instant,
}

impl AdminSession {
    pub(crate) fn new(settings: ConnectionSettings) -> Result<Self, KafkaError> {
        let slot = HandleSlot::new(&settings)?;
        Ok(Self {
            shared: Arc::new(SharedHandle {
                settings,
                slot: Mutex::new(slot),
            }),
            deadline: None,
        })
    }

    /// The same session with no call lasting beyond `deadline`, nor longer than the settings allow.
    pub(crate) fn until(&self, deadline: Instant) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            deadline: Some(deadline),
        }
    }

    /// The same session, with one deadline for all the calls that are made with it.
    pub(crate) fn bounded(&self) -> Self {
        self.until(self.deadline())
    }

    /// When every call ends at the latest.
    pub(crate) fn ends_at(&self) -> Option<Instant> {
        self.deadline
    }

    /// When a call that begins now ends at the latest.
    pub(crate) fn deadline(&self) -> Instant {
        let longest = Instant::now() + self.shared.settings.call_timeout;
        self.deadline.map_or(longest, |at| at.min(longest))
    }

    /// One request, tried again where that can help.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        request: AdminRequest,
        call: impl Fn(&Handle, CallLimits) -> Result<T, ErrorCode> + Send + Sync + 'static,
    ) -> Result<T, KafkaError> {
        let (mut answers, connection) = self
            .try_each(request, vec![()], move |handle, limits, _| {
                vec![call(handle, limits)]
            })
            .await?;
        answers
            .pop()
            .unwrap_or(Err(ErrorCode::MISSING))
            .map_err(|code| KafkaError::Request {
                request,
                code,
                connection,
            })
    }

    /// One answer for each of `items`; those that failed are tried again where that can help.
    ///
    /// # Errors
    /// Where **every** item failed because of the coordinator or the connection: then nothing was read at all.
    pub(crate) async fn each<I, T>(
        &self,
        request: AdminRequest,
        items: Vec<I>,
        call: impl Fn(&Handle, CallLimits, &[I]) -> Vec<Result<T, ErrorCode>> + Send + Sync + 'static,
    ) -> Result<Vec<Result<T, ErrorCode>>, KafkaError>
    where
        I: Clone + Send + Sync + 'static,
        T: Send + 'static,
    {
        let (answers, connection) = self.try_each(request, items, call).await?;
        let whole = |answer: &Result<T, ErrorCode>| {
            let code = answer.as_ref().err().copied()?;
            matches!(
                code.class(),
                CodeClass::Transient | CodeClass::NewHandleNeeded
            )
            .then_some(code)
        };
        match answers.iter().map(whole).collect::<Option<Vec<_>>>() {
            Some(codes) if !codes.is_empty() => Err(KafkaError::Request {
                request,
                code: codes[0],
                connection,
            }),
            _ => Ok(answers),
        }
    }

    /// Asks for every item, and then again for those that failed, until no item may be tried again or the deadline
    /// comes first.
    ///
    /// Returns the last answer to each item, and the last error of a connection.
    async fn try_each<I, T>(
        &self,
        request: AdminRequest,
        items: Vec<I>,
        call: impl Fn(&Handle, CallLimits, &[I]) -> Vec<Result<T, ErrorCode>> + Send + Sync + 'static,
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
            let limits = self.limits(deadline, failed);
            let handle = self.handle()?;
            let asked: Vec<I> = pending.iter().map(|&i| items[i].clone()).collect();
            let (call, on) = (Arc::clone(&call), Arc::clone(&handle));
            handle.forget_error();
            let fresh = tokio::task::spawn_blocking(move || call(&on, limits, &asked))
                .await
                .map_err(|source| KafkaError::Interrupted { request, source })?;

            failed += 1;
            let (mut again, mut renew) = (Vec::new(), false);
            for (&i, answer) in pending.iter().zip(fresh) {
                if let Err(code) = &answer {
                    if failed < max_tries(*code) {
                        again.push(i);
                    }
                    renew |= wants_new_handle(*code);
                }
                answers[i] = answer;
            }
            let wait = backoff(failed);
            let connection = handle.last_error();
            let refused = connection.is_some_and(|code| code.class() == CodeClass::NotAuthorised);
            if again.is_empty() || refused || Instant::now() + wait >= deadline {
                return Ok((answers, connection));
            }
            if renew {
                self.renew(&handle)?;
            }
            tracing::debug!(%request, failed = again.len(), renew, "trying again");
            tokio::time::sleep(wait).await;
            pending = again;
        }
    }

    fn limits(&self, deadline: Instant, failed: u32) -> CallLimits {
        let longest = self.shared.settings.request_timeout;
        CallLimits {
            deadline,
            request_timeout: longest.min(FIRST_TRY * (failed + 1)),
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
            *slot = HandleSlot::new(&self.shared.settings)?;
        }
        Ok(())
    }

    fn slot(&self) -> HandleSlot {
        self.shared
            .slot
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl HandleSlot {
    fn new(settings: &ConnectionSettings) -> Result<Self, KafkaError> {
        Ok(Self {
            handle: Arc::new(Handle::new(settings)?),
            built: Instant::now(),
        })
    }
}

fn max_tries(code: ErrorCode) -> u32 {
    match code.class() {
        CodeClass::NewHandleNeeded | CodeClass::Transient => TRIES,
        CodeClass::ElementTransient => ELEMENT_TRIES,
        CodeClass::NotAuthorised | CodeClass::Invalid | CodeClass::Other => 0,
    }
}

/// Whether the next try needs a new handle. A handle waits until the time-out for a coordinator or a leader that died
/// (ListOffsets then answers without its partitions), and does so again until it hears of the new one.
fn wants_new_handle(code: ErrorCode) -> bool {
    code.class() == CodeClass::NewHandleNeeded
        || matches!(code, ErrorCode::TIMED_OUT | ErrorCode::MISSING)
}

/// 0.1 s, doubled with each failure, at most 3 s.
fn backoff(failed: u32) -> Duration {
    Duration::from_millis(100)
        .saturating_mul(1 << failed.saturating_sub(1).min(5))
        .min(Duration::from_secs(3))
}
