//! What is common to all errors: their class, and their text with every cause.

use std::error::Error as StdError;

/// What can be done about an error. The state machine's `Retry` and `Catch` name these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// The same call may succeed in a moment.
    Transient,
    /// Somebody else was first; read again before deciding anything.
    Conflict,
    /// The caller has to send something else.
    InvalidRequest,
    /// Neither time nor the caller can help: configuration, rights, or a defect.
    Internal,
}

impl ErrorClass {
    /// All of them, so that a test can compare the state machine's names with these.
    pub const ALL: [Self; 4] = [
        Self::Transient,
        Self::Conflict,
        Self::InvalidRequest,
        Self::Internal,
    ];

    /// The Lambda `errorType`, which is what `ErrorEquals` sees.
    #[must_use]
    pub const fn error_type(self) -> &'static str {
        match self {
            Self::Transient => "OffsetGuard.Transient",
            Self::Conflict => "OffsetGuard.Conflict",
            Self::InvalidRequest => "OffsetGuard.InvalidRequest",
            Self::Internal => "OffsetGuard.Internal",
        }
    }
}

/// An error and everything that caused it, in one line. No cause repeats another's text.
pub fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text.push_str(": ");
        text.push_str(&source.to_string());
        cause = source.source();
    }
    text
}
