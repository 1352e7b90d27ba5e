//! What the page shows, as HTML. No store, no clock: a case, an instant and a page number make the same text each time.

use std::collections::{BTreeMap, BTreeSet};

use askama::Template;
use jiff::Timestamp;

use super::chart::{Chart, draw_chart};
use super::csv_parts::split_csv;
use super::headline::{headline_of, list_details, title_of, tone_of};
use super::numbers::{describe_change, describe_span};
use super::steps::{Step, list_steps, members_to_stop};
use super::style::CSS;
use super::visible::visible_name;
use crate::app::approval_case::ApprovalCase;
use crate::domain::approval::{Approval, Decision};
use crate::domain::group::MemberSeen;
use crate::domain::guard::quarantine::{Kept, SkippedRecord};
use crate::domain::identity::Identity;
use crate::domain::offset::CommittedOffset;
use crate::domain::plan::{PartitionMove, Plan, Source};
use crate::domain::policy::seconds;
use crate::domain::recovery::progress::Progress;
use crate::domain::recovery::{PartitionOutcome, Recovery};
use crate::domain::text::{count, grouped, time};

/// How many rows a table shows at once.
const ROWS: usize = 50;

/// How many warnings stand open; the others are one tap away.
const OPEN_WARNINGS: usize = 10;

/// How many members a list names.
const MEMBERS: usize = 20;

/// How much of a record's hash tells it from others to the eye.
const HASH_SHOWN: usize = 12;

/// After how many seconds a page that follows a recovery loads itself again.
const RELOAD_SECONDS: u32 = 5;

/// How many ranges of partitions stand in one line.
const RANGES: usize = 12;

/// The two forms' tokens, and until when they are good.
#[derive(Debug, Clone)]
pub(super) struct Forms {
    pub(super) approve: String,
    pub(super) reject: String,
    pub(super) until: Timestamp,
}

/// The form that sends a stored decision once more.
#[derive(Debug, Clone)]
pub(super) struct Resend {
    pub(super) decision: Decision,
    pub(super) token: String,
}

/// What the request adds to a case.
#[derive(Debug, Clone, Default)]
pub(super) struct Shown {
    /// The page of the moves, from 1.
    pub(super) page: usize,
    /// Whether it may load itself again.
    pub(super) follow: bool,
    /// The forms, where it can be decided.
    pub(super) forms: Option<Forms>,
    /// The form to send a stored decision once more, where it has not arrived.
    pub(super) resend: Option<Resend>,
    /// What was typed and is not the group's id.
    pub(super) typed: Option<String>,
    /// Whether a rejection came without a reason.
    pub(super) reason_missing: bool,
    /// What became of the request.
    pub(super) notice: Option<String>,
    /// Who looks, where that is known.
    pub(super) person: Option<Identity>,
    /// Why another person than this one has to approve, if so.
    pub(super) eyes_missing: Option<String>,
}

/// The page of a plan.
pub(super) fn render_plan_page(
    case: &ApprovalCase,
    shown: Shown,
    now: Timestamp,
) -> Result<String, askama::Error> {
    let (plan, approval) = (&case.plan, &case.approval);
    let progress = case.progress(now);
    let moves = &plan.moves;
    let pages = moves.len().div_ceil(ROWS).max(1);
    let page = shown.page.clamp(1, pages);
    let rows: Vec<_> = ordered(case)
        .into_iter()
        .skip((page - 1) * ROWS)
        .take(ROWS)
        .map(|m| {
            let raised = case.raised.get(&m.partition).copied();
            Row::new(m, case.result.get(&m.partition), raised)
        })
        .collect();
    let (topics, topics_in_all) = if moves.len() > ROWS {
        topics(plan)
    } else {
        (Vec::new(), 0)
    };
    let (left_alone, left_alone_in_all) = left_alone(plan);
    let heading = heading(plan);
    PlanPage {
        css: CSS,
        title: format!("{heading} {}: {}", plan.group.0, title_of(&progress)),
        heading,
        tone: tone_of(&progress),
        headline: headline_of(&progress, approval, now),
        details: list_details(case, &progress),
        follows: case.goes_on(now),
        reload: RELOAD_SECONDS,
        to_stop: members_to_stop(case, now).map(members),
        effect: effect(plan, progress == Progress::WaitingForApproval),
        figures: figures(plan),
        warnings: warnings(case),
        asked_by: plan.asked_by(approval.from_dry_run),
        why: plan.reason.lines().collect(),
        source: plan.source.to_string(),
        without_epoch: without_epoch(plan),
        sets_aside: plan.disowns.map(|disowns| time(disowns.after)),
        decide_by: time(approval.approve_by),
        apply_by: approval.apply_by(plan).map_or_else(
            || {
                let within = describe_span(seconds(plan.apply_within_seconds).as_secs());
                format!("{within} after the decision")
            },
            time,
        ),
        created_at: time(plan.created_at),
        now: time(now),
        chart: draw_chart(plan, &case.past),
        topics,
        topics_in_all,
        moves_caption: if pages > 1 {
            let in_all = grouped(moves.len());
            format!("{} of {in_all}, the largest moves first", rows.len())
        } else {
            count(moves.len(), "partition")
        },
        has_results: !case.result.is_empty(),
        rows,
        page,
        pages,
        per_page: ROWS,
        csv_parts: split_csv(&plan.to_csv()).len(),
        skipped: skipped(plan),
        left_alone,
        left_alone_in_all,
        progress: list_steps(case, now),
        plan,
        approval,
        shown,
    }
    .render()
}

