//! What holds of the sources themselves, and no compiler says.
//!
//! The helpers are marked as tests too, which is what lets them unwrap.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

#[cfg(test)]
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

#[cfg(test)]
fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every file under `folder` with that ending, what is built and what is hidden left out. None at all is a mistake of
/// the test that asks.
#[cfg(test)]
fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if name.ends_with(ending) {
                found.push(path);
            }
        }
    }
    assert!(!found.is_empty(), "no *{ending} under {folder}");
    found.sort();
    found
}

/// A path as the project calls it.
#[cfg(test)]
fn named(path: &Path) -> String {
    path.strip_prefix(root())
        .unwrap()
        .to_string_lossy()
        .into_owned()
}

/// What `shared/domain/clippy.toml` forbids in its own sources, no crate beneath it brings along either.
#[test]
fn the_domain_depends_on_no_runtime_and_no_client() {
    let tree = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--package",
            "offset-guard-domain",
            "--edges",
            "normal",
        ])
        .args(["--prefix", "none", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        tree.status.success(),
        "{}",
        String::from_utf8_lossy(&tree.stderr)
    );
    let tree = String::from_utf8(tree.stdout).unwrap();
    let names: BTreeSet<_> = tree
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(names.contains("serde"), "{names:?}");
    let world = |name: &&&str| {
        let clients = [
            "tokio",
            "rdkafka",
            "reqwest",
            "hyper",
            "getrandom",
            "rand",
            "ulid",
            "tracing",
        ];
        clients.contains(name) || name.starts_with("aws-") || name.starts_with("rdkafka-")
    };
    assert_eq!(
        names.iter().filter(world).collect::<Vec<_>>(),
        Vec::<&&str>::new()
    );
}

/// The compiler holds every crate to it that says so; this holds every crate to saying so.
#[test]
fn every_crate_but_that_of_kafka_forbids_unsafe_code() {
    let metadata = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let mut roots = 0;
    for package in metadata["packages"].as_array().unwrap() {
        for target in package["targets"].as_array().unwrap() {
            let path = Path::new(target["src_path"].as_str().unwrap());
            let forbids = read(path).contains("#![forbid(unsafe_code)]");
            let is_kafka = package["name"] == "offset-guard-kafka";
            assert_eq!(forbids, !is_kafka, "{}", path.display());
            roots += 1;
        }
    }
    assert!(roots > 15, "{roots} crate roots were found");
    for path in files("shared/kafka/src", ".rs") {
        let name = named(&path);
        let allows = read(&path).contains("unsafe_code");
        assert_eq!(allows, name == "shared/kafka/src/ffi.rs", "{name}");
    }
}

#[test]
fn every_package_has_the_one_lint_table_and_is_a_member() {
    let manifest = |path: &Path| -> toml::Table {
        read(path)
            .parse()
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let workspace = manifest(&root().join("Cargo.toml"));
    let members: BTreeSet<String> = workspace["workspace"]["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|member| format!("{}/Cargo.toml", member.as_str().unwrap()))
        .collect();
    let packages: BTreeSet<String> = files("", "Cargo.toml")
        .iter()
        .map(|path| named(path))
        .filter(|name| name != "Cargo.toml")
        .collect();
    assert_eq!(packages, members, "packages, and members of the workspace");
    for package in packages {
        let lints = manifest(&root().join(&package));
        let inherited = lints
            .get("lints")
            .and_then(|lints| lints.get("workspace"))
            .and_then(toml::Value::as_bool);
        assert_eq!(inherited, Some(true), "{package}: [lints] workspace = true");
    }
}

/// Maven's plugins leave notes in the build folder, which is the checkout's own where nothing says otherwise.
#[test]
fn maven_is_run_in_one_place_and_leaves_nothing_in_the_checkout() {
    let runs = files("infra", ".rs")
        .into_iter()
        .filter(|path| read(path).contains("Command::new(\"mvn\")"))
        .map(|path| named(&path));
    assert_eq!(
        runs.collect::<Vec<_>>(),
        ["infra/local/src/workdir.rs"],
        "which gives it a folder under target/"
    );
    for path in files("", "") {
        let name = named(&path);
        assert!(
            !name.contains("${"),
            "{name}: a property that Maven does not know"
        );
    }
}
