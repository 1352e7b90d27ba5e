//! One admin call: its options, its private queue, its requests and the loop that collects their answers.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::time::{Duration, Instant};

use rdkafka_sys as sys;

use super::super::error::ErrorCode;
use super::super::handle::Handle;
use super::{
    Limits, rd_kafka_AdminOptions_set_request_timeout, rd_kafka_error_code, rd_kafka_event_error,
};
use crate::domain::offset::{CommittedOffset, TopicPartition};

/// Partitions in one read request. librdkafka searches its lists linearly, so a call of 10,000 partitions costs ten
/// times what 25 calls of 400 do; the broker does not mind either.
const PARTITIONS_PER_READ: usize = 400;
/// Requests on their way at a time.
const IN_FLIGHT: usize = 4;
/// librdkafka answers each request within its time-out; this much later there is no answer to come.
const GRACE: Duration = Duration::from_secs(2);

pub(super) type Options = sys::rd_kafka_AdminOptions_t;
pub(super) type Queue = sys::rd_kafka_queue_t;
pub(super) type Event = sys::rd_kafka_event_t;

/// Owns one librdkafka object and gives it to its destructor.
pub(super) struct Owned<T> {
    pub(super) ptr: *mut T,
    destroy: unsafe extern "C" fn(*mut T),
}

impl<T> Owned<T> {
    /// # Errors
    /// `_INVALID_ARG` for a null pointer: librdkafka returns one where it does not know what was asked for.
    ///
    /// # Safety
    /// `ptr` is null or an object that `destroy` frees, and nobody else frees it.
    pub(super) unsafe fn new(
        ptr: *mut T,
        destroy: unsafe extern "C" fn(*mut T),
    ) -> Result<Self, ErrorCode> {
        if ptr.is_null() {
            return Err(ErrorCode::INVALID_ARG);
        }
        Ok(Self { ptr, destroy })
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: by the contract of `new`, `ptr` is ours to free, once.
        unsafe { (self.destroy)(self.ptr) };
    }
}

/// A list of partitions that librdkafka can read.
pub(super) struct List(Owned<sys::rd_kafka_topic_partition_list_t>);

impl List {
    /// Lists `partitions`; `fill` writes what else the request needs into the element of each.
    ///
    /// Every element starts as [`ErrorCode::MISSING`]. librdkafka copies the list and overwrites the code of what the
    /// answer mentions; left at 0, an element that the broker forgot would look like a success or like "no commit".
    pub(super) fn new<'p>(
        partitions: impl ExactSizeIterator<Item = &'p TopicPartition>,
        mut fill: impl FnMut(usize, *mut sys::rd_kafka_topic_partition_t),
    ) -> Result<Self, ErrorCode> {
        let size = c_int::try_from(partitions.len()).map_err(|_| ErrorCode::INVALID_ARG)?;
        // SAFETY: any size is good; the destructor is the list's own.
        let list = unsafe {
            Owned::new(
                sys::rd_kafka_topic_partition_list_new(size),
                sys::rd_kafka_topic_partition_list_destroy,
            )
        }?;
        let mut topic: (&str, CString) = ("", CString::default());
        for (i, partition) in partitions.enumerate() {
            if topic.0 != partition.topic {
                topic = (&partition.topic, c_string(&partition.topic)?);
            }
            // SAFETY: the list is live and copies the name; the new element is valid until the next one is added.
            unsafe {
                let element = sys::rd_kafka_topic_partition_list_add(
                    list.ptr,
                    topic.1.as_ptr(),
                    partition.partition,
                );
                (&raw mut (*element).err)
                    .cast::<c_int>()
                    .write(ErrorCode::MISSING.0);
                fill(i, element);
            }
        }
        Ok(Self(list))
    }

    pub(super) fn ptr(&self) -> *mut sys::rd_kafka_topic_partition_list_t {
        self.0.ptr
    }
}

