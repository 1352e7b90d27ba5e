//! Remembers where every configured group is.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::{clusters, observe_stable};
use crate::aws::metrics::{self, Metric};
use crate::config::{Config, ResolvedGroup};
use crate::domain::checkpoint::{Checkpoint, NotACheckpoint, checkpoint, retire};
use crate::domain::fleet::{CapMet, Order, order};
use crate::domain::ids::{CheckpointId, GroupKey};
use crate::domain::offset::{ClusterId, GroupId};
use crate::domain::text::grouped;
use crate::error::Error;
use crate::failure::chain;
use crate::ports::ReadGroups;
use crate::store::{Put, Store};
use crate::wire::CheckpointEvent;

/// How many clusters are read at once, so that one that does not answer takes no time from the others.
const CLUSTERS_AT_ONCE: usize = 4;
/// How many groups are read at once. Each is a handful of requests to one coordinator.
const GROUPS_AT_ONCE: usize = 8;
/// How long a retired checkpoint stays readable after its retirement.
const GRACE: SignedDuration = SignedDuration::from_hours(7 * 24);

/// How often a group is read that a recovery moves at the same time, and how long after each other: an Apply takes
/// seconds.
const READINGS: u32 = 4;
const BETWEEN_READINGS: Duration = Duration::from_secs(3);

/// How long a group that only a pattern names fails its runs after it disappeared. Then it counts as given up.
const MISSED_FOR: SignedDuration = SignedDuration::from_hours(7 * 24);

/// What became of one group in a run.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case", tag = "result")]
pub enum GroupResult {
    /// A new checkpoint.
    Stored {
        /// The cluster's name.
        cluster: String,
        /// The group.
        group: GroupId,
        /// The checkpoint.
        checkpoint_id: CheckpointId,
        /// How many partitions it has.
        partitions: usize,
    },
    /// This scheduled run has stored one already.
    AlreadyRun {
        /// The cluster's name.
        cluster: String,
        /// The group.
        group: GroupId,
    },
    /// The group's name is too long for any checkpoint to be kept of it.
    NotKept {
        /// The cluster's name.
        cluster: String,
        /// The group.
        group: GroupId,
        /// The limit.
        why: String,
    },
    /// A pattern has more groups than one run reads. The others have their turn in the next runs.
    CapMet {
        /// The cluster's name.
        cluster: String,
        /// The pattern, and how many groups it has and may have.
        #[serde(flatten)]
        cap: CapMet,
    },
    /// No new checkpoint; the older ones stand.
    Failed {
        /// The cluster's name.
        cluster: String,
        /// The group; `None` where the whole cluster failed.
        group: Option<GroupId>,
        /// Why.
        why: String,
    },
}

/// Checkpoints every configured group, or the ones that the event names.
///
/// `connect` gives a reader for a cluster by its name in the configuration.
///
/// # Errors
/// The event is wrong, or any group has no new checkpoint: then the text says which and why, the others are stored,
/// and a retry of the same scheduled time adds only what is missing.
pub async fn run<R, F>(
    config: &Config,
    store: &Store,
    event: &CheckpointEvent,
    connect: F,
) -> Result<Vec<GroupResult>, Error>
where
    R: ReadGroups,
    F: AsyncFn(&str) -> Result<R, Error>,
{
    let scheduled = event
        .scheduled_time
        .as_deref()
        .map(|text| {
            text.parse::<Timestamp>().map_err(|_| {
                let text = format!("scheduled_time {text:?} is no RFC 3339 instant with a zone");
                Error::InvalidEvent(text)
            })
        })
        .transpose()?;
    let clusters = clusters(config, event.cluster.as_deref())?;
    let connect = &connect;
    let results = stream::iter(clusters)
        .map(|cluster| async move {
            let run = cluster_run(config, store, cluster, event, scheduled, connect);
            Box::pin(run).await.unwrap_or_else(|error| {
                vec![GroupResult::Failed {
                    cluster: cluster.to_owned(),
                    group: None,
                    why: chain(&error),
                }]
            })
        })
        .buffered(CLUSTERS_AT_ONCE)
        .collect::<Vec<_>>()
        .await
        .concat();
    answer(results)
}

/// A run with a failure in it is a failed run: the alarm on errors is how people hear of it.
fn answer(results: Vec<GroupResult>) -> Result<Vec<GroupResult>, Error> {
    let failures: Vec<String> = results
        .iter()
        .filter_map(|result| match result {
            GroupResult::Failed {
                cluster,
                group,
                why,
            } => {
                let group = group
                    .as_ref()
                    .map_or(String::new(), |g| format!(" {}", g.0));
                Some(format!("{cluster}{group}: {why}"))
            }
            GroupResult::Stored { .. }
            | GroupResult::AlreadyRun { .. }
            | GroupResult::NotKept { .. }
            | GroupResult::CapMet { .. } => None,
        })
        .collect();
    if failures.is_empty() {
        return Ok(results);
    }
    Err(Error::CheckpointsMissing(format!(
        "{} of {} have no new checkpoint: {}",
        grouped(failures.len()),
        grouped(results.len()),
        failures.join("; ")
    )))
}

