//! The steps of a recovery in this process: the real use cases over the real Kafka, with a table of their own, which
//! nobody else sweeps or switches off, and with a fault between Apply and the broker.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use offset_guard::app::context::Context;
use offset_guard::app::{apply, approval, checkpoint, observe, plan, report, verify};
use offset_guard::config::Config;
use offset_guard::domain::approval::{AlterRequest, Approval, Change, Decision};
use offset_guard::domain::audit::Audit;
use offset_guard::domain::ids::{ExecutionArn, GroupKey, PlanId};
use offset_guard::domain::offset::TopicPartition;
use offset_guard::domain::plan::{Plan, PlanResult};
use offset_guard::domain::recovery::AlterAnswer;
use offset_guard::domain::testing::pending_approval;
use offset_guard::error::Error as AppError;
use offset_guard::kafka::{ConnectionSettings, GroupReader, GroupWriter, RecordReader};
use offset_guard::ports::{AlterGroups, Brokers};
use offset_guard::store::{LinkHash, Store, TaskToken};
use offset_guard::wire::{CheckpointEvent, PlanStep, PlanVerdict};
use offset_guard_local::client::{Client, Commit};
use offset_guard_tests::World;
use offset_guard_tests::bare::create_table;
use offset_guard_tests::context::{Connect, context};
use serde_json::{Value, json};
use tokio::sync::Notify;
use ulid::Ulid;

/// What is left of an invocation of Apply here: hardly more than it needs to begin.
pub(crate) const LEFT: Duration = Duration::from_secs(31);

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What happens to one request on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// The broker gets it, and its answer is heard.
    Send,
    /// The process dies before it sends.
    DieBefore,
    /// The process dies when the broker has it, before anything is noted.
    DieAfter,
    /// It never reaches the broker, and nobody can tell.
    LoseRequest,
    /// The broker gets it, and nobody hears its answer.
    LoseReply,
    /// As [`Act::Send`]; then somebody switches applying off.
    SendAndSwitchOff,
    /// As [`Act::Send`]; then Verify raises its fence while Apply is still on its way.
    SendAndFence,
}

/// A recovery of one group.
#[derive(Clone)]
pub(crate) struct Bench {
    pub(crate) store: Store,
    /// The name of the table.
    pub(crate) table: String,
    config: Arc<Config>,
    pub(crate) execution: ExecutionArn,
    pub(crate) group: String,
    pub(crate) topic: String,
    client: Client,
    settings: ConnectionSettings,
    started_at: Timestamp,
}

impl Bench {
    /// A group of the policy `policy` and a topic of `partitions` partitions with `records` records each.
    pub(crate) async fn new(
        world: &World,
        policy: &str,
        partitions: i32,
        records: usize,
    ) -> Result<Self> {
        let bench = Self::on(
            world,
            world.client.clone(),
            world.settings(),
            world.config()?,
            policy,
        )
        .await?;
        bench
            .client
            .create_topic(&bench.topic, partitions, &[])
            .await?;
        let records: Vec<_> = (0..partitions)
            .flat_map(|partition| {
                (0..records).map(move |n| {
                    offset_guard_local::client::Record::new(partition, format!("{partition} {n}"))
                })
            })
            .collect();
        bench.client.produce(&bench.topic, &records).await?;
        Ok(bench)
    }

    /// On another Kafka than the world's, without a topic.
    pub(crate) async fn on(
        world: &World,
        client: Client,
        settings: ConnectionSettings,
        config: Config,
        policy: &str,
    ) -> Result<Self> {
        let id = Ulid::generate();
        let table = format!("bench-{id}");
        let dynamodb = aws_sdk_dynamodb::Client::new(world.operator.sdk());
        Ok(Self {
            store: create_table(&dynamodb, &table)
                .await
                .map_err(|error| -> Box<dyn Error> { error })?,
            table,
            config: Arc::new(config),
            execution: ExecutionArn(format!("arn:of:an:execution:{id}")),
            group: format!("{policy}-{}", id.to_string().to_lowercase()),
            topic: format!("bench-{}", id.to_string().to_lowercase()),
            client,
            settings,
            started_at: Timestamp::now(),
        })
    }

