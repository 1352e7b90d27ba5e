//! What README.md and the pages of infra/docs list is what there is.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use offset_guard::domain::audit::AuditStatus;
use offset_guard::domain::guard::policy::{GuardPolicy, SkipOn};
use offset_guard::domain::guard::proposal::warrants_skip;
use offset_guard::domain::guard::rules::RULES;
use offset_guard::domain::guard::verdict::Verdict;
use offset_guard::domain::refusal::Refusal;
use offset_guard::domain::report::EndCode;
use offset_guard::failure::ErrorClass;
use offset_guard::wire::guard::ask_fields;
use offset_guard::wire::request_fields;
use offset_guard_tests::readme::{BLOCKS, INLINE, Page, Proof, blocks, inline, pages, proof};

#[cfg(test)]
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[cfg(test)]
fn read(name: &str) -> String {
    let path = root().join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The section of a page under `heading`, up to the next heading of any level.
#[cfg(test)]
fn section(page: &str, heading: &str) -> String {
    let text = format!("\n{}", read(page));
    let Some((_, section)) = text.split_once(&format!("\n{heading}\n")) else {
        panic!("{page} has no {heading:?}");
    };
    let end = section.find("\n#").unwrap_or(section.len());
    section[..end].to_owned()
}

/// The cells of every table row in the section of a page under `heading`.
#[cfg(test)]
fn table(page: &str, heading: &str) -> Vec<Vec<String>> {
    let section = section(page, heading);
    let rows = section
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    rows.map(|row| {
        row.split(" | ")
            .map(|cell| cell.trim().to_owned())
            .collect()
    })
    .collect()
}

/// The rows whose first cell is a code, without its backquotes.
#[cfg(test)]
fn rows(page: &str, heading: &str) -> Vec<Vec<String>> {
    let mut rows = table(page, heading);
    rows.retain(|row| row[0].starts_with('`'));
    for row in &mut rows {
        row[0] = row[0].trim_matches('`').to_owned();
    }
    rows
}

/// The same with one row per code, for tables that explain several codes in one row.
#[cfg(test)]
fn row_per_code(page: &str, heading: &str) -> Vec<Vec<String>> {
    let rows = rows(page, heading);
    let codes = rows.iter().flat_map(|row| row[0].split("`, `"));
    codes.map(|code| vec![code.to_owned()]).collect()
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
    let rows = rows("infra/docs/refusals.md", "# What it refuses");
    lists(&rows, Refusal::CODES);
}

#[test]
fn every_field_of_a_request_is_explained_once() {
    let page = "infra/docs/rewind.md";
    let mut fields = rows(page, "## Targets");
    fields.extend(rows(page, "## Other fields"));
    lists(&fields, &request_fields());
}

#[test]
fn every_field_of_an_ask_is_explained_once() {
    let fields = row_per_code("infra/docs/guard.md", "## Ask for a skip");
    lists(&fields, &ask_fields());
}

#[test]
fn every_end_of_an_execution_is_explained_once_and_is_the_success_that_it_says() {
    let rows = rows("infra/docs/rewind.md", "## How it ends");
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
fn every_rule_is_explained_in_its_order_with_when_a_skip_is_proposed() {
    let mut rows = table("infra/docs/guard.md", "## Verdicts");
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
    let there_is: Vec<_> = RULES
        .iter()
        .zip(1..)
        .map(|(rule, number)| {
            let verdict = rule.verdict;
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
                i32::to_string(&number),
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
fn every_parameter_is_explained_once_and_no_page_names_another() {
    let template = read("template.yaml");
    let known = parameters(&template);
    let explained = row_per_code("infra/docs/deploy.md", "## Parameters");
    lists(&explained, &Vec::from_iter(known.iter().copied()));
    let pages = pages().unwrap();
    let given = pages
        .iter()
        .flat_map(|page| page.text.split_whitespace())
        .filter_map(|word| word.trim_start_matches('`').split_once('='))
        .map(|(name, _)| name)
        .filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase()))
        .filter(|name| name.contains(|c: char| c.is_ascii_lowercase()));
    let listed = row_per_code("infra/docs/approval.md", "## Who approves");
    let listed = listed.iter().map(|row| row[0].as_str());
    let named: Vec<_> = given.chain(listed).collect();
    assert!(named.len() > 10, "{named:?}");
    for name in named {
        assert!(known.contains(name), "{name} is not a parameter");
    }
}

#[test]
fn every_class_of_errors_is_explained_once() {
    let rows = rows("infra/docs/operate.md", "## Errors");
    lists(&rows, &ErrorClass::ALL.map(ErrorClass::error_type));
}

/// The alarms of the template, each with its namespace and metric.
#[cfg(test)]
fn alarms(template: &str) -> BTreeMap<&str, (&str, &str)> {
    let mut alarms = BTreeMap::new();
    let mut resource = "";
    let mut lines = template.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line
            .strip_prefix("  ")
            .and_then(|line| line.strip_suffix(':'))
            && !name.starts_with(' ')
        {
            resource = name;
        }
        if line == "    Type: AWS::CloudWatch::Alarm" {
            let mut value = |key: &str| {
                let of = |line: &'_ str| line.trim().strip_prefix(key).is_some();
                let line = lines.find(|line| of(line)).unwrap();
                line.trim()[key.len()..].trim()
            };
            alarms.insert(resource, (value("Namespace:"), value("MetricName:")));
        }
    }
    assert!(alarms.len() > 10, "{alarms:?}");
    alarms
}

#[test]
fn every_alarm_is_explained_once_and_so_is_every_metric_that_it_watches() {
    let page = "infra/docs/operate.md";
    let template = read("template.yaml");
    let alarms = alarms(&template);
    let names: Vec<_> = alarms.keys().copied().collect();
    lists(&rows(page, "## Alarms"), &names);
    let metrics = row_per_code(page, "## Metrics");
    let metrics: Vec<_> = metrics.iter().map(|row| row[0].as_str()).collect();
    let once: BTreeSet<_> = metrics.iter().copied().collect();
    assert_eq!(metrics.len(), once.len(), "{metrics:?}");
    let own = alarms.values().filter(|(space, _)| *space == "OffsetGuard");
    let watched: BTreeSet<_> = own.map(|(_, metric)| *metric).collect();
    assert!(watched.len() > 3, "{watched:?}");
    assert!(watched.is_subset(&once), "{watched:?} of {once:?}");
}

#[test]
fn every_verdict_counts_into_one_metric() {
    let mut rows = rows("infra/docs/operate.md", "## Metrics");
    rows.retain(|row| row[0].starts_with("Partitions"));
    let mut counted: Vec<_> = rows
        .iter()
        .flat_map(|row| row[1].split(", "))
        .map(|code| code.trim_matches('`'))
        .collect();
    counted.sort_unstable();
    let mut there_is: Vec<_> = Verdict::ALL.iter().map(|verdict| verdict.code()).collect();
    there_is.sort_unstable();
    assert_eq!(counted, there_is);
}

#[test]
fn every_variable_of_the_functions_is_explained_once() {
    let explained = row_per_code("infra/docs/operate.md", "## Environment of the functions");
    let template = read("template.yaml");
    let set: BTreeSet<_> = template
        .lines()
        .filter_map(|line| line.trim().split_once(": "))
        .map(|(name, _)| name)
        .filter(|name| name.starts_with("OFFSET_GUARD_"))
        .collect();
    assert!(set.len() > 10, "{set:?}");
    lists(&explained, &Vec::from_iter(set));
}

#[test]
fn every_command_is_known_with_how_it_is_proved() {
    let pages = pages().unwrap();
    let blocks = blocks(&pages);
    let unknown: Vec<_> = blocks
        .iter()
        .filter(|block| proof(block).is_none())
        .collect();
    assert!(unknown.is_empty(), "nobody proves {unknown:#?}");
    let stale: Vec<_> = BLOCKS
        .iter()
        .filter(|(begins, _)| !blocks.iter().any(|block| block.text.starts_with(begins)))
        .collect();
    assert!(stale.is_empty(), "no page has such a block: {stale:?}");
    for span in pages.iter().flat_map(inline) {
        let known = INLINE.iter().any(|(begins, _)| span.starts_with(begins));
        assert!(known, "nobody proves `{span}`");
    }
}

#[test]
fn a_command_that_is_not_run_names_what_there_is() {
    let pages = pages().unwrap();
    let aliases: toml::Table = read(".cargo/config.toml").parse().unwrap();
    let template = read("template.yaml");
    let known = parameters(&template);
    let mut deploys = 0;
    for block in blocks(&pages) {
        let Some(Proof::NotRun(_)) = proof(&block) else {
            continue;
        };
        for command in block.text.replace("\\\n", " ").lines() {
            let words: Vec<_> = command.split_whitespace().collect();
            match words.as_slice() {
                ["cargo", "test"] => {}
                ["cargo", "test", "--package", package, "--test", name] => {
                    assert_eq!(*package, "offset-guard");
                    let path = format!("shared/tests/{name}.rs");
                    assert!(root().join(&path).is_file(), "{path}");
                }
                [
                    "cargo",
                    "run",
                    "-p",
                    "offset-guard-tests",
                    "--bin",
                    binary,
                    "--",
                    "--write",
                ] => {
                    let path = format!("tests/src/bin/{binary}.rs");
                    assert!(root().join(&path).is_file(), "{path}");
                }
                ["cargo", alias] => assert!(aliases["alias"].get(alias).is_some(), "{command}"),
                ["sudo", "apt-get", "install", ..]
                | ["sam", "build"]
                | ["sam", "build", "&&", "sam", "deploy", "--guided"] => {}
                ["sam", "deploy", given @ ..] => {
                    let given: Vec<_> = given
                        .iter()
                        .skip_while(|word| **word != "--parameter-overrides")
                        .skip(1)
                        .map(|given| given.split_once('=').unwrap().0)
                        .collect();
                    assert!(given.len() > 3, "{command}");
                    deploys += 1;
                    for name in given {
                        assert!(known.contains(name), "{name} is not a parameter");
                    }
                }
                _ => panic!("{}, line {}: {command}", block.page, block.line),
            }
        }
    }
    assert_eq!(deploys, 1);
}

/// What a page refers to by a path, from its own folder.
#[cfg(test)]
fn refers_to(page: &Page, to: &str) -> PathBuf {
    root().join(&page.name).with_file_name(to)
}

#[test]
fn every_picture_is_there_and_small() {
    let mut pictures = 0;
    for page in pages().unwrap() {
        let named = page.text.split("<img src=\"").skip(1);
        for picture in named.filter_map(|rest| rest.split('"').next()) {
            let path = refers_to(&page, picture);
            let size = fs::metadata(&path).unwrap_or_else(|error| panic!("{picture}: {error}"));
            assert!(size.len() < 150_000, "{picture} has {} bytes", size.len());
            pictures += 1;
        }
    }
    assert!(pictures > 0);
}

/// The anchor that GitHub gives a heading.
#[cfg(test)]
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().replace(' ', "-")
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut all = pages().unwrap();
    for name in ["shared/ARCHITECTURE.md", "shared/STYLE.md"] {
        let (name, text) = (name.to_owned(), read(name));
        all.push(Page { name, text });
    }
    let mut links = 0;
    for page in &all {
        let named = page.text.split("](").skip(1);
        for link in named.filter_map(|rest| rest.split(')').next()) {
            if link.starts_with("https://") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let path = match file {
                "" => root().join(&page.name),
                file => refers_to(page, file),
            };
            let text = fs::read_to_string(&path)
                .unwrap_or_else(|error| panic!("{}: {link}: {error}", page.name));
            let mut headings = text.lines().filter(|line| line.starts_with('#'));
            assert!(
                heading.is_empty() || headings.any(|line| anchor(line) == heading),
                "{}: {link} names no heading",
                page.name
            );
            links += 1;
        }
    }
    assert!(links > 20, "{links}");
}

#[test]
fn the_readme_links_every_page_and_is_short() {
    let readme = read("README.md");
    for page in pages().unwrap() {
        let linked = readme.contains(&format!("]({})", page.name));
        assert!(linked || page.name == "README.md", "{}", page.name);
    }
    assert!(readme.lines().count() <= 250);
    assert!(readme.contains("\n## What was not tested without AWS\n"));
}
