//! Plans a recovery: finds the target, reads the group, lets the rules decide, claims the group, stores the plan.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{observe_stable, plan_id};
use crate::config::{Config, ResolvedGroup};
use crate::domain::checkpoint::{Checkpoint, CheckpointHeader};
use crate::domain::identity::Requester;
use crate::domain::offset::{ClusterId, CommittedOffset, Fault, TopicPartition};
use crate::domain::plan::{
    Disowns, Plan, PlanId, PlanRecord, PlanResult, Source, check_plan, partitions,
};
use crate::domain::planner::{Planned, Planning, Targets, plan, seconds};
use crate::domain::reasons;
use crate::domain::recovery::{Claim, Outcome, Recovery};
use crate::domain::refusal::Refusal;
use crate::domain::request::{ResetSpec, RewindRequest};
use crate::error::Error;
use crate::ports::ReadGroups;
use crate::store::{ErrorClass, Opened, Store};
use crate::wire::{LONGEST_TEXT, PlanAnswer, PlanVerdict, parse_request, request_hash};

/// How long a claim lives beyond the last moment in which its plan may be applied: Kafka cannot check a fence, so
/// whatever is still under way then has to be over before another recovery may begin.
pub const CLAIM_MARGIN: SignedDuration = SignedDuration::from_mins(10);

/// Plans what an execution's input asks for.
///
/// A retry of the step finds what its first try stored and answers the same.
///
/// # Errors
/// The brokers or the table failed. A refusal is an answer, not an error.
pub async fn run<R, F>(
    config: &Config,
    store: &Store,
    execution: &str,
    started_at: Timestamp,
    input: &Value,
    connect: F,
) -> Result<PlanAnswer, Error>
where
    R: ReadGroups,
    F: AsyncFn(&str) -> Result<R, Error>,
{
    let id = plan_id(execution, started_at);
    if let Some(record) = store.plan(&id).await? {
        return of_execution(execution, &record).map(answer);
    }
    if let Some(given) = input.get("plan_id") {
        return take_over(store, execution, id, given).await;
    }
    let now = Timestamp::now();
    let empty = Value::Null;
    let written = input.get("request").unwrap_or(&empty);
    // Where exactly one cluster is configured, a request need not name it.
    let only = config.cluster(None).map(|cluster| cluster.name.as_str());
    let mut request = match parse_request(written, only) {
        Ok(request) => request,
        Err(refusals) => {
            // The group's name is part of a key, which has room for so much.
            let text = |field: &str| -> String {
                let text = written[field].as_str().unwrap_or_default();
                text.chars().take(LONGEST_TEXT).collect()
            };
            let record = PlanRecord {
                id,
                execution: execution.to_owned(),
                created_at: now,
                cluster: text("cluster"),
                group: crate::domain::offset::GroupId(text("group")),
                dry_run: true,
                requested_by: text("requested_by"),
                reason: text("reason"),
                result: PlanResult::Refused(refusals),
            };
            return keep(store, record).await;
        }
    };
    let name = execution.rsplit(':').next().unwrap_or(execution);
    if let Some(person) = store.requester(name, &request_hash(written)).await? {
        request.requester = Requester::Verified(person);
    }
    let result = decide(config, store, execution, &id, now, &request, connect).await?;
    let record = PlanRecord {
        id,
        execution: execution.to_owned(),
        created_at: now,
        cluster: request.cluster,
        group: request.group,
        dry_run: request.dry_run,
        requested_by: request.requested_by,
        reason: request.reason,
        result,
    };
    keep(store, record).await
}

async fn keep(store: &Store, record: PlanRecord) -> Result<PlanAnswer, Error> {
    match store.put_plan(&record).await {
        Ok(()) => Ok(answer(&record)),
        // Another try of this step, whose caller gave up on it, was faster: what it stored is what stands.
        Err(error) if error.class == ErrorClass::Conflict => match store.plan(&record.id).await? {
            Some(first) => of_execution(&record.execution, &first).map(answer),
            None => Err(error.into()),
        },
        Err(error) => Err(error.into()),
    }
}

/// A stored plan that this very execution made; anything else under its id is not what was asked for.
fn of_execution<'a>(execution: &str, stored: &'a PlanRecord) -> Result<&'a PlanRecord, Error> {
    if stored.execution == execution {
        return Ok(stored);
    }
    Err(Error::Broken(format!(
        "plan {} of execution {execution} was stored by {}; find out who wrote to the table, and ask again",
        stored.id, stored.execution
    )))
}

