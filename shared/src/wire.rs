//! What crosses the border: the events that the functions take and the requests that people write.

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use self::fields::{Fields, invalid};
use crate::domain::ids::{ExecutionArn, PlanId};
use crate::domain::refusal::Refusal;

mod fields;
pub mod guard;
mod request;

pub use request::{parse_request, request_fields};

/// The event of the `checkpoint` function.
#[derive(Debug, Default)]
pub struct CheckpointEvent {
    /// When the schedule meant the run to be, RFC 3339; a run delivered twice carries it twice.
    pub scheduled_time: Option<String>,
    /// Only this cluster, by its name in the configuration.
    pub cluster: Option<String>,
    /// Only this group.
    pub group: Option<String>,
}

impl CheckpointEvent {
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
        };
        match fields.finish() {
            faults if faults.is_empty() => Ok(event),
            faults => Err(faults),
        }
    }
}

const CLUSTER: &str = "a cluster's name in the configuration";
const GROUP: &str = "the group's exact name";

fn object(written: &Value) -> Result<&Map<String, Value>, Vec<Refusal>> {
    let object = written.as_object();
    object.ok_or_else(|| vec![invalid("the event", "write a JSON object")])
}

/// One step of a recovery that reads or writes Kafka.
#[derive(Debug, Deserialize, strum::VariantNames)]
#[serde(tag = "step", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum RewindStep {
    /// Make or take over a plan and claim its group.
    Plan {
        /// The execution's ARN.
        execution: ExecutionArn,
        /// When it started.
        started_at: Timestamp,
        /// The execution's input: `{"request": …}` or `{"plan_id": …}`.
        input: Value,
    },
    /// See whether the group is at rest.
    Observe(PlanStep),
    /// Ask what the applying principal may do.
    CheckRights(PlanStep),
    /// Change the offsets.
    Apply(PlanStep),
    /// Prove what was changed.
    Verify(PlanStep),
}

/// What most steps need to know.
#[derive(Debug, Deserialize)]
pub struct PlanStep {
    /// The execution's ARN.
    pub execution: ExecutionArn,
    /// The plan.
    pub plan_id: PlanId,
}

/// One step of a recovery that deals with people, or with other executions.
#[derive(Debug, Deserialize, strum::VariantNames)]
#[serde(tag = "step", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ApprovalStep {
    /// Store the token and tell the approver.
    Request {
        /// The execution's ARN.
        execution: ExecutionArn,
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
        execution: ExecutionArn,
        /// What its input says, which proves nothing: see [`Reconcile`].
        reconcile: Value,
    },
    /// Write the audit record, tell the people, release the group.
    Report {
        /// The execution's ARN.
        execution: ExecutionArn,
        /// When it started.
        started_at: Option<Timestamp>,
        /// The execution's state so far.
        #[serde(default)]
        state: Box<ReportState>,
    },
    /// Deliver decisions that got lost and end recoveries whose execution is gone.
    Sweep {
        /// Only what belongs to this execution, which just ended.
        execution: Option<ExecutionArn>,
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
    pub execution: ExecutionArn,
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

/// Longer texts are not for people.
pub const LONGEST_TEXT: usize = 500;

/// What tells one request from all others: who asked is noted with it, and found again by it.
#[must_use]
pub fn request_hash(written: &Value) -> String {
    // Keys come sorted, whoever wrote them in which order.
    HEXLOWER.encode(&Sha256::digest(written.to_string()))
}

/// The request in what is sent for a rewind: the state machine's own input, which holds nothing else.
///
/// # Errors
/// One [`Refusal::InvalidRequest`] per fault.
pub fn request_in(written: &Value) -> Result<Map<String, Value>, Vec<Refusal>> {
    const WRITE: &str = "{\"request\": {\"group\": ..., \"rewind_before\": ...}}";
    let mut fields = Fields::new(object(written)?);
    let request = fields.object("request", WRITE).cloned();
    if !fields.has("request") {
        fields.missing(
            "request",
            &["request"],
            &format!("it is missing; write {WRITE}"),
        );
    }
    match (request, fields.finish()) {
        (Some(request), faults) if faults.is_empty() => Ok(request),
        (_, faults) => Err(faults),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
    fn a_request_has_one_hash_however_it_is_written() {
        let one: Value = serde_json::from_str(r#"{"group": "a", "shift_by": -3}"#).unwrap();
        let other: Value = serde_json::from_str(r#"{ "shift_by":-3,"group":"a" }"#).unwrap();
        assert_eq!(request_hash(&one), request_hash(&other));
        let more: Value = serde_json::from_str(r#"{"group": "a", "shift_by": -4}"#).unwrap();
        assert_ne!(request_hash(&one), request_hash(&more));
    }
}
