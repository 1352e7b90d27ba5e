//! The form token: proof that a form was shown by this page, for this link, this decision, this plan and this person.

use std::fmt;

use data_encoding::BASE64URL_NOPAD;
use hmac::{Hmac, KeyInit, Mac};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::Sha256;

use crate::app::link::LinkId;
use crate::aws::secrets::Rotating;
use crate::domain::approval::Decision;
use crate::domain::identity::Identity;
use crate::domain::plan::PlanDigest;

/// How long a form may be sent after it was shown. Many may be open at once: the decision itself is what happens once.
pub const VALID_FOR: SignedDuration = SignedDuration::from_mins(15);

/// Fewer bytes than this are no key for HMAC-SHA256 (RFC 2104 section 3).
const SHORTEST_KEY: usize = 32;

/// How long after a rotation what the key before it signed is still good: as long as a session. Whoever knows the old
/// key can make sessions with it until then, and none afterwards.
pub const PREVIOUS_FOR: SignedDuration = SignedDuration::from_mins(30);

/// The keys that sign forms and cookies, each derived from one secret for its own use, and from the secret before it, so
/// that a rotation breaks no form that is open and no session.
#[derive(Clone)]
pub struct FormKey {
    forms: Pair,
    cookies: Pair,
}

/// A key and the one before it.
#[derive(Clone)]
struct Pair {
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
        let pair = |used_for: &str| {
            Ok(Pair {
                current: derived(current, used_for)?,
                previous: previous.map(|key| derived(key, used_for)).transpose()?,
            })
        };
        Ok(Self {
            forms: pair("forms")?,
            cookies: pair("cookies")?,
        })
    }

    /// The keys of a secret that is rotated: what the value before signed is accepted for [`PREVIOUS_FOR`].
    ///
    /// # Errors
    /// A key is too short.
    pub fn rotating(secret: &Rotating, now: Timestamp) -> Result<Self, KeyTooShort> {
        let in_time = now.duration_since(secret.since) < PREVIOUS_FOR;
        let previous = secret.previous.as_ref().filter(|_| in_time);
        Self::new(
            secret.current.expose().as_bytes(),
            previous.map(|previous| previous.expose().as_bytes()),
        )
    }

    /// The token of one form, with the instant after which it is refused.
    pub(super) fn sign(&self, form: &Signed<'_>, expires_at: Timestamp) -> String {
        let expires = expires_at.as_second();
        let mac = mac(&self.forms.current, &form.text(expires)).finalize();
        format!("{expires}.{}", BASE64URL_NOPAD.encode(&mac.into_bytes()))
    }

    /// Whether `token` was made for exactly this form and is still in time.
    pub(super) fn check(
        &self,
        token: &str,
        form: &Signed<'_>,
        now: Timestamp,
    ) -> Result<(), BadToken> {
        let (expires, mac) = token.split_once('.').ok_or(BadToken::Forged)?;
        let expires: i64 = expires.parse().map_err(|_| BadToken::Forged)?;
        if !self.forms.signed(&form.text(expires), mac) {
            return Err(BadToken::Forged);
        }
        if now.as_second() >= expires {
            return Err(BadToken::Expired);
        }
        Ok(())
    }

    /// A value that comes back unread and unchanged for this purpose, until then. It is signed, not hidden.
    pub(super) fn seal(
        &self,
        purpose: &str,
        value: &impl Serialize,
        expires_at: Timestamp,
    ) -> String {
        let value = serde_json::to_vec(value).unwrap_or_default();
        let (value, expires) = (BASE64URL_NOPAD.encode(&value), expires_at.as_second());
        let mac = mac(&self.cookies.current, &sealed(purpose, &value, expires)).finalize();
        format!(
            "{value}.{expires}.{}",
            BASE64URL_NOPAD.encode(&mac.into_bytes())
        )
    }

    /// The value, if this page sealed it for this purpose and it is still in time.
    pub(super) fn open<T: DeserializeOwned>(
        &self,
        purpose: &str,
        seal: &str,
        now: Timestamp,
    ) -> Option<T> {
        let (value, rest) = seal.split_once('.')?;
        let (expires, mac) = rest.split_once('.')?;
        let expires: i64 = expires.parse().ok()?;
        let genuine = self.cookies.signed(&sealed(purpose, value, expires), mac);
        if !genuine || now.as_second() >= expires {
            return None;
        }
        serde_json::from_slice(&BASE64URL_NOPAD.decode(value.as_bytes()).ok()?).ok()
    }
}

