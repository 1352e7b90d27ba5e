//! Plans a recovery: finds the target, reads the group, lets the rules decide, claims the group, stores the plan.

mod earlier;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use self::earlier::Earlier;
use super::people::four_eyes;
use super::{observe_stable, plan_id};
use crate::config::{Config, ResolvedGroup};
use crate::domain::checkpoint::{Checkpoint, CheckpointHeader};
use crate::domain::choice::{Choice, Older, PassedOver, Search, undone_for};
use crate::domain::group::Activity;
use crate::domain::identity::Requester;
use crate::domain::ids::{CheckpointId, ExecutionArn, GroupKey, PlanId};
use crate::domain::near::nearest;
use crate::domain::offset::{Fault, FoundByTime, GroupId, TopicPartition};
use crate::domain::plan::{
    CSV_VERSION, Disowns, Plan, PlanRecord, PlanResult, Source, check_plan, partitions,
};
use crate::domain::planner::{Planned, Planning, Targets, members_seen, plan, seconds};
use crate::domain::reasons;
use crate::domain::recovery::{Claim, Recovery};
use crate::domain::refusal::{Refusal, Stale};
use crate::domain::request::{ResetSpec, RewindRequest};
use crate::domain::text::{count, grouped};
use crate::error::Error;
use crate::failure::{ErrorClass, chain};
use crate::ports::ReadGroups;
use crate::store::{Opened, Store};
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
    execution: &ExecutionArn,
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
        return take_over(config, store, execution, id, given, connect).await;
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
                execution: execution.clone(),
                created_at: now,
                cluster: text("cluster"),
                group: GroupId(text("group")),
                dry_run: true,
                requested_by: text("requested_by"),
                reason: text("reason"),
                grounds: Vec::new(),
                result: PlanResult::Refused(refusals),
            };
            return keep(store, record).await;
        }
    };
    let hash = request_hash(written);
    if let Some(person) = store.requester(execution.name(), &hash, now).await? {
        request.requester = Requester::Verified(person);
    }
    let result = decide(config, store, execution, &id, now, &request, connect).await?;
    let record = PlanRecord {
        id,
        execution: execution.clone(),
        created_at: now,
        cluster: request.cluster,
        group: request.group,
        dry_run: request.dry_run,
        requested_by: request.requested_by,
        reason: request.reason,
        grounds: Vec::new(),
        result,
    };
    keep(store, record).await
}

