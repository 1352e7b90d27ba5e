use proptest::prelude::*;

use super::*;
use crate::page::chart::{Chart, draw_chart, pictured};

/// The picture's size, as `chart.html` has it.
const SIZE: (f64, f64) = (358.0, 176.0);

fn texts(chart: &Chart) -> Vec<&str> {
    chart.labels.iter().map(|l| l.text.as_str()).collect()
}

#[test]
fn it_shows_the_way_here_the_source_and_the_way_back() {
    let picture = draw_chart(&plan(), &past()).unwrap();
    assert_eq!(
        texts(&picture),
        ["16:00", "source 01:00", "current 43", "target 31"]
    );
    let (current, target) = (picture.current.unwrap(), picture.target.unwrap());
    let source = picture.source.unwrap();
    assert!(current.y < target, "up is more");
    assert!((source.y - target).abs() < f64::EPSILON);
    assert!(source.x > 179.0 && source.x < current.x, "{}", source.x);
    let arrow = picture.arrow.unwrap();
    assert!(arrow.from > current.y && arrow.to > arrow.from && arrow.to < target);
    assert_eq!(picture.dots.len(), 10);
    assert_eq!(picture.dots.iter().filter(|d| d.disowned).count(), 1);
    assert_eq!(picture.lines.len(), 1);
    assert_eq!(
        picture.lines[0].split(' ').count(),
        11,
        "to the current one"
    );
    assert_eq!(
        picture.description,
        "10 checkpoints, from 2026-03-13 16:00:02 UTC with 2 to 2026-03-14 01:00:02 UTC with 31. \
         Taken in a time that a rewind undid: 1. The source is of 2026-03-14 01:00:02 UTC. \
         The plan of 2026-03-14 02:00:00 UTC moves it from 43 to 31."
    );
}

#[test]
fn it_goes_up_where_the_plan_goes_forward() {
    let mut plan = plan();
    plan.moves = vec![moved("shipments", 1, 31, 1_000)];
    let picture = draw_chart(&plan, &past()).unwrap();
    let arrow = picture.arrow.as_ref().unwrap();
    assert!(arrow.to < arrow.from);
    let label = |start: &str| {
        let label = picture.labels.iter().find(|l| l.text.starts_with(start));
        label.unwrap().at.y
    };
    assert!(label("target") < picture.target.unwrap());
    assert!(label("current") > picture.current.unwrap().y);
    assert!(texts(&picture).contains(&"+969"));
}

#[test]
fn it_breaks_where_nothing_was_committed() {
    let mut past = past();
    past[5].offset = None;
    let picture = draw_chart(&plan(), &past).unwrap();
    assert_eq!(picture.lines.len(), 2);
    assert_eq!(picture.dots.len(), 9);

    let mut plan = plan();
    plan.moves[0].from = None;
    let picture = draw_chart(&plan, &past).unwrap();
    assert!(picture.current.is_none() && picture.arrow.is_none());
    assert!(picture.description.ends_with("from no commit to 31."));
}

#[test]
fn without_a_past_there_is_none() {
    let mut plan = plan();
    // The source alone is a past.
    assert!(draw_chart(&plan, &[]).is_some());
    plan.source = Source::Earliest;
    assert!(draw_chart(&plan, &[]).is_none());
    plan.source = Source::Timestamp {
        at: plan.created_at + minutes(1),
    };
    assert!(
        draw_chart(&plan, &[]).is_none(),
        "a source in the time to come"
    );
}

#[test]
fn it_is_of_the_largest_move() {
    let mut plan = plan();
    plan.moves = vec![
        moved("a", 0, 43, 42),
        moved("b", 0, 43, 3),
        moved("b", 1, 43, 83),
    ];
    let largest = pictured(&plan).unwrap();
    assert_eq!(largest.partition, TopicPartition::new("b", 0));
    plan.moves.clear();
    assert!(pictured(&plan).is_none());
}

proptest! {
    #[test]
    fn nothing_is_drawn_outside(
        offsets in proptest::collection::vec((0_i64..4_000_000, proptest::option::of(any::<i64>())), 0..50),
        from in proptest::option::of(0..=i64::MAX),
        to in proptest::option::of(0..=i64::MAX),
        source in -4_000_000_i64..4_000_000,
    ) {
        let mut plan = plan();
        plan.moves[0].from = from.map(CommittedOffset::bare);
        plan.moves[0].to = to.map(CommittedOffset::bare);
        plan.source = Source::Timestamp { at: plan.created_at + SignedDuration::from_secs(source) };
        let past: Vec<_> = offsets
            .iter()
            .map(|(before, offset)| PastCommit {
                at: plan.created_at - SignedDuration::from_secs(*before),
                offset: *offset,
                disowned: before % 2 == 0,
            })
            .collect();
        let Some(picture) = draw_chart(&plan, &past) else { return Ok(()) };
        let mut places: Vec<(f64, f64)> = picture.dots.iter().map(|d| (d.at.x, d.at.y)).collect();
        places.extend(picture.labels.iter().map(|l| (l.at.x, l.at.y)));
        places.extend(picture.current.iter().chain(&picture.source).map(|s| (s.x, s.y)));
        places.extend(picture.target.map(|y| (0.0, y)));
        places.extend(picture.arrow.iter().flat_map(|a| [(a.x, a.from), (a.x, a.to)]));
        for line in &picture.lines {
            for point in line.split(' ') {
                let (x, y) = point.split_once(',').unwrap();
                places.push((x.parse().unwrap(), y.parse().unwrap()));
            }
        }
        for (x, y) in places {
            prop_assert!((0.0..=SIZE.0).contains(&x) && (0.0..=SIZE.1).contains(&y), "{x},{y}");
        }
    }
}
