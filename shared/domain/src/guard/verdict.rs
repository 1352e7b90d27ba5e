//! Why a partition is where it is, and what the person on call should do about it.

use std::fmt;

use serde::{Deserialize, Serialize};

pub use super::evidence::Evidence;
use crate::offset::{TopicPartition, Watermarks};

/// Why a partition is where it is. [`RULES`](super::rules::RULES) says when each is reached; the variants from
/// [`Verdict::PoisonLikely`] on are about partitions that stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Verdict {
    /// This partition could not be read.
    NoData,
    /// Its topic was created again, or is gone.
    TopicChanged,
    /// The group has no commit here.
    NoCommit,
    /// The commit lies beyond the end of the log.
    Ahead,
    /// The commit lies before the log start: records were deleted unread.
    BelowLogStart,
    /// Everything is read.
    CaughtUp,
    /// The commit went back.
    Rewound,
    /// What is committed says nothing about the consumers.
    ExternalOffsets,
    /// An open transaction holds `read_committed` consumers back.
    BlockedByTransaction,
    /// No record is left to read, only transaction markers, aborted or compacted data.
    MarkersOnly,
    /// It moves, and falls behind.
    Slow,
    /// It moves.
    Moving,
    /// It has not stood for long enough to say anything.
    Waiting,
    /// One record here is what the consumers do not get past.
    PoisonLikely,
    /// Nobody is in the group.
    NoMembers,
    /// The members do not come to rest.
    RebalanceLoop,
    /// The members keep going and coming back as new ones.
    CrashLoop,
    /// The members are at rest, and none of them has this partition.
    Unassigned,
    /// Several partitions stand, and none moves.
    GroupStuck,
    /// All of one member's partitions stand, and other members' move.
    OwnerStuck,
    /// This partition alone stands, or the members end and its next record is unlike those before it.
    PoisonSuspected,
    /// It stands, and nothing seen says why.
    StalledUnknown,
}

impl Verdict {
    /// All verdicts.
    pub const ALL: [Self; 22] = [
        Self::NoData,
        Self::TopicChanged,
        Self::NoCommit,
        Self::Ahead,
        Self::BelowLogStart,
        Self::CaughtUp,
        Self::Rewound,
        Self::ExternalOffsets,
        Self::BlockedByTransaction,
        Self::MarkersOnly,
        Self::Slow,
        Self::Moving,
        Self::Waiting,
        Self::PoisonLikely,
        Self::NoMembers,
        Self::RebalanceLoop,
        Self::CrashLoop,
        Self::Unassigned,
        Self::GroupStuck,
        Self::OwnerStuck,
        Self::PoisonSuspected,
        Self::StalledUnknown,
    ];

    /// Whether the verdict is about a partition whose commit stands for too long.
    #[must_use]
    pub fn is_stall(self) -> bool {
        self >= Self::PoisonLikely
    }

