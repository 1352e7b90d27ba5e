//! Incidents: one item a subject, with the newest guard run that was asked for about it.

use jiff::{SignedDuration, Timestamp};

use super::error::Cause;
use super::item::{Attributes, Item, number, text, time, ttl, word};
use super::keys::{self, Key};
use super::table::{Change, Updated, Write};
use super::{Result, Store};
use crate::domain::incident::{
    CLAIM_HOLDS, Incident, IncidentState, LONGEST_RUN, QUEUE_HOLDS, Standing, Subject,
};

/// How often a claim is tried that others change in the same moment.
const TRIES: u32 = 5;

/// How long an incident is kept after its last word.
const KEPT: SignedDuration = SignedDuration::from_hours(7 * 24);

/// How long a minute's count is kept.
const COUNT_KEPT: SignedDuration = SignedDuration::from_hours(1);

/// An incident to be claimed.
#[derive(Debug, Clone, Copy)]
pub struct IncidentClaim<'a> {
    /// What it is about.
    pub subject: &'a Subject,
    /// The new run's id; holds no `#`.
    pub run: &'a str,
    /// When the newest of the alerts began.
    pub since: Option<Timestamp>,
    /// A hash of what is asked for, where the subject is a key that stands for one request.
    pub asked: Option<&'a str>,
    /// How long the end of the run covers what had begun before, in seconds.
    pub cooldown_seconds: u32,
}

/// What became of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// It is claimed. The key names the incident and this run of it.
    Yes(String),
    /// Another request holds it and has not yet handed its run over.
    UnderWay,
    /// A run has it or had it.
    Covered,
    /// A run has it or had it that was asked for something else under the same key.
    Otherwise,
}

impl Store {
    /// Claims an incident for a new run, unless one holds it or covers what is asked.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn claim_incident(
        &self,
        claim: &IncidentClaim<'_>,
        now: Timestamp,
    ) -> Result<Claimed> {
        self.try_claim_incident(claim, now)
            .await
            .map_err(|cause| cause.of("claim_incident"))
    }

    async fn try_claim_incident(
        &self,
        claim: &IncidentClaim<'_>,
        now: Timestamp,
    ) -> Result<Claimed, Cause> {
        let key = keys::incident(claim.subject);
        let mut write = take(&key, claim, now)
            .when("attribute_not_exists(#pk) OR #until <= :now")
            .value(":now", time(now));
        for _ in 0..TRIES {
            let there = match self.update_returning(write).await? {
                Updated::Done(_) => return Ok(Claimed::Yes(keys::incident_key(&key, claim.run))),
                Updated::Not(None) => None,
                Updated::Not(Some(item)) => Some(incident_of(&item)?),
            };
            write = match there {
                None => take(&key, claim, now).when("attribute_not_exists(#pk)"),
                Some(there) => match there.meets(claim.since, now) {
                    Standing::UnderWay | Standing::Covered if there.is_otherwise(claim.asked) => {
                        return Ok(Claimed::Otherwise);
                    }
                    Standing::UnderWay => return Ok(Claimed::UnderWay),
                    Standing::Covered => return Ok(Claimed::Covered),
                    Standing::Free => take(&key, claim, now)
                        .when("#run = :seen AND #state = :as")
                        .value(":seen", text(&there.run))
                        .value(":as", word(&there.state)),
                },
            };
        }
        Err(Cause::Contended)
    }

    /// Notes that a claimed run was handed over; `false` if it has come further already, or another one has begun.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn incident_queued(&self, incident: &str, now: Timestamp) -> Result<bool> {
        let change = |key| {
            Write::change(key, "SET #state = :state, #until = :until")
                .when("#run = :run AND #state = :claimed")
                .value(":state", word(&IncidentState::Queued))
                .value(":claimed", word(&IncidentState::Claimed))
                .value(":until", time(now + QUEUE_HOLDS))
        };
        self.change_incident("incident_queued", incident, change)
            .await
    }

    /// Notes that a run starts. `false`: it has ended, or another one has taken its place, and it is not to be done. A
    /// key that names no incident holds nobody back.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn incident_started(&self, incident: &str, now: Timestamp) -> Result<bool> {
        let Some((key, run)) = keys::of_incident_key(incident) else {
            return Ok(true);
        };
        // A run that failed may be tried again by whoever runs it.
        let start = Write::change(
            key,
            "SET #state = :state, #until = :until, #started_at = :now",
        )
        .when("#run = :run AND #state <> :finished")
        .value(":run", text(run))
        .value(":state", word(&IncidentState::Started))
        .value(":finished", word(&IncidentState::Finished))
        .value(":until", time(now + LONGEST_RUN))
        .value(":now", time(now));
        match self.update_returning(start).await {
            Ok(Updated::Done(_) | Updated::Not(None)) => Ok(true),
            Ok(Updated::Not(Some(_))) => Ok(false),
            Err(cause) => Err(cause.of("incident_started")),
        }
    }

    /// Notes how a run ended, or that it could not be handed over; `false` if another one has taken its place.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn incident_finished(
        &self,
        incident: &str,
        ok: bool,
        now: Timestamp,
    ) -> Result<bool> {
        const OPERATION: &str = "incident_finished";
        let (state, until) = if ok {
            let cooldown = self.cooldown(incident).await;
            let cooldown = cooldown.map_err(|cause| cause.of(OPERATION))?;
            (IncidentState::Finished, now + cooldown)
        } else {
            (IncidentState::Failed, now)
        };
        let change = |key| {
            Write::change(key, "SET #state = :state, #until = :until, #ttl = :ttl")
                .when("#run = :run")
                .value(":state", word(&state))
                .value(":until", time(until))
                .value(":ttl", ttl(until + KEPT))
        };
        self.change_incident(OPERATION, incident, change).await
    }

    /// The newest run of a subject.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn incident(&self, subject: &Subject) -> Result<Option<Incident>> {
        let read = async {
            let item = self.get(&keys::incident(subject)).await?;
            item.as_ref().map(incident_of).transpose()
        };
        read.await.map_err(|cause| cause.of("incident"))
    }

    /// Counts one run of a sender in the minute of `now`; `false` if `most` were counted already.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn count_run(&self, sender: &str, most: u32, now: Timestamp) -> Result<bool> {
        let minute = now.as_second().div_euclid(60);
        let count = Write::change(
            keys::runs_of_minute(sender, minute),
            "SET #ttl = :ttl ADD #runs :one",
        )
        .when("attribute_not_exists(#runs) OR #runs < :most")
        .value(":ttl", ttl(now + COUNT_KEPT))
        .value(":one", number(1))
        .value(":most", number(u64::from(most)));
        self.update(count)
            .await
            .map_err(|cause| cause.of("count_run"))
    }

    /// Changes the incident if its run is still the one that the key names. A key that names none changes nothing.
    async fn change_incident(
        &self,
        operation: &'static str,
        incident: &str,
        change: impl FnOnce(Key) -> Write<Change>,
    ) -> Result<bool> {
        let Some((key, run)) = keys::of_incident_key(incident) else {
            return Ok(false);
        };
        self.update(change(key).value(":run", text(run)))
            .await
            .map_err(|cause| cause.of(operation))
    }

    /// For how long the end of a run covers its incident; not at all where there is none.
    async fn cooldown(&self, incident: &str) -> Result<SignedDuration, Cause> {
        let Some((key, _)) = keys::of_incident_key(incident) else {
            return Ok(SignedDuration::ZERO);
        };
        let item = self.get(&key).await?.unwrap_or_default();
        let seconds = item.some_number("cooldown_seconds")?.unwrap_or_default();
        Ok(SignedDuration::from_secs(seconds))
    }
}

