//! Committed offsets, and offsets of logs.

use std::ffi::c_int;
use std::ptr;

use rdkafka_sys as sys;
use sys::rd_kafka_admin_op_t as Op;

use super::Limits;
use super::call::{Call, Owned, array, c_string};
use super::elements::{List, element, group_result, match_up, set_commit};
use crate::domain::offset::{CommittedOffset, TopicPartition};
use crate::kafka::error::ErrorCode;
use crate::kafka::handle::Handle;

/// An offset that ListOffsets found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::kafka) struct Found {
    /// `-1` where no record is at or after the timestamp.
    pub(in crate::kafka) offset: i64,
    pub(in crate::kafka) leader_epoch: Option<i32>,
}

/// Which offset of a partition ListOffsets looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::kafka) enum Spec {
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
pub(in crate::kafka) enum Isolation {
    ReadUncommitted,
    ReadCommitted,
}

/// ListConsumerGroupOffsets without a list: every partition that the group has a commit for **and** that this
/// principal may see; the broker leaves the others out without a word.
pub(in crate::kafka) fn all_committed(
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
pub(in crate::kafka) fn committed(
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
pub(in crate::kafka) fn list_offsets(
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
pub(in crate::kafka) fn alter(
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
pub(in crate::kafka) fn delete(
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
