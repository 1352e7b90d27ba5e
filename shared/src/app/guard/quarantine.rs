//! Keeps what a plan would pass over, range by range: what cannot be kept withholds its own range and no other.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};

use super::copies::{Copies, KEEP_TIME, Wanted};
use super::group::Watched;
use super::sources::Sources;
use crate::domain::guard::headers::{Origin, of_copy, seen};
use crate::domain::guard::keeping::{KeepingTopic, cautions, copy_bytes, no_room, unfit, unusable};
use crate::domain::guard::policy::Isolation;
use crate::domain::guard::probe::validate;
use crate::domain::guard::proposal::SkipRange;
use crate::domain::guard::quarantine::{DedupeId, Kept, SkippedRecord};
use crate::domain::guard::record::{Header, Record};
use crate::domain::guard::sample::Sample;
use crate::domain::guard::verdict::{Finding, Verdict};
use crate::domain::offset::ClusterId;
use crate::domain::plan::Warning;
use crate::domain::refusal::Refusal;
use crate::error::Error;
use crate::ports::{KeepRecords, ReadLimits, ReadRecords, View};
use crate::store::LedgerEntry;

/// The most bytes that the records of one plan may have.
const PLAN_BYTES: usize = 32 << 20;
/// How many ranges are read at once.
const READS_AT_ONCE: usize = 4;
/// How many bytes of a range are read while others are. What is larger is read again by itself.
const READ_BYTES: usize = 4 << 20;
/// How long reading one range may take.
const READ_TIME: Duration = Duration::from_secs(30);

/// What keeping a group's records takes.
pub(super) struct Keeping<'a, R, D, K> {
    pub(super) watched: &'a Watched<'a>,
    pub(super) sources: &'a Sources<R, D, K>,
    pub(super) cluster_id: &'a ClusterId,
    pub(super) last: Option<&'a Sample>,
    pub(super) findings: &'a [Finding],
    /// Whether the group's consumers read records of aborted and open transactions.
    pub(super) uncommitted: bool,
    /// Whether a person asks for it.
    pub(super) asked: bool,
    pub(super) dry_run: bool,
}

/// What came of keeping the records of some ranges.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Every visible record of the ranges that can be passed over, in order.
    pub(super) records: Vec<SkippedRecord>,
    /// Why the other ranges cannot.
    pub(super) withheld: Vec<Refusal>,
    /// What the approver should know of the quarantine topic.
    pub(super) cautions: Vec<Warning>,
}

/// A range whose records were read.
struct Ranged<'a> {
    range: &'a SkipRange,
    records: Vec<Record>,
}

/// The topic that keeps the records, where there is to be one.
struct Topic<'a> {
    name: &'a str,
    described: KeepingTopic,
}

