//! Situations in which consumer groups are found, laid with real consumer processes on a real broker, to see what the
//! guard says of each.

use std::error::Error;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use futures_util::{StreamExt, stream};
use offset_guard::domain::guard::verdict::Verdict;
use offset_guard::domain::offset::TopicPartition;
use offset_guard_local::kafka::Version;
use tokio::task::LocalSet;

pub mod catalogue;
pub mod consumer;
pub mod guard;
pub mod policy;
pub mod scene;
pub mod table;

use self::guard::Tick;
use self::policy::Policy;
use self::scene::{Expected, ExpectedOfGroup, Place, Scene};

/// What laying a situation may fail with.
pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// How often the guard runs.
const EVERY: Duration = Duration::from_secs(5);
/// How many times it runs.
const RUNS: usize = 8;

/// Lays a situation in a scene.
type Lay = for<'a> fn(&'a mut Scene) -> LocalBoxFuture<'a, Result<()>>;

/// One situation.
#[derive(Debug, Clone, Copy)]
pub struct Situation {
    /// Its name, which is part of its group's.
    pub name: &'static str,
    /// What is the matter, in one line.
    pub what: &'static str,
    /// How its group is guarded.
    pub policy: Policy,
    /// Whether it takes the protocol of KIP-848, which Kafka 3.9 does not speak.
    pub consumer_protocol: bool,
    lay: Lay,
}

impl Situation {
    /// Whether it can be laid on this Kafka.
    #[must_use]
    pub fn runs_on(&self, version: Version) -> bool {
        !self.consumer_protocol || version == Version::V4
    }

    /// Lays it, lets the guard run, and scores what it said.
    ///
    /// # Errors
    /// It could not be laid, or the group could not be read.
    pub async fn play(&self, place: &Place, suffix: &str) -> Result<Vec<Score>> {
        // What happens beside is not fit for other threads.
        let tasks = LocalSet::new();
        tasks.run_until(self.play_here(place, suffix)).await
    }

    async fn play_here(&self, place: &Place, suffix: &str) -> Result<Vec<Score>> {
        let mut scene = Scene::new(place, self.name, self.policy, suffix);
        (self.lay)(&mut scene).await?;
        let mut ticks = Vec::new();
        let mut due = tokio::time::interval(EVERY);
        for _ in 0..RUNS {
            due.tick().await;
            scene.check()?;
            ticks.push(place.guard.tick(&scene.group()).await?);
        }
        let of_partitions = scene.expected.iter();
        let mut scores: Vec<_> = of_partitions
            .map(|expected| Score::of(&scene, expected, &ticks))
            .collect();
        let of_group = scene.expected_of_group.iter();
        scores.extend(of_group.map(|expected| Score::of_group(&scene, expected, &ticks)));
        scene.end().await;
        Ok(scores)
    }
}

/// What the guard said of one partition, beside what was expected.
#[derive(Debug, Clone)]
pub struct Score {
    /// The partition, without what tells its topic apart from others'.
    pub partition: String,
    /// What was expected.
    pub expected: Expected,
    /// What each run said; `None` where it said nothing of the partition.
    pub given: Vec<Option<Verdict>>,
    /// What the last run proposed to pass over.
    pub skip: Option<(i64, i64)>,
    /// What any run proposed to pass over and should not have.
    pub wrong_skip: Option<(i64, i64)>,
    /// From which run on each has to give what is expected; `None` where only the last one has to.
    pub every_from: Option<usize>,
    /// What the last run's evidence was.
    pub evidence: Vec<String>,
    /// Why the last run proposed nothing.
    pub withheld: Vec<String>,
}

impl Score {
    fn of(scene: &Scene, expected: &Expected, ticks: &[Tick]) -> Self {
        let partition = &expected.partition;
        let skip = |tick: &Tick| tick.skip(partition);
        let last = ticks.last();
        let finding = last.and_then(|tick| tick.of(partition));
        Self {
            partition: format!("{} {}", scene.short(&partition.topic), partition.partition),
            given: ticks
                .iter()
                .map(|tick| tick.of(partition).map(|finding| finding.verdict))
                .collect(),
            skip: last.and_then(skip),
            wrong_skip: ticks
                .iter()
                .filter_map(skip)
                .find(|skip| Some(*skip) != expected.skip),
            every_from: None,
            evidence: finding
                .iter()
                .flat_map(|finding| &finding.evidence)
                .map(ToString::to_string)
                .collect(),
            withheld: last.map(|tick| tick.withheld.clone()).unwrap_or_default(),
            expected: expected.clone(),
        }
    }

