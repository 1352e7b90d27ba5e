use jiff::{SignedDuration, Timestamp};
use offset_guard::app::incident;
use offset_guard::domain::incident::{
    CLAIM_HOLDS, IncidentState, LONGEST_RUN, QUEUE_HOLDS, Subject,
};
use offset_guard::domain::offset::GroupId;
use offset_guard::error::Error;
use offset_guard::store::{Claimed, IncidentClaim, Store};
use offset_guard_tests::context::context_without_cluster;

use super::support::{Kind, Table, at, on_both_tables, race};

const COOLDOWN: u32 = 300;

fn group(name: &str) -> Subject {
    Subject::Group {
        cluster: "main".to_owned(),
        group: GroupId(name.to_owned()),
    }
}

async fn claim(
    store: &Store,
    subject: &Subject,
    run: &str,
    since: Option<Timestamp>,
    now: Timestamp,
) -> Claimed {
    let claim = IncidentClaim {
        subject,
        run,
        since,
        asked: None,
        cooldown_seconds: COOLDOWN,
    };
    store.claim_incident(&claim, now).await.unwrap()
}

/// Claims, and answers with the key.
async fn claimed(store: &Store, subject: &Subject, run: &str, now: Timestamp) -> String {
    match claim(store, subject, run, Some(at(0)), now).await {
        Claimed::Yes(key) => key,
        other => panic!("{run}: {other:?}"),
    }
}

async fn a_run_goes_from_its_claim_to_the_end_of_its_cool_down(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let subject = group("g");
    let again = async |now| claim(&store, &subject, "again", Some(at(0)), now).await;
    let key = claimed(&store, &subject, "one", at(0)).await;
    assert_eq!(again(at(1)).await, Claimed::UnderWay);

    assert!(store.incident_queued(&key, at(2)).await.unwrap());
    assert_eq!(
        again(at(2) + QUEUE_HOLDS - SignedDuration::from_secs(1)).await,
        Claimed::Covered
    );

    assert!(store.incident_started(&key, at(10)).await.unwrap());
    let last = at(10) + LONGEST_RUN - SignedDuration::from_secs(1);
    assert_eq!(again(last).await, Claimed::Covered);

    assert!(store.incident_finished(&key, true, at(20)).await.unwrap());
    assert_eq!(again(at(319)).await, Claimed::Covered);
    let seen = store.incident(&subject).await.unwrap().unwrap();
    assert_eq!(
        (seen.state, seen.until, seen.started_at, seen.alerts_to),
        (IncidentState::Finished, at(320), Some(at(10)), Some(at(0)))
    );
    // A second delivery of the same event finds it done.
    assert!(!store.incident_started(&key, at(30)).await.unwrap());

    let next = claimed(&store, &subject, "two", at(320)).await;
    assert_ne!(next, key);
    let seen = store.incident(&subject).await.unwrap().unwrap();
    assert_eq!(seen.started_at, None, "of the new run");
}

async fn a_key_stands_for_one_request_for_as_long_as_its_run_is_remembered(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let subject = Subject::Request {
        sender: "oncall".to_owned(),
        key: "release-4.2".to_owned(),
    };
    let ask = async |asked, now| {
        let claim = IncidentClaim {
            subject: &subject,
            run: "run",
            since: None,
            asked,
            cooldown_seconds: COOLDOWN,
        };
        store.claim_incident(&claim, now).await.unwrap()
    };
    let Claimed::Yes(key) = ask(Some("partition 1"), at(0)).await else {
        panic!("it is claimed");
    };
    let both = async |now| {
        (
            ask(Some("partition 1"), now).await,
            ask(Some("partition 2"), now).await,
        )
    };
    assert_eq!(both(at(1)).await, (Claimed::UnderWay, Claimed::Otherwise));
    assert!(store.incident_queued(&key, at(2)).await.unwrap());
    assert_eq!(both(at(3)).await, (Claimed::Covered, Claimed::Otherwise));
    assert!(store.incident_started(&key, at(4)).await.unwrap());
    assert!(store.incident_finished(&key, true, at(5)).await.unwrap());
    assert_eq!(both(at(304)).await, (Claimed::Covered, Claimed::Otherwise));
    // Forgotten, it is a new one's, which is told apart from the old one too.
    let Claimed::Yes(key) = ask(Some("partition 2"), at(305)).await else {
        panic!("it is claimed");
    };
    assert!(store.incident_queued(&key, at(306)).await.unwrap());
    assert_eq!(both(at(307)).await, (Claimed::Otherwise, Claimed::Covered));
    // What was taken before this was kept is taken for the same.
    for mut item in table.items("INCIDENT#REQUEST#oncall#release-4.2").await {
        assert!(item.remove("asked").is_some());
        table.put(item).await;
    }
    assert_eq!(both(at(308)).await, (Claimed::Covered, Claimed::Covered));
}

