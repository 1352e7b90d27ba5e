//! What a bounded raw read at a committed offset found, and what the validators say of it.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::policy::Validator;
use super::record::{Outline, Record};
use crate::offset::{Fault, TopicPartition};
use crate::text::count;

/// The memory of the process that reads records, in MiB. What does not fit into it when it is unpacked cannot be read.
pub const READER_MEMORY_MIB: u64 = 160;

/// The first record at or after an offset that a consumer of one isolation level gets to see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum First {
    /// This one.
    Record(Outline),
    /// There is none below this offset.
    None {
        /// Up to where was read, exclusive.
        until: i64,
    },
}

impl First {
    /// The record's offset.
    #[must_use]
    pub fn offset(&self) -> Option<i64> {
        match self {
            Self::Record(outline) => Some(outline.offset),
            Self::None { .. } => None,
        }
    }
}

/// Why a record is not what its topic is meant to hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The record.
    pub offset: i64,
    /// Which validator does not pass it.
    pub validator: Validator,
    /// What is wrong, in words that show nothing of it.
    pub problem: String,
}

/// What the validators say of the records that one poll may return.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Validation {
    /// The records that were read, by offset, in order: `Some` where one fails.
    pub records: Vec<(i64, Option<Failure>)>,
}

impl Validation {
    /// The first record that fails.
    #[must_use]
    pub fn first_failure(&self) -> Option<&Failure> {
        self.records
            .iter()
            .find_map(|(_, failure)| failure.as_ref())
    }

    /// The records that fail one after another from the record at `first` on; none where that one passes or was not read.
    pub fn failing_from(&self, first: i64) -> impl Iterator<Item = &Failure> {
        let from = self.records.iter().position(|(at, _)| *at == first);
        let records = from.and_then(|from| self.records.get(from..));
        records
            .unwrap_or_default()
            .iter()
            .map_while(|(_, failure)| failure.as_ref())
    }
}

/// A bounded raw read at one partition's committed offset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// The committed offset at which it began.
    pub from: i64,
    /// What a `read_committed` consumer sees first.
    pub committed: First,
    /// What a `read_uncommitted` consumer sees first.
    pub uncommitted: First,
    /// What the validators say; empty without validators.
    pub validation: Validation,
    /// The first of the records that one poll may return that is of another kind than all those before the commit.
    pub unlike: Option<Unlike>,
}

/// A validator that nobody configured, that passes every record right before the commit and not the one at it.
///
/// The group got past those, so this is a sign of a poison record; alone it is no proof, since a topic may hold records of
/// many kinds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unlike {
    /// What is wrong with the record.
    pub failure: Failure,
    /// How many records before it pass.
    pub passing: usize,
}

impl Unlike {
    /// Whether that is a sign strong enough to pass over the record for: a tombstone is how any compacted topic deletes,
    /// so one after many records with a value is rare, and good as a rule.
    #[must_use]
    pub fn is_strong(&self) -> bool {
        self.failure.validator != Validator::NotNull
    }
}

/// With fewer records before it, a record is unlike none.
const LEAST_NEIGHBOURS: usize = 5;

/// The kind that all records `before` a commit are of, if there is one and there are enough of them.
#[must_use]
pub fn kind_of(before: &[Record]) -> Option<Kind> {
    let with_value: Vec<_> = before.iter().filter(|r| r.value.is_some()).collect();
    if with_value.len() < LEAST_NEIGHBOURS {
        return None;
    }
    // JSON is UTF-8, so the narrower kind is asked first.
    let kinds = [Validator::SchemaRegistry, Validator::Json, Validator::Utf8];
    let passes = |kind: &Validator| with_value.iter().all(|record| kind.check(record).is_none());
    let of_values = kinds.into_iter().find(passes);
    let of_presence = (with_value.len() == before.len()).then_some(Validator::NotNull);
    (of_values.is_some() || of_presence.is_some()).then_some(Kind {
        of_values,
        of_presence,
        passing: with_value.len(),
    })
}

/// What all records before a commit pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    of_values: Option<Validator>,
    of_presence: Option<Validator>,
    passing: usize,
}

impl Kind {
    /// Whether it says anything of the values, so that records behind the first are worth reading.
    #[must_use]
    pub fn is_of_values(self) -> bool {
        self.of_values.is_some()
    }

