//! What must hold of the topics, and of what the request names.

use std::collections::{BTreeMap, BTreeSet};

use super::making::Making;
use crate::offset::{Fault, TopicPartition};
use crate::plan::PartitionMove;
use crate::refusal::Refusal;
use crate::request::Selection;

impl Making<'_> {
    /// Every topic that is asked about with which something is wrong: gone, unreadable, or not the one that the source
    /// knew.
    pub(super) fn find_topic_faults<'p>(
        self,
        asked: &[&'p TopicPartition],
    ) -> BTreeMap<&'p str, Refusal> {
        let topics: BTreeSet<&str> = asked.iter().map(|p| p.topic.as_str()).collect();
        topics
            .into_iter()
            .filter_map(|topic| Some((topic, self.find_topic_fault(asked, topic)?)))
            .collect()
    }

    fn find_topic_fault(self, asked: &[&TopicPartition], topic: &str) -> Option<Refusal> {
        let unread = |fault: &Fault| Refusal::EvidenceIncomplete {
            at: topic.to_owned(),
            fault: fault.clone(),
        };
        let now = match self.planning.seen.topics.get(topic) {
            Some(Ok(now)) => now,
            Some(Err(Fault::TopicGone)) => {
                return Some(Refusal::TopicGone {
                    topic: topic.to_owned(),
                });
            }
            Some(Err(fault)) => return Some(unread(fault)),
            None => return Some(unread(&Fault::missing())),
        };
        let recreated = |then: String, now: String| Refusal::TopicRecreated {
            topic: topic.to_owned(),
            then,
            now,
        };
        if let (Some(then), Some(now)) = (self.topic_id_then(topic), now.id) {
            return (then != now).then(|| recreated(then.to_string(), now.to_string()));
        }
        // Without both ids, a log start that went down is what shows another log: retention only ever raises it.
        let logs_then = &self.target.then.as_ref()?.logs;
        let mut of_topic = asked.iter().filter(|p| p.topic == topic);
        of_topic.find_map(|p| {
            let before = logs_then.get(p)?.log_start;
            let now = self.planning.seen.partitions.get(p)?;
            let after = now.log.as_ref().ok()?.log_start;
            let called = |start: i64| format!("unknown, {p} starting at {start}");
            (after < before).then(|| recreated(called(before), called(after)))
        })
    }

    /// What the request names and the group does not have.
    pub(super) fn refuse_unknown_names(self) -> Vec<Refusal> {
        // What was read or what the source knows, so that one that the reading left out is not called unknown.
        let known = &self.target.wanted;
        let topics: BTreeSet<&str> = known.keys().map(|p| p.topic.as_str()).collect();
        let mut refusals = Vec::new();
        let mut named = self.target.named.clone();
        if let Selection::Only(selected) = &self.planning.request.selection {
            for (topic, partitions) in selected {
                if topics.contains(topic.as_str()) {
                    let partitions = partitions.iter().flatten();
                    named.extend(partitions.map(|p| TopicPartition::new(topic, *p)));
                } else {
                    refusals.push(Refusal::TopicUnknown {
                        topic: topic.clone(),
                    });
                }
            }
        }
        refusals.extend_from_slice(&self.target.wrong);
        let unknown = named.into_iter().filter(|p| !known.contains_key(p));
        refusals.extend(unknown.map(|partition| Refusal::PartitionUnknown { partition }));
        refusals
    }

    /// Logs among the moved ones that lost records since the source was read, sorted by partition.
    pub(super) fn refuse_truncated_logs(self, moves: &[PartitionMove]) -> Vec<Refusal> {
        let Some(then) = &self.target.then else {
            return Vec::new();
        };
        let truncated = |m: &PartitionMove| {
            let (high_before, high_after) = *then.truncations.get(&m.partition)?;
            Some(Refusal::LogTruncated {
                partition: m.partition.clone(),
                high_before,
                high_after,
            })
        };
        moves.iter().filter_map(truncated).collect()
    }
}
