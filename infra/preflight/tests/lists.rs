//! On a machine with nothing, everything is named at once, and README.md and `.ci/run` install all of it.

#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn an_empty_machine_hears_of_everything_before_anything_is_built() {
    let launcher = Command::new(env!("CARGO_BIN_EXE_offset-guard-preflight"))
        .env("PATH", "")
        .output()
        .unwrap();
    assert!(!launcher.status.success());
    let said = String::from_utf8(launcher.stderr).unwrap();
    for tool in [
        "cc", "c++", "make", "perl", "strip", "java", "mvn", "python3",
    ] {
        assert!(said.contains(&format!("\n  {tool}")), "{tool} in: {said}");
    }
    let (_, packages) = said.split_once("sudo apt-get install ").unwrap();
    for place in ["README.md", ".ci/run"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(place);
        let text = fs::read_to_string(path).unwrap();
        let listed = |package: &str| {
            text.split(|c: char| c.is_whitespace() || c == ':')
                .any(|word| word == package)
        };
        // The browser and the alerts are the tests' need, not the demo's.
        for package in packages.split_whitespace().chain([
            "chromium",
            "chromium-driver",
            "prometheus-alertmanager",
            "curl",
        ]) {
            assert!(listed(package), "{package} in {place}");
        }
    }
}
