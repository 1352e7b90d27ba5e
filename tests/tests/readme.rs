//! What README.md lists is what there is.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use offset_guard::domain::audit::AuditStatus;
use offset_guard::domain::guard::policy::{GuardPolicy, SkipOn};
use offset_guard::domain::guard::proposal::warrants_skip;
use offset_guard::domain::guard::verdict::Verdict;
use offset_guard::domain::refusal::Refusal;
use offset_guard::domain::report::EndCode;
use offset_guard::wire::guard::ask_fields;
use offset_guard::wire::request_fields;
use offset_guard_tests::readme::{self, BLOCKS, INLINE, Proof, blocks, inline, proof};

#[cfg(test)]
fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The cells of every table row in the section under `heading`, up to the next one.
#[cfg(test)]
fn table(heading: &str) -> Vec<Vec<String>> {
    let text = read("README.md");
    let (_, section) = text.split_once(&format!("\n{heading}\n")).unwrap();
    let end = section.find("\n#").unwrap_or(section.len());
    let rows = section[..end]
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    rows.map(|row| {
        row.split(" | ")
            .map(|cell| cell.trim().to_owned())
            .collect()
    })
    .collect()
}

/// The rows whose first cell is a code, each without its backquotes.
#[cfg(test)]
fn rows(heading: &str) -> Vec<Vec<String>> {
    let mut rows = table(heading);
    rows.retain(|row| row[0].starts_with('`'));
    for row in &mut rows {
        row[0] = row[0].trim_matches('`').to_owned();
    }
    rows
}

/// Holds the first cells under `heading` to what there is: each once, and nothing else.
#[cfg(test)]
#[track_caller]
fn lists(rows: &[Vec<String>], there_is: &[&str]) {
    let listed: Vec<_> = rows.iter().map(|row| row[0].as_str()).collect();
    let once: BTreeSet<_> = listed.iter().copied().collect();
    assert_eq!(once, there_is.iter().copied().collect());
    assert_eq!(listed.len(), once.len(), "{listed:?}");
}

#[test]
fn every_refusal_is_explained_once() {
    lists(&rows("## What it refuses"), Refusal::CODES);
}

#[test]
fn every_field_of_a_request_is_explained_once() {
    lists(&rows("## Ask for a rewind"), &request_fields());
}

#[test]
fn every_field_of_an_ask_is_explained_once() {
    let rows = rows("## What the guard does");
    let named = rows.iter().flat_map(|row| row[0].split("`, `"));
    let named: Vec<_> = named.map(|name| vec![name.to_owned()]).collect();
    lists(&named, &ask_fields());
}

#[test]
fn every_end_of_an_execution_is_explained_once_and_is_the_success_that_it_says() {
    let rows = rows("### How it ends");
    let codes: Vec<_> = EndCode::ALL.iter().map(|end| end.code()).collect();
    lists(&rows, &codes);
    let said: BTreeMap<_, _> = rows
        .iter()
        .map(|row| (row[0].as_str(), row[1].as_str()))
        .collect();
    for end in EndCode::ALL {
        let status = match end.status() {
            AuditStatus::Succeeded => "succeeded",
            AuditStatus::Failed => "failed",
        };
        assert_eq!(said[end.code()], status, "{}", end.code());
    }
}

#[test]
fn every_verdict_is_explained_once_in_its_order_with_when_a_skip_is_proposed() {
    let mut rows = table("## What the guard does");
    rows.retain(|row| row[0].parse::<u8>().is_ok());
    let said: Vec<_> = rows
        .iter()
        .map(|row| {
            (
                row[0].clone(),
                row[1].trim_matches('`').to_owned(),
                row[3].clone(),
            )
        })
        .collect();
    let suspected = GuardPolicy {
        skip_on: SkipOn::Suspected,
        ..GuardPolicy::default()
    };
    let there_is: Vec<_> = Verdict::ALL
        .into_iter()
        .map(|verdict| {
            let skips = |policy, asked| warrants_skip(verdict, policy, asked);
            let likely = GuardPolicy::default();
            let when = match (
                skips(&likely, false),
                skips(&suspected, false),
                skips(&likely, true),
            ) {
                (true, _, _) => "yes",
                (false, true, true) => "if asked for, or `skip_on = \"suspected\"`",
                (false, false, true) => "if asked for",
                (false, false, false) => "never",
                (false, true, false) => "with `skip_on = \"suspected\"` alone",
            };
            (
                verdict.number().to_string(),
                verdict.code().to_owned(),
                when.to_owned(),
            )
        })
        .collect();
    assert_eq!(said, there_is);
}

