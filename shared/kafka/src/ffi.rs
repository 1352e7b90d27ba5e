//! The group-admin calls of librdkafka, which the `rdkafka` crate does not wrap. All unsafe code is here.
//!
//! Each call goes out through one private queue, in as many requests as it needs and a few of them at a time. One loop on
//! the calling thread collects the answers. Everything that is returned is copied before librdkafka's memory is freed.
//!
//! Three rules keep it sound:
//! - Error codes, states, types and operations come from the broker and form open sets. A Rust enum with a value
//!   that it does not name is undefined behaviour, so the functions that return one are declared again here with plain
//!   integers, and the one struct field of that kind is read through an integer pointer, never through a reference.
//!   The names and the ABI of the declarations are those of `rdkafka.h`.
//! - A handle for these calls is a [`Handle`](crate::librdkafka::handle::Handle), which is always a consumer with its own
//!   group.
//! - Every object has one owner, [`Owned`](pointers::Owned), which knows its destructor.
#![expect(
    unsafe_code,
    reason = "librdkafka is a C library, and this is the module that speaks to it"
)]

mod call;
mod cluster;
mod configs;
mod describe;
mod elements;
#[cfg(test)]
pub(crate) mod mock;
mod names;
mod offsets;
mod pointers;
mod produce;
mod records;

pub(crate) use self::call::CallLimits;
pub(crate) use self::cluster::{describe_cluster_id, list_groups};
pub(crate) use self::configs::describe_topic_configs;
pub(crate) use self::describe::{
    TopicMetadata, describe_group, describe_group_operations, describe_topic_operations,
    describe_topics,
};
pub(crate) use self::offsets::{
    FoundOffset, IsolationLevel, OffsetSpec, alter_offsets, delete_offsets, list_all_committed,
    list_committed, list_offsets,
};
pub(crate) use self::produce::{OutgoingRecord, produce};
pub(crate) use self::records::{copy_record, last_high_watermark};
