//! The steps of a recovery that read or change a group. Deployed twice: once to read, once to apply.

#![forbid(unsafe_code)]

use lambda_runtime::{Error, LambdaEvent, service_fn};
use offset_guard::app::{apply, observe, plan, rights, verify};
use offset_guard::env::{Env, event, time_left};
use offset_guard::error;
use offset_guard::kafka;
use offset_guard::ports::{Brokers, Role};
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
    let ctx = env.context();
    let read = async |cluster: &str| ctx.brokers.groups(cluster, Role::Read).await;
    Ok(match event(received.payload)? {
        RewindStep::Plan {
            execution,
            started_at,
            input,
        } => {
            let (config, store) = (&ctx.config, &ctx.store);
            let step = plan::PlanTask {
                execution: &execution,
                started_at,
                input: &input,
            };
            let planned = plan::run(config, store, &step, read);
            Answer::Plan(Box::pin(planned).await?)
        }
        RewindStep::Observe(step) => {
            Answer::Observe(Box::pin(observe::observe_group(&ctx, &step)).await?)
        }
        RewindStep::CheckRights(step) => {
            Answer::CheckRights(Box::pin(rights::check_rights(&ctx, &step)).await?)
        }
        RewindStep::Apply(step) => {
            let left = time_left(&received.context);
            Answer::Apply(Box::pin(apply::apply_plan(&ctx, &step, left)).await?)
        }
        RewindStep::Verify(step) => {
            Answer::Verify(Box::pin(verify::verify_plan(&ctx, &step)).await?)
        }
    })
}
