//! A checkpoint: everything that one complete reading said of a group, kept to go back to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::disowned::Disowned;
use super::group::{GroupObservation, GroupState, GroupType};
use super::ids::{CheckpointId, GroupKey};
use super::offset::{
    ClusterId, CommittedOffset, Fault, GroupId, TopicId, TopicPartition, Watermarks,
};
use super::plan::{PartitionMove, partitions};
use super::text::count;

/// One partition of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointPartition {
    /// What was committed; `None` is "no commit", which is restored as nothing at all.
    pub committed: Option<CommittedOffset>,
    /// Where the log began and ended.
    pub log: Watermarks,
}

/// One topic of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointTopic {
    /// The topic's id; `None` where the broker did not tell.
    pub id: Option<TopicId>,
    /// How many partitions it had.
    pub partitions: i32,
}

/// Something that this reading, beside the one before it, shows to have happened in between.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Anomaly {
    /// The high watermark of the same topic id went down: the offsets above it are other records now.
    LogTruncated {
        /// Where.
        partition: TopicPartition,
        /// The earlier, higher watermark.
        high_before: i64,
        /// The later, lower one.
        high_after: i64,
    },
    /// The committed offset went back, and no recovery did it.
    OffsetWentBackwards {
        /// Where.
        partition: TopicPartition,
        /// The earlier, higher offset.
        before: i64,
        /// The later, lower one.
        after: i64,
    },
}

impl Anomaly {
    /// Where it happened.
    #[must_use]
    pub fn at(&self) -> &TopicPartition {
        match self {
            Self::LogTruncated { partition, .. } | Self::OffsetWentBackwards { partition, .. } => {
                partition
            }
        }
    }
}

/// A complete reading of a group. An incomplete one never becomes a value of this type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its id.
    pub id: CheckpointId,
    /// The cluster that it was read from.
    pub cluster_id: ClusterId,
    /// The group.
    pub group: GroupId,
    /// The protocol that the group spoke.
    pub group_type: GroupType,
    /// The state that it was in. A checkpoint of a running group is a good one.
    pub state: GroupState,
    /// The member ids that it had.
    pub members: Vec<String>,
    /// When the reading began.
    pub began_at: Timestamp,
    /// When the reading ended: the checkpoint's time. Not when the schedule fired, which may be hours earlier.
    pub ended_at: Timestamp,
    /// Its topics.
    pub topics: BTreeMap<String, CheckpointTopic>,
    /// Its partitions.
    pub partitions: BTreeMap<TopicPartition, CheckpointPartition>,
    /// Topics that the group had before and that are confirmed gone.
    pub gone_topics: BTreeSet<String>,
    /// What changed against the checkpoint before, beyond the ordinary.
    pub anomalies: Vec<Anomaly>,
}

/// What is kept of a checkpoint outside its packed body, so that choosing one needs no unpacking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointHeader {
    /// Its id.
    pub id: CheckpointId,
    /// Its time: when the reading ended.
    pub ended_at: Timestamp,
    /// What verified rewinds undid of it.
    pub disowned: Disowned,
    /// What it showed against the one before.
    pub anomalies: Vec<Anomaly>,
    /// When it may be deleted; already past for an item that the table has yet to delete.
    pub expires_at: Option<Timestamp>,
}

/// What one checkpoint holds of one partition, as a point of its history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PastCommit {
    /// The checkpoint's time.
    pub at: Timestamp,
    /// The committed offset; `None` is "no commit".
    pub offset: Option<i64>,
    /// Whether a verified rewind undid the time in which it was taken.
    pub disowned: bool,
}

/// Why a reading is not a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotACheckpoint {
    /// The group itself could not be described.
    NotDescribed(Fault),
    /// No partition has a commit: there is nothing to go back to, and most likely the name is wrong.
    NoCommits,
    /// Some partitions hold no value. `faults` has all of them.
    Incomplete {
        /// Partition and reason, in order.
        faults: Vec<(TopicPartition, Fault)>,
    },
    /// Some topics could not be described, though they are not known to be gone.
    TopicsUnknown {
        /// Topic and reason, in order.
        faults: Vec<(String, Fault)>,
    },
}

