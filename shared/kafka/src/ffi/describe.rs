//! Descriptions of groups and topics, and the operations that are allowed on them.

use std::collections::HashMap;
use std::ffi::c_int;

use rdkafka_sys as sys;
use sys::rd_kafka_admin_op_t as Op;

use super::call::{AdminCall, CallLimits};
use super::elements::copy_elements;
use super::pointers::{Owned, c_string, copy_text, error_code, iterate_array};
use crate::codes::ErrorCode;
use crate::librdkafka::handle::Handle;
use offset_guard_domain::group::{GroupDescription, GroupState, GroupType, Member};
use offset_guard_domain::offset::TopicId;
use offset_guard_domain::rights::{Operation, Operations};

// Declared again because they return an open set, see the parent module.
unsafe extern "C" {
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

/// A topic as the broker describes it.
#[derive(Debug)]
pub(crate) struct TopicMetadata {
    pub(crate) id: Option<TopicId>,
    pub(crate) partitions: i32,
    /// How many replicas the partition with the fewest has.
    pub(crate) replicas: usize,
    /// The partitions that have no leader now.
    pub(crate) leaderless: Vec<i32>,
}

/// DescribeConsumerGroups for one group (KIP-848 first, the classic protocol where the broker does not know it so).
pub(crate) fn describe_group(
    handle: &Handle,
    limits: CallLimits,
    group: &str,
) -> Result<GroupDescription, ErrorCode> {
    // SAFETY: only called with a live group.
    describe_one_group(handle, limits, group, false, |group| unsafe {
        copy_group(group)
    })
}

/// The operations on a group that its coordinator allows the asking principal; `None` where it does not say.
pub(crate) fn describe_group_operations(
    handle: &Handle,
    limits: CallLimits,
    group: &str,
) -> Result<Operations, ErrorCode> {
    // SAFETY: only called with a live group, whose operations live as long as it.
    describe_one_group(handle, limits, group, true, |group| unsafe {
        let mut count = 0;
        let first = rd_kafka_ConsumerGroupDescription_authorized_operations(group, &raw mut count);
        copy_operations(first, count)
    })
}

/// `read` is given a live group, and what it returns must be copied from it.
fn describe_one_group<T>(
    handle: &Handle,
    limits: CallLimits,
    group: &str,
    with_operations: bool,
    mut read: impl FnMut(*const sys::rd_kafka_ConsumerGroupDescription_t) -> T,
) -> Result<T, ErrorCode> {
    let name = c_string(group)?;
    let call = AdminCall::new(
        handle,
        limits,
        Op::RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS,
        sys::RD_KAFKA_EVENT_DESCRIBECONSUMERGROUPS_RESULT,
    )?;
    include_operations(&call, with_operations)?;
    call.one(
        |sending| {
            let mut names = [name.as_ptr()];
            // SAFETY: the pointers are live; the names are copied.
            unsafe {
                sys::rd_kafka_DescribeConsumerGroups(
                    sending.rk,
                    names.as_mut_ptr(),
                    1,
                    sending.options,
                    sending.queue,
                );
            }
            Ok(())
        },
        |event| {
            // SAFETY: an event of this type is its own result; its one element lives as long as it.
            unsafe {
                let mut groups =
                    iterate_array(|n| sys::rd_kafka_DescribeConsumerGroups_result_groups(event, n));
                let group = groups.next().ok_or(ErrorCode::MISSING)?;
                error_code(sys::rd_kafka_ConsumerGroupDescription_error(group)).check()?;
                Ok(read(group))
            }
        },
    )
}

fn include_operations(call: &AdminCall<'_>, include: bool) -> Result<(), ErrorCode> {
    call.configure(|options| {
        // SAFETY: `options` is live and of an operation that knows this option.
        unsafe {
            sys::rd_kafka_AdminOptions_set_include_authorized_operations(options, include.into())
        }
    })
}

/// Operations form an open set and are read as integers. A broker that does not tell them answers with none.
///
/// # Safety
/// `first` is null or points to `count` integers.
unsafe fn copy_operations(first: *const c_int, count: usize) -> Operations {
    use sys::rd_kafka_AclOperation_t::{
        RD_KAFKA_ACL_OPERATION_DELETE, RD_KAFKA_ACL_OPERATION_READ,
    };
    if first.is_null() || count == 0 {
        return None;
    }
    // SAFETY: by the contract above.
    let allowed = (0..count).map(|i| unsafe { *first.add(i) });
    let known = allowed.filter_map(|operation| {
        if operation == RD_KAFKA_ACL_OPERATION_READ as c_int {
            Some(Operation::Read)
        } else if operation == RD_KAFKA_ACL_OPERATION_DELETE as c_int {
            Some(Operation::Delete)
        } else {
            None
        }
    });
    Some(known.collect())
}

/// # Safety
/// `group` is live.
unsafe fn copy_group(group: *const sys::rd_kafka_ConsumerGroupDescription_t) -> GroupDescription {
    // SAFETY: `group` is live, and what it lends lives as long as it.
    unsafe {
        let members = sys::rd_kafka_ConsumerGroupDescription_member_count(group);
        GroupDescription {
            state: match rd_kafka_ConsumerGroupDescription_state(group) {
                1 => GroupState::PreparingRebalance,
                2 => GroupState::CompletingRebalance,
                3 => GroupState::Stable,
                4 => GroupState::Dead,
                5 => GroupState::Empty,
                _ => GroupState::Unknown,
            },
            group_type: match rd_kafka_ConsumerGroupDescription_type(group) {
                1 => GroupType::Consumer,
                2 => GroupType::Classic,
                _ => GroupType::Unknown,
            },
            is_simple: sys::rd_kafka_ConsumerGroupDescription_is_simple_consumer_group(group) != 0,
            assignor: copy_text(sys::rd_kafka_ConsumerGroupDescription_partition_assignor(
                group,
            )),
            members: (0..members)
                .map(|i| copy_member(sys::rd_kafka_ConsumerGroupDescription_member(group, i)))
                .collect(),
        }
    }
}

/// # Safety
/// `member` is live.
unsafe fn copy_member(member: *const sys::rd_kafka_MemberDescription_t) -> Member {
    // SAFETY: `member` is live, and what it lends lives as long as it.
    unsafe {
        let instance_id = sys::rd_kafka_MemberDescription_group_instance_id(member);
        let assignment = sys::rd_kafka_MemberDescription_assignment(member);
        let assignment = if assignment.is_null() {
            Vec::new()
        } else {
            copy_elements(sys::rd_kafka_MemberAssignment_partitions(assignment))
        };
        Member {
            member_id: copy_text(sys::rd_kafka_MemberDescription_consumer_id(member)),
            client_id: copy_text(sys::rd_kafka_MemberDescription_client_id(member)),
            host: copy_text(sys::rd_kafka_MemberDescription_host(member)),
            instance_id: (!instance_id.is_null()).then(|| copy_text(instance_id)),
            assignment: assignment.into_iter().map(|e| e.partition).collect(),
        }
    }
}

/// DescribeTopics, one answer each in the order of `topics`.
pub(crate) fn describe_topics(
    handle: &Handle,
    limits: CallLimits,
    topics: &[String],
) -> Vec<Result<TopicMetadata, ErrorCode>> {
    // SAFETY: only called with a live topic.
    describe_each_topic(handle, limits, topics, false, |topic| unsafe {
        copy_topic(topic)
    })
}

/// The operations on each topic that the broker allows the asking principal; `None` where it does not say.
pub(crate) fn describe_topic_operations(
    handle: &Handle,
    limits: CallLimits,
    topics: &[String],
) -> Vec<Result<Operations, ErrorCode>> {
    // SAFETY: only called with a live topic, whose operations live as long as it.
    describe_each_topic(handle, limits, topics, true, |topic| unsafe {
        let mut count = 0;
        let first = rd_kafka_TopicDescription_authorized_operations(topic, &raw mut count);
        copy_operations(first, count)
    })
}

/// `read` is given a live topic, and what it returns must be copied from it.
fn describe_each_topic<T>(
    handle: &Handle,
    limits: CallLimits,
    topics: &[String],
    with_operations: bool,
    read: impl Fn(*const sys::rd_kafka_TopicDescription_t) -> T,
) -> Vec<Result<T, ErrorCode>> {
    if topics.is_empty() {
        return Vec::new();
    }
    let attempt = || {
        let names = topics
            .iter()
            .map(|topic| c_string(topic))
            .collect::<Result<Vec<_>, _>>()?;
        let mut pointers: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
        // SAFETY: the names are copied; the destructor is the collection's own.
        let collection = unsafe {
            Owned::new(
                sys::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len()),
                sys::rd_kafka_TopicCollection_destroy,
            )
        }?;
        let call = AdminCall::new(
            handle,
            limits,
            Op::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS,
            sys::RD_KAFKA_EVENT_DESCRIBETOPICS_RESULT,
        )?;
        include_operations(&call, with_operations)?;
        call.one(
            |sending| {
                // SAFETY: the pointers are live; the collection is copied.
                unsafe {
                    sys::rd_kafka_DescribeTopics(
                        sending.rk,
                        collection.ptr,
                        sending.options,
                        sending.queue,
                    )
                };
                Ok(())
            },
            |event| {
                // SAFETY: an event of this type is its own result; the array and its elements live as long as it.
                Ok(unsafe {
                    iterate_array(|n| sys::rd_kafka_DescribeTopics_result_topics(event, n))
                        .map(|topic| {
                            let error = error_code(sys::rd_kafka_TopicDescription_error(topic));
                            let name = copy_text(sys::rd_kafka_TopicDescription_name(topic));
                            (name, error.check().map(|()| read(topic)))
                        })
                        .collect::<HashMap<_, _>>()
                })
            },
        )
    };
    match attempt() {
        Ok(mut described) => topics
            .iter()
            .map(|topic| described.remove(topic).unwrap_or(Err(ErrorCode::MISSING)))
            .collect(),
        Err(code) => topics.iter().map(|_| Err(code)).collect(),
    }
}

