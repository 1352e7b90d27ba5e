//! The picture of one partition's past: what was committed at each checkpoint, and where the plan takes it.
//!
//! Pure geometry: a plan and its past make the same coordinates each time. `chart.html` draws them, the style sheet
//! colours them.

use jiff::Timestamp;

use super::numbers::describe_change;
use crate::domain::checkpoint::PastCommit;
use crate::domain::plan::{PartitionMove, Plan, Source};
use crate::domain::text::{count, grouped, time};

/// The picture's own units, which are CSS pixels on a phone of 390.
const WIDTH: f64 = 358.0;
const LEFT: f64 = 7.0;
const RIGHT: f64 = WIDTH - 7.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 152.0;
/// Room for a text between the lowest offset and the axis.
const BELOW: f64 = 23.0;
/// From the axis to the baseline of the texts below it.
const LINE: f64 = 17.0;
/// Two texts below the axis that are nearer to each other would touch.
const APART: f64 = 125.0;
/// Shorter arrows have no room for a text beside them.
const LONG_ENOUGH: f64 = 30.0;

/// What is drawn. All coordinates are text in the picture's units.
pub(super) struct Chart {
    pub(super) partition: String,
    /// The whole picture in words, for those who cannot see it.
    pub(super) description: String,
    /// Whether a hollow dot needs its explanation.
    pub(super) has_disowned: bool,
    /// The points of each unbroken line of commits.
    pub(super) lines: Vec<String>,
    pub(super) dots: Vec<Dot>,
    pub(super) current: Option<Spot>,
    /// The height of the target.
    pub(super) target: Option<f64>,
    pub(super) source: Option<Spot>,
    pub(super) arrow: Option<Arrow>,
    pub(super) labels: Vec<Label>,
}

