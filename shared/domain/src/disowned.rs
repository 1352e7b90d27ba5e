//! What verified rewinds undid of a checkpoint, partition by partition.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::ids::PlanId;
use super::offset::TopicPartition;

/// Which partitions one rewind took back to before a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Undone {
    /// Those, by topic, as ranges with both ends included, in order.
    Partitions(BTreeMap<String, Vec<(i32, i32)>>),
    /// All of them: the marks of earlier releases say no more, and neither does one that would be too large.
    All,
}

impl Undone {
    /// Of these partitions, in any order.
    pub fn of<'a>(partitions: impl IntoIterator<Item = &'a TopicPartition>) -> Self {
        let partitions: BTreeSet<_> = partitions.into_iter().collect();
        let mut topics: BTreeMap<String, Vec<(i32, i32)>> = BTreeMap::new();
        for TopicPartition { topic, partition } in partitions {
            let ranges = match topics.get_mut(topic) {
                Some(ranges) => ranges,
                None => topics.entry(topic.clone()).or_default(),
            };
            match ranges.last_mut() {
                Some((_, last)) if last.checked_add(1) == Some(*partition) => *last = *partition,
                _ => ranges.push((*partition, *partition)),
            }
        }
        Self::Partitions(topics)
    }

    /// Of what either is of.
    fn and(&self, other: &Self) -> Self {
        let (Self::Partitions(these), Self::Partitions(those)) = (self, other) else {
            return Self::All;
        };
        let mut topics = these.clone();
        for (topic, ranges) in those {
            let all = topics.entry(topic.clone()).or_default();
            all.extend(ranges);
            all.sort_unstable();
            let mut merged: Vec<(i32, i32)> = Vec::new();
            for &(first, last) in all.iter() {
                match merged.last_mut() {
                    Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                    _ => merged.push((first, last)),
                }
            }
            *all = merged;
        }
        Self::Partitions(topics)
    }

    /// Whether it is one of them.
    #[must_use]
    pub fn contains(&self, at: &TopicPartition) -> bool {
        match self {
            Self::All => true,
            Self::Partitions(topics) => topics.get(&at.topic).is_some_and(|ranges| {
                let after = ranges.partition_point(|(first, _)| *first <= at.partition);
                let range = after.checked_sub(1).and_then(|before| ranges.get(before));
                range.is_some_and(|(_, last)| at.partition <= *last)
            }),
        }
    }
}

/// Everything that verified rewinds undid of one checkpoint. For any other partition it is as good as it was.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Disowned(BTreeMap<PlanId, Undone>);

impl Disowned {
    /// By one plan alone.
    #[must_use]
    pub fn by_one(plan: PlanId, undone: Undone) -> Self {
        Self([(plan, undone)].into())
    }

