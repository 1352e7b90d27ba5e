//! The steps of a recovery that deal with people, and the page on which they decide.

use jiff::Timestamp;
use lambda_runtime::{Error, LambdaEvent, service_fn};
use offset_guard::app::{approval, report, sweep};
use offset_guard::env::{self, Env, event};
use offset_guard::error;
use offset_guard::executions::Executions;
use offset_guard::page::{self, FormKey, PageDeps};
use offset_guard::slack::{Slack, SlackError};
use offset_guard::wire::ApprovalStep;
use serde_json::{Value, json};
use url::Url;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let env = Env::start().await?;
    let public_url = env::url("OFFSET_GUARD_PUBLIC_URL")?;
    let executions = env.executions();
    if let Some(key) = env::optional("OFFSET_GUARD_FORM_KEY_SECRET") {
        let (env, executions, public_url, key) = (&env, &executions, &public_url, &key);
        return lambda_runtime::run(service_fn(move |received: LambdaEvent<_>| async move {
            let deps = PageDeps {
                store: env.store.clone(),
                executions: executions.clone(),
                form_key: form_key(env, key).await?,
                public_url: public_url.clone(),
                now: Timestamp::now,
            };
            Ok::<_, error::Error>(page::handle(received.payload, &deps).await)
        }))
        .await;
    }
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
    let slack = Slack::new(webhook(env).await);
    let store = &env.store;
    Ok(match event(payload)? {
        ApprovalStep::Request {
            execution,
            plan_id,
            task_token,
        } => {
            approval::request(
                store,
                executions,
                &slack,
                public_url,
                &execution,
                &plan_id,
                &task_token,
            )
            .await?;
            json!({})
        }
        ApprovalStep::Admit(step) => {
            json!(approval::admit(store, &step, env.apply_enabled).await?)
        }
        ApprovalStep::Report {
            execution,
            started_at,
            state,
        } => json!(report::run(store, &slack, &execution, started_at, &state).await?),
        ApprovalStep::Sweep { execution } => {
            let machine = env::required("OFFSET_GUARD_STATE_MACHINE")?;
            json!(sweep::run(store, executions, &machine, &slack, execution.as_deref()).await?)
        }
    })
}

/// The key that signs forms, and the one before it: a rotation must not spoil the forms that are open.
async fn form_key(env: &Env, arn: &str) -> Result<FormKey, error::Error> {
    let current = env.secrets.get(arn).await?;
    let previous = env.secrets.previous(arn).await?;
    let previous = previous.as_ref().map(|secret| secret.expose().as_bytes());
    FormKey::new(current.expose().as_bytes(), previous)
        .map_err(|error| error::Error::Broken(error.to_string()))
}

/// The webhook's URL. That there is none fails what has to be told, and never a report.
async fn webhook(env: &Env) -> Result<Url, SlackError> {
    let arn = env::optional("OFFSET_GUARD_SLACK_SECRET").ok_or(SlackError::NotConfigured)?;
    let secret = env.secrets.get(&arn).await.map_err(|error| {
        tracing::error!(error = error::chain(&error), "Slack's webhook is unknown");
        SlackError::Unusable
    })?;
    Url::parse(secret.expose().trim()).map_err(|_| SlackError::Unusable)
}