/// Writes the whole committed triple into an element.
///
/// # Safety
/// `element` is live, ours alone, and has no metadata yet.
pub(super) unsafe fn set_commit(
    element: *mut sys::rd_kafka_topic_partition_t,
    commit: &CommittedOffset,
) {
    // SAFETY: by the contract above. The metadata is allocated by librdkafka, which frees it with the list.
    unsafe {
        (*element).offset = commit.offset;
        if let Some(epoch) = commit.leader_epoch {
            sys::rd_kafka_topic_partition_set_leader_epoch(element, epoch);
        }
        let metadata = &commit.metadata;
        if !metadata.is_empty() {
            let copy = sys::rd_kafka_mem_malloc(ptr::null_mut(), metadata.len());
            ptr::copy_nonoverlapping(metadata.as_ptr(), copy.cast(), metadata.len());
            (*element).metadata = copy;
            (*element).metadata_size = metadata.len();
        }
    }
}

/// One partition of an answer.
pub(super) struct Element {
    pub(super) partition: TopicPartition,
    pub(super) offset: i64,
    pub(super) leader_epoch: Option<i32>,
    pub(super) metadata: Vec<u8>,
    pub(super) code: ErrorCode,
}

/// # Safety
/// `element` is live.
pub(super) unsafe fn element(element: *const sys::rd_kafka_topic_partition_t) -> Element {
    const { assert!(size_of::<sys::rd_kafka_resp_err_t>() == size_of::<c_int>()) };
    // SAFETY: the fields are read one by one and the code as an integer: no reference to the struct is made, since
    // its Rust declaration has an enum where any number may be.
    unsafe {
        let (metadata, size) = ((*element).metadata, (*element).metadata_size);
        let epoch = sys::rd_kafka_topic_partition_get_leader_epoch(element);
        Element {
            partition: TopicPartition::new(text((*element).topic), (*element).partition),
            offset: (*element).offset,
            leader_epoch: (epoch >= 0).then_some(epoch),
            metadata: if metadata.is_null() {
                Vec::new()
            } else {
                std::slice::from_raw_parts(metadata.cast::<u8>(), size).to_vec()
            },
            code: ErrorCode((&raw const (*element).err).cast::<c_int>().read()),
        }
    }
}

/// # Safety
/// `list` is null or live.
pub(super) unsafe fn elements(list: *const sys::rd_kafka_topic_partition_list_t) -> Vec<Element> {
    if list.is_null() {
        return Vec::new();
    }
    // SAFETY: `elems` holds `cnt` elements.
    unsafe {
        let count = usize::try_from((*list).cnt).unwrap_or(0);
        (0..count).map(|i| element((*list).elems.add(i))).collect()
    }
}

/// # Safety
/// `pointer` is null or a text that ends with a zero byte.
pub(super) unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: by the contract above.
    unsafe { CStr::from_ptr(pointer) }
        .to_string_lossy()
        .into_owned()
}

/// # Safety
/// `error` is null (no error) or live.
pub(super) unsafe fn code(error: *const sys::rd_kafka_error_t) -> ErrorCode {
    if error.is_null() {
        return ErrorCode::NONE;
    }
    // SAFETY: by the contract above; declared to return an integer.
    ErrorCode(unsafe { rd_kafka_error_code(error) })
}

/// # Safety
/// `get` returns an array of as many elements as it writes, which lives as long as the iterator.
pub(super) unsafe fn array<T>(
    get: impl FnOnce(*mut usize) -> *mut *const T,
) -> impl Iterator<Item = *const T> {
    let mut count = 0;
    let first = get(&raw mut count);
    // SAFETY: by the contract above.
    (0..count).map(move |i| unsafe { *first.add(i) })
}

/// The one group of an answer that is about one group.
///
/// # Safety
/// `get` belongs to the type of `event`.
pub(super) unsafe fn group_result(
    event: *mut Event,
    get: unsafe extern "C" fn(*const Event, *mut usize) -> *mut *const sys::rd_kafka_group_result_t,
) -> Result<Vec<Element>, ErrorCode> {
    // SAFETY: by the contract above; what the event lends lives as long as it.
    unsafe {
        let group = array(|n| get(event, n)).next().ok_or(ErrorCode::MISSING)?;
        code(sys::rd_kafka_group_result_error(group)).check()?;
        Ok(elements(sys::rd_kafka_group_result_partitions(group)))
    }
}