    /// Whether nothing is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether nothing of it is left to go back to.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.0.values().any(|undone| *undone == Undone::All)
    }

    /// The plans that undid something of it.
    pub fn plans(&self) -> impl Iterator<Item = &PlanId> {
        self.0.keys()
    }

    /// The plan that undid it for one partition; the first of them, where there are more.
    #[must_use]
    pub fn by(&self, partition: &TopicPartition) -> Option<&PlanId> {
        let mut undone = self.0.iter();
        undone.find_map(|(plan, undone)| undone.contains(partition).then_some(plan))
    }

    /// The same with what a plan undid; `None` where that says nothing new: the plan's mark has it, or nothing was left.
    ///
    /// A plan that is verified again may be found to have undone more than was seen the first time.
    #[must_use]
    pub fn with(&self, plan: &PlanId, undone: &Undone) -> Option<Self> {
        if self.is_whole() {
            return None;
        }
        let there = self.0.get(plan);
        let undone = there.map_or_else(|| undone.clone(), |there| there.and(undone));
        if there == Some(&undone) {
            return None;
        }
        let mut with = self.clone();
        with.0.insert(plan.clone(), undone);
        Some(with)
    }

    /// The same as marks of whole checkpoints, which take up no room.
    #[must_use]
    pub fn widened(&self) -> Self {
        let plan = self.0.keys().next();
        plan.map_or_else(Self::default, |plan| {
            Self::by_one(plan.clone(), Undone::All)
        })
    }

    /// The only plan, where it undid all.
    #[must_use]
    pub fn wholly_by(&self) -> Option<&PlanId> {
        match self.0.iter().next() {
            Some((plan, Undone::All)) if self.0.len() == 1 => Some(plan),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::btree_set;
    use proptest::prelude::*;

    use super::*;

    fn at(topic: &str, partition: i32) -> TopicPartition {
        TopicPartition::new(topic, partition)
    }

    fn plan(name: &str) -> PlanId {
        PlanId(name.to_owned())
    }

    proptest! {
        #[test]
        fn ranges_hold_exactly_their_partitions(
            these in btree_set(("[ab]", -2..20_i32), 0..30),
            asked in ("[abc]", -3..21_i32),
        ) {
            let these: BTreeSet<_> = these.iter().map(|(topic, n)| at(topic, *n)).collect();
            let undone = Undone::of(&these);
            let json = serde_json::to_string(&undone).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Undone>(&json).unwrap(), &undone);
            let asked = at(&asked.0, asked.1);
            prop_assert_eq!(undone.contains(&asked), these.contains(&asked));
        }

        #[test]
        fn what_is_of_either_is_what_is_of_both_in_one(
            these in btree_set(("[ab]", -2..20_i32), 0..30),
            those in btree_set(("[bc]", -2..20_i32), 0..30),
        ) {
            let partitions = |of: &BTreeSet<(String, i32)>| -> BTreeSet<_> {
                of.iter().map(|(topic, n)| at(topic, *n)).collect()
            };
            let (these, those) = (partitions(&these), partitions(&those));
            let all: BTreeSet<_> = these.union(&those).cloned().collect();
            prop_assert_eq!(Undone::of(&these).and(&Undone::of(&those)), Undone::of(&all));
        }
    }

    #[test]
    fn what_two_plans_undid_is_undone_and_nothing_else() {
        let first = Disowned::by_one(plan("1"), Undone::of(&[at("a", 0)]));
        let both = first.with(&plan("2"), &Undone::of(&[at("a", 0), at("b", 7)]));
        let both = both.unwrap();
        assert_eq!(both.by(&at("a", 0)), Some(&plan("1")));
        assert_eq!(both.by(&at("b", 7)), Some(&plan("2")));
        assert_eq!(both.by(&at("a", 1)), None);
        assert!(!both.is_whole());
        let again = Undone::of(&[at("b", 7)]);
        assert_eq!(both.with(&plan("2"), &again), None, "it has its mark");
        let more = both.with(&plan("2"), &Undone::of(&[at("b", 6), at("c", 1)]));
        let more = more.unwrap();
        for there in [at("a", 0), at("b", 6), at("b", 7), at("c", 1)] {
            assert!(more.by(&there).is_some(), "verified again: {there}");
        }
        assert_eq!(more.by(&at("b", 8)), None);
        let all = both.with(&plan("3"), &Undone::All).unwrap();
        assert!(all.is_whole());
        assert_eq!(all.by(&at("z", 3)), Some(&plan("3")));
        assert_eq!(all.with(&plan("4"), &Undone::All), None, "nothing is left");
        let wide = both.widened();
        assert_eq!(wide.wholly_by(), Some(&plan("1")));
        assert!(wide.is_whole());
    }

    #[test]
    fn marks_survive_json() {
        let some = Disowned::by_one(plan("1"), Undone::of(&[at("a", 0), at("a", 1), at("a", 9)]));
        let marks = some.with(&plan("2"), &Undone::All).unwrap();
        let json = serde_json::to_string(&marks).unwrap();
        assert_eq!(json, r#"{"1":{"a":[[0,1],[9,9]]},"2":null}"#);
        assert_eq!(serde_json::from_str::<Disowned>(&json).unwrap(), marks);
    }
}
