//! Right after records that are passed over.

use std::collections::{BTreeMap, BTreeSet};

use super::data::{Rules, Target, Undoes, Wanted};
use super::reading::judge_reading;
use crate::group::GroupObservation;
use crate::guard::quarantine::{Kept, SkippedRecord};
use crate::offset::{CommittedOffset, TopicPartition};
use crate::plan::{LeftAlone, Source, Warning};
use crate::refusal::{Refusal, Stale};

/// What a plan of the guard passes over.
#[derive(Debug, Clone, Default)]
pub struct Skip {
    /// The committed offset of each partition when its records were read.
    pub committed: BTreeMap<TopicPartition, i64>,
    /// The records, sorted by partition and offset.
    pub records: Vec<SkippedRecord>,
    /// Whether two samples are all that this rests on.
    pub two_samples: bool,
    /// What should be passed over as well and is not, and why.
    pub withheld: BTreeMap<TopicPartition, String>,
    /// What the approver should know of the topic that keeps the records.
    pub cautions: Vec<Warning>,
}

/// Resolves the target: right after the last record of each partition, only from where the records were read.
#[must_use]
pub fn resolve_skip(skip: &Skip, seen: &GroupObservation) -> Target {
    let judge_one = |partition: &TopicPartition| match skip.committed.get(partition) {
        None => Wanted::NotAsked(match skip.withheld.get(partition) {
            Some(why) => LeftAlone::Withheld { why: why.clone() },
            None => LeftAlone::NotSelected,
        }),
        Some(committed) => judge_reading(seen, partition, |from, _| {
            judge_commit(partition, from, *committed, &skip.records)
        }),
    };
    let known: BTreeSet<_> = seen
        .partitions
        .keys()
        .chain(skip.committed.keys())
        .collect();
    let wanted = known
        .into_iter()
        .map(|partition| (partition.clone(), judge_one(partition)));
    let mut warnings = warn_of_records(&skip.records);
    if skip.two_samples {
        warnings.push(Warning::TwoSamples);
    }
    warnings.extend_from_slice(&skip.cautions);
    Target {
        skips: skip.records.clone(),
        warnings,
        undoes: Undoes::Nothing,
        rules: Rules {
            forward: true,
            // Whatever the group reads itself need not be passed over.
            drift: false,
        },
        ..Target::new(Source::Skip, wanted.collect())
    }
}

/// Right after the last record, but only from where the records were read, or others would be passed over with them.
fn judge_commit(
    partition: &TopicPartition,
    from: Option<&CommittedOffset>,
    committed: i64,
    records: &[SkippedRecord],
) -> Wanted {
    let seen = from.map(|from| from.offset);
    if seen != Some(committed) {
        return Wanted::Refuse(Refusal::PlanStale {
            changed: Stale::CommittedOffset {
                partition: partition.clone(),
                planned: Some(committed),
                seen,
                limit: 0,
            },
        });
    }
    let last = records.iter().rfind(|r| r.partition == *partition);
    match last.and_then(|last| last.record.offset.checked_add(1)) {
        Some(target) => Wanted::bare(target, false),
        None => Wanted::Leave(LeftAlone::NotSelected),
    }
}

/// What the approver has to know of the records.
fn warn_of_records(records: &[SkippedRecord]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let lost = records.iter().filter(|r| r.kept == Kept::No).count();
    if lost > 0 {
        warnings.push(Warning::RecordsLost { records: lost });
    }
    let good = records.iter().filter(|r| r.failure.is_none()).count();
    let judged = records.iter().any(|r| r.failure.is_some());
    if judged && good > 0 {
        warnings.push(Warning::GoodRecordsSkipped { records: good });
    }
    warnings
}
