//! A table a test, and what the tests put into it.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;

use aws_credential_types::Credentials;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Region};
use aws_sdk_dynamodb::types::AttributeValue;
use jiff::{SignedDuration, Timestamp};
use offset_guard::domain::checkpoint::{Checkpoint, CheckpointPartition, CheckpointTopic};
use offset_guard::domain::group::{GroupState, GroupType};
use offset_guard::domain::identity::Requester;
use offset_guard::domain::ids::{CheckpointId, ExecutionArn, GroupKey, PlanId};
use offset_guard::domain::offset::{
    ClusterId, CommittedOffset, GroupId, TopicId, TopicPartition, Watermarks,
};
use offset_guard::domain::plan::{
    CSV_VERSION, PartitionMove, Plan, PlanRecord, PlanResult, Source,
};
use offset_guard::domain::recovery::{Claim, Recovery};
pub(crate) use offset_guard::domain::testing::at_second as at;
use offset_guard::store::testing::MemoryTable;
use offset_guard::store::{DynamoTable, Store};
use offset_guard_local::kafka::Version;
use offset_guard_local::stack::Stack;
use offset_guard_tests::bare::create_table;
use offset_guard_tests::shared_options;

pub(crate) type Item = HashMap<String, AttributeValue>;

/// Which table a contract is held to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// DynamoDB of the local AWS.
    Dynamo,
    /// The one in memory, which needs no services.
    Memory,
}

/// Makes two tests of each function: one on a table of the local AWS, one in memory.
///
/// `cargo test -p offset-guard-tests --test store in_memory` runs those that need no services.
macro_rules! on_both_tables {
    ($($contract:ident),* $(,)?) => {
        mod on_the_local_aws {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $contract() {
                super::$contract(crate::support::Kind::Dynamo).await;
            })*
        }

        mod in_memory {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $contract() {
                super::$contract(crate::support::Kind::Memory).await;
            })*
        }
    };
}

pub(crate) use on_both_tables;

/// A new, empty table, and a way to look at it and to damage it that does not go through the store.
pub(crate) enum Table {
    Dynamo(Box<Dynamo>),
    Memory(MemoryTable),
}

/// A table of the local AWS.
pub(crate) struct Dynamo {
    client: Client,
    name: String,
    /// Holds the stack for as long as the table is used.
    _stack: Stack,
}

impl Dynamo {
    async fn new() -> Self {
        let stack = Stack::shared(&shared_options(Version::V4)).await.unwrap();
        let client = client(stack.aws_endpoint());
        let name = format!("store-{}", ulid::Ulid::generate());
        create_table(&client, &name).await.unwrap();
        Self {
            client,
            name,
            _stack: stack,
        }
    }

    pub(crate) fn store(&self) -> Store {
        Store::new(DynamoTable::new(self.client.clone(), self.name.clone()))
    }

    /// The store of another table that need not exist.
    pub(crate) fn beside(&self, name: &str) -> Store {
        Store::new(DynamoTable::new(self.client.clone(), name.to_owned()))
    }

    /// Everything under `pk`, in the order of the sort keys.
    pub(crate) async fn items(&self, pk: &str) -> Vec<Item> {
        self.client
            .query()
            .table_name(&self.name)
            .key_condition_expression("pk = :pk")
            .expression_attribute_values(":pk", AttributeValue::S(pk.to_owned()))
            .consistent_read(true)
            .into_paginator()
            .items()
            .send()
            .collect::<Result<_, _>>()
            .await
            .unwrap()
    }

    /// How many items one page of a query holds, and whether there are more.
    pub(crate) async fn first_page(&self, pk: &str) -> (usize, bool) {
        let page = self
            .client
            .query()
            .table_name(&self.name)
            .key_condition_expression("pk = :pk")
            .expression_attribute_values(":pk", AttributeValue::S(pk.to_owned()))
            .send()
            .await
            .unwrap();
        (page.items().len(), page.last_evaluated_key.is_some())
    }

    async fn put(&self, item: Item) {
        let put = self.client.put_item().table_name(&self.name);
        put.set_item(Some(item)).send().await.unwrap();
    }

