//! Checkpoints: what counts as one, what never replaces one, and what outlives what.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use offset_guard::domain::checkpoint::{Anomaly, Checkpoint, CheckpointHeader};
use offset_guard::domain::group::{GroupObservation, GroupState, GroupType};
use offset_guard::domain::offset::{GroupId, TopicPartition};
use offset_guard::domain::refusal::Refusal;
use offset_guard::domain::rights::Operation;
use offset_guard::kafka::GroupReader;
use offset_guard::ports::ReadGroups;
use offset_guard_local::client::{Commit, Protocol};
use offset_guard_local::operator::{Function, Invoked};
use offset_guard_local::stack::{BOOTSTRAP, CLUSTER_ID, Stack, StackOptions};
use offset_guard_tests::{CLASSIC_ON_4, Outcome, PATIENCE, World, now, on_every_kafka, on_kafka_4};
use serde_json::{Value, json};

on_every_kafka!(
    a_running_group_is_checkpointed,
    a_group_whose_commits_vanished_keeps_its_past,
    a_deleted_topic_is_recorded_as_gone,
    a_pending_commit_fails_this_run,
);
on_kafka_4!(
    overlapping_runs_store_two_whole_checkpoints,
    a_run_delivered_again_stores_nothing,
    a_run_delivered_again_adds_what_was_missing,
    a_scheduled_time_must_be_an_instant,
    nothing_expires_until_enough_newer_ones_exist,
    what_expired_is_not_offered,
    only_what_went_back_by_itself_is_suspect,
);

/// Runs the function for one group; what failed is the text.
async fn run(world: &World, event: &Value) -> Result<Value, String> {
    let function = Function::Checkpoint;
    let invoked = world.operator.invoke(&world.stack, function, event).await;
    match invoked.map_err(|error| error.to_string())? {
        Invoked::Returned(results) => Ok(results),
        Invoked::Failed { error, message } => Err(format!("{error}: {message}")),
    }
}

/// The error of a run that must not succeed.
async fn failure(world: &World, event: &Value) -> Result<String, String> {
    match run(world, event).await {
        Ok(results) => Err(format!("it should fail: {results}")),
        Err(text) => Ok(text),
    }
}

fn of_group(group: &str) -> Value {
    json!({"cluster": "main", "group": group})
}

/// What became of the only group of a run.
fn result(results: &Value) -> &str {
    results[0]["result"].as_str().unwrap_or_default()
}

/// All checkpoints of a group, newest first.
async fn headers(
    world: &World,
    group: &str,
) -> Result<Vec<CheckpointHeader>, Box<dyn std::error::Error>> {
    let group = GroupId(group.to_owned());
    let now = Timestamp::now();
    Ok(world.store.headers(&world.key_of(&group), now).await?)
}

async fn newest(world: &World, group: &str) -> Result<Checkpoint, Box<dyn std::error::Error>> {
    let headers = headers(world, group).await?;
    let header = headers.first().ok_or("there is no checkpoint")?;
    let group = GroupId(group.to_owned());
    Ok(world
        .store
        .checkpoint(&world.key_of(&group), header)
        .await?)
}

/// The offsets of one topic in a checkpoint, in the order of its partitions.
fn offsets(checkpoint: &Checkpoint, topic: &str) -> Vec<Option<i64>> {
    let of_topic = checkpoint
        .partitions
        .iter()
        .filter(|(partition, _)| partition.topic == topic);
    of_topic
        .map(|(_, body)| Some(body.committed.as_ref()?.offset))
        .collect()
}

/// Commits one offset in each of the partitions `0..` of a topic.
async fn commit(world: &World, group: &str, topic: &str, offsets: &[i64]) -> Outcome {
    let commits: Vec<_> = (0..)
        .zip(offsets)
        .map(|(partition, offset)| Commit::new(topic, partition, *offset))
        .collect();
    Ok(world.client.commit(group, &commits).await?)
}

