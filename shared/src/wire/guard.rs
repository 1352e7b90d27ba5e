//! The event of the `guard` function, and how an execution names one of its runs.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::fields::{Fields, shown};
use super::request::{group, short_text};
use super::{CLUSTER, GROUP, object};
use crate::domain::guard::policy::RemediationAction;
use crate::domain::guard::proposal::Ask;
use crate::domain::ids::RunId;
use crate::domain::near::instead;
use crate::domain::offset::{GroupId, TopicPartition};
use crate::domain::refusal::Refusal;

/// Why and where a run of the guard looks. All empty: every configured group, as the schedule does.
#[derive(Debug, Default, Clone, Serialize)]
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

impl GuardEvent {
    /// Reads an event, or says everything that is wrong with it.
    ///
    /// # Errors
    /// One [`Refusal::InvalidRequest`] per fault.
    pub fn read(written: &Value) -> Result<Self, Vec<Refusal>> {
        let mut fields = Fields::new(object(written)?);
        let event = Self {
            scheduled_time: fields.text("scheduled_time", "a text").map(str::to_owned),
            cluster: fields.text("cluster", CLUSTER).map(str::to_owned),
            group: fields.text("group", GROUP).map(str::to_owned),
            incident: fields.text("incident", "a text").map(str::to_owned),
            ask: ask(&mut fields),
        };
        if event.group.is_none() && fields.has("ask") {
            fields.missing(
                "group",
                &["group"],
                "an ask is of one group; write its exact name",
            );
        }
        match fields.finish() {
            faults if faults.is_empty() => Ok(event),
            faults => Err(faults),
        }
    }

    /// Reads what an operator asks for: a group, and an ask where there is one. Who asks is for the caller to say.
    ///
    /// # Errors
    /// One [`Refusal::InvalidRequest`] per fault.
    pub fn read_request(written: &Value) -> Result<Self, Vec<Refusal>> {
        let mut fields = Fields::new(object(written)?);
        let cluster = fields.text("cluster", CLUSTER).map(str::to_owned);
        let group = group(&mut fields);
        let ask = ask(&mut fields);
        match (group, fields.finish()) {
            (Some(group), faults) if faults.is_empty() => Ok(Self {
                cluster,
                group: Some(group.0),
                ask,
                ..Self::default()
            }),
            (_, faults) => Err(faults),
        }
    }
}

/// What can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AskedAction {
    /// Pass over the record that stands in the way.
    SkipPoisonRecord,
    /// Go back by `rewind_record_count`, or into the log.
    RewindOffset,
}

const ACTIONS: [(&str, AskedAction); 2] = [
    ("skip_poison_record", AskedAction::SkipPoisonRecord),
    ("rewind_offset", AskedAction::RewindOffset),
];

/// A person's explicit request for one partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
    pub requested_by: String,
    /// Why.
    pub reason: String,
}

/// The ask of an event, noted with its faults.
fn ask(fields: &mut Fields<'_>) -> Option<GuardAsk> {
    const WRITE: &str = "{\"action\": \"skip_poison_record\", \"topic\": ..., \"partition\": ...}";
    match GuardAsk::read(fields.object("ask", WRITE)?) {
        Ok(ask) => Some(ask),
        Err(faults) => {
            fields.extend(faults);
            None
        }
    }
}

impl GuardAsk {
    /// Reads an ask, or says everything that is wrong with it.
    ///
    /// # Errors
    /// One [`Refusal::InvalidRequest`] per fault.
    pub fn read(written: &Map<String, Value>) -> Result<Self, Vec<Refusal>> {
        let mut fields = Fields::new(written);
        let ask = Self::of(&mut fields);
        match (ask, fields.finish()) {
            (Some(ask), faults) if faults.is_empty() => Ok(ask),
            (_, faults) => Err(faults),
        }
    }

    /// The ask, as far as it is right: every field is read, and every fault noted.
    fn of(fields: &mut Fields<'_>) -> Option<Self> {
        let action = action(fields);
        let topic = fields.required_text("topic", "the topic's exact name");
        if topic.is_some_and(|topic| topic.is_empty() || topic.len() > LONGEST_TOPIC) {
            let problem =
                format!("write the topic's exact name, of 1 to {LONGEST_TOPIC} characters");
            fields.wrong("topic", problem);
        }
        let partition = fields.required_whole("partition", 0..=i64::from(i32::MAX));
        let through = fields.whole("through", 0..=i64::MAX);
        if through.is_some() && action == Some(AskedAction::RewindOffset) {
            let problem = "only a skip passes over records; leave it out of a rewind";
            fields.wrong("through", problem);
        }
        let dry_run = fields.flag("dry_run");
        let requested_by = short_text(fields, "requested_by");
        let reason = short_text(fields, "reason");
        Some(Self {
            action: action?,
            topic: topic?.to_owned(),
            partition: i32::try_from(partition?).ok()?,
            through,
            dry_run,
            requested_by,
            reason,
        })
    }

