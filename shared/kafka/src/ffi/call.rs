//! One admin call: its options, its private queue, its requests and the loop that collects their answers.

use std::ffi::{c_char, c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::time::{Duration, Instant};

use rdkafka_sys as sys;

use super::pointers::{Owned, error_code};
use crate::codes::ErrorCode;
use crate::librdkafka::handle::Handle;

// Declared again because they return an open set, see the parent module.
unsafe extern "C" {
    fn rd_kafka_event_error(event: *mut sys::rd_kafka_event_t) -> c_int;
    fn rd_kafka_AdminOptions_set_request_timeout(
        options: *mut sys::rd_kafka_AdminOptions_t,
        timeout_ms: c_int,
        text: *mut c_char,
        text_size: usize,
    ) -> c_int;
}

/// Partitions in one read request. librdkafka searches its lists linearly, so a call of 10,000 partitions costs ten
/// times what 25 calls of 400 do; the broker does not mind either.
const PARTITIONS_PER_READ: usize = 400;
/// Requests on their way at a time.
const IN_FLIGHT: usize = 4;
/// librdkafka answers each request within its time-out; this much later there is no answer to come.
const GRACE: Duration = Duration::from_secs(2);

pub(super) type Options = sys::rd_kafka_AdminOptions_t;
pub(super) type Event = sys::rd_kafka_event_t;

/// What one request is sent with. The pointers are live for as long as this is lent, and the
/// options are of the call's operation.
pub(super) struct Sending {
    pub(super) rk: *mut sys::rd_kafka_t,
    pub(super) options: *const Options,
    pub(super) queue: *mut sys::rd_kafka_queue_t,
}

/// How long a call may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallLimits {
    /// No request is sent later, and none waits longer.
    pub(crate) deadline: Instant,
    /// Longest time for one request.
    pub(crate) request_timeout: Duration,
}

/// A range of the items that were asked for, and the answer to the request that held them.
pub(super) type ChunkAnswer<T> = (Range<usize>, Result<T, ErrorCode>);

/// An admin call of one kind.
pub(super) struct AdminCall<'h> {
    handle: &'h Handle,
    limits: CallLimits,
    options: Owned<Options>,
    answers_with: c_int,
}

impl<'h> AdminCall<'h> {
    pub(super) fn new(
        handle: &'h Handle,
        limits: CallLimits,
        operation: sys::rd_kafka_admin_op_t,
        answers_with: sys::rd_kafka_event_type_t,
    ) -> Result<Self, ErrorCode> {
        // SAFETY: the handle is live; the destructor is the options' own.
        let options = unsafe {
            Owned::new(
                sys::rd_kafka_AdminOptions_new(handle.native_ptr(), operation),
                sys::rd_kafka_AdminOptions_destroy,
            )
        }?;
        Ok(Self {
            handle,
            limits,
            options,
            answers_with,
        })
    }

    /// Sets an option, by one of the setters that return an error object.
    pub(super) fn configure(
        &self,
        set: impl FnOnce(*mut Options) -> *mut sys::rd_kafka_error_t,
    ) -> Result<(), ErrorCode> {
        let error = set(self.options.ptr);
        // SAFETY: the error is null or ours, to be freed by its own destructor.
        match unsafe { Owned::new(error, sys::rd_kafka_error_destroy) } {
            Err(_) => Ok(()),
            // SAFETY: it is live.
            Ok(error) => unsafe { error_code(error.ptr) }.check(),
        }
    }

    /// One request.
    pub(super) fn one<T>(
        &self,
        mut submit: impl FnMut(&Sending) -> Result<(), ErrorCode>,
        read: impl FnMut(*mut Event) -> Result<T, ErrorCode>,
    ) -> Result<T, ErrorCode> {
        self.run(1, |_, sending| submit(sending), read)
            .swap_remove(0)
    }

    /// As many requests as `items` need, and the answer for each range of them.
    pub(super) fn chunks<I, T>(
        &self,
        items: &[I],
        mut submit: impl FnMut(&[I], &Sending) -> Result<(), ErrorCode>,
        read: impl FnMut(*mut Event) -> Result<T, ErrorCode>,
    ) -> Vec<ChunkAnswer<T>> {
        let ranges: Vec<_> = (0..items.len())
            .step_by(PARTITIONS_PER_READ)
            .map(|start| start..items.len().min(start + PARTITIONS_PER_READ))
            .collect();
        let answers = self.run(
            ranges.len(),
            |i, sending| submit(&items[ranges[i].clone()], sending),
            read,
        );
        ranges.into_iter().zip(answers).collect()
    }

