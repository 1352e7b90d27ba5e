//! The webhook as senders meet it: over the deployed API, with the real table and secrets. Lambda's own API alone is
//! the test's, so that a start can be counted, throttled and lost.

mod alertmanager;
mod alerts;
mod operators;
mod stage;

use self::alerts::{
    a_rotated_secret, a_start_that_fails_is_lost_nowhere, every_kind_of_body, hostile_requests,
    no_more_than_the_budget, no_secret_is_told, nobody_without_the_secret, one_run_an_incident,
};
use self::operators::{
    a_request_to_guard, a_rewind_from_its_request_to_its_end, guard_itself_says_when_it_is_done,
    no_operator_asks_without_end,
};
use self::stage::Stage;
use offset_guard_tests::Outcome;

#[tokio::test(flavor = "multi_thread")]
async fn senders_and_operators() -> Outcome {
    let stage = Stage::start().await?;
    nobody_without_the_secret(&stage).await?;
    one_run_an_incident(&stage).await?;
    a_start_that_fails_is_lost_nowhere(&stage).await?;
    no_more_than_the_budget(&stage).await?;
    every_kind_of_body(&stage).await?;
    hostile_requests(&stage).await?;
    no_operator_asks_without_end(&stage).await?;
    a_request_to_guard(&stage).await?;
    guard_itself_says_when_it_is_done(&stage).await?;
    a_rewind_from_its_request_to_its_end(&stage).await?;
    a_rotated_secret(&stage).await?;
    no_secret_is_told(&stage).await?;
    stage.world.stack.stop().await?;
    Ok(())
}
