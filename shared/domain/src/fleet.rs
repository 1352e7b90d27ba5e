//! Which groups a run gets to, and in which order.
//!
//! Whoever may create groups decides how many a pattern has. Those that are named in the configuration come first, and no
//! pattern takes the time of another one or of the run as a whole.

use std::collections::BTreeSet;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::offset::GroupId;

/// The groups that one pattern of the configuration has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternGroups {
    /// The pattern, as it is written.
    pub pattern: String,
    /// How many of its groups one run looks at.
    pub max_groups: usize,
    /// Its groups, without those that are named exactly or belong to a pattern above.
    pub groups: BTreeSet<GroupId>,
}

/// A pattern that has more groups than one run looks at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CapMet {
    /// The pattern, as it is written.
    pub pattern: String,
    /// How many groups it has.
    pub groups: usize,
    /// How many of them one run looks at.
    pub max_groups: usize,
}

impl fmt::Display for CapMet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "pattern {:?} has {} groups, and a run looks at {} of them, each time at others; raise its max_groups, or name \
             exactly the groups that matter",
            self.pattern, self.groups, self.max_groups
        )
    }
}

/// The groups of a run, in the order in which they are looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Order {
    /// The groups, each once.
    pub groups: Vec<GroupId>,
    /// The patterns that have more groups than are among them.
    pub caps_met: Vec<CapMet>,
}

/// The groups that are `named` exactly, in their order, and then those of the patterns by turns.
///
/// Which group of a pattern comes first depends on the minute of `now`: no name is always the last one, and within a few
/// runs each is among the first.
#[must_use]
pub fn order(
    named: impl IntoIterator<Item = GroupId>,
    patterns: Vec<PatternGroups>,
    now: Timestamp,
) -> Order {
    let mut order = Order::default();
    let mut queues = Vec::new();
    for PatternGroups {
        pattern,
        max_groups,
        groups,
    } in patterns
    {
        let count = groups.len();
        let mut queue: Vec<_> = groups.into_iter().collect();
        queue.rotate_left(start(count, now));
        queue.truncate(max_groups);
        if count > max_groups {
            order.caps_met.push(CapMet {
                pattern,
                groups: count,
                max_groups,
            });
        }
        queues.push(queue.into_iter());
    }
    let mut seen = BTreeSet::new();
    let mut add = |group: GroupId| {
        if seen.insert(group.clone()) {
            order.groups.push(group);
        }
    };
    named.into_iter().for_each(&mut add);
    while !queues.is_empty() {
        queues.retain_mut(|queue| queue.next().map(&mut add).is_some());
    }
    order
}

/// Where among `count` groups a run at `now` begins.
///
/// Multiples of the golden ratio, of which the fractions are spread evenly over any stretch of them (Fibonacci hashing):
/// whatever the schedule, the starts of runs one after another lie far apart.
fn start(count: usize, now: Timestamp) -> usize {
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    let minute = now.as_second().div_euclid(60).unsigned_abs();
    let fraction = u128::from(minute.wrapping_mul(GOLDEN));
    let start = (fraction * count as u128) >> 64;
    usize::try_from(start).unwrap_or_default()
}