    /// Another recovery of the same group.
    pub(crate) fn again(&self) -> Self {
        Self {
            execution: ExecutionArn(format!("arn:of:an:execution:{}", Ulid::generate())),
            started_at: Timestamp::now(),
            ..self.clone()
        }
    }

    /// Commits one offset in each of the first partitions, as the group's consumers would.
    pub(crate) async fn commit(&self, offsets: &[i64]) -> Result<()> {
        let commits: Vec<_> = (0..)
            .zip(offsets)
            .map(|(partition, offset)| Commit::new(&self.topic, partition, *offset))
            .collect();
        Ok(self.client.commit(&self.group, &commits).await?)
    }

    /// What is committed in each of the first partitions.
    pub(crate) async fn offsets(&self, partitions: i32) -> Result<Vec<Option<i64>>> {
        Ok(self
            .client
            .committed(&self.group, &self.topic, partitions)
            .await?)
    }

    /// Takes a checkpoint.
    pub(crate) async fn checkpoint(&self) -> Result<()> {
        let event = CheckpointEvent {
            group: Some(self.group.clone()),
            cluster: Some("main".to_owned()),
            ..CheckpointEvent::default()
        };
        checkpoint::run(&self.config, &self.store, &event, self.reads()).await?;
        Ok(())
    }

    /// A request to move the first `partitions` to `offset`.
    pub(crate) fn to(&self, partitions: i32, offset: i64) -> Value {
        let offsets: Vec<_> = (0..partitions)
            .map(|partition| json!({"topic": self.topic, "partition": partition, "offset": offset}))
            .collect();
        json!({ "to_offsets": offsets })
    }

    /// The plan step; the plan is expected to be one that waits for its approval.
    pub(crate) async fn plan(&self, target: &Value) -> Result<PlanId> {
        let mut request = json!({
            "cluster": "main", "group": self.group, "dry_run": false, "reason": "a test", "requested_by": "tests",
        });
        if let (Some(request), Some(target)) = (request.as_object_mut(), target.as_object()) {
            request.extend(target.clone());
        }
        self.plan_step(&json!({ "request": request })).await
    }

    /// The plan step for a plan that the guard made; it is expected to be one that waits for its approval.
    pub(crate) async fn take_over(&self, id: &PlanId) -> Result<PlanId> {
        self.plan_step(&json!({ "plan_id": id })).await
    }

    async fn plan_step(&self, input: &Value) -> Result<PlanId> {
        let step = plan::PlanTask {
            execution: &self.execution,
            started_at: self.started_at,
            input,
        };
        let answer = plan::run(&self.config, &self.store, &step, self.reads()).await?;
        if answer.verdict == PlanVerdict::NeedsApproval {
            return Ok(answer.plan_id);
        }
        Err(answer.summary.into())
    }

    /// Takes a plan of the guard over, approves and admits it; everything up to Apply.
    pub(crate) async fn approved_plan(&self, id: &PlanId) -> Result<()> {
        self.take_over(id).await?;
        let admission = self.admit(id).await?;
        if admission.admitted {
            return Ok(());
        }
        Err(format!("not admitted: {:?}", admission.refused).into())
    }

    /// The stored plan.
    pub(crate) async fn stored(&self, id: &PlanId) -> Result<Plan> {
        match self.store.plan(id).await?.map(|record| record.result) {
            Some(PlanResult::Ready(plan)) => Ok(plan),
            _ => Err("there is no such plan".into()),
        }
    }

    /// Takes a plan of the guard over; a person rejects it, and that is reported.
    pub(crate) async fn rejected_plan(&self, id: &PlanId, why: &str) -> Result<Audit> {
        self.take_over(id).await?;
        self.decide(id, Decision::Reject, why).await?;
        let admission = approval::admit_plan(&self.reading(), &self.step(id)).await?;
        if admission.admitted {
            return Err("what was rejected is admitted".into());
        }
        self.report(id).await
    }

    /// A person approves; then the admission step.
    pub(crate) async fn admit(&self, id: &PlanId) -> Result<approval::Admission> {
        self.decide(id, Decision::Approve, "").await?;
        Ok(approval::admit_plan(&self.reading(), &self.step(id)).await?)
    }

