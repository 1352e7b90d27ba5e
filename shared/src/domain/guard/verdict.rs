//! Why a partition is where it is, and what the person on call should do about it.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::policy::Validator;
use super::record::Outline;
use crate::domain::group::GroupState;
use crate::domain::offset::{Fault, TopicPartition, Watermarks};
use crate::domain::text::{self, count, grouped, time, verb};

/// Why a partition is where it is. The number is the rule's: the first that matches decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[repr(u8)]
pub enum Verdict {
    /// This partition could not be read.
    NoData = 1,
    /// Its topic was created again, or is gone.
    TopicChanged = 2,
    /// The group has no commit here.
    NoCommit = 3,
    /// The commit lies beyond the end of the log.
    Ahead = 4,
    /// The commit lies before the log start: records were deleted unread.
    BelowLogStart = 5,
    /// Everything is read.
    CaughtUp = 6,
    /// The commit went back.
    Rewound = 7,
    /// What is committed says nothing about the consumers.
    ExternalOffsets = 8,
    /// An open transaction holds `read_committed` consumers back.
    BlockedByTransaction = 9,
    /// No record is left to read, only transaction markers, aborted or compacted data.
    MarkersOnly = 10,
    /// It moves, and falls behind.
    Slow = 11,
    /// It moves.
    Moving = 12,
    /// It has not stood for long enough to say anything.
    Waiting = 13,
    /// One record here is what the consumers do not get past.
    PoisonLikely = 14,
    /// Nobody is in the group.
    NoMembers = 15,
    /// The members do not come to rest.
    RebalanceLoop = 16,
    /// The members keep going and coming back as new ones.
    CrashLoop = 17,
    /// The members are at rest, and none of them has this partition.
    Unassigned = 18,
    /// Several partitions stand, and none moves.
    GroupStuck = 19,
    /// All of one member's partitions stand, and other members' move.
    OwnerStuck = 20,
    /// This partition alone stands.
    PoisonSuspected = 21,
    /// It stands, and nothing seen says why.
    StalledUnknown = 22,
}

impl Verdict {
    /// All of them, in the order of the rules.
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

