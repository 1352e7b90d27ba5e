use offset_guard::domain::identity::Identity;

use crate::support::{Kind, Table, at, on_both_tables};

fn person(subject: &str) -> Identity {
    Identity::new("https://id.example", subject, "Mara")
}

async fn who_asked_first_for_exactly_this_is_who_asked(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let (mara, dana) = (person("1"), person("2"));
    let known = async |request| store.requester("key", request, at(1)).await.unwrap();
    assert_eq!(known("hash").await, None);
    let note = async |request, by| {
        store
            .note_requester("key", request, by, at(0))
            .await
            .unwrap()
    };
    assert!(note("hash", &mara).await);
    assert_eq!(known("hash").await, Some(mara.clone()));
    // The same once more, by somebody else, and for something else.
    assert!(note("hash", &mara).await);
    assert!(!note("hash", &dana).await);
    assert!(!note("another", &mara).await);
    assert_eq!(known("hash").await, Some(mara));
    assert_eq!(known("another").await, None);
}

async fn a_note_makes_a_plan_somebodys_for_an_hour_and_is_compared_for_a_day(on: Kind) {
    const HOUR: i64 = 3_600;
    let table = Table::new(on).await;
    let store = table.store();
    let (mara, dana) = (person("1"), person("2"));
    let note = async |by, seconds| {
        store
            .note_requester("key", "hash", by, at(seconds))
            .await
            .unwrap()
    };
    let known = async |seconds| {
        let known = store.requester("key", "hash", at(seconds)).await.unwrap();
        let noted = store.noted_requester("key", at(seconds)).await.unwrap();
        (known.is_some(), noted.is_some())
    };
    assert!(note(&mara, 0).await);
    assert_eq!(known(HOUR - 1).await, (true, true));
    // The name may be free again, and whoever starts an execution with it is not Mara.
    assert_eq!(known(HOUR).await, (false, true));
    assert_eq!(known(24 * HOUR - 1).await, (false, true));
    // DynamoDB deletes what is over some time later.
    assert_eq!(known(24 * HOUR).await, (false, false));

    // It stands against others as long as it is compared, and is made young by who wrote it.
    assert!(!note(&dana, 2 * HOUR).await);
    assert!(note(&mara, 3 * HOUR).await);
    assert_eq!(known(3 * HOUR + 1).await, (true, true));
    assert!(!note(&dana, 24 * HOUR).await);
    assert!(note(&dana, 27 * HOUR).await);
    let now = store.requester("key", "hash", at(27 * HOUR + 1)).await;
    assert_eq!(now.unwrap(), Some(dana));
}

async fn a_note_of_an_earlier_release_proves_nothing(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    assert!(
        store
            .note_requester("key", "hash", &person("1"), at(0))
            .await
            .unwrap()
    );
    let mut old = table.items("REQUESTER#key").await.remove(0);
    old.remove("believed_until");
    table.put(old).await;
    let known = store.requester("key", "hash", at(1)).await.unwrap();
    assert_eq!(known, None);
}

on_both_tables! {
    who_asked_first_for_exactly_this_is_who_asked,
    a_note_makes_a_plan_somebodys_for_an_hour_and_is_compared_for_a_day,
    a_note_of_an_earlier_release_proves_nothing,
}
