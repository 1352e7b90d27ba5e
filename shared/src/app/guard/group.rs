//! One run over one group.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::look::Looks;
use super::pace::Pace;
use super::probe::Probing;
use super::propose::Proposing;
use super::{Asked, Ends, Sources};
use crate::aws::metrics;
use crate::config::ResolvedGroup;
use crate::domain::guard::policy::{GuardPolicy, RemediationAction};
use crate::domain::guard::probe::Probed;
use crate::domain::guard::rules::{Assessment, judge, reads_uncommitted, trouble_of_members};
use crate::domain::guard::run::{GuardAction, GuardRun, SecondSource};
use crate::domain::guard::sample::{LiveRecovery, PartitionSample, Sample, Stage};
use crate::domain::guard::verdict::{Finding, Status, Verdict};
use crate::domain::ids::{GroupKey, RunId};
use crate::domain::offset::{ClusterId, Fault, GroupId, TopicPartition};
use crate::domain::plan::PlanResult;
use crate::domain::refusal::Refusal;
use crate::error::Error;
use crate::failure::chain;
use crate::ports::{KeepRecords, ReadGroups, ReadRecords};
use crate::rest_proxy::compare;
use crate::store::Store;

/// How often a person's request is tried where other runs are faster.
const TRIES: usize = 3;
/// How many findings a run keeps and tells; the counts are of all.
const KEPT: usize = 200;

/// What became of one run.
pub(super) struct Looked {
    pub(super) run: GuardRun,
    /// Of all partitions, the healthy ones too.
    pub(super) findings: Vec<Finding>,
    /// Whether no other run was faster: that one keeps, proposes and tells.
    pub(super) first: bool,
    /// Whether the run's time was enough for a first look.
    pub(super) reached: bool,
    /// What kept it from planning.
    pub(super) failure: Option<Error>,
}

impl Looked {
    fn of(run: GuardRun, findings: Vec<Finding>) -> Self {
        Self {
            run,
            findings,
            first: true,
            reached: true,
            failure: None,
        }
    }
}

/// Of a group that could not be read, which nothing was kept of.
impl From<GuardRun> for Looked {
    fn from(run: GuardRun) -> Self {
        Self::of(run, Vec::new())
    }
}

/// One group that is looked at.
pub(super) struct Watched<'a> {
    pub(super) store: &'a Store,
    pub(super) resolved: &'a ResolvedGroup<'a>,
    pub(super) group: &'a GroupId,
    /// When the run began.
    pub(super) began: Timestamp,
    /// The run's id.
    pub(super) id: RunId,
    /// How far the time of all groups' runs reaches.
    pub(super) pace: &'a Pace,
}