    /// What the rules need to know of it.
    #[must_use]
    pub fn ask(&self) -> Ask {
        Ask {
            partition: TopicPartition::new(&self.topic, self.partition),
            action: match self.action {
                AskedAction::SkipPoisonRecord => RemediationAction::SkipPoisonRecord,
                AskedAction::RewindOffset => RemediationAction::RewindOffset,
            },
            through: self.through,
        }
    }
}

/// The fields that an ask may have.
#[must_use]
pub fn ask_fields() -> Vec<&'static str> {
    let nothing = Map::new();
    let mut fields = Fields::new(&nothing);
    GuardAsk::of(&mut fields);
    fields.asked().to_vec()
}

fn action(fields: &mut Fields<'_>) -> Option<AskedAction> {
    const WRITE: &str = "skip_poison_record or rewind_offset";
    let written = fields.required_text("action", WRITE)?;
    let known = ACTIONS.into_iter().find(|(name, _)| *name == written);
    if known.is_none() {
        let names = ACTIONS.iter().map(|(name, _)| *name);
        let problem = format!(
            "{}, and no action; {}",
            shown(&written.into()),
            instead(written, names, "write")
        );
        fields.wrong("action", problem);
    }
    known.map(|(_, action)| action)
}

/// Kafka's limit for a topic's name.
const LONGEST_TOPIC: usize = 249;

/// The run of the guard that an execution tells of: its input is `{"alert": …}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlertRef {
    /// The run.
    pub run_id: RunId,
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
        self.run_id.0.len() <= 64 && self.cluster.len() <= 100 && self.group.check().is_ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn faults(ask: Value) -> Vec<String> {
        let event = json!({"group": "g", "ask": ask});
        let faults = GuardEvent::read(&event).unwrap_err();
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_fault_of_an_ask_is_named_with_what_to_write() {
        let whole = |to: i64| format!("write a whole number from 0 to {to}, without quotes");
        for (ask, says) in [
            (
                json!({"action": "skip_poison_recrod", "topic": "t", "partition": "3"}),
                vec![
                    "action: \"skip_poison_recrod\" is a text, and no action; did you mean `skip_poison_record`?".to_owned(),
                    format!("partition: \"3\" is a text; {}", whole(i64::from(i32::MAX))),
                ],
            ),
            (
                json!({"action": "rewind_offset", "topic": "t", "partition": 3_000_000_000_u64, "dryrun": true}),
                vec![
                    format!("partition: 3000000000 is a number; {}", whole(i64::from(i32::MAX))),
                    "dryrun: there is no such field; did you mean \"dry_run\"?".to_owned(),
                ],
            ),
            (
                json!({"action": "skip_poison_record", "topic": "", "partition": 0, "through": 1.5}),
                vec![
                    "topic: write the topic's exact name, of 1 to 249 characters".to_owned(),
                    format!("through: 1.5 has a fraction; {}", whole(i64::MAX)),
                ],
            ),
        ] {
            assert_eq!(faults(ask.clone()), says, "{ask}");
        }
    }

    #[test]
    fn an_event_is_read_as_it_is_written_and_no_field_is_passed_over() {
        let event = GuardEvent {
            cluster: Some("main".to_owned()),
            group: Some("g".to_owned()),
            incident: Some("GROUP#main#g#R".to_owned()),
            ask: Some(GuardAsk {
                action: AskedAction::SkipPoisonRecord,
                topic: "t".to_owned(),
                partition: 3,
                through: Some(i64::MAX),
                dry_run: Some(false),
                requested_by: "ada".to_owned(),
                reason: "why".to_owned(),
            }),
            scheduled_time: None,
        };
        let written = json!(event);
        let read = GuardEvent::read(&written).unwrap();
        assert_eq!(json!(read), written);
        let of_an_operator = GuardEvent::read_request(&written).unwrap_err();
        assert!(
            of_an_operator[0]
                .to_string()
                .starts_with("incident: there is no such field")
        );
        let alone = GuardEvent::read(
            &json!({"ask": {"action": "rewind_offset", "topic": "t", "partition": 0}}),
        );
        assert!(
            alone.unwrap_err()[0]
                .to_string()
                .starts_with("group: an ask is of one group")
        );
    }
}
