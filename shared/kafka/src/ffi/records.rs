//! Reads records byte for byte: the safe API panics on a header name that is not UTF-8.

use std::ffi::{c_char, c_int, c_void};
use std::{mem, ptr, slice};

use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::message::{BorrowedMessage, Message, Timestamp};
use rdkafka_sys as sys;

use super::pointers::c_string;
use crate::codes::ErrorCode;
use offset_guard_domain::guard::record::{Header, Record, TimestampType};
use offset_guard_domain::offset::{Fault, TopicPartition};

// Declared again because they return an open set, see the parent module.
unsafe extern "C" {
    fn rd_kafka_message_headers(
        message: *const sys::rd_kafka_message_t,
        headers: *mut *mut sys::rd_kafka_headers_t,
    ) -> c_int;
    fn rd_kafka_header_get_all(
        headers: *const sys::rd_kafka_headers_t,
        index: usize,
        name: *mut *const c_char,
        value: *mut *const c_void,
        size: *mut usize,
    ) -> c_int;
    fn rd_kafka_get_watermark_offsets(
        handle: *mut sys::rd_kafka_t,
        topic: *const c_char,
        partition: i32,
        low: *mut i64,
        high: *mut i64,
    ) -> c_int;
}

const NO_ENTRY: c_int = sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__NOENT as c_int;

/// Copies `message`.
///
/// # Errors
/// Its headers cannot be read byte for byte.
pub(crate) fn copy_record(message: &BorrowedMessage<'_>) -> Result<Record, Fault> {
    let (timestamp_ms, timestamp_type) = match message.timestamp() {
        Timestamp::NotAvailable => (-1, TimestampType::NotAvailable),
        Timestamp::CreateTime(at) => (at, TimestampType::CreateTime),
        Timestamp::LogAppendTime(at) => (at, TimestampType::LogAppendTime),
    };
    // SAFETY: the message is live.
    let epoch = unsafe { sys::rd_kafka_message_leader_epoch(message.ptr()) };
    Ok(Record {
        offset: message.offset(),
        leader_epoch: (epoch >= 0).then_some(epoch),
        timestamp_ms,
        timestamp_type,
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers: read_headers_of(message)?,
    })
}

/// The high watermark in the last answer to a fetch from `partition`.
pub(crate) fn last_high_watermark<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    partition: &TopicPartition,
) -> Result<i64, ErrorCode> {
    let topic = c_string(&partition.topic)?;
    let (mut low, mut high) = (0, 0);
    // SAFETY: the handle is live; the name is copied and the numbers are written before this returns.
    let answer = unsafe {
        rd_kafka_get_watermark_offsets(
            consumer.client().native_ptr(),
            topic.as_ptr(),
            partition.partition,
            &raw mut low,
            &raw mut high,
        )
    };
    ErrorCode(answer).check().map(|()| high)
}

fn read_headers_of(message: &BorrowedMessage<'_>) -> Result<Vec<Header>, Fault> {
    let mut found = ptr::null_mut();
    // SAFETY: the message is live; what is found belongs to it and lives as long.
    match unsafe { rd_kafka_message_headers(message.ptr(), &raw mut found) } {
        0 => {}
        NO_ENTRY => return Ok(Vec::new()),
        other => return Err(ErrorCode(other).fault()),
    }
    // SAFETY: the headers are live.
    unsafe { read_headers(found) }
}

/// # Safety
/// `headers` is live.
unsafe fn read_headers(headers: *const sys::rd_kafka_headers_t) -> Result<Vec<Header>, Fault> {
    let mut read: Vec<Header> = Vec::new();
    loop {
        let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
        // SAFETY: the headers are live; an index behind the last is answered with an error.
        let answer = unsafe {
            rd_kafka_header_get_all(
                headers,
                read.len(),
                &raw mut name,
                &raw mut value,
                &raw mut size,
            )
        };
        match answer {
            0 => {}
            NO_ENTRY => return Ok(read),
            other => return Err(ErrorCode(other).fault()),
        }
        // SAFETY: what was answered is of one header of the list, and lives as long as the headers.
        read.push(unsafe { read_header(name, value, size) }?);
    }
}

/// librdkafka's header (`rd_kafka_header_t` in `rdkafka_header.h` of 2.12.1): one allocation that ends with the name, a
/// zero byte, the value and another zero byte.
#[repr(C)]
struct RawHeader {
    /// Bytes on the wire.
    serialised_size: usize,
    value_size: usize,
    /// Without the zero byte behind it.
    name_size: usize,
    value: *const c_void,
    name: [c_char; 1],
}

