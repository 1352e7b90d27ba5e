//! What crosses the border: the events that the functions take and the requests that people write.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::domain::checkpoint::CheckpointId;
use crate::domain::identity::Requester;
use crate::domain::offset::{GroupId, TopicPartition};
use crate::domain::plan::PlanId;
use crate::domain::refusal::Refusal;
use crate::domain::request::{Allowances, ResetSpec, RewindRequest, Selection};

pub mod guard;

/// The event of the `checkpoint` function.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointEvent {
    /// When the schedule meant the run to be, RFC 3339; a run delivered twice carries it twice.
    pub scheduled_time: Option<String>,
    /// Only this cluster, by its name in the configuration.
    pub cluster: Option<String>,
    /// Only this group.
    pub group: Option<String>,
}

/// One step of a recovery that reads or writes Kafka.
#[derive(Debug, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum RewindStep {
    /// Make or take over a plan and claim its group.
    Plan {
        /// The execution's ARN.
        execution: String,
        /// When it started.
        started_at: Timestamp,
        /// The execution's input: `{"request": …}` or `{"plan_id": …}`.
        input: Value,
    },
    /// See whether the group is at rest.
    Observe(PlanStep),
    /// Change the offsets.
    Apply(PlanStep),
    /// Prove what was changed.
    Verify(PlanStep),
}

/// What most steps need to know.
#[derive(Debug, Deserialize)]
pub struct PlanStep {
    /// The execution's ARN.
    pub execution: String,
    /// The plan.
    pub plan_id: PlanId,
}

/// One step of a recovery that deals with people, or with other executions.
#[derive(Debug, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum ApprovalStep {
    /// Store the token and tell the approver.
    Request {
        /// The execution's ARN.
        execution: String,
        /// The plan.
        plan_id: PlanId,
        /// The token that ends the wait.
        task_token: TaskToken,
    },
    /// Read what was decided and let the execution go on, or not.
    Admit(PlanStep),
    /// See whether the recovery that the execution's input names is one that may be ended for another.
    Confirm {
        /// The execution's ARN.
        execution: String,
        /// What its input says, which proves nothing: see [`Reconcile`].
        reconcile: Value,
    },
    /// Write the audit record, tell the people, release the group.
    Report {
        /// The execution's ARN.
        execution: String,
        /// When it started.
        started_at: Option<Timestamp>,
        /// The execution's state so far.
        #[serde(default)]
        state: Box<ReportState>,
    },
    /// Deliver decisions that got lost and end recoveries whose execution is gone.
    Sweep {
        /// Only what belongs to this execution, which just ended.
        execution: Option<String>,
    },
}

pub use crate::store::TaskToken;

