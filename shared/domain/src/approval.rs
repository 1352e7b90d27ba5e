//! The decision of a person, and the one door through which offsets are changed.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::group::{Activity, GroupObservation, MemberSeen};
use super::guard::quarantine::{Kept, Reread, SkippedRecord};
use super::identity::{Identity, Requester};
use super::ids::PlanId;
use super::offset::{CommittedOffset, Fault, GroupId, TopicPartition, Watermarks, distance};
use super::plan::{CSV_VERSION, PartitionMove, Plan, PlanDigest, check_plan};
use super::policy::seconds;
use super::recovery::{Claim, PreImage, Recovery};
use super::refusal::{Refusal, Stale};
use super::rights::{self, Rights};
use super::text::time;
use crate::ids::ExecutionArn;

/// Where an approval stands. It moves by one conditional write, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ApprovalStatus {
    /// Waiting for a person.
    Pending,
    /// A person said yes.
    Approved,
    /// A person said no.
    Rejected,
    /// Nobody decided in time.
    Expired,
    /// Another request for the same plan took its place, or another recovery did.
    Superseded,
}

/// What a person says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// Do it.
    Approve,
    /// Do not.
    Reject,
}

impl Decision {
    /// The status that this decision leads to.
    #[must_use]
    pub fn status(self) -> ApprovalStatus {
        match self {
            Self::Approve => ApprovalStatus::Approved,
            Self::Reject => ApprovalStatus::Rejected,
        }
    }

    /// `approve` or `reject`, as the form and its token spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
        }
    }
}

/// One request for approval. The task token is not part of it: only the store ever holds that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// The plan.
    pub plan: PlanId,
    /// The digest of the plan that is shown and approved.
    pub digest: PlanDigest,
    /// The execution that waits.
    pub execution: ExecutionArn,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// Until when it may be decided. Before the task's own time-out, so that a decision is never made in vain.
    pub approve_by: Timestamp,
    /// Where it stands; who plans and who asks may close it, and so may write this. See [`Approval::stands`].
    pub status: ApprovalStatus,
    /// What the page wrote when a person decided, and nobody else may write. An approval of an earlier release that was
    /// decided without it admits nothing.
    #[serde(default)]
    pub decision: Option<Decision>,
    /// Whether the plan was made as a dry run and started afterwards, by somebody of whom nothing is known.
    #[serde(default)]
    pub from_dry_run: bool,
    /// Who decided: a verified name, or that possession of the link was all that was asked for.
    pub decided_by: Option<String>,
    /// What is proven of who decided.
    #[serde(default)]
    pub decider: Option<Identity>,
    /// When.
    pub decided_at: Option<Timestamp>,
    /// Why, in the decider's words.
    pub reason: Option<String>,
    /// When the decision reached the waiting execution.
    pub delivered_at: Option<Timestamp>,
}

/// What a decision meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It can be decided now.
    Open,
    /// It was decided, or its time is over.
    Closed(ApprovalStatus),
}

impl Approval {
    /// Where it stands: what was decided counts before a status that says otherwise.
    #[must_use]
    pub fn stands(&self) -> ApprovalStatus {
        self.decision.map_or(self.status, Decision::status)
    }

    /// Whether it can be decided at `now`.
    #[must_use]
    pub fn standing(&self, now: Timestamp) -> Standing {
        match self.stands() {
            ApprovalStatus::Pending if now < self.approve_by => Standing::Open,
            ApprovalStatus::Pending => Standing::Closed(ApprovalStatus::Expired),
            status => Standing::Closed(status),
        }
    }

    /// Until when the plan may be applied: the time starts at the decision. `None` unless it is approved.
    #[must_use]
    pub fn apply_by(&self, plan: &Plan) -> Option<Timestamp> {
        (self.decision == Some(Decision::Approve) && self.status == ApprovalStatus::Approved)
            .then_some(self.decided_at?)
            .map(|decided| decided + seconds(plan.apply_within_seconds))
    }

