//! Looks at groups, says why each partition is where it is, keeps what stands in the way, and proposes a plan.
//!
//! One group's run: look (`look`), judge (`domain::guard::rules`), keep the records that a plan would pass over
//! (`quarantine`), plan (`propose`), and tell (`tell`).

mod copies;
mod group;
mod look;
mod pace;
mod probe;
mod propose;
mod quarantine;
mod tell;

use futures_util::{StreamExt, stream};
use jiff::Timestamp;
use serde::Serialize;

use self::group::{Looked, Watched};
use self::pace::Pace;
use super::checkpoint::{all_groups, only};
use super::clusters;
use crate::aws::metrics::{self, Metric};
use crate::config::Config;
use crate::domain::fleet::{CapMet, Order};
use crate::domain::guard::proposal::Ask;
use crate::domain::guard::run::{self, GuardRun};
use crate::domain::guard::verdict::{Finding, GroupFinding, Status};
use crate::domain::ids::PlanId;
use crate::domain::ids::RunId;
use crate::domain::offset::{ClusterId, GroupId};
use crate::domain::reasons;
use crate::domain::text::grouped;
use crate::error::Error;
use crate::failure::chain;
use crate::ports::{Brokers, Executions, KeepRecords, ReadGroups, ReadRecords, Role};
use crate::rest_proxy::{Opinion, RestProxy, second_opinion};
use crate::store::Store;
use crate::wire::guard::{GuardAsk, GuardEvent};

/// How many clusters are looked at at once, so that one that does not answer takes no time from the others.
const CLUSTERS_AT_ONCE: usize = 4;
/// How many groups are looked at at once. A suspicious one mostly waits between looks.
const GROUPS_AT_ONCE: usize = 16;

/// One cluster, with everything that the guard does there.
#[derive(Debug)]
pub struct Sources<R, D, K> {
    /// Reads groups.
    pub groups: R,
    /// Reads records.
    pub records: D,
    /// Writes to the quarantine topic.
    pub keeper: K,
    /// The REST Proxy, where one is configured.
    pub proxy: Option<RestProxy>,
}

impl<R, D, K> Sources<R, D, K> {
    /// Connects to a cluster as the guard.
    ///
    /// # Errors
    /// The cluster is not configured, or its secret is not usable.
    pub async fn connect<B>(brokers: &B, cluster: &str) -> Result<Self, Error>
    where
        B: Brokers<Groups = R, Records = D, Keeper = K>,
    {
        Ok(Self {
            groups: brokers.groups(cluster, Role::Guard).await?,
            records: brokers.records(cluster, Role::Guard).await?,
            keeper: brokers.keeper(cluster).await?,
            proxy: brokers.rest_proxy(cluster).await?,
        })
    }

    /// What the REST Proxy says of a group; `None` where none is configured.
    async fn second_opinion(
        &self,
        cluster_id: &ClusterId,
        group: &GroupId,
    ) -> Option<Result<Opinion, String>> {
        let proxy = self.proxy.as_ref()?;
        Some(match proxy.credentials.clone() {
            Ok(credentials) => Ok(second_opinion(&proxy.url, credentials, cluster_id, group).await),
            Err(why) => Err(why),
        })
    }

    /// The same where the brokers say nothing.
    async fn only_opinion(
        &self,
        cluster_id: Option<&ClusterId>,
        group: &GroupId,
    ) -> run::SecondSource {
        let Some(cluster_id) = cluster_id else {
            return run::SecondSource::NotConfigured;
        };
        match self.second_opinion(cluster_id, group).await {
            None => run::SecondSource::NotConfigured,
            Some(Err(why)) => run::SecondSource::Unavailable { why },
            Some(Ok(Opinion::Unavailable(why))) => run::SecondSource::Unavailable {
                why: why.to_string(),
            },
            Some(Ok(opinion)) => run::SecondSource::Alone {
                says: opinion.to_string(),
            },
        }
    }
}

/// Where the runs' results go.
#[derive(Debug, Clone, Copy)]
pub struct Ends<'a> {
    /// Step Functions.
    pub executions: &'a dyn Executions,
}

