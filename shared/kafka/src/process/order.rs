//! What a child is to read.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::token::{LoginToken, TokenSource};
use offset_guard_domain::secret::Secret;

/// One read, as the child gets it. It holds secrets.
#[derive(Serialize, Deserialize)]
pub(crate) struct ReadOrder {
    /// librdkafka's configuration.
    pub(crate) properties: BTreeMap<String, String>,
    /// The token to log in with; `None` where the login is of another kind.
    pub(crate) token: Option<OrderedToken>,
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) from: i64,
    /// Exclusive; it is in the log and below the end of the view.
    pub(crate) end: i64,
    pub(crate) records: usize,
    pub(crate) bytes: usize,
    pub(crate) time_ms: u64,
}

/// A token that the parent got for its child, or the reason why there is none.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum OrderedToken {
    Issued { text: String, expires_at_ms: i64 },
    Refused { reason: String },
}

impl OrderedToken {
    pub(crate) fn issue(source: &dyn TokenSource) -> Self {
        match source.issue_token() {
            Ok(token) => Self::Issued {
                text: token.text.expose().to_owned(),
                expires_at_ms: token.expires_at_ms,
            },
            Err(reason) => Self::Refused { reason },
        }
    }
}

impl fmt::Debug for OrderedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrderedToken").finish_non_exhaustive()
    }
}

/// Issues the one token, as often as it is asked: a child does not outlive it.
impl TokenSource for OrderedToken {
    fn issue_token(&self) -> Result<LoginToken, String> {
        match self {
            Self::Issued {
                text,
                expires_at_ms,
            } => Ok(LoginToken {
                text: Secret::new(text),
                expires_at_ms: *expires_at_ms,
            }),
            Self::Refused { reason } => Err(reason.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Source(Result<&'static str, &'static str>);

    impl TokenSource for Source {
        fn issue_token(&self) -> Result<LoginToken, String> {
            let text = self.0.map_err(str::to_owned)?;
            Ok(LoginToken {
                text: Secret::new(text),
                expires_at_ms: 1_700_000_000_000,
            })
        }
    }

    fn through_json(source: &Source) -> OrderedToken {
        let sent = serde_json::to_string(&OrderedToken::issue(source)).unwrap();
        serde_json::from_str(&sent).unwrap()
    }

    #[test]
    fn the_child_logs_in_as_its_parent_would() {
        let ordered = through_json(&Source(Ok("hunter2")));
        let token = ordered.issue_token().unwrap();
        assert_eq!(
            (token.text.expose(), token.expires_at_ms),
            ("hunter2", 1_700_000_000_000)
        );
        assert!(!format!("{ordered:?} {token:?}").contains("hunter2"));
        let refused = through_json(&Source(Err("no AWS credentials within 10 s")));
        assert_eq!(
            refused.issue_token().unwrap_err(),
            "no AWS credentials within 10 s"
        );
    }
}
