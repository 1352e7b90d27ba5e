//! Runs what an incident asks for, and notes its start and its end, so that its alerts know whether they were seen to.

use super::context::Context;
use crate::error::Error;
use crate::failure::chain;

/// Does `work` for `incident`. `None`: its run has ended or lost its place, and nothing was done.
///
/// What came of it covers the incident's alerts only where `covers` says so: a look that saw nothing does not.
///
/// # Errors
/// Those of `work`, or its start could not be noted.
pub async fn run_for_incident<T, B>(
    ctx: &Context<B>,
    incident: Option<&str>,
    work: impl Future<Output = Result<T, Error>>,
    covers: impl FnOnce(&T) -> bool,
) -> Result<Option<T>, Error> {
    let Some(incident) = incident else {
        return work.await.map(Some);
    };
    if !ctx.store.incident_started(incident, ctx.now()).await? {
        tracing::warn!(incident, "the incident has no such run any more");
        return Ok(None);
    }
    let done = work.await;
    let ok = done.as_ref().is_ok_and(covers);
    let noted = ctx.store.incident_finished(incident, ok, ctx.now());
    if let Err(error) = noted.await {
        // What was done is done. The note that it started runs out by itself.
        tracing::error!(
            incident,
            error = chain(&error),
            "the end of a run is not noted"
        );
    }
    done.map(Some)
}
