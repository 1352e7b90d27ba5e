//! A plan that was applied in part: undone where it was applied, finished where it was not.

use std::error::Error;

use offset_guard::domain::ids::PlanId;
use offset_guard::domain::plan::{LeftAlone, Plan};
use offset_guard::domain::recovery::Outcome as Came;
use offset_guard_tests::{Outcome, World, on_kafka_4};
use serde_json::json;

use crate::bench::{Act, Bench};
use crate::big_move::{LONG, MANY, approve_big_move, report_half};

on_kafka_4!(
    half_a_move_is_undone_and_the_rest_left_alone,
    half_a_move_is_finished_and_no_more,
    nothing_is_finished_that_has_moved_since,
);

/// The first of two requests was applied and the second never sent; how many partitions the first one held.
async fn half(world: &World) -> Result<(Bench, PlanId, i32), Box<dyn Error>> {
    let (bench, plan, first) = approve_big_move(world).await?;
    bench.apply(&plan, &[Act::SendAndFence]).await?;
    report_half(&bench, &plan, first).await?;
    Ok((bench.again(), plan, first))
}

/// Applies a plan and sees it verified.
async fn applied(bench: &Bench, plan: &PlanId) -> Result<Plan, Box<dyn Error>> {
    bench.apply(plan, &[]).await?;
    let verified = bench.verify(plan).await?;
    assert_eq!(verified.outcome, Some(Came::Verified));
    assert_eq!(bench.report(plan).await?.code, "VERIFIED");
    bench.stored(plan).await
}

/// The partitions that a plan moves.
fn moved(plan: &Plan) -> Vec<i32> {
    plan.moves.iter().map(|m| m.partition.partition).collect()
}

/// The partitions that a plan leaves alone for this reason.
fn left(plan: &Plan, why: LeftAlone) -> Vec<i32> {
    let left = plan.left_alone.iter().filter(|(_, reason)| *reason == why);
    left.map(|(partition, _)| partition.partition).collect()
}

async fn half_a_move_is_undone_and_the_rest_left_alone(world: &World) -> Outcome {
    let (bench, plan, first) = half(world).await?;
    let undo = bench.approved(&json!({"undo": plan})).await?;
    let undo = applied(&bench, &undo).await?;
    assert_eq!(moved(&undo), (0..first).collect::<Vec<_>>());
    let rest: Vec<_> = (first..MANY).collect();
    assert_eq!(left(&undo, LeftAlone::NotAppliedThen), rest);
    assert_eq!(
        bench.offsets(MANY).await?,
        vec![Some(1); usize::try_from(MANY)?]
    );
    Ok(())
}

async fn half_a_move_is_finished_and_no_more(world: &World) -> Outcome {
    let (bench, plan, first) = half(world).await?;
    let rest = bench.approved(&json!({"finish": plan})).await?;
    let rest = applied(&bench, &rest).await?;
    assert_eq!(moved(&rest), (first..MANY).collect::<Vec<_>>());
    let done: Vec<_> = (0..first).collect();
    assert_eq!(left(&rest, LeftAlone::AppliedThen), done);
    // As the first plan would have: offset, epoch and metadata of the checkpoint.
    let triples = world.triples(&bench.group, &bench.topic, MANY).await?;
    let whole = triples.iter().flatten();
    let whole = whole.filter(|t| t.offset == 0 && t.metadata.len() == LONG);
    assert_eq!(whole.count(), usize::try_from(MANY)?);
    Ok(())
}

async fn nothing_is_finished_that_has_moved_since(world: &World) -> Outcome {
    let (bench, plan, first) = half(world).await?;
    let mut offsets: Vec<_> = (0..MANY).map(|p| i64::from(p >= first)).collect();
    offsets[usize::try_from(MANY - 1)?] = 0;
    bench.commit(&offsets[..]).await?;
    let refused = bench.plan(&json!({"finish": plan})).await;
    let codes = refused.err().map(|error| error.to_string());
    assert_eq!(codes.as_deref(), Some("NOTHING_TO_FINISH"));
    Ok(())
}
