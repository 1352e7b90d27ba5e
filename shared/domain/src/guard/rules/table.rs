//! The rule table. A rule that is added is a question in `offsets` or `stall`, and a row here.

use super::offsets::{self, Found, Position};
use super::stall::{self, Stall};
use crate::guard::verdict::{Confidence, Verdict};

/// A rule: a question about a partition, and the verdict if the answer is yes. Its number is its place in [`RULES`],
/// from 1.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// The verdict of a partition for which this is the first rule that matches.
    pub verdict: Verdict,
    question: Question,
}

/// What a rule asks.
#[derive(Debug, Clone, Copy)]
enum Question {
    /// About the offsets of any partition.
    Offsets(fn(&Position<'_, '_>) -> Option<Found>),
    /// About a partition whose commit stands for too long, beside everything else that the group does.
    Stall(fn(&Stall<'_, '_>) -> Option<Confidence>),
}

const fn offsets(verdict: Verdict, question: fn(&Position<'_, '_>) -> Option<Found>) -> Rule {
    let question = Question::Offsets(question);
    Rule { verdict, question }
}

const fn stall(verdict: Verdict, question: fn(&Stall<'_, '_>) -> Option<Confidence>) -> Rule {
    let question = Question::Stall(question);
    Rule { verdict, question }
}

/// All rules in the order in which they are asked. The first one that matches decides, and the last one always matches.
pub static RULES: [Rule; 30] = [
    offsets(Verdict::NoData, offsets::could_not_be_read),
    offsets(Verdict::TopicChanged, offsets::topic_is_gone),
    offsets(Verdict::TopicChanged, offsets::topic_was_created_again),
    offsets(Verdict::NoCommit, offsets::has_no_commit),
    offsets(Verdict::Ahead, offsets::is_beyond_the_log_end),
    offsets(Verdict::BelowLogStart, offsets::is_below_the_log_start),
    offsets(Verdict::CaughtUp, offsets::has_read_everything),
    offsets(Verdict::Rewound, offsets::went_back),
    offsets(Verdict::ExternalOffsets, offsets::is_kept_elsewhere),
    offsets(Verdict::Slow, offsets::moves_and_falls_behind),
    offsets(Verdict::Moving, offsets::moves),
    offsets(
        Verdict::BlockedByTransaction,
        offsets::waits_for_a_transaction,
    ),
    offsets(Verdict::MarkersOnly, offsets::has_no_record_left),
    offsets(Verdict::Waiting, offsets::has_not_stood_long_enough),
    stall(Verdict::PoisonLikely, stall::next_record_fails_a_validator),
    stall(Verdict::PoisonLikely, stall::one_record_stops_it),
    stall(
        Verdict::PoisonSuspected,
        stall::one_of_several_records_stops_it,
    ),
    stall(Verdict::NoMembers, stall::nobody_is_in_the_group),
    stall(Verdict::RebalanceLoop, stall::members_keep_rebalancing),
    stall(
        Verdict::PoisonSuspected,
        stall::members_crash_beside_an_odd_record,
    ),
    stall(Verdict::CrashLoop, stall::members_crash),
    stall(Verdict::CrashLoop, stall::members_keep_starting_at_it),
    stall(Verdict::Unassigned, stall::no_member_has_it),
    stall(Verdict::StalledUnknown, stall::no_member_was_seen),
    stall(Verdict::Waiting, stall::is_new_in_its_members_hands),
    stall(Verdict::GroupStuck, stall::several_stand_and_none_moves),
    stall(Verdict::OwnerStuck, stall::one_members_partitions_stand),
    stall(Verdict::PoisonLikely, stall::two_samples_agree),
    stall(Verdict::PoisonSuspected, stall::stands_alone),
    stall(Verdict::StalledUnknown, stall::stands),
];

/// The first rule about offsets that matches, and what it found.
pub(super) fn explain(position: &Position<'_, '_>) -> Option<(&'static Rule, Found)> {
    RULES.iter().find_map(|rule| match rule.question {
        Question::Offsets(asks) => Some((rule, asks(position)?)),
        Question::Stall(_) => None,
    })
}

/// The first rule about a stall that matches, and how sure it is.
pub(super) fn explain_stall(stall: &Stall<'_, '_>) -> Option<(&'static Rule, Confidence)> {
    RULES.iter().find_map(|rule| match rule.question {
        Question::Offsets(_) => None,
        Question::Stall(asks) => Some((rule, asks(stall)?)),
    })
}
