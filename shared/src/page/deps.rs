//! What the page needs.

use std::sync::Arc;

use jiff::Timestamp;
use url::Url;

use super::token::FormKey;
use crate::oidc::{Client, Provider};
use crate::ports::Executions;
use crate::store::Store;

/// What the page needs.
#[derive(Debug, Clone)]
pub struct PageDeps {
    /// The table.
    pub store: Store,
    /// Step Functions.
    pub executions: Arc<dyn Executions>,
    /// Signs the forms.
    pub form_key: FormKey,
    /// How people sign in; `None` where possession of the link is all that is asked for.
    pub sign_in: Option<SignIn>,
    /// Where people reach the page. A form sent from any other origin is refused.
    pub public_url: Url,
    /// The clock.
    pub now: fn() -> Timestamp,
}

/// How people sign in.
#[derive(Debug, Clone)]
pub struct SignIn {
    /// The issuer.
    pub provider: Arc<Provider>,
    /// What it knows the page as.
    pub client: Client,
}