    /// The first of `records` whose value is of another kind, or else the very first, where it alone has no value:
    /// a tombstone further on is as good as any.
    #[must_use]
    pub fn unlike(self, records: &[Record]) -> Option<Unlike> {
        let other = |record: &Record| validate(self.of_values.as_slice(), record);
        let tombstone = |record: &Record| validate(self.of_presence.as_slice(), record);
        let failure = records.iter().find_map(other);
        Some(Unlike {
            failure: failure.or_else(|| tombstone(records.first()?))?,
            passing: self.passing,
        })
    }
}

/// What became of a partition that was to be probed.
pub type Probed = Result<Probe, ProbeFault>;

/// Why there is no probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProbeFault {
    /// The run had no room for another one.
    NoRoom,
    /// Another run is at it, or was ended by it a moment ago.
    BeingRead,
    /// It ended the process that read.
    Ended {
        /// When.
        at: Timestamp,
    },
    /// The record, or what comes before it, cannot be read: nothing may be said about what it is.
    Unreadable(Fault),
}

/// How long a record that ended the process that read it is not read again.
pub const READ_AGAIN_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// After so long the run that noted that it reads a record is over, by the time-out of its function.
const READ_FOR: SignedDuration = SignedDuration::from_mins(6);

/// A read of the records at a commit that has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    /// The partition.
    pub partition: TopicPartition,
    /// The committed offset.
    pub offset: i64,
    /// When it began.
    pub at: Timestamp,
    /// Whether it ended the process that read.
    pub ended: bool,
}

impl Begun {
    /// Of `partition` from its commit on, at `at`.
    #[must_use]
    pub fn new(partition: &TopicPartition, offset: i64, at: Timestamp) -> Self {
        Self {
            partition: partition.clone(),
            offset,
            at,
            ended: false,
        }
    }
}

/// What is remembered of the probes of a group from run to run, so that none is tried over and over that ends the process
/// that reads: those that are under way, those whose run never came back, and those that are known to have ended it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProbeNotes(Vec<Begun>);

impl ProbeNotes {
    /// Why `partition` is not to be probed at `offset` at the moment.
    #[must_use]
    pub fn forbid(
        &self,
        partition: &TopicPartition,
        offset: i64,
        now: Timestamp,
    ) -> Option<ProbeFault> {
        let here = self.0.iter();
        let here = here.filter(|begun| begun.partition == *partition && begun.offset == offset);
        let last = here.max_by_key(|begun| begun.at)?;
        let age = now.duration_since(last.at);
        if age >= READ_AGAIN_AFTER {
            None
        } else if last.ended || age >= READ_FOR {
            Some(ProbeFault::Ended { at: last.at })
        } else {
            Some(ProbeFault::BeingRead)
        }
    }

    /// Notes what is about to be read. What may be read again is forgotten.
    pub fn begin(&mut self, next: Begun) {
        self.0
            .retain(|begun| next.at.duration_since(begun.at) < READ_AGAIN_AFTER);
        // A write whose answer was lost is made again.
        if !self.0.contains(&next) {
            self.0.push(next);
        }
    }

    /// Notes that the read that `begun` names is over, and whether it ended the process that read. Those of other runs
    /// are theirs.
    pub fn finish(&mut self, begun: &Begun, ended: bool) {
        if !ended {
            self.0.retain(|other| other != begun);
        } else if let Some(begun) = self.0.iter_mut().find(|other| *other == begun) {
            begun.ended = true;
        }
    }
}

impl fmt::Display for ProbeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoom => f.write_str("not read in this run, which had no room for more"),
            Self::BeingRead => {
                f.write_str("not read in this run, since another one has begun to read it")
            }
            Self::Ended { at } => write!(
                f,
                "reading its records ended the process that read them, at {at:.0}: a batch there does not unpack within the \
                 {READER_MEMORY_MIB} MiB that it has. It is read again after {:.0}, or as soon as the commit moves. Look at \
                 the record that is next with a consumer that has more memory, and find out who produced it",
                *at + READ_AGAIN_AFTER
            ),
            Self::Unreadable(fault) => write!(f, "its records could not be read: {fault}"),
        }
    }
}

impl fmt::Display for Validator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json => f.write_str("json"),
            Self::Utf8 => f.write_str("utf8"),
            Self::SchemaRegistry => f.write_str("schema-registry"),
            Self::NotNull => f.write_str("not-null"),
            Self::MaxBytes(limit) => write!(f, "max-bytes:{limit}"),
        }
    }
}

