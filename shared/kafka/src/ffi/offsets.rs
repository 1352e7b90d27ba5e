//! Committed offsets, and offsets of logs.

use std::ffi::{CStr, c_char, c_int};
use std::ptr;

use rdkafka_sys as sys;
use sys::rd_kafka_admin_op_t as Op;

use super::call::{AdminCall, CallLimits, Event, Options, Sending};
use super::elements::{
    PartitionAnswer, PartitionList, copy_element, copy_group_result, match_up, set_commit,
};
use super::pointers::{Owned, c_string, iterate_array};
use crate::codes::ErrorCode;
use crate::librdkafka::handle::Handle;
use offset_guard_domain::offset::{CommittedOffset, TopicPartition};

/// An offset that ListOffsets found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoundOffset {
    /// `-1` where no record is at or after the timestamp.
    pub(crate) offset: i64,
    pub(crate) leader_epoch: Option<i32>,
    /// How the record is dated, in milliseconds since the epoch, where one was looked for by its time.
    pub(crate) timestamp: Option<i64>,
}

/// Which offset of a partition ListOffsets looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OffsetSpec {
    /// The log start offset.
    Earliest,
    /// The high watermark, or with [`IsolationLevel::ReadCommitted`] the last stable offset.
    Latest,
    /// The first record at or after this many milliseconds since the epoch.
    Timestamp(i64),
}

impl OffsetSpec {
    fn to_wire(self) -> i64 {
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
pub(crate) enum IsolationLevel {
    ReadUncommitted,
    ReadCommitted,
}

/// The functions of a call about the offsets of one group, which all are of one operation.
struct GroupOffsetsApi<T> {
    operation: Op,
    answers_with: sys::rd_kafka_event_type_t,
    new: unsafe extern "C" fn(*const c_char, *const sys::rd_kafka_topic_partition_list_t) -> *mut T,
    destroy: unsafe extern "C" fn(*mut T),
    send: unsafe extern "C" fn(
        *mut sys::rd_kafka_t,
        *mut *mut T,
        usize,
        *const Options,
        *mut sys::rd_kafka_queue_t,
    ),
    groups:
        unsafe extern "C" fn(*const Event, *mut usize) -> *mut *const sys::rd_kafka_group_result_t,
}

const LIST: GroupOffsetsApi<sys::rd_kafka_ListConsumerGroupOffsets_t> = GroupOffsetsApi {
    operation: Op::RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS,
    answers_with: sys::RD_KAFKA_EVENT_LISTCONSUMERGROUPOFFSETS_RESULT,
    new: sys::rd_kafka_ListConsumerGroupOffsets_new,
    destroy: sys::rd_kafka_ListConsumerGroupOffsets_destroy,
    send: sys::rd_kafka_ListConsumerGroupOffsets,
    groups: sys::rd_kafka_ListConsumerGroupOffsets_result_groups,
};

const ALTER: GroupOffsetsApi<sys::rd_kafka_AlterConsumerGroupOffsets_t> = GroupOffsetsApi {
    operation: Op::RD_KAFKA_ADMIN_OP_ALTERCONSUMERGROUPOFFSETS,
    answers_with: sys::RD_KAFKA_EVENT_ALTERCONSUMERGROUPOFFSETS_RESULT,
    new: sys::rd_kafka_AlterConsumerGroupOffsets_new,
    destroy: sys::rd_kafka_AlterConsumerGroupOffsets_destroy,
    send: sys::rd_kafka_AlterConsumerGroupOffsets,
    groups: sys::rd_kafka_AlterConsumerGroupOffsets_result_groups,
};

const DELETE: GroupOffsetsApi<sys::rd_kafka_DeleteConsumerGroupOffsets_t> = GroupOffsetsApi {
    operation: Op::RD_KAFKA_ADMIN_OP_DELETECONSUMERGROUPOFFSETS,
    answers_with: sys::RD_KAFKA_EVENT_DELETECONSUMERGROUPOFFSETS_RESULT,
    new: sys::rd_kafka_DeleteConsumerGroupOffsets_new,
    destroy: sys::rd_kafka_DeleteConsumerGroupOffsets_destroy,
    send: sys::rd_kafka_DeleteConsumerGroupOffsets,
    groups: sys::rd_kafka_DeleteConsumerGroupOffsets_result_groups,
};

impl<T> GroupOffsetsApi<T> {
    fn call<'h>(&self, handle: &'h Handle, limits: CallLimits) -> Result<AdminCall<'h>, ErrorCode> {
        AdminCall::new(handle, limits, self.operation, self.answers_with)
    }

