//! Tokens that connections log in with.

use std::fmt;

use offset_guard_domain::secret::Secret;

/// A token for SASL/OAUTHBEARER.
#[derive(Debug, Clone)]
pub struct LoginToken {
    /// The token as it is sent to the broker.
    pub text: Secret,
    /// When the token expires, in milliseconds since the epoch.
    pub expires_at_ms: i64,
}

/// Issues the tokens of a cluster's connections.
pub trait TokenSource: fmt::Debug + Send + Sync {
    /// Issues a token. It may block: it is called on a thread on which no runtime runs.
    ///
    /// # Errors
    /// The reason, without any secret. It is logged, and the login fails with `_AUTHENTICATION`.
    fn issue_token(&self) -> Result<LoginToken, String>;
}