async fn a_running_group_is_checkpointed(world: &World) -> Outcome {
    let (topic, group) = (world.topic("orders"), world.group("test"));
    world.filled_topic(&topic, 3, 5).await?;
    let member = world.member(&group, &topic, 3).await?;
    member.until_read(15, PATIENCE).await?;
    member.commit().await?;

    let id = world.checkpoint(&group).await?;
    let checkpoint = newest(world, &group).await?;
    member.stop().await?;

    let group_type = match world.setting.protocol {
        Protocol::Classic => GroupType::Classic,
        Protocol::Consumer => GroupType::Consumer,
    };
    assert_eq!(checkpoint.id.0, id);
    assert_eq!(checkpoint.state, GroupState::Stable);
    assert_eq!(checkpoint.group_type, group_type);
    assert_eq!(checkpoint.members.len(), 1);
    assert_eq!(offsets(&checkpoint, &topic), [Some(5); 3]);
    assert!(checkpoint.topic_id(&topic).is_some());
    assert!(checkpoint.began_at < checkpoint.ended_at);
    Ok(())
}

async fn a_group_whose_commits_vanished_keeps_its_past(world: &World) -> Outcome {
    let (topic, group) = (world.topic("orders"), world.group("keeping"));
    world.filled_topic(&topic, 2, 5).await?;
    world.consume(&group, &topic, 2, 10).await?;
    world.checkpoint(&group).await?;
    let before = headers(world, &group).await?;

    let vanish = ["--delete-offsets", "--group", &group, "--topic", &topic];
    let output = world.stack.cli()?.consumer_groups(&vanish).await?;
    assert!(output.success, "{}{}", output.stdout, output.stderr);
    assert_eq!(world.offsets(&group, &topic, 2).await?, [None; 2]);

    // More failures than checkpoints are kept, and over a longer time than they must span.
    let until = Timestamp::now() + SignedDuration::from_secs(5);
    let mut failures = 0;
    while failures < 4 || Timestamp::now() < until {
        let failed = failure(world, &of_group(&group)).await?;
        assert!(failed.contains(&group), "{failed}");
        assert!(failed.contains("no committed offsets"), "{failed}");
        failures += 1;
    }
    assert_eq!(headers(world, &group).await?, before);
    assert_eq!(
        offsets(&newest(world, &group).await?, &topic),
        [Some(5), Some(5)]
    );
    Ok(())
}

async fn a_deleted_topic_is_recorded_as_gone(world: &World) -> Outcome {
    let (kept, deleted) = (world.topic("kept"), world.topic("deleted"));
    let group = world.group("test");
    world.filled_topic(&kept, 1, 5).await?;
    world.filled_topic(&deleted, 2, 5).await?;
    commit(world, &group, &kept, &[5]).await?;
    commit(world, &group, &deleted, &[5, 4]).await?;
    world.checkpoint(&group).await?;
    let whole = newest(world, &group).await?;
    assert_eq!(offsets(&whole, &deleted), [Some(5), Some(4)]);
    assert!(whole.gone_topics.is_empty());

    world.client.delete_topic(&deleted).await?;
    world.checkpoint(&group).await?;
    let without = newest(world, &group).await?;
    assert_eq!(without.gone_topics, [deleted.clone()].into());
    assert_eq!(offsets(&without, &deleted), []);
    assert_eq!(offsets(&without, &kept), [Some(5)]);

    // It is no longer expected, and the older checkpoint still knows it.
    world.checkpoint(&group).await?;
    assert_eq!(offsets(&newest(world, &group).await?, &deleted), []);
    assert_eq!(headers(world, &group).await?.len(), 3);
    Ok(())
}

async fn a_pending_commit_fails_this_run(world: &World) -> Outcome {
    let (topic, group) = (world.topic("orders"), world.group("test"));
    world.filled_topic(&topic, 2, 9).await?;
    commit(world, &group, &topic, &[3, 3]).await?;
    world.checkpoint(&group).await?;
    let before = headers(world, &group).await?;

    let pending = [Commit::new(&topic, 1, 7)];
    let transaction = world.client.begin_transaction(&topic, &[]).await?;
    let transaction = world
        .client
        .commit_within(transaction, &group, &pending)
        .await?;
    let failed = failure(world, &of_group(&group)).await?;
    assert!(
        failed.contains(&format!(
            "{group}: no value was read for 1 partition; {topic}-1"
        )),
        "{failed}"
    );
    assert!(failed.contains("pending offset commits"), "{failed}");
    assert_eq!(headers(world, &group).await?, before);

    transaction.commit().await?;
    world.checkpoint(&group).await?;
    assert_eq!(
        offsets(&newest(world, &group).await?, &topic),
        [Some(3), Some(7)]
    );
    Ok(())
}

