//! Takes alerts and operators' requests, and starts what they ask for.

use jiff::Timestamp;
use lambda_runtime::{Error, LambdaEvent, service_fn};
use offset_guard::env::{self, Env};
use offset_guard::webhook::{self, TokenIssuer, WebhookDeps};
use serde_json::Value;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let env = Env::start().await?;
    let deps = WebhookDeps {
        functions: env.functions(),
        executions: env.executions(),
        guard: env::required("OFFSET_GUARD_GUARD_FUNCTION")?,
        state_machine: env::required("OFFSET_GUARD_STATE_MACHINE")?,
        issuer: match env::optional("OFFSET_GUARD_OIDC_ISSUER") {
            None => None,
            Some(id) => Some(TokenIssuer {
                id,
                person_claim: env::required("OFFSET_GUARD_OIDC_PERSON_CLAIM")?,
            }),
        },
        now: Timestamp::now,
        config: env.config,
        store: env.store,
        secrets: env.secrets,
    };
    let deps = &deps;
    lambda_runtime::run(service_fn(move |received: LambdaEvent<Value>| async move {
        Ok::<_, Error>(webhook::handle(received.payload, deps).await)
    }))
    .await
}
