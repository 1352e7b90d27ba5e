//! Runs of the guard in this process: the real use case over the real Kafka, with a table, a configuration and a
//! quarantine topic of a test's own, with an end of the process wherever a test wants one, and with a state machine that
//! does nothing, so that each step of a recovery is the test's to take.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use jiff::Timestamp;
use offset_guard::app::context::Context;
use offset_guard::app::guard::{self, GuardResult, Sources};
use offset_guard::aws::step_functions::StepFunctions;
use offset_guard::config::Config;
use offset_guard::domain::group::{GroupDescription, GroupObservation};
use offset_guard::domain::guard::quarantine::KeptCopy;
use offset_guard::domain::guard::record::Header;
use offset_guard::domain::guard::run::GuardRun;
use offset_guard::domain::guard::verdict::{Finding, Verdict};
use offset_guard::domain::ids::PlanId;
use offset_guard::domain::offset::{
    ClusterId, CommittedOffset, Fault, FoundByTime, GroupId, TopicPartition,
};
use offset_guard::domain::plan::Plan;
use offset_guard::domain::rights::Rights;
use offset_guard::error::Error as AppError;
use offset_guard::kafka::{ConnectionSettings, GroupReader, RecordKeeper, RecordReader};
use offset_guard::ports::{
    BrokerError, KeepRecords, KeepingTopic, ReadGroups, ReadLimits, ReadRecords, RecordsRead, View,
};
use offset_guard::wire::guard::GuardEvent;
use offset_guard_local::client::{Client, Record};
use offset_guard_tests::World;
use offset_guard_tests::context::{Guarded, context};
use serde_json::{Value, json};
use tokio::sync::Notify;
use ulid::Ulid;

use super::copies;
use crate::asked::Result;
use crate::bench::Bench;

/// How long a run of the guard may wait for brokers here.
const RUN: Duration = Duration::from_secs(20);

/// What every policy here has, unless it says otherwise: two looks, and no time at all between runs.
const USUAL: [(&str, &str); 6] = [
    ("dry_run", "false"),
    ("min_samples", "2"),
    ("stall_seconds", "1"),
    ("rebalance_grace_seconds", "0"),
    ("validators", "[\"json\"]"),
    ("quarantine_topic", "\"@QUARANTINE@\""),
];

/// Where a run of the guard ends as if its process were killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// It does not.
    Never,
    /// The ledger says that the record is being kept; nothing is written.
    BeforeProduce,
    /// The record is written, and nobody knows.
    AfterProduce,
    /// The broker has it and its delivery report is here; it is not read back.
    BeforeReadBack,
    /// It is confirmed; there is no plan.
    AfterConfirm,
    /// The plan is stored; no execution is started.
    BeforeStart,
}

/// What goes wrong with a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrong {
    Nothing,
    /// The log of one partition cannot be read.
    NoLeader(i32),
}

pub(super) struct Rig {
    pub(super) bench: Bench,
    pub(super) quarantine: String,
    config: Arc<Config>,
    config_text: String,
    client: Client,
    settings: ConnectionSettings,
    sdk: aws_config::SdkConfig,
    machine: String,
}

impl Rig {
    /// A group whose policy of the guard says `more`, over a topic of one partition per entry of `logs`, and a topic to
    /// keep records in.
    pub(super) async fn new(
        world: &World,
        more: &[(&str, &str)],
        logs: &[&[&str]],
    ) -> Result<Self> {
        let rig = Self::bare(world, more).await?;
        rig.client
            .create_topic(&rig.bench.topic, i32::try_from(logs.len())?, &[])
            .await?;
        for (partition, values) in (0..).zip(logs) {
            rig.produce(partition, values).await?;
        }
        rig.client.create_topic(&rig.quarantine, 1, &[]).await?;
        Ok(rig)
    }

    /// The same without any topic.
    pub(super) async fn bare(world: &World, more: &[(&str, &str)]) -> Result<Self> {
        Self::on(world, world.client.clone(), world.stack.bootstrap(), more).await
    }

