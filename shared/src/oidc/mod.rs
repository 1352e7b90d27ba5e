//! Sign-in by OpenID Connect: the authorization code flow with PKCE (OpenID Connect Core 1.0, RFC 7636).
//!
//! The signature and the claims of a token are checked by the `jsonwebtoken` crate on the cryptography that TLS brings
//! along. The requests around it are few and plain; the crates that wrap them bring a second copy of most of
//! what the workspace builds already.

mod claims;
mod id_token;
mod provider;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeSet;

use data_encoding::BASE64URL_NOPAD;
use sha2::{Digest, Sha256};

use crate::aws::secrets::Secret;
use crate::domain::identity::Identity;
pub use claims::names;
pub(crate) use claims::{identity, listed, machine};
pub use id_token::BadIdToken;
pub use provider::{OidcError, Provider};

/// What the issuer knows this project's page as, and what it asks of people.
#[derive(Debug, Clone)]
pub struct Client {
    /// The client's id.
    pub id: String,
    /// The client's secret.
    pub secret: Secret,
    /// A person has to be in one of these groups.
    pub groups: BTreeSet<String>,
    /// The claim that names a person's groups.
    pub groups_claim: String,
    /// The claim that tells one person from all others, in every token of the issuer.
    pub person_claim: String,
}

/// A person who signed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// Who.
    pub identity: Identity,
    /// The groups that the issuer says the person is in.
    pub groups: BTreeSet<String>,
}

/// What is made up for one sign-in, and has to come back with it.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Challenge {
    /// Binds the answer to the browser that asked (RFC 6749 section 10.12).
    pub state: String,
    /// Binds the token to this sign-in.
    pub nonce: String,
    /// Binds the code to this sign-in (RFC 7636).
    pub verifier: String,
}

impl std::fmt::Debug for Challenge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Challenge(***)")
    }
}

impl Challenge {
    /// A new one.
    ///
    /// # Errors
    /// The operating system gives no random bytes.
    pub fn random() -> Result<Self, getrandom::Error> {
        let text = || {
            let mut bytes = [0; 32];
            getrandom::fill(&mut bytes)?;
            Ok(BASE64URL_NOPAD.encode(&bytes))
        };
        Ok(Self {
            state: text()?,
            nonce: text()?,
            verifier: text()?,
        })
    }

    /// The verifier's hash, which the issuer compares with the verifier later (RFC 7636 section 4.2, `S256`).
    fn hash(&self) -> String {
        BASE64URL_NOPAD.encode(&Sha256::digest(&self.verifier))
    }
}
