//! Who somebody is, as far as it was proven.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::refusal::Refusal;

/// Longer names are cut: they are shown beside what decides.
const LONGEST_NAME: usize = 100;
/// Longer aliases are cut, and more are not kept: an identity travels in a cookie, which holds 4 KB.
const LONGEST_ALIAS: usize = 128;
/// See [`LONGEST_ALIAS`].
const MOST_ALIASES: usize = 10;

/// A person whom an issuer vouches for, by a signature that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The issuer's identifier (OpenID Connect Core 1.0, section 2, `iss`).
    pub issuer: String,
    /// What the issuer calls the person for good, and nobody else.
    pub subject: String,
    /// What people call the person. It proves nothing: issuers let people choose it.
    name: String,
    /// What else the issuer calls the person: the values of further claims that tell people apart.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    aliases: BTreeSet<String>,
    /// Whether the issuer calls the same person otherwise in a token for another client (`pairwise`, OpenID Connect
    /// Core 1.0, section 8), so that another subject does not make another person.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pairwise: bool,
}

impl Identity {
    /// An identity. Without a name the subject stands for it.
    #[must_use]
    pub fn new(issuer: &str, subject: &str, name: &str) -> Self {
        let name: String = name
            .chars()
            .filter(|c| !c.is_control())
            .take(LONGEST_NAME)
            .collect();
        let name = name.trim();
        Self {
            issuer: issuer.to_owned(),
            subject: subject.to_owned(),
            name: if name.is_empty() { subject } else { name }.to_owned(),
            aliases: BTreeSet::new(),
            pairwise: false,
        }
    }

    /// The same with what else the issuer calls the person.
    #[must_use]
    pub fn with_aliases<'a>(mut self, aliases: impl IntoIterator<Item = &'a str>) -> Self {
        let subject = folded(&self.subject);
        self.aliases = aliases
            .into_iter()
            .map(folded)
            .filter(|alias| !alias.is_empty() && *alias != subject)
            .take(MOST_ALIASES)
            .collect();
        self
    }

    /// The same with a subject that is another one in another client's tokens.
    #[must_use]
    pub fn with_pairwise_subject(mut self, pairwise: bool) -> Self {
        self.pairwise = pairwise;
        self
    }

    /// What people call the person.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What else the issuer calls the person, in small letters.
    #[must_use]
    pub fn aliases(&self) -> &BTreeSet<String> {
        &self.aliases
    }

    /// Whether both are certainly one person: one subject of one issuer. Names do not count.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.issuer == other.issuer && self.subject == other.subject
    }

    /// Why it is not certain that the two are two people, if so.
    ///
    /// One person has several names at one issuer, and tokens for two clients may each hold another of them. So one
    /// name in common makes one person, in whichever claim it stood and however it is capitalised; and two issuers
    /// prove nothing, since one person may have an account at each.
    fn may_be(&self, other: &Self) -> Option<String> {
        if self.issuer != other.issuer {
            return Some(format!(
                "{} and {} were verified by two issuers, which proves nothing about two people",
                self.shown(),
                other.shown()
            ));
        }
        if self.is(other) {
            return Some(format!(
                "{} both asked for the plan and approved it",
                other.shown()
            ));
        }
        if let Some(name) = self
            .names()
            .find(|name| other.names().any(|other| *name == other))
        {
            return Some(format!(
                "{}, who asked for the plan, and {}, who approved it, are one person: the issuer calls both {name:?}",
                self.shown(),
                other.shown()
            ));
        }
        if self.pairwise || other.pairwise {
            return Some(format!(
                "{} gives every client other subjects, so that {} and {} may be one person (set OidcPersonClaim to a \
                 claim that is the same for every client; for Entra ID that is oid)",
                self.issuer,
                self.shown(),
                other.shown()
            ));
        }
        None
    }

    /// Everything that the issuer calls the person, to be compared.
    fn names(&self) -> impl Iterator<Item = String> {
        [folded(&self.subject)]
            .into_iter()
            .chain(self.aliases.iter().map(|alias| folded(alias)))
    }

    /// The subject, and the name where there is one: in quotes, since people choose it and could make it say more.
    fn shown(&self) -> String {
        let subject = quoted_unless(&self.subject, |c| {
            c.is_alphanumeric() || "-._@+:|=/~".contains(c)
        });
        if self.name == self.subject {
            format!("subject {subject}")
        } else {
            format!(
                "subject {subject} ({})",
                quoted_unless(&self.name, |_| false)
            )
        }
    }
}

