//! Environment variables, and what is wrong with one.

use std::env;

use url::Url;

/// A variable that a function needs and does not have.
#[derive(Debug, thiserror::Error)]
#[error("environment variable {name} {problem}")]
pub struct EnvError {
    pub(crate) name: &'static str,
    pub(crate) problem: String,
}

/// A variable's value.
///
/// # Errors
/// It is not set, or empty.
pub fn required(name: &'static str) -> Result<String, EnvError> {
    optional(name).ok_or_else(|| EnvError {
        name,
        problem: "is not set".to_owned(),
    })
}

/// A variable's value, or `None` where it is not set or empty.
#[must_use]
pub fn optional(name: &'static str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// A variable's value as a URL.
///
/// # Errors
/// It is not set, or no URL.
pub fn url(name: &'static str) -> Result<Url, EnvError> {
    let text = required(name)?;
    // Joining a path to a URL replaces what stands behind its last slash.
    let text = if text.ends_with('/') {
        text
    } else {
        text + "/"
    };
    Url::parse(&text).map_err(|error| EnvError {
        name,
        problem: format!("is no URL ({error})"),
    })
}