fn answer(record: &PlanRecord) -> PlanAnswer {
    let (verdict, digest, summary) = match &record.result {
        PlanResult::Refused(refusals) => {
            let codes = reasons::codes(refusals);
            (PlanVerdict::Refused, None, codes.join(", "))
        }
        PlanResult::NothingToDo(_) => (PlanVerdict::NothingToDo, None, "nothing to do".to_owned()),
        PlanResult::Ready(plan) => {
            let verdict = if record.dry_run {
                PlanVerdict::DryRun
            } else {
                PlanVerdict::NeedsApproval
            };
            let summary = format!(
                "{}, at most {} to replay, at most {} to skip",
                partitions(plan.moves.len()),
                plan.replayed(),
                plan.skipped()
            );
            (verdict, Some(plan.digest().0), summary)
        }
    };
    PlanAnswer {
        verdict,
        plan_id: record.id.clone(),
        digest,
        summary,
    }
}

/// Everything from the target to the claim.
async fn decide<R, F>(
    config: &Config,
    store: &Store,
    execution: &str,
    id: &PlanId,
    now: Timestamp,
    request: &RewindRequest,
    connect: F,
) -> Result<PlanResult, Error>
where
    R: ReadGroups,
    F: AsyncFn(&str) -> Result<R, Error>,
{
    let Some(resolved) = config.resolve(&request.cluster, &request.group) else {
        let asked = format!("group {} on cluster {}", request.group.0, request.cluster);
        return Ok(PlanResult::Refused(vec![Refusal::NotConfigured { asked }]));
    };
    let reader = connect(&request.cluster).await?;
    let cluster_id = reader.cluster_id().await?;
    let found = find(store, &cluster_id, request, now).await?;
    let mut seen = observe_stable(&reader, &request.group, &found.partitions()).await?;
    if let Ok(description) = &mut seen.description
        && !resolved.cluster.has_one_principal()
    {
        // The brokers spoke of the reading principal, and another one will apply.
        description.may_alter = None;
    }
    let found = match found {
        // Only now is it known which partitions to ask about.
        Found::At { at, .. } => {
            let partitions: Vec<_> = seen.partitions.keys().cloned().collect();
            let offsets = reader.offsets_for_time(&partitions, at).await?;
            Found::At { at, offsets }
        }
        found => found,
    };
    let mut planned = plan(&Planning {
        id: id.clone(),
        now,
        request,
        policy: &resolved.policy,
        config_hash: &resolved.config_hash,
        pinned_cluster: resolved.cluster.cluster_id.as_ref(),
        seen: &seen,
        targets: found.targets(),
    });
    if let Planned::Ready(plan) = &mut planned
        && plan.disowns.is_none()
    {
        plan.disowns = undone_since(store, plan).await?;
    }
    if let Some(live) = claim(
        store,
        execution,
        request,
        &cluster_id,
        &resolved,
        &planned,
        now,
    )
    .await?
    {
        match &mut planned {
            Planned::Refused(refusals) => refusals.push(live),
            Planned::Ready(_) | Planned::NothingToDo(_) => {
                planned = Planned::Refused(vec![live]);
            }
        }
    }
    Ok(match planned {
        Planned::Ready(plan) => {
            if let Some(fault) = check_plan(&plan).first() {
                return Err(Error::Broken(format!(
                    "the plan contradicts itself: {fault}"
                )));
            }
            PlanResult::Ready(*plan)
        }
        Planned::NothingToDo(left_alone) => PlanResult::NothingToDo(left_alone),
        Planned::Refused(refusals) => PlanResult::Refused(refusals),
    })
}

/// What a plan that goes back without a source checkpoint undoes: everything after the newest checkpoint that its
/// targets do not lie before.
async fn undone_since(store: &Store, plan: &Plan) -> Result<Option<Disowns>, Error> {
    if matches!(plan.source, Source::Undo { .. }) || !plan.goes_back() {
        return Ok(None);
    }
    let headers = store
        .headers(&plan.cluster_id, &plan.group, plan.created_at)
        .await?;
    for header in headers.iter().filter(|header| header.disowned_by.is_none()) {
        let checkpoint = store
            .checkpoint(&plan.cluster_id, &plan.group, header)
            .await?;
        if !checkpoint.is_beyond(&plan.moves) {
            let after = checkpoint.ended_at;
            return Ok(Some(Disowns { after }));
        }
    }
    let oldest = headers
        .last()
        .map(|oldest| oldest.ended_at - SignedDuration::from_nanos(1));
    Ok(oldest.map(|after| Disowns { after }))
}

