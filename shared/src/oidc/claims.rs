//! Who a token is about, by its claims. The token was found to be good before.

use std::collections::BTreeSet;

use crate::domain::identity::Identity;

/// The claims by which providers tell people apart. One person may be called by one of them in the token for one client
/// and by another in the token for another.
const TELLING_APART: [&str; 9] = [
    "sub",
    "oid",
    "uid",
    "preferred_username",
    "upn",
    "unique_name",
    "username",
    "cognito:username",
    "email",
];
/// The claims that hold what people call a person, the best first.
const NAMES: [&str; 3] = ["name", "preferred_username", "email"];
/// The claims that name the client that a token was given to.
const CLIENTS: [&str; 4] = ["client_id", "azp", "cid", "appid"];

/// The person whom the claims are about; `None` without the claim that tells people apart.
pub(crate) fn identity<'a>(
    issuer: &str,
    person_claim: &str,
    claim: impl Fn(&str) -> Option<&'a str>,
) -> Option<Identity> {
    let subject = claim(person_claim).filter(|subject| !subject.trim().is_empty())?;
    let name = NAMES.iter().find_map(|name| claim(name));
    let aliases = TELLING_APART.iter().filter_map(|name| claim(name));
    Some(Identity::new(issuer, subject, name.unwrap_or_default()).with_aliases(aliases))
}

/// Why the claims are those of a program that got its token by itself (RFC 6749 section 4.4), if they are. RFC 9068
/// section 5 warns of taking one for a person; there is no one claim for it, so each provider's is known here.
pub(crate) fn machine<'a>(claim: impl Fn(&str) -> Option<&'a str>) -> Option<String> {
    let is = |name: &str, value: &str| {
        claim(name).is_some_and(|found| found.eq_ignore_ascii_case(value))
    };
    // Entra ID.
    if is("idtyp", "app") {
        return Some("idtyp is app".to_owned());
    }
    // Auth0, and those that repeat the grant.
    for (name, value) in [
        ("gty", "client-credentials"),
        ("gty", "client_credentials"),
        ("grant_type", "client-credentials"),
        ("grant_type", "client_credentials"),
    ] {
        if is(name, value) {
            return Some(format!("{name} is {value}"));
        }
    }
    // Cognito, Okta and Auth0 make the client the subject.
    let subject = claim("sub").unwrap_or_default();
    let is_client = |client: &&str| {
        claim(client).is_some_and(|client| {
            subject.eq_ignore_ascii_case(client)
                || subject.eq_ignore_ascii_case(&format!("{client}@clients"))
        })
    };
    if let Some(client) = CLIENTS.iter().find(|client| is_client(client)) {
        return Some(format!("sub is the {client}"));
    }
    // Keycloak gives each client a user of its own.
    let username = claim("preferred_username").unwrap_or_default();
    if username
        .to_ascii_lowercase()
        .starts_with("service-account-")
    {
        return Some("preferred_username is that of a service account".to_owned());
    }
    // Google.
    let email = claim("email").unwrap_or_default();
    if email.to_ascii_lowercase().ends_with(".gserviceaccount.com") {
        return Some("email is that of a service account".to_owned());
    }
    // Entra ID, where idtyp is not asked for: a person's sub is pairwise, and delegated rights have a scope.
    let delegated = claim("scp").or(claim("scope")).is_some();
    if !subject.is_empty() && claim("oid") == Some(subject) && !delegated {
        return Some("sub is the oid, and there is no scope".to_owned());
    }
    None
}

/// Names of a list with commas, as a parameter of the template has it.
///
/// # Errors
/// One of them is empty: whoever is in a group without a name would be let in.
pub fn names(list: &str) -> Result<BTreeSet<String>, String> {
    let names: BTreeSet<String> = list.split(',').map(|name| name.trim().to_owned()).collect();
    if names.contains("") {
        return Err(format!(
            "holds an empty name ({list:?}); write the names with single commas between them"
        ));
    }
    Ok(names)
}

