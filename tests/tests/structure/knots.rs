//! Files that need each other, directly or through others.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::imports::Needs;

/// Every largest set of files of which each can be reached from each other.
pub(crate) fn knots(needs: &Needs) -> Vec<BTreeSet<PathBuf>> {
    let mut knots: Vec<BTreeSet<PathBuf>> = Vec::new();
    for file in needs.keys() {
        if knots.iter().any(|knot| knot.contains(file)) {
            continue;
        }
        let after = reachable(needs, file);
        let mut knot: BTreeSet<PathBuf> = after
            .into_iter()
            .filter(|other| reachable(needs, other).contains(file))
            .collect();
        if !knot.is_empty() {
            knot.insert(file.clone());
            knots.push(knot);
        }
    }
    knots
}

/// Every file that a file needs, directly or through others.
fn reachable(needs: &Needs, start: &Path) -> BTreeSet<PathBuf> {
    let mut seen = BTreeSet::new();
    let mut todo = vec![start.to_owned()];
    while let Some(file) = todo.pop() {
        for next in needs.get(&file).into_iter().flatten().map(|(next, _)| next) {
            if seen.insert(next.clone()) {
                todo.push(next.clone());
            }
        }
    }
    seen
}

/// The files of a knot, each with what it needs of the others in it.
pub(crate) fn describe(knot: &BTreeSet<PathBuf>, needs: &Needs) -> String {
    let mut text = format!("{} files need each other:\n", knot.len());
    for file in knot {
        text.push_str(&format!("  {}\n", file.display()));
        for (other, names) in &needs[file] {
            if knot.contains(other) {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                text.push_str(&format!(
                    "    -> {}: {}\n",
                    other.display(),
                    names.join(", ")
                ));
            }
        }
    }
    text
}
