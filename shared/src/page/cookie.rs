//! The page's two cookies. A browser keeps them from scripts, from other hosts and from plain HTTP (RFC 6265bis,
//! section 4.1.3.2), and what is in them is signed.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::token::FormKey;
use crate::http::Request;

/// What a cookie is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cookie {
    /// Carries a sign-in to its end.
    SignIn,
    /// Says who signed in.
    Session,
}

impl Cookie {
    fn name(self) -> &'static str {
        match self {
            Self::SignIn => "__Host-offset-guard-signin",
            Self::Session => "__Host-offset-guard-session",
        }
    }

    /// What the seal is for, so that neither passes for the other.
    fn purpose(self) -> &'static str {
        match self {
            Self::SignIn => "sign-in",
            Self::Session => "session",
        }
    }

    /// How long it is good. A session outlasts one decision and its recovery, and not the night.
    fn valid_for(self) -> SignedDuration {
        match self {
            Self::SignIn => SignedDuration::from_mins(10),
            Self::Session => SignedDuration::from_mins(30),
        }
    }

    /// The header that sets it.
    pub(super) fn set(self, key: &FormKey, value: &impl Serialize, now: Timestamp) -> String {
        let seal = key.seal(self.purpose(), value, now + self.valid_for());
        self.header(&seal, self.valid_for().as_secs())
    }

    /// The header that takes it away.
    pub(super) fn clear(self) -> String {
        self.header("", 0)
    }

    fn header(self, value: &str, seconds: i64) -> String {
        // Lax, since a browser comes back from the issuer by a link: under Strict it would come without them.
        format!(
            "{}={value}; Max-Age={seconds}; Path=/; Secure; HttpOnly; SameSite=Lax",
            self.name()
        )
    }

    /// What this page put in it, while it is good.
    pub(super) fn read<T: DeserializeOwned>(
        self,
        key: &FormKey,
        request: &Request,
        now: Timestamp,
    ) -> Option<T> {
        key.open(self.purpose(), request.cookie(self.name())?, now)
    }
}
