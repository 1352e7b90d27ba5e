//! Where an execution is.

use std::error::Error;
use std::time::Instant;

use offset_guard_local::operator::Execution;
use offset_guard_tests::{PATIENCE, World};

/// The names of the states that an execution has entered, in order.
pub(crate) async fn entered(
    world: &World,
    execution: &Execution,
) -> Result<Vec<String>, Box<dyn Error>> {
    let client = aws_sdk_sfn::Client::new(world.operator.sdk());
    let history = client
        .get_execution_history()
        .execution_arn(&execution.arn.0)
        .max_results(1000)
        .send()
        .await?;
    let states = history.events().iter();
    Ok(states
        .filter_map(|event| Some(event.state_entered_event_details()?.name().to_owned()))
        .collect())
}

/// Waits until an execution has entered `state` so often.
pub(crate) async fn until_entered(
    world: &World,
    execution: &Execution,
    state: &str,
    times: usize,
) -> Result<(), Box<dyn Error>> {
    let asked = Instant::now();
    loop {
        let entered = entered(world, execution).await?;
        if entered.iter().filter(|name| *name == state).count() >= times {
            return Ok(());
        }
        if asked.elapsed() > PATIENCE || execution.ended().await?.is_some() {
            return Err(format!("it never came to {state}, only to {entered:?}").into());
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