    async fn decide(&self, id: &PlanId, decision: Decision, why: &str) -> Result<()> {
        let plan = self.stored(id).await?;
        let link = LinkHash::of(&Ulid::generate().to_string());
        let asked = Approval {
            execution: self.execution.clone(),
            created_at: Timestamp::now(),
            ..pending_approval(&plan)
        };
        let token = TaskToken::new("of nothing that waits".to_owned());
        self.store.request_approval(&asked, &link, &token).await?;
        self.store
            .decide(
                &link,
                &asked.digest,
                decision,
                "somebody",
                why,
                Timestamp::now(),
            )
            .await?;
        Ok(())
    }

    /// Plans, approves and admits; everything up to Apply.
    pub(crate) async fn approved(&self, target: &Value) -> Result<PlanId> {
        let id = self.plan(target).await?;
        let admission = self.admit(&id).await?;
        if admission.admitted {
            return Ok(id);
        }
        Err(format!("not admitted: {:?}", admission.refused).into())
    }

    /// One look of the observe step.
    pub(crate) async fn observe(&self, id: &PlanId) -> Result<observe::Observed> {
        Ok(observe::observe_group(&self.reading(), &self.step(id)).await?)
    }

    /// The apply step, whose requests meet `acts` in order; those beyond are sent.
    pub(crate) async fn apply(
        &self,
        id: &PlanId,
        acts: &[Act],
    ) -> std::result::Result<apply::Applied, AppError> {
        self.apply_within(id, LEFT, acts, &Notify::new(), async || Ok(()))
            .await
    }

    /// The apply step with so much left of its invocation.
    pub(crate) async fn apply_in(&self, id: &PlanId, left: Duration) -> Result<apply::Applied> {
        let (act, meanwhile) = (Notify::new(), async || Ok(()));
        Ok(self.apply_within(id, left, &[], &act, meanwhile).await?)
    }

    /// The apply step, paused between its last reading and its first request until `meanwhile` has ended.
    pub(crate) async fn apply_paused(
        &self,
        id: &PlanId,
        meanwhile: impl AsyncFn() -> Result<()>,
    ) -> Result<apply::Applied> {
        Ok(self
            .apply_within(id, LEFT, &[], &Notify::new(), meanwhile)
            .await?)
    }

    /// The apply step with so much of its invocation left.
    pub(crate) async fn apply_with(
        &self,
        id: &PlanId,
        left: Duration,
    ) -> std::result::Result<apply::Applied, AppError> {
        self.apply_within(id, left, &[], &Notify::new(), async || Ok(()))
            .await
    }

    /// The apply step in a process that dies as `acts` say.
    pub(crate) async fn apply_killed(&self, id: &PlanId, acts: &[Act]) -> Result<()> {
        let dying = Notify::new();
        tokio::select! {
            ended = self.apply_within(id, LEFT, acts, &dying, async || Ok(())) => Err(format!("it ended: {ended:?}").into()),
            () = dying.notified() => Ok(()),
        }
    }

    async fn apply_within(
        &self,
        id: &PlanId,
        left: Duration,
        acts: &[Act],
        dying: &Notify,
        paused: impl AsyncFn() -> Result<()>,
    ) -> std::result::Result<apply::Applied, AppError> {
        let write = async |_: &str| {
            paused()
                .await
                .map_err(|error| AppError::Broken(error.to_string()))?;
            Ok(Faulty {
                real: GroupWriter::connect(&self.settings)?,
                bench: self,
                plan: id,
                acts,
                next: AtomicUsize::new(0),
                dying,
            })
        };
        let brokers = Connect {
            groups: self.reads(),
            writer: write,
            records: async |_: &str| {
                Ok(RecordReader::connect(
                    self.settings.clone(),
                    offset_guard_tests::reader_program(),
                )?)
            },
        };
        let ctx = context(self.config.clone(), &self.store, brokers);
        apply::apply_plan(&ctx, &self.step(id), left).await
    }

    /// The verify step.
    pub(crate) async fn verify(&self, id: &PlanId) -> Result<verify::Verified> {
        Ok(verify::verify_plan(&self.reading(), &self.step(id)).await?)
    }

