use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use offset_guard::domain::ids::PlanId;
use offset_guard::domain::offset::TopicPartition;
use offset_guard::domain::recovery::{
    AlterAnswer, Claim, Outcome, PartitionOutcome, PreImage, Quiet, Recovery,
};
use offset_guard::domain::refusal::{Refusal, Stale};
use offset_guard::failure::ErrorClass;
use offset_guard::store::{Opened, Store};

use super::support::{
    Item, Kind, Table, at, claim, commit, execution, group_key, noise, on_both_tables, partitions,
    plan_id, race, recovery,
};

async fn open(store: &Store, n: usize) -> Opened {
    open_at(store, n, 0).await
}

/// Opens the recovery `n` at an instant, with a claim of a thousand seconds.
async fn open_at(store: &Store, n: usize, seconds: i64) -> Opened {
    let claim = claim(n, at(seconds + 1000));
    store
        .open_recovery(&recovery(n), &claim, at(seconds))
        .await
        .unwrap()
}

async fn stored(store: &Store, n: usize) -> Recovery {
    store.recovery(&plan_id(n)).await.unwrap().unwrap()
}

async fn an_opened_recovery_comes_back_and_holds_its_group(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    assert_eq!(store.recovery(&plan_id(1)).await.unwrap(), None);
    assert_eq!(store.claim(&group_key()).await.unwrap(), None);
    assert_eq!(open(&store, 1).await, Opened::Yes);
    assert_eq!(stored(&store, 1).await, recovery(1));
    let held = store.claim(&group_key()).await.unwrap();
    assert_eq!(held, Some(claim(1, at(1000))));
    assert_eq!(
        store.open_recoveries().await.unwrap(),
        [(plan_id(1), execution(1))]
    );
}

async fn a_recovery_in_the_midst_of_things_comes_back_as_it_was(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let r = Recovery {
        apply_by: Some(at(1)),
        quiet: Some(Quiet {
            since: at(2),
            commits: "c0ffee".to_owned(),
        }),
        fence: 3,
        apply_until: Some(at(3)),
        apply_ended_at: Some(at(4)),
        superseded_by: Some(plan_id(7)),
        refusals: vec![Refusal::ApplySwitchedOff],
        outcome: Some(Outcome::PartiallyApplied),
        closed_at: Some(at(5)),
        ..recovery(1)
    };
    let opened = store.open_recovery(&r, &claim(1, at(9)), at(0)).await;
    assert_eq!(opened.unwrap(), Opened::Yes);
    assert_eq!(stored(&store, 1).await, r);
}

async fn of_twenty_executions_one_gets_the_group(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let outcomes = race(|n| {
        let store = store.clone();
        async move { open(&store, n).await }
    })
    .await;
    let winners: Vec<_> = (0..20).filter(|n| outcomes[*n] == Opened::Yes).collect();
    assert_eq!(winners.len(), 1, "{outcomes:?}");
    let winner = winners[0];
    let held = Opened::HeldBy(claim(winner, at(1000)));
    assert_eq!(outcomes.iter().filter(|o| **o == held).count(), 19);
    // The others left nothing behind.
    let open = store.open_recoveries().await.unwrap();
    assert_eq!(open, [(plan_id(winner), execution(winner))]);
    for n in (0..20).filter(|n| *n != winner) {
        assert_eq!(store.recovery(&plan_id(n)).await.unwrap(), None);
    }
}

async fn of_twenty_executions_with_one_plan_one_gets_it(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    // Each in a group of its own, so that only the plan is in the way.
    let outcomes = race(|n| {
        let store = store.clone();
        async move {
            let r = Recovery {
                plan: plan_id(0),
                group: super::support::numbered_group(n),
                ..recovery(n)
            };
            let claim = Claim {
                plan: plan_id(0),
                ..claim(n, at(1000))
            };
            store.open_recovery(&r, &claim, at(0)).await.unwrap()
        }
    })
    .await;
    let count = |wanted: Opened| outcomes.iter().filter(|o| **o == wanted).count();
    assert_eq!((count(Opened::Yes), count(Opened::PlanUsed)), (1, 19));
}

