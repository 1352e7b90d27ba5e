//! Takes alerts and operators' requests, and starts what they ask for.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use jiff::Timestamp;
use lambda_runtime::{Error, LambdaEvent, service_fn};
use offset_guard::api::{self, Callers, TokenIssuer, WebhookDeps};
use offset_guard::env::Env;
use offset_guard::environment;
use offset_guard::oidc;
use serde_json::Value;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let env = Env::start().await?;
    let callers = callers(&env)?;
    environment::required("OFFSET_GUARD_STATE_MACHINE")?;
    let deps = WebhookDeps {
        functions: env.functions(),
        executions: env.executions.clone(),
        guard: match callers {
            Callers::Senders => environment::required("OFFSET_GUARD_GUARD_FUNCTION")?,
            // Nobody asks the guard with a token.
            Callers::People(_) => String::new(),
        },
        callers,
        now: Timestamp::now,
        config: env.config,
        store: env.store,
        secrets: env.secrets,
    };
    let deps = &deps;
    lambda_runtime::run(service_fn(move |received: LambdaEvent<Value>| async move {
        Ok::<_, Error>(api::handle(received.payload, deps).await)
    }))
    .await
}

/// Whom this deployment serves. One that does not say so serves nobody.
fn callers(env: &Env) -> Result<Callers, Error> {
    if env.runs("senders") {
        return Ok(Callers::Senders);
    }
    if !env.runs("people") {
        return Err("OFFSET_GUARD_STEPS is neither senders nor people".into());
    }
    let groups = match environment::optional("OFFSET_GUARD_OIDC_API_GROUPS") {
        Some(groups) => {
            oidc::names(&groups).map_err(|problem| format!("OidcApiGroups {problem}"))?
        }
        None => BTreeSet::new(),
    };
    Ok(Callers::People(TokenIssuer::new(
        environment::required("OFFSET_GUARD_OIDC_ISSUER")?,
        environment::required("OFFSET_GUARD_OIDC_PERSON_CLAIM")?,
        environment::required("OFFSET_GUARD_OIDC_GROUPS_CLAIM")?,
        groups,
        environment::optional("OFFSET_GUARD_OIDC_API_SCOPE"),
    )?))
}
