//! The event of the `guard` function, and how an execution names one of its runs.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::domain::guard::policy::RemediationAction;
use crate::domain::guard::proposal::Ask;
use crate::domain::offset::{GroupId, TopicPartition};
use crate::domain::refusal::Refusal;

/// Why and where a run of the guard looks. All empty: every configured group, as the schedule does.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuardEvent {
    /// When the schedule meant the run to be, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled_time: Option<String>,
    /// Only this cluster, by its name in the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Only this group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The key of the incident for which the webhook starts this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incident: Option<String>,
    /// What a person asks to be planned; names a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<GuardAsk>,
}

/// What can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskedAction {
    /// Pass over the record that stands in the way.
    SkipPoisonRecord,
    /// Go back by `rewind_record_count`, or into the log.
    RewindOffset,
}

/// A person's explicit request for one partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuardAsk {
    /// What to plan.
    pub action: AskedAction,
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The last offset to pass over, where it is more than the first record: every record up to it is quarantined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub through: Option<i64>,
    /// Only say what would be planned; true unless it says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    /// Who asks.
    #[serde(default)]
    pub requested_by: String,
    /// Why.
    #[serde(default)]
    pub reason: String,
}

impl GuardAsk {
    /// The request, or everything that is wrong with it.
    ///
    /// # Errors
    /// One [`Refusal::InvalidRequest`] a fault.
    pub fn parse(&self) -> Result<Ask, Vec<Refusal>> {
        let mut wrong = Vec::new();
        if self.topic.is_empty() || self.topic.len() > LONGEST_TOPIC {
            wrong.push(super::invalid("topic", "write the topic's exact name"));
        }
        if self.partition < 0 {
            wrong.push(super::invalid("partition", "write a number from 0 on"));
        }
        if self.through.is_some_and(|through| through < 0) {
            wrong.push(super::invalid("through", "write an offset from 0 on"));
        }
        if self.through.is_some() && self.action == AskedAction::RewindOffset {
            let problem = "only a skip passes over records; leave it out of a rewind";
            wrong.push(super::invalid("through", problem));
        }
        for (field, text) in [
            ("reason", &self.reason),
            ("requested_by", &self.requested_by),
        ] {
            if text.chars().count() > super::LONGEST_TEXT {
                let problem = format!("at most {} characters", super::LONGEST_TEXT);
                wrong.push(super::invalid(field, problem));
            }
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        Ok(Ask {
            partition: TopicPartition::new(&self.topic, self.partition),
            action: match self.action {
                AskedAction::SkipPoisonRecord => RemediationAction::SkipPoisonRecord,
                AskedAction::RewindOffset => RemediationAction::RewindOffset,
            },
            through: self.through,
        })
    }
}

/// Kafka's limit for a topic's name.
const LONGEST_TOPIC: usize = 249;

/// The run of the guard that an execution tells of: its input is `{"alert": …}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlertRef {
    /// The run.
    pub run_id: String,
    /// When it began.
    pub at: Timestamp,
    /// The cluster's name in the configuration.
    pub cluster: String,
    /// The group.
    pub group: GroupId,
}

impl AlertRef {
    /// Whether it may be asked after: its names are parts of a key, which has room for so much.
    #[must_use]
    pub fn can_be_a_key(&self) -> bool {
        self.run_id.len() <= 64
            && self.cluster.len() <= 100
            && self.group.0.len() <= super::LONGEST_TEXT
    }
}