    /// The verify step when the time in which the dead Apply could have sent anything is over.
    pub(crate) async fn verify_later(&self, id: &PlanId) -> Result<verify::Verified> {
        let recovery = self.store.recovery(id).await?;
        let until = recovery
            .and_then(|recovery| recovery.apply_until)
            .ok_or("no Apply began")?;
        self.store.end_apply(id, until, Timestamp::now()).await?;
        self.verify(id).await
    }

    /// The report step; what is on record afterwards.
    pub(crate) async fn report(&self, id: &PlanId) -> Result<Audit> {
        let state = serde_json::from_value(json!({"plan": {
            "verdict": "needs_approval", "plan_id": id, "digest": null, "summary": "",
        }}))?;
        report::report_execution(&self.reading(), &self.execution, None, &state).await?;
        let audit = self.store.audit_of(&self.execution).await?;
        let audit = audit.ok_or("there is no audit record")?;
        let cluster = audit.cluster_id.clone().ok_or("no cluster")?;
        let group = audit.group.clone().ok_or("no group")?;
        if self
            .store
            .claim(&GroupKey::new(cluster, group))
            .await?
            .is_some()
        {
            return Err("the claim is not released".into());
        }
        if !self.store.open_recoveries().await?.is_empty() {
            return Err("the recovery is still open".into());
        }
        Ok(audit)
    }

    fn step(&self, id: &PlanId) -> PlanStep {
        PlanStep {
            execution: self.execution.clone(),
            plan_id: id.clone(),
        }
    }

    /// A context in which groups can be read, and nothing else of Kafka.
    fn reading(&self) -> Context<impl Brokers + use<'_>> {
        context(
            self.config.clone(),
            &self.store,
            Connect::reading(self.reads()),
        )
    }

    fn reads(&self) -> impl AsyncFn(&str) -> std::result::Result<GroupReader, AppError> {
        async |_: &str| Ok(GroupReader::connect(self.settings.clone())?)
    }
}

/// The real writer behind a fault.
struct Faulty<'a> {
    real: GroupWriter,
    bench: &'a Bench,
    plan: &'a PlanId,
    acts: &'a [Act],
    next: AtomicUsize,
    dying: &'a Notify,
}

impl Faulty<'_> {
    async fn die(&self) -> BTreeMap<TopicPartition, AlterAnswer> {
        self.dying.notify_one();
        std::future::pending().await
    }
}

impl AlterGroups for Faulty<'_> {
    async fn alter(
        &self,
        request: &AlterRequest,
        timeout: Duration,
    ) -> BTreeMap<TopicPartition, AlterAnswer> {
        let partitions: Vec<_> = match request.change() {
            Change::Commit(commits) => commits.iter().map(|(p, _)| p.clone()).collect(),
            Change::Remove(partitions) => partitions.clone(),
        };
        let unknown = || {
            let lost = AlterAnswer::Unknown("no answer".to_owned());
            let answers = partitions.iter().map(|p| (p.clone(), lost.clone()));
            answers.collect()
        };
        let send = AlterGroups::alter(&self.real, request, timeout);
        let act = self.acts.get(self.next.fetch_add(1, Ordering::Relaxed));
        match act.copied().unwrap_or(Act::Send) {
            Act::Send => send.await,
            Act::DieBefore => self.die().await,
            Act::DieAfter => {
                send.await;
                self.die().await
            }
            Act::LoseRequest => unknown(),
            Act::LoseReply => {
                send.await;
                unknown()
            }
            Act::SendAndSwitchOff => {
                let answers = send.await;
                match self.bench.store.set_apply_switch(false).await {
                    Ok(()) => answers,
                    Err(_) => unknown(),
                }
            }
            Act::SendAndFence => {
                let answers = send.await;
                match self
                    .bench
                    .store
                    .raise_fence(self.plan, &self.bench.execution)
                    .await
                {
                    Ok(_) => answers,
                    Err(_) => unknown(),
                }
            }
        }
    }

    async fn close(self) {
        AlterGroups::close(self.real).await;
    }
}
