//! Which groups of a cluster a run is about, and in which order.

use super::context::Context;
use crate::aws::metrics::{self, Metric};
use crate::domain::fleet::{Order, order};
use crate::domain::offset::{ClusterId, GroupId};
use crate::error::Error;
use crate::ports::ReadGroups;

/// One group alone.
pub(super) fn one_group(group: &str) -> Order {
    Order {
        groups: vec![GroupId(group.to_owned())],
        caps_met: Vec::new(),
    }
}

/// Every group of `cluster` that is configured, in the order of this run, and why others may be missing.
///
/// A pattern that matches more groups than its limit is logged and counted.
///
/// Groups that no broker lists are included: those configured by name, and those that had a checkpoint. A list lacks
/// them when their offsets are gone or their coordinator is down, and both are news.
///
/// # Errors
/// The table failed.
pub(super) async fn configured_groups<B, R: ReadGroups>(
    ctx: &Context<B>,
    cluster: &str,
    cluster_id: &ClusterId,
    reader: &R,
) -> Result<(Order, Option<Error>), Error> {
    let now = ctx.now();
    let mut found = ctx.store.remembered_groups(cluster_id, now).await?;
    let unlisted = match reader.list_groups().await {
        Ok(listed) => {
            found.extend(listed);
            None
        }
        Err(error) => Some(error.into()),
    };
    let named = ctx.config.configured_groups(cluster).cloned();
    let order = order(named, ctx.config.by_pattern(cluster, found), now);
    for cap in &order.caps_met {
        tracing::warn!(cluster, "{cap}");
        metrics::count(Metric::PatternCapMet);
    }
    Ok((order, unlisted))
}