impl fmt::Display for NotACheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotDescribed(fault) => write!(f, "the group could not be described: {fault}"),
            Self::NoCommits => f.write_str(
                "the group has no committed offsets: there is nothing to checkpoint; check the name of the group",
            ),
            Self::Incomplete { faults } => {
                write!(f, "no value was read for {}", partitions(faults.len()))?;
                faults
                    .iter()
                    .take(3)
                    .try_for_each(|(partition, fault)| write!(f, "; {partition}: {fault}"))
            }
            Self::TopicsUnknown { faults } => {
                write!(f, "{} could not be described", count(faults.len(), "topic"))?;
                faults
                    .iter()
                    .take(3)
                    .try_for_each(|(topic, fault)| write!(f, "; {topic}: {fault}"))
            }
        }
    }
}

/// Makes a checkpoint of a reading, or says why the reading is not one.
///
/// `previous` is the newest checkpoint before it; `moved_by_us` says that a recovery moved the group in between, so
/// that going back is no anomaly.
///
/// # Errors
/// The reading is incomplete, or there is nothing in it.
pub fn checkpoint(
    id: CheckpointId,
    seen: &GroupObservation,
    previous: Option<&Checkpoint>,
    moved_by_us: bool,
) -> Result<Checkpoint, NotACheckpoint> {
    let description = seen
        .description
        .as_ref()
        .map_err(|fault| NotACheckpoint::NotDescribed(fault.clone()))?;

    // A topic that is confirmed gone leaves the expected set; its partitions are no failure.
    let gone_topics: BTreeSet<String> = seen
        .topics
        .iter()
        .filter(|(_, topic)| matches!(topic, Err(Fault::TopicGone)))
        .map(|(name, _)| name.clone())
        .collect();
    let undescribed = seen
        .partitions
        .keys()
        .map(|partition| &partition.topic)
        .filter(|topic| !seen.topics.contains_key(*topic))
        .map(|topic| (topic.clone(), Fault::missing()));
    let unknown: BTreeMap<_, _> = seen
        .topics
        .iter()
        .filter(|(name, _)| !gone_topics.contains(*name))
        .filter_map(|(name, topic)| Some((name.clone(), topic.as_ref().err()?.clone())))
        .chain(undescribed)
        .collect();
    let here = |partition: &TopicPartition| {
        !gone_topics.contains(&partition.topic) && !is_cut_off(seen, partition)
    };
    let left_out = previous
        .iter()
        .flat_map(|previous| previous.partitions.keys())
        .filter(|partition| !seen.partitions.contains_key(*partition))
        .map(|partition| (partition.clone(), Fault::missing()));
    let faults: BTreeMap<_, _> = seen
        .faults()
        .map(|(partition, fault)| (partition.clone(), fault.clone()))
        .chain(left_out)
        .filter(|(partition, _)| here(partition))
        .collect();
    if !faults.is_empty() {
        return Err(NotACheckpoint::Incomplete {
            faults: faults.into_iter().collect(),
        });
    }
    if !unknown.is_empty() {
        return Err(NotACheckpoint::TopicsUnknown {
            faults: unknown.into_iter().collect(),
        });
    }

    let partitions: BTreeMap<_, _> = seen
        .partitions
        .iter()
        .filter(|(partition, _)| here(partition))
        .filter_map(|(partition, reading)| {
            let body = CheckpointPartition {
                committed: reading.committed.clone().ok()?,
                log: reading.log.clone().ok()?,
            };
            Some((partition.clone(), body))
        })
        .collect();
    if partitions.values().all(|body| body.committed.is_none()) {
        return Err(NotACheckpoint::NoCommits);
    }

    let mut this = Checkpoint {
        id,
        cluster_id: seen.cluster_id.clone(),
        group: seen.group.clone(),
        group_type: description.group_type,
        state: description.state,
        members: description
            .members
            .iter()
            .map(|m| m.member_id.clone())
            .collect(),
        began_at: seen.began_at,
        ended_at: seen.ended_at,
        topics: seen
            .topics
            .iter()
            .filter_map(|(name, topic)| {
                let topic = topic.as_ref().ok()?;
                let body = CheckpointTopic {
                    id: topic.id,
                    partitions: topic.partitions,
                };
                Some((name.clone(), body))
            })
            .collect(),
        partitions,
        gone_topics,
        anomalies: Vec::new(),
    };
    this.anomalies =
        previous.map_or_else(Vec::new, |previous| anomalies(previous, &this, moved_by_us));
    Ok(this)
}

