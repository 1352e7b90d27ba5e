//! Copies of records in quarantine: ledger, produce, read back, confirm; many at once.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};
use jiff::{SignedDuration, Timestamp};

use super::group::Watched;
use super::sources::Sources;
use crate::app::reread;
use crate::domain::guard::keeping::KeepingTopic;
use crate::domain::guard::quarantine::{CopySeen, KeptCopy};
use crate::domain::guard::record::{Header, Outline, Record};
use crate::domain::offset::Fault;
use crate::domain::text::time;
use crate::error::Error;
use crate::ports::{KeepRecords, ReadRecords};
use crate::store::{Begun, LedgerEntry};

/// How long one run may take to keep a record before another one may try.
const LEASE: SignedDuration = SignedDuration::from_mins(2);
/// How long the records of one plan may take to be kept; less than [`LEASE`], so that no other run keeps them as well.
pub(super) const KEEP_TIME: Duration = Duration::from_secs(90);
/// How often a record is tried within a run whose ledger entry changes under it.
const TRIES: u32 = 3;
/// How many records are written, or looked up in the ledger, at once.
const AT_ONCE: usize = 32;

/// A record that is to be kept.
pub(super) struct Wanted<'a> {
    pub(super) record: &'a Record,
    /// The headers of its copy.
    pub(super) headers: Vec<Header>,
    pub(super) entry: LedgerEntry,
}

/// Where records are kept.
pub(super) struct Copies<'a, R, D, K> {
    pub(super) watched: &'a Watched<'a>,
    pub(super) sources: &'a Sources<R, D, K>,
    pub(super) topic: &'a str,
    pub(super) described: &'a KeepingTopic,
    /// When nothing more is written.
    pub(super) until: Instant,
}

/// A record's copy, or why there is none that is known to be one.
type Copied = Result<KeptCopy, String>;

/// What is to be read back.
struct Written {
    index: usize,
    copy: KeptCopy,
    /// The try that wrote it just now; `None` where the ledger knows it.
    attempt: Option<String>,
    /// Whether what the ledger knows of it fits what is to be kept.
    fits: bool,
}

