//! What the guard remembers of a group: its readings, one after another.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::group::{GroupObservation, GroupState, GroupType, MemberSeen};
use crate::ids::PlanId;
use crate::offset::{Fault, TopicId, TopicPartition, Watermarks};
use crate::text::time;

/// Readings that lie further apart say nothing about what happened between them. Ten runs of the usual schedule.
pub const LONGEST_GAP: SignedDuration = SignedDuration::from_mins(50);

/// How many runs show who is in the group at present, where it is Empty at times.
pub const LATEST_RUNS: u8 = 3;

/// One partition in one reading.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionSample {
    /// The committed offset; `None` is "no commit".
    pub committed: Option<i64>,
    /// Where the log began and ended.
    pub log: Watermarks,
    /// The member id of its owner, where members had their assignments.
    pub owner: Option<String>,
    /// Whether a transaction of the group itself had a commit pending here.
    pub unstable: bool,
    /// Since when the committed offset was seen where it is with offsets behind it: a group that had read all stood for
    /// nothing.
    pub still_since: Timestamp,
    /// Since when the last stable offset was seen where it is, below the high watermark: since when a transaction is open.
    pub stable_since: Timestamp,
    /// For how long the offset stands at times before its consumers move it on, in seconds: the longest such pause, where
    /// each later move halves what is remembered, so that one bad day is forgotten.
    pub longest_pause_seconds: u32,
}

impl PartitionSample {
    /// Offsets between the commit and the high watermark; `None` without a commit.
    #[must_use]
    pub fn lag(&self) -> Option<u64> {
        self.committed.map(|committed| self.log.lag(committed))
    }
}

/// How far a recovery is that holds a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Its plan waits for an approval: nothing was stopped or moved for it.
    AwaitsApproval,
    /// It is approved: its consumers have to stop.
    Approved,
    /// Its Apply has begun, and its end was not reported yet.
    Applies,
}

/// The recovery of Offset Guard that holds a group while it is looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveRecovery {
    /// Its plan.
    pub plan: PlanId,
    /// When it was opened.
    pub since: Timestamp,
    /// How far it is.
    pub stage: Stage,
    /// Where it moves each partition. Known only once it may have begun to apply.
    pub targets: Vec<(TopicPartition, i64)>,
}

impl LiveRecovery {
    /// Whether it explains that `partition` is committed at `offset`: at its target, or further on, where its consumers
    /// have started again.
    #[must_use]
    pub fn explains(&self, partition: &TopicPartition, offset: i64) -> bool {
        // A plan's moves are in the order of partitions.
        let place = self.targets.binary_search_by(|(of, _)| of.cmp(partition));
        let target = place.ok().and_then(|place| self.targets.get(place));
        self.stage == Stage::Applies && target.is_some_and(|(_, target)| offset >= *target)
    }
}

impl fmt::Display for LiveRecovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (plan, since) = (&self.plan, time(self.since));
        match self.stage {
            Stage::AwaitsApproval => {
                write!(
                    f,
                    "recovery {plan} has waited for its approval since {since}"
                )
            }
            Stage::Approved | Stage::Applies => {
                write!(f, "recovery {plan} is being applied, open since {since}")
            }
        }
    }
}

/// What is wrong with a group's members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// Nothing that they show.
    None,
    /// Nobody is there.
    Absent,
    /// They do not come to rest.
    Rebalances,
    /// They go and come back as new ones.
    Crashes,
}

/// What the rules made of a group's members at the end of a run. The next run goes on from it: the runs that it rests on
/// are not kept for ever, and what the oldest of those that are left show by themselves may be something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MembersTrouble {
    /// Where some commit of the group moved.
    pub moving: Trouble,
    /// Where none did.
    pub unmoved: Trouble,
}

/// One reading of a group. A reading that failed for the group as a whole is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// When the run began that it belongs to. A run may look several times.
    pub run: Timestamp,
    /// When the reading ended.
    pub at: Timestamp,
    /// The group's state.
    pub state: GroupState,
    /// Its protocol.
    pub group_type: GroupType,
    /// No protocol type at all: offsets without members.
    pub is_simple: bool,
    /// Its members, by member id.
    pub members: Vec<MemberSeen>,
    /// The topics' ids, where the brokers tell them.
    pub topics: BTreeMap<String, Option<TopicId>>,
    /// When a recovery of Offset Guard last moved the group, if one ever did.
    pub moved_at: Option<Timestamp>,
    /// The recovery that held the group meanwhile.
    pub recovery: Option<LiveRecovery>,
    /// What was wrong with the members at the end of its run; `None` where that was not kept.
    pub trouble: Option<MembersTrouble>,
    /// Every partition: a sample, or why there is none.
    pub partitions: BTreeMap<TopicPartition, Result<PartitionSample, Fault>>,
}

