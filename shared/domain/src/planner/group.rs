//! What must hold of the cluster and of the group as a whole.

use std::collections::BTreeSet;

use super::making::{Planning, waits_for_empty};
use crate::group::{Activity, GroupDescription, MemberSeen};
use crate::offset::Fault;
use crate::refusal::Refusal;
use crate::target::{Remembered, is_streams_commit};

/// What is wrong with the cluster and the group; `then` is what the source remembers of it.
pub(super) fn refuse_cluster_and_group(
    planning: &Planning<'_>,
    then: Option<&Remembered>,
) -> Vec<Refusal> {
    let seen = planning.seen;
    let unread = |fault: Fault| Refusal::EvidenceIncomplete {
        at: String::new(),
        fault,
    };
    let mut refusals = refuse_cluster(planning, then);
    if seen.group != planning.request.group {
        refusals.push(unread(Fault::another_group()));
    }
    let description = match &seen.description {
        Ok(description) => description,
        Err(fault) => {
            refusals.push(unread(fault.clone()));
            return refusals;
        }
    };
    let restorable = planning.request.allow.restore_missing && then.is_some();
    refusals.extend(refuse_activity(planning, restorable));
    // Whatever its state: a live group without commits has nothing that could be moved either.
    if seen.has_no_commits() && !seen.looks_absent() && !restorable {
        refusals.push(Refusal::NoCommittedOffsets {
            group: seen.group.0.clone(),
        });
    }
    if let Some(kind) = stateful_kind(planning, description, then)
        && !planning.request.allow.stateful
    {
        refusals.push(Refusal::StatefulGroup {
            kind: kind.to_owned(),
        });
    }
    refusals
}

fn refuse_cluster(planning: &Planning<'_>, then: Option<&Remembered>) -> Vec<Refusal> {
    let seen = &planning.seen.cluster_id;
    let source = then.map(|then| &then.cluster_id);
    let required: BTreeSet<_> = [planning.pinned_cluster, source]
        .into_iter()
        .flatten()
        .filter(|required| *required != seen)
        .collect();
    let mismatch = |required: &crate::offset::ClusterId| Refusal::ClusterMismatch {
        required: required.0.clone(),
        seen: seen.0.clone(),
    };
    required.into_iter().map(mismatch).collect()
}

fn refuse_activity(planning: &Planning<'_>, restorable: bool) -> Option<Refusal> {
    let seen = planning.seen;
    match seen.activity() {
        Activity::Inactive => None,
        Activity::Active { state, members } => {
            let waits = waits_for_empty(planning.policy);
            (!waits && !planning.request.dry_run).then(|| Refusal::GroupActive {
                state: state.to_string(),
                members: MemberSeen::all(&members),
            })
        }
        Activity::Unproven { .. } if seen.looks_absent() => {
            (!restorable).then(|| Refusal::GroupNotFound {
                group: seen.group.0.clone(),
                near: None,
            })
        }
        Activity::Unproven { seen } => Some(Refusal::GroupStateUnproven { seen }),
    }
}

/// `Kafka Streams` or `Kafka Connect`, where the group is one as far as can be seen, now or in the source.
pub(super) fn stateful_kind(
    planning: &Planning<'_>,
    description: &GroupDescription,
    then: Option<&Remembered>,
) -> Option<&'static str> {
    // Connect names its sink groups so (KIP-610 and before); there is no other sign once the tasks are stopped.
    if planning.seen.group.0.starts_with("connect-") {
        return Some("Kafka Connect");
    }
    let mut now = planning.seen.partitions.values();
    let streams = description.assignor == "stream"
        || now.any(|reading| matches!(&reading.committed, Ok(Some(at)) if is_streams_commit(at)))
        || then.is_some_and(|then| then.is_streams);
    streams.then_some("Kafka Streams")
}
