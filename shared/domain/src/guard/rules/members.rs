//! What the members did: who came, who went, and whether that is a loop.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::counts::RECENT_RUNS;
use crate::group::GroupState;
use crate::guard::sample::{MembersTrouble, Sample, Trouble, newest_runs};

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
    /// The same members in every look, and the group at rest in it.
    settled: bool,
    pub(super) turnover: Turnover,
}

/// Who came in the place of whom.
pub(super) struct Turnover {
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

impl Turnover {
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
pub(super) fn measure_turnover(looks: &[Sample]) -> Turnover {
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
    Turnover {
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
            let there: BTreeSet<_> = last.members.iter().collect();
            first.run != last.run && first.members.iter().any(|m| there.contains(m))
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
            settled: looks.first().is_some_and(|first| {
                let same = |look: &Sample| {
                    look.state == GroupState::Stable && look.members == first.members
                };
                !first.members.is_empty() && looks.iter().all(same)
            }),
            turnover: measure_turnover(looks),
        }
    }

    /// Whether all looks found the same members, at rest.
    pub(super) fn at_rest(&self) -> bool {
        self.settled
    }

    fn mostly_empty(&self) -> bool {
        self.empty * 2 > self.looks
    }

    fn mostly_rebalancing(&self) -> bool {
        self.rebalancing * 2 > self.looks && self.looks >= RECENT_RUNS
    }

    /// Whether new ones came, again and again, for all that went or for sessions that outlive their processes: processes
    /// that end, not members that rebalance. While such a session lasts, the group does not come to rest either.
    fn turns_over(&self) -> bool {
        let ends = !self.survivor && self.turnover.end();
        self.turnover.restarts() >= 2 && (ends || self.turnover.doubles)
    }

    /// Whether none of them lasts from one run to the next, and new ones are met within a run.
    fn are_short_lived(&self) -> bool {
        !self.survivor && self.turnover.restarts() >= 2 && self.turnover.end_or_are_short_lived()
    }

    /// The members do not come to rest, and it is not for members that end.
    pub(super) fn rebalance_loop(&self) -> bool {
        self.mostly_rebalancing() && !self.turns_over()
    }

    /// The members keep going and coming back as new ones.
    fn crash_loop(&self) -> bool {
        let restarts = self.turnover.restarts();
        restarts >= 2
            || (self.mostly_empty()
                && (restarts >= 1 || (self.returns >= 1 && self.departures >= 1)))
    }
}

/// After so many runs that saw nobody, a group whose members came and went is one that nobody is in: an hour of the usual
/// schedule. A consumer that ends at once and waits before it starts again is met by few looks, so a few runs that do not
/// meet it prove nothing.
pub(super) const GONE_AFTER_RUNS: usize = 12;

impl MembersTrouble {
    fn of(self, nothing_moves: bool) -> Trouble {
        match nothing_moves {
            true => self.unmoved,
            false => self.moving,
        }
    }
}

impl Trouble {
    /// What the latest of `looks` show, in the light of what the runs before showed: a loop that was seen goes on until its
    /// members have come to rest, or nobody was seen for [`GONE_AFTER_RUNS`]. Else the chance of which look meets whom
    /// would make the verdict alternate while nothing about the group changes. It goes on from what the newest earlier run
    /// made of it, if that was kept.
    ///
    /// `nothing_moves`: members that end at once and keep the group from resting are no rebalance loop where no commit
    /// moves.
    pub(super) fn of(looks: &[Sample], least_runs: usize, nothing_moves: bool) -> Self {
        let ends: Vec<usize> = (1..=looks.len())
            .filter(|end| {
                let run = |index: usize| looks.get(index).map(|look| look.run);
                run(*end) != run(end - 1)
            })
            .collect();
        // Of fewer runs than the rules ask for, only the newest says something.
        let first = least_runs.min(ends.len()).saturating_sub(1);
        let known = |end: &usize| looks.get(end - 1).and_then(|look| look.trouble);
        let before = ends.split_last().map_or(&[][..], |(_, before)| before);
        let start = before
            .iter()
            .enumerate()
            .rev()
            .find_map(|(index, end)| Some((index, known(end)?)));
        let (after, mut trouble) = match start {
            Some((index, known)) => (index + 1, known.of(nothing_moves)),
            None => (0, Self::None),
        };
        let mut unseen = 0;
        for (index, end) in ends.iter().enumerate() {
            let looks = looks.get(..*end).unwrap_or_default();
            let run = looks.last().map(|look| look.run);
            let mut of_run = looks.iter().rev().take_while(|look| Some(look.run) == run);
            unseen = match of_run.any(|look| !look.members.is_empty()) {
                true => 0,
                false => unseen + 1,
            };
            if index >= first.max(after) {
                let members = Members::of(newest_runs(looks, least_runs));
                let lately = newest_runs(looks, GONE_AFTER_RUNS);
                let may_return = members.empty_now && come_and_go(lately);
                trouble = trouble.goes_on(&members, may_return, unseen, nothing_moves);
            }
        }
        trouble
    }

    fn goes_on(
        self,
        members: &Members,
        may_return: bool,
        unseen: usize,
        nothing_moves: bool,
    ) -> Self {
        let ends_at_once = nothing_moves && members.are_short_lived();
        let now = if may_return {
            Self::Crashes
        } else if members.empty_now && (members.empty == members.looks || members.returns == 0) {
            Self::Absent
        } else if members.rebalance_loop() && !ends_at_once {
            Self::Rebalances
        } else if members.crash_loop() {
            Self::Crashes
        } else {
            Self::None
        };
        match self {
            Self::Crashes if !members.at_rest() && unseen < GONE_AFTER_RUNS => self,
            // Members that were thrown out look like new ones; it takes some that ended to call it by another name.
            Self::Rebalances
                if !(members.at_rest()
                    || now == Self::Absent
                    || may_return
                    || members.turns_over()
                    || ends_at_once) =>
            {
                self
            }
            _ => now,
        }
    }
}

/// Whether whoever was in the group last may be back: they had come while somebody looked, and gone within the same run, or
/// members have been replaced so often that it is no deployment.
fn come_and_go(looks: &[Sample]) -> bool {
    let Some(last) = looks.iter().rposition(|look| !look.members.is_empty()) else {
        return false;
    };
    let (before, rest) = looks.split_at(last);
    let Some(last) = rest.first() else {
        return false;
    };
    let is_of_run = |look: &&Sample| look.run == last.run;
    let earlier = before.iter().filter(|look| !is_of_run(look));
    // Members may be many, and all of them others than before.
    let there: BTreeSet<_> = last.members.iter().collect();
    let stayed = earlier
        .clone()
        .any(|look| look.members.iter().any(|m| there.contains(m)));
    (!stayed && earlier.count() > 0) || measure_turnover(looks).restarts() >= 3
}