/// What an execution is for, by its input. Where that names several, the first of these counts, in this order, which is
/// that of the state machine's first state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked<'a> {
    /// To end the recovery of another execution: a [`Reconcile`], if it can be believed.
    Reconcile(&'a Value),
    /// To tell what the guard found: a [`guard::AlertRef`], if it is one.
    Alert(&'a Value),
    /// To execute a plan that was made before, by its id.
    Plan(&'a Value),
    /// To plan a request.
    Request(&'a Value),
    /// Nothing that is known.
    Nothing,
}

impl<'a> Asked<'a> {
    /// What `input` asks for.
    #[must_use]
    pub fn of(input: &'a Map<String, Value>) -> Self {
        let key = |key| input.get(key);
        let mut asked = [
            key("reconcile").map(Self::Reconcile),
            key("alert").map(Self::Alert),
            key("plan_id").map(Self::Plan),
            key("request").map(Self::Request),
        ]
        .into_iter()
        .flatten();
        asked.next().unwrap_or(Self::Nothing)
    }
}

/// As much of an execution's state as the report needs. The plan and its fate are read from the table.
#[derive(Debug, Default, Deserialize)]
pub struct ReportState {
    /// What the plan step answered.
    pub plan: Option<PlanAnswer>,
    /// The caught error of the plan, approval or admission step.
    pub error: Option<StepError>,
    /// That of the wait for Empty.
    pub observe_error: Option<StepError>,
    /// That of Apply.
    pub apply_error: Option<StepError>,
    /// That of Verify.
    pub verify_error: Option<StepError>,
    /// Everything else, and in it the one key of the input that the machine's first states let through.
    #[serde(flatten)]
    pub input: Map<String, Value>,
}

impl ReportState {
    /// The error that says most about how the execution came to its end: the latest.
    #[must_use]
    pub fn last_error(&self) -> Option<&StepError> {
        self.verify_error
            .as_ref()
            .or(self.apply_error.as_ref())
            .or(self.observe_error.as_ref())
            .or(self.error.as_ref())
    }
}

/// The error that a `Catch` put into the state.
#[derive(Debug, Deserialize)]
pub struct StepError {
    /// The error's name.
    #[serde(rename = "Error", default)]
    pub error: String,
    /// Its text.
    #[serde(rename = "Cause", default)]
    pub cause: String,
}

impl StepError {
    /// The error in a line: a function's own words, which Step Functions wraps as JSON.
    #[must_use]
    pub fn text(&self) -> String {
        let wrapped: Option<Value> = serde_json::from_str(&self.cause).ok();
        let said = wrapped.as_ref().and_then(|w| w["errorMessage"].as_str());
        match said.unwrap_or(&self.cause) {
            "" => self.error.clone(),
            said => format!("{}: {said}", self.error),
        }
    }
}

/// Whose recovery is to be ended. Anybody who may start an execution can write one, so it is believed only after the
/// table and Step Functions were asked (`app::reconcile`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reconcile {
    /// Its plan.
    pub plan_id: PlanId,
    /// Its execution, which is gone.
    pub execution: String,
}

/// What the plan step decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanVerdict {
    /// A plan waits for its approval.
    NeedsApproval,
    /// No.
    Refused,
    /// Everything is where it should be.
    NothingToDo,
    /// A plan was made, and that was all that was asked for.
    DryRun,
}

/// The plan step's answer: ids and a line, never the plan (states carry at most 256 KiB).
#[derive(Debug, Serialize, Deserialize)]
pub struct PlanAnswer {
    /// What was decided.
    pub verdict: PlanVerdict,
    /// The plan's record.
    pub plan_id: PlanId,
    /// The plan's digest, where there is a plan.
    pub digest: Option<String>,
    /// One line for the execution's history.
    pub summary: String,
}

/// One offset of `to_offsets`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OffsetOf {
    topic: String,
    partition: i32,
    offset: i64,
}

/// A request as a person or a tool writes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRequest {
    cluster: Option<String>,
    group: String,
    rewind_before: Option<String>,
    checkpoint_id: Option<String>,
    to_datetime: Option<String>,
    by_duration: Option<String>,
    to_offsets: Option<Vec<OffsetOf>>,
    shift_by: Option<i64>,
    to_earliest: Option<bool>,
    undo: Option<String>,
    topics: Option<Vec<String>>,
    dry_run: Option<bool>,
    #[serde(default)]
    allow_clamp: bool,
    #[serde(default)]
    allow_forward: bool,
    #[serde(default)]
    restore_missing: bool,
    #[serde(default)]
    allow_stateful: bool,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    requested_by: String,
}

/// The targets that a request can have, as they are written.
const TARGETS: &str = "rewind_before, checkpoint_id, to_datetime, by_duration, to_offsets, shift_by, to_earliest or undo";

/// Longer texts are not for people.
pub const LONGEST_TEXT: usize = 500;

/// Reads a request, or says everything that is wrong with it.
///
/// `only_cluster` is meant where the request names none.
///
/// # Errors
/// One [`Refusal::InvalidRequest`] a fault.
pub fn parse_request(
    written: &Value,
    only_cluster: Option<&str>,
) -> Result<RewindRequest, Vec<Refusal>> {
    if !written.is_object() {
        let problem =
            "the input has none; write {\"request\": {\"group\": ..., \"rewind_before\": ...}}";
        return Err(vec![invalid("request", problem)]);
    }
    let written: WrittenRequest = serde_json::from_value(written.clone())
        .map_err(|error| vec![invalid("request", error.to_string())])?;
    let mut wrong = Vec::new();
    let target = target(&written, &mut wrong);
    let selection = selection(written.topics.as_deref(), &mut wrong);
    let cluster = written
        .cluster
        .or_else(|| only_cluster.map(str::to_owned))
        .unwrap_or_else(|| {
            let problem = "several clusters are configured; name one of them";
            wrong.push(invalid("cluster", problem));
            String::new()
        });
    if written.group.is_empty() || written.group.chars().count() > LONGEST_TEXT {
        wrong.push(invalid("group", "write the group's exact name"));
    }
    for (field, text) in [
        ("reason", &written.reason),
        ("requested_by", &written.requested_by),
    ] {
        if text.chars().count() > LONGEST_TEXT {
            let problem = format!("at most {LONGEST_TEXT} characters");
            wrong.push(invalid(field, problem));
        }
    }
    match target {
        Some(target) if wrong.is_empty() => Ok(RewindRequest {
            cluster,
            group: GroupId(written.group),
            target,
            selection,
            allow: Allowances {
                clamp: written.allow_clamp,
                forward: written.allow_forward,
                restore_missing: written.restore_missing,
                stateful: written.allow_stateful,
            },
            dry_run: written.dry_run.unwrap_or(true),
            reason: written.reason,
            requested_by: written.requested_by,
            // Whoever writes a request can write anything.
            requester: Requester::Unverified,
        }),
        _ => Err(wrong),
    }
}