/// # Safety
/// `topic` is live.
unsafe fn copy_topic(topic: *const sys::rd_kafka_TopicDescription_t) -> TopicMetadata {
    // SAFETY: `topic` is live, and what it lends lives as long as it.
    unsafe {
        let uuid = sys::rd_kafka_TopicDescription_topic_id(topic);
        let mut id = [0; 16];
        if !uuid.is_null() {
            id[..8].copy_from_slice(&sys::rd_kafka_Uuid_most_significant_bits(uuid).to_be_bytes());
            id[8..].copy_from_slice(&sys::rd_kafka_Uuid_least_significant_bits(uuid).to_be_bytes());
        }
        let mut found = TopicMetadata {
            id: TopicId::from_bytes(id),
            partitions: 0,
            replicas: usize::MAX,
            leaderless: Vec::new(),
        };
        for partition in iterate_array(|n| sys::rd_kafka_TopicDescription_partitions(topic, n)) {
            found.partitions += 1;
            let mut replicas = 0;
            let _ = sys::rd_kafka_TopicPartitionInfo_replicas(partition, &raw mut replicas);
            found.replicas = found.replicas.min(replicas);
            if sys::rd_kafka_TopicPartitionInfo_leader(partition).is_null() {
                found
                    .leaderless
                    .push(sys::rd_kafka_TopicPartitionInfo_partition(partition));
            }
        }
        found
    }
}
