//! What is known of the people behind a plan, apart from the plan's own word.

use super::context::Context;
use crate::config::Config;
use crate::domain::approval::People;
use crate::domain::identity::{Identity, Requester};
use crate::domain::ids::ExecutionArn;
use crate::domain::plan::Plan;
use crate::error::Error;

/// What the configuration asks for, and who is on record to have asked.
pub(super) struct Known {
    four_eyes: bool,
    noted: Option<Identity>,
}

impl Known {
    /// Reads it for `plan`, which `execution` carries out.
    ///
    /// # Errors
    /// The table failed.
    pub(super) async fn of<B>(
        ctx: &Context<B>,
        plan: &Plan,
        execution: &ExecutionArn,
    ) -> Result<Self, Error> {
        let four_eyes = four_eyes(&ctx.config, plan);
        let noted = match plan.requester {
            // With four eyes nobody takes over what another person asked for, so that the note has to be of this very
            // execution: a plan's record could name any other one.
            Requester::Verified(_) if four_eyes || plan.four_eyes => noted(ctx, execution).await?,
            Requester::Verified(_) => match ctx.store.plan(&plan.id).await? {
                // By the execution that the plan was made for. Where a dry run was taken over, another one carries it out.
                Some(record) => noted(ctx, &record.execution).await?,
                None => None,
            },
            Requester::Guard | Requester::Unverified => None,
        };
        Ok(Self { four_eyes, noted })
    }

    pub(super) fn people(&self) -> People<'_> {
        People {
            four_eyes: self.four_eyes,
            noted: self.noted.as_ref(),
        }
    }
}

/// Whether two people have to stand behind a plan of this group. A group that is not configured any more has no policy
/// that would do with one.
pub(super) fn four_eyes(config: &Config, plan: &Plan) -> bool {
    let resolved = config.resolve(&plan.cluster, &plan.group);
    resolved.is_none_or(|resolved| resolved.policy.four_eyes)
}

/// Who is on record to have asked by an execution.
async fn noted<B>(ctx: &Context<B>, execution: &ExecutionArn) -> Result<Option<Identity>, Error> {
    Ok(ctx
        .store
        .noted_requester(execution.name(), ctx.now())
        .await?)
}