async fn overlapping_runs_store_two_whole_checkpoints(world: &World) -> Outcome {
    let (topic, group) = (world.topic("orders"), world.group("test"));
    world.filled_topic(&topic, 2, 9).await?;
    commit(world, &group, &topic, &[3, 4]).await?;
    let event = of_group(&group);
    let (one, other) = tokio::join!(run(world, &event), run(world, &event));
    let (one, other) = (one?, other?);
    assert_eq!((result(&one), result(&other)), ("stored", "stored"));
    assert_ne!(one[0]["checkpoint_id"], other[0]["checkpoint_id"]);

    let group_id = GroupId(group.clone());
    let headers = headers(world, &group).await?;
    assert_eq!(headers.len(), 2);
    for header in &headers {
        let whole = world
            .store
            .checkpoint(&world.key_of(&group_id), header)
            .await?;
        assert_eq!(offsets(&whole, &topic), [Some(3), Some(4)]);
        assert_eq!((&header.anomalies, header.expires_at), (&Vec::new(), None));
    }
    Ok(())
}

async fn a_run_delivered_again_stores_nothing(world: &World) -> Outcome {
    let (topic, group) = (world.topic("orders"), world.group("test"));
    world.filled_topic(&topic, 1, 9).await?;
    commit(world, &group, &topic, &[3]).await?;
    let of = |time: &str| json!({"cluster": "main", "group": group, "scheduled_time": time});

    let event = of("2026-03-01T08:00:00Z");
    let (a, b, c, d, e) = tokio::join!(
        run(world, &event),
        run(world, &event),
        run(world, &event),
        run(world, &event),
        run(world, &event)
    );
    let runs = [a?, b?, c?, d?, e?];
    let mut results: Vec<_> = runs.iter().map(result).collect();
    results.sort_unstable();
    let [again @ .., stored] = results.as_slice() else {
        return Err("there were five runs".into());
    };
    assert_eq!((again, *stored), (&["already_run"; 4][..], "stored"));
    assert_eq!(headers(world, &group).await?.len(), 1);

    // Much later, and written in another zone.
    commit(world, &group, &topic, &[5]).await?;
    for again in [&event, &of("2026-03-01T09:00:00+01:00")] {
        assert_eq!(result(&run(world, again).await?), "already_run");
    }
    assert_eq!(offsets(&newest(world, &group).await?, &topic), [Some(3)]);

    let next = run(world, &of("2026-03-01T09:00:00Z")).await?;
    assert_eq!(result(&next), "stored");
    assert_eq!(offsets(&newest(world, &group).await?, &topic), [Some(5)]);
    Ok(())
}

async fn a_run_delivered_again_adds_what_was_missing(world: &World) -> Outcome {
    let (topic, group) = (world.topic("orders"), world.group("test"));
    world.filled_topic(&topic, 1, 9).await?;
    let event = json!({
        "cluster": "main", "group": group, "scheduled_time": "2026-03-01T08:00:00Z",
    });
    let failed = failure(world, &event).await?;
    assert!(failed.contains("no committed offsets"), "{failed}");
    assert!(headers(world, &group).await?.is_empty());

    // The failed delivery has not used the hour up.
    commit(world, &group, &topic, &[3]).await?;
    assert_eq!(result(&run(world, &event).await?), "stored");
    assert_eq!(result(&run(world, &event).await?), "already_run");
    Ok(())
}

