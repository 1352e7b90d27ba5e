//! Every step on a group of 10,000 partitions, beside Kafka's own tool and a Go program over franz-go's kadm: on one
//! broker, in one run, each in a process of its own, by the clock and by the most memory that the process ever held.
//!
//! `cargo bench -p offset-guard-tests`; with `--profile dev` nothing has to be built anew. It needs Go.

#![forbid(unsafe_code)]
// The futures of whole steps lie in each other, deeper than the compiler goes by default.
#![recursion_limit = "256"]

use std::collections::BTreeSet;
use std::env;
use std::fs::{self, File};
use std::io::{ErrorKind, Write, stdout};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use offset_guard::app::context::Context;
use offset_guard::app::{apply, approval, checkpoint, observe, plan, plan_id, verify};
use offset_guard::config::Config;
use offset_guard::domain::approval::{Approval, Decision};
use offset_guard::domain::ids::ExecutionArn;
use offset_guard::domain::offset::GroupId;
use offset_guard::domain::plan::PlanResult;
use offset_guard::domain::recovery::Outcome as Recovered;
use offset_guard::domain::testing::pending_approval;
use offset_guard::env::{Env, written};
use offset_guard::kafka::{Auth, ConnectionSettings, GroupReader};
use offset_guard::ports::ReadGroups;
use offset_guard::store::{LinkHash, Store, TaskToken};
use offset_guard::wire::{CheckpointEvent, PlanStep};
use offset_guard_local::aws::LocalAws;
use offset_guard_local::client::Client;
use offset_guard_local::kafka::Kafka;
use offset_guard_local::run::Run;
use offset_guard_local::workdir::progress;
use offset_guard_tests::context::context;
use offset_guard_tests::{Outcome, bare, now, wide};
use serde_json::json;
use ulid::Ulid;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// How often everything is run; the table shows the median and the extremes.
const ROUNDS: usize = 5;

const TOPIC: &str = "wide";
const TABLE: &str = "offset-guard";
const BOOTSTRAP: &str = "BENCH_BOOTSTRAP";

#[tokio::main]
async fn main() -> Outcome {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["step", name, group, execution, before] => {
            step(name, group, execution.into(), before).await
        }
        // `cargo test` only wants to know that it builds.
        _ if !args.contains(&"--bench") => Ok(()),
        _ => bench().await,
    }
}

/// One step as its function runs it, in this process.
async fn step(name: &str, group: &str, execution: ExecutionArn, before: &str) -> Outcome {
    if name == "read" {
        let settings = ConnectionSettings::new(env::var(BOOTSTRAP)?, Auth::Plaintext);
        let reader = GroupReader::connect(settings)?;
        let group = GroupId(group.to_owned());
        let seen = reader.observe(&group, &BTreeSet::new(), true).await?;
        let all = usize::try_from(wide::PARTITIONS)?;
        return expect(seen.partitions.len() == all && seen.faults().next().is_none());
    }
    let env = Env::start().await.map_err(|error| error.to_string())?;
    let ctx = Context {
        apply_enabled: true,
        ..env.context()
    };
    let started_at: Timestamp = before.parse()?;
    let on_plan = PlanStep {
        execution: execution.clone(),
        plan_id: plan_id(&execution, started_at),
    };
    match name {
        "checkpoint" => {
            let asked = json!({"cluster": "main", "group": group});
            let asked = written(CheckpointEvent::read(&asked))?;
            checkpoint::take_checkpoints(&ctx, &asked).await?;
        }
        "plan" => {
            let request = json!({"request": {
                "cluster": "main", "group": group, "rewind_before": before, "dry_run": false,
                "reason": "a benchmark", "requested_by": "a benchmark",
            }});
            let step = plan::PlanTask {
                execution: &execution,
                started_at,
                input: &request,
            };
            plan::plan_recovery(&ctx, &step).await?;
        }
        "observe" => {
            observe::observe_group(&ctx, &on_plan).await?;
        }
        "apply" => {
            let left = Duration::from_secs(120);
            let applied = apply::apply_plan(&ctx, &on_plan, left).await?;
            expect(applied.accepted == usize::try_from(wide::PARTITIONS)?)?;
        }
        "verify" => {
            let verified = verify::verify_plan(&ctx, &on_plan).await?;
            expect(verified.outcome == Some(Recovered::Verified))?;
        }
        other => return Err(format!("there is no step {other}").into()),
    }
    Ok(())
}