#[derive(Template)]
#[template(path = "plan.html")]
struct PlanPage<'a> {
    css: &'static str,
    plan: &'a Plan,
    approval: &'a Approval,
    shown: Shown,
    title: String,
    heading: &'static str,
    tone: &'static str,
    headline: String,
    details: Vec<String>,
    follows: bool,
    reload: u32,
    to_stop: Option<Vec<String>>,
    effect: String,
    figures: [Figure; 3],
    warnings: Vec<WarningShown>,
    asked_by: String,
    why: Vec<&'a str>,
    source: String,
    without_epoch: Option<String>,
    sets_aside: Option<String>,
    decide_by: String,
    apply_by: String,
    created_at: String,
    now: String,
    chart: Option<Chart>,
    topics: Vec<Topic<'a>>,
    topics_in_all: usize,
    moves_caption: String,
    has_results: bool,
    rows: Vec<Row>,
    page: usize,
    pages: usize,
    per_page: usize,
    csv_parts: usize,
    skipped: Vec<SkippedRow>,
    left_alone: Vec<LeftLine<'a>>,
    left_alone_in_all: usize,
    progress: Vec<Step>,
}

impl PlanPage<'_> {
    fn first_warnings(&self) -> &[WarningShown] {
        self.warnings.get(..OPEN_WARNINGS).unwrap_or(&self.warnings)
    }

    fn other_warnings(&self) -> &[WarningShown] {
        self.warnings.get(OPEN_WARNINGS..).unwrap_or_default()
    }
}

/// One of the numbers by which a plan is judged.
struct Figure {
    number: String,
    of: &'static str,
    /// Whether it is one that should be nothing, and is not.
    bad: bool,
}

struct WarningShown {
    text: String,
    more: Vec<String>,
}

struct Topic<'a> {
    name: &'a str,
    partitions: usize,
    replayed: u64,
    skipped: u64,
    lost: u64,
}

struct Row {
    partition: String,
    current: String,
    target: String,
    change: String,
    effect: String,
    lost: String,
    log_start: i64,
    log_end: i64,
    result: String,
    result_tone: &'static str,
}

struct SkippedRow {
    record: String,
    fails: String,
    kept: String,
    is_kept: bool,
    key: String,
    value: String,
    written: String,
    hash: String,
}

struct LeftLine<'a> {
    topic: &'a str,
    partitions: String,
    why: String,
}

