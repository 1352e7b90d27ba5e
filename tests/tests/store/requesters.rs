use offset_guard::domain::identity::Identity;

use crate::support::{Table, at};

#[tokio::test]
async fn who_asked_first_for_exactly_this_is_who_asked() {
    let table = Table::new().await;
    let store = table.store();
    let person = |subject| Identity::new("https://id.example", subject, "Mara");
    let (mara, dana) = (person("1"), person("2"));
    let known = async |request| store.requester("key", request).await.unwrap();
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
