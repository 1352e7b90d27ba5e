//! The guard at work on one group, run after run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use offset_guard::domain::guard::policy::GuardPolicy;
use offset_guard::domain::guard::proposal::{SkipRange, propose};
use offset_guard::domain::guard::rules::{is_suspicious, judge, reads_uncommitted};
use offset_guard::domain::guard::sample::Sample;
use offset_guard::domain::guard::verdict::Finding;
use offset_guard::domain::offset::{GroupId, TopicPartition};
use offset_guard::kafka::GroupReader;

use super::Result;

/// How many looks a run takes beside the first at a group that looks suspicious.
const MORE_LOOKS: u32 = 3;

/// One run of the guard over one group.
#[derive(Debug, Clone)]
pub struct Tick {
    /// What it says of each partition.
    pub findings: Vec<Finding>,
    /// What it proposes to pass over.
    pub skips: Vec<SkipRange>,
    /// Why it proposes nothing.
    pub withheld: Vec<String>,
}

impl Tick {
    /// What it says of one partition.
    #[must_use]
    pub fn of(&self, partition: &TopicPartition) -> Option<&Finding> {
        self.findings.iter().find(|f| f.partition == *partition)
    }
}

/// The guard of one group.
#[derive(Debug)]
pub struct Watch {
    groups: GroupReader,
    group: GroupId,
    policy: GuardPolicy,
    samples: Vec<Sample>,
}

impl Watch {
    /// A guard that has seen nothing yet.
    #[must_use]
    pub fn new(groups: GroupReader, group: GroupId, policy: GuardPolicy) -> Self {
        Self {
            groups,
            group,
            policy,
            samples: Vec::new(),
        }
    }

    /// One run.
    ///
    /// # Errors
    /// The group cannot be read.
    pub async fn tick(&mut self) -> Result<Tick> {
        let run = Timestamp::now();
        self.look(run).await?;
        if is_suspicious(&self.samples, &self.policy) {
            let pause = Duration::from_secs(self.policy.rebalance_grace_seconds.into());
            for _ in 0..MORE_LOOKS {
                tokio::time::sleep(pause / MORE_LOOKS).await;
                self.look(run).await?;
            }
        }
        let probes = BTreeMap::new();
        let assessment = judge(&self.samples, &probes, &self.policy, Timestamp::now());
        let uncommitted = reads_uncommitted(&self.samples, &self.policy);
        let proposals = propose(
            &assessment,
            &probes,
            &self.policy,
            uncommitted,
            None,
            &BTreeMap::new(),
        );
        Ok(Tick {
            findings: assessment.findings,
            skips: proposals.skips,
            withheld: proposals.withheld.iter().map(|r| r.code()).collect(),
        })
    }

    async fn look(&mut self, run: Timestamp) -> Result<()> {
        let expected: BTreeSet<_> = self
            .samples
            .last()
            .iter()
            .flat_map(|sample| sample.partitions.keys().cloned())
            .collect();
        let seen = self.groups.observe(&self.group, &expected, false).await?;
        let sample = Sample::of(run, &seen, &BTreeSet::new(), &self.samples, None)
            .map_err(|fault| fault.to_string())?;
        self.samples.push(sample);
        Ok(())
    }
}