    /// Its name, as it stands in JSON.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::NoData => "NO_DATA",
            Self::TopicChanged => "TOPIC_CHANGED",
            Self::NoCommit => "NO_COMMIT",
            Self::Ahead => "AHEAD",
            Self::BelowLogStart => "BELOW_LOG_START",
            Self::CaughtUp => "CAUGHT_UP",
            Self::Rewound => "REWOUND",
            Self::ExternalOffsets => "EXTERNAL_OFFSETS",
            Self::BlockedByTransaction => "BLOCKED_BY_TRANSACTION",
            Self::MarkersOnly => "MARKERS_ONLY",
            Self::Slow => "SLOW",
            Self::Moving => "MOVING",
            Self::Waiting => "WAITING",
            Self::PoisonLikely => "POISON_LIKELY",
            Self::NoMembers => "NO_MEMBERS",
            Self::RebalanceLoop => "REBALANCE_LOOP",
            Self::CrashLoop => "CRASH_LOOP",
            Self::Unassigned => "UNASSIGNED",
            Self::GroupStuck => "GROUP_STUCK",
            Self::OwnerStuck => "OWNER_STUCK",
            Self::PoisonSuspected => "POISON_SUSPECTED",
            Self::StalledUnknown => "STALLED_UNKNOWN",
        }
    }

    /// What the person on call does next.
    #[must_use]
    pub fn next_step(self) -> &'static str {
        match self {
            Self::NoData => {
                "find out why the reading failed (broker, leader, ACL); until it succeeds nothing is known of this partition"
            }
            Self::TopicChanged => {
                "check who deleted or created the topic; old offsets mean nothing in a new log, so do not restore them; \
                 restart the consumers, or rewind to_earliest if its records must be read from the start"
            }
            Self::NoCommit => {
                "if the group should read this partition, check its consumers' subscription and auto.offset.reset; \
                 nothing is moved, since there is no position to move"
            }
            Self::Ahead => {
                "check for a truncated or recreated log or a wrong reset, then rewind: consumers that start now do what \
                 auto.offset.reset says"
            }
            Self::BelowLogStart => {
                "records were deleted before they were read: raise the topic's retention, tell the data's owner, and move \
                 the group to the log start before its consumers start, or auto.offset.reset decides"
            }
            Self::CaughtUp => "nothing to do",
            Self::Rewound => {
                "check that somebody meant it: records are being read again; the partition is judged anew from here"
            }
            Self::ExternalOffsets => {
                "ask the group's owner where its positions are kept; a moved commit would not move its consumers"
            }
            Self::BlockedByTransaction => {
                "find the producer and end its transaction (kafka-transactions.sh find-hanging, then abort); \
                 a skip would lose a good record and free nobody"
            }
            Self::MarkersOnly => {
                "nothing to do: no record is waiting, the lag is of offsets without records"
            }
            Self::Slow => "add consumers or make them faster; it moves, so nothing is skipped",
            Self::Moving => "nothing to do",
            Self::Waiting => "wait for the next runs, which will tell",
            Self::PoisonLikely => {
                "read the outline of the record with its owner; approve the skip, stop the members, and fix the consumer"
            }
            Self::NoMembers => {
                "start the group's consumers, or remove the group if it is not used any more"
            }
            Self::RebalanceLoop => {
                "compare the time that one poll's records take with max.poll.interval.ms, and session.timeout.ms with \
                 pauses; lower max.poll.records; a skip does not help"
            }
            Self::CrashLoop => {
                "read the log of the consumers: they start and end again, or are thrown out for not polling; \
                 a validator would show whether one record is the cause"
            }
            Self::Unassigned => {
                "check the subscription: the members are at rest and none of them reads this partition"
            }
            Self::GroupStuck => {
                "look at what all consumers need (database, network, lock): nothing of the group moves, so it is not one record"
            }
            Self::OwnerStuck => {
                "look at this member's host and threads, and restart it: the others move"
            }
            Self::PoisonSuspected => {
                "look at the records with their owner and at the member's threads; set a validator, or let the consumers \
                 take one record a poll (max.poll.records=1), to see which record it is; then ask for its skip"
            }
            Self::StalledUnknown => {
                "read the consumers' logs and restart the owner; what was seen does not single out a record"
            }
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// How sure a verdict is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Other causes look the same.
    Low,
    /// Other causes are possible and rarer.
    Medium,
    /// Seen, not inferred.
    High,
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        })
    }
}

/// How bad it is: of a partition, and, as the worst of them, of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    /// As it should be.
    Healthy,
    /// Somebody should look.
    Warning,
    /// Not known, which is never healthy.
    Unknown,
    /// Somebody has to act.
    Critical,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Healthy => "HEALTHY",
            Self::Warning => "WARNING",
            Self::Unknown => "UNKNOWN",
            Self::Critical => "CRITICAL",
        })
    }
}

/// What the rules say of one partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Which partition.
    pub partition: TopicPartition,
    /// Why it is where it is.
    pub verdict: Verdict,
    /// How sure that is.
    pub confidence: Confidence,
    /// How bad it is.
    pub status: Status,
    /// Offsets between the commit and the high watermark; `None` where one of the two is not known.
    pub lag: Option<u64>,
    /// What was seen, the most telling first.
    pub evidence: Vec<Evidence>,
}

impl Finding {
    /// What the person on call does next.
    #[must_use]
    pub fn next_step(&self) -> &'static str {
        self.verdict.next_step()
    }

    /// Among how many records the one that stops the consumers is, where nothing tells which: the first and the last
    /// offset, and how many.
    #[must_use]
    pub fn suspects(&self) -> Option<(i64, i64, u64)> {
        self.evidence.iter().find_map(|evidence| match evidence {
            Evidence::Suspects {
                first,
                last,
                records,
                ..
            } => Some((*first, *last, *records)),
            _ => None,
        })
    }

    /// The commit and the log, where both are known.
    #[must_use]
    pub fn position(&self) -> Option<(i64, Watermarks)> {
        self.evidence.iter().find_map(|evidence| match evidence {
            Evidence::Position { committed, log } => Some((*committed, *log)),
            _ => None,
        })
    }

    /// The commit that stands; `None` where it is not for standing that the partition is told of.
    #[must_use]
    pub fn stands_at(&self) -> Option<i64> {
        let (committed, _) = self.position()?;
        self.verdict.is_stall().then_some(committed)
    }
}

/// What the rules say of a group as a whole, where none of its partitions can be judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupFinding {
    /// What is wrong with its members.
    pub verdict: Verdict,
    /// How sure that is.
    pub confidence: Confidence,
    /// How bad it is.
    pub status: Status,
    /// What was seen, the most telling first.
    pub evidence: Vec<Evidence>,
}

impl GroupFinding {
    /// What the person on call does next.
    #[must_use]
    pub fn next_step(&self) -> &'static str {
        "read the log of the consumers: they end before they commit anything, so look at the records where \
         auto.offset.reset lets them begin (for earliest: the log start); fix the consumer, or have its owner give the group \
         a first commit after the record (kafka-consumer-groups.sh --reset-offsets); nothing is moved from here, since there \
         is no position to move"
    }
}
