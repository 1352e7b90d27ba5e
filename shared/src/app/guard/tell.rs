//! Keeps a run that found something, and has people told of it once.

use serde_json::json;

use super::group::Watched;
use crate::domain::guard::run::{GuardRun, LastAlert, is_news};
use crate::error::Error;
use crate::failure::{ErrorClass, chain};
use crate::wire::guard::AlertRef;

/// Keeps `run` and starts the execution that tells of it, if it is news.
///
/// What a person asked for is kept and told whatever came of it. Told is noted last: a crash in between tells twice
/// rather than never.
///
/// # Errors
/// The table or Step Functions failed.
pub(super) async fn tell(watched: &Watched<'_>, run: &GuardRun, asked: bool) -> Result<(), Error> {
    let store = watched.store;
    tracing::info!(
        group = run.group.0,
        cluster = run.cluster,
        run = run.id.0,
        "{}",
        run.summary()
    );
    let told = store.told(&run.cluster, &run.group).await?;
    let now = watched.clock.now();
    let this = LastAlert {
        signature: run.signature(),
        at: now,
    };
    if !run.found_something() && !asked {
        // The next time that something is wrong is news, even if it is the same as the last.
        if told
            .as_ref()
            .is_some_and(|told| told.signature != this.signature)
        {
            store
                .note_told(&run.cluster, &run.group, &this, told.as_ref())
                .await?;
        }
        return Ok(());
    }
    match store.put_guard_run(run).await {
        // It was stored before its plan was handed over, and something failed after that: what is there stands.
        Err(error) if error.class == ErrorClass::Conflict => {
            tracing::warn!(
                run = run.id.0,
                error = chain(&error),
                "the run is on record already"
            );
        }
        stored => stored?,
    }
    if !is_news(run, told.as_ref(), now) && !asked {
        return Ok(());
    }
    let alert = AlertRef {
        run_id: run.id.clone(),
        at: run.at,
        cluster: run.cluster.clone(),
        group: run.group.clone(),
    };
    watched
        .executions
        .start(&run.id.0, &json!({ "alert": alert }))
        .await?;
    store
        .note_told(&run.cluster, &run.group, &this, told.as_ref())
        .await?;
    Ok(())
}
