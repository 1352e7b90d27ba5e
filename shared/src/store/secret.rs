//! Values that open doors.

use std::fmt;

use data_encoding::HEXLOWER;
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// The token that ends an execution's wait. It is stored, read back and sent to Step Functions; nothing shows it.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct TaskToken(String);

impl TaskToken {
    /// Takes the token that Step Functions gave out.
    #[must_use]
    pub fn new(token: String) -> Self {
        Self(token)
    }

    /// The token itself, for the one call that needs it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for TaskToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TaskToken(***)")
    }
}

/// The SHA-256 of an approval link's random id, in lower-case hexadecimal: who reads the table cannot open the link.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LinkHash(pub(super) String);

impl LinkHash {
    /// The hash of a link's id.
    #[must_use]
    pub fn of(link_id: &str) -> Self {
        Self(HEXLOWER.encode(&Sha256::digest(link_id)))
    }

    /// The hash as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
