//! Reads again what a plan passes over, and its copies, right before it is applied.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt, stream};

use crate::domain::guard::headers::seen;
use crate::domain::guard::quarantine::{Copy, CopySeen, Kept, Reread, SkippedRecord};
use crate::domain::guard::record::Record;
use crate::domain::offset::{Fault, TopicPartition};
use crate::domain::plan::Plan;
use crate::ports::{ReadLimits, ReadRecords, View};

/// How many records are read at once.
const AT_ONCE: usize = 4;
/// One record, whatever its size.
const ONE: ReadLimits = ReadLimits {
    records: 1,
    bytes: 1,
    time: Duration::from_secs(10),
};

/// Every record that `plan` passes over, and its copy, as they are now.
pub async fn reread<D: ReadRecords>(
    records: &D,
    plan: &Plan,
) -> BTreeMap<(TopicPartition, i64), Reread> {
    stream::iter(&plan.skips)
        .map(|skipped| async move {
            let place = (skipped.partition.clone(), skipped.record.offset);
            (place, one(records, skipped).await)
        })
        .buffered(AT_ONCE)
        .collect()
        .await
}

async fn one<D: ReadRecords>(records: &D, skipped: &SkippedRecord) -> Reread {
    let source = at(records, &skipped.partition, skipped.record.offset).await;
    let copy = match &skipped.kept {
        Kept::In(kept) => copy(records, kept).await,
        Kept::No | Kept::NotYet => Ok(None),
    };
    Reread {
        source: source.map(|record| record.as_ref().map(Record::outline)),
        copy,
    }
}

/// What lies where a copy was written.
///
/// # Errors
/// It could not be read.
pub async fn copy<D: ReadRecords>(records: &D, copy: &Copy) -> Result<Option<CopySeen>, Fault> {
    let record = at(records, &copy.partition, copy.offset).await?;
    Ok(record.as_ref().map(seen))
}

/// The record at exactly this offset. An offset that its log no longer has, or has not reached again since its topic
/// was made anew, is known to hold none.
async fn at<D: ReadRecords>(
    records: &D,
    partition: &TopicPartition,
    offset: i64,
) -> Result<Option<Record>, Fault> {
    let until = offset.saturating_add(1);
    let read = match records
        .read(partition, offset, until, View::Uncommitted, ONE)
        .await
    {
        Err(fault) if fault == Fault::out_of_range() => return Ok(None),
        read => read?,
    };
    Ok(read
        .records
        .into_iter()
        .find(|record| record.offset == offset))
}