    /// Puts a request on its way. Without a list it is about every partition of the group.
    ///
    /// # Safety
    /// The pointers are live, and the options are of this operation.
    unsafe fn submit(
        &self,
        group: &CStr,
        list: Option<&PartitionList>,
        sending: &Sending,
    ) -> Result<(), ErrorCode> {
        let list = list.map_or(ptr::null(), |list| list.ptr().cast_const());
        // SAFETY: both arguments are live and copied; the destructor is the request's own.
        let request = unsafe { Owned::new((self.new)(group.as_ptr(), list), self.destroy) }?;
        // SAFETY: by the contract above; the request is copied.
        unsafe {
            (self.send)(
                sending.rk,
                [request.ptr].as_mut_ptr(),
                1,
                sending.options,
                sending.queue,
            )
        };
        Ok(())
    }

    /// Changes the commits of `partitions` in **one** request, and gives each its answer. `fill` writes what else the
    /// request needs into the element of each.
    fn change(
        &self,
        (handle, limits): (&Handle, CallLimits),
        group: &str,
        partitions: &[&TopicPartition],
        fill: impl FnMut(usize, *mut sys::rd_kafka_topic_partition_t),
    ) -> Vec<Result<(), ErrorCode>> {
        let attempt = || {
            let name = c_string(group)?;
            let list = PartitionList::new(partitions.iter().copied(), fill)?;
            let answer = AdminCall::new(handle, limits, self.operation, self.answers_with)?.one(
                // SAFETY: the options are this call's.
                |sending| unsafe { self.submit(&name, Some(&list), sending) },
                // SAFETY: the accessor is that of this call's answers.
                |event| unsafe { copy_group_result(event, self.groups) },
            );
            Ok(match_up(
                partitions,
                vec![(0..partitions.len(), answer)],
                |_| (),
            ))
        };
        attempt().unwrap_or_else(|code: ErrorCode| vec![Err(code); partitions.len()])
    }
}

/// ListConsumerGroupOffsets without a list: every partition that the group has a commit for **and** that this
/// principal may see; the broker leaves the others out without a word.
pub(crate) fn list_all_committed(
    handle: &Handle,
    limits: CallLimits,
    group: &str,
    stable: bool,
) -> Result<Vec<TopicPartition>, ErrorCode> {
    let name = c_string(group)?;
    let call = LIST.call(handle, limits)?;
    require_stable(&call, stable)?;
    let found = call.one(
        // SAFETY: the options are this call's.
        |sending| unsafe { LIST.submit(&name, None, sending) },
        // SAFETY: the accessor is that of this call's answers.
        |event| unsafe { copy_group_result(event, LIST.groups) },
    )?;
    Ok(found.into_iter().map(|element| element.partition).collect())
}

