//! Ten thousand partitions in one group, through every step.

use std::collections::HashMap;
use std::time::Instant;

use aws_sdk_dynamodb::types::AttributeValue;
use data_encoding::HEXLOWER;
use offset_guard::domain::offset::{CommittedOffset, GroupId};
use offset_guard::domain::recovery::PartitionOutcome;
use offset_guard_local::kafka::Version;
use offset_guard_local::stack::{Stack, StackOptions};
use offset_guard_local::workdir::progress;
use offset_guard_tests::{CLASSIC_ON_4, Outcome, PATIENCE, World, now, shared_options, wide};
use serde_json::json;
use sha2::{Digest, Sha256};

/// On brokers of its own: so many partitions would slow every other test down.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_partitions_in_one_group() -> Outcome {
    let options = StackOptions {
        kafka: wide::kafka(),
        ..shared_options(Version::V4)
    };
    let world = &World::of(Stack::start(&options).await?, CLASSIC_ON_4)?;
    let (topic, group) = (world.topic("wide"), world.group("test"));
    let all = usize::try_from(wide::PARTITIONS)?;
    let mut step = Steps(Instant::now());
    wide::topic(&world.client, &topic).await?;
    step.took("topic and records");
    wide::commit(&world.client, &group, &topic, 0).await?;
    step.took("the first commit");

    let id = world.checkpoint(&group).await?;
    step.took("the first checkpoint");
    // One item holds it all, far from the table's limit of 400 KiB.
    let chunks = format!("CHECKPOINTCHUNK#{}#{group}#{id}", world.stack.cluster_id());
    assert!(items(world, &chunks).await?.is_empty());
    let checkpoints = format!("CHECKPOINT#{}#{group}", world.stack.cluster_id());
    let largest = items(world, &checkpoints).await?.into_iter().max();
    assert!(
        largest.is_some_and(|bytes| (1..300 << 10).contains(&bytes)),
        "{largest:?}"
    );

    let before = now();
    wide::commit(&world.client, &group, &topic, 1).await?;
    world.checkpoint(&group).await?;
    step.took("the second commit and checkpoint");

    let rewind = world.rewind(&group, &json!({"rewind_before": before}));
    let execution = world.operator.request(rewind).await?;
    let link = execution.link(&world.stack, &group, PATIENCE).await?;
    step.took("plan and request for approval");

    let (status, page) = world.operator.get(&link).await?;
    assert_eq!(status, 200);
    assert!(page.contains("50 of 10,000"), "{page}");
    let (status, csv) = world.operator.get(&format!("{link}?format=csv")).await?;
    assert_eq!(status, 200);
    assert_eq!(csv.matches(&topic).count(), all);
    let digest = HEXLOWER.encode(&Sha256::digest(&csv));
    assert!(page.contains(&digest), "the digest is not that of the CSV");
    step.took("page and CSV");

    world.operator.approve(&link, &group).await?;
    let ended = execution.end().await?;
    assert_eq!(
        (ended.status.as_str(), ended.code()),
        ("SUCCEEDED", "VERIFIED")
    );
    step.took("admit, wait, apply, verify and report");

    assert_eq!(
        world.offsets(&group, &topic, wide::PARTITIONS).await?,
        vec![Some(0); all]
    );
    let audit = world.store.audit_of(&execution.arn).await?;
    let audit = audit.ok_or("there is no audit record")?;
    assert_eq!(audit.digest.map(|digest| digest.0), Some(digest));
    assert_eq!(audit.group, Some(GroupId(group)));
    let offset = |commit: &Option<CommittedOffset>| Some(commit.as_ref()?.offset);
    let verified = audit.partitions.iter().filter(|partition| {
        let offsets = [&partition.from, &partition.to, &partition.before].map(offset);
        offsets == [Some(1), Some(0), Some(1)]
            && partition.outcome == Some(PartitionOutcome::Applied)
    });
    assert_eq!(verified.count(), all);
    step.took("proof and audit");
    refused_in_every_partition(world, &world.group("test")).await?;
    step.took("a refusal of every partition");
    Ok(())
}

/// As many refusals as there are partitions, and more, go through the state machine, whose states and causes have room
/// for a few.
async fn refused_in_every_partition(world: &World, group: &str) -> Outcome {
    let rewind = world.rewind(group, &json!({"shift_by": 1_000}));
    let execution = world.operator.request(rewind).await?;
    let ended = execution.end().await?;
    assert_eq!((ended.status.as_str(), ended.code()), ("FAILED", "REFUSED"));
    let cause = ended.cause.ok_or("it ended without a cause")?;
    assert!(
        cause.contains("10,000 OFFSET_ABOVE_HIGH_WATERMARK"),
        "{cause}"
    );
    // The longest cause of a Fail state, and far from the 256 KiB of a state.
    assert!(cause.chars().count() < 32_768, "{}", cause.len());
    let audit = world.store.audit_of(&execution.arn).await?;
    let refusals = audit.ok_or("there is no audit record")?.refusals;
    assert!(
        refusals.len() >= usize::try_from(wide::PARTITIONS)?,
        "{}",
        refusals.len()
    );
    Ok(())
}

/// Says how long each step took.
struct Steps(Instant);

impl Steps {
    fn took(&mut self, step: &str) {
        progress(&format!("{step}: {:.1} s", self.0.elapsed().as_secs_f64()));
        self.0 = Instant::now();
    }
}

/// The bytes of each body of the items under a key.
async fn items(world: &World, pk: &str) -> Result<Vec<usize>, Box<dyn std::error::Error>> {
    let found = aws_sdk_dynamodb::Client::new(world.operator.sdk())
        .query()
        .table_name(world.stack.output("TableName")?)
        .key_condition_expression("pk = :pk")
        .expression_attribute_values(":pk", AttributeValue::S(pk.to_owned()))
        .send()
        .await?;
    let body = |item: &HashMap<String, AttributeValue>| {
        Some(item.get("body")?.as_b().ok()?.as_ref().len())
    };
    Ok(found
        .items()
        .iter()
        .map(|item| body(item).unwrap_or_default())
        .collect())
}
