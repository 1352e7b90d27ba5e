//! What one run of the guard found in one group, as it is kept and told.

use std::collections::BTreeMap;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::quarantine::SkippedRecord;
use super::sample::{LiveRecovery, Stage};
use super::verdict::{Finding, GroupFinding, Status, Verdict};
use crate::group::GroupState;
use crate::ids::{PlanId, RunId};
use crate::offset::{ClusterId, GroupId};
use crate::refusal::Refusal;
use crate::text::grouped;

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
    /// The brokers could not be read, and this is all that is known of the group. Nothing is decided on its word.
    Alone {
        /// What it says.
        says: String,
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
            Self::Alone { says } => write!(f, "the REST Proxy says of the group: {says}"),
            Self::Unavailable { why } => write!(f, "the REST Proxy is of no use: {why}"),
        }
    }
}

/// What the guard did about its findings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "did", rename_all = "snake_case")]
pub enum GuardAction {
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
    pub id: RunId,
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
    /// What is wrong with the group as a whole. Runs of an earlier release say nothing of it.
    #[serde(default)]
    pub of_group: Option<GroupFinding>,
    /// The recovery that held the group in the last look, without its targets.
    #[serde(default)]
    pub recovery: Option<LiveRecovery>,
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
    #[serde(rename = "deed")]
    pub action: GuardAction,
}

impl GuardRun {
    /// Whether there is anything to keep and to tell.
    #[must_use]
    pub fn found_something(&self) -> bool {
        self.status != Status::Healthy
            || self.action != GuardAction::Nothing
            || !self.withheld.is_empty()
    }

    /// The plan that the run made, where it made one.
    #[must_use]
    pub fn plan(&self) -> Option<&PlanId> {
        match &self.action {
            GuardAction::Proposed { plan } | GuardAction::WouldPropose { plan } => Some(plan),
            GuardAction::Nothing | GuardAction::RecoveryLive { .. } => None,
        }
    }

    /// What the person on call does next about a finding of this run. A skip is there to be approved only where a plan of
    /// this run proposes it.
    #[must_use]
    pub fn next_step(&self, finding: &Finding) -> &'static str {
        let passes_over = |record: &SkippedRecord| record.partition == finding.partition;
        if finding.verdict != Verdict::PoisonLikely {
            return finding.next_step();
        }
        match &self.action {
            GuardAction::Proposed { .. } if self.records.iter().any(passes_over) => {
                finding.next_step()
            }
            GuardAction::WouldPropose { .. } if self.records.iter().any(passes_over) => {
                "read the outline of the record with its owner, and fix the consumer; this is a dry run, so there is \
                 nothing to approve: dry_run = false makes it propose the skip"
            }
            GuardAction::RecoveryLive { .. } => {
                "read the outline of the record with its owner, and fix the consumer; decide the recovery that is open \
                 before another plan is made"
            }
            GuardAction::Nothing
            | GuardAction::Proposed { .. }
            | GuardAction::WouldPropose { .. } => {
                "read the outline of the record with its owner, and fix the consumer; its skip is not proposed in this run"
            }
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
        if let Some(of_group) = &self.of_group {
            parts.push(format!("group {}", of_group.verdict));
        }
        parts.extend(self.findings.iter().map(|finding| {
            let place = finding.stands_at();
            let place = place.map_or(String::new(), |at| format!(" at {at}"));
            format!("{} {}{place}", finding.partition, finding.verdict)
        }));
        parts.extend(self.withheld.iter().map(Refusal::code));
        super::record::sha256(parts.join("\n").as_bytes())
    }

    /// One line for a log, a status answer and a message's heading.
    #[must_use]
    pub fn summary(&self) -> String {
        if let Some(failed) = &self.failed {
            return format!("{}: the group could not be read: {failed}", self.status);
        }
        let mut parts = Vec::new();
        if let Some(of_group) = &self.of_group {
            parts.push(format!(
                "the group is {} and has never committed",
                of_group.verdict
            ));
        }
        let counts = self.verdicts.iter();
        parts.extend(counts.map(|(verdict, count)| format!("{} {verdict}", grouped(count))));
        if parts.is_empty() {
            parts.push("no partition is committed or assigned".to_owned());
        }
        let mut text = format!("{}: {}", self.status, parts.join(", "));
        let applied = self.recovery.as_ref();
        if let Some(live) = applied.filter(|live| live.stage >= Stage::Approved) {
            text.push_str(&format!("; {live}"));
        }
        text
    }
}

/// What people were told last of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastAlert {
    /// The signature of the run.
    pub signature: String,
    /// When.
    pub at: Timestamp,
}

