//! The steps of a recovery that deal with people, and the sweep.

#![forbid(unsafe_code)]

use lambda_runtime::{Error, LambdaEvent, service_fn};
use offset_guard::app::approval::{self, Asking};
use offset_guard::app::{reconcile, report, sweep};
use offset_guard::aws::step_functions::Executions;
use offset_guard::env::{Env, event};
use offset_guard::environment;
use offset_guard::error;
use offset_guard::failure;
use offset_guard::slack::{Slack, SlackError};
use offset_guard::wire::ApprovalStep;
use serde_json::{Value, json};
use url::Url;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let env = Env::start().await?;
    let public_url = environment::url("OFFSET_GUARD_PUBLIC_URL")?;
    let executions = env.executions();
    let (env, executions, public_url) = (&env, &executions, &public_url);
    lambda_runtime::run(service_fn(move |received: LambdaEvent<Value>| {
        task(env, executions, public_url, received.payload)
    }))
    .await
}

async fn task(
    env: &Env,
    executions: &Executions,
    public_url: &Url,
    payload: Value,
) -> Result<Value, error::Error> {
    env.allow(&payload)?;
    let slack = Slack::new(slack_url(env).await);
    let store = &env.store;
    let asking = Asking {
        slack: &slack,
        public_url,
        swept: environment::optional("OFFSET_GUARD_SCHEDULES")
            .is_some_and(|state| state == "ENABLED"),
    };
    Ok(match event(payload)? {
        ApprovalStep::Request {
            execution,
            plan_id,
            task_token,
        } => {
            let asked =
                approval::request(store, executions, asking, &execution, &plan_id, &task_token);
            asked.await?;
            json!({})
        }
        ApprovalStep::Admit(step) => {
            json!(approval::admit(&env.config, store, &step, env.apply_enabled).await?)
        }
        ApprovalStep::Confirm {
            execution,
            reconcile,
        } => json!(reconcile::confirm(store, executions, &execution, &reconcile).await?),
        ApprovalStep::Report {
            execution,
            started_at,
            state,
        } => json!(report::run(store, executions, &slack, &execution, started_at, &state).await?),
        ApprovalStep::Sweep { execution } => {
            let machine = environment::required("OFFSET_GUARD_STATE_MACHINE")?;
            let execution = execution.as_ref();
            let swept = sweep::run(store, executions, &machine, &slack, execution).await;
            if execution.is_none() {
                let told = approval::ask_again(store, executions, asking).await?;
                tracing::info!(told.asked, told.given_up, "asked again for approvals");
            }
            json!(swept?)
        }
    })
}

/// The URL of Slack's incoming webhook. Without one an approval fails, and a report never does.
async fn slack_url(env: &Env) -> Result<Url, SlackError> {
    let arn =
        environment::optional("OFFSET_GUARD_SLACK_SECRET").ok_or(SlackError::NotConfigured)?;
    let secret = env.secrets.get(&arn).await.map_err(|error| {
        tracing::error!(error = failure::chain(&error), "Slack's webhook is unknown");
        SlackError::Unusable
    })?;
    Url::parse(secret.expose().trim()).map_err(|_| SlackError::Unusable)
}
