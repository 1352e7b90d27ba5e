//! One recovery that can be stopped, on a stack that only these tests share.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use offset_guard::app::context::Context;
use offset_guard::app::{apply, plan_id};
use offset_guard::aws::step_functions::StepFunctions;
use offset_guard::domain::audit::Audit;
use offset_guard::domain::ids::{ExecutionArn, PlanId};
use offset_guard::domain::offset::GroupId;
use offset_guard::kafka::{GroupReader, GroupWriter, RecordReader};
use offset_guard::wire::PlanStep;
use offset_guard_local::client::Commit;
use offset_guard_local::operator::{Execution, Function, Invoked};
use offset_guard_local::stack::{Stack, StackOptions};
use offset_guard_tests::context::{Connect, context};
use offset_guard_tests::{CLASSIC_ON_4, Outcome, PATIENCE, World, shared_options};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};

use crate::history::{entered, until_entered};
use crate::processes::{Frozen, freeze_next};

pub(super) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A frozen function is everybody's.
static ALONE: Mutex<()> = Mutex::const_new(());

/// Shorter than the template has it, so that what may still run is over sooner; Apply needs 30 of it to begin.
pub(super) const APPLY_TIMEOUT: u64 = 33;

/// One recovery: a group at 20 in the only partition of its topic, to be moved to 5.
pub(super) struct Case {
    pub(super) world: World,
    pub(super) topic: String,
    pub(super) group: String,
    pub(super) target: Value,
    _alone: MutexGuard<'static, ()>,
}

impl Case {
    pub(super) async fn new() -> Result<Self> {
        Self::of("test").await
    }

    pub(super) async fn of(policy: &str) -> Result<Self> {
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

    pub(super) async fn start(&self) -> Result<Execution> {
        let request = self.world.rewind(&self.group, &self.target);
        Ok(self.world.operator.request(request).await?)
    }

    /// An execution that waits for a person, and the link.
    pub(super) async fn asked(&self) -> Result<(Execution, String)> {
        let execution = self.start().await?;
        let link = execution
            .link(&self.world.stack, &self.group, PATIENCE)
            .await?;
        Ok((execution, link))
    }

    pub(super) async fn approve(&self, link: &str) -> Outcome {
        Ok(self.world.operator.approve(link, &self.group).await?)
    }

    pub(super) async fn freeze(&self, function: Function) -> Result<Frozen> {
        freeze_next(&self.world, function, function.output()).await
    }

    /// Stops an execution in `state`, once the function that runs it is frozen in it.
    pub(super) async fn stop_in(
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
    pub(super) async fn plan_of(&self, execution: &Execution) -> Result<PlanId> {
        let found = self.context()?.executions.describe(&execution.arn).await?;
        let found = found.ok_or("there is no such execution")?;
        Ok(plan_id(&execution.arn, found.started_at))
    }

    /// A context over the deployed table and state machine, without a cluster.
    pub(super) fn context(&self) -> Result<Context> {
        let client = aws_sdk_sfn::Client::new(self.world.operator.sdk());
        let machine = self.world.operator.state_machine().to_owned();
        Ok(Context {
            executions: Arc::new(StepFunctions::new(client, machine)),
            ..context(self.world.config()?, &self.world.store, ())
        })
    }

    pub(super) async fn offset(&self) -> Result<Option<i64>> {
        Ok(self
            .world
            .offsets(&self.group, &self.topic, 1)
            .await?
            .remove(0))
    }

    /// Waits until a stopped execution is reported on, and holds it to what must be true then.
    pub(super) async fn ended(&self, execution: &Execution, code: &str) -> Result<Audit> {
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
    pub(super) async fn nothing_is_open(&self, execution: &Execution) -> Outcome {
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
    pub(super) async fn told_once(&self, execution: &Execution, code: &str) -> Outcome {
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
    pub(super) async fn may_be_asked_again(&self) -> Outcome {
        let execution = self.start().await?;
        until_entered(&self.world, &execution, "RequestApproval", 1).await?;
        execution.abort().await?;
        self.ended(&execution, "NOT_APPROVED").await?;
        Ok(())
    }

    pub(super) async fn sweep(&self, execution: Option<&ExecutionArn>) -> Result<Value> {
        let mut event = json!({"step": "sweep"});
        if let Some(execution) = execution {
            event["execution"] = json!(execution);
        }
        self.task(&event).await
    }

    pub(super) async fn task(&self, event: &Value) -> Result<Value> {
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
    pub(super) async fn reconcile(&self, plan: &PlanId, number: usize) -> Result<Execution> {
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
    pub(super) async fn apply(
        &self,
        execution: &Execution,
        plan: &PlanId,
    ) -> Result<apply::Applied> {
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
