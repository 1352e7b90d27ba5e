//! The one way to a plan, for rewinds and for the guard.

use jiff::Timestamp;

use crate::config::ResolvedGroup;
use crate::domain::group::GroupObservation;
use crate::domain::guard::sample::Sample;
use crate::domain::ids::{ExecutionArn, PlanId};
use crate::domain::plan::{PlanRecord, PlanResult, check_plan};
use crate::domain::planner::{Draft, Planned, Planning, plan_request};
use crate::domain::refusal::Refusal;
use crate::domain::request::RewindRequest;
use crate::domain::target::Target;
use crate::error::Error;
use crate::store::Store;

/// Everything that a plan is made of, apart from the history of checkpoints.
pub(super) struct PlanInputs<'a> {
    /// The id that the plan will have.
    pub(super) id: PlanId,
    /// The execution that it is made for.
    pub(super) execution: ExecutionArn,
    /// The instant of planning.
    pub(super) now: Timestamp,
    /// What is asked for.
    pub(super) request: &'a RewindRequest,
    /// The group in the configuration.
    pub(super) resolved: &'a ResolvedGroup<'a>,
    /// The group now, from a stable reading.
    pub(super) seen: &'a GroupObservation,
    /// What the guard saw of the group in its latest runs, oldest first.
    pub(super) looks: &'a [Sample],
    /// Where the group is to go, or why that cannot be said.
    pub(super) target: Result<&'a Target, &'a Refusal>,
}

/// Plans, and checks the plan by rules that share no code with planning. Nothing is stored or claimed.
///
/// # Errors
/// The table failed, or the plan contradicts itself.
pub(super) async fn make_plan(store: &Store, inputs: PlanInputs<'_>) -> Result<PlanRecord, Error> {
    let (request, resolved) = (inputs.request, inputs.resolved);
    let planned = plan_request(&Planning {
        id: inputs.id.clone(),
        now: inputs.now,
        request,
        policy: &resolved.policy,
        config_hash: &resolved.config_hash,
        pinned_cluster: resolved.cluster.cluster_id.as_ref(),
        seen: inputs.seen,
        looks: inputs.looks,
        target: inputs.target,
    });
    let result = match planned {
        Planned::Draft(draft) => {
            let undone_since = find_undone_since(store, &draft).await?;
            let plan = draft.finish(undone_since);
            if let Some(fault) = check_plan(&plan).first() {
                return Err(Error::Broken(format!(
                    "the plan contradicts itself: {fault}"
                )));
            }
            PlanResult::Ready(plan)
        }
        Planned::NothingToDo(left_alone) => PlanResult::NothingToDo(left_alone),
        Planned::Refused(refusals) => PlanResult::Refused(refusals),
    };
    let (id, execution) = (inputs.id, inputs.execution);
    Ok(PlanRecord::new(id, execution, inputs.now, request, result))
}

/// Since when a plan undoes what the group read, as far as checkpoints say.
async fn find_undone_since(store: &Store, draft: &Draft) -> Result<Option<Timestamp>, Error> {
    let Some(search) = draft.search() else {
        return Ok(None);
    };
    let plan = draft.plan();
    let group = &plan.group_key();
    let headers = store.headers(group, plan.created_at).await?;
    for header in headers.iter().filter(|header| search.needs(header)) {
        let checkpoint = store.checkpoint(group, header).await?;
        if let Some(since) = search.end_at(&checkpoint) {
            return Ok(Some(since));
        }
    }
    Ok(search.end(&headers))
}
