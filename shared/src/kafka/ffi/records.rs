//! Records byte for byte: the safe API panics on a header name that is not UTF-8, and cannot write one.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::{mem, ptr, slice};

use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::message::{BorrowedMessage, Message, Timestamp};
use rdkafka::producer::{Producer, ProducerContext, ThreadedProducer};
use rdkafka::util::IntoOpaque;
use rdkafka_sys as sys;
use sys::rd_kafka_vtype_t as Field;

use super::call::{Owned, c_string, code};
use crate::domain::guard::record::{Header, Record, TimestampType};
use crate::domain::offset::{Fault, TopicPartition};
use crate::kafka::error::ErrorCode;

// Declared anew because they return an open set, see the parent module.
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
    fn rd_kafka_header_get(
        headers: *const sys::rd_kafka_headers_t,
        index: usize,
        name: *const c_char,
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
    fn rd_kafka_header_add(
        headers: *mut sys::rd_kafka_headers_t,
        name: *const c_char,
        name_size: isize,
        value: *const c_void,
        value_size: isize,
    ) -> c_int;
}

const NO_ENTRY: c_int = sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__NOENT as c_int;

/// A copy of `message`.
///
/// # Errors
/// Its headers cannot be read as they are.
pub(in crate::kafka) fn record(message: &BorrowedMessage<'_>) -> Result<Record, Fault> {
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
        headers: headers(message)?,
    })
}

/// The high watermark in the last answer to a fetch from `partition`.
pub(in crate::kafka) fn last_high_watermark<C: ConsumerContext>(
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

fn headers(message: &BorrowedMessage<'_>) -> Result<Vec<Header>, Fault> {
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
        // SAFETY: the name ends with a zero byte, and the value is as long as said; both live as long as the headers.
        let (key, bytes) = unsafe {
            let bytes = (!value.is_null())
                .then(|| slice::from_raw_parts(value.cast::<u8>(), size).to_vec());
            (CStr::from_ptr(name), bytes)
        };
        let same_name = read
            .iter()
            .filter(|(other, _)| other == key.to_bytes())
            .count();
        // librdkafka tells nobody how long a name is, and finds by its whole length: one that holds a zero byte, and
        // would be read up to it, is not found by what was read.
        let (mut found, mut found_size) = (ptr::null(), 0);
        // SAFETY: the headers are live, and the name ends with a zero byte.
        let whole = unsafe {
            rd_kafka_header_get(
                headers,
                same_name,
                key.as_ptr(),
                &raw mut found,
                &raw mut found_size,
            )
        };
        if whole != 0 || found != value {
            return Err(Fault::Failed {
                code: "HEADER_NAME_WITH_ZERO_BYTE".to_owned(),
            });
        }
        read.push((key.to_bytes().to_vec(), bytes));
    }
}

fn new_headers(headers: &[Header]) -> Result<Owned<sys::rd_kafka_headers_t>, ErrorCode> {
    // SAFETY: any size is good; the destructor is the headers' own.
    let list = unsafe {
        Owned::new(
            sys::rd_kafka_headers_new(headers.len()),
            sys::rd_kafka_headers_destroy,
        )
    }?;
    for (name, value) in headers {
        let (value, size) = pointer(value.as_deref());
        // SAFETY: the list is live; name and value are as long as said, and copied.
        let answer = unsafe {
            rd_kafka_header_add(
                list.ptr,
                name.as_ptr().cast(),
                length(name.len())?,
                value,
                length(size)?,
            )
        };
        ErrorCode(answer).check()?;
    }
    Ok(list)
}

/// No bytes are a null pointer, empty ones are not.
fn pointer(bytes: Option<&[u8]>) -> (*mut c_void, usize) {
    bytes.map_or((ptr::null_mut(), 0), |bytes| {
        (bytes.as_ptr().cast_mut().cast(), bytes.len())
    })
}

fn length(size: usize) -> Result<isize, ErrorCode> {
    isize::try_from(size).map_err(|_| ErrorCode::INVALID_ARG)
}

/// Queues one record; what becomes of it is told to the producer's context with `delivery`.
///
/// # Errors
/// It is not queued.
pub(in crate::kafka) fn produce<C: ProducerContext + 'static>(
    producer: &ThreadedProducer<C>,
    topic: &str,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: &[Header],
    delivery: C::DeliveryOpaque,
) -> Result<(), ErrorCode> {
    use sys::rd_kafka_vu_s__bindgen_ty_1 as Value;
    let memory = |bytes| {
        let (ptr, size) = pointer(bytes);
        Value {
            mem: sys::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_1 { ptr, size },
        }
    };
    let topic = c_string(topic)?;
    let headers = new_headers(headers)?;
    let delivery = delivery.into_ptr();
    let fields = [
        (
            Field::RD_KAFKA_VTYPE_TOPIC,
            Value {
                cstr: topic.as_ptr(),
            },
        ),
        (
            Field::RD_KAFKA_VTYPE_MSGFLAGS,
            Value {
                i: sys::RD_KAFKA_MSG_F_COPY,
            },
        ),
        (Field::RD_KAFKA_VTYPE_KEY, memory(key)),
        (Field::RD_KAFKA_VTYPE_VALUE, memory(value)),
        (
            Field::RD_KAFKA_VTYPE_HEADERS,
            Value {
                headers: headers.ptr,
            },
        ),
        (Field::RD_KAFKA_VTYPE_OPAQUE, Value { ptr: delivery }),
    ]
    .map(|(vtype, u)| sys::rd_kafka_vu_t { vtype, u });
    // SAFETY: the handle is live, each field is of its type, and the bytes are copied. The error is ours to free.
    let refused = unsafe {
        Owned::new(
            sys::rd_kafka_produceva(
                producer.client().native_ptr(),
                fields.as_ptr(),
                fields.len(),
            ),
            sys::rd_kafka_error_destroy,
        )
    };
    let Ok(refused) = refused else {
        // The queued record owns them now.
        mem::forget(headers);
        return Ok(());
    };
    // SAFETY: it was made above, and what is not queued is never told of. The error is live.
    unsafe {
        drop(C::DeliveryOpaque::from_ptr(delivery));
        code(refused.ptr).check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let cut = |value: Option<&[u8]>| {
            round_trip(&[
                (b"a".to_vec(), None),
                (b"a\0b".to_vec(), value.map(<[u8]>::to_vec)),
            ])
        };
        let refused = Err(Fault::Failed {
            code: "HEADER_NAME_WITH_ZERO_BYTE".to_owned(),
        });
        assert_eq!(cut(None), refused);
        assert_eq!(cut(Some(b"")), refused);
        assert_eq!(cut(Some(b"value")), refused);
    }
}
