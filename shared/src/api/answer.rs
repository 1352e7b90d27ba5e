//! What the API answers.

use serde_json::{Map, Value};

use crate::http::Response;

/// What a body may have, in bytes.
pub(super) const LONGEST_BODY: usize = 256 * 1024;

/// An answer: a status, a code for programs, a line for people, and what else there is to say.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// What happened, for programs.
    pub code: &'static str,
    /// What happened, and what to write instead where it was refused.
    pub message: String,
    /// Further fields.
    pub more: Map<String, Value>,
}

impl Answer {
    pub(super) fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            more: Map::new(),
        }
    }

    pub(super) fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.more.insert(field.to_owned(), value.into());
        self
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> Value {
        let mut body = Map::new();
        body.insert("code".to_owned(), self.code.into());
        body.insert("message".to_owned(), self.message.as_str().into());
        body.extend(self.more.clone());
        Value::Object(body)
    }
}

impl From<Answer> for Response {
    fn from(answer: Answer) -> Self {
        Self::new(answer.status, "application/json", answer.body().to_string())
    }
}
