//! How a recovery stands, for operators and their programs.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::answer::Answer;
use super::deps::WebhookDeps;
use super::fault::ApiFault;
use crate::app::asker::{Asker, is_key};
use crate::app::find_recovery::{FoundRecovery, find_recovery};
use crate::config::{Config, Sender};
use crate::domain::audit::Audit;
use crate::domain::offset::GroupId;
use crate::domain::plan::{PlanRecord, PlanResult};
use crate::domain::reasons;
use crate::domain::recovery::Recovery;
use crate::domain::recovery::progress::{Progress, RecoveryEnd, StoredPlan, StoredRecovery};
use crate::ports::ExecutionStatus;

/// Shows a recovery to an operator who may name its group: one that this asker asked for under the key `id`, or the one
/// of the plan `id`. To all others it is as unknown as one that never was.
pub(super) async fn show_recovery(
    operator: &Sender,
    asker: Asker<'_>,
    id: &str,
    deps: &WebhookDeps,
) -> Result<Answer, ApiFault> {
    if !is_key(id) {
        return Err(ApiFault::NoRecovery);
    }
    let found = find_recovery(deps.finding(), asker, id).await?;
    let FoundRecovery {
        execution,
        plan,
        recovery,
        audit,
    } = found.ok_or(ApiFault::NoRecovery)?;
    match &plan {
        Some(plan) if operator.may_name(&plan.cluster, &plan.group) => {}
        Some(_) => return Err(ApiFault::NoRecovery),
        // An audit record has the cluster's id. Its name, which the sender's list goes by, is in the input alone.
        None => {
            let input = execution.input.as_ref();
            may_see(operator, input.unwrap_or(&Value::Null), &deps.config)?;
        }
    }
    let progress = progress_of(plan.as_ref(), recovery.as_ref(), audit.as_ref());
    let runs = execution.status == ExecutionStatus::Running;
    let stage = word_of(&progress, audit.is_some(), runs);
    let answer = Answer::new(200, stage, said(stage, audit.as_ref()))
        .with("id", id)
        .with("execution", json!(word(execution.status)))
        .with("started_at", json!(execution.started_at));
    let answer = match &plan {
        Some(plan) => answer
            .with("plan", json!(plan.id))
            .with("cluster", plan.cluster.as_str())
            .with("group", plan.group.0.as_str())
            .with("dry_run", plan.dry_run)
            .with("requested_by", plan.requested_by.as_str()),
        None => answer,
    };
    Ok(match audit {
        Some(audit) => answer.with("result", result(&audit)),
        None => answer,
    })
}

/// Whether an execution that has no plan is about a group that the operator may name. To all others it is as unknown as
/// one that never was.
pub(super) fn may_see(operator: &Sender, input: &Value, config: &Config) -> Result<(), ApiFault> {
    let about = Some(&input["request"]).filter(|about| about.is_object());
    let about = about.ok_or(ApiFault::NoRecovery)?;
    let only = config.cluster(None).map(|cluster| cluster.name.as_str());
    match (about["cluster"].as_str().or(only), about["group"].as_str()) {
        (Some(cluster), Some(group)) if operator.may_name(cluster, &GroupId(group.to_owned())) => {
            Ok(())
        }
        _ => Err(ApiFault::NoRecovery),
    }
}

/// How far it has come.
fn progress_of(
    plan: Option<&PlanRecord>,
    recovery: Option<&Recovery>,
    audit: Option<&Audit>,
) -> Progress {
    Progress::of(StoredRecovery {
        plan: match plan.map(|plan| &plan.result) {
            Some(PlanResult::Ready(_)) => StoredPlan::Ready,
            Some(PlanResult::NothingToDo(_)) => StoredPlan::NothingToDo,
            Some(PlanResult::Refused(_)) => StoredPlan::Refused,
            None => StoredPlan::Missing,
        },
        approval: None,
        recovery,
        outcome: recovery.and_then(|r| r.outcome.as_ref()),
        may_have_sent: recovery.is_some_and(|r| r.apply_until.is_some()),
        is_over: audit.is_some(),
    })
}

/// The word for how far it has come. `runs`: its execution does.
pub(crate) fn word_of(progress: &Progress, is_reported: bool, runs: bool) -> &'static str {
    if is_reported {
        return "ENDED";
    }
    match progress {
        Progress::Ended(RecoveryEnd::Superseded) => "SUPERSEDED",
        // The sweep finds it, and writes its last word.
        _ if !runs => "ENDED_WITHOUT_REPORT",
        Progress::Planning => "PLANNING",
        Progress::Planned => "PLANNED",
        Progress::WaitingForApproval => "WAITING_FOR_APPROVAL",
        Progress::Approved | Progress::Admitted(_) => "APPROVED",
        Progress::Applying => "APPLYING",
        // What it came to is known, and its report is under way.
        Progress::Verifying | Progress::Fenced | Progress::Ended(_) => "VERIFYING",
    }
}

fn said(stage: &str, audit: Option<&Audit>) -> String {
    let line = match stage {
        "ENDED" => audit.map_or("", |audit| audit.message.as_str()),
        "ENDED_WITHOUT_REPORT" => {
            "the execution ended before its report; the sweep puts that right"
        }
        "SUPERSEDED" => {
            "another plan, which somebody asked for, took its place; no offset was changed"
        }
        "PLANNING" => "the plan is being made",
        "PLANNED" => "the plan is made",
        "WAITING_FOR_APPROVAL" => "nothing is changed before a person approves the plan",
        "APPROVED" => "it is approved, and waits until the group is at rest",
        "APPLYING" => "the offsets are being changed",
        _ => "what is committed now is being compared with the plan",
    };
    line.to_owned()
}

fn word(status: ExecutionStatus) -> &'static str {
    match status {
        ExecutionStatus::Running => "RUNNING",
        ExecutionStatus::Succeeded => "SUCCEEDED",
        ExecutionStatus::Failed => "FAILED",
        ExecutionStatus::TimedOut => "TIMED_OUT",
        ExecutionStatus::Aborted => "ABORTED",
        ExecutionStatus::Unknown => "UNKNOWN",
    }
}

/// The last word, without the partitions and with the foremost refusals alone: there may be thousands of both.
pub(super) fn result(audit: &Audit) -> Value {
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    for partition in &audit.partitions {
        let outcome = partition.outcome.as_ref().map(|outcome| json!(outcome));
        let outcome = match &outcome {
            Some(Value::String(word)) => word.clone(),
            Some(Value::Object(tagged)) => tagged.keys().next().cloned().unwrap_or_default(),
            _ => "NOT_VERIFIED".to_owned(),
        };
        *outcomes.entry(outcome).or_default() += 1;
    }
    json!({
        "status": audit.status,
        "code": audit.code,
        "message": audit.message,
        "ended_at": audit.at,
        "decided_by": audit.decided_by,
        "decided_at": audit.decided_at,
        "outcome": audit.outcome,
        "partitions": outcomes,
        "refusals": reasons::foremost(&audit.refusals).into_iter().map(|refusal| json!({
            "refusal": refusal, "message": refusal.to_string(),
        })).collect::<Vec<_>>(),
        "refusals_by_code": reasons::by_code(&audit.refusals).into_iter().collect::<BTreeMap<_, _>>(),
    })
}
