//! Every way to be refused that a broker can be brought to show. Whatever the reason: the execution fails, the message
//! says what to do, nothing that is committed changes, and the same request can be made again at once.

use std::error::Error;
use std::time::{Duration, Instant};

use offset_guard::domain::ids::PlanId;
use offset_guard::domain::offset::{CommittedOffset, GroupId, TopicPartition};
use offset_guard::domain::plan::{Plan, PlanResult};
use offset_guard::kafka::GroupReader;
use offset_guard::ports::ReadGroups;
use offset_guard::store::LinkHash;
use offset_guard_local::client::Commit;
use offset_guard_local::operator::{Ended, Execution, Function, Invoked, link_in, text_of};
use offset_guard_tests::{PATIENCE, Refused, World};
use serde_json::{Value, json};

mod approved;
mod groups;
mod live;
mod logs;
mod own_stack;
mod past;
mod requests;
mod typed;

/// A group, and the topics that it reads.
#[derive(Debug)]
struct Scene<'a> {
    world: &'a World,
    group: String,
    topics: Vec<(String, i32)>,
}

/// What Kafka has of a group.
#[derive(Debug, PartialEq)]
struct InKafka {
    exists: bool,
    commits: Vec<Option<CommittedOffset>>,
}

impl<'a> Scene<'a> {
    /// A group that nothing is known of, and a topic with `records` records in each partition.
    async fn new(
        world: &'a World,
        policy: &str,
        partitions: i32,
        records: usize,
    ) -> Result<Self, Box<dyn Error>> {
        let topic = world.topic("shipments");
        world.filled_topic(&topic, partitions, records).await?;
        Ok(Self {
            world,
            group: world.group(policy),
            topics: vec![(topic, partitions)],
        })
    }

    /// The same with `offset` committed in every partition by a consumer that assigns itself.
    async fn committed(
        world: &'a World,
        policy: &str,
        partitions: i32,
        records: usize,
        offset: i64,
    ) -> Result<Self, Box<dyn Error>> {
        let scene = Self::new(world, policy, partitions, records).await?;
        scene
            .commit(&vec![offset; usize::try_from(partitions)?])
            .await?;
        Ok(scene)
    }

    /// The same with everything read and committed by a member that is gone.
    async fn read(
        world: &'a World,
        policy: &str,
        partitions: i32,
        records: usize,
    ) -> Result<Self, Box<dyn Error>> {
        let scene = Self::new(world, policy, partitions, records).await?;
        let count = usize::try_from(partitions)?;
        world
            .consume(&scene.group, scene.topic(), count, count * records)
            .await?;
        Ok(scene)
    }

    fn topic(&self) -> &str {
        self.topics.first().map_or("", |(topic, _)| topic)
    }

    fn partition(&self, partition: i32) -> TopicPartition {
        TopicPartition::new(self.topic(), partition)
    }

    /// Commits one offset a partition of the first topic, from 0 on.
    async fn commit(&self, offsets: &[i64]) -> Result<(), Box<dyn Error>> {
        let commits: Vec<_> = (0..)
            .zip(offsets)
            .map(|(partition, offset)| Commit::new(self.topic(), partition, *offset))
            .collect();
        Ok(self.world.client.commit(&self.group, &commits).await?)
    }

    async fn checkpoint(&self) -> Result<String, Box<dyn Error>> {
        self.world.checkpoint(&self.group).await
    }

    fn request(&self, more: &Value) -> Value {
        self.world.rewind(&self.group, more)
    }

    /// Everything to one offset, by `to_offsets`.
    fn to_offset(&self, offset: i64) -> Value {
        let partitions = self.topics.first().map_or(0, |(_, partitions)| *partitions);
        let offsets: Vec<_> = (0..partitions)
            .map(|p| json!({"topic": self.topic(), "partition": p, "offset": offset}))
            .collect();
        json!({ "to_offsets": offsets })
    }

    async fn in_kafka(&self) -> Result<InKafka, Box<dyn Error>> {
        let reader = GroupReader::connect(self.world.settings())?;
        let group = GroupId(self.group.clone());
        let asked: Vec<_> = self
            .topics
            .iter()
            .flat_map(|(topic, count)| (0..*count).map(move |p| TopicPartition::new(topic, p)))
            .collect();
        // Pending commits are no reason not to see the ones that stand.
        let expected = asked.iter().cloned().collect();
        let read = reader.observe(&group, &expected, false).await?.partitions;
        let mut commits = Vec::new();
        for partition in &asked {
            match read.get(partition).map(|read| &read.committed) {
                Some(Ok(committed)) => commits.push(committed.clone()),
                other => return Err(format!("{partition}: {other:?}").into()),
            }
        }
        let exists = reader.list_groups().await?.contains(&group);
        Ok(InKafka { exists, commits })
    }

    /// Asks, and is refused for exactly these reasons, both times; each of `advice` is in the message.
    async fn refuses(
        &self,
        more: &Value,
        codes: &[&str],
        advice: &[&str],
    ) -> Result<Refused, Box<dyn Error>> {
        let before = self.in_kafka().await?;
        let (first, again) = tokio::join!(
            self.world.refused(self.request(more)),
            self.world.refused(self.request(more))
        );
        let (first, again) = (first?, again?);
        for refused in [&first, &again] {
            assert_eq!(refused.codes, codes, "{}", refused.message);
            assert_eq!(refused.ended.status, "FAILED");
            assert_eq!(refused.ended.code(), "REFUSED");
            assert_says(&refused.message, advice);
        }
        assert_eq!(self.in_kafka().await?, before);
        self.is_free().await?;
        Ok(first)
    }