async fn a_claim_a_wait_and_a_run_that_are_never_heard_of_again_end_by_themselves(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let subject = group("g");
    claimed(&store, &subject, "one", at(0)).await;
    let queued_at = at(0) + CLAIM_HOLDS;
    let key = claimed(&store, &subject, "two", queued_at).await;
    assert!(store.incident_queued(&key, queued_at).await.unwrap());
    let started_at = queued_at + QUEUE_HOLDS;
    let key = claimed(&store, &subject, "three", started_at).await;
    assert!(store.incident_started(&key, started_at).await.unwrap());
    claimed(&store, &subject, "four", started_at + LONGEST_RUN).await;
}

async fn a_run_that_failed_holds_nobody_back_and_may_be_tried_again_by_who_runs_it(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let subject = group("g");
    let key = claimed(&store, &subject, "one", at(0)).await;
    assert!(store.incident_started(&key, at(1)).await.unwrap());
    assert!(store.incident_finished(&key, false, at(2)).await.unwrap());
    assert!(store.incident_started(&key, at(3)).await.unwrap());
    assert!(store.incident_finished(&key, false, at(4)).await.unwrap());

    let next = claimed(&store, &subject, "two", at(4)).await;
    // The first run is tried once more, and has lost its place.
    assert!(!store.incident_started(&key, at(5)).await.unwrap());
    assert!(!store.incident_queued(&key, at(5)).await.unwrap());
    assert!(!store.incident_finished(&key, true, at(5)).await.unwrap());
    assert!(store.incident_started(&next, at(6)).await.unwrap());
}

async fn an_alert_that_began_after_the_run_looked_starts_another_within_the_cool_down(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let subject = group("g");
    let key = claimed(&store, &subject, "one", at(5)).await;
    assert!(store.incident_started(&key, at(10)).await.unwrap());
    assert!(store.incident_finished(&key, true, at(20)).await.unwrap());
    let new = async |since| claim(&store, &subject, "two", Some(since), at(30)).await;
    assert_eq!(new(at(10)).await, Claimed::Covered);
    assert!(matches!(new(at(11)).await, Claimed::Yes(_)));
}

async fn a_queued_word_that_comes_late_takes_nothing_back(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let key = claimed(&store, &group("g"), "one", at(0)).await;
    assert!(store.incident_started(&key, at(1)).await.unwrap());
    assert!(!store.incident_queued(&key, at(1)).await.unwrap());
    let seen = store.incident(&group("g")).await.unwrap().unwrap();
    assert_eq!(seen.state, IncidentState::Started);
}

async fn of_twenty_at_once_one_claims(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let subject = group("g");
    // As the first of all, and in the place of one that failed.
    for round in 0..2 {
        let outcomes = race(|n| {
            let (store, subject) = (store.clone(), subject.clone());
            async move {
                claim(
                    &store,
                    &subject,
                    &format!("{round}-{n}"),
                    Some(at(0)),
                    at(9),
                )
                .await
            }
        })
        .await;
        let mut won = outcomes.iter().filter_map(|outcome| match outcome {
            Claimed::Yes(key) => Some(key),
            other => {
                assert_eq!(other, &Claimed::UnderWay);
                None
            }
        });
        let key = won.next().unwrap();
        assert_eq!(won.next(), None);
        assert!(store.incident_finished(key, false, at(9)).await.unwrap());
    }
}

