//! Who may end another execution's recovery: a table of the local AWS, and a stand-in for Step Functions.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use offset_guard::app::context::Context;
use offset_guard::app::reconcile::{self, Confirmed};
use offset_guard::app::report::{self, Reported};
use offset_guard::app::{alert, plan_id as own_plan, sweep, verify};
use offset_guard::domain::approval::ApprovalStatus;
use offset_guard::domain::audit::AuditStatus;
use offset_guard::domain::ids::ExecutionArn;
use offset_guard::domain::plan::PlanResult;
use offset_guard::domain::recovery::{Claim, Outcome, Recovery};
use offset_guard::error::Error;
use offset_guard::failure::ErrorClass;
use offset_guard::store::{Closed, Opened, Reporter, Store};
use offset_guard::wire::PlanStep;
use offset_guard_tests::context::{Connect, context, context_without_cluster};
use offset_guard_tests::step_functions::{MACHINE, STARTED, SimulatedStepFunctions};
use serde_json::{Value, json};

use super::approvals::{request, status};
use super::audits::audit;
use super::support::{
    Kind, Table, at, claim, execution, group_key, key_of, on_both_tables, plan, plan_id, record,
    recovery,
};

/// An execution of nobody's.
const INTRUDER: &str = "arn:aws:states:us-east-1:000000000000:execution:recovery:intruder";

/// A recovery that waits for its approval, and what is around it.
struct Case {
    table: Table,
    store: Store,
    aws: SimulatedStepFunctions,
}

impl Case {
    /// The recovery of the plan and the execution `1`, opened at `opened_at`.
    async fn opened_at(on: Kind, opened_at: Timestamp) -> Self {
        let table = Table::new(on).await;
        let store = table.store();
        let case = Self {
            store,
            table,
            aws: SimulatedStepFunctions::start().await.unwrap(),
        };
        let stored = record(1, PlanResult::Ready(plan(plan_id(1), 3)));
        case.store.put_plan(&stored).await.unwrap();
        let opened = Recovery {
            opened_at,
            ..recovery(1)
        };
        let held = claim(1, at(1000));
        let opened = case.store.open_recovery(&opened, &held, at(0));
        assert_eq!(opened.await.unwrap(), Opened::Yes);
        request(&case.store, 1).await;
        case
    }

    async fn new(on: Kind) -> Self {
        Self::opened_at(on, Timestamp::now()).await
    }

    fn context(&self) -> Context {
        Context {
            executions: Arc::new(self.aws.executions()),
            ..context_without_cluster(&self.store)
        }
    }

    async fn confirm(&self, execution: &str, written: &Value) -> bool {
        let ctx = self.context();
        let confirmed = reconcile::confirm_reconcile(&ctx, &execution.into(), written).await;
        let Confirmed { confirmed } = confirmed.unwrap();
        confirmed
    }

    async fn report(&self, execution: &str, state: Value) -> Reported {
        let state = serde_json::from_value(state).unwrap();
        let started_at = Some(at(0));
        report::report_execution(&self.context(), &execution.into(), started_at, &state)
            .await
            .unwrap()
    }

    async fn verify(&self, execution: &str) -> Result<verify::Verified, Error> {
        let step = PlanStep {
            execution: execution.into(),
            plan_id: plan_id(1),
        };
        let Context { config, .. } = self.context();
        // Nothing was sent, so no broker has to be asked.
        let ctx = context(config, &self.store, Connect::nowhere());
        verify::verify_plan(&ctx, &step).await
    }

    async fn sweep(&self, execution: Option<&ExecutionArn>) -> Result<sweep::Swept, Error> {
        sweep::sweep_recoveries(&self.context(), execution).await
    }

