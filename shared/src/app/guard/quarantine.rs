//! Keeps what a plan would pass over: ledger, read, produce, read back, confirm.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::Sources;
use super::group::Watched;
use crate::domain::guard::headers::{Origin, is_from_quarantine, of_copy};
use crate::domain::guard::keeping::{caution, unfit};
use crate::domain::guard::policy::Isolation;
use crate::domain::guard::probe::validate;
use crate::domain::guard::proposal::SkipRange;
use crate::domain::guard::quarantine::{Copy, DedupeId, Kept, SkippedRecord};
use crate::domain::guard::record::{Header, Record};
use crate::domain::guard::sample::Sample;
use crate::domain::guard::verdict::{Finding, Verdict};
use crate::domain::offset::{ClusterId, Fault};
use crate::domain::refusal::Refusal;
use crate::error::Error;
use crate::ports::{KeepRecords, ReadLimits, ReadRecords, View};
use crate::store::{Begun, LedgerEntry};

/// How long one run may take to keep a record before another one may try.
const LEASE: SignedDuration = SignedDuration::from_mins(2);
/// How often a record is tried within a run whose ledger entry changes under it.
const TRIES: u32 = 3;
/// The most bytes that the records of one plan may have.
const PLAN_BYTES: usize = 32 << 20;
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
    pub(super) dry_run: bool,
}

