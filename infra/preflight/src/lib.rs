//! One look at this machine that names everything that is missing at once.
//!
//! It depends on nothing, so that it is built in a second, before everything else.

#![forbid(unsafe_code)]

use std::{
    env, fmt,
    path::PathBuf,
    process::{Command, Stdio},
};

/// The oldest Java that the newest Kafka broker runs on.
const JAVA: u32 = 17;

/// Something that must be installed before the local stack, a demo or a test can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// A C and C++ compiler, `make` and `perl`: librdkafka and OpenSSL are built from source. `strip`, for the functions.
    Compilers,
    /// A Java runtime and Maven, for Apache Kafka.
    Java,
    /// Python 3 with `venv`, for the local AWS.
    Python,
    /// Chromium and its driver, for the approval page.
    Browser,
    /// Prometheus Alertmanager, for the webhook, and its `amtool`, for the snippets.
    Alertmanager,
    /// curl, which README.md's commands are typed with.
    Curl,
}

impl Need {
    /// What the local stack needs, and so the demo.
    pub const STACK: &[Self] = &[Self::Compilers, Self::Java, Self::Python];
    /// What all tests together need.
    pub const ALL: &[Self] = &[
        Self::Compilers,
        Self::Java,
        Self::Python,
        Self::Browser,
        Self::Alertmanager,
        Self::Curl,
    ];

    fn missing(self) -> Vec<Missing> {
        let program = |name: &str, package| {
            (!on_path(name)).then(|| Missing {
                what: name.to_owned(),
                package,
            })
        };
        match self {
            Self::Compilers => [
                ("cc", "gcc"),
                ("c++", "g++"),
                ("make", "make"),
                ("perl", "perl"),
                ("strip", "binutils"),
            ]
            .into_iter()
            .filter_map(|(name, package)| program(name, package))
            .collect(),
            Self::Java => [missing_java(), program("mvn", "maven")]
                .into_iter()
                .flatten()
                .collect(),
            Self::Python => missing_python().into_iter().collect(),
            Self::Browser => [
                program("chromium", "chromium"),
                program("chromedriver", "chromium-driver"),
            ]
            .into_iter()
            .flatten()
            .collect(),
            // Debian's package has both, and its own name for the server.
            Self::Alertmanager => program("prometheus-alertmanager", "prometheus-alertmanager")
                .into_iter()
                .collect(),
            Self::Curl => program("curl", "curl").into_iter().collect(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Missing {
    what: String,
    package: &'static str,
}

/// Everything that is missing on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingTools(Vec<Missing>);

impl std::error::Error for MissingTools {}

impl fmt::Display for MissingTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "This machine lacks what is needed here:")?;
        for missing in &self.0 {
            writeln!(f, "  {}", missing.what)?;
        }
        let packages: Vec<_> = self.0.iter().map(|missing| missing.package).collect();
        write!(f, "On Debian: sudo apt-get install {}", packages.join(" "))
    }
}

/// Looks for everything in `needs`.
///
/// # Errors
/// All that is missing, together, with the command that installs it on Debian.
pub fn check(needs: &[Need]) -> Result<(), MissingTools> {
    let missing: Vec<_> = needs.iter().flat_map(|need| need.missing()).collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(MissingTools(missing))
    }
}

fn on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .map(|dir: PathBuf| dir.join(program))
        .any(|file| file.is_file())
}

fn missing_java() -> Option<Missing> {
    let missing = |found: &str| Missing {
        what: format!("java {JAVA} or newer{found}"),
        package: "openjdk-17-jre-headless",
    };
    // `java -version` speaks on standard error, unlike `java --version`, which Java 8 does not know.
    let Ok(output) = Command::new("java").arg("-version").output() else {
        return Some(missing(""));
    };
    let text = String::from_utf8_lossy(&output.stderr);
    match java_version(&text) {
        Some(version) if version >= JAVA => None,
        Some(version) => Some(missing(&format!(" (found: {version})"))),
        None => Some(missing("")),
    }
}

/// The feature release in what `java -version` prints, such as 17 in `openjdk version "17.0.15"`.
fn java_version(text: &str) -> Option<u32> {
    let version = text.split('"').nth(1)?;
    let mut numbers = version.split(['.', '-', '+', '_']).map(str::parse);
    match numbers.next()?.ok()? {
        // Up to Java 8 the version was written 1.8.
        1 => numbers.next()?.ok(),
        version => Some(version),
    }
}

fn missing_python() -> Option<Missing> {
    if !on_path("python3") {
        return Some(Missing {
            what: "python3 with venv".to_owned(),
            package: "python3-venv",
        });
    }
    // Debian ships `venv` without `ensurepip`, which is what fails later.
    let venv = Command::new("python3")
        .args(["-c", "import venv, ensurepip"])
        .stderr(Stdio::null())
        .status();
    (!venv.is_ok_and(|status| status.success())).then(|| Missing {
        what: "python3's venv module".to_owned(),
        package: "python3-venv",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn java_versions_old_and_new_are_read() {
        assert_eq!(
            java_version("openjdk version \"17.0.15\" 2025-04-15"),
            Some(17)
        );
        assert_eq!(java_version("openjdk version \"25\" 2025-09-16"), Some(25));
        assert_eq!(java_version("java version \"1.8.0_412\""), Some(8));
        assert_eq!(java_version("no java here"), None);
    }

    #[test]
    fn all_missing_tools_stand_in_one_text_with_one_command() {
        let missing = MissingTools(vec![
            Missing {
                what: "java 17 or newer (found: 11)".to_owned(),
                package: "openjdk-17-jre-headless",
            },
            Missing {
                what: "mvn".to_owned(),
                package: "maven",
            },
        ]);
        assert_eq!(
            missing.to_string(),
            "This machine lacks what is needed here:\n  \
               java 17 or newer (found: 11)\n  \
               mvn\n\
             On Debian: sudo apt-get install openjdk-17-jre-headless maven"
        );
    }
}
