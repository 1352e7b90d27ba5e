//! Calls of the checkpoint function, and what it stored.

use jiff::Timestamp;
use offset_guard::domain::checkpoint::{Checkpoint, CheckpointHeader};
use offset_guard::domain::offset::GroupId;
use offset_guard_local::client::Commit;
use offset_guard_local::operator::{Function, Invoked};
use offset_guard_tests::{Outcome, World};
use serde_json::{Value, json};

/// Runs the function for one group; what failed is the text.
pub(super) async fn run(world: &World, event: &Value) -> Result<Value, String> {
    let function = Function::Checkpoint;
    let invoked = world.operator.invoke(&world.stack, function, event).await;
    match invoked.map_err(|error| error.to_string())? {
        Invoked::Returned(results) => Ok(results),
        Invoked::Failed { error, message } => Err(format!("{error}: {message}")),
    }
}

/// The error of a run that must not succeed.
pub(super) async fn failure(world: &World, event: &Value) -> Result<String, String> {
    match run(world, event).await {
        Ok(results) => Err(format!("it should fail: {results}")),
        Err(text) => Ok(text),
    }
}

pub(super) fn of_group(group: &str) -> Value {
    json!({"cluster": "main", "group": group})
}

/// What became of the only group of a run.
pub(super) fn result(results: &Value) -> &str {
    results[0]["result"].as_str().unwrap_or_default()
}

/// All checkpoints of a group, newest first.
pub(super) async fn headers(
    world: &World,
    group: &str,
) -> Result<Vec<CheckpointHeader>, Box<dyn std::error::Error>> {
    let group = GroupId(group.to_owned());
    let now = Timestamp::now();
    Ok(world.store.headers(&world.key_of(&group), now).await?)
}

pub(super) async fn newest(
    world: &World,
    group: &str,
) -> Result<Checkpoint, Box<dyn std::error::Error>> {
    let headers = headers(world, group).await?;
    let header = headers.first().ok_or("there is no checkpoint")?;
    let group = GroupId(group.to_owned());
    Ok(world
        .store
        .checkpoint(&world.key_of(&group), header)
        .await?)
}

/// The offsets of one topic in a checkpoint, in the order of its partitions.
pub(super) fn offsets(checkpoint: &Checkpoint, topic: &str) -> Vec<Option<i64>> {
    let of_topic = checkpoint
        .partitions
        .iter()
        .filter(|(partition, _)| partition.topic == topic);
    of_topic
        .map(|(_, body)| Some(body.committed.as_ref()?.offset))
        .collect()
}

/// Commits one offset in each of the partitions `0..` of a topic.
pub(super) async fn commit(world: &World, group: &str, topic: &str, offsets: &[i64]) -> Outcome {
    let commits: Vec<_> = (0..)
        .zip(offsets)
        .map(|(partition, offset)| Commit::new(topic, partition, *offset))
        .collect();
    Ok(world.client.commit(group, &commits).await?)
}
