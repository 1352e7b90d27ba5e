//! The page on which people decide.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use lambda_runtime::{Error, LambdaEvent, service_fn};
use offset_guard::aws::secrets::KEPT;
use offset_guard::env::Env;
use offset_guard::environment;
use offset_guard::error;
use offset_guard::oidc::{self, Client, Provider};
use offset_guard::page::{self, FormKey, PageDeps, SignIn};
use serde_json::Value;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let env = Env::start().await?;
    let public_url = environment::url("OFFSET_GUARD_PUBLIC_URL")?;
    let form_key_secret = environment::required("OFFSET_GUARD_FORM_KEY_SECRET")?;
    let issuer = Issuer::from_environment()?;
    let executions = env.executions.clone();
    let (env, issuer, public_url) = (&env, issuer.as_ref(), &public_url);
    let (form_key_secret, executions) = (&form_key_secret, &executions);
    lambda_runtime::run(service_fn(move |received: LambdaEvent<Value>| async move {
        let deps = PageDeps {
            store: env.store.clone(),
            executions: executions.clone(),
            form_key: read_form_key(env, form_key_secret).await?,
            sign_in: match issuer {
                Some(issuer) => Some(issuer.sign_in(env).await?),
                None => None,
            },
            public_url: public_url.clone(),
            now: Timestamp::now,
        };
        Ok::<_, error::Error>(page::handle(received.payload, &deps).await)
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
    fn from_environment() -> Result<Option<Self>, Error> {
        let Some(issuer) = environment::optional("OFFSET_GUARD_OIDC_ISSUER") else {
            return Ok(None);
        };
        let groups = environment::required("OFFSET_GUARD_OIDC_GROUPS")?;
        Ok(Some(Self {
            provider: Arc::new(Provider::new(&issuer)?),
            client_id: environment::required("OFFSET_GUARD_OIDC_CLIENT_ID")?,
            secret: environment::required("OFFSET_GUARD_OIDC_CLIENT_SECRET")?,
            groups: oidc::names(&groups).map_err(|problem| format!("OidcGroups {problem}"))?,
            groups_claim: environment::required("OFFSET_GUARD_OIDC_GROUPS_CLAIM")?,
            person_claim: environment::required("OFFSET_GUARD_OIDC_PERSON_CLAIM")?,
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

/// The key that signs forms and sessions, and for a while the one before it: a rotation must not spoil what is open.
async fn read_form_key(env: &Env, arn: &str) -> Result<FormKey, error::Error> {
    let secret = env.secrets.rotating(arn, KEPT).await?;
    FormKey::rotating(&secret, Timestamp::now())
        .map_err(|error| error::Error::Broken(error.to_string()))
}