/// Makes the incident one of a new run, under a condition that the caller adds.
fn take(key: &Key, claim: &IncidentClaim<'_>, now: Timestamp) -> Write<Change> {
    // Alerts have a time, and a request what it asks for.
    let expression = match (claim.since, claim.asked) {
        (Some(_), _) => {
            "SET #run = :run, #state = :state, #until = :until, #cooldown_seconds = :cooldown, #ttl = :ttl, \
             #alerts_to = :since REMOVE #started_at, #asked"
        }
        (None, Some(_)) => {
            "SET #run = :run, #state = :state, #until = :until, #cooldown_seconds = :cooldown, #ttl = :ttl, \
             #asked = :asked REMOVE #started_at, #alerts_to"
        }
        (None, None) => {
            "SET #run = :run, #state = :state, #until = :until, #cooldown_seconds = :cooldown, #ttl = :ttl \
             REMOVE #started_at, #alerts_to, #asked"
        }
    };
    let write = Write::change(key.clone(), expression)
        .value(":run", text(claim.run))
        .value(":state", word(&IncidentState::Claimed))
        .value(":until", time(now + CLAIM_HOLDS))
        .value(":cooldown", number(u64::from(claim.cooldown_seconds)))
        .value(":ttl", ttl(now + KEPT));
    match (claim.since, claim.asked) {
        (Some(since), _) => write.value(":since", time(since)),
        (None, Some(asked)) => write.value(":asked", text(asked)),
        (None, None) => write,
    }
}

fn incident_of(item: &Item) -> Result<Incident, Cause> {
    Ok(Incident {
        run: item.text("run")?.to_owned(),
        state: item
            .some_word("state")?
            .ok_or(super::item::Damaged { attribute: "state" })?,
        until: item.time("until")?,
        alerts_to: item.some_time("alerts_to")?,
        started_at: item.some_time("started_at")?,
        asked: item.some_text("asked")?.map(str::to_owned),
    })
}