    /// The rule's number, from 1.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
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
                "look at the record with its owner and at the member's threads; if it is the record, ask for its skip"
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

/// One thing that was seen. Nothing of a record's payload is in any of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "saw", rename_all = "snake_case")]
pub enum Evidence {
    /// The reading failed.
    Failed {
        /// Why.
        fault: Fault,
    },
    /// The broker does not know the topic any more.
    TopicGone,
    /// The topic has another id.
    TopicRecreated {
        /// The id that it had.
        before: String,
        /// The id that it has.
        now: String,
    },
    /// The log ends earlier than it did, and no topic id tells whether it is another one.
    LogShrank {
        /// The high watermark that it had.
        before: i64,
        /// The high watermark that it has.
        now: i64,
    },
    /// Where the group is in the log.
    Position {
        /// The committed offset.
        committed: i64,
        /// The log.
        log: Watermarks,
    },
    /// The group has no commit, and the log holds so many offsets.
    NoPosition {
        /// Offsets in the log.
        offsets: u64,
    },
    /// The commit has stood.
    Still {
        /// Since when, as far as was seen.
        since: Timestamp,
        /// For how long, in seconds.
        seconds: u64,
        /// In how many runs of the guard.
        runs: usize,
    },
    /// A stall counts as one only after longer than the policy says, because the partition stood as long before and
    /// then moved on by itself.
    StoodBefore {
        /// How long, in seconds.
        seconds: u32,
    },
    /// There is nothing yet to compare with.
    FirstSample,
    /// The commit moved on.
    Advanced {
        /// By how many offsets, over the samples compared.
        by: u64,
    },
    /// The lag grew from run to run.
    LagGrew {
        /// From.
        from: u64,
        /// To.
        to: u64,
        /// Over how many runs.
        runs: usize,
    },
    /// The commit went back.
    WentBack {
        /// From.
        from: i64,
        /// To.
        to: i64,
    },
    /// A recovery of Offset Guard moved the group.
    MovedByRecovery {
        /// When.
        at: Timestamp,
    },
    /// So says the configuration.
    Configured,
    /// A commit moved although nobody was in the group.
    JumpedWithoutMembers {
        /// Where.
        partition: TopicPartition,
        /// From.
        from: i64,
        /// To.
        to: i64,
    },
    /// A transaction is open at the last stable offset.
    OpenTransaction {
        /// The last stable offset.
        last_stable: i64,
        /// For how long it was seen there, in seconds.
        seconds: u64,
        /// Longer than any transaction may stay open: its producer is gone.
        hanging: bool,
    },
    /// The group's own transaction has a commit pending here.
    PendingCommit,
    /// The group's commits were beyond the last stable offset, so its consumers read uncommitted records.
    ReadsUncommitted,
    /// No record is visible up to an offset.
    NothingVisible {
        /// Up to where, exclusive.
        until: i64,
    },
    /// The first record there, in outline.
    FirstVisible {
        /// The record.
        record: Outline,
        /// Offsets before it that hold no visible record.
        absent: u64,
    },
    /// The first record of a `read_uncommitted` consumer is another one than that of a `read_committed` one.
    IsolationMatters {
        /// The offset of the first one; `None` for none.
        committed: Option<i64>,
        /// The offset of the first one, aborted data counted; `None` for none.
        uncommitted: Option<i64>,
    },
    /// A validator does not pass a record.
    ValidatorFailed {
        /// The record.
        offset: i64,
        /// The validator.
        validator: Validator,
        /// What is wrong.
        problem: String,
    },
    /// The record is of another kind than all those right before it, which the group got past.
    UnlikeThoseBefore {
        /// The record.
        offset: i64,
        /// The kind of those before.
        validator: Validator,
        /// What is wrong with it.
        problem: String,
        /// How many were before it.
        passing: usize,
    },
    /// The validators pass all records that were read.
    ValidatorsPass {
        /// How many.
        records: usize,
    },
    /// There is no raw read of this partition.
    NotProbed {
        /// Why.
        why: String,
    },
    /// Several members had the partition while its commit stood.
    Owners {
        /// Their member ids, at most five.
        member_ids: Vec<String>,
        /// How many.
        count: usize,
    },
    /// Members came in the place of others in the latest runs: processes that started again, or were let in again.
    Arrivals {
        /// How many.
        count: usize,
    },
    /// Other partitions moved on meanwhile.
    OthersMoved {
        /// One of them.
        example: TopicPartition,
        /// How many.
        count: usize,
    },
    /// None of the group's partitions moved meanwhile.
    NothingMoved,
    /// These stand as well.
    AlsoStalled {
        /// At most five of them.
        partitions: Vec<TopicPartition>,
        /// How many.
        count: usize,
    },
    /// The owner.
    Owner {
        /// Its `client.id`.
        client_id: String,
        /// Its member id.
        member_id: String,
        /// Its host.
        host: String,
    },
    /// No member had the partition in these looks.
    NoOwner {
        /// How many looks.
        looks: usize,
    },
    /// The group's states in the latest looks.
    Looks {
        /// How many looks.
        looks: usize,
        /// In how many of them nobody was in the group.
        empty: usize,
        /// In how many of them it was rebalancing.
        rebalancing: usize,
        /// The state in the last one.
        state: GroupState,
        /// The members in the last one.
        members: usize,
    },
    /// Two samples are all that there is, as the policy allows.
    TwoSamples,
}

impl fmt::Display for Evidence {
    #[expect(
        clippy::too_many_lines,
        reason = "one line for each thing seen, all in one place"
    )]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offset = |offset: &Option<i64>| offset.map_or("none".to_owned(), |o| o.to_string());
        match self {
            Self::Failed { fault } => write!(f, "{fault}"),
            Self::TopicGone => f.write_str("the broker does not know the topic any more"),
            Self::TopicRecreated { before, now } => {
                write!(f, "the topic's id was {before} and is {now}")
            }
            Self::LogShrank { before, now } => write!(
                f,
                "the log ended at {before} and ends at {now}, and the brokers tell no topic id: \
                 it was created again or lost its end"
            ),
            Self::Position { committed, log } => write!(
                f,
                "committed {committed}, log {} to {}{}, lag {}",
                log.log_start,
                log.high,
                if log.last_stable < log.high {
                    format!(" (stable to {})", log.last_stable)
                } else {
                    String::new()
                },
                grouped(log.lag(*committed))
            ),
            Self::NoPosition { offsets } => {
                write!(f, "no commit; the log holds {}", count(*offsets, "offset"))
            }
            Self::Still {
                since,
                seconds,
                runs,
            } => write!(
                f,
                "the commit has stood for {} s in {}, since {} as far as was seen",
                grouped(*seconds),
                count(*runs, "run"),
                time(*since)
            ),
            Self::StoodBefore { seconds } => write!(
                f,
                "it stood for {} s before and moved on by itself, so it is given longer",
                grouped(*seconds)
            ),
            Self::FirstSample => f.write_str("there is no earlier sample to compare with"),
            Self::Advanced { by } => write!(f, "the commit moved on by {}", grouped(*by)),
            Self::LagGrew { from, to, runs } => {
                write!(
                    f,
                    "the lag grew from {} to {} over {}",
                    grouped(*from),
                    grouped(*to),
                    count(*runs, "run")
                )
            }
            Self::WentBack { from, to } => write!(f, "the commit went back from {from} to {to}"),
            Self::MovedByRecovery { at } => {
                write!(f, "Offset Guard moved the group at {}", time(*at))
            }
            Self::Configured => f.write_str("the configuration says so"),
            Self::JumpedWithoutMembers {
                partition,
                from,
                to,
            } => write!(
                f,
                "the commit of {partition} moved from {from} to {to} while nobody was in the group"
            ),
            Self::OpenTransaction {
                last_stable,
                seconds,
                hanging,
            } => write!(
                f,
                "a transaction is open at {last_stable}, seen there for {} s{}",
                grouped(*seconds),
                if *hanging {
                    ": longer than a transaction may last, so it hangs"
                } else {
                    ""
                }
            ),
            Self::PendingCommit => {
                f.write_str("a transaction of the group itself has a commit pending")
            }
            Self::ReadsUncommitted => f.write_str(
                "the group has committed beyond the last stable offset, so it reads uncommitted records",
            ),
            Self::NothingVisible { until } => write!(f, "no record is visible before {until}"),
            Self::FirstVisible { record, absent } => {
                if *absent > 0 {
                    write!(
                        f,
                        "{} {} no visible record, then ",
                        count(*absent, "offset"),
                        verb(*absent, "holds", "hold")
                    )?;
                }
                write!(f, "{record}")
            }
            Self::IsolationMatters {
                committed,
                uncommitted,
            } => write!(
                f,
                "aborted data: a read_committed consumer's first record is {}, a read_uncommitted one's {}; \
                 set isolation for this group",
                offset(committed),
                offset(uncommitted)
            ),
            Self::ValidatorFailed {
                offset,
                validator,
                problem,
            } => write!(f, "record {offset} fails {validator}: {problem}"),
            Self::UnlikeThoseBefore {
                offset,
                validator,
                problem,
                passing,
            } => write!(
                f,
                "record {offset} fails {validator}, which the {} before it {}: {problem}",
                count(*passing, "record"),
                verb(*passing, "passes", "pass")
            ),
            Self::ValidatorsPass { records } => {
                write!(f, "the validators pass the {} read", count(*records, "record"))
            }
            Self::NotProbed { why } => f.write_str(why),
            Self::Owners { member_ids, count } => write!(
                f,
                "{} had it at this offset: {}{}",
                text::count(*count, "member"),
                member_ids.join(", "),
                if *count > member_ids.len() { ", …" } else { "" }
            ),
            Self::Arrivals { count } => {
                write!(
                    f,
                    "{} came in the place of others lately",
                    text::count(*count, "member")
                )
            }
            Self::OthersMoved { example, count } => {
                write!(
                    f,
                    "{} moved on, such as {example}",
                    text::count(*count, "other partition")
                )
            }
            Self::NothingMoved => f.write_str("no partition of the group moved meanwhile"),
            Self::AlsoStalled { partitions, count } => {
                let shown: Vec<_> = partitions.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "{} {} as well: {}{}",
                    text::count(*count, "other"),
                    verb(*count, "stands", "stand"),
                    shown.join(", "),
                    if *count > shown.len() { ", …" } else { "" }
                )
            }
            Self::Owner {
                client_id,
                member_id,
                host,
            } => write!(f, "owned by {client_id} ({host}, member id {member_id})"),
            Self::NoOwner { looks } => {
                write!(f, "no member had it in {}", count(*looks, "look"))
            }
            Self::Looks {
                looks,
                empty,
                rebalancing,
                state,
                members,
            } => write!(
                f,
                "{}: {empty} without members, {rebalancing} rebalancing; last {state} with {}",
                count(*looks, "look"),
                count(*members, "member")
            ),
            Self::TwoSamples => f.write_str("two-sample evidence, as the policy allows"),
        }
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
        (self.verdict >= Verdict::PoisonLikely).then_some(committed)
    }
}
