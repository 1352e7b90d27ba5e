//! The use cases: each reads, lets the domain decide, and does what it decided.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use crate::config::Config;
use crate::domain::group::GroupObservation;
use crate::domain::ids::{ExecutionArn, PlanId};
use crate::domain::offset::{Fault, GroupId, TopicPartition};
use crate::error::Error;
use crate::ports::ReadGroups;

pub mod alert;
pub mod apply;
pub mod approval;
pub mod approval_case;
pub mod asker;
pub mod checkpoint;
pub mod context;
pub mod count_request;
pub mod decide;
pub mod deliver;
pub mod find_recovery;
pub mod guard;
pub mod hand_over;
pub mod incident;
pub mod link;
mod load;
mod make_plan;
pub mod observe;
mod people;
pub mod plan;
pub mod reconcile;
pub mod report;
pub mod reread;
pub mod rights;
pub mod start_rewind;
pub mod sweep;
pub mod verify;

/// How often a reading is tried again while a transaction has pending commits.
const UNSTABLE_TRIES: usize = 4;
/// How long between these tries: a transaction's commit markers are written within milliseconds.
const UNSTABLE_PAUSE: Duration = Duration::from_millis(500);

/// A reading that will be acted on: stable, and tried again while the only fault is a pending transaction.
///
/// # Errors
/// No broker answered at all.
pub async fn observe_stable<R: ReadGroups>(
    reader: &R,
    group: &GroupId,
    expected: &BTreeSet<TopicPartition>,
) -> Result<GroupObservation, Error> {
    let mut tries = 1;
    loop {
        let seen = reader.observe(group, expected, true).await?;
        let unstable = seen.faults().any(|(_, fault)| *fault == Fault::Unstable);
        if !unstable || tries == UNSTABLE_TRIES {
            return Ok(seen);
        }
        tries += 1;
        tokio::time::sleep(UNSTABLE_PAUSE).await;
    }
}

/// The clusters that a run is about: all, or the one that its event names.
fn clusters<'c>(config: &'c Config, only: Option<&str>) -> Result<Vec<&'c str>, Error> {
    let clusters: Vec<_> = config
        .clusters()
        .map(|cluster| cluster.name.as_str())
        .filter(|cluster| only.is_none_or(|only| only == *cluster))
        .collect();
    if clusters.is_empty() {
        let named = only.unwrap_or("any cluster");
        return Err(Error::InvalidEvent(format!("{named} is not configured")));
    }
    Ok(clusters)
}

/// The id of the plan that an execution makes: a ULID of its start and of its name.
///
/// A retried step gets the same id and so finds what its first try stored, and no two executions share one.
#[must_use]
pub fn plan_id(execution: &ExecutionArn, started_at: Timestamp) -> PlanId {
    let hash = Sha256::digest(&execution.0);
    let mut random = [0; 16];
    random.copy_from_slice(&hash[..16]);
    let millis = u64::try_from(started_at.as_millisecond()).unwrap_or_default();
    PlanId(ulid::Ulid::from_parts(millis, u128::from_be_bytes(random)).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retried_step_gets_the_same_plan_id_and_another_execution_does_not() {
        let at = Timestamp::from_second(1_700_000_000).unwrap();
        let (a, b) = (ExecutionArn::from("a"), ExecutionArn::from("b"));
        assert_eq!(plan_id(&a, at), plan_id(&a, at));
        assert_ne!(plan_id(&a, at), plan_id(&b, at));
        assert_eq!(plan_id(&a, at).0.len(), 26);
    }
}
