//! Who somebody is, as far as it was proven.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::refusal::Refusal;

/// Longer names are cut: they are shown beside what decides.
const LONGEST_NAME: usize = 100;

/// A person whom an issuer vouches for, by a signature that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The issuer's identifier (OpenID Connect Core 1.0, section 2, `iss`).
    pub issuer: String,
    /// What the issuer calls the person for good, and nobody else.
    pub subject: String,
    /// What people call the person. It proves nothing: issuers let people choose it.
    name: String,
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
        }
    }

    /// What people call the person.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether both are one person. Names do not count.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.issuer == other.issuer && self.subject == other.subject
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            issuer,
            subject,
            name,
        } = self;
        write!(
            f,
            "{name} (subject {subject}), identity verified by {issuer}"
        )
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

    /// Why `decider` may not approve what this one asked for where four eyes are required, if so.
    ///
    /// Two people stand behind such a plan, each known to an issuer. The guard's plans are made by a rule that two
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
            Self::Verified(requester) if !requester.is(decider) => Ok(()),
            Self::Verified(_) => missing(format!(
                "{} both asked for the plan and approved it",
                decider.name
            )),
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

    #[test]
    fn four_eyes_are_two_people_and_never_two_names() {
        let (mara, dana) = (person("1", "Mara"), person("2", "Dana"));
        let asked = Requester::Verified(mara.clone());
        assert_eq!(asked.approved_by(Some(&dana)), Ok(()));
        // Another person of the same name, and the same person under another one.
        assert_eq!(asked.approved_by(Some(&person("2", "Mara"))), Ok(()));
        assert!(asked.approved_by(Some(&mara)).is_err());
        assert!(asked.approved_by(Some(&person("1", "Dana"))).is_err());
        assert!(asked.approved_by(None).is_err());
        // Subjects are unique to an issuer alone.
        let elsewhere = Identity::new("https://other.example", "1", "Mara");
        assert_eq!(asked.approved_by(Some(&elsewhere)), Ok(()));

        assert_eq!(Requester::Guard.approved_by(Some(&mara)), Ok(()));
        assert!(Requester::Guard.approved_by(None).is_err());
        assert!(Requester::Unverified.approved_by(Some(&mara)).is_err());
        assert!(Requester::Unverified.approved_by(None).is_err());
    }

    #[test]
    fn a_name_is_one_short_line() {
        assert_eq!(person("7", " Mara\n\u{7}Ito ").name(), "MaraIto");
        assert_eq!(person("7", "\n").name(), "7");
        assert_eq!(person("7", &"x".repeat(500)).name().len(), LONGEST_NAME);
        assert_eq!(
            person("7", "Mara").to_string(),
            "Mara (subject 7), identity verified by https://id.example"
        );
    }
}
