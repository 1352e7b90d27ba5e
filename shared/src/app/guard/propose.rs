//! From proposals to a plan that waits for its approval, or to every reason why there is none.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::group::Watched;
use super::quarantine::{Keeping, Outcome};
use super::{Asked, Ends, Sources};
use crate::app::make_plan::{PlanInputs, make_plan};
use crate::app::observe_stable;
use crate::config::ResolvedGroup;
use crate::domain::group::GroupObservation;
use crate::domain::guard::answers::{ASK_AGAIN_AFTER, Grounds, Known, grounds};
use crate::domain::guard::probe::Probed;
use crate::domain::guard::proposal::{Proposals, SkipRange, propose};
use crate::domain::guard::quarantine::{DedupeId, SkippedRecord};
use crate::domain::guard::rules::Assessment;
use crate::domain::guard::run::{GUARD, GuardAction, GuardRun};
use crate::domain::guard::sample::{Sample, of_latest_runs};
use crate::domain::guard::verdict::{Evidence, Finding};
use crate::domain::identity::Requester;
use crate::domain::ids::{ExecutionArn, PlanId};
use crate::domain::offset::{ClusterId, TopicPartition};
use crate::domain::plan::{PartitionMove, PlanRecord, PlanResult};
use crate::domain::policy::seconds;
use crate::domain::recovery::Claim;
use crate::domain::refusal::Refusal;
use crate::domain::request::{Allowances, ResetSpec, RewindRequest, Selection};
use crate::domain::target::Target;
use crate::domain::target::offsets::resolve_offsets;
use crate::domain::target::skip::{Skip, resolve_skip};
use crate::error::Error;
use crate::ports::{KeepRecords, ReadGroups, ReadRecords};

/// Over how long skips are counted.
const A_DAY: SignedDuration = SignedDuration::from_hours(24);
/// How long the execution of a plan may take until it claims the group.
const UNTIL_CLAIMED: SignedDuration = SignedDuration::from_mins(2);

/// Everything from which a group's plan is made.
pub(super) struct Proposing<'a, R, D, K> {
    pub(super) watched: &'a Watched<'a>,
    pub(super) sources: &'a Sources<R, D, K>,
    pub(super) cluster_id: &'a ClusterId,
    pub(super) samples: &'a [Sample],
    pub(super) assessment: &'a Assessment,
    pub(super) probes: &'a BTreeMap<TopicPartition, Probed>,
    /// Whether the group's consumers read records of aborted and open transactions.
    pub(super) uncommitted: bool,
    pub(super) asked: Option<&'a Asked<'a>>,
    pub(super) ends: Ends<'a>,
}

