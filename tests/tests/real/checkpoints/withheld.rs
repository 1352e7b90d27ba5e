//! Groups, topics and coordinators that cannot be read.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use offset_guard::domain::group::GroupObservation;
use offset_guard::domain::offset::{GroupId, TopicPartition};
use offset_guard::domain::refusal::Refusal;
use offset_guard::domain::rights::Operation;
use offset_guard::kafka::GroupReader;
use offset_guard::ports::ReadGroups;
use offset_guard_local::stack::Stack;
use offset_guard_tests::{CLASSIC_ON_4, Outcome, PATIENCE, World, now};
use serde_json::json;

use super::calls::{commit, failure, headers, newest, of_group, offsets, run};
use crate::authorised::{acl, allow, authorised, watched};

/// Reads a group until it is seen so: brokers learn of a right a moment after it was given.
async fn until_seen(
    world: &World,
    group: &str,
    expected: &[TopicPartition],
    so: impl Fn(&GroupObservation) -> bool,
) -> Outcome {
    let reader = GroupReader::connect(world.settings())?;
    let expected = expected.iter().cloned().collect();
    let until = Timestamp::now() + SignedDuration::try_from(PATIENCE)?;
    while Timestamp::now() < until {
        let group = GroupId(group.to_owned());
        if so(&reader.observe(&group, &expected, true).await?) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err("it is not seen so".into())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_may_not_be_seen_fails_its_group_alone() -> Outcome {
    let world = &authorised().await?;
    let (seen, hidden) = (world.topic("seen"), world.topic("hidden"));
    let (group, other) = (world.group("test"), world.group("test-other"));
    world.filled_topic(&seen, 1, 9).await?;
    world.filled_topic(&hidden, 2, 9).await?;
    commit(world, &group, &seen, &[5]).await?;
    commit(world, &group, &hidden, &[6, 7]).await?;
    commit(world, &other, &seen, &[5]).await?;
    world.checkpoint(&group).await?;
    let before = headers(world, &group).await?;

    allow(
        world,
        "User:somebody-else",
        "Describe",
        ["--topic", &hidden],
    )
    .await?;
    let gone = [TopicPartition::new(&hidden, 0)];
    until_seen(world, &group, &gone, |seen| seen.faults().count() > 0).await?;
    // "All commits" leaves it out without a word; asked for by name it is there, and not readable.
    until_seen(world, &group, &[], |seen| seen.faults().count() == 0).await?;
    for _ in 0..3 {
        let failed = failure(world, &of_group(&group)).await?;
        for part in [&group, &format!("{hidden}-0"), "not authorised"] {
            assert!(failed.contains(part), "{failed}");
        }
    }
    assert_eq!(headers(world, &group).await?, before);
    assert_eq!(
        offsets(&newest(world, &group).await?, &hidden),
        [Some(6), Some(7)]
    );
    world.checkpoint(&other).await?;
    // Nothing is planned on half a reading either.
    let rewind = world.rewind(&group, &json!({"rewind_before": now()}));
    let refused = world.refused(rewind).await?;
    assert!(
        refused
            .codes
            .iter()
            .all(|code| code == "EVIDENCE_INCOMPLETE"),
        "{:?}",
        refused.codes
    );

    allow(world, "User:ANONYMOUS", "Describe", ["--topic", &hidden]).await?;
    until_seen(world, &group, &gone, |seen| seen.faults().count() == 0).await?;
    world.checkpoint(&group).await?;
    assert_eq!(headers(world, &group).await?.len(), 2);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_may_not_be_seen_or_not_be_altered() -> Outcome {
    let world = &authorised().await?;
    let (topic, group) = (world.topic("orders"), world.group("test"));
    world.filled_topic(&topic, 1, 9).await?;
    commit(world, &group, &topic, &[5]).await?;
    world.checkpoint(&group).await?;
    let then = now();
    commit(world, &group, &topic, &[8]).await?;
    let rewind = world.rewind(&group, &json!({"rewind_before": then}));

    // Taken away between the plan and the approval: nothing moves.
    let execution = world.operator.request(rewind.clone()).await?;
    let link = execution.link(&world.stack, &group, PATIENCE).await?;
    allow(world, "User:ANONYMOUS", "Describe", ["--group", &group]).await?;
    let (reader, name) = (
        GroupReader::connect(world.settings())?,
        GroupId(group.clone()),
    );
    let may_commit = async || {
        let rights = reader.rights(&name, &[topic.clone()].into()).await?;
        let allowed = rights.group.is_some_and(|of| of.contains(&Operation::Read));
        Ok::<_, Box<dyn std::error::Error>>(allowed)
    };
    while may_commit().await? {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    world.operator.approve(&link, &group).await?;
    let ended = execution.end().await?;
    assert_eq!(
        (ended.status.as_str(), ended.code()),
        ("FAILED", "APPROVED_NOT_APPLIED")
    );
    let audit = world.store.audit_of(&execution.arn).await?;
    let audit = audit.ok_or("there is no audit record")?;
    let codes: Vec<_> = audit.refusals.iter().map(Refusal::code).collect();
    assert_eq!(codes, ["NOT_AUTHORISED_TO_ALTER"]);
    let told = &format!("lacks READ on group {group}");
    assert!(audit.message.contains(told), "{}", audit.message);
    assert_eq!(world.offsets(&group, &topic, 1).await?, [Some(8)]);

    // Nobody is asked about a plan that could not be applied, and a checkpoint needs no such right.
    assert_eq!(
        world.refused(rewind).await?.codes,
        ["NOT_AUTHORISED_TO_ALTER"]
    );
    world.checkpoint(&group).await?;
    let before = headers(world, &group).await?;

    let describe = ["--remove", "--force"];
    allow(world, "User:somebody-else", "Describe", ["--group", &group]).await?;
    acl(
        world,
        &describe,
        "User:ANONYMOUS",
        "Describe",
        ["--group", &group],
    )
    .await?;
    let reader = GroupReader::connect(world.settings())?;
    let hidden = async || {
        let seen = reader
            .observe(&GroupId(group.clone()), &[].into(), true)
            .await;
        seen.is_err()
    };
    while !hidden().await {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let failed = failure(world, &of_group(&group)).await?;
    assert!(failed.contains(&group), "{failed}");
    assert!(failed.contains("GROUP_AUTHORIZATION_FAILED"), "{failed}");
    assert_eq!(headers(world, &group).await?, before);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_takes_names_and_patterns_and_misses_what_disappears() -> Outcome {
    let mut own = World::of(Stack::start(&watched(&[])).await?, CLASSIC_ON_4)?;
    let world = &own;
    let topic = world.topic("orders");
    world.filled_topic(&topic, 1, 9).await?;
    for group in ["orders-sync", "app-one", "app-two", "another"] {
        commit(world, group, &topic, &[5]).await?;
    }
    let whole = json!({"cluster": "whole"});
    let failed = failure(world, &whole).await?;
    assert!(
        failed.contains("1 of 4 have no new checkpoint: whole no-such-group: "),
        "{failed}"
    );
    let taken =
        async |group| Ok::<_, Box<dyn std::error::Error>>(headers(world, group).await?.len());
    for group in ["orders-sync", "app-one", "app-two"] {
        assert_eq!(taken(group).await?, 1, "{group}");
    }
    assert_eq!(taken("another").await?, 0);
    for event in [
        json!({"cluster": "whole", "group": "another"}),
        json!({"cluster": "elsewhere"}),
    ] {
        let failed = failure(world, &event).await?;
        assert!(
            failed.contains("not") && failed.contains("configur"),
            "{failed}"
        );
    }

    // No broker lists a group without offsets, and only a pattern names this one.
    let vanish = ["--delete", "--group", "app-two"];
    let output = world.stack.cli()?.consumer_groups(&vanish).await?;
    assert!(output.success, "{}{}", output.stdout, output.stderr);
    let failed = failure(world, &whole).await?;
    assert!(
        failed.contains("2 of 4 have no new checkpoint: whole app-two: "),
        "{failed}"
    );
    assert_eq!(taken("app-one").await?, 2);
    assert_eq!(taken("app-two").await?, 1);

    let kafka = own.stack.kafka().ok_or("the stack is shared")?;
    kafka.stop_broker(0).await?;
    let failed = failure(&own, &whole).await?;
    let whole = "1 of 1 have no new checkpoint: whole: talking to Kafka failed";
    assert!(failed.contains(whole), "{failed}");
    for (group, taken) in [("orders-sync", 2), ("app-one", 2), ("app-two", 1)] {
        let headers = headers(&own, group).await?;
        assert_eq!(headers.len(), taken, "{group}");
        assert!(headers.iter().all(|h| h.expires_at.is_none()), "{group}");
    }
    own.stack.stop().await?;
    Ok(())
}

/// Three brokers, and each part of the offsets topic on one of them alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_is_down_fails_its_groups_alone() -> Outcome {
    let mut options = watched(&[("offsets.topic.replication.factor", "1")]);
    options.kafka.brokers = 3;
    let mut world = World::of(Stack::start(&options).await?, CLASSIC_ON_4)?;
    let topic = world.topic("orders");
    world.filled_topic(&topic, 1, 9).await?;
    let groups: Vec<_> = (0..6).map(|n| format!("app-{n}")).collect();
    for group in groups
        .iter()
        .map(String::as_str)
        .chain(["orders-sync", "no-such-group"])
    {
        commit(&world, group, &topic, &[5]).await?;
    }
    let whole = json!({"cluster": "whole"});
    run(&world, &whole).await?;

    let coordinator = coordinators(&world).await?;
    let broker = coordinator.get("app-0").copied().ok_or("no coordinator")?;
    let (down, up): (Vec<_>, Vec<_>) = coordinator.into_iter().partition(|(_, on)| *on == broker);
    assert!(!up.is_empty(), "all groups have one coordinator");
    let brokers = world.stack.kafka().ok_or("the stack is shared")?;
    brokers.stop_broker(broker - 1).await?;
    let failed = failure(&world, &whole).await?;
    for (group, _) in &down {
        assert!(
            failed.contains(&format!("whole {group}: ")),
            "{group}: {failed}"
        );
        assert_eq!(headers(&world, group).await?.len(), 1, "{group}");
    }
    for (group, _) in &up {
        assert!(
            !failed.contains(&format!("whole {group}: ")),
            "{group}: {failed}"
        );
        assert_eq!(headers(&world, group).await?.len(), 2, "{group}");
    }

    world.stack.stop().await?;
    Ok(())
}

/// The node that coordinates each group of the whole-run cluster.
async fn coordinators(
    world: &World,
) -> Result<BTreeMap<String, usize>, Box<dyn std::error::Error>> {
    let all = ["--describe", "--state", "--all-groups"];
    let output = world.stack.cli()?.consumer_groups(&all).await?;
    // GROUP, COORDINATOR (ID) as `127.0.0.1:9092  (1)`, and more.
    let mut found = BTreeMap::new();
    for line in output.stdout.lines() {
        let mut words = line.split_whitespace();
        let group = words.next().unwrap_or_default();
        let id = words.find_map(|word| word.strip_prefix('(')?.strip_suffix(')')?.parse().ok());
        if let Some(id) = id {
            found.insert(group.to_owned(), id);
        }
    }
    Ok(found)
}