async fn a_retried_step_gets_what_it_has_already_twenty_times_at_once(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let outcomes = race(|_| {
        let store = store.clone();
        async move { open(&store, 1).await }
    })
    .await;
    assert_eq!(outcomes, vec![Opened::Yes; 20]);
    // What has happened in between stays.
    store.set_apply_by(&plan_id(1), at(50)).await.unwrap();
    assert_eq!(open_at(&store, 1, 500).await, Opened::Yes);
    assert_eq!(stored(&store, 1).await.apply_by, Some(at(50)));
    let held = store.claim(&group_key()).await.unwrap();
    assert_eq!(held, Some(claim(1, at(1500))));
}

async fn a_claim_that_is_over_is_taken_by_one_of_twenty(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    assert_eq!(open(&store, 100).await, Opened::Yes);
    let still = Opened::HeldBy(claim(100, at(1000)));
    assert_eq!(open_at(&store, 101, 999).await, still);
    let outcomes = race(|n| {
        let store = store.clone();
        async move { open_at(&store, n, 1000).await }
    })
    .await;
    let winner = outcomes.iter().position(|o| *o == Opened::Yes).unwrap();
    let held = Opened::HeldBy(claim(winner, at(2000)));
    assert_eq!(outcomes.iter().filter(|o| **o == held).count(), 19);

    // The one that lost it has lost it: it can neither renew it nor get it back by asking again.
    let renewed = store
        .renew_claim(&group_key(), &execution(100), at(9000))
        .await;
    assert!(!renewed.unwrap());
    assert_eq!(open_at(&store, 100, 1500).await, held);
    // Its recovery is still open, for the sweep to see.
    assert_eq!(store.open_recoveries().await.unwrap().len(), 2);
}

async fn a_claim_is_renewed_by_its_owner_alone(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let renew = async |n, seconds| {
        let renewed = store
            .renew_claim(&group_key(), &execution(n), at(seconds))
            .await;
        renewed.unwrap()
    };
    assert!(!renew(1, 5000).await);
    assert_eq!(open(&store, 1).await, Opened::Yes);
    assert!(renew(1, 5000).await);
    assert!(!renew(2, 9000).await);
    let held = store.claim(&group_key()).await.unwrap();
    assert_eq!(held, Some(claim(1, at(5000))));
}

async fn notes_are_kept_and_need_an_open_recovery(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let plan = plan_id(1);
    let quiet = Quiet {
        since: at(7),
        commits: "c0ffee".to_owned(),
    };
    let notes = async || {
        [
            store.set_apply_by(&plan, at(50)).await,
            store.note_quiet(&plan, Some(&quiet)).await,
            store.note_unknown_rights(&plan, "READ on group g").await,
            store
                .note_refusals(&plan, &[Refusal::ApplySwitchedOff])
                .await,
            store
                .set_outcome(&plan, &Outcome::Verified, &BTreeMap::new())
                .await,
        ]
    };
    for failed in notes().await {
        assert_eq!(failed.unwrap_err().class, ErrorClass::Conflict);
    }
    // Nor did they make one, or leave a result.
    assert_eq!(store.recovery(&plan).await.unwrap(), None);
    assert_eq!(store.result(&plan).await.unwrap(), None);

    assert_eq!(open(&store, 1).await, Opened::Yes);
    for noted in notes().await {
        noted.unwrap();
    }
    let expected = Recovery {
        apply_by: Some(at(50)),
        quiet: Some(quiet.clone()),
        unknown_rights: Some("READ on group g".to_owned()),
        refusals: vec![Refusal::ApplySwitchedOff],
        outcome: Some(Outcome::Verified),
        ..recovery(1)
    };
    assert_eq!(stored(&store, 1).await, expected);
    store.note_quiet(&plan, None).await.unwrap();
    assert_eq!(stored(&store, 1).await.quiet, None);
}

async fn as_many_refusals_as_there_are_partitions_are_kept(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    assert_eq!(open(&store, 1).await, Opened::Yes);
    let refusals: Vec<_> = partitions(10_000)
        .zip(0_i64..)
        .map(|(partition, n)| Refusal::PlanStale {
            changed: Stale::CommittedOffset {
                partition,
                planned: Some(n * 7919),
                seen: Some(n * n),
                limit: 0,
            },
        })
        .collect();
    let plan = plan_id(1);
    for refusals in [&refusals[..], &refusals[..3], &refusals[..]] {
        store.note_refusals(&plan, refusals).await.unwrap();
        assert_eq!(stored(&store, 1).await.refusals, refusals);
    }
    let raised = store
        .raise_fence(&plan, &execution(1))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(raised.refusals, refusals);
}

