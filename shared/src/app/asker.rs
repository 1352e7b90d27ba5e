//! Askers over HTTP, and the names of the executions that their keys stand for. An execution's name is used once, so it
//! must be the asker's own: nobody else's key, no plan's id and no name that the sweep gives may stand in its way, or it in
//! theirs.

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::domain::identity::Identity;

/// The longest name of an execution, in characters (AWS Step Functions, `StartExecution`).
const LONGEST_NAME: usize = 80;

/// The longest Idempotency-Key, in characters.
pub const LONGEST_KEY: usize = 128;

/// What stands between the asker and the key. No plan's id holds one, no name that the sweep gives, and no asker as it
/// is written in front, so the first one in a name ends the asker.
const BETWEEN: char = '_';

/// What is written in front for people who sign in: their names are too long and too free to stand there.
const PERSON: &str = "v1";

/// Who asks over HTTP.
#[derive(Debug, Clone, Copy)]
pub enum Asker<'a> {
    /// A sender, by its name in the configuration.
    Sender(&'a str),
    /// A person, by the issuer's word.
    Person(&'a Identity),
}

/// Whether a caller's key can be taken: it names a request, and stands in a path as it is.
#[must_use]
pub fn is_key(key: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-._~:@".contains(c);
    key.starts_with(|c: char| c.is_ascii_alphanumeric())
        && key.len() <= LONGEST_KEY
        && key.chars().all(allowed)
}

/// The name of the execution that one asker's key stands for. What cannot be written as it is, is hashed.
#[must_use]
pub fn name_execution(asker: Asker<'_>, key: &str) -> String {
    if let Asker::Sender(sender) = asker {
        let name = format!("{sender}{BETWEEN}{key}");
        // With CloudWatch logs, as the machine has them, a name has no other characters.
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == BETWEEN;
        if !sender.contains(BETWEEN) && name.len() <= LONGEST_NAME && name.chars().all(plain) {
            return name;
        }
    }
    // Each part with its length, so that no two askers and keys run together to the same text.
    let (front, parts) = match asker {
        Asker::Sender(sender) => (sender, vec!["sender", sender, key]),
        Asker::Person(person) => (PERSON, vec!["person", &person.issuer, &person.subject, key]),
    };
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    let hash = HEXLOWER.encode(&hash.finalize()[..16]);
    let front: String = front
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
        .take(LONGEST_NAME - hash.len() - 2)
        .collect();
    // A key begins with a letter or a digit, so no name that is written as it is looks so.
    format!("{front}{BETWEEN}{BETWEEN}{hash}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_key_is_what_may_stand_in_a_path() {
        for key in [
            "release-4.2",
            "k",
            "incident_4711",
            "2026-11-30T09:00:00Z",
            "a~b@c",
            &"x".repeat(128),
        ] {
            assert!(is_key(key), "{key}");
        }
        for key in [
            "",
            ".",
            "..",
            "-a",
            "_a",
            "a b",
            "a/b",
            "a?b",
            "a#b",
            "a%b",
            "ä",
            "a\n",
            &"x".repeat(129),
        ] {
            assert!(!is_key(key), "{key:?}");
        }
    }

    #[test]
    fn a_name_begins_with_its_sender_and_is_readable_where_it_can_be() {
        let name = |sender, key| name_execution(Asker::Sender(sender), key);
        assert_eq!(name("oncall", "release-42_a"), "oncall_release-42_a");
        assert_eq!(name("oncall", "release-4.2").len(), "oncall__".len() + 32);
        assert!(name("oncall", "release-4.2").starts_with("oncall__"));
        assert_eq!(name("oncall", "release-4.2"), name("oncall", "release-4.2"));
        let person = Identity::new("https://id.example", "7", "Mara Ito");
        assert!(name_execution(Asker::Person(&person), "release").starts_with("v1__"));
        let renamed = Identity::new("https://id.example", "7", "Mara");
        let of = |person| name_execution(Asker::Person(person), "release");
        assert_eq!(of(&person), of(&renamed));
    }

    #[test]
    fn no_name_is_another_askers_nor_a_plans_nor_a_reconciles() {
        let ulid = "01KBAKV1R0ZJ3T1W8Q6F2X9C4D";
        let reconcile = format!("{ulid}-reconcile-1");
        let long = "s".repeat(64);
        let senders = [
            "a",
            "a-",
            "a_b",
            "a__b",
            "a-b",
            "v1",
            "v1-",
            "01KBAKV1R0ZJ3T1W8Q6F2X9C4D",
            &long,
            "sender",
            "person",
        ];
        let people = [
            ("i", "a"),
            ("i", "b"),
            ("j", "a"),
            ("ia", ""),
            ("", "ia"),
            ("i", "v1"),
        ];
        let people = people.map(|(issuer, subject)| Identity::new(issuer, subject, "Mara"));
        let hashed = name_execution(Asker::Sender("a_b"), "k");
        let hash = hashed.rsplit('_').next().unwrap();
        let keys = [
            "k",
            "b_k",
            "b__k",
            "k_",
            "b",
            "-k",
            ulid,
            &reconcile,
            "1",
            "reconcile-1",
            "a.b",
            "a:b",
            hash,
            &"k".repeat(128),
            &"k".repeat(78),
            &"k".repeat(79),
        ];
        let askers = senders.iter().map(|sender| Asker::Sender(sender));
        let askers: Vec<_> = askers.chain(people.iter().map(Asker::Person)).collect();
        let mut seen = BTreeMap::new();
        for asker in &askers {
            for key in keys.iter().filter(|key| is_key(key)) {
                let name = name_execution(*asker, key);
                assert!((1..=LONGEST_NAME).contains(&name.len()), "{name}");
                assert!(
                    name.chars()
                        .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_'),
                    "{name}"
                );
                assert!(name.contains(BETWEEN), "{name}");
                let before = seen.insert(name.clone(), (asker, key));
                assert!(
                    before.is_none(),
                    "{name}: {before:?} and {:?}",
                    (asker, key)
                );
            }
        }
        assert!(!ulid.contains(BETWEEN) && !reconcile.contains(BETWEEN));
    }
}
