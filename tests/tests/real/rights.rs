//! Rights of the applying principal: asked before people are, and once more before anything is sent.

use std::time::Duration;

use offset_guard::domain::ids::PlanId;
use offset_guard::domain::offset::GroupId;
use offset_guard::domain::refusal::Refusal;
use offset_guard::domain::rights::{Operation, ResourceType, Right};
use offset_guard::kafka::GroupReader;
use offset_guard::ports::ReadGroups;
use offset_guard_local::client::Commit;
use offset_guard_tests::{Outcome, PATIENCE, World};
use serde_json::json;

use crate::authorised::{allow, authorised};

/// Waits until the brokers say that this test's principal may not READ a topic, or may.
pub(crate) async fn until_readable(
    world: &World,
    group: &str,
    topic: &str,
    readable: bool,
) -> Outcome {
    let reader = GroupReader::connect(world.settings())?;
    let (group, topics) = (GroupId(group.to_owned()), [topic.to_owned()].into());
    let asking = async {
        loop {
            let rights = reader.rights(&group, &topics).await?;
            let allowed = rights.topics.values().next();
            let may =
                matches!(allowed, Some(Ok(Some(allowed))) if allowed.contains(&Operation::Read));
            if may == readable {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asking).await?
}

fn read_on(topic: &str) -> Right {
    Right {
        operation: Operation::Read,
        resource: ResourceType::Topic,
        name: topic.to_owned(),
    }
}

fn lacking(group: &str, topic: &str) -> Vec<Refusal> {
    vec![Refusal::NotAuthorisedToAlter {
        group: group.to_owned(),
        missing: vec![read_on(topic)],
    }]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_may_not_be_read_is_told_before_anybody_is_asked() -> Outcome {
    let world = &authorised().await?;
    let (first, added) = (world.topic("first"), world.topic("added"));
    let group = world.group("test");
    world.filled_topic(&first, 1, 9).await?;
    world.filled_topic(&added, 1, 9).await?;
    let commits = [Commit::new(&first, 0, 5), Commit::new(&added, 0, 6)];
    world.client.commit(&group, &commits).await?;
    let offsets = async || {
        let first = world.offsets(&group, &first, 1).await?;
        let added = world.offsets(&group, &added, 1).await?;
        Ok::<_, Box<dyn std::error::Error>>([first, added].concat())
    };
    // As of a topic that was added after the rights were given.
    allow(world, "User:ANONYMOUS", "Describe", ["--topic", &added]).await?;
    until_readable(world, &group, &added, false).await?;

    let back = json!({"shift_by": -1});
    let execution = world.operator.request(world.rewind(&group, &back)).await?;
    let ended = execution.end().await?;
    assert_eq!((ended.status.as_str(), ended.code()), ("FAILED", "REFUSED"));
    let audit = world.store.audit_of(&execution.arn).await?;
    let audit = audit.ok_or("there is no audit record")?;
    assert_eq!(audit.refusals, lacking(&group, &added));
    let says = format!("lacks READ on topic {added}; grant it that");
    assert!(audit.message.contains(&says), "{}", audit.message);
    let plan = audit.plan.ok_or("there is no plan")?;
    assert_eq!(world.store.approval_of(&plan).await?, None);
    let told = world.told(&group)?;
    assert!(
        told.iter().all(|text| !text.contains("Approval needed")),
        "{told:?}"
    );
    let claim = world
        .store
        .claim(&world.key_of(&GroupId(group.clone())))
        .await?;
    assert_eq!(claim, None);

    // What it may be moved in is asked of people; the right goes before they decide.
    let request = world.rewind(&group, &json!({"shift_by": -1, "topics": [&first]}));
    let execution = world.operator.request(request).await?;
    let link = execution.link(&world.stack, &group, PATIENCE).await?;
    allow(world, "User:ANONYMOUS", "Describe", ["--topic", &first]).await?;
    until_readable(world, &group, &first, false).await?;
    world.operator.approve(&link, &group).await?;
    let ended = execution.end().await?;
    assert_eq!(ended.code(), "APPROVED_NOT_APPLIED");
    let audit = world.store.audit_of(&execution.arn).await?;
    let audit = audit.ok_or("there is no audit record")?;
    assert_eq!(audit.refusals, lacking(&group, &first));
    let plan: PlanId = audit.plan.ok_or("there is no plan")?;
    assert_eq!(world.store.pre_image(&plan).await?, None);
    assert!(world.store.answers(&plan).await?.is_empty());
    assert_eq!(offsets().await?, [Some(5), Some(6)]);
    Ok(())
}