    async fn delete(&self, item: &Item) {
        self.client
            .delete_item()
            .table_name(&self.name)
            .key("pk", item["pk"].clone())
            .key("sk", item["sk"].clone())
            .send()
            .await
            .unwrap();
    }
}

impl Table {
    pub(crate) async fn new(on: Kind) -> Self {
        match on {
            Kind::Dynamo => Self::Dynamo(Box::new(Dynamo::new().await)),
            Kind::Memory => Self::Memory(MemoryTable::new()),
        }
    }

    /// A table of the local AWS, for what only that one shows.
    pub(crate) async fn real() -> Dynamo {
        Dynamo::new().await
    }

    pub(crate) fn store(&self) -> Store {
        match self {
            Self::Dynamo(table) => table.store(),
            Self::Memory(table) => Store::new(table.clone()),
        }
    }

    /// Everything under `pk`, in the order of the sort keys.
    pub(crate) async fn items(&self, pk: &str) -> Vec<Item> {
        match self {
            Self::Dynamo(table) => table.items(pk).await,
            Self::Memory(table) => table.items(pk),
        }
    }

    pub(crate) async fn put(&self, item: Item) {
        match self {
            Self::Dynamo(table) => table.put(item).await,
            Self::Memory(table) => assert!(table.insert(item)),
        }
    }

    pub(crate) async fn delete(&self, item: &Item) {
        match self {
            Self::Dynamo(table) => table.delete(item).await,
            Self::Memory(table) => assert!(table.remove(item)),
        }
    }
}

pub(crate) fn client(endpoint: &str) -> Client {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .endpoint_url(endpoint)
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .build();
    Client::from_conf(config)
}

/// Twenty at once, and what each came to.
pub(crate) async fn race<T, F>(each: impl Fn(usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let tasks: Vec<_> = (0..20).map(|n| tokio::spawn(each(n))).collect();
    let mut outcomes = Vec::new();
    for task in tasks {
        outcomes.push(task.await.unwrap());
    }
    outcomes
}

pub(crate) fn sk(item: &Item) -> &str {
    item["sk"].as_s().unwrap()
}

pub(crate) fn hours(hours: i64) -> SignedDuration {
    SignedDuration::from_hours(hours)
}

pub(crate) fn cluster() -> ClusterId {
    ClusterId("5L6g3nShT-eMCtK--X86sw".to_owned())
}

pub(crate) fn group() -> GroupId {
    GroupId("shipment-sync".to_owned())
}

/// The group of [`group`] in the cluster of [`cluster`].
pub(crate) fn group_key() -> GroupKey {
    key_of(&group())
}

/// Another group of the same cluster.
pub(crate) fn key_of(group: &GroupId) -> GroupKey {
    GroupKey::new(cluster(), group.clone())
}

pub(crate) fn plan_id(n: usize) -> PlanId {
    PlanId(format!("01J{n:05}"))
}

/// The execution `n`, whose name is its whole ARN.
pub(crate) fn execution(n: usize) -> ExecutionArn {
    ExecutionArn(format!("execution-{n}"))
}

pub(crate) fn commit(offset: i64) -> CommittedOffset {
    CommittedOffset {
        offset,
        leader_epoch: Some(3),
        metadata: vec![0xff, 0, 0x80],
    }
}

pub(crate) fn log() -> Watermarks {
    Watermarks {
        log_start: 5,
        last_stable: 90,
        high: 93,
        leader_epoch: Some(3),
    }
}

/// Bytes that do not compress.
pub(crate) fn noise(seed: usize, len: usize) -> Vec<u8> {
    let mut random = 0x2545_f491_4f6c_dd1d_u64 ^ u64::try_from(seed + 1).unwrap();
    std::iter::repeat_with(|| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random.to_le_bytes()[5]
    })
    .skip(20)
    .take(len)
    .collect()
}