    /// Why this approval does not let `execution` go on at `now`, if it does not.
    ///
    /// The callback that woke the execution is not asked: whoever can end a wait cannot approve.
    pub fn admits(
        &self,
        plan: &Plan,
        people: People<'_>,
        execution: &ExecutionArn,
        now: Timestamp,
    ) -> Result<Timestamp, Refusal> {
        if plan.csv_version != CSV_VERSION {
            return Err(Refusal::PlanStale {
                changed: Stale::Release,
            });
        }
        let stored = plan.digest();
        if stored != self.digest {
            return Err(Refusal::PlanDigestMismatch {
                approved: self.digest.0.clone(),
                stored: stored.0,
            });
        }
        if self.execution != *execution || self.plan != plan.id {
            return Err(Refusal::NotApproved {
                found: format!("the approval belongs to execution {}", self.execution),
            });
        }
        match self.standing(now) {
            Standing::Open => Err(Refusal::NotApproved {
                found: "nobody has decided yet".to_owned(),
            }),
            Standing::Closed(ApprovalStatus::Expired | ApprovalStatus::Pending) => {
                Err(Refusal::ApprovalExpired {
                    approve_by: self.approve_by,
                })
            }
            Standing::Closed(ApprovalStatus::Superseded) => Err(Refusal::NotApproved {
                found: "the approval was superseded".to_owned(),
            }),
            Standing::Closed(ApprovalStatus::Rejected) => Err(Refusal::Rejected {
                by: self.decided_by.clone().unwrap_or_default(),
                reason: self.reason.clone().unwrap_or_default(),
            }),
            Standing::Closed(ApprovalStatus::Approved) => {
                self.is_decided_so()?;
                people.stand_behind(plan)?;
                // The page refuses it before; who can write to the table is not believed either.
                plan.approved_by(self.decider.as_ref())?;
                let apply_by = self.apply_by(plan).ok_or_else(|| Refusal::NotApproved {
                    found: "the time of the decision is missing".to_owned(),
                })?;
                if now >= apply_by {
                    return Err(Refusal::ApplyTimeOver { apply_by });
                }
                Ok(apply_by)
            }
        }
    }

    /// Whether a person approved it, by what the page wrote and by the status.
    fn is_decided_so(&self) -> Result<(), Refusal> {
        let found = match (self.decision, self.status) {
            (Some(Decision::Approve), ApprovalStatus::Approved) => return Ok(()),
            (Some(_), status) => {
                let status = serde_json::json!(status);
                let status = status.as_str().unwrap_or_default();
                format!("the page stored an approval, and the status is {status} since")
            }
            (None, _) => "its status was set, and the page stored no decision: it is of an earlier release, or \
                          somebody else wrote to the table"
                .to_owned(),
        };
        Err(Refusal::NotApproved { found })
    }
}

/// What is known outside the plan of the people who have to stand behind it: a plan is no witness for itself.
#[derive(Debug, Clone, Copy)]
pub struct People<'a> {
    /// Whether the group's policy asks for four eyes, as the configuration has it now.
    pub four_eyes: bool,
    /// Who is on record to have asked by the execution that the plan was made for.
    pub noted: Option<&'a Identity>,
}

impl People<'_> {
    /// # Errors
    /// The plan says less than the policy, or names somebody who is not on record.
    fn stand_behind(self, plan: &Plan) -> Result<(), Refusal> {
        if self.four_eyes && !plan.four_eyes {
            return Err(Refusal::FourEyesMissing {
                found: "the plan was made without it, so it has to be made again".to_owned(),
            });
        }
        match &plan.requester {
            Requester::Verified(identity) if self.noted != Some(identity) => {
                Err(Refusal::NotApproved {
                    found: format!("it is not on record that the plan was asked for by {identity}"),
                })
            }
            Requester::Verified(_) | Requester::Guard | Requester::Unverified => Ok(()),
        }
    }
}

/// Everything that is read again right before a plan is applied.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// The instant.
    pub now: Timestamp,
    /// The execution that wants to apply.
    pub execution: &'a ExecutionArn,
    /// The approval, read strongly.
    pub approval: Option<&'a Approval>,
    /// What is known of the people.
    pub people: People<'a>,
    /// The recovery, read strongly.
    pub recovery: &'a Recovery,
    /// The claim on the group, read strongly.
    pub claim: Option<&'a Claim>,
    /// Whether applying is switched on, read strongly.
    pub apply_enabled: bool,
    /// The hash of the configuration that applies to the group now.
    pub config_hash: &'a str,
    /// The group now, read with `require_stable`.
    pub seen: &'a GroupObservation,
    /// What the applying principal may do, as the brokers tell that principal.
    pub rights: &'a Rights,
    /// The pre-image that an earlier try of the same recovery stored.
    pub pre_image: Option<&'a PreImage>,
    /// The records that the plan passes over, and their copies, read again: by partition and offset.
    pub rereads: &'a BTreeMap<(TopicPartition, i64), Reread>,
}

