//! The guard itself, in this process: with a table of its own, and nobody to tell.

use std::sync::Arc;

use aws_config::SdkConfig;
use offset_guard::app::guard::{self, Ends, Sources};
use offset_guard::aws::step_functions::StepFunctions;
use offset_guard::config::Config;
use offset_guard::domain::guard::verdict::{Finding, GroupFinding};
use offset_guard::domain::offset::{GroupId, TopicPartition};
use offset_guard::domain::plan::PlanResult;
use offset_guard::kafka::{Auth, ConnectionSettings, GroupReader, RecordKeeper, RecordReader};
use offset_guard::store::Store;
use offset_guard::wire::guard::GuardEvent;
use ulid::Ulid;

use super::Result;
use super::policy::Policy;
use crate::bare;

/// A guard of all groups of the situations.
#[derive(Debug, Clone)]
pub struct Guard {
    config: Arc<Config>,
    store: Store,
    executions: StepFunctions,
    groups: GroupReader,
    records: RecordReader,
    keeper: RecordKeeper,
}

/// One run of the guard over one group.
#[derive(Debug, Clone, Default)]
pub struct Tick {
    /// What it says of each partition.
    pub findings: Vec<Finding>,
    /// The records that it would propose to pass over.
    pub skips: Vec<(TopicPartition, i64)>,
    /// Why it proposes nothing.
    pub withheld: Vec<String>,
    /// What it says of the group, in one line.
    pub summary: String,
    /// What it says is wrong with the group as a whole.
    pub of_group: Option<GroupFinding>,
}

impl Tick {
    /// What it says of one partition.
    #[must_use]
    pub fn of(&self, partition: &TopicPartition) -> Option<&Finding> {
        self.findings.iter().find(|f| f.partition == *partition)
    }

    /// The first and the last record of a partition that it would pass over.
    #[must_use]
    pub fn skip(&self, partition: &TopicPartition) -> Option<(i64, i64)> {
        let offsets = self.skips.iter().filter(|(of, _)| of == partition);
        let offsets: Vec<_> = offsets.map(|(_, offset)| *offset).collect();
        Some((*offsets.first()?, *offsets.last()?))
    }
}

impl Guard {
    /// A guard of the groups at `bootstrap`, in a local AWS.
    ///
    /// # Errors
    /// The local AWS or a client refuses.
    pub async fn new(bootstrap: &str, sdk: &SdkConfig) -> Result<Self> {
        let settings = ConnectionSettings::new(bootstrap, Auth::Plaintext);
        let name = format!("situations-{}", Ulid::generate());
        Ok(Self {
            config: Arc::new(Config::parse(&Policy::config(bootstrap))?),
            store: bare::create_table(&aws_sdk_dynamodb::Client::new(sdk), &name).await?,
            executions: StepFunctions::new(
                aws_sdk_sfn::Client::new(sdk),
                bare::create_state_machine(sdk, &name).await?,
            ),
            groups: GroupReader::connect(settings.clone())?,
            records: RecordReader::connect(settings.clone(), crate::reader_program())?,
            keeper: RecordKeeper::connect(settings)?,
        })
    }

    /// One run.
    ///
    /// # Errors
    /// What was found could not be kept.
    pub async fn tick(&self, group: &GroupId) -> Result<Tick> {
        let ends = Ends {
            executions: &self.executions,
        };
        let event = GuardEvent {
            cluster: Some("main".to_owned()),
            group: Some(group.0.clone()),
            ..GuardEvent::default()
        };
        let connect = async |_: &str| {
            Ok(Sources {
                groups: self.groups.clone(),
                records: self.records.clone(),
                keeper: self.keeper.clone(),
                proxy: None,
            })
        };
        let ran = Box::pin(guard::run(&self.config, &self.store, ends, &event, connect));
        let result = ran.await?.into_iter().next().ok_or("no group was run")?;
        let mut tick = Tick {
            findings: result.findings,
            withheld: result.withheld,
            summary: result.summary,
            of_group: result.of_group,
            ..Tick::default()
        };
        if let Some(id) = result.plan {
            let record = self.store.plan(&id).await?.ok_or("the plan is gone")?;
            if let PlanResult::Ready(plan) = record.result {
                let skips = plan.skips.into_iter();
                tick.skips = skips.map(|s| (s.partition, s.record.offset)).collect();
            }
        }
        Ok(tick)
    }
}
