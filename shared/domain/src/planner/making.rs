//! Everything that a plan is made of.

use jiff::Timestamp;

use crate::group::{GroupObservation, GroupState, GroupType};
use crate::guard::sample::Sample;
use crate::ids::PlanId;
use crate::offset::{ClusterId, TopicId, TopicPartition};
use crate::plan::{CSV_VERSION, LeftAlone, PartitionMove, Plan, Warning};
use crate::policy::{GroupPolicy, seconds};
use crate::refusal::Refusal;
use crate::request::RewindRequest;
use crate::target::Target;

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

/// A plan in the making: what is planned, and where to.
#[derive(Clone, Copy)]
pub(super) struct Making<'a> {
    pub(super) planning: &'a Planning<'a>,
    pub(super) target: &'a Target,
}

impl Making<'_> {
    pub(super) fn assemble(
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
    pub(super) fn drift_limit(self) -> u64 {
        if self.target.rules.drift {
            self.planning.policy.drift_limit
        } else {
            0
        }
    }

    /// The id that a topic has now.
    pub(super) fn topic_id_now(self, topic: &str) -> Option<TopicId> {
        self.planning.seen.topics.get(topic)?.as_ref().ok()?.id
    }

    /// The id that a topic had when the source was read.
    pub(super) fn topic_id_then(self, topic: &str) -> Option<TopicId> {
        self.target.then.as_ref()?.topic_ids.get(topic).copied()
    }
}

/// Whether the recovery waits for the group to be Empty: as the policy says, whatever one reading shows. A group that
/// crash-loops is Empty in most of them.
pub(super) fn waits_for_empty(policy: &GroupPolicy) -> bool {
    policy.wait_for_empty_seconds.is_some()
}