/// Whether a group may use one of `at_once` places for `cost` more, and each of the `waiting` groups still gets its first
/// look, which takes `first_look`, within `left`.
#[must_use]
pub fn has_room(
    waiting: usize,
    at_once: usize,
    first_look: SignedDuration,
    cost: SignedDuration,
    left: SignedDuration,
) -> bool {
    let turns = i32::try_from(waiting.div_ceil(at_once.max(1))).unwrap_or(i32::MAX);
    cost.saturating_add(first_look.saturating_mul(turns)) <= left
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::at;

    fn group(name: &str) -> GroupId {
        GroupId(name.to_owned())
    }

    fn junk(prefix: &str, count: usize) -> BTreeSet<GroupId> {
        (0..count)
            .map(|n| group(&format!("{prefix}-!{n:04}")))
            .collect()
    }

    fn of(pattern: &str, max_groups: usize, groups: BTreeSet<GroupId>) -> PatternGroups {
        PatternGroups {
            pattern: pattern.to_owned(),
            max_groups,
            groups,
        }
    }

    #[test]
    fn groups_by_exact_name_come_first_however_many_a_pattern_has() {
        let named = || ["shipment-sync", "audit"].map(group);
        let patterns = vec![of("billing-*", 200, junk("billing", 400))];
        let order = order(named(), patterns, at("09:00:00"));
        assert_eq!(order.groups[..2], named());
        assert_eq!(order.groups.len(), 202);
        let met = CapMet {
            pattern: "billing-*".to_owned(),
            groups: 400,
            max_groups: 200,
        };
        assert_eq!(order.caps_met, [met]);
    }

    #[test]
    fn patterns_take_turns() {
        let small = BTreeSet::from([group("ship-a"), group("ship-b")]);
        let patterns = vec![
            of("billing-*", 200, junk("billing", 400)),
            of("ship-*", 200, small.clone()),
        ];
        let order = order([], patterns, at("09:00:00"));
        let first: BTreeSet<_> = order.groups[..4].iter().cloned().collect();
        assert!(small.is_subset(&first), "{first:?}");
    }

    #[test]
    fn what_is_within_the_cap_is_looked_at_whole_and_met_by_nobody() {
        let groups = junk("billing", 200);
        let order = order(
            [],
            vec![of("billing-*", 200, groups.clone())],
            at("09:00:00"),
        );
        assert_eq!(order.caps_met, []);
        assert_eq!(order.groups.into_iter().collect::<BTreeSet<_>>(), groups);
    }

    /// By the usual schedules: every five minutes, and every hour.
    #[test]
    fn each_group_beyond_the_cap_has_its_turn() {
        for (step, runs) in [(300, 24), (3_600, 24)] {
            let mut seen = BTreeSet::new();
            for run in 0..runs {
                let now = at("09:00:00") + SignedDuration::from_secs(run * step);
                let patterns = vec![of("billing-*", 100, junk("billing", 400))];
                seen.extend(order([], patterns, now).groups);
            }
            assert_eq!(seen.len(), 400, "{step}");
        }
    }

    #[test]
    fn nobody_looks_further_before_all_were_looked_at_once() {
        let left = SignedDuration::from_secs;
        let (first, cost) = (left(1), left(15));
        assert!(has_room(0, 16, first, cost, left(15)));
        assert!(!has_room(0, 16, first, cost, left(14)));
        // 400 groups, 16 at once: 25 turns of a second.
        assert!(has_room(400, 16, first, cost, left(40)));
        assert!(!has_room(400, 16, first, cost, left(39)));
        assert!(!has_room(usize::MAX, 0, first, cost, left(270)));
    }

    proptest! {
        #[test]
        fn no_group_comes_twice_and_none_is_made_up(
            named in proptest::collection::btree_set("[a-d]{1,2}", 0..6),
            a in proptest::collection::btree_set("[a-d]{1,2}", 0..10),
            b in proptest::collection::btree_set("[a-d]{1,2}", 0..10),
            max_groups in 0_usize..6,
            minute in 0_i64..1_000_000,
        ) {
            let ids = |names: &BTreeSet<String>| -> BTreeSet<GroupId> { names.iter().map(|n| group(n)).collect() };
            let now = Timestamp::from_second(minute * 60).unwrap();
            let patterns = vec![of("a", max_groups, ids(&a)), of("b", max_groups, ids(&b))];
            let order = order(ids(&named), patterns, now);
            let all: BTreeSet<_> = order.groups.iter().cloned().collect();
            prop_assert_eq!(all.len(), order.groups.len());
            prop_assert!(ids(&named).is_subset(&all));
            let known: BTreeSet<_> = [ids(&named), ids(&a), ids(&b)].into_iter().flatten().collect();
            prop_assert!(all.is_subset(&known));
            prop_assert!(all.len() <= named.len() + 2 * max_groups);
        }
    }
}
