//! Incidents: one item a subject, with the newest guard run that was asked for about it.

use jiff::{SignedDuration, Timestamp};

use super::error::Cause;
use super::item::{Attributes, Item, number, text, time, ttl, word};
use super::keys::{self, Key};
use super::table::{Update, Updated, absent, at_most, differs, equals, less, no_item};
use super::{Result, Store, operation};
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
        operation("claim_incident", async {
            let key = keys::incident(claim.subject);
            let mut write = take(&key, claim, now).when(no_item().or(at_most("until", time(now))));
            for _ in 0..TRIES {
                let there = match self.table.update_returning(write).await? {
                    Updated::Done(_) => {
                        return Ok(Claimed::Yes(keys::incident_key(&key, claim.run)));
                    }
                    Updated::Not(None) => None,
                    Updated::Not(Some(item)) => Some(incident_of(&item)?),
                };
                write = match there {
                    None => take(&key, claim, now).when(no_item()),
                    Some(there) => match there.meets(claim.since, now) {
                        Standing::UnderWay | Standing::Covered
                            if there.is_otherwise(claim.asked) =>
                        {
                            return Ok(Claimed::Otherwise);
                        }
                        Standing::UnderWay => return Ok(Claimed::UnderWay),
                        Standing::Covered => return Ok(Claimed::Covered),
                        Standing::Free => take(&key, claim, now).when(
                            equals("run", text(&there.run))
                                .and(equals("state", word(&there.state))),
                        ),
                    },
                };
            }
            Err(Cause::Contended)
        })
        .await
    }

    /// Notes that a claimed run was handed over; `false` if it has come further already, or another one has begun.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn incident_queued(&self, incident: &str, now: Timestamp) -> Result<bool> {
        let Some((key, run)) = keys::of_incident_key(incident) else {
            return Ok(false);
        };
        let claimed = equals("state", word(&IncidentState::Claimed));
        let queue = Update::of(key)
            .set("state", word(&IncidentState::Queued))
            .set("until", time(now + QUEUE_HOLDS))
            .when(equals("run", text(run)).and(claimed));
        operation("incident_queued", self.table.update(queue)).await
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
        let unfinished = differs("state", word(&IncidentState::Finished));
        let start = Update::of(key)
            .set("state", word(&IncidentState::Started))
            .set("until", time(now + LONGEST_RUN))
            .set("started_at", time(now))
            .when(equals("run", text(run)).and(unfinished));
        operation("incident_started", async {
            Ok(match self.table.update_returning(start).await? {
                Updated::Done(_) | Updated::Not(None) => true,
                Updated::Not(Some(_)) => false,
            })
        })
        .await
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
        let Some((key, run)) = keys::of_incident_key(incident) else {
            return Ok(false);
        };
        operation("incident_finished", async {
            let (state, until) = if ok {
                (IncidentState::Finished, now + self.cooldown(&key).await?)
            } else {
                (IncidentState::Failed, now)
            };
            let finish = Update::of(key)
                .set("state", word(&state))
                .set("until", time(until))
                .set("ttl", ttl(until + KEPT))
                .when(equals("run", text(run)));
            self.table.update(finish).await
        })
        .await
    }

    /// The newest run of a subject.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn incident(&self, subject: &Subject) -> Result<Option<Incident>> {
        operation("incident", async {
            let item = self.table.get(&keys::incident(subject)).await?;
            item.as_ref().map(incident_of).transpose()
        })
        .await
    }

    /// Counts one run of a sender in the minute of `now`; `false` if `most` were counted already.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn count_run(&self, sender: &str, most: u32, now: Timestamp) -> Result<bool> {
        let minute = now.as_second().div_euclid(60);
        let count = Update::of(keys::runs_of_minute(sender, minute))
            .set("ttl", ttl(now + COUNT_KEPT))
            .add("runs", 1)
            .when(absent("runs").or(less("runs", number(u64::from(most)))));
        operation("count_run", self.table.update(count)).await
    }

    /// For how long the end of a run covers its incident; not at all where there is none.
    async fn cooldown(&self, key: &Key) -> Result<SignedDuration, Cause> {
        let item = self.table.get(key).await?.unwrap_or_default();
        let seconds = item.some_number("cooldown_seconds")?.unwrap_or_default();
        Ok(SignedDuration::from_secs(seconds))
    }
}

/// Makes the incident one of a new run, under a condition that the caller adds.
fn take(key: &Key, claim: &IncidentClaim<'_>, now: Timestamp) -> Update {
    // Alerts have a time, and a request what it asks for.
    let asked = claim.asked.filter(|_| claim.since.is_none());
    Update::of(key.clone())
        .set("run", text(claim.run))
        .set("state", word(&IncidentState::Claimed))
        .set("until", time(now + CLAIM_HOLDS))
        .set(
            "cooldown_seconds",
            number(u64::from(claim.cooldown_seconds)),
        )
        .set("ttl", ttl(now + KEPT))
        .set_or_remove("alerts_to", claim.since.map(time))
        .set_or_remove("asked", asked.map(text))
        .remove("started_at")
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