    /// The same on another Kafka than the world's.
    pub(super) async fn on(
        world: &World,
        client: Client,
        bootstrap: &str,
        more: &[(&str, &str)],
    ) -> Result<Self> {
        let settings = ConnectionSettings::new(bootstrap, offset_guard::kafka::Auth::Plaintext);
        let id = Ulid::generate().to_string().to_lowercase();
        let quarantine = format!("kept-{id}");
        let policy: BTreeMap<_, _> = USUAL.into_iter().chain(more.iter().copied()).collect();
        let policy: Vec<_> = policy
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(key, value)| format!("{key} = {value}"))
            .collect();
        let config_text = format!(
            "[clusters.main]\nbootstrap_servers = [\"{bootstrap}\"]\nauth = \"plaintext\"\n\n[[groups]]\ncluster = \"main\"\n\
             pattern = \"guarded-*\"\nsettle_seconds = 1\nguard = {{ {} }}\n",
            policy.join(", ").replace("@QUARANTINE@", &quarantine)
        );
        let config = Arc::new(Config::parse(&config_text)?);
        let bench = Bench::on(
            world,
            client.clone(),
            settings.clone(),
            Config::parse(&config_text)?,
            "guarded",
        )
        .await?;
        let sdk = world.operator.sdk().clone();
        Ok(Self {
            machine: idle_machine(&sdk, &format!("idle-{id}")).await?,
            bench,
            quarantine,
            config,
            config_text,
            client,
            settings,
            sdk,
        })
    }

    /// The same guard, told to keep records in another topic.
    pub(super) fn keeping_in(self, topic: &str) -> Result<Self> {
        let config_text = self.config_text.replace(&self.quarantine, topic);
        Ok(Self {
            config: Arc::new(Config::parse(&config_text)?),
            config_text,
            ..self
        })
    }

    pub(super) async fn produce(&self, partition: i32, values: &[&str]) -> Result<()> {
        let records: Vec<_> = values
            .iter()
            .map(|value| Record::new(partition, *value))
            .collect();
        self.client.produce(&self.bench.topic, &records).await?;
        Ok(())
    }

    pub(super) fn event(&self) -> Value {
        json!({ "cluster": "main", "group": self.bench.group })
    }

    /// What a person asks for.
    pub(super) fn ask(&self, action: &str, more: &Value) -> Value {
        let mut ask = json!({
            "action": action, "topic": self.bench.topic, "partition": 0, "dry_run": false,
            "requested_by": "somebody", "reason": "seen in its log",
        });
        if let (Some(ask), Some(more)) = (ask.as_object_mut(), more.as_object()) {
            ask.extend(more.clone());
        }
        let mut event = self.event();
        event["ask"] = ask;
        event
    }

    /// One run.
    pub(super) async fn tick(&self) -> Result<GuardResult> {
        self.run(&self.event()).await
    }

    pub(super) async fn run(&self, event: &Value) -> Result<GuardResult> {
        let dying = Notify::new();
        self.run_with(event, End::Never, Wrong::Nothing, &dying)
            .await
    }

    pub(super) async fn run_wrongly(&self, wrong: Wrong) -> Result<GuardResult> {
        let dying = Notify::new();
        self.run_with(&self.event(), End::Never, wrong, &dying)
            .await
    }

    /// Looks until there is a stall.
    pub(super) async fn until_stalled(&self) -> Result<GuardResult> {
        self.tick().await?;
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        self.tick().await
    }

    /// As [`Rig::until_stalled`], and there is a plan.
    pub(super) async fn until_planned(&self) -> Result<(PlanId, Plan)> {
        let result = self.until_stalled().await?;
        self.planned(result).await
    }

    /// The plan that a run made.
    pub(super) async fn planned(&self, result: GuardResult) -> Result<(PlanId, Plan)> {
        let plan = result.plan.clone();
        let plan = plan.ok_or_else(|| format!("there is no plan: {result:?}"))?;
        let stored = self.bench.stored(&plan).await?;
        Ok((plan, stored))
    }

    /// A run whose process ends at `end`.
    pub(super) async fn killed(&self, end: End) -> Result<()> {
        let dying = Notify::new();
        let event = self.event();
        tokio::select! {
            ended = self.run_with(&event, end, Wrong::Nothing, &dying) => match ended {
                // That nothing can be started is as good as an end right before the start.
                Err(_) if end == End::BeforeStart => Ok(()),
                ended => Err(format!("it ended: {ended:?}").into()),
            },
            () = dying.notified() => Ok(()),
        }
    }

    /// One run in which everything that a test wants goes wrong.
    async fn run_with(
        &self,
        event: &Value,
        end: End,
        wrong: Wrong,
        dying: &Notify,
    ) -> Result<GuardResult> {
        let deadline = std::time::Instant::now() + RUN;
        let connect = async |_: &str| -> std::result::Result<_, AppError> {
            let faulty = Faulty {
                end,
                wrong,
                dying,
                quarantine: &self.quarantine,
            };
            Ok(Sources {
                groups: Groups {
                    real: GroupReader::connect(self.settings.clone())?.until(deadline),
                    faulty,
                },
                records: Records {
                    real: RecordReader::connect(
                        self.settings.clone(),
                        offset_guard_tests::reader_program(),
                    )?
                    .until(deadline),
                    faulty,
                },
                keeper: Keeper {
                    real: RecordKeeper::connect(self.settings.clone())?,
                    faulty,
                },
                proxy: None,
            })
        };
        let machine = if end == End::BeforeStart {
            format!("{}-nowhere", self.machine)
        } else {
            self.machine.clone()
        };
        self.run_on(event, &machine, connect).await
    }

    /// One run over any sources.
    pub(super) async fn run_on<R, D, K, F>(
        &self,
        event: &Value,
        machine: &str,
        connect: F,
    ) -> Result<GuardResult>
    where
        R: ReadGroups,
        D: ReadRecords,
        K: KeepRecords,
        F: AsyncFn(&str) -> std::result::Result<Sources<R, D, K>, AppError>,
    {
        let event = GuardEvent::read(event).map_err(|faults| format!("{faults:?}"))?;
        let client = aws_sdk_sfn::Client::new(&self.sdk);
        let executions = StepFunctions::new(client, machine.to_owned());
        let ctx = Context {
            executions: Arc::new(executions),
            ..context(self.config.clone(), &self.bench.store, Guarded(connect))
        };
        let run = guard::guard_groups(&ctx, &event);
        let mut results = Box::pin(run).await?;
        results.pop().ok_or_else(|| "no result".into())
    }

    pub(super) fn machine(&self) -> &str {
        &self.machine
    }

    /// The names of the executions that were started.
    pub(super) async fn started(&self) -> Result<BTreeSet<String>> {
        let client = aws_sdk_sfn::Client::new(&self.sdk);
        let listed = client
            .list_executions()
            .state_machine_arn(&self.machine)
            .send()
            .await?;
        Ok(listed
            .executions
            .into_iter()
            .map(|execution| execution.name)
            .collect())
    }

    /// All copies, oldest first.
    pub(super) async fn copies(&self) -> Result<Vec<Record>> {
        copies(&self.client, &self.quarantine, &self.bench.topic).await
    }

    pub(super) async fn offset(&self) -> Result<Option<i64>> {
        Ok(self.bench.offsets(1).await?[0])
    }

    pub(super) fn partition(&self, number: i32) -> TopicPartition {
        TopicPartition::new(&self.bench.topic, number)
    }

    pub(super) fn settings(&self) -> ConnectionSettings {
        self.settings.clone()
    }

    /// The last run that found something.
    pub(super) async fn last_run(&self) -> Result<GuardRun> {
        let since = Timestamp::UNIX_EPOCH;
        let store = &self.bench.store;
        let runs = store.guard_runs_since("main", &self.group(), since).await?;
        let last = runs.into_iter().next();
        last.ok_or_else(|| "no run is on record".into())
    }

    pub(super) fn group(&self) -> GroupId {
        GroupId(self.bench.group.clone())
    }

    /// Lets the leases in the ledger run out.
    pub(super) async fn expire_leases(&self) -> Result<()> {
        let client = aws_sdk_dynamodb::Client::new(&self.sdk);
        let found = client.scan().table_name(&self.bench.table).send().await?;
        for item in found.items() {
            if !item.contains_key("lease_until") {
                continue;
            }
            let mut item = item.clone();
            let past = Timestamp::UNIX_EPOCH.to_string();
            item.insert("lease_until".to_owned(), AttributeValue::S(past));
            client
                .put_item()
                .table_name(&self.bench.table)
                .set_item(Some(item))
                .send()
                .await?;
        }
        Ok(())
    }
}