impl Sample {
    /// The sample of an observation. `unstable` are the partitions where a `require_stable` reading saw a pending
    /// commit; `history` is what was sampled before, oldest first; `moved_at` is when a recovery last moved the group.
    ///
    /// # Errors
    /// The group could not be described, so there is nothing to compare and nothing to keep.
    pub fn of(
        run: Timestamp,
        seen: &GroupObservation,
        unstable: &BTreeSet<TopicPartition>,
        history: &[Self],
        moved_at: Option<Timestamp>,
    ) -> Result<Self, Fault> {
        let description = seen.description.as_ref().map_err(Clone::clone)?;
        let mut members: Vec<_> = description.members.iter().map(MemberSeen::from).collect();
        members.sort_by(|a, b| a.member_id.cmp(&b.member_id));
        let owners: BTreeMap<&TopicPartition, &str> = description
            .members
            .iter()
            .flat_map(|m| m.assignment.iter().map(|p| (p, m.member_id.as_str())))
            .collect();
        let topics: BTreeMap<_, _> = seen
            .topics
            .iter()
            .filter_map(|(topic, described)| Some((topic.clone(), described.as_ref().ok()?.id)))
            .collect();
        let partitions = seen
            .partitions
            .iter()
            .map(|(partition, reading)| {
                let sample = match (&reading.committed, &reading.log) {
                    // That the topic is gone explains whatever else is wrong.
                    (_, Err(Fault::TopicGone)) | (Err(Fault::TopicGone), _) => {
                        Err(Fault::TopicGone)
                    }
                    (Err(fault), _) | (_, Err(fault)) => Err(fault.clone()),
                    (Ok(committed), Ok(log)) => {
                        let mut sample = PartitionSample {
                            committed: committed.as_ref().map(|c| c.offset),
                            log: *log,
                            owner: owners.get(partition).map(|owner| (*owner).to_owned()),
                            unstable: unstable.contains(partition),
                            still_since: seen.ended_at,
                            stable_since: seen.ended_at,
                            longest_pause_seconds: 0,
                        };
                        let now = Now {
                            at: seen.ended_at,
                            id: topics.get(&partition.topic).copied().flatten(),
                            has_members: !members.is_empty(),
                            moved_at,
                        };
                        sample.carry_on(partition, &now, history);
                        Ok(sample)
                    }
                };
                (partition.clone(), sample)
            })
            .collect();
        Ok(Self {
            run,
            at: seen.ended_at,
            state: description.state,
            group_type: description.group_type,
            is_simple: description.is_simple,
            members,
            topics,
            moved_at,
            recovery: None,
            trouble: None,
            partitions,
        })
    }

    /// Whether a recovery that is being applied may have moved the group since the look before.
    #[must_use]
    pub fn is_being_moved(&self) -> bool {
        self.recovery
            .as_ref()
            .is_some_and(|live| live.stage == Stage::Applies)
    }

    /// The sample of one partition, where its reading did not fail.
    #[must_use]
    pub fn of_partition(&self, partition: &TopicPartition) -> Option<&PartitionSample> {
        self.partitions.get(partition)?.as_ref().ok()
    }

    /// The id of a topic, where it is known.
    #[must_use]
    pub fn topic_id(&self, topic: &str) -> Option<TopicId> {
        self.topics.get(topic).copied().flatten()
    }

    /// Whether nobody was in the group.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.state == GroupState::Empty && self.members.is_empty()
    }

    /// Whether the members had no assignment, or were about to get another one.
    #[must_use]
    pub fn is_rebalancing(&self) -> bool {
        match self.state {
            GroupState::PreparingRebalance
            | GroupState::CompletingRebalance
            | GroupState::Assigning
            | GroupState::Reconciling => true,
            // librdkafka has no word for some states in which members move.
            GroupState::Unknown => !self.members.is_empty(),
            GroupState::Empty | GroupState::Stable | GroupState::Dead => false,
        }
    }
}

/// What is known of a look while its partitions are still being put together.
struct Now {
    at: Timestamp,
    id: Option<TopicId>,
    has_members: bool,
    moved_at: Option<Timestamp>,
}