impl<R, D: ReadRecords, K: KeepRecords> Keeping<'_, R, D, K> {
    /// Keeps every visible record of as many of `ranges` as one plan may pass over.
    ///
    /// # Errors
    /// The table failed. What makes a range impossible to keep is a refusal of that range; all that was kept by then stays
    /// kept, and the next run finds it in the ledger.
    pub(super) async fn keep(&self, ranges: &[SkipRange]) -> Result<Outcome, Error> {
        let mut outcome = Outcome::default();
        let until = Instant::now() + KEEP_TIME;
        let topic = match self.topic().await {
            Ok(topic) => topic,
            Err(refusal) => {
                outcome.withheld.push(refusal);
                return Ok(outcome);
            }
        };
        let read = self
            .read_all(
                ranges,
                topic.as_ref(),
                until - KEEP_TIME / 2,
                &mut outcome.withheld,
            )
            .await?;
        if let Some(topic) = &topic {
            let copies = read.iter().flat_map(|ranged| {
                let bytes = |record| copy_bytes(record, &self.headers(ranged.range, record));
                ranged.records.iter().map(bytes)
            });
            if let Some(why) = no_room(copies.sum(), &topic.described) {
                outcome.withheld.push(self.unusable(None, why));
                return Ok(outcome);
            }
            outcome.cautions = cautions(topic.name, &topic.described);
        }
        self.keep_all(&read, topic.as_ref(), until, &mut outcome)
            .await?;
        outcome
            .records
            .sort_by(|a, b| (&a.partition, a.record.offset).cmp(&(&b.partition, b.record.offset)));
        Ok(outcome)
    }

    /// The topic that keeps records, where the policy keeps any.
    async fn topic(&self) -> Result<Option<Topic<'_>>, Refusal> {
        let policy = self.watched.policy();
        if !policy.publish_to_dlq_topic {
            return Ok(None);
        }
        let Some(name) = policy.quarantine_topic.as_deref() else {
            let why = "set quarantine_topic for this group, or publish_to_dlq_topic = false to lose the record";
            return Err(self.unusable(None, why.to_owned()));
        };
        let described = self.sources.keeper.keeping_topic(name).await;
        let described = described.map_err(|fault| self.unusable(None, fault.to_string()))?;
        let why = unusable(&self.watched.resolved.policy, described.as_ref());
        match (described, why) {
            (Some(described), None) => Ok(Some(Topic { name, described })),
            (_, why) => Err(self.unusable(None, why.unwrap_or_default())),
        }
    }

    fn unusable(&self, range: Option<&SkipRange>, why: String) -> Refusal {
        let topic = self.watched.policy().quarantine_topic.clone();
        Refusal::QuarantineUnusable {
            topic: topic.unwrap_or_default(),
            partition: range.map(|range| range.partition.clone()),
            why,
        }
    }

    /// The records of as many ranges as one plan may pass over and as are read by `until`, in the order of the ranges.
    async fn read_all<'r>(
        &self,
        ranges: &'r [SkipRange],
        topic: Option<&Topic<'_>>,
        until: Instant,
        withheld: &mut Vec<Refusal>,
    ) -> Result<Vec<Ranged<'r>>, Error> {
        let limit = self.watched.policy().max_records_per_plan;
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let (mut records_left, mut bytes_left) = (most, PLAN_BYTES);
        // One more record than may be passed over, so that too many are noticed; and none is read beyond that.
        let limits = |bytes| ReadLimits {
            records: most.saturating_add(1),
            bytes,
            time: READ_TIME,
        };
        let mut reads = stream::iter(ranges)
            .map(|range| async move { (range, self.read(range, limits(READ_BYTES)).await) })
            .buffered(READS_AT_ONCE);
        let mut ranged = Vec::new();
        let mut seen = 0;
        while records_left > 0 && bytes_left > 0 && Instant::now() < until {
            let Some((range, read)) = reads.next().await else {
                break;
            };
            seen += 1;
            let read = match read {
                Ok(Read::Partly) => self.read(range, limits(PLAN_BYTES)).await,
                read => read,
            };
            let records = match read {
                Ok(Read::Whole(records)) => records,
                Ok(Read::Partly) => {
                    withheld.push(Refusal::RecordUnreadable {
                        partition: range.partition.clone(),
                        why: format!(
                            "the records of one plan may have {PLAN_BYTES} bytes together; fix the consumer, or move \
                             past them with to_offsets and allow_forward, and lose them"
                        ),
                    });
                    continue;
                }
                Err(refusal) => {
                    withheld.push(refusal);
                    continue;
                }
            };
            if records.len() > most {
                withheld.push(Refusal::TooManyRecords {
                    partition: Some(range.partition.clone()),
                    records: u64::try_from(records.len()).unwrap_or(u64::MAX),
                    limit,
                });
                continue;
            }
            if let Some(refusal) = self.unkeepable(range, &records, topic).await? {
                withheld.push(refusal);
                continue;
            }
            let bytes: usize = records.iter().map(Record::bytes).sum();
            match (
                records_left.checked_sub(records.len()),
                bytes_left.checked_sub(bytes),
            ) {
                (Some(records_after), Some(bytes_after)) => {
                    (records_left, bytes_left) = (records_after, bytes_after);
                    ranged.push(Ranged { range, records });
                }
                _ => withheld.push(Refusal::PlanFull {
                    partition: range.partition.clone(),
                    limit,
                }),
            }
        }
        let rest = ranges.get(seen..).unwrap_or_default();
        withheld.extend(rest.iter().map(|range| Refusal::PlanFull {
            partition: range.partition.clone(),
            limit,
        }));
        Ok(ranged)
    }

    /// Why the records of a range cannot be kept, if so.
    async fn unkeepable(
        &self,
        range: &SkipRange,
        records: &[Record],
        topic: Option<&Topic<'_>>,
    ) -> Result<Option<Refusal>, Error> {
        for record in records {
            // A person who asks for it may send it round once more.
            if !self.asked && self.is_from_quarantine(record).await? {
                return Ok(Some(Refusal::RecordFromQuarantine {
                    partition: range.partition.clone(),
                    offset: record.offset,
                }));
            }
            let Some(topic) = topic else {
                continue;
            };
            let headers = self.headers(range, record);
            let source = &range.partition.topic;
            if let Some(why) = unfit(record, &headers, source, topic.name, &topic.described) {
                return Ok(Some(self.unusable(Some(range), why)));
            }
        }
        Ok(None)
    }

    /// Whether a record is a copy that somebody produced again. Anybody can write the headers of one: it is believed only
    /// where the ledger knows that very record to be kept under that id.
    async fn is_from_quarantine(&self, record: &Record) -> Result<bool, Error> {
        let copy = seen(record);
        let Some(dedupe_id) = copy.dedupe_id else {
            return Ok(false);
        };
        let kept = self.watched.store.quarantined(&dedupe_id).await?;
        Ok(kept.is_some_and(|kept| kept.fingerprint == copy.fingerprint))
    }

    /// The visible records of a range, all of them, or that it has more bytes than were to be read.
    async fn read(&self, range: &SkipRange, limits: ReadLimits) -> Result<Read, Refusal> {
        let unreadable = |why: String| Refusal::RecordUnreadable {
            partition: range.partition.clone(),
            why,
        };
        let view = if self.uncommitted {
            View::Uncommitted
        } else {
            View::Committed
        };
        let until = range.last.saturating_add(1);
        let read = self
            .sources
            .records
            .read(&range.partition, range.committed, until, view, limits)
            .await
            .map_err(|fault| unreadable(fault.to_string()))?;
        match read.records.first() {
            Some(first) if first.offset == range.first => {}
            first => {
                let now = first.map_or("none".to_owned(), |f| f.offset.to_string());
                return Err(unreadable(format!(
                    "the first record was {} and is {now}",
                    range.first
                )));
            }
        }
        if read.records.len() < limits.records && read.until < until {
            let bytes: usize = read.records.iter().map(Record::bytes).sum();
            if bytes >= limits.bytes {
                return Ok(Read::Partly);
            }
            return Err(unreadable(format!(
                "reading ended at {} of {until}",
                read.until
            )));
        }
        if !self.uncommitted && self.watched.policy().isolation == Isolation::Unknown {
            self.nothing_aborted(range, &read.records, limits).await?;
        }
        Ok(Read::Whole(read.records))
    }

    /// Refuses a range with records of aborted transactions in it where nobody knows whether the group reads them: they
    /// would be passed over and not kept.
    async fn nothing_aborted(
        &self,
        range: &SkipRange,
        committed: &[Record],
        limits: ReadLimits,
    ) -> Result<(), Refusal> {
        let until = range.last.saturating_add(1);
        let all = self
            .sources
            .records
            .read(
                &range.partition,
                range.committed,
                until,
                View::Uncommitted,
                limits,
            )
            .await;
        let all = all.map_err(|fault| Refusal::RecordUnreadable {
            partition: range.partition.clone(),
            why: fault.to_string(),
        })?;
        let known: BTreeSet<i64> = committed.iter().map(|record| record.offset).collect();
        match all.records.iter().find(|r| !known.contains(&r.offset)) {
            Some(aborted) => Err(Refusal::IsolationUnknown {
                partition: range.partition.clone(),
                committed: known.range(aborted.offset..).next().copied(),
                uncommitted: Some(aborted.offset),
            }),
            None if all.until < until && all.records.len() < limits.records => {
                Err(Refusal::RecordUnreadable {
                    partition: range.partition.clone(),
                    why: format!("reading ended at {} of {until}", all.until),
                })
            }
            None => Ok(()),
        }
    }

    fn dedupe_id(&self, range: &SkipRange, record: &Record) -> DedupeId {
        let topic_id = self.last.and_then(|l| l.topic_id(&range.partition.topic));
        DedupeId::of(
            self.cluster_id,
            self.watched.group,
            topic_id,
            &range.partition,
            record.offset,
        )
    }

    /// The headers of the record's copy.
    fn headers(&self, range: &SkipRange, record: &Record) -> Vec<Header> {
        let finding = self
            .findings
            .iter()
            .find(|finding| finding.partition == range.partition);
        let policy = self.watched.policy();
        let detail = match (validate(&policy.validators, record), finding) {
            (Some(failure), _) => format!("fails {}: {}", failure.validator, failure.problem),
            (None, Some(finding)) => finding
                .evidence
                .first()
                .map_or(String::new(), ToString::to_string),
            (None, None) => String::new(),
        };
        let evidence = finding.map_or(serde_json::Value::Null, |finding| {
            serde_json::json!(finding.evidence)
        });
        let origin = Origin {
            cluster_id: self.cluster_id.clone(),
            topic_id: self.last.and_then(|l| l.topic_id(&range.partition.topic)),
            partition: range.partition.clone(),
            group: self.watched.group.clone(),
            verdict: finding.map_or(Verdict::StalledUnknown, |finding| finding.verdict),
            detail,
            evidence: evidence.to_string(),
            dedupe_id: self.dedupe_id(range, record),
            run_id: self.watched.id.0.clone(),
            quarantined_at: self.watched.began,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        of_copy(record, &origin, &policy.header_sets)
    }

    /// Keeps the records that were read, and notes what came of each range.
    async fn keep_all(
        &self,
        read: &[Ranged<'_>],
        topic: Option<&Topic<'_>>,
        until: Instant,
        outcome: &mut Outcome,
    ) -> Result<(), Error> {
        let mut kept = match topic {
            Some(topic) if !self.dry_run => {
                let copies = Copies {
                    watched: self.watched,
                    sources: self.sources,
                    topic: topic.name,
                    described: &topic.described,
                    until,
                };
                let copied = copies.of(&self.wanted(read)).await?.into_iter();
                copied.map(|copied| copied.map(Kept::In)).collect()
            }
            _ => Vec::new(),
        }
        .into_iter();
        // Without a topic the records will be lost; a dry run keeps them not yet.
        let otherwise = if topic.is_some() {
            Kept::NotYet
        } else {
            Kept::No
        };
        for ranged in read {
            let mut skipped = Vec::new();
            let mut refusal = None;
            for record in &ranged.records {
                match kept.next().unwrap_or_else(|| Ok(otherwise.clone())) {
                    Ok(kept) => skipped.push(self.skipped(ranged.range, record, kept)),
                    // One reason is enough for a range.
                    Err(why) => {
                        refusal.get_or_insert(Refusal::QuarantineUnconfirmed {
                            partition: ranged.range.partition.clone(),
                            offset: record.offset,
                            why,
                        });
                    }
                }
            }
            match refusal {
                Some(refusal) => outcome.withheld.push(refusal),
                None => outcome.records.extend(skipped),
            }
        }
        Ok(())
    }

    fn wanted<'r>(&self, read: &'r [Ranged<'_>]) -> Vec<Wanted<'r>> {
        let of_range = |ranged: &'r Ranged<'_>| {
            let range = ranged.range;
            ranged.records.iter().map(move |record| Wanted {
                record,
                headers: self.headers(range, record),
                entry: LedgerEntry {
                    dedupe_id: self.dedupe_id(range, record),
                    cluster_id: self.cluster_id.clone(),
                    group: self.watched.group.clone(),
                    partition: range.partition.clone(),
                    topic_id: self.last.and_then(|l| l.topic_id(&range.partition.topic)),
                    record: record.outline(),
                    run: self.watched.id.0.clone(),
                },
            })
        };
        read.iter().flat_map(of_range).collect()
    }

    fn skipped(&self, range: &SkipRange, record: &Record, kept: Kept) -> SkippedRecord {
        SkippedRecord {
            partition: range.partition.clone(),
            record: record.outline(),
            failure: validate(&self.watched.policy().validators, record),
            dedupe_id: self.dedupe_id(range, record),
            kept,
        }
    }
}

/// What reading a range found.
enum Read {
    /// All of it.
    Whole(Vec<Record>),
    /// More bytes than were to be read.
    Partly,
}