/// The verdict of a partition in a result.
pub(super) fn verdict(result: &GuardResult, partition: i32) -> Option<Verdict> {
    let mut findings = result.findings.iter();
    let of = |finding: &&Finding| finding.partition.partition == partition;
    findings.find(of).map(|finding| finding.verdict)
}

/// A state machine whose executions end at once.
async fn idle_machine(sdk: &aws_config::SdkConfig, name: &str) -> Result<String> {
    let definition = json!({ "StartAt": "End", "States": { "End": { "Type": "Succeed" } } });
    let created = aws_sdk_sfn::Client::new(sdk)
        .create_state_machine()
        .name(name)
        .definition(definition.to_string())
        .role_arn("arn:aws:iam::000000000000:role/idle")
        .send()
        .await?;
    Ok(created.state_machine_arn)
}

#[derive(Clone, Copy)]
struct Faulty<'a> {
    end: End,
    wrong: Wrong,
    dying: &'a Notify,
    quarantine: &'a str,
}

impl Faulty<'_> {
    /// Never returns where the process ends here.
    async fn here(&self, end: End) {
        if self.end == end {
            self.dying.notify_one();
            std::future::pending().await
        }
    }
}

struct Groups<'a> {
    real: GroupReader,
    faulty: Faulty<'a>,
}