/// A place.
#[derive(Clone, Copy)]
pub(super) struct Spot {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// One commit.
pub(super) struct Dot {
    pub(super) at: Spot,
    pub(super) disowned: bool,
}

/// From the current commit to the target.
pub(super) struct Arrow {
    pub(super) x: f64,
    pub(super) from: f64,
    pub(super) to: f64,
    /// The points of its head.
    pub(super) head: String,
}

/// A text: `start`, `middle` or `end` of it is at its place.
pub(super) struct Label {
    pub(super) at: Spot,
    pub(super) anchor: &'static str,
    pub(super) class: &'static str,
    pub(super) text: String,
}

/// The move that is pictured: the one with most to replay or to skip.
pub(super) fn pictured(plan: &Plan) -> Option<&PartitionMove> {
    let size = |m: &&PartitionMove| m.replayed().max(m.skipped());
    // The first of those that are as large.
    plan.moves.iter().rev().max_by_key(size)
}

/// The picture of a plan; `None` where there is no past to show.
pub(super) fn draw_chart(plan: &Plan, past: &[PastCommit]) -> Option<Chart> {
    let m = pictured(plan)?;
    let source = match plan.source {
        Source::Checkpoint { ended_at, .. } => Some(ended_at),
        Source::Timestamp { at } => Some(at),
        Source::Offsets
        | Source::Shift { .. }
        | Source::Earliest
        | Source::Undo { .. }
        | Source::Finish { .. }
        | Source::Skip => None,
    };
    // A source in the time to come would stand outside.
    let source = source.filter(|at| *at <= plan.created_at);
    let from = m.from.as_ref().map(|c| c.offset);
    let to = m.to.as_ref().map(|c| c.offset);
    let commits = past.iter().filter_map(|p| Some((p.at, p.offset?)));
    let begins = commits.clone().map(|(at, _)| at).chain(source).min()?;
    let scale = Scale::new(
        [begins, plan.created_at],
        commits
            .clone()
            .map(|(_, offset)| offset)
            .chain(from)
            .chain(to),
    )?;

    let current = from.map(|offset| scale.spot(plan.created_at, offset));
    let target = to.map(|offset| scale.y(offset));
    let mut labels = axis(&scale, plan, source);
    // Away from each other, so that neither covers what lies between them.
    let back = from.zip(to).is_none_or(|(from, to)| to <= from);
    let beside = |y: f64, above: bool| Spot {
        x: RIGHT,
        y: if above { y - 9.0 } else { y + 18.0 },
    };
    if let (Some(offset), Some(at)) = (from, current) {
        labels.push(Label {
            at: beside(at.y, back),
            anchor: "end",
            class: "current",
            text: format!("current {offset}"),
        });
    }
    if let (Some(offset), Some(y)) = (to, target) {
        labels.push(Label {
            at: beside(y, !back),
            anchor: "end",
            class: "target",
            text: format!("target {offset}"),
        });
    }
    let arrow = current.zip(target).and_then(|(at, y)| arrow(at, y));
    if let (Some(arrow), Some((from, to))) = (&arrow, from.zip(to))
        && (arrow.from - arrow.to).abs() >= LONG_ENOUGH
    {
        labels.push(Label {
            at: Spot {
                x: RIGHT - 9.0,
                y: f64::midpoint(arrow.from, arrow.to) + 4.0,
            },
            anchor: "end",
            class: "target",
            text: describe_change(i128::from(to) - i128::from(from)),
        });
    }
    Some(Chart {
        partition: m.partition.to_string(),
        description: describe(plan, m, past, source),
        has_disowned: past.iter().any(|p| p.disowned && p.offset.is_some()),
        lines: lines(&scale, past, current),
        dots: past
            .iter()
            .filter_map(|p| {
                Some(Dot {
                    at: scale.spot(p.at, p.offset?),
                    disowned: p.disowned,
                })
            })
            .collect(),
        current,
        source: source.zip(target).map(|(at, y)| Spot { x: scale.x(at), y }),
        target,
        arrow,
        labels,
    })
}

/// From instants and offsets to places.
struct Scale {
    begins: i128,
    lasts: i128,
    lowest: i64,
    spans: f64,
}

impl Scale {
    fn new(
        [begins, ends]: [Timestamp; 2],
        offsets: impl Iterator<Item = i64> + Clone,
    ) -> Option<Self> {
        let (lowest, highest) = (offsets.clone().min()?, offsets.max()?);
        Some(Self {
            begins: begins.as_nanosecond(),
            lasts: (ends.as_nanosecond() - begins.as_nanosecond()).max(1),
            lowest,
            spans: difference(highest, lowest).max(1.0),
        })
    }

    fn x(&self, at: Timestamp) -> f64 {
        // Nanoseconds of a few days: far from where a float loses whole pixels.
        let part = (at.as_nanosecond() - self.begins) as f64 / self.lasts as f64;
        rounded(LEFT + part.clamp(0.0, 1.0) * (RIGHT - LEFT))
    }

    fn y(&self, offset: i64) -> f64 {
        let part = difference(offset, self.lowest) / self.spans;
        rounded(BOTTOM - BELOW - part * (BOTTOM - BELOW - TOP))
    }