impl Row {
    fn new(m: &PartitionMove, result: Option<&PartitionOutcome>, raised: Option<i64>) -> Self {
        let offset = |committed: &Option<CommittedOffset>| {
            committed
                .as_ref()
                .map_or("no commit".to_owned(), |c| c.offset.to_string())
        };
        Self {
            partition: m.partition.to_string(),
            current: offset(&m.from),
            target: m.target(),
            change: match (&m.from, &m.to) {
                (Some(from), Some(to)) => {
                    describe_change(i128::from(to.offset) - i128::from(from.offset))
                }
                (None, _) => "new".to_owned(),
                (Some(_), None) => "removed".to_owned(),
            },
            effect: match (m.replayed(), m.skipped()) {
                (0, 0) => "none".to_owned(),
                (replayed, 0) => format!("{} replayed", grouped(replayed)),
                (_, skipped) => format!("{} skipped", grouped(skipped)),
            },
            lost: grouped(m.lost),
            log_start: m.log.log_start,
            log_end: m.log.high,
            result: result.map_or("not looked at".to_owned(), |result| match result {
                PartitionOutcome::Applied => match raised {
                    None => "applied".to_owned(),
                    Some(log_start) => format!("applied at {log_start}, the log start by then"),
                },
                PartitionOutcome::NotApplied => "not applied".to_owned(),
                PartitionOutcome::AppliedThenMoved { now } => format!(
                    "applied, since moved to {}",
                    now.map_or("no commit".to_owned(), |now| now.to_string())
                ),
                PartitionOutcome::Overwritten { now } => format!(
                    "applied, since overwritten with {}",
                    now.map_or("no commit".to_owned(), |now| now.to_string())
                ),
                PartitionOutcome::Unknown { seen } => format!("unknown: {seen}"),
            }),
            result_tone: match result {
                Some(PartitionOutcome::Applied | PartitionOutcome::AppliedThenMoved { .. }) => {
                    "good"
                }
                Some(
                    PartitionOutcome::NotApplied
                    | PartitionOutcome::Overwritten { .. }
                    | PartitionOutcome::Unknown { .. },
                )
                | None => "bad",
            },
        }
    }
}

/// The moves as they are shown: in order while they fit one page; else what went wrong first, then the largest.
fn ordered(case: &ApprovalCase) -> Vec<&PartitionMove> {
    let mut moves: Vec<_> = case.plan.moves.iter().collect();
    if moves.len() > ROWS {
        moves.sort_by_key(|m| {
            let settled = match case.result.get(&m.partition) {
                Some(PartitionOutcome::Unknown { .. }) => 0,
                Some(PartitionOutcome::NotApplied | PartitionOutcome::Overwritten { .. }) => 1,
                Some(PartitionOutcome::AppliedThenMoved { .. } | PartitionOutcome::Applied)
                | None => 2,
            };
            // A commit that is removed is the largest of all.
            let size = match m.to {
                None => u64::MAX,
                Some(_) => m.replayed().max(m.skipped()),
            };
            (settled, std::cmp::Reverse(size), &m.partition)
        });
    }
    moves
}

/// Totals of the topics with most to replay or skip, and how many topics there are.
fn topics(plan: &Plan) -> (Vec<Topic<'_>>, usize) {
    let mut by_name: BTreeMap<&str, Topic<'_>> = BTreeMap::new();
    for m in &plan.moves {
        let name = m.partition.topic.as_str();
        let topic = by_name.entry(name).or_insert(Topic {
            name,
            partitions: 0,
            replayed: 0,
            skipped: 0,
            lost: 0,
        });
        topic.partitions += 1;
        topic.replayed = topic.replayed.saturating_add(m.replayed());
        topic.skipped = topic.skipped.saturating_add(m.skipped());
        topic.lost = topic.lost.saturating_add(m.lost);
    }
    let mut topics: Vec<_> = by_name.into_values().collect();
    let in_all = topics.len();
    topics.sort_by_key(|topic| std::cmp::Reverse(topic.replayed.max(topic.skipped)));
    topics.truncate(ROWS);
    (topics, in_all)
}

/// The records that are passed over, as much as may be shown of them.
fn skipped(plan: &Plan) -> Vec<SkippedRow> {
    let bytes = |bytes: Option<usize>| bytes.map_or("none".to_owned(), |n| count(n, "byte"));
    let row = |skipped: &SkippedRecord| {
        let record = &skipped.record;
        let hash = &record.fingerprint.0;
        SkippedRow {
            record: format!("{}@{}", skipped.partition, record.offset),
            fails: skipped.failure.as_ref().map_or_else(
                || "no validator fails".to_owned(),
                |failure| format!("{}: {}", failure.validator, failure.problem),
            ),
            kept: match &skipped.kept {
                Kept::In(copy) => copy.to_string(),
                Kept::No => "NOT KEPT".to_owned(),
                Kept::NotYet => "not yet: a dry run".to_owned(),
            },
            is_kept: matches!(skipped.kept, Kept::In(_)),
            key: bytes(record.key_bytes),
            value: bytes(record.value_bytes),
            written: record.timestamp().map_or("unknown".to_owned(), time),
            hash: hash.get(..HASH_SHOWN).unwrap_or(hash).to_owned(),
        }
    };
    plan.skips.iter().take(ROWS).map(row).collect()
}