impl Validator {
    /// What is wrong with `record`, in words that show nothing of it; `None` where it passes.
    ///
    /// A tombstone passes all but the one that asks for a value: it is how a compacted topic deletes, and no serialiser
    /// wrote it.
    #[must_use]
    pub fn check(self, record: &Record) -> Option<String> {
        let Some(value) = record.value.as_deref() else {
            let null = "the value is null: a tombstone".to_owned();
            return (self == Self::NotNull).then_some(null);
        };
        match self {
            Self::NotNull => None,
            // The parser does not look into texts that it passes over, and JSON is UTF-8.
            Self::Json => Self::Utf8.check(record).or_else(|| {
                let parsed = serde_json::from_slice::<serde::de::IgnoredAny>(value);
                parsed.err().map(|error| {
                    let kind = match error.classify() {
                        serde_json::error::Category::Eof => "it ends too early",
                        _ => "it is malformed",
                    };
                    format!(
                        "the value is no JSON: {kind} at line {}, column {}",
                        error.line(),
                        error.column()
                    )
                })
            }),
            Self::Utf8 => std::str::from_utf8(value)
                .err()
                .map(|error| format!("the value is no UTF-8 from byte {} on", error.valid_up_to())),
            Self::SchemaRegistry => match value {
                [0, _, _, _, _, ..] => None,
                [0, ..] => Some(format!(
                    "the value has {}, less than a magic byte and a schema id",
                    count(value.len(), "byte")
                )),
                [] => Some("the value is empty and has no magic byte".to_owned()),
                [_, ..] => Some("the value does not begin with the magic byte 0".to_owned()),
            },
            Self::MaxBytes(limit) => (value.len() as u64 > u64::from(limit))
                .then(|| format!("the value has {}", count(value.len(), "byte"))),
        }
    }
}

