//! Plans a recovery: finds the target, reads the group, lets the rules decide, claims the group, stores the plan.

mod claim;
mod keep;
mod take_over;
mod target;

use jiff::Timestamp;
use serde_json::Value;

pub use self::claim::CLAIM_MARGIN;
use self::claim::claim_group;
use self::keep::{answer, keep, of_execution};
use self::take_over::TakeOver;
use self::target::Resolver;
use super::context::Context;
use super::make_plan::{PlanInputs, make_plan};
use super::plan_id;
use crate::config::Config;
use crate::domain::identity::Requester;
use crate::domain::ids::{ExecutionArn, GroupKey, PlanId};
use crate::domain::near::nearest;
use crate::domain::offset::GroupId;
use crate::domain::plan::{PlanRecord, PlanResult};
use crate::domain::refusal::Refusal;
use crate::domain::request::RewindRequest;
use crate::error::Error;
use crate::ports::{Brokers, ReadGroups, Role};
use crate::wire::{LONGEST_TEXT, PlanAnswer, parse_request, request_hash};

/// What the step is given.
#[derive(Debug, Clone, Copy)]
pub struct PlanTask<'a> {
    /// The ARN of the execution.
    pub execution: &'a ExecutionArn,
    /// When the execution began.
    pub started_at: Timestamp,
    /// The input of the execution.
    pub input: &'a Value,
}

/// Plans what an execution's input asks for.
///
/// A retry of the step finds what its first try stored and answers the same.
///
/// # Errors
/// The brokers or the table failed. A refusal is an answer, not an error.
pub async fn plan_recovery<B: Brokers>(
    ctx: &Context<B>,
    step: &PlanTask<'_>,
) -> Result<PlanAnswer, Error> {
    let (config, store) = (&ctx.config, &ctx.store);
    let (execution, input) = (step.execution, step.input);
    let id = plan_id(execution, step.started_at);
    if let Some(record) = store.plan(&id).await? {
        return of_execution(execution, &record).map(answer);
    }
    if let Some(given) = input.get("plan_id") {
        let taking = TakeOver {
            ctx,
            execution,
            own_id: id,
        };
        return taking.run(given).await;
    }
    let now = ctx.now();
    let empty = Value::Null;
    let written = input.get("request").unwrap_or(&empty);
    // Where exactly one cluster is configured, a request need not name it.
    let only = config.cluster(None).map(|cluster| cluster.name.as_str());
    let mut request = match parse_request(written, only) {
        Ok(request) => request,
        Err(refusals) => {
            let refused = PlanRecord::refused(id, execution.clone(), now, refusals);
            return keep(store, with_written(refused, written)).await;
        }
    };
    let hash = request_hash(written);
    if let Some(person) = store.requester(execution.name(), &hash, now).await? {
        request.requester = Requester::Verified(person);
    }
    let record = Deciding {
        ctx,
        execution,
        now,
        request: &request,
    }
    .decide(id)
    .await?;
    keep(store, record).await
}

/// The record of a request that could not be read, with what can be read of it.
fn with_written(refused: PlanRecord, written: &Value) -> PlanRecord {
    // The group's name is part of a key, which has room for so much.
    let text = |field: &str| -> String {
        let text = written[field].as_str().unwrap_or_default();
        text.chars().take(LONGEST_TEXT).collect()
    };
    PlanRecord {
        cluster: text("cluster"),
        group: GroupId(text("group")),
        dry_run: true,
        requested_by: text("requested_by"),
        reason: text("reason"),
        ..refused
    }
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

/// What a request is decided with.
struct Deciding<'a, B> {
    ctx: &'a Context<B>,
    execution: &'a ExecutionArn,
    now: Timestamp,
    request: &'a RewindRequest,
}

impl<B: Brokers> Deciding<'_, B> {
    /// Everything from the target to the claim.
    async fn decide(&self, id: PlanId) -> Result<PlanRecord, Error> {
        let (config, store) = (&self.ctx.config, &self.ctx.store);
        let (request, now) = (self.request, self.now);
        let resolved = config.resolve(&request.cluster, &request.group);
        let Some(resolved) = resolved else {
            let refused = PlanResult::Refused(vec![refuse_unconfigured(config, request)]);
            return Ok(PlanRecord::new(
                id,
                self.execution.clone(),
                now,
                request,
                refused,
            ));
        };
        let brokers = &self.ctx.brokers;
        let groups = &brokers.connect_groups(&request.cluster, Role::Read).await?;
        let group = &GroupKey::new(groups.cluster_id().await?, request.group.clone());
        let resolver = Resolver {
            store,
            groups,
            group,
            request,
            now,
        };
        let to = resolver.resolve().await?;
        let looks = store.latest_looks(group, now).await?;
        let inputs = PlanInputs {
            id,
            execution: self.execution.clone(),
            now,
            request,
            resolved: &resolved,
            seen: &to.seen,
            looks: &looks,
            target: to.target.as_ref(),
        };
        let mut record = make_plan(store, inputs).await?;
        if let PlanResult::Refused(refusals) = &mut record.result {
            name_near_groups(refusals, config, request);
        }
        if let Some(live) = claim_group(store, &record, group).await? {
            record.refuse(live);
        }
        Ok(record)
    }
}

/// A group or a cluster that is not in the configuration. Whoever can start an execution may ask for any configured group.
fn refuse_unconfigured(config: &Config, request: &RewindRequest) -> Refusal {
    let near = match config.cluster(Some(&request.cluster)) {
        Some(cluster) => config
            .nearest_group(&cluster.name, &request.group, |_| true)
            .map(|group| group.0.clone()),
        None => {
            let known = config.clusters().map(|cluster| cluster.name.as_str());
            nearest(&request.cluster, known).map(str::to_owned)
        }
    };
    Refusal::NotConfigured {
        asked: format!("group {} on cluster {}", request.group.0, request.cluster),
        near,
    }
}
