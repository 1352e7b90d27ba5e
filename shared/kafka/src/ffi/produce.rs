//! Writes records byte for byte: the safe API cannot write a header name that is not UTF-8.

use std::ffi::{c_char, c_int, c_void};
use std::{mem, ptr};

use rdkafka::producer::{Producer, ProducerContext, ThreadedProducer};
use rdkafka::util::IntoOpaque;
use rdkafka_sys as sys;
use sys::rd_kafka_vtype_t as Field;

use super::pointers::{Owned, c_string, error_code};
use crate::codes::ErrorCode;
use offset_guard_domain::guard::record::Header;

// Declared again because it returns an open set, see the parent module.
unsafe extern "C" {
    fn rd_kafka_header_add(
        headers: *mut sys::rd_kafka_headers_t,
        name: *const c_char,
        name_size: isize,
        value: *const c_void,
        value_size: isize,
    ) -> c_int;
}

pub(super) fn new_headers(headers: &[Header]) -> Result<Owned<sys::rd_kafka_headers_t>, ErrorCode> {
    // SAFETY: any size is good; the destructor is the headers' own.
    let list = unsafe {
        Owned::new(
            sys::rd_kafka_headers_new(headers.len()),
            sys::rd_kafka_headers_destroy,
        )
    }?;
    for (name, value) in headers {
        let (value, size) = start_and_size(value.as_deref());
        // SAFETY: the list is live; name and value are as long as said, and copied.
        let answer = unsafe {
            rd_kafka_header_add(
                list.ptr,
                name.as_ptr().cast(),
                signed_size(name.len())?,
                value,
                signed_size(size)?,
            )
        };
        ErrorCode(answer).check()?;
    }
    Ok(list)
}

/// Where bytes start, and how many there are. No bytes are a null pointer, empty ones are not.
fn start_and_size(bytes: Option<&[u8]>) -> (*mut c_void, usize) {
    bytes.map_or((ptr::null_mut(), 0), |bytes| {
        (bytes.as_ptr().cast_mut().cast(), bytes.len())
    })
}

fn signed_size(size: usize) -> Result<isize, ErrorCode> {
    isize::try_from(size).map_err(|_| ErrorCode::INVALID_ARG)
}

/// A record to be written, in a topic that exists.
pub(crate) struct OutgoingRecord<'r> {
    pub(crate) topic: &'r str,
    pub(crate) key: Option<&'r [u8]>,
    pub(crate) value: Option<&'r [u8]>,
    pub(crate) headers: &'r [Header],
}

/// Queues one record; its delivery report goes to the producer's callbacks, with `delivery`.
///
/// # Errors
/// The record is not queued.
pub(crate) fn produce<C: ProducerContext + 'static>(
    producer: &ThreadedProducer<C>,
    record: &OutgoingRecord<'_>,
    delivery: C::DeliveryOpaque,
) -> Result<(), ErrorCode> {
    use sys::rd_kafka_vu_s__bindgen_ty_1 as Value;
    let memory = |bytes| {
        let (ptr, size) = start_and_size(bytes);
        Value {
            mem: sys::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_1 { ptr, size },
        }
    };
    let topic = c_string(record.topic)?;
    let headers = new_headers(record.headers)?;
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
        (Field::RD_KAFKA_VTYPE_KEY, memory(record.key)),
        (Field::RD_KAFKA_VTYPE_VALUE, memory(record.value)),
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
        error_code(refused.ptr).check()
    }
}