/// The names of a claim as API Gateway's JWT authorizer passes it on: one text, where a list stands in brackets with
/// blanks between its names.
pub(crate) fn listed(claim: &str) -> BTreeSet<String> {
    let list = claim.trim();
    let list = list
        .strip_prefix('[')
        .and_then(|list| list.strip_suffix(']'));
    let names: Vec<&str> = match list {
        None => vec![claim],
        Some(list) => list
            .split(|c: char| c.is_whitespace() || c == ',')
            .map(|name| name.trim_matches('"'))
            .collect(),
    };
    let names = names.into_iter().filter(|name| !name.trim().is_empty());
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn of(claims: &[(&'static str, &'static str)]) -> BTreeMap<&'static str, &'static str> {
        claims.iter().copied().collect()
    }

    #[test]
    fn a_machines_token_is_nobodys() {
        let person = [
            ("sub", "7"),
            ("azp", "cli"),
            ("client_id", "cli"),
            ("scope", "openid"),
            ("preferred_username", "mara"),
        ];
        let with = |more: &[(&'static str, &'static str)]| {
            let claims = of(&[&person[..], more].concat());
            machine(|name| claims.get(name).copied())
        };
        assert_eq!(with(&[]), None);
        // A person of Entra ID, and one of Azure AD B2C, whose sub is the oid.
        assert_eq!(with(&[("oid", "o-1")]), None);
        assert_eq!(with(&[("oid", "7"), ("scp", "read")]), None);
        for machine in [
            &[("sub", "cli")][..],
            &[("sub", "CLI")],
            &[("sub", "cli@clients")],
            &[("sub", "okta"), ("cid", "okta")],
            &[("sub", "entra"), ("appid", "entra")],
            &[("idtyp", "app")],
            &[("gty", "client-credentials")],
            &[("grant_type", "client_credentials")],
            &[("preferred_username", "service-account-ci")],
            &[("email", "ci@project.iam.gserviceaccount.com")],
        ] {
            assert!(with(machine).is_some(), "{machine:?}");
        }
        let entra = of(&[("sub", "o-1"), ("oid", "o-1"), ("appid", "other")]);
        assert!(machine(|name| entra.get(name).copied()).is_some());
    }

    #[test]
    fn an_identity_has_all_names_by_which_the_issuer_tells_people_apart() {
        let claims = of(&[
            ("sub", "s-1"),
            ("oid", "o-1"),
            ("email", "Mara@Example.com"),
            ("preferred_username", "mara"),
            ("name", "Mara Ito"),
            ("azp", "cli"),
        ]);
        let found = identity("https://id.example", "oid", |name| {
            claims.get(name).copied()
        });
        let found = found.unwrap();
        assert_eq!((found.subject.as_str(), found.name()), ("o-1", "Mara Ito"));
        let aliases: Vec<_> = found.aliases().iter().map(String::as_str).collect();
        assert_eq!(aliases, ["mara", "mara@example.com", "s-1"]);
        for claim in ["upn", "nothing"] {
            let nobody = identity("https://id.example", claim, |name| {
                claims.get(name).copied()
            });
            assert_eq!(nobody, None);
        }
    }

    #[test]
    fn a_group_without_a_name_is_none() {
        let two = BTreeSet::from(["a b".to_owned(), "c".to_owned()]);
        assert_eq!(names("a b, c"), Ok(two));
        for list in ["", ",", "a,,b", "a,", ",a", "a, ,b"] {
            assert!(names(list).unwrap_err().contains("empty name"), "{list:?}");
        }
        assert_eq!(listed(""), BTreeSet::new());
        assert_eq!(listed("[]"), BTreeSet::new());
        assert_eq!(listed("[ ]"), BTreeSet::new());
    }

    #[test]
    fn a_list_is_read_as_api_gateway_passes_it_on() {
        let both = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        assert_eq!(listed("[a b]"), both);
        assert_eq!(listed("[\"a\",\"b\"]"), both);
        assert_eq!(listed("a b"), BTreeSet::from(["a b".to_owned()]));
    }
}