/// One header, from what librdkafka answers about it.
///
/// It hands out a name as a C string, and a name may hold zero bytes: anybody can produce one. How long a name is stands in
/// the header that the name is a part of and nowhere in the API. So it is read from there, and believed only where all
/// else in that header is what the API said, and its sizes add up; the version of librdkafka is pinned and built in, and a
/// test reads such names back. Anything else is a fault: a name that was cut short would be another header.
///
/// # Safety
/// `name`, `value` and `size` are what `rd_kafka_header_get_all` of this very librdkafka answered for one header, which is
/// live.
unsafe fn read_header(
    name: *const c_char,
    value: *const c_void,
    size: usize,
) -> Result<Header, Fault> {
    let unknown = || Fault::Failed {
        code: "HEADER_OF_UNKNOWN_LAYOUT".to_owned(),
    };
    let start = name
        .wrapping_byte_sub(mem::offset_of!(RawHeader, name))
        .cast::<RawHeader>();
    // SAFETY: the name is the last field of a header, which is allocated as a whole and aligned for sizes and pointers.
    let (serialised, value_size, name_size, raw_value) = unsafe {
        (
            (&raw const (*start).serialised_size).read_unaligned(),
            (&raw const (*start).value_size).read_unaligned(),
            (&raw const (*start).name_size).read_unaligned(),
            (&raw const (*start).value).read_unaligned(),
        )
    };
    let behind = name.wrapping_byte_add(name_size).wrapping_byte_add(1);
    let sizes = [name_size, size];
    let on_wire: usize = sizes.iter().map(|size| varint_size(*size) + size).sum();
    let adds_up = raw_value == value
        && value_size == size
        && (value.is_null() || value == behind.cast())
        && serialised == on_wire;
    if !adds_up {
        return Err(unknown());
    }
    // SAFETY: the sizes are those of the allocation that name and value are a part of.
    let (key, end, bytes) = unsafe {
        let key = slice::from_raw_parts(name.cast::<u8>(), name_size).to_vec();
        let bytes =
            (!value.is_null()).then(|| slice::from_raw_parts(value.cast::<u8>(), size).to_vec());
        (key, *name.add(name_size), bytes)
    };
    if end == 0 {
        Ok((key, bytes))
    } else {
        Err(unknown())
    }
}

/// Bytes of a length as librdkafka counts them: a zigzag varint.
fn varint_size(length: usize) -> usize {
    let bits = (length.saturating_mul(2).max(1)).ilog2() + 1;
    usize::try_from(bits.div_ceil(7)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::produce::new_headers;

    fn round_trip(headers: &[Header]) -> Result<Vec<Header>, Fault> {
        let list = new_headers(headers).unwrap();
        // SAFETY: the list is live.
        unsafe { read_headers(list.ptr) }
    }

    #[test]
    fn headers_are_bytes_in_and_bytes_out() {
        let headers = vec![
            (b"trace".to_vec(), Some(b"1".to_vec())),
            (b"trace".to_vec(), None),
            (b"\xff\xfe name".to_vec(), Some(b"\x00\xff".to_vec())),
            (b"".to_vec(), Some(b"".to_vec())),
            (b"trace".to_vec(), Some(b"1".to_vec())),
        ];
        assert_eq!(round_trip(&headers), Ok(headers));
        assert_eq!(round_trip(&[]), Ok(Vec::new()));
    }

    #[test]
    fn a_header_name_is_never_cut_short() {
        let value = |value: &[u8]| Some(value.to_vec());
        let headers = vec![
            (b"a".to_vec(), None),
            (b"a\0b".to_vec(), None),
            (b"a\0b".to_vec(), value(b"")),
            (b"a\0b".to_vec(), value(b"value")),
            (b"\0".to_vec(), None),
            (b"\0\0".to_vec(), value(b"\0")),
            (b"a\0".to_vec(), value(&[0; 200])),
            ([&[0; 100][..], &[b'n'; 100]].concat(), None),
            (vec![b'n'; 70_000], value(&[1; 70_000])),
        ];
        assert_eq!(round_trip(&headers), Ok(headers));
    }

    /// Each header is looked at once: a batch can hold very many of them.
    #[test]
    fn very_many_headers_are_read() {
        let headers: Vec<Header> = (0..200_000).map(|_| (b"n".to_vec(), None)).collect();
        let began = std::time::Instant::now();
        assert!(round_trip(&headers) == Ok(headers));
        assert!(
            began.elapsed() < std::time::Duration::from_secs(20),
            "{:?}",
            began.elapsed()
        );
    }
}
