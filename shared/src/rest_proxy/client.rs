//! The questions over HTTP.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use url::Url;

use super::{Credentials, Opinion, ProxyError, SeenGroup, SeenOffset, Unanswered};
use crate::address::hides;
use crate::domain::group::GroupState;
use crate::domain::offset::{ClusterId, GroupId, TopicPartition};

/// How long all questions together may take.
const DEADLINE: Duration = Duration::from_secs(10);
/// How long one may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The most bytes of all answers about one group together.
const LARGEST: usize = 32 << 20;
/// How many groups are asked about at once, so that all their answers have room in a function's memory.
const AT_ONCE: usize = 4;
/// The most pages of one list.
const MOST_PAGES: usize = 50;

const CLUSTERS: &str = "its clusters";
const GROUP: &str = "the group";
const LAGS: &str = "the group's lags";

/// A list, as every list of the API is.
#[derive(Deserialize)]
struct List<T> {
    metadata: Metadata,
    data: Vec<T>,
}

#[derive(Deserialize)]
struct Metadata {
    /// The address of the next page.
    next: Option<String>,
}

#[derive(Deserialize)]
struct Cluster {
    cluster_id: ClusterId,
}

#[derive(Deserialize)]
struct Group {
    consumer_group_id: GroupId,
    state: String,
}

#[derive(Deserialize)]
struct Consumer {
    #[expect(
        dead_code,
        reason = "that it is there makes an answer one of the API; consumers are only counted"
    )]
    consumer_id: String,
}

#[derive(Deserialize)]
struct Lag {
    topic_name: String,
    partition_id: i32,
    current_offset: i64,
    log_end_offset: i64,
}

/// One place per question about a group.
static PLACES: Semaphore = Semaphore::const_new(AT_ONCE);

/// A proxy, and how to ask it about one group.
pub(super) struct Proxy {
    client: Client,
    credentials: Option<Credentials>,
    /// The addresses that the API may be at, each without a slash at its end.
    bases: Vec<Url>,
    /// How many bytes its answers may still have.
    left: AtomicUsize,
}

impl Proxy {
    pub(super) fn new(url: &Url, credentials: Option<Credentials>) -> Result<Self, ProxyError> {
        if credentials.is_some() && !hides(url) {
            return Err(ProxyError::Insecure);
        }
        let client = Client::builder()
            .timeout(TIMEOUT)
            .redirect(Policy::none())
            .build()
            .map_err(|_| ProxyError::Unreachable)?;
        let path = url.path().trim_end_matches('/');
        let paths = if path.ends_with("/v3") {
            vec![path.to_owned()]
        } else {
            vec![format!("{path}/v3"), format!("{path}/kafka/v3")]
        };
        let bases = paths.into_iter().map(|path| at(url, &path)).collect();
        Ok(Self {
            client,
            credentials,
            bases,
            left: AtomicUsize::new(LARGEST),
        })
    }

    pub(super) async fn opinion(&self, cluster_id: &ClusterId, group: &GroupId) -> Opinion {
        let _place = PLACES.acquire().await;
        let asking = self.ask(cluster_id, group);
        match tokio::time::timeout(DEADLINE, asking).await {
            Ok(Ok(opinion)) => opinion,
            Ok(Err(unanswered)) => Opinion::Unavailable(unanswered),
            Err(_) => Opinion::Unavailable(Unanswered {
                asked: "all of it",
                error: ProxyError::TimedOut,
            }),
        }
    }

    async fn ask(&self, cluster_id: &ClusterId, group: &GroupId) -> Result<Opinion, Unanswered> {
        let (base, clusters) = self.clusters().await.map_err(of(CLUSTERS))?;
        if !clusters.contains(cluster_id) {
            return Ok(Opinion::AnotherCluster { seen: clusters });
        }
        let path = format!(
            "{}/clusters/{}/consumer-groups/{}",
            base.path(),
            segment(&cluster_id.0).map_err(of(CLUSTERS))?,
            segment(&group.0).map_err(of(GROUP))?,
        );
        let (about, consumers, lags) = (
            at(&base, &path),
            at(&base, &format!("{path}/consumers")),
            at(&base, &format!("{path}/lags")),
        );
        let began_at = Timestamp::now();
        let (about, consumers, lags) = tokio::join!(
            self.get::<Group>(&about),
            self.list::<Consumer>(consumers, &base),
            self.list::<Lag>(lags, &base),
        );
        let about = match about {
            Ok(about) if about.consumer_group_id == *group => about,
            Ok(_) => return Err(of(GROUP)(ProxyError::Malformed)),
            Err(ProxyError::NotFound) => return Ok(Opinion::NoSuchGroup),
            Err(error) => return Err(of(GROUP)(error)),
        };
        Ok(Opinion::Group(SeenGroup {
            began_at,
            ended_at: Timestamp::now(),
            state: state(&about.state),
            members: consumers.ok().map(|consumers| consumers.len()),
            offsets: match lags {
                Ok(lags) => Ok(Some(offsets(lags))),
                // A group without offsets has none to list, and some deployments list none at all.
                Err(ProxyError::NotFound) => Ok(None),
                Err(error) => Err(of(LAGS)(error)),
            },
        }))
    }

