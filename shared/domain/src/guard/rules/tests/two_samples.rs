//! The simplest rule in use, beside ours where a policy asks for no more than two samples and no time.
//!
//! That rule takes two samples of a group. A partition whose commit is the same in both, and whose lag has reached the
//! threshold, is a deadlock if the log grew in between or the group is rebalancing; in the very first sample it is one if
//! the group is rebalancing or nobody has the partition. Then the offset at the commit is the poison, and the target is
//! the next one. It looks at nothing else.

use std::fmt::Write as _;

use super::super::super::policy::Isolation;
use super::super::super::probe::First;
use super::super::super::verdict::Verdict;
use crate::group::GroupState;
use crate::offset::Fault;
use crate::testing::guard::{History, outline, probe};
use crate::testing::{p, topic};

/// The table as it is published.
const DOCUMENT: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../infra/docs/two-sample-rule.md"
));

/// The target that the simple rule would set in partition 0, from what it reads: the ends of a partition's commit and
/// log, no commit being 0, and what could not be read being absent.
fn simple(history: &History) -> Option<i64> {
    let (last, before) = history.samples.split_last()?;
    let now = last.of_partition(&p(0))?;
    let before = before.last().and_then(|look| look.of_partition(&p(0)));
    let (committed, end) = (now.committed.unwrap_or(0), now.log.high);
    let lag = end - committed;
    let rebalancing = matches!(
        last.state,
        GroupState::PreparingRebalance | GroupState::CompletingRebalance
    );
    let deadlock = match before {
        Some(before) => {
            before.committed.unwrap_or(0) == committed && (end > before.log.high || rebalancing)
        }
        None => committed < end && (rebalancing || now.owner.is_none()),
    };
    (deadlock && lag >= 50).then_some(committed + 1)
}

/// Partition 0 of four; everything else moves on, and partition 0's log grows from one run to the next.
fn stands() -> History {
    let mut history = History::of(4);
    history.policy(|policy| {
        policy.min_samples = 2;
        policy.stall_seconds = 0;
        policy.max_poll_records = Some(1);
    });
    history.stable(&[("a1", &[0, 1]), ("b1", &[2, 3])]);
    history.run().work(&[1, 2, 3]).high(0, 220);
    history
}

fn case(change: impl FnOnce(&mut History)) -> History {
    let mut history = stands();
    change(&mut history);
    history
}

/// What the case is, its history, and why the two differ; `None` where they agree.
type Case = (&'static str, History, Option<&'static str>);

fn agreeing() -> Vec<Case> {
    vec![
        (
            "One partition stands, its log grows, the others move",
            case(|h| {
                h.run();
            }),
            None,
        ),
        (
            "The same, with a lag right at the threshold",
            case(|h| {
                h.committed(0, 170);
                h.samples.clear();
                h.high(0, 215).run().work(&[1, 2, 3]).high(0, 220).run();
            }),
            None,
        ),
        (
            "The same, below the threshold",
            case(|h| {
                h.committed(0, 171);
                h.samples.clear();
                h.high(0, 215).run().work(&[1, 2, 3]).high(0, 220).run();
            }),
            None,
        ),
        (
            "It moves",
            case(|h| {
                h.work(&[0]).run();
            }),
            None,
        ),
        (
            "Everything is read",
            case(|h| {
                h.committed(0, 220).run();
            }),
            None,
        ),
        (
            "It stands, and its log does not grow",
            case(|h| {
                h.high(0, 200).run();
            }),
            None,
        ),
        (
            "It went back",
            case(|h| {
                h.committed(0, 50).run();
            }),
            None,
        ),
        (
            "First sample, at rest, with an owner",
            case(|h| {
                h.samples.clear();
                h.run();
            }),
            None,
        ),
        (
            "Its reading failed",
            case(|h| {
                h.fails(0).run();
            }),
            None,
        ),
    ]
}