    /// Nothing of the recovery has changed, and nobody has reported on its execution.
    async fn is_untouched(&self) {
        let now = self.store.recovery(&plan_id(1)).await.unwrap().unwrap();
        let as_opened = Recovery {
            opened_at: now.opened_at,
            ..recovery(1)
        };
        assert_eq!(now, as_opened);
        let held = self.store.claim(&group_key()).await.unwrap();
        assert_eq!(held, Some(claim(1, at(1000))));
        assert_eq!(status(&self.store, 1).await, ApprovalStatus::Pending);
        assert_eq!(self.store.open_recoveries().await.unwrap().len(), 1);
        assert_eq!(self.store.audit_of(&execution(1)).await.unwrap(), None);
        assert!(self.table.items("AUDITOF#execution-1").await.is_empty());
    }

    /// The intruder goes through the machine's states as they come, and past them in another order.
    async fn is_refused(&self, execution: &str, written: &Value, why: &str) {
        assert!(!self.confirm(execution, written).await, "{written}");
        let raised = self.verify(execution).await.unwrap_err();
        assert!(
            raised.to_string().contains("has no recovery that"),
            "{raised}"
        );
        let ended = self
            .report(execution, json!({ "reconcile": written }))
            .await;
        assert_eq!(
            (ended.status, ended.code.as_str()),
            (AuditStatus::Failed, "REFUSED")
        );
        assert!(ended.message.contains(why), "{}", ended.message);
        assert!(
            ended.message.ends_with("This execution changed nothing"),
            "{}",
            ended.message
        );
        let own = self
            .store
            .audit_of(&execution.into())
            .await
            .unwrap()
            .unwrap();
        let codes: Vec<_> = own.refusals.iter().map(|refusal| refusal.code()).collect();
        assert_eq!(
            (codes, own.plan),
            (vec!["INVALID_REQUEST".to_owned()], None)
        );
    }
}

fn of(plan: &str, execution: &str) -> Value {
    json!({ "plan_id": plan, "execution": execution })
}

fn of_first() -> Value {
    of(&plan_id(1).0, "execution-1")
}

async fn a_recovery_whose_execution_runs_cannot_be_ended_by_another(on: Kind) {
    let case = Case::new(on).await;
    case.aws.put("execution-1", "RUNNING");
    case.is_refused(INTRUDER, &of_first(), "runs, and reports by itself")
        .await;
    case.is_untouched().await;
    // One that waits to be redriven goes on, and so may one in a status that nobody knows yet.
    for (n, status) in ["PENDING_REDRIVE", "HIBERNATING"].into_iter().enumerate() {
        case.aws.put("execution-1", status);
        let intruder = format!("{INTRUDER}-{n}");
        case.is_refused(&intruder, &of_first(), "").await;
        case.is_untouched().await;
    }
}

async fn a_record_of_an_execution_that_has_no_such_recovery_cannot_be_written(on: Kind) {
    let case = Case::new(on).await;
    case.aws.put("execution-1", "ABORTED");
    let endless = "x".repeat(5_000);
    let cases = [
        (of("01KX", "execution-1"), "plan 01KX has no recovery"),
        (
            of(&plan_id(1).0, "execution-2"),
            "belongs to another execution",
        ),
        (of(&endless, "execution-1"), "such a long id"),
        (of("", "execution-1"), "has no recovery"),
        (json!("execution-1"), "as the sweep does"),
        (json!(null), "as the sweep does"),
        (json!([1]), "as the sweep does"),
        (
            json!({ "plan_id": 7, "execution": {} }),
            "as the sweep does",
        ),
    ];
    for (n, (written, why)) in cases.iter().enumerate() {
        case.is_refused(&format!("{INTRUDER}-{n}"), written, why)
            .await;
        case.is_untouched().await;
    }
    // Nor is the name of an execution blocked that has not begun.
    assert!(case.table.items("AUDITOF#execution-2").await.is_empty());
    let other = Recovery {
        group: super::support::numbered_group(2),
        ..recovery(2)
    };
    let held = claim(2, at(1000));
    let opened = case.store.open_recovery(&other, &held, at(0));
    assert_eq!(opened.await.unwrap(), Opened::Yes);
}

