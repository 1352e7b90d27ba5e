//! What the API needs.

use std::sync::Arc;

use jiff::Timestamp;

use super::people::TokenIssuer;
use crate::app::find_recovery::Finding;
use crate::app::hand_over::HandingOver;
use crate::app::start_rewind::Starting;
use crate::aws::lambda::Functions;
use crate::aws::secrets::Secrets;
use crate::config::Config;
use crate::ports::Executions;
use crate::store::Store;

/// What the webhook needs.
#[derive(Debug)]
pub struct WebhookDeps {
    /// The senders, and the groups that they may name.
    pub config: Arc<Config>,
    /// The table.
    pub store: Store,
    /// The senders' secrets.
    pub secrets: Secrets,
    /// Lambda.
    pub functions: Functions,
    /// Step Functions.
    pub executions: Arc<dyn Executions>,
    /// Guard, by its ARN or name.
    pub guard: String,
    /// Whom this deployment serves.
    pub callers: Callers,
    /// The clock.
    pub now: fn() -> Timestamp,
}

impl WebhookDeps {
    pub(super) fn handing_over(&self) -> HandingOver<'_> {
        HandingOver {
            store: &self.store,
            functions: &self.functions,
            guard: &self.guard,
            now: self.now,
        }
    }

    pub(super) fn starting(&self) -> Starting<'_> {
        Starting {
            store: &self.store,
            executions: self.executions.as_ref(),
            now: self.now,
        }
    }

    pub(super) fn finding(&self) -> Finding<'_> {
        Finding {
            store: &self.store,
            executions: self.executions.as_ref(),
        }
    }
}

/// Whom a deployment serves. Each kind has one of its own, so that the right to say who asked is not in the function that
/// every stranger reaches.
#[derive(Debug, Clone)]
pub enum Callers {
    /// Alert senders and operators, by their secrets.
    Senders,
    /// People, by a token of the issuer that the route's authorizer found to be good.
    People(TokenIssuer),
}