/// What became of one group in a run of the guard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GuardResult {
    /// The cluster's name.
    pub cluster: String,
    /// The group; `None` where the whole cluster failed.
    pub group: Option<GroupId>,
    /// The worst of what was found.
    pub status: Status,
    /// One line.
    pub summary: String,
    /// The plan that was made.
    pub plan: Option<PlanId>,
    /// The codes of what is not proposed, where something might have been, and how often each.
    pub withheld: Vec<String>,
    /// What is wrong with the group as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of_group: Option<GroupFinding>,
    /// What was found in each partition, the healthy ones too: only where the event names the group.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

/// How many findings an answer holds: a function's answer is limited to 6 MB.
const ANSWERED: usize = 500;

impl GuardResult {
    fn of(run: &GuardRun) -> Self {
        Self {
            cluster: run.cluster.clone(),
            group: Some(run.group.clone()),
            status: run.status,
            summary: run.summary(),
            plan: run.plan().cloned(),
            withheld: reasons::codes(&run.withheld),
            of_group: run.of_group.clone(),
            findings: Vec::new(),
        }
    }
}

/// An explicit request, parsed.
struct Asked<'a> {
    ask: Ask,
    written: &'a GuardAsk,
}

/// Looks at every configured group, or at those that the event names.
///
/// A group that could not be read is a result of its own ([`Status::Unknown`]) that people are told of, and no error.
///
/// # Errors
/// The event is wrong, or what was found could not be kept or told: then the text says of which groups.
pub async fn run<R, D, K, F>(
    config: &Config,
    store: &Store,
    ends: Ends<'_>,
    event: &GuardEvent,
    connect: F,
) -> Result<Vec<GuardResult>, Error>
where
    R: ReadGroups,
    D: ReadRecords,
    K: KeepRecords,
    F: AsyncFn(&str) -> Result<Sources<R, D, K>, Error>,
{
    let asked = event.ask.as_ref().map(|written| Asked {
        ask: written.ask(),
        written,
    });
    let asked = asked.as_ref();
    let clusters = clusters(config, event.cluster.as_deref())?;
    let connect = &connect;
    let runs = stream::iter(clusters)
        .map(|cluster| async move {
            Box::pin(cluster_run(
                config, store, ends, cluster, event, asked, connect,
            ))
            .await
        })
        .buffered(CLUSTERS_AT_ONCE)
        .collect::<Vec<_>>()
        .await
        .concat();
    let failures: Vec<_> = runs.iter().filter_map(|run| run.failure.clone()).collect();
    if failures.is_empty() {
        return Ok(runs.into_iter().map(|run| run.result).collect());
    }
    Err(Error::GuardRunsFailed(format!(
        "{} of {} runs failed: {}",
        grouped(failures.len()),
        grouped(runs.len()),
        failures.join("; ")
    )))
}

/// One group's run, and what went wrong with keeping or telling it.
#[derive(Clone)]
struct Ran {
    result: GuardResult,
    failure: Option<String>,
}

impl Ran {
    /// Of what is no run.
    fn said(cluster: &str, group: Option<GroupId>, status: Status, summary: String) -> Self {
        Self {
            failure: None,
            result: GuardResult {
                cluster: cluster.to_owned(),
                group,
                status,
                summary,
                plan: None,
                withheld: Vec::new(),
                of_group: None,
                findings: Vec::new(),
            },
        }
    }

    /// Of a group that the run had no time for. That says nothing of the group or of its brokers, so it is told in the
    /// log and counted, and nobody is alerted.
    fn not_reached(cluster: &str, group: GroupId, pace: &Pace) -> Self {
        pace.miss();
        let why = "not reached: the run's time was over before it came to this group; other runs begin with other groups";
        Self::said(cluster, Some(group), Status::Unknown, why.to_owned())
    }

    /// Of a pattern that has more groups than the run looked at.
    fn cap_met(cluster: &str, cap: &CapMet) -> Self {
        Self::said(cluster, None, Status::Warning, cap.to_string())
    }

    /// Of what failed before there was a run.
    fn failed(cluster: &str, group: Option<GroupId>, why: String) -> Self {
        let at = group
            .as_ref()
            .map_or(String::new(), |g| format!(" {}", g.0));
        Self {
            failure: Some(format!("{cluster}{at}: {why}")),
            ..Self::said(cluster, group, Status::Unknown, why)
        }
    }
}