/// The template's parameters.
#[cfg(test)]
fn parameters(template: &str) -> BTreeSet<&str> {
    let (_, parameters) = template.split_once("\nParameters:\n").unwrap();
    let (parameters, _) = parameters.split_once("\nRules:\n").unwrap();
    let known: BTreeSet<_> = parameters
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.strip_suffix(':'))
        .filter(|name| !name.starts_with(' '))
        .collect();
    assert!(known.contains("ApplyEnabled"), "{known:?}");
    known
}

#[test]
fn every_parameter_that_it_names_is_one_of_the_template() {
    let template = read("template.yaml");
    let known = parameters(&template);
    let text = read("README.md");
    let given = text
        .split_whitespace()
        .filter_map(|word| word.trim_start_matches('`').split_once('='))
        .map(|(name, _)| name)
        .filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase()))
        .filter(|name| name.contains(|c: char| c.is_ascii_lowercase()));
    let listed = rows("## Deploy it");
    let listed = listed
        .iter()
        .flat_map(|row| row[0].split("`, `"))
        .filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase()));
    let named: Vec<_> = given.chain(listed).collect();
    assert!(named.len() > 10, "{named:?}");
    for name in named {
        assert!(known.contains(name), "{name} is no parameter");
    }
}

#[test]
fn every_command_is_known_with_how_it_is_proved() {
    let text = readme::text().unwrap();
    let blocks = blocks(&text);
    let unknown: Vec<_> = blocks
        .iter()
        .filter(|block| proof(block).is_none())
        .collect();
    assert!(unknown.is_empty(), "nobody proves {unknown:#?}");
    let stale: Vec<_> = BLOCKS
        .iter()
        .filter(|(begins, _)| !blocks.iter().any(|block| block.text.starts_with(begins)))
        .collect();
    assert!(stale.is_empty(), "README.md has no such block: {stale:?}");
    for span in inline(&text) {
        let known = INLINE.iter().any(|(begins, _)| span.starts_with(begins));
        assert!(known, "nobody proves `{span}`");
    }
}

#[test]
fn a_command_that_is_not_run_names_what_there_is() {
    let text = readme::text().unwrap();
    let aliases: toml::Table = read(".cargo/config.toml").parse().unwrap();
    let template = read("template.yaml");
    let known = parameters(&template);
    for block in blocks(&text) {
        let Some(Proof::NotRun(_)) = proof(&block) else {
            continue;
        };
        for command in block.text.replace("\\\n", " ").lines() {
            let words: Vec<_> = command.split_whitespace().collect();
            match words.as_slice() {
                ["cargo", "test"] => {}
                ["cargo", alias] => assert!(aliases["alias"].get(alias).is_some(), "{command}"),
                ["sudo", "apt-get", "install", ..] | ["sam", "build"] => {}
                ["sam", "deploy", given @ ..] => {
                    let given: Vec<_> = given
                        .iter()
                        .skip_while(|word| **word != "--parameter-overrides")
                        .skip(1)
                        .map(|given| given.split_once('=').unwrap().0)
                        .collect();
                    assert!(given.len() > 3, "{command}");
                    for name in given {
                        assert!(known.contains(name), "{name} is no parameter");
                    }
                }
                _ => panic!("line {}: {command}", block.line),
            }
        }
    }
}

#[test]
fn every_picture_is_there_and_small() {
    let text = read("README.md");
    let pictures: Vec<_> = text
        .split("<img src=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert!(!pictures.is_empty());
    for picture in pictures {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("..")
            .join(picture);
        let size = fs::metadata(&path).unwrap_or_else(|error| panic!("{picture}: {error}"));
        assert!(size.len() < 150_000, "{picture} has {} bytes", size.len());
    }
}
