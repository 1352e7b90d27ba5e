//! One look at a group, and several within a run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use crate::domain::group::GroupObservation;
use crate::domain::guard::policy::GuardPolicy;
use crate::domain::guard::rules::is_suspicious;
use crate::domain::guard::sample::Sample;
use crate::domain::offset::{Fault, GroupId, TopicPartition};
use crate::error::chain;
use crate::ports::ReadGroups;

/// How many looks a run takes at most beside the first.
const MORE_LOOKS: u32 = 5;

/// Looks at a group within one run.
pub(super) struct Looks<'a, R> {
    pub(super) groups: &'a R,
    pub(super) group: &'a GroupId,
    pub(super) policy: &'a GuardPolicy,
    /// When the run began.
    pub(super) run: Timestamp,
    /// When a recovery last moved the group.
    pub(super) moved_at: Option<Timestamp>,
}

impl<R: ReadGroups> Looks<'_, R> {
    /// The looks of this run, appended to `samples`: one, and some more where it looks suspicious.
    ///
    /// # Errors
    /// The first look failed for the group as a whole; the text says why. That a later one failed is only logged: what
    /// the others saw stands.
    pub(super) async fn take(&self, samples: &mut Vec<Sample>) -> Result<(), String> {
        let first = self.look(samples).await?;
        samples.push(first);
        let grace = self.policy.rebalance_grace_seconds;
        if grace == 0 || !is_suspicious(samples, self.policy) {
            return Ok(());
        }
        let looks = grace.min(MORE_LOOKS);
        let pause = Duration::from_secs(u64::from(grace)) / looks;
        for _ in 0..looks {
            tokio::time::sleep(pause).await;
            match self.look(samples).await {
                Ok(sample) => samples.push(sample),
                Err(why) => tracing::warn!(group = self.group.0, why, "a further look failed"),
            }
        }
        Ok(())
    }

    async fn look(&self, samples: &[Sample]) -> Result<Sample, String> {
        let expected = expected(samples);
        let seen = self
            .groups
            .observe(self.group, &expected, false)
            .await
            .map_err(|error| chain(&error))?;
        if seen.group != *self.group {
            return Err(Fault::another_group().to_string());
        }
        if seen.looks_absent() {
            return Err(format!(
                "there is no consumer group {}: check the name, or its offsets expired",
                self.group.0
            ));
        }
        let unstable = self.unstable(&seen).await?;
        Sample::of(self.run, &seen, &unstable, samples, self.moved_at)
            .map_err(|fault| format!("the group could not be described: {fault}"))
    }

    /// Where a transaction of the group has a commit pending. Only asked where something waits to be read.
    async fn unstable(&self, seen: &GroupObservation) -> Result<BTreeSet<TopicPartition>, String> {
        let waits: Vec<_> = seen
            .partitions
            .iter()
            .filter(|(_, reading)| {
                let committed = match &reading.committed {
                    Ok(committed) => committed.as_ref().map_or(0, |c| c.offset),
                    Err(_) => return false,
                };
                reading.log.as_ref().is_ok_and(|log| committed < log.high)
            })
            .map(|(partition, _)| partition.clone())
            .collect();
        if waits.is_empty() {
            return Ok(BTreeSet::new());
        }
        let stable: BTreeMap<_, _> = self
            .groups
            .committed(self.group, &waits)
            .await
            .map_err(|error| chain(&error))?;
        Ok(stable
            .into_iter()
            .filter(|(_, committed)| *committed == Err(Fault::Unstable))
            .map(|(partition, _)| partition)
            .collect())
    }
}

/// What is asked for by name: what the last sample had, since an answer to "all" leaves out silently what the principal
/// may not see. What was gone then has been told, and is not expected any more.
fn expected(samples: &[Sample]) -> BTreeSet<TopicPartition> {
    samples
        .last()
        .iter()
        .flat_map(|last| &last.partitions)
        .filter(|(_, reading)| !matches!(reading, Err(Fault::TopicGone)))
        .map(|(partition, _)| partition.clone())
        .collect()
}