    /// Nobody holds the group.
    async fn is_free(&self) -> Result<(), Box<dyn Error>> {
        let group = GroupId(self.group.clone());
        let claim = self.world.store.claim(&self.world.key_of(&group)).await?;
        assert_eq!(claim, None);
        Ok(())
    }

    /// Asks for what needs an approval.
    async fn asked(&self, more: &Value) -> Result<Execution, Box<dyn Error>> {
        Ok(self.world.operator.request(self.request(more)).await?)
    }

    /// The link to what was asked for, once it was told: a group that was asked for before has older ones.
    async fn link(&self, execution: &Execution) -> Result<String, Box<dyn Error>> {
        until("the approval to be asked for", async || {
            for message in self.world.stack.slack().messages()? {
                let text = text_of(&message);
                let Some(link) = link_in(&text).filter(|_| text.contains(&self.group)) else {
                    continue;
                };
                let approval = self.world.store.approval(&hash_of(link)?).await?;
                if approval.is_some_and(|approval| approval.execution == execution.arn) {
                    return Ok(Some(link.to_owned()));
                }
            }
            Ok(None)
        })
        .await
    }

    /// Approves what was asked for, in vain: it is refused for exactly these reasons.
    async fn approved_in_vain(
        &self,
        execution: &Execution,
        codes: &[&str],
        advice: &[&str],
    ) -> Result<(), Box<dyn Error>> {
        let world = self.world;
        let link = self.link(execution).await?;
        let before = self.in_kafka().await?;
        world.operator.approve(&link, &self.group).await?;
        self.ended_in_vain(execution, before, codes, advice).await
    }

    /// What was approved was not applied, for exactly these reasons.
    async fn ended_in_vain(
        &self,
        execution: &Execution,
        before: InKafka,
        codes: &[&str],
        advice: &[&str],
    ) -> Result<(), Box<dyn Error>> {
        let ended = execution.end().await?;
        let audit = self.world.store.audit_of(&execution.arn).await?;
        let audit = audit.ok_or_else(|| format!("there is no audit record of {ended:?}"))?;
        let found: Vec<_> = audit
            .refusals
            .iter()
            .map(|refusal| refusal.code())
            .collect();
        assert_eq!(found, codes, "{}", audit.message);
        assert_eq!(ended.status, "FAILED");
        assert_eq!(ended.code(), "APPROVED_NOT_APPLIED");
        assert_says(&audit.message, advice);
        assert_eq!(self.in_kafka().await?, before);
        self.is_free().await
    }

    /// Asks, approves, and sees it applied and verified.
    async fn moves(&self, more: &Value) -> Result<Plan, Box<dyn Error>> {
        let execution = self.asked(more).await?;
        let link = self.link(&execution).await?;
        self.world.operator.approve(&link, &self.group).await?;
        let ended = execution.end().await?;
        assert_eq!(ended.code(), "VERIFIED", "{ended:?}");
        self.is_free().await?;
        self.plan_of(&ended).await
    }

    /// Asks for the plan alone.
    async fn dry_run(&self, more: &Value) -> Result<Plan, Box<dyn Error>> {
        let mut request = self.request(more);
        request["dry_run"] = json!(true);
        let ended = self.world.operator.request(request).await?.end().await?;
        assert_eq!(ended.code(), "DRY_RUN", "{ended:?}");
        self.plan_of(&ended).await
    }

    async fn plan_of(&self, ended: &Ended) -> Result<Plan, Box<dyn Error>> {
        let id = ended.output["plan"]["plan_id"].as_str();
        self.plan(&PlanId(id.ok_or("no plan")?.to_owned())).await
    }

    async fn plan(&self, id: &PlanId) -> Result<Plan, Box<dyn Error>> {
        match self.world.store.plan(id).await?.map(|record| record.result) {
            Some(PlanResult::Ready(plan)) => Ok(plan),
            other => Err(format!("{id}: {other:?}").into()),
        }
    }

    /// The plan of an execution that waits for somebody.
    async fn open_plan(&self, execution: &Execution) -> Result<PlanId, Box<dyn Error>> {
        let open = self.world.store.open_recoveries().await?;
        let mine = open.into_iter().find(|(_, owner)| *owner == execution.arn);
        Ok(mine.ok_or("it is not open")?.0)
    }
}

fn assert_says(message: &str, advice: &[&str]) {
    for part in advice.iter().chain(&["No offset was changed"]) {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
}

/// Under what the table keeps the approval behind a link.
fn hash_of(link: &str) -> Result<LinkHash, Box<dyn Error>> {
    let (_, id) = link.rsplit_once('/').ok_or("a link without an id")?;
    Ok(LinkHash::of(id))
}

/// Looks again until there is an answer.
async fn until<T>(
    what: &str,
    mut look: impl AsyncFnMut() -> Result<Option<T>, Box<dyn Error>>,
) -> Result<T, Box<dyn Error>> {
    let start = Instant::now();
    loop {
        if let Some(answer) = look().await? {
            return Ok(answer);
        }
        if start.elapsed() > PATIENCE {
            return Err(format!("waited in vain for {what}").into());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Puts right what is left of one execution, as the schedule does for all of them.
async fn sweep(world: &World, execution: &Execution) -> Result<(), Box<dyn Error>> {
    let event = json!({"step": "sweep", "execution": execution.arn});
    let task = Function::ApprovalTask;
    match world.operator.invoke(&world.stack, task, &event).await? {
        Invoked::Returned(_) => Ok(()),
        Invoked::Failed { message, .. } => Err(message.into()),
    }
}

/// Where a plan takes each partition.
fn targets(plan: &Plan) -> Vec<(i32, Option<i64>)> {
    let moves = plan.moves.iter();
    moves
        .map(|m| (m.partition.partition, m.to.as_ref().map(|to| to.offset)))
        .collect()
}
