//! Waits for a group to come to rest, one look an invocation.

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::observe_stable;
use super::plan::CLAIM_MARGIN;
use crate::config::Config;
use crate::domain::group::{Activity, GroupObservation};
use crate::domain::plan::Plan;
use crate::domain::planner::{members_seen, seconds};
use crate::domain::recovery::{Quiet, Recovery};
use crate::domain::refusal::Refusal;
use crate::error::Error;
use crate::kafka::alter_size;
use crate::ports::ReadGroups;
use crate::store::Store;
use crate::wire::PlanStep;

/// How long to wait before looking at a group again that is not at rest yet, in seconds.
const LOOK_AGAIN_SECONDS: u32 = 10;

/// What the state machine does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Next {
    /// Apply now.
    Apply,
    /// Look again later.
    Wait,
    /// It did not come to rest in time; the reason is on record.
    GiveUp,
}

/// The answer. Both fields are always there: a missing one would fail the state that selects it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Observed {
    /// What to do.
    pub next: Next,
    /// How long to wait before looking again, in seconds; 0 where there is nothing to wait for.
    pub wait_seconds: u32,
}

impl Observed {
    const APPLY: Self = Self {
        next: Next::Apply,
        wait_seconds: 0,
    };
    const GIVE_UP: Self = Self {
        next: Next::GiveUp,
        wait_seconds: 0,
    };
}

/// Looks once.
///
/// # Errors
/// The brokers or the table failed.
pub async fn run<R, F>(
    config: &Config,
    store: &Store,
    step: &PlanStep,
    connect: F,
) -> Result<Observed, Error>
where
    R: ReadGroups,
    F: AsyncFn(&str) -> Result<R, Error>,
{
    let (plan, recovery) = super::apply::load(store, &step.plan_id).await?;
    if !needs_rest(&plan) {
        return Ok(Observed::APPLY);
    }
    let settle = config
        .resolve(&plan.cluster, &plan.group)
        .map_or(60, |resolved| resolved.policy.settle_seconds);
    let partitions = plan.moves.iter().map(|m| m.partition.clone()).collect();
    let seen = observe_stable(&connect(&plan.cluster).await?, &plan.group, &partitions).await?;
    let now = Timestamp::now();
    let deadline = recovery.apply_by.unwrap_or(now);
    let (observed, quiet) = decide(&recovery, &seen, now, deadline, settle);
    if quiet != recovery.quiet {
        store.note_quiet(&step.plan_id, quiet.as_ref()).await?;
    }
    match observed.next {
        Next::GiveUp => {
            let (state, members) = match seen.activity() {
                Activity::Active { state, members } => (state.to_string(), members_seen(&members)),
                Activity::Unproven { seen } => (seen, Vec::new()),
                Activity::Inactive => ("Empty, but its offsets move".to_owned(), Vec::new()),
            };
            let refusal = Refusal::NotEmptyInTime { state, members };
            store.note_refusals(&step.plan_id, &[refusal]).await?;
        }
        Next::Apply | Next::Wait => {
            // Waiting is work in progress: the claim must not end under it.
            let until = deadline + CLAIM_MARGIN;
            store
                .renew_claim(&plan.cluster_id, &plan.group, &recovery.execution, until)
                .await?;
        }
    }
    Ok(observed)
}

/// Whether a plan may only be applied to a group that was seen at rest twice: it was active while planning, or it
/// needs more than one request, between which nothing may move.
fn needs_rest(plan: &Plan) -> bool {
    plan.waits_for_empty || alter_size::needs_several(plan)
}

/// The rule: no members and identical commits in two looks at least `settle` apart.
fn decide(
    recovery: &Recovery,
    seen: &GroupObservation,
    now: Timestamp,
    deadline: Timestamp,
    settle_seconds: u32,
) -> (Observed, Option<Quiet>) {
    let wait = |wait_seconds| {
        if now + seconds(wait_seconds) < deadline {
            Observed {
                next: Next::Wait,
                wait_seconds,
            }
        } else {
            Observed::GIVE_UP
        }
    };
    if seen.activity() != Activity::Inactive {
        return (wait(LOOK_AGAIN_SECONDS), None);
    }
    let commits = fingerprint(seen);
    match &recovery.quiet {
        Some(quiet) if quiet.commits == commits => {
            let settled = quiet.since + seconds(settle_seconds);
            if now >= settled {
                return (Observed::APPLY, Some(quiet.clone()));
            }
            let left = settled.as_second() - now.as_second();
            let left = u32::try_from(left).unwrap_or_default().max(1);
            (wait(left.min(settle_seconds)), Some(quiet.clone()))
        }
        Some(_) | None => {
            let quiet = Quiet {
                since: now,
                commits,
            };
            (wait(settle_seconds.max(1)), Some(quiet))
        }
    }
}

/// All commits of a reading in one short text.
fn fingerprint(seen: &GroupObservation) -> String {
    let mut hash = Sha256::new();
    for (partition, reading) in &seen.partitions {
        hash.update(format!("{partition} {:?}\n", reading.committed));
    }
    HEXLOWER.encode(&hash.finalize())
}