/// Whether a partition is confirmed gone although its topic is there: the topic was created again with fewer
/// partitions. Kafka never takes partitions away otherwise.
fn is_cut_off(seen: &GroupObservation, partition: &TopicPartition) -> bool {
    let beyond = matches!(
        seen.topics.get(&partition.topic),
        Some(Ok(topic)) if partition.partition >= topic.partitions
    );
    let reading = seen.partitions.get(partition);
    beyond && reading.is_none_or(|reading| reading.log == Err(Fault::TopicGone))
}

/// What happened between two checkpoints of one group beyond the ordinary.
#[must_use]
fn anomalies(before: &Checkpoint, after: &Checkpoint, moved_by_us: bool) -> Vec<Anomaly> {
    let mut found = truncations(
        before,
        |topic| after.topic_id(topic),
        |partition| Some(after.partitions.get(partition)?.log.high),
    );
    if moved_by_us {
        return found;
    }
    for (partition, body) in &after.partitions {
        let Some(then) = before.same_log(partition, after.topic_id(&partition.topic)) else {
            continue;
        };
        if let (Some(then), Some(now)) = (&then.committed, &body.committed)
            && now.offset < then.offset
        {
            found.push(Anomaly::OffsetWentBackwards {
                partition: partition.clone(),
                before: then.offset,
                after: now.offset,
            });
        }
    }
    found
}

/// Every partition whose high watermark is lower now than in `before`, in the same log.
pub fn truncations(
    before: &Checkpoint,
    topic_id_now: impl Fn(&str) -> Option<TopicId>,
    high_now: impl Fn(&TopicPartition) -> Option<i64>,
) -> Vec<Anomaly> {
    before
        .partitions
        .iter()
        .filter_map(|(partition, then)| {
            before.same_log(partition, topic_id_now(&partition.topic))?;
            let high_after = high_now(partition)?;
            (high_after < then.log.high).then(|| Anomaly::LogTruncated {
                partition: partition.clone(),
                high_before: then.log.high,
                high_after,
            })
        })
        .collect()
}

impl Checkpoint {
    /// The group of the cluster that it is of.
    #[must_use]
    pub fn group_key(&self) -> GroupKey {
        GroupKey::new(self.cluster_id.clone(), self.group.clone())
    }

    /// The id that a topic had, where it is known.
    #[must_use]
    pub fn topic_id(&self, topic: &str) -> Option<TopicId> {
        self.topics.get(topic)?.id
    }

    /// Whether any of `moves` goes back to before this checkpoint, so that applying them undoes it.
    #[must_use]
    pub fn is_beyond(&self, moves: &[PartitionMove]) -> bool {
        moves.iter().any(|m| {
            let here = self.same_log(&m.partition, m.topic_id);
            match (here.and_then(|body| body.committed.as_ref()), &m.to) {
                (Some(committed), Some(to)) => committed.offset > to.offset,
                _ => false,
            }
        })
    }

    /// The checkpointed partition, unless its topic is known to be another log now.
    pub fn same_log(
        &self,
        partition: &TopicPartition,
        id_now: Option<TopicId>,
    ) -> Option<&CheckpointPartition> {
        match (self.topic_id(&partition.topic), id_now) {
            (Some(then), Some(now)) if then != now => None,
            _ => self.partitions.get(partition),
        }
    }
}

