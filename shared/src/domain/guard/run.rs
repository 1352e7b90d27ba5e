//! What one run of the guard found in one group, as it is kept and told.

use std::collections::BTreeMap;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::quarantine::SkippedRecord;
use super::verdict::{Finding, Status, Verdict};
use crate::domain::group::GroupState;
use crate::domain::offset::{ClusterId, GroupId};
use crate::domain::plan::PlanId;
use crate::domain::refusal::Refusal;

/// Who asks for a plan that the guard makes by itself.
pub const GUARD: &str = "guard";

/// How long the same findings are not told again.
pub const TELL_AGAIN_AFTER: SignedDuration = SignedDuration::from_hours(6);

/// What the second source, the REST Proxy, says of the same group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "second_source", rename_all = "snake_case")]
pub enum SecondSource {
    /// None is configured.
    NotConfigured,
    /// It says the same, as far as it can.
    Agrees,
    /// It says something else.
    Differs {
        /// What.
        how: String,
    },
    /// It speaks of another cluster.
    AnotherCluster {
        /// The cluster ids that it knows.
        seen: String,
    },
    /// It did not answer, or not so that it could be used.
    Unavailable {
        /// Why.
        why: String,
    },
}

impl fmt::Display for SecondSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotConfigured => f.write_str("no REST Proxy is configured"),
            Self::Agrees => f.write_str("the REST Proxy agrees"),
            Self::Differs { how } => write!(f, "the REST Proxy says otherwise: {how}"),
            Self::AnotherCluster { seen } => {
                write!(f, "the REST Proxy speaks of another cluster: {seen}")
            }
            Self::Unavailable { why } => write!(f, "the REST Proxy is of no use: {why}"),
        }
    }
}

/// What the guard did about its findings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "did", rename_all = "snake_case")]
pub enum Deed {
    /// Nothing was to be proposed.
    Nothing,
    /// A dry run: this is the plan that it would have proposed.
    WouldPropose {
        /// The plan.
        plan: PlanId,
    },
    /// A plan waits for its approval.
    Proposed {
        /// The plan, whose id names its execution too.
        plan: PlanId,
    },
    /// A recovery of the group is open, so nothing was planned.
    RecoveryLive {
        /// Its plan.
        plan: PlanId,
    },
}

/// One run over one group. Kept for ever where it found something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardRun {
    /// Its id: a ULID.
    pub id: String,
    /// When it began.
    pub at: Timestamp,
    /// The cluster's name in the configuration.
    pub cluster: String,
    /// The cluster's own id, where it answered.
    pub cluster_id: Option<ClusterId>,
    /// The group.
    pub group: GroupId,
    /// The worst of what was found.
    pub status: Status,
    /// Why the group could not be read at all, where it could not.
    pub failed: Option<String>,
    /// The group's state in the last look.
    pub state: Option<GroupState>,
    /// Its members in the last look.
    pub members: usize,
    /// How many looks the run took.
    pub looks: usize,
    /// What is not as it should be, in the order of partitions.
    pub findings: Vec<Finding>,
    /// How many partitions have each verdict, the healthy ones too.
    pub verdicts: BTreeMap<Verdict, usize>,
    /// What the REST Proxy says.
    pub second_source: SecondSource,
    /// Why nothing is proposed where something might have been.
    pub withheld: Vec<Refusal>,
    /// The records that were quarantined, or would be.
    pub records: Vec<SkippedRecord>,
    /// Only to say what would be proposed.
    pub dry_run: bool,
    /// What was done about it.
    pub deed: Deed,
}

impl GuardRun {
    /// Whether there is anything to keep and to tell.
    #[must_use]
    pub fn found_something(&self) -> bool {
        self.status != Status::Healthy || self.deed != Deed::Nothing || !self.withheld.is_empty()
    }

    /// The plan that the run made, where it made one.
    #[must_use]
    pub fn plan(&self) -> Option<&PlanId> {
        match &self.deed {
            Deed::Proposed { plan } | Deed::WouldPropose { plan } => Some(plan),
            Deed::Nothing | Deed::RecoveryLive { .. } => None,
        }
    }

    /// Equal for two runs that a person need not hear of twice: the same verdicts of the same partitions at the same
    /// places, whatever time has passed and however much lag has grown.
    #[must_use]
    pub fn signature(&self) -> String {
        let mut parts = vec![self.status.to_string()];
        if let Some(failed) = &self.failed {
            parts.push(format!("failed: {failed}"));
        }
        parts.extend(
            self.findings
                .iter()
                .map(|f| format!("{} {}", f.partition, f.verdict)),
        );
        parts.extend(self.withheld.iter().map(Refusal::code));
        super::record::sha256(parts.join("\n").as_bytes())
    }

    /// One line for a log, a status answer and a message's heading.
    #[must_use]
    pub fn summary(&self) -> String {
        if let Some(failed) = &self.failed {
            return format!("{}: the group could not be read: {failed}", self.status);
        }
        let counts: Vec<_> = self
            .verdicts
            .iter()
            .map(|(verdict, count)| format!("{count} {verdict}"))
            .collect();
        format!("{}: {}", self.status, counts.join(", "))
    }
}

/// What people were told last of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// The signature of the run.
    pub signature: String,
    /// When.
    pub at: Timestamp,
}

/// Whether people are to be told of a run: it found something, and something else than what they were told last, or
/// that is long ago.
#[must_use]
pub fn is_news(run: &GuardRun, told: Option<&Told>, now: Timestamp) -> bool {
    run.found_something()
        && told.is_none_or(|told| {
            told.signature != run.signature() || now.duration_since(told.at) >= TELL_AGAIN_AFTER
        })
}
