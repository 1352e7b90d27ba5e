//! The cluster and its groups.

use rdkafka_sys as sys;
use sys::rd_kafka_admin_op_t as Op;

use super::call::{AdminCall, CallLimits};
use super::pointers::{copy_text, error_code, iterate_array};
use crate::codes::ErrorCode;
use crate::librdkafka::handle::Handle;

/// DescribeCluster: the cluster's id.
pub(crate) fn describe_cluster_id(
    handle: &Handle,
    limits: CallLimits,
) -> Result<String, ErrorCode> {
    let call = AdminCall::new(
        handle,
        limits,
        Op::RD_KAFKA_ADMIN_OP_DESCRIBECLUSTER,
        sys::RD_KAFKA_EVENT_DESCRIBECLUSTER_RESULT,
    )?;
    call.one(
        |sending| {
            // SAFETY: the pointers are live.
            unsafe { sys::rd_kafka_DescribeCluster(sending.rk, sending.options, sending.queue) };
            Ok(())
        },
        |event| {
            // SAFETY: an event of this type is its own result, and the text lives as long as it.
            let id = unsafe { copy_text(sys::rd_kafka_DescribeCluster_result_cluster_id(event)) };
            if id.is_empty() {
                return Err(ErrorCode::BAD_MSG);
            }
            Ok(id)
        },
    )
}

/// ListConsumerGroups: every group that any broker named (one may be named twice), and the brokers' errors.
pub(crate) fn list_groups(
    handle: &Handle,
    limits: CallLimits,
) -> Result<(Vec<String>, Vec<ErrorCode>), ErrorCode> {
    let call = AdminCall::new(
        handle,
        limits,
        Op::RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPS,
        sys::RD_KAFKA_EVENT_LISTCONSUMERGROUPS_RESULT,
    )?;
    call.one(
        |sending| {
            // SAFETY: the pointers are live.
            unsafe { sys::rd_kafka_ListConsumerGroups(sending.rk, sending.options, sending.queue) };
            Ok(())
        },
        |event| {
            // SAFETY: an event of this type is its own result; the arrays and their elements live as long as it.
            unsafe {
                let groups =
                    iterate_array(|n| sys::rd_kafka_ListConsumerGroups_result_valid(event, n));
                let errors =
                    iterate_array(|n| sys::rd_kafka_ListConsumerGroups_result_errors(event, n));
                Ok((
                    groups
                        .map(|group| copy_text(sys::rd_kafka_ConsumerGroupListing_group_id(group)))
                        .collect(),
                    errors.map(|error| error_code(error)).collect(),
                ))
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Auth, ConnectionSettings};

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