/// What tells one request from all others: who asked is noted with it, and found again by it.
#[must_use]
pub fn request_hash(written: &Value) -> String {
    // Keys come sorted, whoever wrote them in which order.
    HEXLOWER.encode(&Sha256::digest(written.to_string()))
}

fn invalid(field: &str, problem: impl Into<String>) -> Refusal {
    Refusal::InvalidRequest {
        field: field.to_owned(),
        problem: problem.into(),
    }
}

/// The one target, or a fault for none, for several, and for one that cannot be read.
fn target(written: &WrittenRequest, wrong: &mut Vec<Refusal>) -> Option<ResetSpec> {
    let mut found: Vec<Option<ResetSpec>> = Vec::new();
    let mut instant = |field: &str, text: &str| match text.parse::<Timestamp>() {
        Ok(at) => Some(at),
        Err(_) => {
            wrong.push(invalid(
                field,
                format!(
                    "{text:?} is no RFC 3339 instant with a zone; \
                     write 2026-11-30T10:00:00Z or 2026-11-30T15:30:00+05:30"
                ),
            ));
            None
        }
    };
    if let Some(text) = &written.rewind_before {
        found.push(instant("rewind_before", text).map(ResetSpec::RewindBefore));
    }
    if let Some(text) = &written.to_datetime {
        found.push(instant("to_datetime", text).map(ResetSpec::ToDatetime));
    }
    if let Some(id) = &written.checkpoint_id {
        found.push(Some(ResetSpec::Checkpoint(CheckpointId(id.clone()))));
    }
    if let Some(text) = &written.by_duration {
        // As Kafka's own tool does: P1D is 24 hours.
        let duration = text
            .parse::<Span>()
            .and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()));
        found.push(match duration {
            Ok(duration) if duration > SignedDuration::ZERO => {
                Some(ResetSpec::ByDuration(duration))
            }
            Ok(_) | Err(_) => {
                let problem = format!("{text:?} is no positive duration; write PT2H30M or P1DT12H");
                wrong.push(invalid("by_duration", problem));
                None
            }
        });
    }
    if let Some(offsets) = &written.to_offsets {
        found.push(to_offsets(offsets, wrong));
    }
    if let Some(by) = written.shift_by {
        found.push(Some(ResetSpec::ShiftBy(by)));
    }
    match written.to_earliest {
        Some(true) => found.push(Some(ResetSpec::ToEarliest)),
        Some(false) => wrong.push(invalid("to_earliest", "write true, or leave it out")),
        None => {}
    }
    if let Some(plan) = &written.undo {
        found.push(Some(ResetSpec::Undo(PlanId(plan.clone()))));
    }
    if found.len() != 1 {
        let problem = format!(
            "{} targets are given; give exactly one of {TARGETS}",
            found.len()
        );
        wrong.push(invalid("request", problem));
        return None;
    }
    found.pop().flatten()
}