/// A plan that may be applied now, and what is left of it to do.
///
/// There is no other way to an [`AlterRequest`], and adapters that change offsets accept nothing else. The only
/// function that makes one is [`authorize`].
#[derive(Debug)]
pub struct ApprovedPlan {
    group: GroupId,
    pre_image: PreImage,
    pending: Vec<PartitionMove>,
}

/// Some moves of an [`ApprovedPlan`] that go out in one request.
#[derive(Debug)]
pub struct AlterRequest {
    group: GroupId,
    change: Change,
}

/// What one request does.
#[derive(Debug, PartialEq, Eq)]
pub enum Change {
    /// Commits these (`OffsetCommit`; atomic on the broker for what it accepts).
    Commit(Vec<(TopicPartition, CommittedOffset)>),
    /// Removes these commits (`OffsetDelete`).
    Remove(Vec<TopicPartition>),
}

impl ApprovedPlan {
    /// What is committed right now for every partition that the plan moves; stored before anything is sent.
    #[must_use]
    pub fn pre_image(&self) -> &PreImage {
        &self.pre_image
    }

    /// The requests to send, in order, as few as fit; `size` estimates one commit's bytes, `limit` is a request's.
    #[must_use]
    pub fn requests(
        &self,
        limit: usize,
        size: impl Fn(&GroupId, &TopicPartition, &CommittedOffset) -> usize,
    ) -> Vec<AlterRequest> {
        let mut requests: Vec<Change> = Vec::new();
        let mut chunk: Vec<(TopicPartition, CommittedOffset)> = Vec::new();
        let mut bytes = 0;
        let mut removals = Vec::new();
        for m in &self.pending {
            let Some(to) = &m.to else {
                removals.push(m.partition.clone());
                continue;
            };
            let more = size(&self.group, &m.partition, to);
            if bytes + more > limit && !chunk.is_empty() {
                requests.push(Change::Commit(std::mem::take(&mut chunk)));
                bytes = 0;
            }
            bytes += more;
            chunk.push((m.partition.clone(), to.clone()));
        }
        if !chunk.is_empty() {
            requests.push(Change::Commit(chunk));
        }
        if !removals.is_empty() {
            requests.push(Change::Remove(removals));
        }
        requests
            .into_iter()
            .map(|change| AlterRequest {
                group: self.group.clone(),
                change,
            })
            .collect()
    }
}

impl AlterRequest {
    /// The group.
    #[must_use]
    pub fn group(&self) -> &GroupId {
        &self.group
    }

    /// What to do.
    #[must_use]
    pub fn change(&self) -> &Change {
        &self.change
    }
}

/// Opens the door, or says every reason why it stays shut.
///
/// A retry is judged by the pre-image that the first try stored: a partition at its target is done, one at its
/// pre-image is still to be moved, and anything else is stale, so a half-moved group is never made worse. Where a target
/// may rise with the log start, it is resolved here, from the reading right before the alter; the pre-image remembers
/// what it became, and a retry sends the same.
///
/// # Errors
/// All refusals, in a stable order.
pub fn authorize(plan: &Plan, evidence: &Evidence<'_>) -> Result<ApprovedPlan, Vec<Refusal>> {
    let mut refusals = permission(plan, evidence);
    refusals.extend(rights::judge(plan, evidence.rights).refusals);
    refusals.extend(staleness(plan, evidence));
    refusals.extend(passed_over(plan, evidence));
    let mut pending = Vec::new();
    let mut pre_image = PreImage::default();
    for m in &plan.moves {
        match still_to_do(plan, evidence, m) {
            Err(refusal) => refusals.push(refusal),
            Ok(Stands {
                now,
                target,
                is_done,
            }) => {
                if target != m.to {
                    let risen = target.as_ref().map(|target| target.offset);
                    let risen = risen.map(|offset| (m.partition.clone(), offset));
                    pre_image.raised.extend(risen);
                }
                pre_image.before.insert(m.partition.clone(), now);
                if !is_done {
                    let to = target;
                    pending.push(PartitionMove { to, ..m.clone() });
                }
            }
        }
    }
    if !refusals.is_empty() {
        return Err(refusals);
    }
    Ok(ApprovedPlan {
        group: plan.group.clone(),
        pre_image: evidence.pre_image.cloned().unwrap_or(pre_image),
        pending,
    })
}

