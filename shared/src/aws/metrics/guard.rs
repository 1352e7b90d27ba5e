//! What a run of the guard over one group measures. Partitions and verdicts are in the audit record and the message: as
//! dimensions they would cost as many metrics as there are partitions.

use jiff::Timestamp;

use super::{GROUPS_SAMPLED, GROUPS_UNKNOWN, Line, Unit, write};
use crate::domain::guard::quarantine::Kept;
use crate::domain::guard::run::{GuardRun, SecondSource};
use crate::domain::guard::verdict::{Finding, Status, Verdict};

/// Verdicts that call for the same kind of action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Nothing is wrong that is known yet.
    Fine,
    /// It moves, and falls behind.
    Slow,
    /// A record is in the way, or may be.
    Poison,
    /// It stands because of who is in the group, or is not.
    Members,
    /// It stands, and neither a record nor a missing member says why.
    Stuck,
    /// A transaction holds it back.
    Blocked,
    /// The commit is not where it should be in its log.
    Misplaced,
    /// What was read says nothing of its consumers.
    Unjudged,
}

impl Class {
    const ALL: [Self; 8] = [
        Self::Fine,
        Self::Slow,
        Self::Poison,
        Self::Members,
        Self::Stuck,
        Self::Blocked,
        Self::Misplaced,
        Self::Unjudged,
    ];

    fn of(verdict: Verdict) -> Self {
        match verdict {
            Verdict::CaughtUp | Verdict::MarkersOnly | Verdict::Moving | Verdict::Waiting => {
                Self::Fine
            }
            Verdict::Slow => Self::Slow,
            Verdict::PoisonLikely | Verdict::PoisonSuspected => Self::Poison,
            Verdict::NoMembers
            | Verdict::RebalanceLoop
            | Verdict::CrashLoop
            | Verdict::Unassigned => Self::Members,
            Verdict::GroupStuck | Verdict::OwnerStuck | Verdict::StalledUnknown => Self::Stuck,
            Verdict::BlockedByTransaction => Self::Blocked,
            Verdict::TopicChanged
            | Verdict::NoCommit
            | Verdict::Ahead
            | Verdict::BelowLogStart
            | Verdict::Rewound => Self::Misplaced,
            Verdict::NoData | Verdict::ExternalOffsets => Self::Unjudged,
        }
    }

    fn metric(self) -> &'static str {
        match self {
            Self::Fine => "PartitionsFine",
            Self::Slow => "PartitionsSlow",
            Self::Poison => "PartitionsPoison",
            Self::Members => "PartitionsMembers",
            Self::Stuck => "PartitionsStuck",
            Self::Blocked => "PartitionsBlocked",
            Self::Misplaced => "PartitionsMisplaced",
            Self::Unjudged => "PartitionsUnjudged",
        }
    }

    /// Whether partitions of this class stand for their consumers' sake.
    fn stalls(self) -> bool {
        match self {
            Self::Poison | Self::Members | Self::Stuck => true,
            Self::Fine | Self::Slow | Self::Blocked | Self::Misplaced | Self::Unjudged => false,
        }
    }
}

/// Writes what a run measured. `findings` are those of all partitions, the healthy ones too; `newest_checkpoint` is when
/// the newest one of the group ended, if there is one.
pub fn emit(run: &GuardRun, findings: &[Finding], newest_checkpoint: Option<Timestamp>) {
    let (by_group, by_function) = numbers(run, findings, newest_checkpoint);
    let dimensions = [
        ("Cluster", run.cluster.as_str()),
        ("Group", run.group.0.as_str()),
    ];
    let line = Line::new(run.at).with(&dimensions, &by_group);
    write(&line.by_function(&by_function));
}