fn expect(held: bool) -> Outcome {
    if held {
        Ok(())
    } else {
        Err("the step did not come to what it should".into())
    }
}

/// One row of the table: what each round took and held.
struct Row {
    name: &'static str,
    rounds: Vec<Used>,
}

#[derive(Clone, Copy)]
struct Used {
    time: Duration,
    /// Bytes.
    peak: u64,
}

const READ: &str = "read the group";
const TOOL: &str = "kafka-consumer-groups --describe";
const KADM: &str = "franz-go kadm: describe, committed, start, end";

async fn bench() -> Outcome {
    let run = Run::open(Duration::ZERO)?;
    let kadm = build_kadm(run.dir())?;
    progress("Starting Apache Kafka and the local AWS ...");
    let kafka = Kafka::start(&run, &wide::kafka()).await?;
    let aws = LocalAws::start(&run, &[].into()).await?;
    let store = bare::create_table(
        &aws_sdk_dynamodb::Client::new(&bare::local_sdk(&aws.endpoint())),
        TABLE,
    )
    .await
    .map_err(|error| error.to_string())?;
    let config = run.dir().join("offset-guard.toml");
    let text = format!(
        "[clusters.main]\nbootstrap_servers = [\"{}\"]\nauth = \"plaintext\"\n\n\
         [[groups]]\npattern = \"wide-*\"\nsettle_seconds = 1\n",
        kafka.bootstrap()
    );
    fs::write(&config, text)?;
    let configured = Arc::new(Config::load(&config)?);

    progress("Making a topic of 10,000 partitions ...");
    let client = Client::new(&kafka.bootstrap(), &[].into());
    wide::topic(&client, TOPIC).await?;

    let mut rows: Vec<Row> = [
        READ,
        "checkpoint",
        "plan",
        "observe",
        "apply",
        "verify",
        TOOL,
        KADM,
    ]
    .map(|name| Row {
        name,
        rounds: Vec::new(),
    })
    .into();
    for round in 0..ROUNDS {
        progress(&format!("Round {} of {ROUNDS} ...", round + 1));
        let group = format!("wide-{round}");
        let execution = Ulid::generate().to_string();
        wide::commit(&client, &group, TOPIC, 0).await?;
        let mut before = String::from("-");
        let own = |name: &str, before: &str| -> Result<Command> {
            let mut command = Command::new(env::current_exe()?);
            command
                .args(["step", name, &group, &execution, before])
                .envs(aws.env())
                .env("NO_PROXY", "127.0.0.1,localhost")
                .env("OFFSET_GUARD_CONFIG", &config)
                .env("OFFSET_GUARD_TABLE", TABLE)
                .env(BOOTSTRAP, kafka.bootstrap());
            Ok(command)
        };
        let log = run.dir().join("step.log");
        for row in &mut rows {
            let used = match row.name {
                READ => measure(own("read", &now())?, &log)?,
                TOOL => {
                    let args = ["--describe", "--group", &group];
                    let used = measure(kafka.cli()?.consumer_groups_command(&args), &log)?;
                    let rows = fs::read_to_string(&log)?;
                    let rows = rows.lines().filter(|line| line.starts_with(&group));
                    expect(rows.count() == usize::try_from(wide::PARTITIONS)?)?;
                    used
                }
                KADM => {
                    let mut command = Command::new(&kadm);
                    command.args([&kafka.bootstrap(), &group]);
                    let used = measure(command, &log)?;
                    expect(fs::read_to_string(&log)? == format!("{0} {0}\n", wide::PARTITIONS))?;
                    used
                }
                "checkpoint" => {
                    let used = measure(own("checkpoint", &now())?, &log)?;
                    before = now();
                    wide::commit(&client, &group, TOPIC, 1).await?;
                    used
                }
                "observe" => {
                    approve(
                        configured.clone(),
                        &store,
                        &execution.as_str().into(),
                        &before,
                    )
                    .await?;
                    // A plan of several requests needs two looks that are a second apart.
                    measure(own("observe", &before)?, &log)?;
                    tokio::time::sleep(Duration::from_millis(1_100)).await;
                    measure(own("observe", &before)?, &log)?
                }
                name => measure(own(name, &before)?, &log)?,
            };
            row.rounds.push(used);
        }
    }
    print(&mut rows)?;
    kafka.stop().await?;
    aws.stop().await?;
    Ok(())
}

