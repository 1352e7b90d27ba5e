//! What librdkafka lends and what it gives away: objects, texts, arrays.

use std::ffi::{CStr, CString, c_char, c_int};

use rdkafka_sys as sys;

use crate::codes::ErrorCode;

// Declared again because it returns an open set, see the parent module.
unsafe extern "C" {
    fn rd_kafka_error_code(error: *const sys::rd_kafka_error_t) -> c_int;
}

/// Owns one librdkafka object and gives it to its destructor.
pub(super) struct Owned<T> {
    pub(super) ptr: *mut T,
    destroy: unsafe extern "C" fn(*mut T),
}

impl<T> Owned<T> {
    /// # Errors
    /// `_INVALID_ARG` for a null pointer: librdkafka returns one where it does not know what was asked for.
    ///
    /// # Safety
    /// `ptr` is null or an object that `destroy` frees, and nobody else frees it.
    pub(super) unsafe fn new(
        ptr: *mut T,
        destroy: unsafe extern "C" fn(*mut T),
    ) -> Result<Self, ErrorCode> {
        if ptr.is_null() {
            return Err(ErrorCode::INVALID_ARG);
        }
        Ok(Self { ptr, destroy })
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: by the contract of `new`, `ptr` is ours to free, once.
        unsafe { (self.destroy)(self.ptr) };
    }
}

/// Copies a text; a null pointer is an empty text.
///
/// # Safety
/// `pointer` is null or a text that ends with a zero byte.
pub(super) unsafe fn copy_text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: by the contract above.
    unsafe { CStr::from_ptr(pointer) }
        .to_string_lossy()
        .into_owned()
}

/// The code of an error object.
///
/// # Safety
/// `error` is null (no error) or live.
pub(super) unsafe fn error_code(error: *const sys::rd_kafka_error_t) -> ErrorCode {
    if error.is_null() {
        return ErrorCode::NONE;
    }
    // SAFETY: by the contract above; declared to return an integer.
    ErrorCode(unsafe { rd_kafka_error_code(error) })
}

/// The elements of an array.
///
/// # Safety
/// `get` returns an array of as many elements as it writes, which lives as long as the iterator.
pub(super) unsafe fn iterate_array<T>(
    get: impl FnOnce(*mut usize) -> *mut *const T,
) -> impl Iterator<Item = *const T> {
    let mut count = 0;
    let first = get(&raw mut count);
    // SAFETY: by the contract above.
    (0..count).map(move |i| unsafe { *first.add(i) })
}

/// `text` for librdkafka.
///
/// # Errors
/// `_INVALID_ARG`: it contains a zero byte.
pub(super) fn c_string(text: &str) -> Result<CString, ErrorCode> {
    CString::new(text).map_err(|_| ErrorCode::INVALID_ARG)
}
