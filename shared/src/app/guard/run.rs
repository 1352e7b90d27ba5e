//! One run over all clusters.

use futures_util::{StreamExt, stream};

use super::asked::Asked;
use super::group::{Looked, Watched};
use super::pace::{GROUPS_AT_ONCE, Pace};
use super::result::{GroupOutcome, GuardResult};
use super::sources::Sources;
use super::tell;
use crate::app::clusters;
use crate::app::context::Context;
use crate::app::groups::{configured_groups, one_group};
use crate::aws::metrics::{self, Metric};
use crate::domain::fleet::Order;
use crate::domain::ids::RunId;
use crate::domain::offset::{ClusterId, GroupId};
use crate::domain::text::grouped;
use crate::error::Error;
use crate::failure::chain;
use crate::ports::{Brokers, ReadGroups};
use crate::wire::guard::GuardEvent;

/// How many clusters are looked at at once, so that one that does not answer takes no time from the others.
const CLUSTERS_AT_ONCE: usize = 4;
/// How many findings an answer holds: a function's answer is limited to 6 MB.
const ANSWERED: usize = 500;

/// Looks at every configured group, or at those that the event names.
///
/// A group that could not be read is a result of its own, with the status `UNKNOWN`, and no error.
///
/// # Errors
/// The event is wrong, or what was found could not be kept or told: then the text says of which groups.
pub async fn guard_groups<B: Brokers>(
    ctx: &Context<B>,
    event: &GuardEvent,
) -> Result<Vec<GuardResult>, Error> {
    let asked = event.ask.as_ref().map(Asked::new);
    let asked = asked.as_ref();
    let outcomes = stream::iter(clusters(&ctx.config, event.cluster.as_deref())?)
        .map(|cluster| async move {
            let run = ClusterRun::begin(ctx, cluster, event.group.as_deref(), asked).await;
            Box::pin(run.guard_all()).await
        })
        .buffered(CLUSTERS_AT_ONCE)
        .collect::<Vec<_>>()
        .await
        .concat();
    let failures: Vec<_> = outcomes.iter().filter_map(|o| o.failure.clone()).collect();
    if failures.is_empty() {
        return Ok(outcomes.into_iter().map(|o| o.result).collect());
    }
    Err(Error::GuardRunsFailed(format!(
        "{} of {} runs failed: {}",
        grouped(failures.len()),
        grouped(outcomes.len()),
        failures.join("; ")
    )))
}

type SourcesOf<B> =
    Sources<<B as Brokers>::Groups, <B as Brokers>::Records, <B as Brokers>::Keeper>;

/// One run over one cluster.
struct ClusterRun<'a, B: Brokers> {
    ctx: &'a Context<B>,
    cluster: &'a str,
    /// The one group that the event names.
    only: Option<&'a str>,
    asked: Option<&'a Asked<'a>>,
    sources: Result<SourcesOf<B>, Error>,
    cluster_id: Result<ClusterId, Error>,
}

impl<'a, B: Brokers> ClusterRun<'a, B> {
    async fn begin(
        ctx: &'a Context<B>,
        cluster: &'a str,
        only: Option<&'a str>,
        asked: Option<&'a Asked<'a>>,
    ) -> Self {
        let sources = Sources::connect(&ctx.brokers, cluster).await;
        let cluster_id = match &sources {
            Ok(sources) => sources.groups.cluster_id().await.map_err(Error::from),
            Err(error) => Err(Error::Broken(chain(error))),
        };
        Self {
            ctx,
            cluster,
            only,
            asked,
            sources,
            cluster_id,
        }
    }

