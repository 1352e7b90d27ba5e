//! What README.md lists is what there is.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use offset_guard::domain::refusal::Refusal;
use offset_guard::wire::parse_request;
use serde_json::json;

#[cfg(test)]
fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The first column of every table row in the section under `heading`, each without its backquotes.
#[cfg(test)]
fn rows(heading: &str) -> Vec<String> {
    let text = read("README.md");
    let (_, section) = text.split_once(&format!("\n{heading}\n")).unwrap();
    let end = section.find("\n#").unwrap_or(section.len());
    let cells = section[..end]
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    cells.map(|(cell, _)| cell.to_owned()).collect()
}

/// What stands in backquotes after "expected one of" in serde's error: all that it would have taken.
fn expected(error: &str) -> BTreeSet<String> {
    let (_, list) = error.split_once("expected one of ").unwrap_or_default();
    list.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_refusal_is_explained_once() {
    let error = serde_json::from_value::<Refusal>(json!({"code": "?"})).unwrap_err();
    let codes = expected(&error.to_string());
    assert!(codes.contains("GROUP_ACTIVE"), "{error}");
    let rows = rows("## What it refuses");
    assert_eq!(rows.iter().cloned().collect::<BTreeSet<_>>(), codes);
    assert_eq!(rows.len(), codes.len());
}

#[test]
fn every_field_of_a_request_is_explained_once() {
    let refusals = parse_request(&json!({"?": 1}), None).unwrap_err();
    let fields = expected(&refusals[0].to_string());
    assert!(fields.contains("rewind_before"), "{refusals:?}");
    let rows = rows("## Ask for a rewind");
    assert_eq!(rows.iter().cloned().collect::<BTreeSet<_>>(), fields);
    assert_eq!(rows.len(), fields.len());
}

#[test]
fn every_end_of_an_execution_is_explained_once() {
    let source = read("shared/src/domain/report.rs");
    let (source, _) = source.split_once("#[cfg(test)]").unwrap_or((&source, ""));
    let is_code = |word: &&str| {
        word.contains('_') || ["VERIFIED", "REJECTED", "REFUSED", "OVERWRITTEN"].contains(word)
    };
    let codes: BTreeSet<_> = source
        .split('"')
        .skip(1)
        .step_by(2)
        .filter(|word| word.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
        .filter(is_code)
        .map(str::to_owned)
        .collect();
    assert!(codes.contains("OUTCOME_UNKNOWN"), "{codes:?}");
    let rows = rows("### How it ends");
    assert_eq!(rows.iter().cloned().collect::<BTreeSet<_>>(), codes);
    assert_eq!(rows.len(), codes.len());
}

#[test]
fn every_parameter_that_it_names_is_one_of_the_template() {
    let template = read("template.yaml");
    let (_, parameters) = template.split_once("\nParameters:\n").unwrap();
    let (parameters, _) = parameters.split_once("\nRules:\n").unwrap();
    let known: BTreeSet<_> = parameters
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.strip_suffix(':'))
        .filter(|name| !name.starts_with(' '))
        .collect();
    assert!(known.contains("ApplyEnabled"), "{known:?}");
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
        .flat_map(|row| row.split("`, `"))
        .filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase()));
    let named: Vec<_> = given.chain(listed).collect();
    assert!(named.len() > 10, "{named:?}");
    for name in named {
        assert!(known.contains(name), "{name} is no parameter");
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
