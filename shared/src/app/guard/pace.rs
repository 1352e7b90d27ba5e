//! How far a run's time reaches: first looks before all else.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use jiff::SignedDuration;

use crate::domain::fleet::has_room;

/// How many groups are looked at at once. A suspicious one mostly waits between looks.
pub(super) const GROUPS_AT_ONCE: usize = 16;
/// What a first look is expected to take at least: before any is done, and where the first ones were quick.
const USUAL_LOOK: Duration = Duration::from_secs(1);

/// The time that a run has left, and the groups that it has not looked at yet.
#[derive(Debug)]
pub(super) struct Pace {
    /// `None`: as long as it takes.
    ends_at: Option<Instant>,
    waiting: AtomicUsize,
    /// How many first looks are done, and how long they took together in milliseconds.
    looks: AtomicU64,
    took_ms: AtomicU64,
    missed: AtomicU64,
}

impl Pace {
    /// Of a run over `groups` that lasts until `ends_at`.
    pub(super) fn new(ends_at: Option<Instant>, groups: usize) -> Self {
        Self {
            ends_at,
            waiting: AtomicUsize::new(groups),
            looks: AtomicU64::new(0),
            took_ms: AtomicU64::new(0),
            missed: AtomicU64::new(0),
        }
    }

    /// Whether the run's time is over.
    pub(super) fn is_over(&self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }

    /// Begins with one group; `false` where there is no time for it.
    pub(super) fn begin(&self) -> bool {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        !self.is_over()
    }

    /// Notes that there was no time for a group.
    pub(super) fn miss(&self) {
        self.missed.fetch_add(1, Ordering::Relaxed);
    }

    /// How many groups there was no time for.
    pub(super) fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Notes how long a first look took.
    pub(super) fn looked(&self, took: Duration) {
        let took = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.took_ms.fetch_add(took, Ordering::Relaxed);
        self.looks.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a group may take `cost` more and all others still get their first look.
    pub(super) fn has_room_for(&self, cost: Duration) -> bool {
        let Some(left) = self.left() else {
            return true;
        };
        let looks = self.looks.load(Ordering::Relaxed).max(1);
        let mean = Duration::from_millis(self.took_ms.load(Ordering::Relaxed) / looks);
        let waiting = self.waiting.load(Ordering::Relaxed);
        let signed = |time| SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
        has_room(
            waiting,
            GROUPS_AT_ONCE,
            signed(mean.max(USUAL_LOOK)),
            signed(cost),
            signed(left),
        )
    }

    fn left(&self) -> Option<Duration> {
        let now = Instant::now();
        self.ends_at.map(|at| at.saturating_duration_since(now))
    }
}
