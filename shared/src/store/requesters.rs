//! Who asked, as it was proven where the request came in. An execution's input is no proof: whoever may start one can
//! write anything into it.

use jiff::{SignedDuration, Timestamp};

use super::error::Cause;
use super::item::{Attributes, item, json, text, ttl};
use super::{Result, Store, keys};
use crate::domain::identity::Identity;

/// As long as Step Functions knows an execution by its name (AWS Step Functions, quotas: 90 days after its end).
const KEPT: SignedDuration = SignedDuration::from_hours(100 * 24);

impl Store {
    /// Notes, before the execution of this name is started, who asks for exactly the request of this hash. The first
    /// note stands; `false` says that it is another one.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn note_requester(
        &self,
        execution: &str,
        request: &str,
        identity: &Identity,
        now: Timestamp,
    ) -> Result<bool> {
        let note = item(keys::requester(execution))
            .with("request", text(request))
            .with("identity", json(identity))
            .with("ttl", ttl(now + KEPT));
        let noted = self.put_new(note).await;
        if noted.map_err(|cause| cause.of("note_requester"))? {
            return Ok(true);
        }
        let stands = self.requester(execution, request).await?;
        Ok(stands.is_some_and(|stands| stands.is(identity)))
    }

    /// Who is known to have asked for exactly the request of this hash by the execution of this name.
    ///
    /// # Errors
    /// The item is damaged, or the table cannot be reached.
    pub async fn requester(&self, execution: &str, request: &str) -> Result<Option<Identity>> {
        self.try_requester(execution, request)
            .await
            .map_err(|cause| cause.of("requester"))
    }

    async fn try_requester(
        &self,
        execution: &str,
        request: &str,
    ) -> Result<Option<Identity>, Cause> {
        let Some(item) = self.get(&keys::requester(execution)).await? else {
            return Ok(None);
        };
        if item.text("request")? != request {
            return Ok(None);
        }
        Ok(item.some_json("identity")?)
    }
}
