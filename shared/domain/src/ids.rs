//! Who and what is meant: identities that travel through everything else.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::offset::{ClusterId, GroupId};

/// Declares an identity that is a text: compared, stored and shown as it is.
macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }
    };
}

text_id! {
    /// A plan's id: a ULID.
    PlanId
}

text_id! {
    /// The id of a checkpoint: a ULID.
    CheckpointId
}

text_id! {
    /// The id of one run of the guard over one group: a ULID.
    RunId
}

text_id! {
    /// The ARN of an execution of the state machine, such as
    /// `arn:aws:states:eu-west-1:123456789012:execution:recovery:name`.
    ExecutionArn
}

impl ExecutionArn {
    /// The ARN of the execution `name` of a state machine; `None` if `machine` is not a state machine's ARN.
    #[must_use]
    pub fn child(machine: &str, name: &str) -> Option<Self> {
        let (before, machine) = machine.split_once(":stateMachine:")?;
        Some(Self(format!("{before}:execution:{machine}:{name}")))
    }

    /// The execution's name, which is the last part of its ARN.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.rsplit(':').next().unwrap_or(&self.0)
    }
}

/// One consumer group of one cluster. A group's name alone says nothing: each cluster has its own `orders`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupKey {
    /// The cluster's own id, which no change of an address can point elsewhere.
    pub cluster_id: ClusterId,
    /// The group's exact name.
    pub group: GroupId,
}

impl GroupKey {
    /// Combines the id of a cluster and the name of one of its groups.
    #[must_use]
    pub fn new(cluster_id: ClusterId, group: GroupId) -> Self {
        Self { cluster_id, group }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_has_its_machines_arn_and_a_name() {
        let machine = "arn:aws:states:eu-west-1:123456789012:stateMachine:recovery";
        let arn = ExecutionArn::child(machine, "k").unwrap();
        assert_eq!(
            arn.0,
            "arn:aws:states:eu-west-1:123456789012:execution:recovery:k"
        );
        assert_eq!(arn.name(), "k");
        assert_eq!(ExecutionArn::child("arn:m", "k"), None);
        assert_eq!(ExecutionArn::from("k").name(), "k");
    }
}
