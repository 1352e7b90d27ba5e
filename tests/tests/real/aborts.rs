//! Executions that are stopped from outside, at every state, and what the sweep makes of them.
//!
//! A step that a test needs to last is frozen with its process, on a stack that only these tests share, one after the
//! other. Thawed, it goes on although its execution is gone, as a function in AWS would.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use offset_guard::app::approval::{self, Asking};
use offset_guard::app::context::Context;
use offset_guard::app::report::{self, Own};
use offset_guard::app::{apply, plan, plan_id};
use offset_guard::aws::step_functions::StepFunctions;
use offset_guard::domain::approval::{ApprovalStatus, Decision};
use offset_guard::domain::audit::Audit;
use offset_guard::domain::ids::{ExecutionArn, PlanId};
use offset_guard::domain::offset::GroupId;
use offset_guard::domain::recovery::Outcome as Came;
use offset_guard::error::Error as AppError;
use offset_guard::kafka::{GroupReader, GroupWriter, RecordReader};
use offset_guard::slack::Slack;
use offset_guard::store::TaskToken;
use offset_guard::wire::{Asked, PlanStep};
use offset_guard_local::client::Commit;
use offset_guard_local::operator::{Execution, Function, Invoked, form_token};
use offset_guard_local::stack::{Stack, StackOptions};
use offset_guard_tests::context::{Connect, context};
use offset_guard_tests::{CLASSIC_ON_4, Outcome, PATIENCE, World, shared_options};
use reqwest::Url;
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};

use crate::history::{entered, until_entered};
use crate::processes::{Frozen, freeze_brokers, freeze_next, kill};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A frozen function is everybody's.
static ALONE: Mutex<()> = Mutex::const_new(());

/// Shorter than the template has it, so that what may still run is over sooner; Apply needs 30 of it to begin.
const APPLY_TIMEOUT: u64 = 33;

/// One recovery: a group at 20 in the only partition of its topic, to be moved to 5.
struct Case {
    world: World,
    topic: String,
    group: String,
    target: Value,
    _alone: MutexGuard<'static, ()>,
}

impl Case {
    async fn new() -> Result<Self> {
        Self::of("test").await
    }

    async fn of(policy: &str) -> Result<Self> {
        let alone = ALONE.lock().await;
        let options = StackOptions {
            aws_environment: BTreeMap::from([("ONLY_FOR".to_owned(), "aborts".to_owned())]),
            ..shared_options(CLASSIC_ON_4.kafka)
        };
        let world = World::of(Stack::shared(&options).await?, CLASSIC_ON_4)?;
        let (topic, group) = (world.topic("stopped"), world.group(policy));
        world.filled_topic(&topic, 1, 30).await?;
        world
            .client
            .commit(&group, &[Commit::new(&topic, 0, 20)])
            .await?;
        let target = json!({"to_offsets": [{"topic": topic, "partition": 0, "offset": 5}]});
        Ok(Self {
            world,
            topic,
            group,
            target,
            _alone: alone,
        })
    }

    async fn start(&self) -> Result<Execution> {
        let request = self.world.rewind(&self.group, &self.target);
        Ok(self.world.operator.request(request).await?)
    }

    /// An execution that waits for a person, and the link.
    async fn asked(&self) -> Result<(Execution, String)> {
        let execution = self.start().await?;
        let link = execution
            .link(&self.world.stack, &self.group, PATIENCE)
            .await?;
        Ok((execution, link))
    }

    async fn approve(&self, link: &str) -> Outcome {
        Ok(self.world.operator.approve(link, &self.group).await?)
    }

    async fn freeze(&self, function: Function) -> Result<Frozen> {
        freeze_next(&self.world, function, function.output()).await
    }

    /// Stops an execution in `state`, once the function that runs it is frozen in it.
    async fn stop_in(
        &self,
        execution: &Execution,
        state: &str,
        frozen: Option<&Frozen>,
    ) -> Outcome {
        until_entered(&self.world, execution, state, 1).await?;
        if let Some(frozen) = frozen {
            frozen.until_invoked().await?;
        }
        execution.abort().await?;
        let entered = entered(&self.world, execution).await?;
        if entered.last().is_some_and(|last| last == state) {
            return Ok(());
        }
        Err(format!("it went on to {entered:?}").into())
    }

