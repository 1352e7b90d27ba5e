//! Stores what came of planning, and answers with it.

use crate::domain::ids::ExecutionArn;
use crate::domain::plan::{PlanRecord, PlanResult, partitions};
use crate::domain::reasons;
use crate::domain::text::{count, grouped};
use crate::error::Error;
use crate::failure::ErrorClass;
use crate::store::Store;
use crate::wire::{PlanAnswer, PlanVerdict};

/// Stores a record and answers with it, or with what another try of the step stored.
pub(super) async fn keep(store: &Store, record: PlanRecord) -> Result<PlanAnswer, Error> {
    match store.put_plan(&record).await {
        Ok(()) => Ok(answer(&record)),
        // Another try of this step, whose caller gave up on it, was faster: what it stored is what stands.
        Err(error) if error.class == ErrorClass::Conflict => match store.plan(&record.id).await? {
            Some(first) => of_execution(&record.execution, &first).map(answer),
            None => Err(error.into()),
        },
        Err(error) => Err(error.into()),
    }
}

/// A stored plan that this very execution made; anything else under its id is not what was asked for.
pub(super) fn of_execution<'a>(
    execution: &ExecutionArn,
    stored: &'a PlanRecord,
) -> Result<&'a PlanRecord, Error> {
    if stored.execution == *execution {
        return Ok(stored);
    }
    Err(Error::Broken(format!(
        "plan {} of execution {execution} was stored by {}; find out who wrote to the table, and ask again",
        stored.id, stored.execution
    )))
}

/// What the step answers.
pub(super) fn answer(record: &PlanRecord) -> PlanAnswer {
    let (verdict, digest, summary) = match &record.result {
        PlanResult::Refused(refusals) => {
            let codes = reasons::codes(refusals);
            (PlanVerdict::Refused, None, codes.join(", "))
        }
        PlanResult::NothingToDo(_) => (PlanVerdict::NothingToDo, None, "nothing to do".to_owned()),
        PlanResult::Ready(plan) => {
            let verdict = if record.dry_run {
                PlanVerdict::DryRun
            } else {
                PlanVerdict::NeedsApproval
            };
            let summary = format!(
                "{}, at most {} to replay, at most {} to skip",
                partitions(plan.moves.len()),
                count(plan.replayed(), "record"),
                grouped(plan.skipped())
            );
            (verdict, Some(plan.digest().0), summary)
        }
    };
    PlanAnswer {
        verdict,
        plan_id: record.id.clone(),
        digest,
        summary,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::domain::ids::PlanId;
    use crate::domain::offset::TopicPartition;
    use crate::domain::refusal::Refusal;

    fn refused(execution: &str, refusals: Vec<Refusal>) -> PlanRecord {
        PlanRecord::refused(
            PlanId("01K".to_owned()),
            execution.into(),
            Timestamp::UNIX_EPOCH,
            refusals,
        )
    }

    #[test]
    fn the_steps_answer_is_a_line_however_many_refusals_there_are() {
        let rejected = |partition| Refusal::BrokerRejected {
            partition: TopicPartition::new("t", partition),
            error: "E".to_owned(),
        };
        let mut refusals: Vec<_> = (0..10_000).map(rejected).collect();
        refusals.push(Refusal::ApplySwitchedOff);
        let answered = answer(&refused("e", refusals));
        assert_eq!(
            answered.summary,
            "10,000 BROKER_REJECTED, APPLY_SWITCHED_OFF"
        );
    }

    #[test]
    fn a_plan_that_another_one_stored_under_the_id_is_not_answered() {
        let stored = refused("guard", vec![Refusal::ApplySwitchedOff]);
        assert!(of_execution(&"guard".into(), &stored).is_ok());
        let error = of_execution(&"execution".into(), &stored).unwrap_err();
        assert!(error.to_string().contains("was stored by guard"), "{error}");
    }
}
