//! The steps of a recovery that deal with people, and the page on which they decide.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use lambda_runtime::{Error, LambdaEvent, service_fn};
use offset_guard::app::approval::{self, Asking};
use offset_guard::app::{reconcile, report, sweep};
use offset_guard::aws::secrets::KEPT;
use offset_guard::aws::step_functions::Executions;
use offset_guard::env::{self, Env, event};
use offset_guard::error;
use offset_guard::oidc::{self, Client, Provider};
use offset_guard::page::{self, FormKey, PageDeps, SignIn};
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
        let issuer = Issuer::of_environment()?;
        let (env, executions, public_url, key) = (&env, &executions, &public_url, &key);
        let issuer = issuer.as_ref();
        return lambda_runtime::run(service_fn(move |received: LambdaEvent<Value>| async move {
            let deps = PageDeps {
                store: env.store.clone(),
                executions: executions.clone(),
                form_key: form_key(env, key).await?,
                sign_in: match issuer {
                    Some(issuer) => Some(issuer.sign_in(env).await?),
                    None => None,
                },
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

/// The issuer whose people decide, as the environment names it. Named in part, it starts nothing: whoever wants people
/// to sign in must not get a page that asks for no more than the link.
struct Issuer {
    provider: Arc<Provider>,
    client_id: String,
    secret: String,
    groups: BTreeSet<String>,
    groups_claim: String,
    person_claim: String,
}

impl Issuer {
    fn of_environment() -> Result<Option<Self>, Error> {
        let Some(issuer) = env::optional("OFFSET_GUARD_OIDC_ISSUER") else {
            return Ok(None);
        };
        let groups = env::required("OFFSET_GUARD_OIDC_GROUPS")?;
        Ok(Some(Self {
            provider: Arc::new(Provider::new(&issuer)?),
            client_id: env::required("OFFSET_GUARD_OIDC_CLIENT_ID")?,
            secret: env::required("OFFSET_GUARD_OIDC_CLIENT_SECRET")?,
            groups: oidc::names(&groups).map_err(|problem| format!("OidcGroups {problem}"))?,
            groups_claim: env::required("OFFSET_GUARD_OIDC_GROUPS_CLAIM")?,
            person_claim: env::required("OFFSET_GUARD_OIDC_PERSON_CLAIM")?,
        }))
    }

    async fn sign_in(&self, env: &Env) -> Result<SignIn, error::Error> {
        Ok(SignIn {
            provider: self.provider.clone(),
            client: Client {
                id: self.client_id.clone(),
                secret: env.secrets.get(&self.secret).await?,
                groups: self.groups.clone(),
                groups_claim: self.groups_claim.clone(),
                person_claim: self.person_claim.clone(),
            },
        })
    }
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
    let asking = Asking {
        slack: &slack,
        public_url,
        swept: env::optional("OFFSET_GUARD_SCHEDULES").is_some_and(|state| state == "ENABLED"),
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
            let machine = env::required("OFFSET_GUARD_STATE_MACHINE")?;
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

/// The key that signs forms and sessions, and for a while the one before it: a rotation must not spoil what is open.
async fn form_key(env: &Env, arn: &str) -> Result<FormKey, error::Error> {
    let secret = env.secrets.rotating(arn, KEPT).await?;
    FormKey::rotating(&secret, Timestamp::now())
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