async fn that_step_functions_does_not_know_an_execution_yet_is_no_proof_that_it_is_over(on: Kind) {
    let case = Case::new(on).await;
    case.is_refused(INTRUDER, &of_first(), "not proven").await;
    assert_eq!(case.sweep(None).await.unwrap().reconciling, 0);
    case.is_untouched().await;
    assert!(case.aws.known().is_empty());

    // Opened long ago, it is one that Step Functions has forgotten.
    let case = Case::opened_at(on, Timestamp::now() - SignedDuration::from_secs(121)).await;
    assert_eq!(case.sweep(None).await.unwrap().reconciling, 1);
    assert!(case.confirm(INTRUDER, &of_first()).await);
}

async fn a_recovery_whose_execution_is_over_is_ended_by_one_other(on: Kind) {
    let case = Case::new(on).await;
    case.aws.put("execution-1", "ABORTED");
    case.aws.put("first", "RUNNING");
    case.aws.put("second", "RUNNING");
    let (input, done) = (of_first(), json!({ "reconcile": of_first() }));
    // To report without having been confirmed ends nothing.
    let early = case.report("early", done.clone()).await;
    assert!(
        early.message.contains("it was not confirmed"),
        "{}",
        early.message
    );
    case.is_untouched().await;

    assert!(case.confirm("first", &input).await);
    assert!(case.confirm("first", &input).await, "a step is tried again");
    // Nor does the sweep start another one beside it.
    assert_eq!(case.sweep(None).await.unwrap().reconciling, 0);
    let recovery = case.store.recovery(&plan_id(1)).await.unwrap().unwrap();
    assert_eq!(recovery.reconciled_by, Some("first".into()));
    case.is_refused("second", &input, "another execution ends the recovery")
        .await;
    // The first one is stopped, and a third one goes on.
    case.aws.put("first", "ABORTED");
    assert!(case.confirm("third", &input).await);
    assert!(case.verify("first").await.is_err());
    let verified = case.verify("third").await.unwrap();
    assert_eq!(verified.outcome, Some(Outcome::NotApplied));

    let ended = case.report("third", done.clone()).await;
    assert_eq!(ended.code, "NOT_APPROVED", "{}", ended.message);
    let audit = case.store.audit_of(&execution(1)).await.unwrap().unwrap();
    assert_eq!(
        (audit.plan, audit.message.as_str()),
        (Some(plan_id(1)), ended.message.as_str())
    );
    assert_eq!(case.store.claim(&group_key()).await.unwrap(), None);
    assert_eq!(case.store.open_recoveries().await.unwrap(), []);
    assert_eq!(status(&case.store, 1).await, ApprovalStatus::Superseded);
    // A report that runs twice says the same, and has no record of its own.
    let again = case.report("third", done.clone()).await;
    assert_eq!((again.code, again.message), (ended.code, ended.message));
    assert_eq!(case.store.audit_of(&"third".into()).await.unwrap(), None);
    // To everybody else it is over.
    let late = case.report("late", done).await;
    assert!(
        late.message.contains("was reported on at"),
        "{}",
        late.message
    );
    assert!(case.store.audit_of(&"late".into()).await.unwrap().is_some());
}

async fn an_execution_that_was_redriven_in_the_meantime_is_not_reported_on(on: Kind) {
    let case = Case::new(on).await;
    case.aws.put("execution-1", "FAILED");
    assert!(case.confirm("first", &of_first()).await);
    case.aws.put("execution-1", "RUNNING");
    let ended = case
        .report("first", json!({ "reconcile": of_first() }))
        .await;
    assert_eq!(ended.code, "REFUSED", "{}", ended.message);
    assert_eq!(case.store.audit_of(&execution(1)).await.unwrap(), None);
    let still = case.store.recovery(&plan_id(1)).await.unwrap().unwrap();
    assert_eq!((still.closed_at, still.fence), (None, 0));
}