impl Watched<'_> {
    pub(super) fn policy(&self) -> &GuardPolicy {
        &self.resolved.policy.guard
    }

    /// A run in which the group could not be read. What was sampled before stays as it is.
    pub(super) fn unknown(&self, cluster_id: Option<&ClusterId>, why: String) -> GuardRun {
        GuardRun {
            id: self.id.clone(),
            at: self.began,
            cluster: self.resolved.cluster.name.clone(),
            cluster_id: cluster_id.cloned(),
            group: self.group.clone(),
            status: Status::Unknown,
            failed: Some(why),
            state: None,
            members: 0,
            looks: 0,
            of_group: None,
            recovery: None,
            findings: Vec::new(),
            verdicts: BTreeMap::new(),
            second_source: SecondSource::NotConfigured,
            withheld: Vec::new(),
            records: Vec::new(),
            dry_run: self.policy().dry_run,
            action: GuardAction::Nothing,
        }
    }

    /// Looks, judges, and does what follows. A person's request is not left to a run that was faster and knows nothing of
    /// it: it looks again.
    ///
    /// # Errors
    /// The table failed, or other runs were faster again and again. What fails on the brokers is a finding.
    pub(super) async fn run<R: ReadGroups, D: ReadRecords, K: KeepRecords>(
        &self,
        sources: &Sources<R, D, K>,
        cluster_id: &ClusterId,
        asked: Option<&Asked<'_>>,
        ends: Ends<'_>,
    ) -> Result<Looked, Error> {
        for _ in 0..TRIES {
            let looked = Box::pin(self.once(sources, cluster_id, asked, ends)).await?;
            if looked.first || asked.is_none() {
                return Ok(looked);
            }
        }
        Err(Error::Overtaken {
            group: self.group.0.clone(),
        })
    }

    /// One try.
    ///
    /// # Errors
    /// The table or Step Functions failed. What fails on the brokers is a finding.
    async fn once<R: ReadGroups, D: ReadRecords, K: KeepRecords>(
        &self,
        sources: &Sources<R, D, K>,
        cluster_id: &ClusterId,
        asked: Option<&Asked<'_>>,
        ends: Ends<'_>,
    ) -> Result<Looked, Error> {
        if let Some(pinned) = &self.resolved.cluster.cluster_id
            && pinned != cluster_id
        {
            let why = format!(
                "the brokers belong to cluster {}, configured is {}",
                cluster_id.0, pinned.0
            );
            return Ok(self.unknown(Some(cluster_id), why).into());
        }
        let ring = self
            .store
            .samples(&self.key(cluster_id), self.began)
            .await?;
        let mut samples = ring.samples;
        let before = samples.len();
        let live = self.live(cluster_id).await?;
        let looks = Looks {
            groups: &sources.groups,
            group: self.group,
            policy: self.policy(),
            run: self.began,
            moved_at: self.store.last_recovery_end(&self.key(cluster_id)).await?,
            pace: self.pace,
        };
        if let Err(why) = looks.take(&mut samples).await {
            if self.pace.is_over() {
                // Every call fails then, whatever state the brokers are in.
                return Ok(Looked {
                    reached: false,
                    ..self.unknown(Some(cluster_id), why).into()
                });
            }
            let mut run = self.unknown(Some(cluster_id), why);
            run.second_source = sources.only_opinion(Some(cluster_id), self.group).await;
            return Ok(run.into());
        }
        let live = self.meanwhile(live, self.live(cluster_id).await?).await?;
        for look in samples.iter_mut().skip(before) {
            look.recovery.clone_from(&live);
        }
        let uncommitted = reads_uncommitted(&samples, self.policy());
        let now = Timestamp::now();
        let trouble = trouble_of_members(&samples, self.policy(), now);
        for look in samples.iter_mut().skip(before) {
            look.trouble = trouble;
        }
        // Before any record is read: whatever a record does to this run, what it saw of the group is kept.
        let looks = samples.get(before..).unwrap_or_default();
        let first = self
            .store
            .put_samples(
                &self.key(cluster_id),
                ring.seq,
                looks,
                self.policy().least_apart(),
                now,
            )
            .await?;
        let (assessment, probes) = self
            .judge(&samples, &sources.records, cluster_id, uncommitted, asked)
            .await?;
        let mut run = self.found(cluster_id, &samples, looks.len(), &assessment);
        run.second_source = match (
            samples.last(),
            sources.second_opinion(cluster_id, self.group).await,
        ) {
            (Some(last), Some(Ok(opinion))) => compare(&opinion, last),
            (_, Some(Err(why))) => SecondSource::Unavailable { why },
            (_, _) => SecondSource::NotConfigured,
        };
        if !first {
            // Two runs at once would keep and propose everything twice: the other one does it.
            tracing::info!(group = self.group.0, "another run was faster");
            return Ok(Looked {
                first,
                ..Looked::of(run, assessment.findings)
            });
        }
        let proposing = Proposing {
            watched: self,
            sources,
            cluster_id,
            samples: &samples,
            assessment: &assessment,
            probes: &probes,
            uncommitted,
            asked,
            ends,
        };
        // What was found is kept and told all the same.
        let failure = proposing.run(&mut run).await.err();
        if failure.is_some() {
            run.withheld.push(Refusal::EvidenceIncomplete {
                at: String::new(),
                fault: Fault::Failed {
                    code: "PLANNING_FAILED".to_owned(),
                },
            });
        }
        Ok(Looked {
            failure,
            ..Looked::of(run, assessment.findings)
        })
    }

    pub(super) fn key(&self, cluster_id: &ClusterId) -> GroupKey {
        GroupKey::new(cluster_id.clone(), self.group.clone())
    }

    /// The recovery that holds the group now.
    ///
    /// # Errors
    /// The table failed.
    async fn live(&self, cluster_id: &ClusterId) -> Result<Option<LiveRecovery>, Error> {
        let Some(claim) = self.store.claim(&self.key(cluster_id)).await? else {
            return Ok(None);
        };
        let recovery = self.store.recovery(&claim.plan).await?;
        let live = |recovery| LiveRecovery::from_claim(&claim, &recovery, Timestamp::now());
        Ok(recovery.and_then(live))
    }

    /// The recovery that held the group while it was looked at, of what held it before and after. One that was approved
    /// before and is gone after may have moved the group in between.
    ///
    /// # Errors
    /// The table failed.
    async fn meanwhile(
        &self,
        before: Option<LiveRecovery>,
        after: Option<LiveRecovery>,
    ) -> Result<Option<LiveRecovery>, Error> {
        let ended = before.filter(|before| {
            let same = |after: &LiveRecovery| after.plan == before.plan;
            before.stage >= Stage::Approved && !after.as_ref().is_some_and(same)
        });
        let applies = |live: &LiveRecovery| live.stage == Stage::Applies;
        let (live, may_apply) = match (ended, after) {
            (Some(ended), _) => (ended, true),
            (None, Some(after)) => (after.clone(), applies(&after)),
            (None, None) => return Ok(None),
        };
        if !may_apply {
            return Ok(Some(live));
        }
        let plan = self.store.plan(&live.plan).await?;
        Ok(Some(match plan.map(|record| record.result) {
            Some(PlanResult::Ready(plan)) => live.with_targets(&plan),
            _ => live,
        }))
    }

    /// Writes the run's metrics. How old the newest checkpoint is belongs to them: who takes none would not say so.
    pub(super) async fn measure(&self, run: &GuardRun, findings: &[Finding]) {
        let newest = match &run.cluster_id {
            Some(cluster_id) => {
                let newest = self
                    .store
                    .newest_header(&self.key(cluster_id), self.began)
                    .await;
                newest
                    .inspect_err(|error| {
                        tracing::warn!(
                            group = self.group.0,
                            error = chain(error),
                            "the age of the newest checkpoint is not known"
                        );
                    })
                    .ok()
                    .flatten()
                    .map(|header| header.ended_at)
            }
            None => None,
        };
        metrics::guard::emit(run, findings, newest);
    }

    /// Judges, reads what the rules want to know more of, and judges again. What a person asks to be passed over is read
    /// whatever the rules say, and before all else.
    ///
    /// # Errors
    /// The table failed.
    async fn judge<D: ReadRecords>(
        &self,
        samples: &[Sample],
        records: &D,
        cluster_id: &ClusterId,
        uncommitted: bool,
        asked: Option<&Asked<'_>>,
    ) -> Result<(Assessment, BTreeMap<TopicPartition, Probed>), Error> {
        let policy = self.policy();
        let none = BTreeMap::new();
        let first = judge(samples, &none, policy, Timestamp::now());
        let skip = asked
            .map(|asked| &asked.ask)
            .filter(|ask| ask.action == RemediationAction::SkipPoisonRecord)
            .map(|ask| &ask.partition);
        let stalled = first.wants_probe.iter().filter(|p| Some(*p) != skip);
        let last = samples.last();
        let wanted: Vec<_> = skip
            .into_iter()
            .chain(stalled)
            .filter_map(|p| Some((p.clone(), to_probe(last?.of_partition(p)?))))
            .collect();
        if wanted.is_empty() {
            return Ok((first, none));
        }
        let key = self.key(cluster_id);
        let probing = Probing {
            records,
            store: self.store,
            group: &key,
            policy,
            reads_uncommitted: uncommitted,
            asked: skip,
            pace: self.pace,
        };
        let probes = probing.all(&wanted).await?;
        let assessment = judge(samples, &probes, policy, Timestamp::now());
        Ok((assessment, probes))
    }

    fn found(
        &self,
        cluster_id: &ClusterId,
        samples: &[Sample],
        looks: usize,
        assessment: &Assessment,
    ) -> GuardRun {
        let mut verdicts: BTreeMap<Verdict, usize> = BTreeMap::new();
        for finding in &assessment.findings {
            *verdicts.entry(finding.verdict).or_default() += 1;
        }
        let mut findings: Vec<Finding> = assessment
            .findings
            .iter()
            .filter(|finding| finding.status != Status::Healthy)
            .cloned()
            .collect();
        // The worst first, where there are more than are kept; and in the order of partitions.
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.status));
        findings.truncate(KEPT);
        findings.sort_by(|a, b| a.partition.cmp(&b.partition));
        let last = samples.last();
        GuardRun {
            status: assessment.status,
            failed: None,
            state: last.map(|last| last.state),
            members: last.map_or(0, |last| last.members.len()),
            looks,
            of_group: assessment.of_group.clone(),
            recovery: last
                .and_then(|last| last.recovery.clone())
                .map(|live| LiveRecovery {
                    targets: Vec::new(),
                    ..live
                }),
            findings,
            verdicts,
            ..self.unknown(Some(cluster_id), String::new())
        }
    }
}

/// What is read of a partition begins at its commit and, where it has none, at its log start.
fn to_probe(sample: &PartitionSample) -> PartitionSample {
    PartitionSample {
        committed: sample.committed.or(Some(sample.log.log_start)),
        ..sample.clone()
    }
}