/// `text` for librdkafka.
///
/// # Errors
/// `_INVALID_ARG`: it contains a zero byte.
pub(super) fn c_string(text: &str) -> Result<CString, ErrorCode> {
    CString::new(text).map_err(|_| ErrorCode::INVALID_ARG)
}

/// An admin call of one kind.
pub(super) struct Call<'h> {
    handle: &'h Handle,
    limits: Limits,
    options: Owned<Options>,
    answers_with: c_int,
}

impl<'h> Call<'h> {
    pub(super) fn new(
        handle: &'h Handle,
        limits: Limits,
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
            Ok(error) => unsafe { code(error.ptr) }.check(),
        }
    }

    /// One request.
    pub(super) fn one<T>(
        &self,
        mut submit: impl FnMut(*mut sys::rd_kafka_t, *const Options, *mut Queue),
        read: impl FnMut(*mut Event) -> Result<T, ErrorCode>,
    ) -> Result<T, ErrorCode> {
        let submit = |_, rk, options, queue| {
            submit(rk, options, queue);
            Ok(())
        };
        self.run(1, submit, read).swap_remove(0)
    }

    /// As many requests as `items` need, and the answer for each range of them.
    pub(super) fn chunks<I, T>(
        &self,
        items: &[I],
        mut submit: impl FnMut(
            &[I],
            *mut sys::rd_kafka_t,
            *const Options,
            *mut Queue,
        ) -> Result<(), ErrorCode>,
        read: impl FnMut(*mut Event) -> Result<T, ErrorCode>,
    ) -> Vec<Answer<T>> {
        let ranges: Vec<_> = (0..items.len())
            .step_by(PARTITIONS_PER_READ)
            .map(|start| start..items.len().min(start + PARTITIONS_PER_READ))
            .collect();
        let answers = self.run(
            ranges.len(),
            |i, rk, options, queue| submit(&items[ranges[i].clone()], rk, options, queue),
            read,
        );
        ranges.into_iter().zip(answers).collect()
    }

    /// Submits `count` requests, a few at a time, and collects their answers in the order of the requests.
    fn run<T>(
        &self,
        count: usize,
        mut submit: impl FnMut(
            usize,
            *mut sys::rd_kafka_t,
            *const Options,
            *mut Queue,
        ) -> Result<(), ErrorCode>,
        mut read: impl FnMut(*mut Event) -> Result<T, ErrorCode>,
    ) -> Vec<Result<T, ErrorCode>> {
        let mut answers: Vec<Result<T, ErrorCode>> =
            (0..count).map(|_| Err(ErrorCode::TIMED_OUT)).collect();
        let rk = self.handle.native_ptr();
        // SAFETY: the handle is live and outlives the queue, which is dropped at the end of this function. What
        // arrives after that is dropped by librdkafka.
        let queue = unsafe { Owned::new(sys::rd_kafka_queue_new(rk), sys::rd_kafka_queue_destroy) };
        let Ok(queue) = queue else { return answers };

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
                    .and_then(|()| submit(index, rk, self.options.ptr, queue.ptr))
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

/// A range of the items that were asked for, and the answer to the request that held them.
pub(super) type Answer<T> = (Range<usize>, Result<T, ErrorCode>);

/// Gives every one of `wanted` its own answer, by name: the order of an answer means nothing.
pub(super) fn match_up<P: Borrow<TopicPartition>, T>(
    wanted: &[P],
    answers: Vec<Answer<Vec<Element>>>,
    read: impl Fn(Element) -> T,
) -> Vec<Result<T, ErrorCode>> {
    let mut matched = Vec::with_capacity(wanted.len());
    for (range, answer) in answers {
        match answer {
            Err(code) => matched.extend(range.map(|_| Err(code))),
            Ok(elements) => {
                let mut by_name: HashMap<_, _> = elements
                    .into_iter()
                    .map(|element| (element.partition.clone(), element))
                    .collect();
                matched.extend(wanted[range].iter().map(|partition| {
                    let element = by_name
                        .remove(partition.borrow())
                        .ok_or(ErrorCode::MISSING)?;
                    element.code.check().map(|()| read(element))
                }));
            }
        }
    }
    matched
}
