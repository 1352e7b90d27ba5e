//! Looks at every guarded group, says why partitions are stuck, keeps the record that is in the way, and proposes what to do.

#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use lambda_runtime::{Error, LambdaEvent, service_fn};
use offset_guard::app::guard::{self, GuardResult};
use offset_guard::app::incident;
use offset_guard::domain::guard::verdict::Status;
use offset_guard::env::{Env, time_left, written};
use offset_guard::environment;
use offset_guard::error;
use offset_guard::kafka;
use offset_guard::wire::guard::GuardEvent;
use serde_json::Value;

/// What no broker is waited for at the end of an invocation.
const TO_STORE_AND_ANSWER: Duration = Duration::from_secs(30);

fn main() -> Result<(), Error> {
    // Before all else: a process that reads records is this program too, and needs nothing of what follows.
    kafka::serve_if_asked();
    run()
}

#[tokio::main]
async fn run() -> Result<(), Error> {
    let env = Env::start().await?;
    environment::required("OFFSET_GUARD_STATE_MACHINE")?;
    let env = &env;
    lambda_runtime::run(service_fn(move |received: LambdaEvent<Value>| {
        handle(env, received)
    }))
    .await
}

async fn handle(env: &Env, received: LambdaEvent<Value>) -> Result<Vec<GuardResult>, error::Error> {
    // A run that ends by itself says which groups it did not get to; one that is cut off says nothing.
    let left = time_left(&received.context).saturating_sub(TO_STORE_AND_ANSWER);
    let mut ctx = env.context();
    ctx.brokers = ctx.brokers.until(Instant::now() + left);
    let ctx = &ctx;
    let event = written(GuardEvent::read(&received.payload))?;
    let run = Box::pin(guard::guard_groups(ctx, &event));
    let seen = |results: &Vec<GuardResult>| results.iter().all(|r| r.status != Status::Unknown);
    let run = incident::run_for_incident(ctx, event.incident.as_deref(), run, seen);
    // Boxed: the future is deep, and too deep for the compiler within another one.
    Ok(Box::pin(run).await?.unwrap_or_default())
}
