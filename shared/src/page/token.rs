//! The form token: proof that a form was shown by this page, for this link, this decision and this plan.

use std::fmt;

use data_encoding::BASE64URL_NOPAD;
use hmac::{Hmac, KeyInit, Mac};
use jiff::{SignedDuration, Timestamp};
use sha2::Sha256;

use super::link::LinkId;
use crate::domain::approval::Decision;
use crate::domain::plan::PlanDigest;

/// How long a form may be sent after it was shown. Many may be open at once: the decision itself is what happens once.
pub const VALID_FOR: SignedDuration = SignedDuration::from_mins(15);

/// Fewer bytes than this are no key for HMAC-SHA256 (RFC 2104 section 3).
const SHORTEST_KEY: usize = 32;

/// The key that signs forms, and the one before it, so that a rotation breaks no form that is open.
#[derive(Clone)]
pub struct FormKey {
    current: Hmac<Sha256>,
    previous: Option<Hmac<Sha256>>,
}

/// A key of fewer than 32 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the form key has {bytes} bytes and needs at least {SHORTEST_KEY}")]
pub struct KeyTooShort {
    /// How many it has.
    pub bytes: usize,
}

impl FormKey {
    /// Signs with `current`, and accepts what `previous` signed.
    ///
    /// # Errors
    /// A key is too short.
    pub fn new(current: &[u8], previous: Option<&[u8]>) -> Result<Self, KeyTooShort> {
        Ok(Self {
            current: hmac(current)?,
            previous: previous.map(hmac).transpose()?,
        })
    }

    /// The token of one form, with the instant after which it is refused.
    pub(super) fn sign(
        &self,
        link: &LinkId,
        decision: Decision,
        digest: &PlanDigest,
        expires_at: Timestamp,
    ) -> String {
        let expires = expires_at.as_second();
        let mac = signed(&self.current, link, decision, digest, expires)
            .finalize()
            .into_bytes();
        format!("{expires}.{}", BASE64URL_NOPAD.encode(&mac))
    }

    /// Whether `token` was made for exactly this form and is still in time.
    pub(super) fn check(
        &self,
        token: &str,
        link: &LinkId,
        decision: Decision,
        digest: &PlanDigest,
        now: Timestamp,
    ) -> Result<(), BadToken> {
        let (expires, mac) = token.split_once('.').ok_or(BadToken::Forged)?;
        let expires: i64 = expires.parse().map_err(|_| BadToken::Forged)?;
        let mac = BASE64URL_NOPAD
            .decode(mac.as_bytes())
            .map_err(|_| BadToken::Forged)?;
        // `verify_slice` takes the same time wherever the first difference is.
        let genuine = [Some(&self.current), self.previous.as_ref()]
            .into_iter()
            .flatten()
            .any(|key| {
                signed(key, link, decision, digest, expires)
                    .verify_slice(&mac)
                    .is_ok()
            });
        if !genuine {
            return Err(BadToken::Forged);
        }
        if now.as_second() >= expires {
            return Err(BadToken::Expired);
        }
        Ok(())
    }
}

impl fmt::Debug for FormKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FormKey(***)")
    }
}

/// Why a form token is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadToken {
    /// This page did not make it, or made it for another form.
    Forged,
    /// It is genuine and too old.
    Expired,
}

fn hmac(key: &[u8]) -> Result<Hmac<Sha256>, KeyTooShort> {
    let too_short = KeyTooShort { bytes: key.len() };
    if key.len() < SHORTEST_KEY {
        return Err(too_short);
    }
    Hmac::new_from_slice(key).map_err(|_| too_short)
}

/// One line each; none of them can hold a line break, so no two forms have one text.
fn signed(
    key: &Hmac<Sha256>,
    link: &LinkId,
    decision: Decision,
    digest: &PlanDigest,
    expires: i64,
) -> Hmac<Sha256> {
    let (link, decision) = (link.expose(), decision.as_str());
    key.clone().chain_update(format!(
        "offset-guard approval form 1\n{link}\n{decision}\n{digest}\n{expires}\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn key(byte: u8) -> FormKey {
        FormKey::new(&[byte; 32], None).unwrap()
    }

    fn digest(text: &str) -> PlanDigest {
        PlanDigest(text.to_owned())
    }

    #[test]
    fn a_token_opens_its_own_form_alone() {
        use BadToken::{Expired, Forged};
        use Decision::{Approve, Reject};
        let (link, other) = (LinkId::random().unwrap(), LinkId::random().unwrap());
        let plan = digest("aa");
        let token = key(1).sign(&link, Approve, &plan, at(NOW + 60));
        let check = |key: &FormKey, token: &str, link, decision, plan: &PlanDigest, now| {
            key.check(token, link, decision, plan, at(now))
        };
        let k = &key(1);
        assert_eq!(check(k, &token, &link, Approve, &plan, NOW), Ok(()));
        assert_eq!(check(k, &token, &link, Approve, &plan, NOW + 59), Ok(()));
        assert_eq!(
            check(k, &token, &link, Approve, &plan, NOW + 60),
            Err(Expired)
        );
        assert_eq!(check(k, &token, &link, Reject, &plan, NOW), Err(Forged));
        assert_eq!(check(k, &token, &other, Approve, &plan, NOW), Err(Forged));
        assert_eq!(
            check(k, &token, &link, Approve, &digest("ab"), NOW),
            Err(Forged)
        );
        assert_eq!(
            check(&key(2), &token, &link, Approve, &plan, NOW),
            Err(Forged)
        );
    }

    #[test]
    fn no_part_of_a_token_can_be_changed() {
        let link = LinkId::random().unwrap();
        let plan = digest("aa");
        let token = key(1).sign(&link, Decision::Reject, &plan, at(NOW + 60));
        let (_, mac) = token.split_once('.').unwrap();
        let tampered = [
            String::new(),
            ".".to_owned(),
            mac.to_owned(),
            format!("{}.{mac}", NOW + 3_600),
            format!("{}.", NOW + 60),
            format!("{token}AA"),
            token.replace('.', ":"),
            format!("99999999999999999999999.{mac}"),
            format!("{}.{}", NOW + 60, BASE64URL_NOPAD.encode(&[0; 32])),
        ];
        for token in tampered {
            let checked = key(1).check(&token, &link, Decision::Reject, &plan, at(NOW));
            assert_eq!(checked, Err(BadToken::Forged), "{token}");
        }
    }

    #[test]
    fn a_rotated_key_leaves_open_forms_valid() {
        let link = LinkId::random().unwrap();
        let plan = digest("aa");
        let token = key(1).sign(&link, Decision::Approve, &plan, at(NOW + 60));
        let rotated = FormKey::new(&[2; 32], Some(&[1; 32])).unwrap();
        let checked = rotated.check(&token, &link, Decision::Approve, &plan, at(NOW));
        assert_eq!(checked, Ok(()));
        assert_ne!(
            token,
            rotated.sign(&link, Decision::Approve, &plan, at(NOW + 60))
        );
    }

    #[test]
    fn a_short_key_is_no_key() {
        assert_eq!(
            FormKey::new(&[1; 31], None).err(),
            Some(KeyTooShort { bytes: 31 })
        );
        assert!(FormKey::new(&[1; 32], Some(b"")).is_err());
        assert_eq!(format!("{:?}", key(1)), "FormKey(***)");
    }
}