    /// Guards every group of the cluster that the event is about.
    async fn guard_all(&self) -> Vec<GroupOutcome> {
        let cluster = self.cluster;
        let (order, unlisted) = match self.groups().await {
            Ok(found) => found,
            Err(error) => return vec![GroupOutcome::failed(cluster, None, chain(&error))],
        };
        let caps_met = order.caps_met.iter();
        let caps_met: Vec<_> = caps_met
            .map(|cap| GroupOutcome::cap_met(cluster, cap))
            .collect();
        let unlisted = unlisted.map(|error| {
            let why = format!(
                "the groups could not be listed, so new ones may be missing: {}",
                chain(&error)
            );
            GroupOutcome::failed(cluster, None, why)
        });
        let ends_at = self.sources.as_ref().ok().and_then(|s| s.groups.ends_at());
        let pace = &Pace::new(ends_at, order.groups.len());
        let outcomes = stream::iter(order.groups)
            .map(|group| self.guard(group, pace))
            .buffer_unordered(GROUPS_AT_ONCE)
            .collect::<Vec<_>>()
            .await;
        let missed = pace.missed();
        if missed > 0 {
            tracing::warn!(
                cluster,
                missed,
                "the run's time was over before it came to all groups"
            );
            metrics::count_many(Metric::GroupsNotReached, missed);
        }
        let mut outcomes: Vec<_> = outcomes
            .into_iter()
            .chain(caps_met)
            .chain(unlisted)
            .collect();
        // In the order of their names; what is about the cluster or a pattern first.
        outcomes.sort_by(|a, b| a.result.group.cmp(&b.result.group));
        outcomes
    }

    /// The groups of the run, and why others may be missing.
    async fn groups(&self) -> Result<(Order, Option<Error>), Error> {
        match (self.only, &self.sources, &self.cluster_id) {
            (Some(group), ..) => Ok((one_group(group), None)),
            (None, Ok(sources), Ok(id)) => {
                configured_groups(self.ctx, self.cluster, id, &sources.groups).await
            }
            // Nothing answers: each group that is named is reported as unknown.
            (None, ..) => {
                let groups = self.ctx.config.configured_groups(self.cluster);
                let groups = groups.cloned().collect();
                let caps_met = Vec::new();
                Ok((Order { groups, caps_met }, None))
            }
        }
    }

    /// Guards one group: runs, measures, and reports what is news.
    async fn guard(&self, group: GroupId, pace: &Pace) -> GroupOutcome {
        let cluster = self.cluster;
        if let Err(error) = group.check() {
            // A pattern may match what anybody called a group: that fails nobody else's run.
            tracing::warn!(
                cluster,
                error = chain(&error),
                "a group's name is too long to be looked after"
            );
            return GroupOutcome::not_looked_after(cluster, group, error.to_string());
        }
        // Groups of a cluster that does not answer are reported however late that is.
        if !pace.begin() && self.cluster_id.is_ok() {
            pace.miss();
            return GroupOutcome::not_reached(cluster, group);
        }
        let Some(resolved) = self.ctx.config.resolve(cluster, &group) else {
            let why = "it is not in the configuration".to_owned();
            return GroupOutcome::failed(cluster, Some(group), why);
        };
        let watched = Watched {
            store: &self.ctx.store,
            executions: self.ctx.executions.as_ref(),
            clock: &self.ctx.clock,
            resolved: &resolved,
            group: &group,
            began: self.ctx.now(),
            id: RunId(ulid::Ulid::generate().to_string()),
            pace,
        };
        match self.run(&watched).await {
            Ok(looked) if !looked.reached => {
                pace.miss();
                GroupOutcome::not_reached(cluster, group)
            }
            Ok(Looked {
                failure: Some(error),
                ..
            })
            | Err(error) => GroupOutcome::failed(cluster, Some(group), chain(&error)),
            Ok(Looked {
                run, mut findings, ..
            }) => {
                findings.truncate(if self.only.is_some() { ANSWERED } else { 0 });
                GroupOutcome::new(GuardResult {
                    findings,
                    ..GuardResult::new(&run)
                })
            }
        }
    }

    /// Runs over one group; measures it and reports what is news, unless there was no time for a look.
    ///
    /// # Errors
    /// What was found could not be kept or reported.
    async fn run(&self, watched: &Watched<'_>) -> Result<Looked, Error> {
        let looked = match (&self.sources, &self.cluster_id) {
            (Ok(sources), Ok(id)) => Box::pin(watched.run(sources, id, self.asked)).await?,
            (Ok(sources), Err(error)) => {
                let mut run = watched.unknown(None, chain(error));
                let pinned = watched.resolved.cluster.cluster_id.as_ref();
                run.second_source = sources.only_opinion(pinned, watched.group).await;
                run.into()
            }
            (Err(error), _) => watched.unknown(None, chain(error)).into(),
        };
        if looked.reached {
            watched.measure(&looked.run, &looked.findings).await;
            if looked.first {
                tell::tell(watched, &looked.run, self.asked.is_some()).await?;
            }
        }
        Ok(looked)
    }
}
