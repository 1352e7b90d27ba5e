use std::sync::Arc;

use offset_guard::app;
use offset_guard::config::Config;
use offset_guard::domain::offset::TopicPartition;
use offset_guard::domain::plan::{LeftAlone, PlanResult};
use offset_guard::domain::refusal::Refusal;
use offset_guard::error::Error;
use offset_guard::failure::ErrorClass;
use offset_guard::kafka::GroupReader;
use offset_guard_tests::context::{Connect, context};
use serde_json::json;

use super::support::{
    Kind, Table, at, execution, group, hours, noise, on_both_tables, plan, plan_id, race, record,
};

async fn every_kind_of_result_comes_back_as_it_was(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let results = [
        PlanResult::Ready(plan(plan_id(0), 3)),
        PlanResult::NothingToDo(vec![(
            TopicPartition::new("shipments", 0),
            LeftAlone::AlreadyThere,
        )]),
        PlanResult::Refused(vec![Refusal::GroupNotFound {
            group: group().0,
            near: None,
        }]),
    ];
    for (n, result) in results.into_iter().enumerate() {
        let record = record(n, result);
        store.put_plan(&record).await.unwrap();
        assert_eq!(store.plan(&record.id).await.unwrap(), Some(record));
    }
    assert_eq!(store.plan(&plan_id(9)).await.unwrap(), None);
}

async fn a_plan_of_ten_thousand_partitions_keeps_its_digest(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let plan = plan(plan_id(1), 10_000);
    let digest = plan.digest();
    let record = record(1, PlanResult::Ready(plan));
    store.put_plan(&record).await.unwrap();
    let back = store.plan(&record.id).await.unwrap().unwrap();
    let PlanResult::Ready(back_plan) = &back.result else {
        panic!("another result");
    };
    assert_eq!(back_plan.digest(), digest);
    assert_eq!(back, record);
    let items = table.items("PLAN#01J00001").await;
    let sizes: Vec<_> = items
        .iter()
        .filter_map(|item| Some(item.get("body")?.as_b().unwrap().as_ref().len()))
        .collect();
    println!("a plan of 10,000 partitions: {sizes:?} bytes");
}

async fn a_plan_is_written_once_and_the_same_again_is_no_error(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let record = record(1, PlanResult::Ready(plan(plan_id(1), 3)));
    store.put_plan(&record).await.unwrap();
    store.put_plan(&record).await.unwrap();
    let mut other = record.clone();
    other.reason = "another reason".to_owned();
    let error = store.put_plan(&other).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Conflict);
    assert_eq!(store.plan(&record.id).await.unwrap(), Some(record));
    let meta = &table.items("PLAN#01J00001").await[0];
    let ttl: i64 = meta["ttl"].as_n().unwrap().parse().unwrap();
    assert_eq!(ttl, (at(0) + hours(90 * 24)).as_second());
}

async fn twenty_writers_of_one_id_leave_one_whole_plan_however_big(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    // Each in several chunks, and all under one id.
    let records: Vec<_> = (0..20)
        .map(|n| {
            let mut plan = plan(plan_id(1), 3);
            for m in &mut plan.moves {
                if let Some(to) = &mut m.to {
                    to.metadata = noise(n, 150_000);
                }
            }
            let mut record = record(1, PlanResult::Ready(plan));
            record.reason = format!("writer {n}");
            record
        })
        .collect();
    let outcomes = race(|n| {
        let (store, record) = (store.clone(), records[n].clone());
        async move { store.put_plan(&record).await }
    })
    .await;
    let winners: Vec<_> = (0..20).filter(|n| outcomes[*n].is_ok()).collect();
    assert_eq!(winners.len(), 1);
    let lost = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
    assert!(lost.into_iter().all(|e| e.class == ErrorClass::Conflict));
    let kept = store.plan(&plan_id(1)).await.unwrap();
    assert_eq!(kept.as_ref(), Some(&records[winners[0]]));
    let chunks = table.items("PLAN#01J00001").await.len();
    assert!(chunks > 40, "{chunks} items");
}

async fn tries_of_one_step_answer_with_the_plan_that_stands(on: Kind) {
    let table = Table::new(on).await;
    let config = Config::parse(
        "[clusters.main]\nbootstrap_servers = [\"127.0.0.1:1\"]\nauth = \"plaintext\"\n\
         [[groups]]\nname = \"shipment-sync\"\n",
    );
    let config = Arc::new(config.unwrap());
    let answers = race(|_| {
        let (store, config) = (table.store(), Arc::clone(&config));
        async move {
            let input = json!({"request": {"group": "another", "to_earliest": true}});
            let connect = async |_: &str| -> Result<GroupReader, Error> {
                Err(Error::Broken(
                    "a group that is not configured is read".to_owned(),
                ))
            };
            let step = app::plan::PlanTask {
                execution: &execution(1),
                started_at: at(0),
                input: &input,
            };
            let ctx = context(config, &store, Connect::reading(connect));
            app::plan::plan_recovery(&ctx, &step).await
        }
    })
    .await;
    for answer in answers {
        let answer = answer.unwrap();
        assert_eq!(answer.summary, "NOT_CONFIGURED");
        let stored = table.store().plan(&answer.plan_id).await.unwrap();
        assert!(stored.is_some());
    }
}

on_both_tables! {
    every_kind_of_result_comes_back_as_it_was,
    a_plan_of_ten_thousand_partitions_keeps_its_digest,
    a_plan_is_written_once_and_the_same_again_is_no_error,
    twenty_writers_of_one_id_leave_one_whole_plan_however_big,
    tries_of_one_step_answer_with_the_plan_that_stands,
}