async fn the_table_takes_no_record_from_another_execution_that_it_does_not_know(on: Kind) {
    let case = Case::new(on).await;
    for audit in [audit(1, Some(Outcome::NotApplied)), audit(2, None)] {
        let written = case
            .store
            .close(&audit, Reporter::Another(&"first".into()))
            .await;
        let error = written.unwrap_err();
        assert!(
            matches!(error.class, ErrorClass::Conflict | ErrorClass::Transient),
            "{error}"
        );
        assert_eq!(case.store.audit_of(&audit.execution).await.unwrap(), None);
    }
    case.is_untouched().await;
    // Noted for one execution, it is no other's, and nobody can note another owner's.
    let note = async |owner, by: &str| {
        let noted = case
            .store
            .note_reconcile(&plan_id(1), &execution(owner), &by.into(), None)
            .await;
        noted.unwrap()
    };
    assert!(!note(2, "first").await);
    assert!(note(1, "first").await);
    assert!(!note(1, "second").await);
    let ended = audit(1, None);
    let by_second = case
        .store
        .close(&ended, Reporter::Another(&"second".into()))
        .await;
    assert!(by_second.is_err());
    let by_first = case
        .store
        .close(&ended, Reporter::Another(&"first".into()))
        .await;
    assert_eq!(by_first.unwrap(), Closed::Now);
}

async fn no_recovery_is_open_whose_execution_has_its_record(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let mut opened_first = 0;
    for n in 0..30 {
        // The plan step outlives its execution, which is reported on without knowing of a plan.
        let execution = execution(n);
        let plan = own_plan(&execution, at(0));
        let group = super::support::numbered_group(n);
        let late = Recovery {
            plan: plan.clone(),
            group: group.clone(),
            ..recovery(n)
        };
        let claim = Claim {
            plan: plan.clone(),
            ..claim(n, at(1000))
        };
        let mut blind = audit(n, None);
        (blind.plan, blind.cluster_id, blind.group) = (None, None, None);
        let plans = [plan.clone()];
        let close = async {
            // Now one and now the other is a little ahead.
            tokio::time::sleep(std::time::Duration::from_millis(
                u64::try_from(n % 6).unwrap(),
            ))
            .await;
            store.close(&blind, Reporter::Itself(&plans)).await
        };
        let (opened, closed) = tokio::join!(store.open_recovery(&late, &claim, at(0)), close);
        assert_eq!(closed.unwrap(), Closed::Now);
        match opened {
            Ok(opened) => {
                assert_eq!(opened, Opened::Yes);
                opened_first += 1;
                let ended = store.recovery(&plan).await.unwrap().unwrap();
                assert!(ended.closed_at.is_some(), "{n}");
            }
            Err(error) => {
                assert_eq!(error.class, ErrorClass::Conflict, "{error}");
                assert_eq!(store.recovery(&plan).await.unwrap(), None, "{n}");
            }
        }
        assert_eq!(store.claim(&key_of(&group)).await.unwrap(), None, "{n}");
    }
    assert_eq!(store.open_recoveries().await.unwrap(), []);
    println!("{opened_first} of 30 were opened before the record");
}

async fn an_execution_and_the_one_that_ends_its_recovery_write_one_record(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    for n in 0..20 {
        let owned = Recovery {
            group: super::support::numbered_group(n),
            ..recovery(n)
        };
        let held = claim(n, at(1000));
        let opened = store.open_recovery(&owned, &held, at(0)).await;
        assert_eq!(opened.unwrap(), Opened::Yes);
        let first = ExecutionArn::from("first");
        let noted = store.note_reconcile(&owned.plan, &owned.execution, &first, None);
        assert!(noted.await.unwrap());
        let said = |message: &str| {
            let mut said = audit(n, None);
            said.message = message.to_owned();
            said.group = Some(owned.group.clone());
            said
        };
        let (own, others) = (said("its own"), said("the other's"));
        let (own, others) = tokio::join!(
            store.close(&own, Reporter::Itself(&[])),
            store.close(&others, Reporter::Another(&first))
        );
        let stands = match (own.unwrap(), others.unwrap()) {
            (Closed::Now, Closed::Already) => "its own",
            (Closed::Already, Closed::Now) => "the other's",
            both => panic!("{both:?}"),
        };
        let record = store.audit_of(&owned.execution).await.unwrap().unwrap();
        assert_eq!(record.message, stands);
        let closed = store.recovery(&plan_id(n)).await.unwrap().unwrap();
        assert!(closed.closed_at.is_some());
    }
    assert_eq!(store.open_recoveries().await.unwrap(), []);
}

