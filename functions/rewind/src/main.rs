//! The steps of a recovery that read or change a group. Deployed twice: once to read, once to apply.

#![forbid(unsafe_code)]

use std::time::{Duration, SystemTime};

use lambda_runtime::{Context, Error, LambdaEvent, service_fn};
use offset_guard::app::{apply, observe, plan, rights, verify};
use offset_guard::connect::Role;
use offset_guard::env::{Env, event};
use offset_guard::error;
use offset_guard::kafka;
use offset_guard::wire::RewindStep;
use serde::Serialize;
use serde_json::Value;

fn main() -> Result<(), Error> {
    // Before all else: a process that reads records is this program too, and needs nothing of what follows.
    kafka::serve_if_asked();
    run()
}

#[tokio::main]
async fn run() -> Result<(), Error> {
    let env = Env::start().await?;
    let env = &env;
    lambda_runtime::run(service_fn(move |received: LambdaEvent<Value>| {
        handle(env, received)
    }))
    .await
}

/// The answer of whichever step it was.
#[derive(Serialize)]
#[serde(untagged)]
enum Answer {
    Plan(offset_guard::wire::PlanAnswer),
    CheckRights(rights::Checked),
    Observe(observe::Observed),
    Apply(apply::Applied),
    Verify(verify::Verified),
}

/// The steps are boxed: each is a deep future, and their types together would be too deep for the compiler.
async fn handle(env: &Env, received: LambdaEvent<Value>) -> Result<Answer, error::Error> {
    env.allow(&received.payload)?;
    let read = async |cluster: &str| env.reader(cluster, Role::Read).await;
    let connect = apply::Connect {
        reader: async |cluster: &str| env.reader(cluster, Role::Apply).await,
        writer: async |cluster: &str| env.writer(cluster).await,
        records: async |cluster: &str| env.records(cluster, Role::Apply).await,
    };
    let (config, store) = (&env.config, &env.store);
    Ok(match event(received.payload)? {
        RewindStep::Plan {
            execution,
            started_at,
            input,
        } => {
            let planned = plan::run(config, store, &execution, started_at, &input, read);
            Answer::Plan(Box::pin(planned).await?)
        }
        RewindStep::Observe(step) => {
            Answer::Observe(Box::pin(observe::run(config, store, &step, read)).await?)
        }
        RewindStep::CheckRights(step) => {
            Answer::CheckRights(Box::pin(rights::run(store, &step, connect.reader)).await?)
        }
        RewindStep::Apply(step) => {
            let left = time_left(&received.context);
            let on = env.apply_enabled;
            let applied = apply::run(config, store, &step, left, on, connect);
            Answer::Apply(Box::pin(applied).await?)
        }
        RewindStep::Verify(step) => {
            Answer::Verify(Box::pin(verify::run(store, &step, read)).await?)
        }
    })
}

/// How much of this invocation is left.
fn time_left(context: &Context) -> Duration {
    context
        .deadline()
        .duration_since(SystemTime::now())
        .unwrap_or_default()
}
