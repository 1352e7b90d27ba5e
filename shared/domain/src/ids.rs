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
    };
}

text_id! {
    /// A plan's id: a ULID.
    PlanId
}

text_id! {
    /// A checkpoint's id: a ULID, never used twice.
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

/// One consumer group of one cluster. A group's name alone says nothing: each cluster has its own `orders`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupKey {
    /// The cluster's own id, which no change of an address can point elsewhere.
    pub cluster_id: ClusterId,
    /// The group's exact name.
    pub group: GroupId,
}
