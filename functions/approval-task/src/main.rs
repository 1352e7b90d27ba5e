//! The steps of a recovery that deal with people, and the sweep.

#![forbid(unsafe_code)]

use std::sync::Arc;

use lambda_runtime::{Error, LambdaEvent, service_fn};
use offset_guard::app::approval::{self, Asking};
use offset_guard::app::{reconcile, report, sweep};
use offset_guard::env::{Env, event};
use offset_guard::environment;
use offset_guard::error;
use offset_guard::failure;
use offset_guard::ports::NotifyError;
use offset_guard::slack::Slack;
use offset_guard::wire::ApprovalStep;
use serde_json::{Value, json};
use url::Url;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let env = Env::start().await?;
    let public_url = environment::url("OFFSET_GUARD_PUBLIC_URL")?;
    environment::required("OFFSET_GUARD_STATE_MACHINE")?;
    let (env, public_url) = (&env, &public_url);
    lambda_runtime::run(service_fn(move |received: LambdaEvent<Value>| {
        handle(env, public_url, received.payload)
    }))
    .await
}

async fn handle(env: &Env, public_url: &Url, payload: Value) -> Result<Value, error::Error> {
    env.allow(&payload)?;
    let ctx = &env.context_with(Arc::new(Slack::new(slack_url(env).await)));
    let swept = environment::optional("OFFSET_GUARD_SCHEDULES");
    let asking = Asking {
        public_url,
        swept: swept.is_some_and(|state| state == "ENABLED"),
    };
    Ok(match event(payload)? {
        ApprovalStep::Request {
            execution,
            plan_id,
            task_token,
        } => {
            approval::request_approval(ctx, asking, &execution, &plan_id, &task_token).await?;
            json!({})
        }
        ApprovalStep::Admit(step) => json!(approval::admit_plan(ctx, &step).await?),
        ApprovalStep::Confirm {
            execution,
            reconcile,
        } => json!(reconcile::confirm_reconcile(ctx, &execution, &reconcile).await?),
        ApprovalStep::Report {
            execution,
            started_at,
            state,
        } => json!(report::report_execution(ctx, &execution, started_at, &state).await?),
        ApprovalStep::Sweep { execution } => {
            let execution = execution.as_ref();
            let swept = sweep::sweep_recoveries(ctx, execution).await;
            if execution.is_none() {
                let told = approval::ask_again(ctx, asking).await?;
                tracing::info!(told.asked, told.given_up, "asked again for approvals");
            }
            json!(swept?)
        }
    })
}

/// The URL of Slack's incoming webhook. Without one an approval fails, and a report never does.
async fn slack_url(env: &Env) -> Result<Url, NotifyError> {
    let arn =
        environment::optional("OFFSET_GUARD_SLACK_SECRET").ok_or(NotifyError::NotConfigured)?;
    let secret = env.secrets.get(&arn).await.map_err(|error| {
        tracing::error!(error = failure::chain(&error), "Slack's webhook is unknown");
        NotifyError::Unusable
    })?;
    Url::parse(secret.expose().trim()).map_err(|_| NotifyError::Unusable)
}
