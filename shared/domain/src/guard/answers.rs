//! What people answered to earlier proposals of the guard, and what is not proposed again because of that.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::policy::{GuardPolicy, Validator};
use super::probe::{First, Probed};
use super::proposal::{Proposals, SkipRange};
use super::quarantine::{DedupeId, Kept};
use super::record::Fingerprint;
use super::rules::Assessment;
use super::run::TELL_AGAIN_AFTER;
use super::verdict::{Evidence, Finding, Verdict};
use crate::offset::{TopicId, TopicPartition};
use crate::plan::{Plan, PlanRecord, PlanResult, Source};
use crate::policy::seconds;
use crate::refusal::{Refusal, Rejection};
use crate::rights::{ResourceType, Right};

/// How long a proposal that nobody answered is not made again: as long as a finding is not told again.
pub const ASK_AGAIN_AFTER: SignedDuration = TELL_AGAIN_AFTER;

/// One kind of evidence that singles out what a proposal is about. How long a partition has stood, or who owned it when,
/// changes from run to run and is none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ground {
    /// The rules came to this verdict.
    Verdict(Verdict),
    /// This validator does not pass the record.
    Fails(String),
    /// The record is of another kind than those before it.
    Unlike(String),
}

/// All that singles out what is proposed for one partition.
pub type Grounds = BTreeSet<Ground>;

/// The grounds of a finding.
#[must_use]
pub fn grounds(finding: &Finding) -> Grounds {
    let name = |validator: &Validator| validator.to_string();
    let shown = finding
        .evidence
        .iter()
        .filter_map(|evidence| match evidence {
            Evidence::ValidatorFailed { validator, .. } => Some(Ground::Fails(name(validator))),
            Evidence::UnlikeThoseBefore { validator, .. } => Some(Ground::Unlike(name(validator))),
            _ => None,
        });
    let mut grounds: Grounds = shown.collect();
    grounds.insert(Ground::Verdict(finding.verdict));
    // A suspicion is less than what was rejected already.
    if finding.verdict == Verdict::PoisonLikely {
        grounds.insert(Ground::Verdict(Verdict::PoisonSuspected));
    }
    grounds
}

/// What came of an earlier proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A person said no.
    Rejected {
        /// Who.
        by: String,
        /// Why.
        reason: String,
    },
    /// Nobody decided in time.
    Unanswered,
    /// Nobody was asked, since the applying principal lacks these rights.
    NotAsked {
        /// Which.
        missing: Vec<Right>,
    },
}

/// An earlier proposal that did not come to a yes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// What was proposed.
    pub record: PlanRecord,
    /// What came of it.
    pub answer: Answer,
    /// When.
    pub at: Timestamp,
}

/// What is known of the partitions while answers are looked up.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// What the rules say.
    pub assessment: &'a Assessment,
    /// What lies at the commits.
    pub probes: &'a BTreeMap<TopicPartition, Probed>,
    /// Whether the group's consumers read records of aborted and open transactions.
    pub reads_uncommitted: bool,
    /// The group's policy.
    pub policy: &'a GuardPolicy,
    /// Now.
    pub now: Timestamp,
}

/// One partition's proposal, as it is recognised in an earlier plan.
#[derive(Debug)]
enum Proposed<'a> {
    Skip {
        range: &'a SkipRange,
        first: DedupeId,
    },
    Rewind {
        committed: i64,
        topic_id: Option<TopicId>,
    },
}