/// Claims the group for a plan that is to be executed; for anything else, only looks whether somebody holds it.
///
/// The claim comes before the plan is stored: a crash in between leaves a claim that its retry finds to be its own.
async fn claim(
    store: &Store,
    execution: &str,
    request: &RewindRequest,
    cluster_id: &ClusterId,
    resolved: &ResolvedGroup<'_>,
    planned: &Planned,
    now: Timestamp,
) -> Result<Option<Refusal>, Error> {
    let live = |claim: Claim| Refusal::RecoveryLive {
        plan: claim.plan,
        execution: claim.execution,
    };
    let Planned::Ready(plan) = planned else {
        let held = store.claim(cluster_id, &request.group).await?;
        let by_another = |c: &Claim| c.expires_at > now && c.execution != execution;
        return Ok(held.filter(by_another).map(live));
    };
    if request.dry_run {
        let held = store.claim(cluster_id, &request.group).await?;
        return Ok(held.filter(|claim| claim.expires_at > now).map(live));
    }
    match open(
        store,
        execution,
        plan,
        resolved.policy.apply_within_seconds,
        now,
    )
    .await?
    {
        Opened::Yes => Ok(None),
        Opened::HeldBy(claim) => Ok(Some(live(claim))),
        Opened::PlanUsed => Ok(Some(Refusal::PlanUsed {
            plan: plan.id.clone(),
        })),
    }
}

async fn open(
    store: &Store,
    execution: &str,
    plan: &Plan,
    apply_within_seconds: u32,
    now: Timestamp,
) -> Result<Opened, Error> {
    let claim = Claim {
        execution: execution.to_owned(),
        plan: plan.id.clone(),
        expires_at: plan.approve_by + seconds(apply_within_seconds) + CLAIM_MARGIN,
    };
    let recovery = Recovery::open(plan, execution, now);
    match store.open_recovery(&recovery, &claim, now).await? {
        Opened::HeldBy(holder)
            if yields(store, plan, &holder).await?
                && store.supersede_recovery(&recovery, &claim, &holder).await? =>
        {
            Ok(Opened::Yes)
        }
        opened => Ok(opened),
    }
}

/// Whether the plan that holds the group gives way: one that the guard made by itself, to one that a person asks for.
async fn yields(store: &Store, plan: &Plan, holder: &Claim) -> Result<bool, Error> {
    if plan.requester == Requester::Guard {
        return Ok(false);
    }
    let held = store.plan(&holder.plan).await?;
    Ok(held.is_some_and(|record| record.is_of_guard()))
}

/// Executes a plan that was made before: by the guard, or by a dry run that a person has read.
async fn take_over(
    store: &Store,
    execution: &str,
    own_id: PlanId,
    given: &Value,
) -> Result<PlanAnswer, Error> {
    let now = Timestamp::now();
    let id = PlanId(reasons::cut(
        given.as_str().unwrap_or_default(),
        LONGEST_TEXT,
    ));
    let record = store.plan(&id).await?;
    let refusal = match record.as_ref().map(|record| &record.result) {
        None => Refusal::PlanNotFound { plan: id.clone() },
        Some(PlanResult::Refused(_) | PlanResult::NothingToDo(_)) => {
            Refusal::PlanNotFound { plan: id.clone() }
        }
        Some(PlanResult::Ready(plan)) if now >= plan.approve_by => Refusal::ApprovalExpired {
            approve_by: plan.approve_by,
        },
        Some(PlanResult::Ready(plan)) if let Some(record) = plan.unkept() => {
            Refusal::QuarantineUnconfirmed {
                partition: record.partition.clone(),
                offset: record.record.offset,
                why: "the plan is a dry run, which keeps nothing; ask again without dry_run"
                    .to_owned(),
            }
        }
        // Whoever asked for it only wanted to read it, and who wants it done now is not known.
        Some(PlanResult::Ready(plan)) if plan.four_eyes && plan.requester != Requester::Guard => {
            Refusal::RequesterUnverified
        }
        Some(PlanResult::Ready(plan)) => {
            match open(store, execution, plan, plan.apply_within_seconds, now).await? {
                Opened::Yes => {
                    let mut taken = record.map_or_else(
                        || Err(Error::Broken("a plan that was read is gone".to_owned())),
                        Ok,
                    )?;
                    taken.dry_run = false;
                    return Ok(answer(&taken));
                }
                Opened::HeldBy(claim) => Refusal::RecoveryLive {
                    plan: claim.plan,
                    execution: claim.execution,
                },
                Opened::PlanUsed => Refusal::PlanUsed { plan: id.clone() },
            }
        }
    };
    let refused = PlanRecord {
        id: own_id,
        execution: execution.to_owned(),
        created_at: now,
        cluster: record.as_ref().map_or(String::new(), |r| r.cluster.clone()),
        group: record.map_or_else(
            || crate::domain::offset::GroupId(String::new()),
            |r| r.group,
        ),
        dry_run: false,
        requested_by: String::new(),
        reason: String::new(),
        result: PlanResult::Refused(vec![refusal]),
    };
    keep(store, refused).await
}