async fn a_plan_that_was_taken_over_is_ended_with_the_execution_whose_plan_step_failed_after_that(
    on: Kind,
) {
    let case = Case::new(on).await;
    let state = json!({
        "plan_id": plan_id(1), "error": {"Error": "OffsetGuard.Transient", "Cause": "throttled"},
    });
    let ended = case.report("execution-1", state.clone()).await;
    assert_eq!(ended.code, "NOT_APPROVED", "{}", ended.message);
    assert_eq!(case.store.open_recoveries().await.unwrap(), []);
    // Of another one's plan it is only a refused wish.
    let case = Case::new(on).await;
    let ended = case.report(INTRUDER, state).await;
    assert_eq!(ended.code, "NOT_PLANNED", "{}", ended.message);
    case.is_untouched().await;
}

async fn what_is_no_run_of_the_guard_is_told_to_nobody_and_ends_the_execution_all_the_same(
    on: Kind,
) {
    let case = Case::new(on).await;
    let nowhere = json!({
        "run_id": "01K", "at": at(0), "cluster": "main", "group": "shipment-sync",
    });
    let mut endless = nowhere.clone();
    endless["group"] = json!("x".repeat(5_000));
    for (n, written) in [
        nowhere,
        endless,
        json!(5),
        json!(null),
        json!({"text": "!"}),
    ]
    .iter()
    .enumerate()
    {
        let execution = format!("{INTRUDER}-{n}");
        let ended = case.report(&execution, json!({ "alert": written })).await;
        assert_eq!(
            (ended.status, ended.code.as_str()),
            (AuditStatus::Failed, "REFUSED"),
            "{written}"
        );
        assert!(
            ended.message.contains("no such run of the guard"),
            "{}",
            ended.message
        );
        let again = alert::report_alert(&case.context(), &ExecutionArn(execution), written)
            .await
            .unwrap();
        assert_eq!(again.message, ended.message);
    }
    case.is_untouched().await;
}

async fn a_name_that_anybody_may_choose_neither_stops_the_sweep_nor_hides_from_it(on: Kind) {
    let case = Case::new(on).await;
    let arn = |name: &str| ExecutionArn::child(MACHINE, name).unwrap().0;
    let of_plan = |number: usize| arn(&format!("{}-reconcile-{number}", plan_id(1)));
    case.aws.put("execution-1", "ABORTED");
    // Others have these names, one of them for as long as it takes.
    let request = json!({ "request": { "group": "another" } });
    case.aws.put_with(&of_plan(1), "RUNNING", &request);
    case.aws.put_with(&of_plan(2), "FAILED", &request);
    assert_eq!(case.sweep(None).await.unwrap().reconciling, 1);
    let own = json!({ "reconcile": of_first() });
    assert_eq!(case.aws.known().get(&of_plan(3)), Some(&own));
    // While its own runs it starts no other.
    assert_eq!(case.sweep(None).await.unwrap().reconciling, 0);
    // Of its own so many are tried, and then a person is needed.
    for number in 3..8 {
        case.aws.put_with(&of_plan(number), "FAILED", &own);
    }
    let stuck = case.sweep(None).await.unwrap_err();
    assert!(matches!(stuck, Error::Stuck { recoveries: 1 }), "{stuck}");
    assert_eq!(case.aws.known().get(&of_plan(8)), None);

    // An execution that was stopped has its record, whatever its name and whatever it says that it is for.
    let forged = json!({ "reconcile": of("01KX", "execution-1") });
    let both = json!({ "reconcile": of_first(), "request": { "group": "another" } });
    for (name, input, code) in [
        ("x-reconcile-1", &request, "NOT_PLANNED"),
        ("y-reconcile-2", &forged, "REFUSED"),
        ("z", &both, "REFUSED"),
        ("text", &json!("text"), "NOT_PLANNED"),
        ("told", &json!({ "alert": 5 }), "REFUSED"),
    ] {
        case.aws.put_with(&arn(name), "ABORTED", input);
        case.sweep(Some(&ExecutionArn(arn(name)))).await.unwrap();
        let audit = case.store.audit_of(&ExecutionArn(arn(name))).await.unwrap();
        assert_eq!(audit.unwrap().code, code, "{name}");
    }
    // The record of one that was found to be right is the other's.
    case.aws.put_with(&arn("right"), "ABORTED", &own);
    assert!(case.confirm(&arn("right"), &of_first()).await);
    case.sweep(Some(&ExecutionArn(arn("right")))).await.unwrap();
    assert_eq!(
        case.store
            .audit_of(&ExecutionArn(arn("right")))
            .await
            .unwrap(),
        None
    );
}

