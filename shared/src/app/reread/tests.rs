use std::sync::Mutex;

use super::*;
use crate::domain::guard::record::{Record, TimestampType};
use crate::ports::RecordsRead;

/// A log of one partition: records at some offsets, and offsets that fail whichever reading comes to them.
struct Log {
    start: i64,
    end: i64,
    bytes: usize,
    bad: BTreeSet<i64>,
    fault: Fault,
    readings: Mutex<Vec<(i64, i64)>>,
}

impl Log {
    fn of(start: i64, end: i64) -> Self {
        Self {
            start,
            end,
            bytes: 10,
            bad: BTreeSet::new(),
            fault: Fault::Failed {
                code: "_BAD_MSG".to_owned(),
            },
            readings: Mutex::new(Vec::new()),
        }
    }

    fn readings(&self) -> Vec<(i64, i64)> {
        self.readings.lock().unwrap().clone()
    }

    async fn look(&self, offsets: &[i64]) -> BTreeMap<i64, Result<Option<i64>, Fault>> {
        let until = Instant::now() + Duration::from_secs(60);
        let offsets = offsets.iter().copied().collect();
        let partition = TopicPartition::new("shipments", 0);
        let found = of_partition(self, &partition, &offsets, until).await;
        let offset = |found: Found| found.map(|looked| looked.map(|looked| looked.outline.offset));
        found
            .into_iter()
            .map(|(place, found)| (place, offset(found)))
            .collect()
    }
}

impl ReadRecords for Log {
    async fn read(
        &self,
        _: &TopicPartition,
        from: i64,
        until: i64,
        _: View,
        limits: ReadLimits,
    ) -> Result<RecordsRead, Fault> {
        self.readings.lock().unwrap().push((from, until));
        if from < self.start || from > self.end {
            return Err(Fault::out_of_range());
        }
        let mut read = RecordsRead {
            records: Vec::new(),
            until: from,
        };
        let mut bytes = 0;
        while read.until < until.min(self.end) {
            if self.bad.contains(&read.until) {
                return Err(self.fault.clone());
            }
            read.records.push(Record {
                offset: read.until,
                leader_epoch: None,
                timestamp_ms: 0,
                timestamp_type: TimestampType::CreateTime,
                key: None,
                value: Some(vec![0; self.bytes]),
                headers: Vec::new(),
            });
            read.until += 1;
            bytes += self.bytes;
            if bytes >= limits.bytes || read.records.len() >= limits.records {
                break;
            }
        }
        Ok(read)
    }
}

fn there(offsets: &[i64]) -> BTreeMap<i64, Result<Option<i64>, Fault>> {
    offsets
        .iter()
        .map(|offset| (*offset, Ok(Some(*offset))))
        .collect()
}

#[tokio::test]
async fn records_that_lie_together_are_one_reading() {
    let log = Log::of(0, 10_000);
    let wanted: Vec<i64> = (100..600).chain([700, 5_000]).collect();
    assert_eq!(log.look(&wanted).await, there(&wanted));
    assert_eq!(log.readings(), [(100, 701), (5_000, 5_001)]);
}

#[tokio::test]
async fn large_records_are_read_in_parts() {
    let mut log = Log::of(0, 100);
    log.bytes = READ_BYTES / 2;
    let wanted: Vec<i64> = (0..6).collect();
    assert_eq!(log.look(&wanted).await, there(&wanted));
    assert_eq!(log.readings(), [(0, 6), (2, 6), (4, 6)]);
}

#[tokio::test]
async fn a_record_that_cannot_be_read_hides_none_beside_it() {
    let mut log = Log::of(0, 600);
    log.bad.insert(333);
    let wanted: Vec<i64> = (0..500).collect();
    let mut expected = there(&wanted);
    expected.insert(333, Err(log.fault.clone()));
    assert_eq!(log.look(&wanted).await, expected);
    assert!(log.readings().len() < 25, "{}", log.readings().len());
}

#[tokio::test]
async fn what_its_log_does_not_have_is_known_to_be_nothing() {
    let log = Log::of(5, 10);
    let mut expected = there(&[5, 6, 9]);
    for gone in [3, 4, 10, 12, 400] {
        expected.insert(gone, Ok(None));
    }
    assert_eq!(log.look(&[3, 4, 5, 6, 9, 10, 12, 400]).await, expected);
}

#[tokio::test]
async fn a_broker_that_does_not_answer_is_asked_once() {
    let mut log = Log::of(0, 600);
    log.bad.insert(0);
    log.fault = Fault::NoLeader;
    let found = log.look(&(0..200).collect::<Vec<_>>()).await;
    assert!(found.values().all(|found| *found == Err(Fault::NoLeader)));
    assert_eq!((found.len(), log.readings().len()), (200, 1));
}

#[tokio::test]
async fn what_there_is_no_time_for_is_a_fault() {
    let log = Log::of(0, 600);
    let offsets = (0..3).collect();
    let partition = TopicPartition::new("shipments", 0);
    let found = of_partition(&log, &partition, &offsets, Instant::now()).await;
    assert_eq!(found.len(), 3);
    assert!(found.values().all(Result::is_err));
    assert_eq!(log.readings(), []);
}