/// The first of `validators` that does not pass `record`.
#[must_use]
pub fn validate(validators: &[Validator], record: &Record) -> Option<Failure> {
    validators.iter().find_map(|validator| {
        Some(Failure {
            offset: record.offset,
            validator: *validator,
            problem: validator.check(record)?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::record::TimestampType;
    use super::*;
    use crate::testing::at;

    fn record(offset: i64, value: &[u8]) -> Record {
        Record {
            offset,
            leader_epoch: None,
            timestamp_ms: -1,
            timestamp_type: TimestampType::NotAvailable,
            key: None,
            value: Some(value.to_vec()),
            headers: Vec::new(),
        }
    }

    fn records(values: &[&[u8]]) -> Vec<Record> {
        (0..)
            .zip(values)
            .map(|(n, value)| record(n, value))
            .collect()
    }

    #[test]
    fn what_ended_the_process_that_read_it_is_left_alone_for_an_hour_and_until_the_commit_moves() {
        let (p, q) = (TopicPartition::new("t", 0), TopicPartition::new("t", 1));
        let mut notes = ProbeNotes::default();
        let began = at("09:00:00");
        let read = Begun::new(&p, 43, began);
        notes.begin(read.clone());
        notes.finish(&read, true);
        let read = Begun::new(&q, 43, at("09:00:10"));
        notes.begin(read.clone());
        notes.finish(&read, false);
        let ended = Some(ProbeFault::Ended { at: began });
        assert_eq!(notes.forbid(&p, 43, at("09:05:00")), ended);
        assert_eq!(notes.forbid(&p, 43, at("09:59:59")), ended);
        assert_eq!(notes.forbid(&p, 43, at("10:00:00")), None);
        assert_eq!(notes.forbid(&p, 44, at("09:05:00")), None);
        assert_eq!(notes.forbid(&q, 43, at("09:05:00")), None);
        // It is not remembered for ever.
        let read = Begun::new(&q, 50, at("10:00:00"));
        notes.begin(read.clone());
        notes.finish(&read, false);
        assert_eq!(notes, ProbeNotes::default());
    }

    /// A write whose answer was lost is made again, and another run's note stays what it was.
    #[test]
    fn a_note_is_made_once_and_ended_by_who_made_it() {
        let (p, q) = (TopicPartition::new("t", 0), TopicPartition::new("t", 1));
        let mut notes = ProbeNotes::default();
        let own = Begun::new(&p, 43, at("09:00:00"));
        let others = Begun::new(&q, 7, at("09:00:01"));
        for begun in [&own, &own, &others] {
            notes.begin(begun.clone());
        }
        notes.finish(&own, false);
        notes.finish(&own, true);
        assert_eq!(notes.forbid(&p, 43, at("09:00:02")), None);
        let being_read = Some(ProbeFault::BeingRead);
        assert_eq!(notes.forbid(&q, 7, at("09:00:02")), being_read);
        notes.finish(&others, false);
        assert_eq!(notes, ProbeNotes::default());
    }

    /// The run noted it, and nobody noted its end: another run may be at it, until no run can be any more.
    #[test]
    fn what_a_run_did_not_come_back_from_counts_as_its_end() {
        let p = TopicPartition::new("t", 0);
        let mut notes = ProbeNotes::default();
        notes.begin(Begun::new(&p, 43, at("09:00:00")));
        let stored = serde_json::to_string(&notes).unwrap();
        let notes: ProbeNotes = serde_json::from_str(&stored).unwrap();
        assert_eq!(
            notes.forbid(&p, 43, at("09:05:00")),
            Some(ProbeFault::BeingRead)
        );
        let ended = ProbeFault::Ended { at: at("09:00:00") };
        assert_eq!(notes.forbid(&p, 43, at("09:06:00")), Some(ended.clone()));
        assert!(ended.to_string().contains("160 MiB"), "{ended}");
        assert!(ended.to_string().contains("read again after 2"), "{ended}");
    }

    #[test]
    fn a_record_stands_out_only_from_enough_records_of_one_kind() {
        let json: Vec<&[u8]> = vec![b"{}"; 5];
        let kind = kind_of(&records(&json)).unwrap();
        let found = kind.unlike(&[record(7, b"[1]"), record(8, b"{")]).unwrap();
        assert_eq!((found.failure.offset, found.passing), (8, 5));
        assert_eq!(found.failure.validator, Validator::Json);
        assert_eq!(kind.unlike(&[record(7, b"[1]")]), None);
        assert_eq!(kind_of(&records(&json[1..])), None, "too few");
        let mixed: Vec<&[u8]> = [&json[..], &[b"\xff".as_slice()]].concat();
        let kind = kind_of(&records(&mixed)).unwrap();
        assert_eq!(kind.unlike(&[record(7, b"{")]), None, "of two kinds");
        assert!(!kind.is_of_values());
        let text: Vec<&[u8]> = [&json[..], &[b"text".as_slice()]].concat();
        let kind = kind_of(&records(&text)).unwrap();
        assert_eq!(kind.unlike(&[record(7, b"more text")]), None);
        assert!(kind.unlike(&[record(7, b"\xff")]).is_some());
    }

    #[test]
    fn a_tombstone_stands_out_where_there_was_none_and_is_a_weak_sign() {
        let tombstone = |offset| Record {
            value: None,
            ..record(offset, b"")
        };
        let mut before = records(&[b"{}".as_slice(); 5]);
        let found = kind_of(&before).unwrap().unlike(&[tombstone(7)]).unwrap();
        assert_eq!((found.failure.offset, found.passing), (7, 5));
        assert_eq!(found.failure.validator, Validator::NotNull);
        assert!(!found.is_strong());
        let found = kind_of(&before).unwrap().unlike(&[record(7, b"{")]);
        assert!(found.unwrap().is_strong());
        before.push(tombstone(5));
        assert_eq!(kind_of(&before).unwrap().unlike(&[tombstone(7)]), None);
        // Values of no known kind are records with a value all the same.
        let binary = records(&[b"\xff".as_slice(); 5]);
        assert!(kind_of(&binary).unwrap().unlike(&[tombstone(7)]).is_some());
        assert_eq!(kind_of(&binary).unwrap().unlike(&[record(7, b"{}")]), None);
        let further = [record(7, b"\xff"), tombstone(8)];
        assert_eq!(kind_of(&binary).unwrap().unlike(&further), None);
        assert!(Validator::NotNull.check(&tombstone(0)).is_some());
    }

    #[test]
    fn json_is_utf_8_and_whole() {
        for (value, passes) in [
            (&b"{\"a\": [1, null]}"[..], true),
            (b"1e999", true),
            (b"", false),
            (b"{", false),
            (b"{} {}", false),
            (b"\"\xff\"", false),
        ] {
            let said = Validator::Json.check(&record(0, value));
            assert_eq!(said.is_none(), passes, "{said:?}");
        }
    }
}