/// Says of a group that does not exist which configured one may have been meant.
fn name_near_groups(refusals: &mut [Refusal], config: &Config, request: &RewindRequest) {
    let others = |group: &GroupId| *group != request.group;
    for refusal in refusals {
        if let Refusal::GroupNotFound { near, .. } = refusal {
            *near = config
                .nearest_group(&request.cluster, &request.group, others)
                .map(|group| group.0.clone());
        }
    }
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
fn of_execution<'a>(
    execution: &ExecutionArn,
    stored: &'a PlanRecord,
) -> Result<&'a PlanRecord, Error> {
    if stored.execution == *execution {
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
                count(plan.replayed(), "record"),
                grouped(plan.skipped())
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
    execution: &ExecutionArn,
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
        // Whoever can start an execution may ask for any configured group.
        let near = match config.cluster(Some(&request.cluster)) {
            Some(cluster) => config
                .nearest_group(&cluster.name, &request.group, |_| true)
                .map(|group| group.0.clone()),
            None => {
                let known = config.clusters().map(|cluster| cluster.name.as_str());
                nearest(&request.cluster, known).map(str::to_owned)
            }
        };
        return Ok(PlanResult::Refused(vec![Refusal::NotConfigured {
            asked,
            near,
        }]));
    };
    let reader = connect(&request.cluster).await?;
    let group = GroupKey::new(reader.cluster_id().await?, request.group.clone());
    let mut found = find(store, &group, request, now).await?;
    if let Found::Offsets { known, .. } = &mut found {
        *known = committed_of(&reader, request, known).await?;
    }
    let seen = observe_stable(&reader, &request.group, &found.partitions()).await?;
    let found = match found {
        // Only now is it known which partitions to ask about.
        Found::At { at, .. } => {
            let offsets = first_records(&reader, seen.partitions.keys(), at).await?;
            Found::At { at, offsets }
        }
        found => found,
    };
    let looks = store.latest_looks(&group, now).await?;
    let mut planned = plan(&Planning {
        id: id.clone(),
        now,
        request,
        policy: &resolved.policy,
        config_hash: &resolved.config_hash,
        pinned_cluster: resolved.cluster.cluster_id.as_ref(),
        seen: &seen,
        looks: &looks,
        targets: found.targets(),
    });
    if let Planned::Refused(refusals) = &mut planned {
        name_near_groups(refusals, config, request);
    }
    if let Planned::Ready(plan) = &mut planned
        && plan.disowns.is_none()
    {
        plan.disowns = undone_since(store, plan).await?;
    }
    if let Some(live) = claim(store, execution, request, &group, &resolved, &planned, now).await? {
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

/// The first record of each partition at or after a time. Of one that is dated suspiciously late it is asked as well
/// whether any behind it is dated later.
async fn first_records<R: ReadGroups>(
    reader: &R,
    partitions: impl Iterator<Item = &TopicPartition>,
    at: Timestamp,
) -> Result<BTreeMap<TopicPartition, Result<Option<FoundByTime>, Fault>>, Error> {
    let wanted: Vec<_> = partitions
        .map(|partition| (partition.clone(), at))
        .collect();
    let mut first = reader.offsets_for_times(&wanted).await?;
    let suspicious: Vec<_> = first
        .iter()
        .filter_map(|(partition, found)| {
            let found = found.as_ref().ok()?.as_ref()?;
            Some((partition.clone(), found.to_ask_behind(at)?))
        })
        .collect();
    if suspicious.is_empty() {
        return Ok(first);
    }
    // It is for a warning alone, which no plan fails for.
    let behind = reader.offsets_for_times(&suspicious).await;
    let behind = behind.unwrap_or_else(|error| {
        tracing::warn!(
            error = chain(&error),
            "the order of times was not looked at"
        );
        BTreeMap::new()
    });
    for (partition, found) in behind {
        if let (Ok(behind), Some(Ok(Some(first)))) = (found, first.get_mut(&partition)) {
            first.overtaken = Some(behind.is_some());
        }
    }
    Ok(first)
}

/// Which of the partitions that a request names the group has a commit for, or may have. What it has none for is not
/// read at all: whoever may ask for a group learns nothing of topics that the group does not read.
async fn committed_of<R: ReadGroups>(
    reader: &R,
    request: &RewindRequest,
    named: &BTreeSet<TopicPartition>,
) -> Result<BTreeSet<TopicPartition>, Error> {
    let named: Vec<_> = named.iter().cloned().collect();
    let committed = reader.committed(&request.group, &named).await?;
    let known = committed
        .into_iter()
        .filter(|(_, committed)| *committed != Ok(None));
    Ok(known.map(|(partition, _)| partition).collect())
}

/// What a plan that goes back without a source checkpoint undoes: everything after the newest checkpoint that its
/// targets do not lie before.
async fn undone_since(store: &Store, plan: &Plan) -> Result<Option<Disowns>, Error> {
    if matches!(plan.source, Source::Undo { .. }) || !plan.goes_back() {
        return Ok(None);
    }
    let headers = store.headers(&plan.group_key(), plan.created_at).await?;
    let undone = |header: &CheckpointHeader| {
        let mut moved = plan.moves.iter().map(|m| &m.partition);
        moved.any(|partition| header.disowned.by(partition).is_some())
    };
    // What a rewind undid says nothing of how far this one goes.
    for header in headers.iter().filter(|header| !undone(header)) {
        let checkpoint = store.checkpoint(&plan.group_key(), header).await?;
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
    execution: &ExecutionArn,
    request: &RewindRequest,
    group: &GroupKey,
    resolved: &ResolvedGroup<'_>,
    planned: &Planned,
    now: Timestamp,
) -> Result<Option<Refusal>, Error> {
    let live = |claim: Claim| Refusal::RecoveryLive {
        plan: claim.plan,
        execution: claim.execution,
    };
    let Planned::Ready(plan) = planned else {
        let held = store.claim(group).await?;
        let by_another = |c: &Claim| c.expires_at > now && c.execution != *execution;
        return Ok(held.filter(by_another).map(live));
    };
    if request.dry_run {
        let held = store.claim(group).await?;
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
    execution: &ExecutionArn,
    plan: &Plan,
    apply_within_seconds: u32,
    now: Timestamp,
) -> Result<Opened, Error> {
    let claim = Claim {
        execution: execution.clone(),
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
async fn take_over<R, F>(
    config: &Config,
    store: &Store,
    execution: &ExecutionArn,
    own_id: PlanId,
    given: &Value,
    connect: F,
) -> Result<PlanAnswer, Error>
where
    R: ReadGroups,
    F: AsyncFn(&str) -> Result<R, Error>,
{
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
        Some(PlanResult::Ready(plan)) if plan.csv_version != CSV_VERSION => Refusal::PlanStale {
            changed: Stale::Release,
        },
        // Whoever made it as a dry run, the guard too, did not propose it; and who wants it done now is not known.
        Some(PlanResult::Ready(plan))
            if (plan.four_eyes || four_eyes(config, plan))
                && (plan.requester != Requester::Guard
                    || record.as_ref().is_none_or(|record| record.dry_run)) =>
        {
            Refusal::RequesterUnverified
        }
        Some(PlanResult::Ready(plan)) if let Some(active) = in_vain(plan, &connect).await? => {
            active
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
        execution: execution.clone(),
        created_at: now,
        cluster: record.as_ref().map_or(String::new(), |r| r.cluster.clone()),
        group: record.map_or_else(|| GroupId(String::new()), |r| r.group),
        dry_run: false,
        requested_by: String::new(),
        reason: String::new(),
        grounds: Vec::new(),
        result: PlanResult::Refused(vec![refusal]),
    };
    keep(store, refused).await
}

/// Why nobody needs to be asked to approve a plan: the group is active, and nothing waits until it is not.
async fn in_vain<R, F>(plan: &Plan, connect: &F) -> Result<Option<Refusal>, Error>
where
    R: ReadGroups,
    F: AsyncFn(&str) -> Result<R, Error>,
{
    if plan.waits_for_empty {
        return Ok(None);
    }
    let described = connect(&plan.cluster).await?.describe(&plan.group).await;
    Ok(match Activity::of(&described) {
        Activity::Active { state, members } => Some(Refusal::GroupActive {
            state: state.to_string(),
            members: members_seen(&members),
        }),
        Activity::Inactive | Activity::Unproven { .. } => None,
    })
}

/// The target of a request, owned.
enum Found {
    Checkpoint {
        checkpoint: Box<Checkpoint>,
        newest: Option<Box<Checkpoint>>,
        later: Vec<CheckpointHeader>,
        older: Vec<Older>,
        passed_over: PassedOver,
    },
    At {
        at: Timestamp,
        offsets: BTreeMap<TopicPartition, Result<Option<FoundByTime>, Fault>>,
    },
    Offsets {
        offsets: BTreeMap<TopicPartition, i64>,
        /// Those that the group has a commit for, or may have: of no others is anything read.
        known: BTreeSet<TopicPartition>,
    },
    Shift(i64),
    Earliest,
    Undo(Box<Earlier>),
    Finish(Box<Earlier>),
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
            Self::Offsets { known, .. } => known.clone(),
            Self::Undo(earlier) | Self::Finish(earlier) => earlier.partitions(),
            Self::At { .. } | Self::Shift(_) | Self::Earliest | Self::Missing(_) => BTreeSet::new(),
        }
    }

    fn targets(&self) -> Targets<'_> {
        match self {
            Self::Checkpoint {
                checkpoint,
                newest,
                later,
                older,
                passed_over,
            } => Targets::Checkpoint {
                checkpoint,
                newest: newest.as_deref(),
                later,
                older,
                passed_over,
            },
            Self::At { at, offsets } => Targets::Timestamp { at: *at, offsets },
            Self::Offsets { offsets, .. } => Targets::Offsets(offsets),
            Self::Shift(by) => Targets::Shift(*by),
            Self::Earliest => Targets::Earliest,
            Self::Undo(earlier) => Targets::Undo(earlier.executed()),
            Self::Finish(earlier) => Targets::Finish(earlier.executed()),
            Self::Missing(refusal) => Targets::Missing(refusal),
        }
    }
}

async fn find(
    store: &Store,
    group: &GroupKey,
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
        ResetSpec::ToOffsets(offsets) => Found::Offsets {
            offsets: offsets.clone(),
            known: offsets.keys().cloned().collect(),
        },
        ResetSpec::ShiftBy(by) => Found::Shift(*by),
        ResetSpec::ToEarliest => Found::Earliest,
        ResetSpec::Undo(plan) => match earlier::to_undo(store, plan, request).await? {
            Ok(earlier) => Found::Undo(Box::new(earlier)),
            Err(refusal) => Found::Missing(refusal),
        },
        ResetSpec::Finish(plan) => match earlier::to_finish(store, plan, request).await? {
            Ok(earlier) => Found::Finish(Box::new(earlier)),
            Err(refusal) => Found::Missing(refusal),
        },
        ResetSpec::RewindBefore(before) => {
            newest_before(store, group, request, *before, now).await?
        }
        ResetSpec::Checkpoint(id) => named(store, group, request, id, now).await?,
    })
}

