//! What was seen that speaks for a verdict.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::policy::Validator;
use super::record::Outline;
use super::sample::LiveRecovery;
use crate::group::GroupState;
use crate::offset::{Fault, TopicPartition, Watermarks};
use crate::text::{self, count, grouped, time, verb};

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
    /// Nothing tells which of the records of one poll stops the consumers: no validator fails, none is of another kind
    /// than those before it, and the group is not known to commit record by record.
    Suspects {
        /// The first of them.
        first: i64,
        /// The last of them, where each offset in between holds a record.
        last: i64,
        /// How many at most.
        records: u64,
        /// How many records one poll returns at most.
        max_poll_records: u32,
        /// Whether that is configured, or Kafka's default.
        configured: bool,
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
    /// Somebody has had the partition without a break, but not for as long as it takes to call it a stall.
    OwnedSince {
        /// Since when.
        since: Timestamp,
        /// For how long, in seconds.
        seconds: u64,
    },
    /// Nobody is in the group now, but members came and went before.
    LastSeen {
        /// When a member was last seen; `None` where that is longer ago than what is remembered.
        at: Option<Timestamp>,
        /// How many runs saw nobody since.
        runs: usize,
        /// After how many such runs nobody is said to be in the group.
        limit: usize,
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
    /// A recovery of Offset Guard holds the group.
    Recovery {
        /// Which, and how far it is.
        live: LiveRecovery,
    },
    /// Members came and went, and the group has never committed an offset.
    NeverCommitted {
        /// How many members were seen.
        members: usize,
        /// In how many runs.
        runs: usize,
    },
    /// What the members of a group without commits were assigned.
    Assigned {
        /// One of the partitions.
        example: TopicPartition,
        /// How many.
        count: usize,
        /// Offsets in their logs.
        offsets: u64,
    },
    /// No look saw what the members were assigned.
    AssignmentUnseen,
    /// The first record of a partition in which the group has no commit.
    FirstRecord {
        /// Where.
        partition: TopicPartition,
        /// The record.
        record: Outline,
        /// What a validator says against it.
        problem: Option<String>,
    },
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
            Self::Suspects {
                first,
                last,
                records,
                max_poll_records,
                configured,
            } => {
                write!(
                    f,
                    "what stops it is one of up to {}, from offset {first} to {last}{}: no validator and no odd \
                     kind points at one of them, and it is not known that the group commits record by record",
                    count(*records, "record"),
                    if *records >= u64::from(*max_poll_records) {
                        ", or further where offsets are empty"
                    } else {
                        ""
                    }
                )?;
                if *configured {
                    write!(f, " (max_poll_records is {max_poll_records})")
                } else {
                    write!(
                        f,
                        " (max_poll_records is not configured, so Kafka's default of {max_poll_records} counts)"
                    )
                }
            }
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
            Self::OwnedSince { since, seconds } => write!(
                f,
                "owned since {}, for {} s: too short to say that the owner does not get on",
                time(*since),
                grouped(*seconds)
            ),
            Self::LastSeen { at, runs, limit } => {
                match at {
                    Some(at) => write!(f, "members came and went, the last was seen at {}", time(*at))?,
                    None => f.write_str("members came and went")?,
                }
                write!(
                    f,
                    "; {} {} seen nobody since, and after {limit} of them nobody is in the group",
                    count(*runs, "run"),
                    verb(*runs, "has", "have")
                )
            }
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
            Self::Recovery { live } => write!(f, "{live}"),
            Self::NeverCommitted { members, runs } => write!(
                f,
                "{} came and went in {}, and the group has never committed an offset",
                count(*members, "member"),
                count(*runs, "run")
            ),
            Self::Assigned {
                example,
                count,
                offsets,
            } => write!(
                f,
                "they were assigned {example}{}, with {} from the log start on",
                match count {
                    0 | 1 => String::new(),
                    count => format!(" and {} more", grouped(count - 1)),
                },
                text::count(*offsets, "offset")
            ),
            Self::AssignmentUnseen => f.write_str("no look saw what they were assigned"),
            Self::FirstRecord {
                partition,
                record,
                problem,
            } => {
                write!(f, "the first record of {partition} is {record}")?;
                match problem {
                    Some(problem) => write!(f, ", which is bad: {problem}"),
                    None => Ok(()),
                }
            }
        }
    }
}
