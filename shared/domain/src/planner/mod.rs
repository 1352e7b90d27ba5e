//! From a target and a reading to a plan, or to every reason why there is none.

mod draft;
mod group;
mod partition;
mod topics;
mod warnings;

use jiff::{SignedDuration, Timestamp};

use super::group::{GroupObservation, GroupState, GroupType, Member};
use super::guard::sample::Sample;
use super::ids::PlanId;
use super::offset::{ClusterId, TopicId, TopicPartition};
use super::plan::{CSV_VERSION, LeftAlone, PartitionMove, Plan, Warning};
use super::policy::GroupPolicy;
use super::refusal::{MemberSeen, Refusal};
use super::request::RewindRequest;
use super::target::{Target, Wanted};
pub use draft::{Draft, UndoneSearch};
use partition::Becomes;

/// Everything that a plan is made of.
#[derive(Debug)]
pub struct Planning<'a> {
    /// The id that the plan will have.
    pub id: PlanId,
    /// The instant of planning.
    pub now: Timestamp,
    /// What is asked for.
    pub request: &'a RewindRequest,
    /// The group's policy.
    pub policy: &'a GroupPolicy,
    /// The hash of the configuration that applies to the group.
    pub config_hash: &'a str,
    /// The cluster id that the configuration pins.
    pub pinned_cluster: Option<&'a ClusterId>,
    /// The group now, read with `require_stable`.
    pub seen: &'a GroupObservation,
    /// What the guard saw of the group in its latest runs, oldest first; none where it does not look.
    pub looks: &'a [Sample],
    /// Where the group is to go, or why that cannot be said: the group is judged all the same, so that all reasons are
    /// told at once.
    pub target: Result<&'a Target, &'a Refusal>,
}

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

/// A plan in the making: what is planned, and where to.
#[derive(Clone, Copy)]
struct Making<'a> {
    planning: &'a Planning<'a>,
    target: &'a Target,
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

    fn assemble(
        self,
        moves: Vec<PartitionMove>,
        left_alone: Vec<(TopicPartition, LeftAlone)>,
        warnings: Vec<Warning>,
    ) -> Plan {
        let Planning {
            request,
            policy,
            seen,
            ..
        } = self.planning;
        let (state, group_type) = seen
            .description
            .as_ref()
            .map_or((GroupState::Unknown, GroupType::Unknown), |description| {
                (description.state, description.group_type)
            });
        let waits = waits_for_empty(policy);
        Plan {
            id: self.planning.id.clone(),
            cluster: request.cluster.clone(),
            cluster_id: seen.cluster_id.clone(),
            group: seen.group.clone(),
            group_type,
            state,
            config_hash: self.planning.config_hash.to_owned(),
            csv_version: CSV_VERSION,
            created_at: self.planning.now,
            approve_by: self.planning.now + seconds(policy.approve_within_seconds),
            apply_within_seconds: policy.apply_within_seconds,
            waits_for_empty: waits,
            drift_limit: if waits { self.drift_limit() } else { 0 },
            source: self.target.source.clone(),
            moves,
            skips: self.target.skips.clone(),
            left_alone,
            warnings,
            disowns: None,
            requested_by: request.requested_by.clone(),
            requester: request.requester.clone(),
            four_eyes: policy.four_eyes,
            reason: request.reason.clone(),
        }
    }

    /// How far forward a commit may go until the plan is applied.
    fn drift_limit(self) -> u64 {
        if self.target.rules.drift {
            self.planning.policy.drift_limit
        } else {
            0
        }
    }

    /// The id that a topic has now.
    fn topic_id_now(self, topic: &str) -> Option<TopicId> {
        self.planning.seen.topics.get(topic)?.as_ref().ok()?.id
    }

    /// The id that a topic had when the source was read.
    fn topic_id_then(self, topic: &str) -> Option<TopicId> {
        self.target.then.as_ref()?.topic_ids.get(topic).copied()
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

/// Whether the recovery waits for the group to be Empty: as the policy says, whatever one reading shows. A group that
/// crash-loops is Empty in most of them.
fn waits_for_empty(policy: &GroupPolicy) -> bool {
    policy.wait_for_empty_seconds.is_some()
}

/// A `u32` of seconds as a duration.
#[must_use]
pub fn seconds(seconds: u32) -> SignedDuration {
    SignedDuration::from_secs(i64::from(seconds))
}

/// Members as a refusal shows them.
#[must_use]
pub fn members_seen(members: &[Member]) -> Vec<MemberSeen> {
    let mut seen: Vec<_> = members
        .iter()
        .map(|member| MemberSeen {
            client_id: member.client_id.clone(),
            member_id: member.member_id.clone(),
            host: member.host.clone(),
        })
        .collect();
    // Brokers list them in no order.
    seen.sort_by(|a, b| (&a.client_id, &a.member_id).cmp(&(&b.client_id, &b.member_id)));
    seen
}

#[cfg(test)]
mod tests;