/// The target of a request, owned.
enum Found {
    Checkpoint {
        checkpoint: Box<Checkpoint>,
        newest: Option<Box<Checkpoint>>,
        later: Vec<CheckpointHeader>,
        passed_over: (usize, BTreeSet<PlanId>),
    },
    At {
        at: Timestamp,
        offsets: BTreeMap<TopicPartition, Result<Option<i64>, Fault>>,
    },
    Offsets(BTreeMap<TopicPartition, i64>),
    Shift(i64),
    Earliest,
    Undo {
        plan: Box<Plan>,
        pre_image: BTreeMap<TopicPartition, Option<CommittedOffset>>,
    },
    /// There is none, and this is why.
    Missing(Refusal),
}

impl Found {
    /// What the reading must ask for by name.
    fn partitions(&self) -> BTreeSet<TopicPartition> {
        match self {
            Self::Checkpoint {
                checkpoint, newest, ..
            } => checkpoint
                .partitions
                .keys()
                .chain(newest.iter().flat_map(|newest| newest.partitions.keys()))
                .cloned()
                .collect(),
            Self::Offsets(offsets) => offsets.keys().cloned().collect(),
            Self::Undo { plan, .. } => plan.moves.iter().map(|m| m.partition.clone()).collect(),
            Self::At { .. } | Self::Shift(_) | Self::Earliest | Self::Missing(_) => BTreeSet::new(),
        }
    }

    fn targets(&self) -> Targets<'_> {
        match self {
            Self::Checkpoint {
                checkpoint,
                newest,
                later,
                passed_over,
            } => Targets::Checkpoint {
                checkpoint,
                newest: newest.as_deref(),
                later,
                passed_over: passed_over.clone(),
            },
            Self::At { at, offsets } => Targets::Timestamp { at: *at, offsets },
            Self::Offsets(offsets) => Targets::Offsets(offsets),
            Self::Shift(by) => Targets::Shift(*by),
            Self::Earliest => Targets::Earliest,
            Self::Undo { plan, pre_image } => Targets::Undo { plan, pre_image },
            Self::Missing(refusal) => Targets::Missing(refusal),
        }
    }
}

async fn find(
    store: &Store,
    cluster_id: &ClusterId,
    request: &RewindRequest,
    now: Timestamp,
) -> Result<Found, Error> {
    let at = |at| Found::At {
        at,
        offsets: BTreeMap::new(),
    };
    Ok(match &request.target {
        ResetSpec::ToDatetime(time) => at(*time),
        ResetSpec::ByDuration(duration) => match now.checked_sub(*duration) {
            Ok(time) => at(time),
            Err(_) => Found::Missing(Refusal::InvalidRequest {
                field: "by_duration".to_owned(),
                problem: "it reaches further back than time itself; write PT2H30M".to_owned(),
            }),
        },
        ResetSpec::ToOffsets(offsets) => Found::Offsets(offsets.clone()),
        ResetSpec::ShiftBy(by) => Found::Shift(*by),
        ResetSpec::ToEarliest => Found::Earliest,
        ResetSpec::Undo(plan) => undo(store, plan, request).await?,
        ResetSpec::RewindBefore(before) => {
            let headers = store.headers(cluster_id, &request.group, now).await?;
            let earlier = |header: &&CheckpointHeader| header.ended_at < *before;
            let usable = headers
                .iter()
                .filter(earlier)
                .find(|header| header.disowned_by.is_none());
            let passed_over: Vec<_> = headers
                .iter()
                .filter(earlier)
                .filter(|header| usable.is_none_or(|usable| header.ended_at > usable.ended_at))
                .filter_map(|header| header.disowned_by.clone())
                .collect();
            match usable {
                Some(header) => {
                    let passed_over = (passed_over.len(), passed_over.into_iter().collect());
                    of_checkpoint(store, cluster_id, request, &headers, header, passed_over).await?
                }
                None => Found::Missing(Refusal::NoCheckpointBefore {
                    before: *before,
                    oldest: headers
                        .iter()
                        .rfind(|header| header.disowned_by.is_none())
                        .map(|header| header.ended_at),
                    disowned: passed_over.len(),
                }),
            }
        }
        ResetSpec::Checkpoint(id) => {
            let headers = store.headers(cluster_id, &request.group, now).await?;
            match headers.iter().find(|header| header.id == *id) {
                None => Found::Missing(Refusal::CheckpointNotFound { id: id.clone() }),
                Some(header) => match &header.disowned_by {
                    Some(by) => Found::Missing(Refusal::CheckpointDisowned {
                        id: id.clone(),
                        by: by.clone(),
                    }),
                    None => {
                        let none = (0, BTreeSet::new());
                        of_checkpoint(store, cluster_id, request, &headers, header, none).await?
                    }
                },
            }
        }
    })
}