/// ListConsumerGroupOffsets for `partitions`, one answer each in their order; `Ok(None)` is "no commit".
pub(crate) fn list_committed(
    handle: &Handle,
    limits: CallLimits,
    group: &str,
    partitions: &[TopicPartition],
    stable: bool,
) -> Vec<Result<Option<CommittedOffset>, ErrorCode>> {
    let attempt = || {
        let name = c_string(group)?;
        let call = LIST.call(handle, limits)?;
        require_stable(&call, stable)?;
        let answers = call.chunks(
            partitions,
            |chunk, sending| {
                let list = PartitionList::new(chunk.iter(), |_, _| {})?;
                // SAFETY: the options are this call's.
                unsafe { LIST.submit(&name, Some(&list), sending) }
            },
            // SAFETY: the accessor is that of this call's answers.
            |event| unsafe { copy_group_result(event, LIST.groups) },
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

fn require_stable(call: &AdminCall<'_>, stable: bool) -> Result<(), ErrorCode> {
    call.configure(|options| {
        // SAFETY: `options` is live and of this operation.
        unsafe {
            sys::rd_kafka_AdminOptions_set_require_stable_offsets(options, c_int::from(stable))
        }
    })
}

/// ListOffsets for `partitions`, one answer each in their order.
pub(crate) fn list_offsets(
    handle: &Handle,
    limits: CallLimits,
    partitions: &[(TopicPartition, OffsetSpec)],
    isolation: IsolationLevel,
) -> Vec<Result<FoundOffset, ErrorCode>> {
    let attempt = || {
        let call = AdminCall::new(
            handle,
            limits,
            Op::RD_KAFKA_ADMIN_OP_LISTOFFSETS,
            sys::RD_KAFKA_EVENT_LISTOFFSETS_RESULT,
        )?;
        call.configure(|options| {
            use sys::rd_kafka_IsolationLevel_t as Level;
            let level = match isolation {
                IsolationLevel::ReadUncommitted => Level::RD_KAFKA_ISOLATION_LEVEL_READ_UNCOMMITTED,
                IsolationLevel::ReadCommitted => Level::RD_KAFKA_ISOLATION_LEVEL_READ_COMMITTED,
            };
            // SAFETY: `options` is live and of this operation.
            unsafe { sys::rd_kafka_AdminOptions_set_isolation_level(options, level) }
        })?;
        let answers = call.chunks(
            partitions,
            |chunk, sending| {
                let list = PartitionList::new(
                    chunk.iter().map(|(partition, _)| partition),
                    |i, element| {
                        // SAFETY: `element` is live and exclusively this list's.
                        unsafe { (*element).offset = chunk[i].1.to_wire() };
                    },
                )?;
                // SAFETY: the pointers are live; the list is copied.
                unsafe {
                    sys::rd_kafka_ListOffsets(
                        sending.rk,
                        list.ptr(),
                        sending.options,
                        sending.queue,
                    )
                };
                Ok(())
            },
            |event| {
                // SAFETY: an event of this type is its own result; the array and its elements live as long as it.
                Ok(unsafe {
                    iterate_array(|n| sys::rd_kafka_ListOffsets_result_infos(event, n))
                        .map(|info| {
                            let partition =
                                sys::rd_kafka_ListOffsetsResultInfo_topic_partition(info);
                            PartitionAnswer {
                                timestamp: sys::rd_kafka_ListOffsetsResultInfo_timestamp(info),
                                ..copy_element(partition)
                            }
                        })
                        .collect()
                })
            },
        );
        let partitions: Vec<_> = partitions.iter().map(|(partition, _)| partition).collect();
        Ok(match_up(&partitions, answers, |element| FoundOffset {
            offset: element.offset,
            leader_epoch: element.leader_epoch,
            timestamp: (element.timestamp >= 0).then_some(element.timestamp),
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
pub(crate) fn alter_offsets(
    handle: &Handle,
    limits: CallLimits,
    group: &str,
    moves: &[(TopicPartition, CommittedOffset)],
) -> Vec<Result<(), ErrorCode>> {
    let partitions: Vec<_> = moves.iter().map(|(partition, _)| partition).collect();
    ALTER.change((handle, limits), group, &partitions, |i, element| {
        // SAFETY: `element` is live, exclusively this list's, and fresh.
        unsafe { set_commit(element, &moves[i].1) };
    })
}

/// DeleteConsumerGroupOffsets in one request: back to "no commit".
pub(crate) fn delete_offsets(
    handle: &Handle,
    limits: CallLimits,
    group: &str,
    partitions: &[TopicPartition],
) -> Vec<Result<(), ErrorCode>> {
    let partitions: Vec<_> = partitions.iter().collect();
    DELETE.change((handle, limits), group, &partitions, |_, _| {})
}
