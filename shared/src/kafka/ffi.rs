//! The group-admin calls of librdkafka, which the `rdkafka` crate does not wrap. All that is unsafe is here.
//!
//! Each call goes out through one private queue, in as many requests as it needs and a few of them at a time, and is
//! collected by one loop on the calling thread. Whatever is returned is copied out before librdkafka's own is freed.
//!
//! Three rules keep it sound:
//! - Error codes, states, types and operations come from the broker and form open sets. A Rust enum with a value
//!   that it does not name is undefined behaviour, so the functions that return one are declared anew here with plain
//!   integers, and the one struct field of that kind is read through an integer pointer, never through a reference.
//! - A handle is a [`Handle`], which only ever is a consumer with a group of its own.
//! - Every object has one owner, [`Owned`], which knows its destructor.
#![expect(
    unsafe_code,
    reason = "librdkafka is a C library, and this is the module that speaks to it"
)]

mod call;
#[cfg(test)]
pub(super) mod mock;

use std::collections::HashMap;
use std::ffi::{c_char, c_int};
use std::ptr;
use std::time::{Duration, Instant};

use rdkafka_sys as sys;
use sys::rd_kafka_admin_op_t as Op;

use self::call::{
    Call, List, Owned, array, c_string, code, element, elements, group_result, match_up,
    set_commit, text,
};
use super::error::ErrorCode;
use super::handle::Handle;
use crate::domain::group::{GroupDescription, GroupState, GroupType, Member};
use crate::domain::offset::{CommittedOffset, TopicId, TopicPartition};

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
}

/// How long a call may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// No request is sent after it, and none waits beyond it.
    pub(super) deadline: Instant,
    /// How long one request may take.
    pub(super) request_timeout: Duration,
}

/// What a topic looks like to the broker.
#[derive(Debug)]
pub(super) struct Topic {
    pub(super) id: Option<TopicId>,
    pub(super) partitions: i32,
    /// The partitions that have no leader now.
    pub(super) leaderless: Vec<i32>,
}

/// An offset that ListOffsets found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    /// `-1` where no record is at or after the timestamp.
    pub(super) offset: i64,
    pub(super) leader_epoch: Option<i32>,
}

/// Which offset of a partition ListOffsets looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spec {
    /// The log start offset.
    Earliest,
    /// The high watermark, or with [`Isolation::ReadCommitted`] the last stable offset.
    Latest,
    /// The first record at or after this many milliseconds since the epoch.
    Timestamp(i64),
}

impl Spec {
    fn wire(self) -> i64 {
        match self {
            Self::Earliest => -2,
            Self::Latest => -1,
            // A negative timestamp would be read as one of the specs; nothing is older than the epoch.
            Self::Timestamp(milliseconds) => milliseconds.max(0),
        }
    }
}

/// What ListOffsets takes for the end of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Isolation {
    ReadUncommitted,
    ReadCommitted,
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

/// DescribeConsumerGroups for one group (KIP-848 first, the classic protocol where the broker does not know it so).
pub(super) fn describe_group(
    handle: &Handle,
    limits: Limits,
    group: &str,
) -> Result<GroupDescription, ErrorCode> {
    let name = c_string(group)?;
    let call = Call::new(
        handle,
        limits,
        Op::RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS,
        sys::RD_KAFKA_EVENT_DESCRIBECONSUMERGROUPS_RESULT,
    )?;
    call.configure(|options| {
        // SAFETY: `options` is live and of this operation.
        unsafe { sys::rd_kafka_AdminOptions_set_include_authorized_operations(options, 1) }
    })?;
    call.one(
        |rk, options, queue| {
            let mut names = [name.as_ptr()];
            // SAFETY: the pointers are live; the names are copied.
            unsafe {
                sys::rd_kafka_DescribeConsumerGroups(rk, names.as_mut_ptr(), 1, options, queue);
            }
        },
        |event| {
            // SAFETY: an event of this type is its own result; its one element lives as long as it.
            unsafe {
                let mut groups =
                    array(|n| sys::rd_kafka_DescribeConsumerGroups_result_groups(event, n));
                let group = groups.next().ok_or(ErrorCode::MISSING)?;
                code(sys::rd_kafka_ConsumerGroupDescription_error(group)).check()?;
                Ok(description(group))
            }
        },
    )
}