impl Pair {
    /// Whether either key signed `text` so.
    fn signed(&self, text: &str, code: &str) -> bool {
        let Ok(code) = BASE64URL_NOPAD.decode(code.as_bytes()) else {
            return false;
        };
        // `verify_slice` takes the same time wherever the first difference is.
        [Some(&self.current), self.previous.as_ref()]
            .into_iter()
            .flatten()
            .any(|key| mac(key, text).verify_slice(&code).is_ok())
    }
}

/// What one form is for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Signed<'a> {
    /// The link that it stands behind.
    pub(super) link: &'a LinkId,
    /// What it does.
    pub(super) decision: Decision,
    /// The plan that it shows.
    pub(super) digest: &'a PlanDigest,
    /// Whom it was shown to, where that is known.
    pub(super) person: Option<&'a Identity>,
}

impl Signed<'_> {
    /// One line each; none of them can hold a line break, so no two forms have one text.
    fn text(&self, expires: i64) -> String {
        let (link, decision, digest) = (self.link.expose(), self.decision.as_str(), self.digest);
        let person = self.person.map_or(String::new(), |person| {
            serde_json::json!([person.issuer, person.subject]).to_string()
        });
        format!("offset-guard approval form 2\n{link}\n{decision}\n{digest}\n{person}\n{expires}\n")
    }
}

/// No line of it can hold a line break.
fn sealed(purpose: &str, value: &str, expires: i64) -> String {
    format!("offset-guard {purpose} 1\n{value}\n{expires}\n")
}

