//! From a target and a reading to a plan, or to every reason why there is none.

mod draft;
mod group;
mod making;
mod partition;
mod topics;
mod warnings;

use super::offset::TopicPartition;
use super::plan::LeftAlone;
use super::refusal::Refusal;
use super::target::Wanted;
pub use draft::{Draft, UndoneSearch};
use making::Making;
pub use making::Planning;
use partition::Becomes;

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a refusal that nobody reads is no answer"]
pub enum Planned {
    /// A plan, but for what it undoes.
    Draft(Box<Draft>),
    /// Every selected partition is where it should be, or is left alone for the reason given.
    NothingToDo(Vec<(TopicPartition, LeftAlone)>),
    /// All reasons at once, in a stable order: the request, the group, its topics, its partitions.
    Refused(Vec<Refusal>),
}

/// Plans what is asked for.
pub fn plan_request(planning: &Planning<'_>) -> Planned {
    match planning.target {
        Ok(target) => Making { planning, target }.plan(),
        Err(missing) => {
            let mut refusals = unknown_requester(planning);
            refusals.push(missing.clone());
            refusals.extend(group::refuse_cluster_and_group(planning, None));
            Planned::Refused(refusals)
        }
    }
}

impl Making<'_> {
    fn plan(self) -> Planned {
        let (planning, target) = (self.planning, self.target);
        let mut refusals = unknown_requester(planning);
        refusals.extend(group::refuse_cluster_and_group(
            planning,
            target.then.as_ref(),
        ));

        let mut moves = Vec::new();
        let mut left_alone = Vec::new();
        let mut asked = Vec::new();
        for (partition, wanted) in &target.wanted {
            // Before anything is judged of it: a partition that would not be moved anyway cannot stand in the way.
            match wanted {
                _ if !planning.request.selection.contains(partition) => {
                    left_alone.push((partition.clone(), LeftAlone::NotSelected));
                }
                Wanted::NotAsked(why) => left_alone.push((partition.clone(), why.clone())),
                wanted => asked.push((partition, wanted)),
            }
        }
        let partitions: Vec<_> = asked.iter().map(|(partition, _)| *partition).collect();
        let faulty = self.find_topic_faults(&partitions);
        refusals.extend(faulty.values().cloned());
        refusals.extend(self.refuse_unknown_names());
        let mut dropped_metadata = 0;
        // What is wrong with a topic says it of all its partitions.
        asked.retain(|(partition, _)| !faulty.contains_key(partition.topic.as_str()));
        for (partition, wanted) in asked {
            match self.judge_partition(partition, wanted) {
                Becomes::LeftAlone(why) => left_alone.push((partition.clone(), why)),
                Becomes::Refused(refusal) => refusals.push(refusal),
                Becomes::Moved { m, drops_metadata } => {
                    dropped_metadata += usize::from(drops_metadata);
                    moves.push(m);
                }
            }
        }
        left_alone.sort();
        refusals.extend(self.refuse_truncated_logs(&moves));
        let selected_none = |(_, why): &(_, LeftAlone)| *why == LeftAlone::NotSelected;
        if refusals.is_empty() && moves.is_empty() && left_alone.iter().all(selected_none) {
            refusals.push(Refusal::NothingSelected {
                group: planning.seen.group.0.clone(),
            });
        }
        if !refusals.is_empty() {
            return Planned::Refused(refusals);
        }
        if moves.is_empty() {
            return Planned::NothingToDo(left_alone);
        }
        let warnings = self.warn(&moves, dropped_metadata);
        let plan = self.assemble(moves, left_alone, warnings);
        Planned::Draft(Box::new(Draft::new(plan, target.undoes)))
    }
}

/// A plan of which nobody knows who asked for it never gets the two people that the policy wants.
fn unknown_requester(planning: &Planning<'_>) -> Vec<Refusal> {
    let unknown = planning.policy.four_eyes && planning.request.requester.is_unverified();
    unknown
        .then_some(Refusal::RequesterUnverified)
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests;
