//! The loop that reads records, inside the child.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError as RdKafkaError;
use rdkafka::{Message, Offset, TopicPartitionList};

use super::order::ReadOrder;
use crate::codes::ErrorCode;
use crate::error::KafkaError;
use crate::ffi;
use crate::librdkafka::callbacks::ClientCallbacks;
use crate::librdkafka::properties::from_map;
use crate::meaning::CodeClass;
use crate::token::TokenSource;
use offset_guard_domain::guard::record::Record;
use offset_guard_domain::offset::{Fault, TopicPartition};

/// Longest wait of one poll.
const POLL: Duration = Duration::from_millis(100);

/// Why a read stopped before its end.
#[derive(Debug)]
pub(super) enum Stopped {
    /// It failed.
    Fault(Fault),
    /// A batch does not unpack, or not within the memory of the child.
    DoesNotUnpack,
    /// The parent no longer listens.
    ParentGone,
}

impl From<Fault> for Stopped {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Reads the records of `order` and hands each to `found`. Every offset below the returned one was looked at.
///
/// It assigns itself, never subscribes, and commits nothing.
pub(super) fn consume(
    order: &ReadOrder,
    mut found: impl FnMut(&Record) -> io::Result<()>,
) -> Result<i64, Stopped> {
    let deadline = Instant::now() + Duration::from_millis(order.time_ms);
    let partition = TopicPartition::new(&order.topic, order.partition);
    let consumer = assigned_consumer(order, &partition)?;

    let (mut records, mut bytes, mut until) = (0, 0, order.from);
    while until < order.end {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return match consumer.context().last_error().check() {
                // What was read is whole, as far as it goes.
                Ok(()) if records > 0 => Ok(until),
                Ok(()) => Err(ErrorCode::TIMED_OUT.fault().into()),
                Err(code) => Err(code.fault().into()),
            };
        }
        match consumer.poll(left.min(POLL)) {
            None => {}
            Some(Ok(message)) if message.offset() >= order.end => until = order.end,
            Some(Ok(message)) => {
                let record = ffi::copy_record(&message)?;
                found(&record).map_err(|_| Stopped::ParentGone)?;
                until = record.offset + 1;
                bytes += record.bytes();
                records += 1;
                if records >= order.records || bytes >= order.bytes {
                    break;
                }
            }
            // A leader that was only just elected may not know yet how far the log was readable before.
            Some(Err(RdKafkaError::PartitionEOF(_))) => {
                let high = ffi::last_high_watermark(&consumer, &partition);
                if high.map_err(ErrorCode::fault)? >= order.end {
                    until = order.end;
                }
            }
            Some(Err(error)) => {
                let code = ErrorCode::from_rdkafka(&error);
                if code == ErrorCode::BAD_COMPRESSION || code == ErrorCode::CRIT_SYS_RESOURCE {
                    return Err(Stopped::DoesNotUnpack);
                }
                if !is_about_a_connection(code) {
                    // After a batch that it cannot read, librdkafka goes on with the next one.
                    return Err(to_fault(code).into());
                }
            }
        }
    }
    Ok(until)
}

fn assigned_consumer(
    order: &ReadOrder,
    partition: &TopicPartition,
) -> Result<BaseConsumer<ClientCallbacks>, Fault> {
    let tokens = order.token.clone();
    let tokens = tokens.map(|token| Arc::new(token) as Arc<dyn TokenSource>);
    let consumer: BaseConsumer<_> = from_map(&order.properties)
        .create_with_context(ClientCallbacks::new(tokens))
        .map_err(|error| KafkaError::from_creation(&error).fault())?;
    let mut assignment = TopicPartitionList::new();
    assignment
        .add_partition_offset(
            &partition.topic,
            partition.partition,
            Offset::Offset(order.from),
        )
        .and_then(|()| consumer.assign(&assignment))
        .map_err(|error| ErrorCode::from_rdkafka(&error).fault())?;
    Ok(consumer)
}

/// Whether librdkafka recovers from the error by itself, or it is about the reader's own group, which nobody needs.
fn is_about_a_connection(code: ErrorCode) -> bool {
    code.class() == CodeClass::Transient || code == ErrorCode::GROUP_AUTH
}

fn to_fault(code: ErrorCode) -> Fault {
    if code == ErrorCode::AUTO_OFFSET_RESET {
        return Fault::out_of_range();
    }
    code.fault()
}
