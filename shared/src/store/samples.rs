//! What the guard remembers of a group: a ring of its latest runs, each with all of its looks.
//!
//! A run that comes less than a least distance after the run before the newest takes the newest one's place instead of one
//! more: however many alerts start runs, any two runs that stand side by side but one are that far apart, and the ring
//! reaches back as far as it must. Nothing that was seen is lost with a place: the later samples carry on since when each
//! offset stands.

use jiff::{SignedDuration, Timestamp};

use super::checkpoints::CHUNKS_OUTLIVE;
use super::encoding::body::{BODY, IN_ITEM};
use super::encoding::look::Look;
use super::encoding::packed::Packed;
use super::error::Cause;
use super::item::{Attributes, Damaged, Item, item, number, time, ttl};
use super::keys;
use super::table::{Query, Range, Transacted, Write, equals};
use super::{Result, Store, operation};
use crate::domain::guard::sample::{LATEST_RUNS, Sample};
use crate::domain::ids::GroupKey;

/// How many runs are remembered. Two hours of the usual schedule.
pub const RING_RUNS: u64 = 24;

/// How long a run is remembered at most.
const KEPT: SignedDuration = SignedDuration::from_hours(7 * 24);

/// What is remembered of a group.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Ring {
    /// Counts the writes, so that a run that read the ring before another one wrote it notices.
    pub seq: u64,
    /// The samples, oldest first.
    pub samples: Vec<Sample>,
}

/// Where the ring stands.
#[derive(Default)]
struct Head {
    seq: u64,
    /// Of the newest run: its number, from 1 on, and when it began. Its place is the number modulo [`RING_RUNS`].
    newest: Option<(u64, Timestamp)>,
    /// When the run before it began.
    before: Option<Timestamp>,
}

impl Head {
    fn of(item: &Item) -> Result<Self, Damaged> {
        let count = |name| {
            let number = item.some_number(name)?.and_then(|n| u64::try_from(n).ok());
            number.ok_or(Damaged { attribute: name })
        };
        Ok(Self {
            seq: count("seq")?,
            newest: Some((count("number")?, item.time("run")?)),
            before: item.some_time("before")?,
        })
    }

    /// The number of a run that begins at `run`, and when the one before it began.
    fn next(&self, run: Timestamp, least_apart: SignedDuration) -> (u64, Option<Timestamp>) {
        match (self.newest, self.before) {
            (None, _) => (1, None),
            // Without a sign, so that one clock that was wrong does not hold the ring.
            (Some((number, _)), Some(before)) if run.duration_since(before).abs() < least_apart => {
                (number, Some(before))
            }
            (Some((number, newest)), _) => (number + 1, Some(newest)),
        }
    }
}

impl Store {
    /// What is remembered of a group at `now`. A run that cannot be read any more is left out with a warning; the ring
    /// writes over it in time.
    ///
    /// # Errors
    /// The table cannot be reached, or what says where the ring stands is damaged.
    pub async fn samples(&self, group: &GroupKey, now: Timestamp) -> Result<Ring> {
        operation("samples", async {
            let pk = keys::samples(group);
            // The head first: a run that is stored in between then finds the ring changed.
            let head = self.sample_head(group).await?;
            let places = Range::Prefix(keys::PLACES.to_owned());
            let mut runs = Vec::new();
            for item in self.table.query(Query::new(&pk, places)).await? {
                // The table deletes what has expired days late.
                if item
                    .some_number("ttl")
                    .is_ok_and(|at| at.is_some_and(|at| at <= now.as_second()))
                {
                    continue;
                }
                match self.looks(&item, &pk).await {
                    Ok(run) => runs.push(run),
                    Err(cause @ (Cause::Damaged(_) | Cause::Pack(_))) => {
                        let place = item.text("sk").unwrap_or_default();
                        let error = cause.to_string();
                        tracing::warn!(pk, place, error, "samples of one run cannot be read");
                    }
                    Err(other) => return Err(other),
                }
            }
            runs.sort_by_key(|(number, _)| *number);
            Ok(Ring {
                seq: head.seq,
                samples: runs.into_iter().flat_map(|(_, looks)| looks).collect(),
            })
        })
        .await
    }

    /// The looks of the [`LATEST_RUNS`], oldest first, as far as they can be read and have not expired at `now`.
    ///
    /// # Errors
    /// The table cannot be reached, or what says where the ring stands is damaged.
    pub async fn latest_looks(&self, group: &GroupKey, now: Timestamp) -> Result<Vec<Sample>> {
        operation("latest_looks", async {
            let head = self.sample_head(group).await?;
            let newest = head.newest.map_or(0, |(number, _)| number);
            let pk = keys::samples(group);
            let mut latest = Vec::new();
            for number in newest.saturating_sub(u64::from(LATEST_RUNS) - 1).max(1)..=newest {
                let key = keys::sample_place(group, number % RING_RUNS);
                let Some(item) = self.table.get(&key).await? else {
                    continue;
                };
                let expired = item
                    .some_number("ttl")?
                    .is_some_and(|at| at <= now.as_second());
                if expired {
                    continue;
                }
                match self.looks(&item, &pk).await {
                    // A place that another run has taken meanwhile is one of the newest, too.
                    Ok((_, looks)) => latest.extend(looks),
                    Err(Cause::Damaged(_) | Cause::Pack(_)) => {}
                    Err(other) => return Err(other),
                }
            }
            latest.sort_by_key(|look| look.at);
            Ok(latest)
        })
        .await
    }