    /// Submits `count` requests, a few at a time, and collects their answers in the order of the requests.
    fn run<T>(
        &self,
        count: usize,
        mut submit: impl FnMut(usize, &Sending) -> Result<(), ErrorCode>,
        mut read: impl FnMut(*mut Event) -> Result<T, ErrorCode>,
    ) -> Vec<Result<T, ErrorCode>> {
        let mut answers: Vec<Result<T, ErrorCode>> =
            (0..count).map(|_| Err(ErrorCode::TIMED_OUT)).collect();
        let rk = self.handle.native_ptr();
        // SAFETY: the handle is live and outlives the queue, which is dropped at the end of this function. What
        // arrives after that is dropped by librdkafka.
        let queue = unsafe { Owned::new(sys::rd_kafka_queue_new(rk), sys::rd_kafka_queue_destroy) };
        let Ok(queue) = queue else { return answers };
        let sending = Sending {
            rk,
            options: self.options.ptr,
            queue: queue.ptr,
        };

        let (mut next, mut in_flight, mut last_answer_by) = (0, 0, Instant::now());
        loop {
            while in_flight < IN_FLIGHT && next < count {
                let index = next;
                next += 1;
                let now = Instant::now();
                let timeout = self
                    .limits
                    .request_timeout
                    .min(self.limits.deadline.saturating_duration_since(now));
                match self
                    .prepare(index, timeout)
                    .and_then(|()| submit(index, &sending))
                {
                    Ok(()) => {
                        in_flight += 1;
                        last_answer_by = last_answer_by.max(now + timeout + GRACE);
                    }
                    Err(code) => answers[index] = Err(code),
                }
            }
            if in_flight == 0 {
                return answers;
            }
            let wait = milliseconds(last_answer_by.saturating_duration_since(Instant::now()));
            // SAFETY: the queue is live; a null event means that the time is over.
            let event = unsafe {
                Owned::new(
                    sys::rd_kafka_queue_poll(queue.ptr, wait),
                    sys::rd_kafka_event_destroy,
                )
            };
            let Ok(event) = event else { return answers };
            // SAFETY: the event is live.
            let tag = unsafe { sys::rd_kafka_event_opaque(event.ptr) }.addr();
            // Tags count from 1, so that an event without one is not taken for the first.
            if let Some(answer) = tag.checked_sub(1).and_then(|index| answers.get_mut(index)) {
                in_flight -= 1;
                *answer = self.accept(event.ptr).and_then(|()| read(event.ptr));
            }
        }
    }

    /// Sets the time-out and the tag of the next request. librdkafka copies the options with each request.
    fn prepare(&self, index: usize, timeout: Duration) -> Result<(), ErrorCode> {
        if timeout < Duration::from_millis(1) {
            return Err(ErrorCode::TIMED_OUT);
        }
        let mut reason = [0; 128];
        let tag: *mut c_void = ptr::without_provenance_mut(index + 1);
        // SAFETY: the options are live and the buffer is as long as said. The tag is never dereferenced.
        unsafe {
            let code = rd_kafka_AdminOptions_set_request_timeout(
                self.options.ptr,
                milliseconds(timeout),
                reason.as_mut_ptr(),
                reason.len(),
            );
            sys::rd_kafka_AdminOptions_set_opaque(self.options.ptr, tag);
            ErrorCode(code).check()
        }
    }

    /// Whether an event is an answer of this call's kind and not an error.
    fn accept(&self, event: *mut Event) -> Result<(), ErrorCode> {
        // SAFETY: the event is live.
        unsafe {
            ErrorCode(rd_kafka_event_error(event)).check()?;
            if sys::rd_kafka_event_type(event) != self.answers_with {
                return Err(ErrorCode::BAD_MSG);
            }
        }
        Ok(())
    }
}

fn milliseconds(duration: Duration) -> c_int {
    c_int::try_from(duration.as_millis()).unwrap_or(c_int::MAX)
}