/// Whether people are to be told of a run: it found something, and something else than what they were told last, or
/// that is long ago.
#[must_use]
pub fn is_news(run: &GuardRun, told: Option<&LastAlert>, now: Timestamp) -> bool {
    run.found_something()
        && told.is_none_or(|told| {
            told.signature != run.signature() || now.duration_since(told.at) >= TELL_AGAIN_AFTER
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::verdict::Confidence;
    use crate::testing::guard::History;
    use crate::testing::{at, p};

    fn run(history: &History) -> GuardRun {
        let (assessment, proposals) = history.judged();
        let mut verdicts = BTreeMap::new();
        for finding in &assessment.findings {
            *verdicts.entry(finding.verdict).or_default() += 1;
        }
        GuardRun {
            id: RunId("01JDZ0RUN".into()),
            at: history.now(),
            cluster: "local".into(),
            cluster_id: None,
            group: GroupId("shipment-sync".into()),
            status: assessment.status,
            failed: None,
            state: None,
            members: 1,
            looks: 1,
            of_group: assessment.of_group,
            recovery: history.samples.last().unwrap().recovery.clone(),
            findings: assessment
                .findings
                .into_iter()
                .filter(|finding| finding.status != Status::Healthy)
                .collect(),
            verdicts,
            second_source: SecondSource::NotConfigured,
            withheld: proposals.withheld,
            records: Vec::new(),
            dry_run: true,
            action: GuardAction::Nothing,
        }
    }

    fn stuck() -> History {
        let mut history = History::of(2);
        history.stable(&[("a1", &[0, 1])]);
        for _ in 0..3 {
            history.run().work(&[1]);
        }
        history
    }

    fn told(run: &GuardRun, at: &str) -> Option<LastAlert> {
        Some(LastAlert {
            signature: run.signature(),
            at: crate::testing::at(at),
        })
    }

    #[test]
    fn what_is_as_it_should_be_is_no_news() {
        let mut history = History::of(2);
        history.stable(&[("a1", &[0, 1])]).runs(2);
        let healthy = run(&history);
        assert!(!healthy.found_something());
        assert!(!is_news(&healthy, None, at("09:00:00")));
    }

    #[test]
    fn what_was_told_is_told_again_after_six_hours() {
        let found = run(&stuck());
        assert!(is_news(&found, None, at("09:00:00")));
        let told = told(&found, "09:00:00");
        assert!(!is_news(&found, told.as_ref(), at("14:59:59")));
        assert!(is_news(&found, told.as_ref(), at("15:00:00")));
    }

    #[test]
    fn the_same_stall_a_run_later_is_the_same() {
        let mut history = stuck();
        let before = run(&history);
        history.high(0, 5_000).run().work(&[1]);
        let after = run(&history);
        assert_eq!(before.summary(), after.summary());
        assert_eq!(before.signature(), after.signature());
    }

    #[test]
    fn another_verdict_partition_place_reason_or_status_is_news() {
        let history = stuck();
        let before = run(&history);
        let mut signatures = vec![before.signature()];
        let mut other = history.clone();
        other.empty().runs(4);
        signatures.push(run(&other).signature());
        let mut changed = before.clone();
        changed.findings[0].partition = p(1);
        signatures.push(changed.signature());
        let mut changed = before.clone();
        changed.withheld.push(Refusal::ApplySwitchedOff);
        signatures.push(changed.signature());
        let mut changed = before.clone();
        changed.failed = Some("the group could not be described".into());
        signatures.push(changed.signature());
        let mut changed = before.clone();
        changed.status = Status::Unknown;
        signatures.push(changed.signature());
        let mut changed = before.clone();
        changed.of_group = Some(of_group());
        signatures.push(changed.signature());
        // The next record sticks as well.
        let mut moved = before.clone();
        for evidence in &mut moved.findings[0].evidence {
            if let crate::guard::verdict::Evidence::Position { committed, .. } = evidence {
                *committed += 1;
            }
        }
        signatures.push(moved.signature());
        let distinct: std::collections::BTreeSet<_> = signatures.iter().collect();
        assert_eq!(distinct.len(), signatures.len());
    }

    fn of_group() -> GroupFinding {
        GroupFinding {
            verdict: Verdict::CrashLoop,
            confidence: Confidence::Medium,
            status: Status::Warning,
            evidence: Vec::new(),
        }
    }

    #[test]
    fn a_run_says_what_is_wrong_with_the_group_and_what_holds_it() {
        let mut found = run(&stuck());
        found.verdicts.clear();
        found.of_group = Some(of_group());
        let text = "CRITICAL: the group is CRASH_LOOP and has never committed";
        assert_eq!(found.summary(), text);
        found.of_group = None;
        let text = "CRITICAL: no partition is committed or assigned";
        assert_eq!(found.summary(), text);
        let live = |stage| LiveRecovery {
            plan: PlanId("01KB".to_owned()),
            since: at("09:00:00"),
            stage,
            targets: Vec::new(),
        };
        found.recovery = Some(live(Stage::AwaitsApproval));
        assert_eq!(found.summary(), text);
        for stage in [Stage::Approved, Stage::Applies] {
            found.recovery = Some(live(stage));
            let text = format!(
                "{text}; recovery 01KB is being applied, open since 2026-11-30 09:00:00 UTC"
            );
            assert_eq!(found.summary(), text);
        }
        // Runs that an earlier release stored say nothing of either.
        let mut old = serde_json::to_value(run(&stuck())).unwrap();
        for new in ["of_group", "recovery"] {
            old.as_object_mut().unwrap().remove(new);
        }
        let old: GuardRun = serde_json::from_value(old).unwrap();
        assert_eq!((old.of_group, old.recovery), (None, None));
    }

    #[test]
    fn a_run_in_one_line() {
        let mut found = run(&stuck());
        assert_eq!(found.summary(), "CRITICAL: 1 MOVING, 1 POISON_SUSPECTED");
        found.status = Status::Unknown;
        found.failed = Some("no broker answers".into());
        assert_eq!(
            found.summary(),
            "UNKNOWN: the group could not be read: no broker answers"
        );
        assert!(found.found_something());
    }
}
