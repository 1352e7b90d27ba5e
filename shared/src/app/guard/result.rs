//! What a run of the guard answers.

use serde::Serialize;

use crate::domain::fleet::CapMet;
use crate::domain::guard::run::GuardRun;
use crate::domain::guard::verdict::{Finding, GroupFinding, Status};
use crate::domain::ids::PlanId;
use crate::domain::offset::GroupId;
use crate::domain::reasons;

/// What became of one group in a run of the guard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GuardResult {
    /// The cluster's name.
    pub cluster: String,
    /// The group; `None` where the whole cluster failed.
    pub group: Option<GroupId>,
    /// The worst of what was found.
    pub status: Status,
    /// One line.
    pub summary: String,
    /// The plan that was made.
    pub plan: Option<PlanId>,
    /// The codes of what is not proposed, where something might have been, and how often each.
    pub withheld: Vec<String>,
    /// What is wrong with the group as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of_group: Option<GroupFinding>,
    /// What was found in each partition, the healthy ones too: only where the event names the group.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

impl GuardResult {
    pub(super) fn new(run: &GuardRun) -> Self {
        Self {
            cluster: run.cluster.clone(),
            group: Some(run.group.clone()),
            status: run.status,
            summary: run.summary(),
            plan: run.plan().cloned(),
            withheld: reasons::codes(&run.withheld),
            of_group: run.of_group.clone(),
            findings: Vec::new(),
        }
    }
}

/// The answer about one group, a pattern or a cluster, and what went wrong with keeping or telling it.
#[derive(Clone)]
pub(super) struct GroupOutcome {
    pub(super) result: GuardResult,
    pub(super) failure: Option<String>,
}

impl GroupOutcome {
    /// Of a run that went to its end.
    pub(super) fn new(result: GuardResult) -> Self {
        Self {
            result,
            failure: None,
        }
    }

    /// Without a run.
    fn without_run(cluster: &str, group: Option<GroupId>, status: Status, summary: String) -> Self {
        Self::new(GuardResult {
            cluster: cluster.to_owned(),
            group,
            status,
            summary,
            plan: None,
            withheld: Vec::new(),
            of_group: None,
            findings: Vec::new(),
        })
    }

    /// Of a group that the run had no time for. That says nothing of the group or of its brokers, so it is logged and
    /// counted, and nobody is alerted.
    pub(super) fn not_reached(cluster: &str, group: GroupId) -> Self {
        let why = "not reached: the run's time was over before it came to this group; other runs begin with other groups";
        Self::without_run(cluster, Some(group), Status::Unknown, why.to_owned())
    }

    /// Of a group whose name is too long to be looked after.
    pub(super) fn not_looked_after(cluster: &str, group: GroupId, why: String) -> Self {
        Self::without_run(cluster, Some(group), Status::Unknown, why)
    }

    /// Of a pattern that matches more groups than the run looked at.
    pub(super) fn cap_met(cluster: &str, cap: &CapMet) -> Self {
        Self::without_run(cluster, None, Status::Warning, cap.to_string())
    }

    /// Of what failed before there was a run, or after it.
    pub(super) fn failed(cluster: &str, group: Option<GroupId>, why: String) -> Self {
        let at = group
            .as_ref()
            .map_or(String::new(), |g| format!(" {}", g.0));
        Self {
            failure: Some(format!("{cluster}{at}: {why}")),
            ..Self::without_run(cluster, group, Status::Unknown, why)
        }
    }
}