    /// The clusters, and the base at which they were found.
    async fn clusters(&self) -> Result<(Url, Vec<ClusterId>), ProxyError> {
        let mut answer = Err(ProxyError::NotFound);
        for base in &self.bases {
            let clusters = at(base, &format!("{}/clusters", base.path()));
            answer = self.list::<Cluster>(clusters, base).await.map(|clusters| {
                let ids = clusters.into_iter().map(|cluster| cluster.cluster_id);
                (base.clone(), ids.collect())
            });
            if !matches!(answer, Err(ProxyError::NotFound)) {
                break;
            }
        }
        answer
    }

    /// All pages of a list. A next page is asked for only under `base`: the credentials are for nobody else.
    async fn list<T: DeserializeOwned>(
        &self,
        first: Url,
        base: &Url,
    ) -> Result<Vec<T>, ProxyError> {
        let mut url = first;
        let mut all = Vec::new();
        for _ in 0..MOST_PAGES {
            let page: List<T> = self.get(&url).await?;
            all.extend(page.data);
            let Some(next) = page.metadata.next.filter(|next| !next.is_empty()) else {
                return Ok(all);
            };
            let next = url.join(&next).map_err(|_| ProxyError::Malformed)?;
            let below = format!("{}/", base.path());
            let bare = next.username().is_empty() && next.password().is_none();
            if next.origin() != base.origin() || !bare || !next.path().starts_with(&below) {
                return Err(ProxyError::AnotherOrigin);
            }
            url = next;
        }
        Err(ProxyError::Malformed)
    }

    async fn get<T: DeserializeOwned>(&self, url: &Url) -> Result<T, ProxyError> {
        let mut request = self.client.get(url.clone());
        if let Some(Credentials { username, password }) = &self.credentials {
            request = request.basic_auth(username, Some(password.expose()));
        }
        let mut answer = request.send().await.map_err(|error| failed(&error))?;
        match answer.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED => return Err(ProxyError::Unauthenticated),
            StatusCode::FORBIDDEN => return Err(ProxyError::Forbidden),
            StatusCode::NOT_FOUND => return Err(ProxyError::NotFound),
            StatusCode::TOO_MANY_REQUESTS => return Err(ProxyError::Throttled),
            status if status.is_server_error() => {
                return Err(ProxyError::ServerError(status.as_u16()));
            }
            status => return Err(ProxyError::Status(status.as_u16())),
        }
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| failed(&error))? {
            let less = |left: usize| left.checked_sub(chunk.len());
            self.left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
                .map_err(|_| ProxyError::TooLarge)?;
            body.extend_from_slice(&chunk);
        }
        // The parser's own error would quote the answer.
        serde_json::from_slice(&body).map_err(|_| ProxyError::Malformed)
    }
}

fn of(asked: &'static str) -> impl Fn(ProxyError) -> Unanswered {
    move |error| Unanswered { asked, error }
}

/// The client's own error would name the address, the group's name within.
fn failed(error: &reqwest::Error) -> ProxyError {
    if error.is_timeout() {
        ProxyError::TimedOut
    } else {
        ProxyError::Unreachable
    }
}

/// The address of `path`, whose segments are escaped already, on the host of `url`.
fn at(url: &Url, path: &str) -> Url {
    let mut url = url.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// A name as one segment of a path. The two that would be read as directions, and the empty one, have no such form.
fn segment(name: &str) -> Result<String, ProxyError> {
    if matches!(name, "" | "." | "..") {
        return Err(ProxyError::Unaskable);
    }
    let escaped: String = url::form_urlencoded::byte_serialize(name.as_bytes()).collect();
    // A form writes a space as `+`, which in a path is a plus.
    Ok(escaped.replace('+', "%20"))
}

/// The API's word for a state.
fn state(word: &str) -> Option<GroupState> {
    match word {
        "EMPTY" => Some(GroupState::Empty),
        "STABLE" => Some(GroupState::Stable),
        "PREPARING_REBALANCE" => Some(GroupState::PreparingRebalance),
        "COMPLETING_REBALANCE" => Some(GroupState::CompletingRebalance),
        "ASSIGNING" => Some(GroupState::Assigning),
        "RECONCILING" => Some(GroupState::Reconciling),
        "DEAD" => Some(GroupState::Dead),
        _ => None,
    }
}

fn offsets(lags: Vec<Lag>) -> BTreeMap<TopicPartition, SeenOffset> {
    lags.into_iter()
        .map(|lag| {
            let seen = SeenOffset {
                current_offset: lag.current_offset,
                log_end_offset: lag.log_end_offset,
            };
            (TopicPartition::new(lag.topic_name, lag.partition_id), seen)
        })
        .collect()
}