type Numbers = Vec<(&'static str, Unit, u64)>;

/// The numbers of the group, and those of the run. What is not known is not there: a lag of 0 would say that all is read.
fn numbers(
    run: &GuardRun,
    findings: &[Finding],
    newest_checkpoint: Option<Timestamp>,
) -> (Numbers, Numbers) {
    let unknown = run.failed.is_some();
    let mut by_group: Numbers = vec![("Status", Unit::None, status(run.status))];
    let lags = || findings.iter().filter_map(|finding| finding.lag);
    if let Some(max) = lags().max() {
        let sum = lags().fold(0, u64::saturating_add);
        by_group.push(("LagMax", Unit::Count, max));
        by_group.push(("LagSum", Unit::Count, sum));
    }
    if !unknown {
        let classes = || {
            run.verdicts
                .iter()
                .map(|(verdict, count)| (Class::of(*verdict), to_u64(*count)))
        };
        let stalled = classes().filter(|(class, _)| class.stalls());
        let stalled = stalled.map(|(_, count)| count).sum();
        by_group.push(("StalledPartitions", Unit::Count, stalled));
        for class in Class::ALL {
            let count = classes().filter(|(of, _)| *of == class);
            let count = count.map(|(_, count)| count).sum();
            // A metric costs by the hour in which it is there.
            if count > 0 {
                by_group.push((class.metric(), Unit::Count, count));
            }
        }
    }
    if let Some(age) = newest_checkpoint.map(|ended_at| run.at.duration_since(ended_at)) {
        let seconds = u64::try_from(age.as_secs()).unwrap_or(0);
        by_group.push(("CheckpointAge", Unit::Seconds, seconds));
    }
    let kept = |kept: &Kept| matches!(kept, Kept::In(_));
    let kept = run.records.iter().filter(|record| kept(&record.kept));
    match kept.count() {
        0 => {}
        count => by_group.push(("RecordsInQuarantine", Unit::Count, to_u64(count))),
    }
    match run.second_source {
        // Where the brokers cannot be read, there is nothing to disagree with.
        SecondSource::NotConfigured | SecondSource::Alone { .. } => {}
        SecondSource::Agrees => by_group.push(("SecondSourceDisagrees", Unit::Count, 0)),
        SecondSource::Differs { .. } | SecondSource::AnotherCluster { .. } => {
            by_group.push(("SecondSourceDisagrees", Unit::Count, 1));
        }
        SecondSource::Unavailable { .. } => {
            by_group.push(("SecondSourceUnavailable", Unit::Count, 1));
        }
    }
    let by_function = vec![
        (GROUPS_SAMPLED, Unit::Count, u64::from(!unknown)),
        (GROUPS_UNKNOWN, Unit::Count, u64::from(unknown)),
    ];
    (by_group, by_function)
}

/// A status as a number that an alarm can compare: the worse, the higher.
fn status(status: Status) -> u64 {
    match status {
        Status::Healthy => 0,
        Status::Warning => 1,
        Status::Unknown => 2,
        Status::Critical => 3,
    }
}

fn to_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::domain::testing::guard_run::{finding, guard_run as run};

    fn number(numbers: &Numbers, name: &str) -> Option<u64> {
        let mut found = numbers.iter().filter(|(known, _, _)| *known == name);
        let number = found.next().map(|(_, _, number)| *number);
        assert_eq!(found.next(), None, "{name} stands there twice");
        number
    }

    #[test]
    fn a_run_is_measured_by_group_and_by_function() {
        let run = run();
        let findings = [
            finding(0, Verdict::PoisonLikely, Some(812)),
            finding(1, Verdict::Moving, Some(40)),
            finding(2, Verdict::NoCommit, None),
        ];
        let checkpoint = run.at - SignedDuration::from_secs(1_800);
        let (group, function) = numbers(&run, &findings, Some(checkpoint));
        let expected: Numbers = vec![
            ("Status", Unit::None, 3),
            ("LagMax", Unit::Count, 812),
            ("LagSum", Unit::Count, 852),
            ("StalledPartitions", Unit::Count, 1),
            ("PartitionsFine", Unit::Count, 1),
            ("PartitionsPoison", Unit::Count, 1),
            ("PartitionsMisplaced", Unit::Count, 1),
            ("CheckpointAge", Unit::Seconds, 1_800),
            ("RecordsInQuarantine", Unit::Count, 1),
            ("SecondSourceDisagrees", Unit::Count, 1),
        ];
        assert_eq!(group, expected);
        let expected: Numbers = vec![
            ("GroupsSampled", Unit::Count, 1),
            ("GroupsUnknown", Unit::Count, 0),
        ];
        assert_eq!(function, expected);
    }

    #[test]
    fn what_is_not_known_is_no_number() {
        let unread = GuardRun {
            status: Status::Unknown,
            failed: Some("no broker answered".to_owned()),
            findings: Vec::new(),
            verdicts: [].into(),
            records: Vec::new(),
            second_source: SecondSource::Unavailable {
                why: "status 503".to_owned(),
            },
            ..run()
        };
        let (group, function) = numbers(&unread, &[], None);
        let expected: Numbers = vec![
            ("Status", Unit::None, 2),
            ("SecondSourceUnavailable", Unit::Count, 1),
        ];
        assert_eq!(group, expected);
        assert_eq!(number(&function, "GroupsSampled"), Some(0));
        assert_eq!(number(&function, "GroupsUnknown"), Some(1));
    }

    #[test]
    fn every_verdict_is_counted_once() {
        for verdict in Verdict::ALL {
            let one = GuardRun {
                verdicts: [(verdict, 1)].into(),
                ..run()
            };
            let (group, _) = numbers(&one, &[], None);
            let classes = Class::ALL.map(|class| number(&group, class.metric()));
            assert_eq!(classes.into_iter().flatten().sum::<u64>(), 1, "{verdict}");
            let stands = verdict.is_stall();
            assert_eq!(
                number(&group, "StalledPartitions"),
                Some(u64::from(stands)),
                "{verdict}"
            );
        }
    }
}