impl PartitionSample {
    /// Whether anything lies behind the commit.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.committed.is_some_and(|c| c < self.log.high)
    }

    /// Takes over from the last reading of this partition what has not changed since.
    fn carry_on(&mut self, partition: &TopicPartition, now: &Now, history: &[Sample]) {
        let before = since_gap(history, now.at).iter().rev().find_map(|sample| {
            let of = sample.of_partition(partition)?;
            Some((sample, of))
        });
        let Some((look, before)) = before else {
            return;
        };
        // In a log that is another one, or lost its end, the same offset is another record.
        if is_another(look.topic_id(&partition.topic), now.id) || before.log.high > self.log.high {
            return;
        }
        self.longest_pause_seconds = before.longest_pause_seconds;
        if before.committed == self.committed {
            if before.waits() {
                self.still_since = before.still_since;
            }
        } else if before.committed < self.committed {
            // What an outage or a recovery ended was no pause of the consumers.
            let by_itself = now.has_members && before.waits() && look.moved_at == now.moved_at;
            let stood = match there_since(history) {
                Some(there) if by_itself => now
                    .at
                    .duration_since(before.still_since.max(there))
                    .as_secs(),
                _ => 0,
            };
            let stood = u32::try_from(stood).unwrap_or(u32::MAX);
            self.longest_pause_seconds = stood.max(before.longest_pause_seconds / 2);
        }
        let was_open = before.log.last_stable < before.log.high;
        if was_open && before.log.last_stable == self.log.last_stable {
            self.stable_since = before.stable_since;
        }
    }
}

/// Since when somebody was in the group in every look of `history`; `None` where nobody is in the last one.
fn there_since(history: &[Sample]) -> Option<Timestamp> {
    let there = history.iter().rev();
    let first = there.take_while(|look| !look.members.is_empty()).last()?;
    Some(first.at)
}

/// The members of `looks`, which are in the order of time, as far as they say something about `now`: of each client and
/// host those that were seen last. A process that starts again and again comes with another member id each time.
#[must_use]
pub fn latest_members(looks: &[Sample], now: Timestamp) -> Vec<MemberSeen> {
    let mut clients: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut latest = Vec::new();
    for look in since_gap(looks, now).iter().rev() {
        let fresh = |m: &&MemberSeen| !clients.contains(&(m.client_id.as_str(), m.host.as_str()));
        let members: Vec<_> = look.members.iter().filter(fresh).collect();
        for member in members {
            clients.insert((&member.client_id, &member.host));
            latest.push(MemberSeen {
                client_id: member.client_id.clone(),
                member_id: member.member_id.clone(),
                host: member.host.clone(),
            });
        }
    }
    latest.sort_by(|a, b| (&a.client_id, &a.member_id).cmp(&(&b.client_id, &b.member_id)));
    latest
}

/// The looks of the [`LATEST_RUNS`] of `samples`.
#[must_use]
pub fn of_latest_runs(samples: &[Sample]) -> &[Sample] {
    newest_runs(samples, usize::from(LATEST_RUNS))
}

/// The looks of the newest so many runs.
pub(super) fn newest_runs(samples: &[Sample], runs: usize) -> &[Sample] {
    let mut seen: Vec<Timestamp> = Vec::new();
    let mut from = samples.len();
    for (index, sample) in samples.iter().enumerate().rev() {
        if seen.last() != Some(&sample.run) {
            if seen.len() == runs {
                break;
            }
            seen.push(sample.run);
        }
        from = index;
    }
    samples.get(from..).unwrap_or_default()
}

/// Whether two topic ids are those of two topics. One that is not known says nothing.
#[must_use]
pub fn is_another(a: Option<TopicId>, b: Option<TopicId>) -> bool {
    a.zip(b).is_some_and(|(a, b)| a != b)
}

/// The end of a history, oldest first, in which no two readings, and the last one and `now`, lie further apart than
/// [`LONGEST_GAP`].
#[must_use]
pub fn since_gap(history: &[Sample], now: Timestamp) -> &[Sample] {
    let mut after = now;
    let mut from = history.len();
    while let Some(sample) = from.checked_sub(1).and_then(|i| history.get(i)) {
        if after.duration_since(sample.at) > LONGEST_GAP {
            break;
        }
        after = sample.at;
        from -= 1;
    }
    history.get(from..).unwrap_or_default()
}