impl<R: ReadGroups, D: ReadRecords, K: KeepRecords> Proposing<'_, R, D, K> {
    /// Proposes, keeps, plans and starts; notes in `run` what was done and why nothing more.
    pub(super) async fn run(&self, run: &mut GuardRun) -> Result<(), Error> {
        run.dry_run = self.is_dry_run();
        let mut proposals = self.unanswered(self.proposals().await?).await?;
        run.withheld.append(&mut proposals.withheld);
        if proposals.skips.is_empty() && proposals.rewinds.is_empty() {
            return Ok(());
        }
        if let Some(live) = self.live_recovery().await? {
            run.action = GuardAction::RecoveryLive { plan: live };
            return Ok(());
        }
        let mut kept = Outcome::default();
        if !proposals.skips.is_empty() {
            let keeping = Keeping {
                watched: self.watched,
                sources: self.sources,
                cluster_id: self.cluster_id,
                last: self.samples.last(),
                findings: &self.assessment.findings,
                uncommitted: self.uncommitted,
                asked: self.asked.is_some(),
                dry_run: run.dry_run,
            };
            kept = keeping.keep(&proposals.skips).await?;
            run.withheld.append(&mut kept.withheld);
            run.records.clone_from(&kept.records);
            if kept.records.is_empty() && proposals.rewinds.is_empty() {
                return Ok(());
            }
        }
        self.plan_and_start(kept, proposals, run).await
    }

    /// Plans what was kept, and where to go back to. A partition that cannot be planned is withheld, and no other.
    async fn plan_and_start(
        &self,
        kept: Outcome,
        proposals: Proposals,
        run: &mut GuardRun,
    ) -> Result<(), Error> {
        let (mut records, mut rewinds) = (kept.records, proposals.rewinds);
        let partitions = records.iter().map(|record| record.partition.clone());
        let partitions = partitions.chain(rewinds.keys().cloned()).collect();
        let seen = self.observe(&partitions).await?;
        loop {
            run.records.clone_from(&records);
            let request = self.request(&records, &rewinds);
            let target = if records.is_empty() {
                resolve_offsets(&rewinds, &request, &seen)
            } else {
                // What is withheld is named in the plan, and is no part of it.
                let moved: BTreeSet<_> = records.iter().map(|record| &record.partition).collect();
                let committed = committed_of(&proposals.skips, &moved);
                let skip = Skip {
                    two_samples: self.rests_on_two_samples(&committed),
                    committed,
                    records: records.clone(),
                    withheld: withheld(&run.withheld),
                    cautions: kept.cautions.clone(),
                };
                resolve_skip(&skip, &seen)
            };
            let record = self.plan(run, &request, &seen, &target).await?;
            let refusals = match record.result {
                PlanResult::Ready(_) => return self.hand_over(record, run).await,
                // The guard proposes nothing where nothing is wrong; a person gets an answer.
                PlanResult::NothingToDo(_) => {
                    if self.asked.is_some() {
                        run.withheld.push(Refusal::InvalidRequest {
                            field: "ask".to_owned(),
                            problem:
                                "the partition is where it would go to already; nothing was planned"
                                    .to_owned(),
                        });
                    }
                    return Ok(());
                }
                PlanResult::Refused(refusals) => refusals,
            };
            let refused: BTreeSet<_> = refusals
                .iter()
                .filter_map(|refusal| refusal.withholds().cloned())
                .collect();
            let stays = |partition: &TopicPartition| !refused.contains(partition);
            let others = refusals.iter().any(|r| r.withholds().is_none());
            let before = records.len() + rewinds.len();
            records.retain(|record| stays(&record.partition));
            rewinds.retain(|partition, _| stays(partition));
            let after = records.len() + rewinds.len();
            run.withheld.extend(refusals);
            if others || after == 0 || after == before {
                run.records.clear();
                return Ok(());
            }
        }
    }

    /// A person's request says itself whether it is meant; what the guard does by itself, the policy.
    fn is_dry_run(&self) -> bool {
        self.asked.map_or(self.watched.policy().dry_run, |asked| {
            asked.written.dry_run.unwrap_or(true)
        })
    }

    async fn proposals(&self) -> Result<Proposals, Error> {
        let watched = self.watched;
        let since = watched.began - A_DAY;
        let skips = watched
            .store
            .skips_since(&watched.key(self.cluster_id), since)
            .await?;
        Ok(propose(
            self.assessment,
            self.probes,
            watched.policy(),
            self.uncommitted,
            self.asked.map(|asked| &asked.ask),
            &skips,
        ))
    }

    /// `proposals` without what people said no to, or did not answer. What a person asks for is planned whatever was
    /// answered before.
    async fn unanswered(&self, proposals: Proposals) -> Result<Proposals, Error> {
        let nothing = proposals.skips.is_empty() && proposals.rewinds.is_empty();
        if self.asked.is_some() || nothing {
            return Ok(proposals);
        }
        let (watched, cluster) = (self.watched, self.cluster_id);
        let remembered = seconds(watched.policy().rejected_for_seconds).max(ASK_AGAIN_AFTER);
        let answered = watched
            .store
            .answered_since(&watched.key(cluster), watched.began - remembered)
            .await?;
        let known = Known {
            assessment: self.assessment,
            probes: self.probes,
            reads_uncommitted: self.uncommitted,
            policy: watched.policy(),
            now: watched.began,
        };
        let last = self.samples.last();
        let topic_id = |topic: &str| last.and_then(|last| last.topic_id(topic));
        let dedupe_id = |partition: &TopicPartition, offset| {
            let topic_id = topic_id(&partition.topic);
            DedupeId::of(cluster, watched.group, topic_id, partition, offset)
        };
        Ok(known.without_answered(proposals, &answered, dedupe_id, topic_id))
    }

    /// The plan of the recovery that holds the group, or will in a moment. A person's request is planned all the same
    /// where that is one of the guard's own, which it may supersede.
    async fn live_recovery(&self) -> Result<Option<PlanId>, Error> {
        let (store, group) = (self.watched.store, self.watched.key(self.cluster_id));
        let claim = store.claim(&group).await?;
        let live = match claim {
            Some(claim) if self.is_open(&claim).await? => Some(claim.plan),
            _ => self.handed_over().await?,
        };
        if self.asked.is_some()
            && let Some(plan) = &live
        {
            let holder = store.plan(plan).await?;
            if holder.is_some_and(|record| record.is_of_guard()) {
                return Ok(None);
            }
        }
        Ok(live)
    }

    /// Whether the recovery of a claim is open. One whose claim ran out is open until it is reported on: what was decided
    /// about it is not known before.
    async fn is_open(&self, claim: &Claim) -> Result<bool, Error> {
        if claim.expires_at > Timestamp::now() {
            return Ok(true);
        }
        let recovery = self.watched.store.recovery(&claim.plan).await?;
        Ok(recovery.is_some_and(|recovery| recovery.closed_at.is_none()))
    }

    /// The plan that an earlier run handed over, and whose execution has not come to claim the group: alerts may start
    /// runs faster than that.
    async fn handed_over(&self) -> Result<Option<PlanId>, Error> {
        let (store, group) = (self.watched.store, self.watched.group);
        let cluster = &self.watched.resolved.cluster.name;
        let since = self.watched.began - UNTIL_CLAIMED;
        for run in store.guard_runs_since(cluster, group, since).await? {
            if let GuardAction::Proposed { plan } = run.action
                && store.recovery(&plan).await?.is_none()
            {
                return Ok(Some(plan));
            }
        }
        Ok(None)
    }

    fn rests_on_two_samples(&self, moved: &BTreeMap<TopicPartition, i64>) -> bool {
        self.assessment.findings.iter().any(|finding| {
            moved.contains_key(&finding.partition)
                && finding.evidence.contains(&Evidence::TwoSamples)
        })
    }

    /// The group now, as far as a plan about `partitions` needs it.
    async fn observe(
        &self,
        partitions: &BTreeSet<TopicPartition>,
    ) -> Result<GroupObservation, Error> {
        let (groups, group) = (&self.sources.groups, self.watched.group);
        observe_stable(groups, group, partitions).await
    }

    /// A guard's plan always waits until the group has stopped.
    async fn plan(
        &self,
        run: &GuardRun,
        request: &RewindRequest,
        seen: &GroupObservation,
        target: &Target,
    ) -> Result<PlanRecord, Error> {
        let resolved = self.watched.resolved;
        let resolved = ResolvedGroup {
            policy: resolved.policy.waiting_for_empty(),
            ..resolved.clone()
        };
        let inputs = PlanInputs {
            id: PlanId(ulid::Ulid::generate().to_string()),
            execution: ExecutionArn(run.id.0.clone()),
            now: Timestamp::now(),
            request,
            resolved: &resolved,
            seen,
            looks: of_latest_runs(self.samples),
            target: Ok(target),
        };
        make_plan(self.watched.store, inputs).await
    }

    fn request(
        &self,
        records: &[SkippedRecord],
        rewinds: &BTreeMap<TopicPartition, i64>,
    ) -> RewindRequest {
        let mut offsets = rewinds.clone();
        for record in records {
            // In the order of offsets, so the last one stays.
            offsets.insert(
                record.partition.clone(),
                record.record.offset.saturating_add(1),
            );
        }
        let why = self.why(&offsets);
        let (requester, requested_by, reason) = match self.asked {
            None => (Requester::Guard, GUARD.to_owned(), why),
            Some(asked) => (
                Requester::Unverified,
                asked.written.requested_by.clone(),
                [asked.written.reason.clone(), why].join(" — "),
            ),
        };
        RewindRequest {
            cluster: self.watched.resolved.cluster.name.clone(),
            group: self.watched.group.clone(),
            target: ResetSpec::ToOffsets(offsets),
            selection: Selection::All,
            // Where it goes back, it goes to what is left of the log: never below its start, wherever that is when the
            // plan is applied.
            allow: Allowances {
                clamp: records.is_empty(),
                ..Allowances::default()
            },
            dry_run: self.is_dry_run(),
            reason,
            requested_by,
            requester,
        }
    }

    /// What was found where the plan moves, in a few words: the verdict and what speaks for it most.
    fn why(&self, moved: &BTreeMap<TopicPartition, i64>) -> String {
        const TOLD: usize = 3;
        let of = |finding: &Finding| {
            let evidence: Vec<_> = finding
                .evidence
                .iter()
                .take(2)
                .map(ToString::to_string)
                .collect();
            format!(
                "{} {} ({} confidence): {}",
                finding.partition,
                finding.verdict,
                finding.confidence,
                evidence.join("; ")
            )
        };
        let found: Vec<_> = self
            .assessment
            .findings
            .iter()
            .filter(|finding| moved.contains_key(&finding.partition))
            .collect();
        let mut told: Vec<_> = found.iter().take(TOLD).map(|f| of(f)).collect();
        if found.len() > TOLD {
            told.push(format!("and {} more", found.len() - TOLD));
        }
        told.join(". ")
    }

    /// What the plan rests on, for each partition that it moves.
    fn grounds_of(&self, record: &PlanRecord) -> Vec<(TopicPartition, Grounds)> {
        let PlanResult::Ready(plan) = &record.result else {
            return Vec::new();
        };
        let of_move = |m: &PartitionMove| {
            let mut findings = self.assessment.findings.iter();
            let finding = findings.find(|finding| finding.partition == m.partition)?;
            Some((m.partition.clone(), grounds(finding)))
        };
        plan.moves.iter().filter_map(of_move).collect()
    }

    /// Stores the plan and, unless it is a dry run, starts the recovery that asks for its approval.
    async fn hand_over(&self, record: PlanRecord, run: &mut GuardRun) -> Result<(), Error> {
        let id = record.id.clone();
        let record = PlanRecord {
            grounds: self.grounds_of(&record),
            ..record
        };
        self.watched.store.put_plan(&record).await?;
        if run.dry_run {
            run.action = GuardAction::WouldPropose { plan: id };
            return Ok(());
        }
        // Keeping and planning take time in which another run may have come to the same.
        if let Some(live) = self.live_recovery().await? {
            run.action = GuardAction::RecoveryLive { plan: live };
            return Ok(());
        }
        let input = json!({ "plan_id": id });
        let ends = self.ends;
        ends.executions.start(&id.0, &input).await?;
        run.action = GuardAction::Proposed { plan: id };
        // On record at once: until it has claimed the group, that is how other runs see it.
        self.watched.store.put_guard_run(run).await?;
        Ok(())
    }
}

/// Why partitions are withheld, where that is of single ones.
fn withheld(refusals: &[Refusal]) -> BTreeMap<TopicPartition, String> {
    let of_one = |refusal: &Refusal| Some((refusal.withholds()?.clone(), refusal.to_string()));
    refusals.iter().filter_map(of_one).collect()
}

/// Where each moved partition was committed when its records were read.
fn committed_of(
    skips: &[SkipRange],
    moved: &BTreeSet<&TopicPartition>,
) -> BTreeMap<TopicPartition, i64> {
    let moved = skips
        .iter()
        .filter(|range| moved.contains(&range.partition));
    moved
        .map(|range| (range.partition.clone(), range.committed))
        .collect()
}
