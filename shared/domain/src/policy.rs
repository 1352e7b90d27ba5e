//! How one group is to be treated, as the configuration says.

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use super::guard::policy::GuardPolicy;

/// A `u32` of seconds, as policies have them, as a duration.
#[must_use]
pub fn seconds(seconds: u32) -> SignedDuration {
    SignedDuration::from_secs(i64::from(seconds))
}

/// The resolved policy of one group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupPolicy {
    /// How long a recovery waits after approval for the group to be Empty, in seconds.
    /// `None`: a group that is active while planning is refused.
    pub wait_for_empty_seconds: Option<u32>,
    /// How long a group must be still before it counts as stopped, in seconds.
    pub settle_seconds: u32,
    /// How far a committed offset may go forward between plan and apply where the plan waits for the consumers to
    /// stop, in offsets a partition. Without a wait nothing may move at all.
    pub drift_limit: u64,
    /// How long a plan may wait for its decision, in seconds.
    pub approve_within_seconds: u32,
    /// How long after the decision a plan may still be applied, in seconds. Longer than the longest wait for Empty.
    pub apply_within_seconds: u32,
    /// How many of the newest checkpoints never expire.
    pub keep_checkpoints: u32,
    /// How far these must reach back before an older one may expire, in seconds.
    pub min_history_seconds: u32,
    /// Whether a plan is approved only by another person than the one who asked for it, both of them known to an
    /// issuer. What the guard proposes needs one such person.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub four_eyes: bool,
    /// How the guard treats it.
    pub guard: GuardPolicy,
}

impl GroupPolicy {
    /// The same where a plan always waits for the group to be Empty: for as long as the policy says or, where it says
    /// nothing, for as long as the plan may be applied. A stuck group usually still has its members, so a guard's plan is
    /// made under this one.
    #[must_use]
    pub fn waiting_for_empty(&self) -> Self {
        let longest = self
            .apply_within_seconds
            .saturating_sub(self.settle_seconds.saturating_add(1))
            .max(1);
        Self {
            wait_for_empty_seconds: Some(self.wait_for_empty_seconds.unwrap_or(longest)),
            ..self.clone()
        }
    }
}

impl Default for GroupPolicy {
    fn default() -> Self {
        Self {
            wait_for_empty_seconds: None,
            settle_seconds: 60,
            drift_limit: 10_000,
            approve_within_seconds: 3_540,
            apply_within_seconds: 2_100,
            keep_checkpoints: 168,
            min_history_seconds: 86_400,
            four_eyes: false,
            guard: GuardPolicy::default(),
        }
    }
}
