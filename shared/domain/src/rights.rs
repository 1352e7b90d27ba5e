//! What the applying principal must be allowed in Kafka, and what the brokers say that it is.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::guard::quarantine::Kept;
use super::offset::Fault;
use super::plan::Plan;
use super::refusal::Refusal;

/// An operation of Kafka's ACLs that applying a plan can need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// On a group and its topics, to commit; on a quarantine topic, to read its copies.
    Read,
    /// On a group, to remove commits.
    Delete,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "READ",
            Self::Delete => "DELETE",
        })
    }
}

/// The kind of a resource of Kafka's ACLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResourceType {
    /// A consumer group.
    Group,
    /// A topic.
    Topic,
}

/// One operation on one resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Right {
    /// The operation.
    pub operation: Operation,
    /// What kind of resource it is on.
    pub resource: ResourceType,
    /// The resource's exact name.
    pub name: String,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.resource {
            ResourceType::Group => "group",
            ResourceType::Topic => "topic",
        };
        write!(f, "{} on {kind} {}", self.operation, self.name)
    }
}

/// `READ on group g, READ on topic t`, at most five of them.
#[must_use]
pub fn listed(rights: &[Right]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<_> = rights.iter().take(SHOWN).map(Right::to_string).collect();
    let mut text = shown.join(", ");
    if rights.len() > SHOWN {
        text.push_str(&format!(" and {} more", rights.len() - SHOWN));
    }
    text
}

/// The operations that a broker allows on a resource, as far as they matter here; `None` where it did not say.
pub type Operations = Option<BTreeSet<Operation>>;

/// What the brokers say of a principal's rights to the principal itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    /// On the group. A principal that may not even see it has none.
    pub group: Operations,
    /// On each topic, or why that was not read.
    pub topics: BTreeMap<String, Result<Operations, Fault>>,
}

/// What follows from a principal's rights for a plan.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// Why the plan cannot be applied by this principal.
    pub refusals: Vec<Refusal>,
    /// What the plan needs and the brokers said nothing of.
    pub unknown: Vec<Right>,
}

/// The topics of which rights are needed to apply `plan`: those that it moves and those that keep what it passes over.
#[must_use]
pub fn topics(plan: &Plan) -> BTreeSet<String> {
    let moved = plan.moves.iter().map(|m| m.partition.topic.clone());
    let keep = plan.skips.iter().filter_map(|skip| match &skip.kept {
        Kept::In(copy) => Some(copy.partition.topic.clone()),
        Kept::No | Kept::NotYet => None,
    });
    moved.chain(keep).collect()
}

