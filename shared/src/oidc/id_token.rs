//! What makes an ID token good (OpenID Connect Core 1.0, section 3.1.3.7).

use std::collections::BTreeSet;

use jiff::Timestamp;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::{Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::{Map, Value};

use super::{Client, Person, identity};

/// Signatures by a key pair. A keyed hash is none: its key would have to be the client's secret, and a public key
/// taken for one lets everybody sign.
const ALGORITHMS: [Algorithm; 5] = [
    Algorithm::RS256,
    Algorithm::PS256,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// How far two clocks may be apart, in seconds.
const LEEWAY: i64 = 60;

/// Why an ID token is not believed. What the token holds is in none of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadIdToken {
    /// It is no token.
    #[error("it is no signed token")]
    Malformed,
    /// It is not signed, or in a way that proves nothing.
    #[error("its signature is of a kind that is not accepted")]
    Algorithm,
    /// The issuer has no such key.
    #[error("it is signed with a key that the issuer does not have")]
    UnknownKey,
    /// The signature is not the issuer's.
    #[error("its signature is not the issuer's")]
    Signature,
    /// It is another issuer's.
    #[error("it was issued by somebody else")]
    Issuer,
    /// It was made for another client.
    #[error("it was made for another client")]
    Audience,
    /// It was made for another sign-in.
    #[error("it was made for another sign-in")]
    Nonce,
    /// Its time is over.
    #[error("its time is over")]
    Expired,
    /// Its time has not begun.
    #[error("its time has not begun")]
    NotYetValid,
    /// It names nobody.
    #[error("it does not have the claim that tells who it is about")]
    Nobody,
}

/// The person whom `token` is about, if it is the issuer's, for this client and this sign-in, and in time.
pub(super) fn verify(
    token: &str,
    keys: &JwkSet,
    issuer: &str,
    client: &Client,
    nonce: &str,
    now: Timestamp,
) -> Result<Person, BadIdToken> {
    let claims = signed(token, keys, issuer, client)?;
    let text = |claim: &str| claims.get(claim).and_then(Value::as_str);
    // The library takes a list with the issuer in it for the issuer.
    if text("iss") != Some(issuer) {
        return Err(BadIdToken::Issuer);
    }
    // A token for several clients says which of them it was given to.
    let several = claims["aud"].as_array().is_some_and(|all| all.len() > 1);
    if (several || claims.contains_key("azp")) && text("azp") != Some(&client.id) {
        return Err(BadIdToken::Audience);
    }
    if text("nonce") != Some(nonce) {
        return Err(BadIdToken::Nonce);
    }
    in_time(&claims, now.as_second())?;
    let identity = identity(issuer, &client.person_claim, text).ok_or(BadIdToken::Nobody)?;
    Ok(Person {
        identity,
        groups: groups(claims.get(&client.groups_claim)),
    })
}

/// The claims of a token that the issuer signed for this client.
fn signed(
    token: &str,
    keys: &JwkSet,
    issuer: &str,
    client: &Client,
) -> Result<Map<String, Value>, BadIdToken> {
    let header = decode_header(token).map_err(|error| match error.kind() {
        // `none`, and what the library has never heard of.
        ErrorKind::Json(_) => BadIdToken::Algorithm,
        _ => BadIdToken::Malformed,
    })?;
    if !ALGORITHMS.contains(&header.alg) {
        return Err(BadIdToken::Algorithm);
    }
    let key = key(keys, header.kid.as_deref(), header.alg).ok_or(BadIdToken::UnknownKey)?;
    let key = DecodingKey::from_jwk(key).map_err(|_| BadIdToken::UnknownKey)?;
    let mut validation = Validation::new(header.alg);
    validation.set_issuer(&[issuer]);
    validation.set_audience(&[&client.id]);
    validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    // By the clock that the rest goes by.
    validation.validate_exp = false;
    let decoded = decode::<Map<String, Value>>(token, &key, &validation);
    let decoded = decoded.map_err(|error| match error.kind() {
        ErrorKind::InvalidIssuer => BadIdToken::Issuer,
        ErrorKind::InvalidAudience => BadIdToken::Audience,
        ErrorKind::InvalidSignature => BadIdToken::Signature,
        ErrorKind::InvalidAlgorithm => BadIdToken::Algorithm,
        // A key of another kind than the token says.
        ErrorKind::InvalidKeyFormat | ErrorKind::InvalidAlgorithmName => BadIdToken::Signature,
        _ => BadIdToken::Malformed,
    })?;
    Ok(decoded.claims)
}

/// The key that a token names; where it names none, the only one there is.
fn key<'k>(keys: &'k JwkSet, id: Option<&str>, algorithm: Algorithm) -> Option<&'k Jwk> {
    let mut fit = keys.keys.iter().filter(|key| {
        let common = &key.common;
        let signs = matches!(common.public_key_use, None | Some(PublicKeyUse::Signature));
        let made_for = common.key_algorithm.as_ref();
        let of_this_kind =
            made_for.is_none_or(|made_for| made_for.to_string() == format!("{algorithm:?}"));
        signs && of_this_kind && id.is_none_or(|id| common.key_id.as_deref() == Some(id))
    });
    let key = fit.next()?;
    fit.next().is_none().then_some(key)
}

fn in_time(claims: &Map<String, Value>, now: i64) -> Result<(), BadIdToken> {
    let time = |claim: &str| match claims.get(claim) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_i64().map(Some).ok_or(BadIdToken::Malformed),
    };
    let expires = time("exp")?.ok_or(BadIdToken::Malformed)?;
    if now >= expires.saturating_add(LEEWAY) {
        return Err(BadIdToken::Expired);
    }
    for begins in [time("nbf")?, time("iat")?].into_iter().flatten() {
        if now < begins.saturating_sub(LEEWAY) {
            return Err(BadIdToken::NotYetValid);
        }
    }
    Ok(())
}

/// The groups of a claim: a list of names, or one name.
fn groups(claim: Option<&Value>) -> BTreeSet<String> {
    // A name that is empty is no group's, whatever was written into the parameter.
    let name = |value: &Value| {
        let name = value.as_str().filter(|name| !name.trim().is_empty());
        name.map(str::to_owned)
    };
    match claim {
        Some(Value::Array(names)) => names.iter().filter_map(name).collect(),
        Some(one) => name(one).into_iter().collect(),
        None => BTreeSet::new(),
    }
}
