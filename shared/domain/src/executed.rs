//! An earlier plan, looked back on: what it moved, what it did not, and what nobody knows.

use std::collections::BTreeMap;

use super::offset::{CommittedOffset, TopicPartition};
use super::plan::{PartitionMove, Plan};
use super::recovery::{AlterAnswer, PartitionOutcome, PreImage, judge_partition};

/// An earlier plan with what is on record of its recovery.
#[derive(Debug, Clone, Copy)]
pub struct Executed<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// What was committed right before it was applied, and what was sent.
    pub pre_image: &'a PreImage,
    /// What the brokers said of each partition.
    pub answers: &'a BTreeMap<TopicPartition, AlterAnswer>,
    /// What Verify found of each partition.
    pub outcomes: &'a BTreeMap<TopicPartition, PartitionOutcome>,
}

impl<'a> Executed<'a> {
    /// The plan's move of one partition.
    #[must_use]
    pub fn move_of(&self, partition: &TopicPartition) -> Option<&'a PartitionMove> {
        let moves = &self.plan.moves;
        let found = moves.binary_search_by(|m| m.partition.cmp(partition));
        moves.get(found.ok()?)
    }

    /// What Verify found of one partition; `None` where it found nothing, or could not tell.
    #[must_use]
    pub fn known(&self, partition: &TopicPartition) -> Option<&'a PartitionOutcome> {
        let found = self.outcomes.get(partition)?;
        (!matches!(found, PartitionOutcome::Unknown { .. })).then_some(found)
    }

    /// What became of one partition. Where Verify could not tell, that is judged again by the same rules, from what is
    /// committed `now`; `None` where the plan did not move it.
    #[must_use]
    pub fn outcome(
        &self,
        partition: &TopicPartition,
        now: Option<&CommittedOffset>,
    ) -> Option<PartitionOutcome> {
        let m = self.move_of(partition)?;
        if let Some(known) = self.known(partition) {
            return Some(known.clone());
        }
        let now = Ok(now.cloned());
        let sent = self.pre_image.sent(m);
        let before = self.pre_image.before.get(partition);
        let answer = self.answers.get(partition);
        Some(judge_partition(
            sent.as_ref().as_ref(),
            before,
            answer,
            Some(&now),
            false,
        ))
    }
}
