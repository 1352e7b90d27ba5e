//! The configuration of topics.

use std::collections::BTreeMap;
use std::ffi::c_int;

use rdkafka_sys as sys;
use sys::rd_kafka_admin_op_t as Op;

use super::call::{AdminCall, CallLimits};
use super::pointers::{Owned, c_string, copy_text, iterate_array};
use crate::codes::ErrorCode;
use crate::librdkafka::handle::Handle;

// Declared again because it returns an open set, see the parent module.
unsafe extern "C" {
    fn rd_kafka_ConfigResource_error(resource: *const sys::rd_kafka_ConfigResource_t) -> c_int;
}

/// DescribeConfigs for one topic: every property in effect, by its name; sensitive ones are empty.
pub(crate) fn describe_topic_configs(
    handle: &Handle,
    limits: CallLimits,
    topic: &str,
) -> Result<BTreeMap<String, String>, ErrorCode> {
    let name = c_string(topic)?;
    // SAFETY: the name is copied; the destructor is the resource's own.
    let resource = unsafe {
        Owned::new(
            sys::rd_kafka_ConfigResource_new(
                sys::rd_kafka_ResourceType_t::RD_KAFKA_RESOURCE_TOPIC,
                name.as_ptr(),
            ),
            sys::rd_kafka_ConfigResource_destroy,
        )
    }?;
    let call = AdminCall::new(
        handle,
        limits,
        Op::RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS,
        sys::RD_KAFKA_EVENT_DESCRIBECONFIGS_RESULT,
    )?;
    call.one(
        |sending| {
            let mut resources = [resource.ptr];
            // SAFETY: the pointers are live; the resources are copied.
            unsafe {
                sys::rd_kafka_DescribeConfigs(
                    sending.rk,
                    resources.as_mut_ptr(),
                    1,
                    sending.options,
                    sending.queue,
                );
            }
            Ok(())
        },
        |event| {
            // SAFETY: an event of this type is its own result; the arrays and their elements live as long as it.
            unsafe {
                let mut resources =
                    iterate_array(|n| sys::rd_kafka_DescribeConfigs_result_resources(event, n));
                let resource = resources.next().ok_or(ErrorCode::MISSING)?;
                ErrorCode(rd_kafka_ConfigResource_error(resource)).check()?;
                Ok(
                    iterate_array(|n| sys::rd_kafka_ConfigResource_configs(resource, n))
                        .map(|entry| {
                            (
                                copy_text(sys::rd_kafka_ConfigEntry_name(entry)),
                                copy_text(sys::rd_kafka_ConfigEntry_value(entry)),
                            )
                        })
                        .collect(),
                )
            }
        },
    )
}