fn to_offsets(offsets: &[OffsetOf], wrong: &mut Vec<Refusal>) -> Option<ResetSpec> {
    let mut targets = BTreeMap::new();
    let before = wrong.len();
    for OffsetOf {
        topic,
        partition,
        offset,
    } in offsets
    {
        let partition = TopicPartition::new(topic.clone(), *partition);
        if *offset < 0 {
            let problem = format!("{partition}: {offset} is no offset; write 0 or more");
            wrong.push(invalid("to_offsets", problem));
        } else if targets.insert(partition.clone(), *offset).is_some() {
            wrong.push(invalid(
                "to_offsets",
                format!("{partition} stands there twice"),
            ));
        }
    }
    if targets.is_empty() && wrong.len() == before {
        wrong.push(invalid(
            "to_offsets",
            "name at least one topic, partition and offset",
        ));
    }
    Some(ResetSpec::ToOffsets(targets)).filter(|_| wrong.len() == before)
}

/// `orders` or `orders:0,3`, as Kafka's own tool takes them.
fn selection(topics: Option<&[String]>, wrong: &mut Vec<Refusal>) -> Selection {
    let Some(topics) = topics else {
        return Selection::All;
    };
    if topics.is_empty() {
        wrong.push(invalid(
            "topics",
            "name at least one topic, or leave it out for all",
        ));
    }
    let mut selected: BTreeMap<String, Option<Vec<i32>>> = BTreeMap::new();
    for written in topics {
        let (topic, partitions) = match written.split_once(':') {
            None => (written.as_str(), None),
            Some((topic, list)) => {
                let list: Result<Vec<i32>, _> = list.split(',').map(str::parse).collect();
                match list {
                    Ok(list) => (topic, Some(list)),
                    Err(_) => {
                        let problem =
                            format!("{written:?} is no topic; write orders or orders:0,3");
                        wrong.push(invalid("topics", problem));
                        continue;
                    }
                }
            }
        };
        match (selected.get_mut(topic), partitions) {
            (Some(Some(known)), Some(more)) => known.extend(more),
            (Some(known), None) => *known = None,
            (Some(None), Some(_)) => {}
            (None, partitions) => {
                selected.insert(topic.to_owned(), partitions);
            }
        }
    }
    Selection::Only(selected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn faults(request: Value) -> Vec<String> {
        parse_request(&request, Some("main"))
            .unwrap_err()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn the_state_machines_first_state_and_the_code_go_by_the_same_key() {
        let machine: Value =
            serde_json::from_str(include_str!("../../infra/recovery.asl.json")).unwrap();
        let first = machine["StartAt"].as_str().unwrap();
        let choices = machine["States"][first]["Choices"].as_array().unwrap();
        let keys = choices.iter().map(|choice| {
            let variable = choice["Variable"].as_str().unwrap();
            variable.strip_prefix("$.").unwrap()
        });
        // Whatever else is there, and whatever a key holds, the first of the keys counts, as with `IsPresent`.
        let mut input: Map<String, Value> = keys.map(|key| (key.to_owned(), Value::Null)).collect();
        input.insert("error".to_owned(), json!({"Error": "planted"}));
        let keys: Vec<_> = choices
            .iter()
            .map(|choice| choice["Variable"].clone())
            .collect();
        let mut asked = Vec::new();
        while let Some(key) = match Asked::of(&input) {
            Asked::Reconcile(_) => Some("reconcile"),
            Asked::Alert(_) => Some("alert"),
            Asked::Plan(_) => Some("plan_id"),
            Asked::Request(_) => Some("request"),
            Asked::Nothing => None,
        } {
            asked.push(json!(format!("$.{key}")));
            input.remove(key);
        }
        assert_eq!(asked, keys);
    }

    #[test]
    fn a_report_reads_whatever_the_one_key_of_the_input_holds() {
        for written in [json!(5), json!(null), json!({"plan_id": 7}), json!(["x"])] {
            for key in ["reconcile", "alert", "plan_id", "request"] {
                let state = json!({ key: written, "confirm": {"confirmed": false} });
                let state: ReportState = serde_json::from_value(state).unwrap();
                assert_eq!(state.input[key], written);
                assert_ne!(Asked::of(&state.input), Asked::Nothing);
            }
        }
    }

    #[test]
    fn a_dry_run_is_what_is_asked_for_unless_the_request_says_otherwise() {
        let request = json!({"group": "g", "rewind_before": "2026-11-30T10:00:00+05:30"});
        let parsed = parse_request(&request, Some("main")).unwrap();
        assert!(parsed.dry_run);
        assert_eq!(parsed.cluster, "main");
        let at = "2026-11-30T04:30:00Z".parse().unwrap();
        assert_eq!(parsed.target, ResetSpec::RewindBefore(at));
    }

    #[test]
    fn a_time_without_a_zone_is_answered_with_how_to_write_it() {
        let faults = faults(json!({"group": "g", "rewind_before": "2026-11-30T10:00:00"}));
        assert_eq!(faults.len(), 1);
        assert!(
            faults[0].contains("write 2026-11-30T10:00:00Z"),
            "{faults:?}"
        );
    }

    #[test]
    fn a_duration_may_have_days_as_kafkas_own_tool_writes_them() {
        let target = |text: &str| {
            let request = json!({"group": "g", "by_duration": text});
            parse_request(&request, Some("main")).map(|request| request.target)
        };
        let hours = |hours| Ok(ResetSpec::ByDuration(SignedDuration::from_hours(hours)));
        assert_eq!(target("P1D"), hours(24));
        assert_eq!(target("P1DT12H"), hours(36));
        assert_eq!(target("PT2H"), hours(2));
        for wrong in ["P1M", "-P1D", "PT0S", "yesterday", "P99999999999D"] {
            assert!(target(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_input_without_a_request_is_answered_with_how_to_write_one() {
        assert!(faults(Value::Null)[0].contains("{\"request\": {"));
        assert!(faults(json!("g"))[0].contains("{\"request\": {"));
    }

    #[test]
    fn a_functions_error_is_told_in_its_own_words() {
        let told = |error: Value| serde_json::from_value::<StepError>(error).unwrap().text();
        let wrapped = r#"{"errorType":"OffsetGuard.Internal","errorMessage":"the table failed"}"#;
        assert_eq!(
            told(json!({"Error": "OffsetGuard.Internal", "Cause": wrapped})),
            "OffsetGuard.Internal: the table failed"
        );
        assert_eq!(told(json!({"Error": "States.Timeout"})), "States.Timeout");
        let plain = json!({"Error": "OffsetGuard.ApprovalExpired", "Cause": "nobody decided"});
        assert_eq!(told(plain), "OffsetGuard.ApprovalExpired: nobody decided");
    }

    #[test]
    fn exactly_one_target() {
        assert!(faults(json!({"group": "g"}))[0].starts_with("request: 0 targets"));
        let two = json!({"group": "g", "shift_by": -1, "to_earliest": true});
        assert!(faults(two)[0].starts_with("request: 2 targets"));
    }

    #[test]
    fn an_unknown_field_is_an_error_that_names_the_known_ones() {
        let faults = faults(json!({"group": "g", "rewind_befor": "2026-11-30T10:00:00Z"}));
        assert!(faults[0].contains("rewind_befor"), "{faults:?}");
        assert!(faults[0].contains("rewind_before"), "{faults:?}");
    }

    #[test]
    fn every_fault_is_named_at_once() {
        let request = json!({
            "group": "", "to_offsets": [
                {"topic": "t", "partition": 0, "offset": -1},
                {"topic": "t", "partition": 1, "offset": 1},
                {"topic": "t", "partition": 1, "offset": 2},
            ], "topics": ["t:x"], "reason": "r".repeat(501),
        });
        let faults = faults(request);
        assert_eq!(faults.len(), 5, "{faults:#?}");
    }

    #[test]
    fn topics_are_selected_as_kafkas_own_tool_does() {
        let request = json!({
            "group": "g", "shift_by": -1, "topics": ["a", "b:0,3", "b:4", "a:1"],
        });
        let parsed = parse_request(&request, Some("main")).unwrap();
        let wanted = [
            ("a".to_owned(), None),
            ("b".to_owned(), Some(vec![0, 3, 4])),
        ];
        assert_eq!(parsed.selection, Selection::Only(wanted.into()));
    }

    #[test]
    fn a_request_has_one_hash_however_it_is_written() {
        let one: Value = serde_json::from_str(r#"{"group": "a", "shift_by": -3}"#).unwrap();
        let other: Value = serde_json::from_str(r#"{ "shift_by":-3,"group":"a" }"#).unwrap();
        assert_eq!(request_hash(&one), request_hash(&other));
        let more: Value = serde_json::from_str(r#"{"group": "a", "shift_by": -4}"#).unwrap();
        assert_ne!(request_hash(&one), request_hash(&more));
    }
}