/// Which older checkpoints may expire now that enough newer good ones exist.
///
/// `headers` are all good checkpoints of the group, newest first. Nothing expires unless `keep` newer good ones exist
/// that together span at least `min_span_seconds`: a schedule that stopped, a run of failures or a schedule set to
/// every minute by mistake cannot push history out. Nor can a time that a rewind undid for any partition: that one does
/// not go back to what lies in it, so it does not count as newer. Pinned ones and ones that already have an expiry are not named.
#[must_use]
pub fn retire(
    headers: &[CheckpointHeader],
    keep: usize,
    min_span_seconds: i64,
) -> Vec<&CheckpointHeader> {
    let mut newer_and_good: Vec<Timestamp> = Vec::new();
    let mut retired = Vec::new();
    for header in headers {
        let span = match (newer_and_good.first(), newer_and_good.last()) {
            (Some(newest), Some(oldest)) => newest.duration_since(*oldest),
            _ => SignedDuration::ZERO,
        };
        let enough = newer_and_good.len() >= keep.max(1)
            && span >= SignedDuration::from_secs(min_span_seconds);
        if enough && header.expires_at.is_none() {
            retired.push(header);
        }
        if header.disowned.is_empty() {
            newer_and_good.push(header.ended_at);
        }
    }
    retired
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disowned::Undone;
    use crate::group::{GroupDescription, PartitionReading, TopicDescription};
    use crate::ids::PlanId;
    use crate::testing::at_second as at;

    fn log(high: i64) -> Watermarks {
        Watermarks {
            log_start: 0,
            last_stable: high,
            high,
            leader_epoch: Some(0),
        }
    }

    fn seen(offsets: &[(i32, Result<Option<i64>, Fault>)], high: i64) -> GroupObservation {
        GroupObservation {
            cluster_id: ClusterId("c".into()),
            group: GroupId("g".into()),
            description: Ok(GroupDescription {
                state: GroupState::Empty,
                group_type: GroupType::Classic,
                is_simple: false,
                assignor: String::new(),
                members: vec![],
            }),
            topics: [(
                "t".to_owned(),
                Ok(TopicDescription {
                    id: TopicId::from_bytes([7; 16]),
                    partitions: 3,
                }),
            )]
            .into(),
            partitions: offsets
                .iter()
                .map(|(partition, committed)| {
                    let committed = committed
                        .clone()
                        .map(|offset| offset.map(CommittedOffset::bare));
                    (
                        TopicPartition::new("t", *partition),
                        PartitionReading {
                            committed,
                            log: Ok(log(high)),
                        },
                    )
                })
                .collect(),
            began_at: at(0),
            ended_at: at(1),
        }
    }

    fn id() -> CheckpointId {
        CheckpointId("1".into())
    }

    #[test]
    fn an_incomplete_reading_is_no_checkpoint() {
        let reading = seen(&[(0, Ok(Some(1))), (1, Err(Fault::NotAuthorised))], 5);
        assert_eq!(
            checkpoint(id(), &reading, None, false),
            Err(NotACheckpoint::Incomplete {
                faults: vec![(TopicPartition::new("t", 1), Fault::NotAuthorised)]
            })
        );
    }

    #[test]
    fn a_group_without_commits_is_no_checkpoint() {
        assert_eq!(
            checkpoint(id(), &seen(&[(0, Ok(None))], 5), None, false),
            Err(NotACheckpoint::NoCommits)
        );
    }

    #[test]
    fn a_topic_confirmed_gone_is_recorded_and_does_not_fail_the_rest() {
        let mut reading = seen(&[(0, Ok(Some(1)))], 5);
        reading.topics.insert("gone".into(), Err(Fault::TopicGone));
        reading.partitions.insert(
            TopicPartition::new("gone", 0),
            PartitionReading {
                committed: Err(Fault::TopicGone),
                log: Err(Fault::TopicGone),
            },
        );
        let made = checkpoint(id(), &reading, None, false).unwrap();
        assert_eq!(made.gone_topics, ["gone".to_owned()].into());
        assert_eq!(made.partitions.len(), 1);
    }

    #[test]
    fn a_topic_that_could_not_be_described_fails_the_reading() {
        let mut reading = seen(&[(0, Ok(Some(1)))], 5);
        reading.topics.insert("t".into(), Err(Fault::NotAuthorised));
        assert!(matches!(
            checkpoint(id(), &reading, None, false),
            Err(NotACheckpoint::TopicsUnknown { .. })
        ));
    }

    #[test]
    fn a_topic_that_the_reading_left_out_fails_it() {
        let mut reading = seen(&[(0, Ok(Some(1)))], 5);
        reading.topics.clear();
        assert_eq!(
            checkpoint(id(), &reading, None, false),
            Err(NotACheckpoint::TopicsUnknown {
                faults: vec![("t".into(), Fault::missing())]
            })
        );
    }

    /// An answer to "all" leaves out what the principal may not see, without an error.
    #[test]
    fn a_partition_that_was_there_before_may_not_be_missing_without_a_word() {
        let before = checkpoint(
            id(),
            &seen(&[(0, Ok(Some(1))), (1, Ok(Some(1)))], 5),
            None,
            false,
        )
        .unwrap();
        let mut reading = seen(&[(0, Ok(Some(1)))], 5);
        let missing = NotACheckpoint::Incomplete {
            faults: vec![(TopicPartition::new("t", 1), Fault::missing())],
        };
        assert_eq!(
            checkpoint(id(), &reading, Some(&before), false),
            Err(missing)
        );
        reading.topics.insert("t".into(), Err(Fault::TopicGone));
        reading.partitions.clear();
        reading.topics.insert(
            "u".into(),
            Ok(TopicDescription {
                id: None,
                partitions: 1,
            }),
        );
        let other = seen(&[(0, Ok(Some(1)))], 5)
            .partitions
            .remove(&TopicPartition::new("t", 0))
            .unwrap();
        reading
            .partitions
            .insert(TopicPartition::new("u", 0), other);
        let made = checkpoint(id(), &reading, Some(&before), false).unwrap();
        assert_eq!(made.gone_topics, ["t".to_owned()].into());
    }

    /// Otherwise the group could never be checkpointed again.
    #[test]
    fn partitions_that_a_recreated_topic_does_not_have_any_more_are_gone() {
        let before = checkpoint(id(), &seen(&[(3, Ok(Some(1)))], 5), None, false).unwrap();
        let mut reading = seen(&[(0, Ok(Some(1)))], 5);
        let made = checkpoint(id(), &reading, Some(&before), false).unwrap();
        assert_eq!(made.partitions.len(), 1, "it was not asked for");
        let gone = PartitionReading {
            committed: Ok(Some(CommittedOffset::bare(1))),
            log: Err(Fault::TopicGone),
        };
        reading
            .partitions
            .insert(TopicPartition::new("t", 3), gone.clone());
        let made = checkpoint(id(), &reading, Some(&before), false).unwrap();
        assert_eq!(made.partitions.len(), 1, "the broker does not know it");
        // A partition that the topic has, and that the broker does not know, is a contradiction.
        reading.partitions.insert(TopicPartition::new("t", 2), gone);
        assert_eq!(
            checkpoint(id(), &reading, Some(&before), false),
            Err(NotACheckpoint::Incomplete {
                faults: vec![(TopicPartition::new("t", 2), Fault::TopicGone)]
            })
        );
    }

    #[test]
    fn going_back_and_truncation_are_noted_against_the_checkpoint_before() {
        let before = checkpoint(id(), &seen(&[(0, Ok(Some(4)))], 10), None, false).unwrap();
        let reading = seen(&[(0, Ok(Some(2)))], 8);
        let partition = TopicPartition::new("t", 0);
        let truncated = Anomaly::LogTruncated {
            partition: partition.clone(),
            high_before: 10,
            high_after: 8,
        };
        let back = Anomaly::OffsetWentBackwards {
            partition,
            before: 4,
            after: 2,
        };
        let made = checkpoint(id(), &reading, Some(&before), false).unwrap();
        assert_eq!(made.anomalies, vec![truncated.clone(), back]);
        let made = checkpoint(id(), &reading, Some(&before), true).unwrap();
        assert_eq!(made.anomalies, vec![truncated]);
    }

    #[test]
    fn another_incarnation_of_a_topic_is_not_a_truncation() {
        let before = checkpoint(id(), &seen(&[(0, Ok(Some(4)))], 10), None, false).unwrap();
        let mut reading = seen(&[(0, Ok(Some(2)))], 8);
        reading.topics.insert(
            "t".into(),
            Ok(TopicDescription {
                id: TopicId::from_bytes([8; 16]),
                partitions: 3,
            }),
        );
        let made = checkpoint(id(), &reading, Some(&before), false).unwrap();
        assert_eq!(made.anomalies, vec![]);
    }

    #[test]
    fn a_checkpoint_is_undone_by_a_move_to_before_it() {
        let made = checkpoint(
            id(),
            &seen(&[(0, Ok(Some(4))), (1, Ok(None))], 10),
            None,
            false,
        )
        .unwrap();
        let to = |partition, byte, to: Option<i64>| PartitionMove {
            partition: TopicPartition::new("t", partition),
            topic_id: TopicId::from_bytes([byte; 16]),
            from: Some(CommittedOffset::bare(9)),
            to: to.map(CommittedOffset::bare),
            log: log(10),
            lost: 0,
            may_rise_to: None,
        };
        assert!(made.is_beyond(&[to(0, 7, Some(3))]));
        assert!(made.is_beyond(&[to(1, 7, Some(3)), to(0, 7, Some(3))]));
        for (what, m) in [
            ("exactly there", to(0, 7, Some(4))),
            ("after it", to(0, 7, Some(5))),
            ("where it had no commit", to(1, 7, Some(0))),
            ("where it had no partition", to(2, 7, Some(0))),
            ("in another log of the same name", to(0, 8, Some(3))),
            ("a commit that is removed", to(0, 7, None)),
        ] {
            assert!(!made.is_beyond(&[m]), "{what}");
        }
    }

    fn header(seconds: i64) -> CheckpointHeader {
        CheckpointHeader {
            id: CheckpointId(seconds.to_string()),
            ended_at: at(seconds),
            disowned: Disowned::default(),
            anomalies: vec![],
            expires_at: None,
        }
    }

    fn second_of(header: &CheckpointHeader) -> i64 {
        header.id.0.parse().unwrap()
    }

    #[test]
    fn nothing_expires_until_enough_newer_ones_span_enough_time() {
        let hour = 3600;
        let headers: Vec<_> = (0..6).rev().map(|n| header(n * hour)).collect();
        let named = |keep, span| -> Vec<_> {
            retire(&headers, keep, span)
                .iter()
                .map(|header| second_of(header) / hour)
                .collect()
        };
        assert_eq!(named(6, 0), Vec::<i64>::new());
        assert_eq!(named(4, 0), vec![1, 0]);
        // The newest four span three hours; asked for four, only the oldest may go.
        assert_eq!(named(4, 4 * hour), vec![0]);
        assert_eq!(named(4, 5 * hour), Vec::<i64>::new());
        // Not even for a moment less than asked for.
        let mut headers = headers.clone();
        headers[0].ended_at -= SignedDuration::from_millis(1);
        assert_eq!(
            retire(&headers, 4, 4 * hour),
            Vec::<&CheckpointHeader>::new()
        );
        // Keeping none would leave nothing to go back to.
        assert_eq!(named(0, 0), vec![4, 3, 2, 1, 0]);
    }

    /// Rewound by a week: the week's checkpoints are no use, so they must not push out the one that was gone back to.
    #[test]
    fn what_a_rewind_disowned_does_not_count_as_newer() {
        let mut headers: Vec<_> = (0..6).rev().map(header).collect();
        for header in &mut headers[1..4] {
            header.disowned = Disowned::by_one(PlanId("plan-1".into()), Undone::All);
        }
        let named = |keep| -> Vec<_> {
            let named = retire(&headers, keep, 0).into_iter();
            named.map(second_of).collect()
        };
        // Good ones are 5, 1 and 0.
        assert_eq!(named(1), vec![4, 3, 2, 1, 0]);
        assert_eq!(named(2), vec![0]);
        assert_eq!(named(3), Vec::<i64>::new());
    }

    #[test]
    fn ones_that_already_expire_are_not_named_again() {
        let mut headers: Vec<_> = (0..4).rev().map(header).collect();
        headers[3].expires_at = Some(at(99));
        assert_eq!(retire(&headers, 1, 0), vec![&headers[1], &headers[2]]);
    }
}