fn mac(key: &Hmac<Sha256>, text: &str) -> Hmac<Sha256> {
    key.clone().chain_update(text)
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

/// The key for one use: who learns it knows neither the secret nor the key for another use.
fn derived(secret: &[u8], used_for: &str) -> Result<Hmac<Sha256>, KeyTooShort> {
    let too_short = KeyTooShort {
        bytes: secret.len(),
    };
    if secret.len() < SHORTEST_KEY {
        return Err(too_short);
    }
    let secret = Hmac::<Sha256>::new_from_slice(secret).map_err(|_| too_short)?;
    let key = mac(&secret, &format!("offset-guard key for {used_for} 1"));
    Hmac::new_from_slice(&key.finalize().into_bytes()).map_err(|_| too_short)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aws::secrets::Secret;

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

    fn form<'a>(link: &'a LinkId, decision: Decision, digest: &'a PlanDigest) -> Signed<'a> {
        Signed {
            link,
            decision,
            digest,
            person: None,
        }
    }

    #[test]
    fn a_form_is_for_the_person_whom_it_was_shown_to() {
        let (link, plan) = (LinkId::random().unwrap(), digest("aa"));
        fn of<'a>(
            link: &'a LinkId,
            digest: &'a PlanDigest,
            person: Option<&'a Identity>,
        ) -> Signed<'a> {
            Signed {
                person,
                ..form(link, Decision::Approve, digest)
            }
        }
        let mara = Identity::new("https://id.example", "1", "Mara");
        let token = key(1).sign(&of(&link, &plan, Some(&mara)), at(NOW + 60));
        let check =
            |person: Option<&Identity>| key(1).check(&token, &of(&link, &plan, person), at(NOW));
        assert_eq!(check(Some(&mara)), Ok(()));
        // A person who was given another name meanwhile is the same person.
        assert_eq!(
            check(Some(&Identity::new("https://id.example", "1", "M."))),
            Ok(())
        );
        for other in [
            None,
            Some(&Identity::new("https://id.example", "2", "Mara")),
            Some(&Identity::new("https://other.example", "1", "Mara")),
            Some(&Identity::new("https://id.example\n1", "", "Mara")),
        ] {
            assert_eq!(check(other), Err(BadToken::Forged), "{other:?}");
        }
    }

    #[test]
    fn a_seal_is_for_one_purpose_and_one_time() {
        let seal = key(1).seal("session", &"mara", at(NOW + 60));
        let open = |key: &FormKey, purpose, seal: &str, now| {
            let opened: Option<String> = key.open(purpose, seal, at(now));
            opened
        };
        let k = &key(1);
        assert_eq!(open(k, "session", &seal, NOW + 59).as_deref(), Some("mara"));
        assert_eq!(open(k, "session", &seal, NOW + 60), None);
        assert_eq!(open(k, "sign-in", &seal, NOW), None);
        assert_eq!(open(&key(2), "session", &seal, NOW), None);
        let (value, rest) = seal.split_once('.').unwrap();
        let (_, mac) = rest.split_once('.').unwrap();
        let other = BASE64URL_NOPAD.encode(b"\"dana\"");
        for tampered in [
            String::new(),
            "..".to_owned(),
            format!("{other}.{rest}"),
            format!("{value}.{}.{mac}", NOW + 3_600),
            format!("{value}.{}.", NOW + 60),
            format!("{seal}A"),
        ] {
            assert_eq!(open(k, "session", &tampered, NOW), None, "{tampered}");
        }
    }

    #[test]
    fn a_token_opens_its_own_form_alone() {
        use BadToken::{Expired, Forged};
        use Decision::{Approve, Reject};
        let (link, other) = (LinkId::random().unwrap(), LinkId::random().unwrap());
        let plan = digest("aa");
        let token = key(1).sign(&form(&link, Approve, &plan), at(NOW + 60));
        let check = |key: &FormKey, token: &str, link, decision, plan: &PlanDigest, now| {
            key.check(token, &form(link, decision, plan), at(now))
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
        let token = key(1).sign(&form(&link, Decision::Reject, &plan), at(NOW + 60));
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
            let checked = key(1).check(&token, &form(&link, Decision::Reject, &plan), at(NOW));
            assert_eq!(checked, Err(BadToken::Forged), "{token}");
        }
    }

    #[test]
    fn a_rotated_key_leaves_open_forms_valid() {
        let link = LinkId::random().unwrap();
        let plan = digest("aa");
        let form = form(&link, Decision::Approve, &plan);
        let token = key(1).sign(&form, at(NOW + 60));
        let rotated = FormKey::new(&[2; 32], Some(&[1; 32])).unwrap();
        let checked = rotated.check(&token, &form, at(NOW));
        assert_eq!(checked, Ok(()));
        assert_ne!(token, rotated.sign(&form, at(NOW + 60)));
        let seal = key(1).seal("session", &"mara", at(NOW + 60));
        let opened: Option<String> = rotated.open("session", &seal, at(NOW));
        assert_eq!(opened.as_deref(), Some("mara"));
    }

    #[test]
    fn what_a_replaced_key_signed_is_good_for_half_an_hour() {
        let secret = Rotating {
            current: Secret::new("n".repeat(32)),
            since: at(NOW),
            previous: Some(Secret::new("o".repeat(32))),
        };
        let old = FormKey::new(&[b'o'; 32], None).unwrap();
        // Whoever knows the old key can write any end into what it seals.
        let seal = old.seal("session", &"mara", at(NOW + 1_000_000));
        let link = LinkId::random().unwrap();
        let plan = digest("aa");
        let form = form(&link, Decision::Approve, &plan);
        let token = old.sign(&form, at(NOW + 1_000_000));
        for (after, good) in [(0, true), (1_799, true), (1_800, false), (90_000, false)] {
            let key = FormKey::rotating(&secret, at(NOW + after)).unwrap();
            let opened: Option<String> = key.open("session", &seal, at(NOW + after));
            assert_eq!(opened.is_some(), good, "{after}");
            let checked = key.check(&token, &form, at(NOW + after));
            assert_eq!(checked.is_ok(), good, "{after}");
            // The current one signs all the while.
            let now = FormKey::new(&[b'n'; 32], None).unwrap();
            let seal = now.seal("session", &"mara", at(NOW + after + 60));
            let opened: Option<String> = key.open("session", &seal, at(NOW + after));
            assert!(opened.is_some(), "{after}");
        }
    }

    #[test]
    fn forms_and_sessions_are_signed_with_different_keys() {
        let FormKey { forms, cookies } = key(1);
        let code = |key: &Hmac<Sha256>| {
            let code = mac(key, "the same text").finalize().into_bytes();
            BASE64URL_NOPAD.encode(&code)
        };
        let plain = Hmac::<Sha256>::new_from_slice(&[1; 32]).unwrap();
        assert_ne!(code(&forms.current), code(&cookies.current));
        for key in [&forms.current, &cookies.current] {
            assert_ne!(code(key), code(&plain));
        }
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