/// What is left alone, a line a topic and reason, and how many lines there are.
fn left_alone(plan: &Plan) -> (Vec<LeftLine<'_>>, usize) {
    let mut lines = BTreeMap::<_, Vec<i32>>::new();
    for (partition, why) in &plan.left_alone {
        lines
            .entry((why, partition.topic.as_str()))
            .or_default()
            .push(partition.partition);
    }
    let in_all = lines.len();
    let lines = lines
        .into_iter()
        .take(ROWS)
        .map(|((why, topic), partitions)| LeftLine {
            topic,
            partitions: ranges(&partitions),
            why: why.to_string(),
        })
        .collect();
    (lines, in_all)
}

/// `partition 3`, or `12 partitions (0–9, 12, 40)`.
fn ranges(partitions: &[i32]) -> String {
    let mut ranges: Vec<(i32, i32)> = Vec::new();
    for &partition in partitions.iter().collect::<BTreeSet<_>>() {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(partition) => *last = partition,
            _ => ranges.push((partition, partition)),
        }
    }
    if let [(first, last)] = ranges.as_slice()
        && first == last
    {
        return format!("partition {first}");
    }
    let shown: Vec<_> = ranges
        .iter()
        .take(RANGES)
        .map(|(first, last)| match last {
            last if first == last => first.to_string(),
            last => format!("{first}\u{2013}{last}"),
        })
        .collect();
    let more = if ranges.len() > RANGES {
        ", \u{2026}"
    } else {
        ""
    };
    format!(
        "{} ({}{more})",
        count(partitions.len(), "partition"),
        shown.join(", ")
    )
}

/// What is not among the plan's own warnings stands first: what is not known of rights is of the recovery, and how far
/// commits may go forward is a field of the plan.
fn warnings(case: &ApprovalCase) -> Vec<WarningShown> {
    let rights = case.recovery.iter().filter_map(Recovery::rights_warning);
    let beside = rights
        .chain(case.plan.drift_warning())
        .map(|text| WarningShown {
            text,
            more: Vec::new(),
        });
    let of_plan = case.plan.warnings.iter().map(|warning| WarningShown {
        text: warning.to_string(),
        more: members(warning.members_to_stop()),
    });
    beside.chain(of_plan).collect()
}

/// Members by name, as somebody who has to stop them needs it.
fn members(members: &[MemberSeen]) -> Vec<String> {
    let mut named: Vec<_> = members
        .iter()
        .take(MEMBERS)
        .map(|m| format!("{} at {}, member {}", m.client_id, m.host, m.member_id))
        .collect();
    if members.len() > MEMBERS {
        named.push(format!("and {} more", grouped(members.len() - MEMBERS)));
    }
    named
}

fn heading(plan: &Plan) -> &'static str {
    if plan.creates_group() {
        "Bring back group"
    } else if plan.source == Source::Skip {
        "Skip records of group"
    } else if plan.skipped() == 0 {
        "Rewind group"
    } else {
        "Move group"
    }
}

/// What the plan does, in a sentence.
fn effect(plan: &Plan, open: bool) -> String {
    let subject = if open { "Approving" } else { "The plan" };
    let waits = if plan.waits_for_empty {
        " once its consumers have stopped"
    } else {
        ""
    };
    format!(
        "{subject} sets the group's committed offsets of {} on cluster {}{waits}, if nothing has changed by then.",
        count(plan.moves.len(), "partition"),
        plan.cluster,
    )
}

/// In how many partitions no leader epoch is committed, if in any.
fn without_epoch(plan: &Plan) -> Option<String> {
    let commits = plan.moves.iter().filter(|m| m.to.is_some()).count();
    match plan.without_epoch() {
        0 => None,
        all if all == commits => Some("in all partitions".to_owned()),
        some => Some(format!(
            "in {} of {}",
            grouped(some),
            count(commits, "partition")
        )),
    }
}

fn figures(plan: &Plan) -> [Figure; 3] {
    let lost = plan.moves.iter().map(|m| m.lost);
    let lost = lost.fold(0, u64::saturating_add);
    let figure = |n: u64, of, bad| Figure {
        number: grouped(n),
        of,
        bad: bad && n > 0,
    };
    [
        figure(plan.replayed(), "replayed at most", false),
        figure(plan.skipped(), "skipped at most", true),
        figure(lost, "lost to retention", true),
    ]
}