async fn cluster_run<R, F>(
    config: &Config,
    store: &Store,
    cluster: &str,
    event: &CheckpointEvent,
    scheduled: Option<Timestamp>,
    connect: &F,
) -> Result<Vec<GroupResult>, Error>
where
    R: ReadGroups,
    F: AsyncFn(&str) -> Result<R, Error>,
{
    let reader = connect(cluster).await?;
    let cluster_id = reader.cluster_id().await?;
    let (order, unlisted) = match &event.group {
        Some(group) => (only(group), None),
        None => all_groups(config, store, cluster, &reader, &cluster_id).await?,
    };
    let caps_met = order.caps_met.into_iter().map(|cap| GroupResult::CapMet {
        cluster: cluster.to_owned(),
        cap,
    });
    let unlisted = unlisted.map(|error| GroupResult::Failed {
        cluster: cluster.to_owned(),
        group: None,
        why: format!(
            "the groups could not be listed, so new ones may be missing: {}",
            chain(&error)
        ),
    });
    let reader = &reader;
    let cluster_id = &cluster_id;
    let results = stream::iter(order.groups)
        .map(|group| async move {
            if let Err(error) = group.check() {
                // A pattern may match what anybody called a group: that fails nobody else's run.
                tracing::warn!(
                    cluster,
                    error = chain(&error),
                    "a group's name is too long to be looked after"
                );
                return GroupResult::NotKept {
                    cluster: cluster.to_owned(),
                    group,
                    why: error.to_string(),
                };
            }
            let Some(resolved) = config.resolve(cluster, &group) else {
                return GroupResult::Failed {
                    cluster: cluster.to_owned(),
                    why: "it is not in the configuration".to_owned(),
                    group: Some(group),
                };
            };
            let key = GroupKey::new(cluster_id.clone(), group.clone());
            let done = Box::pin(one(store, reader, &resolved, &key, scheduled)).await;
            let now = Timestamp::now();
            let told = match &done {
                Ok(Some(made)) => Ok(&made.id),
                Ok(None) => {
                    return GroupResult::AlreadyRun {
                        cluster: cluster.to_owned(),
                        group,
                    };
                }
                Err(why) => Err(why.as_str()),
            };
            if let Err(error) = store.note_checkpoint_run(&key, now, told).await {
                // The note is for people; the checkpoint itself stands or does not.
                tracing::warn!(
                    group = group.0,
                    error = chain(&error),
                    "the run was not noted"
                );
            }
            match done {
                Ok(Some(made)) => GroupResult::Stored {
                    cluster: cluster.to_owned(),
                    checkpoint_id: made.id,
                    partitions: made.partitions.len(),
                    group,
                },
                Ok(None) => GroupResult::AlreadyRun {
                    cluster: cluster.to_owned(),
                    group,
                },
                Err(why) => GroupResult::Failed {
                    cluster: cluster.to_owned(),
                    group: Some(group),
                    why,
                },
            }
        })
        .buffer_unordered(GROUPS_AT_ONCE)
        .collect::<Vec<_>>()
        .await;
    let mut results: Vec<_> = results
        .into_iter()
        .chain(caps_met)
        .chain(unlisted)
        .collect();
    // In the order of their names; what is about a cluster or a pattern first.
    results.sort_by(|a, b| a.group().cmp(&b.group()));
    Ok(results)
}

impl GroupResult {
    /// The group; `None` where it is about a cluster or a pattern.
    fn group(&self) -> Option<&GroupId> {
        match self {
            Self::Stored { group, .. }
            | Self::AlreadyRun { group, .. }
            | Self::NotKept { group, .. } => Some(group),
            Self::Failed { group, .. } => group.as_ref(),
            Self::CapMet { .. } => None,
        }
    }
}

/// One group alone.
pub(super) fn only(group: &str) -> Order {
    Order {
        groups: vec![GroupId(group.to_owned())],
        caps_met: Vec::new(),
    }
}

/// Every group that is to be looked after, in the order in which it is, and why others may be missing.
///
/// A pattern of which not all groups are among them is told of in the log and counted.
///
/// Groups that no broker lists are asked for all the same, and their failure is news: those configured by name, and
/// those that had a checkpoint. A list lacks them when their offsets are gone or their coordinator is down.
pub(super) async fn all_groups<R: ReadGroups>(
    config: &Config,
    store: &Store,
    cluster: &str,
    reader: &R,
    cluster_id: &ClusterId,
) -> Result<(Order, Option<Error>), Error> {
    let now = Timestamp::now();
    let mut found = store.remembered_groups(cluster_id, now).await?;
    let unlisted = match reader.list_groups().await {
        Ok(listed) => {
            found.extend(listed);
            None
        }
        Err(error) => Some(error.into()),
    };
    let named = config.configured_groups(cluster).cloned();
    let order = order(named, config.by_pattern(cluster, found), now);
    for cap in &order.caps_met {
        tracing::warn!(cluster, "{cap}");
        metrics::count(Metric::PatternCapMet);
    }
    Ok((order, unlisted))
}