    /// The plan that an execution made, or would have.
    async fn plan_of(&self, execution: &Execution) -> Result<PlanId> {
        let found = self.context()?.executions.describe(&execution.arn).await?;
        let found = found.ok_or("there is no such execution")?;
        Ok(plan_id(&execution.arn, found.started_at))
    }

    /// A context over the deployed table and state machine, without a cluster.
    fn context(&self) -> Result<Context> {
        let client = aws_sdk_sfn::Client::new(self.world.operator.sdk());
        let machine = self.world.operator.state_machine().to_owned();
        Ok(Context {
            executions: Arc::new(StepFunctions::new(client, machine)),
            ..context(self.world.config()?, &self.world.store, ())
        })
    }

    async fn offset(&self) -> Result<Option<i64>> {
        Ok(self
            .world
            .offsets(&self.group, &self.topic, 1)
            .await?
            .remove(0))
    }

    /// Waits until a stopped execution is reported on, and holds it to what must be true then.
    async fn ended(&self, execution: &Execution, code: &str) -> Result<Audit> {
        let asked = Instant::now();
        let audit = loop {
            if let Some(audit) = self.world.store.audit_of(&execution.arn).await? {
                break audit;
            }
            if asked.elapsed() > 2 * PATIENCE {
                return Err("nobody reported on it".into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        assert_eq!(audit.code, code, "{}", audit.message);
        assert_eq!(audit.execution, execution.arn);
        self.nothing_is_open(execution).await?;
        Ok(audit)
    }

    /// No claim, nothing among the open ones.
    async fn nothing_is_open(&self, execution: &Execution) -> Outcome {
        let open = self.world.store.open_recoveries().await?;
        assert!(
            open.iter().all(|(_, owner)| *owner != execution.arn),
            "{open:?}"
        );
        let group = GroupId(self.group.clone());
        let group = self.world.key_of(&group);
        assert_eq!(self.world.store.claim(&group).await?, None);
        Ok(())
    }

    /// People were told once, by a message that is not the request for approval.
    async fn told_once(&self, execution: &Execution, code: &str) -> Outcome {
        let name = execution.arn.0.clone();
        let of_it = |text: &String| text.contains(&name) && text.contains(code);
        let asked = Instant::now();
        loop {
            let told = self.world.told(&name)?;
            match told.len() {
                0 if asked.elapsed() < PATIENCE => {}
                1 if told.iter().all(of_it) => return Ok(()),
                _ => return Err(format!("people were told {told:?}").into()),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// A new request of the same group is not refused.
    async fn may_be_asked_again(&self) -> Outcome {
        let execution = self.start().await?;
        until_entered(&self.world, &execution, "RequestApproval", 1).await?;
        execution.abort().await?;
        self.ended(&execution, "NOT_APPROVED").await?;
        Ok(())
    }

    async fn sweep(&self, execution: Option<&ExecutionArn>) -> Result<Value> {
        let mut event = json!({"step": "sweep"});
        if let Some(execution) = execution {
            event["execution"] = json!(execution);
        }
        self.task(&event).await
    }

    async fn task(&self, event: &Value) -> Result<Value> {
        let (operator, stack) = (&self.world.operator, &self.world.stack);
        match operator
            .invoke(stack, Function::ApprovalTask, event)
            .await?
        {
            Invoked::Returned(answer) => Ok(answer),
            Invoked::Failed { error, message } => Err(format!("{error}: {message}").into()),
        }
    }

    /// The execution that ends the recovery of `plan`, once it is started.
    async fn reconcile(&self, plan: &PlanId, number: usize) -> Result<Execution> {
        let machine = self.world.stack.output("StateMachineArn")?;
        let name = format!("{plan}-reconcile-{number}");
        let arn = ExecutionArn::child(&machine, &name).ok_or("no machine")?;
        let asked = Instant::now();
        while self.context()?.executions.describe(&arn).await?.is_none() {
            if asked.elapsed() > PATIENCE {
                return Err(format!("nobody started {arn}").into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(self.world.operator.execution(arn))
    }

    /// Apply, in this process.
    async fn apply(&self, execution: &Execution, plan: &PlanId) -> Result<apply::Applied> {
        let settings = self.world.settings();
        let step = PlanStep {
            execution: execution.arn.clone(),
            plan_id: plan.clone(),
        };
        let brokers = Connect {
            groups: async |_: &str| Ok(GroupReader::connect(settings.clone())?),
            writer: async |_: &str| Ok(GroupWriter::connect(&settings)?),
            records: async |_: &str| {
                Ok(RecordReader::connect(
                    settings.clone(),
                    offset_guard_tests::reader_program(),
                )?)
            },
        };
        let left = Duration::from_secs(60);
        let ctx = context(self.world.config()?, &self.world.store, brokers);
        Ok(apply::apply_plan(&ctx, &step, left).await?)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_while_it_plans() -> Outcome {
    let case = Case::new().await?;
    let frozen = case.freeze(Function::Rewind).await?;
    let execution = case.start().await?;
    case.stop_in(&execution, "Plan", Some(&frozen)).await?;
    let audit = case.ended(&execution, "NOT_PLANNED").await?;
    assert!(
        audit.message.contains("No offset was changed"),
        "{}",
        audit.message
    );
    drop(frozen);

    // The step that outlived it claims nothing any more.
    let (config, settings) = (case.world.config()?, case.world.settings());
    let found = case
        .context()?
        .executions
        .describe(&execution.arn)
        .await?
        .ok_or("no execution")?;
    let input = json!({"request": case.world.rewind(&case.group, &case.target)});
    let read = async |_: &str| Ok(GroupReader::connect(settings.clone())?);
    let step = plan::PlanTask {
        execution: &execution.arn,
        started_at: found.started_at,
        input: &input,
    };
    let late = plan::run(&config, &case.world.store, &step, read).await;
    assert!(matches!(late, Err(AppError::Store(_))), "{late:?}");
    case.nothing_is_open(&execution).await?;
    case.told_once(&execution, "NOT_PLANNED").await?;
    case.may_be_asked_again().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_came_between_two_looks_of_the_sweep_is_released() -> Outcome {
    let case = Case::new().await?;
    let (execution, _) = case.asked().await?;
    let plan = case.plan_of(&execution).await?;
    // As if the plan step had claimed the group just when the sweep wrote that there was nothing.
    let blind = Own {
        execution: &execution.arn,
        started_at: None,
        planned: None,
        asked: Asked::Nothing,
    };
    report::end(&case.context()?, &blind, None).await?;
    execution.abort().await?;
    case.reconcile(&plan, 1).await?.end().await?;
    case.ended(&execution, "NOT_PLANNED").await?;
    case.may_be_asked_again().await
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_while_its_rights_are_asked() -> Outcome {
    let case = Case::new().await?;
    let frozen = case.freeze(Function::RewindApply).await?;
    let execution = case.start().await?;
    case.stop_in(&execution, "CheckRights", Some(&frozen))
        .await?;
    let audit = case.ended(&execution, "NOT_APPROVED").await?;
    assert_eq!(audit.outcome, Some(Came::NotApplied));
    drop(frozen);
    let plan = case.plan_of(&execution).await?;
    assert_eq!(case.world.store.approval_of(&plan).await?, None);
    assert_eq!(case.offset().await?, Some(20));
    case.told_once(&execution, "NOT_APPROVED").await?;
    case.may_be_asked_again().await
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_before_anybody_is_asked() -> Outcome {
    let case = Case::new().await?;
    let frozen = case.freeze(Function::ApprovalTask).await?;
    let execution = case.start().await?;
    case.stop_in(&execution, "RequestApproval", Some(&frozen))
        .await?;
    let audit = case.ended(&execution, "NOT_APPROVED").await?;
    assert_eq!(audit.outcome, Some(Came::NotApplied));
    drop(frozen);

    // The step that outlived it asks nobody.
    let plan = case.plan_of(&execution).await?;
    let url = Url::parse("http://127.0.0.1/")?;
    let token = TaskToken::new("of nothing that waits".to_owned());
    let asking = Asking {
        public_url: &url,
        swept: true,
    };
    let slack = Slack::new(Ok(Url::parse(case.world.stack.slack().url())?));
    let ctx = Context {
        notifier: Arc::new(slack),
        ..case.context()?
    };
    approval::request_approval(&ctx, asking, &execution.arn, &plan, &token).await?;
    assert_eq!(case.world.store.approval_of(&plan).await?, None);
    case.told_once(&execution, "NOT_APPROVED").await?;
    assert_eq!(case.world.told(&case.group)?.len(), 1);
    case.may_be_asked_again().await
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_while_a_person_is_asked() -> Outcome {
    let case = Case::new().await?;
    let (execution, link) = case.asked().await?;
    let (_, page) = case.world.operator.get(&link).await?;
    let token = form_token(&page, "approve").ok_or("there is no form")?;
    case.stop_in(&execution, "RequestApproval", None).await?;
    case.ended(&execution, "NOT_APPROVED").await?;
    // The link is worth nothing any more.
    let plan = case.plan_of(&execution).await?;
    let form = [
        ("decision", "approve"),
        ("token", &token),
        ("group", &case.group),
    ];
    let (status, _) = case.world.operator.post(&link, &form, true).await?;
    assert!((400..500).contains(&status), "{status}");
    let stands = case.world.store.approval_of(&plan).await?;
    assert_eq!(
        stands.map(|(_, approval)| approval.status),
        Some(ApprovalStatus::Superseded)
    );
    assert_eq!(case.offset().await?, Some(20));
    case.told_once(&execution, "NOT_APPROVED").await?;
    case.may_be_asked_again().await
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_while_it_is_admitted() -> Outcome {
    let case = Case::new().await?;
    let (execution, link) = case.asked().await?;
    let frozen = case.freeze(Function::ApprovalTask).await?;
    case.approve(&link).await?;
    case.stop_in(&execution, "Admit", Some(&frozen)).await?;
    let audit = case.ended(&execution, "APPROVED_NOT_APPLIED").await?;
    assert_eq!(audit.outcome, Some(Came::NotApplied));
    assert!(audit.decided_by.is_some() && audit.decided_at.is_some());
    drop(frozen);

    // Admitted late, it gets nothing.
    let plan = case.plan_of(&execution).await?;
    let step = PlanStep {
        execution: execution.arn.clone(),
        plan_id: plan,
    };
    let late = approval::admit_plan(&case.context()?, &step).await;
    assert!(!late.is_ok_and(|late| late.admitted));
    case.nothing_is_open(&execution).await?;
    assert_eq!(case.offset().await?, Some(20));
    case.told_once(&execution, "APPROVED_NOT_APPLIED").await?;
    case.may_be_asked_again().await
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_while_it_looks() -> Outcome {
    let case = Case::new().await?;
    let (execution, link) = case.asked().await?;
    let frozen = case.freeze(Function::Rewind).await?;
    case.approve(&link).await?;
    case.stop_in(&execution, "Observe", Some(&frozen)).await?;
    case.ended(&execution, "APPROVED_NOT_APPLIED").await?;
    drop(frozen);
    assert_eq!(case.offset().await?, Some(20));
    case.told_once(&execution, "APPROVED_NOT_APPLIED").await?;
    case.may_be_asked_again().await
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_while_it_waits_for_consumers() -> Outcome {
    let case = Case::of("waiting").await?;
    let member = case.world.member(&case.group, &case.topic, 1).await?;
    let (execution, link) = case.asked().await?;
    case.approve(&link).await?;
    case.stop_in(&execution, "WaitUntilEmpty", None).await?;
    case.ended(&execution, "APPROVED_NOT_APPLIED").await?;
    assert_eq!(case.offset().await?, Some(20));
    case.told_once(&execution, "APPROVED_NOT_APPLIED").await?;
    case.may_be_asked_again().await?;
    member.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_before_it_applies() -> Outcome {
    let case = Case::new().await?;
    let (execution, link) = case.asked().await?;
    let frozen = case.freeze(Function::RewindApply).await?;
    case.approve(&link).await?;
    case.stop_in(&execution, "Apply", Some(&frozen)).await?;
    let audit = case.ended(&execution, "APPROVED_NOT_APPLIED").await?;
    assert_eq!(audit.outcome, Some(Came::NotApplied));
    drop(frozen);

    // Nor does a late Apply send anything.
    let plan = case.plan_of(&execution).await?;
    let late = case.apply(&execution, &plan).await;
    assert!(!late.is_ok_and(|applied| applied.requests > 0));
    assert_eq!(case.world.store.pre_image(&plan).await?, None);
    assert_eq!(case.offset().await?, Some(20));
    case.told_once(&execution, "APPROVED_NOT_APPLIED").await?;
    case.may_be_asked_again().await
}

/// Until the offsets are changed and `state`, which the frozen `function` runs, is entered.
async fn applied_until(
    case: &Case,
    function: Function,
    state: &str,
) -> Result<(Execution, Frozen)> {
    let (execution, link) = case.asked().await?;
    let applying = case.freeze(Function::RewindApply).await?;
    case.approve(&link).await?;
    applying.until_invoked().await?;
    let frozen = case.freeze(function).await?;
    drop(applying);
    until_entered(&case.world, &execution, state, 1).await?;
    Ok((execution, frozen))
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_before_it_verifies() -> Outcome {
    let case = Case::new().await?;
    let (execution, frozen) = applied_until(&case, Function::Rewind, "Verify").await?;
    case.stop_in(&execution, "Verify", Some(&frozen)).await?;
    let audit = case.ended(&execution, "VERIFIED").await?;
    assert_eq!(audit.outcome, Some(Came::Verified));
    drop(frozen);
    assert_eq!(case.offset().await?, Some(5));
    case.told_once(&execution, "VERIFIED").await
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_before_it_reports() -> Outcome {
    let case = Case::new().await?;
    let (execution, frozen) = applied_until(&case, Function::ApprovalTask, "Report").await?;
    case.stop_in(&execution, "Report", Some(&frozen)).await?;
    let audit = case.ended(&execution, "VERIFIED").await?;
    drop(frozen);

    // A report that runs twice says the same, to everybody, once.
    let plan = case.plan_of(&execution).await?;
    let event = json!({"step": "report", "execution": execution.arn, "state": {
        "plan": {"verdict": "needs_approval", "plan_id": plan, "digest": null, "summary": ""},
        "verify_error": {"Error": "OffsetGuard.Transient", "Cause": "something else"},
    }});
    let (first, second) = tokio::join!(case.task(&event), case.task(&event));
    let said = json!({"status": "SUCCEEDED", "code": "VERIFIED", "message": audit.message});
    assert_eq!((first?, second?), (said.clone(), said));
    assert_eq!(
        case.world.store.audit_of(&execution.arn).await?,
        Some(audit)
    );
    assert_eq!(case.offset().await?, Some(5));
    case.told_once(&execution, "VERIFIED").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_that_was_not_reported_is_reported_as_one() -> Outcome {
    let case = Case::new().await?;
    let frozen = case.freeze(Function::ApprovalTask).await?;
    let request = case.world.rewind(
        &case.group,
        &json!({"rewind_before": "2020-01-01T00:00:00Z"}),
    );
    let execution = case.world.operator.request(request).await?;
    case.stop_in(&execution, "Report", Some(&frozen)).await?;
    let audit = case.ended(&execution, "REFUSED").await?;
    assert_eq!(audit.refusals.len(), 1);
    assert_eq!(audit.requested_by, "tests");
    drop(frozen);
    case.told_once(&execution, "REFUSED").await?;

    // An execution that ended by its own report leaves nothing to its sweep.
    let request = case.world.rewind(
        &case.group,
        &json!({"rewind_before": "2020-01-01T00:00:00Z"}),
    );
    let failed = case.world.operator.request(request).await?;
    assert_eq!(failed.end().await?.status, "FAILED");
    let nothing =
        json!({"delivered": 0, "expired": 0, "reconciling": 0, "stuck": 0, "superseded": 0});
    assert_eq!(case.sweep(Some(&failed.arn)).await?, nothing);
    case.told_once(&failed, "REFUSED").await?;
    case.may_be_asked_again().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_apply_that_is_killed_is_waited_for_and_told_as_it_was() -> Outcome {
    let case = Case::new().await?;
    let name = case.world.stack.output("RewindApplyFunction")?;
    let endpoint = case.world.stack.aws_endpoint();
    let url = format!("{endpoint}/2015-03-31/functions/{name}/configuration");
    let http = reqwest::Client::builder().no_proxy().build()?;
    let shorter = http.put(url).json(&json!({"Timeout": APPLY_TIMEOUT}));
    shorter.send().await?.error_for_status()?;

    // One is killed as soon as something may have been sent.
    let (raced, link) = case.asked().await?;
    let raced_plan = case.plan_of(&raced).await?;
    let applying = case.freeze(Function::RewindApply).await?;
    case.approve(&link).await?;
    applying.until_invoked().await?;
    drop(applying);
    while case.world.store.pre_image(&raced_plan).await?.is_none() {
        if raced.ended().await?.is_some() {
            return Err("it ended without a pre-image".into());
        }
    }
    kill(&case.world, "RewindApplyFunction")?;

    // One is killed while it reads, and goes on by itself; one more is stopped while it waits for its Apply to be over.
    let mut others = Vec::new();
    for n in 0..2 {
        let group = format!("{}-{n}", case.group);
        case.world
            .client
            .commit(&group, &[Commit::new(&case.topic, 0, 20)])
            .await?;
        let request = case.world.rewind(&group, &case.target);
        let execution = case.world.operator.request(request).await?;
        let link = execution.link(&case.world.stack, &group, PATIENCE).await?;
        others.push((group, execution, link));
    }
    let brokers = freeze_brokers(&case.world)?;
    for (group, execution, link) in &others {
        let plan = case.plan_of(execution).await?;
        case.world.operator.approve(link, group).await?;
        until_entered(&case.world, execution, "Apply", 1).await?;
        let begun = async || {
            let recovery = case.world.store.recovery(&plan).await?;
            Ok::<_, Box<dyn Error>>(recovery.is_some_and(|recovery| recovery.apply_until.is_some()))
        };
        while !begun().await? {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        kill(&case.world, "RewindApplyFunction")?;
        until_entered(&case.world, execution, "WaitForApply", 1).await?;
    }
    drop(brokers);
    let [(_, goes_on, _), (_, stopped, _)] = &others[..] else {
        return Err("there are two others".into());
    };
    stopped.abort().await?;

    for (execution, code) in [
        (goes_on, "APPROVED_NOT_APPLIED"),
        (stopped, "APPROVED_NOT_APPLIED"),
    ] {
        let audit = case.ended(execution, code).await?;
        assert_eq!(audit.outcome, Some(Came::NotApplied));
        case.told_once(execution, code).await?;
    }
    let ended = goes_on.end().await?;
    assert_eq!(
        (ended.status.as_str(), ended.code()),
        ("FAILED", "APPROVED_NOT_APPLIED")
    );
    for (group, ..) in &others {
        assert_eq!(case.world.offsets(group, &case.topic, 1).await?, [Some(20)]);
    }
    // Whenever the first was hit, what is said of it is true.
    let ended = raced.end().await?;
    let (code, offset) = match ended.code() {
        "VERIFIED" => ("VERIFIED", 5),
        _ => ("APPROVED_NOT_APPLIED", 20),
    };
    case.ended(&raced, code).await?;
    assert_eq!(case.offset().await?, Some(offset));
    case.told_once(&raced, code).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reconcile_that_is_stopped_itself_is_tried_again() -> Outcome {
    let case = Case::new().await?;
    let (execution, link) = case.asked().await?;
    let applying = case.freeze(Function::RewindApply).await?;
    case.approve(&link).await?;
    applying.until_invoked().await?;
    let plan = case.plan_of(&execution).await?;
    let verifying = case.freeze(Function::Rewind).await?;
    execution.abort().await?;
    let first = case.reconcile(&plan, 1).await?;
    verifying.until_invoked().await?;
    // While it runs nothing is started beside it.
    let nothing =
        json!({"delivered": 0, "expired": 0, "reconciling": 0, "stuck": 0, "superseded": 0});
    assert_eq!(case.sweep(Some(&execution.arn)).await?, nothing);
    first.abort().await?;
    assert_eq!(case.world.store.audit_of(&first.arn).await?, None);

    let again =
        json!({"delivered": 0, "expired": 0, "reconciling": 1, "stuck": 0, "superseded": 0});
    assert_eq!(case.sweep(None).await?, again);
    let second = case.reconcile(&plan, 2).await?;
    second.end().await?;
    case.ended(&execution, "APPROVED_NOT_APPLIED").await?;
    drop((applying, verifying));
    // Neither of the two has a report of its own, and nothing more is started.
    for reconcile in [&first, &second] {
        assert_eq!(case.sweep(Some(&reconcile.arn)).await?, nothing);
        assert_eq!(case.world.store.audit_of(&reconcile.arn).await?, None);
    }
    assert_eq!(case.sweep(None).await?, nothing);
    case.told_once(&execution, "APPROVED_NOT_APPLIED").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_that_was_not_delivered_is() -> Outcome {
    let case = Case::new().await?;
    let nothing =
        json!({"delivered": 0, "expired": 0, "reconciling": 0, "stuck": 0, "superseded": 0});
    // By the sweep.
    let (execution, _) = case.asked().await?;
    // Nobody has decided: the sweep leaves it alone, by its name too.
    assert_eq!(case.sweep(None).await?, nothing);
    assert_eq!(case.sweep(Some(&execution.arn)).await?, nothing);
    assert_eq!(execution.ended().await?, None);
    assert_eq!(case.world.store.audit_of(&execution.arn).await?, None);
    decide(&case, &execution, Decision::Approve).await?;
    let delivered =
        json!({"delivered": 1, "expired": 0, "reconciling": 0, "stuck": 0, "superseded": 0});
    assert_eq!(case.sweep(None).await?, delivered);
    let ended = execution.end().await?;
    assert_eq!(
        (ended.status.as_str(), ended.code()),
        ("SUCCEEDED", "VERIFIED")
    );
    assert_eq!(case.sweep(None).await?, nothing);

    // By the person who clicks again.
    let target = json!({"to_offsets": [{"topic": case.topic, "partition": 0, "offset": 2}]});
    let request = case.world.rewind(&case.group, &target);
    let execution = case.world.operator.request(request).await?;
    until_entered(&case.world, &execution, "RequestApproval", 1).await?;
    let links = || {
        let told = case.world.told(&case.group)?;
        let links = told
            .iter()
            .filter_map(|text| offset_guard_local::operator::link_in(text));
        Ok::<_, Box<dyn Error>>(links.map(str::to_owned).collect::<Vec<_>>())
    };
    let asked = Instant::now();
    while links()?.len() < 2 && asked.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let link = links()?.pop().ok_or("nobody was asked")?;
    let (_, page) = case.world.operator.get(&link).await?;
    let token = form_token(&page, "reject").ok_or("there is no form")?;
    decide(&case, &execution, Decision::Reject).await?;
    let form = [
        ("decision", "reject"),
        ("token", &token),
        ("group", &case.group),
    ];
    let (status, _) = case.world.operator.post(&link, &form, true).await?;
    assert!(status < 500, "{status}");
    let ended = execution.end().await?;
    assert_eq!(
        (ended.status.as_str(), ended.code()),
        ("SUCCEEDED", "REJECTED")
    );
    assert_eq!(case.offset().await?, Some(5));
    Ok(())
}

/// Stores a decision as the page does, and is killed before it is delivered.
async fn decide(case: &Case, execution: &Execution, decision: Decision) -> Outcome {
    let plan = case.plan_of(execution).await?;
    let store = &case.world.store;
    let (link, asked) = store.approval_of(&plan).await?.ok_or("nobody was asked")?;
    let now = jiff::Timestamp::now();
    store
        .decide(&link, &asked.digest, decision, "somebody", "", now)
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_that_runs_is_never_swept() -> Outcome {
    let case = Case::new().await?;
    let frozen = case.freeze(Function::Rewind).await?;
    // It plans, so it holds nothing yet.
    let execution = case.start().await?;
    frozen.until_invoked().await?;
    let swept = case.sweep(Some(&execution.arn)).await;
    assert!(swept.is_err_and(|error| error.to_string().contains("OffsetGuard.Transient")));
    assert_eq!(case.world.store.audit_of(&execution.arn).await?, None);
    // One that never was is not swept either.
    let nothing =
        json!({"delivered": 0, "expired": 0, "reconciling": 0, "stuck": 0, "superseded": 0});
    let never = ExecutionArn(format!("{}x", execution.arn));
    assert_eq!(case.sweep(Some(&never)).await?, nothing);
    assert_eq!(case.world.store.audit_of(&never).await?, None);
    drop(frozen);
    until_entered(&case.world, &execution, "RequestApproval", 1).await?;
    execution.abort().await?;
    case.ended(&execution, "NOT_APPROVED").await?;
    Ok(())
}
