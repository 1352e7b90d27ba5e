//! The group-admin calls of librdkafka, which the `rdkafka` crate does not wrap. All that is unsafe is here.
//!
//! Each call goes out through one private queue, in as many requests as it needs and a few of them at a time, and is
//! collected by one loop on the calling thread. Whatever is returned is copied out before librdkafka's own is freed.
//!
//! Three rules keep it sound:
//! - Error codes, states, types and operations come from the broker and form open sets. A Rust enum with a value
//!   that it does not name is undefined behaviour, so the functions that return one are declared anew here with plain
//!   integers, and the one struct field of that kind is read through an integer pointer, never through a reference.
//! - A handle for these calls is a [`Handle`], which only ever is a consumer with a group of its own.
//! - Every object has one owner, [`Owned`](call::Owned), which knows its destructor.
#![expect(
    unsafe_code,
    reason = "librdkafka is a C library, and this is the module that speaks to it"
)]

mod call;
mod configs;
mod describe;
mod elements;
#[cfg(test)]
pub(super) mod mock;
mod offsets;
mod records;

use std::ffi::{c_char, c_int};
use std::time::{Duration, Instant};

use rdkafka_sys as sys;
use sys::rd_kafka_admin_op_t as Op;

use self::call::{Call, array, code, text};
pub(super) use self::configs::topic_configs;
pub(super) use self::describe::{
    Topic, describe_group, describe_topics, group_operations, topic_operations,
};
pub(super) use self::offsets::{
    Found, Isolation, Spec, all_committed, alter, committed, delete, list_offsets,
};
pub(super) use self::records::{last_high_watermark, produce, record};
use super::error::ErrorCode;
use super::handle::Handle;

// The functions of librdkafka that pass an open set, with integers. The names and the ABI are those of `rdkafka.h`.
unsafe extern "C" {
    fn rd_kafka_err2name(code: c_int) -> *const c_char;
    fn rd_kafka_error_code(error: *const sys::rd_kafka_error_t) -> c_int;
    fn rd_kafka_event_error(event: *mut sys::rd_kafka_event_t) -> c_int;
    fn rd_kafka_AdminOptions_set_request_timeout(
        options: *mut sys::rd_kafka_AdminOptions_t,
        timeout_ms: c_int,
        text: *mut c_char,
        text_size: usize,
    ) -> c_int;
    fn rd_kafka_ConsumerGroupDescription_state(
        group: *const sys::rd_kafka_ConsumerGroupDescription_t,
    ) -> c_int;
    fn rd_kafka_ConsumerGroupDescription_type(
        group: *const sys::rd_kafka_ConsumerGroupDescription_t,
    ) -> c_int;
    fn rd_kafka_ConsumerGroupDescription_authorized_operations(
        group: *const sys::rd_kafka_ConsumerGroupDescription_t,
        count: *mut usize,
    ) -> *const c_int;
    fn rd_kafka_TopicDescription_authorized_operations(
        topic: *const sys::rd_kafka_TopicDescription_t,
        count: *mut usize,
    ) -> *const c_int;
}

/// How long a call may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// No request is sent after it, and none waits beyond it.
    pub(super) deadline: Instant,
    /// How long one request may take.
    pub(super) request_timeout: Duration,
}

/// The name of an error code; `ERR_<n>?` for one that librdkafka does not know.
pub(super) fn error_name(code: i32) -> String {
    // SAFETY: takes any integer; the text is static or thread-local and copied before anything else is called.
    unsafe { text(rd_kafka_err2name(code)) }
}

/// DescribeCluster: the cluster's id.
pub(super) fn cluster_id(handle: &Handle, limits: Limits) -> Result<String, ErrorCode> {
    let call = Call::new(
        handle,
        limits,
        Op::RD_KAFKA_ADMIN_OP_DESCRIBECLUSTER,
        sys::RD_KAFKA_EVENT_DESCRIBECLUSTER_RESULT,
    )?;
    call.one(
        |rk, options, queue| {
            // SAFETY: the three pointers are live.
            unsafe { sys::rd_kafka_DescribeCluster(rk, options, queue) };
            Ok(())
        },
        |event| {
            // SAFETY: an event of this type is its own result, and the text lives as long as it.
            let id = unsafe { text(sys::rd_kafka_DescribeCluster_result_cluster_id(event)) };
            if id.is_empty() {
                return Err(ErrorCode::BAD_MSG);
            }
            Ok(id)
        },
    )
}

/// ListConsumerGroups: every group that any broker named (one may be named twice), and the brokers' errors.
pub(super) fn list_groups(
    handle: &Handle,
    limits: Limits,
) -> Result<(Vec<String>, Vec<ErrorCode>), ErrorCode> {
    let call = Call::new(
        handle,
        limits,
        Op::RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPS,
        sys::RD_KAFKA_EVENT_LISTCONSUMERGROUPS_RESULT,
    )?;
    call.one(
        |rk, options, queue| {
            // SAFETY: the three pointers are live.
            unsafe { sys::rd_kafka_ListConsumerGroups(rk, options, queue) };
            Ok(())
        },
        |event| {
            // SAFETY: an event of this type is its own result; the arrays and their elements live as long as it.
            unsafe {
                let groups = array(|n| sys::rd_kafka_ListConsumerGroups_result_valid(event, n));
                let errors = array(|n| sys::rd_kafka_ListConsumerGroups_result_errors(event, n));
                Ok((
                    groups
                        .map(|group| text(sys::rd_kafka_ConsumerGroupListing_group_id(group)))
                        .collect(),
                    errors.map(|error| code(error)).collect(),
                ))
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::super::settings::{Auth, ConnectionSettings};
    use super::*;

    /// librdkafka ends the process where another kind of handle gets `NOT_COORDINATOR` for an answer.
    #[test]
    fn a_handle_is_always_a_consumer() {
        let settings = ConnectionSettings::new("127.0.0.1:1", Auth::Plaintext);
        let handle = Handle::new(&settings).unwrap();
        // SAFETY: the handle is live, and the bindings name both types that there are.
        let kind = unsafe { sys::rd_kafka_type(handle.native_ptr()) };
        assert_eq!(kind, sys::rd_kafka_type_t::RD_KAFKA_CONSUMER);
    }
}