/// A name as it is compared: case and blanks around it do not make another person.
fn folded(name: &str) -> String {
    name.trim()
        .to_lowercase()
        .chars()
        .take(LONGEST_ALIAS)
        .collect()
}

/// A text in quotes that it cannot end, unless it is made of plain characters alone.
fn quoted_unless(text: &str, plain: impl Fn(char) -> bool) -> String {
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        serde_json::Value::from(text).to_string()
    }
}

impl fmt::Display for Identity {
    /// The subject first: that is what is proven.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, identity verified by {}", self.shown(), self.issuer)
    }
}

/// Who asked for a plan.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Requester {
    /// Somebody; the name in the request is a claim.
    #[default]
    Unverified,
    /// The guard, which is nobody.
    Guard,
    /// A person who proved it.
    Verified(Identity),
}

impl Requester {
    /// Whether nothing is known of who asked.
    #[must_use]
    pub fn is_unverified(&self) -> bool {
        *self == Self::Unverified
    }

    /// Who asked, for people; `claimed` is the name in the request. What is only claimed stands in quotes, so that no
    /// name reads like a proof.
    #[must_use]
    pub fn shown(&self, claimed: &str) -> String {
        match self {
            Self::Guard => "the guard".to_owned(),
            Self::Verified(identity) => identity.to_string(),
            Self::Unverified if claimed.is_empty() => "nobody by name".to_owned(),
            Self::Unverified => format!("{} (not verified)", quoted_unless(claimed, |_| false)),
        }
    }

    /// Why `decider` may not approve what this one asked for where four eyes are required, if so.
    ///
    /// Two people stand behind such a plan, each known to the same issuer. The guard's plans are made by a rule that two
    /// people have reviewed before, so whoever approves one is the second pair of eyes.
    ///
    /// # Errors
    /// The refusal that says which eyes are missing.
    pub fn approved_by(&self, decider: Option<&Identity>) -> Result<(), Refusal> {
        let missing = |found: String| Err(Refusal::FourEyesMissing { found });
        let Some(decider) = decider else {
            return missing("the decider's identity is not verified".to_owned());
        };
        match self {
            Self::Guard => Ok(()),
            Self::Verified(requester) => match requester.may_be(decider) {
                None => Ok(()),
                Some(found) => missing(found),
            },
            Self::Unverified => missing("the requester's identity is not verified".to_owned()),
        }
    }
}

/// Who decided, as it is stored and shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decider {
    shown: String,
    identity: Option<Identity>,
}

impl Decider {
    /// For people.
    #[must_use]
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// What is proven.
    #[must_use]
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }
}

impl From<&str> for Decider {
    /// Somebody of whom nothing is proven.
    fn from(shown: &str) -> Self {
        Self {
            shown: shown.to_owned(),
            identity: None,
        }
    }
}

