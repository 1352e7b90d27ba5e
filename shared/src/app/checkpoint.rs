//! Remembers where every configured group is.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::context::Context;
use super::groups::{configured_groups, one_group};
use super::{clusters, observe_stable};
use crate::config::ResolvedGroup;
use crate::domain::checkpoint::{Checkpoint, NotACheckpoint, checkpoint, retire};
use crate::domain::fleet::CapMet;
use crate::domain::ids::{CheckpointId, GroupKey};
use crate::domain::offset::{ClusterId, GroupId};
use crate::domain::text::grouped;
use crate::error::Error;
use crate::failure::chain;
use crate::ports::{Brokers, ReadGroups, Role};
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
/// # Errors
/// The event is wrong, or any group has no new checkpoint: then the text says which and why, the others are stored,
/// and a retry of the same scheduled time adds only what is missing.
pub async fn take_checkpoints<B: Brokers>(
    ctx: &Context<B>,
    event: &CheckpointEvent,
) -> Result<Vec<GroupResult>, Error> {
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
    let only = event.group.as_deref();
    let results = stream::iter(clusters(&ctx.config, event.cluster.as_deref())?)
        .map(|cluster| async move {
            let taken = checkpoint_cluster(ctx, cluster, only, scheduled);
            Box::pin(taken).await.unwrap_or_else(|error| {
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

/// Checkpoints the groups of one cluster, or `only` one of them.
async fn checkpoint_cluster<B: Brokers>(
    ctx: &Context<B>,
    cluster: &str,
    only: Option<&str>,
    scheduled: Option<Timestamp>,
) -> Result<Vec<GroupResult>, Error> {
    let reader = ctx.brokers.connect_groups(cluster, Role::Read).await?;
    let cluster_id = reader.cluster_id().await?;
    let (order, unlisted) = match only {
        Some(group) => (one_group(group), None),
        None => configured_groups(ctx, cluster, &cluster_id, &reader).await?,
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
    let run = &ClusterRun {
        ctx,
        cluster,
        cluster_id,
        reader,
        scheduled,
    };
    let results = stream::iter(order.groups)
        .map(|group| run.checkpoint(group))
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

/// One run over one cluster.
struct ClusterRun<'a, B: Brokers> {
    ctx: &'a Context<B>,
    cluster: &'a str,
    cluster_id: ClusterId,
    reader: B::Groups,
    /// The time that a scheduled run stands for.
    scheduled: Option<Timestamp>,
}

impl<B: Brokers> ClusterRun<'_, B> {
    /// Checkpoints one group, and notes that it was tried.
    async fn checkpoint(&self, group: GroupId) -> GroupResult {
        let cluster = self.cluster.to_owned();
        if let Err(error) = group.check() {
            // A pattern may match what anybody called a group: that fails nobody else's run.
            tracing::warn!(
                cluster,
                error = chain(&error),
                "a group's name is too long to be looked after"
            );
            let why = error.to_string();
            return GroupResult::NotKept {
                cluster,
                group,
                why,
            };
        }
        let Some(resolved) = self.ctx.config.resolve(self.cluster, &group) else {
            return GroupResult::Failed {
                cluster,
                why: "it is not in the configuration".to_owned(),
                group: Some(group),
            };
        };
        let key = GroupKey::new(self.cluster_id.clone(), group.clone());
        let taken = Box::pin(self.take(&resolved, &key)).await;
        let noted = match &taken {
            Ok(Some(made)) => Ok(&made.id),
            Ok(None) => return GroupResult::AlreadyRun { cluster, group },
            Err(why) => Err(why.as_str()),
        };
        let store = &self.ctx.store;
        if let Err(error) = store.note_checkpoint_run(&key, self.ctx.now(), noted).await {
            // The note is for people; the checkpoint itself stands or does not.
            tracing::warn!(
                group = group.0,
                error = chain(&error),
                "the run was not noted"
            );
        }
        match taken {
            Ok(Some(made)) => GroupResult::Stored {
                cluster,
                checkpoint_id: made.id,
                partitions: made.partitions.len(),
                group,
            },
            Ok(None) => GroupResult::AlreadyRun { cluster, group },
            Err(why) => GroupResult::Failed {
                cluster,
                group: Some(group),
                why,
            },
        }
    }

    /// Takes one checkpoint. `None`: this scheduled run has done so before.
    async fn take(
        &self,
        resolved: &ResolvedGroup<'_>,
        group: &GroupKey,
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
            let (made, put) = self.read_and_store(group).await?;
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
        if let Err(error) = self.retire_old(group, resolved).await {
            // Failing to retire only keeps more than needed, and the next run retires again.
            tracing::warn!(
                group = group.group.0,
                error = chain(&error),
                "old checkpoints were not retired"
            );
        }
        Ok(Some(made))
    }

    /// Reads one group and stores what was read, unless a recovery moved the group meanwhile.
    async fn read_and_store(&self, group: &GroupKey) -> Result<(Checkpoint, Put), String> {
        let text = |error: Error| chain(&error);
        let store = &self.ctx.store;
        let previous = self.newest(group).await.map_err(text)?;
        // What the last checkpoint had is asked for by name: an answer to "all" silently leaves out what the
        // principal may not see.
        let expected = previous
            .iter()
            .flat_map(|previous| previous.partitions.keys().cloned())
            .collect();
        let seen = observe_stable(&self.reader, &group.group, &expected)
            .await
            .map_err(text)?;
        let moved_by_us = match &previous {
            None => false,
            Some(previous) => has_moved_since(store, group, previous.ended_at)
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
            .put_checkpoint(&made, self.scheduled)
            .await
            .map_err(|error| text(error.into()))?;
        Ok((made, put))
    }

    /// The newest checkpoint of a group.
    async fn newest(&self, group: &GroupKey) -> Result<Option<Checkpoint>, Error> {
        let store = &self.ctx.store;
        let headers = store.headers(group, self.ctx.now()).await?;
        match headers.first() {
            None => Ok(None),
            Some(header) => Ok(Some(store.checkpoint(group, header).await?)),
        }
    }

    /// Retires the checkpoints that the group's policy does not keep.
    async fn retire_old(
        &self,
        group: &GroupKey,
        resolved: &ResolvedGroup<'_>,
    ) -> Result<(), Error> {
        let now = self.ctx.now();
        let headers = self.ctx.store.headers(group, now).await?;
        let keep = usize::try_from(resolved.policy.keep_checkpoints).unwrap_or(usize::MAX);
        let least = i64::from(resolved.policy.min_history_seconds);
        let old = retire(&headers, keep, least);
        self.ctx.store.retire(group, &old, now + GRACE).await?;
        Ok(())
    }
}

/// Whether a recovery has moved the group since, or may have: one that is reported on, or the one that holds it.
async fn has_moved_since(store: &Store, group: &GroupKey, since: Timestamp) -> Result<bool, Error> {
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