impl Known<'_> {
    /// `proposals` without those that a person rejected, or that nobody answered a short while ago, where nothing has
    /// changed since: the record at the commit, the commit of a rewind, or the kinds of evidence. They become refusals.
    ///
    /// `dedupe_id` names the record of a group at an offset; `topic_id` is that of a topic now.
    #[must_use]
    pub fn without_answered(
        &self,
        mut proposals: Proposals,
        answered: &[Answered],
        dedupe_id: impl Fn(&TopicPartition, i64) -> DedupeId,
        topic_id: impl Fn(&str) -> Option<TopicId>,
    ) -> Proposals {
        let mut withheld = Vec::new();
        proposals.skips.retain(|range| {
            let first = dedupe_id(&range.partition, range.first);
            let proposed = Proposed::Skip { range, first };
            let held = self.held_back(&range.partition, &proposed, answered);
            let proposes = held.is_none();
            withheld.extend(held);
            proposes
        });
        proposals.rewinds.retain(|partition, _| {
            let Some((committed, _)) = self.finding(partition).and_then(Finding::position) else {
                return true;
            };
            let proposed = Proposed::Rewind {
                committed,
                topic_id: topic_id(&partition.topic),
            };
            let held = self.held_back(partition, &proposed, answered);
            let proposes = held.is_none();
            withheld.extend(held);
            proposes
        });
        proposals.withheld.extend(withheld);
        proposals
    }

    fn finding(&self, partition: &TopicPartition) -> Option<&Finding> {
        let mut findings = self.assessment.findings.iter();
        findings.find(|finding| finding.partition == *partition)
    }

    /// Why a proposal is not made again, if so: a no counts for longer than no answer, and the newest of each counts.
    fn held_back(
        &self,
        partition: &TopicPartition,
        proposed: &Proposed<'_>,
        answered: &[Answered],
    ) -> Option<Refusal> {
        let now = self.finding(partition).map(grounds).unwrap_or_default();
        let same: Vec<_> = answered
            .iter()
            .filter(|answered| self.is_same(partition, proposed, answered))
            .filter(|answered| {
                let then = answered.grounds(partition);
                // What it rested on is not known of those of before it was kept: a no is a no.
                then.is_none_or(|then| now.is_subset(then))
            })
            .filter(|answered| answered.concerns(partition))
            .collect();
        let lasting = |answered: &&&Answered| self.until(answered) > self.now;
        let newest = |rejected: bool| {
            same.iter()
                .filter(lasting)
                .filter(|answered| matches!(answered.answer, Answer::Rejected { .. }) == rejected)
                .max_by_key(|answered| answered.at)
        };
        let answered = newest(true).or_else(|| newest(false))?;
        let (partition, plan) = (partition.clone(), answered.record.id.clone());
        let (at, until) = (answered.at, self.until(answered));
        Some(match &answered.answer {
            Answer::Rejected { by, reason } => Refusal::RejectedBefore {
                partition,
                plan,
                rejection: Box::new(Rejection {
                    by: by.clone(),
                    reason: reason.clone(),
                    at,
                    until,
                }),
            },
            Answer::Unanswered => Refusal::UnansweredBefore {
                partition,
                plan,
                at,
                until,
                missing: Vec::new(),
            },
            Answer::NotAsked { missing } => Refusal::UnansweredBefore {
                partition,
                plan,
                at,
                until,
                missing: missing.clone(),
            },
        })
    }

    /// Until when an answer counts.
    fn until(&self, answered: &Answered) -> Timestamp {
        answered.at
            + match answered.answer {
                Answer::Rejected { .. } => seconds(self.policy.rejected_for_seconds),
                Answer::Unanswered | Answer::NotAsked { .. } => ASK_AGAIN_AFTER,
            }
    }

    /// Whether an earlier plan proposed the same for the same record, or from the same commit.
    fn is_same(
        &self,
        partition: &TopicPartition,
        proposed: &Proposed<'_>,
        answered: &Answered,
    ) -> bool {
        let Some(plan) = answered.plan() else {
            return false;
        };
        match proposed {
            Proposed::Skip { range, first } => {
                let mut skips = plan.skips.iter();
                let then = skips.find(|skipped| skipped.partition == *partition);
                then.is_some_and(|then| {
                    then.dedupe_id == *first
                        && self
                            .fingerprint(range)
                            .is_none_or(|now| *now == then.record.fingerprint)
                })
            }
            // What somebody else asked for, with targets of their own, is another thing.
            Proposed::Rewind {
                committed,
                topic_id,
            } => {
                let mut moves = plan.moves.iter();
                plan.source == Source::Offsets
                    && !answered.record.grounds.is_empty()
                    && moves.any(|m| {
                        m.partition == *partition
                            && m.topic_id == *topic_id
                            && m.from.as_ref().map(|from| from.offset) == Some(*committed)
                    })
            }
        }
    }

    /// The hash of the record at the commit, as the probe saw it.
    fn fingerprint(&self, range: &SkipRange) -> Option<&Fingerprint> {
        let probe = self.probes.get(&range.partition)?.as_ref().ok()?;
        let first = if self.reads_uncommitted {
            &probe.uncommitted
        } else {
            &probe.committed
        };
        match first {
            First::Record(outline) if outline.offset == range.first => Some(&outline.fingerprint),
            First::Record(_) | First::None { .. } => None,
        }
    }
}

impl Answered {
    fn plan(&self) -> Option<&Plan> {
        match &self.record.result {
            PlanResult::Ready(plan) => Some(plan),
            PlanResult::NothingToDo(_) | PlanResult::Refused(_) => None,
        }
    }

    /// Whether the answer says something of `partition`: a right that is missing on a topic keeps no other topic's
    /// partitions back.
    fn concerns(&self, partition: &TopicPartition) -> bool {
        let Answer::NotAsked { missing } = &self.answer else {
            return true;
        };
        let skips = self.plan().map_or(&[][..], |plan| &plan.skips[..]);
        let keeps = |topic: &str| {
            skips.iter().any(|skipped| {
                let kept_there =
                    matches!(&skipped.kept, Kept::In(copy) if copy.partition.topic == topic);
                skipped.partition == *partition && kept_there
            })
        };
        missing.is_empty()
            || missing.iter().any(|right| match right.resource {
                ResourceType::Group => true,
                ResourceType::Topic => right.name == partition.topic || keeps(&right.name),
            })
    }

    fn grounds(&self, partition: &TopicPartition) -> Option<&Grounds> {
        let mut grounds = self.record.grounds.iter();
        grounds
            .find(|(of, _)| of == partition)
            .map(|(_, grounds)| grounds)
    }
}

#[cfg(test)]
mod tests;
