//! What the members did: who came, who went, and whether that is a loop.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::super::sample::Sample;
use super::RECENT_RUNS;
use crate::domain::group::GroupState;

/// What the members did in some looks.
pub(super) struct Members {
    pub(super) looks: usize,
    pub(super) empty: usize,
    pub(super) rebalancing: usize,
    /// Somebody was there in at least one look.
    pub(super) seen: bool,
    /// Nobody in any look of the newest run.
    empty_now: bool,
    /// Somebody came after nobody had been there.
    returns: usize,
    /// Nobody was there after somebody had been.
    departures: usize,
    /// A member of the first look with members is in the last one, and these are of different runs.
    survivor: bool,
    pub(super) comings: Comings,
}

/// Who came in the place of whom.
pub(super) struct Comings {
    /// Members that others came for: all that were there, less the most that were there at once.
    pub(super) replaced: usize,
    /// Runs in which members came, after the first look with members.
    runs: usize,
    /// Of these, the runs that saw somebody before they saw a member come.
    within: usize,
    /// A client came while a member of the same client and host was still there, and more of them than when the group was
    /// at rest: the one before ended without a word, and its session lasts.
    doubles: bool,
    /// Nobody was there in some look.
    empty: bool,
}

impl Comings {
    /// In how many runs processes started anew: many that come at once are one deployment, and those that nobody made
    /// room for are more consumers.
    pub(super) fn restarts(&self) -> usize {
        self.runs.min(self.replaced)
    }

    /// Whether members were seen to end, and not only to be thrown out and let in again: there is always somebody left
    /// then, and no session without its process.
    fn end(&self) -> bool {
        self.replaced > 0 && (self.empty || self.doubles)
    }

    /// The same, or so often that it shows within one run and another: few have a `max.poll.interval.ms` so short.
    pub(super) fn end_or_are_short_lived(&self) -> bool {
        self.end() || (self.replaced > 0 && self.within > 1)
    }
}

/// Who came in the place of whom in `looks`.
pub(super) fn comings(looks: &[Sample]) -> Comings {
    let mut known: BTreeSet<&str> = BTreeSet::new();
    let mut at_rest: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut most = 0;
    let (mut runs, mut within) = (BTreeSet::new(), BTreeSet::new());
    let mut piled: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut populated: Option<Timestamp> = None;
    for look in looks.iter().filter(|look| !look.members.is_empty()) {
        most = most.max(look.members.len());
        let mut clients: BTreeMap<(&str, &str), (usize, bool)> = BTreeMap::new();
        for member in &look.members {
            let of = clients
                .entry((&member.client_id, &member.host))
                .or_default();
            of.0 += 1;
            of.1 |= !known.contains(member.member_id.as_str());
        }
        let fresh = !known.is_empty() && clients.values().any(|(_, fresh)| *fresh);
        if fresh {
            runs.insert(look.run);
            if populated == Some(look.run) {
                within.insert(look.run);
            }
        }
        for (client, (count, new)) in clients {
            if look.state == GroupState::Stable {
                let most = at_rest.entry(client).or_default();
                *most = count.max(*most);
            }
            if fresh && new && count > 1 {
                let most = piled.entry(client).or_default();
                *most = count.max(*most);
            }
        }
        populated = Some(look.run);
        known.extend(look.members.iter().map(|m| m.member_id.as_str()));
    }
    Comings {
        replaced: known.len().saturating_sub(most),
        runs: runs.len(),
        within: within.len(),
        doubles: piled
            .iter()
            .any(|(client, count)| *count > at_rest.get(client).copied().unwrap_or(0)),
        empty: looks.iter().any(Sample::is_empty),
    }
}

impl Members {
    pub(super) fn of(looks: &[Sample]) -> Self {
        let (mut returns, mut departures) = (0, 0);
        for pair in looks.windows(2) {
            let [a, b] = pair else { continue };
            match (a.members.is_empty(), b.members.is_empty()) {
                (true, false) => returns += 1,
                (false, true) => departures += 1,
                _ => {}
            }
        }
        let last_run = looks.last().map(|look| look.run);
        let mut with_members = looks.iter().filter(|look| !look.members.is_empty());
        let first = with_members.next();
        let last = with_members.next_back();
        let survivor = first.zip(last).is_some_and(|(first, last)| {
            first.run != last.run && first.members.iter().any(|m| last.members.contains(m))
        });
        Self {
            looks: looks.len(),
            empty: looks.iter().filter(|look| look.is_empty()).count(),
            rebalancing: looks.iter().filter(|look| look.is_rebalancing()).count(),
            seen: first.is_some(),
            empty_now: looks
                .iter()
                .filter(|look| Some(look.run) == last_run)
                .all(Sample::is_empty),
            returns,
            departures,
            survivor,
            comings: comings(looks),
        }
    }

    fn mostly_empty(&self) -> bool {
        self.empty * 2 > self.looks
    }

    fn mostly_rebalancing(&self) -> bool {
        self.rebalancing * 2 > self.looks && self.looks >= RECENT_RUNS
    }

    /// Whether all went and new ones came, again and again: processes that end, not members that rebalance.
    fn turns_over(&self) -> bool {
        !self.survivor && self.comings.restarts() >= 2 && self.comings.end()
    }

    /// Rule 15: nobody is there, and it does not look as if somebody were about to come back.
    pub(super) fn absent(&self) -> bool {
        self.empty_now && (self.empty == self.looks || self.returns == 0)
    }

    /// Rule 16.
    pub(super) fn rebalance_loop(&self) -> bool {
        self.mostly_rebalancing() && !self.turns_over()
    }

    /// Rule 17.
    pub(super) fn crash_loop(&self) -> bool {
        let restarts = self.comings.restarts();
        restarts >= 2
            || (self.mostly_empty()
                && (restarts >= 1 || (self.returns >= 1 && self.departures >= 1)))
    }
}
