//! The event of the `guard` function.

use serde::{Deserialize, Serialize};

/// What guard is to look at.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuardEvent {
    /// Only this cluster, by its name in the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Only this group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The incident that the run is for: its start and its end are noted there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incident: Option<String>,
    /// What an operator asks for beyond a look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<GuardAsk>,
}

/// What an operator may ask of guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuardAction {
    /// Quarantine records from the committed offset on, and plan to commit behind them.
    SkipPoisonRecord,
    /// Plan to go back.
    RewindOffset,
}

/// An operator's explicit request, about one partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuardAsk {
    /// What to do.
    pub action: GuardAction,
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The last offset of a range; one record alone where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub through: Option<i64>,
    /// Only plan and tell; as the group's policy says where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    /// Who asks.
    pub requested_by: String,
    /// Why.
    pub reason: String,
}
