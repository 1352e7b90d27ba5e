//! Lists of partitions, on their way to librdkafka and back.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::ffi::{CString, c_int};
use std::ptr;

use rdkafka_sys as sys;

use super::call::{ChunkAnswer, Event};
use super::pointers::{Owned, c_string, copy_text, error_code, iterate_array};
use crate::codes::ErrorCode;
use offset_guard_domain::offset::{CommittedOffset, TopicPartition};

/// A list of partitions that librdkafka can read.
pub(super) struct PartitionList(Owned<sys::rd_kafka_topic_partition_list_t>);

impl PartitionList {
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
pub(super) struct PartitionAnswer {
    pub(super) partition: TopicPartition,
    pub(super) offset: i64,
    pub(super) leader_epoch: Option<i32>,
    pub(super) metadata: Vec<u8>,
    pub(super) code: ErrorCode,
    /// In milliseconds since the epoch; -1 where the answer has none.
    pub(super) timestamp: i64,
}

/// Copies one partition of a list.
///
/// # Safety
/// `element` is live.
pub(super) unsafe fn copy_element(
    element: *const sys::rd_kafka_topic_partition_t,
) -> PartitionAnswer {
    const { assert!(size_of::<sys::rd_kafka_resp_err_t>() == size_of::<c_int>()) };
    // SAFETY: the fields are read one by one and the code as an integer: no reference to the struct is made, since
    // its Rust declaration has an enum where any number may be.
    unsafe {
        let (metadata, size) = ((*element).metadata, (*element).metadata_size);
        let epoch = sys::rd_kafka_topic_partition_get_leader_epoch(element);
        PartitionAnswer {
            partition: TopicPartition::new(copy_text((*element).topic), (*element).partition),
            offset: (*element).offset,
            leader_epoch: (epoch >= 0).then_some(epoch),
            metadata: if metadata.is_null() {
                Vec::new()
            } else {
                std::slice::from_raw_parts(metadata.cast::<u8>(), size).to_vec()
            },
            code: ErrorCode((&raw const (*element).err).cast::<c_int>().read()),
            timestamp: -1,
        }
    }
}

/// Copies the partitions of a list; a null pointer is an empty list.
///
/// # Safety
/// `list` is null or live.
pub(super) unsafe fn copy_elements(
    list: *const sys::rd_kafka_topic_partition_list_t,
) -> Vec<PartitionAnswer> {
    if list.is_null() {
        return Vec::new();
    }
    // SAFETY: `elems` holds `cnt` elements.
    unsafe {
        let count = usize::try_from((*list).cnt).unwrap_or(0);
        (0..count)
            .map(|i| copy_element((*list).elems.add(i)))
            .collect()
    }
}

/// The one group of an answer that is about one group.
///
/// # Safety
/// `get` belongs to the type of `event`.
pub(super) unsafe fn copy_group_result(
    event: *mut Event,
    get: unsafe extern "C" fn(*const Event, *mut usize) -> *mut *const sys::rd_kafka_group_result_t,
) -> Result<Vec<PartitionAnswer>, ErrorCode> {
    // SAFETY: by the contract above; what the event lends lives as long as it.
    unsafe {
        let group = iterate_array(|n| get(event, n))
            .next()
            .ok_or(ErrorCode::MISSING)?;
        error_code(sys::rd_kafka_group_result_error(group)).check()?;
        Ok(copy_elements(sys::rd_kafka_group_result_partitions(group)))
    }
}

/// Gives every one of `wanted` its own answer, by name: the order of an answer means nothing.
pub(super) fn match_up<P: Borrow<TopicPartition>, T>(
    wanted: &[P],
    answers: Vec<ChunkAnswer<Vec<PartitionAnswer>>>,
    read: impl Fn(PartitionAnswer) -> T,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn shipments() -> [TopicPartition; 3] {
        [0, 1, 2].map(|partition| TopicPartition::new("shipments", partition))
    }

    #[test]
    fn what_an_answer_leaves_out_is_missing_and_not_empty() {
        let asked = shipments();
        let answered = |partition: &TopicPartition, code| PartitionAnswer {
            partition: partition.clone(),
            offset: 31,
            leader_epoch: None,
            metadata: Vec::new(),
            code: ErrorCode(code),
            timestamp: -1,
        };
        // Out of order, one short, and one that nobody asked for.
        let elements = vec![
            answered(&TopicPartition::new("other", 0), 0),
            answered(&asked[2], 0),
            answered(&asked[0], 9999),
        ];
        let matched = match_up(&asked, vec![(0..3, Ok(elements))], |element| element.offset);
        assert_eq!(
            matched,
            [Err(ErrorCode(9999)), Err(ErrorCode::MISSING), Ok(31)]
        );
        let failed = match_up(
            &asked,
            vec![
                (0..2, Err(ErrorCode::TIMED_OUT)),
                (2..3, Ok(vec![answered(&asked[2], 0)])),
            ],
            |element| element.offset,
        );
        let late = Err(ErrorCode::TIMED_OUT);
        assert_eq!(failed, [late, late, Ok(31)]);
    }

    #[test]
    fn an_element_is_missing_until_an_answer_mentions_it() {
        let commit = CommittedOffset {
            offset: 31,
            leader_epoch: Some(4),
            metadata: b"\xff\x00".to_vec(),
        };
        let list = PartitionList::new(shipments().iter(), |i, element| {
            if i == 1 {
                // SAFETY: `element` is live, this list's alone, and fresh.
                unsafe { set_commit(element, &commit) };
            }
        })
        .unwrap();
        // SAFETY: the list is live.
        let read = unsafe { copy_elements(list.ptr()) };
        assert_eq!(read.len(), 3);
        assert!(
            read.iter()
                .all(|element| element.code == ErrorCode::MISSING)
        );
        let element = &read[1];
        assert_eq!(element.partition, TopicPartition::new("shipments", 1));
        assert_eq!(
            (element.offset, element.leader_epoch, &element.metadata),
            (31, Some(4), &commit.metadata)
        );
        assert_eq!(read[0].leader_epoch, None);
    }

    #[test]
    fn a_name_with_a_zero_byte_is_refused_before_it_is_cut_short() {
        let cut = TopicPartition::new("shipments\0evil", 0);
        let list = PartitionList::new([cut].iter(), |_, _| {});
        assert_eq!(list.err(), Some(ErrorCode::INVALID_ARG));
    }
}