async fn a_scheduled_time_must_be_an_instant(world: &World) -> Outcome {
    let (topic, group) = (world.topic("orders"), world.group("test"));
    world.filled_topic(&topic, 1, 9).await?;
    commit(world, &group, &topic, &[3]).await?;
    for text in [
        "yesterday",
        "2026-03-01T08:00:00",
        "<aws.scheduler.scheduled-time>",
        "",
    ] {
        let event = json!({"cluster": "main", "group": group, "scheduled_time": text});
        let failed = failure(world, &event).await?;
        assert!(
            failed.starts_with("OffsetGuard.InvalidRequest: "),
            "{failed}"
        );
        assert!(failed.contains("scheduled_time"), "{failed}");
    }
    assert!(headers(world, &group).await?.is_empty());
    Ok(())
}

/// The policy keeps two that span at least four seconds.
async fn nothing_expires_until_enough_newer_ones_exist(world: &World) -> Outcome {
    let (topic, group) = (world.topic("orders"), world.group("keeping"));
    world.filled_topic(&topic, 1, 99).await?;
    let expiring = async || -> Result<Vec<bool>, Box<dyn std::error::Error>> {
        let headers = headers(world, &group).await?;
        Ok(headers.iter().map(|h| h.expires_at.is_some()).collect())
    };
    let began = Timestamp::now();
    let mut offset = 0;
    let mut taken = Vec::new();
    // As many as are kept twice over, but all within the time that they must span.
    while taken.len() < 4 {
        offset += 1;
        commit(world, &group, &topic, &[offset]).await?;
        taken.push(world.checkpoint(&group).await?);
    }
    let fast = Timestamp::now() - began < SignedDuration::from_secs(4);
    if fast {
        assert_eq!(expiring().await?, [false; 4]);
    }
    // The oldest go once newer ones reach back far enough, and never the newest two.
    loop {
        let expiring = expiring().await?;
        let (newest, older) = expiring.split_at(2);
        assert_eq!(newest, [false; 2]);
        if older.last() == Some(&true) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        world.checkpoint(&group).await?;
    }
    let headers = headers(world, &group).await?;
    let (kept, expiring): (Vec<_>, Vec<_>) = headers.iter().partition(|h| h.expires_at.is_none());
    let (Some(first), Some(last)) = (kept.first(), kept.last()) else {
        return Err("none is kept".into());
    };
    assert!(first.ended_at - last.ended_at >= SignedDuration::from_secs(4));
    // Only the oldest, from the end without a gap; they stay readable for days.
    assert_eq!(
        expiring,
        headers.iter().skip(kept.len()).collect::<Vec<_>>()
    );
    let week = Timestamp::now() + SignedDuration::from_hours(7 * 24 - 1);
    assert!(expiring.iter().all(|h| h.expires_at > Some(week)));
    assert!(expiring.iter().any(|h| Some(&h.id.0) == taken.first()));
    Ok(())
}

async fn what_expired_is_not_offered(world: &World) -> Outcome {
    let (topic, group) = (world.topic("orders"), world.group("test"));
    world.filled_topic(&topic, 1, 9).await?;
    commit(world, &group, &topic, &[3]).await?;
    let id = world.checkpoint(&group).await?;
    commit(world, &group, &topic, &[5]).await?;
    let later = now();

    let rewinds = [
        (json!({"rewind_before": later}), "NO_CHECKPOINT_BEFORE"),
        (json!({"checkpoint_id": id}), "CHECKPOINT_NOT_FOUND"),
    ];
    let dry = |more: &Value| {
        let mut request = world.rewind(&group, more);
        request["dry_run"] = json!(true);
        request
    };
    for (target, _) in &rewinds {
        let ended = world.operator.request(dry(target)).await?.end().await?;
        assert_eq!(ended.code(), "DRY_RUN");
    }
    // The table may keep it for days yet.
    let headers = headers(world, &group).await?;
    let past = Timestamp::now() - SignedDuration::from_secs(2);
    world
        .store
        .retire(
            &world.key_of(&GroupId(group.clone())),
            &headers.iter().collect::<Vec<_>>(),
            past,
        )
        .await?;
    for (target, code) in &rewinds {
        assert_eq!(world.refused(dry(target)).await?.codes, [*code]);
    }
    Ok(())
}