    async fn sample_head(&self, group: &GroupKey) -> Result<Head, Cause> {
        match self.table.get(&keys::sample_head(group)).await? {
            None => Ok(Head::default()),
            Some(item) => Ok(Head::of(&item)?),
        }
    }

    /// The number of a run and its looks.
    async fn looks(&self, item: &Item, pk: &str) -> Result<(i64, Vec<Sample>), Cause> {
        let damaged = |attribute| Damaged { attribute };
        let number = item.some_number("number")?.ok_or(damaged("number"))?;
        let looks: Vec<Look> = self.body(&BODY, item, pk).await?;
        let looks = looks.into_iter().map(Look::sample).collect::<Option<_>>();
        Ok((number, looks.ok_or(damaged("body"))?))
    }

    /// Remembers the looks of one run, which all have its `run`, until seven days after `now`. `ring_seq` is what
    /// [`Self::samples`] said before the run looked; `least_apart` is how far two runs must lie apart for one in between
    /// to be kept.
    ///
    /// `false`: another run was faster, and nothing is written. No looks at all are nothing to write.
    ///
    /// # Errors
    /// They are too big, or the table cannot be reached.
    pub async fn put_samples(
        &self,
        group: &GroupKey,
        ring_seq: u64,
        looks: &[Sample],
        least_apart: SignedDuration,
        now: Timestamp,
    ) -> Result<bool> {
        operation("put_samples", async {
            let Some(run) = looks.first().map(|look| look.run) else {
                return Ok(true);
            };
            let head = self.sample_head(group).await?;
            if head.seq != ring_seq {
                return Ok(false);
            }
            let (run_number, before) = head.next(run, least_apart);
            let columns: Vec<_> = looks.iter().map(Look::from).collect();
            let packed = Packed::new(&columns)?;
            let expires_at = now + KEPT;
            let key = keys::sample_place(group, run_number % RING_RUNS);
            let chunks_until = Some(expires_at + CHUNKS_OUTLIVE);
            let body = self
                .put_body(&BODY, &packed, IN_ITEM, &key.pk, chunks_until)
                .await?;
            let place = item(key)
                .with("number", number(run_number))
                .with("run", time(run))
                .with("ttl", ttl(expires_at))
                .with_all(body);
            let head = item(keys::sample_head(group))
                .with("seq", number(ring_seq + 1))
                .with("number", number(run_number))
                .with("run", time(run))
                .with_some("before", before.map(time))
                .with("ttl", ttl(expires_at));
            let unchanged = if ring_seq == 0 {
                Write::put_new(head)
            } else {
                Write::put(head).when(equals("seq", number(ring_seq)))
            };
            match self.table.transact(&[unchanged, Write::put(place)]).await? {
                Transacted::Done => Ok(true),
                Transacted::Failed(_) => Ok(false),
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::testing::at_second as at;

    /// The numbers of runs that begin at these seconds.
    fn numbers(runs: &[i64]) -> Vec<u64> {
        let mut head = Head::default();
        runs.iter()
            .map(|run| {
                let (number, before) = head.next(at(*run), SignedDuration::from_secs(60));
                head.newest = Some((number, at(*run)));
                head.before = before;
                number
            })
            .collect()
    }

    #[test]
    fn runs_of_the_schedule_have_a_place_each() {
        assert_eq!(numbers(&[0, 300, 600, 900]), [1, 2, 3, 4]);
        assert_eq!(numbers(&[0, 60, 120]), [1, 2, 3]);
    }

    #[test]
    fn runs_in_a_storm_share_places_and_the_ring_still_reaches_back() {
        assert_eq!(numbers(&[0, 5, 10, 15]), [1, 2, 2, 2]);
        let storm: Vec<_> = (0..2000).map(|n| n * 5).collect();
        let of = numbers(&storm);
        let places = usize::try_from(RING_RUNS).unwrap();
        let newest = *of.last().unwrap();
        let oldest = storm[of
            .iter()
            .rposition(|n| n + RING_RUNS == newest + 1)
            .unwrap()];
        assert!(storm.last().unwrap() - oldest >= 60 * (i64::try_from(places).unwrap() / 2 - 1));
    }

    #[test]
    fn one_clock_that_is_wrong_does_not_hold_the_ring() {
        assert_eq!(numbers(&[0, 300, 90_000, 600, 900]), [1, 2, 3, 4, 5]);
        assert_eq!(numbers(&[90_000, 90_300, 0, 300, 600]), [1, 2, 3, 4, 5]);
    }
}
