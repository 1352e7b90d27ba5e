//! How the groups of the situations are guarded.

use offset_guard::domain::guard::policy::{GuardPolicy, Isolation, Validator};

/// How a situation's group is guarded; the group's name begins with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Nothing is known of its consumers or records.
    Plain,
    /// Its records are JSON.
    Json,
    /// Its consumers read committed records only.
    Committed,
    /// Both.
    CommittedJson,
    /// Its consumers read uncommitted records.
    Uncommitted,
    /// Its consumers keep their offsets elsewhere.
    External,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Plain,
        Self::Json,
        Self::Committed,
        Self::CommittedJson,
        Self::Uncommitted,
        Self::External,
    ];

    /// What the names of its groups begin with.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Json => "json",
            Self::Committed => "committed",
            Self::CommittedJson => "strict",
            Self::Uncommitted => "uncommitted",
            Self::External => "external",
        }
    }

    /// The guard's policy: as usual, but for waiting seconds instead of minutes.
    #[must_use]
    pub fn guard(self) -> GuardPolicy {
        let json = matches!(self, Self::Json | Self::CommittedJson);
        GuardPolicy {
            stall_seconds: 12,
            rebalance_grace_seconds: 3,
            publish_to_dlq_topic: false,
            isolation: match self {
                Self::Committed | Self::CommittedJson => Isolation::ReadCommitted,
                Self::Uncommitted => Isolation::ReadUncommitted,
                Self::Plain | Self::Json | Self::External => Isolation::Unknown,
            },
            validators: if json {
                vec![Validator::Json]
            } else {
                Vec::new()
            },
            external_offsets: self == Self::External,
            ..GuardPolicy::default()
        }
    }
}