fn differing() -> Vec<Case> {
    vec![
        (
            "First sample, nobody in the group",
            case(|h| {
                h.samples.clear();
                h.empty().run();
            }),
            Some("one sample shows no standstill: somebody stopped the consumers"),
        ),
        (
            "First sample, rebalancing",
            case(|h| {
                h.samples.clear();
                h.joining(&["a1", "b1"]).run();
            }),
            Some("one sample shows no standstill: every deployment looks so"),
        ),
        (
            "Nobody in the group in both",
            case(|h| {
                h.samples.clear();
                h.empty().run().high(0, 240).run();
            }),
            Some("without consumers nothing moves, whatever the record"),
        ),
        (
            "Rebalancing, and the log does not grow",
            case(|h| {
                h.high(0, 200).joining(&["a1", "b1"]).run();
            }),
            Some("members that join read nothing; that is no fault of a record"),
        ),
        (
            "All partitions stand",
            case(|h| {
                h.samples.clear();
                h.run();
                for n in 0..4 {
                    h.high(n, 240);
                }
                h.run();
            }),
            Some("what stops all of them is not one record of each"),
        ),
        (
            "Both of one member's partitions stand",
            case(|h| {
                h.samples.clear();
                h.run().work(&[2, 3]).high(0, 240).high(1, 240).run();
            }),
            Some(
                "the member hangs; at most one of its records could be to blame, and which is not known",
            ),
        ),
        (
            "Nobody has the partition",
            case(|h| {
                h.samples.clear();
                h.stable(&[("a1", &[1]), ("b1", &[2, 3])]).run();
                h.work(&[1, 2, 3]).high(0, 240).run();
            }),
            Some("nobody reads it, so no record is in the way"),
        ),
        (
            "An open transaction at the commit",
            case(|h| {
                h.open(0, 100).run();
            }),
            Some(
                "read_committed consumers wait for its end; a skip loses a good record and frees nobody",
            ),
        ),
        (
            "Only markers wait",
            case(|h| {
                let mut nothing = probe(100, &[]);
                nothing.committed = First::None { until: 220 };
                nothing.uncommitted = First::None { until: 220 };
                h.run().probed(0, nothing);
            }),
            Some("no record is there"),
        ),
        (
            "Everything was read in the first sample",
            case(|h| {
                h.samples.clear();
                h.committed(0, 200).high(0, 200).run();
                h.work(&[1, 2, 3]).high(0, 260).run();
            }),
            Some("the records came a moment ago; nothing was seen to stand"),
        ),
        (
            "Never committed",
            case(|h| {
                h.samples.clear();
                h.no_commit(0).run().work(&[1, 2, 3]).high(0, 240).run();
            }),
            Some("no commit is not offset 0; there is no position to move"),
        ),
        (
            "The commit lies before the log start",
            case(|h| {
                h.log(0, 150, 220).run();
            }),
            Some(
                "the target would lie before the log start as well: auto.offset.reset would decide",
            ),
        ),
        (
            "The topic was created again",
            case(|h| {
                h.seen.topics.insert("shipments".into(), topic(8, 4));
                h.run();
            }),
            Some("the offset is of another log"),
        ),
        (
            "The first record lies 13 offsets on (compaction)",
            case(|h| {
                h.run().probed(0, probe(100, &[(113, false)]));
            }),
            Some(
                "the target is after the record that is there: the next offset would change nothing",
            ),
        ),
        (
            "Aborted records at the commit, isolation unknown",
            case(|h| {
                let mut found = probe(100, &[(113, false)]);
                found.uncommitted = First::Record(outline(100));
                h.run().probed(0, found);
            }),
            Some("which record is the first depends on what the consumers read"),
        ),
        (
            "Aborted records at the commit, read_committed",
            case(|h| {
                h.policy(|policy| policy.isolation = Isolation::ReadCommitted);
                let mut found = probe(100, &[(113, false)]);
                found.uncommitted = First::Record(outline(100));
                h.run().probed(0, found);
            }),
            Some("the target is after the record that the consumers see"),
        ),
        (
            "The record cannot be read",
            case(|h| {
                let fault = Fault::missing();
                let unread = super::super::super::probe::ProbeFault::Unreadable(fault);
                h.run().probes.insert(p(0), Err(unread));
            }),
            Some("what cannot be kept is not passed over"),
        ),
        (
            "A validator fails further on",
            case(|h| {
                h.run().probed(0, probe(100, &[(100, false), (101, true)]));
            }),
            Some("a commit after record 101 loses record 100, which is good"),
        ),
        (
            "A validator fails at the commit, lag 1, the log does not grow",
            case(|h| {
                h.samples.clear();
                h.high(0, 101).run().work(&[1, 2, 3]).run();
                h.probed(0, probe(100, &[(100, true)]));
            }),
            Some("a bad record at the end of a quiet log is one as well"),
        ),
        (
            "Twenty records in a row fail",
            case(|h| {
                let bad: Vec<_> = (100..120).map(|n| (n, true)).collect();
                h.run().probed(0, probe(100, &bad));
            }),
            Some("one plan and one stop for all of them"),
        ),
        (
            "The second sample is a week later",
            case(|h| {
                h.run_after(7 * 86_400);
            }),
            Some("nobody saw what happened in between"),
        ),
        (
            "The consumers assign themselves, and so it is configured",
            case(|h| {
                h.policy(|policy| policy.external_offsets = true).run();
            }),
            Some("what is committed says nothing of where such consumers are"),
        ),
    ]
}

fn target(target: Option<i64>) -> String {
    target.map_or("nothing".to_owned(), |to| format!("move to {to}"))
}

#[test]
fn agrees_with_the_simple_rule_where_that_is_sound() {
    let mut text = String::from(
        "# The guard beside the two-sample rule\n\n\
         With `min_samples = 2`, `stall_seconds = 0`, and `max_poll_records = 1` the guard decides from two samples, as the\n\
         simplest rule in use does. Both were asked about partition 0 at offset 100, in a group of four partitions. The test\n\
         `agrees_with_the_simple_rule_where_that_is_sound` compares this table with their answers.\n\n\
         | Situation | The simple rule | The guard | Its verdict | Why they differ |\n\
         |---|---|---|---|---|\n",
    );
    for (what, history, why) in agreeing().into_iter().chain(differing()) {
        let theirs = simple(&history);
        let (assessment, proposals) = history.judged();
        let ours = proposals.skips.iter().find(|skip| skip.partition == p(0));
        let ours = ours.map(|skip| skip.last + 1);
        assert_eq!(
            theirs == ours,
            why.is_none(),
            "{what}: {theirs:?}, {ours:?}"
        );
        let verdict = assessment
            .findings
            .first()
            .map_or("UNKNOWN", |finding| finding.verdict.code());
        let why = why.unwrap_or("");
        let (theirs, ours) = (target(theirs), target(ours));
        writeln!(text, "| {what} | {theirs} | {ours} | {verdict} | {why} |").unwrap();
    }
    assert_eq!(DOCUMENT, text, "the document should be:\n{text}");
}

/// The plan says on what it rests.
#[test]
fn two_samples_are_told_as_such() {
    let mut history = stands();
    history.run();
    let finding = history.finding(0);
    assert_eq!(finding.verdict, Verdict::PoisonLikely);
    assert_eq!(
        finding.evidence.first(),
        Some(&super::super::super::verdict::Evidence::TwoSamples)
    );
    history.policy(|policy| policy.stall_seconds = 1);
    assert_eq!(history.verdict(0), Verdict::PoisonSuspected);
}
