//! Remembers, once an hour, where every configured group is.

#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use lambda_runtime::{Error, LambdaEvent, service_fn};
use offset_guard::app::checkpoint::{self, GroupResult};
use offset_guard::env::{Env, time_left, written};
use offset_guard::error;
use offset_guard::wire::CheckpointEvent;
use serde_json::Value;

/// What no broker is waited for at the end of an invocation.
const TO_STORE_AND_ANSWER: Duration = Duration::from_secs(20);

#[tokio::main]
async fn main() -> Result<(), Error> {
    let env = Env::start().await?;
    let env = &env;
    lambda_runtime::run(service_fn(move |received: LambdaEvent<Value>| {
        handle(env, received)
    }))
    .await
}

async fn handle(env: &Env, received: LambdaEvent<Value>) -> Result<Vec<GroupResult>, error::Error> {
    // An invocation that ends by itself says which groups it did not get to; one that is cut off says nothing.
    let left = time_left(&received.context).saturating_sub(TO_STORE_AND_ANSWER);
    let mut ctx = env.context();
    ctx.brokers = ctx.brokers.until(Instant::now() + left);
    let event = written(CheckpointEvent::read(&received.payload))?;
    checkpoint::take_checkpoints(&ctx, &event).await
}
