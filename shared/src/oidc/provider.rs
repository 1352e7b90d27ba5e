//! The issuer: what it says of itself, its keys, and the token that it gives for a code.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use data_encoding::BASE64;
use jiff::Timestamp;
use jsonwebtoken::jwk::{Jwk, JwkSet};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use reqwest::redirect::Policy;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tokio::sync::Mutex;
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::id_token::{BadIdToken, verify};
use super::{Challenge, Client, Person};
use crate::address::hides;

/// How long the issuer's own word is good. Issuers announce a new key longer before they use it.
const KEPT: Duration = Duration::from_secs(3_600);
/// A key that is not known may be a new one. So often is it looked for, whoever sends whatever token.
const BETWEEN_LOOKS: Duration = Duration::from_secs(30);
/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(4);
/// More than an issuer has to say, in bytes.
const LONGEST_ANSWER: usize = 1 << 20;

/// Why the issuer could not be asked, or what it said is not believed. No code, token or secret is in it, nor the
/// HTTP client's own error, which may name an address with one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OidcError {
    /// It did not answer.
    #[error("the issuer's {what} cannot be reached")]
    Unreachable {
        /// Which part of it.
        what: &'static str,
    },
    /// It failed, or answered something else.
    #[error("the issuer's {what} answered with status {status}")]
    Status {
        /// Which part of it.
        what: &'static str,
        /// The status.
        status: u16,
    },
    /// Its answer is not what it should be.
    #[error("the issuer's {what} gave an answer that cannot be read")]
    Unreadable {
        /// Which part of it.
        what: &'static str,
    },
    /// It says that it is another one, or names an address that is not safe.
    #[error("the issuer's discovery document does not fit: {0}")]
    Discovery(&'static str),
    /// It does not give a token for this code: used before, too old, or not meant for this sign-in.
    #[error("the issuer gives no token for this sign-in: {0}")]
    Refused(String),
    /// Its token is not good.
    #[error("the issuer's token is not accepted: {0}")]
    Token(#[from] BadIdToken),
}

/// What an issuer says of itself (OpenID Connect Discovery 1.0, section 3).
#[derive(Debug, Clone, Deserialize)]
struct Metadata {
    issuer: String,
    #[serde(deserialize_with = "address")]
    authorization_endpoint: Url,
    #[serde(deserialize_with = "address")]
    token_endpoint: Url,
    #[serde(deserialize_with = "address")]
    jwks_uri: Url,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    subject_types_supported: Option<Vec<String>>,
}

impl Metadata {
    /// Whether a person has one subject for all clients. A provider has to say which it can (OpenID Connect Discovery
    /// 1.0, section 3), and one that does not is not taken at a word that it did not give.
    fn has_public_subjects(&self) -> bool {
        let types = self.subject_types_supported.as_ref();
        types.is_some_and(|types| types.iter().any(|kind| kind == "public"))
    }
}

fn address<'de, D: Deserializer<'de>>(written: D) -> Result<Url, D::Error> {
    let text = String::deserialize(written)?;
    Url::parse(&text).map_err(D::Error::custom)
}

#[derive(Debug)]
struct Known {
    metadata: Arc<Metadata>,
    keys: Arc<JwkSet>,
    read_at: Instant,
}

/// One issuer. What it says of itself is kept for an hour.
pub struct Provider {
    issuer: String,
    http: reqwest::Client,
    known: Mutex<Option<Known>>,
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Provider");
        shown.field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

impl Provider {
    /// The issuer of this identifier. Nothing is asked yet.
    ///
    /// # Errors
    /// The identifier is no address that is safe: `https`, or `http` on this very machine.
    pub fn new(issuer: &str) -> Result<Self, OidcError> {
        const WRONG: OidcError = OidcError::Discovery("its identifier is no https address");
        let url = Url::parse(issuer).map_err(|_| WRONG)?;
        if !hides(&url) || url.query().is_some() || url.fragment().is_some() {
            return Err(WRONG);
        }
        let http = reqwest::Client::builder()
            .timeout(TIMEOUT)
            // A secret goes to the address that was configured and announced, and nowhere else.
            .redirect(Policy::none())
            .build()
            .map_err(|_| OidcError::Discovery("no HTTP client can be made"))?;
        Ok(Self {
            issuer: issuer.to_owned(),
            http,
            known: Mutex::new(None),
        })
    }

    /// The issuer's identifier.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Where a browser goes to sign in. With `anew`, whoever is signed in there is asked to sign in again.
    ///
    /// # Errors
    /// The issuer cannot be asked.
    pub async fn authorization_url(
        &self,
        client: &Client,
        redirect_uri: &str,
        challenge: &Challenge,
        anew: bool,
    ) -> Result<Url, OidcError> {
        let (metadata, _) = self.known(KEPT).await?;
        let mut url = metadata.authorization_endpoint.clone();
        let mut query = url.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", &client.id)
            .append_pair("redirect_uri", redirect_uri)
            .append_pair("scope", "openid profile email")
            .append_pair("state", &challenge.state)
            .append_pair("nonce", &challenge.nonce)
            .append_pair("code_challenge", &challenge.hash())
            .append_pair("code_challenge_method", "S256");
        if anew {
            query.append_pair("prompt", "login");
        }
        drop(query);
        Ok(url)
    }

    /// The person who signed in: exchanges the code for an ID token and checks that.
    ///
    /// # Errors
    /// The issuer cannot be asked, takes no such code, or its token is not good.
    pub async fn person(
        &self,
        client: &Client,
        redirect_uri: &str,
        code: &str,
        challenge: &Challenge,
        now: Timestamp,
    ) -> Result<Person, OidcError> {
        let (metadata, keys) = self.known(KEPT).await?;
        let token = self
            .exchange(&metadata, client, redirect_uri, code, challenge)
            .await?;
        let check = |keys: &JwkSet| {
            verify(&token, keys, &self.issuer, client, &challenge.nonce, now).map_err(Into::into)
        };
        let mut person: Person = match check(&keys) {
            Err(OidcError::Token(BadIdToken::UnknownKey)) => {
                let (_, keys) = self.known(BETWEEN_LOOKS).await?;
                check(&keys)
            }
            checked => checked,
        }?;
        let pairwise = client.person_claim == "sub" && !metadata.has_public_subjects();
        person.identity = person.identity.with_pairwise_subject(pairwise);
        Ok(person)
    }

    /// What the issuer says of itself and its keys, read at most so long ago.
    async fn known(&self, at_most: Duration) -> Result<(Arc<Metadata>, Arc<JwkSet>), OidcError> {
        // Held across the requests: two callers need not ask twice.
        let mut known = self.known.lock().await;
        if let Some(known) = known.as_ref()
            && known.read_at.elapsed() < at_most
        {
            return Ok((known.metadata.clone(), known.keys.clone()));
        }
        let (metadata, keys) = self.read().await?;
        let now = known.insert(Known {
            metadata: Arc::new(metadata),
            keys: Arc::new(keys),
            read_at: Instant::now(),
        });
        Ok((now.metadata.clone(), now.keys.clone()))
    }

    /// As if everything had been read so much earlier.
    #[cfg(test)]
    pub(super) async fn age(&self, by: Duration) {
        if let Some(known) = self.known.lock().await.as_mut()
            && let Some(earlier) = known.read_at.checked_sub(by)
        {
            known.read_at = earlier;
        }
    }

    async fn read(&self) -> Result<(Metadata, JwkSet), OidcError> {
        let issuer = self.issuer.trim_end_matches('/');
        let address = format!("{issuer}/.well-known/openid-configuration");
        let discovery = self.http.get(address).header(ACCEPT, "application/json");
        let metadata: Metadata = json(discovery, "discovery document").await?;
        if metadata.issuer != self.issuer {
            return Err(OidcError::Discovery("it is another issuer's"));
        }
        let Metadata {
            authorization_endpoint,
            token_endpoint,
            jwks_uri,
            ..
        } = &metadata;
        if ![authorization_endpoint, token_endpoint, jwks_uri]
            .into_iter()
            .all(hides)
        {
            return Err(OidcError::Discovery("one of its addresses is not https"));
        }
        let keys: KeySet = json(self.http.get(jwks_uri.clone()), "key set").await?;
        Ok((metadata, keys.into()))
    }

    /// The ID token for a code (OpenID Connect Core 1.0, section 3.1.3).
    async fn exchange(
        &self,
        metadata: &Metadata,
        client: &Client,
        redirect_uri: &str,
        code: &str,
        challenge: &Challenge,
    ) -> Result<String, OidcError> {
        const WHAT: &str = "token endpoint";
        let mut form = Serializer::new(String::new());
        form.extend_pairs([
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect_uri),
            ("code_verifier", &challenge.verifier),
        ]);
        let mut request = self
            .http
            .post(metadata.token_endpoint.clone())
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(ACCEPT, "application/json");
        let secret = client.secret.expose().trim_end();
        // Left out, it means this one (OpenID Connect Discovery 1.0, section 3).
        let methods = metadata.token_endpoint_auth_methods_supported.as_ref();
        if methods.is_none_or(|methods| methods.iter().any(|one| one == "client_secret_basic")) {
            let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
            let pair = format!("{}:{}", encoded(&client.id), encoded(secret));
            let pair = format!("Basic {}", BASE64.encode(pair.as_bytes()));
            request = request.header(AUTHORIZATION, pair);
        } else {
            form.extend_pairs([("client_id", client.id.as_str()), ("client_secret", secret)]);
        }
        let answer = send(request.body(form.finish()), WHAT).await?;
        let status = answer.status().as_u16();
        let body = read(answer, WHAT).await?;
        let told: TokenAnswer = serde_json::from_slice(&body).unwrap_or_default();
        match (status, told) {
            (
                200,
                TokenAnswer {
                    id_token: Some(token),
                    ..
                },
            ) => Ok(token),
            (200, _) => Err(OidcError::Unreadable { what: WHAT }),
            // RFC 6749 section 5.2. Only its own words are repeated.
            (
                400 | 401,
                TokenAnswer {
                    error: Some(error), ..
                },
            ) if error.len() <= 64
                && error.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') =>
            {
                Err(OidcError::Refused(error))
            }
            _ => Err(OidcError::Status { what: WHAT, status }),
        }
    }
}

/// A key set as it was sent. A key of a kind that is not known here is as good as none (RFC 7517 section 5), and keeps
/// none of the others out.
#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

impl From<KeySet> for JwkSet {
    fn from(set: KeySet) -> Self {
        let known = |key| serde_json::from_value::<Jwk>(key).ok();
        Self {
            keys: set.keys.into_iter().filter_map(known).collect(),
        }
    }
}

#[derive(Default, Deserialize)]
struct TokenAnswer {
    id_token: Option<String>,
    error: Option<String>,
}

async fn send(
    request: reqwest::RequestBuilder,
    what: &'static str,
) -> Result<reqwest::Response, OidcError> {
    let sent = request.send().await;
    sent.map_err(|_| OidcError::Unreachable { what })
}

async fn read(mut answer: reqwest::Response, what: &'static str) -> Result<Vec<u8>, OidcError> {
    let mut body = Vec::new();
    loop {
        let chunk = answer.chunk().await;
        let Some(chunk) = chunk.map_err(|_| OidcError::Unreachable { what })? else {
            return Ok(body);
        };
        body.extend_from_slice(&chunk);
        if body.len() > LONGEST_ANSWER {
            return Err(OidcError::Unreadable { what });
        }
    }
}

async fn json<T: DeserializeOwned>(
    request: reqwest::RequestBuilder,
    what: &'static str,
) -> Result<T, OidcError> {
    let answer = send(request, what).await?;
    let status = answer.status().as_u16();
    if status != 200 {
        return Err(OidcError::Status { what, status });
    }
    let body = read(answer, what).await?;
    serde_json::from_slice(&body).map_err(|_| OidcError::Unreadable { what })
}