async fn groups_and_requests_are_each_their_own_incident(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let request = |sender: &str, key: &str| Subject::Request {
        sender: sender.to_owned(),
        key: key.to_owned(),
    };
    let other_cluster = Subject::Group {
        cluster: "main#g".to_owned(),
        group: GroupId("h".to_owned()),
    };
    for subject in [
        group("g"),
        group("g#h"),
        group("h"),
        other_cluster,
        request("a", "k"),
        request("b", "k"),
        request("a", "l"),
    ] {
        let key = claimed(&store, &subject, "one", at(0)).await;
        assert!(store.incident_started(&key, at(1)).await.unwrap());
        let seen = store.incident(&subject).await.unwrap().unwrap();
        assert_eq!(seen.state, IncidentState::Started, "{subject:?}");
    }
}

async fn a_key_that_names_no_incident_changes_nothing_and_holds_nobody_back(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    for key in [
        "",
        "g",
        "GROUP#main#g",
        "PLAN#x#META",
        "RUNS#s#1",
        "#",
        "GROUP#main#none#run",
    ] {
        assert!(store.incident_started(key, at(0)).await.unwrap(), "{key}");
        assert!(!store.incident_queued(key, at(0)).await.unwrap());
        assert!(!store.incident_finished(key, true, at(0)).await.unwrap());
    }
    assert_eq!(store.incident(&group("none")).await.unwrap(), None);
}

async fn guard_notes_its_start_and_its_end_and_leaves_alone_what_is_not_its_own(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let subject = group("g");
    let ctx = context_without_cluster(&store);
    let state = async || store.incident(&subject).await.unwrap().unwrap().state;
    let key = claimed(&store, &subject, "one", Timestamp::now()).await;
    let failing = async {
        assert_eq!(state().await, IncidentState::Started);
        Err(Error::Broken("a test".to_owned()))
    };
    let saw_all = |seen: &u8| *seen == 5;
    let noted = incident::run_for_incident(&ctx, Some(&key), failing, saw_all);
    noted.await.unwrap_err();
    assert_eq!(state().await, IncidentState::Failed);
    // Tried again, it saw nothing; and then all.
    for (seen, came_to) in [(0, IncidentState::Failed), (5, IncidentState::Finished)] {
        let done = incident::run_for_incident(&ctx, Some(&key), async { Ok(seen) }, saw_all).await;
        assert_eq!(done.unwrap(), Some(seen));
        assert_eq!(state().await, came_to);
    }
    // The same event once more, and a run that is for no incident.
    let again = incident::run_for_incident(&ctx, Some(&key), async { Ok(5) }, saw_all).await;
    assert_eq!(again.unwrap(), None);
    let scheduled = incident::run_for_incident(&ctx, None, async { Ok(5) }, saw_all).await;
    assert_eq!(scheduled.unwrap(), Some(5));
}

async fn a_sender_has_so_many_runs_a_minute(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let count = async |sender: &str, now| store.count_run(sender, 3, now).await.unwrap();
    for now in [60, 90, 119] {
        assert!(count("a", at(now)).await);
    }
    assert!(!count("a", at(119)).await);
    assert!(count("b", at(119)).await);
    assert!(count("a", at(120)).await);
    let outcomes = race(|_| {
        let store = store.clone();
        async move { store.count_run("c", 3, at(0)).await.unwrap() }
    })
    .await;
    assert_eq!(outcomes.into_iter().filter(|counted| *counted).count(), 3);
}

on_both_tables! {
    a_run_goes_from_its_claim_to_the_end_of_its_cool_down,
    a_key_stands_for_one_request_for_as_long_as_its_run_is_remembered,
    a_claim_a_wait_and_a_run_that_are_never_heard_of_again_end_by_themselves,
    a_run_that_failed_holds_nobody_back_and_may_be_tried_again_by_who_runs_it,
    an_alert_that_began_after_the_run_looked_starts_another_within_the_cool_down,
    a_queued_word_that_comes_late_takes_nothing_back,
    of_twenty_at_once_one_claims,
    groups_and_requests_are_each_their_own_incident,
    a_key_that_names_no_incident_changes_nothing_and_holds_nobody_back,
    guard_notes_its_start_and_its_end_and_leaves_alone_what_is_not_its_own,
    a_sender_has_so_many_runs_a_minute,
}