async fn nothing_is_sent_after_the_fence(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let plan = plan_id(1);
    let may_send = async || store.may_send(&plan).await.unwrap();
    assert_eq!(store.raise_fence(&plan, &execution(1)).await.unwrap(), None);
    assert!(!store.begin_apply(&plan, at(60)).await.unwrap());
    assert_eq!(may_send().await, (false, None));

    assert_eq!(open(&store, 1).await, Opened::Yes);
    assert!(store.begin_apply(&plan, at(60)).await.unwrap());
    assert_eq!(may_send().await, (true, None));
    for on in [true, false] {
        store.set_apply_switch(on).await.unwrap();
        assert_eq!(may_send().await, (true, Some(on)));
    }
    let after = store
        .raise_fence(&plan, &execution(1))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((after.fence, after.apply_until), (1, Some(at(60))));
    assert_eq!(may_send().await, (false, Some(false)));
    assert!(!store.begin_apply(&plan, at(90)).await.unwrap());
    assert_eq!(stored(&store, 1).await.apply_until, Some(at(60)));
}

async fn a_misspelt_switch_does_not_read_as_one_that_nobody_set(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    assert_eq!(store.apply_switch().await.unwrap(), None);
    for (name, value) in [
        ("off", AttributeValue::Bool(true)),
        ("on", AttributeValue::S("false".to_owned())),
    ] {
        table
            .put(Item::from([
                ("pk".to_owned(), AttributeValue::S("CONTROL".to_owned())),
                ("sk".to_owned(), AttributeValue::S("APPLY".to_owned())),
                (name.to_owned(), value),
            ]))
            .await;
        assert!(store.apply_switch().await.is_err(), "{name}");
        assert!(store.may_send(&plan_id(1)).await.is_err(), "{name}");
    }
}

async fn twenty_raise_the_fence_twenty_times(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    assert_eq!(open(&store, 1).await, Opened::Yes);
    let mut fences = race(|_| {
        let store = store.clone();
        async move {
            store
                .raise_fence(&plan_id(1), &execution(1))
                .await
                .unwrap()
                .unwrap()
                .fence
        }
    })
    .await;
    fences.sort_unstable();
    assert_eq!(fences, (1..=20).collect::<Vec<_>>());
}

async fn the_end_of_one_apply_is_not_the_end_of_a_later_one(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let plan = plan_id(1);
    assert_eq!(open(&store, 1).await, Opened::Yes);
    assert!(store.begin_apply(&plan, at(60)).await.unwrap());
    store.end_apply(&plan, at(60), at(50)).await.unwrap();
    assert_eq!(stored(&store, 1).await.apply_ended_at, Some(at(50)));
    // A second one begins: something is under way again.
    assert!(store.begin_apply(&plan, at(120)).await.unwrap());
    assert_eq!(stored(&store, 1).await.apply_ended_at, None);
    store.end_apply(&plan, at(60), at(70)).await.unwrap();
    assert_eq!(stored(&store, 1).await.apply_ended_at, None);
    store.end_apply(&plan, at(120), at(110)).await.unwrap();
    assert_eq!(stored(&store, 1).await.apply_ended_at, Some(at(110)));
}

fn pre_image(n: usize, count: i32) -> PreImage {
    let offset = i64::try_from(n).unwrap();
    PreImage::of(
        partitions(count)
            .map(|partition| {
                let before = (partition.partition % 3 != 0).then(|| commit(offset));
                (partition, before)
            })
            .collect(),
    )
}

async fn of_twenty_pre_images_all_are_told_the_one_that_is_kept(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    assert_eq!(store.pre_image(&plan_id(1)).await.unwrap(), None);
    let told = race(|n| {
        let store = store.clone();
        async move {
            let mine = pre_image(n, 9);
            store.keep_pre_image(&plan_id(1), &mine).await.unwrap()
        }
    })
    .await;
    let kept = store.pre_image(&plan_id(1)).await.unwrap().unwrap();
    assert!((0..20).any(|n| kept == pre_image(n, 9)));
    assert_eq!(told, vec![kept; 20]);
}

async fn a_pre_image_in_chunks_is_never_a_mix_of_two(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let big = |n: usize| {
        let mut image = pre_image(n, 9);
        for before in image.before.values_mut().flatten() {
            before.metadata = noise(n, 100_000);
        }
        image
    };
    let told = race(|n| {
        let store = store.clone();
        async move { store.keep_pre_image(&plan_id(1), &big(n)).await.unwrap() }
    })
    .await;
    let kept = store.pre_image(&plan_id(1)).await.unwrap().unwrap();
    assert!((0..20).any(|n| kept == big(n)));
    assert_eq!(told, vec![kept; 20]);
}

