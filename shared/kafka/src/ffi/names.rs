//! The names of error codes.

use std::ffi::{c_char, c_int};
use std::fmt;

use super::pointers::copy_text;
use crate::codes::ErrorCode;

// Declared again because it takes an open set, see the parent module.
unsafe extern "C" {
    fn rd_kafka_err2name(code: c_int) -> *const c_char;
}

impl ErrorCode {
    /// The code's name as Kafka and librdkafka write it, such as `NOT_COORDINATOR` or `_TIMED_OUT`; `ERR_<n>?` for one
    /// that librdkafka does not know.
    pub(crate) fn name(self) -> String {
        if self == Self::MISSING {
            return "MISSING_FROM_ANSWER".to_owned();
        }
        // SAFETY: takes any integer; the text is static or thread-local and copied before anything else is called.
        unsafe { copy_text(rd_kafka_err2name(self.0)) }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}
