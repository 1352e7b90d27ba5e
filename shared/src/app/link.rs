//! The random id in an approval's link.

use std::fmt;

use data_encoding::BASE64URL_NOPAD;
use url::Url;

/// The id in a link. Whoever holds it can decide, so it is a secret: nothing stores it and nothing prints it.
#[derive(Clone, PartialEq, Eq)]
pub struct LinkId(String);

/// 256 bits: not to be guessed however many links are out.
const BYTES: usize = 32;

impl LinkId {
    /// A new one.
    ///
    /// # Errors
    /// The operating system gives no random bytes.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Self(BASE64URL_NOPAD.encode(&bytes)))
    }

    /// The id in `text`, unless no link was ever made of such a text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
        (bytes.len() == BYTES).then(|| Self(text.to_owned()))
    }

    /// The text that is hashed for the table and signed in forms.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The address of the approval's page under `public_url`, which may have a path of its own.
    #[must_use]
    pub fn url(&self, public_url: &Url) -> String {
        let base = public_url.as_str().trim_end_matches('/');
        format!("{base}/approvals/{}", self.0)
    }
}

impl fmt::Debug for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinkId(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_comes_back_from_its_address() {
        let id = LinkId::random().unwrap();
        for base in ["https://guard.example", "https://guard.example/ops/"] {
            let url = id.url(&Url::parse(base).unwrap());
            assert!(!url.contains("//approvals"), "{url}");
            let (_, text) = url.rsplit_once("/approvals/").unwrap();
            assert_eq!(LinkId::parse(text), Some(id.clone()));
        }
        assert_ne!(LinkId::random().unwrap(), id);
    }

    #[test]
    fn what_no_link_ever_held_is_not_an_id() {
        let id = LinkId::random().unwrap();
        let short = &id.expose()[1..];
        for text in ["", "x", short, "../../admin", &format!("{}=", id.expose())] {
            assert_eq!(LinkId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn it_is_never_printed() {
        let id = LinkId::random().unwrap();
        assert_eq!(format!("{id:?}"), "LinkId(***)");
    }
}
