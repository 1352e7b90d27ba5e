//! What the use cases work with, made of parts that a test chooses.

use std::future::{Ready, ready};
use std::sync::Arc;

use offset_guard::app::context::Context;
use offset_guard::app::guard::Sources;
use offset_guard::config::Config;
use offset_guard::error::Error;
use offset_guard::kafka::{GroupReader, GroupWriter, RecordKeeper, RecordReader};
use offset_guard::ports::{
    AlterGroups, Brokers, Clock, KeepRecords, NobodyNotified, ReadGroups, ReadRecords, Role,
};
use offset_guard::rest_proxy::RestProxy;
use offset_guard::store::Store;

use crate::step_functions::unreachable;

/// A context in which applying is on, no execution can be reached and nobody is notified.
pub fn context<B>(config: impl Into<Arc<Config>>, store: &Store, brokers: B) -> Context<B> {
    Context {
        config: config.into(),
        store: store.clone(),
        brokers,
        executions: Arc::new(unreachable()),
        notifier: Arc::new(NobodyNotified),
        clock: Clock::system(),
        apply_enabled: true,
    }
}

/// A context without a cluster.
pub fn context_without_cluster(store: &Store) -> Context {
    let config = "[clusters.main]\nbootstrap_servers = [\"127.0.0.1:1\"]\nauth = \"plaintext\"\n\
                  [[groups]]\nname = \"shipment-sync\"\n";
    match Config::parse(config) {
        Ok(config) => context(config, store, ()),
        Err(errors) => unreachable!("{errors}"),
    }
}

/// Brokers that connect as functions say, whatever the cluster and the principal.
#[derive(Debug, Clone, Copy)]
pub struct Connect<G, R, W> {
    /// To groups.
    pub groups: G,
    /// To records.
    pub records: R,
    /// To alter offsets.
    pub writer: W,
}

type NoRecords = fn(&str) -> Ready<Result<RecordReader, Error>>;
type NoWriter = fn(&str) -> Ready<Result<GroupWriter, Error>>;

impl<G> Connect<G, NoRecords, NoWriter> {
    /// Brokers of which only groups can be read.
    pub fn reading(groups: G) -> Self {
        Self {
            groups,
            records: |_| ready(Err(Error::Broken("records are read".to_owned()))),
            writer: |_| ready(Err(Error::Broken("offsets are altered".to_owned()))),
        }
    }
}

/// A reader of nothing.
pub type NoGroups = fn(&str) -> Ready<Result<GroupReader, Error>>;

impl Connect<NoGroups, NoRecords, NoWriter> {
    /// Brokers that no test expects to be asked.
    #[must_use]
    pub fn nowhere() -> Self {
        Self::reading(|_| ready(Err(Error::Broken("a broker is asked".to_owned()))))
    }
}

impl<G, R, W, Groups, Records, Writer> Brokers for Connect<G, R, W>
where
    G: AsyncFn(&str) -> Result<Groups, Error>,
    R: AsyncFn(&str) -> Result<Records, Error>,
    W: AsyncFn(&str) -> Result<Writer, Error>,
    Groups: ReadGroups,
    Records: ReadRecords,
    Writer: AlterGroups,
{
    type Groups = Groups;
    type Records = Records;
    type Keeper = RecordKeeper;
    type Writer = Writer;

    async fn connect_groups(&self, cluster: &str, _: Role) -> Result<Groups, Error> {
        (self.groups)(cluster).await
    }

    async fn connect_records(&self, cluster: &str, _: Role) -> Result<Records, Error> {
        (self.records)(cluster).await
    }

    async fn connect_keeper(&self, _: &str) -> Result<RecordKeeper, Error> {
        Err(Error::Broken("copies are written".to_owned()))
    }

    async fn connect_writer(&self, cluster: &str) -> Result<Writer, Error> {
        (self.writer)(cluster).await
    }

    async fn find_rest_proxy(&self, _: &str) -> Result<Option<RestProxy>, Error> {
        Ok(None)
    }
}

/// The brokers of a guard, whose parts a function makes for a cluster.
#[derive(Debug, Clone, Copy)]
pub struct Guarded<F>(pub F);

impl<F, R, D, K> Brokers for Guarded<F>
where
    F: AsyncFn(&str) -> Result<Sources<R, D, K>, Error>,
    R: ReadGroups,
    D: ReadRecords,
    K: KeepRecords,
{
    type Groups = R;
    type Records = D;
    type Keeper = K;
    type Writer = GroupWriter;

    async fn connect_groups(&self, cluster: &str, _: Role) -> Result<R, Error> {
        Ok((self.0)(cluster).await?.groups)
    }

    async fn connect_records(&self, cluster: &str, _: Role) -> Result<D, Error> {
        Ok((self.0)(cluster).await?.records)
    }

    async fn connect_keeper(&self, cluster: &str) -> Result<K, Error> {
        Ok((self.0)(cluster).await?.keeper)
    }

    async fn connect_writer(&self, _: &str) -> Result<GroupWriter, Error> {
        Err(Error::Broken("the guard alters offsets".to_owned()))
    }

    async fn find_rest_proxy(&self, cluster: &str) -> Result<Option<RestProxy>, Error> {
        Ok((self.0)(cluster).await?.proxy)
    }
}