    fn spot(&self, at: Timestamp, offset: i64) -> Spot {
        Spot {
            x: self.x(at),
            y: self.y(offset),
        }
    }
}

fn difference(higher: i64, lower: i64) -> f64 {
    (i128::from(higher) - i128::from(lower)) as f64
}

/// To a tenth of a unit, which is all that is seen of it.
fn rounded(place: f64) -> f64 {
    (place * 10.0).round() / 10.0
}

/// A line for each run of commits; it breaks where there was none.
fn lines(scale: &Scale, past: &[PastCommit], current: Option<Spot>) -> Vec<String> {
    let mut runs: Vec<Vec<Spot>> = vec![Vec::new()];
    let spots = past
        .iter()
        .map(|p| p.offset.map(|offset| scale.spot(p.at, offset)))
        .chain([current]);
    for spot in spots {
        match (spot, runs.last_mut()) {
            (Some(spot), Some(run)) => run.push(spot),
            (None, _) | (_, None) => runs.push(Vec::new()),
        }
    }
    runs.iter()
        .filter(|run| run.len() > 1)
        .map(|run| {
            let points: Vec<_> = run.iter().map(|s| format!("{},{}", s.x, s.y)).collect();
            points.join(" ")
        })
        .collect()
}

/// The arrow of a move, unless it is too short for its own head.
fn arrow(from: Spot, to: f64) -> Option<Arrow> {
    const HEAD: f64 = 8.0;
    let down = if to > from.y { 1.0 } else { -1.0 };
    let start = from.y + down * 6.0;
    let base = to - down * HEAD;
    ((to - start) * down > HEAD).then(|| Arrow {
        x: from.x,
        from: start,
        to: base,
        head: format!(
            "{},{to} {},{base} {},{base}",
            from.x,
            from.x - 4.0,
            from.x + 4.0
        ),
    })
}

/// The texts below the axis: where it begins and ends, and the source, which displaces whatever it would touch.
fn axis(scale: &Scale, plan: &Plan, source: Option<Timestamp>) -> Vec<Label> {
    let short = |at: Timestamp| {
        let form = match scale.lasts / 1_000_000_000 {
            0..600 => "%H:%M:%S",
            600..72_000 => "%H:%M",
            _ => "%-d %b %H:%M",
        };
        at.strftime(form).to_string()
    };
    let label = |x: f64, anchor, class, text| Label {
        at: Spot {
            x,
            y: BOTTOM + LINE,
        },
        anchor,
        class,
        text,
    };
    let mut labels = Vec::new();
    let of_source = source.map(|at| (scale.x(at), short(at)));
    let free = |x: f64| {
        of_source
            .as_ref()
            .is_none_or(|(at, _)| (at - x).abs() > APART)
    };
    if free(LEFT)
        && let Ok(begins) = Timestamp::from_nanosecond(scale.begins)
    {
        labels.push(label(LEFT, "start", "", short(begins)));
    }
    if free(RIGHT) {
        let text = format!("plan {}", short(plan.created_at));
        labels.push(label(RIGHT, "end", "", text));
    }
    if let Some((x, at)) = of_source {
        let (anchor, x) = match x {
            x if x < APART / 2.0 => ("start", LEFT),
            x if x > RIGHT - APART / 2.0 => ("end", RIGHT),
            x => ("middle", x),
        };
        labels.push(label(x, anchor, "target", format!("source {at}")));
    }
    labels
}

/// The picture in words.
fn describe(
    plan: &Plan,
    m: &PartitionMove,
    past: &[PastCommit],
    source: Option<Timestamp>,
) -> String {
    let commits: Vec<_> = past
        .iter()
        .filter_map(|p| Some((p.at, p.offset?)))
        .collect();
    let mut text = match commits.as_slice() {
        [] => "No earlier checkpoint has a commit of this partition.".to_owned(),
        [(at, offset)] => format!("The checkpoint of {} had {offset}.", time(*at)),
        [(first_at, first), .., (last_at, last)] => format!(
            "{}, from {} with {first} to {} with {last}.",
            count(commits.len(), "checkpoint"),
            time(*first_at),
            time(*last_at),
        ),
    };
    let disowned = past
        .iter()
        .filter(|p| p.disowned && p.offset.is_some())
        .count();
    if disowned > 0 {
        text.push_str(&format!(
            " Taken in a time that a rewind undid: {}.",
            grouped(disowned)
        ));
    }
    if let Some(at) = source {
        text.push_str(&format!(" The source is of {}.", time(at)));
    }
    let place = |offset: Option<i64>| offset.map_or("no commit".to_owned(), |o| o.to_string());
    text.push_str(&format!(
        " The plan of {} moves it from {} to {}.",
        time(plan.created_at),
        place(m.from.as_ref().map(|c| c.offset)),
        place(m.to.as_ref().map(|c| c.offset)),
    ));
    text
}
