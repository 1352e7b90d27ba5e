//! Which of a group's checkpoints a `rewind_before` goes back to.
//!
//! Each partition goes back to the newest checkpoint that no rewind undid for it. For most that is one and the same, the
//! plan's source. For a partition whose newer past was undone it is an older one: the newer ones say where it was only
//! because of what was undone, and the older one of all others would replay hours of records that nothing is wrong
//! with. A partition is independent of the others in Kafka, so positions of two instants contradict nothing; which ones
//! are older, and why, is among the plan's warnings.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::checkpoint::{Checkpoint, CheckpointHeader};
use crate::ids::PlanId;
use crate::offset::TopicPartition;
use crate::refusal::Refusal;
use crate::request::Selection;

use super::checkpoint::{CheckpointSource, PassedOver};
use super::data::Older;

/// What was chosen.
#[derive(Debug, PartialEq, Eq)]
pub enum Choice {
    /// This.
    Source {
        /// The source, with what is taken from older ones in the place of its own.
        checkpoint: Box<Checkpoint>,
        /// The older ones, newest first.
        older: Vec<Older>,
        /// What was passed over.
        passed_over: PassedOver,
    },
    /// No checkpoint is usable.
    None(PassedOver),
    /// No checkpoint is usable for these partitions, and some is for others.
    Without(Vec<TopicPartition>),
}

/// The search, from the newest checkpoint that may be chosen to the oldest.
#[derive(Debug)]
pub struct Search<'a> {
    selection: &'a Selection,
    passed_over: PassedOver,
    /// What was asked for of the newest checkpoint that was read and passed over.
    missed: Vec<TopicPartition>,
    source: Option<Checkpoint>,
    older: Vec<Older>,
    /// For what an older one is looked for, and who undid the newer ones.
    wanted: BTreeMap<TopicPartition, BTreeSet<PlanId>>,
    /// For what there is none: the older ones are of another log.
    of_another_log: Vec<TopicPartition>,
}

impl Choice {
    /// What was chosen among `headers`, newest first, for a rewind to before a time.
    ///
    /// # Errors
    /// Nothing usable is there for all that was asked for.
    pub fn source(
        self,
        before: Timestamp,
        headers: &[CheckpointHeader],
    ) -> Result<CheckpointSource, Refusal> {
        match self {
            Self::Source {
                checkpoint,
                older,
                passed_over,
            } => Ok(CheckpointSource {
                older,
                passed_over,
                ..CheckpointSource::new(*checkpoint)
            }),
            Self::Without(partitions) => Err(Refusal::PartitionsDisowned { before, partitions }),
            Self::None(passed_over) => Err(Refusal::NoCheckpointBefore {
                before,
                oldest: headers
                    .iter()
                    .rfind(|header| header.disowned.is_empty())
                    .map(|header| header.ended_at),
                disowned: passed_over.count,
            }),
        }
    }
}

impl<'a> Search<'a> {
    /// A search for what `selection` selects.
    #[must_use]
    pub fn new(selection: &'a Selection) -> Self {
        Self {
            selection,
            passed_over: PassedOver::default(),
            missed: Vec::new(),
            source: None,
            older: Vec::new(),
            wanted: BTreeMap::new(),
            of_another_log: Vec::new(),
        }
    }

    /// Whether nothing is looked for any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.source.is_some() && self.wanted.is_empty()
    }

    /// Whether the next checkpoint has to be read, or is of no use by its header alone.
    pub fn needs(&mut self, header: &CheckpointHeader) -> bool {
        let good = |partition: &TopicPartition| header.disowned.by(partition).is_none();
        if self.source.is_some() {
            for (partition, by) in &mut self.wanted {
                by.extend(header.disowned.by(partition).cloned());
            }
            return self.wanted.keys().any(good);
        }
        let useless = header.disowned.is_whole()
            || (!self.missed.is_empty() && !self.missed.iter().any(good));
        if useless {
            self.pass_over(header);
        }
        !useless
    }

    /// Looks at a checkpoint that was needed.
    pub fn read(&mut self, header: &CheckpointHeader, checkpoint: Checkpoint) {
        match &mut self.source {
            None => self.begin(header, checkpoint),
            Some(source) => {
                let mut older = Older {
                    id: checkpoint.id.clone(),
                    ended_at: checkpoint.ended_at,
                    by: BTreeSet::new(),
                    partitions: BTreeSet::new(),
                };
                let good = |at: &TopicPartition| header.disowned.by(at).is_none();
                for (at, by) in self.wanted.extract_if(.., |at, _| good(at)) {
                    // Where it was not there yet, there is nothing to go back to: it is left alone, as always.
                    let Some(then) = checkpoint.partitions.get(&at) else {
                        continue;
                    };
                    if checkpoint.topic_id(&at.topic) != source.topic_id(&at.topic) {
                        self.of_another_log.push(at);
                        continue;
                    }
                    source.partitions.insert(at.clone(), then.clone());
                    older.by.extend(by);
                    older.partitions.insert(at);
                }
                if !older.partitions.is_empty() {
                    self.older.push(older);
                }
            }
        }
    }

    fn begin(&mut self, header: &CheckpointHeader, mut checkpoint: Checkpoint) {
        let asked = asked(self.selection, &checkpoint);
        let undone: BTreeMap<_, _> = asked
            .iter()
            .filter_map(|at| Some((at.clone(), [header.disowned.by(at)?.clone()].into())))
            .collect();
        if !asked.is_empty() && undone.len() == asked.len() {
            self.missed = asked;
            self.pass_over(header);
            return;
        }
        checkpoint
            .partitions
            .retain(|at, _| !undone.contains_key(at));
        self.wanted = undone;
        self.source = Some(checkpoint);
    }

    fn pass_over(&mut self, header: &CheckpointHeader) {
        self.passed_over.count += 1;
        self.passed_over.by.extend(header.disowned.plans().cloned());
    }

    /// What was found.
    #[must_use]
    pub fn end(self) -> Choice {
        let Some(source) = self.source else {
            return Choice::None(self.passed_over);
        };
        let mut without = self.of_another_log;
        without.extend(self.wanted.into_keys());
        without.sort();
        if !without.is_empty() {
            return Choice::Without(without);
        }
        Choice::Source {
            checkpoint: Box::new(source),
            older: self.older,
            passed_over: self.passed_over,
        }
    }
}