impl<R, D: ReadRecords, K: KeepRecords> Copies<'_, R, D, K> {
    /// A copy of each record that was read back and is the same, in the order of `wanted`; or why there is none that is
    /// known to be.
    ///
    /// The ledger makes one copy of a record however often it is tried: what is confirmed there is only looked at again,
    /// all of it in as few readings as its places allow, and what another run is at is left to it. A run that was killed
    /// in between leaves at most a second copy with the same dedupe id.
    ///
    /// # Errors
    /// The table failed. What was confirmed by then stays so, and the next run finds it.
    pub(super) async fn of(&self, wanted: &[Wanted<'_>]) -> Result<Vec<Copied>, Error> {
        let mut copied: Vec<Option<Copied>> = wanted.iter().map(|_| None).collect();
        let mut begun: Vec<(usize, Begun)> =
            each(wanted.iter().enumerate(), |(index, wanted)| async move {
                Ok((index, self.begin(&wanted.entry).await?))
            })
            .await?;
        for _ in 0..TRIES {
            let (written, done) = self.write(wanted, begun).await?;
            for (index, result) in done {
                set(&mut copied, index, result);
            }
            let copies = written.iter().map(|written| &written.copy);
            let seen = reread::copies(&self.sources.records, copies, self.until).await;
            begun = Vec::new();
            let judged = each(written, |written| {
                let copy = &written.copy;
                let seen = seen.get(&(copy.partition.clone(), copy.offset)).cloned();
                let seen = seen.unwrap_or_else(|| Err(Fault::missing()));
                async move { self.judge(wanted, written, seen).await }
            })
            .await?;
            for (index, judged) in judged {
                match judged {
                    Judged::Done(result) => set(&mut copied, index, result),
                    Judged::Again(again) => begun.push((index, again)),
                }
            }
            if begun.is_empty() {
                break;
            }
        }
        let keep_changing = || Err("other runs keep changing its entry in the ledger".to_owned());
        Ok(copied
            .into_iter()
            .map(|copied| copied.unwrap_or_else(keep_changing))
            .collect())
    }

    async fn begin(&self, entry: &LedgerEntry) -> Result<Begun, Error> {
        let store = self.watched.store;
        Ok(store
            .begin_quarantine(entry, self.watched.clock.now(), LEASE)
            .await?)
    }

    /// Writes what is this run's to write, and says of the rest what there is to read back or why there is nothing.
    async fn write(
        &self,
        wanted: &[Wanted<'_>],
        begun: Vec<(usize, Begun)>,
    ) -> Result<(Vec<Written>, Vec<(usize, Copied)>), Error> {
        let written = each(begun, |(index, begun)| async move {
            let Some(wanted) = wanted.get(index) else {
                return Ok((index, Err("it is no record of this run".to_owned())));
            };
            let written = match begun {
                Begun::Theirs { until } => {
                    Err(format!("another run is keeping it, until {}", time(until)))
                }
                Begun::Kept { copy, record, at } => Ok(Written {
                    fits: self.fits(wanted, &copy, &record, at),
                    index,
                    copy,
                    attempt: None,
                }),
                Begun::Mine { attempt } => self.produce(wanted).await.map(|copy| Written {
                    index,
                    copy,
                    attempt: Some(attempt),
                    fits: true,
                }),
            };
            Ok((index, written))
        })
        .await?;
        let (mut there, mut done) = (Vec::new(), Vec::new());
        for (index, written) in written {
            match written {
                Ok(written) => there.push(written),
                Err(why) => done.push((index, Err(why))),
            }
        }
        Ok((there, done))
    }

    /// Whether a copy of the ledger is the one that is needed now: of this record, in this topic, and there for as long as
    /// the plan needs it.
    fn fits(&self, wanted: &Wanted<'_>, copy: &KeptCopy, then: &Outline, at: Timestamp) -> bool {
        let age = self.watched.clock.now().duration_since(at);
        then.is_same_record(&wanted.entry.record)
            && copy.partition.topic == self.topic
            && self
                .described
                .keeps_for_long_enough(&self.watched.resolved.policy, age)
    }

    async fn produce(&self, wanted: &Wanted<'_>) -> Result<KeptCopy, String> {
        if self.until <= Instant::now() {
            return Err("this run had no time left for it".to_owned());
        }
        let record = wanted.record;
        let kept = self.sources.keeper.keep(
            self.topic,
            record.key.as_deref(),
            record.value.as_deref(),
            &wanted.headers,
        );
        kept.await
            .map_err(|fault| format!("it was not written for certain: {fault}"))
    }

    /// What was read back against what was to be kept.
    async fn judge(
        &self,
        wanted: &[Wanted<'_>],
        written: Written,
        seen: Result<Option<CopySeen>, Fault>,
    ) -> Result<(usize, Judged), Error> {
        let store = self.watched.store;
        let Written {
            index,
            copy,
            attempt,
            fits,
        } = written;
        let Some(entry) = wanted.get(index).map(|wanted| &wanted.entry) else {
            let why = "it is no record of this run".to_owned();
            return Ok((index, Judged::Done(Err(why))));
        };
        let is_copy = |seen: Option<CopySeen>| {
            seen.is_some_and(|seen| {
                seen.fingerprint == entry.record.fingerprint
                    && seen.dedupe_id.as_ref() == Some(&entry.dedupe_id)
            })
        };
        let judged = match (attempt, seen.map(is_copy)) {
            (None, Ok(true)) if fits => Judged::Done(Ok(copy)),
            // It cannot be seen now, which does not mean that it is gone.
            (None, Err(fault)) => {
                Judged::Done(Err(format!("its copy at {copy} cannot be read: {fault}")))
            }
            (None, Ok(_)) => Judged::Again(
                store
                    .reopen_quarantine(entry, &copy, self.watched.clock.now(), LEASE)
                    .await?,
            ),
            (Some(attempt), Ok(true)) => {
                let (id, now) = (&entry.dedupe_id, self.watched.clock.now());
                if store.confirm_quarantine(id, &attempt, &copy, now).await? {
                    Judged::Done(Ok(copy))
                } else {
                    Judged::Again(self.begin(entry).await?)
                }
            }
            (Some(_), Ok(false)) => {
                Judged::Done(Err(format!("what reads back at {copy} is another record")))
            }
            (Some(_), Err(fault)) => Judged::Done(Err(format!(
                "its copy at {copy} does not read back: {fault}"
            ))),
        };
        Ok((index, judged))
    }
}

/// What comes of a copy that was read back.
enum Judged {
    Done(Copied),
    /// Its entry in the ledger changed, or has to.
    Again(Begun),
}

fn set(copied: &mut [Option<Copied>], index: usize, result: Copied) {
    if let Some(place) = copied.get_mut(index) {
        *place = Some(result);
    }
}

/// Does the same with each, many at once.
async fn each<T, U, F: Future<Output = Result<U, Error>>>(
    all: impl IntoIterator<Item = T>,
    what: impl FnMut(T) -> F,
) -> Result<Vec<U>, Error> {
    stream::iter(all)
        .map(what)
        .buffered(AT_ONCE)
        .try_collect()
        .await
}