/// Holds what `plan` needs to what the brokers allow.
#[must_use]
pub fn judge(plan: &Plan, rights: &Rights) -> Judged {
    let mut judged = Judged::default();
    let mut missing = Vec::new();
    let mut hold = |right: Right, allowed: &Operations| match allowed {
        None => judged.unknown.push(right),
        Some(allowed) if allowed.contains(&right.operation) => {}
        Some(_) => missing.push(right),
    };
    // A commit needs READ on the group, and the removal of one needs DELETE on it.
    let commits = plan.moves.iter().any(|m| m.to.is_some());
    let removes = plan.moves.iter().any(|m| m.to.is_none());
    for (operation, needed) in [(Operation::Read, commits), (Operation::Delete, removes)] {
        if needed {
            let right = Right {
                operation,
                resource: ResourceType::Group,
                name: plan.group.0.clone(),
            };
            hold(right, &rights.group);
        }
    }
    let mut unread = Vec::new();
    for topic in topics(plan) {
        let right = Right {
            operation: Operation::Read,
            resource: ResourceType::Topic,
            name: topic.clone(),
        };
        match rights.topics.get(&topic) {
            Some(Ok(allowed)) => hold(right, allowed),
            Some(Err(Fault::NotAuthorised)) => hold(right, &Some(BTreeSet::new())),
            // What is not there is stale, which is for Apply to say.
            Some(Err(Fault::TopicGone)) => {}
            Some(Err(fault)) => unread.push((topic, fault.clone())),
            None => unread.push((topic, Fault::missing())),
        }
    }
    if !missing.is_empty() {
        judged.refusals.push(Refusal::NotAuthorisedToAlter {
            group: plan.group.0.clone(),
            missing,
        });
    }
    let unread = unread
        .into_iter()
        .map(|(at, fault)| Refusal::EvidenceIncomplete { at, fault });
    judged.refusals.extend(unread);
    judged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;

    fn read() -> Operations {
        Some([Operation::Read].into())
    }

    fn all(group: Operations, topic: Result<Operations, Fault>) -> Rights {
        Rights {
            group,
            topics: [("shipments".to_owned(), topic)].into(),
        }
    }

    fn missing(rights: &[(Operation, ResourceType, &str)]) -> Vec<Refusal> {
        let missing = rights.iter().map(|(operation, resource, name)| Right {
            operation: *operation,
            resource: *resource,
            name: (*name).to_owned(),
        });
        vec![Refusal::NotAuthorisedToAlter {
            group: "shipment-sync".to_owned(),
            missing: missing.collect(),
        }]
    }

    #[test]
    fn read_on_the_group_and_on_every_moved_topic_is_needed() {
        let plan = Scene::incident().ready();
        let nothing = || Some(BTreeSet::new());
        assert_eq!(judge(&plan, &all(read(), Ok(read()))), Judged::default());
        let group = (Operation::Read, ResourceType::Group, "shipment-sync");
        let topic = (Operation::Read, ResourceType::Topic, "shipments");
        let refusals = |rights: &Rights| judge(&plan, rights).refusals;
        assert_eq!(
            refusals(&all(nothing(), Ok(nothing()))),
            missing(&[group, topic])
        );
        assert_eq!(refusals(&all(read(), Ok(nothing()))), missing(&[topic]));
        assert_eq!(
            refusals(&all(read(), Err(Fault::NotAuthorised))),
            missing(&[topic])
        );
        assert_eq!(refusals(&all(nothing(), Ok(read()))), missing(&[group]));
    }

    #[test]
    fn what_a_broker_does_not_say_is_neither_allowed_nor_missing() {
        let plan = Scene::incident().ready();
        let judged = judge(&plan, &all(None, Ok(None)));
        assert_eq!(judged.refusals, []);
        assert_eq!(
            listed(&judged.unknown),
            "READ on group shipment-sync, READ on topic shipments"
        );
        // A reading that failed says nothing at all, and that is no answer.
        for topic in [Err(Fault::NoLeader), Err(Fault::missing())] {
            let codes: Vec<_> = judge(&plan, &all(read(), topic)).refusals;
            assert_eq!(codes.len(), 1);
            assert_eq!(codes[0].code(), "EVIDENCE_INCOMPLETE");
        }
    }

    #[test]
    fn a_commit_that_is_removed_needs_delete_on_the_group() {
        let mut plan = Scene::incident().ready();
        plan.moves[0].to = None;
        let group = (Operation::Delete, ResourceType::Group, "shipment-sync");
        assert_eq!(
            judge(&plan, &all(read(), Ok(read()))).refusals,
            missing(&[group])
        );
    }

    #[test]
    fn the_topic_that_keeps_what_is_passed_over_has_to_be_read_too() {
        let records = vec![skipped(1, 43, kept(0))];
        let plan = Scene::from(Goal::skip(&[(1, 43)], records))
            .changed(|s| reading(&mut s.seen, 1).log = Ok(log(0, 50)))
            .ready();
        let mut rights = all(read(), Ok(read()));
        let keeps = "shipments-quarantine";
        rights
            .topics
            .insert(keeps.to_owned(), Ok(Some(BTreeSet::new())));
        let topic = (Operation::Read, ResourceType::Topic, keeps);
        assert_eq!(judge(&plan, &rights).refusals, missing(&[topic]));
    }
}