impl<R, D: ReadRecords, K: KeepRecords> Keeping<'_, R, D, K> {
    /// Keeps every visible record of `ranges`, and returns them in order.
    ///
    /// # Errors
    /// The table failed. What makes a record impossible to keep is a refusal; all that were kept by then stay kept, and
    /// the next run finds them in the ledger.
    pub(super) async fn keep(
        &self,
        ranges: &[SkipRange],
    ) -> Result<Result<Vec<SkippedRecord>, Vec<Refusal>>, Error> {
        let policy = self.watched.policy();
        let mut read = Vec::new();
        let mut refusals = Vec::new();
        // One more record than may be passed over, so that too many are noticed; and none is read beyond that.
        let most = usize::try_from(policy.max_records_per_plan).unwrap_or(usize::MAX);
        let mut limits = ReadLimits {
            records: most.saturating_add(1),
            bytes: PLAN_BYTES,
            time: READ_TIME,
        };
        for range in ranges {
            if limits.records == 0 || limits.bytes == 0 {
                break;
            }
            match self.read(range, limits).await {
                Ok(records) => {
                    let bytes: usize = records.iter().map(Record::bytes).sum();
                    limits.records = limits.records.saturating_sub(records.len());
                    limits.bytes = limits.bytes.saturating_sub(bytes);
                    read.extend(records.into_iter().map(|record| (range, record)));
                }
                Err(refusal) => refusals.push(refusal),
            }
        }
        if limits.bytes == 0 {
            let why = format!("the records of one plan may have {PLAN_BYTES} bytes together");
            refusals.extend(ranges.last().map(|range| Refusal::RecordUnreadable {
                partition: range.partition.clone(),
                why,
            }));
        }
        let records = u64::try_from(read.len()).unwrap_or(u64::MAX);
        if records > u64::from(policy.max_records_per_plan) {
            refusals.push(Refusal::TooManyRecords {
                records,
                limit: policy.max_records_per_plan,
            });
        }
        if policy.publish_to_dlq_topic {
            refusals.extend(self.unusable(&read).await);
        }
        if !refusals.is_empty() {
            return Ok(Err(refusals));
        }
        let mut kept = Vec::new();
        for (range, record) in &read {
            match self.keep_one(range, record).await? {
                Ok(skipped) => kept.push(skipped),
                Err(refusal) => return Ok(Err(vec![refusal])),
            }
        }
        kept.sort_by(|a: &SkippedRecord, b| {
            (&a.partition, a.record.offset).cmp(&(&b.partition, b.record.offset))
        });
        Ok(Ok(kept))
    }

    /// The visible records of a range, all of them.
    async fn read(&self, range: &SkipRange, limits: ReadLimits) -> Result<Vec<Record>, Refusal> {
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
        if read.records.len() < limits.records && read.until < until {
            return Err(unreadable(format!(
                "reading ended at {} of {until}",
                read.until
            )));
        }
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
        if !self.uncommitted && self.watched.policy().isolation == Isolation::Unknown {
            self.nothing_aborted(range, &read.records, limits).await?;
        }
        match read
            .records
            .iter()
            .find(|record| is_from_quarantine(record))
        {
            Some(record) => Err(Refusal::RecordFromQuarantine {
                partition: range.partition.clone(),
                offset: record.offset,
            }),
            None => Ok(read.records),
        }
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

    /// Why the quarantine topic cannot keep these records, each reason once.
    async fn unusable(&self, read: &[(&SkipRange, Record)]) -> Vec<Refusal> {
        let configured = self.watched.policy().quarantine_topic.as_deref();
        let unusable = |why: String| Refusal::QuarantineUnusable {
            topic: configured.unwrap_or_default().to_owned(),
            why,
        };
        let Some(topic) = configured else {
            let why = "set quarantine_topic for this group, or publish_to_dlq_topic = false to lose the record";
            return vec![unusable(why.to_owned())];
        };
        let described = match self.sources.keeper.keeping_topic(topic).await {
            Ok(described) => described,
            Err(fault) => return vec![unusable(fault.to_string())],
        };
        if let Some(caution) = described.as_ref().and_then(caution) {
            tracing::warn!(
                topic,
                caution,
                "the quarantine topic is not as safe as it should be"
            );
        }
        let mut whys: Vec<String> = read
            .iter()
            .filter_map(|(range, record)| {
                let headers = self.headers(range, record);
                let source = &range.partition.topic;
                unfit(record, &headers, source, topic, described.as_ref())
            })
            .collect();
        whys.sort();
        whys.dedup();
        whys.into_iter().map(unusable).collect()
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
            run_id: self.watched.id.clone(),
            quarantined_at: self.watched.began,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        of_copy(record, &origin, &policy.header_sets)
    }

    async fn keep_one(
        &self,
        range: &SkipRange,
        record: &Record,
    ) -> Result<Result<SkippedRecord, Refusal>, Error> {
        let policy = self.watched.policy();
        let kept = match policy.quarantine_topic.as_deref() {
            Some(topic) if policy.publish_to_dlq_topic && !self.dry_run => {
                match self.write(range, record, topic).await? {
                    Ok(copy) => Kept::In(copy),
                    Err(why) => {
                        return Ok(Err(Refusal::QuarantineUnconfirmed {
                            partition: range.partition.clone(),
                            offset: record.offset,
                            why,
                        }));
                    }
                }
            }
            _ if policy.publish_to_dlq_topic => Kept::NotYet,
            _ => Kept::No,
        };
        Ok(Ok(SkippedRecord {
            partition: range.partition.clone(),
            record: record.outline(),
            failure: validate(&policy.validators, record),
            dedupe_id: self.dedupe_id(range, record),
            kept,
        }))
    }

    /// A copy of `record` that was read back and is the same; or why there is none that is known to be.
    ///
    /// The ledger makes one copy of it however often it is tried: what is confirmed there is only looked at again, and
    /// what another run is at is left to it. A run that was killed in between leaves at most a second copy with the same
    /// dedupe id.
    async fn write(
        &self,
        range: &SkipRange,
        record: &Record,
        topic: &str,
    ) -> Result<Result<Copy, String>, Error> {
        let store = self.watched.store;
        let entry = LedgerEntry {
            dedupe_id: self.dedupe_id(range, record),
            cluster_id: self.cluster_id.clone(),
            group: self.watched.group.clone(),
            partition: range.partition.clone(),
            topic_id: self.last.and_then(|l| l.topic_id(&range.partition.topic)),
            record: record.outline(),
            run: self.watched.id.clone(),
        };
        let mut begun = store
            .begin_quarantine(&entry, Timestamp::now(), LEASE)
            .await?;
        for _ in 0..TRIES {
            match begun {
                Begun::Theirs { until } => {
                    return Ok(Err(format!("another run is keeping it, until {until}")));
                }
                Begun::Kept { copy, record: then } => {
                    let same = then.is_same_record(&entry.record) && copy.partition.topic == topic;
                    match self.reads_back(&copy, &entry).await {
                        Ok(true) if same => return Ok(Ok(copy)),
                        // It cannot be seen now, which does not mean that it is gone.
                        Err(fault) => {
                            return Ok(Err(format!("its copy at {copy} cannot be read: {fault}")));
                        }
                        Ok(_) => {
                            begun = store
                                .reopen_quarantine(&entry, &copy, Timestamp::now(), LEASE)
                                .await?;
                        }
                    }
                }
                Begun::Mine { attempt } => {
                    let copied = self.copy(range, record, topic, &entry).await;
                    let copy = match copied {
                        Ok(copy) => copy,
                        Err(why) => return Ok(Err(why)),
                    };
                    let now = Timestamp::now();
                    if store
                        .confirm_quarantine(&entry.dedupe_id, &attempt, &copy, now)
                        .await?
                    {
                        return Ok(Ok(copy));
                    }
                    begun = store
                        .begin_quarantine(&entry, Timestamp::now(), LEASE)
                        .await?;
                }
            }
        }
        Ok(Err(
            "other runs keep changing its entry in the ledger".to_owned()
        ))
    }

    async fn copy(
        &self,
        range: &SkipRange,
        record: &Record,
        topic: &str,
        entry: &LedgerEntry,
    ) -> Result<Copy, String> {
        let headers = self.headers(range, record);
        let copy = self
            .sources
            .keeper
            .keep(
                topic,
                record.key.as_deref(),
                record.value.as_deref(),
                &headers,
            )
            .await
            .map_err(|fault| format!("it was not written for certain: {fault}"))?;
        match self.reads_back(&copy, entry).await {
            Ok(true) => Ok(copy),
            Ok(false) => Err(format!("what reads back at {copy} is another record")),
            Err(fault) => Err(format!("its copy at {copy} does not read back: {fault}")),
        }
    }

    /// Whether what lies at `copy` is the record.
    async fn reads_back(&self, copy: &Copy, entry: &LedgerEntry) -> Result<bool, Fault> {
        let seen = crate::app::reread::copy(&self.sources.records, copy).await?;
        Ok(seen.is_some_and(|seen| {
            seen.fingerprint == entry.record.fingerprint
                && seen.dedupe_id.as_ref() == Some(&entry.dedupe_id)
        }))
    }
}