async fn of_checkpoint(
    store: &Store,
    cluster_id: &ClusterId,
    request: &RewindRequest,
    headers: &[CheckpointHeader],
    chosen: &CheckpointHeader,
    passed_over: (usize, BTreeSet<PlanId>),
) -> Result<Found, Error> {
    let checkpoint = store.checkpoint(cluster_id, &request.group, chosen).await?;
    let newest = match headers.first() {
        Some(newest) if newest.id != chosen.id => {
            let newest = store.checkpoint(cluster_id, &request.group, newest).await?;
            Some(Box::new(newest))
        }
        Some(_) | None => None,
    };
    let later = headers
        .iter()
        .filter(|header| header.ended_at > chosen.ended_at)
        .cloned()
        .collect();
    Ok(Found::Checkpoint {
        checkpoint: Box::new(checkpoint),
        newest,
        later,
        passed_over,
    })
}

async fn undo(store: &Store, id: &PlanId, request: &RewindRequest) -> Result<Found, Error> {
    let no = |why: &str| {
        Found::Missing(Refusal::NothingToUndo {
            plan: id.clone(),
            why: why.to_owned(),
        })
    };
    let Some(record) = store.plan(id).await? else {
        return Ok(no("there is no such plan"));
    };
    let PlanResult::Ready(plan) = record.result else {
        return Ok(no("it was never a plan that moves anything"));
    };
    if plan.group != request.group || plan.cluster != request.cluster {
        return Ok(no("it belongs to another group"));
    }
    let applied = store
        .recovery(id)
        .await?
        .and_then(|recovery| recovery.outcome)
        .is_some_and(|outcome| outcome == Outcome::Verified);
    let Some(pre_image) = store.pre_image(id).await?.filter(|_| applied) else {
        return Ok(no("it was not applied and verified"));
    };
    Ok(Found::Undo {
        plan: Box::new(plan),
        pre_image: pre_image.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::offset::GroupId;

    fn refused(execution: &str, refusals: Vec<Refusal>) -> PlanRecord {
        PlanRecord {
            id: PlanId("01K".to_owned()),
            execution: execution.to_owned(),
            created_at: Timestamp::UNIX_EPOCH,
            cluster: "main".to_owned(),
            group: GroupId("g".to_owned()),
            dry_run: true,
            requested_by: String::new(),
            reason: String::new(),
            result: PlanResult::Refused(refusals),
        }
    }

    #[test]
    fn the_steps_answer_is_a_line_however_many_refusals_there_are() {
        let rejected = |partition| Refusal::BrokerRejected {
            partition: TopicPartition::new("t", partition),
            error: "E".to_owned(),
        };
        let mut refusals: Vec<_> = (0..10_000).map(rejected).collect();
        refusals.push(Refusal::ApplySwitchedOff);
        let answered = answer(&refused("e", refusals));
        assert_eq!(
            answered.summary,
            "10000 BROKER_REJECTED, APPLY_SWITCHED_OFF"
        );
    }

    #[test]
    fn a_plan_that_another_one_stored_under_the_id_is_not_answered() {
        let stored = refused("guard", vec![Refusal::ApplySwitchedOff]);
        assert!(of_execution("guard", &stored).is_ok());
        let error = of_execution("execution", &stored).unwrap_err();
        assert!(error.to_string().contains("was stored by guard"), "{error}");
    }
}
