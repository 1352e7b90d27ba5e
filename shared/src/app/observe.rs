//! Waits for a group to come to rest, one look an invocation.

use data_encoding::HEXLOWER;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::context::Context;
use super::load::load_recovery;
use super::observe_stable;
use super::plan::CLAIM_MARGIN;
use crate::domain::alter_size;
use crate::domain::group::{Activity, GroupObservation, MemberSeen};
use crate::domain::plan::Plan;
use crate::domain::policy::GroupPolicy;
use crate::domain::policy::seconds;
use crate::domain::recovery::Quiet;
use crate::domain::refusal::Refusal;
use crate::error::Error;
use crate::ports::{Brokers, Role};
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
pub async fn observe_group<B: Brokers>(
    ctx: &Context<B>,
    step: &PlanStep,
) -> Result<Observed, Error> {
    let store = &ctx.store;
    let (plan, recovery) = load_recovery(store, &step.plan_id).await?;
    if !needs_rest(&plan) {
        return Ok(Observed::APPLY);
    }
    let policy = ctx
        .config
        .resolve(&plan.cluster, &plan.group)
        .map_or_else(GroupPolicy::default, |resolved| resolved.policy);
    let partitions = plan.moves.iter().map(|m| m.partition.clone()).collect();
    let reader = ctx
        .brokers
        .connect_groups(&plan.cluster, Role::Read)
        .await?;
    let seen = observe_stable(&reader, &plan.group, &partitions).await?;
    let now = ctx.now();
    let apply_by = recovery.apply_by.unwrap_or(now);
    let limits = Limits {
        // The wait begins with the decision, as the time to apply does, and is the shorter of the two.
        empty_by: policy.wait_for_empty_seconds.map_or(apply_by, |wait| {
            apply_by - seconds(plan.apply_within_seconds) + seconds(wait)
        }),
        apply_by,
        settle_seconds: policy.settle_seconds,
    };
    let commits = plan.finds_at_rest(&seen).then(|| fingerprint(&seen));
    let (observed, quiet) = decide(recovery.quiet.as_ref(), commits, now, &limits);
    if quiet != recovery.quiet {
        store.note_quiet(&step.plan_id, quiet.as_ref()).await?;
    }
    match observed.next {
        Next::GiveUp => {
            let (state, members) = match seen.activity() {
                Activity::Active { state, members } => (state.to_string(), MemberSeen::all(&members)),
                Activity::Unproven { seen } => (seen, Vec::new()),
                Activity::Inactive => (
                    "Empty, but its offsets move: a tool writes them, or consumers that assign themselves"
                        .to_owned(),
                    Vec::new(),
                ),
            };
            let refusal = Refusal::NotEmptyInTime { state, members };
            store.note_refusals(&step.plan_id, &[refusal]).await?;
        }
        Next::Apply | Next::Wait => {
            // Waiting is work in progress: the claim must not end under it.
            let until = apply_by + CLAIM_MARGIN;
            store
                .renew_claim(&plan.group_key(), &recovery.execution, until)
                .await?;
        }
    }
    Ok(observed)
}

/// Whether a plan may only be applied to a group that was seen at rest twice: it was active while planning, or it
/// needs more than one request, between which nothing may move.
fn needs_rest(plan: &Plan) -> bool {
    plan.waits_for_empty || alter_size::needs_several_requests(plan)
}

/// How long a group is waited for.
struct Limits {
    /// Until when its consumers must have stopped.
    empty_by: Timestamp,
    /// Until when it must have been still for long enough, since then it is too late to apply.
    apply_by: Timestamp,
    /// How long is long enough.
    settle_seconds: u32,
}

/// The rule: no members and identical commits in two looks at least `settle_seconds` apart. `commits` is the look's
/// fingerprint, or `None` where the group is not at rest.
fn decide(
    quiet: Option<&Quiet>,
    commits: Option<String>,
    now: Timestamp,
    limits: &Limits,
) -> (Observed, Option<Quiet>) {
    // The last look is at the limit itself, not before it.
    let wait = |seconds: u32, limit: Timestamp| match whole_seconds(limit.duration_since(now)) {
        0 => Observed::GIVE_UP,
        left => Observed {
            next: Next::Wait,
            wait_seconds: seconds.clamp(1, left),
        },
    };
    let Some(commits) = commits else {
        return (wait(LOOK_AGAIN_SECONDS, limits.empty_by), None);
    };
    let first = Quiet {
        since: now,
        commits: commits.clone(),
    };
    match quiet {
        None => (wait(limits.settle_seconds, limits.apply_by), Some(first)),
        // Nobody is a member and yet its offsets move: its consumers have not stopped.
        // Looked at no more often than members are: an execution's history has room for so many looks.
        Some(quiet) if quiet.commits != commits => {
            let seconds = limits.settle_seconds.max(LOOK_AGAIN_SECONDS);
            (wait(seconds, limits.empty_by), Some(first))
        }
        Some(quiet) => {
            let settled = quiet.since + seconds(limits.settle_seconds);
            let observed = if now >= settled {
                Observed::APPLY
            } else {
                wait(whole_seconds(settled.duration_since(now)), limits.apply_by)
            };
            (observed, Some(quiet.clone()))
        }
    }
}

/// A Wait state knows no fractions, so what is left of a second is a whole one.
fn whole_seconds(left: SignedDuration) -> u32 {
    let seconds = left.as_secs() + i64::from(left.subsec_nanos() > 0);
    u32::try_from(seconds).unwrap_or(0)
}

/// All commits of a reading in one short text.
fn fingerprint(seen: &GroupObservation) -> String {
    let mut hash = Sha256::new();
    for (partition, reading) in &seen.partitions {
        hash.update(format!("{partition} {:?}\n", reading.committed));
    }
    HEXLOWER.encode(&hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::testing::at_second as at;

    fn limits() -> Limits {
        Limits {
            empty_by: at(100),
            apply_by: at(200),
            settle_seconds: 2,
        }
    }

    fn quiet(since: i64) -> Quiet {
        Quiet {
            since: at(since),
            commits: "31".to_owned(),
        }
    }

    fn wait(wait_seconds: u32) -> Observed {
        Observed {
            next: Next::Wait,
            wait_seconds,
        }
    }

    #[test]
    fn a_group_is_at_rest_when_two_looks_far_enough_apart_agree() {
        let look = |quiet: Option<&Quiet>, commits: &str, now| {
            decide(quiet, Some(commits.to_owned()), at(now), &limits())
        };
        assert_eq!(look(None, "31", 0), (wait(2), Some(quiet(0))));
        assert_eq!(
            look(Some(&quiet(0)), "31", 1),
            (wait(1), Some(quiet(0))),
            "too soon"
        );
        assert_eq!(
            look(Some(&quiet(0)), "31", 2),
            (Observed::APPLY, Some(quiet(0)))
        );
    }

    #[test]
    fn commits_that_keep_moving_are_not_looked_at_more_often_than_members_are() {
        let moving = |now| decide(Some(&quiet(0)), Some("32".to_owned()), at(now), &limits()).0;
        assert_eq!(moving(2), wait(LOOK_AGAIN_SECONDS));
        assert_eq!(moving(100), Observed::GIVE_UP);
        let active = |now| decide(Some(&quiet(0)), None, at(now), &limits());
        assert_eq!(active(2), (wait(LOOK_AGAIN_SECONDS), None));
        assert_eq!(active(100), (Observed::GIVE_UP, None));
    }
}
