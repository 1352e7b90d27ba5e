//! How the groups of the situations are guarded.

/// How a situation's group is guarded; the group's name begins with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Nothing is known of its consumers or records.
    Plain,
    /// Its records are JSON.
    Json,
    /// Its consumers read committed records only.
    Committed,
    /// Its consumers read uncommitted records.
    Uncommitted,
    /// Its consumers keep their offsets elsewhere.
    External,
    /// Only one topic is watched, which no situation has.
    Watched,
    /// A suspicion is enough to propose to pass over a record.
    Suspicious,
}

/// As usual, but for waiting seconds instead of minutes; and nothing is written anywhere.
const USUAL: &str = "[policy.guard]
dry_run = true
publish_to_dlq_topic = false
stall_seconds = 12
rebalance_grace_seconds = 3
";

impl Policy {
    const ALL: [Self; 7] = [
        Self::Plain,
        Self::Json,
        Self::Committed,
        Self::Uncommitted,
        Self::External,
        Self::Watched,
        Self::Suspicious,
    ];

    /// What the names of its groups begin with.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Json => "json",
            Self::Committed => "committed",
            Self::Uncommitted => "uncommitted",
            Self::External => "external",
            Self::Watched => "watched",
            Self::Suspicious => "suspicious",
        }
    }

    /// What its groups' table says.
    fn guard(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Json => r#"validators = ["json"]"#,
            Self::Committed => r#"isolation = "read_committed""#,
            Self::Uncommitted => r#"isolation = "read_uncommitted""#,
            Self::External => "external_offsets = true",
            Self::Watched => r#"monitored_topics = ["another"]"#,
            Self::Suspicious => r#"skip_on = "suspected""#,
        }
    }

    /// The configuration of the groups of all policies, in the cluster at these addresses.
    #[must_use]
    pub fn config(bootstrap: &str) -> String {
        let servers: Vec<_> = bootstrap.split(',').collect();
        let groups = Self::ALL.map(|policy| {
            let (prefix, guard) = (policy.prefix(), policy.guard());
            format!("[[groups]]\npattern = \"{prefix}-*\"\nguard = {{ {guard} }}\n")
        });
        format!(
            "[clusters.main]\nbootstrap_servers = {servers:?}\nauth = \"plaintext\"\n{USUAL}{}",
            groups.concat()
        )
    }
}
