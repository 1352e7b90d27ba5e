//! Where a cluster is, and as whom to connect.

use std::sync::Arc;
use std::time::Duration;

use crate::token::TokenSource;
use offset_guard_domain::secret::Secret;

/// A user name and a password for SASL.
#[derive(Debug, Clone)]
pub struct SaslCredentials {
    /// The user's name.
    pub username: String,
    /// The user's password.
    pub password: Secret,
    /// Whether the connection is encrypted (`SASL_SSL`) or not (`SASL_PLAINTEXT`).
    pub tls: bool,
}

/// As whom to connect.
#[derive(Debug, Clone)]
pub enum Auth {
    /// Neither encryption nor authentication.
    Plaintext,
    /// Encryption, no client authentication.
    Tls,
    /// SASL/PLAIN.
    SaslPlain(SaslCredentials),
    /// SASL/SCRAM-SHA-256.
    ScramSha256(SaslCredentials),
    /// SASL/SCRAM-SHA-512 (the one that MSK offers).
    ScramSha512(SaslCredentials),
    /// TLS with a client certificate.
    Mtls {
        /// The client's certificate chain, PEM.
        cert_pem: Secret,
        /// The client's private key, PEM.
        key_pem: Secret,
    },
    /// SASL/OAUTHBEARER over TLS.
    OauthBearer(Arc<dyn TokenSource>),
}

/// How to reach one cluster.
#[derive(Debug, Clone)]
pub struct ConnectionSettings {
    /// `host:port`, comma-separated.
    pub bootstrap_servers: String,
    /// As whom to connect.
    pub auth: Auth,
    /// The certificate authority to trust, PEM. Without it, the system's authorities are trusted.
    pub ca_pem: Option<String>,
    /// Longest time for one request. The first tries of a request get less.
    pub request_timeout: Duration,
    /// Longest time for one call with its retries.
    pub call_timeout: Duration,
}

impl ConnectionSettings {
    /// Settings with 15 s per request and 45 s per call.
    pub fn new(bootstrap_servers: impl Into<String>, auth: Auth) -> Self {
        Self {
            bootstrap_servers: bootstrap_servers.into(),
            auth,
            ca_pem: None,
            request_timeout: Duration::from_secs(15),
            call_timeout: Duration::from_secs(45),
        }
    }

    /// What issues the tokens to log in with; `None` where the login is of another kind.
    pub(crate) fn token_source(&self) -> Option<Arc<dyn TokenSource>> {
        match &self.auth {
            Auth::OauthBearer(source) => Some(Arc::clone(source)),
            Auth::Plaintext
            | Auth::Tls
            | Auth::SaslPlain(_)
            | Auth::ScramSha256(_)
            | Auth::ScramSha512(_)
            | Auth::Mtls { .. } => None,
        }
    }
}
