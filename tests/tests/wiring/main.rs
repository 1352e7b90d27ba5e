//! What template.yaml and infra/recovery.asl.json promise and no linter knows, beside the values of the code.
//!
//! Every rule looks at both files as they are, before any substitution, and says what it saw.

#![forbid(unsafe_code)]

#[cfg(test)]
mod broken;
#[cfg(test)]
mod deployment;
#[cfg(test)]
mod machine;

use std::fs;
use std::path::Path;

use offset_guard::wire::{ApprovalStep, Asked, RewindStep};
use offset_guard_tests::template;
use serde_json::{Value, json};
use strum::VariantNames;

/// The steps that the code knows.
const STEPS: [&[&str]; 2] = [RewindStep::VARIANTS, ApprovalStep::VARIANTS];

/// What the rules look at.
#[derive(Debug, Clone)]
struct Project {
    template: Value,
    machine: Value,
    /// The files of `infra/snippets/` by name.
    snippets: Vec<(String, String)>,
    /// The files of `events/` by name.
    events: Vec<(String, String)>,
}

#[cfg(test)]
impl Project {
    fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let files = |folder: &str, ending: &str| {
            let entries = fs::read_dir(root.join(folder)).unwrap();
            let paths = entries.map(|entry| entry.unwrap().path());
            let mut files: Vec<_> = paths
                .filter(|path| path.extension().is_some_and(|found| found == ending))
                .map(|path| {
                    let name = path.file_name().unwrap().to_string_lossy();
                    (name.into_owned(), fs::read_to_string(&path).unwrap())
                })
                .collect();
            files.sort();
            files
        };
        let machine = fs::read_to_string(root.join("infra/recovery.asl.json")).unwrap();
        Self {
            template: template::read().unwrap(),
            machine: serde_json::from_str(&machine).unwrap(),
            snippets: files("infra/snippets", "yml"),
            events: files("events", "json"),
        }
    }

    /// What any rule finds wrong.
    fn wrong(&self) -> Vec<String> {
        let rules: [fn(&Self) -> Vec<String>; 14] = [
            machine::substitutions,
            machine::graph,
            machine::input,
            machine::tasks,
            machine::retries,
            deployment::functions,
            deployment::policies,
            deployment::operation,
            deployment::api,
            deployment::rules,
            deployment::incidents,
            deployment::strangers,
            deployment::snippets,
            deployment::events,
        ];
        rules.iter().flat_map(|rule| rule(self)).collect()
    }
}

#[test]
fn template_and_state_machine_keep_their_promises() {
    assert_eq!(Project::read().wrong(), Vec::<String>::new());
}

/// The machine keeps the keys of an input apart in the order in which the code does.
#[test]
fn of_two_keys_the_machine_and_the_code_take_the_same() {
    let keys = machine::LETS_THROUGH.map(|(key, ..)| key);
    for (index, first) in keys.iter().enumerate() {
        let one = json!({ *first: "this" });
        let wanted = Asked::of(one.as_object().unwrap());
        assert_ne!(wanted, Asked::Nothing, "{first}");
        for second in &keys[index + 1..] {
            let both = json!({ *second: "that", *first: "this" });
            assert_eq!(
                Asked::of(both.as_object().unwrap()),
                wanted,
                "{first}, {second}"
            );
        }
    }
}
