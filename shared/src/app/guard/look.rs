//! One look at a group, and several within a run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::pace::Pace;
use crate::domain::group::{GroupDescription, GroupObservation, GroupState};
use crate::domain::guard::policy::GuardPolicy;
use crate::domain::guard::rules::{is_forgotten, is_suspicious};
use crate::domain::guard::sample::Sample;
use crate::domain::offset::{Fault, GroupId, TopicPartition};
use crate::failure::chain;
use crate::ports::ReadGroups;

/// How many looks a run takes at most beside the first.
const MORE_LOOKS: u32 = 5;
/// How often it is asked between two looks whether somebody is in a group that was found empty. A process that ends at
/// once is in its group for as long as it takes to join and to read one record.
const GLANCE: Duration = Duration::from_millis(100);

/// Looks at a group within one run.
pub(super) struct Looks<'a, R> {
    pub(super) groups: &'a R,
    pub(super) group: &'a GroupId,
    pub(super) policy: &'a GuardPolicy,
    /// When the run began.
    pub(super) run: Timestamp,
    /// When a recovery last moved the group.
    pub(super) moved_at: Option<Timestamp>,
    /// How far the time of all groups' runs reaches.
    pub(super) pace: &'a Pace,
}

impl<R: ReadGroups> Looks<'_, R> {
    /// The looks of this run, appended to `samples`: one, and some more where it looks suspicious.
    ///
    /// # Errors
    /// The first look failed for the group as a whole; the text says why. That a later one failed is only logged: what
    /// the others saw stands.
    pub(super) async fn take(&self, samples: &mut Vec<Sample>) -> Result<(), String> {
        let began = Instant::now();
        let first = self.look(samples, None).await?;
        self.pace.looked(began.elapsed());
        samples.push(first);
        let grace = self.policy.rebalance_grace_seconds;
        if grace == 0 || !is_suspicious(samples, self.policy) {
            return Ok(());
        }
        if !self
            .pace
            .has_room_for(Duration::from_secs(u64::from(grace)))
        {
            tracing::info!(
                group = self.group.0,
                "looked at once: other groups wait for their first look"
            );
            return Ok(());
        }
        let looks = grace.min(MORE_LOOKS);
        let pause = Duration::from_secs(u64::from(grace)) / looks;
        for _ in 0..looks {
            let visitor = match samples.last() {
                Some(last) if last.is_empty() => self.visitor(pause).await,
                _ => {
                    tokio::time::sleep(pause).await;
                    None
                }
            };
            match self.look(samples, visitor).await {
                Ok(sample) => samples.push(sample),
                Err(why) => tracing::warn!(group = self.group.0, why, "a further look failed"),
            }
        }
        Ok(())
    }

    /// The group as it is when the first member comes to it; `None` where nobody does before `wait` is over.
    async fn visitor(&self, wait: Duration) -> Option<GroupDescription> {
        let glances = async {
            loop {
                tokio::time::sleep(GLANCE).await;
                if let Ok(seen) = self.groups.describe(self.group).await
                    && !seen.members.is_empty()
                {
                    break seen;
                }
            }
        };
        tokio::time::timeout(wait, glances).await.ok()
    }

    /// One look. `visitor` is the group as it was a moment ago, with members that may be gone by now.
    async fn look(
        &self,
        samples: &[Sample],
        visitor: Option<GroupDescription>,
    ) -> Result<Sample, String> {
        let mut expected = self.expected(samples);
        let members = visitor.iter().flat_map(|visitor| &visitor.members);
        expected.extend(members.flat_map(|member| member.assignment.iter().cloned()));
        let mut seen = self
            .groups
            .observe(self.group, &expected, false)
            .await
            .map_err(|error| chain(&error))?;
        if seen.group != *self.group {
            return Err(Fault::another_group().to_string());
        }
        if seen.looks_absent() && is_forgotten(samples, self.policy) {
            if let Ok(description) = &mut seen.description {
                description.state = GroupState::Empty;
            }
        } else if seen.looks_absent() && !lost_its_topics(samples, &seen) {
            return Err(format!(
                "there is no consumer group {}: check the name, or its offsets expired",
                self.group.0
            ));
        }
        if let Some(visitor) = visitor
            && seen
                .description
                .as_ref()
                .is_ok_and(|now| now.members.is_empty())
        {
            seen.description = Ok(visitor);
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

    /// What is asked for by name: what the last sample had, since an answer to "all" leaves out silently what the
    /// principal may not see. What was gone in an earlier run has been told, and is not expected any more.
    fn expected(&self, samples: &[Sample]) -> BTreeSet<TopicPartition> {
        let Some(last) = samples.last() else {
            return BTreeSet::new();
        };
        let told = |reading| last.run != self.run && matches!(reading, &Err(Fault::TopicGone));
        let partitions = last.partitions.iter();
        partitions
            .filter(|(_, reading)| !told(*reading))
            .map(|(partition, _)| partition.clone())
            .collect()
    }
}

/// Whether a topic of the group is gone or another one since the last look: then its commits went with it, and with the
/// last of them the group.
fn lost_its_topics(samples: &[Sample], seen: &GroupObservation) -> bool {
    let Some(last) = samples.last() else {
        return false;
    };
    last.topics
        .keys()
        .any(|topic| match seen.topics.get(topic) {
            Some(Ok(now)) => last.topic_id(topic).is_some() && last.topic_id(topic) != now.id,
            Some(Err(fault)) => *fault == Fault::TopicGone,
            None => false,
        })
}