/// # Safety
/// `group` is live.
unsafe fn description(group: *const sys::rd_kafka_ConsumerGroupDescription_t) -> GroupDescription {
    // SAFETY: `group` is live, and what it lends lives as long as it. Operations are read as integers.
    unsafe {
        let mut operations = 0;
        let first =
            rd_kafka_ConsumerGroupDescription_authorized_operations(group, &raw mut operations);
        let may_alter = (!first.is_null() && operations > 0).then(|| {
            let read = sys::rd_kafka_AclOperation_t::RD_KAFKA_ACL_OPERATION_READ as c_int;
            (0..operations).any(|i| *first.add(i) == read)
        });
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
            assignor: text(sys::rd_kafka_ConsumerGroupDescription_partition_assignor(
                group,
            )),
            members: (0..members)
                .map(|i| member(sys::rd_kafka_ConsumerGroupDescription_member(group, i)))
                .collect(),
            may_alter,
        }
    }
}

/// # Safety
/// `member` is live.
unsafe fn member(member: *const sys::rd_kafka_MemberDescription_t) -> Member {
    // SAFETY: `member` is live, and what it lends lives as long as it.
    unsafe {
        let instance_id = sys::rd_kafka_MemberDescription_group_instance_id(member);
        let assignment = sys::rd_kafka_MemberDescription_assignment(member);
        let assignment = if assignment.is_null() {
            Vec::new()
        } else {
            elements(sys::rd_kafka_MemberAssignment_partitions(assignment))
        };
        Member {
            member_id: text(sys::rd_kafka_MemberDescription_consumer_id(member)),
            client_id: text(sys::rd_kafka_MemberDescription_client_id(member)),
            host: text(sys::rd_kafka_MemberDescription_host(member)),
            instance_id: (!instance_id.is_null()).then(|| text(instance_id)),
            assignment: assignment.into_iter().map(|e| e.partition).collect(),
        }
    }
}