async fn only_what_went_back_by_itself_is_suspect(world: &World) -> Outcome {
    let (topic, group) = (world.topic("orders"), world.group("test"));
    world.filled_topic(&topic, 1, 9).await?;
    commit(world, &group, &topic, &[8]).await?;
    world.checkpoint(&group).await?;
    let before_it_went_back = now();

    commit(world, &group, &topic, &[4]).await?;
    world.checkpoint(&group).await?;
    let went_back = Anomaly::OffsetWentBackwards {
        partition: TopicPartition::new(&topic, 0),
        before: 8,
        after: 4,
    };
    let suspect = headers(world, &group).await?;
    assert_eq!(suspect[0].anomalies, std::slice::from_ref(&went_back));
    assert_eq!(newest(world, &group).await?.anomalies, [went_back]);

    // A rewind of ours goes back as well, and is no anomaly.
    commit(world, &group, &topic, &[9]).await?;
    world.checkpoint(&group).await?;
    let rewind = world.rewind(&group, &json!({"rewind_before": before_it_went_back}));
    let ended = world.approved(&group, rewind).await?;
    assert_eq!(ended.code(), "VERIFIED");
    // Whoever approved it was told that the group had gone back once by itself.
    let link = world.told(&group)?;
    assert!(
        link.iter().any(|text| text.contains("went back by itself")),
        "{link:?}"
    );
    world.checkpoint(&group).await?;
    let checkpoint = newest(world, &group).await?;
    assert_eq!(offsets(&checkpoint, &topic), [Some(8)]);
    assert_eq!(checkpoint.anomalies, []);

    // The next one that goes back by itself is seen again.
    commit(world, &group, &topic, &[2]).await?;
    world.checkpoint(&group).await?;
    assert_eq!(newest(world, &group).await?.anomalies.len(), 1);
    Ok(())
}

/// Two names of one cluster: one to be asked group by group, one to be run as a whole.
const WATCHED: &str = r#"
[clusters.main]
bootstrap_servers = ["@BOOTSTRAP@"]
auth = "plaintext"

[clusters.whole]
bootstrap_servers = ["@BOOTSTRAP@"]
cluster_id = "@CLUSTER_ID@"
auth = "plaintext"

[[groups]]
cluster = "main"
pattern = "test-*"
settle_seconds = 2

[[groups]]
cluster = "whole"
name = "orders-sync"

[[groups]]
cluster = "whole"
name = "no-such-group"

[[groups]]
cluster = "whole"
pattern = "app-*"
"#;

fn watched(properties: &[(&str, &str)]) -> StackOptions {
    let mut options = StackOptions {
        config: WATCHED
            .replace("@BOOTSTRAP@", BOOTSTRAP)
            .replace("@CLUSTER_ID@", CLUSTER_ID),
        ..StackOptions::default()
    };
    let properties = properties.iter().copied();
    options.kafka.properties = properties
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    options
}

/// A stack whose brokers ask an authorizer: what nobody was given rights to, everybody may do; else only who was.
pub(crate) async fn authorised() -> Result<World, Box<dyn std::error::Error>> {
    let options = watched(&[
        (
            "authorizer.class.name",
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        ),
        ("allow.everyone.if.no.acl.found", "true"),
    ]);
    World::of(Stack::shared(&options).await?, CLASSIC_ON_4)
}

/// Gives `operation` on a topic or group to `principal`, and so takes every other one from everybody else.
pub(crate) async fn allow(
    world: &World,
    principal: &str,
    operation: &str,
    on: [&str; 2],
) -> Outcome {
    acl(world, &["--add"], principal, operation, on).await
}

async fn acl(
    world: &World,
    action: &[&str],
    principal: &str,
    operation: &str,
    on: [&str; 2],
) -> Outcome {
    let who = ["--allow-principal", principal, "--operation", operation];
    let args = [action, &who, &on].concat();
    let output = world.stack.cli()?.acls(&args).await?;
    if output.success {
        return Ok(());
    }
    Err(format!("{}{}", output.stdout, output.stderr).into())
}

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