    fn of_group(scene: &Scene, expected: &ExpectedOfGroup, ticks: &[Tick]) -> Self {
        let found = |tick: &Tick| tick.of_group.clone();
        let last = ticks.last().and_then(found);
        Self {
            partition: "the group".to_owned(),
            expected: Expected {
                partition: TopicPartition::new(scene.group().0, -1),
                last: expected.any.clone(),
                on_the_way: None,
                never: Vec::new(),
                skip: None,
            },
            given: ticks
                .iter()
                .map(|tick| found(tick).map(|finding| finding.verdict))
                .collect(),
            skip: None,
            wrong_skip: None,
            every_from: Some(expected.from_run),
            evidence: last
                .iter()
                .flat_map(|finding| &finding.evidence)
                .map(ToString::to_string)
                .chain(ticks.iter().map(|tick| tick.summary.clone()))
                .collect(),
            withheld: Vec::new(),
        }
    }

    /// What is wrong with what was given; `None` where it is right.
    #[must_use]
    pub fn wrong(&self) -> Option<String> {
        let last = self.given.last().copied().flatten();
        let accepted = self.expected.last.is_empty()
            || last.is_some_and(|last| self.expected.last.contains(&last));
        if !accepted {
            return Some("another verdict".to_owned());
        }
        let given = || self.given.iter().flatten();
        if let Some(never) = given().find(|given| self.expected.never.contains(given)) {
            return Some(format!("{never} was given"));
        }
        let every = self
            .given
            .get(self.every_from.unwrap_or(0).saturating_sub(1)..);
        let is_expected =
            |given: &Option<Verdict>| given.is_some_and(|v| self.expected.last.contains(&v));
        if self.every_from.is_some() && !every.is_some_and(|every| every.iter().all(is_expected)) {
            return Some("not in every run".to_owned());
        }
        if let Some(before) = self.expected.on_the_way
            && !self.given.contains(&Some(before))
        {
            return Some(format!("{before} was never given"));
        }
        if let Some((first, last)) = self.wrong_skip {
            return Some(format!("a skip of {first} to {last}"));
        }
        // Where another verdict would do as well, so would no skip.
        let has_to = self.expected.last == [Verdict::PoisonLikely];
        if has_to && self.skip != self.expected.skip {
            return Some(format!("no skip: {}", self.withheld.join(", ")));
        }
        None
    }
}

/// What became of one situation.
#[derive(Debug)]
pub struct Played {
    /// The situation.
    pub situation: Situation,
    /// The scores of its partitions, or why there are none.
    pub scores: Result<Vec<Score>>,
}

impl Played {
    /// Whether all that was said is right.
    #[must_use]
    pub fn is_right(&self) -> bool {
        let scores = self.scores.as_ref();
        scores.is_ok_and(|scores| scores.iter().all(|score| score.wrong().is_none()))
    }
}

/// Plays situations, so many at once, and answers in their order. `suffix` tells their names apart from others'; `tell` hears of each as soon as it is over.
pub async fn play_all(
    situations: &[Situation],
    place: &Place,
    suffix: &str,
    at_once: usize,
    tell: impl Fn(&Played),
) -> Vec<Played> {
    let playing = situations
        .iter()
        .enumerate()
        .map(async |(index, situation)| {
            let scores = situation.play(place, suffix).await;
            let over = Played {
                situation: *situation,
                scores,
            };
            tell(&over);
            (index, over)
        });
    let mut played: Vec<_> = stream::iter(playing)
        .buffer_unordered(at_once)
        .collect()
        .await;
    played.sort_by_key(|(index, _)| *index);
    played.into_iter().map(|(_, over)| over).collect()
}