impl From<Identity> for Decider {
    fn from(identity: Identity) -> Self {
        Self {
            shown: identity.to_string(),
            identity: Some(identity),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person(subject: &str, name: &str) -> Identity {
        Identity::new("https://id.example", subject, name)
    }

    fn approves(requester: &Identity, decider: &Identity) -> Result<(), String> {
        let asked = Requester::Verified(requester.clone());
        asked
            .approved_by(Some(decider))
            .map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn four_eyes_are_two_people_and_never_two_names() {
        let (mara, dana) = (person("1", "Mara"), person("2", "Dana"));
        assert_eq!(approves(&mara, &dana), Ok(()));
        // Another person of the same name, and the same person under another one.
        assert_eq!(approves(&mara, &person("2", "Mara")), Ok(()));
        let refused = approves(&mara, &mara).unwrap_err();
        assert!(refused.contains("both asked for the plan"), "{refused}");
        assert!(approves(&mara, &person("1", "Dana")).is_err());
        assert!(Requester::Verified(mara.clone()).approved_by(None).is_err());

        assert_eq!(Requester::Guard.approved_by(Some(&mara)), Ok(()));
        assert!(Requester::Guard.approved_by(None).is_err());
        assert!(Requester::Unverified.approved_by(Some(&mara)).is_err());
        assert!(Requester::Unverified.approved_by(None).is_err());
    }

    #[test]
    fn two_issuers_prove_nothing_about_two_people() {
        let (mara, elsewhere) = (
            person("1", "Mara"),
            Identity::new("https://other.example", "2", "Dana"),
        );
        let refused = approves(&mara, &elsewhere).unwrap_err();
        assert!(refused.contains("two issuers"), "{refused}");
    }

    #[test]
    fn one_name_in_common_is_one_person_wherever_it_stands_and_however_it_is_written() {
        // An access token whose subject is the login, and an ID token whose subject is the user's id.
        let login = person("Mara@Example.com", "Mara").with_aliases(["00u1"]);
        let id = person("00u1", "Mara").with_aliases(["mara@example.com", "mara"]);
        for (one, other) in [
            (login.clone(), id),
            (login.clone(), person("mara@example.com ", "M")),
            (
                login.clone(),
                person("7", "M").with_aliases(["MARA@EXAMPLE.COM"]),
            ),
            (
                person("pair-1", "M").with_aliases(["oid-1"]),
                person("pair-2", "M").with_aliases(["OID-1", "m@example.com"]),
            ),
        ] {
            for (asks, decides) in [(&one, &other), (&other, &one)] {
                let refused = approves(asks, decides).unwrap_err();
                assert!(refused.contains("are one person"), "{refused}");
            }
        }
        let dana = person("00u2", "Dana").with_aliases(["dana@example.com", ""]);
        assert_eq!(approves(&login, &dana), Ok(()));
        // An alias that is empty is nobody's.
        let nameless = person("00u3", "").with_aliases(["", " "]);
        assert_eq!(approves(&nameless, &dana), Ok(()));
    }

    #[test]
    fn a_subject_that_every_client_sees_otherwise_tells_nobody_apart() {
        let mara = person("api-subject", "Mara");
        let decider = person("page-subject", "Mara").with_pairwise_subject(true);
        let refused = approves(&mara, &decider).unwrap_err();
        assert!(refused.contains("OidcPersonClaim"), "{refused}");
        assert!(refused.contains("oid"), "{refused}");
        // Where one person is enough, nobody has to be told from another.
        assert_eq!(Requester::Guard.approved_by(Some(&decider)), Ok(()));
    }

    #[test]
    fn a_name_is_one_short_line() {
        assert_eq!(person("7", " Mara\n\u{7}Ito ").name(), "MaraIto");
        assert_eq!(person("7", "\n").name(), "7");
        assert_eq!(person("7", &"x".repeat(500)).name().len(), LONGEST_NAME);
        let many: Vec<String> = (0..50).map(|n| format!("{n}{}", "x".repeat(500))).collect();
        let named = person("7", "Mara").with_aliases(many.iter().map(String::as_str));
        assert_eq!(named.aliases().len(), MOST_ALIASES);
        assert!(named.aliases().iter().all(|a| a.len() == LONGEST_ALIAS));
    }

    #[test]
    fn what_is_proven_stands_first_and_no_name_imitates_it() {
        let shown = |identity: Identity| Requester::Verified(identity).shown("somebody");
        assert_eq!(
            shown(person("7", "Mara Ito")),
            "subject 7 (\"Mara Ito\"), identity verified by https://id.example"
        );
        assert_eq!(
            shown(person("mara@example.com", "")),
            "subject mara@example.com, identity verified by https://id.example"
        );
        let imitates = "Mara\") (subject 1), identity verified by https://id.example";
        assert_eq!(
            shown(person("6", imitates)),
            "subject 6 (\"Mara\\\") (subject 1), identity verified by https://id.example\"), identity verified by \
             https://id.example"
        );
        assert_eq!(
            shown(person("7 (\"Mara\"), identity", "x")),
            "subject \"7 (\\\"Mara\\\"), identity\" (\"x\"), identity verified by https://id.example"
        );

        let claimed = |name: &str| Requester::Unverified.shown(name);
        assert_eq!(claimed("guard"), "\"guard\" (not verified)");
        assert_eq!(
            claimed("subject 7 (\"Mara Ito\"), identity verified by https://id.example"),
            "\"subject 7 (\\\"Mara Ito\\\"), identity verified by https://id.example\" (not verified)"
        );
        assert_eq!(claimed(""), "nobody by name");
        assert_eq!(Requester::Guard.shown("Mara"), "the guard");
    }

    #[test]
    fn an_identity_without_aliases_is_read_as_it_always_was() {
        let old = r#"{"issuer":"https://id.example","subject":"7","name":"Mara"}"#;
        let read: Identity = serde_json::from_str(old).unwrap();
        assert_eq!(read, person("7", "Mara"));
        assert_eq!(serde_json::to_string(&read).unwrap(), old);
    }
}