/// Whether this execution may apply this plan at all.
fn permission(plan: &Plan, evidence: &Evidence<'_>) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    match evidence.approval {
        None => refusals.push(Refusal::NotApproved {
            found: "there is no approval".to_owned(),
        }),
        Some(approval) => {
            if let Err(refusal) =
                approval.admits(plan, evidence.people, evidence.execution, evidence.now)
            {
                refusals.push(refusal);
            }
        }
    }
    if let Some(fault) = check_plan(plan).first() {
        refusals.push(Refusal::InvalidRequest {
            field: "plan".to_owned(),
            problem: fault.clone(),
        });
    }
    if !evidence.apply_enabled {
        refusals.push(Refusal::ApplySwitchedOff);
    }
    let recovery = evidence.recovery;
    if recovery.fence != 0 || recovery.closed_at.is_some() {
        refusals.push(Refusal::Fenced);
    }
    refusals.extend(other_holder(plan, evidence).map(|holder| Refusal::ClaimLost { holder }));
    refusals
}

/// Who holds the group, if it is not this execution with this plan.
fn other_holder(plan: &Plan, evidence: &Evidence<'_>) -> Option<String> {
    let recovery = evidence.recovery;
    let held_by = |execution: &ExecutionArn, of: &PlanId| {
        (execution != evidence.execution || *of != plan.id)
            .then(|| format!("{execution} with plan {of}"))
    };
    let Some(claim) = evidence.claim else {
        return Some("nobody".to_owned());
    };
    if evidence.now >= claim.expires_at {
        return Some(format!("nobody since {}", time(claim.expires_at)));
    }
    held_by(&claim.execution, &claim.plan).or_else(|| held_by(&recovery.execution, &recovery.plan))
}

/// Whether the world is still the one that the plan was made for.
fn staleness(plan: &Plan, evidence: &Evidence<'_>) -> Vec<Refusal> {
    let seen = evidence.seen;
    let mut refusals = Vec::new();
    if seen.group != plan.group {
        refusals.push(Refusal::EvidenceIncomplete {
            at: String::new(),
            fault: Fault::another_group(),
        });
    }
    if seen.cluster_id != plan.cluster_id {
        refusals.push(Refusal::ClusterMismatch {
            required: plan.cluster_id.0.clone(),
            seen: seen.cluster_id.0.clone(),
        });
    }
    if evidence.config_hash != plan.config_hash {
        refusals.push(Refusal::PlanStale {
            changed: Stale::Configuration,
        });
    }
    match seen.activity() {
        Activity::Inactive => {}
        Activity::Active { state, members } => refusals.push(Refusal::GroupActive {
            state: state.to_string(),
            members: MemberSeen::all(&members),
        }),
        // Brought back from nothing: it is absent on purpose.
        Activity::Unproven { .. } if plan.finds_at_rest(seen) => {}
        Activity::Unproven { seen } => refusals.push(Refusal::GroupStateUnproven { seen }),
    }
    let topics: BTreeMap<_, _> = plan
        .moves
        .iter()
        .map(|m| (m.partition.topic.as_str(), m.topic_id))
        .collect();
    for (topic, id) in topics {
        let same = match seen.topics.get(topic) {
            Some(Ok(now)) => now.id == id,
            Some(Err(_)) | None => false,
        };
        if !same {
            refusals.push(Refusal::PlanStale {
                changed: Stale::Topic {
                    topic: topic.to_owned(),
                },
            });
        }
    }
    refusals
}

/// Why a record must not be passed over: it is not kept, or it or its copy is not what it was.
fn passed_over(plan: &Plan, evidence: &Evidence<'_>) -> Vec<Refusal> {
    let refuse = |skipped: &SkippedRecord| {
        let unconfirmed = |why: &str| Refusal::QuarantineUnconfirmed {
            partition: skipped.partition.clone(),
            offset: skipped.record.offset,
            why: why.to_owned(),
        };
        if skipped.kept == Kept::NotYet {
            return Some(unconfirmed("the plan is a dry run, which keeps nothing"));
        }
        let place = (skipped.partition.clone(), skipped.record.offset);
        match evidence.rereads.get(&place) {
            None => Some(unconfirmed("it was not read again")),
            Some(seen) => skipped
                .stale(seen)
                .map(|changed| Refusal::PlanStale { changed }),
        }
    };
    plan.skips.iter().filter_map(refuse).collect()
}