/// A checkpoint of `at`: three partitions, one of them without a commit.
pub(crate) fn checkpoint(id: usize, at: Timestamp) -> Checkpoint {
    let partitions = [Some(commit(31)), Some(commit(43)), None];
    Checkpoint {
        id: CheckpointId(format!("01K{id:05}")),
        cluster_id: cluster(),
        group: group(),
        group_type: GroupType::Consumer,
        state: GroupState::Stable,
        members: vec!["m-1".to_owned()],
        began_at: at - SignedDuration::from_millis(1),
        ended_at: at,
        topics: BTreeMap::from([(
            "shipments".to_owned(),
            CheckpointTopic {
                id: TopicId::from_bytes([7; 16]),
                partitions: 3,
            },
        )]),
        partitions: partitions
            .into_iter()
            .zip(0..)
            .map(|(committed, n)| {
                let body = CheckpointPartition {
                    committed,
                    log: log(),
                };
                (TopicPartition::new("shipments", n), body)
            })
            .collect(),
        gone_topics: ["retired".to_owned()].into(),
        anomalies: vec![],
    }
}

/// The same with metadata of `len` incompressible bytes.
pub(crate) fn heavy(id: usize, at: Timestamp, len: usize) -> Checkpoint {
    let mut c = checkpoint(id, at);
    for (body, seed) in c.partitions.values_mut().zip(0..) {
        if let Some(committed) = &mut body.committed {
            committed.metadata = noise(id * 10 + seed, len / 2);
        }
    }
    c
}

pub(crate) fn partitions(count: i32) -> impl Iterator<Item = TopicPartition> {
    (0..count).map(|n| TopicPartition::new(format!("topic-{}", n % 10), n / 10))
}

/// A plan that moves `count` partitions.
pub(crate) fn plan(id: PlanId, count: i32) -> Plan {
    let mut moves: Vec<_> = partitions(count)
        .zip(0_i64..)
        .map(|(partition, n)| PartitionMove {
            partition,
            topic_id: TopicId::from_bytes([7; 16]),
            from: Some(commit(40_000 + n * 7919)),
            to: Some(commit(31_000 + n * 7907)),
            log: log(),
            lost: 0,
            may_rise_to: None,
        })
        .collect();
    moves.sort_by(|a, b| a.partition.cmp(&b.partition));
    Plan {
        id,
        cluster: "local".to_owned(),
        cluster_id: cluster(),
        group: group(),
        group_type: GroupType::Classic,
        state: GroupState::Empty,
        config_hash: "c0ffee".to_owned(),
        csv_version: CSV_VERSION,
        created_at: at(0),
        approve_by: at(3600),
        apply_within_seconds: 2100,
        waits_for_empty: false,
        drift_limit: 0,
        source: Source::Earliest,
        moves,
        skips: vec![],
        left_alone: vec![],
        warnings: vec![],
        disowns: None,
        requested_by: "ada".to_owned(),
        requester: Requester::Unverified,
        four_eyes: false,
        reason: "a bad release".to_owned(),
    }
}

pub(crate) fn record(id: usize, result: PlanResult) -> PlanRecord {
    PlanRecord {
        id: plan_id(id),
        execution: execution(id),
        created_at: at(0),
        cluster: "local".to_owned(),
        group: group(),
        dry_run: false,
        requested_by: "ada".to_owned(),
        reason: "a bad release".to_owned(),
        grounds: vec![],
        result,
    }
}

/// A recovery that has just been opened, of the plan and the execution `n`.
pub(crate) fn recovery(n: usize) -> Recovery {
    Recovery {
        plan: plan_id(n),
        execution: execution(n),
        cluster_id: cluster(),
        group: group(),
        opened_at: at(0),
        apply_by: None,
        quiet: None,
        fence: 0,
        apply_until: None,
        apply_ended_at: None,
        superseded_by: None,
        reconciled_by: None,
        unknown_rights: None,
        refusals: vec![],
        outcome: None,
        closed_at: None,
    }
}

pub(crate) fn claim(n: usize, expires_at: Timestamp) -> Claim {
    Claim {
        execution: execution(n),
        plan: plan_id(n),
        expires_at,
    }
}

pub(crate) fn numbered_group(n: usize) -> GroupId {
    GroupId(format!("group-{n}"))
}