impl ReadGroups for Groups<'_> {
    async fn cluster_id(&self) -> std::result::Result<ClusterId, BrokerError> {
        ReadGroups::cluster_id(&self.real).await
    }

    async fn list_groups(&self) -> std::result::Result<BTreeSet<GroupId>, BrokerError> {
        ReadGroups::list_groups(&self.real).await
    }

    async fn describe(&self, group: &GroupId) -> std::result::Result<GroupDescription, Fault> {
        ReadGroups::describe(&self.real, group).await
    }

    async fn rights(
        &self,
        group: &GroupId,
        topics: &BTreeSet<String>,
    ) -> std::result::Result<Rights, BrokerError> {
        ReadGroups::rights(&self.real, group, topics).await
    }

    async fn observe(
        &self,
        group: &GroupId,
        expected: &BTreeSet<TopicPartition>,
        stable: bool,
    ) -> std::result::Result<GroupObservation, BrokerError> {
        if stable {
            // Only the planner asks for stable offsets.
            self.faulty.here(End::AfterConfirm).await;
        }
        let mut seen = ReadGroups::observe(&self.real, group, expected, stable).await?;
        if let Wrong::NoLeader(number) = self.faulty.wrong {
            for (partition, reading) in &mut seen.partitions {
                if partition.partition == number {
                    reading.log = Err(Fault::NoLeader);
                }
            }
        }
        Ok(seen)
    }

    async fn committed(
        &self,
        group: &GroupId,
        partitions: &[TopicPartition],
    ) -> std::result::Result<
        BTreeMap<TopicPartition, std::result::Result<Option<CommittedOffset>, Fault>>,
        BrokerError,
    > {
        ReadGroups::committed(&self.real, group, partitions).await
    }

    async fn offsets_for_times(
        &self,
        wanted: &[(TopicPartition, Timestamp)],
    ) -> std::result::Result<
        BTreeMap<TopicPartition, std::result::Result<Option<FoundByTime>, Fault>>,
        BrokerError,
    > {
        ReadGroups::offsets_for_times(&self.real, wanted).await
    }
}

struct Records<'a> {
    real: RecordReader,
    faulty: Faulty<'a>,
}

impl ReadRecords for Records<'_> {
    async fn read(
        &self,
        partition: &TopicPartition,
        from: i64,
        until: i64,
        view: View,
        limits: ReadLimits,
    ) -> std::result::Result<RecordsRead, Fault> {
        if partition.topic == self.faulty.quarantine {
            self.faulty.here(End::BeforeReadBack).await;
        }
        self.real.read(partition, from, until, view, limits).await
    }
}

struct Keeper<'a> {
    real: RecordKeeper,
    faulty: Faulty<'a>,
}

impl KeepRecords for Keeper<'_> {
    async fn keeping_topic(&self, topic: &str) -> std::result::Result<Option<KeepingTopic>, Fault> {
        self.real.keeping_topic(topic).await
    }

    async fn keep(
        &self,
        topic: &str,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[Header],
    ) -> std::result::Result<KeptCopy, Fault> {
        self.faulty.here(End::BeforeProduce).await;
        let kept = self.real.keep(topic, key, value, headers).await;
        self.faulty.here(End::AfterProduce).await;
        kept
    }
}