/// The newest checkpoint before a time, or for each partition the newest that no rewind undid for it.
async fn newest_before(
    store: &Store,
    group: &GroupKey,
    request: &RewindRequest,
    before: Timestamp,
    now: Timestamp,
) -> Result<Found, Error> {
    let headers = store.headers(group, now).await?;
    let mut search = Search::new(&request.selection);
    for header in headers.iter().filter(|header| header.ended_at < before) {
        if search.needs(header) {
            let checkpoint = store.checkpoint(group, header).await?;
            search.read(header, checkpoint);
        }
        if search.is_over() {
            break;
        }
    }
    match search.end() {
        Choice::Source {
            checkpoint,
            older,
            passed_over,
        } => of_checkpoint(store, &headers, *checkpoint, older, passed_over).await,
        Choice::Without(partitions) => Ok(Found::Missing(Refusal::PartitionsDisowned {
            before,
            partitions,
        })),
        Choice::None(passed_over) => Ok(Found::Missing(Refusal::NoCheckpointBefore {
            before,
            oldest: headers
                .iter()
                .rfind(|header| header.disowned.is_empty())
                .map(|header| header.ended_at),
            disowned: passed_over.count,
        })),
    }
}

/// A checkpoint by its id.
async fn named(
    store: &Store,
    group: &GroupKey,
    request: &RewindRequest,
    id: &CheckpointId,
    now: Timestamp,
) -> Result<Found, Error> {
    let headers = store.headers(group, now).await?;
    let Some(header) = headers.iter().find(|header| header.id == *id) else {
        return Ok(Found::Missing(Refusal::CheckpointNotFound {
            id: id.clone(),
        }));
    };
    let checkpoint = store.checkpoint(group, header).await?;
    if let Some((by, partitions)) = undone_for(&request.selection, header, &checkpoint) {
        return Ok(Found::Missing(Refusal::CheckpointDisowned {
            id: id.clone(),
            by,
            partitions,
        }));
    }
    let passed_over = PassedOver::default();
    of_checkpoint(store, &headers, checkpoint, Vec::new(), passed_over).await
}