/// DescribeTopics, one answer each in the order of `topics`.
pub(super) fn describe_topics(
    handle: &Handle,
    limits: Limits,
    topics: &[String],
) -> Vec<Result<Topic, ErrorCode>> {
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
        let call = Call::new(
            handle,
            limits,
            Op::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS,
            sys::RD_KAFKA_EVENT_DESCRIBETOPICS_RESULT,
        )?;
        call.one(
            |rk, options, queue| {
                // SAFETY: the pointers are live; the collection is copied.
                unsafe { sys::rd_kafka_DescribeTopics(rk, collection.ptr, options, queue) };
            },
            |event| {
                // SAFETY: an event of this type is its own result; the array and its elements live as long as it.
                Ok(unsafe {
                    array(|n| sys::rd_kafka_DescribeTopics_result_topics(event, n))
                        .map(|topic| {
                            let error = code(sys::rd_kafka_TopicDescription_error(topic));
                            let name = text(sys::rd_kafka_TopicDescription_name(topic));
                            (name, error.check().map(|()| describe_topic(topic)))
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
unsafe fn describe_topic(topic: *const sys::rd_kafka_TopicDescription_t) -> Topic {
    // SAFETY: `topic` is live, and what it lends lives as long as it.
    unsafe {
        let uuid = sys::rd_kafka_TopicDescription_topic_id(topic);
        let mut id = [0; 16];
        if !uuid.is_null() {
            id[..8].copy_from_slice(&sys::rd_kafka_Uuid_most_significant_bits(uuid).to_be_bytes());
            id[8..].copy_from_slice(&sys::rd_kafka_Uuid_least_significant_bits(uuid).to_be_bytes());
        }
        let mut found = Topic {
            id: TopicId::from_bytes(id),
            partitions: 0,
            leaderless: Vec::new(),
        };
        for partition in array(|n| sys::rd_kafka_TopicDescription_partitions(topic, n)) {
            found.partitions += 1;
            if sys::rd_kafka_TopicPartitionInfo_leader(partition).is_null() {
                found
                    .leaderless
                    .push(sys::rd_kafka_TopicPartitionInfo_partition(partition));
            }
        }
        found
    }
}

/// ListConsumerGroupOffsets without a list: every partition that the group has a commit for **and** that this
/// principal may see; the broker leaves the others out without a word.
pub(super) fn all_committed(
    handle: &Handle,
    limits: Limits,
    group: &str,
    stable: bool,
) -> Result<Vec<TopicPartition>, ErrorCode> {
    let name = c_string(group)?;
    let call = Call::new(
        handle,
        limits,
        Op::RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS,
        sys::RD_KAFKA_EVENT_LISTCONSUMERGROUPOFFSETS_RESULT,
    )?;
    require_stable(&call, stable)?;
    // SAFETY: both arguments are live and copied; the destructor is the request's own.
    let request = unsafe {
        Owned::new(
            sys::rd_kafka_ListConsumerGroupOffsets_new(name.as_ptr(), ptr::null()),
            sys::rd_kafka_ListConsumerGroupOffsets_destroy,
        )
    }?;
    call.one(
        |rk, options, queue| {
            // SAFETY: the pointers are live; the request is copied.
            unsafe {
                sys::rd_kafka_ListConsumerGroupOffsets(
                    rk,
                    [request.ptr].as_mut_ptr(),
                    1,
                    options,
                    queue,
                );
            }
        },
        |event| {
            // SAFETY: the accessor is that of this call's answers.
            let found = unsafe {
                group_result(event, sys::rd_kafka_ListConsumerGroupOffsets_result_groups)
            }?;
            Ok(found.into_iter().map(|element| element.partition).collect())
        },
    )
}

/// ListConsumerGroupOffsets for `partitions`, one answer each in their order; `Ok(None)` is "no commit".
pub(super) fn committed(
    handle: &Handle,
    limits: Limits,
    group: &str,
    partitions: &[TopicPartition],
    stable: bool,
) -> Vec<Result<Option<CommittedOffset>, ErrorCode>> {
    let attempt = || {
        let name = c_string(group)?;
        let call = Call::new(
            handle,
            limits,
            Op::RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS,
            sys::RD_KAFKA_EVENT_LISTCONSUMERGROUPOFFSETS_RESULT,
        )?;
        require_stable(&call, stable)?;
        let answers = call.chunks(
            partitions,
            |chunk, rk, options, queue| {
                let list = List::new(chunk.iter(), |_, _| {})?;
                // SAFETY: both arguments are live and copied; the destructor is the request's own.
                let request = unsafe {
                    Owned::new(
                        sys::rd_kafka_ListConsumerGroupOffsets_new(name.as_ptr(), list.ptr()),
                        sys::rd_kafka_ListConsumerGroupOffsets_destroy,
                    )
                }?;
                // SAFETY: the pointers are live; the request is copied.
                unsafe {
                    sys::rd_kafka_ListConsumerGroupOffsets(
                        rk,
                        [request.ptr].as_mut_ptr(),
                        1,
                        options,
                        queue,
                    );
                }
                Ok(())
            },
            |event| {
                // SAFETY: the accessor is that of this call's answers.
                unsafe { group_result(event, sys::rd_kafka_ListConsumerGroupOffsets_result_groups) }
            },
        );
        Ok(match_up(partitions, answers, |element| {
            // -1001 is librdkafka's "no commit", -1 the protocol's; no other negative offset can be a position.
            (element.offset >= 0).then_some(CommittedOffset {
                offset: element.offset,
                leader_epoch: element.leader_epoch,
                metadata: element.metadata,
            })
        }))
    };
    attempt().unwrap_or_else(|code| vec![Err(code); partitions.len()])
}

fn require_stable(call: &Call<'_>, stable: bool) -> Result<(), ErrorCode> {
    call.configure(|options| {
        // SAFETY: `options` is live and of this operation.
        unsafe {
            sys::rd_kafka_AdminOptions_set_require_stable_offsets(options, c_int::from(stable))
        }
    })
}

/// ListOffsets for `partitions`, one answer each in their order.
pub(super) fn list_offsets(
    handle: &Handle,
    limits: Limits,
    partitions: &[(TopicPartition, Spec)],
    isolation: Isolation,
) -> Vec<Result<Found, ErrorCode>> {
    let attempt = || {
        let call = Call::new(
            handle,
            limits,
            Op::RD_KAFKA_ADMIN_OP_LISTOFFSETS,
            sys::RD_KAFKA_EVENT_LISTOFFSETS_RESULT,
        )?;
        call.configure(|options| {
            use sys::rd_kafka_IsolationLevel_t as Level;
            let level = match isolation {
                Isolation::ReadUncommitted => Level::RD_KAFKA_ISOLATION_LEVEL_READ_UNCOMMITTED,
                Isolation::ReadCommitted => Level::RD_KAFKA_ISOLATION_LEVEL_READ_COMMITTED,
            };
            // SAFETY: `options` is live and of this operation.
            unsafe { sys::rd_kafka_AdminOptions_set_isolation_level(options, level) }
        })?;
        let answers = call.chunks(
            partitions,
            |chunk, rk, options, queue| {
                let list = List::new(
                    chunk.iter().map(|(partition, _)| partition),
                    |i, element| {
                        // SAFETY: `element` is live and exclusively this list's.
                        unsafe { (*element).offset = chunk[i].1.wire() };
                    },
                )?;
                // SAFETY: the pointers are live; the list is copied.
                unsafe { sys::rd_kafka_ListOffsets(rk, list.ptr(), options, queue) };
                Ok(())
            },
            |event| {
                // SAFETY: an event of this type is its own result; the array and its elements live as long as it.
                Ok(unsafe {
                    array(|n| sys::rd_kafka_ListOffsets_result_infos(event, n))
                        .map(|info| {
                            element(sys::rd_kafka_ListOffsetsResultInfo_topic_partition(info))
                        })
                        .collect()
                })
            },
        );
        let partitions: Vec<_> = partitions.iter().map(|(partition, _)| partition).collect();
        Ok(match_up(&partitions, answers, |element| Found {
            offset: element.offset,
            leader_epoch: element.leader_epoch,
        })
        .into_iter()
        // Where a leader did not answer, librdkafka leaves -1001 behind and no error.
        .map(|found| {
            found.and_then(|f| {
                if f.offset < -1 {
                    Err(ErrorCode::MISSING)
                } else {
                    Ok(f)
                }
            })
        })
        .collect())
    };
    attempt().unwrap_or_else(|code| vec![Err(code); partitions.len()])
}

/// AlterConsumerGroupOffsets in **one** request, which is atomic on the broker for all that it accepts.
pub(super) fn alter(
    handle: &Handle,
    limits: Limits,
    group: &str,
    moves: &[(TopicPartition, CommittedOffset)],
) -> Vec<Result<(), ErrorCode>> {
    let attempt = || {
        let name = c_string(group)?;
        let list = List::new(
            moves.iter().map(|(partition, _)| partition),
            |i, element| {
                // SAFETY: `element` is live and exclusively this list's.
                unsafe { set_commit(element, &moves[i].1) };
            },
        )?;
        // SAFETY: both arguments are live and copied; the destructor is the request's own.
        let request = unsafe {
            Owned::new(
                sys::rd_kafka_AlterConsumerGroupOffsets_new(name.as_ptr(), list.ptr()),
                sys::rd_kafka_AlterConsumerGroupOffsets_destroy,
            )
        }?;
        let call = Call::new(
            handle,
            limits,
            Op::RD_KAFKA_ADMIN_OP_ALTERCONSUMERGROUPOFFSETS,
            sys::RD_KAFKA_EVENT_ALTERCONSUMERGROUPOFFSETS_RESULT,
        )?;
        let answer = call.one(
            |rk, options, queue| {
                // SAFETY: the pointers are live; the request is copied.
                unsafe {
                    sys::rd_kafka_AlterConsumerGroupOffsets(
                        rk,
                        [request.ptr].as_mut_ptr(),
                        1,
                        options,
                        queue,
                    );
                }
            },
            |event| {
                // SAFETY: the accessor is that of this call's answers.
                unsafe {
                    group_result(event, sys::rd_kafka_AlterConsumerGroupOffsets_result_groups)
                }
            },
        );
        let partitions: Vec<_> = moves.iter().map(|(partition, _)| partition).collect();
        Ok(match_up(
            &partitions,
            vec![(0..moves.len(), answer)],
            |_| (),
        ))
    };
    attempt().unwrap_or_else(|code: ErrorCode| vec![Err(code); moves.len()])
}

/// DeleteConsumerGroupOffsets in one request: back to "no commit".
pub(super) fn delete(
    handle: &Handle,
    limits: Limits,
    group: &str,
    partitions: &[TopicPartition],
) -> Vec<Result<(), ErrorCode>> {
    let attempt = || {
        let name = c_string(group)?;
        let list = List::new(partitions.iter(), |_, _| {})?;
        // SAFETY: both arguments are live and copied; the destructor is the request's own.
        let request = unsafe {
            Owned::new(
                sys::rd_kafka_DeleteConsumerGroupOffsets_new(name.as_ptr(), list.ptr()),
                sys::rd_kafka_DeleteConsumerGroupOffsets_destroy,
            )
        }?;
        let call = Call::new(
            handle,
            limits,
            Op::RD_KAFKA_ADMIN_OP_DELETECONSUMERGROUPOFFSETS,
            sys::RD_KAFKA_EVENT_DELETECONSUMERGROUPOFFSETS_RESULT,
        )?;
        let answer = call.one(
            |rk, options, queue| {
                // SAFETY: the pointers are live; the request is copied.
                unsafe {
                    sys::rd_kafka_DeleteConsumerGroupOffsets(
                        rk,
                        [request.ptr].as_mut_ptr(),
                        1,
                        options,
                        queue,
                    );
                }
            },
            |event| {
                // SAFETY: the accessor is that of this call's answers.
                unsafe {
                    group_result(
                        event,
                        sys::rd_kafka_DeleteConsumerGroupOffsets_result_groups,
                    )
                }
            },
        );
        Ok(match_up(
            partitions,
            vec![(0..partitions.len(), answer)],
            |_| (),
        ))
    };
    attempt().unwrap_or_else(|code: ErrorCode| vec![Err(code); partitions.len()])
}