/// Where one move's partition is right before the alter.
struct Stands {
    /// What is committed now.
    now: Option<CommittedOffset>,
    /// What is to be committed: the plan's target, or the log start that it rises to.
    target: Option<CommittedOffset>,
    /// Whether an earlier try has committed that.
    is_done: bool,
}

/// Where one move's partition is, and what is left to do there.
fn still_to_do(plan: &Plan, evidence: &Evidence<'_>, m: &PartitionMove) -> Result<Stands, Refusal> {
    let unread = |fault: &Fault| match fault {
        Fault::Unstable => Refusal::UnstableOffsets {
            partition: m.partition.clone(),
        },
        fault => Refusal::EvidenceIncomplete {
            at: m.partition.to_string(),
            fault: fault.clone(),
        },
    };
    let reading = evidence
        .seen
        .partitions
        .get(&m.partition)
        .ok_or_else(|| unread(&Fault::missing()))?;
    let now = reading.committed.as_ref().map_err(unread)?;
    let log = reading.log.as_ref().map_err(unread)?;
    let target = match evidence.pre_image {
        Some(before) => before.sent(m),
        None => m.target_from(log.log_start),
    };
    let stands = |is_done| Stands {
        now: now.clone(),
        target: target.clone().into_owned(),
        is_done,
    };
    let before = evidence
        .pre_image
        .map(|image| image.before.get(&m.partition));
    // Wherever the log starts by now.
    if before.flatten().is_some() && now == target.as_ref() {
        return Ok(stands(true));
    }
    if let Some(target) = target.as_ref() {
        within(m, target, log).map_err(|changed| Refusal::PlanStale { changed })?;
    }
    let moved = Refusal::PlanStale {
        changed: Stale::CommittedOffset {
            partition: m.partition.clone(),
            planned: m.from.as_ref().map(|from| from.offset),
            seen: now.as_ref().map(|now| now.offset),
            limit: plan.drift_limit,
        },
    };
    let is_as_planned = match before {
        Some(before) => before == Some(now),
        None => *now == m.from || has_gone_on(plan, m, target.as_ref().as_ref(), now.as_ref()),
    };
    if is_as_planned {
        Ok(stands(false))
    } else {
        Err(moved)
    }
}

/// Whether a target is still within its log, and not above where it may rise to.
fn within(m: &PartitionMove, target: &CommittedOffset, log: &Watermarks) -> Result<(), Stale> {
    if target.offset < log.log_start || target.offset > log.high {
        return Err(Stale::Target {
            partition: m.partition.clone(),
            target: target.offset,
            log_start: log.log_start,
            high: log.high,
        });
    }
    match m.may_rise_to {
        Some(highest) if target.offset > highest => Err(Stale::LogStart {
            partition: m.partition.clone(),
            log_start: log.log_start,
            highest,
        }),
        _ => Ok(()),
    }
}

/// Whether a commit is where a group that had yet to be stopped may have come to since the plan was made.
fn has_gone_on(
    plan: &Plan,
    m: &PartitionMove,
    target: Option<&CommittedOffset>,
    now: Option<&CommittedOffset>,
) -> bool {
    let (true, Some(from), Some(now)) = (plan.waits_for_empty, &m.from, now) else {
        return false;
    };
    // Its last commit may repeat the offset with another epoch or metadata.
    let drifted =
        now.offset >= from.offset && distance(from.offset, now.offset) <= plan.drift_limit;
    // A plan that passes records over must not bring back a group that has passed its target by itself.
    let passed =
        target.is_some_and(|target| target.offset > from.offset && now.offset > target.offset);
    drifted && !passed
}

/// The topics of a plan, each once.
#[must_use]
pub fn topics(plan: &Plan) -> BTreeSet<&str> {
    plan.moves
        .iter()
        .map(|m| m.partition.topic.as_str())
        .collect()
}

#[cfg(test)]
mod tests;
