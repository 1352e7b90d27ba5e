//! One guard run: claimed, counted, handed over.

use std::time::Duration;

use jiff::Timestamp;
use ulid::Ulid;

use super::WebhookDeps;
use super::problem::Problem;
use crate::config::AlertRules;
use crate::domain::incident::{REQUEST_REMEMBERED, Subject};
use crate::failure::chain;
use crate::store::{Claimed, IncidentClaim, StoreError};
use crate::wire::guard::GuardEvent;

/// How often, and how long after each other, a claim of another request is looked at: it becomes a run within
/// milliseconds, or it becomes free.
const LOOKS: usize = 30;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// What became of a run that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Handed {
    /// It is handed over.
    Over {
        /// Its incident's key.
        incident: String,
    },
    /// Another run has it or had it.
    Covered,
}

/// What a run is asked for.
pub(super) struct Ask<'a> {
    pub(super) sender: &'a str,
    /// `None` for an operator, whose requests are counted one by one (`budget`) and whom no cool-down holds back.
    pub(super) rules: Option<&'a AlertRules>,
    pub(super) subject: Subject,
    pub(super) since: Option<Timestamp>,
    /// A hash of what an operator asks for, so that the same key with another ask is told apart.
    pub(super) asked: Option<String>,
    /// Without its incident.
    pub(super) event: GuardEvent,
}

/// Hands a run over, unless another one covers it. Whatever fails leaves the incident free for the next request.
pub(super) async fn hand_over(deps: &WebhookDeps, ask: Ask<'_>) -> Result<Handed, Problem> {
    let Some(incident) = claim(deps, &ask).await? else {
        return Ok(Handed::Covered);
    };
    let handed = count_and_start(deps, &ask, &incident).await;
    let noted = match &handed {
        Ok(()) => deps.store.incident_queued(&incident, (deps.now)()).await,
        Err(_) => {
            deps.store
                .incident_finished(&incident, false, (deps.now)())
                .await
        }
    };
    if let Err(error) = noted {
        // The claim runs out by itself, and a run that starts says so itself.
        tracing::warn!(error = chain(&error), "an incident keeps its claim");
    }
    handed.map(|()| {
        tracing::info!(sender = ask.sender, incident, "a run was handed over");
        Handed::Over { incident }
    })
}

/// The key of a new run, or `None` where another one covers it.
async fn claim(deps: &WebhookDeps, ask: &Ask<'_>) -> Result<Option<String>, Problem> {
    let run = Ulid::generate().to_string();
    let claim = IncidentClaim {
        subject: &ask.subject,
        run: &run,
        since: ask.since,
        asked: ask.asked.as_deref(),
        cooldown_seconds: ask
            .rules
            .map_or(REQUEST_REMEMBERED, |rules| rules.cooldown_seconds),
    };
    for _ in 0..LOOKS {
        match deps.store.claim_incident(&claim, (deps.now)()).await? {
            Claimed::Yes(incident) => return Ok(Some(incident)),
            Claimed::Covered => return Ok(None),
            Claimed::Otherwise => return Err(Problem::KeyUsed),
            Claimed::UnderWay => tokio::time::sleep(BETWEEN_LOOKS).await,
        }
    }
    // Whoever claimed may be gone. To call this a duplicate would lose the alert.
    Err(Problem::Busy {
        why: "another request has claimed the same run and not yet handed it over",
    })
}

async fn count_and_start(deps: &WebhookDeps, ask: &Ask<'_>, incident: &str) -> Result<(), Problem> {
    if !is_within_budget(deps, ask).await? {
        tracing::warn!(sender = ask.sender, "too many runs in a minute");
        return Err(Problem::Busy {
            why: "this sender has started as many runs as it may in a minute",
        });
    }
    let event = GuardEvent {
        incident: Some(incident.to_owned()),
        ..ask.event.clone()
    };
    let started = deps.functions.start(&deps.guard, &event).await;
    started.map_err(|error| {
        tracing::error!(error = chain(&error), "guard could not be started");
        Problem::Busy {
            why: "guard cannot be started",
        }
    })
}

async fn is_within_budget(deps: &WebhookDeps, ask: &Ask<'_>) -> Result<bool, StoreError> {
    match ask.rules {
        Some(rules) => {
            deps.store
                .count_run(ask.sender, rules.runs_per_minute, (deps.now)())
                .await
        }
        None => Ok(true),
    }
}
