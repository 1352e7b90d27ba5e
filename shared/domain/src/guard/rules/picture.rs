//! What is the same for all partitions of a group that stand.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::case::Case;
use super::members::{GONE_AFTER_RUNS, Members, measure_turnover};
use super::standing::Standing;
use crate::guard::sample::newest_runs;
use crate::offset::TopicPartition;

/// What is the same for all partitions that stand.
pub(super) struct Picture<'a> {
    pub(super) standing: &'a [Standing<'a>],
    pub(super) members: Members,
    /// How many members came in the place of others within an hour of the usual schedule.
    pub(super) replaced: usize,
    pub(super) moves: Moves<'a>,
    /// How many of those that stand each member has.
    pub(super) owners: BTreeMap<&'a str, usize>,
    /// The members of which a partition moved lately.
    pub(super) moving: BTreeSet<&'a str>,
    /// The first look of the latest runs.
    pub(super) recent: usize,
    /// Those that moved since the last look of the run before this one.
    pub(super) lately: BTreeSet<&'a TopicPartition>,
    /// Of the looks from one on, in how many runs members started anew, and whether they end or are short-lived: partitions
    /// are many, and most of them stand since the same look.
    pub(super) turnover: RefCell<BTreeMap<usize, (usize, bool)>>,
}

impl<'a> Picture<'a> {
    pub(super) fn new(case: &Case<'a>, standing: &'a [Standing<'a>]) -> Self {
        let recent = case.samples.len() - case.recent().len();
        let moves = Moves::new(case);
        let owner_of = |partition: &TopicPartition| {
            let sample = case.last.of_partition(partition)?;
            sample.owner.as_deref()
        };
        let previous = (case.samples.len() - case.this_run().count()).saturating_sub(1);
        let mut owners = BTreeMap::new();
        for owner in standing.iter().filter_map(|here| owner_of(here.partition)) {
            *owners.entry(owner).or_default() += 1;
        }
        Self {
            standing,
            members: Members::of(case.recent()),
            replaced: measure_turnover(newest_runs(case.samples, GONE_AFTER_RUNS)).replaced,
            owners,
            moving: moves.since(recent).filter_map(owner_of).collect(),
            lately: moves.since(previous).collect(),
            turnover: RefCell::default(),
            moves,
            recent,
        }
    }
}

/// Partitions that moved on from one look to the next while somebody was there to move them, with the last look before
/// they did, the latest first. What was before the latest recovery of Offset Guard is left out: it stopped the group and
/// moved it.
pub(super) struct Moves<'a> {
    moves: Vec<(usize, &'a TopicPartition)>,
    /// The first in order of each of these and all before it: partitions are many, and each asks for one to name.
    examples: Vec<&'a TopicPartition>,
}

impl<'a> Moves<'a> {
    fn new(case: &Case<'a>) -> Self {
        let mut last: BTreeMap<&TopicPartition, usize> = BTreeMap::new();
        for (index, pair) in case.samples.windows(2).enumerate() {
            let [a, b] = pair else { continue };
            let by_us = a.moved_at != case.last.moved_at || b.is_being_moved();
            if (a.is_empty() && b.is_empty()) || by_us {
                continue;
            }
            for (partition, reading) in &b.partitions {
                let earlier = a.of_partition(partition).and_then(|p| p.committed);
                let later = reading.as_ref().ok().and_then(|p| p.committed);
                if earlier.is_some() && later > earlier {
                    last.insert(partition, index);
                }
            }
        }
        let mut moves: Vec<_> = last.into_iter().map(|(p, index)| (index, p)).collect();
        moves.sort_by_key(|(index, _)| std::cmp::Reverse(*index));
        let examples = moves.iter().scan(None, |first, (_, partition)| {
            let example = first.map_or(*partition, |first: &TopicPartition| first.min(partition));
            *first = Some(example);
            Some(example)
        });
        Self {
            examples: examples.collect(),
            moves,
        }
    }

    /// How many moved since the look `from`.
    pub(super) fn count(&self, from: usize) -> usize {
        self.moves.partition_point(|(index, _)| *index >= from)
    }

    /// Those that moved since the look `from`.
    pub(super) fn since(&self, from: usize) -> impl Iterator<Item = &'a TopicPartition> {
        let latest = self.moves.iter().take(self.count(from));
        latest.map(|(_, partition)| *partition)
    }

    /// One of them to name, and how many.
    pub(super) fn example(&self, from: usize) -> Option<(&'a TopicPartition, usize)> {
        let count = self.count(from);
        Some((self.examples.get(count.checked_sub(1)?)?, count))
    }
}