fn asked(selection: &Selection, checkpoint: &Checkpoint) -> Vec<TopicPartition> {
    let partitions = checkpoint.partitions.keys();
    partitions
        .filter(|at| selection.contains(at))
        .cloned()
        .collect()
}

/// A checkpoint that a request names.
///
/// # Errors
/// A rewind undid some of what was asked for of it.
pub fn find_named(
    selection: &Selection,
    header: &CheckpointHeader,
    checkpoint: Checkpoint,
) -> Result<CheckpointSource, Refusal> {
    match undone_for(selection, header, &checkpoint) {
        None => Ok(CheckpointSource::new(checkpoint)),
        Some((by, partitions)) => Err(Refusal::CheckpointDisowned {
            id: header.id.clone(),
            by,
            partitions,
        }),
    }
}

/// What a named checkpoint holds of the partitions asked for that a rewind undid: the first plan that did, and for
/// which; none where it did for all.
fn undone_for(
    selection: &Selection,
    header: &CheckpointHeader,
    checkpoint: &Checkpoint,
) -> Option<(PlanId, Vec<TopicPartition>)> {
    let asked = asked(selection, checkpoint);
    let undone: Vec<_> = asked
        .iter()
        .filter(|at| header.disowned.by(at).is_some())
        .cloned()
        .collect();
    let by = header.disowned.by(undone.first()?)?.clone();
    let all = undone.len() == asked.len();
    Some((by, if all { Vec::new() } else { undone }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disowned::{Disowned, Undone};
    use crate::ids::CheckpointId;
    use crate::testing::*;

    /// Hourly checkpoints from 06:00 on; of the n-th, every partition is at 10 n, and these partitions are undone.
    struct Hours(Vec<(CheckpointHeader, Checkpoint)>);

    impl Hours {
        fn new(undone: &[&[i32]]) -> Self {
            let hours = undone.iter().zip(0..).map(|(undone, n)| {
                let time = format!("{:02}:00:00", 6 + n);
                let of = checkpoint_at(&format!("cp-{n}"), &time, seen(&[10 * n; 3], &[90; 3]));
                let mut header = header(&of);
                if !undone.is_empty() {
                    let partitions: Vec<_> = undone.iter().map(|n| p(*n)).collect();
                    header.disowned =
                        Disowned::by_one(PlanId(format!("plan-{n}")), Undone::of(&partitions));
                }
                (header, of)
            });
            Self(hours.collect())
        }

        /// What is chosen, and which checkpoints were read for it, newest first.
        fn choose(&self, selection: &Selection) -> (Choice, Vec<String>) {
            let mut search = Search::new(selection);
            let mut read = Vec::new();
            for (header, of) in self.0.iter().rev() {
                if search.needs(header) {
                    read.push(of.id.0.clone());
                    search.read(header, of.clone());
                }
                if search.is_over() {
                    break;
                }
            }
            (search.end(), read)
        }

        fn source(&self, selection: &Selection) -> (Checkpoint, Vec<Older>, PassedOver) {
            match self.choose(selection).0 {
                Choice::Source {
                    checkpoint,
                    older,
                    passed_over,
                } => (*checkpoint, older, passed_over),
                other => panic!("{other:?}"),
            }
        }
    }

    fn offsets(of: &Checkpoint) -> Vec<Option<i64>> {
        let each = of.partitions.values();
        each.map(|then| Some(then.committed.as_ref()?.offset))
            .collect()
    }

    fn only(partitions: &[i32]) -> Selection {
        Selection::Only([("shipments".to_owned(), Some(partitions.to_vec()))].into())
    }

    #[test]
    fn the_newest_is_taken_where_nothing_is_undone_and_no_other_is_read() {
        let (choice, read) = Hours::new(&[&[], &[], &[]]).choose(&Selection::All);
        assert_eq!(read, ["cp-2"]);
        let Choice::Source {
            checkpoint,
            older,
            passed_over,
        } = choice
        else {
            panic!("{choice:?}");
        };
        assert_eq!(offsets(&checkpoint), [Some(20), Some(20), Some(20)]);
        assert_eq!((older, passed_over), (vec![], PassedOver::default()));
    }

    /// Partition 0 was rewound by hours: the others need not go back for it.
    #[test]
    fn a_partition_whose_newer_past_is_undone_comes_from_an_older_checkpoint_alone() {
        let hours = Hours::new(&[&[], &[0], &[0], &[0]]);
        let (source, older, passed_over) = hours.source(&Selection::All);
        assert_eq!(source.id.0, "cp-3");
        assert_eq!(offsets(&source), [Some(0), Some(30), Some(30)]);
        let by = ["plan-1", "plan-2", "plan-3"].map(|by| PlanId(by.to_owned()));
        assert_eq!(
            older,
            [Older {
                id: CheckpointId("cp-0".into()),
                ended_at: at("06:00:00"),
                by: by.into(),
                partitions: [p(0)].into(),
            }]
        );
        assert_eq!(passed_over.count, 0);
        assert_eq!(
            hours.choose(&Selection::All).1,
            ["cp-3", "cp-0"],
            "what is useless is not read"
        );
        // Who does not ask for it is not bothered with it.
        let (source, older, _) = hours.source(&only(&[1, 2]));
        assert_eq!((source.id.0.as_str(), older), ("cp-3", vec![]));
    }

    #[test]
    fn where_all_that_was_asked_for_is_undone_the_checkpoint_is_passed_over() {
        let hours = Hours::new(&[&[], &[], &[0, 1], &[0]]);
        let (source, older, passed_over) = hours.source(&only(&[0]));
        assert_eq!(source.id.0, "cp-1");
        assert_eq!(older, []);
        let by = ["plan-2", "plan-3"].map(|by| PlanId(by.to_owned()));
        assert_eq!(
            passed_over,
            PassedOver {
                count: 2,
                by: by.into()
            }
        );
        assert_eq!(hours.choose(&only(&[0])).1, ["cp-3", "cp-1"]);
    }

    #[test]
    fn what_an_earlier_release_marked_is_of_no_use_for_any_partition() {
        let mut hours = Hours::new(&[&[], &[]]);
        hours.0[1].0.disowned = Disowned::by_one(PlanId("old".into()), Undone::All);
        let (source, _, passed_over) = hours.source(&Selection::All);
        assert_eq!((source.id.0.as_str(), passed_over.count), ("cp-0", 1));
        hours.0[0].0.disowned = hours.0[1].0.disowned.clone();
        let none = hours.choose(&Selection::All);
        let old = [PlanId("old".into())].into();
        assert_eq!(
            none,
            (Choice::None(PassedOver { count: 2, by: old }), vec![])
        );
    }

    #[test]
    fn a_partition_that_no_checkpoint_is_left_for_is_named() {
        let hours = Hours::new(&[&[0], &[0], &[0, 2]]);
        assert_eq!(hours.choose(&Selection::All).0, Choice::Without(vec![p(0)]));
        assert_eq!(hours.source(&only(&[2])).0.id.0, "cp-1");
        assert!(matches!(
            hours.choose(&only(&[0])).0,
            Choice::None(PassedOver { count: 3, .. })
        ));
    }

    #[test]
    fn an_older_checkpoint_of_another_log_is_no_source() {
        let mut hours = Hours::new(&[&[], &[0]]);
        hours.0[0].1.topics.get_mut("shipments").unwrap().id = id(9);
        assert_eq!(hours.choose(&Selection::All).0, Choice::Without(vec![p(0)]));
    }

    #[test]
    fn a_partition_that_was_not_there_before_is_not_in_the_source() {
        let mut hours = Hours::new(&[&[], &[0]]);
        hours.0[0].1.partitions.remove(&p(0));
        let (source, older, _) = hours.source(&Selection::All);
        assert_eq!(source.partitions.keys().collect::<Vec<_>>(), [&p(1), &p(2)]);
        assert_eq!(older, []);
    }

    #[test]
    fn a_named_checkpoint_is_undone_only_for_what_was_asked_for() {
        let hours = Hours::new(&[&[0, 1]]);
        let (header, of) = &hours.0[0];
        let undone = |selection: &Selection| undone_for(selection, header, of);
        let by = || PlanId("plan-0".into());
        assert_eq!(undone(&Selection::All), Some((by(), vec![p(0), p(1)])));
        assert_eq!(undone(&only(&[0])), Some((by(), vec![])), "all of it");
        assert_eq!(undone(&only(&[2])), None);
        assert_eq!(undone(&only(&[1, 2])), Some((by(), vec![p(1)])));
    }
}