async fn ten_thousand_partitions_have_a_pre_image_answers_and_a_result(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let plan = plan_id(1);
    assert_eq!(open(&store, 1).await, Opened::Yes);
    let image = PreImage::of(
        partitions(10_000)
            .zip(0_i64..)
            .map(|(partition, n)| (partition, Some(commit(n * 7919))))
            .collect(),
    );
    store.keep_pre_image(&plan, &image).await.unwrap();
    assert_eq!(store.pre_image(&plan).await.unwrap(), Some(image));

    let answers: Vec<_> = partitions(10_000)
        .map(|partition| (partition, AlterAnswer::Accepted))
        .collect();
    for (request, answers) in answers.chunks(4_000).enumerate() {
        let recorded = store
            .record_answers(&plan, request, "attempt-1", answers)
            .await;
        recorded.unwrap();
    }
    let all: BTreeMap<_, _> = answers.into_iter().collect();
    assert_eq!(store.answers(&plan).await.unwrap(), all);

    let result: BTreeMap<_, _> = partitions(10_000)
        .zip(0_i64..)
        .map(|(partition, n)| {
            let now = (n % 2 == 0).then_some(n * 7919);
            (partition, PartitionOutcome::AppliedThenMoved { now })
        })
        .collect();
    let outcome = Outcome::AppliedThenMoved;
    store.set_outcome(&plan, &outcome, &result).await.unwrap();
    assert_eq!(store.result(&plan).await.unwrap(), Some(result));
    assert_eq!(stored(&store, 1).await.outcome, Some(outcome));
    for item in table.items("RECOVERY#01J00001").await {
        if let Some(body) = item.get("body") {
            let size = body.as_b().unwrap().as_ref().len();
            println!("{}: {size} bytes", super::support::sk(&item));
        }
    }
}

async fn an_accepted_answer_stands_whatever_else_was_heard(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let plan = plan_id(1);
    let rejected = || AlterAnswer::Rejected("UNKNOWN_MEMBER_ID".to_owned());
    let unknown = || AlterAnswer::Unknown("timed out".to_owned());
    let at_partition = |n| TopicPartition::new("shipments", n);
    let record = async |request, attempt: &str, answers: [AlterAnswer; 3]| {
        let answers: Vec<_> = (0..).map(at_partition).zip(answers).collect();
        let recorded = store
            .record_answers(&plan, request, attempt, &answers)
            .await;
        recorded.unwrap();
    };
    assert_eq!(store.answers(&plan).await.unwrap(), BTreeMap::new());
    record(0, "a", [AlterAnswer::Accepted, rejected(), unknown()]).await;
    record(0, "b", [unknown(), unknown(), rejected()]).await;
    record(1, "a", [rejected(), rejected(), AlterAnswer::Accepted]).await;
    let expected = [AlterAnswer::Accepted, unknown(), AlterAnswer::Accepted];
    let expected = (0..).map(at_partition).zip(expected).collect();
    assert_eq!(store.answers(&plan).await.unwrap(), expected);
    // Another plan's are another's.
    let other = PlanId("01J0000".to_owned());
    assert_eq!(store.answers(&other).await.unwrap(), BTreeMap::new());
}

on_both_tables! {
    an_opened_recovery_comes_back_and_holds_its_group,
    a_recovery_in_the_midst_of_things_comes_back_as_it_was,
    of_twenty_executions_one_gets_the_group,
    of_twenty_executions_with_one_plan_one_gets_it,
    a_retried_step_gets_what_it_has_already_twenty_times_at_once,
    a_claim_that_is_over_is_taken_by_one_of_twenty,
    a_claim_is_renewed_by_its_owner_alone,
    notes_are_kept_and_need_an_open_recovery,
    as_many_refusals_as_there_are_partitions_are_kept,
    nothing_is_sent_after_the_fence,
    a_misspelt_switch_does_not_read_as_one_that_nobody_set,
    twenty_raise_the_fence_twenty_times,
    the_end_of_one_apply_is_not_the_end_of_a_later_one,
    of_twenty_pre_images_all_are_told_the_one_that_is_kept,
    a_pre_image_in_chunks_is_never_a_mix_of_two,
    ten_thousand_partitions_have_a_pre_image_answers_and_a_result,
    an_accepted_answer_stands_whatever_else_was_heard,
}
