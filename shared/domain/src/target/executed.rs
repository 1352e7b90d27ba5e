//! An earlier plan, looked back on: what it moved, what it did not, and what nobody knows.

use std::collections::{BTreeMap, BTreeSet};

use super::data::{Remembered, Rules, Target, Undoes, Wanted};
use super::reading::is_streams_commit;
use crate::group::GroupObservation;
use crate::offset::{CommittedOffset, TopicPartition};
use crate::plan::{PartitionMove, Plan, PlanRecord, PlanResult, Source};
use crate::recovery::{
    AlterAnswer, Outcome, PartitionOutcome, PreImage, Recovery, judge_partition,
};
use crate::request::RewindRequest;

/// All that is on record of an earlier plan.
#[derive(Debug, Default)]
pub struct EarlierRecords {
    /// The plan.
    pub plan: Option<PlanRecord>,
    /// What was committed right before it was applied.
    pub pre_image: Option<PreImage>,
    /// Its recovery.
    pub recovery: Option<Recovery>,
    /// What the brokers said of each partition.
    pub answers: BTreeMap<TopicPartition, AlterAnswer>,
    /// What Verify found of each partition.
    pub outcomes: BTreeMap<TopicPartition, PartitionOutcome>,
}

impl EarlierRecords {
    /// The plan as it was executed, as far as another plan can rest on it.
    ///
    /// # Errors
    /// Why none can.
    pub(super) fn executed(self, request: &RewindRequest) -> Result<Executed, &'static str> {
        let Some(record) = self.plan else {
            return Err("there is no such plan");
        };
        let PlanResult::Ready(plan) = record.result else {
            return Err("it was never a plan that moves anything");
        };
        if plan.group != request.group || plan.cluster != request.cluster {
            return Err(ANOTHER_GROUP);
        }
        let Some(pre_image) = self.pre_image else {
            return Err("nothing of it was sent");
        };
        let Some(outcome) = self.recovery.and_then(|recovery| recovery.outcome) else {
            return Err("what it did was not verified");
        };
        Ok(Executed {
            plan,
            pre_image,
            answers: self.answers,
            outcomes: self.outcomes,
            outcome,
        })
    }
}

/// Why an earlier plan of another group is no target.
pub(super) const ANOTHER_GROUP: &str = "it belongs to another group";

/// An earlier plan with what is on record of its recovery.
#[derive(Debug, Clone)]
pub struct Executed {
    /// The plan.
    pub plan: Plan,
    /// What was committed right before it was applied, and what was sent.
    pub pre_image: PreImage,
    /// What the brokers said of each partition.
    pub answers: BTreeMap<TopicPartition, AlterAnswer>,
    /// What Verify found of each partition.
    pub outcomes: BTreeMap<TopicPartition, PartitionOutcome>,
    /// What Verify found of the whole.
    pub outcome: Outcome,
}

impl Executed {
    /// The partitions that the plan moves.
    #[must_use]
    pub fn partitions(&self) -> BTreeSet<TopicPartition> {
        let moves = self.plan.moves.iter();
        moves.map(|m| m.partition.clone()).collect()
    }

    /// The plan's move of one partition.
    pub(super) fn move_of(&self, partition: &TopicPartition) -> Option<&PartitionMove> {
        let moves = &self.plan.moves;
        let found = moves.binary_search_by(|m| m.partition.cmp(partition));
        moves.get(found.ok()?)
    }

    /// What Verify found of one partition; `None` where it found nothing, or could not tell.
    pub(super) fn known_outcome(&self, partition: &TopicPartition) -> Option<&PartitionOutcome> {
        let found = self.outcomes.get(partition)?;
        (!matches!(found, PartitionOutcome::Unknown { .. })).then_some(found)
    }

    /// What became of one partition. Where Verify could not tell, that is judged again by the same rules, from what is
    /// committed `now`; `None` where the plan did not move it.
    pub(super) fn outcome_of(
        &self,
        partition: &TopicPartition,
        now: Option<&CommittedOffset>,
    ) -> Option<PartitionOutcome> {
        let m = self.move_of(partition)?;
        if let Some(known) = self.known_outcome(partition) {
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

    /// A target that rests on it.
    pub(super) fn target(
        &self,
        source: Source,
        seen: &GroupObservation,
        judge: impl Fn(&TopicPartition) -> Wanted,
    ) -> Target {
        let known: BTreeSet<_> = seen
            .partitions
            .keys()
            .chain(self.pre_image.before.keys())
            .collect();
        let wanted = known.into_iter().map(|at| (at.clone(), judge(at)));
        Target {
            then: Some(self.remember(seen)),
            undoes: Undoes::Nothing,
            // Whether to skip was decided with the first plan.
            rules: Rules {
                forward: true,
                drift: true,
            },
            ..Target::new(source, wanted.collect())
        }
    }

    fn remember(&self, seen: &GroupObservation) -> Remembered {
        let moves = &self.plan.moves;
        let mut topic_ids = BTreeMap::new();
        for m in moves {
            topic_ids
                .entry(m.partition.topic.clone())
                .or_insert(m.topic_id);
        }
        let truncated = |then: &PartitionMove| {
            let high = seen
                .partitions
                .get(&then.partition)?
                .log
                .as_ref()
                .ok()?
                .high;
            (high < then.log.high).then(|| (then.partition.clone(), (then.log.high, high)))
        };
        Remembered {
            cluster_id: self.plan.cluster_id.clone(),
            topic_ids: topic_ids
                .into_iter()
                .filter_map(|(topic, id)| Some((topic, id?)))
                .collect(),
            logs: moves.iter().map(|m| (m.partition.clone(), m.log)).collect(),
            truncations: moves.iter().filter_map(truncated).collect(),
            older: Vec::new(),
            is_streams: self
                .pre_image
                .before
                .values()
                .flatten()
                .any(is_streams_commit),
        }
    }
}

/// Why it is not known what became of a partition.
pub(super) fn tell_unknown(partition: &TopicPartition, seen: &str) -> String {
    format!(
        "it is not known whether it moved {partition} (seen: {seen}); leave that partition out by naming topics, and use \
         to_offsets for it"
    )
}

/// Why a partition is not where an earlier plan left it.
pub(super) fn tell_moved_since(
    partition: &TopicPartition,
    left: Option<&CommittedOffset>,
    from: Option<&CommittedOffset>,
) -> String {
    let at =
        |c: Option<&CommittedOffset>| c.map_or("no commit".to_owned(), |c| c.offset.to_string());
    if left.map(|c| c.offset) == from.map(|c| c.offset) {
        return format!(
            "it left {partition} at {}, which was committed again since with another epoch or metadata",
            at(left)
        );
    }
    format!(
        "it left {partition} at {}, which is at {} now",
        at(left),
        at(from)
    )
}
