use std::collections::BTreeMap;

use jiff::Timestamp;
use offset_guard::domain::group::GroupState;
use offset_guard::domain::guard::run::{GuardAction, GuardRun, LastAlert, SecondSource};
use offset_guard::domain::guard::verdict::{Status, Verdict};
use offset_guard::domain::ids::RunId;
use offset_guard::domain::refusal::Refusal;
use offset_guard::failure::ErrorClass;

use super::support::{
    Kind, Table, at, cluster, group, numbered_group, on_both_tables, plan_id, race,
};

const PK: &str = "GUARDRUN#local#shipment-sync";

pub(crate) fn run(n: usize, at: Timestamp) -> GuardRun {
    GuardRun {
        id: RunId(format!("01R{n:05}")),
        at,
        cluster: "local".to_owned(),
        cluster_id: Some(cluster()),
        group: group(),
        status: Status::Critical,
        failed: None,
        state: Some(GroupState::Stable),
        members: 2,
        looks: 4,
        of_group: None,
        recovery: None,
        findings: vec![],
        verdicts: BTreeMap::from([(Verdict::PoisonLikely, 1), (Verdict::CaughtUp, 5)]),
        second_source: SecondSource::Differs {
            how: "it says Empty".to_owned(),
        },
        withheld: vec![Refusal::GroupNotFound {
            group: group().0,
            near: None,
        }],
        records: vec![],
        dry_run: false,
        action: GuardAction::Proposed { plan: plan_id(n) },
    }
}

async fn runs_come_back_as_they_were_newest_first_and_never_expire(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let runs = [3, 1, 2].map(|n| run(n, at(i64::try_from(n * 300).unwrap())));
    for run in &runs {
        store.put_guard_run(run).await.unwrap();
    }
    let [third, first, second] = runs;
    let since = |at| store.guard_runs_since("local", &first.group, at);
    let all = [third.clone(), second.clone(), first.clone()];
    assert_eq!(since(at(0)).await.unwrap(), all);
    assert_eq!(since(at(600)).await.unwrap(), all[..2], "that time itself");
    assert_eq!(since(at(901)).await.unwrap(), []);
    let group = group();
    let one = store.guard_run("local", &group, second.at, &second.id);
    assert_eq!(one.await.unwrap(), Some(second));
    let other = RunId("01R00009".to_owned());
    let none = store.guard_run("local", &group, at(600), &other);
    assert_eq!(none.await.unwrap(), None);
    let items = table.items(PK).await;
    assert_eq!(items.len(), 3);
    assert!(items.iter().all(|item| !item.contains_key("ttl")));
}

async fn the_same_run_again_is_kept_once_and_another_one_under_its_id_is_a_conflict(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let mut run = run(1, at(0));
    store.put_guard_run(&run).await.unwrap();
    store.put_guard_run(&run).await.unwrap();
    run.action = GuardAction::Nothing;
    let error = store.put_guard_run(&run).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Conflict);
    assert_eq!(table.items(PK).await.len(), 1);
}

async fn of_twenty_runs_that_found_the_same_one_tells(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let told = |n: i64| LastAlert {
        signature: format!("signature {n}"),
        at: at(n),
    };
    let mut before = None;
    for round in [0, 100] {
        let won = race(|n| {
            let (store, before) = (store.clone(), before.clone());
            let told = told(round + i64::try_from(n).unwrap());
            async move {
                let noted = store
                    .note_told("local", &group(), &told, before.as_ref())
                    .await;
                noted.unwrap().then_some(told)
            }
        })
        .await;
        let won: Vec<_> = won.into_iter().flatten().collect();
        assert_eq!(won.len(), 1);
        before = store.told("local", &group()).await.unwrap();
        assert_eq!(before.as_ref(), won.first());
    }
    // The one that did tells again that it did.
    let same = before.clone().unwrap();
    let again = store.note_told("local", &group(), &same, None).await;
    assert!(again.unwrap());
    assert_eq!(store.told("local", &numbered_group(1)).await.unwrap(), None);
    assert_eq!(store.told("other", &group()).await.unwrap(), None);
}

on_both_tables! {
    runs_come_back_as_they_were_newest_first_and_never_expire,
    the_same_run_again_is_kept_once_and_another_one_under_its_id_is_a_conflict,
    of_twenty_runs_that_found_the_same_one_tells,
}