async fn whoever_takes_every_name_does_not_keep_a_recovery_from_being_ended(on: Kind) {
    let own = json!({ "reconcile": of_first() });
    let other = json!({ "request": { "group": "another" } });
    let arn = |number: usize| {
        let name = format!("{}-reconcile-{number}", plan_id(1));
        ExecutionArn::child(MACHINE, &name).unwrap().0
    };
    // With the very input of a reconcile too, before there is anything to end.
    for input in [&other, &own] {
        let case = Case::new(on).await;
        let ended = (STARTED, Some(STARTED + 60.0));
        case.aws.put_of("execution-1", "ABORTED", &json!({}), ended);
        for number in 1..=20 {
            let early = (STARTED + 30.0, Some(STARTED + 31.0));
            case.aws.put_of(&arn(number), "FAILED", input, early);
        }
        let before = case.aws.known();
        // It is started, and somebody hears of it all the same.
        let told = case.sweep(None).await.unwrap_err();
        assert!(matches!(told, Error::Stuck { recoveries: 1 }), "{told}");
        let mut started = case.aws.known();
        started.retain(|arn, _| !before.contains_key(arn));
        let (by, with) = started.pop_first().unwrap();
        assert!(started.is_empty(), "{started:?}");
        assert!(by.contains(&format!("{}-reconcile-", plan_id(1))), "{by}");
        assert_eq!(with, own);
        // While it is at it, no other is started.
        assert!(case.confirm(&by, &of_first()).await);
        assert_eq!(case.sweep(None).await.unwrap().reconciling, 0);
        case.verify(&by).await.unwrap();
        let ended = case.report(&by, own.clone()).await;
        assert_eq!(ended.code, "NOT_APPROVED", "{}", ended.message);
        assert_eq!(case.store.open_recoveries().await.unwrap(), []);
    }
}

on_both_tables! {
    a_recovery_whose_execution_runs_cannot_be_ended_by_another,
    a_record_of_an_execution_that_has_no_such_recovery_cannot_be_written,
    that_step_functions_does_not_know_an_execution_yet_is_no_proof_that_it_is_over,
    a_recovery_whose_execution_is_over_is_ended_by_one_other,
    an_execution_that_was_redriven_in_the_meantime_is_not_reported_on,
    the_table_takes_no_record_from_another_execution_that_it_does_not_know,
    no_recovery_is_open_whose_execution_has_its_record,
    an_execution_and_the_one_that_ends_its_recovery_write_one_record,
    a_plan_that_was_taken_over_is_ended_with_the_execution_whose_plan_step_failed_after_that,
    what_is_no_run_of_the_guard_is_told_to_nobody_and_ends_the_execution_all_the_same,
    a_name_that_anybody_may_choose_neither_stops_the_sweep_nor_hides_from_it,
    whoever_takes_every_name_does_not_keep_a_recovery_from_being_ended,
}