/// Checkpoints one group. `None`: this scheduled run has done so before.
async fn one<R: ReadGroups>(
    store: &Store,
    reader: &R,
    resolved: &ResolvedGroup<'_>,
    group: &GroupKey,
    scheduled: Option<Timestamp>,
) -> Result<Option<Checkpoint>, String> {
    if let Some(pinned) = &resolved.cluster.cluster_id
        && *pinned != group.cluster_id
    {
        return Err(format!(
            "the brokers belong to cluster {}, configured is {}",
            group.cluster_id.0, pinned.0
        ));
    }
    let mut readings = 1;
    let made = loop {
        let (made, put) = read_and_store(store, reader, group, scheduled).await?;
        match put {
            Put::Stored => break made,
            Put::AlreadyRun => return Ok(None),
            Put::Moved if readings == READINGS => {
                return Err(
                    "a recovery moved the group each time it was read; the next run reads it again"
                        .to_owned(),
                );
            }
            Put::Moved => {
                readings += 1;
                tokio::time::sleep(BETWEEN_READINGS).await;
            }
        }
    };
    if let Err(error) = prune(store, group, resolved).await {
        // Failing to prune only keeps more than needed, and the next run prunes again.
        tracing::warn!(
            group = group.group.0,
            error = chain(&error),
            "old checkpoints were not retired"
        );
    }
    Ok(Some(made))
}

/// Reads one group and stores what was read, unless a recovery moved the group meanwhile.
async fn read_and_store<R: ReadGroups>(
    store: &Store,
    reader: &R,
    group: &GroupKey,
    scheduled: Option<Timestamp>,
) -> Result<(Checkpoint, Put), String> {
    let text = |error: Error| chain(&error);
    let previous = newest(store, group).await.map_err(text)?;
    // What the last checkpoint had is asked for by name: an answer to "all" silently leaves out what the
    // principal may not see.
    let expected = previous
        .iter()
        .flat_map(|previous| previous.partitions.keys().cloned())
        .collect();
    let seen = observe_stable(reader, &group.group, &expected)
        .await
        .map_err(text)?;
    let moved_by_us = match &previous {
        None => false,
        Some(previous) => moved_since(store, group, previous.ended_at)
            .await
            .map_err(text)?,
    };
    let id = CheckpointId(ulid::Ulid::generate().to_string());
    let made = checkpoint(id, &seen, previous.as_ref(), moved_by_us).map_err(|why| {
        let meant = if why == NotACheckpoint::NoCommits && group.group.0.contains(['*', '?']) {
            " (a name is exact; for a glob write pattern = \"...\" in the configuration)"
        } else {
            ""
        };
        format!("{why}{meant}")
    })?;
    store
        .remember_group(group, made.ended_at + MISSED_FOR)
        .await
        .map_err(|error| text(error.into()))?;
    let put = store
        .put_checkpoint(&made, scheduled)
        .await
        .map_err(|error| text(error.into()))?;
    Ok((made, put))
}

/// Whether a recovery has moved the group since, or may have: one that is reported on, or the one that holds it.
async fn moved_since(store: &Store, group: &GroupKey, since: Timestamp) -> Result<bool, Error> {
    let reported = store.last_recovery_end(group).await?;
    if reported.is_some_and(|reported| reported >= since) {
        return Ok(true);
    }
    let Some(claim) = store.claim(group).await? else {
        return Ok(false);
    };
    let holder = store.recovery(&claim.plan).await?;
    Ok(holder.is_some_and(|recovery| recovery.may_have_moved_since(since)))
}

/// The newest checkpoint of a group.
///
/// # Errors
/// The table failed.
pub async fn newest(store: &Store, group: &GroupKey) -> Result<Option<Checkpoint>, Error> {
    let headers = store.headers(group, Timestamp::now()).await?;
    match headers.first() {
        None => Ok(None),
        Some(header) => Ok(Some(store.checkpoint(group, header).await?)),
    }
}

async fn prune(store: &Store, group: &GroupKey, resolved: &ResolvedGroup<'_>) -> Result<(), Error> {
    let now = Timestamp::now();
    let headers = store.headers(group, now).await?;
    let keep = usize::try_from(resolved.policy.keep_checkpoints).unwrap_or(usize::MAX);
    let old = retire(
        &headers,
        keep,
        i64::from(resolved.policy.min_history_seconds),
    );
    store.retire(group, &old, now + GRACE).await?;
    Ok(())
}