async fn cluster_run<R, D, K, F>(
    config: &Config,
    store: &Store,
    ends: Ends<'_>,
    cluster: &str,
    event: &GuardEvent,
    asked: Option<&Asked<'_>>,
    connect: &F,
) -> Vec<Ran>
where
    R: ReadGroups,
    D: ReadRecords,
    K: KeepRecords,
    F: AsyncFn(&str) -> Result<Sources<R, D, K>, Error>,
{
    let sources = connect(cluster).await;
    let cluster_id = match &sources {
        Ok(sources) => sources.groups.cluster_id().await.map_err(Error::from),
        Err(error) => Err(Error::Broken(chain(error))),
    };
    let (order, unlisted) = match (&event.group, &sources, &cluster_id) {
        (Some(group), ..) => (only(group), None),
        (None, Ok(sources), Ok(id)) => {
            match all_groups(config, store, cluster, &sources.groups, id).await {
                Ok(found) => found,
                Err(error) => return vec![Ran::failed(cluster, None, chain(&error))],
            }
        }
        // Nothing answers: the groups that are named are unknown, and that is told of each.
        (None, ..) => {
            let groups = config.configured_groups(cluster).cloned().collect();
            let caps_met = Vec::new();
            (Order { groups, caps_met }, None)
        }
    };
    let caps_met = order.caps_met.iter();
    let caps_met: Vec<_> = caps_met.map(|cap| Ran::cap_met(cluster, cap)).collect();
    let ends_at = sources.as_ref().ok().and_then(|s| s.groups.ends_at());
    let pace = &Pace::new(ends_at, order.groups.len());
    let unlisted = unlisted.map(|error| {
        let why = format!(
            "the groups could not be listed, so new ones may be missing: {}",
            chain(&error)
        );
        Ran::failed(cluster, None, why)
    });
    let (sources, cluster_id) = (&sources, &cluster_id);
    let ran = stream::iter(order.groups)
        .map(|group| async move {
            if let Err(error) = group.check() {
                // A pattern may match what anybody called a group: that fails nobody else's run.
                tracing::warn!(
                    cluster,
                    error = chain(&error),
                    "a group's name is too long to be looked after"
                );
                let ran = Ran::failed(cluster, Some(group), error.to_string());
                return Ran {
                    failure: None,
                    ..ran
                };
            }
            // Of a cluster that does not answer all groups are told, however late that is.
            if !pace.begin() && cluster_id.is_ok() {
                return Ran::not_reached(cluster, group, pace);
            }
            let Some(resolved) = config.resolve(cluster, &group) else {
                let why = "it is not in the configuration".to_owned();
                return Ran::failed(cluster, Some(group), why);
            };
            let watched = Watched {
                store,
                resolved: &resolved,
                group: &group,
                began: Timestamp::now(),
                id: RunId(ulid::Ulid::generate().to_string()),
                pace,
            };
            let ran = match (sources, cluster_id) {
                (Ok(sources), Ok(id)) => Box::pin(watched.run(sources, id, asked, ends)).await,
                (Ok(sources), Err(error)) => {
                    let mut run = watched.unknown(None, chain(error));
                    let pinned = resolved.cluster.cluster_id.as_ref();
                    run.second_source = sources.only_opinion(pinned, &group).await;
                    Ok(run.into())
                }
                (Err(error), _) => Ok(watched.unknown(None, chain(error)).into()),
            };
            let told = match ran {
                Ok(looked) if !looked.reached => return Ran::not_reached(cluster, group, pace),
                Ok(looked) => {
                    watched.measure(&looked.run, &looked.findings).await;
                    match looked.first {
                        true => {
                            let told = tell::tell(store, ends, &looked.run, asked.is_some());
                            told.await.map(|()| looked)
                        }
                        false => Ok(looked),
                    }
                }
                Err(error) => Err(error),
            };
            match told {
                Ok(Looked {
                    failure: Some(error),
                    ..
                }) => Ran::failed(cluster, Some(group), chain(&error)),
                Ok(Looked {
                    run, mut findings, ..
                }) => {
                    findings.truncate(if event.group.is_some() { ANSWERED } else { 0 });
                    Ran {
                        result: GuardResult {
                            findings,
                            ..GuardResult::of(&run)
                        },
                        failure: None,
                    }
                }
                Err(error) => Ran::failed(cluster, Some(group), chain(&error)),
            }
        })
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
    let mut ran: Vec<_> = ran.into_iter().chain(caps_met).chain(unlisted).collect();
    // In the order of their names; what is about the cluster or a pattern first.
    ran.sort_by(|a, b| a.result.group.cmp(&b.result.group));
    ran
}
