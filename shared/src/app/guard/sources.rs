//! What the guard reads of a cluster, and where it writes copies.

use crate::domain::guard::run;
use crate::domain::offset::{ClusterId, GroupId};
use crate::error::Error;
use crate::ports::{Brokers, Role};
use crate::rest_proxy::{Opinion, RestProxy, second_opinion};

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
            groups: brokers.connect_groups(cluster, Role::Guard).await?,
            records: brokers.connect_records(cluster, Role::Guard).await?,
            keeper: brokers.connect_keeper(cluster).await?,
            proxy: brokers.find_rest_proxy(cluster).await?,
        })
    }

    /// What the REST Proxy says of a group; `None` where none is configured.
    pub(super) async fn second_opinion(
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
    pub(super) async fn only_opinion(
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
