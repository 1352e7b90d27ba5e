//! A batch that is small on the wire and does not fit into memory when it is unpacked.

use std::collections::BTreeMap;

use jiff::Timestamp;
use offset_guard::app::guard::GuardResult;
use offset_guard::domain::guard::probe::ProbeFault;
use offset_guard::domain::guard::verdict::Verdict;
use offset_guard::domain::offset::{GroupId, TopicPartition};
use offset_guard::domain::recovery::Outcome as Proven;
use offset_guard_local::client::{Client, Commit, Record};
use offset_guard_tests::{Outcome, World, on_kafka_4};
use serde_json::json;

use super::rig::{Rig, verdict};
use crate::asked::Result;

on_kafka_4!(
    a_bomb_hides_no_record_before_it,
    a_bomb_at_the_commit_is_told_and_left_alone,
    the_function_itself_survives_a_bomb,
);

/// A record that is about 300 KB as gzip and 300 MB when it is unpacked.
async fn bomb(world: &World, topic: &str) -> Result<()> {
    let properties = BTreeMap::from([
        ("compression.type".to_owned(), "gzip".to_owned()),
        ("message.max.bytes".to_owned(), "400000000".to_owned()),
    ]);
    let bomber = Client::new(world.stack.bootstrap(), &properties);
    let record = Record::new(0, vec![b' '; 300 << 20]);
    bomber.produce(topic, &[record]).await?;
    Ok(())
}

/// Why a run says that it has not read partition 0.
fn said(result: &GuardResult) -> String {
    let findings = result.findings.iter();
    let of = findings.filter(|finding| finding.partition.partition == 0);
    let evidence = of.flat_map(|finding| finding.evidence.iter().map(ToString::to_string));
    evidence
        .filter(|said| said.contains("ended the process"))
        .collect()
}

async fn a_bomb_hides_no_record_before_it(world: &World) -> Outcome {
    let rig = Rig::new(world, &[], &[&["{}", "not JSON"]]).await?;
    bomb(world, &rig.bench.topic).await?;
    rig.bench.commit(&[1]).await?;
    let (id, plan) = rig.until_planned().await?;
    let skipped: Vec<_> = plan.skips.iter().map(|skip| skip.record.offset).collect();
    assert_eq!(skipped, [1]);
    rig.bench.approved_plan(&id).await?;
    assert_eq!(rig.bench.apply(&id, &[]).await?.accepted, 1);
    assert_eq!(rig.bench.verify(&id).await?.outcome, Some(Proven::Verified));
    assert_eq!(rig.offset().await?, Some(2));
    Ok(())
}

async fn a_bomb_at_the_commit_is_told_and_left_alone(world: &World) -> Outcome {
    let rig = Rig::new(world, &[], &[&["{}", "{}"]]).await?;
    bomb(world, &rig.bench.topic).await?;
    rig.bench.commit(&[2]).await?;
    let result = rig.until_stalled().await?;
    assert_eq!(result.plan, None);
    assert_ne!(verdict(&result, 0), Some(Verdict::PoisonLikely));
    assert!(
        said(&result).contains("does not unpack within the 160 MiB"),
        "{result:?}"
    );

    // The next run knows of it, and says the same of the same moment.
    let partition = TopicPartition::new(&rig.bench.topic, 0);
    let notes = async || {
        let (store, group) = (&rig.bench.store, GroupId(rig.bench.group.clone()));
        let notes = store.probe_notes(&world.key_of(&group)).await;
        notes.map(|notes| notes.forbid(&partition, 2, Timestamp::now()))
    };
    let noted = notes().await?;
    assert!(matches!(noted, Some(ProbeFault::Ended { .. })), "{noted:?}");
    let again = rig.tick().await?;
    assert_eq!(said(&again), said(&result));
    assert_eq!(notes().await?, noted);

    // A person who asks for it has it read once more, and it is not passed over unread.
    let asked = rig.run(&rig.ask("skip_poison_record", &json!({}))).await?;
    assert_eq!(asked.withheld, ["RECORD_UNREADABLE"]);
    assert_eq!(asked.plan, None);
    assert_eq!(rig.offset().await?, Some(2));
    Ok(())
}

/// With the binary as it is deployed, whose children are the binary too.
async fn the_function_itself_survives_a_bomb(world: &World) -> Outcome {
    let (topic, group) = (world.topic("bombed"), world.group("poison"));
    world.client.create_topic(&topic, 1, &[]).await?;
    bomb(world, &topic).await?;
    world
        .client
        .commit(&group, &[Commit::new(&topic, 0, 0)])
        .await?;
    let event = json!({"cluster": "main", "group": group});
    let mut result = world.guard(&event).await?;
    for _ in 0..5 {
        tokio::time::sleep(std::time::Duration::from_secs(3)).await;
        result = world.guard(&event).await?;
        if result.to_string().contains("does not unpack within") {
            break;
        }
    }
    assert_eq!(result[0]["group"], group);
    assert!(
        result.to_string().contains("does not unpack within"),
        "{result}"
    );
    Ok(())
}
