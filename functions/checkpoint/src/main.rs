//! Remembers, once an hour, where every configured group is.

use lambda_runtime::{Error, LambdaEvent, service_fn};
use offset_guard::app::checkpoint::{self, GroupResult};
use offset_guard::connect::Role;
use offset_guard::env::{Env, event};
use offset_guard::error;
use serde_json::Value;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let env = Env::start().await?;
    let env = &env;
    lambda_runtime::run(service_fn(move |received: LambdaEvent<Value>| {
        handle(env, received.payload)
    }))
    .await
}

async fn handle(env: &Env, payload: Value) -> Result<Vec<GroupResult>, error::Error> {
    let connect = async |cluster: &str| env.reader(cluster, Role::Read).await;
    checkpoint::run(&env.config, &env.store, &event(payload)?, connect).await
}
