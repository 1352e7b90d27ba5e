//! Who asks with a token of the issuer, and whether that is somebody who may.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::answer::Answer;
use super::fault::ApiFault;
use crate::domain::identity::Identity;
use crate::http::Request;
use crate::oidc;

/// The issuer of API clients' tokens, and what it has to say of whoever may ask. API Gateway checks the tokens; here is
/// only read what they say.
#[derive(Debug, Clone)]
pub struct TokenIssuer {
    id: String,
    person_claim: String,
    groups_claim: String,
    groups: BTreeSet<String>,
    scope: Option<String>,
}

impl TokenIssuer {
    /// The issuer of this identifier. `person_claim` tells one person from all others, as the approval page has it; of
    /// `groups`, which are named in `groups_claim`, a person has to be in one, and to have `scope` in the token.
    ///
    /// # Errors
    /// Neither is asked for, so that every token for the audience could ask; or a group cannot be told from two.
    pub fn new(
        id: String,
        person_claim: String,
        groups_claim: String,
        groups: BTreeSet<String>,
        scope: Option<String>,
    ) -> Result<Self, String> {
        if groups.is_empty() && scope.is_none() {
            return Err(
                "neither a group nor a scope says who may ask; set OidcApiGroups or OidcApiScope"
                    .to_owned(),
            );
        }
        // API Gateway passes a list on as one text, with blanks between its names.
        let apart = |c: char| c.is_whitespace() || ",[]\"".contains(c);
        if let Some(group) = groups.iter().find(|group| group.contains(apart)) {
            return Err(format!(
                "the group {group:?} has a blank, a comma, a bracket or a quote in its name, and could not be told from \
                 two groups; name another, or set OidcApiScope"
            ));
        }
        Ok(Self {
            id,
            person_claim,
            groups_claim,
            groups,
            scope,
        })
    }

    /// The person whose token the route's authorizer found to be good, if it is one who may ask.
    pub(super) fn person(&self, request: &Request) -> Result<Identity, ApiFault> {
        let identity = self.identity(request)?;
        if let Some(why) = oidc::machine(|name| claim_of(request, name)) {
            return Err(ApiFault::Machine { why });
        }
        match self.missing(request) {
            None => Ok(identity),
            Some(missing) => Err(ApiFault::MayNotAsk { missing }),
        }
    }

    /// Whom the API sees, for whoever wants to know why it is refused or why an approval is.
    pub(super) fn me(&self, request: &Request) -> Result<Answer, ApiFault> {
        let identity = self.identity(request)?;
        let machine = oidc::machine(|name| claim_of(request, name));
        let missing = self.missing(request);
        let message = match (&machine, &missing) {
            (Some(why), _) => format!("a machine ({why}), which may not ask here"),
            (None, Some(missing)) => format!("{identity}, who may not ask: {missing}"),
            (None, None) => format!("{identity}, who may ask"),
        };
        Ok(Answer::new(200, "YOU", message)
            .with("issuer", identity.issuer.as_str())
            .with("person_claim", self.person_claim.as_str())
            .with("subject", identity.subject.as_str())
            .with("name", identity.name())
            .with("aliases", json!(identity.aliases()))
            .with("person", machine.is_none())
            .with("may_ask", machine.is_none() && missing.is_none()))
    }

    fn identity(&self, request: &Request) -> Result<Identity, ApiFault> {
        if claim_of(request, "iss") != Some(&self.id) {
            return Err(ApiFault::NoPerson);
        }
        let claim = |name: &str| claim_of(request, name);
        oidc::identity(&self.id, &self.person_claim, claim).ok_or(ApiFault::NoPerson)
    }

    /// What the token lacks for asking, if anything.
    fn missing(&self, request: &Request) -> Option<String> {
        if !self.groups.is_empty()
            && self
                .groups
                .is_disjoint(&listed_in(request, &self.groups_claim))
        {
            let groups: Vec<_> = self.groups.iter().map(String::as_str).collect();
            return Some(format!(
                "the token's claim {} names none of the groups {}",
                self.groups_claim,
                groups.join(", ")
            ));
        }
        let scope = self.scope.as_ref()?;
        let has = ["scope", "scp"].iter().any(|name| {
            let scopes = listed_in(request, name);
            scopes
                .iter()
                .flat_map(|text| text.split_whitespace())
                .any(|found| found == scope)
        });
        (!has).then(|| format!("the token does not have the scope {scope}"))
    }
}

/// A claim of the request's token that is a text and not empty.
fn claim_of<'r>(request: &'r Request, name: &str) -> Option<&'r str> {
    let claim = request.claims.get(name)?.as_str()?;
    Some(claim).filter(|claim| !claim.is_empty())
}

/// The names in a claim of the request's token: a list, or one name.
fn listed_in(request: &Request, name: &str) -> BTreeSet<String> {
    match request.claims.get(name) {
        Some(Value::String(text)) => oidc::listed(text),
        Some(Value::Array(names)) => {
            let names = names.iter().filter_map(Value::as_str);
            names
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect()
        }
        _ => BTreeSet::new(),
    }
}