/// Builds the Go program.
fn build_kadm(dir: &Path) -> Result<PathBuf> {
    let program = dir.join("kadm");
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/benches/kadm"))
        .status();
    match built {
        Ok(status) if status.success() => Ok(program),
        Ok(status) => Err(format!("go build failed with {status}").into()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err("go is missing, which only this benchmark needs: apt-get install golang-go".into())
        }
        Err(error) => Err(error.into()),
    }
}

/// What the approver and the step after them do, as quickly as can be.
async fn approve(
    config: Arc<Config>,
    store: &Store,
    execution: &ExecutionArn,
    before: &str,
) -> Outcome {
    let id = plan_id(execution, before.parse()?);
    let record = store.plan(&id).await?.ok_or("there is no plan")?;
    let PlanResult::Ready(plan) = record.result else {
        return Err("the plan is not ready".into());
    };
    let now = Timestamp::now();
    let asked = Approval {
        execution: execution.clone(),
        created_at: now,
        ..pending_approval(&plan)
    };
    let link = LinkHash::of(&execution.0);
    store
        .request_approval(&asked, &link, &TaskToken::new(execution.0.clone()))
        .await?;
    let by = "a benchmark";
    store
        .decide(&link, &asked.digest, Decision::Approve, by, "", now)
        .await?;
    let step = PlanStep {
        execution: execution.clone(),
        plan_id: id,
    };
    let ctx = context(config, store, ());
    expect(approval::admit_plan(&ctx, &step).await?.admitted)
}

/// Runs a process to its end, its output in `log`.
fn measure(mut command: Command, log: &Path) -> Result<Used> {
    command
        .stdin(Stdio::null())
        .stdout(File::create(log)?)
        .stderr(Stdio::inherit());
    let began = Instant::now();
    let mut child = command.spawn()?;
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        // The kernel keeps the highest mark, so the last look before the end is the one that counts.
        if let Some(now) = fs::read_to_string(&status)
            .ok()
            .as_deref()
            .and_then(high_water)
        {
            peak = now;
        }
        if let Some(status) = child.try_wait()? {
            let time = began.elapsed();
            let text = || fs::read_to_string(log).unwrap_or_default();
            return match status.success() {
                true => Ok(Used { time, peak }),
                false => Err(format!("{status}: {}", text()).into()),
            };
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// `VmHWM`, in bytes.
fn high_water(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes << 10)
}

fn print(rows: &mut [Row]) -> Outcome {
    let mut out = stdout().lock();
    let profile = if cfg!(debug_assertions) {
        "dev"
    } else {
        "release"
    };
    writeln!(
        out,
        "\n{} partitions, {ROUNDS} rounds, our side built with the {profile} profile\n",
        wide::PARTITIONS
    )?;
    for row in &mut *rows {
        row.rounds.sort_by_key(|used| used.time);
    }
    let of = |row: &Row| {
        let median = row.rounds[row.rounds.len() / 2].time.as_secs_f64();
        let peak = row
            .rounds
            .iter()
            .map(|used| used.peak)
            .max()
            .unwrap_or_default();
        #[expect(clippy::cast_precision_loss, reason = "megabytes to one decimal")]
        (median, peak as f64 / 1e6)
    };
    let (peer_time, peer_peak) = rows.last().map(&of).ok_or("there is no row")?;
    writeln!(
        out,
        "| step, a process each | time (s): median | min – max | peak memory (MB) | time ÷ kadm | memory ÷ kadm |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|")?;
    for row in rows {
        let (time, peak) = of(row);
        let (first, last) = (row.rounds.first(), row.rounds.last());
        let seconds = |used: Option<&Used>| used.map_or(0.0, |used| used.time.as_secs_f64());
        writeln!(
            out,
            "| {} | {time:.2} | {:.2} – {:.2} | {peak:.0} | {:.1} | {:.1} |",
            row.name,
            seconds(first),
            seconds(last),
            time / peer_time,
            peak / peer_peak
        )?;
    }
    Ok(())
}
