//! Which files and folders may need which: no circles, and no arrow from a layer to one above it.
//!
//! Prints what it finds with `cargo test -p offset-guard-tests --test structure -- --nocapture`.

#![forbid(unsafe_code)]

#[cfg(test)]
mod imports;
#[cfg(test)]
mod knots;
#[cfg(test)]
mod small_trees;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[cfg(test)]
use imports::{Modules, Needs};

/// Files that still need themselves through others. The list may only shrink.
const KNOWN_KNOTS: &[&str] = &[
    "infra/local/src/bin/demo/main.rs",
    "infra/local/src/bin/demo/poison.rs",
    "infra/local/src/kafka/cli.rs",
    "infra/local/src/kafka/java.rs",
    "infra/local/src/kafka/mod.rs",
    "shared/domain/src/guard/answers.rs",
    "shared/domain/src/guard/keeping.rs",
    "shared/domain/src/guard/proposal.rs",
    "shared/domain/src/guard/quarantine.rs",
    "shared/domain/src/guard/run.rs",
    "shared/domain/src/identity.rs",
    "shared/domain/src/plan.rs",
    "shared/domain/src/refusal.rs",
    "shared/domain/src/request.rs",
    "shared/domain/src/rights.rs",
    "shared/src/api/alerts.rs",
    "shared/src/api/http.rs",
    "shared/src/api/mod.rs",
    "shared/src/api/operator.rs",
    "shared/src/api/problem.rs",
    "shared/src/api/recovery.rs",
    "shared/src/app/alert.rs",
    "shared/src/app/guard/copies.rs",
    "shared/src/app/guard/group.rs",
    "shared/src/app/guard/look.rs",
    "shared/src/app/guard/mod.rs",
    "shared/src/app/guard/pace.rs",
    "shared/src/app/guard/probe.rs",
    "shared/src/app/guard/propose.rs",
    "shared/src/app/guard/quarantine.rs",
    "shared/src/app/guard/tell.rs",
    "shared/src/app/report.rs",
    "shared/src/config.rs",
    "shared/src/config/senders.rs",
    "shared/src/page/cookie.rs",
    "shared/src/page/form.rs",
    "shared/src/page/http.rs",
    "shared/src/page/look.rs",
    "shared/src/page/mod.rs",
    "shared/src/page/problem.rs",
    "shared/src/page/signin.rs",
    "shared/src/page/table.rs",
    "shared/src/page/view.rs",
    "shared/src/rest_proxy.rs",
    "shared/src/rest_proxy/client.rs",
    "tests/src/situations/catalogue/going.rs",
    "tests/src/situations/catalogue/logs.rs",
    "tests/src/situations/catalogue/members.rs",
    "tests/src/situations/catalogue/mod.rs",
    "tests/src/situations/catalogue/poison.rs",
    "tests/src/situations/catalogue/transactions.rs",
    "tests/src/situations/guard.rs",
    "tests/src/situations/mod.rs",
    "tests/src/situations/scene.rs",
];

/// The folders and files of `shared/src`, from the bottom up: each may need those of the layers before its own. The
/// compiler holds what is beneath them: `shared/domain`, and `shared/kafka` on top of it.
const LAYERS: [&[&str]; 8] = [
    &["address", "environment", "failure"],
    &["config", "http", "ports", "wire"],
    &["aws", "oidc", "rest_proxy", "slack", "store"],
    &["error"],
    &["connect"],
    &["app"],
    &["api", "page"],
    &["env"],
];

/// Arrows that still go up, or across a layer. The list may only shrink.
const KNOWN_ARROWS: &[(&str, &str)] = &[
    ("aws", "store"),
    ("slack", "aws"),
    ("wire", "store"),
    ("ports", "error"),
    ("ports", "rest_proxy"),
    ("ports", "store"),
];

#[cfg(test)]
fn workspace() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.parent().unwrap().to_owned()
}

/// The root files of all libraries and programs, as paths within the workspace.
#[cfg(test)]
fn crate_roots() -> BTreeSet<PathBuf> {
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline"])
        .args(["--format-version", "1"])
        .current_dir(workspace())
        .output()
        .unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let targets = packages.flat_map(|package| package["targets"].as_array().unwrap());
    let built = targets.filter(|target| {
        ["lib", "bin"]
            .map(|kind| target["kind"][0] == kind)
            .contains(&true)
    });
    let roots = built.map(|target| Path::new(target["src_path"].as_str().unwrap()));
    roots
        .map(|root| root.strip_prefix(workspace()).unwrap().to_owned())
        .collect()
}

#[cfg(test)]
fn needs_of(root: &Path) -> Needs {
    let read = |file: &Path| fs::read_to_string(workspace().join(file)).ok();
    Modules::read(root, &read).needs()
}

#[test]
fn no_file_needs_itself_through_others() {
    let roots = crate_roots();
    assert!(roots.len() > 10, "{roots:?}");
    let mut knotted = BTreeSet::new();
    for root in roots {
        let needs = needs_of(&root);
        for knot in knots::knots(&needs) {
            println!("{}", knots::describe(&knot, &needs));
            knotted.extend(knot.into_iter().map(|file| file.display().to_string()));
        }
    }
    let known: BTreeSet<String> = KNOWN_KNOTS.iter().map(|file| (*file).to_owned()).collect();
    let new: Vec<_> = knotted.difference(&known).collect();
    assert!(new.is_empty(), "need themselves through others: {new:#?}");
    // A file that is out of its knot goes from the list, or it could get back into one unseen.
    let untied: Vec<_> = known.difference(&knotted).collect();
    println!("no longer in a knot, take it from KNOWN_KNOTS: {untied:#?}");
}

/// The folder or file right beneath `shared/src`.
#[cfg(test)]
fn folder_of(file: &Path) -> String {
    let within = file.strip_prefix("shared/src").unwrap();
    let first = within.components().next().unwrap().as_os_str();
    first.to_str().unwrap().trim_end_matches(".rs").to_owned()
}

#[test]
fn no_layer_needs_one_above_it() {
    let needs = needs_of(Path::new("shared/src/lib.rs"));
    let layer = |folder: &str| {
        let layer = LAYERS.iter().position(|layer| layer.contains(&folder));
        layer.unwrap_or_else(|| panic!("{folder} is in no layer"))
    };
    let mut arrows = BTreeSet::new();
    for (file, needed) in &needs {
        let from = folder_of(file);
        for (other, names) in needed {
            let to = folder_of(other);
            if from != to && layer(&to) >= layer(&from) {
                println!("{} -> {}: {names:?}", file.display(), other.display());
                arrows.insert((from.clone(), to));
            }
        }
    }
    let known = KNOWN_ARROWS.iter();
    let known: BTreeSet<_> = known
        .map(|(from, to)| ((*from).to_owned(), (*to).to_owned()))
        .collect();
    let new: Vec<_> = arrows.difference(&known).collect();
    assert!(new.is_empty(), "arrows that go up: {new:?}");
    let gone: Vec<_> = known.difference(&arrows).collect();
    println!("no longer there, take it from KNOWN_ARROWS: {gone:?}");
}