async fn of_checkpoint(
    store: &Store,
    headers: &[CheckpointHeader],
    checkpoint: Checkpoint,
    older: Vec<Older>,
    passed_over: PassedOver,
) -> Result<Found, Error> {
    let newest = match headers.first() {
        Some(newest) if newest.id != checkpoint.id => {
            let newest = store.checkpoint(&checkpoint.group_key(), newest).await?;
            Some(Box::new(newest))
        }
        Some(_) | None => None,
    };
    let oldest = older
        .last()
        .map_or(checkpoint.ended_at, |oldest| oldest.ended_at);
    let later = headers
        .iter()
        .filter(|header| header.ended_at > oldest)
        .cloned()
        .collect();
    Ok(Found::Checkpoint {
        checkpoint: Box::new(checkpoint),
        newest,
        later,
        older,
        passed_over,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::offset::GroupId;

    fn refused(execution: &str, refusals: Vec<Refusal>) -> PlanRecord {
        PlanRecord {
            id: PlanId("01K".to_owned()),
            execution: execution.into(),
            created_at: Timestamp::UNIX_EPOCH,
            cluster: "main".to_owned(),
            group: GroupId("g".to_owned()),
            dry_run: true,
            requested_by: String::new(),
            reason: String::new(),
            grounds: Vec::new(),
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
            "10,000 BROKER_REJECTED, APPLY_SWITCHED_OFF"
        );
    }

    #[test]
    fn a_plan_that_another_one_stored_under_the_id_is_not_answered() {
        let stored = refused("guard", vec![Refusal::ApplySwitchedOff]);
        assert!(of_execution(&"guard".into(), &stored).is_ok());
        let error = of_execution(&"execution".into(), &stored).unwrap_err();
        assert!(error.to_string().contains("was stored by guard"), "{error}");
    }
}
