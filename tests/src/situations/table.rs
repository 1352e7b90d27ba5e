//! The table of the situations and what the guard said of them.

use std::fmt::Write as _;

use offset_guard::domain::guard::verdict::Verdict;
use offset_guard_local::kafka::Version;

use super::{Played, Score};

/// The scores of one Kafka, in one line.
#[must_use]
pub fn summary(version: Version, played: &[Played]) -> String {
    let scores = || {
        played
            .iter()
            .filter_map(|p| p.scores.as_ref().ok())
            .flatten()
    };
    let failed = played.iter().filter(|p| p.scores.is_err()).count();
    let wrong = scores().filter(|score| score.wrong().is_some()).count();
    format!(
        "Apache Kafka {version}: {} situations, {} partitions, {wrong} wrong, {failed} situations could not be played",
        played.len(),
        scores().count(),
    )
}

/// One situation as lines of text: what is wrong with it, or that nothing is.
#[must_use]
pub fn lines(played: &Played) -> String {
    let name = played.situation.name;
    let scores = match &played.scores {
        Ok(scores) => scores,
        Err(error) => return format!("{name}: could not be played: {error}"),
    };
    let mut text = String::new();
    for score in scores {
        let verdict = match score.wrong() {
            None => "right".to_owned(),
            Some(wrong) => format!("WRONG ({wrong}), expected {}", expected(score)),
        };
        let _ = writeln!(
            text,
            "{name}: {}: {verdict}; given {}",
            score.partition,
            given(score)
        );
        if score.wrong().is_some() {
            for evidence in &score.evidence {
                let _ = writeln!(text, "    {evidence}");
            }
        }
    }
    text.trim_end().to_owned()
}

/// The markdown of one Kafka's table.
#[must_use]
pub fn markdown(version: Version, played: &[Played]) -> String {
    let mut text = format!("## {}\n\n", summary(version, played));
    text.push_str("| Situation | Partition | Expected | Given | Right |\n|---|---|---|---|---|\n");
    for played in played {
        let situation = format!("**{}**: {}", played.situation.name, played.situation.what);
        match &played.scores {
            Err(error) => {
                let _ = writeln!(
                    text,
                    "| {situation} | | | could not be played: {error} | no |"
                );
            }
            Ok(scores) => {
                for (index, score) in scores.iter().enumerate() {
                    let _ = writeln!(
                        text,
                        "| {} | {} | {} | {} | {} |",
                        if index == 0 { &situation } else { "" },
                        score.partition,
                        expected(score),
                        given(score),
                        score
                            .wrong()
                            .map_or("yes".to_owned(), |wrong| format!("no: {wrong}")),
                    );
                }
            }
        }
    }
    text
}

fn expected(score: &Score) -> String {
    let expected = &score.expected;
    let any: Vec<_> = expected.last.iter().map(|verdict| verdict.code()).collect();
    let mut text = match expected.on_the_way {
        Some(before) if any.is_empty() => before.to_string(),
        Some(before) => format!("{before}, then {}", any.join(" or ")),
        None => any.join(" or "),
    };
    if let Some(from) = score.every_from {
        let _ = write!(text, " in every run from run {from} on");
    }
    if !expected.never.is_empty() {
        let never: Vec<_> = expected
            .never
            .iter()
            .map(|verdict| verdict.code())
            .collect();
        let _ = write!(text, ", never {}", never.join(" or "));
    }
    text.push_str(&passed_over(expected.skip));
    text
}

/// Every run's verdict, the same ones in a row as one.
fn given(score: &Score) -> String {
    let mut runs: Vec<(Option<Verdict>, usize)> = Vec::new();
    for verdict in &score.given {
        match runs.last_mut() {
            Some((last, count)) if last == verdict => *count += 1,
            _ => runs.push((*verdict, 1)),
        }
    }
    let runs: Vec<_> = runs
        .iter()
        .map(|(verdict, count)| {
            let code = verdict.map_or("nothing", Verdict::code);
            if *count > 1 {
                format!("{code} ×{count}")
            } else {
                code.to_owned()
            }
        })
        .collect();
    runs.join(", ") + &passed_over(score.skip)
}

fn passed_over(skip: Option<(i64, i64)>) -> String {
    match skip {
        None => String::new(),
        Some((first, last)) if first == last => format!(" (skip {first})"),
        Some((first, last)) => format!(" (skip {first} to {last})"),
    }
}
