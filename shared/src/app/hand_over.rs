//! Hands a run over to guard: claimed, counted, started.

use std::time::Duration;

use jiff::Timestamp;
use ulid::Ulid;

use crate::aws::lambda::{Functions, InvokeError};
use crate::config::AlertRules;
use crate::domain::incident::{REQUEST_REMEMBERED, Subject};
use crate::failure::chain;
use crate::store::{Claimed, IncidentClaim, Store, StoreError};
use crate::wire::guard::GuardEvent;

/// How often, and how long after each other, a claim of another request is looked at: it becomes a run within
/// milliseconds, or it becomes free.
const LOOKS: usize = 30;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// What handing a run over needs.
#[derive(Debug, Clone, Copy)]
pub struct HandingOver<'a> {
    pub store: &'a Store,
    pub functions: &'a Functions,
    /// Guard, by its ARN or name.
    pub guard: &'a str,
    pub now: fn() -> Timestamp,
}

/// What became of a run that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandedOver {
    /// Guard has it.
    Now {
        /// Its incident's key.
        incident: String,
    },
    /// Another run has it or had it.
    Covered,
}

/// Why a run was not handed over. The incident is left free for the next request.
#[derive(Debug, thiserror::Error)]
pub enum NotHandedOver {
    /// The key was used for another request.
    #[error("the key was used for another request")]
    KeyUsed,
    /// Another request has claimed the same run.
    #[error("another request has claimed the same run and not yet handed it over")]
    UnderWay,
    /// The sender may start no more runs in this minute.
    #[error("this sender has started as many runs as it may in a minute")]
    TooManyRuns,
    /// Lambda did not take it.
    #[error("guard cannot be started")]
    Start(#[from] InvokeError),
    /// The table.
    #[error("the run cannot be claimed")]
    Store(#[from] StoreError),
}

/// A run that somebody asks for.
#[derive(Debug)]
pub struct RunAsked<'a> {
    /// The sender's name.
    pub sender: &'a str,
    /// `None` for an operator, whose requests are counted one by one (`count_request`) and whom no cool-down holds back.
    pub rules: Option<&'a AlertRules>,
    pub subject: Subject,
    /// When the newest of its alerts began.
    pub since: Option<Timestamp>,
    /// A hash of what an operator asks for, so that the same key with another request is told apart.
    pub asked: Option<String>,
    /// Without its incident.
    pub event: GuardEvent,
}

/// Hands a run over to guard, unless another one covers it. Whatever fails leaves the incident free for the next request.
///
/// # Errors
/// The run was not claimed, or guard not started.
pub async fn hand_over_run(
    handing: HandingOver<'_>,
    run: RunAsked<'_>,
) -> Result<HandedOver, NotHandedOver> {
    let HandingOver { store, now, .. } = handing;
    let Some(incident) = claim_run(handing, &run).await? else {
        return Ok(HandedOver::Covered);
    };
    let handed = count_and_start(handing, &run, &incident).await;
    let noted = match &handed {
        Ok(()) => store.incident_queued(&incident, now()).await,
        Err(_) => store.incident_finished(&incident, false, now()).await,
    };
    if let Err(error) = noted {
        // The claim runs out by itself, and a run that starts says so itself.
        tracing::warn!(error = chain(&error), "an incident keeps its claim");
    }
    handed.map(|()| {
        tracing::info!(sender = run.sender, incident, "a run was handed over");
        HandedOver::Now { incident }
    })
}

/// The key of a new run, or `None` where another one covers it.
async fn claim_run(
    handing: HandingOver<'_>,
    run: &RunAsked<'_>,
) -> Result<Option<String>, NotHandedOver> {
    let id = Ulid::generate().to_string();
    let claim = IncidentClaim {
        subject: &run.subject,
        run: &id,
        since: run.since,
        asked: run.asked.as_deref(),
        cooldown_seconds: run
            .rules
            .map_or(REQUEST_REMEMBERED, |rules| rules.cooldown_seconds),
    };
    for _ in 0..LOOKS {
        match handing
            .store
            .claim_incident(&claim, (handing.now)())
            .await?
        {
            Claimed::Yes(incident) => return Ok(Some(incident)),
            Claimed::Covered => return Ok(None),
            Claimed::Otherwise => return Err(NotHandedOver::KeyUsed),
            Claimed::UnderWay => tokio::time::sleep(BETWEEN_LOOKS).await,
        }
    }
    // Whoever claimed may be gone. To call this a duplicate would lose the alert.
    Err(NotHandedOver::UnderWay)
}

async fn count_and_start(
    handing: HandingOver<'_>,
    run: &RunAsked<'_>,
    incident: &str,
) -> Result<(), NotHandedOver> {
    if let Some(rules) = run.rules {
        let most = rules.runs_per_minute;
        let counted = handing.store.count_run(run.sender, most, (handing.now)());
        if !counted.await? {
            tracing::warn!(sender = run.sender, "too many runs in a minute");
            return Err(NotHandedOver::TooManyRuns);
        }
    }
    let event = GuardEvent {
        incident: Some(incident.to_owned()),
        ..run.event.clone()
    };
    let started = handing.functions.start(handing.guard, &event).await;
    started.map_err(|error| {
        tracing::error!(error = chain(&error), "guard could not be started");
        error.into()
    })
}
