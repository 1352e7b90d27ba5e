//! A second opinion on a group: Confluent's REST Proxy, API v3, which is only ever read.
//!
//! It says less than the brokers do: no leader epoch, no metadata, no topic id, no fault of a single partition, nothing of
//! a partition without a commit, and a group that it may not see is "not found". What it cannot say is `None` here, and
//! nothing is decided on its word alone.

mod client;
mod compare;

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use url::Url;

use self::client::Proxy;
pub use self::compare::compare;
use crate::aws::secrets::Secret;
use crate::domain::group::GroupState;
use crate::domain::offset::{ClusterId, GroupId, TopicPartition, distance};

/// What the proxy wants to know who asks (HTTP basic authentication).
#[derive(Debug, Clone)]
pub struct Credentials {
    /// The user's name.
    pub username: String,
    /// The password.
    pub password: Secret,
}

/// A REST Proxy of a cluster.
#[derive(Debug, Clone)]
pub struct RestProxy {
    /// Its base URL.
    pub url: Url,
    /// The credentials, or why they are not known. That keeps nobody from asking the brokers.
    pub credentials: Result<Option<Credentials>, String>,
}

/// Why there is no answer, or none that is of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// 401.
    #[error("it does not accept the credentials (status 401)")]
    Unauthenticated,
    /// 403.
    #[error("the credentials do not allow it (status 403)")]
    Forbidden,
    /// 404.
    #[error("there is no such thing (status 404)")]
    NotFound,
    /// 429.
    #[error("it is asked too often (status 429)")]
    Throttled,
    /// 5xx.
    #[error("it failed itself (status {0})")]
    ServerError(u16),
    /// Any other status, a redirection too: the credentials follow none.
    #[error("it answered with status {0}")]
    Status(u16),
    /// No answer in time.
    #[error("it did not answer in time")]
    TimedOut,
    /// No connection.
    #[error("it could not be reached")]
    Unreachable,
    /// More than any group needs.
    #[error("its answers about one group are larger than 32 MiB together")]
    TooLarge,
    /// No JSON of the API, or a list without an end.
    #[error("its answer is not what the API says")]
    Malformed,
    /// A list that goes on at another address, where the credentials must not go.
    #[error("its list goes on at another address")]
    AnotherOrigin,
    /// Credentials for an address without TLS.
    #[error("it has credentials but no https, and they are not sent in the clear")]
    Insecure,
    /// A name that no path can hold.
    #[error("a group of this name cannot be asked for over HTTP")]
    Unaskable,
}

/// Which question stayed without an answer, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("asked for {asked}: {error}")]
pub struct Unanswered {
    /// The question.
    pub asked: &'static str,
    /// Why there is no answer.
    pub error: ProxyError,
}

/// Where the proxy sees a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenOffset {
    /// The committed offset.
    pub current_offset: i64,
    /// The end of what a `read_committed` consumer can read; the high watermark in old versions.
    pub log_end_offset: i64,
}

/// What the proxy says of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenGroup {
    /// When it was first asked.
    pub began_at: Timestamp,
    /// When its last answer was there.
    pub ended_at: Timestamp,
    /// The state; `None` for one that it does not know.
    pub state: Option<GroupState>,
    /// How many members; `None` where it does not say.
    pub members: Option<usize>,
    /// The partitions that have a commit, as far as it may see them. `Ok(None)`: it says nothing of offsets, because
    /// there are none or because it gives none.
    pub offsets: Result<Option<BTreeMap<TopicPartition, SeenOffset>>, Unanswered>,
}

/// What came of asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opinion {
    /// It knows the group.
    Group(SeenGroup),
    /// It knows no such group, or may not see it: it answers both alike.
    NoSuchGroup,
    /// It speaks of another cluster.
    AnotherCluster {
        /// Of these.
        seen: Vec<ClusterId>,
    },
    /// Nothing can be said.
    Unavailable(Unanswered),
}

impl fmt::Display for Opinion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group(group) => group.fmt(f),
            Self::NoSuchGroup => f.write_str("no such group, or none that it may see"),
            Self::AnotherCluster { seen } if seen.is_empty() => f.write_str("no cluster"),
            Self::AnotherCluster { seen } => {
                let seen: Vec<_> = seen.iter().map(|id| id.0.as_str()).collect();
                write!(f, "another cluster: {}", seen.join(", "))
            }
            Self::Unavailable(unanswered) => unanswered.fmt(f),
        }
    }
}

impl fmt::Display for SeenGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.state {
            Some(state) => write!(f, "{state}")?,
            None => f.write_str("in a state that is not known")?,
        }
        if let Some(members) = self.members {
            write!(f, ", members: {members}")?;
        }
        match &self.offsets {
            Ok(None) => f.write_str(", no word of offsets"),
            Ok(Some(offsets)) => {
                let lag = offsets
                    .values()
                    .map(|seen| distance(seen.current_offset, seen.log_end_offset))
                    .fold(0, u64::saturating_add);
                write!(f, ", lag of {} partitions: {lag}", offsets.len())
            }
            Err(unanswered) => write!(f, ", {unanswered}"),
        }
    }
}

/// Asks the proxy at `url` what it knows of `group` of the cluster `cluster_id`. Takes ten seconds at most.
///
/// `url` is the proxy's base, with or without the `/kafka` or the `/kafka/v3` that some put before or behind it.
pub async fn second_opinion(
    url: &Url,
    credentials: Option<Credentials>,
    cluster_id: &ClusterId,
    group: &GroupId,
) -> Opinion {
    match Proxy::new(url, credentials) {
        Ok(proxy) => proxy.opinion(cluster_id, group).await,
        Err(error) => Opinion::Unavailable(Unanswered {
            asked: "nothing",
            error,
        }),
    }
}

#[cfg(test)]
mod tests;
